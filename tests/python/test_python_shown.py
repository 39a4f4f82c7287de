"""What a user sees in a notebook: repr() of open files, names for completion, bars."""
import os
import subprocess
import sys
import types

import numpy
import pytest

import lmcodec
import lmcodec.numpy


def test_open_files_show_what_they_are(archive):
    with lmcodec.File(archive) as file, lmcodec.safe_open(archive, "np") as tensors:
        ratio = "ratio %.3f" % (file.stored_nbytes / file.nbytes)
        for shown in (repr(file), repr(tensors), repr(tensors.get_slice("matrix"))):
            assert repr(archive) in shown and "5 tensors" in shown and ratio in shown and "0x" not in shown
        assert repr(tensors.get_slice("matrix")).startswith("<lmcodec.Slice 'matrix', F32 [300, 500]")
    assert repr(file) == "<lmcodec.File %r, closed>" % archive and repr(tensors) == "<lmcodec.safe_open, closed>"
    plain = archive + ".safetensors"
    lmcodec.numpy.save_file({"a": numpy.zeros(3)}, plain)
    assert "no archive" in repr(lmcodec.File(plain))


def test_a_url_shows_no_password(directory):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    import lmcodec.remote
    path = os.path.join(directory, "a.lmc")
    lmcodec.numpy.save_file({"a": numpy.zeros(3)}, path)
    fsspec.filesystem("memory").put(path, "shown/a.lmc")
    assert "'memory://shown/a.lmc', 1 tensors" in repr(lmcodec.remote.File("memory://shown/a.lmc"))
    for call in (lmcodec.Run("https://host/run?sig=secret").steps,
                 lambda: lmcodec.convert("https://user:secret@host/a.safetensors")):
        with pytest.raises(FileNotFoundError) as caught:
            call()
        assert "secret" not in str(caught.value)


NAMES = """
import types, lmcodec
print([name for name in dir(lmcodec) if isinstance(getattr(lmcodec, name), types.ModuleType)])
import lmcodec.remote
print([name for name in dir(lmcodec) if isinstance(getattr(lmcodec, name), types.ModuleType)])
"""


def test_names_for_completion():
    """No module but those of the package that a program has imported."""
    folder = os.path.dirname(os.path.dirname(lmcodec.__file__))
    done = subprocess.run([sys.executable, "-c", NAMES], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": folder})
    assert done.stdout == "[]\n['remote']\n", done.stderr
    assert set(lmcodec.__all__) <= set(dir(lmcodec)) and "annotations" not in dir(lmcodec)


class Bar:
    """What is used of tqdm."""

    made = []

    def __init__(self, total, **options):
        self.n, self.total, self.is_closed = 0, total, False
        self.made.append(self)

    def update(self, more):
        self.n += more

    def close(self):
        self.is_closed = True


@pytest.mark.parametrize("has_tqdm", [True, False])
def test_a_bar(archive, monkeypatch, capsys, has_tqdm):
    monkeypatch.setattr(Bar, "made", [])
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Bar) if has_tqdm else None)
    lmcodec.numpy.load_file(archive, progress=True)
    lmcodec.verify(archive, progress=True)
    lmcodec.restore(archive, progress=True)
    lmcodec.verify(archive, progress=False)
    if has_tqdm:
        assert len(Bar.made) >= 3 and all(bar.is_closed and bar.n == bar.total > 0 for bar in Bar.made)
    else:
        shown = capsys.readouterr().err
        assert shown.count("100 %") >= 3 and shown.endswith("\n")
