"""What safe_open() and the writers ask of a framework, and where its functions are."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Protocol, Sequence, cast

from .._errors import ArgumentError

if TYPE_CHECKING:
    from .._cuda.cuda_load import Loader

_MODULES = {
    "np": "numpy_arrays",
    "numpy": "numpy_arrays",
    "pt": "torch_tensors",
    "torch": "torch_tensors",
    "pytorch": "torch_tensors",
    "jax": "jax_arrays",
    "flax": "jax_arrays",
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

    def new_of(self, dtype: Any, file_dtype: str, shape: Sequence[int]) -> Any:
        """An array for a tensor that is converted to this dtype of the framework, on the device. DTypeError."""

    def is_converted(self, file_dtype: str, dtype: Any) -> bool:
        """Whether a tensor changes when floating-point tensors are to have this dtype. DTypeError."""

    def address_in(self, array: Any, dtype: str, shape: Sequence[int]) -> int | None:
        """The address of an array of the caller for a tensor; None if it has another dtype, layout or device.

        Raises TypeError (not an array of the framework), ArgumentError (another shape, an array that cannot be filled
        with this dtype, or at all).
        """

    def begin_writing(self, array: Any) -> None:
        """Called before an array of the caller is written behind the back of the framework."""

    def cut(self, array: Any, dtype: str, shape: Sequence[int]) -> tuple[Any, Sequence[int] | None]:
        """The array, flat if it can be, and the shape by which it can be cut into parts; None if it cannot."""

    def fill(self, array: Any, content: Any) -> None:
        """array[...] = content, converted. Pages are taken if the array is new."""

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
    module = importlib.import_module("%s.%s" % (__name__, name))
    return cast(Arrays, module.arrays(device))


def refuse_device(device: Any, framework: str) -> None:
    """For frameworks that load to memory alone."""
    if device not in (None, "cpu"):
        raise ArgumentError("Device %s is not supported for framework %s" % (device, framework))
