"""library.py - the libhdf5 of this process, and the plugin, through ctypes."""

import ctypes
import functools
import re

from bed import FILTER_ID, PLUGIN, h5py

NAME = re.compile(r"/libhdf5(_serial)?[-.][^/]*$")


def loaded_paths():
    """Files that are mapped into this process."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        return sorted({line.split(None, 5)[5].rstrip("\n") for line in file if line.count("/")})


@functools.lru_cache(maxsize=None)
def hdf5():
    """The libhdf5 that h5py uses. There is one: nothing else that brings its own is imported here."""
    assert h5py.version.hdf5_version
    found = [path for path in loaded_paths() if NAME.search(path)]
    assert len(found) == 1, found
    return ctypes.CDLL(found[0])


@functools.lru_cache(maxsize=None)
def plugin():
    """libh5lmc.so: the same copy that HDF5 has loaded."""
    library = ctypes.CDLL(PLUGIN)
    library.lmc_h5_last_error.restype = ctypes.c_char_p
    library.lmc_h5_last_error.argtypes = []
    return library


def last_error():
    return plugin().lmc_h5_last_error().decode()


def lmc_values(dataset):
    """The values of the first LMC in the pipeline of a dataset."""
    dcpl = dataset.id.get_create_plist()
    filters = [dcpl.get_filter(i) for i in range(dcpl.get_nfilters())]
    return [values for number, _, values, _ in filters if number == FILTER_ID][0]


def encode_chunk(values, chunk):
    """What the filter stores for a chunk of a dataset with these values."""
    calls = plugin()
    capacity = ctypes.c_size_t()
    nbytes = ctypes.c_size_t()
    assert calls.lmc_h5_encode_bound(ctypes.c_size_t(len(chunk)), ctypes.byref(capacity)) == 0
    made = ctypes.create_string_buffer(capacity.value)
    numbers = (ctypes.c_uint * max(len(values), 1))(*values)
    status = calls.lmc_h5_encode_chunk(None, numbers, ctypes.c_size_t(len(values)), chunk, ctypes.c_size_t(len(chunk)),
                                       made, capacity, ctypes.byref(nbytes))
    assert status == 0, last_error()
    return made.raw[:nbytes.value]
