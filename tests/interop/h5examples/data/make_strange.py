#!/usr/bin/env python3
"""Writes strange.h5 beside this file. strange.txt has the problems that examples/h5_inspect.py must find in it. Chunks
have wrong sizes, for which HDF5 before 2.2 reads beyond its memory: the file is for looking at, not for reading.

    python3 tests/interop/h5examples/data/make_strange.py        needs h5py 3, numpy and xxhash

Run where HDF5_PLUGIN_PATH is not set: some chunks are to lack LMC.
"""
import os
import sys

import h5py
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, os.pardir, "h5py"))
import forge  # noqa: E402

LMC = 59810
LMC_SET = (LMC, (0, 0, 0, 0x31434D4C, 4, 18 << 16 | 1, 32, 0))
SHUFFLE, CHECKSUM, DEFLATE = (2, (4,)), (3, ()), (1, (1,))


def set_chunk_opts(plist, options):
    """H5Pset_chunk_opts, which h5py lacks."""
    import ctypes
    maps = open("/proc/self/maps", encoding="utf-8").read().split()
    library = ctypes.CDLL(next(path for path in maps if "/libhdf5_serial" in path or "/libhdf5-" in path))
    assert library.H5Pset_chunk_opts(ctypes.c_int64(plist.id), ctypes.c_uint(options)) >= 0


def frame(nbytes):
    return forge.short_frame(bytes(range(nbytes)))


def rows(*sizes):
    return forge.regrouped(forge.ROWS, 0, 0, [frame(nbytes) for nbytes in sizes])


def stored(file, name, filters, *chunks, mask=0, count=None, kind="<f4", options=0):
    """Chunks of 8 elements, with these bytes."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((8,))
    for number, values in filters:
        plist.set_filter(number, h5py.h5z.FLAG_OPTIONAL, values)
    if options:
        set_chunk_opts(plist, options)
    links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    space = h5py.h5s.create_simple((count or 8 * len(chunks),))
    made = h5py.h5d.create(file.id, name.encode(), h5py.h5t.py_create(np.dtype(kind), logical=True), space, plist,
                           lcpl=links)
    for i, chunk in enumerate(chunks):
        made.write_direct_chunk((8 * i,), chunk, mask)


def fill(file):
    user = LMC_SET[1][:3]
    for name, values in (("none", ()), ("user", user), ("all", LMC_SET[1][:6] + (16, 0)),
                         ("resized", LMC_SET[1][:5] + (18 << 16 | 0x401, 16, 0)), ("unknown", LMC_SET[1][:6] + (0, 0))):
        stored(file, "forged/" + name, [(LMC, values)], frame(16))
    stored(file, "right", [LMC_SET], frame(32), frame(32))
    stored(file, "one", [LMC_SET], frame(32), frame(31), frame(32))
    stored(file, "long", [LMC_SET], frame(33), frame(64))
    stored(file, "refused", [LMC_SET], b"no chunk of LMC", frame(0), frame(32)[:20], b"\x8cLMH")
    stored(file, "plain", [LMC_SET], bytes(32), mask=1)
    stored(file, "skipped", [LMC_SET], bytes(16), mask=1)
    stored(file, "shuffle", [SHUFFLE, LMC_SET], frame(32))
    stored(file, "rows", [LMC_SET], rows(16, 16))
    stored(file, "rows_wrong", [LMC_SET], rows(8, 8))
    stored(file, "checksum/after", [LMC_SET, CHECKSUM], frame(32) + bytes(4))
    stored(file, "checksum/after_wrong", [LMC_SET, CHECKSUM], frame(36) + bytes(4))
    stored(file, "checksum/before", [CHECKSUM, LMC_SET], frame(36))
    stored(file, "checksum/before_wrong", [CHECKSUM, LMC_SET], frame(32))
    stored(file, "checksum/tiny", [LMC_SET, CHECKSUM], bytes(3))
    stored(file, "other/gzip", [DEFLATE], bytes(9), bytes(10))
    stored(file, "other/gzip_after", [LMC_SET, DEFLATE], bytes(9))
    stored(file, "other/gzip_before", [DEFLATE, LMC_SET], frame(9))
    stored(file, "other/shuffle_after", [LMC_SET, SHUFFLE], frame(32))
    stored(file, "other/twice", [LMC_SET, LMC_SET], frame(32))
    stored(file, "other/text", [LMC_SET], frame(128), kind=h5py.string_dtype())
    stored(file, "other/record", [LMC_SET], frame(160), kind=[("a", "<u4"), ("b", h5py.vlen_dtype("u1"))])
    stored(file, "record", [LMC_SET], frame(80), kind=[("a", "<u4"), ("b", [("c", "S2"), ("d", "V4")])])
    stored(file, "edge", [LMC_SET], frame(32), bytes(32), count=10, options=2)
    stored(file, "edge_wrong", [LMC_SET], frame(32), bytes(16), count=10, options=2)


def main():
    assert "HDF5_PLUGIN_PATH" not in os.environ and not h5py.h5z.filter_avail(LMC)
    with h5py.File(os.path.join(HERE, "strange.h5"), "w", libver=("earliest", "v110")) as file:
        fill(file)


if __name__ == "__main__":
    main()
