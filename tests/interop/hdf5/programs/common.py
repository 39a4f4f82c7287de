"""common.py - what the programs of this folder share. They run in every environment, with h5py of several ages."""
import ctypes
import os
import traceback

import numpy as np

FILTER = 59810
MAGIC = 0x31434D4C
COLUMNS = 4096
CHUNKS = (16, COLUMNS)  # 256 KiB of f4
MANY_BLOCKS = (0, 0, 16)  # user values: 16 blocks in such a chunk, so that LMC_NUM_THREADS makes threads


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def in_child(work):
    """Starts work() in a forked child; returns its number."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def weights(seed, rows=64):
    """f4 numbers spread as weights are; bit for bit the same with every numpy."""
    raw = np.random.PCG64(seed).random_raw(2 * rows * COLUMNS).reshape(2, -1)
    pieces = raw[0].copy().view("<u2").reshape(-1, 4).astype("<i4")
    bell = (pieces.sum(axis=1) - 131070).astype("<f4")
    mantissa = (raw[1] >> 41).astype("<f4") / np.float32(1 << 23) + np.float32(0.5)
    return (bell * mantissa / np.float32(1 << 21)).reshape(rows, COLUMNS)


def same(found, wanted):
    found = np.asarray(found)
    return found.dtype == wanted.dtype and found.shape == wanted.shape and found.tobytes() == wanted.tobytes()


def check_values(values, user=(0, 0, 0), element_nbytes=4, chunk_nbytes=16 * COLUMNS * 4):
    """What the filter notes down for a dataset of floats."""
    check(tuple(values[:3]) == tuple(user), "user values moved: %s" % (values,))
    check(len(values) == 10 and values[3] == MAGIC and values[4] == element_nbytes, "values: %s" % (values,))
    check(values[5] & 0xFF == 1, "not class float: %s" % (values,))
    check(values[6] == chunk_nbytes and values[7] == 0, "chunk size: %s" % (values,))
    check(values[8] == 0 and values[9] == COLUMNS * element_nbytes, "rows: %s" % (values,))


def filter_of(dataset):
    """number, flags, values and name of the one filter of an h5py dataset."""
    plist = dataset.id.get_create_plist()
    check(plist.get_nfilters() == 1, "filters: %d" % plist.get_nfilters())
    return plist.get_filter(0)


def check_coded(dataset):
    """All chunks of an h5py dataset went through the filter and became smaller."""
    number, _, values, name = filter_of(dataset)
    check(number == FILTER and name.startswith(b"lmc"), "filter: %s" % ((number, name),))
    chunk_nbytes = int(np.prod(dataset.chunks)) * dataset.dtype.itemsize
    for i in range(dataset.id.get_num_chunks()):
        info = dataset.id.get_chunk_info(i)
        check(info.filter_mask == 0, "chunk %d was stored without the filter" % i)
        check(info.size < 0.95 * chunk_nbytes, "chunk %d takes %d of %d bytes" % (i, info.size, chunk_nbytes))
    return values


def write_h5py(h5py, path, content, name="w", **options):
    with h5py.File(path, "w") as file:
        file.create_dataset(name, data=content, chunks=CHUNKS, compression=FILTER, **options)


def read_h5py(h5py, path, content, name="w"):
    """Reads and checks a dataset; returns the filter's values."""
    with h5py.File(path, "r") as file:
        check(same(file[name][...], content), "%s: h5py reads other numbers" % path)
        return check_coded(file[name])


def loaded(part):
    """Paths of the files in this process's memory whose name has `part` in it."""
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if part in line and "/" in line}
    return sorted(path for path in paths if part in os.path.basename(path))


def open_plugin(path=None):
    """The plugin, as a library for ctypes; the one that HDF5 has loaded."""
    library = ctypes.CDLL(path or loaded("libh5lmc")[0])
    library.lmc_h5_last_error.restype = ctypes.c_char_p
    return library
