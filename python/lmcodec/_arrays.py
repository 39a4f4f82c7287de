"""What safe_open() and the writers ask of a framework, and where its functions are."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Protocol, Sequence, cast

from ._errors import ArgumentError, LMCError

if TYPE_CHECKING:
    from ._cuda_load import Loader

_MODULES = {
    "np": "_numpy_arrays",
    "numpy": "_numpy_arrays",
    "pt": "_torch_tensors",
    "torch": "_torch_tensors",
    "pytorch": "_torch_tensors",
    "jax": "_jax_arrays",
    "flax": "_jax_arrays",
}


class Arrays(Protocol):
    """Arrays of a framework on one device.

    is_free_index: the framework's own indices serve for parts of tensors. Else those of safetensors do.
    batch_nbytes: bytes of tensors that are read at a time.
    """

    is_free_index: bool
    batch_nbytes: int

    @property
    def loader(self) -> Loader | None:
        """What loads tensors that the device decodes; None: the host decodes all."""

    def new(self, dtype: str, shape: Sequence[int]) -> tuple[Any, int]:
        """An array in memory for a tensor, and its address. DTypeError."""

    def part_of(self, array: Any, dtype: str, shape: Sequence[int], index: Any) -> Any:
        """array[index] as an array of its own. array has been filled; dtype and shape are as for new()."""

    def finish(self, array: Any, dtype: str, shape: Sequence[int]) -> Any:
        """What the caller gets for an array that has been filled: on its device."""

    def settle(self) -> None:
        """Waits for copies to the device."""


def arrays_of(framework: Any, device: Any) -> Arrays:
    """Arrays of the framework of this name. ArgumentError; ImportError if the framework is not installed."""
    name = _MODULES.get(framework) if isinstance(framework, str) else None
    if name is None:
        raise ArgumentError("framework %s is invalid" % (framework,))
    module = importlib.import_module("lmcodec." + name)
    return cast(Arrays, module.arrays(device))


def refuse_device(device: Any, framework: str) -> None:
    """For frameworks that load to memory alone."""
    if device not in (None, "cpu"):
        raise LMCError("Device %s is not supported for framework %s" % (device, framework))
