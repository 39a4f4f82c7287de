"""Exceptions: who catches those of safetensors, LookupError or OSError catches those of the package, too."""
import errno
import gc
import os
import pickle
import subprocess
import sys
import threading
import weakref

import pytest

import lmcodec
from lmcodec import _waiting
from lmcodec._errors import unescaped
from lmcodec._files.memory import shown_as

CLASSES = [found for found in (getattr(lmcodec, name) for name in lmcodec.__all__)
           if isinstance(found, type) and issubclass(found, Exception) and issubclass(found, lmcodec.LMCError)]


def test_an_exception_of_safetensors():
    safetensors = pytest.importorskip("safetensors", reason="safetensors is not installed")
    with pytest.raises(safetensors.SafetensorError, match="F33"):
        lmcodec.encode(b"bytes", "F33")
    for kind in CLASSES:
        assert issubclass(kind, safetensors.SafetensorError)
        again = pickle.loads(pickle.dumps(kind("a text")))
        assert type(again) is kind and str(again) == "a text"


ORDERS = """
import sys
%s
def caught(call, *arguments):
    try:
        call(*arguments)
    except %s:
        return True
before = "safetensors" in sys.modules
assert caught(lmcodec.encode, b"bytes", "F33")
assert caught(lmcodec.File, sys.argv[1])
print(before)
"""


@pytest.mark.parametrize("first, caught, is_imported", [
    ("import lmcodec", "lmcodec.SafetensorError", False), ("import lmcodec; import safetensors",
                                                           "safetensors.SafetensorError", True),
    ("import safetensors; import lmcodec", "safetensors.SafetensorError", True),
    ("import lmcodec; sys.modules['safetensors'] = type(sys)('safetensors')", "lmcodec.LMCError", True)])
def test_orders_of_imports(directory, first, caught, is_imported):
    """The package does not import safetensors. A module of that name that has no exception changes nothing."""
    if "import safetensors" in first:
        pytest.importorskip("safetensors", reason="safetensors is not installed")
    path = os.path.join(directory, "text")
    with open(path, "w") as file:
        file.write("no model at all")
    folder = os.path.dirname(os.path.dirname(lmcodec.__file__))
    done = subprocess.run([sys.executable, "-c", ORDERS % (first, caught), path], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": folder})
    assert done.stdout == "%s\n" % is_imported, done.stderr


def test_a_step_that_is_missing(directory):
    path, plain = os.path.join(directory, "run"), os.path.join(directory, "step1.safetensors")
    lmcodec.serialize_file({"x": ("U8", (3,), b"abc")}, plain)
    run = lmcodec.Run(path)
    run.add(plain)
    calls = [lambda: run.restore(2, plain + ".back"), lambda: run.drop(2), lambda: run.verify([2]), lambda: run.path(2),
             lambda: run.compare(2, plain), lambda: run.open(2), lambda: run.load(2, framework="np"), lambda: run[2],
             lambda: run.get_tensor(2, "x", "np")]
    for call in calls:
        with pytest.raises(LookupError, match="run: there is no step 2") as caught:
            call()
        assert isinstance(caught.value, lmcodec.StepNotFound) and isinstance(caught.value, lmcodec.ArgumentError)


def test_a_run_that_does_not_exist(directory):
    path = os.path.join(directory, "run")
    run = lmcodec.Run(path)
    assert run.steps() == list(run) == [] and len(run) == 0 and run.latest is None and 1 not in run and run
    for call in (lambda: run[1], lambda: run.checkout(1).__enter__()):
        with pytest.raises(lmcodec.StepNotFound, match="run: there is no step 1"):
            call()
    for call in (run.info, run.verify, run.repair, lambda: run.keep(1), lambda: run.drop(1), lambda: run.path(1),
                 lambda: run.load(1), lambda: run.open(1), lambda: run.get_tensor(1, "x"),
                 lambda: run.restore(1, path + ".back"), lambda: run.compare(1, directory)):
        with pytest.raises(FileNotFoundError) as caught:
            call()
        assert caught.value.filename == path
    assert os.listdir(directory) == []


@pytest.mark.parametrize("content", [b"hello, this is a text and no model\n", b"\xff" * 1000], ids=["text", "ones"])
def test_a_file_of_another_kind_is_bad_data(directory, content):
    path = os.path.join(directory, "text")
    with open(path, "wb") as file:
        file.write(content)
    for call in (lmcodec.File, lmcodec.verify, lmcodec.convert):
        with pytest.raises(lmcodec.DataError, match="not a safetensors file"):
            call(path)
    with pytest.raises(lmcodec.DataError, match="raw=True"):
        lmcodec.convert(path)
    lmcodec.convert(path, raw=True)
    assert lmcodec.open_original(path + ".lmc").read() == content


def test_errors_of_the_system_keep_their_text(directory):
    path = os.path.join(directory, "absent")
    for call in (lmcodec.File, lmcodec.verify, lmcodec.convert, lambda path: lmcodec.safe_open(path, "np")):
        with pytest.raises(FileNotFoundError) as caught:
            call(path)
        error = caught.value
        assert (error.errno, error.filename) == (errno.ENOENT, path) and os.strerror(errno.ENOENT) in error.strerror
        with pytest.raises(FileNotFoundError) as caught:
            call("")
        assert caught.value.filename == ""
    with pytest.raises(IsADirectoryError) as caught:
        lmcodec.File(directory)
    assert (caught.value.errno, caught.value.filename) == (errno.EISDIR, directory)


@pytest.mark.parametrize("name", ["File", "verify", "convert", "restore", "open_original"])
def test_a_url_is_no_path(name):
    with pytest.raises(FileNotFoundError, match="lmcodec.remote"):
        getattr(lmcodec, name)("s3://bucket/model.lmc")


def test_a_url_is_no_run_without_steps():
    run = lmcodec.Run("s3://bucket/run")
    for call in (run.steps, run.info, lambda: list(run), lambda: run[1], lambda: run.load(1)):
        with pytest.raises(FileNotFoundError, match="lmcodec.remote"):
            call()


@pytest.mark.parametrize("shown, name", [
    (r"a\"b", b'a"b'), (r"a\\b", b"a\\b"), (r"a\nb", b"a\nb"), (r"\xff\x80", b"\xff\x80"), (r"\u0000\u001b", b"\0\x1b"),
    (r"\u2028\ufeff", "\u2028\ufeff".encode()), (r"\\n\\xff\\u2028\\\"", rb'\n\xff\u2028\"'), ("\xe9\U0001f600", None),
    (r"\u00e", None), (r"start\n...", b"start\n...")],
    ids=["quote", "backslash", "newline", "bytes", "control", "unicode", "escaped escapes", "plain", "cut", "dots"])
def test_escapes_of_the_library(shown, name):
    assert unescaped(shown.encode()) == (shown.encode() if name is None else name)


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "a\u2028b\x1b", "\udcff\\xff\\n", "\xe9.lmc"],
                         ids=["quote", "backslash", "newline", "unicode", "no utf-8", "plain"])
@pytest.mark.posix("such names of files")
def test_the_names_in_exceptions(directory, name):
    """They are those of the caller, and can be used again. Texts show them escaped."""
    path, tensor = os.path.join(directory, name), name.replace("\udcff", "")
    with pytest.raises(FileNotFoundError) as caught:
        lmcodec.File(path)
    assert caught.value.filename == path
    lmcodec.serialize_file({tensor: ("F32", (50000,), os.urandom(200000))}, path, plain=False)
    with open(path, "r+b") as file:
        file.seek(100000)
        file.write(b"damage")
    with pytest.raises(lmcodec.DataError) as caught:
        lmcodec.verify(path)
    for error in (caught.value, *caught.value.damages):
        assert (error.file, error.tensor) == (path, tensor) and "\n" not in str(error) and "\x1b" not in str(error)
        assert tensor is None or "tensor %r" % tensor in str(error)


@pytest.mark.posix("long names of files")
def test_long_names_in_exceptions_are_cut(directory):
    path = os.path.join(directory, *["\n" * 200] * 3)
    with pytest.raises(FileNotFoundError) as caught:
        lmcodec.File(path)
    assert caught.value.filename.endswith("\n...") and path.startswith(caught.value.filename[:-3])


@pytest.mark.posix("such names of files")
def test_the_name_of_a_temporary_file_is_replaced(directory):
    folder = os.path.join(directory, 'a"b')
    os.mkdir(folder)
    path = os.path.join(folder, "file")
    with open(path, "wb") as file:
        file.write(b"no model at all")
    with pytest.raises(lmcodec.DataError) as caught, shown_as(path, "(bytes)"):
        lmcodec.File(path)
    assert caught.value.file == "(bytes)" and str(caught.value).startswith("(bytes): ")


def test_options_have_the_names_of_python(directory):
    """A base that differs from the wanted one where the search does not look."""
    path, base = os.path.join(directory, "new.lmc"), os.path.join(directory, "base.safetensors")
    content = bytearray(os.urandom(16 << 20))
    lmcodec.serialize_file({"a": ("U8", (len(content),), content)}, base)
    content[::1000] = bytes(len(content[::1000]))
    lmcodec.serialize_file({"a": ("U8", (len(content),), content)}, path, base=base)
    with open(base, "r+b") as file:
        file.seek(9000001)
        file.write(bytes([content[9000001] ^ 1]))
    with pytest.raises(lmcodec.BaseError, match="samples: name another base"):
        lmcodec.verify(path)


def stopped(done, total):
    raise RuntimeError("no more")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="Linux lists the open files of a process")
@pytest.mark.parametrize("call", [
    lambda path: lmcodec.safe_open(path, "np").get_tensor("missing"),
    lambda path: lmcodec.File(path).read("missing"),
    lambda path: lmcodec.safe_open(path, "np").get_tensors(progress=stopped),
    lambda path: lmcodec.safe_open(path + ".damaged", "np").get_tensor("a"),
    lambda path: lmcodec.safe_open(path + ".damaged", "np").get_tensors(),
    lambda path: lmcodec.safe_open(path + ".damaged", "np").get_slice("a")[:700000],
], ids=["name", "read", "progress", "tensor", "tensors", "slice"])
def test_failed_calls_leave_no_file_open(directory, call):
    """Without Python's collector: no frame of an exception holds the exception."""
    pytest.importorskip("numpy", reason="numpy is not installed")
    path = os.path.join(directory, "a.lmc")
    lmcodec.serialize_file({"a": ("U8", (24 << 20,), bytes(range(256)) * (3 << 15))}, path)
    with open(path, "rb") as file:
        content = bytearray(file.read())
    content[-100] ^= 1
    with open(path + ".damaged", "wb") as file:
        file.write(content)
    before = len(os.listdir("/proc/self/fd"))
    gc.disable()
    try:
        for _ in range(5):
            with pytest.raises((lmcodec.LMCError, RuntimeError)) as caught:
                call(path)
            del caught
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        gc.enable()


@pytest.mark.parametrize("call", [lambda function: _waiting.run(function, _waiting.new_flag()),
                                  lambda function: _waiting.share(lambda part: function(), range(3))],
                         ids=["run", "share"])
def test_failed_calls_in_other_threads_keep_nothing(call):
    left = []

    def fail():
        thing = threading.Event()
        left.append(weakref.ref(thing))
        raise ValueError("an error")

    gc.disable()
    try:
        with pytest.raises(ValueError, match="an error") as caught:
            call(fail)
        del caught
        assert [reference() for reference in left] == [None] * len(left) and left
    finally:
        gc.enable()
