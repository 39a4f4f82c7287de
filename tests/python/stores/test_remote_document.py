"""The examples of docs/remote.md run, one after another, in an empty folder."""
import pytest

from documents import run_examples

pytest.importorskip("fsspec", reason="fsspec is not installed")


def test_every_example_runs(directory, monkeypatch):
    monkeypatch.chdir(directory)
    assert run_examples("remote.md") == 5
