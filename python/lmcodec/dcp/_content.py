"""Contents of items for the archive writer: memory that is there, or what is moved from a device on demand."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections import OrderedDict
from typing import Any, Callable

import torch

from .._arrays import torch_types
from .._arrays.torch_shared import has_memory
from .._errors import DTypeError
from .._files.writer import Entry

_CACHED_NBYTES = 64 << 20  # of items that were moved; or one that is larger
_PARTS = {torch.complex128: ("F64", torch.float64), torch.complex32: ("F16", torch.float16)}

Resolve = Callable[[], Any]


class Cache:
    """Items in memory that were moved from a device, or put in order: the last ones, within a bound."""

    def __init__(self) -> None:
        self._items: OrderedDict[int, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: int, make: Resolve) -> Any:
        """The item of this key, which make() makes unless it is here."""
        with self._lock:
            if key not in self._items:
                while len(self._items) > 1 and sum(item.nbytes for item in self._items.values()) > _CACHED_NBYTES:
                    self._items.popitem(last=False)
                self._items[key] = make()
            self._items.move_to_end(key)
            return self._items[key]


def tensor_entry(name: str, resolve: Resolve, cache: Cache) -> Entry:
    """The entry for a tensor that resolve() gives: every time the same values.

    A tensor in memory is read where it is. The content of any other is moved when it is written. DTypeError if
    it has no content of this kind.
    """
    tensor = resolve().detach()
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta or not has_memory(tensor):
        raise DTypeError("%s: only dense tensors with content are stored, not %s %s on %s"
                         % (name, tensor.layout, tensor.dtype, tensor.device))
    if sys.byteorder == "big":
        raise NotImplementedError("tensors are written on little-endian machines alone")
    dtype, shape = _description(tensor)
    if tensor.nbytes == 0:
        return Entry(name, dtype, shape, 0, None)
    if tensor.device.type != "cpu":  # threads of the library move it, which know nothing of this thread's streams
        torch.get_device_module(tensor.device).synchronize()
    again = resolve().detach()
    is_plain = tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()  # memory is as in files
    if not is_plain or again.data_ptr() != tensor.data_ptr():
        return Entry(name, dtype, shape, 0, None, _ItemReader(resolve, cache).read)
    if tensor.device.type == "cpu":
        return Entry(name, dtype, shape, tensor.data_ptr(), tensor)
    return Entry(name, dtype, shape, 0, None, _DeviceReader(tensor).read)


def _description(tensor: Any) -> tuple[str, list[int]]:
    """dtype and shape in the file. A dtype that files do not have is stored as its parts, or as bytes."""
    shape = [*tensor.shape]
    dtype = torch_types.NAMES.get(tensor.dtype)
    if dtype == "F4" and shape:
        shape[-1] *= 2
    if dtype is not None and not (dtype == "F4" and not shape):
        return dtype, shape
    if tensor.dtype in _PARTS:
        return _PARTS[tensor.dtype][0], [*shape, 2]
    return "U8", [*shape, tensor.element_size()]


def _as_bytes(tensor: Any) -> Any:
    return tensor.reshape(-1).view(torch.uint8)


class _DeviceReader:
    """A tensor on a device, in order there. Each part is moved when it is wanted."""

    def __init__(self, tensor: Any) -> None:
        self._content = _as_bytes(tensor)

    def read(self, offset: int, address: int, nbytes: int) -> None:
        place = (ctypes.c_ubyte * nbytes).from_address(address)
        torch.frombuffer(place, dtype=torch.uint8).copy_(self._content[offset:offset + nbytes])


class _ItemReader:
    """A tensor that is moved, put in order or made as a whole."""

    def __init__(self, resolve: Resolve, cache: Cache) -> None:
        self._resolve, self._cache = resolve, cache

    def read(self, offset: int, address: int, nbytes: int) -> None:
        content = self._cache.get(id(self), self._make)
        ctypes.memmove(address, content.data_ptr() + offset, nbytes)

    def _make(self) -> Any:
        tensor = self._resolve().detach().to("cpu").resolve_conj().resolve_neg().contiguous()
        return _as_bytes(tensor)
