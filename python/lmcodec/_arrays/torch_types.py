"""dtypes and shapes of torch, and those of files."""

from __future__ import annotations

from typing import Any, Sequence

import torch

from .._errors import DTypeError
from .dtypes import FILE_NAMES


_TORCH_NAMES = {**FILE_NAMES, "F4": "float4_e2m1fn_x2"}
TYPES: dict[str, Any] = {file: getattr(torch, name) for file, name in _TORCH_NAMES.items() if hasattr(torch, name)}
NAMES = {dtype: file for file, dtype in TYPES.items()}


def dtype_of(name: str) -> Any:
    """torch's dtype for one of a file. Raises DTypeError."""
    try:
        return TYPES[name]
    except KeyError:
        raise DTypeError("torch %s has no dtype for %s" % (torch.__version__, name)) from None


def name_of(tensor: Any) -> str:
    """The dtype that a file has for a tensor. Raises DTypeError."""
    try:
        return NAMES[tensor.dtype]
    except KeyError:
        raise DTypeError("files have no dtype for %s" % tensor.dtype) from None


def shape_of(dtype: str, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape that torch has for a tensor of a file: an element of F4 is two values."""
    if dtype != "F4":
        return tuple(shape)
    if not shape or shape[-1] % 2:
        raise DTypeError("F4 has two values in an element of torch: the last dimension of %s is odd" % list(shape))
    return (*shape[:-1], shape[-1] // 2)
