"""HuggingFaceReader: directories of torch's HuggingFaceStorageWriter, plain or converted to archives."""

from __future__ import annotations

import os
from typing import Any, Sequence

import torch
from torch.distributed.checkpoint.metadata import (ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta,
                                                   TensorProperties, TensorStorageMetadata)

from .._arrays import torch_types
from .._errors import DataError, loads_untrusted
from .._files.file import File
from . import _layout
from ._reader import Reader

_SUFFIXES = (".safetensors", ".safetensors.lmc")
_SHARDING_KEY, _OFFSETS_KEY = "DCP_SHARDING_INFO", "saved_offsets"


class HuggingFaceReader(Reader):
    """Loads safetensors files and archives of a directory, as torch's HuggingFaceStorageReader loads the former.

        lmcodec.convert("checkpoint", "checkpoint-lmc")
        dcp.load(state, storage_reader=HuggingFaceReader("checkpoint-lmc"))

    path: of the directory. threads: how many read a file together; None for one per core. base_dirs: where bases of
        archives are searched for. Raises as Reader does.
    """

    def read_metadata(self, *args: Any, **kwargs: Any) -> Any:
        """The metadata that the files of the directory have. Raises DataError, OSError."""
        directory = os.fspath(self.path)
        names = [name for name in sorted(os.listdir(directory)) if name.endswith(_SUFFIXES)]
        if not names:
            raise DataError("%s has no safetensors files and no archives of them" % directory)
        chunks: dict[str, list[Any]] = {}
        dtypes: dict[str, Any] = {}
        stored: dict[Any, Any] = {}
        for name in names:
            with self._open(name) as file:
                text = (file.metadata or {}).get(_SHARDING_KEY) or "{}"
                sharding = loads_untrusted(text, os.path.join(directory, name))
                for key, tensor in file.tensors.items():
                    shape = torch_types.shape_of(tensor.dtype, tensor.shape)
                    offsets = sharding.get(key, {}).get(_OFFSETS_KEY, [0] * len(shape))
                    chunks.setdefault(key, []).append(ChunkStorageMetadata(torch.Size(offsets), torch.Size(shape)))
                    dtypes[key] = torch_types.dtype_of(tensor.dtype)
                    stored[MetadataIndex(key, offsets)] = _layout.stored_item(name, key, shape, tensor.nbytes)
        entries = {key: TensorStorageMetadata(TensorProperties(dtype=dtypes[key]), _whole_size(found), found)
                   for key, found in chunks.items()}
        about = StorageMeta(load_id=self.load_id)
        return Metadata(state_dict_metadata=entries, storage_data=stored, storage_meta=about)

    def _find_chain(self, save_id: str | None) -> list[str]:
        return []

    def _open(self, name: str) -> File:
        return File(os.path.join(os.fspath(self.path), name), base_dirs=self.base_dirs)


def _whole_size(chunks: Sequence[Any]) -> Any:
    """The size of the tensor that the chunks are parts of."""
    ends = [[offset + size for offset, size in zip(chunk.offsets, chunk.sizes)] for chunk in chunks]
    return torch.Size(max(along) for along in zip(*ends))
