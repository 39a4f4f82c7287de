"""Models for vLLM, read from archives.

    vllm serve model.lmc --load-format lmc                           # written by: lmc-st convert model -o model.lmc
    vllm serve model --load-format lmc --model-loader-extra-config \\
        '{"weights": "s3://bucket/store", "name": "org/model"}'

vLLM calls register() in each of its processes (entry point group `vllm.general_plugins`).
docs/python_frameworks.md has the options.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from ._changes.state import Names, State
from ._files.options import Path

__all__ = ["patches", "register", "weights"]

_LOAD_FORMAT = "lmc"
_registered: list[Any] = []


def register() -> None:
    """Makes `lmc` a load format of vLLM, of this process. It may be called again. Raises ImportError: there is no vLLM
    that takes load formats of others."""
    from vllm.model_executor.model_loader import register_model_loader

    from ._serving.vllm_loader import LmcLoader

    if LmcLoader not in _registered:
        register_model_loader(_LOAD_FORMAT)(LmcLoader)
        _registered.append(LmcLoader)


def weights(source: Path, name: str | None = None, *, base_dirs: Sequence[Path] = (),
            storage_options: Mapping[str, Any] | None = None, threads: int | None = None,
            parts: bool = False) -> Iterator[tuple[str, Any]]:
    """Names and tensors of torch, in the order of their files: what `model.load_weights()` takes. vLLM is not needed.

    source: a converted directory, or one archive, also at a URL; or a store or run. name: of a model of the store, or
        of a step of the run. base_dirs: where bases of archives are looked for. storage_options: of a URL, for fsspec's
        file system. threads: None for one per core.
    parts: whether tensors of 1 MiB or more are decoded when they are used, and then only what is used of them: the
        rows that narrow() or a slice takes, or nothing if the caller passes over one. They act as plain tensors, of a
        subclass; only torch's `plain.data = tensor` refuses them. Then reading raises what is said here.

    The next tensor is decoded while the caller has the last one, so two are in memory. Raises FileNotFoundError, other
    OSError, ArgumentError, ModelNotFound, DataError (damage; a tensor of the index is missing), ImportError.
    """
    from ._serving.weights import parts_of, tensors_of

    return tensors_of(parts_of(source, name, base_dirs, storage_options), threads, parts)


def patches(delta: Any, state: State, *, names: Names = None, threads: int | None = None) -> Iterator[Any]:
    """What a delta changes, as `CheckpointWeightPatch` of vLLM: for load_checkpoint_weight_patches(model, patches).

    delta, state, names, threads: as for lmcodec.apply(), with tensors of torch on the host. `state` is the checkpoint's
        tensors at the version before; it is verified, and not changed: lmcodec.apply() does that afterwards.

    Tensors in which nothing changes have no patch. First come the sparse ones. Dense ones follow for tensors that were
    not coded against a base, are not floats, or get a NaN, which a sparse patch of vLLM cannot hold. vLLM takes each
    kind in a call of its own. Raises as lmcodec.apply() does, and ImportError: this vLLM has no patches.
    """
    from ._serving.vllm_patches import patches_of

    return patches_of(delta, state, names, threads)
