"""The calls that people make: create_dataset with compression=59810, slices, resizing, other files' settings."""

import ctypes

import ml_dtypes
import numpy
import pytest

import contents
import filetypes
from bed import FILTER_ID, FILTER_NAME, MAGIC, OVERHEAD_MAX, h5py, memory_file
from cases import Case, Layout
from library import encode_chunk, hdf5, lmc_values

# Types that numpy arrays have, through h5py's own calls both ways.
THROUGH_NUMPY = [t for t in filetypes.ALL if t.dtype is not None]


def array_of(filetype, count, kind=None):
    data = contents.content(kind or filetype.kind, filetype.name, count, filetype.size, filetype.big_endian)
    return numpy.frombuffer(data, f"V{filetype.size}").view(filetype.dtype)


def bytes_of(array, filetype):
    """Compound types lose their padding in HDF5's conversion, so it does not count."""
    fields = array.dtype.fields
    if fields is None:
        return [array.tobytes()]
    return [numpy.ascontiguousarray(array[name]).tobytes() for name in array.dtype.names]


@pytest.mark.parametrize("filetype", THROUGH_NUMPY, ids=lambda t: t.name)
def test_create_and_read(filetype):
    if filetype.dtype.subdtype:
        values = contents.content("counter", filetype.name, 300, filetype.size)
        values = numpy.frombuffer(values, filetype.dtype.base).reshape((300,) + filetype.dtype.shape)
    else:
        values = array_of(filetype, 300)
    with memory_file() as file:
        dataset = file.create_dataset("x", (300,), filetype.dtype, chunks=(77,), compression=FILTER_ID)
        dataset[...] = values
        file.flush()
        dataset.id.refresh()
        found = dataset[...]
        if values.dtype.kind == "V" and values.dtype.names is None:
            found = found.view(values.dtype)
        assert bytes_of(found, filetype) == bytes_of(values, filetype)
        assert bytes_of(found[5:200:3], filetype) == bytes_of(values[5:200:3], filetype)


@pytest.mark.parametrize("options", [{}, {"compression_opts": (1,)}, {"compression_opts": (2,)},
                                     {"compression_opts": (0, 4)}, {"compression_opts": (0, 0, 64)},
                                     {"compression_opts": (2, 2, 1024)}, {"compression_opts": ()},
                                     {"compression_opts": None}, {"shuffle": True}, {"fletcher32": True},
                                     {"shuffle": True, "fletcher32": True, "compression_opts": (2,)},
                                     {"chunks": True}, {"chunks": (1, 1, 300)}, {"maxshape": (None, None, 300)},
                                     {"fillvalue": -1.5}, {"track_times": True}], ids=str)
def test_options(options):
    values = numpy.frombuffer(contents.content("real", "options", 30000, 4), "<f4").reshape(10, 10, 300)
    with memory_file() as file:
        file.create_dataset("x", data=values, compression=FILTER_ID, **{"chunks": (2, 3, 100), **options})
        file.flush()
        file["x"].id.refresh()
        assert file["x"][...].tobytes() == values.tobytes()
        assert file["x"][3:7, ::2, 5].tobytes() == values[3:7, ::2, 5].tobytes()
        assert file["x"].id.get_storage_size() < values.nbytes


@pytest.mark.parametrize("name", [t.name for t in filetypes.ALL if t.is_here and not t.is_new])
def test_the_call_gives_what_the_filter_stores(name):
    """lmc_h5_encode_chunk() with the dataset's values, and without: then the chunk is as good to read."""
    case = Case(filetypes.BY_NAME[name], Layout("one", (700,), (700,)))
    with memory_file() as file:
        dataset = case.write(file)
        dataset.flush()
        chunk = case.expected().tobytes()
        assert dataset.read_direct_chunk((0,)) == (0, encode_chunk(lmc_values(file[case.name]), chunk))
        for values in ((), (1,), (2, 4, 16)):
            dataset.write_direct_chunk((0,), encode_chunk(values, chunk))
            assert case.fault(file) is None


def test_bfloat16_is_compressed():
    """The opaque bytes that h5py makes of ml_dtypes' bfloat16 must fare as well as the numbers under another name."""
    data = contents.content("real", "bf16", 1 << 18, 2)
    with memory_file() as file:
        for name, dtype in (("opaque", ml_dtypes.bfloat16), ("u2", "<u2"), ("i2", ">i2")):
            values = numpy.frombuffer(data, dtype if dtype != ">i2" else "<i2").astype(dtype)
            file.create_dataset(name, data=values, chunks=(1 << 17,), compression=FILTER_ID)
        file.flush()
        assert file["opaque"][...].tobytes() == data
        sizes = [file[name].id.get_storage_size() for name in ("opaque", "u2", "i2")]
        assert sizes[0] < 0.75 * len(data)
        assert sizes[1] == sizes[0]
        assert sizes[0] <= sizes[2] < sizes[0] + 2 * OVERHEAD_MAX


def test_text_with_fill_value():
    with memory_file() as file:
        dataset = file.create_dataset("x", (100,), "S7", chunks=(30,), compression=FILTER_ID, fillvalue=b"nothing")
        dataset[40:45] = b"some"
        file.flush()
        dataset.id.refresh()
        assert dataset[...].tolist() == [b"nothing"] * 40 + [b"some"] * 5 + [b"nothing"] * 55


@pytest.mark.parametrize("cache", [{"rdcc_nbytes": 0}, {"rdcc_nslots": 1}, {"rdcc_nbytes": 1 << 25, "rdcc_w0": 1}],
                         ids=str)
def test_small_writes_with_any_cache(cache, tmp_path):
    """Without a cache every write decodes a chunk and encodes it again."""
    values = array_of(filetypes.BY_NAME["f4le"], 2000)
    with h5py.File(tmp_path / "cache.h5", "w", **cache) as file:
        dataset = file.create_dataset("x", (2000,), "<f4", chunks=(300,), compression=FILTER_ID)
        for start in [1900, 100, 0, 1000, 600, 1500, 350] + list(range(0, 2000, 40)):
            dataset[start:start + 40] = values[start:start + 40]
            assert dataset[start:start + 40].tobytes() == values[start:start + 40].tobytes()
    with h5py.File(tmp_path / "cache.h5", "r", **cache) as file:
        assert file["x"][...].tobytes() == values.tobytes()


# How HDF5 finds chunks in the newest file format depends on these.
INDEXES = {
    "single": ((90, 4), (90, 4), None),
    "fixed_array": ((90, 4), (8, 3), None),
    "fixed_array_paged": ((5000,), (2,), None),
    "extensible_array": ((90, 4), (8, 3), (None, 4)),
    "b_tree": ((90, 4), (8, 3), (None, None)),
    "elements": ((200,), (1,), None),
}


@pytest.mark.parametrize("flags", [0, h5py.h5z.FLAG_OPTIONAL], ids=["mandatory", "optional"])
@pytest.mark.parametrize("name", INDEXES)
@pytest.mark.parametrize("code", ["u1", "<f8"])
def test_newest_file_format(name, code, flags, tmp_path):
    """Sizes of stored chunks have narrow fields there: tiny chunks that grow by some bytes must fit."""
    shape, chunks, maxshape = INDEXES[name]
    count = int(numpy.prod(shape))
    values = numpy.frombuffer(contents.noise(name, 8 * count), code)[:count].reshape(shape)
    with h5py.File(tmp_path / "new.h5", "w", libver="latest") as file:
        dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        dcpl.set_chunk(chunks)
        dcpl.set_filter(FILTER_ID, flags, ())
        unlimited = tuple(h5py.h5s.UNLIMITED if n is None else n for n in maxshape or shape)
        h5py.h5d.create(file.id, b"x", h5py.h5t.py_create(values.dtype), h5py.h5s.create_simple(shape, unlimited), dcpl)
        file["x"][...] = values
    with h5py.File(tmp_path / "new.h5", "r") as file:
        dataset = file["x"]
        assert dataset[...].tobytes() == values.tobytes()
        infos = [dataset.id.get_chunk_info(i) for i in range(min(dataset.id.get_num_chunks(), 50))]
        assert {info.filter_mask for info in infos} == {0}
        chunk_nbytes = int(numpy.prod(chunks)) * values.itemsize
        assert all(chunk_nbytes < info.size <= chunk_nbytes + OVERHEAD_MAX for info in infos)


def test_partial_chunks_without_filters(tmp_path):
    """HDF5 can be told to store chunks at the edge as they are (H5Pset_chunk_opts): they never come to the filter."""
    values = numpy.arange(1000, dtype="<i4")
    with h5py.File(tmp_path / "edge.h5", "w", libver="latest") as file:
        dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        dcpl.set_chunk((300,))
        dcpl.set_filter(FILTER_ID, 0, ())
        assert hdf5().H5Pset_chunk_opts(ctypes.c_int64(dcpl.id), ctypes.c_uint(2)) >= 0
        h5py.h5d.create(file.id, b"x", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((1000,)), dcpl)
        file["x"][...] = values
    with h5py.File(tmp_path / "edge.h5", "r") as file:
        assert file["x"][...].tobytes() == values.tobytes()
        sizes = [file["x"].id.get_chunk_info(i).size for i in range(4)]
        assert sizes[3] == 1200 and max(sizes[:3]) < 1200


def test_copies_keep_values_and_chunks():
    values = array_of(filetypes.BY_NAME["f4le"], 5000)
    with memory_file() as file, memory_file() as other:
        file.create_dataset("x", data=values, chunks=(999,), compression=FILTER_ID, compression_opts=(2,))
        file.copy("x", other, "y")
        assert other["y"][...].tobytes() == values.tobytes()
        assert lmc_values(other["y"]) == lmc_values(file["x"])
        for i in range(5):
            assert other["y"].id.read_direct_chunk((999 * i,)) == file["x"].id.read_direct_chunk((999 * i,))


def test_name_and_number_are_in_the_file():
    with memory_file() as file:
        dataset = file.create_dataset("x", (10,), "f4", chunks=(5,), compression=FILTER_ID)
        number, flags, values, name = dataset.id.get_create_plist().get_filter(0)
        assert (number, flags) == (FILTER_ID, h5py.h5z.FLAG_OPTIONAL)
        assert name.decode() == FILTER_NAME
        assert len(values) == 8 and values[3] == MAGIC
        assert h5py.h5z.filter_avail(FILTER_ID)
        assert h5py.h5z.get_filter_info(FILTER_ID) == (h5py.h5z.FILTER_CONFIG_ENCODE_ENABLED |
                                                       h5py.h5z.FILTER_CONFIG_DECODE_ENABLED)
        if h5py.version.version_tuple[:2] >= (3, 16):
            assert list(dataset.filter_names) == [FILTER_NAME]


def test_what_has_no_chunks_has_no_filter():
    with memory_file() as file:
        file.create_dataset("scalar", data=1.5)
        file.create_dataset("contiguous", data=numpy.arange(5))
        with pytest.raises(TypeError):
            file.create_dataset("filtered", data=1.5, compression=FILTER_ID)
