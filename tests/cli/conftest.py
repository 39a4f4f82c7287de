"""conftest.py - the command under test."""
import os

import pytest

import support

for _name in ("HDF5_PLUGIN_PATH", "HDF5_PLUGIN_PRELOAD"):  # the caller's may have faults
    os.environ.pop(_name, None)


@pytest.fixture(scope="session")
def tool(tool_path, for_windows):
    return support.Tool(tool_path, for_windows)
