"""PyTorch tensors for the tensors of a file: each with its own storage, on huge pages if it is large."""

from __future__ import annotations

import re
import sys
from typing import Any, Sequence

import torch

from ._arrays import Arrays
from ._cuda_load import Loader
from ._buffer import HUGE_FROM_NBYTES, take_huge_pages
from ._dtypes import FILE_NAMES
from ._errors import ArgumentError, DTypeError

_PINNED_BATCH_NBYTES = 256 << 20  # pinned memory of a batch; two or three are in use at a time
_DEVICE = re.compile("cpu|(cuda|musa|npu|xpu|xla|mlu|hpu)(:[0-9]+)?|mps(:0)?")


def _types() -> dict[str, Any]:
    names = {file: "float4_e2m1fn_x2" if file == "F4" else name for file, name in FILE_NAMES.items()}
    return {file: getattr(torch, name) for file, name in names.items() if hasattr(torch, name)}


TYPES = _types()
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


class TorchTensors:
    is_free_index = True

    def __init__(self, device: Any) -> None:
        self.device = device
        self.is_cpu = device == "cpu"
        self.is_cuda = isinstance(device, (str, int)) and torch.device(device).type == "cuda"
        self.batch_nbytes = _PINNED_BATCH_NBYTES if self.is_cuda else sys.maxsize

    @property
    def loader(self) -> Loader | None:
        if not self.is_cuda:
            return None
        from ._torch_cuda import loader_of

        return loader_of(self.device)

    def new(self, dtype: str, shape: Sequence[int]) -> tuple[Any, int]:
        tensor = torch.empty(shape_of(dtype, shape), dtype=dtype_of(dtype), device="cpu", pin_memory=self.is_cuda)
        address: int = tensor.data_ptr()
        if not self.is_cuda:
            nbytes = tensor.numel() * tensor.element_size()
            if nbytes >= HUGE_FROM_NBYTES:
                take_huge_pages(address, nbytes)
        return tensor, address

    def part_of(self, array: Any, dtype: str, shape: Sequence[int], index: Any) -> Any:
        part = array[index]
        part = part if part.numel() == array.numel() else part.clone()
        return part if self.is_cpu else part.to(self.device)

    def finish(self, array: Any, dtype: str, shape: Sequence[int]) -> Any:
        return array if self.is_cpu else array.to(self.device, non_blocking=self.is_cuda)

    def settle(self) -> None:
        if self.is_cuda:
            torch.cuda.current_stream(self.device).synchronize()


def arrays(device: Any) -> Arrays:
    """device: as safetensors takes it: a name, or the number of an accelerator; also a torch.device."""
    if device is None:
        device = "cpu"
    if isinstance(device, torch.device):
        device = str(device)
    if isinstance(device, bool) or not (isinstance(device, int) and device >= 0
                                        or isinstance(device, str) and _DEVICE.fullmatch(device)):
        raise ArgumentError("device %s is invalid" % (device,))
    return TorchTensors(device)
