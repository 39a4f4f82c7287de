"""The examples of docs/python_frameworks.md run, a section after another, in an empty folder."""
import importlib.util
import os
import subprocess
import sys

import pytest

from documents import examples_of

NEEDED = {"HDF5": "h5py", "Keras": "keras", "transformers": "transformers", "Trainer": "accelerate",
          "diffusers": "diffusers", "Lightning": "lightning.pytorch", "Orbax": "jax", "fsspec": "fsspec",
          "Reinforcement learning: versions of weights": "numpy"}
COUNTS = {"HDF5": 4, "Keras": 1, "transformers": 1, "Trainer": 1, "diffusers": 1, "Lightning": 1, "Orbax": 1,
          "fsspec": 1, "Reinforcement learning: versions of weights": 1}


@pytest.mark.parametrize("section", NEEDED)
def test_every_example_runs(directory, section):
    found = examples_of("python_frameworks.md", section)
    assert len(found) == COUNTS[section]
    environment = {name: value for name, value in os.environ.items() if name != "HDF5_PLUGIN_PATH"}
    environment.update(KERAS_HOME=directory, HF_HUB_OFFLINE="1")
    environment.setdefault("KERAS_BACKEND", "torch" if importlib.util.find_spec("torch") else "jax")

    def run(program):
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=directory,
                              env=environment)

    if run("import %s" % NEEDED[section]).returncode != 0:
        pytest.skip("left out: no %s here; another environment of the part `python` has it" % NEEDED[section])
    done = run("\n".join(found))
    assert done.returncode == 0, done.stderr[-3000:]
