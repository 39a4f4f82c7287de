#!/usr/bin/env python3
"""Writes doctor.h5 and doctor-latest.h5 beside this file: HDF5 files for tests/cli/cases_doctor.py, in the oldest and
the newest form that HDF5 1.10 knows. Run where HDF5_PLUGIN_PATH is not set: some chunks are to lack LMC.

    python3 tests/cli/data/make_hdf5.py        needs h5py 3 and numpy

What stands for coded chunks are bytes without meaning: the files are for looking at, not for reading.
"""
import os

import h5py
import numpy as np

LMC = 59810
NAME = "\x1b[31mred\n\"quoted\" \N{RIGHT-TO-LEFT OVERRIDE}back"


def with_lmc(file, name, shape, chunks, **more):
    return file.create_dataset(name, shape, "<f4", chunks=chunks, compression=LMC, compression_opts=(0, 0, 0),
                               allow_unknown_filter=True, **more)


def write_coded(dataset, *masks):
    """Chunks along the first dimension, as large as a coder could have made them."""
    for i, mask in enumerate(masks):
        offset = (i * dataset.chunks[0],) + (0,) * (len(dataset.shape) - 1)
        nbytes = 4 * int(np.prod(dataset.chunks))
        dataset.id.write_direct_chunk(offset, bytes([i + 1]) * (nbytes if mask else nbytes // 2), mask)


def without_edges(file, name):
    """Chunks at the edges are stored as they are, because it was asked for."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((4,))
    plist.set_filter(LMC, h5py.h5z.FLAG_OPTIONAL, (0, 0, 0))
    set_chunk_opts(plist, 2)  # H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS
    h5py.h5d.create(file.id, name, h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((10,)), plist)
    dataset = file[name.decode()]
    write_coded(dataset, 0, 0)
    dataset[8:] = [1, 2]


def with_rows(file, name, count):
    """The values that LMC sets for level 16 and chunks of 4 rows; without `count`, those of a user."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((4, 2))
    plist.set_filter(LMC, h5py.h5z.FLAG_OPTIONAL,
                     (16, 0, 0, 0x31434D4C, 4, 18 << 16 | 1, 32, 0, count) if count is not None else (16,))
    h5py.h5d.create(file.id, name, h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((8, 2)), plist)


def set_chunk_opts(plist, options):
    """H5Pset_chunk_opts, which h5py lacks."""
    import ctypes
    maps = open("/proc/self/maps", encoding="utf-8").read().split()
    library = ctypes.CDLL(next(path for path in maps if "/libhdf5_serial" in path or "/libhdf5-" in path))
    assert library.H5Pset_chunk_opts(ctypes.c_int64(plist.id), ctypes.c_uint(options)) >= 0


def make_bf16(group):
    kind = h5py.h5t.IEEE_F16LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_ebias(127)
    h5py.h5d.create(group.id, b"bf16", kind, h5py.h5s.create_simple((3,)))


def fill(file):
    write_coded(with_lmc(file, "good", (8, 4), (2, 4)), 0, 0, 0, 0)
    with_lmc(file, "lost", (6,), (2,))[:] = np.arange(6)  # no plugin: stored as they are, without a word
    write_coded(with_lmc(file, "some", (6,), (2,), shuffle=True), 0, 2, 0)  # the first of the filters ran
    write_coded(with_lmc(file, "single", (3,), (3,)), 1)
    without_edges(file, b"edges")
    with_rows(file, b"rows", 4)
    with_rows(file, b"rows_0", 0)
    with_rows(file, b"rows_user", None)
    gzip = file.create_dataset("other/gzip", data=np.arange(40, dtype=">i2"), chunks=(16,), compression="gzip",
                               shuffle=True, fletcher32=True)
    file["other/again"] = gzip
    file["other/up"] = file["/"]
    file["other/nowhere"] = h5py.SoftLink("/absent")
    file["other/elsewhere"] = h5py.ExternalLink("absent.h5", "/x")
    kinds = file.create_group("kinds")
    kinds["scalar"] = np.float64(1)
    kinds["empty"] = h5py.Empty("u1")
    kinds["text"] = ["one", "two"]
    kinds["fixed"] = np.array([b"abc", b"de"])
    kinds["record"] = np.zeros(3, [("a", "u1"), ("b", "<f8")])
    kinds["opaque"] = np.zeros(3, "V2")
    kinds["half"] = np.zeros(3, "<f2")
    kinds.create_dataset("array", (2,), np.dtype(("<u4", (3,))))
    make_bf16(kinds)
    kinds["boolean"] = np.zeros(2, bool)
    kinds["list"] = np.array([np.arange(2, dtype="i4"), np.arange(3, dtype="i4")], h5py.vlen_dtype("i4"))
    kinds.create_dataset("unwritten", (100, 100), "<i8", chunks=(10, 10), compression="gzip")
    kinds[NAME] = np.zeros(2, "<u4")


def main():
    assert "HDF5_PLUGIN_PATH" not in os.environ and not h5py.h5z.filter_avail(LMC)
    folder = os.path.dirname(os.path.abspath(__file__))
    for name, version in (("doctor.h5", "earliest"), ("doctor-latest.h5", "latest")):
        with h5py.File(os.path.join(folder, name), "w", libver=version) as file:
            fill(file)


if __name__ == "__main__":
    main()
