"""Reader: checkpoints of Writer, and those of torch's own FileSystemWriter."""

from __future__ import annotations

import os
from typing import Any, Sequence

from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.futures import Future

from .._codec import threads_of
from .._errors import BaseError, DataError
from .._file import File
from .._options import Path
from . import _items, _layout
from ._stream import registry


class Reader(FileSystemReader):  # type: ignore[misc]
    """Loads checkpoints of lmcodec.dcp.Writer, to any number of ranks; and those of torch's FileSystemWriter.

        dcp.load(state, storage_reader=Reader("run/step-20"))

    path: directory of the checkpoint. threads: that read a file together; None for one a core.
    base_dirs: where the checkpoint that this one was coded against is looked for, if it is neither where it was nor
        beside this one: its directory, or the folder that has it.

    Of each tensor the rows are read that the load needs, once, and all that is read is verified. `.metadata` is a
    pickle of torch's: load only what you trust. Raises, on every rank through torch's CheckpointException: DataError
    (damaged, not complete), BaseError, UnsupportedError, OSError, MemoryError.
    """

    transforms: Any

    def __init__(self, path: Path, *, threads: int | None = 1, base_dirs: Sequence[Path] = ()) -> None:
        super().__init__(os.fsdecode(path), _extension_registry=registry())
        threads_of(threads)
        self.threads = threads
        self.base_dirs = _layout.folders_of(base_dirs)
        self.transforms = _Transforms(self.transforms)
        self._metadata: Any = None
        self._chain: list[str] = []

    def read_metadata(self, *args: Any, **kwargs: Any) -> Any:
        directory = os.fspath(self.path)
        rank = kwargs.get("rank")
        name = _layout.METADATA_NAME if rank is None else "__%d%s" % (rank, _layout.METADATA_NAME)
        if os.path.isdir(directory) and not os.path.exists(os.path.join(directory, name)):
            raise DataError("%s has no %s: it holds no checkpoint, or one whose save did not end" % (directory, name))
        try:
            return super().read_metadata(*args, **kwargs)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # a damaged pickle may end in any
            raise DataError("%s cannot be read: %s: %s"
                            % (os.path.join(directory, name), type(error).__name__, error)) from error

    def set_up_storage_reader(self, metadata: Any, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        super().set_up_storage_reader(metadata, is_coordinator, *args, **kwargs)
        self._metadata, self._chain = metadata, []
        if any(map(_layout.is_stored_item, metadata.storage_data.values())):
            self._chain = self._find_chain(getattr(metadata.storage_meta, "save_id", None))

    def read_data(self, plan: Any, planner: Any) -> Any:
        if not any(_layout.is_stored_item(self.storage_data[item.storage_index]) for item in plan.items):
            with _items.told(lambda: self.transforms.item):
                return super().read_data(plan, planner)
        _items.read_items(plan.items, self.storage_data, self._dtype_of, self._open, planner, self.threads)
        future: Any = Future()
        future.set_result(None)
        return future

    def _find_chain(self, save_id: str | None) -> list[str]:
        directory = os.fspath(self.path)
        manifest = _layout.read_manifest(directory)
        if manifest is None or manifest.save_id != save_id:
            raise DataError("%s: %s and %s are not of one save"
                            % (directory, _layout.METADATA_NAME, _layout.MANIFEST_NAME))
        return _layout.chain_of(directory, self.base_dirs, manifest)

    def _dtype_of(self, fqn: str) -> Any:
        return self._metadata.state_dict_metadata[fqn].properties.dtype

    def _open(self, name: str) -> File:
        path = os.path.join(os.fspath(self.path), name)
        base = os.path.join(self._chain[0], name) if self._chain else None
        has_base = base is not None and os.path.exists(base)
        file = File(path, base=base if has_base else None, base_dirs=self._chain[1:])
        if base is not None and not has_base and file.base_name is not None:
            raise BaseError("%s was coded against %s, which is not there" % (path, base))
        return file


class _Transforms:
    """Those of torch's own reader. item: the last one that it began to read, or None."""

    def __init__(self, transforms: Any) -> None:
        self._transforms = transforms
        self.item: Any = None

    def transform_load_stream(self, read_item: Any, *arguments: Any) -> Any:
        self.item = read_item
        return self._transforms.transform_load_stream(read_item, *arguments)
