"""Reads items of a load plan from archives: each part of a file once, straight to where it goes if that can be."""

from __future__ import annotations

import io
import math
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Mapping, Sequence

import torch
from torch.distributed.checkpoint.planner import LoadItemType

from .._errors import DataError, LMCError, TensorNotFound
from .._file import File, TensorInfo

_BATCH_NBYTES = 256 << 20  # of tensors that threads read together
_PIECE_NBYTES = 64 << 20  # of a tensor that is read to memory between


def read_items(items: Sequence[Any], stored: Mapping[Any, Any], dtypes: Callable[[str], Any],
               open_file: Callable[[str], File], planner: Any, threads: int | None) -> None:
    """Reads items to where the planner wants them.

    stored: what `.metadata` says of each item (_layout.stored_item()). dtypes: torch's dtype of an item's name.
    Raises as File.read_into() does; the text names the item.
    """
    by_file: dict[str, list[Any]] = {}
    for item in items:
        by_file.setdefault(stored[item.storage_index].relative_path, []).append(item)
    for name, wanted in by_file.items():
        with open_file(name) as file:
            _FileReader(file, stored, dtypes, planner, threads).read(wanted)


class _FileReader:
    """The items of one file."""

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
            with told(lambda: same[0]):
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
                with told(lambda: item):
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
def told(item_of: Callable[[], Any]) -> Iterator[None]:
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
        named = kind("item %r%s: %s" % (index.fqn, at, error))
        named.status, named.file, named.tensor, named.offset = error.status, error.file, error.tensor, error.offset
        raise named from error
