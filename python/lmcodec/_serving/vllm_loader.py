"""The loader of vLLM for `--load-format lmc`."""

from __future__ import annotations

import os
from typing import Any, Mapping

from vllm.model_executor.model_loader.base_loader import BaseModelLoader

from .weights import INDEX_NAME, parts_of, tensors_of

_OPTIONS = ("weights", "name", "base_dirs", "storage_options", "threads")


class LmcLoader(BaseModelLoader):  # type: ignore[misc]
    """Reads the weights of a model from archives.

    `model_loader_extra_config` may have these options. weights: where the archives are, a path or a URL; by default the
    model itself. name: of a model in the store, or of a step in the run, that `weights` is. base_dirs: where bases of
    archives are looked for. storage_options: of a URL, for fsspec's file system. threads: that decode.
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
        self._extra = extra

    def download_model(self, model_config: Any) -> None:
        """Fetches the archives of a repository of the Hugging Face hub. Others are read where they are."""
        self._source(model_config)

    def load_weights(self, model: Any, model_config: Any) -> None:
        """Decodes the tensors one by one, and hands them to the model."""
        extra = self._extra
        parts = parts_of(self._source(model_config), extra.get("name"), tuple(extra.get("base_dirs", ())),
                         extra.get("storage_options"))
        model.load_weights(tensors_of(parts, extra.get("threads")))

    def _source(self, model_config: Any) -> str:
        source = str(self._extra.get("weights", model_config.model))
        if "name" in self._extra or "://" in source or os.path.exists(source):
            return source
        from huggingface_hub import snapshot_download

        return str(snapshot_download(source, revision=getattr(model_config, "revision", None),
                                     cache_dir=getattr(self.load_config, "download_dir", None),
                                     allow_patterns=["*.lmc", INDEX_NAME]))
