"""save() and load() of lmcodec.torch and lmcodec.numpy: those of the framework, packed; with bytes, those of
safetensors."""
import bz2
import contextlib
import functools
import gzip
import io
import lzma
import os
import pickle
import tempfile
import warnings

import pytest

numpy = pytest.importorskip("numpy", reason="numpy is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed (Debian: python3-torch)")

import lmcodec.numpy  # noqa: E402
import lmcodec.torch  # noqa: E402


@pytest.fixture
def state():
    return {"step": 7, "names": ["a", "b"], "model": {"weight": torch.randn(500, 300)}, "seed": torch.tensor(3)}


def check_state(loaded, state):
    assert loaded["step"] == 7 and loaded["names"] == ["a", "b"] and loaded["seed"] == 3
    assert torch.equal(loaded["model"]["weight"], state["model"]["weight"])


def test_an_object_in_a_file(directory, state):
    path, plain = os.path.join(directory, "state.pt"), os.path.join(directory, "plain.pt")
    torch.save(state, plain)
    assert lmcodec.torch.save(state, path) is None
    assert os.path.getsize(path) < 0.95 * os.path.getsize(plain) and lmcodec.File(path).is_archive
    check_state(lmcodec.torch.load(path), state)
    check_state(lmcodec.torch.load(path, weights_only=True), state)
    lmcodec.restore(path, path + ".back")
    check_state(torch.load(path + ".back", weights_only=True), state)
    assert os.stat(path).st_mode == os.stat(plain).st_mode
    lmcodec.torch.save(state, os.path.join(directory, "later.pt"), base=plain, level="fast", fsync=True)
    assert os.path.getsize(os.path.join(directory, "later.pt")) < 0.1 * os.path.getsize(path)
    check_state(lmcodec.torch.load(os.path.join(directory, "later.pt")), state)
    assert sorted(os.listdir(directory)) == ["later.pt", "plain.pt", "state.pt", "state.pt.back"]


def test_an_object_in_an_open_file(directory, state):
    room = io.BytesIO()
    lmcodec.torch.save(state, room)
    room.seek(0)
    check_state(lmcodec.torch.load(room), state)
    path = os.path.join(directory, "state.pt")
    with open(path, "wb") as file:
        lmcodec.torch.save(state, file)
    with open(path, "rb") as file:
        check_state(lmcodec.torch.load(file), state)
    behind = io.BytesIO(b"before" + room.getvalue())
    behind.seek(6)
    check_state(lmcodec.torch.load(behind), state)
    if "mmap" in torch.load.__kwdefaults__:
        check_state(lmcodec.torch.load(path, mmap=True), state)


@pytest.mark.parametrize("packer", [bz2, gzip, lzma], ids=lambda packer: packer.__name__)
def test_an_archive_in_a_packed_stream(directory, state, packer):
    """The stream has the name, and some have the number, of a file that holds other bytes."""
    room, path = io.BytesIO(), os.path.join(directory, "packed")
    lmcodec.torch.save(state, room)
    with packer.open(path, "wb") as file:
        file.write(room.getvalue())
    with packer.open(path) as file:
        check_state(lmcodec.torch.load(file), state)
    with packer.open(path, "wb") as file:
        lmcodec.numpy.save(file, numpy.arange(1000.0))
    with packer.open(path) as file, io.BufferedReader(file) as buffered:
        assert lmcodec.numpy.load(buffered)[999] == 999


def test_nothing_is_mapped_on_windows(directory, state, monkeypatch):
    """A file that is mapped could not be removed there."""
    seen, path, load = [], os.path.join(directory, "state.pt"), torch.load
    lmcodec.torch.save(state, path)
    monkeypatch.setattr(lmcodec.torch, "IS_WINDOWS", True)
    monkeypatch.setattr(torch, "load", functools.wraps(load)(
        lambda source, *arguments, **options: seen.append(options) or load(source, *arguments, **options)))
    if "mmap" in load.__kwdefaults__:
        check_state(lmcodec.torch.load(path, mmap=True), state)
        assert "mmap" not in seen[0]


def test_nobody_else_sees_what_goes_to_an_open_file(directory, state, monkeypatch):
    seen = []
    monkeypatch.setattr(tempfile, "tempdir", directory)

    def convert(work, packed, **options):
        lmcodec.convert(work, packed, **options)
        seen.extend(os.stat(path).st_mode & 0o777 for path in (work, packed))

    monkeypatch.setattr(lmcodec.torch.objects, "convert", convert)
    lmcodec.torch.save(state, io.BytesIO())
    assert seen == [0o600, 0o600] and os.listdir(directory) == []


def test_open_files_that_torch_reads_itself(directory, state):
    path = os.path.join(directory, "state.pt")
    torch.save(state, path)
    with open(path, "rb") as file:
        check_state(lmcodec.torch.load(file), state)
        assert torch.equal(lmcodec.torch.load(io.BytesIO(open(path, "rb").read()))["seed"], state["seed"])


def test_an_open_archive_finds_its_base(directory, state):
    plain, path = os.path.join(directory, "base.pt"), os.path.join(directory, "state.pt")
    torch.save(state, plain)
    lmcodec.torch.save(state, path, base=plain)
    with open(path, "rb") as file:
        check_state(lmcodec.torch.load(file), state)
    with pytest.raises(lmcodec.BaseError, match="which was not found$"):  # in memory, nothing is beside it
        lmcodec.torch.load(io.BytesIO(open(path, "rb").read()))


def test_the_old_format_is_packed(directory, state):
    path = os.path.join(directory, "state.pt")
    lmcodec.torch.save(state, path, _use_new_zipfile_serialization=False)
    assert lmcodec.File(path).container == "raw"
    check_state(lmcodec.torch.load(path), state)


def test_tensors_and_bytes_are_those_of_safetensors(directory):
    tensors = {"a": torch.arange(5.0)}
    for data in (lmcodec.torch.save(tensors), lmcodec.torch.save(tensors, {"x": "y"}),
                 lmcodec.torch.save(tensors, metadata={"x": "y"}, plain=True)):
        assert isinstance(data, bytes) and torch.equal(lmcodec.torch.load(data)["a"], tensors["a"])
        assert torch.equal(lmcodec.torch.load(io.BytesIO(data))["a"], tensors["a"])
    for plain in (False, True):
        path = os.path.join(directory, "a.bin")
        lmcodec.torch.save_file(tensors, path, plain=plain)
        assert torch.equal(lmcodec.torch.load(path)["a"], tensors["a"])
    arrays = {"a": numpy.arange(5.0)}
    data = lmcodec.numpy.save(arrays, {"x": "y"})
    assert (lmcodec.numpy.load(data)["a"] == arrays["a"]).all()
    assert (lmcodec.numpy.load(io.BytesIO(data))["a"] == arrays["a"]).all()


def test_errors_name_the_file_that_was_given(directory):
    path = os.path.join(directory, "none", "a.pt")
    with pytest.raises(FileNotFoundError) as caught:
        lmcodec.torch.save({}, path)
    assert caught.value.filename == path


@pytest.mark.parametrize("is_archive", [False, True])
def test_bytes_of_files_of_frameworks(is_archive):
    room, state, packer = io.BytesIO(), {"step": 7, "w": torch.ones(5)}, lmcodec.torch if is_archive else torch
    packer.save(state, room)
    loaded = lmcodec.torch.load(room.getvalue())
    assert loaded["step"] == 7 and torch.equal(loaded["w"], state["w"])
    room, packer = io.BytesIO(), lmcodec.numpy if is_archive else numpy
    packer.savez(room, text=numpy.array(["a", "bc"]), n=numpy.arange(3))
    with lmcodec.numpy.load(memoryview(room.getvalue())) as found:
        assert found["text"].tolist() == ["a", "bc"] and found["n"].tolist() == [0, 1, 2]
    room = io.BytesIO()
    packer.save(room, numpy.arange(4))
    assert lmcodec.numpy.load(room.getvalue()).tolist() == [0, 1, 2, 3]
    for module in (lmcodec.torch, lmcodec.numpy):
        with pytest.raises(lmcodec.SafetensorError, match=r"\(bytes\)"):
            module.load(b"no such file at all")


def test_what_save_refuses(directory, state):
    with pytest.raises(ValueError):
        lmcodec.torch.save(state)  # no tensors, and no file
    with pytest.raises(TypeError, match="path"):
        lmcodec.torch.save(torch.zeros(3), None)
    with pytest.raises(TypeError):
        lmcodec.torch.save(state, os.path.join(directory, "a.pt"), {"x": "y"})
    with pytest.raises(TypeError):
        lmcodec.torch.save({"a": torch.zeros(3)}, {"x": "y"}, fsync=True)
    for save in (lmcodec.torch.save, lambda obj, path: lmcodec.numpy.save(path, numpy.zeros(3))):
        with pytest.raises(lmcodec.ArgumentError, match="URL"):
            save(state, "s3://bucket/state.pt")
    with pytest.raises(lmcodec.ArgumentError, match="storage_options"):
        lmcodec.torch.load(os.path.join(directory, "a.pt"), storage_options={})
    with pytest.raises(Exception, match="(?i)pickle"):
        lmcodec.torch.save({"a": lambda: 3}, os.path.join(directory, "a.pt"))
    assert os.listdir(directory) == []


def test_an_array_that_was_forgotten(directory):
    path = os.path.join(directory, "a.npy")
    lmcodec.numpy.save(path, numpy.arange(3))
    with pytest.raises(TypeError, match=r"save\(\) missing 1 required positional argument: 'arr'"):
        lmcodec.numpy.save(path)
    assert lmcodec.numpy.load(path).tolist() == [0, 1, 2]
    lmcodec.numpy.save(path, None)  # as numpy.save() does
    assert lmcodec.numpy.load(path, allow_pickle=True)[()] is None


def test_a_masked_array(directory):
    """numpy.save() refuses it for files on a disk, and writes its data to others."""
    array, packed, plain = numpy.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]), io.BytesIO(), io.BytesIO()
    numpy.save(plain, array)
    lmcodec.numpy.save(packed, array)
    path = os.path.join(directory, "a")
    lmcodec.numpy.save(path, array)
    for given in (packed.getvalue(), path):
        assert lmcodec.numpy.load(given).tolist() == numpy.load(io.BytesIO(plain.getvalue())).tolist()


class Own:
    pass


@pytest.mark.parametrize("packed", [False, True])
def test_no_message_advises_to_trust_a_file(directory, packed):
    path = os.path.join(directory, "a.pt")
    (lmcodec.torch if packed else torch).save({"a": Own(), "b": torch.zeros(3)}, path)
    with pytest.raises(pickle.UnpicklingError) as caught:
        lmcodec.torch.load(path, weights_only=True)
    assert "weights_only" not in str(caught.value) and "Own" in str(caught.value)
    assert isinstance(lmcodec.torch.load(path, weights_only=False)["a"], Own)
    for content in (b"\x80\x02X", b"\x80\x02}q\x00."):
        with open(path, "wb") as file:
            file.write(content)
        with pytest.raises(Exception) as other:
            lmcodec.torch.load(path, weights_only=True)
        assert "weights_only" not in str(other.value)


def test_arrays_in_files(directory):
    array, path = numpy.arange(3000.0).reshape(30, 100), os.path.join(directory, "a")
    lmcodec.numpy.save(path, array)
    assert lmcodec.File(path).is_archive and (lmcodec.numpy.load(path) == array).all()
    lmcodec.numpy.savez(path, array, b=array[0])
    with lmcodec.numpy.load(path) as found:
        assert (found["arr_0"] == array).all() and (found["b"] == array[0]).all()
    room = io.BytesIO()
    lmcodec.numpy.save(room, array)
    room.seek(0)
    assert (lmcodec.numpy.load(room) == array).all()
    numpy.save(path + ".npy", array)
    assert (lmcodec.numpy.load(path + ".npy", mmap_mode="r") == array).all()
    assert os.listdir(directory) == ["a", "a.npy"] or os.listdir(directory) == ["a.npy", "a"]


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.size = torch.nn.Linear(4, 4), 7


def left_out(state, directory):
    """What load_file() says of the plain file, and the same of its archive."""
    path, told = os.path.join(directory, "state.pt"), []
    torch.save(state, path)
    lmcodec.convert(path, force=True)
    for name in (path, path + ".lmc"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loaded = lmcodec.torch.load_file(name)
        assert all(isinstance(tensor, torch.Tensor) for tensor in loaded.values())
        told.append([str(each.message).replace(name, "") for each in caught])
        assert all(each.filename == __file__ for each in caught)
    assert told[0] == told[1]
    return told[0]


def test_what_load_file_leaves_out_is_named(directory):
    weight = torch.randn(300, 400)
    told = left_out({"step": 7, "model": {"weight": weight, "eps": 1e-5, "more": [weight, "text"]}, "none": None,
                     "args": {"lr": 0.1}, "empty": {}}, directory)
    assert len(told) == 1 and "leaves out step, model.eps, model.more.1, none, args:" in told[0]
    assert "leaves out n:" in left_out({"weight": weight, "n": None}, directory)[0]
    assert "lmcodec.torch.load()" in told[0]
    assert left_out({"weight": weight, "b": torch.nn.Parameter(torch.zeros(3))}, directory) == []
    assert left_out(Module().state_dict(), directory) == []
    optimizer = torch.optim.AdamW(Module().parameters())
    assert "param_groups" in left_out({"weight": weight, "optimizer": optimizer.state_dict()}, directory)[0] \
        or "all of it" in left_out(optimizer.state_dict(), directory)[0]
    many = {"weight": weight, **{"key%d" % n: n for n in range(20)}}
    assert "key7 and 12 more" in left_out(many, directory)[0]
    assert "inner" not in left_out(Module(), directory)[0].replace("_inner", "")


@pytest.mark.skipif(not hasattr(torch.serialization, "set_crc32_options"), reason=(
    "left out: a torch that always writes CRC-32s; another environment of the part `python` has a newer one"))
def test_checksums_that_torch_has_left_out(directory):
    path, weight = os.path.join(directory, "a.pt"), torch.randn(300, 400)
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"weight": weight}, path)
    finally:
        torch.serialization.set_crc32_options(True)
    assert torch.equal(lmcodec.torch.load_file(path)["weight"], weight)


def test_hostile_pickles_are_not_called(directory, monkeypatch):
    """Nor do they end a load: a pickle that is not understood has no names."""
    made = os.path.join(directory, "made")

    class Evil:
        def __reduce__(self):
            return os.mkdir, (made,)

    assert left_out({"a": torch.zeros(1000), "b": Evil()}, directory) != []
    deep, wide = [], [torch.zeros(9), 5]
    for _ in range(200):
        deep = [deep, 1]
    for _ in range(14):
        wide = [wide, wide]
    left_out({"a": torch.zeros(1000), "b": deep}, directory)
    assert ".1:" in left_out({"a": torch.zeros(1000), "b": wide}, directory)[0]
    cycle = {"a": torch.zeros(1000), "c": 5}
    cycle["cycle"] = cycle
    assert "leaves out c:" in left_out(cycle, directory)[0]
    assert not os.path.exists(made)


@pytest.mark.parametrize("pickled", [
    b"cm\nn\nq\1K\1\x85R" + b"q\0h\1h\0h\0\x86R" * 60 + b".",  # calls
    b"}" + b"K\1K\2\x86" + b"q\0h\0\x86" * 60 + b"K\1s.",  # a key
    b"]K\1a" + b"q\0]h\0ah\0a" * 60 + b"q\0ccollections\nOrderedDict\n)Rh\0K\1sK\1K\1Qs.",  # that has no hash
    b"(" + b"N" * 300000 + b"tq\0cm\nn\nq\1" + b"h\1h\0R" * 100000 + b".",  # arguments
    b"(" + b"N" * 300000 + b"lq\0(cm\nn\nq\1" + b"h\1)Rh\0b" * 60000 + b"l.",  # a state
    b"\x96" + (1 << 46).to_bytes(8, "little") + b".",  # a bytearray
], ids=["calls", "key", "list as key", "arguments", "state", "bytearray"])
def test_pickles_that_take_time_or_memory(pickled):
    """A few bytes of a file are read in a moment, or refused."""
    from lmcodec._files import left_out
    with contextlib.suppress(ValueError):
        assert list(left_out._names(left_out._Reader(io.BytesIO(pickled)).load(), "", {}, set()))


def test_urls(directory, state):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    path = os.path.join(directory, "a")
    lmcodec.torch.save(state, path)
    files = fsspec.filesystem("memory")
    files.put(path, "objects/a.pt")
    check_state(lmcodec.torch.load("memory://objects/a.pt"), state)
    check_state(lmcodec.torch.load("memory://objects/a.pt", storage_options={}), state)
    torch.save(state, path)
    files.put(path, "objects/a.pt")
    check_state(lmcodec.torch.load("memory://objects/a.pt"), state)
    lmcodec.numpy.save(path, numpy.arange(5))
    files.put(path, "objects/a.npy")
    assert (lmcodec.numpy.load("memory://objects/a.npy", storage_options={}) == numpy.arange(5)).all()
    with pytest.raises(FileNotFoundError):
        lmcodec.torch.load("memory://objects/none")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int8, torch.bool], ids=str)
def test_frames_of_tensors(dtype):
    tensor = (torch.arange(3000).reshape(30, 100) % 7).to(dtype)
    frame = lmcodec.torch.encode(tensor)
    assert lmcodec.info(frame).nbytes == tensor.numel() * tensor.element_size()
    flat = lmcodec.torch.decode(frame)
    assert flat.dtype == dtype and torch.equal(flat.reshape(30, 100), tensor)
    out = torch.zeros_like(tensor)
    assert lmcodec.torch.decode(frame, out) is out and torch.equal(out, tensor)
    later = tensor.clone()
    later[3, 5] = 1
    delta = lmcodec.torch.encode(later, base=tensor)
    assert torch.equal(lmcodec.torch.decode(delta, base=tensor).reshape(30, 100), later)
    assert lmcodec.torch.decode(lmcodec.torch.encode(tensor[:0])).shape == (0,)
    for arguments in ({"tensor": tensor.t()}, {"tensor": tensor, "base": tensor.t()}):
        with pytest.raises(ValueError, match=r"the %s is not contiguous: .contiguous\(\) packs it" % [*arguments][-1]):
            lmcodec.torch.encode(**arguments)
    with pytest.raises(ValueError):
        lmcodec.torch.decode(frame, torch.zeros(100, 30, dtype=dtype).t())
    with pytest.raises(TypeError, match="lmcodec.torch.encode"):
        lmcodec.encode(tensor)


def test_what_is_no_frame_of_a_tensor():
    values, tensor = numpy.ones(3), torch.ones(3)
    for arguments in ((values,), (None,)):
        with pytest.raises(TypeError, match=r"a tensor of torch is wanted; lmcodec.encode\(\) takes buffers"):
            lmcodec.torch.encode(*arguments)
    with pytest.raises(TypeError, match="lmcodec.encode"):
        lmcodec.torch.encode(tensor, base=values)
    with pytest.raises(TypeError, match="lmcodec.decode"):
        lmcodec.torch.decode(lmcodec.torch.encode(tensor), base=values)
    with pytest.raises(ValueError, match="sparse"):
        lmcodec.torch.encode(tensor.to_sparse())
    with pytest.raises(lmcodec.DataError, match="5 bytes, which are not whole values of F32"):
        lmcodec.torch.decode(lmcodec.encode(b"12345", "F32"))


def test_frames_to_tensors_that_exist():
    values = torch.complex(torch.arange(4.0), torch.ones(4))
    with pytest.raises(ValueError, match="not a view of conjugate"):
        lmcodec.torch.decode(lmcodec.torch.encode(values), values.conj())
    version = values._version
    assert torch.equal(lmcodec.torch.decode(lmcodec.torch.encode(values + 1), values), torch.arange(1.0, 5) + 1j)
    assert values._version > version


def test_tensors_at_addresses():
    array = numpy.arange(6.0, dtype="f4")
    for dtype in ("F32", "float32"):
        spec = lmcodec.TensorSpec(dtype=dtype, shape=[2, 3], data_ptr=array.ctypes.data, data_len=24)
        assert lmcodec.deserialize(lmcodec.serialize({"a": spec})) == [
            ("a", {"shape": [2, 3], "dtype": "F32", "data": bytearray(array.tobytes())})]
    with pytest.raises(lmcodec.ArgumentError, match="the buffer 192"):
        lmcodec.serialize({"a": spec._replace(shape=[7])})


@pytest.mark.parametrize("given, text", [
    (None, "is wanted, not NoneType"), (numpy.ones(3), "is wanted, not ndarray"),
    (torch.ones(3), "is wanted, not Tensor"),
    (("U8", (3,)), "is wanted, not tuple"), (("U8", (3,), "abc"), "a bytes-like object is required"),
    (("U8", 3, b"abc"), "the shape is .* not 3"), (("U8", (3.0,), b"abc"), "the shape is .*3.0")],
    ids=["None", "array", "tensor", "pair", "text", "number as shape", "fraction in shape"])
def test_what_is_no_buffer(given, text):
    with pytest.raises(TypeError, match="tensor 'a': .*" + text):
        lmcodec.serialize({"a": given})


def test_serialized_buffers(directory):
    safetensors = pytest.importorskip("safetensors", reason="safetensors is not installed")
    tensors = {"a": ("F32", (2, 3), bytes(range(24))), "b": {"dtype": "bfloat16", "shape": [0], "data": b""}}
    plain, packed = lmcodec.serialize(tensors, {"x": "y"}, plain=True), lmcodec.serialize(tensors)
    expected = [("a", {"shape": [2, 3], "dtype": "F32", "data": bytearray(range(24))}),
                ("b", {"shape": [0], "dtype": "BF16", "data": bytearray()})]
    assert lmcodec.deserialize(plain) == lmcodec.deserialize(packed) == expected
    assert sorted(safetensors.deserialize(plain)) == sorted(expected)
    path = os.path.join(directory, "a.safetensors")
    lmcodec.serialize_file(tensors, path, {"x": "y"})
    assert open(path, "rb").read() == plain
    if hasattr(safetensors, "TensorSpec"):
        array = numpy.arange(6.0, dtype="f4")
        spec = safetensors.TensorSpec(dtype="float32", shape=[6], data_ptr=array.ctypes.data, data_len=24)
        assert lmcodec.deserialize(lmcodec.serialize({"a": spec}))[0][1]["data"] == array.tobytes()
        longer = safetensors.TensorSpec(dtype="float32", shape=[12], data_ptr=array.ctypes.data, data_len=24)
        with pytest.raises(lmcodec.ArgumentError, match=r"F32 of shape \[12\] has 384 bits, the buffer 192"):
            lmcodec.serialize({"a": longer})
        delta = lmcodec.delta({}, {"a": numpy.zeros(12, "f4")})
        with pytest.raises(lmcodec.ArgumentError, match="the buffer 192"):
            lmcodec.apply(delta, {"a": longer})
