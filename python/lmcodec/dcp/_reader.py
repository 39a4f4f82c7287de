"""Reader: checkpoints of Writer, and those of torch's own FileSystemWriter.

Each part of a file is read once, straight to where it goes if that can be.
"""

from __future__ import annotations

import io
import math
import os
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Mapping, Sequence

import torch
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.planner import LoadItemType
from torch.futures import Future

from .._arrays.torch_shared import has_memory
from .._codec import threads_of
from .._errors import BaseError, DataError, LMCError, TensorNotFound, reworded
from .._files.file import File, TensorInfo
from .._files.options import Path
from . import _layout
from ._stream import registry

_BATCH_NBYTES = 256 << 20  # of tensors that threads read together
_PIECE_NBYTES = 64 << 20  # of a tensor that is read to memory between


class Reader(FileSystemReader):  # type: ignore[misc]
    """Loads checkpoints of lmcodec.dcp.Writer, to any number of ranks; and those of torch's FileSystemWriter.

        dcp.load(state, storage_reader=Reader("run/step-20"))

    path: directory of the checkpoint. threads: how many read a file together; None for one per core.
    base_dirs: where the base of this checkpoint is searched for if it is neither at its old place nor beside this one:
        its directory, or the folder that contains it.

    Only the rows that the load needs are read, each once, and all that is read is verified. `.metadata` is a
    pickle of torch's: load only what you trust. Raises, on every rank through torch's CheckpointException: DataError
    (damaged, not complete), BaseError, UnsupportedError, OSError, MemoryError.
    """

    transforms: Any

    def __init__(self, path: Path, _extension_registry: Any = None, *, threads: int | None = 1,
                 base_dirs: Sequence[Path] = ()) -> None:
        super().__init__(os.fsdecode(path), registry() if _extension_registry is None else _extension_registry)
        threads_of(threads)
        self.threads = threads
        self.base_dirs = _layout.folders_of(base_dirs)
        self.transforms = _Transforms(self.transforms)
        self._metadata: Any = None
        self.chain: list[str] = []  # directories of bases, the nearest first

    def read_metadata(self, *args: Any, **kwargs: Any) -> Any:
        """The metadata of the checkpoint. Raises DataError if it is not complete, UnsupportedError, OSError."""
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
        """Takes the metadata, and finds the bases. Raises BaseError, DataError."""
        super().set_up_storage_reader(metadata, is_coordinator, *args, **kwargs)
        self._metadata, self.chain = metadata, []
        if any(map(_layout.is_stored_item, metadata.storage_data.values())):
            self.chain = self._find_chain(getattr(metadata.storage_meta, "save_id", None))

    def read_data(self, plan: Any, planner: Any) -> Any:
        """Reads the items of a plan. The future that it returns is done."""
        if not any(_layout.is_stored_item(self.storage_data[item.storage_index]) for item in plan.items):
            with _told(lambda: self.transforms.item):
                return super().read_data(plan, planner)

        def dtype_of(fqn: str) -> Any:
            return self._metadata.state_dict_metadata[fqn].properties.dtype

        by_file: dict[str, list[Any]] = {}
        for item in plan.items:
            by_file.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)
        for name, wanted in by_file.items():
            with self._open(name) as file:
                _FileReader(file, self.storage_data, dtype_of, planner, self.threads).read(wanted)
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

    def place_of(self, name: str) -> tuple[str, str | None]:
        """The path of a rank's file, and that of its base; None if there is no file that could be its base."""
        base = os.path.join(self.chain[0], name) if self.chain else None
        return os.path.join(os.fspath(self.path), name), base if base and os.path.exists(base) else None

    def _open(self, name: str) -> File:
        path, base = self.place_of(name)
        file = File(path, base=base, base_dirs=self.chain[1:])
        if base is None and self.chain and file.base_name is not None:
            raise BaseError("%s was coded against %s, which is not there" % (path, os.path.join(self.chain[0], name)))
        return file


class Enabled:
    """What enable() gives: its call is taken back by the end of `with`, or by disable()."""

    count = 0  # calls that are not taken back

    def __init__(self) -> None:
        self._is_enabled = True
        Enabled.count += 1

    def disable(self) -> None:
        """Takes the call back. Nothing happens the second time."""
        Enabled.count -= self._is_enabled
        self._is_enabled = False

    def __enter__(self) -> Enabled:
        return self

    def __exit__(self, *_: object) -> None:
        self.disable()


def enable() -> Enabled:
    """Lets torch's own calls read checkpoints of Writer: each FileSystemReader(path) that is made becomes a Reader.

        lmcodec.dcp.enable()                                     # until the program ends, or
        with lmcodec.dcp.enable():                               # until the end of `with`
            dcp.load(state, checkpoint_id="run/step-20")
            dcp_to_torch_save("run/step-20", "step-20.pt")       # of torch.distributed.checkpoint.format_utils

    All threads of the process see it. Subclasses of FileSystemReader, and readers that exist already, stay as they
    are. It may be called again, also within `with`.
    """
    if "__new__" not in vars(FileSystemReader):
        FileSystemReader.__new__ = staticmethod(_new_reader)
    return Enabled()


def _new_reader(cls: Any, *_: Any, **__: Any) -> Any:
    """FileSystemReader.__new__(): the class alone is exchanged, so that Python calls Reader's own __init__()."""
    return object.__new__(Reader if cls is FileSystemReader and Enabled.count > 0 else cls)


class _Transforms:
    """Those of torch's own reader. item: the last one that it began to read, or None."""

    def __init__(self, transforms: Any) -> None:
        self._transforms = transforms
        self.item: Any = None

    def transform_load_stream(self, read_item: Any, *arguments: Any) -> Any:
        self.item = read_item
        return self._transforms.transform_load_stream(read_item, *arguments)


class _FileReader:
    """The items of one file.

    stored: what `.metadata` says of each item (_layout.stored_item()). dtypes: torch's dtype of an item's name.
    Raises as File.read_into() does; the text names the item.
    """

    def __init__(self, file: File, stored: Mapping[Any, Any], dtypes: Callable[[str], Any], planner: Any,
                 threads: int | None) -> None:
        self._file, self._stored, self._dtypes, self._planner = file, stored, dtypes, planner
        self._threads = threads
        self._batch: list[tuple[Any, TensorInfo, Any]] = []
        self._batch_nbytes = 0

    def read(self, items: Sequence[Any]) -> None:
        by_tensor: dict[str, list[Any]] = {}
        for item in items:
            by_tensor.setdefault(self._stored[item.storage_index].tensor, []).append(item)
        for same in by_tensor.values():
            with _told(lambda: same[0]):
                self._read_tensor(same)
        self._flush()

    def _read_tensor(self, items: list[Any]) -> None:
        info = self._stored[items[0].storage_index]
        tensor = self._file.find(info.tensor)
        if items[0].type == LoadItemType.BYTE_IO:
            content = self._file.read(info.tensor, threads=self._threads)
            for item in items:
                self._planner.load_bytes(item, io.BytesIO(content))
            return
        dtype = self._dtypes(items[0].storage_index.fqn)
        if tensor.nbytes != math.prod(info.sizes) * dtype.itemsize:
            raise DataError("it has %d bytes, and not those of %s %s" % (tensor.nbytes, dtype, list(info.sizes)))
        targets = [(item, self._planner.resolve_tensor(item).detach()) for item in items]
        for item, target in targets:
            if target.size() != item.lengths:
                raise LMCError("%s are wanted, where %s have room" % (list(item.lengths), list(target.size())))
            if not target.is_meta and not has_memory(target):
                raise LMCError("the tensor that it is read to has no memory of its size")
        if len(targets) == 1 and self._read_directly(*targets[0], tensor, info.sizes, dtype):
            return
        self._read_between(targets, tensor, info.sizes, dtype)
        for item, target in targets:
            self._planner.commit_tensor(item, target)

    def _read_directly(self, item: Any, target: Any, tensor: TensorInfo, sizes: Sequence[int], dtype: Any) -> bool:
        """Reads rows that lie in one piece, in the file and in the memory that they go to. False if they do not."""
        if not (target.device.type == "cpu" and target.dtype == dtype and target.is_contiguous()
                and not target.is_conj() and not target.is_neg()
                and tuple(item.lengths[1:]) == tuple(sizes[1:])):
            return False
        if target.nbytes == tensor.nbytes:
            self._batch.append((item, tensor, target))
            self._batch_nbytes += tensor.nbytes
            if self._batch_nbytes >= _BATCH_NBYTES:
                self._flush()
            return True
        first = item.storage_offsets[0] * (tensor.nbytes // sizes[0]) if target.nbytes else 0
        self._file.read_range(tensor, first, target.nbytes, target.data_ptr())
        self._planner.commit_tensor(item, target)
        return True

    def _flush(self) -> None:
        """Reads the whole tensors that were collected."""
        batch, self._batch, self._batch_nbytes = self._batch, [], 0
        filled = [(tensor, target.data_ptr()) for _, tensor, target in batch if tensor.nbytes]
        if filled:
            try:
                self._file.read_many([tensor for tensor, _ in filled], [address for _, address in filled],
                                     threads=self._threads)
            except LMCError as error:
                names = {self._stored[item.storage_index].tensor: item for item, _, _ in batch}
                if error.tensor not in names:
                    raise
                item = names[error.tensor]
                with _told(lambda: item):
                    raise
        for item, _, target in batch:
            self._planner.commit_tensor(item, target)

    def _read_between(self, targets: Sequence[tuple[Any, Any]], tensor: TensorInfo, sizes: Sequence[int],
                      dtype: Any) -> None:
        """Reads the rows that any of the items needs, some at a time, and copies each part to where it goes."""
        targets = [(item, target) for item, target in targets if target.nbytes]
        if not targets:
            return
        if not sizes:
            sizes, row_count, offsets = (1,), 1, {id(item): (0,) for item, _ in targets}
            targets = [(item, target.reshape(1)) for item, target in targets]
        else:
            row_count, offsets = sizes[0], {id(item): tuple(item.storage_offsets) for item, _ in targets}
        first = min(offsets[id(item)][0] for item, _ in targets)
        end = max(offsets[id(item)][0] + target.shape[0] for item, target in targets)
        row_nbytes = tensor.nbytes // row_count
        piece_nbytes = self._file.piece_nbytes(tensor, (end - first) * row_nbytes, _PIECE_NBYTES)
        step = max(1, piece_nbytes // row_nbytes)
        for row in range(first, end, step):
            count = min(step, end - row)
            rows = torch.empty((count, *sizes[1:]), dtype=dtype)
            self._file.read_range(tensor, row * row_nbytes, count * row_nbytes, rows.data_ptr())
            for item, target in targets:
                _copy_part(rows, row, target, offsets[id(item)])


def _copy_part(rows: Any, first_row: int, target: Any, offsets: Sequence[int]) -> None:
    """Copies what a target wants of these rows of its tensor. offsets: of the target in the tensor."""
    begin = max(first_row, offsets[0])
    end = min(first_row + rows.shape[0], offsets[0] + target.shape[0])
    if begin >= end:
        return
    part = rows.narrow(0, begin - first_row, end - begin)
    for dimension in range(1, rows.dim()):
        part = part.narrow(dimension, offsets[dimension], target.shape[dimension])
    target.narrow(0, begin - offsets[0], end - begin).copy_(part)


@contextmanager
def _told(item_of: Callable[[], Any]) -> Iterator[None]:
    """An error within gets the name of the item that item_of() gives then, if there is one."""
    try:
        yield
    except LMCError as error:
        item = item_of()
        if item is None:
            raise
        index = item.storage_index
        at = "" if index.offset is None else " at %s" % list(index.offset)
        kind = type(error) if not isinstance(error, TensorNotFound) else DataError
        raise reworded(error, "item %r%s: %s" % (index.fqn, at, error), kind) from error
