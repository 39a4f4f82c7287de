"""Tensors of torch that are decoded when they are used, and then only what is used of them."""

from __future__ import annotations

from typing import Any, Mapping

import torch

from .._arrays.torch_types import dtype_of, shape_of
from .._files.file import File
from .parts import Content
from .reused import Reused

_FROM_NBYTES = 1 << 20  # of a tensor of which a part is worth a call of its own

_aten = torch.ops.aten
_VIEWS = frozenset([_aten.slice.Tensor, _aten.select.int, _aten.split.Tensor, _aten.split_with_sizes.default,
                    _aten.unbind.int, _aten.t.default, _aten.transpose.int, _aten.permute.default, _aten.view.default,
                    _aten.unsqueeze.default, _aten.squeeze.dim, _aten.detach.default, _aten.alias.default])
# What looks at memory, and does not go through the operators of torch.
_OF_MEMORY = frozenset(getattr(torch.Tensor, name) for name in (
    "data_ptr", "numpy", "tolist", "storage", "untyped_storage", "_typed_storage", "is_shared", "share_memory_",
    "apply_", "map_", "__array__", "__dlpack__", "__reduce_ex__", "__deepcopy__", "__repr__", "__format__")
    if hasattr(torch.Tensor, name))


def is_deferred(file: File, name: str) -> bool:
    """Whether parts of the tensor are worth the effort: it is large, and rows of its bytes are rows of the tensor."""
    tensor = file.find(name)
    return tensor.nbytes >= _FROM_NBYTES and len(tensor.shape) >= 2 and tensor.strides is None and tensor.dtype != "F4"


def deferred_tensor(file: File, name: str, threads: int | None, reused: Reused) -> Any:
    """A tensor of a file. Nothing of it has been decoded. reused: the memory for its content. Raises DTypeError."""
    tensor = file.find(name)
    layout = torch.empty(shape_of(tensor.dtype, tensor.shape), dtype=dtype_of(tensor.dtype), device="meta")
    return DeferredTensor(Content(file, name, threads, reused), layout)


class DeferredTensor(torch.Tensor):  # type: ignore[misc]
    """A tensor of a file, or a view of one, on the CPU. It acts as the tensor that the file has.

    Views by slices, indices, splits and other orders of dimensions are deferred, too. An operator that only reads
    decodes what the view has, and gets it as a plain tensor. All of the tensor is decoded once, and kept, if the view
    has all of it, or anything else is done: another kind of view, a change, the address, a second read.
    Only `plain.data = deferred` is refused, by torch: "incompatible tensor type". Reading raises as
    safe_open.get_tensor().
    """

    _content: Content
    _layout: Any
    _is_read: bool

    @staticmethod
    def __new__(cls, content: Content, layout: Any) -> DeferredTensor:
        """layout: the view, on the device meta."""
        made: DeferredTensor = torch.Tensor._make_subclass(cls, layout, False, dispatch_device=True)
        made._content, made._layout, made._is_read = content, layout, False
        return made

    def __init__(self, content: Content, layout: Any) -> None:
        """All is done by then."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if func in _OF_MEMORY:
            args = tuple(_plain(arg, is_kept=True) for arg in args)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:
            return torch.device("cpu")
        first: Any = args[0] if args else None
        if func in _VIEWS and isinstance(first, DeferredTensor) and not first._content.is_whole:
            layouts = func(first._layout, *args[1:], **kwargs)
            if isinstance(layouts, (list, tuple)):
                return [DeferredTensor(first._content, layout) for layout in layouts]
            return DeferredTensor(first._content, layouts)
        if func is _aten.copy_.default and first.device.type == "meta":  # a model is measured: nothing is read
            return func(first, args[1]._layout, *args[2:], **kwargs)
        # What is written or has views of its own must see later changes, and be seen by them.
        kept = {argument.name for argument in func._schema.arguments if argument.alias_info is not None}
        names = [argument.name for argument in func._schema.arguments]
        return func(*(_plain(arg, name in kept) for name, arg in zip(names, args)),
                    **{name: _plain(arg, name in kept) for name, arg in kwargs.items()})


def _plain(value: Any, is_kept: bool) -> Any:
    """The plain tensor for a deferred one, also in a list; other values as they are. is_kept: all is decoded."""
    if isinstance(value, (list, tuple)):
        return type(value)([_plain(each, is_kept) for each in value])
    if not isinstance(value, DeferredTensor):
        return value
    content, layout = value._content, value._layout
    if is_kept or value._is_read or content.is_whole or layout.numel() == content.count:
        return content.whole().as_strided(layout.shape, layout.stride(), layout.storage_offset())
    value._is_read = True
    return content.part(layout)
