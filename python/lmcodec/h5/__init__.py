"""HDF5 datasets with LMC, through h5py.

    import lmcodec.h5                                                             # h5py reads LMC from now on
    file.create_dataset("w", data=w, chunks=(64, 4096), compression=lmcodec.h5.LMC())
    lmcodec.h5.repack("plain.h5", "small.h5")

The import registers the filter with h5py's HDF5. HDF5_PLUGIN_PATH is not needed.
"""

from __future__ import annotations

import os

from .._chunks.stored_chunks import last_error, plugin
from ._compress import compress
from ._filter import FILTER_ID, LMC, register
from ._inspect import DatasetReport, inspect
from ._repack import RepackResult, repack

__all__ = ["DatasetReport", "FILTER_ID", "LMC", "PLUGIN_PATH", "RepackResult", "compress", "inspect", "last_error",
           "register", "repack"]

PLUGIN_PATH: str = os.path.dirname(plugin())
"""The folder of the plugin, for HDF5_PLUGIN_PATH of other programs."""

register()
