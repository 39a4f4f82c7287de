"""Tensors that are read to memory which exists, or to another dtype: with NumPy, torch and JAX."""
import os

import pytest

numpy = pytest.importorskip("numpy", reason="NumPy is not installed")

import lmcodec  # noqa: E402
import lmcodec.numpy  # noqa: E402
from lmcodec._files import into, slices  # noqa: E402

SHAPE = (700, 1000)  # 2.8 MB of f4


@pytest.fixture
def values():
    random = numpy.random.default_rng(4)
    return {"w": random.standard_normal(SHAPE, dtype="f4"), "b": random.standard_normal(7, dtype="f4"),
            "n": numpy.arange(12, dtype="i8").reshape(3, 4), "s": numpy.float64(1.5), "e": numpy.zeros((0, 3), "f4"),
            "noise": numpy.frombuffer(random.bytes(400000), "u1")}


@pytest.fixture
def path(directory, values):
    name = os.path.join(directory, "a.lmc")
    lmcodec.numpy.save_file(values, name)
    return name


@pytest.fixture(params=["archive", "plain"])
def either(request, directory, values):
    name = os.path.join(directory, "a.lmc" if request.param == "archive" else "a.safetensors")
    lmcodec.numpy.save_file(values, name)
    return name


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(into, "_PIECE_NBYTES", 3000)


# ---- NumPy ----

def test_arrays_are_filled(either, values):
    out = {name: numpy.full_like(value, 3) for name, value in values.items()}
    addresses = {name: array.ctypes.data for name, array in out.items()}
    told = []
    lmcodec.numpy.load_into(out, either, progress=lambda done, total: told.append((done, total)))
    assert all((out[name] == values[name]).all() and out[name].ctypes.data == addresses[name] for name in values)
    assert told == sorted(told) and told[-1][0] == told[-1][1]


def test_one_array(path, values):
    out = numpy.empty(SHAPE, "f4")
    with lmcodec.safe_open(path, "np") as file:
        assert file.get_tensor("w", out=out) is out and (out == values["w"]).all()
        both = file.get_tensors(["w", "b"], out={"b": numpy.empty(7, "f4")})
        assert (both["w"] == values["w"]).all() and (both["b"] == values["b"]).all()
        assert file.get_tensors(out={"w": out})["w"] is out


OTHERS = {
    "dtype": lambda shape: numpy.empty(shape, "f8"),
    "byte order": lambda shape: numpy.empty(shape, ">f4"),
    "columns": lambda shape: numpy.empty(shape, "f4", "F"),
    "every second": lambda shape: numpy.empty((shape[0], 2 * shape[1]), "f4")[:, ::2],
    "turned": lambda shape: numpy.empty(shape, "f4")[::-1],
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("threads", [1, 2])
def test_other_dtypes_and_layouts(path, values, small_pieces, make, threads):
    """Rows are larger than a piece here."""
    out = make(SHAPE)
    with lmcodec.safe_open(path, "np", threads=threads) as file:
        file.get_tensor("w", out=out)
    assert (out == values["w"]).all()


def test_what_is_stored_with_one_checksum_is_cut_too(path, values, small_pieces):
    out = numpy.empty(400000, "u2")
    lmcodec.numpy.load_into({"noise": out, "s": numpy.empty((), "f4")}, path)
    assert (out == values["noise"]).all()


def test_arrays_that_overlap(directory):
    """The later one wins, as it does when they are copied one after the other."""
    name, room = os.path.join(directory, "a.lmc"), numpy.zeros(300000, "f4")
    first, second = (numpy.random.default_rng(n).standard_normal(200000).astype("f4") for n in (1, 2))
    lmcodec.numpy.save_file({"first": first, "second": second}, name)
    lmcodec.numpy.load_into({"first": room[:200000], "second": room[100000:]}, name)
    assert (room[:100000] == first[:100000]).all() and (room[100000:] == second).all()


def test_what_is_refused_before_anything_is_written(path, values):
    def kept():
        return {"w": numpy.full(SHAPE, 3, "f4")}

    read_only = numpy.empty(7, "f4")
    read_only.flags.writeable = False
    one_for_all = numpy.lib.stride_tricks.as_strided(numpy.zeros(1, "f4"), (7,), (0,))
    for more, error, text in (({"x": kept()["w"]}, lmcodec.TensorNotFound, "x"),
                              ({"b": numpy.empty(8, "f4")}, lmcodec.ArgumentError, r"tensor 'b'.*\[8\].*\[7\]"),
                              ({"b": read_only}, lmcodec.ArgumentError, "read-only"),
                              ({"b": one_for_all}, lmcodec.ArgumentError, "'b': out has several elements"),
                              ({"b": [1]}, TypeError, "'b': out is .* list"),
                              ({"b": None}, TypeError, "None")):
        out = {**kept(), **more}
        with pytest.raises(error, match=text):
            lmcodec.numpy.load_into(out, path)
        assert (out["w"] == 3).all()
    with lmcodec.safe_open(path, "np") as file, pytest.raises(lmcodec.ArgumentError, match="not read"):
        file.get_tensors(["b"], out=kept())


def test_a_missing_base_is_found_before_anything_is_written(directory, path, values):
    later, out = os.path.join(directory, "later.lmc"), {"w": numpy.full(SHAPE, 3, "f4"), "b": numpy.empty(7, "f4")}
    values["w"][5] += 1
    lmcodec.numpy.save_file(values, later, base=path)
    lmcodec.numpy.load_into(out, later)
    assert (out["w"] == values["w"]).all()
    out["w"][:] = 3
    os.unlink(path)
    with pytest.raises(lmcodec.BaseError):
        lmcodec.numpy.load_into(out, later)
    assert (out["w"] == 3).all()


def test_damage(path):
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        file.write(b"damage")
    with pytest.raises(lmcodec.DataError):
        lmcodec.numpy.load_into({"w": numpy.empty(SHAPE, "f4"), "noise": numpy.empty(400000, "u1")}, path)


def test_dtypes(path, values, small_pieces):
    """Tensors of floating point are converted, all others are as they are."""
    loaded = lmcodec.numpy.load_file(path, dtype="f2")
    assert {name: str(array.dtype) for name, array in loaded.items()} == {
        "w": "float16", "b": "float16", "n": "int64", "s": "float16", "e": "float16", "noise": "uint8"}
    assert (loaded["w"] == values["w"].astype("f2")).all() and loaded["s"] == 1.5 and loaded["e"].shape == (0, 3)
    with pytest.raises(lmcodec.DTypeError):
        lmcodec.numpy.load_file(path, dtype="i4")


def test_dtypes_that_numpy_lacks(directory, small_pieces):
    extensions = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    name = os.path.join(directory, "a.lmc")
    halves = numpy.random.default_rng(1).standard_normal((30, 200)).astype(extensions.bfloat16)
    fours = numpy.array([[0.5, -1, 2, 6]] * 30, extensions.float4_e2m1fn)
    lmcodec.numpy.save_file({"a": halves, "f": fours}, name)
    loaded = lmcodec.numpy.load_file(name, dtype="f4")
    assert loaded["a"].dtype == "f4" and (loaded["a"] == halves.astype("f4")).all() and loaded["f"].dtype == fours.dtype
    out = {"a": numpy.empty((30, 200), "f4"), "f": numpy.empty((30, 4), "f4")}
    lmcodec.numpy.load_into(out, name)
    assert (out["a"] == halves.astype("f4")).all() and (out["f"] == fours.astype("f4")).all()
    scales = {"e": numpy.ones(4, extensions.float8_e8m0fnu)}
    lmcodec.numpy.save_file(scales, name)
    with pytest.raises(lmcodec.DTypeError, match="'e'.*float8_e8m0fnu"):
        lmcodec.numpy.load_file(name, dtype=extensions.float8_e4m3fn)
    with pytest.raises(lmcodec.ArgumentError, match="'e'.*float8_e8m0fnu"):
        lmcodec.numpy.load_into({"e": numpy.empty(4, extensions.float8_e4m3fn)}, name)


def test_large_arrays_are_aligned_and_writable(directory):
    name = os.path.join(directory, "a.lmc")
    lmcodec.numpy.save_file({"a": numpy.zeros(2 << 20, "f4")}, name)
    array = lmcodec.numpy.load_file(name)["a"]
    array += 1
    assert array.ctypes.data % 64 == 0 and array.flags.c_contiguous and array.sum() == 2 << 20


# ---- parts ----

INDICES = [(slice(None), slice(0, 8)), (slice(3, 650, 2), slice(5, 900, 3)), (slice(None), -1),
           (slice(7, None), Ellipsis, slice(-4, None)), slice(1, 699, 3), (slice(None), slice(5, 5)),
           (slice(None), slice(None))]


@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("framework", ["np", "pt"])
def test_parts_of_which_pieces_are_copied(path, values, monkeypatch, index, framework):
    if framework == "pt":
        pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(slices, "_PIECE_NBYTES", 50000)
    with lmcodec.safe_open(path, framework) as file:
        part = file.get_slice("w")[index]
    expected = values["w"][index]
    assert part.shape == expected.shape and (numpy.asarray(part) == expected).all()


def test_parts_by_several_threads(directory):
    name = os.path.join(directory, "a.lmc")
    whole = numpy.random.default_rng(1).standard_normal((4096, 2048), dtype="f4")
    noise = numpy.frombuffer(numpy.random.default_rng(1).bytes(16 << 20), "u1").reshape(4096, 4096)
    lmcodec.numpy.save_file({"a": whole, "noise": noise}, name)
    with lmcodec.safe_open(name, "np", threads=3) as file:
        for tensor, content in (("a", whole), ("noise", noise)):
            for first in (0, 5):
                assert (file.get_slice(tensor)[first:4000] == content[first:4000]).all()
                assert (file.get_slice(tensor)[first:, 3] == content[first:, 3]).all()


# ---- torch ----

@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def load(torch):
    import lmcodec.torch
    return lmcodec.torch


def test_tensors_are_filled(load, torch, path, values):
    out = {"w": torch.nn.Parameter(torch.zeros(SHAPE)), "b": torch.zeros(7, dtype=torch.float64),
           "n": torch.zeros(3, 4, dtype=torch.int64), "s": torch.zeros((), dtype=torch.float64),
           "e": torch.zeros(0, 3)}
    addresses = {name: tensor.data_ptr() for name, tensor in out.items()}
    load.load_into(out, path)
    assert all((out[name].detach().numpy() == values[name]).all() for name in out)
    assert {name: tensor.data_ptr() for name, tensor in out.items()} == addresses
    turned = torch.zeros(SHAPE[::-1])
    load.load_into({"w": turned.t()}, path)
    assert (turned.t().numpy() == values["w"]).all()


def test_what_torch_refuses(load, torch, path):
    kept = torch.full(SHAPE, 3.0)
    for more, error in (({"b": torch.zeros(8)}, lmcodec.ArgumentError), ({"b": numpy.zeros(7)}, TypeError),
                        ({"b": torch.zeros(7, device="meta")}, lmcodec.ArgumentError)):
        with pytest.raises(error):
            load.load_into({"w": kept, **more}, path)
    assert (kept == 3).all()


def resized(tensor, nbytes):
    """The tensor, whose storage now has fewer bytes than its shape needs, as FSDP frees parameters."""
    if hasattr(tensor, "untyped_storage"):
        tensor.untyped_storage().resize_(nbytes)
    else:  # before torch 2.0
        tensor.storage().resize_(nbytes // tensor.element_size())
    return tensor


def fake(torch):
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode():
        return torch.empty(7)


def fours(torch):
    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip("this torch has no fp4")
    return torch.zeros(7, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)


UNWRITABLE = {
    "per tensor": lambda torch: torch.quantize_per_tensor(torch.zeros(7), 0.1, 0, torch.quint8),
    "of 32 bits": lambda torch: torch.quantize_per_tensor(torch.zeros(7), 0.1, 0, torch.qint32),
    "per channel": lambda torch: torch.quantize_per_channel(torch.zeros(7), torch.ones(7), torch.zeros(7), 0,
                                                            torch.qint8),
    "too small": lambda torch: resized(torch.zeros(7), 12),
    "small, with gaps": lambda torch: resized(torch.zeros(14)[::2], 48),
    "freed": lambda torch: resized(torch.zeros(7), 0),
    "parameter": lambda torch: resized(torch.nn.Parameter(torch.zeros(7)), 0),
    "meta": lambda torch: torch.empty(7, device="meta"),
    "fake": fake,
    "zeros": lambda torch: torch._efficientzerotensor((7,)),
    "expanded": lambda torch: torch.zeros(1).expand(7),
    "sparse": lambda torch: torch.zeros(7).to_sparse(),
    "nested": lambda torch: torch.nested.nested_tensor([torch.zeros(3), torch.zeros(4)]),
    "fp4": fours,
}


@pytest.mark.parametrize("make", UNWRITABLE.values(), ids=UNWRITABLE)
def test_tensors_that_cannot_be_written(load, torch, path, values, make):
    """They are named, and nothing has been written to others."""
    kept, frame = torch.full(SHAPE, 3.0), lmcodec.encode(values["b"])
    with pytest.raises(lmcodec.ArgumentError, match="tensor 'b': out "):
        load.load_into({"w": kept, "b": make(torch)}, path)
    assert (kept == 3).all()
    with pytest.raises(lmcodec.ArgumentError):
        load.decode(frame, out=make(torch))


def test_dtypes_that_torch_does_not_convert(load, torch, directory, path, values):
    kept, name = torch.full((7,), 3.0), os.path.join(directory, "f.lmc")
    load.save_file({"a": torch.zeros(7), "f": fours(torch)}, name)
    with pytest.raises(lmcodec.ArgumentError, match="'f': .*float4"):
        load.load_into({"a": kept, "f": torch.zeros(7)}, name)
    assert (kept == 3).all()
    with pytest.raises(lmcodec.DTypeError, match="'a': .*float4"):
        load.load_file(name, dtype=torch.float4_e2m1fn_x2)


def test_a_model_whose_memory_is_freed(load, torch, directory):
    name, model = os.path.join(directory, "m.lmc"), layers(torch)
    load.save_model(model, name)
    resized(model[0].weight, 0)
    with pytest.raises(lmcodec.ArgumentError, match="0.weight"):
        load.load_model(model, name)


def test_gradients_that_need_what_was_overwritten_are_refused(load, torch, path):
    weight = torch.zeros(7, requires_grad=True)
    loss = (weight * weight).sum()
    load.load_into({"b": weight}, path)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_dtypes_of_torch(load, torch, path, values, small_pieces):
    loaded = load.load_file(path, dtype=torch.bfloat16)
    assert torch.equal(loaded["w"], torch.from_numpy(values["w"]).to(torch.bfloat16))
    assert loaded["n"].dtype == torch.int64 and loaded["s"].dtype == loaded["e"].dtype == torch.bfloat16
    with pytest.raises(lmcodec.DTypeError):
        load.load_file(path, dtype=torch.int32)
    with pytest.raises(lmcodec.DTypeError):
        load.load_file(path, dtype="float32")


def test_views_of_a_checkpoint(load, torch, directory, small_pieces):
    name, whole = os.path.join(directory, "a.pt"), torch.randn(60, 90)
    torch.save({"a": whole, "turned": whole.t()}, name)
    lmcodec.convert(name)
    loaded = load.load_file(name + ".lmc", dtype=torch.float64)
    assert torch.equal(loaded["turned"], whole.t().double()) and loaded["a"].dtype == torch.float64
    out = {"a": torch.zeros(60, 90), "turned": torch.zeros(90, 60), "x": torch.zeros(60, 90, dtype=torch.float64)}
    load.load_into({"a": out["a"], "turned": out["turned"]}, name + ".lmc")
    load.load_into({"a": out["x"], "turned": out["a"].t()}, name + ".lmc")
    assert torch.equal(out["a"], whole) and torch.equal(out["turned"], whole.t())
    assert torch.equal(out["x"], whole.double())


def layers(torch, **options):
    return torch.nn.Sequential(torch.nn.Linear(300, 200, **options), torch.nn.BatchNorm1d(200))


def test_load_model_decodes_to_the_parameters(load, torch, directory, monkeypatch):
    name, model, other = os.path.join(directory, "m.lmc"), layers(torch), layers(torch)
    load.save_model(model, name)
    addresses = [tensor.data_ptr() for tensor in other.state_dict().values()]
    made = []
    monkeypatch.setattr(torch, "empty", lambda *arguments, **options: made.append(arguments))
    assert load.load_model(other, name) == (set(), [])
    monkeypatch.undo()
    assert made == [] and [tensor.data_ptr() for tensor in other.state_dict().values()] == addresses
    assert all(torch.equal(tensor, other.state_dict()[key]) for key, tensor in model.state_dict().items())


def test_load_model_converts_and_reports_as_before(load, torch, directory):
    name, model = os.path.join(directory, "m.lmc"), layers(torch)
    load.save_model(model, name)
    doubles = layers(torch, dtype=torch.float64)
    load.load_model(doubles, name)
    assert torch.equal(doubles[0].weight, model[0].weight.double())
    with pytest.raises(RuntimeError, match="size mismatch"):
        load.load_model(torch.nn.Sequential(torch.nn.Linear(300, 201), torch.nn.BatchNorm1d(200)), name)
    with pytest.raises(RuntimeError, match="Missing key"):
        load.load_model(torch.nn.Sequential(*layers(torch), torch.nn.Linear(2, 2)), name)


def test_hooks_see_what_the_file_holds(load, torch, directory):
    """A hook that changes a tensor before it is loaded, and one that renames it."""
    name, model, other = os.path.join(directory, "m.lmc"), layers(torch), layers(torch)
    load.save_model(model, name)

    def change(state, prefix, *_):
        state[prefix + "weight"] = -state[prefix + "weight"]

    other[0]._register_load_state_dict_pre_hook(change)
    load.load_model(other, name)
    assert torch.equal(other[0].weight, -model[0].weight) and torch.equal(other[0].bias, model[0].bias)


# ---- JAX ----

def test_jax(path, values):
    reason = "left out: no jax here; another environment of the part `python` has it"
    jax_numpy = pytest.importorskip("jax.numpy", reason=reason)
    import lmcodec.flax
    loaded = lmcodec.flax.load_file(path, dtype="bfloat16")
    assert loaded["w"].dtype == jax_numpy.bfloat16 and isinstance(loaded["w"], jax_numpy.ndarray)
    with lmcodec.safe_open(path, "flax") as file:
        out = numpy.empty(SHAPE, "f4")
        assert file.get_tensor("w", out=out) is out and (out == values["w"]).all()
        with pytest.raises(TypeError, match="NumPy"):
            file.get_tensor("w", out=jax_numpy.zeros(SHAPE))
