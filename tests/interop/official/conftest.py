"""conftest.py - the command, and a folder for files that several tests of a module use."""
import tempfile

import pytest


@pytest.fixture(scope="session")
def tool(tool_path):
    return tool_path


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory(prefix="lmc-official-") as path:
        yield path
