"""NumPy arrays for the tensors of a file.

Memory of large arrays is not that of numpy.empty(), which asks for huge pages. A virtual machine may have given its
free huge pages back to its host. Then each one takes longer than all that is decoded to it.
"""

from __future__ import annotations

import math
import sys
from typing import Any, Sequence

import numpy

from .._buffer import LARGE_NBYTES, Buffer, new_bytearray, take_pages
from .._errors import ArgumentError, DTypeError, LMCError
from . import Arrays, refuse_device
from .dtypes import EXTENSIONS, FILE_NAMES, NUMPY_NAMES

_BATCH_NBYTES = sys.maxsize
_EXTENSION_FLOATS = frozenset(FILE_NAMES[name] for name in EXTENSIONS if name != "F4")
_ALIGNMENT = 64  # of large arrays: JAX takes them over without a copy
_NEW_NBYTES = 1 << 20  # of an array whose pages are taken before it is filled


def dtype_of(name: str) -> Any:
    """NumPy's dtype for one of a file. Raises DTypeError. "F4" has a byte for each value."""
    if name not in FILE_NAMES:
        raise DTypeError("NumPy has no dtype for %s" % name)
    if name not in EXTENSIONS:
        return numpy.dtype(FILE_NAMES[name])
    try:
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, FILE_NAMES[name]))
    except (ImportError, AttributeError):
        raise DTypeError("NumPy has no dtype for %s: install ml_dtypes 0.5 or newer" % name) from None


def name_of(array: Any) -> str:
    """The dtype that a file has for a NumPy array. Raises DTypeError."""
    try:
        return NUMPY_NAMES[array.dtype.name]
    except KeyError:
        raise DTypeError("files have no dtype for NumPy's %s" % array.dtype) from None


class NumpyArrays:
    is_free_index = False
    batch_nbytes = _BATCH_NBYTES
    loader = None

    def new(self, dtype: str, shape: Sequence[int]) -> tuple[Any, int]:
        if dtype == "F4":
            dtype_of(dtype)
            array = _empty((math.prod(shape) // 2,), numpy.dtype(numpy.uint8))
        else:
            array = _empty(shape, dtype_of(dtype))
        return array, array.__array_interface__["data"][0]

    def new_of(self, dtype: Any, file_dtype: str, shape: Sequence[int]) -> Any:
        if not _is_convertible(dtype_of(file_dtype), numpy.dtype(dtype)):
            raise DTypeError("NumPy does not convert %s to %s" % (dtype_of(file_dtype), numpy.dtype(dtype)))
        return _empty(shape, numpy.dtype(dtype))

    def is_converted(self, file_dtype: str, dtype: Any) -> bool:
        if not _is_float(numpy.dtype(dtype)):
            raise DTypeError("dtype is one of floating point, not %s" % numpy.dtype(dtype))
        return _is_float(dtype_of(file_dtype)) and dtype_of(file_dtype) != numpy.dtype(dtype)

    def address_in(self, array: Any, dtype: str, shape: Sequence[int]) -> int | None:
        if not isinstance(array, numpy.ndarray):
            raise TypeError("out is not a NumPy array, but of the type %s" % type(array).__name__)
        if array.shape != tuple(shape):
            raise ArgumentError("out has the shape %s, the tensor %s" % (list(array.shape), list(shape)))
        if not array.flags.writeable:
            raise ArgumentError("out is read-only")
        if array.size and any(size > 1 and step == 0 for size, step in zip(array.shape, array.strides)):
            raise ArgumentError("out has several elements in the same memory")
        if not _is_convertible(dtype_of(dtype), array.dtype):
            raise ArgumentError("out has the dtype %s: NumPy does not convert %s to it"
                                % (array.dtype, dtype_of(dtype)))
        is_as_stored = dtype != "F4" and array.dtype == dtype_of(dtype) and array.flags.c_contiguous
        return array.__array_interface__["data"][0] if is_as_stored else None

    def begin_writing(self, array: Any) -> None:
        pass

    def cut(self, array: Any, dtype: str, shape: Sequence[int]) -> tuple[Any, Sequence[int] | None]:
        if dtype == "F4" or not shape:
            return array, None
        return (array.reshape(-1), (array.size,)) if array.flags.c_contiguous else (array, shape)

    def fill(self, array: Any, content: Any) -> None:
        if array.nbytes >= _NEW_NBYTES and array.flags.c_contiguous:
            take_pages(array.__array_interface__["data"][0], array.nbytes)
        array[...] = content

    def part_of(self, array: Any, dtype: str, shape: Sequence[int], index: Any) -> Any:
        whole = self.finish(array, dtype, shape)
        part = numpy.asarray(whole[index])  # an index of every dimension gives a scalar
        return part if part.size == whole.size else part.copy()

    def finish(self, array: Any, dtype: str, shape: Sequence[int]) -> Any:
        return unpack_f4(array).reshape(shape) if dtype == "F4" else array

    def settle(self) -> None:
        pass


def _is_float(dtype: Any) -> bool:
    return bool(numpy.issubdtype(dtype, numpy.floating)) or dtype.name in _EXTENSION_FLOATS


def _is_convertible(dtype: Any, wanted: Any) -> bool:
    """Whether an array of one dtype can be assigned to one of another."""
    try:
        numpy.empty(1, wanted)[...] = numpy.zeros(1, dtype)
    except (TypeError, ValueError):
        return False
    return True


def _empty(shape: Sequence[int], dtype: Any) -> Any:
    """An array whose content is undefined."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < LARGE_NBYTES:
        return numpy.empty(shape, dtype)
    memory = new_bytearray(nbytes + _ALIGNMENT)
    with Buffer(memory) as buffer:
        offset = -buffer.address % _ALIGNMENT
    return numpy.ndarray(shape, dtype, memory, offset)


def unpack_f4(packed: Any) -> Any:
    """A value for each half of a byte, the low one first."""
    values = numpy.empty((packed.size, 2), numpy.uint8)
    numpy.bitwise_and(packed, 15, out=values[:, 0])
    numpy.right_shift(packed, 4, out=values[:, 1])
    return values.reshape(-1).view(dtype_of("F4"))


def pack_f4(values: Any) -> Any:
    """The bytes of an array of F4, two values in each. Raises LMCError for an odd number of values."""
    if values.size % 2:
        raise LMCError("F4 has two values in a byte: %d values are an odd number" % values.size)
    pairs = values.reshape(-1).view(numpy.uint8).reshape(-1, 2)
    return (pairs[:, 0] & 15) | (pairs[:, 1] << 4)


def arrays(device: Any) -> Arrays:
    refuse_device(device, "numpy")
    return NumpyArrays()
