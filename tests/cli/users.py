"""Runs the tool as another user than root."""
import os

import pytest

NOBODY = 65534


def as_nobody(tool, *directories):
    """Arguments that run the tool as another user; skips where that is not possible."""
    if os.geteuid() != 0:
        return {}
    try:
        is_runnable = tool.run("--version", user=NOBODY).status == 0
    except PermissionError:  # a folder above the tool is closed to that user
        is_runnable = False
    if not is_runnable:
        pytest.skip("the tool cannot be run by another user than root")
    for directory in directories:
        if not os.stat(directory).st_mode & 0o1:
            pytest.skip("the temporary directory is closed to others")
    return {"user": NOBODY}
