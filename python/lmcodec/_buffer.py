"""Memory of Python objects without copies, and new memory that is not filled with zeros."""

from __future__ import annotations

import ctypes
import mmap
import re
import sys
from typing import Any

_SIMPLE, _WRITABLE = 0, 1  # PyBUF_ flags of the stable interface: contiguous bytes

LARGE_NBYTES = 4 << 20  # content whose size is verified before memory, in huge pages, is taken for it
TRUSTED_EXPANSION = 64  # times its stored bytes: larger content is rare
_MADV_HUGEPAGE, _MADV_POPULATE_WRITE = 14, 23  # of Linux


class _PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes, _get_buffer.restype = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int], ctypes.c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes, _release_buffer.restype = [ctypes.POINTER(_PyBuffer)], None
_resize_bytearray = ctypes.pythonapi.PyByteArray_Resize
_resize_bytearray.argtypes, _resize_bytearray.restype = [ctypes.py_object, ctypes.c_ssize_t], ctypes.c_int


class Buffer:
    """The bytes of an object that has the buffer protocol: `address` and `nbytes`, until `with` ends.

    The bytes must be contiguous, in C order. They may be read-only unless `writable`. Nothing is copied.
    Raises TypeError (not a buffer, or one of Python objects) and BufferError or ValueError (not contiguous, read-only).
    """

    __slots__ = ("_view", "address", "nbytes")

    def __init__(self, source: Any, writable: bool = False) -> None:
        if type(source) not in (bytes, bytearray) and _has_objects(source):
            raise TypeError("a buffer of Python objects holds addresses, not their content")
        self._view = _PyBuffer()
        _get_buffer(source, ctypes.byref(self._view), _WRITABLE if writable else _SIMPLE)
        self.address: int = self._view.buf or 0
        self.nbytes: int = self._view.len

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, *_: object) -> None:
        _release_buffer(ctypes.byref(self._view))


def _has_objects(source: Any) -> bool:
    """References to Python objects must be neither stored nor overwritten."""
    if getattr(getattr(source, "dtype", None), "hasobject", False):
        return True
    try:
        return "O" in re.sub(":[^:]*:", "", memoryview(source).format)  # without the names of a record's members
    except (TypeError, ValueError, BufferError):  # no buffer; or its dtype has no format: that of ml_dtypes
        return False


def new_bytearray(nbytes: int) -> bytearray:
    """A bytearray with undefined content. MemoryError if there is no such memory."""
    if nbytes > sys.maxsize:
        raise MemoryError("%d bytes are more than this machine addresses" % nbytes)
    array = bytearray()
    _resize_bytearray(array, nbytes)
    return array


def _find_madvise() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    try:
        madvise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    madvise.argtypes, madvise.restype = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int], ctypes.c_int
    return madvise


_madvise = _find_madvise()


def _advise(address: int, nbytes: int, advice: int) -> None:
    """Tells the system about the whole pages of memory. If it cannot do what is advised, that is no error."""
    first, end = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE, (address + nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if _madvise is not None and first < end:
        _madvise(first, end - first, advice)


def take_pages(address: int, nbytes: int) -> None:
    """Takes the pages of new memory that is about to be written: quicker than a fault for each of them.

    Large memory gets huge pages where the system gives them on request. The calls that read files do so themselves.
    """
    if nbytes >= LARGE_NBYTES:
        _advise(address, nbytes, _MADV_HUGEPAGE)
    _advise(address, nbytes, _MADV_POPULATE_WRITE)
