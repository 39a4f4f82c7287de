"""JAX arrays for the tensors of a file. NumPy arrays are filled. JAX takes over the memory of large ones."""

from __future__ import annotations

from typing import Any, Sequence

import jax.numpy

from . import Arrays, refuse_device
from .numpy_arrays import NumpyArrays


class JaxArrays(NumpyArrays):
    def part_of(self, array: Any, dtype: str, shape: Sequence[int], index: Any) -> Any:
        return jax.numpy.asarray(super().part_of(array, dtype, shape, index))

    def finish(self, array: Any, dtype: str, shape: Sequence[int]) -> Any:
        return jax.numpy.asarray(super().finish(array, dtype, shape))


def arrays(device: Any) -> Arrays:
    refuse_device(device, "flax")
    return JaxArrays()
