"""Files and names that are on the disk when a call returns."""

from __future__ import annotations

import os
from contextlib import suppress


def write_whole(path: str, content: bytes, fsync: bool) -> None:
    """Writes a file that appears whole or not at all, and replaces one of this name. OSError."""
    partial = path + ".tmp"
    try:
        with open(partial, "wb") as file:
            file.write(content)
            file.flush()
            if fsync:
                os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException as error:
        with suppress(OSError):
            os.remove(partial)
        if isinstance(error, OSError) and error.filename is None:  # as of a full disk
            raise OSError(error.errno, error.strerror, path) from error
        raise
    if fsync:
        sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    """Waits until the names in a directory are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
