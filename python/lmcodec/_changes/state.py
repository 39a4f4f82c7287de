"""Tensors in memory, of any framework: what a delta is made of, and what it is applied to."""

from __future__ import annotations

import ctypes
from contextlib import ExitStack
from typing import Any, Callable, Mapping, NamedTuple, Sequence, Union

from .._buffer import Buffer, new_bytearray
from .._errors import ArgumentError, DTypeError
from .._files.writer import Entry, entry_of_buffer, nbytes_of
from .._waiting import share

State = Union[Mapping[str, Any], Sequence[Mapping[str, Any]]]
Names = Union[Mapping[str, str], Callable[[str], str], None]


class Place(NamedTuple):
    """Where a tensor of a state is.

    address: of its memory; of a tensor on a device, of a copy of it on the host. array: the tensor, or the copy.
    device: the tensor on the device; None for one on the host.
    """

    address: int
    array: Any
    device: Any = None


def one_mapping(state: State) -> Mapping[str, Any]:
    """The tensors of all shards. ArgumentError if two have a tensor of one name."""
    if isinstance(state, Mapping):
        return state
    tensors: dict[str, Any] = {}
    for shard in state:
        if not isinstance(shard, Mapping):
            raise TypeError("a state is a mapping of names to tensors, or a list of these, not of %s"
                            % type(shard).__name__)
        for name, tensor in shard.items():
            if name in tensors:
                raise ArgumentError("two shards have a tensor %r" % (name,))
            tensors[name] = tensor
    return tensors


def translate(names: Names, name: str) -> str:
    """The name that the other side has for the tensor `name`."""
    if names is None:
        return name
    if callable(names):
        return names(name)
    return names.get(name, name)


def entries_of(state: State, buffers: ExitStack) -> dict[str, Entry]:
    """What a writer takes, by name. `buffers` keeps the memory of buffers in its place.

    A tensor that is not contiguous, or on a device, is copied. Raises DTypeError, ArgumentError, TypeError.
    """
    return {name: _entry(name, value, buffers) for name, value in one_mapping(state).items()}


def _entry(name: str, value: Any, buffers: ExitStack) -> Entry:
    kind = _kind_of(value)
    if kind == "torch":
        from .._arrays.torch_shared import check_dense
        from ..torch import _entry as entry_of_tensor

        check_dense({name: value})
        return entry_of_tensor(name, value.detach().contiguous())
    if kind == "numpy":
        import numpy

        from ..numpy import _entry as entry_of_array

        return entry_of_array(name, numpy.ascontiguousarray(value).reshape(value.shape))
    return entry_of_buffer(name, value, buffers)


def place_of(name: str, value: Any, dtype: str, shape: Sequence[int], buffers: ExitStack) -> Place:
    """Where a tensor is that is to be changed in place. It must have this dtype and shape of a file.

    Raises ArgumentError (another dtype or shape, gaps, read-only), DTypeError (F4 of NumPy), TypeError, BufferError.
    """
    kind = _kind_of(value)
    if kind == "torch":
        return _torch_place(name, value, dtype, shape)
    if kind == "numpy":
        from .._arrays.numpy_arrays import arrays

        return Place(_address(name, arrays("cpu"), value, dtype, shape), value)
    entry = entry_of_buffer(name, value, buffers, writable=True)
    if (entry.dtype, tuple(entry.shape)) != (dtype, tuple(shape)):
        raise ArgumentError("tensor %r: the delta has %s %s, the state %s %s"
                            % (name, dtype, list(shape), entry.dtype, list(entry.shape)))
    return Place(entry.address, value)


def _torch_place(name: str, tensor: Any, dtype: str, shape: Sequence[int]) -> Place:
    from .._arrays.torch_tensors import arrays

    host = arrays("cpu")
    if tensor.device.type in ("cpu", "meta"):
        address = _address(name, host, tensor, dtype, shape)
        host.begin_writing(tensor)
        return Place(address, tensor)
    if not tensor.is_contiguous():
        raise ArgumentError("tensor %r: it is not contiguous" % (name,))
    copy = tensor.detach().to("cpu")
    return Place(_address(name, host, copy, dtype, shape), copy, tensor)


def _address(name: str, arrays: Any, array: Any, dtype: str, shape: Sequence[int]) -> int:
    try:
        address: int | None = arrays.address_in(array, dtype, shape)
    except (ArgumentError, TypeError) as error:
        raise type(error)("tensor %r: %s" % (name, str(error).replace("out ", "the state's array ", 1))) from None
    if address is None and dtype == "F4" and hasattr(array, "__array_interface__"):
        raise DTypeError("tensor %r: an array of NumPy has a byte for each value of F4, and a delta changes pairs of "
                         "values in place: give the packed bytes as a buffer, (\"F4\", shape, buffer)" % (name,))
    if address is None:
        raise ArgumentError("tensor %r: the delta has the dtype %s and changes it in place: it must have this dtype, "
                            "and be contiguous and little-endian" % (name, dtype))
    return address


def _kind_of(value: Any) -> str:
    """By what a value has: no framework is imported for it."""
    if hasattr(value, "data_ptr") and hasattr(value, "device") and hasattr(value, "detach"):
        return "torch"
    if hasattr(value, "__array__"):  # of JAX, too
        return "numpy"
    return "buffer"


def copy_of(entry: Entry) -> Entry:
    """The same tensor in memory of its own."""
    content = new_bytearray(nbytes_of(entry))
    with Buffer(content, writable=True) as place:  # a bytearray that nobody resizes keeps its place
        ctypes.memmove(place.address, entry.address, place.nbytes)
        return entry._replace(address=place.address, owner=content)


def overwrite(pairs: Sequence[tuple[Entry, Entry]], threads: int) -> None:
    """Copies the content of the second of each pair to the first."""
    def copy(number: int) -> None:
        for target, source in pairs[number::threads]:
            ctypes.memmove(target.address, source.address, nbytes_of(source))

    share(copy, range(threads))
