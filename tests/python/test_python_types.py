"""The package passes mypy --strict."""
import os
import subprocess
import sys

import pytest

pytest.importorskip("mypy", reason="mypy is not installed")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_types(directory):
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", os.path.join(ROOT, "python", "mypy.ini"),
                           "--cache-dir", directory], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
