"""Files in memory, for calls that read or write a file."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from typing import BinaryIO, Iterator, cast

from ._errors import LMCError

SHOWN_NAME = "(bytes)"  # of a file in memory, in messages


def new_file() -> BinaryIO:
    """An empty file without a name: in memory, or where the system lacks such files, on a disk."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("lmcodec", os.MFD_CLOEXEC), "w+b", buffering=0)
    return cast(BinaryIO, tempfile.TemporaryFile(buffering=0))


def path_of(file: BinaryIO) -> str:
    """A path by which this process opens the file."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        if os.path.isdir(folder):
            return os.path.join(folder, str(file.fileno()))
    raise OSError("this system has no paths for open files")


@contextmanager
def opened_path(file: BinaryIO) -> Iterator[str]:
    """The path. Errors of the package within tell it as "(bytes)"."""
    path = path_of(file)
    try:
        yield path
    except LMCError as error:
        if error.file != path:
            raise
        told = type(error)(str(error).replace(path, SHOWN_NAME))
        told.status, told.file, told.tensor, told.offset = error.status, SHOWN_NAME, error.tensor, error.offset
        raise told from None


def write_all(file: BinaryIO, data: bytes | memoryview) -> None:
    """Writes all bytes: one write takes 2 GiB at most."""
    left = memoryview(data).cast("B")
    while left:
        left = left[file.write(left):]


def read_all(file: BinaryIO) -> bytes:
    """The file's bytes, from its begin."""
    file.seek(0)
    return file.read()
