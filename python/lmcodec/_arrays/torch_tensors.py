"""PyTorch tensors for the tensors of a file: each with its own storage."""

from __future__ import annotations

import functools
import re
import sys
from typing import Any, Sequence

import torch

from .._buffer import take_pages
from .._cuda.cuda_load import Loader
from .._cuda.torch_cuda import loader_of
from .._errors import ArgumentError, DTypeError
from . import Arrays
from .torch_shared import has_memory
from .torch_types import dtype_of, shape_of

_PINNED_BATCH_NBYTES = 256 << 20  # pinned memory of a batch; two or three are in use at a time
_NEW_NBYTES = 1 << 20  # of a tensor whose pages are taken before it is filled
_DEVICE = re.compile("cpu|(cuda|musa|npu|xpu|xla|mlu|hpu)(:[0-9]+)?|mps(:0)?")


def is_plain(tensor: Any) -> bool:
    """Whether the values of a tensor are what its memory holds, on the host."""
    return (type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device.type == "cpu"
            and tensor.layout == torch.strided and not tensor.is_nested and not tensor.is_quantized
            and not tensor.is_conj() and not tensor.is_neg() and not tensor._is_zerotensor())


def refusal_of(tensor: Any) -> str | None:
    """Why nothing can be written to a tensor, whatever is to be written; None if something can."""
    if tensor.is_nested:
        return "is nested"
    if tensor.layout != torch.strided:
        return "has the layout %s" % tensor.layout
    if tensor.is_quantized:
        return "is quantized"
    if tensor.device.type == "meta":
        return "has no memory: it is on the device meta"
    if tensor._is_zerotensor() or not has_memory(tensor):
        return "has no memory of its size"
    if tensor.numel() and any(size > 1 and step == 0 for size, step in zip(tensor.shape, tensor.stride())):
        return "has several elements in the same memory"
    return None


@functools.lru_cache(maxsize=None)
def _is_convertible(dtype: Any, wanted: Any) -> bool:
    """Whether Tensor.copy_() converts one dtype to another."""
    try:
        torch.empty(1, dtype=wanted).copy_(torch.empty(1, dtype=dtype))
    except RuntimeError:
        return False
    return True


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

    def new(self, dtype: str, shape: Sequence[int]) -> tuple[Any, int]:
        tensor = torch.empty(shape_of(dtype, shape), dtype=dtype_of(dtype), device="cpu", pin_memory=self.is_cuda)
        return tensor, tensor.data_ptr()

    def new_of(self, dtype: Any, file_dtype: str, shape: Sequence[int]) -> Any:
        if not _is_convertible(dtype_of(file_dtype), dtype):
            raise DTypeError("torch does not convert %s to %s" % (dtype_of(file_dtype), dtype))
        return torch.empty(shape_of(file_dtype, shape), dtype=dtype, device=self.device)

    def is_converted(self, file_dtype: str, dtype: Any) -> bool:
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise DTypeError("dtype is one of torch's dtypes of floating point, not %r" % (dtype,))
        own = dtype_of(file_dtype)
        return file_dtype != "F4" and own.is_floating_point and own != dtype

    def address_in(self, array: Any, dtype: str, shape: Sequence[int]) -> int | None:
        if not isinstance(array, torch.Tensor):
            raise TypeError("out is not a tensor of torch, but of the type %s" % type(array).__name__)
        refusal = refusal_of(array)
        if refusal is not None:
            raise ArgumentError("out " + refusal)
        if tuple(array.shape) != shape_of(dtype, shape):
            raise ArgumentError("out has the shape %s, the tensor %s" % (list(array.shape), list(shape)))
        own = dtype_of(dtype)
        if array.dtype != own and not _is_convertible(own, array.dtype):
            raise ArgumentError("out has the dtype %s: torch does not convert %s to it" % (array.dtype, own))
        is_as_stored = is_plain(array) and array.dtype == own and array.is_contiguous()
        return array.data_ptr() if is_as_stored else None

    def begin_writing(self, array: Any) -> None:
        """Counts as a change of the tensor. Autograd refuses gradients that need what was there before."""
        if is_plain(array) and array.is_contiguous():
            array.detach().reshape(-1).view(torch.uint8)[:0].zero_()  # of F4, torch itself fills nothing

    def cut(self, array: Any, dtype: str, shape: Sequence[int]) -> tuple[Any, Sequence[int] | None]:
        array = array.detach()
        if dtype == "F4" or not shape or array.layout != torch.strided or type(array) is not torch.Tensor:
            return array, None
        return (array.reshape(-1), (array.numel(),)) if array.is_contiguous() else (array, shape)

    def fill(self, array: Any, content: Any) -> None:
        nbytes = array.numel() * array.element_size()
        if nbytes >= _NEW_NBYTES and is_plain(array) and array.is_contiguous():
            take_pages(array.data_ptr(), nbytes)
        array.copy_(content)

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
