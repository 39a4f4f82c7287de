"""conftest.py - the package of this tree, and files to read."""
import os

import pytest

import package_of_tree

# before any module imports huggingface_hub, which reads them once; no test waits for a network then
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")


def pytest_configure(config):
    package_of_tree.use(config)


@pytest.fixture
def archive(directory):
    """Path of an archive of a few tensors, which numpy knows."""
    import numpy
    import lmcodec.numpy
    path = os.path.join(directory, "a.safetensors.lmc")
    random = numpy.random.default_rng(5)
    lmcodec.numpy.save_file({"matrix": random.standard_normal((300, 500)).astype("f4"),
                             "bytes": random.integers(0, 256, 100000, dtype="u1"),
                             "scalar": numpy.float64(7.5), "none": numpy.zeros((0, 5), "f2"),
                             "flags": random.integers(0, 2, (5, 7, 9)).astype("?")}, path, {"made by": "a test"})
    return path


@pytest.fixture
def big(directory):
    """Path of an archive of 64 MiB."""
    import numpy
    import lmcodec.numpy
    path = os.path.join(directory, "big.lmc")
    random = numpy.random.default_rng(6)
    lmcodec.numpy.save_file({"t%d" % n: random.standard_normal((1024, 2048), dtype="f4") for n in range(8)}, path)
    return path
