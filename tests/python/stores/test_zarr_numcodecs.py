"""lmcodec.numcodecs: the codec of numcodecs, in arrays of Zarr format 2 and alone."""
import array
import json
import os
import pickle

import pytest

numpy = pytest.importorskip("numpy", reason="numpy is not installed")
pytest.importorskip("numcodecs", reason="numcodecs is not installed")
zarr = pytest.importorskip("zarr", reason="zarr is not installed")

import lmcodec
import lmcodec.numcodecs
import numcodecs
from lmcodec.numcodecs import Lmc
from zarr.storage import MemoryStore

SHAPE = (37, 53)
DTYPES = ["?", "i1", "<i2", ">i2", "u4", ">u8", "f2", ">f4", "f4", "f8", "c8", ">c16", "S5", "<U3", ">U3", "V7",
          "<M8[s]", [("a", ">f4"), ("b", "i2")]]

pytestmark = pytest.mark.filterwarnings("ignore")


def sample(dtype):
    dtype, random = numpy.dtype(dtype), numpy.random.default_rng(7)
    if dtype.kind in "bU":
        return random.integers(0, 2, SHAPE).astype(dtype)
    return random.integers(0, 256, SHAPE[0] * SHAPE[1] * dtype.itemsize, dtype="u1").view(dtype).reshape(SHAPE)


def weights(shape=(256, 300), dtype="f4"):
    return (numpy.random.default_rng(8).standard_normal(shape) * 0.02).astype(dtype)


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arrays(dtype, order):
    values = sample(dtype)
    for options in ({"compressors": Lmc(), "filters": None}, {"compressors": None, "filters": [Lmc("fast")]}):
        made = zarr.create_array(MemoryStore(), shape=SHAPE, chunks=(8, 16), dtype=values.dtype, zarr_format=2,
                                 order=order, **options)
        made[:] = values
        again = zarr.open_array(made.store, mode="r")
        assert again.dtype == values.dtype
        assert again[:].tobytes() == values.tobytes() and again[5:30, 7].tobytes() == values[5:30, 7].tobytes()


def test_metadata(directory):
    made = zarr.create_array(os.path.join(directory, "a"), data=weights(), chunks=(64, 300), zarr_format=2,
                             compressors=Lmc("max", rows=True))
    with open(os.path.join(directory, "a", ".zarray")) as file:
        assert json.load(file)["compressor"] == {"id": "lmc", "level": "max", "rows": True}
    assert zarr.open_array(os.path.join(directory, "a")).compressors == (Lmc("max", True),)
    assert made.nbytes_stored() < 0.86 * made.nbytes


def test_no_dimension_and_nothing():
    made = zarr.create_array(MemoryStore(), shape=(), dtype="f8", zarr_format=2, compressors=Lmc())
    made[()] = 7.25
    assert zarr.open_array(made.store)[()] == 7.25
    assert Lmc().decode(Lmc().encode(b"")).tobytes() == b""


def test_behind_a_filter():
    values = numpy.arange(10000, dtype="i4").reshape(100, 100)
    made = zarr.create_array(MemoryStore(), data=values, chunks=(50, 50), zarr_format=2,
                             filters=[numcodecs.Delta("i4"), Lmc()], compressors=numcodecs.Zstd())
    assert (zarr.open_array(made.store)[:] == values).all()


def test_configuration():
    codec = Lmc("fast", rows=True)
    assert codec.get_config() == {"id": "lmc", "level": "fast", "rows": True}
    assert numcodecs.get_codec(codec.get_config()) == codec
    assert eval(repr(codec)) == codec == pickle.loads(pickle.dumps(codec))
    for settings in ({"level": "best"}, {"rows": 1}):
        with pytest.raises(lmcodec.ArgumentError):
            Lmc(**settings)
    with pytest.raises(TypeError):
        numcodecs.get_codec({"id": "lmc", "block_kib": 64})


BUFFERS = [b"bytes" * 300, bytearray(1000), memoryview(b"abc" * 99), array.array("f", range(99))]


@pytest.mark.parametrize("buffer", BUFFERS, ids=lambda buffer: type(buffer).__name__)
def test_buffers(buffer):
    content = bytes(memoryview(buffer).cast("B"))
    stored = Lmc().encode(buffer)
    for form in (stored, bytes(stored), memoryview(stored), numpy.frombuffer(stored, "u1")):
        assert Lmc().decode(form).tobytes() == content
    out = bytearray(len(content))
    assert Lmc().decode(stored, out) is out and out == content


def test_order_of_memory():
    """Bytes come back as they lay in memory; a view with gaps is taken in C order."""
    values = weights()
    out = numpy.empty_like(values, order="F")
    Lmc().decode(Lmc().encode(numpy.asfortranarray(values)), out)
    assert (out == values).all()
    assert Lmc().decode(Lmc().encode(values[::2, ::3])).tobytes() == values[::2, ::3].tobytes()


def test_snapshots():
    steps = numpy.stack([weights()] * 6)
    steps[:, 3] += numpy.arange(6)[:, None]
    stored = Lmc(rows=True).encode(steps)
    assert len(stored) < len(Lmc().encode(steps)) / 3
    assert Lmc().decode(stored).tobytes() == steps.tobytes()


def test_objects_are_refused():
    with pytest.raises(lmcodec.DTypeError, match="fixed size"):
        Lmc().encode(numpy.array(["a", None], dtype=object))


def test_damage():
    stored = Lmc().encode(weights())
    with pytest.raises(lmcodec.DataError, match="content, not the 1200"):
        Lmc().decode(stored, numpy.empty(300, "f4"))
    stored[len(stored) // 2] ^= 1
    with pytest.raises(lmcodec.ChecksumError, match="at byte"):
        Lmc().decode(stored)
    for wrong in (b"", b"no frame", stored[:-5]):
        with pytest.raises(lmcodec.DataError):
            Lmc().decode(wrong)
