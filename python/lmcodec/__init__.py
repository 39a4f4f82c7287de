"""Lossless compression of tensors: LMC.

    lmcodec.convert("model.safetensors")                       # writes model.safetensors.lmc
    lmcodec.torch.load_file("model.safetensors.lmc")           # import lmcodec.torch
    lmcodec.decode(lmcodec.encode(array))                      # frames in memory
    lmcodec.Run("run").add("checkpoint-3010")                  # the snapshots of a training run
    lmcodec.Store("store").add("Qwen2.5-7B-Instruct")          # models, and what they are based on

This module needs no other package. lmcodec.numpy, lmcodec.torch and lmcodec.flax replace the modules of safetensors.
"""

from __future__ import annotations

import sys as _sys

TYPE_CHECKING = False  # that of typing, whose import takes longer than that of this module
if TYPE_CHECKING:
    from ._changes.apply import Changes, apply, changes
    from ._changes.delta import delta, delta_parts
    from ._changes.versions import DeltaReader, DeltaWriter
    from ._codec import FrameInfo, decode, encode, info
    from ._errors import (ArgumentError, BaseError, Cancelled, ChecksumError, ClosedError, DataError, DeviceError,
                          DTypeError, LimitError, LMCError, ModelNotFound, SafetensorError, SliceError, StepNotFound,
                          TensorNotFound, UnsupportedError)
    from ._files.convert import Result, compare, convert, open_original, restore, verify
    from ._files.file import File, TensorCoding, TensorInfo
    from ._files.safe_open import safe_open
    from ._files.slices import Slice
    from ._files.writer import TensorSpec, deserialize, serialize, serialize_file
    from ._runs.run import Run, RunInfo, Step
    from ._runs.local_store import Pushed, Store, StoredModel, StorePlan

    __version__: str
    PLUGIN_PATH: str
    """The directory of the HDF5 plugin, for HDF5_PLUGIN_PATH; "" where the library was built without it."""

__all__ = [
    "ArgumentError", "BaseError", "Cancelled", "Changes", "ChecksumError", "ClosedError", "DTypeError", "DataError",
    "DeltaReader", "DeltaWriter", "DeviceError", "File", "FrameInfo", "LMCError", "LimitError", "ModelNotFound",
    "PLUGIN_PATH", "Pushed", "Result", "Run", "RunInfo", "SafetensorError", "Slice", "SliceError", "Step",
    "StepNotFound", "Store", "StoredModel", "StorePlan", "TensorCoding", "TensorInfo", "TensorNotFound", "TensorSpec",
    "UnsupportedError", "apply", "changes", "compare", "convert", "decode", "delta", "delta_parts", "deserialize",
    "encode", "info", "kernels", "open_original", "restore", "safe_open", "serialize", "serialize_file", "verify",
]

# Where names come from. Each module is imported, and the library loaded, when a name of it is used.
_NAMES = {
    "_changes.apply": ("Changes", "apply", "changes"),
    "_changes.delta": ("delta", "delta_parts"),
    "_changes.versions": ("DeltaReader", "DeltaWriter"),
    "_codec": ("FrameInfo", "decode", "encode", "info"),
    "_errors": ("ArgumentError", "BaseError", "Cancelled", "ChecksumError", "ClosedError", "DataError", "DeviceError",
                "DTypeError", "LimitError", "LMCError", "ModelNotFound", "SafetensorError", "SliceError",
                "StepNotFound", "TensorNotFound", "UnsupportedError"),
    "_files.convert": ("Result", "compare", "convert", "open_original", "restore", "verify"),
    "_files.file": ("File", "TensorCoding", "TensorInfo"),
    "_files.safe_open": ("safe_open",),
    "_files.slices": ("Slice",),
    "_files.writer": ("TensorSpec", "deserialize", "serialize", "serialize_file"),
    "_runs.run": ("Run", "RunInfo", "Step"),
    "_runs.local_store": ("Pushed", "Store", "StoredModel", "StorePlan"),
}


def __getattr__(name: str) -> object:
    import importlib

    value: object
    if name == "__version__":
        from ._abi import version_text

        value = version_text().decode()
    elif name == "PLUGIN_PATH":
        import os

        from ._library import find, library_names

        value = os.path.dirname(find(*library_names("h5lmc")) or "")
    else:
        home = next((home for home, names in _NAMES.items() if name in names), None)
        if home is None:
            if name not in ("_abi", "_codec", "_errors", "_library"):
                raise AttributeError("module %r has no attribute %r" % (__name__, name))
            return importlib.import_module("." + name, __name__)
        value = getattr(importlib.import_module("." + home, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The names that are for users, and the public modules that the program has imported."""
    modules = {name for name in globals() if _sys.modules.get("%s.%s" % (__name__, name)) and not name.startswith("_")}
    return sorted({*__all__, "__version__", *modules, *(name for name in globals() if name.startswith("__"))})


def kernels() -> str:
    """The instruction set that the library uses: "scalar", "avx2", "avx2-nopext", "avx512" or "neon"."""
    from ._abi import kernels_name

    name: bytes = kernels_name()
    return name.decode()
