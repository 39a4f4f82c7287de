"""Checkpoints of lmcodec.dcp.Writer: saved and loaded on several numbers of ranks, synchronously and not."""
import json
import os

from dcp_ranks import (PLACEMENTS, Replicate, Shard, blank, dcp, differences, dist, distribute_tensor, distributed,
                       error_of, example, init_device_mesh, load, load_whole, mesh, numbers, on_ranks, save, sharded,
                       torch)

import pytest

import lmcodec
import lmcodec.dcp
from lmcodec.dcp import Lmc, Reader, Writer


@pytest.mark.parametrize("count, again", [(2, 1), (1, 2), (2, 3), (3, 2), (2, 2)])
def test_another_number_of_ranks(directory, count, again):
    path = os.path.join(directory, "c")
    on_ranks(count, save, path)
    assert on_ranks(again, load, path) == [[]] * again


def test_another_placement_and_plain_tensors(directory):
    path = os.path.join(directory, "c")
    on_ranks(2, save, path)
    swapped = {name: Shard(1 - placement.dim) for name, placement in PLACEMENTS.items()}
    assert on_ranks(3, load, path, 0, None, swapped) == [[]] * 3
    assert on_ranks(2, load, path, 0, None, dict.fromkeys(PLACEMENTS, Replicate())) == [[]] * 2
    assert on_ranks(2, load_whole, path) == [[]] * 2


def test_what_is_on_the_disk(directory):
    path = os.path.join(directory, "c")
    on_ranks(2, save, path, 0)
    assert sorted(os.listdir(path)) == [".metadata", "__0_0.lmc", "__1_0.lmc", "lmc_dcp.json"]
    for name in "__0_0.lmc", "__1_0.lmc":
        lmcodec.verify(os.path.join(path, name))
    with lmcodec.safe_open(os.path.join(path, "__1_0.lmc"), framework="pt") as file:
        assert "model.big@32,0" in file.keys() and "model.columns@0,17" in file.keys()
        assert differences(file.get_tensor("model.big@32,0"), example()["model"]["big"][32:]) == []
    found = {}
    for name in "__0_0.lmc", "__1_0.lmc":
        with lmcodec.File(os.path.join(path, name)) as file:
            found.update((name, (tensor.dtype, tensor.shape)) for name, tensor in file.tensors.items())
    assert found["model.big@0,0"] == ("BF16", (32, 96)) and found["note.name"][0] == "U8"
    with open(os.path.join(path, "lmc_dcp.json")) as file:
        manifest = json.load(file)
    assert (manifest["lmc_dcp"], manifest["chain"], manifest["base"], manifest["level"]) == (1, 0, None, "default")


def save_without_distribution(path, options):
    state = dict(example(), level=options.get("level"))
    dcp.save(state, checkpoint_id=path, storage_writer=Writer("elsewhere", fsync=True, **options), no_dist=True)
    read = blank(state)
    dcp.load(read, checkpoint_id=path, storage_reader=Reader("elsewhere", threads=2), no_dist=True)
    return differences(read, state)


@pytest.mark.parametrize("options", [{"level": "fast"}, {"level": "max"}, {"threads": 2}, {"threads": None},
                                     {"single_file_per_rank": False}], ids=str)
def test_options_and_no_dist(directory, options):
    path = os.path.join(directory, "in", "folders")
    os.mkdir(os.path.dirname(path))
    assert on_ranks(1, save_without_distribution, path, options) == [[]]
    assert len(os.listdir(path)) == (13 if "single_file_per_rank" in options else 3)


def test_arguments_are_checked(directory):
    for wrong in {"level": "best"}, {"threads": -1}, {"key_every": 0}, {"key_every": 65}:
        with pytest.raises(lmcodec.ArgumentError):
            Writer(directory, **wrong)
    with pytest.raises(lmcodec.ArgumentError):
        Reader(directory, threads=1000)
    with pytest.raises(lmcodec.ArgumentError):
        Lmc(level="best")
    for make in (lambda: Writer(directory, base_dirs=directory), lambda: Reader(directory, base_dirs=directory),
                 lambda: Writer(directory, key_every=2.5)):
        with pytest.raises(TypeError):
            make()
    assert Writer.validate_checkpoint_id(os.path.join(directory, "new"))
    assert not Writer.validate_checkpoint_id("s3://bucket/new")
    assert Reader.validate_checkpoint_id(os.path.join(directory, "new"))


ALL_DTYPES = [getattr(torch, name) for name in (
    "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool complex64 complex128 "
    "complex32 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2").split()
    if hasattr(torch, name)]


def all_dtypes():
    generator = torch.Generator().manual_seed(9)
    state = {}
    for dtype in ALL_DTYPES:
        content = torch.randint(0, 2 if dtype == torch.bool else 256, (6 * 8 * dtype.itemsize,), dtype=torch.uint8,
                                generator=generator)
        state["%s matrix" % dtype] = content.view(dtype).reshape(6, 8)
        state["%s scalar" % dtype] = content[:dtype.itemsize].view(dtype).reshape(())
    return state


def save_and_load(path, make, options):
    """Saves what make() gives and loads it again; names that differ."""
    state = make()
    dcp.save(state, storage_writer=Writer(path, fsync=False, **options))
    read = {name: torch.empty_like(value) if isinstance(value, torch.Tensor) else None
            for name, value in state.items()}
    for value in read.values():
        if isinstance(value, torch.Tensor):
            value.untyped_storage().fill_(3)
    dcp.load(read, storage_reader=Reader(path))
    return differences(read, make())


def test_every_dtype(directory):
    assert on_ranks(1, save_and_load, os.path.join(directory, "c"), all_dtypes, {}) == [[]]
    with lmcodec.File(os.path.join(directory, "c", "__0_0.lmc")) as file:
        dtypes = {name: tensor.dtype for name, tensor in file.tensors.items()}
    assert dtypes["torch.complex128 matrix"] == "F64" and dtypes["torch.uint16 matrix"] == "U16"
    if hasattr(torch, "float4_e2m1fn_x2"):
        assert dtypes["torch.float4_e2m1fn_x2 matrix"] == "F4" and dtypes["torch.float4_e2m1fn_x2 scalar"] == "U8"


def unordered():
    whole = numbers(1, 300, 200)
    storage = numbers(2, 100, 100, dtype=torch.complex64)
    return {"transposed": whole.t(), "strided": whole[:, ::3], "part": whole[100:200],
            "expanded": whole[:1].expand(9, 200), "conj": storage.conj(), "negative": storage.conj().imag,
            "zeros": torch.zeros(1000), "ones": torch.ones(1000), "same": whole, "same again": whole.clone(),
            "none": None, "text": "a", "": torch.arange(3.0),
            "__metadata__": torch.arange(4), "a@0": 1, "name with \u00e9": torch.arange(5)}


@pytest.mark.parametrize("threads", [1, 2])
def test_memory_in_any_order(directory, threads):
    assert on_ranks(1, save_and_load, os.path.join(directory, "c"), unordered, {"threads": threads}) == [[]]


def thousand():
    return {"layer.%d" % n: numbers(n, 5, n % 7) if n % 2 else n for n in range(1000)}


def test_a_thousand_items(directory):
    assert on_ranks(2, save_and_load, os.path.join(directory, "c"), thousand, {}) == [[]] * 2


def few_rows():
    return {"rows": sharded(numbers(1, 3, 50)), "row": sharded(numbers(2, 1, 50)), "none": sharded(torch.zeros(0, 5)),
            "scalar": sharded(torch.tensor(3.0), Replicate())}


def save_few_rows(path):
    dcp.save(few_rows(), storage_writer=Writer(path, fsync=False))


def load_few_rows(path):
    read = {name: torch.ones_like(value) for name, value in few_rows().items()}
    dcp.load(read, storage_reader=Reader(path))
    return differences(read, few_rows())


def test_ranks_without_rows(directory):
    path = os.path.join(directory, "c")
    on_ranks(3, save_few_rows, path)
    assert on_ranks(2, load_few_rows, path) == [[]] * 2 and on_ranks(1, load_few_rows, path) == [[]]


def grid(placements):
    """Two matrices over a mesh of two dimensions, the second one of them smaller than the mesh in one."""
    on = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("a", "b"))
    return {name: distribute_tensor(numbers(number, *shape), on, placements)
            for number, (name, shape) in enumerate({"large": (64, 48), "small": (1, 5), "cube": (3, 4, 5)}.items())}


def save_grid(path):
    dcp.save(grid([Shard(0), Shard(1)]), storage_writer=Writer(path, fsync=False))


def load_grid(path, placements):
    wanted = grid(placements)
    read = {name: torch.zeros_like(value) for name, value in wanted.items()}
    dcp.load(read, storage_reader=Reader(path))
    return differences(read, wanted)


def test_a_mesh_of_two_dimensions(directory):
    path = os.path.join(directory, "c")
    on_ranks(4, save_grid, path)
    for count, placements in (4, [Shard(1), Shard(0)]), (2, [Shard(1), Replicate()]), (4, [Shard(0), Shard(0)]):
        assert on_ranks(count, load_grid, path, placements) == [[]] * count


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(12, 33), torch.nn.Linear(33, 12)
        self.norm = torch.nn.LayerNorm(12)

    def forward(self, values):
        return self.norm(values + self.second(torch.relu(self.first(values))))


def training():
    from torch.distributed.fsdp import fully_shard
    torch.manual_seed(3)
    model = torch.nn.Sequential(Block(), Block())
    for block in model:
        fully_shard(block, mesh=mesh())
    fully_shard(model, mesh=mesh())
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def steps(model, optimizer, first, last):
    losses = []
    for number in range(first, last):
        loss = model(numbers(number, 8, 12) * 50).square().mean()  # of the whole batch on each rank
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def train_and_save(path):
    from torch.distributed.checkpoint.state_dict import get_state_dict
    model, optimizer = training()
    steps(model, optimizer, 0, 3)
    model_state, optimizer_state = get_state_dict(model, optimizer)
    dcp.save({"model": model_state, "optimizer": optimizer_state}, storage_writer=Writer(path, fsync=False))
    return steps(model, optimizer, 3, 6)


def load_and_train(path):
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    model, optimizer = training()
    model_state, optimizer_state = get_state_dict(model, optimizer)
    state = {"model": model_state, "optimizer": optimizer_state}
    dcp.load(state, storage_reader=Reader(path))
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return steps(model, optimizer, 3, 6)


def test_fsdp_goes_on_with_another_number_of_ranks(directory):
    path = os.path.join(directory, "c")
    wanted = on_ranks(2, train_and_save, path)[0]
    for count in 2, 1, 3:
        assert on_ranks(count, load_and_train, path)[0] == pytest.approx(wanted, rel=1e-5)


def save_in_the_background(path, base):
    state = distributed(example(1))
    saving = dcp.async_save(state, storage_writer=Writer(path, fsync=False, base=base))
    for tensor in state["model"].values():  # the training goes on
        tensor.to_local().fill_(9)
    state["plain"].fill_(9)
    saving.result()


@pytest.mark.parametrize("with_base", [False, True], ids=["alone", "delta"])
def test_async_save(directory, with_base):
    base, path = os.path.join(directory, "base"), os.path.join(directory, "c")
    on_ranks(2, save, base)
    on_ranks(2, save_in_the_background, path, base if with_base else None)
    assert on_ranks(2, load, path, 1) == [[]] * 2


def save_twice(path, second, again, overwrite):
    save(path)
    return error_of(save, second, 1, overwrite=overwrite)


def test_overwriting(directory):
    path = os.path.join(directory, "c")
    on_ranks(3, save, path)
    told = on_ranks(2, save_twice, os.path.join(directory, "d"), path, 1, False)
    assert all("FileExistsError" in text and "overwrite is False" in text for text in told)
    assert on_ranks(3, load, path) == [[]] * 3
    assert on_ranks(2, save_twice, os.path.join(directory, "e"), path, 1, True) == ["nothing was raised"] * 2
    assert sorted(os.listdir(path)) == [".metadata", "__0_0.lmc", "__1_0.lmc", "lmc_dcp.json"]
    assert on_ranks(2, load, path, 1) == [[]] * 2


def save_with_cached_plans(directory):
    planner = dcp.DefaultSavePlanner(enable_plan_caching=True)
    found = []
    for step in range(3):
        path = os.path.join(directory, "step-%d" % step)
        base = os.path.join(directory, "step-%d" % (step - 1)) if step else None
        dcp.save(distributed(example(step)), planner=planner, storage_writer=Writer(path, fsync=False, base=base))
        found += load(path, step)
    return found


def test_plans_that_torch_keeps(directory):
    assert on_ranks(2, save_with_cached_plans, directory) == [[]] * 2


def load_partly_and_as_another_dtype(path):
    state = {"model": {"big": torch.zeros(64, 96), "uneven": torch.zeros(7, 5, dtype=torch.float64)}}
    dcp.load(state, storage_reader=Reader(path))
    wanted = example()["model"]
    return differences(state["model"], {"big": wanted["big"].float(), "uneven": wanted["uneven"].double()})


def test_a_part_of_the_state_as_another_dtype(directory):
    path = os.path.join(directory, "c")
    on_ranks(2, save, path)
    assert on_ranks(1, load_partly_and_as_another_dtype, path) == [[]]


def save_without_collectives(path):
    return error_of(dcp.save, example(), storage_writer=Writer(path), use_collectives=False)


def test_without_collectives(directory):
    told = on_ranks(1, save_without_collectives, os.path.join(directory, "c"))[0]
    assert "use_collectives=True" in told


def load_without_a_model(path):
    from torch.distributed.checkpoint.format_utils import _EmptyStateDictLoadPlanner
    from torch.distributed.checkpoint.state_dict_loader import _load_state_dict
    state = {}
    _load_state_dict(state, storage_reader=Reader(path), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    return differences(state, example())


def test_loaded_without_a_model(directory):
    path = os.path.join(directory, "c")
    on_ranks(2, save, path)
    assert on_ranks(1, load_without_a_model, path) == [[]]
