"""Members of a ZIP file, such as numpy.savez() writes: those that are not tensors, and the checksums of the others."""

from __future__ import annotations

import bisect
import io
import os
import struct
import zipfile
import zlib
from typing import Any, Iterable, NamedTuple

from .._errors import ChecksumError, DataError, placed
from .file import File, TensorInfo
from .original import Original

_PIECE_NBYTES = 1 << 20  # of a member that are read at once
_START_NBYTES = 1 << 10  # of a file, in which the name of its first member ends, if it is one of torch
_HEADER_NBYTES = 1 << 12  # of an array, in which its dtype is named
_LOCAL_NBYTES, _LENGTHS_AT = 30, 26  # of the local header of a member, before its name
_ARRAY = ".npy"

COMPRESSED, OBJECTS, NO_ARRAY = "compressed", "Python objects", "not an array"


class Member(NamedTuple):
    """A member, and where its bytes are in the file: [begin, end)."""

    name: str
    begin: int
    end: int
    crc: int
    is_compressed: bool


class _Stream(io.RawIOBase):
    """The original of an open file, for zipfile."""

    def __init__(self, original: Original) -> None:
        self._original, self._at = original, 0

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._original.nbytes}[whence]
        if start + offset < 0:
            raise OSError("a place before the start")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def readinto(self, out: Any) -> int:
        room = memoryview(out).cast("B")
        content = self._original.read(self._at, self._at + room.nbytes)
        room[:len(content)] = content
        self._at += len(content)
        return len(content)


def is_of_torch(start: bytes) -> bool:
    """Whether a file that starts so is one of torch.save(), which does not verify checksums, and may write none."""
    return start[:4] == b"PK\3\4" and start[_LOCAL_NBYTES:_LOCAL_NBYTES + _length(start, 0)].endswith(b"/data.pkl")


def members_of(file: File) -> list[Member]:
    """The members of a ZIP file, or of the original of its archive, in the order of their bytes. Raises DataError."""
    original = Original(file)
    try:
        with zipfile.ZipFile(io.BufferedReader(_Stream(original))) as opened:
            found = opened.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, struct.error) as error:
        raise _told(DataError, file, "the list of the ZIP file's members cannot be read: %s" % error) from None
    members = []
    for info in sorted(found, key=lambda info: info.header_offset):
        local = original.read(info.header_offset, info.header_offset + _LOCAL_NBYTES)
        begin = info.header_offset + _LOCAL_NBYTES + _length(local, 0) + _length(local, 1)
        members.append(Member(info.filename, begin, begin + info.compress_size, info.CRC, info.compress_type != 0))
    return members


def left_out(file: File) -> dict[str, str]:
    """The arrays of a ZIP file that are not tensors, and why. If it has no tensors, all its members."""
    original, origins = Original(file), _origins(file)
    found = {}
    for member in members_of(file):
        is_array = member.name.endswith(_ARRAY)
        at = bisect.bisect_left(origins, member.begin)
        is_tensor = at < len(origins) and member.begin < origins[at] <= member.end  # behind the header of the array
        if is_tensor or origins and not is_array:
            continue
        start = original.read(member.begin, min(member.end, member.begin + _HEADER_NBYTES))
        reason = COMPRESSED if member.is_compressed else OBJECTS if is_array and b"|O" in start else NO_ARRAY
        found[member.name[:-len(_ARRAY)] if is_array else member.name] = reason
    return found


class Checksums:
    """Verifies the tensors of a plain file of numpy.savez() by the CRC-32 of its members, as numpy.load() does. Does
    nothing for other files."""

    def __init__(self) -> None:
        self._known: tuple[Original, list[Member], list[int]] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Checksums, ()

    def check(self, file: File, tensors: Iterable[TensorInfo]) -> None:
        """Reads the members that hold these tensors. file: always the same. Raises ChecksumError, DataError."""
        if type(file) is not File or file.is_archive or file.container != "zip":
            return
        if self._known is None:
            original = Original(file)
            members = [] if is_of_torch(original.read(0, _START_NBYTES)) else members_of(file)
            self._known = original, members, [member.begin for member in members]
        (original, members, begins), handle = self._known, file.open_handle()
        places = {bisect.bisect_right(begins, handle.origin(tensor.number)[0]) - 1
                  for tensor in tensors if tensor.nbytes}
        for member in (members[place] for place in sorted(places - {-1})):
            if member.name.endswith(_ARRAY) and not member.is_compressed and _crc_of(original, member) != member.crc:
                raise _told(ChecksumError, file, "member %r: the CRC-32 does not match" % member.name,
                            member.name[:-len(_ARRAY)])


def _crc_of(original: Original, member: Member) -> int:
    crc, room = 0, memoryview(bytearray(min(_PIECE_NBYTES, member.end - member.begin)))
    for at in range(member.begin, member.end, _PIECE_NBYTES):
        piece = room[:member.end - at]
        original.read_into(at, piece)
        crc = zlib.crc32(piece, crc)
    return crc


def _origins(file: File) -> list[int]:
    handle = file.open_handle()
    return sorted(handle.origin(tensor.number)[0] for tensor in file.tensors.values() if tensor.view_of is None)


def _length(local: bytes, number: int) -> int:
    """Of the name of a member (0), or of what follows it (1)."""
    at = _LENGTHS_AT + 2 * number
    return int.from_bytes(local[at:at + 2], "little")


def _told(kind: type[DataError], file: File, text: str, tensor: str | None = None) -> DataError:
    return placed(kind("%s: %s" % (file.shown_name(), text)), file.shown_name(), tensor)
