"""Memory of Python objects without copies, and new memory that is not filled with zeros."""

from __future__ import annotations

import ctypes
import mmap
import re
import sys
import time
from typing import Any

_SIMPLE, _WRITABLE = 0, 1  # PyBUF_ flags of the stable interface: contiguous bytes

HUGE_PAGE_NBYTES = 2 << 20
HUGE_FROM_NBYTES = 4 << 20  # of a block of memory that is worth huge pages
TRUSTED_EXPANSION = 64  # times its stored bytes: larger content is rare
_MADV_HUGEPAGE, _MADV_POPULATE_WRITE = 14, 23  # of Linux, on x86-64 and AArch64


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
    Raises TypeError (no buffer, or one of Python objects) and BufferError or ValueError (not contiguous, read-only).
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


def new_bytearray(nbytes: int, stored_nbytes: int | None = None) -> bytearray:
    """A bytearray with undefined content, on huge pages if it is large. MemoryError if there is no such memory.

    stored_nbytes: as for take_huge_pages().
    """
    if nbytes > sys.maxsize:
        raise MemoryError("%d bytes are more than this machine addresses" % nbytes)
    array = bytearray()
    _resize_bytearray(array, nbytes)
    if nbytes >= HUGE_FROM_NBYTES:
        with Buffer(array, writable=True) as buffer:
            take_huge_pages(buffer.address, nbytes, stored_nbytes)
    return array


def _find_madvise() -> Any:
    try:
        madvise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    madvise.argtypes, madvise.restype = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int], ctypes.c_int
    return madvise if hasattr(mmap, "MADV_HUGEPAGE") else None


_madvise = _find_madvise()


class _HugePages:
    """Takes huge pages as long as they are quick to get.

    Page faults take longer than decoding does, and a huge page has one for 512. But a virtual machine may have given
    its free huge pages back to its host: then each takes milliseconds to come again, and small pages that were in use
    a moment ago are quicker. So pages are taken one after the other, up to one that takes longer than small ones.
    """

    SKIPPED_BLOCKS = 3  # of memory that are not asked after one with a slow page

    def __init__(self) -> None:
        self._blocks_to_skip = 0
        self._small_s = 0.0  # how long as many bytes took in small pages

    def take(self, address: int, nbytes: int, trusted_nbytes: int) -> None:
        """Takes huge pages for this memory, which has not been touched, while they help.

        Behind the first trusted_nbytes, the system gives huge pages as the memory is written.
        """
        first = -(-address // HUGE_PAGE_NBYTES) * HUGE_PAGE_NBYTES
        last = (address + nbytes) // HUGE_PAGE_NBYTES * HUGE_PAGE_NBYTES
        trusted = max(first, min(last, (address + trusted_nbytes) // HUGE_PAGE_NBYTES * HUGE_PAGE_NBYTES))
        if self._blocks_to_skip > 0:
            self._blocks_to_skip -= 1
            return
        if self._small_s == 0.0 and first < trusted:
            self._small_s = self._seconds_of(first)
            first += HUGE_PAGE_NBYTES
        for page in range(first, trusted, HUGE_PAGE_NBYTES):
            _madvise(page, HUGE_PAGE_NBYTES, _MADV_HUGEPAGE)
            if self._seconds_of(page) > self._small_s:
                self._blocks_to_skip = self.SKIPPED_BLOCKS
                return
        if trusted < last:
            _madvise(trusted, last - trusted, _MADV_HUGEPAGE)

    @staticmethod
    def _seconds_of(page: int) -> float:
        """The CPU time that these bytes take to come, or 0 where Linux is older than 5.14 and cannot be asked."""
        begin = time.thread_time()
        failed = _madvise(page, HUGE_PAGE_NBYTES, _MADV_POPULATE_WRITE)
        return 0.0 if failed else time.thread_time() - begin


_huge_pages = _HugePages()


def take_huge_pages(address: int, nbytes: int, stored_nbytes: int | None = None) -> None:
    """Takes huge pages for this memory, which has not been touched, where they help. If it cannot, that is no error.

    stored_nbytes: of the untrusted data that will be decoded to it. No more than TRUSTED_EXPANSION times as much is
        taken here. The rest comes as it is written. None: the memory will be filled.
    """
    if _madvise is not None and nbytes >= HUGE_FROM_NBYTES:
        _huge_pages.take(address, nbytes, nbytes if stored_nbytes is None else TRUSTED_EXPANSION * stored_nbytes)
