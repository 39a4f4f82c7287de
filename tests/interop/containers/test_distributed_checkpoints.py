"""Checkpoints of torch.distributed.checkpoint with two processes: folders of .distcp files."""

import os
import subprocess
import sys
import tempfile

import pytest

from command import check, read, tree, write
from distributed_writer import state_of
from torch_objects import same, torch

import torch.distributed.checkpoint as dcp  # noqa: E402

WRITER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "distributed_writer.py")


@pytest.fixture(scope="module")
def saved():
    """Two checkpoints of a run."""
    with tempfile.TemporaryDirectory(prefix="lmc-dcp-") as folder:
        subprocess.run([sys.executable, "-W", "ignore", WRITER, folder, "10", "20"], check=True, timeout=120)
        yield folder


@pytest.fixture
def run(saved, directory):
    for step in ("step10", "step20"):
        os.mkdir(os.path.join(directory, step))
        for name, content in tree(os.path.join(saved, step)).items():
            write(os.path.join(directory, step, name), content)
    return directory


def check_loads(folder, step):
    state = state_of(step, lambda name, tensor: torch.zeros_like(tensor))
    dcp.load(state, checkpoint_id=folder)
    faults = list(same(state_of(step, lambda name, tensor: tensor), state))
    check(not faults, faults[:5])
    check(state["step"] == step, f"step {state['step']}")


def test_the_writer(run):
    names = sorted(tree(os.path.join(run, "step10")))
    check(names == [".metadata", "__0_0.distcp", "__1_0.distcp"], names)
    check_loads(os.path.join(run, "step10"), 10)


@pytest.mark.parametrize("rank", (0, 1))
def test_files_of_a_rank(tool, run, rank):
    """Archives of torch behind each other: each shard is a tensor."""
    path = os.path.join(run, "step20", f"__{rank}_0.distcp")
    archive, _ = tool.check_file(path)
    listed = tool.listing(archive)
    whole = state_of(20, lambda name, tensor: tensor)
    places = {}
    for name, weight in whole["model"].items():
        for dtype, tensor in (("BF16", weight), ("F32", whole["optimizer"][name]["exp_avg"]),
                              ("F32", whole["optimizer"][name]["exp_avg_sq"])):
            if name != "norm.weight":
                shard = list(tensor.chunk(2)[rank].shape)
                places.setdefault((dtype, tuple(shard)), []).append(name)
    for name, (dtype, shape, nbytes) in listed.items():
        check(name.split("/")[0].isdigit(), f"{name}: no number of an archive")
        if (dtype, tuple(shape)) in places and nbytes > 0:
            places[dtype, tuple(shape)].pop()
    check(not any(places.values()), f"not listed: {places}; listed: {listed}")


def test_folder(tool, run):
    folder = os.path.join(run, "step10")
    written = tool.check_folder(folder)
    check(sorted(written) == [".metadata", "__0_0.distcp.lmc", "__1_0.distcp.lmc"], sorted(written))
    check_loads(folder + ".back", 10)


def test_folder_with_a_base(tool, run):
    first, second = (os.path.join(run, step) for step in ("step10", "step20"))
    tool.run("convert", first)
    tool.check_folder_base(first + ".lmc", second, 0.9)
    check_loads(second + ".back", 20)


def test_damaged_folder(tool, run):
    """One flipped bit in an archive: nothing is restored, and the file is named."""
    folder = os.path.join(run, "step10")
    tool.run("convert", folder)
    path = os.path.join(folder + ".lmc", "__1_0.distcp.lmc")
    content = bytearray(read(path))
    content[len(content) // 2] ^= 16
    write(path, bytes(content))
    tool.run("restore", folder + ".lmc", "-o", folder + ".back", status=1)
    check("__1_0.distcp.lmc" in tool.message, f"message: {tool.message}")
    check(not os.path.exists(folder + ".back"), "a folder is left after a failure")
