"""The examples of docs/remote.md run, one after another, in an empty folder."""
import os
import re

import pytest

pytest.importorskip("fsspec", reason="fsspec is not installed")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
DOCUMENT = os.path.join(ROOT, "docs", "remote.md")


def test_every_example_runs(directory, monkeypatch):
    monkeypatch.chdir(directory)
    with open(DOCUMENT) as file:
        text = file.read()
    found = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert len(found) == 3
    names = {}
    for example in found:
        exec(compile(example, DOCUMENT, "exec"), names)
