"""A build for Windows beside that of this machine: the same archives, and each restores what the other has made."""
import os
import shutil

import pytest

from support import Tool, left_out
from test_checkpoints import checkpoint
from trees import check_same, snapshot

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.environ.get("LMC_EXCHANGED_DATA") or os.path.join(ROOT, "examples", "data")
NAMES = sorted(name for name in os.listdir(DATA) if name.endswith(".safetensors"))


@pytest.fixture(scope="module")
def here(for_windows):
    """The command of this machine."""
    path = os.path.join(ROOT, "build", "test", "tool", "lmc-st")
    if not for_windows or not os.path.exists(path):
        left_out("compares a build for Windows with build/test")
    return Tool(path)


def contents(root):
    return {path: (entry[0], entry[3]) for path, entry in snapshot(root).items()}


def exchange(here, tool, directory, source, *options):
    """Both commands convert `source`, a file or a directory; each restores the other's archive."""
    made = {}
    bases = ["--base-dir", options[1]] if "--base" in options else []
    for name, command in (("here", here), ("there", tool)):
        folder = os.path.join(directory, name)
        os.mkdir(folder)
        made[name] = os.path.join(folder, os.path.basename(source) + ".lmc")
        command.run("convert", source, "-o", made[name], *options).expect(0)
    check_same(contents(os.path.join(directory, "here")), contents(os.path.join(directory, "there")), "archives")
    for command, name in ((here, "there"), (tool, "here")):
        back = os.path.join(directory, "back of " + name)
        command.run("restore", made[name], "-o", back, *bases).expect(0)
        check_same(contents(source), contents(back), "restored")
        command.run("verify", made[name], *bases).expect(0)


def alone(path, folder):
    os.mkdir(folder)
    shutil.copy(path, folder)
    return folder


@pytest.mark.parametrize("level", ["fast", "default", "max"])
@pytest.mark.parametrize("name", NAMES)
def test_file(here, tool, directory, name, level):
    source = alone(os.path.join(DATA, name), os.path.join(directory, "source"))
    exchange(here, tool, directory, source, "--level", level)


def test_base(here, tool, directory):
    """A folder whose file has one of the same name as its base."""
    base = alone(os.path.join(DATA, "step03000.bf16.safetensors"), os.path.join(directory, "10"))
    source = alone(os.path.join(DATA, "step03010.bf16.safetensors"), os.path.join(directory, "20"))
    for folder in (base, source):
        os.rename(os.path.join(folder, os.listdir(folder)[0]), os.path.join(folder, "model.safetensors"))
    exchange(here, tool, directory, source, "--base", base)


def test_checkpoint(here, tool, directory):
    """Containers of torch, NumPy and GGUF in a tree."""
    exchange(here, tool, directory, checkpoint(os.path.join(directory, "c")))
