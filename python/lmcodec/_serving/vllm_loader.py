"""The loader of vLLM for `--load-format lmc`."""

from __future__ import annotations

import os
from typing import Any, Mapping

import torch
from vllm.model_executor.model_loader.base_loader import BaseModelLoader

from .weights import INDEX_NAME, parts_of, tensors_of

_OPTIONS = ("weights", "name", "base_dirs", "storage_options", "threads", "parts")


class LmcLoader(BaseModelLoader):  # type: ignore[misc]
    """Reads the weights of a model from archives.

    `model_loader_extra_config` may have these options. weights: where the archives are, a path or a URL; by default the
    model itself. name: of a model in the store, or of a step in the run, that `weights` is. base_dirs: where bases of
    archives are looked for. storage_options: of a URL, for fsspec's file system. threads: that decode. parts: whether
    only those parts of large tensors are decoded that the model takes; by default in a group of several processes.
    """

    def __init__(self, load_config: Any) -> None:
        super().__init__(load_config)
        extra = load_config.model_loader_extra_config or {}
        if not isinstance(extra, Mapping):
            raise ValueError("model_loader_extra_config is a mapping of options, not %s" % type(extra).__name__)
        unknown = sorted(set(extra) - set(_OPTIONS))
        if unknown:
            raise ValueError("load format lmc has no option %r in model_loader_extra_config; it has %s"
                             % (unknown[0], ", ".join(_OPTIONS)))
        if extra.get("parts") not in (None, True, False):
            raise ValueError("option parts of load format lmc is true or false, not %r" % (extra["parts"],))
        self._extra = extra

    def download_model(self, model_config: Any) -> None:
        """Fetches the archives of a repository of the Hugging Face hub. Others are read where they are."""
        self._source(model_config)

    def load_weights(self, model: Any, model_config: Any) -> None:
        """Hands the tensors to the model, one by one."""
        extra = self._extra
        parts = parts_of(self._source(model_config), extra.get("name"), tuple(extra.get("base_dirs", ())),
                         extra.get("storage_options"))
        is_in_parts = extra.get("parts")
        if is_in_parts is None:
            is_in_parts = _is_of_several()
        model.load_weights(tensors_of(parts, extra.get("threads"), is_in_parts))

    def _source(self, model_config: Any) -> str:
        source = str(self._extra.get("weights", model_config.model))
        if "name" in self._extra or "://" in source or os.path.exists(source):
            return source
        from huggingface_hub import snapshot_download

        return str(snapshot_download(source, revision=getattr(model_config, "revision", None),
                                     cache_dir=getattr(self.load_config, "download_dir", None),
                                     allow_patterns=["*.lmc", INDEX_NAME]))


def _is_of_several() -> bool:
    """Whether this process is one of several that serve a model."""
    group = torch.distributed
    return bool(group.is_available() and group.is_initialized() and group.get_world_size() > 1)
