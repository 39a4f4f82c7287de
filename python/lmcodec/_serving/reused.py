"""Memory for tensors that are copied elsewhere and then let go of."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Sequence

import torch

from .._arrays.torch_types import dtype_of, shape_of
from .._buffer import new_bytearray
from .._files.safe_open import safe_open

_ROOM_COUNT = 4
_FROM_NBYTES, _TO_NBYTES = 1 << 20, 256 << 20  # of a tensor that gets such memory


class Reused:
    """New tensors, in memory of earlier ones that are gone: the system may take longer to give new pages than the
    library to fill them.

    A tensor and its views own their memory like any others: it is used again only when the last of them is gone. At
    most 4 rooms of at most 256 MiB are kept, until the object is gone. Several threads may use one object.
    """

    def __init__(self) -> None:
        self._rooms: list[tuple[bytearray, Any]] = []  # the oldest first; the reference is dead if no tensor is there
        self._lock = threading.Lock()

    def tensor(self, dtype: str, shape: Sequence[int], nbytes: int) -> Any:
        """A tensor with undefined content. dtype and shape: of a file. nbytes: of both. DTypeError, MemoryError."""
        own_shape, own_dtype = shape_of(dtype, shape), dtype_of(dtype)
        if not _FROM_NBYTES <= nbytes <= _TO_NBYTES:
            return torch.empty(own_shape, dtype=own_dtype, device="cpu")
        with self._lock:
            room = self._room(nbytes)
            view = memoryview(room)  # the storage of a tensor keeps this object
            self._rooms = [*self._rooms[-_ROOM_COUNT + 1:], (room, weakref.ref(view))]
        return torch.frombuffer(view, dtype=torch.uint8, count=nbytes).view(own_dtype).reshape(own_shape)

    def decoded(self, file: safe_open, name: str) -> Any:
        """A tensor of a file. Raises as get_tensor()."""
        tensor = file.file.find(name)
        file.file.check_size(tensor)
        return file.get_tensor(name, out=self.tensor(tensor.dtype, tensor.shape, tensor.nbytes))

    def _room(self, nbytes: int) -> bytearray:
        """The smallest room that has no tensor, taken from the list; a new one if none has enough bytes, or all have
        more than twice as many."""
        free = [(len(room), number) for number, (room, user) in enumerate(self._rooms)
                if user() is None and nbytes <= len(room) <= 2 * nbytes]
        if free:
            return self._rooms.pop(min(free)[1])[0]
        return new_bytearray(nbytes)
