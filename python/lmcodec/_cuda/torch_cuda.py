"""PyTorch and its CUDA devices, for tensors that a GPU decodes.

LMCODEC_CUDA_DECODE in the environment: with "auto" the device decodes where it can; with "1" it must, and a want of
kernels or a driver is an error. Otherwise the host decodes, as for all other devices.
"""

from __future__ import annotations

import ctypes
import functools
import os
from contextlib import AbstractContextManager
from typing import Any, Sequence

import torch

from .._arrays.torch_types import dtype_of, shape_of
from .._errors import UnsupportedError, reworded
from . import cuda_abi, cuda_batch
from .cuda_batch import Room
from .cuda_load import Loader


def _room(array: Any) -> Room:
    return Room(array, array.data_ptr(), array.numel())


class TorchDevice:
    """Device of cuda_load, for the stream that is current when it is made."""

    no_memory: type[Exception] = getattr(torch.cuda, "OutOfMemoryError", MemoryError)

    def __init__(self, device: Any) -> None:
        self._device = device
        self._current = torch.cuda.current_stream(device)
        self._copies = torch.cuda.Stream(device)

    def active(self) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = torch.cuda.device(self._device)
        return context

    def pinned(self, nbytes: int) -> Room:
        return _room(torch.empty(nbytes, dtype=torch.uint8, pin_memory=True))

    def memory(self, nbytes: int) -> Room:
        """The current stream may still use memory that was freed: the other one waits for it."""
        room = _room(torch.empty(nbytes, dtype=torch.uint8, device=self._device))
        self._copies.wait_stream(self._current)
        return room

    def tensor(self, dtype: str, shape: Sequence[int], nbytes: int) -> tuple[Any, Room]:
        tensor = torch.empty(shape_of(dtype, shape), dtype=dtype_of(dtype), device=self._device)
        return tensor, Room(tensor.reshape(-1).view(torch.uint8), tensor.data_ptr(), nbytes)

    def stream(self) -> int:
        handle: int = self._current.cuda_stream
        return handle

    def copy_frames(self, device: Room, host: Room, nbytes: int) -> None:
        with torch.cuda.stream(self._copies):
            device.owner[:nbytes].copy_(host.owner[:nbytes], non_blocking=True)
        self._current.wait_stream(self._copies)

    def copy_in(self, device: Room, host: Room, nbytes: int) -> None:
        device.owner[:nbytes].copy_(host.owner[:nbytes], non_blocking=True)

    def copy_out(self, host: Room, device: Room, nbytes: int) -> None:
        host.owner[:nbytes].copy_(device.owner[:nbytes], non_blocking=True)

    def mark(self) -> Any:
        event = torch.cuda.Event()
        event.record(self._current)
        return event

    def wait(self, mark: Any) -> None:
        mark.synchronize()

    def write(self, device: Room, offset: int, address: int, nbytes: int) -> None:
        source = torch.frombuffer((ctypes.c_ubyte * nbytes).from_address(address), dtype=torch.uint8)
        device.owner[offset:offset + nbytes].copy_(source)

    def settle(self) -> None:
        self._copies.synchronize()
        self._current.synchronize()


@functools.lru_cache(maxsize=None)
def _device_info(index: int) -> Any:
    """What lmc_cuda_init() says of a device, or why it has no kernels: an UnsupportedError."""
    calls = cuda_abi.calls()
    if calls is None:
        return UnsupportedError("the package was built without liblmc_cuda: in a clone of LMC, "
                                "`pip install . -Ccmake.define.LMC_BUILD_CUDA=ON` builds it (docs/gpu.md)")
    try:
        with torch.cuda.device(index):
            torch.empty(1, device="cuda")  # makes the context
            return cuda_batch.init(calls)
    except UnsupportedError as error:
        return error


def loader_of(device: Any) -> Loader | None:
    """A loader for a device of CUDA, or None if the host is to decode. UnsupportedError with LMCODEC_CUDA_DECODE=1."""
    mode = os.environ.get("LMCODEC_CUDA_DECODE", "0")
    if mode not in ("1", "auto"):
        return None
    found = torch.device(device)
    index = torch.cuda.current_device() if found.index is None else found.index
    info, calls = _device_info(index), cuda_abi.calls()
    if calls is None or isinstance(info, UnsupportedError):
        if mode == "1":
            raise reworded(info, str(info))
        return None
    return Loader(calls, lambda: TorchDevice(torch.device("cuda", index)), info)
