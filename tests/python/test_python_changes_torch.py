"""Deltas between tensors of torch in memory, and the patches of vLLM that they make."""
import os
import subprocess
import sys
import types
from typing import NamedTuple, Optional, Tuple

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import lmcodec  # noqa: E402
import lmcodec.vllm  # noqa: E402
from lmcodec._changes import apply as applying  # noqa: E402
from lmcodec._changes.state import Place  # noqa: E402


def made():
    torch.manual_seed(1)
    state = {"w": torch.randn(400, 500).bfloat16(), "h": torch.randn(50000).half(), "f": torch.randn(3000),
             "n": torch.arange(5000), "flags": torch.rand(9000) < 0.5, "s": torch.tensor(2.0), "e": torch.empty(0, 3)}
    if hasattr(torch, "float8_e4m3fn"):
        state["8"] = torch.randn(4096).to(torch.float8_e4m3fn)
    return state


def changed(state, share=0.01):
    torch.manual_seed(2)
    new = {}
    for name, tensor in state.items():
        new[name] = tensor.clone()
        content = new[name].reshape(-1).view(torch.uint8)
        picked = torch.rand(content.shape) < share / max(1, tensor.element_size())
        content[picked] ^= 1
    return new


def copied(state):
    return {name: tensor.clone() for name, tensor in state.items()}


def bits(tensor):
    return tensor.detach().reshape(-1).contiguous().view(torch.uint8)


def are_equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(bits(a[name]), bits(b[name])) for name in a)


@pytest.mark.parametrize("share", [0.01, 1.0])
def test_state_dicts(share):
    old = made()
    if hasattr(torch, "float4_e2m1fn_x2"):
        old["4"] = torch.randint(0, 256, (64, 8), dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    new = changed(old, share)
    state = copied(old)
    pointers = {name: tensor.data_ptr() for name, tensor in state.items()}
    lmcodec.apply(lmcodec.delta(old, new), state)
    assert are_equal(state, new) and pointers == {name: tensor.data_ptr() for name, tensor in state.items()}


def test_a_model():
    model = torch.nn.Sequential(torch.nn.Embedding(100, 64), torch.nn.Linear(64, 100, bias=False))
    model[1].weight = model[0].weight  # tied
    old = copied(model.state_dict())
    with torch.no_grad():
        model[0].weight[7] += 1
    new = copied(model.state_dict())
    delta = lmcodec.delta(old, model.state_dict())
    model.load_state_dict(old)
    version = model[0].weight._version
    lmcodec.apply(delta, model.state_dict())
    assert are_equal(model.state_dict(), new) and model[1].weight is model[0].weight
    assert model[0].weight._version > version
    lmcodec.apply(lmcodec.delta(new, old), {"0.weight": model[0].weight, "1.weight": model[1].weight})
    assert are_equal(model.state_dict(), old)


def test_tensors_with_gaps():
    wide = torch.randn(300, 400)
    old = {"t": wide.t()}
    new = {"t": (wide + (wide > 1)).t()}
    delta = lmcodec.delta(old, new)  # is made of what they are
    state = {"t": old["t"].contiguous()}
    lmcodec.apply(delta, state)
    assert torch.equal(state["t"], new["t"])
    with pytest.raises(lmcodec.ArgumentError, match="tensor 't': .*contiguous"):
        lmcodec.apply(delta, old)
    with pytest.raises(lmcodec.ArgumentError, match="meta"):
        lmcodec.apply(delta, {"t": torch.empty(400, 300, device="meta")})
    with pytest.raises(lmcodec.ArgumentError, match="the state's array has the shape"):
        lmcodec.apply(delta, {"t": torch.empty(300, 400)})


def test_sparse_tensors():
    with pytest.raises(ValueError, match=r"sparse tensors: `\['w'\]`"):
        lmcodec.delta({"w": torch.ones(3)}, {"w": torch.ones(3).to_sparse()})


def test_what_goes_to_a_device(directory):
    """A tensor on a device is verified by a copy, and gets the changed values. Here the device is the host."""
    old = made()
    new = changed(old)
    new["more"] = torch.randn(100)
    device = {**copied(old), "more": torch.zeros(100)}
    delta = lmcodec.delta(old, new)
    with applying.opened(delta) as file:
        copies = {name: device[name].clone() for name in file.tensors}
        places = [Place(copies[name].data_ptr(), copies[name], device[name]) for name in file.tensors]
        applying.put(file, places, False, None, None)
    assert are_equal(device, new)
    assert are_equal({name: copies[name] for name in old}, old)
    wrong = copied(device)
    with applying.opened(delta) as file, pytest.raises(lmcodec.BaseError):
        applying.put(file, [Place(device[name].data_ptr(), device[name], device[name]) for name in file.tensors], False,
                     None, None)
    assert are_equal(device, wrong)


def test_listed_as_tensors(directory):
    old = made()
    new = changed(old)
    path = directory + "/d.lmc"
    lmcodec.torch.save_file(old, directory + "/base.safetensors")
    with open(path, "wb") as file:
        file.write(lmcodec.delta(old, new))
    with lmcodec.safe_open(path, "pt") as file:
        indices, values = file.changes("w")
        assert indices.dtype == torch.int32 and values.dtype == torch.bfloat16 and len(indices) == len(values) > 0
        old["w"].reshape(-1)[indices.long()] = values
        assert torch.equal(bits(old["w"]), bits(new["w"]))


def test_versions():
    old = made()
    writer, served = lmcodec.DeltaWriter(old), copied(old)
    reader = lmcodec.DeltaReader(served)
    for version in range(1, 4):
        old = changed(old)
        assert reader.apply(writer.delta(old)) == version and are_equal(served, old)


def test_the_example_of_two_processes():
    path = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "weight_updates.py")
    paths = [os.path.dirname(os.path.dirname(lmcodec.__file__)), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run([sys.executable, path, "20"], stdout=subprocess.PIPE, text=True, timeout=250,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))})
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("20 updates") and "version 20 was applied before" in lines[1]
    assert "version 21 is missing" in lines[2] and "another stream" in lines[3] and len(lines) == 5


# ---- vLLM ----

class CheckpointWeightPatch(NamedTuple):
    """As vllm.model_executor.model_loader.checkpoint_weight_patch has it (vLLM 3db6ef6b)."""

    name: str
    shape: Tuple[int, ...]
    dtype: torch.dtype
    values: torch.Tensor
    indices: Optional[torch.Tensor] = None


@pytest.fixture
def vllm(monkeypatch):
    name = "vllm.model_executor.model_loader.checkpoint_weight_patch"
    module = types.ModuleType(name)
    module.CheckpointWeightPatch = CheckpointWeightPatch
    for part in ("vllm", "vllm.model_executor", "vllm.model_executor.model_loader"):
        monkeypatch.setitem(sys.modules, part, types.ModuleType(part))
    monkeypatch.setitem(sys.modules, name, module)


def load(model, patches):
    """What load_checkpoint_weight_patches() asks of its patches and does with them, on tensors of whole parameters."""
    patches = list(patches)
    assert len({patch.indices is None for patch in patches}) <= 1, "dense and sparse patches cannot be mixed"
    for patch in patches:
        target = model[patch.name]
        assert patch.values.ndim == 1 and patch.dtype == patch.values.dtype == target.dtype
        assert tuple(patch.shape) == tuple(target.shape)
        if patch.indices is None:
            target.copy_(patch.values.view(patch.shape))
            continue
        assert patch.dtype.is_floating_point and patch.indices.dtype in (torch.int32, torch.int64)
        assert not patch.values.float().isnan().any() and len(patch.indices) == len(patch.values)
        target.reshape(-1)[patch.indices.long()] = patch.values


def test_patches(vllm):
    old = made()
    new = changed(old)
    new["h"] = old["h"].clone()  # does not change
    new["f"][5] = float("nan")
    new["more"] = torch.randn(100)
    state, model = {**copied(old), "more": torch.zeros(100)}, {**copied(old), "more": torch.zeros(100)}
    before = copied(state)
    delta = lmcodec.delta(old, new)
    patches = list(lmcodec.vllm.patches(delta, state))
    names = [patch.name for patch in patches]
    assert "h" not in names and len(set(names)) == len(names)
    sparse = [patch for patch in patches if patch.indices is not None]
    assert {"w"} <= {patch.name for patch in sparse} and patches[:len(sparse)] == sparse
    assert {"f", "more"} <= {patch.name for patch in patches[len(sparse):]}
    load(model, sparse)
    load(model, patches[len(sparse):])
    assert are_equal(model, new) and are_equal(state, before)
    lmcodec.apply(delta, state)
    assert are_equal(state, new)
    with pytest.raises(lmcodec.BaseError):
        list(lmcodec.vllm.patches(delta, state))


def test_patches_without_vllm(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ImportError):
        next(lmcodec.vllm.patches(b"", {}))
