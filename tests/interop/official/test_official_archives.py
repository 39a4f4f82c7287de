"""The official package opens every archive that lmc-st writes: of examples/data and of odd files. Each is opened with
safetensors.safe_open, and restored."""

import glob
import os

import pytest

from archives import ROOT, archive_faults, make_odd_files
from official import fail_on, read, run

EXAMPLES = sorted(glob.glob(os.path.join(ROOT, "examples", "data", "*.safetensors")))
ODD = ["deep-shape", "empty-and-scalar", "equal-tensors", "every-dtype-large", "every-dtype-small", "many-tensors",
       "metadata", "name-of-the-table", "names", "no-tensors", "no-tensors-padded", "numpy", "unaligned"]


def check_file(tool, original, folder):
    """Converts, opens, restores; yields the faults."""
    archive = os.path.join(folder, "archive.safetensors.lmc")
    restored = os.path.join(folder, "restored")
    for command in ([tool, "convert", original, "-o", archive, "-f", "-q"],
                    [tool, "restore", archive, "-o", restored, "-f", "-q"]):
        done = run(*command)
        if done.returncode != 0:
            yield f"exit status {done.returncode} of {command[1]}: {done.stderr.strip()}"
            return
    yield from archive_faults(original, archive)
    if read(original) != read(restored):
        yield "the restored file differs"


@pytest.fixture(scope="module")
def odd_files(folder):
    make_odd_files(folder)
    assert sorted(os.listdir(folder)) == sorted(name + ".safetensors" for name in ODD)
    return folder


@pytest.mark.parametrize("path", EXAMPLES, ids=os.path.basename)
def test_example(tool, directory, path):
    fail_on(check_file(tool, path, directory))


@pytest.mark.parametrize("name", ODD)
def test_odd_file(tool, directory, odd_files, name):
    fail_on(check_file(tool, os.path.join(odd_files, name + ".safetensors"), directory))
