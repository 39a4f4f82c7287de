"""The examples of docs/distributed.md about torch.distributed.checkpoint run, one after another, on two ranks."""
import os

from dcp_ranks import on_ranks
from documents import run_examples

import pytest

pytest.importorskip("safetensors", reason="safetensors is not installed")


def run_section(directory):
    os.chdir(directory)
    return run_examples("distributed.md", "torch.distributed.checkpoint")


def test_every_example_runs(directory):
    assert on_ranks(2, run_section, directory) == [8, 8]
    alone = os.path.join(directory, "alone")
    os.mkdir(alone)
    assert on_ranks(1, run_section, alone) == [8]
