"""Ctrl-C ends long calls. A call would take minutes if it did not: the limits are far above what it takes."""
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy
import pytest

import lmcodec
import lmcodec.numpy
from lmcodec import _system, _waiting
from lmcodec._files import writer

# A background job of a shell ignores the interrupt, and so would what it starts.
SLOW = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy
import lmcodec, lmcodec.numpy
def slow(done, total):
    if done < total:
        print("begun", flush=True)
        time.sleep(0.2)
path, out = sys.argv[1:]
try:
    %s
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
CALLS = {
    "convert": "lmcodec.convert(path + '.safetensors', out, progress=slow)",
    "restore": "lmcodec.restore(path, out, progress=slow)",
    "verify": "lmcodec.verify(path, progress=slow)",
    "compare": "lmcodec.compare(path, path + '.safetensors', progress=slow)",
    "load_file": "lmcodec.numpy.load_file(path, progress=slow)",
    "save_file": "lmcodec.numpy.save_file(lmcodec.numpy.load_file(path), out, progress=slow)",
    "open_original": "lmcodec.open_original(path, progress=slow)",
    "run.add": "lmcodec.Run(out).add(path + '.safetensors', 1, progress=slow)",
    "run.restore": "lmcodec.Run(path + '.run').restore(1, out, progress=slow)",
    "run.verify": "lmcodec.Run(path + '.run').verify(progress=slow)",
    "run.load": "lmcodec.Run(path + '.run').load(1, framework='np', progress=slow)",
    "encode": "content = numpy.random.default_rng(1).random(1 << 27); print('begun', flush=True); "
              "[lmcodec.encode(content, level='max') for _ in range(60)]",
    "decode": "frame = lmcodec.encode(numpy.random.default_rng(1).random(1 << 26)); print('begun', flush=True); "
              "[lmcodec.decode(frame) for _ in range(600)]",
}


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A file of 256 MiB, its archive, and a run that has it."""
    path = str(tmp_path_factory.mktemp("large") / "a")
    block = numpy.random.default_rng(6).standard_normal((1024, 2048), dtype="f4")
    lmcodec.serialize_file({"t%d" % n: ("F32", block.shape, block + n) for n in range(32)}, path + ".safetensors")
    lmcodec.convert(path + ".safetensors", path, fsync=False, level="fast")
    lmcodec.Run(path + ".run").add(path + ".safetensors", 1, fsync=False, level="fast")
    return path


@pytest.mark.posix
@pytest.mark.parametrize("call", CALLS)
def test_an_interrupt_ends_a_call_soon(large, directory, call):
    out = os.path.join(directory, "out")
    child = subprocess.Popen([sys.executable, "-c", SLOW % CALLS[call], large, out], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "begun\n"
    time.sleep(0.1)
    begun = time.monotonic()
    child.send_signal(signal.SIGINT)
    rest = child.communicate(timeout=60)[0]
    assert rest.endswith("interrupted\n") and child.returncode == 0
    assert time.monotonic() - begun < 10
    assert os.listdir(directory) == []


# Nothing is written to `values` once the interrupt is seen.
DECODING = """
frame = lmcodec.encode(numpy.full(1 << 26, 3.0) + numpy.random.default_rng(1).random(1 << 26))
values = numpy.zeros(1 << 26)
print("begun", flush=True)
try:
    while True:
        lmcodec.decode(frame, values)
        values[:] = 0
except KeyboardInterrupt:
    seen = values.copy()
    time.sleep(0.5)
    print("same" if (seen == values).all() else "differs")
"""


@pytest.mark.posix
def test_no_thread_works_on_after_an_interrupt():
    script = SLOW[:SLOW.index("def slow")] + DECODING
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "begun\n"
    time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[0] == "same\n"


class Stopped(BaseException):
    """What the signal handler of a program raises."""


def interrupted(function, *errors):
    """The function, after whose first calls such a handler runs."""
    left = list(errors)

    def call(*args):
        function(*args)
        if left:
            raise left.pop(0)
    return call


@pytest.mark.parametrize("place", ["wait", "start"])
def test_threads_end_before_what_a_signal_handler_raises_is_seen(place, monkeypatch):
    ended = []

    def work(part):
        time.sleep(0 if part == 2 else 0.2)  # the last one is done in the main thread
        ended.append(part)

    if place == "wait":
        monkeypatch.setattr(_system, "wait", interrupted(lambda done: time.sleep(0.01), Stopped(), SystemExit()))
    else:
        monkeypatch.setattr(threading.Thread, "start", interrupted(threading.Thread.start, Stopped()))
    with pytest.raises(Stopped):
        _waiting.share(work, range(3))
    seen = len(ended)
    time.sleep(0.4)
    assert seen == len(ended) and (seen == 3 or place == "start")


def test_a_call_ends_before_what_signal_handlers_raise_is_seen(monkeypatch):
    flag, ended = _waiting.new_flag(), []

    def work():
        while not flag.value:
            time.sleep(0.01)
        time.sleep(0.1)
        ended.append(True)

    monkeypatch.setattr(_system, "wait", interrupted(lambda done: time.sleep(0.01), Stopped(), SystemExit()))
    with pytest.raises(Stopped):
        _waiting.run(work, flag)
    assert ended == [True]


def test_calls_do_without_a_thread(large, directory, monkeypatch):
    def no_thread(self):
        raise RuntimeError("can't start new thread")
    monkeypatch.setattr("threading.Thread.start", no_thread)
    out = os.path.join(directory, "out")
    assert lmcodec.restore(large, out).nbytes == os.path.getsize(large + ".safetensors")
    with pytest.raises(FileExistsError):
        lmcodec.restore(large, out)


@pytest.mark.posix
def test_other_signals_are_heard_while_a_call_is_at_work(large, directory):
    script = SLOW.replace("import numpy\n", "import numpy\n"
                          "signal.signal(signal.SIGUSR1, lambda *_: print('heard', flush=True))\n", 1)
    command = [sys.executable, "-c", script % CALLS["verify"], large, "-"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "begun\n"
    child.send_signal(signal.SIGUSR1)
    while child.stdout.readline() != "heard\n":
        pass
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[0].endswith("interrupted\n")


def load_and_stop(path, array, stop):
    lmcodec.numpy.load_file(path, progress=stop)


def save_and_stop(path, array, stop):
    lmcodec.numpy.save_file({"a": array}, path + "2", progress=stop)


def apply_and_stop(path, array, stop):
    lmcodec.apply(lmcodec.delta({"a": array}, {"a": array + 1}), {"a": array}, progress=stop)


def read_and_stop(path, array, stop):
    writer.write([writer.Entry("a", "F64", array.shape, 0, array, stop)], path + "2", None)


@pytest.mark.posix
@pytest.mark.parametrize("call", [load_and_stop, save_and_stop, apply_and_stop, read_and_stop])
def test_what_a_callback_raises_keeps_no_file_and_no_memory(directory, call):
    path = os.path.join(directory, "a.lmc")
    lmcodec.numpy.save_file({"a": numpy.arange(1e5)}, path)

    def stop(*_):
        raise Stopped

    def begin():
        array = numpy.arange(1e5)
        with pytest.raises(Stopped):
            call(path, array, stop)
        return weakref.ref(array)

    begin()
    gc.collect()
    count = len(os.listdir("/dev/fd"))
    left = begin()
    gc.collect()
    assert left() is None and len(os.listdir("/dev/fd")) == count
