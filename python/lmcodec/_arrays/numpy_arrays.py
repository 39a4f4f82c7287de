"""NumPy arrays for the tensors of a file. numpy.empty() asks for huge pages itself."""

from __future__ import annotations

import math
import sys
from typing import Any, Sequence

import numpy

from .._errors import DTypeError, LMCError
from . import Arrays, refuse_device
from .dtypes import EXTENSIONS, FILE_NAMES, NUMPY_NAMES

_BATCH_NBYTES = sys.maxsize


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

    def new(self, dtype: str, shape: Sequence[int], stored_nbytes: int) -> tuple[Any, int]:
        if dtype == "F4":
            dtype_of(dtype)
            array: Any = numpy.empty(math.prod(shape) // 2, numpy.uint8)
        else:
            array = numpy.empty(shape, dtype_of(dtype))
        return array, array.__array_interface__["data"][0]

    def part_of(self, array: Any, dtype: str, shape: Sequence[int], index: Any) -> Any:
        whole = self.finish(array, dtype, shape)
        part = numpy.asarray(whole[index])  # an index of every dimension gives a scalar
        return part if part.size == whole.size else part.copy()

    def finish(self, array: Any, dtype: str, shape: Sequence[int]) -> Any:
        return unpack_f4(array).reshape(shape) if dtype == "F4" else array

    def settle(self) -> None:
        pass


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
