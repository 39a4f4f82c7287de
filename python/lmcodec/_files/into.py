"""Tensors that are read to memory which exists, or to another dtype."""

from __future__ import annotations

import math
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from .._arrays import Arrays
from .._errors import ArgumentError, DTypeError
from .file import File, TensorInfo

_PIECE_NBYTES = 8 << 20  # of a tensor that is converted at a time


class Target(NamedTuple):
    """Where a tensor goes.

    address: of memory that takes the content as it is; None if it must be converted first. is_new: it is not the
    caller's.
    """

    array: Any
    address: int | None
    is_new: bool = False


def targets_of(file: File, arrays: Arrays, wanted: Mapping[str, TensorInfo], out: Mapping[str, Any] | None,
               dtype: Any) -> dict[str, Target]:
    """Targets of the tensors that have an array in `out`, and of those that get another dtype.

    What can be checked without reading content is: nothing has been written if this raises.
    """
    targets = {}
    for name, array in (out or {}).items():
        if name not in wanted:
            raise ArgumentError("out has a tensor %r, which is not read" % (name,))
        if array is None:
            raise TypeError("out[%r] is None" % (name,))
        try:
            targets[name] = Target(array, arrays.address_in(array, wanted[name].dtype, wanted[name].shape))
        except (ArgumentError, TypeError) as error:
            raise type(error)("tensor %r: %s" % (name, error)) from None
    if dtype is not None:
        for name, tensor in wanted.items():
            if name not in targets and arrays.is_converted(tensor.dtype, dtype):
                file.check_size(tensor)
                try:
                    targets[name] = Target(arrays.new_of(dtype, tensor.dtype, tensor.shape), None, True)
                except DTypeError as error:
                    raise DTypeError("tensor %r: %s" % (name, error)) from None
    if out:
        file.check_base(wanted[name] for name in out)
        for name in out:
            arrays.begin_writing(out[name])
    return _without_overlaps(targets, wanted)


def _without_overlaps(targets: dict[str, Target], wanted: Mapping[str, TensorInfo]) -> dict[str, Target]:
    """Of two tensors in the same memory, the later one is copied there, as if it were converted, and not decoded."""
    end = 0
    for address, name in sorted((target.address, name) for name, target in targets.items()
                                if target.address is not None and wanted[name].nbytes):
        if address < end:
            targets[name] = targets[name]._replace(address=None)
        else:
            end = address + wanted[name].nbytes
    return targets


def convert(file: File, tensor: TensorInfo, arrays: Arrays, target: Any, threads: int | None) -> None:
    """Reads a tensor to an array of another dtype or layout, or on a device, with at most 8 MiB of other memory if the
    array can be cut into pieces of that size. Views are read at once: each piece might need all of the storage."""
    target, shape = arrays.cut(target, tensor.dtype, tensor.shape)
    if shape is None or tensor.strides is not None:
        file.check_size(tensor)
        array, address = arrays.new(tensor.dtype, tensor.shape)
        file.read_range(tensor, 0, tensor.nbytes, address)
        arrays.fill(target, arrays.finish(array, tensor.dtype, tensor.shape).reshape(target.shape))
        return
    count = math.prod(shape)
    width = tensor.nbytes // count if count else 1
    room, address = arrays.new(tensor.dtype, (min(count, _PIECE_NBYTES // width),))
    for part, first, part_shape in _pieces(target, shape, 0, width):
        values = math.prod(part_shape)
        file.read_range(tensor, first * width, values * width, address, threads=threads)
        arrays.fill(part, room[:values].reshape(part_shape))


def _pieces(target: Any, shape: Sequence[int], first: int, width: int) -> Iterator[tuple[Any, int, Sequence[int]]]:
    """Parts of an array, each with the number of its first value and its shape. They have at most _PIECE_NBYTES."""
    most, row = _PIECE_NBYTES // width, math.prod(shape[1:])
    if math.prod(shape) <= most:
        yield target, first, shape
    elif row > most:
        for number in range(shape[0]):
            yield from _pieces(target[number], shape[1:], first + number * row, width)
    else:
        for number in range(0, shape[0], most // row):
            part = target[number:number + most // row]
            yield part, first + number * row, (len(part), *shape[1:])
