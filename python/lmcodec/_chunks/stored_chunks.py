"""Chunks of arrays, in the form that the HDF5 filter stores (docs/hdf5-filter.md, section 3). Needs NumPy, not HDF5."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any, Callable

import numpy

from .. import _abi, _library
from .._arrays.dtypes import NUMPY_NAMES
from .._buffer import Buffer, new_bytearray
from .._codec import dtype_of, level_of, row_nbytes_of
from .._errors import ArgumentError, DataError, DTypeError, error_of

# Of lmc_h5.h.
LEVEL_ROWS = 16
_MAGIC = 0x31434D4C
_ROW_COUNT_MIN, _ROW_COUNT_MAX = 2, 65536
_RECORD_NBYTES_MAX = 256
_CLASS_INTEGER, _CLASS_FLOAT, _CLASS_STRING, _CLASS_COMPOUND = 0, 1, 3, 6
_TYPE_BIG_ENDIAN, _TYPE_COLUMNS = 0x100, 0x800
_TYPE_DTYPE_SHIFT = 16
_NONE_KNOWN = b"lmc: a required pointer is NULL"  # as lmc_h5_last_error() has it after a call without pointers
_BYTES = _CLASS_STRING | (dtype_of("U8") + 1) << _TYPE_DTYPE_SHIFT  # text and flags: no element is known


@functools.lru_cache(maxsize=None)
def plugin() -> str:
    """Path of the HDF5 plugin. ImportError if the package has none."""
    names = _library.library_names("h5lmc")
    path = _library.find(*names)
    if path is None:
        raise ImportError("lmcodec: the package has no %s" % names[0])
    return os.path.abspath(path)


@functools.lru_cache(maxsize=None)
def calls() -> ctypes.CDLL:
    """The plugin with its calls, of which those of lmc_h5.h need no HDF5. Each thread has a context of its own."""
    library = ctypes.CDLL(plugin())
    library.H5PLget_plugin_info.restype = ctypes.c_void_p
    library.lmc_h5_encode_bound.argtypes = [ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)]
    library.lmc_h5_encode_chunk.argtypes = [
        ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint), ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t,
        ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)]
    library.lmc_h5_chunk_nbytes.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)]
    library.lmc_h5_decode_chunk.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
                                            ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)]
    library.lmc_h5_last_error.restype = ctypes.c_char_p
    return library


def last_error() -> str:
    """Why the filter last failed in this thread, or "". HDF5 1.14 and 2.0 do not report it.

    Failures of other filters, and later successes, leave the text as it is.
    """
    text: bytes = calls().lmc_h5_last_error()
    return "" if text == _NONE_KNOWN else text.decode("utf-8", "replace")


def reason_of(read: Callable[[], object]) -> str:
    """Why the filter makes read() fail with OSError, or "" if something else does."""
    calls().lmc_h5_chunk_nbytes(None, 1, None)  # its failure replaces the text of an earlier one
    try:
        read()
    except OSError:
        return last_error()
    return ""


# ---- settings ----

def check_settings(level: Any, rows: Any) -> tuple[str, bool]:
    """The settings of a codec as its user gives them. ArgumentError if they are invalid."""
    level_of(level)
    if not isinstance(rows, bool):
        raise ArgumentError("rows is True or False, not %r" % (rows,))
    return str(level), rows


def check_dtype(dtype: Any) -> None:
    """DTypeError for elements that have no fixed size: Python objects, text of variable length."""
    if dtype.hasobject:
        raise DTypeError("LMC stores elements of a fixed size, not those of dtype %s" % dtype)


# ---- chunks ----

def encode(chunk: Any, level: str, rows: bool) -> bytearray:
    """The stored form of an array that is contiguous in C order.

    rows: the first axis of a chunk with several counts snapshots of one tensor. Each is coded against the one before.
    Raises DTypeError, MemoryError.
    """
    check_dtype(chunk.dtype)
    values = _values(chunk, level, rows)
    bound, nbytes = ctypes.c_size_t(), ctypes.c_size_t()
    _check(calls().lmc_h5_encode_bound(chunk.nbytes, ctypes.byref(bound)))
    stored = new_bytearray(bound.value)
    with Buffer(_as_bytes(chunk)) as source, Buffer(stored, writable=True) as destination:
        _check(calls().lmc_h5_encode_chunk(None, (ctypes.c_uint * len(values))(*values), len(values), source.address,
                                           source.nbytes, destination.address, destination.nbytes,
                                           ctypes.byref(nbytes)))
    del stored[nbytes.value:]
    return stored


def content_nbytes(stored: Any) -> int:
    """Bytes that a stored chunk claims to decode to: at most 8 MiB for 13 stored bytes.

    Raises DataError, UnsupportedError, LimitError.
    """
    nbytes = ctypes.c_size_t()
    with Buffer(stored) as source:
        _check(calls().lmc_h5_chunk_nbytes(source.address, source.nbytes, ctypes.byref(nbytes)))
    return nbytes.value


def decode(stored: Any, out: Any) -> None:
    """Decodes a chunk into an array that is contiguous in C order, and verifies it.

    Raises DataError (also for a content of another size than `out` has), UnsupportedError, LimitError, MemoryError.
    `out` has undefined values then.
    """
    nbytes = content_nbytes(stored)
    if nbytes != out.nbytes:
        raise DataError("the stored chunk has %d bytes of content, not the %d of shape %s and dtype %s"
                        % (nbytes, out.nbytes, out.shape, out.dtype))
    written = ctypes.c_size_t()
    with Buffer(stored) as source, Buffer(_as_bytes(out), writable=True) as destination:
        _check(calls().lmc_h5_decode_chunk(None, source.address, source.nbytes, destination.address,
                                           destination.nbytes, ctypes.byref(written)))


def _check(status: int) -> None:
    if status != _abi.OK:
        raise error_of(status, last_error())


def _as_bytes(array: Any) -> Any:
    """The memory of an array. NumPy has no buffer for some dtypes, such as datetime64."""
    return array.reshape(-1).view("u1") if array.nbytes else numpy.empty(0, "u1")


def _values(chunk: Any, level: str, rows: bool) -> list[int]:
    """The values that the filter would set for such a dataset (docs/hdf5-filter.md, section 2)."""
    element_nbytes, kind = _element(chunk.dtype)
    row_count = chunk.shape[0] if rows and chunk.ndim > 1 and not kind & _TYPE_COLUMNS else 0
    if not _ROW_COUNT_MIN <= row_count <= _ROW_COUNT_MAX or chunk.nbytes == 0:
        row_count = 0
    return [level_of(level) + (LEVEL_ROWS if rows else 0), 0, 0, _MAGIC, element_nbytes, kind,
            chunk.nbytes & 0xFFFFFFFF, chunk.nbytes >> 32, row_count, _row_nbytes(chunk, element_nbytes, kind)]


def _element(dtype: Any) -> tuple[int, int]:
    """Bytes of an element as the codec takes it, and the value "type": class, flags, dtype."""
    is_little = dtype.newbyteorder("<") == dtype
    name = NUMPY_NAMES.get(str(dtype.newbyteorder("=")))
    if dtype.kind == "c" and dtype.itemsize <= 16:
        nbytes, name, number_class = dtype.itemsize // 2, "F%d" % (dtype.itemsize * 4), _CLASS_FLOAT
    elif name is not None and name.startswith(("F", "BF")) and name != "F4":
        nbytes, number_class = dtype.itemsize, _CLASS_FLOAT
    elif dtype.kind in "bS":
        return 1, _BYTES
    elif dtype.kind == "U" or dtype.itemsize in (1, 2, 4, 8):
        # A sample of the chunk decides: integers are often floats that the writer had no dtype for, such as bf16.
        nbytes, name, number_class = (4 if dtype.kind == "U" else dtype.itemsize), None, _CLASS_INTEGER
    elif dtype.itemsize <= _RECORD_NBYTES_MAX:
        return dtype.itemsize, _CLASS_COMPOUND | _TYPE_COLUMNS
    else:
        return 1, _BYTES
    flags = 0 if is_little or nbytes == 1 else _TYPE_BIG_ENDIAN
    return nbytes, number_class | flags | (0 if name is None else dtype_of(name) + 1) << _TYPE_DTYPE_SHIFT


def _row_nbytes(chunk: Any, element_nbytes: int, kind: int) -> int:
    """Bytes of a row of a matrix; 0 if the chunk has one row, or elements that are not numbers."""
    nbytes = row_nbytes_of(chunk.shape, chunk.dtype.itemsize)
    is_number = not kind & _TYPE_COLUMNS and kind != _BYTES
    return nbytes if is_number and nbytes < min(chunk.nbytes, (1 << 32) - 1) and nbytes % element_nbytes == 0 else 0
