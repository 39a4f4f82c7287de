"""Lmc: an extension of torch's own FileSystemWriter, which codes the stream of each item."""

from __future__ import annotations

import io
import struct
from typing import Any

from torch.distributed.checkpoint._extension import ExtensionRegistry, StreamTransformExtension

from .. import _abi
from .._buffer import Buffer, new_bytearray
from .._codec import decode, encode, info, level_of, threads_of
from .._errors import ArgumentError, DataError, LMCError, reworded

FRAME_NBYTES = 8 << 20  # content of a frame at most
_FRAME_STORED_NBYTES_MAX = FRAME_NBYTES + 48  # encode() promises that
_DIRECT_FROM_NBYTES = 64 << 10  # a write of this size or more is coded at once, without a copy
_LENGTH = struct.Struct("<Q")
_NAME, _VERSION = "stream.lmc", "1"


class Lmc(StreamTransformExtension):  # type: ignore[misc]
    """Codes what torch's FileSystemWriter writes: FileSystemWriter(path, _extensions=[Lmc()]).

    level: "default", "fast" or "max". threads: of each item; None for one per core.
    The stream does not contain the dtypes, so they are guessed. lmcodec.dcp.Writer knows them and writes smaller files.
    """

    def __init__(self, level: str = "default", threads: int | None = 1) -> None:
        level_of(level)
        threads_of(threads)
        self.level, self.threads = level, threads

    @staticmethod
    def registry_name() -> str:
        """The name by which a reader's registry finds this class."""
        return _NAME

    @staticmethod
    def from_descriptor(version: str) -> Lmc:
        """What reads streams of this version. Raises ValueError for another one."""
        if version != _VERSION:
            raise ValueError("%s/%s: this package reads version %s" % (_NAME, version, _VERSION))
        return Lmc()

    def get_descriptor(self) -> str:
        """What `.metadata` says of an item: the name of the extension and its version."""
        return "%s/%s" % (_NAME, _VERSION)

    def transform_to(self, output: Any) -> Any:
        """The stream whose content goes to `output` as frames."""
        return _Encoder(output, self.level, self.threads)

    def transform_from(self, input: Any) -> Any:
        """The stream with the content of the frames in `input`. Damage raises DataError when it is read."""
        return _Decoder(input, self.threads)


def registry() -> Any:
    """A registry that has Lmc: FileSystemReader(path, _extension_registry=registry())."""
    found = ExtensionRegistry()
    found.register(Lmc)
    return found


class _Encoder(io.RawIOBase):
    """Frames of what is written, each behind its length; a length of 0 ends them."""

    def __init__(self, output: Any, level: str, threads: int | None) -> None:
        super().__init__()
        self._output, self._level, self._threads = output, level, threads
        self._pending = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with memoryview(data) as given, given.cast("B") as content:
            if content.nbytes < _DIRECT_FROM_NBYTES:
                self._pending += content
                if len(self._pending) >= FRAME_NBYTES:
                    self._write_pending()
            else:
                self._write_pending()
                self._write_frames(content)
            return content.nbytes

    def close(self) -> None:
        if not self.closed:
            self._write_pending()
            self._output.write(_LENGTH.pack(0))
            self._output.close()
        super().close()

    def _write_pending(self) -> None:
        if self._pending:
            pending, self._pending = self._pending, bytearray()
            self._write_frames(memoryview(pending))

    def _write_frames(self, content: memoryview) -> None:
        with Buffer(content) as buffer:
            dtype = _abi.DTYPE_NAMES[_abi.dtype_guess(buffer.address, buffer.nbytes, 0)]
        for first in range(0, content.nbytes, FRAME_NBYTES):
            frame = encode(content[first:first + FRAME_NBYTES], dtype, level=self._level, threads=self._threads,
                           row_nbytes=0)
            self._output.write(_LENGTH.pack(len(frame)))
            self._output.write(frame)


class _Decoder(io.RawIOBase):
    """What the frames of a stream decode to. A stream that was cut or damaged ends in DataError."""

    def __init__(self, input: Any, threads: int | None) -> None:
        super().__init__()
        self._input, self._threads = input, threads
        self.file_name: str | None = getattr(input, "file_name", None) \
            or getattr(getattr(input, "base_stream", None), "name", None)
        self._memory = bytearray()  # of one frame's content after the other
        self._content = memoryview(b"")
        self._place = 0  # in the stream
        self._has_ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, out: Any) -> int:
        with memoryview(out) as given, given.cast("B") as destination:
            if destination.nbytes == 0 or not self._fill():
                return 0
            nbytes = min(destination.nbytes, self._content.nbytes)
            destination[:nbytes] = self._content[:nbytes]
            self._content = self._content[nbytes:]
            return nbytes

    def readall(self) -> bytes:
        collected = io.BytesIO()
        while self._fill():
            collected.write(self._content)
            self._content = memoryview(b"")
        return collected.getvalue()

    def _fill(self) -> bool:
        """Decodes the next frame if nothing is left of the last one. False at the end."""
        if not self._content and not self._has_ended:
            self._content = self._next_content()
            self._has_ended = not self._content
        return bool(self._content)

    def _next_content(self) -> memoryview:
        """The content of the next frame; nothing at the end."""
        place = self._place
        length, = _LENGTH.unpack(self._read(_LENGTH.size))
        if length == 0:
            if self._input.read(1):
                raise self._told(DataError("bytes follow its end at byte %d" % self._place))
            return memoryview(b"")
        if length > _FRAME_STORED_NBYTES_MAX:
            raise self._told(DataError("a frame of %d bytes at byte %d" % (length, place)))
        frame = self._read(length)
        try:
            nbytes = info(frame).nbytes
            if not 0 < nbytes <= FRAME_NBYTES:
                raise DataError("a frame has %d bytes of content" % nbytes)
            if nbytes > len(self._memory):
                self._memory = new_bytearray(nbytes)
            return memoryview(decode(frame, memoryview(self._memory)[:nbytes], threads=self._threads))
        except LMCError as error:
            if isinstance(error, ArgumentError):
                raise
            raise self._told(error, "frame at byte %d: " % place) from None

    def _told(self, error: LMCError, where: str = "") -> LMCError:
        """An error with the name of the file, if the stream below has it."""
        file = "" if self.file_name is None else "%s: " % self.file_name
        told = reworded(error, "%sstream of lmcodec.dcp.Lmc: %s%s" % (file, where, error))
        told.file = self.file_name
        return told

    def _read(self, nbytes: int) -> bytes:
        """So many bytes of the stream. DataError if it ends before."""
        parts = []
        left = nbytes
        while left:
            part = self._input.read(left)
            if not part:
                raise self._told(DataError("it was cut at byte %d" % (self._place + nbytes - left)))
            parts.append(part)
            left -= len(part)
        self._place += nbytes
        return parts[0] if len(parts) == 1 else b"".join(parts)
