"""JAX arrays for the tensors of a file. NumPy arrays are filled. JAX takes over the memory of large ones."""

from __future__ import annotations

import warnings
from typing import Any, Sequence

import jax.numpy

from . import Arrays, refuse_device
from .numpy_arrays import NumpyArrays


class JaxArrays(NumpyArrays):
    def part_of(self, array: Any, dtype: str, shape: Sequence[int], index: Any) -> Any:
        return _to_jax(super().part_of(array, dtype, shape, index))

    def finish(self, array: Any, dtype: str, shape: Sequence[int]) -> Any:
        return _to_jax(super().finish(array, dtype, shape))


def _to_jax(array: Any) -> Any:
    """Without jax_enable_x64, JAX has no dtypes of 64 bits. It cuts numbers to 32 bits, and says nothing."""
    made = jax.numpy.asarray(array)
    if made.dtype != array.dtype:
        warnings.warn("JAX makes %s of %s: numbers may change; jax.config.update('jax_enable_x64', True) keeps them"
                      % (made.dtype, array.dtype), stacklevel=3)
    return made


def arrays(device: Any) -> Arrays:
    refuse_device(device, "flax")
    return JaxArrays()
