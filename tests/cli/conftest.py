"""conftest.py - the command under test."""
import os

import pytest

import mounted
import support

for _name in ("HDF5_PLUGIN_PATH", "HDF5_PLUGIN_PRELOAD"):  # the caller's may have faults
    os.environ.pop(_name, None)


@pytest.fixture(scope="session")
def tool(tool_path, for_windows):
    return support.Tool(tool_path, for_windows)


@pytest.fixture(scope="session")
def mountable(tool, tmp_path_factory):
    """Why nothing can be mounted here; "": it can."""
    return mounted.find_obstacle(tool, str(tmp_path_factory.mktemp("mount")))


@pytest.fixture
def mount(tool, directory, mountable):
    """Mounts a source, mounted.Mounts; ends what is still mounted when the test is over."""
    if mountable:
        pytest.skip(mountable)
    mounts = mounted.Mounts(tool, directory)
    yield mounts
    mounts.clear()
