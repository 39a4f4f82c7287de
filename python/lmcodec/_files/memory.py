"""Files in memory, for calls that read or write a file."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Callable, Iterator, cast

from .. import _system
from .._errors import LMCError, renamed

_SHOWN_NAME, _SHOWN_OUTPUT = "(bytes)", "(memory)"  # of a file in memory, in messages


class _Named(io.FileIO):
    """A file on a disk that is removed when it is closed. What still has it open keeps it."""

    def close(self) -> None:
        is_open = not self.closed
        super().close()
        if is_open:
            with suppress(OSError):
                os.unlink(self.name)


def new_file() -> BinaryIO:
    """An empty file: in memory, or where the system lacks such files, on a disk."""
    if sys.platform.startswith("linux") and hasattr(os, "memfd_create"):
        return open(os.memfd_create("lmcodec", os.MFD_CLOEXEC), "w+b", buffering=0)
    if _system.IS_WINDOWS:  # by the name of tempfile's, others could not open it
        return cast(BinaryIO, _Named(_new_place(), "x+b"))
    import tempfile

    return cast(BinaryIO, tempfile.TemporaryFile(buffering=0))


def written(options: Any, write: Callable[[bytes], object]) -> BinaryIO:
    """The file that write(path) writes, positioned at its start. options: of the call of the library that it makes."""
    if _system.IS_WINDOWS:  # a descriptor of Python's may be none of the library's
        place = _new_place()
        options.no_fsync = 1
        with shown_as(place, _SHOWN_OUTPUT):
            write(os.fsencode(place))
        return cast(BinaryIO, _Named(place, "r+b"))
    file = new_file()
    try:
        options.has_out_fd, options.out_fd = 1, file.fileno()
        write(_SHOWN_OUTPUT.encode())
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def _new_place() -> str:
    import tempfile

    return os.path.join(tempfile.gettempdir(), "lmcodec-%s.tmp" % os.urandom(8).hex())


def path_of(file: BinaryIO) -> str:
    """A path by which this process opens the file."""
    if isinstance(file, _Named):
        return str(file.name)
    for folder in ("/proc/self/fd", "/dev/fd"):
        if os.path.isdir(folder):
            return os.path.join(folder, str(file.fileno()))
    raise OSError("this system has no paths for open files")


@contextmanager
def file_of(data: bytes | bytearray | memoryview) -> Iterator[str]:
    """The path of a file with these bytes. Errors of the package within name it "(bytes)"."""
    with new_file() as file:
        left = memoryview(data).cast("B")
        while left:  # one write takes 2 GiB at most
            left = left[file.write(left):]
        path = path_of(file)
        with shown_as(path, _SHOWN_NAME):
            yield path


@contextmanager
def shown_as(path: str, name: str) -> Iterator[None]:
    """Errors within have this name for a file in memory, or for a temporary one."""
    try:
        yield
    except OSError as error:
        if error.filename == path:
            error.filename = name
        raise
    except LMCError as error:
        if error.file != path:
            raise
        raise renamed(error, name) from None
