"""official_adapter.py - a plugin of pytest: the tests of safetensors see lmcodec in its place.

LMCODEC_ADAPTER says what is written: "plain", safetensors files, or "archive". serialize(), deserialize() and
TensorSpec stay those of safetensors.
"""
import functools
import importlib
import os

import safetensors

import lmcodec

PLAIN = os.environ["LMCODEC_ADAPTER"] == "plain"
RealError = safetensors.SafetensorError


class _Either(type):
    def __subclasscheck__(cls, other):
        return issubclass(other, (RealError, lmcodec.SafetensorError))


class SafetensorError(Exception, metaclass=_Either):
    """What either package raises."""


def safe_open_handle(file, framework, device="cpu", **options):
    return lmcodec.safe_open(file.name, framework, device, **options)


def replace(name):
    try:
        theirs = importlib.import_module("safetensors." + name)
        ours = importlib.import_module("lmcodec." + name)
    except ImportError:
        return
    for function in ("load", "load_file", "load_model", "save", "save_file", "save_model"):
        if hasattr(theirs, function):
            writes = function.startswith("save")
            found = getattr(ours, function)
            setattr(theirs, function, functools.partial(found, plain=PLAIN) if writes else found)


safetensors.safe_open = lmcodec.safe_open
safetensors._safe_open_handle = safe_open_handle
safetensors.SafetensorError = SafetensorError
for module in ("numpy", "torch", "flax"):
    replace(module)
