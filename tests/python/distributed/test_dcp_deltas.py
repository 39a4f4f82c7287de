"""Checkpoints that are coded against the one before."""
import json
import os
import shutil
import warnings

from dcp_ranks import (damage, dcp, differences, distributed, error_of, example, load, load_whole, numbers, on_ranks,
                       save, sharded, torch)

import pytest

import lmcodec
from lmcodec.dcp import Reader, Writer


def big(step):
    """A matrix of which a tenth changes by little in a step."""
    bits = numbers(1, 256, 512, dtype=torch.bfloat16).view(torch.int16)
    for number in range(1, step + 1):
        bits[number % 10::10] += 1
    return bits.view(torch.bfloat16)


def state_of(step):
    return {"big": sharded(big(step)), "still": sharded(numbers(2, 100, 100)), "step": step}


def steps(directory):
    return [os.path.join(directory, "step-%d" % step) for step in range(10)]


def save_run(directory, count, options):
    paths = steps(directory)
    for step in range(count):
        base = paths[step - 1] if step else None
        dcp.save(state_of(step), storage_writer=Writer(paths[step], base=base, fsync=False, **options))


def load_run(directory, wanted, reader_options):
    found = []
    for step in wanted:
        state = {"big": torch.zeros_like(state_of(0)["big"]), "still": sharded(torch.zeros(100, 100)), "step": None}
        dcp.load(state, storage_reader=Reader(steps(directory)[step], **reader_options))
        found += differences(state, state_of(step))
    return found


def manifest_of(path):
    with open(os.path.join(path, "lmc_dcp.json")) as file:
        return json.load(file)


def stored_nbytes(path):
    return sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path) if name.endswith(".lmc"))


def test_a_chain_with_key_frames(directory):
    on_ranks(2, save_run, directory, 6, {"key_every": 4})
    chains = [manifest_of(path)["chain"] for path in steps(directory)[:6]]
    assert chains == [0, 1, 2, 3, 0, 1]
    assert manifest_of(steps(directory)[1])["base"]["path"] == "../step-0"
    sizes = [stored_nbytes(path) for path in steps(directory)[:6]]
    assert all(sizes[step] < sizes[0] / 4 for step in (1, 2, 3, 5)) and sizes[4] > sizes[0] / 2
    for count in 2, 1, 3:
        assert on_ranks(count, load_run, directory, range(6), {"threads": 2}) == [[]] * count


def test_a_base_on_another_drive(directory, monkeypatch):
    """Windows has no path from one drive to another: the manifest has the whole path."""
    def relpath(path, start):
        raise ValueError("path is on mount 'C:', start on mount 'D:'")
    monkeypatch.setattr(os.path, "relpath", relpath)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step, base in enumerate([None, steps(directory)[0]]):
            writer = Writer(steps(directory)[step], base=base, fsync=False)
            dcp.save({"big": big(step)}, storage_writer=writer, no_dist=True)
    assert manifest_of(steps(directory)[1])["base"]["path"] == os.path.realpath(steps(directory)[0])
    state = {"big": torch.zeros_like(big(0))}
    dcp.load(state, storage_reader=Reader(steps(directory)[1]), no_dist=True)
    assert torch.equal(state["big"], big(1))


def save_renamed(directory, prefixes):
    paths = steps(directory)
    for step, prefix in enumerate(prefixes):
        state = {prefix + name: value for name, value in state_of(step).items()}
        base = paths[step - 1] if step else None
        dcp.save(state, storage_writer=Writer(paths[step], base=base, fsync=False))


def load_renamed(directory, prefixes):
    found = []
    for step, prefix in enumerate(prefixes):
        state = {prefix + "big": torch.zeros_like(state_of(0)["big"]),
                 prefix + "still": sharded(torch.zeros(100, 100)), prefix + "step": None}
        dcp.load(state, storage_reader=Reader(steps(directory)[step]))
        found += differences({name[len(prefix):]: value for name, value in state.items()}, state_of(step))
    return found


def test_names_that_wrappers_change(directory):
    """Of equal shards: the files are found by the rank, the tensors without the wrappers' parts."""
    prefixes = ["", "module.", "module._orig_mod.", "trainer.net.", ""]
    on_ranks(2, save_renamed, directory, prefixes)
    sizes = [stored_nbytes(path) for path in steps(directory)[:5]]
    assert all(size < sizes[0] / 4 for size in sizes[1:]), sizes
    for count in 2, 1:
        assert on_ranks(count, load_renamed, directory, prefixes) == [[]] * count


@pytest.mark.parametrize("key_every, chains", [(1, [0, 0, 0]), (2, [0, 1, 0]), (64, [0, 1, 2])])
def test_key_every(directory, key_every, chains):
    on_ranks(1, save_run, directory, 3, {"key_every": key_every})
    assert [manifest_of(path)["chain"] for path in steps(directory)[:3]] == chains
    assert on_ranks(1, load_run, directory, range(3), {}) == [[]]


def test_the_longest_chain_by_default(directory):
    on_ranks(1, save_run, directory, 9, {})
    assert [manifest_of(path)["chain"] for path in steps(directory)[:9]] == [0, 1, 2, 3, 4, 5, 6, 7, 0]
    assert on_ranks(1, load_run, directory, [7, 8], {}) == [[]]


def test_a_run_that_was_moved(directory):
    run, there = os.path.join(directory, "run"), os.path.join(directory, "there")
    os.mkdir(run)
    on_ranks(2, save_run, run, 3, {})
    os.rename(run, there)
    assert on_ranks(2, load_run, there, [2], {}) == [[]] * 2


def test_bases_in_another_folder(directory):
    on_ranks(1, save_run, directory, 3, {})
    archive, one = os.path.join(directory, "archive"), os.path.join(directory, "one")
    os.mkdir(archive)
    os.rename(steps(directory)[0], os.path.join(archive, "step-0"))
    os.rename(steps(directory)[1], one)
    told = on_ranks(1, error_of, load_run, directory, [2], {})[0]
    assert "BaseError" in told and "step-1, which was not found" in told and steps(directory)[2] in told
    assert on_ranks(1, load_run, directory, [2], {"base_dirs": [archive, one]}) == [[]]


def test_a_missing_base_of_the_base(directory):
    on_ranks(1, save_run, directory, 3, {})
    shutil.rmtree(steps(directory)[0])
    told = on_ranks(1, error_of, load_run, directory, [2], {})[0]
    assert "BaseError" in told and "step-1 was coded against" in told and steps(directory)[0] in told
    told = on_ranks(1, save_error, os.path.join(directory, "c"), steps(directory)[2])[0]
    assert "BaseError" in told and steps(directory)[0] in told


def save_over(path, step):
    dcp.save(state_of(step), storage_writer=Writer(path, fsync=False))


def test_another_save_in_the_place_of_the_base(directory):
    on_ranks(1, save_run, directory, 2, {})
    on_ranks(1, save_over, steps(directory)[0], 5)
    told = on_ranks(1, error_of, load_run, directory, [1], {})[0]
    assert "BaseError" in told and "step-0, which holds another save" in told


def warning_of_save_over(path):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        save_over(path, 5)
    return [str(warning.message) for warning in told if "overwritten" in str(warning.message)]


def test_the_warning_names_what_is_lost(directory):
    """Checkpoints beside it that need it, directly or not. What else is there does not matter."""
    on_ranks(1, save_run, directory, 4, {"key_every": 3})
    os.mkdir(os.path.join(directory, "broken"))
    for name in ("broken/lmc_dcp.json", "file"):
        with open(os.path.join(directory, name), "w") as file:
            file.write("[" * 50000)
    told, = on_ranks(1, warning_of_save_over, steps(directory)[0])[0]
    assert told.endswith("; lost with it, for they need it as a base: %s, %s" % tuple(steps(directory)[1:3]))
    told, = on_ranks(1, warning_of_save_over, steps(directory)[3])[0]
    assert told.endswith("step-3 is overwritten")


def test_another_content_in_the_place_of_the_base(directory):
    on_ranks(1, save_run, directory, 2, {})
    other = os.path.join(directory, "other")
    on_ranks(1, save_over, other, 5)
    shutil.copy(os.path.join(other, "__0_0.lmc"), os.path.join(steps(directory)[0], "__0_0.lmc"))
    told = on_ranks(1, error_of, load_run, directory, [1], {})[0]
    assert "BaseError" in told and "step-0/__0_0.lmc is not the base that is wanted" in told


def test_a_damaged_base(directory):
    on_ranks(2, save_run, directory, 3, {})
    path = os.path.join(steps(directory)[0], "__1_0.lmc")
    damage(path, "big@128,0")
    for told in on_ranks(2, error_of, load_run, directory, [2], {}):
        assert path in told and "item 'big' at [128, 0]" in told


def test_a_file_of_the_base_is_missing(directory):
    on_ranks(2, save_run, directory, 2, {})
    path = os.path.join(steps(directory)[0], "__1_0.lmc")
    os.remove(path)
    for told in on_ranks(2, error_of, load_run, directory, [1], {}):
        assert "BaseError" in told and os.path.realpath(path) + ", which is not there" in told


def test_a_base_that_is_not_there_leaves_nothing(directory):
    path = os.path.join(directory, "c")
    assert "nothing is not there" in on_ranks(1, error_of_save, path, os.path.join(directory, "nothing"))[0]
    assert os.listdir(directory) == []


def error_of_save(path, base):
    return error_of(save, path, 0, base=base)


def test_bases_that_are_none(directory):
    path = os.path.join(directory, "c")
    plain, partial = os.path.join(directory, "plain"), os.path.join(directory, "partial")
    on_ranks(1, save_plainly, plain)
    on_ranks(1, save, partial)
    os.remove(os.path.join(partial, ".metadata"))
    file = os.path.join(directory, "file")
    open(file, "w").close()
    for base, text in ((os.path.join(directory, "nothing"), "nothing is not there"),
                       (plain, "plain holds no complete checkpoint"), (partial, "partial holds no complete checkpoint"),
                       (file, "file is not there"), (path, "is not its own base")):
        told = on_ranks(2, save_error, path, base)
        assert all(text in rank for rank in told)
        assert not os.path.exists(os.path.join(path, ".metadata"))


def save_plainly(path):
    dcp.save(example(), storage_writer=dcp.FileSystemWriter(path))


def save_error(path, base):
    os.makedirs(path, exist_ok=True)
    return error_of(save, path, 0, base=base)


def test_a_base_that_needs_the_place_of_the_new_one(directory):
    on_ranks(1, save_run, directory, 3, {})
    told = on_ranks(1, save_error, steps(directory)[0], steps(directory)[2])[0]
    assert "nor a base of its base" in told
    assert on_ranks(1, load_run, directory, range(3), {}) == [[]]


def test_a_base_of_another_number_of_ranks(directory):
    base, path = os.path.join(directory, "base"), os.path.join(directory, "c")
    on_ranks(2, save, base)
    on_ranks(3, save_on_base, path, base)
    assert on_ranks(2, load, path, 1) == [[]] * 2 and on_ranks(1, load_whole, path, 1) == [[]]
    with lmcodec.File(os.path.join(path, "__2_0.lmc")) as file:
        assert file.base_name is None


def save_on_base(path, base):
    save(path, 1, base=base)


def save_grown(path, base):
    state = distributed(example(1))
    state["model"]["new"] = sharded(numbers(8, 20, 20))
    del state["plain"]
    state["model"]["uneven"] = sharded(numbers(2, 7, 6))
    dcp.save(state, storage_writer=Writer(path, base=base, fsync=False))
    read = {"model": {name: torch.zeros_like(tensor) for name, tensor in state["model"].items()}}
    dcp.load(read, storage_reader=Reader(path))
    return differences(read["model"], state["model"])


def test_tensors_that_come_and_go_and_change_their_shape(directory):
    base, path = os.path.join(directory, "base"), os.path.join(directory, "c")
    on_ranks(2, save, base)
    assert on_ranks(2, save_grown, path, base) == [[]] * 2
