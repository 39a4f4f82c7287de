"""The data type "bfloat16" for Zarr 3, which lacks it. Its numbers are those of ml_dtypes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy
from zarr.core.dtype.npy.float import BaseFloat

from .._errors import DTypeError


@dataclass(frozen=True)
class BFloat16(BaseFloat):  # type: ignore[misc]
    """Fill values are written as those of float16 are."""

    dtype_cls = type(numpy.dtype(ml_dtypes.bfloat16))
    _zarr_v3_name = "bfloat16"
    _zarr_v2_names = ()

    @property
    def item_size(self) -> int:
        return 2

    def to_json(self, zarr_format: Any) -> Any:
        """DTypeError for Zarr format 2, whose dtypes are those of NumPy alone."""
        if zarr_format == 2:
            raise DTypeError("Zarr format 2 has no dtype bfloat16")
        return self._zarr_v3_name
