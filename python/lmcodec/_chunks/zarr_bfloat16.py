"""The data type "bfloat16" for Zarr 3, which lacks it. Its numbers are those of ml_dtypes.

Zarr loads it by the entry point of an installed lmcodec, whenever it looks for a data type: without ml_dtypes, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy
from zarr.core.dtype.common import DataTypeValidationError
from zarr.core.dtype.npy.float import BaseFloat
from zarr.dtype import data_type_registry

from .._errors import DTypeError

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

_NAME = "bfloat16"


@dataclass(frozen=True)
class BFloat16(BaseFloat):  # type: ignore[misc]
    """Fill values are written as those of float16 are."""

    dtype_cls = None if ml_dtypes is None else type(numpy.dtype(ml_dtypes.bfloat16))
    _zarr_v3_name = _NAME
    _zarr_v2_names = ()

    @classmethod
    def from_native_dtype(cls, dtype: Any) -> Any:
        if ml_dtypes is None:
            raise DataTypeValidationError("bfloat16 needs ml_dtypes")
        return super().from_native_dtype(dtype)

    @classmethod
    def from_json(cls, data: Any, *, zarr_format: Any) -> Any:
        """ImportError for an array of bfloat16 without ml_dtypes."""
        if ml_dtypes is None and data == _NAME:
            raise ImportError("an array of bfloat16 needs the package ml_dtypes")
        return super().from_json(data, zarr_format=zarr_format)

    @property
    def item_size(self) -> int:
        return 2

    def to_json(self, zarr_format: Any) -> Any:
        """DTypeError for Zarr format 2, whose dtypes are those of NumPy alone."""
        if zarr_format == 2:
            raise DTypeError("Zarr format 2 has no dtype bfloat16")
        return self._zarr_v3_name


# One of Zarr's own, or of another package, goes first.
registered = data_type_registry.contents.setdefault(_NAME, BFloat16)
