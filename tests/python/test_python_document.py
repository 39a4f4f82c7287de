"""The examples of docs/python.md run, one after another, in an empty folder."""
import pytest

from documents import run_examples, text_of


def test_every_example_runs(directory, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed (Debian: python3-torch)")
    monkeypatch.chdir(directory)
    assert run_examples("python.md") == 18


def test_every_exception_is_told():
    import lmcodec
    text = text_of("python.md")
    for name in lmcodec.__all__:
        found = getattr(lmcodec, name)
        if isinstance(found, type) and issubclass(found, Exception) and found is not lmcodec.Cancelled:
            assert "`%s`" % name in text
