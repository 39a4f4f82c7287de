"""conftest.py - the plugin and the environments."""
import pytest

from world import World


@pytest.fixture(scope="session")
def world(pytestconfig, build):
    return World(build, pytestconfig.getoption("--venvs"))
