"""HDF5 files that are opened to be read."""

from __future__ import annotations

import os
from typing import Any

import h5py


def open_to_read(path: Any) -> Any:
    """h5py.File, or OSError with the file's name: h5py gives none, and of a file that is no HDF5 file no errno."""
    try:
        return h5py.File(path, "r")
    except OSError as error:
        name = os.fsdecode(path)
        if error.errno is None:
            raise OSError("%s: no HDF5 file, or a damaged one: %s" % (name, error)) from None
        raise OSError(error.errno, os.strerror(error.errno), name) from None
