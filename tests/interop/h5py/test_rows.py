"""Datasets of stacked snapshots: level + 16 codes each row of a chunk against the row before it."""

import itertools

import numpy
import pytest

import filetypes
import forge
from bed import FILTER_ID, h5py, memory_file
from library import encode_chunk, last_error, lmc_values

ROWS = 3  # layout
SNAPSHOTS = 8
WIDTH = 3000


def snapshots(dtype, count=SNAPSHOTS, width=WIDTH):
    """Rows in which few elements differ a little from the row before."""
    random = numpy.random.default_rng(count)
    row = random.normal(0, 0.02, width).astype("f4").astype(dtype) if numpy.dtype(dtype).kind == "f" \
        else random.integers(0, 100, width).astype(dtype)
    bits = row.astype(numpy.dtype(dtype).newbyteorder("<")).view(f"<u{row.itemsize}")
    rows = []
    for _ in range(count):
        bits = bits + (random.random(width) < 0.03)
        rows.append(bits.astype(f"<u{row.itemsize}").view(numpy.dtype(dtype).newbyteorder("<")).astype(dtype))
    return numpy.stack(rows)


def create(file, values, level=16, chunk_rows=SNAPSHOTS, **more):
    name = f"d{next(names)}"
    dataset = file.create_dataset(name, (0,) + values.shape[1:], values.dtype, maxshape=(None,) + values.shape[1:],
                                  chunks=(chunk_rows,) + values.shape[1:], compression=FILTER_ID,
                                  compression_opts=(level,), **more)
    return dataset


names = itertools.count()


def append(dataset, rows, flush=False):
    for row in rows:
        dataset.resize(len(dataset) + 1, axis=0)
        dataset[-1] = row
        if flush:
            dataset.file.flush()


def same(a, b):
    return a.tobytes() == b.tobytes()


def chunks_of(dataset):
    firsts = range(0, len(dataset), dataset.chunks[0])
    return [dataset.id.read_direct_chunk((first,) + (0,) * (dataset.ndim - 1))[1] for first in firsts]


@pytest.mark.parametrize("shuffle", [False, True], ids=["", "shuffle"])
@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4", "<f8", ">f8", "<u2", ">u2", "<i4", "<i8", "u1"])
def test_rows_come_back_and_pay(dtype, shuffle):
    values = snapshots(dtype, 20)
    with memory_file() as file:
        stored = {}
        for level in (0, 1, 2, 16, 17, 18):
            dataset = create(file, values, level, shuffle=shuffle)
            append(dataset, values)
            file.flush()
            assert same(dataset[:], values) and same(dataset[13], values[13])
            assert same(dataset[5:11, 7:900], values[5:11, 7:900])
            stored[level] = dataset.id.get_storage_size()
            for chunk in chunks_of(dataset):
                assert (chunk[:4] == forge.MAGIC_REGROUPED and chunk[5] == ROWS) == (level >= 16)
        for level in range(3):
            assert stored[level + 16] < 0.6 * stored[level]


def test_growing_row_by_row():
    """A chunk is coded again whenever the cache gives it up: here after each row."""
    values = snapshots("<f4", 19)
    with memory_file(rdcc_nbytes=0) as file:
        slow, at_once = create(file, values), create(file, values)
        append(slow, values, flush=True)
        append(at_once, values)
        file.flush()
        assert same(slow[:], values) and same(at_once[:], values)
        assert chunks_of(slow) == chunks_of(at_once)
        slow[3, 100:200] = 7
        slow.resize(9, axis=0)
        file.flush()
        wanted = values[:9].copy()
        wanted[3, 100:200] = 7
        assert same(slow[:], wanted)


def test_every_length_of_the_first_axis():
    for rows in range(1, 12):
        values = snapshots("<f4", rows, 700)
        with memory_file() as file:
            for chunk_rows in (1, 2, 3, 8, 100):
                dataset = create(file, values, chunk_rows=chunk_rows, fillvalue=numpy.float32(0.5))
                append(dataset, values)
                file.flush()
                assert same(dataset[:], values)
                assert all(chunk[3:4] == (b"C" if chunk_rows == 1 else b"H") for chunk in chunks_of(dataset))


def test_more_axes():
    values = snapshots("<f4", 9, 4000).reshape(9, 5, 8, 100)
    with memory_file() as file:
        dataset = file.create_dataset("x", data=values, chunks=(4, 2, 8, 70), compression=FILTER_ID,
                                      compression_opts=(16,))
        file.flush()
        assert same(dataset[:], values) and same(dataset[3:9, 1, 2:5], values[3:9, 1, 2:5])


def test_types_without_rows():
    """Level 16 is taken and does what level 0 does."""
    for name in ("compound_packed", "int24le", "opaque300", "string5"):
        filetype = filetypes.BY_NAME[name]
        stored = []
        for level in (0, 16):
            with memory_file() as file:
                dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                dcpl.set_chunk((4, 2))
                dcpl.set_filter(FILTER_ID, 0, (level,))
                made = h5py.h5d.create(file.id, b"x", filetype.make(), h5py.h5s.create_simple((4, 2)), dcpl)
                data = bytes(range(97, 117)) * filetype.size
                made.write(h5py.h5s.ALL, h5py.h5s.ALL, numpy.frombuffer(data[:8 * filetype.size], f"V{filetype.size}"),
                           made.get_type())
                made.flush()
                stored.append(made.read_direct_chunk((0, 0))[1])
        assert stored[0] == stored[1]


def test_public_call_gives_the_same_bytes():
    values = snapshots("<f4")
    with memory_file() as file:
        dataset = create(file, values)
        append(dataset, values)
        file.flush()
        found = lmc_values(dataset)
        assert chunks_of(dataset) == [encode_chunk(found, values.tobytes())]
        assert encode_chunk(found[:3], values.tobytes())[3:4] == b"C"  # a user's values say nothing of rows


# ---- damage ----


def opened(file):
    values = snapshots("<f4")
    dataset = create(file, values)
    append(dataset, values)
    file.flush()
    return dataset, values, chunks_of(dataset)[0]


def fault_with(dataset, chunk, wanted):
    """None if HDF5 refuses the chunk, else what happened."""
    dataset.id.write_direct_chunk((0, 0), chunk)
    try:
        found = dataset[:]
    except OSError:
        assert last_error().startswith("lmc: chunk")
        return None
    return "the same" if same(found, wanted) else "WRONG DATA"


def test_damaged_chunks():
    with memory_file(rdcc_nbytes=0) as file:
        dataset, values, chunk = opened(file)
        assert fault_with(dataset, chunk, values) == "the same"
        places = list(range(120)) + list(range(120, len(chunk), 97)) + list(range(len(chunk) - 40, len(chunk)))
        for place in places:
            damaged = chunk[:place] + bytes([chunk[place] ^ 0x10]) + chunk[place + 1:]
            assert fault_with(dataset, damaged, values) in (None, "the same"), place
            assert fault_with(dataset, chunk[:max(place, 1)], values) is None, place
