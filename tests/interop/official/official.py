"""official.py - what the tests share: the verdict of the safetensors package on a file, and the command."""

import itertools
import os
import subprocess
from collections import namedtuple

import pytest
import safetensors

# message: the package's own words on a refused file. tensors: what it finds in an accepted one, as
# (name, dtype, shape, content), sorted.
Verdict = namedtuple("Verdict", "is_good message tensors")

VERSION = "0.8."
FAULTS_SHOWN = 5


def fail_on(faults):
    """Ends the test as failed if there is a fault."""
    first = list(itertools.islice(faults, FAULTS_SHOWN))
    if first:
        pytest.fail("\n".join(first))


def judge(content):
    """The package on a file in memory."""
    try:
        found = safetensors.deserialize(content)
    except safetensors.SafetensorError as error:
        return Verdict(False, str(error), [])
    tensors = [(name, tensor["dtype"], list(tensor["shape"]), bytes(tensor["data"])) for name, tensor in found]
    return Verdict(True, "", sorted(tensors))


def opens(path):
    """The package on a file by its path: the way that most programs take."""
    try:
        with safetensors.safe_open(path, framework="numpy"):
            return True
    except safetensors.SafetensorError:
        return False


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120,
                          errors="replace")


def write(path, content):
    """Makes the file again: some file systems flush one that is cut and written again."""
    if os.path.exists(path):
        os.unlink(path)
    with open(path, "wb") as file:
        file.write(content)
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()
