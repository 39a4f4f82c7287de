"""lmcodec.keras: weights and models of Keras 3 with LMC."""
import os
import subprocess
import sys

import pytest

pytest.importorskip("h5py", reason="h5py is not installed (Debian: python3-h5py)")
pytest.importorskip("numpy", reason="numpy is not installed (Debian: python3-numpy)")

PROGRAM = """
import os, sys
import keras, numpy
import lmcodec.h5, lmcodec.keras

def new_model(dtype=None):
    return keras.Sequential([keras.layers.Input((128,)), keras.layers.Dense(512, dtype=dtype), keras.layers.Dense(9)])

def check(model, weights):
    assert all(map(numpy.array_equal, model.get_weights(), weights))

model = new_model()
weights = model.get_weights()
for suffix in ("weights.h5", "keras", "h5"):
    plain, small = "plain." + suffix, "small." + suffix
    if suffix == "weights.h5":
        model.save_weights(plain)
        lmcodec.keras.save_weights(model, small, level="max")
        for other in (new_model(), new_model()):
            lmcodec.keras.load_weights(other, small)
            check(other, weights)
        other = new_model()
        other.load_weights(small)
        check(other, weights)
    else:
        model.save(plain)
        lmcodec.keras.save_model(model, small)
        check(lmcodec.keras.load_model(small), weights)
        check(keras.saving.load_model(small), weights)
    assert os.path.getsize(small) < 0.9 * os.path.getsize(plain), suffix
found = [report.filters for report in lmcodec.h5.inspect("small.weights.h5").values()]
assert found.count(("lmc",)) == 2 and found.count(()) == len(found) - 2, found
lmcodec.h5.repack("plain.weights.h5", "repacked.weights.h5")
other = new_model()
other.load_weights("repacked.weights.h5")
check(other, weights)
half = new_model("bfloat16")
lmcodec.keras.save_weights(half, "half.weights.h5")
assert any(report.is_lmc for report in lmcodec.h5.inspect("half.weights.h5").values())
other = new_model("bfloat16")
other.load_weights("half.weights.h5")
check(other, half.get_weights())
"""


@pytest.mark.parametrize("backend", ["torch", "jax", "numpy"])
def test_keras(directory, backend):
    needed = {"torch": "torch", "jax": "jax", "numpy": "jax"}[backend]
    probe = subprocess.run([sys.executable, "-c", "import keras, %s" % needed], capture_output=True, text=True,
                           env={**os.environ, "KERAS_BACKEND": backend, "KERAS_HOME": directory})
    if probe.returncode != 0:
        pytest.skip("left out: no Keras on %s here; another environment of the part `python` has it" % backend)
    environment = {name: value for name, value in os.environ.items() if name != "HDF5_PLUGIN_PATH"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=directory,
                          env={**environment, "KERAS_BACKEND": backend, "KERAS_HOME": directory})
    assert done.returncode == 0, done.stderr[-3000:]
