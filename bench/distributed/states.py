"""states.py - what a rank saves: the tensors of two snapshots of one training, made as large as wanted.

A folder has step03000.KIND.safetensors and step03010.KIND.safetensors, as examples/data/train_snapshots.py writes them.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import read_tensors, rotated  # noqa: E402

OLD, NEW = "step03000", "step03010"
STATES = {"weights": ("bf16",), "whole": ("bf16", "f32", "optim")}  # whole: with master weights and moments of Adam
LAYER_COUNT = 4  # of the model; optim files have the moments of the first layer


def states_in(folder):
    """The states that the files of a folder make up."""
    return [name for name, kinds in STATES.items()
            if all(os.path.exists(path_of(folder, step, kind)) for step in (OLD, NEW) for kind in kinds)]


def path_of(folder, step, kind):
    return os.path.join(folder, f"{step}.{kind}.safetensors")


def read_state(folder, state, step):
    """A list of name, dtype, shape, content."""
    return [(f"{kind}.{name}", *tensor) for kind in STATES[state]
            for name, *tensor in read_tensors(path_of(folder, step, kind))]


def state_of_rank(tensors, nbytes, rank):
    """Each tensor with all its rows again and again, others first each time, which keeps their statistics."""
    once = sum(copies_of(name) * len(content) for name, *_, content in tensors)
    rounds = max(1, round(nbytes / once))
    state = []
    for name, dtype, shape, content in tensors:
        copies = rounds * copies_of(name)
        whole = b"".join(rotated(shape, content, rank * copies + copy + 1) for copy in range(copies))
        state.append((name, dtype, [copies * shape[0], *shape[1:]], whole))
    return state


def copies_of(name):
    return LAYER_COUNT if name.startswith("optim.") else 1


def nbytes_of(tensors):
    return sum(len(content) for *_, content in tensors)
