"""lmcodec.fsspec with torch and safetensors: they read originals from open files, and from bytes."""
import io
import os

import pytest

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")
numpy = pytest.importorskip("numpy", reason="numpy is not installed")

import lmcodec  # noqa: E402
import lmcodec.fsspec  # noqa: E402


@pytest.fixture
def tensors():
    values = torch.randn(300, 700, generator=torch.Generator().manual_seed(4))
    return {"a": values, "half": values.half(), "turned": values.t(), "part": values[5:9, ::2]}


@pytest.fixture(params=["local", "memory"])
def url_of(request, directory):
    """Converts a file, and gives the URL of its original."""
    def converted(name):
        path = os.path.join(directory, name)
        lmcodec.convert(path)
        if request.param == "local":
            return "lmc::" + path + ".lmc"
        fsspec.filesystem("memory").put(path + ".lmc", "/fsspec-torch/" + name + ".lmc")
        return "lmc::memory://fsspec-torch/" + name + ".lmc"

    return converted


def check(loaded, tensors):
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype and torch.equal(loaded[name], tensor), name


def test_torch(url_of, tensors, directory):
    """The file has views, which share a storage."""
    path = os.path.join(directory, "a.pt")
    torch.save(tensors, path)
    with fsspec.open(url_of("a.pt")) as file:
        loaded = torch.load(file)
    check(loaded, tensors)
    assert loaded["turned"].data_ptr() == loaded["a"].data_ptr()
    system, place = fsspec.core.url_to_fs("lmc::" + path + ".lmc")
    with open(path, "rb") as file:
        assert system.cat(place) == file.read()


def test_safetensors(url_of, tensors, directory):
    safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    safetensors.save_file(tensors, os.path.join(directory, "a.safetensors"), {"format": "pt"})
    system, place = fsspec.core.url_to_fs(url_of("a.safetensors"))
    check(safetensors.load(system.cat(place)), tensors)
    with system.open(place) as file:
        check(safetensors.load(file.read()), tensors)
    copy = os.path.join(directory, "copy.safetensors")
    system.get(place, copy)
    check(safetensors.load_file(copy), tensors)
    os.mkdir(os.path.join(directory, "folder"))
    system.get(place, os.path.join(directory, "folder"))
    check(safetensors.load_file(os.path.join(directory, "folder", "a.safetensors")), tensors)
    content = io.BytesIO()
    system.get_file(place, content)
    check(safetensors.load(content.getvalue()), tensors)


def test_numpy(url_of, tensors, directory):
    array = numpy.asfortranarray(tensors["a"].numpy())
    numpy.savez(os.path.join(directory, "a.npz"), a=array, b=array[::3])
    with fsspec.open(url_of("a.npz")) as file, numpy.load(file) as loaded:
        assert (loaded["a"] == array).all() and (loaded["b"] == array[::3]).all()


def test_bytes_are_handed_over_without_a_copy():
    """What Original.read() relies on to hold a large file once."""
    content = io.BytesIO(bytes(1 << 20))
    with content.getbuffer() as room:
        room[:3] = b"abc"
        address = numpy.frombuffer(room, "u1").ctypes.data
    got = content.getvalue()
    assert got[:3] == b"abc" and numpy.frombuffer(got, "u1").ctypes.data == address
