"""lmcodec.torch in the place of safetensors.torch, and torch.load() of archives. Runs with old and new torch."""
import os
import weakref

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (Debian: python3-torch)")

import lmcodec.torch  # noqa: E402
from lmcodec._arrays import torch_tensors, torch_types  # noqa: E402


def values_of(file_dtype, shape=(6, 64)):
    """Random bits as a tensor."""
    dtype = torch_types.TYPES[file_dtype]
    nbytes = torch.empty(shape, dtype=torch.uint8).numel() * lmcodec._abi.DTYPE_NBITS[file_dtype] // 8
    if file_dtype == "F4":
        nbytes *= 2  # torch counts pairs
    bits = torch.randint(0, 2 if file_dtype == "BOOL" else 256, (nbytes,), dtype=torch.uint8)
    return bits.view(dtype).reshape(shape)


def bits_of(tensor):
    return bytes(tensor.detach().contiguous().view(-1).view(torch.uint8).tolist()) if tensor.numel() else b""


def same(one, other):
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and one[name].shape == other[name].shape
        and bits_of(one[name].reshape(-1)) == bits_of(other[name].reshape(-1)) for name in one)


@pytest.fixture
def tensors():
    made = {name: values_of(name) for name in torch_types.TYPES}
    made.update({"scalar": torch.tensor(3.5), "none": torch.zeros(3, 0, 2),
                 "transposed": values_of("F32").t().contiguous()})
    return made


def test_both_packages_read_and_write_alike(directory, tensors):
    official = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    tensors = {name: tensor for name, tensor in tensors.items() if tensor.dtype in official._SIZE}
    path = os.path.join(directory, "a.safetensors")
    lmcodec.torch.save_file(tensors, path, {"a": "b"})
    ours = open(path, "rb").read()
    official.save_file(tensors, path, {"a": "b"})
    assert ours == open(path, "rb").read() == lmcodec.torch.save(tensors, {"a": "b"}, plain=True)
    assert same(lmcodec.torch.load_file(path), tensors)
    readable = {name: tensor for name, tensor in tensors.items() if name not in ("F4", "F8_E8M0")}
    assert same(official.load(official.save(readable)), lmcodec.torch.load(official.save(readable)))


def test_all_dtypes_are_read_to_memory_that_exists(directory, tensors):
    path = os.path.join(directory, "a.lmc")
    lmcodec.torch.save_file(tensors, path)
    out = {name: torch.empty_like(tensor) for name, tensor in tensors.items()}
    before = {name: tensor._version for name, tensor in out.items()}
    lmcodec.torch.load_into(out, path)
    assert same(out, tensors) and all(out[name]._version > before[name] for name in out)


def test_arguments_have_the_names_of_safetensors(directory):
    tensors = {"a": torch.ones(3)}
    content = lmcodec.torch.save(tensors=tensors, metadata={"a": "b"})
    assert content == lmcodec.torch.save(tensors, {"a": "b"})
    assert same(lmcodec.torch.load(data=content), tensors)
    with pytest.raises(TypeError, match="'data'"):
        lmcodec.torch.load(content, data=content)


@pytest.mark.parametrize("threads", [1, 2, None])
def test_archives(directory, tensors, threads):
    path = os.path.join(directory, "a.lmc")
    lmcodec.torch.save_file(tensors, path, {"a": "b"}, threads=threads)
    assert same(lmcodec.torch.load_file(path, threads=threads), tensors)
    assert same(lmcodec.torch.load(open(path, "rb").read()), tensors)
    with lmcodec.safe_open(path, "pt") as file:
        for name in tensors:
            assert same({"a": file.get_tensor(name)}, {"a": tensors[name]})
            if name != "F4":
                assert list(file.get_slice(name).get_shape()) == list(tensors[name].shape)


def test_dtypes_that_this_torch_lacks(directory):
    path = os.path.join(directory, "a.lmc")
    for name in sorted(set(lmcodec._abi.DTYPE_NAMES) - set(torch_types.TYPES)):
        lmcodec.serialize_file({"a": (name, (4,), bytes(lmcodec._abi.DTYPE_NBITS[name] // 2))}, path)
        with pytest.raises(lmcodec.DTypeError, match=name):
            lmcodec.torch.load_file(path)
    with pytest.raises(lmcodec.DTypeError):
        lmcodec.torch.save_file({"a": torch.zeros(3, dtype=torch.complex128)}, path)


def test_every_tensor_has_its_own_memory(directory):
    path = os.path.join(directory, "a.lmc")
    lmcodec.torch.save_file({"a": torch.zeros(2 << 20), "b": torch.zeros(5)}, path)
    loaded = lmcodec.torch.load_file(path)
    assert loaded["a"].data_ptr() != loaded["b"].data_ptr()
    loaded["a"] += 1
    assert loaded["b"].sum() == 0 and lmcodec.torch.load_file(path)["a"].sum() == 0


INDICES = [slice(None), slice(2, 5), slice(None, None, 3), -1, (slice(None), slice(1, 3)), (Ellipsis, 0), None,
           (2, None, 3), [0, 3], [], True, (slice(4), [1, 2]), slice(-3, None), slice(50, 60), slice(4, 2), (),
           Ellipsis]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_parts_are_those_of_torch(directory, index):
    path = os.path.join(directory, "a.lmc")
    whole = torch.arange(10 * 8 * 3).reshape(10, 8, 3)
    lmcodec.torch.save_file({"a": whole}, path)
    with lmcodec.safe_open(path, "pt") as file:
        part = file.get_slice("a")[index]
    assert part.shape == whole[index].shape and torch.equal(part, whole[index])
    storage = part.untyped_storage() if hasattr(part, "untyped_storage") else part.storage()
    assert storage.nbytes() <= whole.numel() * 8 if part.numel() else True


def test_tensors_and_masks_are_indices(directory):
    path = os.path.join(directory, "a.lmc")
    whole = torch.randn(10, 8)
    lmcodec.torch.save_file({"a": whole}, path)
    with lmcodec.safe_open(path, "pt") as file:
        for index in (torch.tensor([1, 2]), whole > 0, torch.tensor(3), (slice(2), torch.tensor([0, 1]))):
            assert torch.equal(file.get_slice("a")[index], whole[index])


@pytest.mark.parametrize("index, error", [(10, IndexError), ((0, 0, 0), IndexError), (1.5, (IndexError, TypeError)),
                                          (slice(None, None, -1), ValueError), ("a", (IndexError, TypeError))], ids=str)
def test_errors_of_parts_are_those_of_torch(directory, index, error):
    path = os.path.join(directory, "a.lmc")
    lmcodec.torch.save_file({"a": torch.zeros(10, 8)}, path)
    with lmcodec.safe_open(path, "pt") as file, pytest.raises(error):
        file.get_slice("a")[index]


def test_what_is_refused(directory):
    path = os.path.join(directory, "a.lmc")
    whole, freed = torch.zeros(10, 8), torch.zeros(3)
    quantized = torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.quint8)
    getattr(freed, "untyped_storage", freed.storage)().resize_(1)
    refused = [("text", ValueError, "Expected a dict"), ({"a": [1]}, ValueError, "expected torch.Tensor"),
               ({"a": whole, "b": whole}, RuntimeError, "share memory"),
               ({"a": whole, "b": whole[1:]}, RuntimeError, "share"),
               ({"a": whole.t()}, ValueError, "non contiguous"), ({"a": whole.to_sparse()}, ValueError, "sparse"),
               ({"a": torch.zeros(3, device="meta")}, RuntimeError, "meta"),
               ({"a": quantized}, lmcodec.DTypeError, "quint8"), ({"a": freed}, ValueError, "'a' has no memory")]
    for tensors, error, text in refused:
        with pytest.raises(error, match=text):
            lmcodec.torch.save_file(tensors, path)
    for tensor in (freed, torch._efficientzerotensor((3,))):
        with pytest.raises(lmcodec.ArgumentError, match="no memory"):
            lmcodec.torch.encode(tensor)
    assert os.listdir(directory) == []
    lmcodec.torch.save_file({"a": whole[:5], "b": whole[5:]}, path)
    assert lmcodec.torch.load_file(path)["b"].shape == (5, 8)


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason=(
    "left out: a torch without fp4; another environment of the part `python` has one"))
def test_fp4_without_dimensions(directory):
    """It is two values, which are a shape of their own in a file."""
    tensor = torch.tensor(0x21, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    path = os.path.join(directory, "a.lmc")
    for call in (lmcodec.torch.save, lambda tensors: lmcodec.torch.save_file(tensors, path)):
        with pytest.raises(lmcodec.ArgumentError, match=r"tensor 'a': .* torch.float4_e2m1fn_x2 .*reshape\(1\)"):
            call({"a": tensor})
    assert lmcodec.torch.load(lmcodec.torch.save({"a": tensor.reshape(1)}))["a"].view(torch.uint8).tolist() == [0x21]


def test_tensors_with_gradients_and_conjugates_are_written(directory):
    path = os.path.join(directory, "a.lmc")
    values = torch.complex(torch.arange(4.0), torch.ones(4))
    lmcodec.torch.save_file({"a": torch.nn.Parameter(torch.ones(3)), "c": values.conj()}, path)
    loaded = lmcodec.torch.load_file(path)
    assert not loaded["a"].requires_grad and torch.equal(loaded["c"], values.conj().resolve_conj())


@pytest.mark.parametrize("call", ["encode", "decode"])
def test_copies_of_bases_live_as_long_as_the_call(call, monkeypatch):
    """A base with the bit of conjugates is copied, as one on a device is."""
    base = torch.complex(torch.arange(5000.), torch.ones(5000)).conj()
    tensor = base.resolve_conj() + 1
    frame = lmcodec.encode(tensor.numpy(), "C64", base=base.resolve_conj().numpy())
    bytes_of, codec_call, owners = lmcodec.torch._bytes_of, getattr(lmcodec, call), []

    def watched_call(*args, **options):
        assert len(owners) == (2 if call == "encode" else 1) and all(owner() is not None for owner in owners)
        return codec_call(*args, **options)

    monkeypatch.setattr(lmcodec.torch, "_bytes_of", lambda array: owners.append(weakref.ref(array)) or bytes_of(array))
    monkeypatch.setattr(lmcodec.torch._codec, call, watched_call)
    made = lmcodec.torch.encode(tensor, base=base) if call == "encode" else lmcodec.torch.decode(frame, base=base)
    assert made == frame if call == "encode" else torch.equal(made, tensor)


def test_frames_without_content():
    none = torch.empty(0)
    frame = lmcodec.torch.encode(none)
    assert lmcodec.torch.decode(frame, none) is none
    assert torch.equal(lmcodec.torch.decode(lmcodec.torch.encode(none, base=none), torch.empty(0), base=none), none)


@pytest.mark.parametrize("device", ["nothing", "cuda:x", -1, True, 1.5, "cpu:0:0"], ids=str)
def test_devices_that_there_are_not(directory, device):
    path = os.path.join(directory, "a.lmc")
    lmcodec.torch.save_file({"a": torch.zeros(3)}, path)
    with pytest.raises(lmcodec.ArgumentError, match="device"):
        lmcodec.torch.load_file(path, device)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu(directory, tensors, monkeypatch):
    path = os.path.join(directory, "a.lmc")
    monkeypatch.setattr(torch_tensors, "_PINNED_BATCH_NBYTES", 1000)
    lmcodec.torch.save_file({name: tensor.to("cuda") for name, tensor in tensors.items()}, path)
    for device in ("cuda", "cuda:0", 0, torch.device("cuda", 0)):
        loaded = lmcodec.torch.load_file(path, device)
        assert all(tensor.device == torch.device("cuda", 0) for tensor in loaded.values())
        assert same({name: tensor.cpu() for name, tensor in loaded.items()}, tensors)
        with lmcodec.safe_open(path, "pt", device) as file:
            assert file.get_slice("F32")[1:3].device.type == "cuda"


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        self.second.weight = self.first.weight


def test_models(directory):
    path = os.path.join(directory, "a.lmc")
    one, other = Tied(), Tied()
    lmcodec.torch.save_model(one, path, {"format": "pt"})
    with lmcodec.File(path) as file:
        assert sorted(file.tensors) == ["first.bias", "first.weight", "second.bias"]
        assert file.metadata == {"format": "pt", "second.weight": "first.weight"}
    assert lmcodec.torch.load_model(other, path) == (set(), [])
    assert same(dict(one.state_dict()), dict(other.state_dict()))
    plain = torch.nn.Sequential(torch.nn.Linear(8, 8))
    with pytest.raises(RuntimeError, match='Missing key.*"0.bias".*\n.*Unexpected key.*"first.bias"'):
        lmcodec.torch.load_model(plain, path)
    assert lmcodec.torch.load_model(plain, path, strict=False)[0] == {"0.weight", "0.bias"}
    part = torch.nn.Linear(4, 4)
    part.weight.data = torch.zeros(8, 8)[:4, :4]
    with pytest.raises(RuntimeError, match="covering the entire storage"):
        lmcodec.torch.save_model(part, path)


@pytest.fixture
def checkpoint(directory):
    path = os.path.join(directory, "optimizer.pt")
    state = {"state": {0: {"step": torch.tensor(7.0), "exp_avg": torch.randn(500, 300)}}, "param_groups": [{"lr": 1}]}
    torch.save(state, path)
    lmcodec.convert(path)
    os.unlink(path)
    return path + ".lmc", state


def test_load_of_an_archive(checkpoint):
    path, state = checkpoint
    for options in ({}, {"weights_only": True}, {"weights_only": True, "map_location": "cpu"}, {"threads": 1}):
        loaded = lmcodec.torch.load(path, **options)
        assert loaded["param_groups"] == state["param_groups"]
        assert torch.equal(loaded["state"][0]["exp_avg"], state["state"][0]["exp_avg"])
    original = path[:-4]
    lmcodec.restore(path)
    loaded = lmcodec.torch.load(original, weights_only=True)
    assert torch.equal(loaded["state"][0]["exp_avg"], state["state"][0]["exp_avg"])
    with open(original, "rb") as file:
        assert lmcodec.torch.load(file, weights_only=True)["param_groups"] == state["param_groups"]


def test_load_of_an_archive_of_a_safetensors_file(directory):
    path = os.path.join(directory, "a.safetensors.lmc")
    lmcodec.torch.save_file({"a": torch.arange(5)}, path)
    for options in ({}, {"weights_only": True, "map_location": "cpu"}, {"map_location": torch.device("cpu")}):
        assert torch.equal(lmcodec.torch.load(path, **options)["a"], torch.arange(5))
    with pytest.raises(lmcodec.ArgumentError, match="map_location"):
        lmcodec.torch.load(path, map_location={"cuda:0": "cpu"})


def test_load_of_a_mapped_archive(checkpoint):
    path, state = checkpoint
    try:
        loaded = lmcodec.torch.load(path, weights_only=True, mmap=True)
    except lmcodec.ArgumentError as error:
        assert "mmap" in str(error) and int(torch.__version__.split(".")[0]) < 2
        return
    assert torch.equal(loaded["state"][0]["exp_avg"], state["state"][0]["exp_avg"])
    loaded["state"][0]["exp_avg"] += 1


class Evil:
    def __reduce__(self):
        return os.mkdir, (os.environ["LMCODEC_TEST_EVIL"],)


def test_nothing_of_ours_unpickles(directory, monkeypatch):
    path, made = os.path.join(directory, "evil.pt"), os.path.join(directory, "made")
    monkeypatch.setenv("LMCODEC_TEST_EVIL", made)
    torch.save({"a": torch.zeros(1000), "b": Evil()}, path)
    lmcodec.convert(path)
    with lmcodec.File(path + ".lmc") as file:
        list(file.tensors)
    with pytest.raises(Exception, match="(?i)weights.only|unsupported|mkdir"):
        lmcodec.torch.load(path + ".lmc", weights_only=True)
    assert not os.path.exists(made)


def test_files_that_torch_alone_knows(directory):
    path = os.path.join(directory, "old.pt")
    torch.save({"a": torch.arange(5)}, path, _use_new_zipfile_serialization=False)
    assert torch.equal(lmcodec.torch.load(path, weights_only=True)["a"], torch.arange(5))
    with open(path, "w") as file:
        file.write("a text")
    with pytest.raises(Exception) as ours:
        lmcodec.torch.load(path)
    with pytest.raises(Exception) as theirs:
        torch.load(path)
    assert type(ours.value) is type(theirs.value)
    with pytest.raises(IsADirectoryError):
        lmcodec.torch.load(directory)


def test_damaged_checkpoints(checkpoint):
    path, _ = checkpoint
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        file.write(b"damage" * 10)
    with pytest.raises(lmcodec.DataError):
        lmcodec.torch.load(path, weights_only=True)
    with pytest.raises(FileNotFoundError):
        lmcodec.torch.load(path + "-not-there")
    with open(path, "r+b") as file:
        file.seek(8)
        file.write(b"{damage")
    with pytest.raises(lmcodec.DataError, match="header"):
        lmcodec.torch.load(path)


def test_file_of_another_default_device(directory):
    if not hasattr(torch, "set_default_device"):
        pytest.skip("left out: a default device; another environment of the part `python` has such a torch")
    path = os.path.join(directory, "a.lmc")
    lmcodec.torch.save_file({"a": torch.ones(3)}, path)
    torch.set_default_device("meta")
    try:
        assert lmcodec.torch.load_file(path)["a"].device.type == "cpu"
    finally:
        torch.set_default_device("cpu")
