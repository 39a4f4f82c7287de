"""The filter: its library, its place in h5py's HDF5, and its values."""

from __future__ import annotations

import ctypes
from typing import Any

import h5py

from .. import _system
from .._chunks.stored_chunks import LEVEL_ROWS, calls
from .._codec import level_of
from .._errors import ArgumentError

FILTER_ID: int = ctypes.cast(calls().H5PLget_plugin_info(), ctypes.POINTER(ctypes.c_int))[1]  # of a H5Z_class2_t
_ELEMENT_NBYTES = (0, 1, 2, 4, 8)
_BLOCK_KIB = (0, 16, 32, 64, 128, 256, 512, 1024)


def register() -> None:
    """Registers the filter with h5py's HDF5, replacing one of the same number. `import lmcodec.h5` calls it.

    Other libraries of the process, such as netCDF4, may have an HDF5 of their own: they need HDF5_PLUGIN_PATH.
    Raises ImportError, RuntimeError (HDF5 refuses the filter).
    """
    info = calls().H5PLget_plugin_info()
    if hasattr(h5py.h5z, "register_filter"):
        h5py.h5z.register_filter(info)
        return
    # before h5py 3.8: a module also shows the calls of the HDF5 that it uses, but not on Windows
    hdf5 = ctypes.CDLL("hdf5.dll" if _system.IS_WINDOWS else h5py.h5z.__file__)
    with h5py._objects.phil:
        if hdf5.H5Zregister(ctypes.c_void_p(info)) < 0:
            raise RuntimeError("HDF5 %s does not take the filter" % h5py.version.hdf5_version)


class LMC(h5py.filters.FilterRefBase):  # type: ignore[misc]
    """The filter with its values, for h5py: `create_dataset(..., compression=LMC())` or `create_dataset(..., **LMC())`.

    level: "default", "fast" or "max".
    rows: each row of a chunk, along the first axis, is a snapshot of one tensor, and is coded against the row before.
    element_nbytes: bytes of an element, 1, 2, 4 or 8; 0 takes it from the dataset's dtype.
    block_kib: KiB of a block, a power of two from 16 to 1024; 0 lets LMC choose.

    Chunks of 256 KiB to 4 MiB are best; h5py's own are smaller. Raises ArgumentError.
    """

    filter_id = FILTER_ID

    def __init__(self, level: str = "default", *, rows: bool = False, element_nbytes: int = 0,
                 block_kib: int = 0) -> None:
        if element_nbytes not in _ELEMENT_NBYTES:
            raise ArgumentError("element_nbytes is 0, 1, 2, 4 or 8, not %r" % (element_nbytes,))
        if block_kib not in _BLOCK_KIB:
            raise ArgumentError("block_kib is 0 or a power of two from 16 to 1024, not %r" % (block_kib,))
        first = int(level_of(level)) + (LEVEL_ROWS if rows else 0)
        self.filter_options: tuple[int, ...] = (first, int(element_nbytes), int(block_kib))

    def __repr__(self) -> str:
        return "LMC%r" % (self.filter_options,)


def set_filter(properties: Any, values: tuple[int, ...]) -> None:
    """Appends the filter to those of a dataset that is to be created. It is never left out silently."""
    properties.set_filter(FILTER_ID, h5py.h5z.FLAG_MANDATORY, values)
