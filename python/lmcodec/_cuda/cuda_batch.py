"""A batch of frames that a GPU decodes: liblmc_cuda's calls with exceptions."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, NamedTuple

from .. import _abi
from .._errors import DeviceError, check_status, error_of
from .cuda_abi import WRITE, BatchInfo, Calls, Device, Failure, Frame, Launch, Memory, Report

Write = Callable[[int, int, int], None]


class Room(NamedTuple):
    """Memory of the host or of the device: what owns it, and where it is."""

    owner: Any
    address: int
    nbytes: int


def _raise(status: int, diag: _abi.Diag) -> None:
    text = diag.text.decode("utf-8", "replace")
    raise DeviceError(text) if status == _abi.IO else error_of(status, text, offset=diag.offset)


def init(calls: Calls) -> Device:
    """Loads the kernels into the current context of this thread. UnsupportedError, DeviceError."""
    device, diag = Device(), _abi.Diag()
    status = calls.init(ctypes.byref(device), ctypes.byref(diag))
    if status != _abi.OK:
        _raise(status, diag)
    return device


class Batch:
    """lmc_cuda_batch. The memory that prepare() is given must stay until finish() or clear()."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._pointer = ctypes.c_void_p()
        self._names: list[bytes] = []
        check_status(calls.batch_create(None, ctypes.byref(self._pointer)))

    def __del__(self) -> None:
        if self._pointer:
            self._calls.batch_free(self._pointer)

    def clear(self) -> None:
        """Takes all frames out."""
        self._calls.batch_clear(self._pointer)
        self._names.clear()

    def prepare(self, name: str, frame: Room, device_frame: int, content: Room) -> None:
        """Adds the frame of a tensor: in memory, where its copy will be on the device, room for its content there."""
        self._names.append(name.encode("utf-8", "surrogatepass"))
        struct = Frame()
        struct.name, struct.frame, struct.frame_nbytes = self._names[-1], frame.address, frame.nbytes
        struct.device_frame, struct.device_content = device_frame, content.address
        struct.content_capacity = content.nbytes
        self._check(self._calls.prepare(self._pointer, ctypes.byref(struct)))

    def info(self) -> BatchInfo:
        info = BatchInfo()
        self._check(self._calls.batch_info(self._pointer, ctypes.byref(info)))
        return info

    def write_image(self, room: Room) -> None:
        self._check(self._calls.write_image(self._pointer, room.address, room.nbytes))

    def decode(self, stream: int, image: Room, results: Room, scratch: Room) -> None:
        """Enqueues the decoding. UnsupportedError, DeviceError."""
        struct = Launch()
        struct.stream, struct.image, struct.results = stream or None, image.address, results.address
        struct.scratch, struct.scratch_nbytes = scratch.address, scratch.nbytes
        self._check(self._calls.decode(self._pointer, ctypes.byref(struct)))

    def finish(self, results: Room, write: Write) -> tuple[Report, dict[int, Failure]]:
        """Reads what the device has said. write(device address, address, nbytes) brings content of the host to it.

        Returns the report, and the first failure of each frame that has one, by the frame's number.
        """
        raised: list[BaseException] = []

        def guarded(_: Any, device_address: int, address: int, nbytes: int) -> int:
            try:
                write(device_address, address, nbytes)
            except BaseException as error:
                raised.append(error)
                return _abi.IO
            return _abi.OK

        memory, report = Memory(), Report()
        memory.write = WRITE(guarded)
        status = self._calls.finish(self._pointer, results.address, results.nbytes, ctypes.byref(memory),
                                    ctypes.byref(report))
        if raised:
            raise raised.pop()
        failures = self._failures()
        if not failures:
            self._check(status)
        return report, failures

    def _failures(self) -> dict[int, Failure]:
        found: dict[int, Failure] = {}
        number, failure = 0, Failure()
        while self._calls.failed_block(self._pointer, number, ctypes.byref(failure)):
            found.setdefault(failure.frame_index, failure)
            number, failure = number + 1, Failure()
        return found

    def _check(self, status: int) -> None:
        if status != _abi.OK:
            _raise(status, self._calls.diag(self._pointer).contents)
