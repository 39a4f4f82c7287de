"""conftest.py - the command, with the checks that a file of any writer goes through.

The environment with Debian's torch has an old torch alone: the files of other writers are left to the other one.
"""
import importlib.util

import pytest

import package_of_tree
from command import Command

collect_ignore = [] if importlib.util.find_spec("gguf") else \
    ["test_distributed_checkpoints.py", "test_gguf_files.py", "test_trainer_checkpoints.py"]


def pytest_configure(config):
    package_of_tree.use(config)


@pytest.fixture(scope="session")
def tool(tool_path):
    return Command(tool_path)
