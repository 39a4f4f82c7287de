"""Checkpoints that are damaged, incomplete, or not of this package."""
import json
import os
import pickle
import resource
import signal

from dcp_ranks import (KILLED, blank, damage, dcp, dist, distributed, error_of, example, flip, load, on_ranks, save,
                       torch)

import pytest

import lmcodec
from lmcodec.dcp import Lmc, Reader, Writer, registry


def error_of_load(path):
    return error_of(load, path)


def test_a_damaged_file_of_a_rank(directory):
    path = os.path.join(directory, "c")
    on_ranks(2, save, path)
    file = os.path.join(path, "__1_0.lmc")
    damage(file, "model.big@32,0")
    for told in on_ranks(2, error_of_load, path):
        assert "item 'model.big' at [32, 0]" in told and file in told and "tensor 'model.big@32,0'" in told
    told = on_ranks(1, error_of_load, path)[0]
    assert "ChecksumError" in told and "item 'model.big' at [32, 0]" in told


@pytest.mark.parametrize("name, nbytes", [("__1_0.lmc", 100), ("__0_0.lmc", 0), ("__1_0.lmc", -1), (".metadata", 50)])
def test_a_file_that_was_cut(directory, name, nbytes):
    path = os.path.join(directory, "c")
    on_ranks(2, save, path)
    file = os.path.join(path, name)
    os.truncate(file, nbytes if nbytes >= 0 else os.path.getsize(file) + nbytes)
    assert all("Error" in told and os.path.join("c", name) in told for told in on_ranks(2, error_of_load, path))


def test_a_file_that_is_missing(directory):
    path = os.path.join(directory, "c")
    on_ranks(2, save, path)
    os.remove(os.path.join(path, "__1_0.lmc"))
    assert all("__1_0.lmc" in told and "FileNotFoundError" in told for told in on_ranks(2, error_of_load, path))


def test_a_file_of_another_checkpoint(directory):
    """It is well-formed: only the sizes in .metadata and the names tell."""
    path, other = os.path.join(directory, "c"), os.path.join(directory, "other")
    on_ranks(2, save, path)
    on_ranks(3, save, other)
    os.replace(os.path.join(other, "__1_0.lmc"), os.path.join(path, "__1_0.lmc"))
    for told in on_ranks(2, error_of_load, path):
        assert "DataError" in told and "item 'model." in told


def test_an_incomplete_checkpoint(directory):
    path = os.path.join(directory, "c")
    on_ranks(2, save, path)
    os.remove(os.path.join(path, ".metadata"))
    assert all("c has no .metadata" in told for told in on_ranks(2, error_of_load, path))
    assert all("No such file" in told for told in on_ranks(1, error_of_load, os.path.join(directory, "none")))


def manifest(**changes):
    return json.dumps({"lmc_dcp": 1, "save_id": "a", "level": "max", "key_every": 8, "chain": 1, "base": None,
                       **changes})


@pytest.mark.parametrize("text, told", [
    ("", "lmc_dcp.json"), ("{}", "has no 'lmc_dcp'"), ('{"lmc_dcp": 2}', "newer than this package"),
    ("[]", "has no 'lmc_dcp'"), (manifest(chain="a"), "has no 'chain'"), (manifest(base=[]), "has no 'base'"),
    (manifest(base={"path": 5, "save_id": "a"}), "lmc_dcp.json: the manifest has no 'path'"),
    ("[" * 50000, "DataError: "), (manifest() + " " * 70000, "at most 65536 bytes"),
    ('{"lmc_dcp": 1, "save_id": "a", "level": "max", "key_every": 8, "chain": 0, "base": null}', "not of one save")])
def test_another_manifest(directory, text, told):
    path = os.path.join(directory, "c")
    on_ranks(1, save, path)
    with open(os.path.join(path, "lmc_dcp.json"), "w") as file:
        file.write(text)
    assert told in on_ranks(1, error_of_load, path)[0]


def test_no_room_for_the_metadata(directory):
    """Only rank 0 notices, after all files of data are there."""
    path = os.path.join(directory, "c")
    told = on_ranks(1, save_without_room, path)[0]
    assert "OSError" in told and os.path.join(path, ".metadata") in told
    assert sorted(os.listdir(path)) == ["__0_0.lmc", "lmc_dcp.json"]


def save_without_room(path):
    state = {"t%d" % number: torch.zeros(1) for number in range(1000)}
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (140000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    return error_of(dcp.save, state, storage_writer=Writer(path, fsync=False))


def test_a_newer_layout_in_the_metadata(directory):
    path = os.path.join(directory, "c")
    on_ranks(1, save, path)
    with open(os.path.join(path, ".metadata"), "rb") as file:
        metadata = pickle.load(file)
    for info in metadata.storage_data.values():
        info.transform_descriptors = ["lmcodec.dcp.Reader/2"]
    with open(os.path.join(path, ".metadata"), "wb") as file:
        pickle.dump(metadata, file)
    assert "UnsupportedError" in on_ranks(1, error_of_load, path)[0]


class Killed(dcp.DefaultSavePlanner):
    """Kills a rank when an item of it is saved."""

    def __init__(self, rank, fqn):
        super().__init__()
        self.rank, self.fqn = rank, fqn

    def resolve_data(self, item):
        if dist.get_rank() == self.rank and item.index.fqn == self.fqn:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().resolve_data(item)


def save_and_die(path, base, rank):
    planner = Killed(rank, "model.columns")
    dcp.save(distributed(example(1)), planner=planner, storage_writer=Writer(path, base=base, fsync=False))


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("with_base", [False, True], ids=["alone", "delta"])
def test_a_rank_is_killed_while_it_saves(directory, rank, with_base):
    before, path = os.path.join(directory, "before"), os.path.join(directory, "c")
    on_ranks(2, save, before)
    assert on_ranks(2, save_and_die, path, before if with_base else None, rank)[rank] == KILLED
    assert all("c has no .metadata" in told for told in on_ranks(2, error_of_load, path))
    assert on_ranks(2, load, before) == [[]] * 2
    on_ranks(2, save, path, 1)
    assert on_ranks(2, load, path, 1) == [[]] * 2


def save_over_and_die(path):
    save(path)
    save_and_die(path, None, 1)


def test_a_rank_is_killed_while_it_overwrites(directory):
    path = os.path.join(directory, "c")
    assert KILLED in on_ranks(2, save_over_and_die, path)
    assert all("c has no .metadata" in told for told in on_ranks(2, error_of_load, path))


class Failing(dcp.DefaultSavePlanner):
    """An item of rank 1 cannot be had, at the second time that it is asked for."""

    asked = 0

    def resolve_data(self, item):
        if dist.get_rank() == 1 and item.index.fqn == "model.columns":
            self.asked += 1
            if self.asked > 2:
                raise ArithmeticError("the device has gone")
        tensor = super().resolve_data(item)
        return tensor.t().clone().t() if isinstance(tensor, torch.Tensor) and tensor.dim() == 2 else tensor


def save_with_a_failing_planner(path):
    return error_of(dcp.save, distributed(example()), planner=Failing(), storage_writer=Writer(path, fsync=False))


def test_an_item_fails_while_it_is_written(directory):
    path = os.path.join(directory, "c")
    for told in on_ranks(2, save_with_a_failing_planner, path):
        assert "ArithmeticError: the device has gone" in told
    assert not os.path.exists(os.path.join(path, ".metadata")) and "__1_0.lmc" not in os.listdir(path)


def save_what_has_no_content(path, kind):
    eye = torch.eye(5)
    state = {"eye": eye.to_sparse() if kind == "sparse" else eye.to("meta") if kind == "meta" else freed(eye)}
    return error_of(dcp.save, state, storage_writer=Writer(path, fsync=False))


def freed(tensor):
    tensor.untyped_storage().resize_(8)
    return tensor


@pytest.mark.parametrize("kind", ["sparse", "meta", "freed"])
def test_what_has_no_content(directory, kind):
    told = on_ranks(1, save_what_has_no_content, os.path.join(directory, "c"), kind)[0]
    assert "DTypeError: eye: only dense tensors with content are stored" in told


def load_to_what_has_no_memory(path):
    dcp.save({"eye": torch.eye(5)}, storage_writer=Writer(path, fsync=False))
    return error_of(dcp.load, {"eye": freed(torch.eye(5))}, storage_reader=Reader(path))


def test_a_target_without_memory(directory):
    told = on_ranks(1, load_to_what_has_no_memory, os.path.join(directory, "c"))[0]
    assert "eye" in told and "has no memory of its size" in told


def save_by_torch(path, extensions):
    dcp.save(distributed(example()), storage_writer=dcp.FileSystemWriter(path, _extensions=extensions))


@pytest.mark.parametrize("extensions", [None, [Lmc()], [Lmc("fast"), Lmc("max", threads=2)]],
                         ids=["plain", "Lmc", "Lmc of Lmc"])
def test_what_the_writer_of_torch_has_written(directory, extensions):
    path = os.path.join(directory, "c")
    on_ranks(2, save_by_torch, path, extensions)
    assert on_ranks(3, load, path) == [[]] * 3
    assert on_ranks(2, load_by_torch, path) == [[]] * 2


def test_a_damaged_stream(directory):
    """Reader knows file and item, the reader of torch the file."""
    path = os.path.join(directory, "c")
    on_ranks(2, save_by_torch, path, [Lmc()])
    file = os.path.join(path, "__1_0.distcp")
    flip(file, os.path.getsize(file) // 2)
    for told in on_ranks(2, error_of_load, path):
        assert "ChecksumError" in told and file in told and "item 'model." in told
    assert all("ChecksumError" in told and file in told for told in on_ranks(2, error_of_load_by_torch, path))


def error_of_load_by_torch(path):
    return error_of(load_by_torch, path)


def load_by_torch(path):
    return load(path, 0, dcp.FileSystemReader(path, _extension_registry=registry()))


def error_of_torch(path):
    return error_of(load, path, 0, dcp.FileSystemReader(path))


def test_the_reader_of_torch_on_what_it_cannot_read(directory):
    ours, stream = os.path.join(directory, "ours"), os.path.join(directory, "stream")
    on_ranks(1, save, ours)
    on_ranks(1, save_by_torch, stream, [Lmc()])
    assert "Unknown extension name='lmcodec.dcp.Reader'" in on_ranks(1, error_of_torch, ours)[0]
    assert "Unknown extension name='stream.lmc'" in on_ranks(1, error_of_torch, stream)[0]


def load_larger(path):
    state = blank(distributed(example()))
    state["model"]["big"] = torch.zeros(64, 97)
    return error_of(dcp.load, state, storage_reader=Reader(path))


def test_a_state_of_another_size(directory):
    path = os.path.join(directory, "c")
    on_ranks(1, save, path)
    assert "model.big" in on_ranks(1, load_larger, path)[0]
