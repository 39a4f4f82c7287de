"""conftest.py - the command under test."""
import os
import signal

import pytest

import support

for _name in ("HDF5_PLUGIN_PATH", "HDF5_PLUGIN_PRELOAD"):  # the caller's may have faults
    os.environ.pop(_name, None)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background inherits that it is ignored


@pytest.fixture(scope="session")
def tool(tool_path):
    return support.Tool(tool_path)
