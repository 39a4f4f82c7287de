"""Writer: checkpoints whose data are archives."""

from __future__ import annotations

import dataclasses
import math
import operator
import os
import pickle
import uuid
import warnings
from functools import partial
from typing import Any, Sequence

from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.metadata import StorageMeta
from torch.distributed.checkpoint.planner import WriteItemType
from torch.distributed.checkpoint.storage import StorageWriter, WriteResult
from torch.futures import Future

from .. import _abi
from .._buffer import Buffer
from .._codec import level_of, threads_of
from .._errors import ArgumentError, BaseError, LMCError
from .._files import writer
from .._files.file import File
from .._files.options import Path
from .._files.whole import write_whole
from .._system import slashed, sync_directory
from . import _layout
from ._content import Cache, tensor_entry


class Writer(StorageWriter):  # type: ignore[misc]
    """Saves checkpoints of torch.distributed.checkpoint: each rank writes an archive that holds its tensors.

        dcp.save(state, storage_writer=Writer("run/step-10"))
        dcp.save(state, storage_writer=Writer("run/step-20", base="run/step-10"))

    path: directory of the checkpoint; dcp.save(checkpoint_id=) may name another one.
    level: "default", "fast" or "max". threads: of each rank; None for one per core.
    base: directory of an earlier checkpoint of this class, to code against. The new one then needs it to be read. A
        file of a rank is coded against the file of this name there, if that has a tensor of its own.
    key_every: at the latest every key_every-th checkpoint is written without a base, which starts a new chain.
    base_dirs: where the bases of the base are searched for.
    single_file_per_rank: False writes a file for each item.
    overwrite: False refuses a directory that holds a checkpoint. True removes its `.metadata` before anything is
        written. The warning names the checkpoints beside it that need it.
    fsync: False leaves it to the system when the bytes reach the disk.

    Contiguous tensors in memory are read in place. Of all others, one or two items are in memory at a time.
    Raises, on every rank through torch's CheckpointException: ArgumentError, BaseError, FileExistsError, DTypeError (no
    dense tensor), OSError, LMCError.
    """

    def __init__(self, path: Path, *, level: str = "default", threads: int | None = 1, base: Path | None = None,
                 key_every: int = 8, base_dirs: Sequence[Path] = (), single_file_per_rank: bool = True,
                 overwrite: bool = True, fsync: bool = True) -> None:
        super().__init__()
        level_of(level)
        threads_of(threads)
        if not 1 <= operator.index(key_every) <= _layout.KEY_EVERY_MAX:
            raise ArgumentError("key_every is 1 to %d, not %d" % (_layout.KEY_EVERY_MAX, key_every))
        self.path = os.fsdecode(path)
        self.base = None if base is None else os.fsdecode(base)
        self.base_dirs = _layout.folders_of(base_dirs)
        self.level, self.threads, self.key_every = level, threads, key_every
        self.single_file_per_rank, self.overwrite, self.fsync = single_file_per_rank, overwrite, fsync
        self.save_id = str(uuid.uuid4())
        self._chain: list[str] = []  # directories of bases, the nearest first
        self._manifest = _layout.Manifest(self.save_id, level, key_every)

    # ---- what torch calls, in this order

    def reset(self, checkpoint_id: Any = None) -> None:
        """Begins a save of its own, to the directory `checkpoint_id` if there is one."""
        if checkpoint_id:
            self.path = os.fsdecode(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    def storage_meta(self) -> Any:
        """What `.metadata` says of the storage: the directory, and an id of the save."""
        return StorageMeta(checkpoint_id=self.checkpoint_id, save_id=self.save_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Raises LMCError for a save without collectives."""
        if not kwargs.get("use_collectives", True):
            raise LMCError("lmcodec.dcp.Writer has no checkpoints without collectives: use_collectives=True")

    def prepare_local_plan(self, plan: Any) -> Any:
        """Chooses the base and makes the directory. Raises BaseError, ArgumentError, OSError."""
        self._manifest, self._chain = self._choose_base()
        os.makedirs(self.path, exist_ok=True)
        return plan

    def prepare_global_plan(self, plans: list[Any]) -> list[Any]:
        """Removes the `.metadata` of an earlier checkpoint, and gives each rank the start of its files' names."""
        self._clear()
        return [dataclasses.replace(plan, storage_data="__%d_" % rank) for rank, plan in enumerate(plans)]

    def write_data(self, plan: Any, planner: Any) -> Any:
        """Writes the files of this rank. The future that it returns is done."""
        results: list[Any] = []
        lots = [plan.items] if self.single_file_per_rank else [[item] for item in plan.items]
        for number, items in enumerate(lots):
            if items:
                results += self._write_file("%s%d.lmc" % (plan.storage_data, number), items, planner)
        future: Any = Future()
        future.set_result(results)
        return future

    def finish(self, metadata: Any, results: list[list[Any]]) -> None:
        """Writes the manifest and `.metadata`, which makes the checkpoint complete."""
        stored = {result.index: result.storage_data for rank in results for result in rank}
        metadata.storage_data, metadata.storage_meta = stored, self.storage_meta()
        names = {info.relative_path for info in stored.values()}
        for name in os.listdir(self.path):  # files of an earlier save with more ranks
            if _layout.DATA_NAME.fullmatch(name) and name not in names:
                os.remove(os.path.join(self.path, name))
        _layout.write_manifest(self.path, self._manifest, self.fsync)
        write_whole(os.path.join(self.path, _layout.METADATA_NAME), pickle.dumps(metadata), self.fsync)

    @property
    def checkpoint_id(self) -> str:
        """The directory of the checkpoint."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Whether it names a directory, as for FileSystemWriter."""
        return bool(FileSystemWriter.validate_checkpoint_id(checkpoint_id))

    # ---- the base

    def _choose_base(self) -> tuple[_layout.Manifest, list[str]]:
        """The manifest of the new checkpoint, and the directories that its files may be coded against."""
        alone = _layout.Manifest(self.save_id, self.level, self.key_every)
        if self.base is None:
            return alone, []
        self._check_differs(self.base)
        base = _layout.read_manifest(self.base)
        if base is None or not os.path.exists(os.path.join(self.base, _layout.METADATA_NAME)):
            what = "is not there" if not os.path.isdir(self.base) else \
                "holds no complete checkpoint of lmcodec.dcp.Writer"
            raise BaseError("the base %s %s" % (self.base, what))
        if base.chain + 1 >= self.key_every:
            return alone, []
        chain = [self.base, *_layout.chain_of(self.base, self.base_dirs, base)]
        for directory in chain:
            self._check_differs(directory)
        place = _place_of(os.path.realpath(self.base), os.path.realpath(self.path))
        return _layout.Manifest(self.save_id, self.level, self.key_every, base.chain + 1, place, base.save_id), chain

    def _check_differs(self, base: str) -> None:
        if os.path.exists(self.path) and os.path.exists(base) and os.path.samefile(self.path, base):
            raise ArgumentError("%s: a checkpoint is not its own base, nor a base of its base" % self.path)

    def _base_file(self, name: str, entries: list[writer.Entry]) -> str | None:
        """The file to code against; None if there is none with a tensor like one of these.

        Which tensors belong together is found later, by names and values: wrappers change names.
        """
        if not self._chain:
            return None
        path = os.path.join(self._chain[0], name)
        if not os.path.exists(path):
            return None
        with File(path) as file:
            kinds = {(tensor.dtype, tensor.shape) for tensor in file.tensors.values() if tensor.nbytes}
        return path if any((entry.dtype, tuple(entry.shape)) in kinds for entry in entries) else None

    # ---- files

    def _clear(self) -> None:
        """From here on the directory holds no checkpoint, until the new one is complete."""
        path = os.path.join(self.path, _layout.METADATA_NAME)
        if not os.path.exists(path):
            return
        if not self.overwrite:
            raise FileExistsError("%s holds a checkpoint, and overwrite is False" % self.path)
        dependents = _layout.dependents_of(self.path)
        lost = "; lost with it, for they need it as a base: %s" % ", ".join(dependents) if dependents else ""
        warnings.warn("the checkpoint in %s is overwritten%s" % (self.path, lost), stacklevel=2)
        os.remove(path)
        if self.fsync:
            sync_directory(self.path)

    def _write_file(self, name: str, items: list[Any], planner: Any) -> list[Any]:
        cache, used = Cache(), {"__metadata__"}
        entries, results = [], []
        for item in items:
            entry = self._entry(item, planner, cache, used)
            entries.append(entry)
            nbytes = math.prod(entry.shape) * _abi.DTYPE_NBITS[entry.dtype] // 8
            sizes = () if item.tensor_data is None else item.tensor_data.chunk.sizes
            stored = _layout.stored_item(name, entry.name, sizes, nbytes)
            results.append(WriteResult(item.index, nbytes, stored))
        base = self._base_file(name, entries)
        writer.write(entries, os.path.join(self.path, name), None, plain=False, level=self.level,
                      threads=self.threads, fsync=self.fsync, base=base, base_dirs=self._chain[1:] if base else ())
        return results

    def _entry(self, item: Any, planner: Any, cache: Cache, used: set[str]) -> writer.Entry:
        name = _name_of(item)
        while name in used:
            name += "@"
        used.add(name)
        if item.type == WriteItemType.BYTE_IO:
            content = planner.resolve_data(item).getbuffer()
            with Buffer(content) as buffer:
                return writer.Entry(name, "U8", [buffer.nbytes], buffer.address, content)
        return tensor_entry(name, partial(planner.resolve_data, item), cache)


def _name_of(item: Any) -> str:
    """The name of an item's tensor in its file: that of the item, and where in the whole tensor the chunk begins."""
    fqn = str(item.index.fqn)
    if item.type != WriteItemType.SHARD or tuple(item.tensor_data.chunk.sizes) == tuple(item.tensor_data.size):
        return fqn
    return "%s@%s" % (fqn, ",".join(map(str, item.tensor_data.chunk.offsets)))


def _place_of(base: str, path: str) -> str:
    """Where a base lies, from a checkpoint, as its manifest says it; whole if it is on another drive."""
    try:
        return slashed(os.path.relpath(base, path))
    except ValueError:
        return base
