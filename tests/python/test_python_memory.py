"""Frames and archives that promise more than they hold: the right error, and no memory before anything is verified.

Each case runs in a process of its own, which is forked from one that has imported what the case imports.
"""
import json
import os
import subprocess
import sys

import pytest

import lmcodec
import promises
from lmcodec import _buffer, _codec

pytestmark = [
    pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="Linux tells the peak of memory"),
    pytest.mark.skipif(not promises.has_hash(), reason="there is no libxxhash to make checksums with"),
]

PROMISE = 3 << 30
MOST = (8 << 20) + (os.cpu_count() << 22)  # bytes that a case may take: a thread has a block of 4 MiB, and scratch

# Waits for lines of JSON: a case, the bytes that are promised, 0 or 1, and the path of an archive.
PROGRAM = """
import ctypes, json, os, sys
import lmcodec, promises
from lmcodec import _abi, _buffer
if sys.argv[1]:
    __import__(sys.argv[1])

def peak():
    # less the pages of files: those of torch's libraries are 24 MiB
    status = open("/proc/self/status").read()
    nbytes = [int(status.partition(name)[2].split()[0]) << 10 for name in ("VmHWM:", "RssFile:")]
    return nbytes[0] - nbytes[1]

def run(case, nbytes, is_long, path):
    def frame(): return promises.frame(nbytes, is_long)
    names = {**globals(), "nbytes": nbytes, "path": path, "frame": frame, "prepare": lambda: path}
    exec(case, names)
    given = names["prepare"]() or path
    before = peak()
    try:
        names["act"](given)
        said = "nothing was raised"
    except BaseException as error:
        said = "%s: %s" % (type(error).__name__, error)
    print(peak() - before, said)

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        run(*json.loads(line))
        sys.exit()
    print("ended with", os.waitpid(child, 0)[1], flush=True)
"""

CASES = {
    "decode": "def prepare(): return frame()\ndef act(given): lmcodec.decode(given)",
    "decode with threads": "def prepare(): return frame()\ndef act(given): lmcodec.decode(given, threads=2)",
    "File.read": "def act(given): lmcodec.File(given).read('w')",
    "NumPy": "import numpy, lmcodec.numpy\ndef act(given): lmcodec.safe_open(given, 'np').get_tensor('w')",
    "NumPy, slice": "import numpy, lmcodec.numpy\ndef act(given): lmcodec.safe_open(given, 'np').get_slice('w')[5:]",
    "NumPy, all": "import numpy, lmcodec.numpy\ndef act(given): lmcodec.numpy.load_file(given)",
    "NumPy, into": "import numpy, lmcodec.numpy\ndef act(given):\n"
                   "    with lmcodec.safe_open(given, 'np') as file:\n"
                   "        file.get_tensor('w', out=numpy.empty(file.get_slice('w').get_shape(), 'u1'))",
    "torch": "import torch, lmcodec.torch\ndef act(given): lmcodec.safe_open(given, 'pt').get_tensor('w')",
    "torch, slice": "import torch, lmcodec.torch\n"
                    "def act(given): lmcodec.safe_open(given, 'pt').get_slice('w')[5:700000]",
    "torch, all": "import torch, lmcodec.torch\ndef act(given): lmcodec.torch.load_file(given)",
    "C, frame": """
def prepare(): return frame()
def act(given):
    # as a C program does: no memory is taken for what the frame has too few bytes for
    head, context, written = _abi.Info(), ctypes.c_void_p(), ctypes.c_size_t()
    assert _abi.frame_read_info(given, len(given), ctypes.byref(head), None) == _abi.OK
    if len(given) < head.frame_nbytes_min:
        raise lmcodec.DataError("it is cut")
    assert _abi.ctx_create(None, ctypes.byref(context)) == _abi.OK
    room = _buffer.new_bytearray(nbytes)
    with _buffer.Buffer(room, True) as out:
        status = _abi.decode_delta(context, given, len(given), None, 0, out.address, nbytes, ctypes.byref(written))
    raise lmcodec._errors.error_of(status)
""",
    "HDF5 chunk": """
import numpy
from lmcodec._chunks import stored_chunks
def prepare():
    stored_chunks.content_nbytes(lmcodec.encode(bytes(100)))
    return frame()
def act(given): stored_chunks.decode(given, numpy.empty(nbytes, "u1"))
""",
    "HDF5 filter": """
import h5py, lmcodec.h5
def prepare():
    name = path + ".h5"
    with h5py.File(name, "w") as opened:
        w = opened.create_dataset("w", (nbytes,), "u1", chunks=(nbytes,), compression=lmcodec.h5.LMC())
        w.id.write_direct_chunk((0,), bytes(frame()))
    return name
def act(given):
    try:
        h5py.File(given, "r")["w"][:10]
    except OSError as error:
        raise lmcodec.DataError(str(error))
""",
}


@pytest.fixture(scope="module")
def run():
    """run(CASE, PATH, NBYTES, IS_LONG): the peak of memory that a case adds, and what it raises."""
    programs = {}

    def start(package):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        return subprocess.Popen([sys.executable, "-c", PROGRAM, package], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env=environment)

    def run_case(case, path, nbytes, is_long):
        needed = ""
        for package, module in (("torch", "torch"), ("numpy", "numpy"), ("h5py", "h5py.h5z")):
            if "import %s" % package in CASES[case]:
                pytest.importorskip(module, reason="%s is not installed" % package)
                needed = package
        with open(path, "wb") as file:
            file.write(promises.archive(nbytes, is_long))
        program = programs.get(needed) or programs.setdefault(needed, start(needed))
        program.stdin.write(json.dumps([CASES[case], nbytes, int(is_long), path]) + "\n")
        program.stdin.flush()
        *lines, end = until_end(program.stdout)
        assert end == "ended with 0\n" and len(lines) == 1, "".join([*lines, end])
        taken, said = lines[0].rstrip("\n").split(" ", 1)
        return int(taken), said

    yield run_case
    for program in programs.values():
        rest, _ = program.communicate()
        assert program.returncode == 0 and rest == "", rest


def until_end(stream):
    """Lines to the one that tells how a case ended; fewer if the program itself has ended."""
    for line in stream:
        yield line
        if line.startswith("ended with "):
            return


@pytest.mark.parametrize("is_long", [False, True], ids=["63 bytes", "10 KB"])
@pytest.mark.parametrize("case", CASES)
def test_a_promise_takes_no_memory(run, directory, case, is_long):
    """The longer frame has all the blocks that its head promises, and right checks: only its blocks are nothing."""
    taken, said = run(case, os.path.join(directory, "a.lmc"), PROMISE, is_long)
    assert said.startswith("DataError: "), said
    assert taken < MOST, (taken, said)


@pytest.mark.parametrize("case", ["decode", "File.read", "NumPy", "torch"])
def test_a_promise_that_no_machine_keeps(run, directory, case):
    """It is the data that is wrong, not the machine."""
    taken, said = run(case, os.path.join(directory, "a.lmc"), 1 << 55, False)
    assert said.startswith("DataError: "), said
    assert taken < MOST


def test_each_bit_of_the_size_in_a_frame():
    frame = lmcodec.encode(bytes(range(256)) * 40000, "U8", level="fast")
    for bit in range(64):
        damaged = bytearray(frame)
        damaged[16 + bit // 8] ^= 1 << bit % 8
        with pytest.raises(lmcodec.DataError):
            lmcodec.decode(damaged)


def test_no_memory_for_a_bytearray(capfd):
    """CPython prints an error of its own if an object that it has begun is thrown away."""
    for _ in range(200):  # what an unfinished object holds is chance
        with pytest.raises(MemoryError):
            _buffer.new_bytearray(1 << 60)
    assert capfd.readouterr().err == ""


def test_memory_that_is_taken_for_a_frame(monkeypatch):
    """All of what will be filled, and no more than 64 times what is stored."""
    taken = []
    monkeypatch.setattr(_codec, "take_pages", lambda address, nbytes: taken.append(nbytes))
    for content, least, most in ((bytes(64 << 20), 0, 1 << 20), (os.urandom(16 << 20), 16 << 20, 16 << 20)):
        taken.clear()
        assert lmcodec.decode(lmcodec.encode(content)) == content
        assert least <= sum(taken) <= most
        lmcodec.decode(lmcodec.encode(content), bytearray(len(content)))
        assert len(taken) == 1


LOAD = """
import ctypes, sys
import numpy
import lmcodec.numpy

def rest(name):
    return int(open("/proc/self/status").read().partition(name + ":")[2].split()[0]) << 10

arrays = {"a": numpy.full((4096, 4096), 1, "f4"), "b": numpy.full(1000, 1, "f4")}
if int(sys.argv[2]):
    arrays["a"] = arrays["a"].astype("f8")
before = rest("VmHWM")
lmcodec.numpy.load_into(arrays, sys.argv[1], threads=2)
print(rest("VmHWM") - before)
"""


@pytest.mark.parametrize("is_converted", [0, 1])
def test_memory_beside_what_is_loaded_into(directory, is_converted):
    numpy = pytest.importorskip("numpy", reason="NumPy is not installed")
    path = os.path.join(directory, "a.lmc")
    shapes = {"a": (4096, 4096), "b": (1000,)}
    lmcodec.serialize_file({name: ("F32", shape, numpy.random.default_rng(1).standard_normal(shape, "f4"))
                  for name, shape in shapes.items()}, path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", LOAD, path, str(is_converted)], capture_output=True, text=True,
                          env=environment)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert int(done.stdout) < 32 << 20
