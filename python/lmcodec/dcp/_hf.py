"""HuggingFaceReader: directories of torch's HuggingFaceStorageWriter, plain or converted to archives."""

from __future__ import annotations

import json
import os
from typing import Any, Sequence

import torch
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.metadata import (ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta,
                                                   TensorProperties, TensorStorageMetadata)
from torch.futures import Future

from .. import _torch_tensors
from .._codec import threads_of
from .._errors import DataError
from .._file import File
from .._options import Path
from . import _items, _layout

_SUFFIXES = (".safetensors", ".safetensors.lmc")
_SHARDING_KEY, _OFFSETS_KEY = "DCP_SHARDING_INFO", "saved_offsets"


class HuggingFaceReader(HuggingFaceStorageReader):  # type: ignore[misc]
    """Loads safetensors files and archives of a directory, as torch's HuggingFaceStorageReader loads the former.

        lmcodec.convert("checkpoint", "checkpoint-lmc")
        dcp.load(state, storage_reader=HuggingFaceReader("checkpoint-lmc"))

    path: of the directory. threads: that read a file together; None for one a core. base_dirs: where bases of archives
        are looked for. Raises as lmcodec.dcp.Reader does.
    """

    def __init__(self, path: Path, *, threads: int | None = 1, base_dirs: Sequence[Path] = ()) -> None:
        super().__init__(os.fsdecode(path))
        threads_of(threads)
        self.threads, self.base_dirs = threads, list(base_dirs)
        self._metadata: Any = None

    def read_metadata(self) -> Any:
        directory = os.fspath(self.path)
        names = [name for name in sorted(os.listdir(directory)) if name.endswith(_SUFFIXES)]
        if not names:
            raise DataError("%s has no safetensors files and no archives of them" % directory)
        chunks: dict[str, list[Any]] = {}
        dtypes: dict[str, Any] = {}
        stored: dict[Any, Any] = {}
        for name in names:
            with self._open(name) as file:
                sharding = json.loads((file.metadata or {}).get(_SHARDING_KEY) or "{}")
                for key, tensor in file.tensors.items():
                    shape = _torch_tensors.shape_of(tensor.dtype, tensor.shape)
                    offsets = sharding[key][_OFFSETS_KEY] if sharding else [0] * len(shape)
                    chunks.setdefault(key, []).append(ChunkStorageMetadata(torch.Size(offsets), torch.Size(shape)))
                    dtypes[key] = _torch_tensors.dtype_of(tensor.dtype)
                    stored[MetadataIndex(key, offsets)] = _layout.stored_item(name, key, shape, tensor.nbytes)
        entries = {key: TensorStorageMetadata(TensorProperties(dtype=dtypes[key]), _whole_size(found), found)
                   for key, found in chunks.items()}
        return Metadata(state_dict_metadata=entries, storage_data=stored, storage_meta=StorageMeta(load_id=self.load_id))

    def set_up_storage_reader(self, metadata: Any, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        super().set_up_storage_reader(metadata, is_coordinator, *args, **kwargs)
        self._metadata = metadata

    def read_data(self, plan: Any, planner: Any) -> Any:
        _items.read_items(plan.items, self.storage_data, self._dtype_of, self._open, planner, self.threads)
        future: Any = Future()
        future.set_result(None)
        return future

    def _dtype_of(self, fqn: str) -> Any:
        return self._metadata.state_dict_metadata[fqn].properties.dtype

    def _open(self, name: str) -> File:
        return File(os.path.join(os.fspath(self.path), name), base_dirs=self.base_dirs)


def _whole_size(chunks: Sequence[Any]) -> Any:
    """The size of the tensor that the chunks are parts of."""
    ends = [[offset + size for offset, size in zip(chunk.offsets, chunk.sizes)] for chunk in chunks]
    return torch.Size(max(along) for along in zip(*ends))
