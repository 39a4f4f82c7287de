"""Files in memory, for calls that read or write a file."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import BinaryIO, Iterator, cast

from .._errors import LMCError

_SHOWN_NAME = "(bytes)"  # of a file in memory, in messages


def new_file() -> BinaryIO:
    """An empty file without a name: in memory, or where the system lacks such files, on a disk."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("lmcodec", os.MFD_CLOEXEC), "w+b", buffering=0)
    import tempfile

    return cast(BinaryIO, tempfile.TemporaryFile(buffering=0))


def path_of(file: BinaryIO) -> str:
    """A path by which this process opens the file."""
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
    """Errors of the package within have this name for a file in memory."""
    try:
        yield
    except LMCError as error:
        if error.file != path:
            raise
        told = type(error)(str(error).replace(path, name))
        told.status, told.file, told.tensor, told.offset = error.status, name, error.tensor, error.offset
        raise told from None


def read_all(file: BinaryIO) -> bytes:
    """All bytes of the file."""
    file.seek(0)
    return file.read()
