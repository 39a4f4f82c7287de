"""Which tensors of a state share memory. The rules and the texts are those of safetensors.torch."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Collection, Mapping

import torch


def check_dense_and_unshared(tensors: Any) -> None:
    """Raises ValueError (not a dict of tensors, sparse) or RuntimeError (shared memory), as safetensors does."""
    if not isinstance(tensors, dict):
        raise ValueError("Expected a dict of [str, torch.Tensor] but received %s" % type(tensors))
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError("Key `%s` is invalid, expected torch.Tensor but received %s" % (name, type(tensor)))
    check_dense(tensors)
    shared = [names for names in shared_names(tensors) if len(names) > 1]
    if shared:
        raise RuntimeError(
            "Some tensors share memory, this will lead to duplicate memory on disk and potential differences when "
            "loading them again: %s. A potential way to correctly save your model is to use `save_model`." % shared)


def check_dense(tensors: Mapping[str, Any]) -> None:
    """Raises ValueError for sparse tensors."""
    sparse = [name for name, tensor in tensors.items() if tensor.layout != torch.strided]
    if sparse:
        raise ValueError(
            "You are trying to save a sparse tensors: `%s` which this library does not support. You can make it a "
            "dense tensor before saving with `.to_dense()` but be aware this might make a much larger file than needed."
            % sparse)


def shared_names(tensors: Mapping[str, Any]) -> list[set[str]]:
    """Sets of names whose tensors overlap in memory. A name alone is a set, too."""
    groups = defaultdict(list)
    for name, tensor in tensors.items():
        if tensor.device.type != "meta":
            address, nbytes = _storage(tensor)
            if address and nbytes:
                groups[str(tensor.device), address, nbytes].append(name)
    found = []
    for _, names in sorted(groups.items()):
        found.extend(_overlaps(names, tensors) if len(names) > 1 else [set(names)])
    return found


def unshared(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors, with copies of those that are not contiguous, or whose memory another one has, too."""
    kept = {name for names in shared_names(tensors) for name in sorted(names)[:1]}
    return {name: (tensor if name in kept or tensor.device.type == "meta" else tensor.detach().clone()).contiguous()
            for name, tensor in tensors.items()}


def names_to_remove(state: Mapping[str, Any], preferred: Collection[str] = ()) -> dict[str, list[str]]:
    """Names of tensors that another tensor holds, by that tensor's name. preferred: names that are kept if they can be.

    Raises RuntimeError if no tensor of a group covers the memory that they share.
    """
    removed = {}
    for names in shared_names(state):
        complete = {name for name in names if _storage(state[name])
                    == (state[name].data_ptr(), state[name].nelement() * state[name].element_size())}
        if not complete:
            raise RuntimeError(
                "Error while trying to find names to remove to save state dict, but found no suitable name to keep for "
                "saving amongst: %s. None is covering the entire storage. Refusing to save/load the model since you "
                "could be storing much more memory than needed." % names)
        kept = min(complete.intersection(preferred) or complete)
        if len(names) > 1:
            removed[kept] = sorted(names - {kept})
    return removed


def _storage(tensor: Any) -> tuple[int, int]:
    """Address and bytes of the memory that a tensor is a part of."""
    storage = _storage_of(tensor)
    return (0, 0) if storage is None else (storage.data_ptr(), storage.nbytes())


def _storage_of(tensor: Any) -> Any:
    """None for tensors that have none."""
    try:
        return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()  # before torch 2.0
    except NotImplementedError:
        return None


def has_memory(tensor: Any) -> bool:
    """Whether the storage of a dense tensor, which may have been resized, holds all of its values."""
    storage = None if tensor.nelement() == 0 else _storage_of(tensor)
    if storage is None:  # the device has a memory of its own kind
        return True
    nbytes = tensor.storage_offset() * tensor.element_size() + _span_nbytes(tensor)
    return storage.device.type != "meta" and bool(nbytes <= storage.nbytes())


def _overlaps(names: list[str], tensors: Mapping[str, Any]) -> list[set[str]]:
    areas = sorted((tensors[name].data_ptr(), _end(tensors[name]), name) for name in names)
    _, last_end, first_name = areas[0]
    found = [{first_name}]
    for begin, end, name in areas[1:]:
        if begin >= last_end:
            found.append({name})
        else:
            found[-1].add(name)
        last_end = end
    return found


def _end(tensor: Any) -> int:
    """Behind the last byte of a tensor, which may not be contiguous."""
    return int(tensor.data_ptr() + _span_nbytes(tensor))


def _span_nbytes(tensor: Any) -> int:
    """Bytes from the first value to the last one."""
    if tensor.nelement() == 0:
        return 0
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return int((steps + 1) * tensor.element_size())
