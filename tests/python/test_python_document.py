"""The examples of docs/python.md run, one after another, in an empty folder."""
import os
import re

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOCUMENT = os.path.join(ROOT, "docs", "python.md")


def examples():
    with open(DOCUMENT) as file:
        text = file.read()
    for match in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S):
        line = text.count("\n", 0, match.start(1))
        yield "\n" * line + match.group(1)


def test_every_example_runs(directory, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed (Debian: python3-torch)")
    monkeypatch.chdir(directory)
    names = {}
    found = list(examples())
    assert len(found) == 10
    for example in found:
        exec(compile(example, DOCUMENT, "exec"), names)


def test_every_exception_is_told():
    import lmcodec
    with open(DOCUMENT) as file:
        text = file.read()
    for name in lmcodec.__all__:
        found = getattr(lmcodec, name)
        if isinstance(found, type) and issubclass(found, Exception) and found is not lmcodec.Cancelled:
            assert "`%s`" % name in text
