"""lmcodec.vllm.weights(parts=True): what is decoded for layers as vLLM has them (vllm_layers.py). Tensors act as the
plain ones whatever is done to them."""
import collections
import copy
import math
import os
import pickle
import random
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (Debian: python3-torch)")
pytestmark = pytest.mark.skipif(tuple(map(int, torch.__version__.split(".")[:2])) < (2, 0),
                                reason="left out: torch before 2.0; another environment of the part `python` has it")
import lmcodec  # noqa: E402
import lmcodec.torch  # noqa: E402
import lmcodec.vllm  # noqa: E402
from lmcodec import File  # noqa: E402

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import vllm_layers  # noqa: E402


@pytest.fixture
def decoded(monkeypatch):
    """Bytes of content that are decoded, by the number of the tensor: all of the blocks that a part needs."""
    counts = collections.Counter()

    def read_range(self, tensor, first_byte, nbytes, address, **options):
        if nbytes and self.is_archive:
            *_, begin, end = self._open().range_place(tensor.number, False, first_byte, nbytes)
            counts[tensor.number] += end - begin
        return read_range_of(self, tensor, first_byte, nbytes, address, **options)

    def read_many(self, tensors, *rest, **options):
        counts.update({tensor.number: tensor.nbytes for tensor in tensors})
        return read_many_of(self, tensors, *rest, **options)

    read_range_of, read_many_of = File.read_range, File.read_many
    monkeypatch.setattr(File, "read_range", read_range)
    monkeypatch.setattr(File, "read_many", read_many)
    return counts


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Path of an archive of a model, and its tensors."""
    path, tensors = str(tmp_path_factory.mktemp("model") / "model.lmc"), vllm_layers.checkpoint(1)
    lmcodec.torch.save_file(tensors, path)
    return path, tensors


def shares(decoded, path):
    """What part of each tensor was decoded."""
    with File(path) as file:
        return {name: decoded[tensor.number] / tensor.nbytes for name, tensor in file.tensors.items()}


def equal(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks(model, decoded, ranks):
    path, tensors = model
    for rank in range(ranks):
        expected, made = vllm_layers.Model(rank, ranks), vllm_layers.Model(rank, ranks)
        expected.load_weights(tensors.items())
        decoded.clear()
        made.load_weights(lmcodec.vllm.weights(path, parts=True))
        for (name, parameter), other in zip(expected.named_parameters(), made.parameters()):
            assert equal(parameter.data, other.data), (rank, name)
        found = shares(decoded, path)
        for name in ("embed", "head", "q", "qkv_in_one", "gate", "up", "gate_up_in_one", "column"):
            block = (512 << 10) * (3 if name.endswith("in_one") else 1) / (tensors[name].numel() * 2)
            share = 1 / ranks if name != "qkv_in_one" else (1024 + 256 * max(ranks // 2, 1)) / 1280 / ranks
            assert share - block <= found[name] <= share + block, (rank, name)
        for name in ("o", "down", "router", "norm", "k", "scale"):
            assert found[name] == 1, (rank, name)


def test_what_is_passed_over(model, decoded):
    """Weights of other ranks of a pipeline, of other experts; a model that is on the device meta."""
    path, tensors = model
    for name, tensor in lmcodec.vllm.weights(path, parts=True):
        assert tensor.shape == tensors[name].shape and tensor.dtype == torch.bfloat16
        assert tensor.device == torch.device("cpu") and not tensor.is_meta and tensor.is_contiguous()
        assert isinstance(tensor, torch.Tensor) and tensor.nbytes == tensors[name].numel() * 2
        if len(tensor.shape) == 2:
            torch.empty_like(tensors[name], device="meta")[:100].copy_(tensor[:100])
    found = shares(decoded, path)
    assert [name for name, share in found.items() if share] == [name for name in found if name in (
        "norm", "scale", "k", "v")]


def test_tensors_outlive_the_iterator(model):
    path, tensors = model
    found = list(lmcodec.vllm.weights(path, parts=True))
    assert all(equal(tensor.clone(), tensors[name]) for name, tensor in found)


def both(tensor):
    """Each of these returns a value for a plain tensor; a deferred one must give the same."""
    yield from (
        lambda w: w.narrow(0, 100, 200), lambda w: w.narrow(1, 256, 256), lambda w: w[5], lambda w: w[-5:, 3],
        lambda w: w[10:900:7, 3:90:2], lambda w: w.t(), lambda w: w.t().narrow(0, 8, 9).contiguous(), lambda w: w.T[3],
        lambda w: w.chunk(4)[1], lambda w: w.chunk(4, dim=1)[3], lambda w: w.split(100)[2], lambda w: w.unbind()[7],
        lambda w: w.view(-1)[1000:5000], lambda w: w.view(4, -1, 1024)[3, :, :5], lambda w: w.unsqueeze(0)[0, 5:8],
        lambda w: w[:1].squeeze(0), lambda w: w.permute(1, 0)[:9], lambda w: w.reshape(-1, 4), lambda w: w.flatten(),
        lambda w: w[:1].expand(4, -1), lambda w: w[[1, 5, 7]], lambda w: w[torch.arange(len(w)) % 2 == 0],
        lambda w: w.float(), lambda w: w.to("cpu", torch.float16), lambda w: w.cpu(), lambda w: w[:, 5:9].clone(),
        lambda w: w.view(torch.int16), lambda w: w[3:5].view(torch.uint8), lambda w: w + 1, lambda w: 1 - w[7],
        lambda w: torch.cat([w, w[:3]]), lambda w: torch.stack([w[1], w[2]], 1), lambda w: torch.narrow(w, 0, 5, 5),
        lambda w: w.sum(), lambda w: (w == w).all(), lambda w: w.data.narrow(0, 5, 5), lambda w: w.detach(),
        lambda w: torch.nn.Parameter(w, requires_grad=False).data, lambda w: torch.nn.functional.linear(w[:2], w),
        lambda w: torch.zeros(200, 1024).copy_(w.narrow(0, 0, 200)), copy.deepcopy, lambda w: w.new_ones(3),
        lambda w: pickle.loads(pickle.dumps(w)), lambda w: torch.as_tensor(w), lambda w: torch.zeros_like(w),
        # changes, seen through views that were made before and after them
        lambda w: w.mul_(2), lambda w: (w.narrow(0, 3, 2).zero_(), w)[1], lambda w: (w[3], w.add_(1))[0],
        lambda w: (w.__setitem__((slice(0, 5), 0), 9), w[:7])[1], lambda w: (w[0:4].t()[1].fill_(7), w[:4].clone())[1],
        lambda w: torch.add(w.clone(), 1, out=w), lambda w: (w[1:3].view(torch.int16).zero_(), w)[1],
    )


def values_of(tensor):
    """What is no tensor."""
    yield from (
        lambda w: w[5, 6].item(), lambda w: w[2].tolist(), lambda w: repr(w), lambda w: "%s" % w[:2], lambda w: len(w),
        lambda w: w.view(torch.int16).numpy().sum(), lambda w: w[3:5].untyped_storage().nbytes(), lambda w: w.stride(),
        lambda w: w.narrow(1, 4, 5).is_contiguous(), lambda w: w.data_ptr() % 2, lambda w: w[3].data_ptr() != 0,
        lambda w: w[4:].storage_offset(), lambda w: float(w[3, 4]), lambda w: bool((w[0] < 9).all()),
        lambda w: w.is_floating_point(), lambda w: w.is_cuda, lambda w: w.requires_grad, lambda w: w.element_size(),
        lambda w: sum(row.numel() for row in w[:3]), lambda w: torch.equal(w, w.clone()),
    )


@pytest.mark.parametrize("number", range(len(list(both(None)))))
def test_acts_as_the_tensor(model, number):
    path, tensors = model
    weights = (dict(lmcodec.vllm.weights(path, parts=True))["q"], tensors["q"].clone())
    found, expected = (list(both(None))[number](weight) for weight in weights)
    assert type(weights[0]) is not torch.Tensor and equal(found.clone(), expected)
    assert equal(weights[0].clone(), weights[1])


@pytest.mark.parametrize("number", range(len(list(values_of(None)))))
def test_has_the_values_of_the_tensor(model, number):
    path, tensors = model
    found, expected = (list(values_of(None))[number](weight) for weight in (
        dict(lmcodec.vllm.weights(path, parts=True))["q"], tensors["q"].clone()))
    assert found == expected


def test_what_torch_refuses(model):
    weight = dict(lmcodec.vllm.weights(model[0], parts=True))["q"]
    with pytest.raises(RuntimeError):
        weight.narrow(0, 1000, 100)
    with pytest.raises(RuntimeError):
        torch.zeros(5).copy_(weight)
    plain = torch.zeros_like(model[1]["q"])
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        plain.data = weight
    assert not plain.any()


def test_is_decoded_once(model, decoded):
    path, tensors = model
    weight = dict(lmcodec.vllm.weights(path, parts=True))["q"]
    decoded.clear()
    part = weight.narrow(0, 0, 512)
    first, second, third = part.clone(), part.clone(), part.clone()
    assert equal(first, tensors["q"][:512]) and equal(second, first) and equal(third, first)
    assert equal(weight.clone(), tensors["q"]) and decoded.total() <= 1.5 * weight.nbytes


def random_view(tensor, rng):
    """Slices, another order of dimensions."""
    for _ in range(rng.randrange(4)):
        kind, dimension = rng.randrange(4), rng.randrange(max(tensor.dim(), 1))
        if not tensor.dim():
            return lambda w: w
        first = rng.randrange(tensor.shape[dimension] + 1)
        index = [slice(None)] * tensor.dim()
        index[dimension] = slice(first, rng.randrange(first, tensor.shape[dimension] + 1), rng.choice([1, 1, 3]))
        order = rng.sample(range(tensor.dim()), tensor.dim())
        yield [lambda w, i=tuple(index): w[i], lambda w, o=order: w.permute(o), lambda w: w.unsqueeze(0),
               lambda w, d=dimension: w.select(d, w.shape[d] // 2) if w.shape[d] else w][kind]
        return


@pytest.mark.parametrize("sizes", [(64 << 20, 1 << 20), (100000, 1000)])
@pytest.mark.parametrize("form", ["coded", "plain", "one checksum", "delta"])
def test_parts(directory, monkeypatch, form, sizes):
    """Parts of all kinds, in pieces of several sizes."""
    from lmcodec._serving import parts
    monkeypatch.setattr(parts, "_PIECE_NBYTES", sizes[0])
    monkeypatch.setattr(parts, "_GAP_NBYTES", sizes[1])
    if form == "one checksum":
        monkeypatch.setattr(File, "piece_nbytes", lambda self, tensor, nbytes, wanted: nbytes)
    generator = torch.Generator().manual_seed(3)
    tensors = {name: torch.randn(shape, generator=generator)
               for name, shape in (("cube", (9, 100, 300)), ("long", (1024, 260)))}
    plain, archive = (os.path.join(directory, name) for name in ("a.safetensors", "a.lmc"))
    lmcodec.torch.save_file(tensors, plain)
    base = None
    if form == "delta":
        base = os.path.join(directory, "base.safetensors")
        lmcodec.torch.save_file({name: tensor * (1 + 2**-20) for name, tensor in tensors.items()}, base)
    lmcodec.convert(plain, archive, base=base, fsync=False)
    path = plain if form == "plain" else archive
    with File(path) as file:
        assert file.coding("cube").mode == ("coded" if form == "one checksum" else form)
    rng = random.Random(5)
    for _ in range(25):
        weights = dict(lmcodec.vllm.weights(path, parts=True))
        name = rng.choice(sorted(tensors))
        found, expected = weights[name], tensors[name]
        assert type(found) is not torch.Tensor
        for _ in range(3):
            for view in random_view(expected, rng):
                found, expected = view(found), view(expected)
        assert equal(found.clone(), expected.clone()), (name, expected.shape, expected.stride())


def test_columns_of_a_cube(directory, decoded):
    """Experts in one tensor: the rows of a rank are decoded of each of them."""
    path, cube = os.path.join(directory, "a.lmc"), torch.randn(4, 2048, 512).bfloat16() * 0.02
    lmcodec.torch.save_file({"cube": cube}, path)
    _, weight = next(iter(lmcodec.vllm.weights(path, parts=True)))
    assert equal(weight.narrow(1, 512, 512).clone(), cube.narrow(1, 512, 512))
    assert 0.25 <= decoded.total() / (math.prod(cube.shape) * 2) < 0.5


def test_damage(model, directory):
    path = os.path.join(directory, "model.lmc")
    with open(model[0], "rb") as file:
        content = bytearray(file.read())
    with File(model[0]) as file:
        offset, nbytes = file.place(file.find("gate"))
    content[offset + nbytes // 2] ^= 1
    with open(path, "wb") as file:
        file.write(content)
    weight = dict(lmcodec.vllm.weights(path, parts=True))["gate"]
    assert equal(weight[:100].clone(), model[1]["gate"][:100])
    for use in (lambda: weight.clone(), lambda: torch.zeros(2048, 64).copy_(weight[:, :64]), lambda: weight.data_ptr()):
        with pytest.raises(lmcodec.DataError, match="gate"):
            use()


def test_at_a_url(model, directory):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    fsspec.filesystem("memory").put(model[0], "parts/model.lmc")
    for rank in (0, 3):
        expected, made = vllm_layers.Model(rank, 4), vllm_layers.Model(rank, 4)
        expected.load_weights(model[1].items())
        made.load_weights(lmcodec.vllm.weights("memory://parts/model.lmc", parts=True))
        assert all(equal(a.data, b.data) for a, b in zip(expected.parameters(), made.parameters()))


def test_memory_is_used_again(directory):
    """Only that of tensors which are gone, with all their views."""
    path = os.path.join(directory, "a.lmc")
    tensors = {"t%02d" % n: torch.full((600, 1024 + 64 * (n % 3)), float(n)) for n in range(12)}
    lmcodec.torch.save_file(tensors, path)
    for is_in_parts in (False, True):
        addresses = set()
        for name, tensor in lmcodec.vllm.weights(path, parts=is_in_parts):
            assert equal(tensor.clone(), tensors[name])
            addresses.add(tensor.data_ptr())
        assert len(addresses) <= 6
        rows = {name: tensor[7:9] for name, tensor in lmcodec.vllm.weights(path, parts=is_in_parts)}
        assert all(equal(row.clone(), tensors[name][7:9]) for name, row in rows.items())
