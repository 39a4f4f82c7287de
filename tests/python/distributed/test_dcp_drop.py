"""The checkpoints of a folder: listed, verified, dropped; and torch's own calls on them."""
import os
import random
import shutil
import signal
import time

from dcp_ranks import dcp, differences, error_of, flip, numbers, on_ranks, sharded, torch
from test_dcp_deltas import load_run, manifest_of, save_run, state_of, steps

import pytest

import lmcodec
from lmcodec.dcp import Reader, Writer, checkpoints, drop, enable, verify


@pytest.fixture
def run(directory):
    """Five steps in one chain, of two ranks."""
    on_ranks(2, save_run, directory, 5, {"key_every": 8})
    return directory


def load_all(directory, wanted):
    return on_ranks(2, load_run, directory, wanted, {})


def flip_middle(path):
    flip(path, os.path.getsize(path) // 2)


def chains(directory):
    return {os.path.basename(found.path): found.chain for found in checkpoints(directory)}


def test_listing(run):
    os.mkdir(os.path.join(run, "other"))
    os.unlink(os.path.join(steps(run)[4], ".metadata"))
    found = {os.path.basename(checkpoint.path): checkpoint for checkpoint in checkpoints(run)}
    assert sorted(found) == ["step-%d" % step for step in range(5)]
    assert [found["step-%d" % step].chain for step in range(5)] == [0, 1, 2, 3, 4]
    assert found["step-0"].base is None and os.path.samefile(found["step-2"].base, steps(run)[1])
    assert [found["step-%d" % step].is_complete for step in range(5)] == [True] * 4 + [False]
    assert found["step-0"].stored_nbytes > 2 * found["step-1"].stored_nbytes > 0
    assert found["step-1"].save_id == manifest_of(steps(run)[1])["save_id"]


def test_verifying(run):
    for path in steps(run)[:5]:
        verify(path)
    name = "__1_0.lmc"
    flip_middle(os.path.join(steps(run)[2], name))
    verify(steps(run)[1])
    for step in (2, 3):
        with pytest.raises(lmcodec.DataError, match=name):
            verify(steps(run)[step])
    os.unlink(os.path.join(steps(run)[1], name))
    with pytest.raises(FileNotFoundError, match=name):
        verify(steps(run)[1])


def test_verifying_a_checkpoint_of_torch(directory):
    dcp.save({"w": torch.ones(3)}, checkpoint_id=directory, no_dist=True)
    with pytest.raises(lmcodec.ArgumentError, match="not written by lmcodec.dcp.Writer"):
        verify(directory)


@pytest.mark.parametrize("gone", [[0], [2], [4], [0, 1], [0, 2], [1, 2, 3], [3, 0], [0, 1, 2, 3, 4]])
def test_dropping(run, gone):
    told = []
    drop(*[steps(run)[step] for step in gone], dropped=told.append, fsync=False)
    left = [step for step in range(5) if step not in gone]
    assert told == [steps(run)[step] for step in gone]
    assert sorted(os.listdir(run)) == ["step-%d" % step for step in left]
    expected, chain = {}, -1
    for step in range(5):
        chain = -1 if step in gone else chain + 1
        if step in left:
            expected["step-%d" % step] = chain
            verify(steps(run)[step])
            assert sorted(os.listdir(steps(run)[step])) == [".metadata", "__0_0.lmc", "__1_0.lmc", "lmc_dcp.json"]
    assert chains(run) == expected
    if left:
        assert load_all(run, left) == [[]] * 2


def test_dropping_what_is_no_checkpoint(run):
    with pytest.raises(lmcodec.ArgumentError, match="no checkpoint"):
        drop(steps(run)[0], run)
    assert len(chains(run)) == 5
    with open(os.path.join(steps(run)[4], "notes.txt"), "w") as file:
        file.write("of a user")
    drop(steps(run)[4], fsync=False)
    assert os.listdir(steps(run)[4]) == ["notes.txt"]


def test_a_damaged_dependent_keeps_its_base(run):
    flip_middle(os.path.join(steps(run)[1], "__0_0.lmc"))
    with pytest.raises(lmcodec.DataError):
        drop(steps(run)[0])
    assert chains(run)["step-0"] == 0
    verify(steps(run)[0])


def test_a_kill_while_dropping(run):
    """A child is killed at random moments; what stays can be loaded each time, and the last call ends the work."""
    rng = random.Random(1)
    for _ in range(6):
        child = os.fork()
        if child == 0:
            drop(steps(run)[0])
            os._exit(0)
        time.sleep(rng.random() * 0.05)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert load_all(run, [1, 2, 3, 4]) == [[]] * 2
        if not os.path.exists(os.path.join(steps(run)[0], "lmc_dcp.json")):
            break
    else:
        drop(steps(run)[0])
    assert load_all(run, [1, 2, 3, 4]) == [[]] * 2
    assert all(len(os.listdir(path)) == 4 for path in steps(run)[1:5])


def drop_until(count, path):
    """drop() in a child that ends before it replaces or removes its count-th file. Returns the child's status."""
    def ending_before(call):
        def counted(*args, **options):
            nonlocal count
            count -= 1
            if count == 0:
                os._exit(9)
            return call(*args, **options)
        return counted

    child = os.fork()
    if child == 0:
        os.replace, os.unlink = ending_before(os.replace), ending_before(os.unlink)
        drop(path)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_an_end_before_each_change_while_dropping(run):
    """The next call does all that is left: lengths of chains, too, and files half written."""
    before = {name: shutil.copytree(os.path.join(run, name), os.path.join(run, "kept", name))
              for name in sorted(os.listdir(run)) if name.startswith("step-")}
    for count in range(1, 100):
        status = drop_until(count, steps(run)[0])
        if os.path.exists(steps(run)[0]):
            drop(steps(run)[0], fsync=False)
        assert chains(run) == {"step-1": 0, "step-2": 1, "step-3": 2, "step-4": 3}
        for path in steps(run)[1:5]:
            verify(path)
            assert sorted(os.listdir(path)) == [".metadata", "__0_0.lmc", "__1_0.lmc", "lmc_dcp.json"]
        if status == 0:
            break
        for name, kept in before.items():
            shutil.rmtree(os.path.join(run, name), ignore_errors=True)
            shutil.copytree(kept, os.path.join(run, name))
    assert count > 10


# ---- torch's own calls ----

def load_by_path(path):
    state = {"big": torch.zeros_like(state_of(0)["big"]), "still": sharded(torch.zeros(100, 100)), "step": None}
    with enable():
        dcp.load(state, checkpoint_id=path)
    return differences(state, state_of(1))


def test_loading_by_path(run):
    assert on_ranks(2, load_by_path, steps(run)[1]) == [[], []]


def test_torch_save_of_a_checkpoint(directory):
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
    path, target = os.path.join(directory, "c"), os.path.join(directory, "c.pt")
    state = {"model": {"w": numbers(1, 20, 30, dtype=torch.bfloat16)}, "step": 3}
    dcp.save(state, storage_writer=Writer(path), no_dist=True)
    assert "Unknown extension" in str(error_of(lambda: dcp_to_torch_save(path, target)))
    with enable():
        with enable():
            pass
        dcp_to_torch_save(path, target)
    found = torch.load(target, weights_only=False)
    assert torch.equal(found["model"]["w"], state["model"]["w"]) and found["step"] == 3
    assert type(dcp.FileSystemReader(path)) is dcp.FileSystemReader


def test_checkpoints_of_torch_while_enabled(directory):
    state, found = {"w": numbers(1, 20, 30)}, {"w": torch.zeros(20, 30)}
    dcp.save(state, checkpoint_id=directory, no_dist=True)
    with enable():
        reader = dcp.FileSystemReader(directory)
        dcp.load(found, checkpoint_id=directory, no_dist=True)
    assert isinstance(reader, Reader) and torch.equal(found["w"], state["w"])


def test_disabling(directory):
    first, second = enable(), enable()
    for _ in range(2):
        first.disable()
    assert isinstance(dcp.FileSystemReader(directory), Reader)
    second.disable()
    assert type(dcp.FileSystemReader(directory)) is dcp.FileSystemReader
