"""Finds and loads the native library."""

import ctypes
import functools
import os


def native_dir() -> str:
    """The folder of the package that has the library, the HDF5 plugin and the command."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "_native")


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The library, with all calls of lmc.h, lmc_st.h and lmc_h5.h."""
    found = ctypes.CDLL(os.path.join(native_dir(), "liblmc_st.so"))
    found.lmc_version_text.restype = ctypes.c_char_p
    found.lmc_kernels_name.restype = ctypes.c_char_p
    return found
