"""The entry points of pyproject.toml: Zarr and numcodecs find the codecs of an lmcodec that nobody imports."""
import importlib.metadata
import os

import pytest

pytest.importorskip("tomllib", reason="Python 3.11 reads TOML")
pytest.importorskip("zarr", reason="zarr is not installed")

from entry_points import run, write_metadata  # noqa: E402

PROGRAM = """
import sys, warnings
import numpy, zarr
import numcodecs
warnings.simplefilter("ignore")
values = numpy.arange(6000, dtype="f4").reshape(60, 100)

def check(array):
    assert (zarr.open_array(array.store)[:] == values).all()

assert "lmcodec" not in sys.modules
check(zarr.create_array({}, data=values, chunks=(20, 100), compressors=None,
                        serializer={"name": "lmc", "configuration": {"level": "fast"}}))
assert "lmcodec.zarr" in sys.modules and "lmcodec.numcodecs" not in sys.modules
import lmcodec.zarr
assert zarr.registry.get_codec_class("lmc") is lmcodec.zarr.LmcCodec
check(zarr.create_array({}, data=values, chunks=(20, 100), zarr_format=2, compressors={"id": "lmc", "level": "max"}))
assert numcodecs.get_codec({"id": "lmc"}) == sys.modules["lmcodec.numcodecs"].Lmc()
"""

BFLOAT16 = """
import sys
if %r:
    sys.modules["ml_dtypes"] = None
import numpy, zarr
zarr.dtype.data_type_registry._lazy_load()  # Zarr 3.1.6 collects entry points of data types and never does this
try:
    assert zarr.create_array({}, data=numpy.ones(3, "f2")).dtype == "f2"
    import ml_dtypes
    values = numpy.arange(50).astype(ml_dtypes.bfloat16)
    zarr.create_array(%r, data=values)
except ImportError:
    pass
assert "lmcodec.zarr" not in sys.modules
assert zarr.open_array(%r).dtype == ml_dtypes.bfloat16
"""


@pytest.fixture
def metadata(directory):
    return write_metadata(directory)


def test_codecs_are_found(metadata):
    done = run(PROGRAM, metadata)
    assert done.returncode == 0, done.stderr[-3000:]


def test_bfloat16_is_found(metadata):
    """Zarr's own codecs, with a data type of an lmcodec that nobody imports; with and without ml_dtypes."""
    path = os.path.join(metadata, "half.zarr")
    done = run(BFLOAT16 % (False, path, path), metadata)
    assert done.returncode == 0, done.stderr[-3000:]
    done = run(BFLOAT16 % (True, path, path), metadata)
    assert done.stderr.splitlines()[-1] == "ImportError: an array of bfloat16 needs the package ml_dtypes"


@pytest.mark.parametrize("module, missing, text", [
    ("zarr", "zarr", "needs Zarr 3.1 or newer"), ("zarr", "zarr.dtype", "needs Zarr 3.1 or newer"),
    ("numcodecs", "numcodecs", "needs numcodecs")])
def test_without_what_it_needs(module, missing, text):
    done = run("import sys; sys.modules[%r] = None; import lmcodec.%s" % (missing, module))
    last = done.stderr.splitlines()[-1]
    assert done.returncode != 0 and text in last and last.startswith("ImportError: "), done.stderr[-3000:]


def test_without_lmcodec(directory):
    """What a reader without the package is told. In Zarr 3 the codec's name is all of it."""
    if list(importlib.metadata.distributions(name="lmcodec")):
        pytest.skip("left out: lmcodec is installed here; another run has that of the tree")
    import zarr
    from lmcodec.numcodecs import Lmc
    from lmcodec.zarr import LmcCodec
    names = {"three": {"serializer": LmcCodec(), "compressors": None}, "two": {"zarr_format": 2, "compressors": Lmc()}}
    for name, options in names.items():
        path = os.path.join(directory, name)
        zarr.create_array(path, shape=(3,), dtype="f4", **options)
        done = run("import zarr; zarr.open_array(%r)" % path)
        assert done.returncode != 0 and "'lmc'" in done.stderr.splitlines()[-1], done.stderr[-3000:]
