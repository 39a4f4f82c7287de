#!/usr/bin/env python3
"""Writes doctor.h5, doctor-latest.h5, doctor-sizes.h5 and doctor-many.h5.gz beside this file: HDF5 files for
tests/cli/cases_doctor.py. The first two are in the oldest and the newest form that HDF5 1.10 knows. Run where
HDF5_PLUGIN_PATH is not set: some chunks are to lack LMC.

    python3 tests/cli/data/make_hdf5.py [NAME...]        needs h5py 3, numpy and xxhash

The files are for looking at, not for reading. What stands for coded chunks in the first two are bytes without meaning;
those in the others have wrong sizes, for which HDF5 before 2.2 reads beyond its memory.
"""
import gzip
import os
import sys

import h5py
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, os.pardir, "h5py"))
import forge  # noqa: E402

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


# ---- sizes ----

LMC_SET = (LMC, (0, 0, 0, 0x31434D4C, 4, 18 << 16 | 1, 32, 0))
SHUFFLE, CHECKSUM, DEFLATE = (2, (4,)), (3, ()), (1, (1,))


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


def fill_sizes(file):
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


# ---- many chunks ----

MANY = 6000  # HDF5 before 1.14 is too slow to tell of so many by number


def many(file, name, places, place_count, wrong=None):
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((8,))
    plist.set_filter(LMC, h5py.h5z.FLAG_OPTIONAL, ())
    made = h5py.h5d.create(file.id, name, h5py.h5t.STD_U8LE, h5py.h5s.create_simple((8 * place_count,)), plist)
    for i, place in enumerate(places):
        made.write_direct_chunk((8 * place,), frame(4 if i == wrong else 8), 0)


def fill_many(file):
    """Places are empty. The one chunk of wrong size is not among those that are looked at if not all are."""
    many(file, b"sparse", [i + (i >= 700) for i in range(MANY)], MANY + 2, wrong=3001)
    many(file, b"scattered", [1000 * i for i in range(MANY // 2)], 1000 * MANY // 2)


FORMS = {"doctor.h5": ("earliest", fill), "doctor-latest.h5": ("latest", fill),
         "doctor-sizes.h5": ("earliest", fill_sizes), "doctor-many.h5.gz": ("earliest", fill_many)}


def main(names):
    assert "HDF5_PLUGIN_PATH" not in os.environ and not h5py.h5z.filter_avail(LMC)
    for name in names or FORMS:
        version, write = FORMS[name]
        path = os.path.join(HERE, name)
        plain = path.removesuffix(".gz")
        with h5py.File(plain, "w", libver=(version, "v110")) as file:
            write(file)
        if plain != path:
            with open(plain, "rb") as file, open(path, "wb") as packed:
                packed.write(gzip.compress(file.read(), 9, mtime=0))
            os.remove(plain)


if __name__ == "__main__":
    main(sys.argv[1:])
