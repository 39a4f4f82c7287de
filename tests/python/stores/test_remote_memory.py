"""Servers that promise and send much: memory stays within what docs/remote.md says, whatever they do."""
import gc
import os
import subprocess
import sys
import weakref

import numpy
import pytest

pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

import fsspec  # noqa: E402
import lmcodec  # noqa: E402
import lmcodec.numpy  # noqa: E402
import lmcodec.remote  # noqa: E402

import forged_files  # noqa: E402
from range_server import RangeServer  # noqa: E402

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="Linux tells the peak of memory")

# Prints the exception, and by how many MiB the peak of memory has grown.
CHILD = """
import resource, sys
import numpy, aiohttp
import lmcodec.numpy, lmcodec.remote

def peak_mib():
    return int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) >> 10

resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
url, call = sys.argv[1:]
before = peak_mib()
result = None
try:
    with lmcodec.remote.open(url, "np", retries=0) as file:
        result = eval(call)
except Exception as error:
    print(type(error).__name__, str(error).replace("\\n", " "))
else:
    print("read", result)
print(peak_mib() - before)
"""


@pytest.fixture
def server():
    with RangeServer() as running:
        yield running


def outcome(server, content, call, monkeypatch):
    """What the child says, and MiB."""
    server.files = {"x": content}
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    done = subprocess.run([sys.executable, "-c", CHILD, server.url + "x", call], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text, mib = done.stdout.splitlines()
    print("%s MiB, %d sent: %s" % (mib, server.nbytes, text[:100]))
    return text, int(mib)


ROWS = 1 << 31  # 8 TiB of F32
ROW = 'file.get_slice("w")[0:3].shape'


@pytest.mark.parametrize("head,expected,mib_max,sent_max", [
    (b"", "magic number", 16, 4 << 20),
    (forged_files.frame_head(ROWS // 2, "coded", 10, 100), "another size", 16, 4 << 20),
    (forged_files.frame_head(ROWS, "coded", 10, 100), "LimitError", 16, 4 << 20),  # an index of 24 GiB
    (forged_files.frame_head(ROWS, "coded", 20, 100), "ChecksumError", 80, 32 << 20)],  # of 24 MiB
    ids=["zeros", "size", "index", "checksum"])
def test_rows_of_a_forged_tensor(head, expected, mib_max, sent_max, server, monkeypatch):
    """Three rows take 12 KiB. The frame has a TiB."""
    text, mib = outcome(server, forged_files.archive(ROWS, 1 << 40, head), ROW, monkeypatch)
    assert expected in text
    assert mib < mib_max and server.nbytes < sent_max
    assert max(nbytes for _, _, nbytes in server.requests) <= 16 << 20


@pytest.mark.parametrize("rows", [10 << 10, 40 << 10])
def test_rows_of_a_frame_without_an_index(rows, server, monkeypatch):
    """All of it is fetched, for it has one checksum. Archives of LMC have none with more than one block."""
    noise = numpy.random.default_rng(9).integers(0, 1 << 32, (rows, 1024), dtype="u4")
    frame = bytes(lmcodec.encode(noise, "F32"))
    assert lmcodec.info(frame).mode == "stored"
    content = forged_files.archive(rows, len(frame), frame, frame[-16:-8])
    text, mib = outcome(server, content, 'file.get_slice("w")[77:79].tobytes().hex()', monkeypatch)
    if rows == 10 << 10:
        assert text == "read " + noise[77:79].tobytes().hex()
        assert mib < 100
    else:
        assert "LimitError" in text
        assert mib < 16 and server.nbytes < 4 << 20


def test_small_tensors_with_gaps_between_them(server, monkeypatch):
    """Of a file with 600 MB, 5 KB are wanted. The gaps are fetched, and not all held at once."""
    members, at = [], 0
    for number in range(600):
        for name, nbytes in (("small", 8), ("large", 1 << 20)):
            members.append('"%s%d":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}'
                           % (name, number, nbytes, at, at + nbytes))
            at += nbytes
    header = forged_files.padded("{%s}" % ",".join(members))
    content = forged_files.Huge(len(header).to_bytes(8, "little") + header, 8 + len(header) + at)
    text, mib = outcome(server, content, 'len(file.get_tensors([n for n in file.keys() if n[0] == "s"]))', monkeypatch)
    assert text == "read 600"
    assert mib < 150


def test_a_long_header_comes_in_pieces(server, monkeypatch):
    """A header may have 100 MB. An honest one, and one that the server does not have."""
    header = b'{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'.ljust(40_000_000)
    content = len(header).to_bytes(8, "little") + header + b"data"
    text, mib = outcome(server, content, 'file.get_tensor("w").tobytes()', monkeypatch)
    assert text == "read b'data'"
    assert max(nbytes for _, _, nbytes in server.requests) <= 16 << 20 and mib < 200
    server.forget()
    server.faults = ["", "503", "503"]
    text, mib = outcome(server, content, 'file.keys()', monkeypatch)
    assert "503" in text
    assert mib < 16 and max(nbytes for _, _, nbytes in server.requests) <= 16 << 20


def test_what_was_fetched_is_let_go_at_once():
    """Without the cyclic collector."""
    fsspec.filesystem("memory").pipe("let-go/a.lmc", lmcodec.numpy.save({"w": numpy.arange(5000)}))
    gc.disable()
    try:
        with lmcodec.remote.File("memory://let-go/a.lmc") as file:
            source = weakref.ref(file._root.source)
            assert bytes(file.read("w")) == numpy.arange(5000).tobytes()
        del file
        assert source() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", ["memory", "http"])
def test_failed_reads_keep_nothing(server, directory, kind):
    """Without Python's collector: no frame of an exception holds the exception."""
    content = bytearray(lmcodec.numpy.save({"a": numpy.random.default_rng(1).standard_normal(600000)}))
    content[len(content) // 2] ^= 1
    server.files = {"x": bytes(content)}
    fsspec.filesystem("memory").pipe("memory-test/x", bytes(content))
    url = server.url + "x" if kind == "http" else "memory://memory-test/x"
    calls = {"a": lmcodec.DataError, "missing": lmcodec.TensorNotFound}
    files = []
    gc.collect()
    gc.disable()
    try:
        for name, error in calls.items():
            with pytest.raises(error) as caught, lmcodec.remote.open(url, "np", retries=0) as file:
                files.append(weakref.ref(file.file))
                file.get_tensor(name)
            del caught, file
        if kind == "http":
            with pytest.raises(OSError) as caught, lmcodec.remote.open(url, "np", retries=0) as file:
                files.append(weakref.ref(file.file))
                server.faults = ["503"]
                file.get_tensor("a")
            del caught, file
        assert [file() for file in files] == [None] * len(files)
    finally:
        gc.enable()
