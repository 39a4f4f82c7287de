"""Lossless compression of tensors: LMC.

    lmcodec.convert("model.safetensors")                       # writes model.safetensors.lmc
    lmcodec.torch.load_file("model.safetensors.lmc")           # import lmcodec.torch
    lmcodec.decode(lmcodec.encode(array))                      # frames in memory
    lmcodec.Run("run").add("checkpoint-3010")                  # the snapshots of a training

This module needs no other package. lmcodec.numpy, lmcodec.torch and lmcodec.flax replace the modules of safetensors.
"""

from __future__ import annotations

import os as _os
import sys as _sys

from . import _abi, _library
from ._codec import FrameInfo, decode, encode, info
from ._errors import (ArgumentError, BaseError, Cancelled, ChecksumError, ClosedError, DataError, DeviceError,
                      DTypeError, LimitError, LMCError, SafetensorError, SliceError, StepNotFound, TensorNotFound,
                      UnsupportedError)
from ._files.convert import Result, compare, convert, open_original, restore, verify
from ._files.file import File, TensorInfo
from ._files.safe_open import safe_open
from ._files.slices import Slice
from ._files.writer import deserialize, serialize, serialize_file
from ._runs.run import Run, RunInfo, Step

__version__: str = _abi.version_text().decode()

PLUGIN_PATH: str = _os.path.dirname(_library.find("libh5lmc.so") or "")
"""The directory of the HDF5 plugin, for HDF5_PLUGIN_PATH; "" where the library was built without it."""

__all__ = [
    "ArgumentError", "BaseError", "Cancelled", "ChecksumError", "ClosedError", "DTypeError", "DataError", "DeviceError",
    "File", "FrameInfo", "LMCError", "LimitError", "PLUGIN_PATH", "Result", "Run", "RunInfo", "SafetensorError",
    "Slice", "SliceError", "Step", "StepNotFound", "TensorInfo", "TensorNotFound", "UnsupportedError", "compare",
    "convert", "decode", "deserialize", "encode", "info", "kernels", "open_original", "restore", "safe_open",
    "serialize", "serialize_file", "verify",
]


def __dir__() -> list[str]:
    """The names that are for users, and the public modules that the program has imported."""
    modules = {name for name in globals() if _sys.modules.get("%s.%s" % (__name__, name)) and not name.startswith("_")}
    return sorted({*__all__, *modules, *(name for name in globals() if name.startswith("__"))})


def kernels() -> str:
    """The instruction set that the library uses: "scalar", "avx2", "avx2-nopext", "avx512" or "neon"."""
    name: bytes = _abi.kernels_name()
    return name.decode()
