"""conftest.py - the command, with the checks that a file of any writer goes through.

The environment with Debian's torch has an old torch alone: the files of other writers are left to the other one.
"""
import importlib.util

import pytest

from command import Command

collect_ignore = [] if importlib.util.find_spec("gguf") else \
    ["test_distributed_checkpoints.py", "test_gguf_files.py", "test_trainer_checkpoints.py"]


@pytest.fixture(scope="session")
def tool(tool_path):
    return Command(tool_path)
