"""What a delta changes, as vLLM takes it: patches of the weights of a checkpoint."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Iterator

from .._arrays import arrays_of
from .._changes.apply import changed_arrays, opened, places_of
from .._changes.state import Names, State, one_mapping


def patches_of(delta: Any, state: State, names: Names, threads: int | None) -> Iterator[Any]:
    """Sparse patches, then dense ones (lmcodec.vllm.patches())."""
    from vllm.model_executor.model_loader.checkpoint_weight_patch import CheckpointWeightPatch

    host = arrays_of("pt", "cpu")
    dense = []
    with opened(delta) as file, ExitStack() as buffers:
        places = places_of(file, one_mapping(state), names, buffers)
        for place, (name, tensor) in zip(places, file.tensors.items()):
            indices, values = changed_arrays(file, name, host, place.address, threads=threads)
            is_sparse = indices is not None and values.is_floating_point() and not values.isnan().any()
            if not is_sparse and (indices is None or len(indices)):
                dense.append((name, place, indices, values))
            elif is_sparse and len(indices):
                yield CheckpointWeightPatch(name, tensor.shape, values.dtype, values, indices)
        for name, place, indices, values in dense:
            whole = values
            if indices is not None:
                whole = place.array.detach().clone()
                whole.reshape(-1)[indices.long()] = values
            yield CheckpointWeightPatch(name, tuple(whole.shape), whole.dtype, whole.reshape(-1), None)
