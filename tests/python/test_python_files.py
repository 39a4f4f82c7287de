"""Whole files and directories from Python."""
import ctypes
import gc
import hashlib
import os
import weakref

import numpy
import pytest

import lmcodec
import lmcodec.numpy
from lmcodec._files import writer


def make_plain(path, seed=1, rows=400):
    random = numpy.random.default_rng(seed)
    values = random.standard_normal((rows, 500), dtype="f4")
    lmcodec.serialize_file({"w": ("F32", (rows, 500), values), "n": ("U8", (0,), b"")}, path, {"format": "pt"})
    return open(path, "rb").read()


@pytest.fixture
def plain(directory):
    path = os.path.join(directory, "m.safetensors")
    make_plain(path)
    return path


def test_convert_and_restore(plain):
    content = open(plain, "rb").read()
    result = lmcodec.convert(plain)
    assert (result.nbytes, result.stored_nbytes) == (len(content), os.path.getsize(plain + ".lmc"))
    assert result.tensor_count == 2 and result.container == "safetensors" and result.ratio < 1
    os.unlink(plain)
    assert lmcodec.restore(plain + ".lmc").nbytes == len(content)
    assert open(plain, "rb").read() == content
    lmcodec.compare(plain + ".lmc", plain)
    assert lmcodec.verify(plain + ".lmc", sha256=True).sha256 == hashlib.sha256(content).digest()


@pytest.mark.parametrize("level", ["default", "fast", "max"])
def test_levels_and_places(plain, directory, level):
    place = os.path.join(directory, "other")
    lmcodec.convert(plain, place, level=level, threads=1, fsync=False)
    with lmcodec.open_original(place) as file:
        assert file.read() == open(plain, "rb").read()


def test_what_is_in_the_way(plain):
    lmcodec.convert(plain)
    with pytest.raises(FileExistsError) as caught:
        lmcodec.convert(plain)
    assert caught.value.filename == plain + ".lmc"
    with pytest.raises(FileExistsError):
        lmcodec.restore(plain + ".lmc")
    assert lmcodec.convert(plain, force=True).tensor_count == 2
    assert lmcodec.restore(plain + ".lmc", force=True).tensor_count == 2


def test_wrong_requests(plain, directory):
    lmcodec.convert(plain)
    with pytest.raises(lmcodec.DataError):
        lmcodec.convert(plain + ".lmc")
    with pytest.raises(lmcodec.ArgumentError):
        lmcodec.convert(plain, plain)
    with pytest.raises(lmcodec.ArgumentError, match="dst"):
        lmcodec.convert(directory)
    with pytest.raises(lmcodec.ArgumentError, match="dst"):
        lmcodec.restore(plain)
    with pytest.raises(lmcodec.ArgumentError):
        lmcodec.convert(plain, level="most")
    with pytest.raises(FileNotFoundError):
        lmcodec.convert(os.path.join(directory, "nothing"))
    with pytest.raises(FileNotFoundError) as caught:
        lmcodec.restore(os.path.join(directory, "nothing.lmc"))
    assert caught.value.filename == os.path.join(directory, "nothing.lmc")
    with pytest.raises(OSError):
        lmcodec.convert(plain, os.path.join(directory, "no", "folder"))
    with pytest.raises(lmcodec.ChecksumError):
        make_plain(plain, 2)
        lmcodec.compare(plain + ".lmc", plain)


def test_damaged_archives(plain):
    lmcodec.convert(plain)
    place = os.path.getsize(plain + ".lmc") // 2
    with open(plain + ".lmc", "r+b") as file:
        file.seek(place)
        file.write(b"damage" * 10)
    for call in (lmcodec.verify, lambda path: lmcodec.restore(path, path + ".out"), lmcodec.open_original):
        with pytest.raises(lmcodec.DataError) as caught:
            call(plain + ".lmc")
        assert caught.value.tensor == "w" and caught.value.file == plain + ".lmc" and caught.value.status
    with pytest.raises(lmcodec.DataError) as caught:
        lmcodec.verify(plain + ".lmc")
    assert [error.tensor for error in caught.value.damages] == ["w"]
    assert not os.path.exists(plain + ".lmc.out")
    result = lmcodec.restore(plain + ".lmc", plain + ".rest.safetensors", salvage=True)
    assert [error.tensor for error in result.damages] == ["w"]
    assert list(lmcodec.numpy.load_file(plain + ".rest.safetensors")) == ["n"]


def test_bases(directory):
    old, new = os.path.join(directory, "old.safetensors"), os.path.join(directory, "new.safetensors")
    make_plain(old)
    content = bytearray(open(old, "rb").read())
    content[-1000:-900] = os.urandom(100)
    with open(new, "wb") as file:
        file.write(content)
    assert lmcodec.convert(new, base=old).ratio < 0.1
    assert lmcodec.verify(new + ".lmc").nbytes == len(content)
    folder = os.path.join(directory, "elsewhere")
    os.mkdir(folder)
    os.rename(old, os.path.join(folder, "old.safetensors"))
    os.unlink(new)
    for call in (lmcodec.verify, lmcodec.restore):
        with pytest.raises(lmcodec.BaseError, match="old.safetensors"):
            call(new + ".lmc")
    lmcodec.restore(new + ".lmc", base_dirs=[folder])
    assert open(new, "rb").read() == content
    lmcodec.restore(new + ".lmc", base=os.path.join(folder, "old.safetensors"), force=True)
    lmcodec.compare(new + ".lmc", new, base_dirs=[folder])


def test_directories(directory):
    source, target, back = (os.path.join(directory, name) for name in ("model", "packed", "back"))
    os.makedirs(os.path.join(source, "sub"))
    contents = {name: make_plain(os.path.join(source, name), seed) for seed, name in
                enumerate(("a.safetensors", "sub/b.safetensors", "left.safetensors"))}
    with open(os.path.join(source, "config.json"), "w") as file:
        file.write("{}")
    seen = []
    result = lmcodec.convert(source, target, file_done=lambda *event: seen.append(event[:2]))
    assert result.file_count == 4
    assert sorted(event for _, event in seen) == ["converted", "converted", "converted", "copied"]
    assert sorted(os.listdir(target)) == ["a.safetensors.lmc", "config.json", "left.safetensors.lmc", "sub"]
    lmcodec.verify(target)
    lmcodec.compare(target, source)
    lmcodec.restore(target, back)
    for name, content in contents.items():
        assert open(os.path.join(back, name), "rb").read() == content
    with pytest.raises(ZeroDivisionError):
        lmcodec.convert(source, target + "2", file_done=lambda *event: 1 // 0)


def test_files_that_are_left_as_they_are(directory):
    source, target = os.path.join(directory, "model"), os.path.join(directory, "packed")
    os.makedirs(source)
    for name in ("a.safetensors", "left.safetensors"):
        make_plain(os.path.join(source, name))
    lmcodec.convert(source, target, excludes=["left*"])
    assert sorted(os.listdir(target)) == ["a.safetensors.lmc", "left.safetensors"]


def test_progress(plain, directory):
    seen = []
    lmcodec.convert(plain, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen) and seen[-1][0] == seen[-1][1] > 0
    for call in (lambda progress: lmcodec.convert(plain, plain + "2", progress=progress),
                 lambda progress: lmcodec.restore(plain + ".lmc", plain + "3", progress=progress),
                 lambda progress: lmcodec.verify(plain + ".lmc", progress=progress),
                 lambda progress: lmcodec.open_original(plain + ".lmc", progress=progress)):
        with pytest.raises(ZeroDivisionError):
            call(lambda done, total: 1 // 0)
    assert sorted(os.listdir(directory)) == ["m.safetensors", "m.safetensors.lmc"]


def test_any_file(directory):
    path = os.path.join(directory, "data.bin")
    content = numpy.arange(100000, dtype="u4").tobytes()
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(lmcodec.LMCError):
        lmcodec.convert(path)
    assert lmcodec.convert(path, raw=True).container == "raw"
    with lmcodec.open_original(path + ".lmc") as original:
        assert original.read() == content


def test_writing_buffers(directory):
    path = os.path.join(directory, "a.lmc")
    lmcodec.serialize_file({"x": ("BF16", (2, 3), bytes(12)), "s": ("F64", (), memoryview(bytes(8))),
                  "q": ("F4", (4,), b"ab")}, path)
    with lmcodec.File(path) as file:
        assert file.is_archive and file.metadata is None
        assert {name: (tensor.dtype, tensor.shape) for name, tensor in file.tensors.items()} == {
            "x": ("BF16", (2, 3)), "s": ("F64", ()), "q": ("F4", (4,))}
        assert file.read("q") == b"ab"
    with pytest.raises(lmcodec.ArgumentError, match="bits"):
        lmcodec.serialize_file({"x": ("BF16", (2, 3), bytes(11))}, path)
    with pytest.raises(lmcodec.ArgumentError, match="dtype"):
        lmcodec.serialize_file({"x": ("BF17", (2, 3), bytes(12))}, path)
    for shape in ((2 ** 64 + 5, 0), (-1, 0), (0, -(2 ** 64))):
        with pytest.raises(lmcodec.ArgumentError, match="no file has the shape"):
            lmcodec.serialize_file({"x": ("U8", shape, b"")}, path)
    with pytest.raises((ValueError, BufferError)):
        lmcodec.serialize_file({"x": ("F64", (5,), numpy.arange(10.0)[::2])}, path)
    for metadata in ({"a": 1}, {1: "a"}):
        with pytest.raises(TypeError):
            lmcodec.serialize_file({}, path, metadata)
    with pytest.raises(TypeError):
        lmcodec.serialize_file({5: ("U8", (1,), b"a")}, path)
    with lmcodec.File(path) as file:
        assert len(file.tensors) == 3, "what failed replaced nothing"


@pytest.mark.parametrize("name, plain, is_archive", [("a.safetensors", None, False), ("a.safetensors", False, True),
                                                     ("a.safetensors.lmc", None, True), ("a.lmc", True, False),
                                                     ("a", None, True)])
def test_the_name_decides_what_is_written(directory, name, plain, is_archive):
    path = os.path.join(directory, name)
    lmcodec.serialize_file({"x": ("U8", (3,), b"abc")}, path, plain=plain)
    with lmcodec.File(path) as file:
        assert file.is_archive == is_archive and file.read("x") == b"abc"


def test_a_safetensors_file_has_no_base(plain, directory):
    with pytest.raises(lmcodec.LMCError, match="base"):
        lmcodec.serialize_file({}, os.path.join(directory, "b.safetensors"), base=plain)


def test_what_was_written_is_let_go_at_once(directory):
    """Without the cyclic collector, also if callbacks supply the content."""
    content = numpy.arange(1000, dtype="u1")
    owner = weakref.ref(content)

    def entry_of(array):
        def read(offset, address, nbytes):
            ctypes.memmove(address, array.ctypes.data + offset, nbytes)
        return writer.Entry("x", "U8", [1000], 0, None, read)

    gc.disable()
    try:
        writer.write([entry_of(content)], os.path.join(directory, "a.lmc"), None)
        del content
        assert owner() is None
    finally:
        gc.enable()
