"""The examples of docs/distributed.md about torch.distributed.checkpoint run, one after another, on two ranks."""
import os
import re

from dcp_ranks import on_ranks

import pytest

pytest.importorskip("safetensors", reason="safetensors is not installed")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
DOCUMENT = os.path.join(ROOT, "docs", "distributed.md")


def examples():
    with open(DOCUMENT) as file:
        text = file.read()
    section = re.search(r"^## torch\.distributed\.checkpoint\n(.*?)(^## |\Z)", text, re.M | re.S)
    for match in re.finditer(r"^```python\n(.*?)^```", section.group(1), re.M | re.S):
        line = text.count("\n", 0, section.start(1) + match.start(1))
        yield "\n" * line + match.group(1)


def run_examples(directory):
    os.chdir(directory)
    names = {}
    found = list(examples())
    for example in found:
        exec(compile(example, DOCUMENT, "exec"), names)
    return len(found)


def test_every_example_runs(directory):
    assert on_ranks(2, run_examples, directory) == [6, 6]
    alone = os.path.join(directory, "alone")
    os.mkdir(alone)
    assert on_ranks(1, run_examples, alone) == [6]
