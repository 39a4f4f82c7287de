"""conftest.py - lmc-st, and the numbers of random frames."""
import tempfile

import pytest

from archive_tool import Tool


def pytest_generate_tests(metafunc):
    if "random_number" in metafunc.fixturenames:
        metafunc.parametrize("random_number", range(metafunc.config.getoption("--count")))


@pytest.fixture(scope="module")
def tool(tool_path):
    with tempfile.TemporaryDirectory() as directory:
        yield Tool(tool_path, directory)
