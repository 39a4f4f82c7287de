"""`import lmcodec` imports what is used of it when it is used."""
import os
import subprocess
import sys

import pytest

import lmcodec

PROGRAM = """
import sys
sys.path.insert(0, %r)
before = set(sys.modules)
import lmcodec
print(sorted(set(sys.modules) - before))
lmcodec.safe_open
print(sorted({"dataclasses", "inspect", "tempfile", "random"} & set(sys.modules) - before))
"""


def test_nothing_else_is_imported():
    folder = os.path.dirname(os.path.dirname(os.path.abspath(lmcodec.__file__)))
    done = subprocess.run([sys.executable, "-S", "-c", PROGRAM % folder], capture_output=True, text=True)
    assert done.stdout == "['__future__', 'lmcodec']\n[]\n", done.stderr


def test_all_names_are_there():
    for name in lmcodec.__all__:
        assert getattr(lmcodec, name) is getattr(lmcodec, name)
    assert lmcodec.SafetensorError is lmcodec.LMCError and lmcodec.__version__.count(".") == 2
    assert os.path.basename(lmcodec._library.__file__) == "_library.py"
    with pytest.raises(AttributeError, match="module 'lmcodec' has no attribute 'nothing'"):
        lmcodec.nothing
    with pytest.raises(ImportError):
        exec("from lmcodec import nothing")
