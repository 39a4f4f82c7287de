"""What LMC lists and reads from files of torch, numpy and llama.cpp is what these read, bit for bit: from the file and
from its archive, by the package and by the command; and the file comes back."""
import os
import warnings

import numpy
import pytest
import torch

import lmcodec
import lmcodec.numpy
import lmcodec.torch
from command import check, read
from lmcodec._arrays import torch_types as types
from value_cases import all_cases

CASES = {case.name: case for case in all_cases()}
ONE_OF = 25  # cases that the command sees, and a store has


@pytest.fixture
def made(directory, request):
    """A case, the path of its file, and what is to be read from it."""
    case = CASES[request.param]
    path = os.path.join(directory, "file." + case.ending)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case.write(path)
        expected = case.expected(path)
    lmcodec.convert(path, fsync=False)
    return path, expected


def check_listing(listed, expected):
    check(set(listed) == set(expected), "missing: %s, not expected: %s" % (
        sorted(set(expected) - set(listed))[:5], sorted(set(listed) - set(expected))[:5]))
    for name, tensor in expected.items():
        found = listed[name]
        check((found.dtype, list(found.shape), found.nbytes) == (tensor.dtype, tensor.shape, len(tensor.content)),
              "%s: listed as %s %s, is %s %s" % (name, found.dtype, found.shape, tensor.dtype, tensor.shape))


def read_range(file, name, first, nbytes):
    out = numpy.empty(nbytes, "u1")
    file.read_range(file.find(name), first, nbytes, out.__array_interface__["data"][0])
    return out.tobytes()


def check_contents(file, expected):
    for name, tensor in expected.items():
        content = file.read(name)
        check(content == tensor.content, "%s: %s, not %s" % (name, content[:16].hex(), tensor.content[:16].hex()))
        half = len(content) // 2 + 1
        if half < len(content):
            check(read_range(file, name, half, len(content) - half) == tensor.content[half:],
                  "%s: other bytes from %d on" % (name, half))


def check_slices(file, expected):
    """Rows and columns of arrays, against numpy's on the whole array."""
    for name, tensor in list(expected.items())[:8]:
        if tensor.dtype == "F4" or not tensor.shape:
            continue
        whole, part = file.get_tensor(name), file.get_slice(name)
        check(whole.tobytes() == tensor.content and list(whole.shape) == tensor.shape, "%s: another array" % name)
        if 0 in tensor.shape:
            continue
        for index in numpy.s_[:], numpy.s_[tensor.shape[0] // 2:], numpy.s_[::2], numpy.s_[..., :1], numpy.s_[-1]:
            found, wanted = part[index], whole[index]
            check(found.shape == wanted.shape and found.tobytes() == wanted.tobytes(), "%s[%s]" % (name, index))


@pytest.mark.parametrize("made", CASES, indirect=True)
def test_read(made):
    path, expected = made
    for place in (path, path + ".lmc"):
        with lmcodec.File(place) as file:
            check_listing(file.tensors, expected)
            check_contents(file, expected)
        with lmcodec.safe_open(place, "np") as file:
            check(file.keys() == sorted(expected), "other keys: %s" % file.keys())
            check_slices(file, expected)
    with lmcodec.open_original(path + ".lmc") as original:
        check(original.read() == read(path), "the restored file differs")


SOME = list(CASES)[::ONE_OF] + [name for name in CASES if name.startswith("object-")]


@pytest.mark.parametrize("made", SOME, indirect=True)
def test_command(made, tool):
    """`ls`, `get` and `cat` of a file and of its archive."""
    path, expected = made
    for place in (path, path + ".lmc"):
        listed = tool.listing(place)
        check(set(listed) == set(expected), "other names: %s" % sorted(set(listed) ^ set(expected))[:5])
        for name, tensor in expected.items():
            check(listed[name] == (tensor.dtype, tensor.shape, len(tensor.content)),
                  "%s: %s" % (name, listed[name]))
        for name in sorted(expected)[:3]:
            check(tool.run("get", place, name) == expected[name].content, "%s: other bytes" % name)
            rows = expected[name].shape[0] if expected[name].shape else 0
            if rows > 1:
                row_nbytes = len(expected[name].content) // rows
                check(tool.run("get", place, name + "[1]") == expected[name].content[row_nbytes:2 * row_nbytes],
                      "%s[1]: other bytes" % name)
    check(tool.run("cat", path + ".lmc") == read(path), "the restored file differs")


@pytest.mark.parametrize("made", SOME, indirect=True)
def test_tensors_of_torch(made):
    """Each name has memory of its own, whatever it shares in the file."""
    path, expected = made
    known = {name: tensor for name, tensor in expected.items() if tensor.dtype in types.TYPES}
    with lmcodec.safe_open(path + ".lmc", "pt") as file:
        loaded = file.get_tensors(list(known))
    for name, tensor in known.items():
        shape = types.shape_of(tensor.dtype, tensor.shape)
        found = loaded[name]
        check(tuple(found.shape) == shape and found.is_contiguous(), "%s: %s" % (name, found.shape))
        content = found.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.content else b""
        check(content == tensor.content, "%s: other bytes" % name)
    places = [tensor.data_ptr() for tensor in loaded.values() if tensor.numel()]
    check(len(set(places)) == len(places), "two tensors share memory")
    if loaded and len(known) == len(expected):
        lmcodec.torch.save_file(loaded, path + ".again.lmc")
        again = lmcodec.torch.load_file(path + ".again.lmc")
        check(sorted(again) == sorted(loaded), "other names after saving: %s" % sorted(again))


@pytest.mark.parametrize("made", SOME, indirect=True)
def test_store(made):
    """A file and its archive in a store, as on the disk."""
    fsspec = pytest.importorskip("fsspec", reason="left out: fsspec is not installed")
    path, expected = made
    for place in (path, path + ".lmc"):
        fsspec.filesystem("memory").pipe("values/" + os.path.basename(place), read(place))
        with lmcodec.safe_open("memory://values/" + os.path.basename(place), "np") as file:
            check_contents(file._file, expected)
            check(file.keys() == sorted(expected), "other keys: %s" % file.keys())
            check_slices(file, expected)
            loaded = file.get_tensors()
            for name, tensor in expected.items():
                check(tensor.dtype == "F4" or loaded[name].tobytes() == tensor.content, "%s: other bytes" % name)
    fsspec.filesystem("memory").rm("values", recursive=True)


def test_a_store_gives_a_storage_once(directory, monkeypatch):
    """Views are decoded together with what they are views of."""
    fsspec = pytest.importorskip("fsspec", reason="left out: fsspec is not installed")
    from lmcodec._remote.source import Source
    fetched, fetch = [], Source.fetch
    monkeypatch.setattr(Source, "fetch", lambda source, ranges: fetched.append(ranges.nbytes) or fetch(source, ranges))
    flat = torch.randn(1 << 20)
    parts = {f"p{n}": flat[n << 12:(n + 1) << 12].view(64, 64).t() for n in range(256)}
    archive = converted({"flat": flat, **parts}, directory)
    fsspec.filesystem("memory").pipe("flat.pt.lmc", read(archive))
    with lmcodec.safe_open("memory://flat.pt.lmc", "pt") as file:
        loaded = file.get_tensors()
    check(all(torch.equal(loaded[name], part) for name, part in parts.items()), "other values")
    check(0 < sum(fetched) < 1.1 * os.path.getsize(archive), f"{fetched}")


# ---- what is told of views ----

def converted(value, directory, name="file.pt"):
    path = os.path.join(directory, name)
    torch.save(value, path)
    lmcodec.convert(path, fsync=False)
    return path + ".lmc"


def test_views_are_told(directory):
    weight = torch.randn(50, 8)
    archive = converted({"embed": weight, "head": weight.detach(), "turned": weight.t(), "row": weight[2]}, directory)
    with lmcodec.File(archive) as file:
        tensors = file.tensors
        check(list(tensors) == ["embed", "head", "turned", "row"], f"{list(tensors)}")
        check(tensors["embed"].strides is None and tensors["embed"].view_of is None, f"{tensors['embed']}")
        for name, strides, offset in (("head", (8, 1), 0), ("turned", (1, 8), 0), ("row", (1,), 16)):
            found = tensors[name]
            check((found.view_of, found.strides, found.storage_offset) == ("embed", strides, offset), f"{found}")
            check((found.storage_nbytes, found.is_big_endian, found.note) == (1600, False, None), f"{found}")


def test_paths_without_end(directory):
    """Lists in which they stand themselves have no further names; of too many paths, the first is a name."""
    circle, deep = [torch.ones(3)], [torch.ones(4)]
    circle.append({"again": circle})
    for _ in range(60):
        deep = [deep, deep]
    with lmcodec.File(converted(circle, directory, "circle.pt")) as file:
        check(list(file.tensors) == ["0"], f"{list(file.tensors)}")
    with lmcodec.File(converted(deep, directory, "deep.pt")) as file:
        check(list(file.tensors) == [".".join("0" * 61)], f"{list(file.tensors)[:3]}")
        check(file.read(".".join("0" * 61)) == numpy.ones(4, "f4").tobytes(), "other bytes")


def test_what_has_no_dtype_is_told(directory):
    path = os.path.join(directory, "file.npz")
    numpy.savez(path, big=numpy.arange(5, dtype=">i4"), text=numpy.array(["a", "bc"]),
                record=numpy.zeros(3, [("a", "f4"), ("b", "i1")]), long=numpy.zeros(2, "g"))
    with lmcodec.File(path) as file:
        check(file.tensors["big"].is_big_endian and file.tensors["big"].note is None, f"{file.tensors['big']}")
        for name, told in (("text", "<U2"), ("record", "structured"), ("long", numpy.dtype("g").str)):
            found = file.tensors[name]
            check(found.dtype == "U8" and told in (found.note or ""), f"{found}")


def test_views_of_what_is_stored_in_little_room(directory):
    """A large view is read from a frame of a few bytes, and a long one from a plain file of a few."""
    archive = converted({"turned": torch.zeros(1 << 10, 1 << 12).t(), "long": torch.ones(1).expand(1 << 22)}, directory)
    for path in (archive, archive[:-4]):
        with lmcodec.safe_open(path, "pt") as file:
            check(not file.get_tensor("turned").any(), f"{path}: other values")
            check(file.get_tensor("long").sum() == 1 << 22, f"{path}: other values")


def test_a_little_that_is_repeated(directory):
    """Strides of 0 make terabytes of a few bytes: parts of them can be read."""
    huge = torch.arange(7.0).view(7, 1).expand(1 << 20, 7, 1 << 20)
    archive = converted({"huge": huge, "small": torch.ones(3), "some": torch.ones(1).expand(100)}, directory)
    with lmcodec.safe_open(archive, "pt") as file:
        for read_all in (lambda: file.get_tensor("huge"), file.get_tensors, lambda: file.get_slice("huge")[..., :1],
                         lambda: lmcodec.File(archive).read("huge"), lambda: lmcodec.torch.load_file(archive)):
            with pytest.raises(lmcodec.LimitError, match="huge") as caught:
                read_all()
            check(caught.value.tensor == "huge", "the error names no tensor")
        check(file.get_tensors(["small", "some"])["some"].sum() == 100, "other values")
        check(file.get_slice("huge").get_shape() == [1 << 20, 7, 1 << 20], "another shape")
    with lmcodec.File(archive) as file:
        part = read_range(file, "huge", (3 << 22) - 8, 12)
        check(numpy.frombuffer(part, "f4").tolist() == [2, 2, 3], f"{part.hex()}")

