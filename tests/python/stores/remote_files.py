"""Archives for tests of lmcodec.remote."""
import os

import numpy

import lmcodec.numpy


def content_of(path):
    with open(path, "rb") as file:
        return file.read()


def make_tensors(seed=5):
    random = numpy.random.default_rng(seed)
    weights = random.standard_normal((700, 1500)).astype("f4")
    return {"matrix": weights, "again": weights.copy(), "bytes": random.integers(0, 256, 100000, dtype="u1"),
            "scalar": numpy.float64(7.5), "none": numpy.zeros((0, 5), "f2"),
            "flags": random.integers(0, 2, (5, 7, 9)).astype("?"), "half": weights.astype("f2")}


def moved(tensors, step):
    """A later snapshot: a few rows have changed."""
    later = {name: array.copy() for name, array in tensors.items()}
    for name in ("matrix", "again"):
        later[name][step::50] += step
    return later


def write_chain(directory, count):
    """s0.safetensors.lmc and those that are based on it, one on another. Returns the tensors of each."""
    steps = [make_tensors()]
    for step in range(1, count):
        steps.append(moved(steps[-1], step))
    for step, tensors in enumerate(steps):
        base = None if step == 0 else path_of(directory, step - 1)
        lmcodec.numpy.save_file(tensors, path_of(directory, step), {"step": str(step)}, base=base)
    return steps


def path_of(directory, step):
    return os.path.join(directory, "s%d.safetensors.lmc" % step)


def chain_files(directory, count, folder="d/"):
    """The archives by their paths on a server."""
    return {folder + os.path.basename(path_of(directory, step)): content_of(path_of(directory, step))
            for step in range(count)}


def check_equal(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype and array.shape == other[name].shape, name
        assert array.tobytes() == other[name].tobytes(), name
