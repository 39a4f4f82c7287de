"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress

from .._system import sync_directory


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
