"""PyTorch tensors for the tensors of a file: each with its own storage, on huge pages if it is large."""

from __future__ import annotations

import re
import sys
from typing import Any, Sequence

import torch

from .._buffer import HUGE_FROM_NBYTES, take_huge_pages
from .._cuda.cuda_load import Loader
from .._cuda.torch_cuda import loader_of
from .._errors import ArgumentError
from . import Arrays
from .torch_types import dtype_of, shape_of

_PINNED_BATCH_NBYTES = 256 << 20  # pinned memory of a batch; two or three are in use at a time
_DEVICE = re.compile("cpu|(cuda|musa|npu|xpu|xla|mlu|hpu)(:[0-9]+)?|mps(:0)?")


class TorchTensors:
    is_free_index = True

    def __init__(self, device: Any) -> None:
        self.device = device
        self.is_cpu = device == "cpu"
        self.is_cuda = isinstance(device, (str, int)) and torch.device(device).type == "cuda"
        self.batch_nbytes = _PINNED_BATCH_NBYTES if self.is_cuda else sys.maxsize

    @property
    def loader(self) -> Loader | None:
        return loader_of(self.device) if self.is_cuda else None

    def new(self, dtype: str, shape: Sequence[int], stored_nbytes: int) -> tuple[Any, int]:
        tensor = torch.empty(shape_of(dtype, shape), dtype=dtype_of(dtype), device="cpu", pin_memory=self.is_cuda)
        address: int = tensor.data_ptr()
        if not self.is_cuda:
            nbytes = tensor.numel() * tensor.element_size()
            if nbytes >= HUGE_FROM_NBYTES:
                take_huge_pages(address, nbytes, stored_nbytes)
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
