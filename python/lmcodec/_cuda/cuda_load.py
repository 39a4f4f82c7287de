"""Loads tensors of an archive whose frames a GPU decodes.

Frames are read as they are stored, into two pinned buffers in turn. While the device gets and decodes those of one, the
next ones are read into the other. Tensors against a base, views, plain and remote files are left to the caller; so are
tensors that the device refuses: the host decides whether they are damaged.
"""

from __future__ import annotations

import ctypes
import math
from bisect import bisect_right
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Protocol, Sequence

from .. import _abi
from .._files.file import File, TensorInfo
from .._files.progress import ProgressCall
from .cuda_abi import Calls
from .cuda_abi import Device as DeviceInfo
from .cuda_batch import Batch, Room

BUFFER_NBYTES = 128 << 20   # of a pinned buffer, and of its copy on the device; more if a frame is larger
LEAST_NBYTES = 1 << 20      # of content that is worth all this
_SCRATCH_NBYTES = 512 << 20  # at most
_PIECE_NBYTES = 8 << 20     # that a thread reads at a time
_FRAME_ALIGNMENT = 64       # of frames in a buffer


class Device(Protocol):
    """What is asked of a framework and its device. `owner` of a Room is an array of bytes of the framework.

    Its current stream has all work but the copies of frames, for which there is a second stream.
    no_memory: the exception of a device whose memory is used up.
    """

    no_memory: type[Exception]

    def active(self) -> AbstractContextManager[Any]:
        """Makes the device the current one."""

    def pinned(self, nbytes: int) -> Room:
        """Memory of the host that the device copies from and to without the host."""

    def memory(self, nbytes: int) -> Room:
        """Memory of the device for the current stream."""

    def tensor(self, dtype: str, shape: Sequence[int], nbytes: int) -> tuple[Any, Room]:
        """A tensor on the device, and its bytes. DTypeError."""

    def stream(self) -> int:
        """The current stream, as the driver takes it."""

    def copy_frames(self, device: Room, host: Room, nbytes: int) -> None:
        """Enqueues a copy in the second stream. What the current stream gets later waits for it."""

    def copy_in(self, device: Room, host: Room, nbytes: int) -> None:
        """Enqueues a copy in the current stream."""

    def copy_out(self, host: Room, device: Room, nbytes: int) -> None:
        """Enqueues a copy in the current stream."""

    def mark(self) -> Any:
        """What the current stream has been given up to now, for wait()."""

    def wait(self, mark: Any) -> None:
        """Waits until that is done."""

    def write(self, device: Room, offset: int, address: int, nbytes: int) -> None:
        """Copies memory of the host to a part of a room, and waits for it."""

    def settle(self) -> None:
        """Waits until both streams have nothing to do."""


class Loaded(NamedTuple):
    """tensors: by their names. refused: names of those that the device takes for damaged."""

    tensors: dict[str, Any]
    refused: list[str]


class _Wanted(NamedTuple):
    name: str
    info: TensorInfo
    frame_nbytes: int


class _Slot:
    """A pinned buffer, its copy on the device, and the batch that is on its way."""

    def __init__(self, calls: Calls, device: Device, nbytes: int) -> None:
        self.batch = Batch(calls)
        self.host, self.frames = device.pinned(nbytes), device.memory(nbytes)
        self.host_image = self.image = self.host_results = self.results = Room(None, 0, 0)
        self.names: list[str] = []
        self.arrays: list[Any] = []
        self.contents: list[Room] = []
        self.mark: Any = None


class Loader:
    """make_device: called for each load. device_info: of lmc_cuda_init() in the device's context."""

    def __init__(self, calls: Calls, make_device: Callable[[], Device], device_info: DeviceInfo,
                 buffer_nbytes: int = BUFFER_NBYTES, least_nbytes: int = LEAST_NBYTES) -> None:
        self._calls, self._make_device = calls, make_device
        self._thread_block_count = device_info.thread_block_count
        self._buffer_nbytes, self._least_nbytes = buffer_nbytes, least_nbytes

    def load(self, file: File, tensors: Mapping[str, TensorInfo], *, threads: int | None = None,
             progress: ProgressCall | None = None) -> Loaded:
        """Those of the tensors that the device decodes; fewer if it runs out of memory. progress(done bytes, all
        bytes): of all tensors. Raises as File.read_many() does, and DTypeError, DeviceError.
        """
        if type(file) is not File or not file.is_archive:  # a remote file fetches frames in an order of its own
            return Loaded({}, [])
        wanted = [_Wanted(name, info, file.place(info)[1]) for name, info in tensors.items()
                  if info.nbytes and info.strides is None and not file.has_base(info)]
        if sum(entry.info.nbytes for entry in wanted) < max(self._least_nbytes, 1):
            return Loaded({}, [])
        total = sum(info.nbytes for info in tensors.values())

        def tell(done: int) -> None:
            if progress is not None:
                progress(done, total)

        device = self._make_device()
        with device.active():
            load = _Load(self._calls, device, self._thread_block_count, file, threads, tell)
            return load.run(list(_groups(wanted, self._buffer_nbytes)))


class _Load:
    """One call of Loader.load()."""

    def __init__(self, calls: Calls, device: Device, thread_block_count: int, file: File, threads: int | None,
                 tell: Callable[[int], object]) -> None:
        self._calls, self._device, self._file, self._tell = calls, device, file, tell
        self._done_nbytes = 0
        self._thread_block_count = thread_block_count
        self._pool = ThreadPoolExecutor(threads or _abi.core_count())
        self._scratch = Room(None, 0, 0)
        self._loaded = Loaded({}, [])

    def run(self, groups: Sequence[Sequence[_Wanted]]) -> Loaded:
        nbytes = max(sum(_room_for(entry) for entry in group) for group in groups)
        try:
            slots = [_Slot(self._calls, self._device, nbytes) for _ in groups[:2]]
            for number, group in enumerate(groups):
                slot = slots[number % 2]
                self._finish(slot)
                self._start(slot, group)
            for number in range(len(groups), len(groups) + len(slots)):
                self._finish(slots[number % len(slots)])
        except self._device.no_memory:
            pass  # the host needs none but for the tensors
        finally:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._device.settle()
        return self._loaded

    def _start(self, slot: _Slot, group: Sequence[_Wanted]) -> None:
        """Reads the frames of a group and gives the device all that it has to do with them."""
        device, batch = self._device, slot.batch
        offset = 0
        for entry, frame in zip(group, self._read(slot, group)):
            if self._is_decodable(frame):
                array, content = device.tensor(entry.info.dtype, entry.info.shape, entry.info.nbytes)
                batch.prepare(entry.name, frame, slot.frames.address + frame.address - slot.host.address, content)
                slot.names.append(entry.name)
                slot.arrays.append(array)
                slot.contents.append(content)
            offset = frame.address + frame.nbytes - slot.host.address
        info = batch.info()
        if not slot.names or info.scratch_nbytes_least > _SCRATCH_NBYTES:
            self._drop(slot)
            return
        self._reserve(slot, info.image_nbytes, info.results_nbytes, info.scratch_nbytes_least)
        batch.write_image(slot.host_image)
        device.copy_frames(slot.frames, slot.host, offset)
        device.copy_in(slot.image, slot.host_image, info.image_nbytes)
        batch.decode(device.stream(), slot.image, slot.results, self._scratch)
        device.copy_out(slot.host_results, slot.results, info.results_nbytes)
        slot.host_results = slot.host_results._replace(nbytes=info.results_nbytes)
        slot.mark = device.mark()

    def _read(self, slot: _Slot, group: Sequence[_Wanted]) -> list[Room]:
        """The frames in the slot's buffer, whose heads and tails are verified."""
        frames, at = [], slot.host.address
        for entry in group:
            frames.append(Room(slot.host.owner, at, entry.frame_nbytes))
            at += _room_for(entry)
        reads = [self._pool.submit(self._file.read_stored, entry.info, first,
                                   min(_PIECE_NBYTES, frame.nbytes - first), frame.address + first)
                 for entry, frame in zip(group, frames) for first in range(0, frame.nbytes, _PIECE_NBYTES)]
        reads += [self._pool.submit(self._file.check_frame, entry.info) for entry in group]
        for read in reads:
            read.result()
        return frames

    @staticmethod
    def _is_decodable(frame: Room) -> bool:
        """The frame of an alias may be that of a tensor with a base."""
        info = _abi.Info()
        status = _abi.frame_read_info(frame.address, min(frame.nbytes, _abi.INFO_NBYTES), ctypes.byref(info), None)
        return bool(status == _abi.OK and _abi.FRAME_MODES[info.mode] != "delta")

    def _reserve(self, slot: _Slot, image_nbytes: int, results_nbytes: int, scratch_nbytes: int) -> None:
        device = self._device
        if slot.image.nbytes < image_nbytes:
            slot.host_image, slot.image = device.pinned(2 * image_nbytes), device.memory(2 * image_nbytes)
        if slot.results.nbytes < results_nbytes:
            slot.host_results, slot.results = device.pinned(2 * results_nbytes), device.memory(2 * results_nbytes)
        if self._scratch.nbytes < scratch_nbytes * self._thread_block_count:
            count = min(self._thread_block_count, _SCRATCH_NBYTES // scratch_nbytes)
            if self._scratch.nbytes < scratch_nbytes * count:
                self._scratch = device.memory(scratch_nbytes * count)

    def _finish(self, slot: _Slot) -> None:
        """Waits for the slot's batch, if it has one, and takes its tensors."""
        if not slot.names:
            return
        self._device.wait(slot.mark)
        begins = sorted((content.address, number) for number, content in enumerate(slot.contents))
        first_addresses = [address for address, _ in begins]

        def write(device_address: int, address: int, nbytes: int) -> None:
            begin, number = begins[bisect_right(first_addresses, device_address) - 1]
            self._device.write(slot.contents[number], device_address - begin, address, nbytes)

        _, failures = slot.batch.finish(slot.host_results, write)
        for number, (name, array) in enumerate(zip(slot.names, slot.arrays)):
            if number in failures:
                self._loaded.refused.append(name)
            else:
                self._loaded.tensors[name] = array
                self._done_nbytes += slot.contents[number].nbytes
        self._drop(slot)
        self._tell(self._done_nbytes)

    @staticmethod
    def _drop(slot: _Slot) -> None:
        slot.batch.clear()
        for kept in (slot.names, slot.arrays, slot.contents):
            kept.clear()


def _room_for(entry: _Wanted) -> int:
    return math.ceil(entry.frame_nbytes / _FRAME_ALIGNMENT) * _FRAME_ALIGNMENT


def _groups(wanted: Sequence[_Wanted], buffer_nbytes: int) -> Iterator[list[_Wanted]]:
    """Tensors in lots whose frames fill a buffer, or of one tensor."""
    group: list[_Wanted] = []
    nbytes = 0
    for entry in wanted:
        if group and nbytes + _room_for(entry) > buffer_nbytes:
            yield group
            group, nbytes = [], 0
        group.append(entry)
        nbytes += _room_for(entry)
    if group:
        yield group
