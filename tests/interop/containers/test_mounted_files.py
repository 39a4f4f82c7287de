"""Files of torch and NumPy that `lmc-st mount` shows are loaded and mapped as they are."""

import contextlib
import os
import subprocess

import numpy
import pytest

from command import check, check_equal_trees, tree
from torch_objects import OBJECTS, load, same, torch

CAN_MAP = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 1)  # torch.load(mmap=True)


@contextlib.contextmanager
def mounted(tool, source, place):
    os.mkdir(place)
    done = subprocess.run([tool.path, "mount", source, place], capture_output=True, text=True, timeout=120)
    if done.returncode == 3:
        pytest.skip("nothing can be mounted here: " + done.stderr)
    check(done.returncode == 0, f"mount: exit {done.returncode}: {done.stderr}")
    try:
        yield place
    finally:
        tool.run("unmount", place)


@pytest.fixture
def folder(directory):
    path = os.path.join(directory, "files")
    os.mkdir(path)
    return path


def test_torch(tool, directory, folder):
    values = {name: OBJECTS[name]() for name in OBJECTS}
    for name, value in values.items():
        torch.save(value, os.path.join(folder, name + ".pt"))
    tool.run("convert", folder)
    with mounted(tool, folder + ".lmc", os.path.join(directory, "mounted")) as place:
        check_equal_trees(tree(folder), tree(place))
        for name, value in values.items():
            faults = list(same(value, load(os.path.join(place, name + ".pt"))))
            check(not faults, faults[:5])


@pytest.mark.skipif(not CAN_MAP, reason="left out: torch.load() has no mmap before torch 2.1")
def test_torch_mapped(tool, directory, folder):
    weights = {f"layer{i}": torch.randn(300, 400 + i) for i in range(20)}
    torch.save(weights, os.path.join(folder, "weights.pt"))
    tool.run("convert", folder)
    with mounted(tool, folder + ".lmc", os.path.join(directory, "mounted")) as place:
        mapped = torch.load(os.path.join(place, "weights.pt"), mmap=True, weights_only=True)
        different = [name for name in reversed(weights) if not mapped[name].equal(weights[name])]
        del mapped  # what is mapped is in use
        check(not different, different)


def test_numpy(tool, directory, folder):
    values = numpy.random.default_rng(1).standard_normal((2000, 300))
    numpy.save(os.path.join(folder, "rows.npy"), values)
    numpy.savez(os.path.join(folder, "both.npz"), values=values, others=values[::-1])
    tool.run("convert", folder)
    with mounted(tool, folder + ".lmc", os.path.join(directory, "mounted")) as place:
        mapped = numpy.load(os.path.join(place, "rows.npy"), mmap_mode="r")
        picked = numpy.array(mapped[1999::-7, 5])
        del mapped
        check((picked == values[1999::-7, 5]).all(), "mapped rows differ")
        with numpy.load(os.path.join(place, "both.npz")) as both:
            check((both["others"] == values[::-1]).all(), "an array differs")
