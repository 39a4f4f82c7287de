"""Weights of a Keras 3 model: saved, repacked with LMC, loaded again."""
import os

import pytest

from world import PROGRAMS, check, need_command


def python_with_keras(world):
    path = os.path.join(world.venv("venv-keras"), "bin", "python")
    if not os.path.exists(path):
        pytest.skip("needs keras and jax from the package index (scripts/setup.sh)")
    return path


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_weights(world, directory, backend):
    need_command("h5repack", "hdf5-tools")
    python = python_with_keras(world)
    plain, small, back, predictions = (os.path.join(directory, name) for name in (
        "plain.weights.h5", "small.weights.h5", "back.weights.h5", "predictions.npy"))

    def model(action, path, **environment):
        return world.run(python, os.path.join(PROGRAMS, "keras_model.py"), action, path, predictions,
                         KERAS_BACKEND=backend, KERAS_HOME=directory, **environment)

    model("save", plain).expect(0)
    world.run("h5repack", "-f", "UD=59810,1,0", plain, small).expect(0)
    ratio = os.path.getsize(small) / os.path.getsize(plain)
    check(ratio < 0.77, "repacked to %.3f of the size" % ratio)
    model("load", small).expect(0)
    check(model("load", small, HDF5_PLUGIN_PATH=directory).status != 0, "loaded without the plugin")
    world.run("h5repack", "-f", "NONE", small, back).expect(0)
    for other in (small, back):
        world.run("h5diff", plain, other).expect(0)
    model("load", back, HDF5_PLUGIN_PATH=directory).expect(0)
