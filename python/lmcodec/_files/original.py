"""The original of an open file, byte for byte, from anywhere in it."""

from __future__ import annotations

import bisect
import ctypes
import io
import itertools
from typing import Any, Iterator, NamedTuple

from .. import _abi
from .._buffer import Buffer
from .._errors import ArgumentError
from .file import File, TensorInfo, thread_count_of
from .part_reader import PartReader

_PIECE_NBYTES = 1 << 20  # of the skeleton that is unpacked at once; blocks of tensors begin at multiples of it
_SHARED_NBYTES = 4 << 20  # of a part of a tensor that several threads decode
_CALL_NBYTES = 64 << 20  # that they decode in one call


class Storage(NamedTuple):
    """Where the bytes of a tensor stand in the original file. tensor: the first one with this storage."""

    offset: int
    nbytes: int
    tensor: TensorInfo


class Layout(NamedTuple):
    """The storages in the order of the original file, without those of 0 bytes. What is between them is its skeleton.

    begins: of each. befores: bytes of storages before each, and of all.
    """

    storages: list[Storage]
    begins: list[int]
    befores: list[int]


class Original:
    """The bytes of the original of an archive. nbytes: how many.

    file: open. threads: that decode; None for one per core.

    Only the blocks that hold what is read are decoded. Reads that follow each other decode none twice: the last one is
    kept. Several threads may read; reads that follow each other are best made by one thread at a time.
    """

    def __init__(self, file: File, threads: int | None = None) -> None:
        self.file, self._threads, self.nbytes = file, threads, file.nbytes
        self._layout: Layout | None = None
        self._reader = self._new_reader()
        self._skeleton: tuple[int, bytes] = (-1, b"")  # the last piece, and its number

    def again(self) -> Original:
        """Another one of the same file, for other reads that follow each other."""
        other = Original(self.file, self._threads)
        other._layout = self._known_layout()
        return other

    def read(self, begin: int, end: int) -> bytes:
        """Bytes [begin, end), as far as there are any. Raises as read_into() does."""
        nbytes = max(0, min(end, self.nbytes) - begin)
        content = io.BytesIO(bytes(nbytes))  # whose bytes are handed over without a copy
        with content.getbuffer() as room:
            self.read_into(begin, room)
        return content.getvalue()

    def read_into(self, begin: int, out: Any) -> None:
        """Fills a writable buffer with the bytes from `begin` on.

        Raises ArgumentError (the original has fewer bytes), DataError, ChecksumError, UnsupportedError, BaseError,
        OSError, MemoryError. `out` has undefined bytes then.
        """
        with Buffer(out, writable=True) as room:
            if not 0 <= begin <= self.nbytes - room.nbytes:
                raise ArgumentError("bytes %d to %d are not in the original" % (begin, begin + room.nbytes))
            self._read(begin, begin + room.nbytes, room.address)

    # ---- inner ----

    def _read(self, begin: int, end: int, address: int) -> None:
        whole: list[TensorInfo] = []
        addresses: list[int] = []
        for storage, first, nbytes in self._parts(begin, end):
            if storage is None:
                self._read_skeleton(first, nbytes, address)
            elif nbytes == storage.nbytes and storage.tensor.strides is None:
                whole.append(storage.tensor)
                addresses.append(address)
            else:
                self._read_part(storage.tensor, first, nbytes, address)
            address += nbytes
        if whole:
            self.file.read_many(whole, addresses, threads=self._threads)

    def _parts(self, begin: int, end: int) -> Iterator[tuple[Storage | None, int, int]]:
        """What stands at these bytes: parts of storages, or of the skeleton (None), each with its first byte there and
        their number."""
        storages, begins, befores = self._known_layout()
        at = max(0, bisect.bisect_right(begins, begin) - 1)
        while begin < end:
            storage = storages[at] if at < len(storages) else None
            if storage is not None and begin >= storage.offset + storage.nbytes:
                at += 1
                continue
            if storage is None or begin < storage.offset:
                stop = end if storage is None else min(end, storage.offset)
                yield None, begin - befores[at], stop - begin
            else:
                stop = min(end, storage.offset + storage.nbytes)
                yield storage, begin - storage.offset, stop - begin
            begin = stop

    def _known_layout(self) -> Layout:
        if self._layout is None:
            handle = self.file.open_handle()
            storages = [Storage(*handle.origin(tensor.number), tensor) for tensor in self.file.tensors.values()
                        if tensor.view_of is None and tensor.storage_nbytes > 0]
            storages.sort(key=lambda storage: storage.offset)
            self._layout = Layout(storages, [storage.offset for storage in storages],
                                  list(itertools.accumulate((storage.nbytes for storage in storages), initial=0)))
        return self._layout

    def _read_skeleton(self, first: int, nbytes: int, address: int) -> None:
        while nbytes > 0:
            number, at = divmod(first, _PIECE_NBYTES)
            piece = self._skeleton_piece(number)
            done = min(nbytes, len(piece) - at)
            ctypes.memmove(address, piece[at:at + done], done)
            first, nbytes, address = first + done, nbytes - done, address + done

    def _skeleton_piece(self, number: int) -> bytes:
        known, piece = self._skeleton
        if known != number:
            begin = number * _PIECE_NBYTES
            room = bytearray(min(_PIECE_NBYTES, self.file.skeleton_nbytes - begin))
            with Buffer(room, writable=True) as buffer:
                self.file.read_skeleton(begin, buffer.nbytes, buffer.address)
            piece = bytes(room)
            self._skeleton = number, piece
        return piece

    def _read_part(self, tensor: TensorInfo, first: int, nbytes: int, address: int) -> None:
        """A part of a storage. The middle of a large one is decoded by several threads."""
        begin, end = -(-first // _PIECE_NBYTES) * _PIECE_NBYTES, (first + nbytes) // _PIECE_NBYTES * _PIECE_NBYTES
        is_shared = self.file.shares_ranges and tensor.strides is None and end - begin >= _SHARED_NBYTES and \
            thread_count_of(self._threads) > 1 and self.file.piece_nbytes(tensor, nbytes, 0) == 0
        if not is_shared:
            self._read_one(tensor, first, nbytes, address)
            return
        self._read_one(tensor, first, begin - first, address)
        for at in range(begin, end, _CALL_NBYTES):
            self.file.read_range(tensor, at, min(_CALL_NBYTES, end - at), address + at - first, threads=self._threads)
        self._read_one(tensor, end, first + nbytes - end, address + end - first)

    def _read_one(self, tensor: TensorInfo, first: int, nbytes: int, address: int) -> None:
        if nbytes == 0:
            return
        if not self._reader.is_mine():
            self._reader = self._new_reader()
        reader = self._reader
        if not reader.take():
            reader = self._new_reader()
            reader.take()
        try:
            self.file.read_storage(tensor, first, nbytes, address, reader)
        finally:
            reader.give()

    def _new_reader(self) -> PartReader:
        self._handle = self.file.open_handle()  # stays open as long as the reader is used
        return PartReader(self._handle.opened, _abi.st_reader_create_storage)
