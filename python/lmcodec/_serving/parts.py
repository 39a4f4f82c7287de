"""Parts of one tensor of a file: what of it a view of torch needs is decoded."""

from __future__ import annotations

import math
import threading
from typing import Any, Sequence

from .._files.file import File
from .._files.safe_open import safe_open
from .reused import Reused

_PIECE_NBYTES = 64 << 20  # of content that is decoded at a time, if a part does not lie in one piece
_GAP_NBYTES = 1 << 20  # of content between two rows of a part that is not decoded with them


class Content:
    """The content of one tensor, which is neither a view nor of the dtype F4. It keeps the file open.

    count: its elements. Several threads may use one object. part() and whole() raise as safe_open.get_tensor().
    """

    def __init__(self, file: File, name: str, threads: int | None, reused: Reused) -> None:
        self._file, self._name, self._threads, self._reused = file, name, threads, reused
        self._tensor = file.find(name)
        self.count = math.prod(self._tensor.shape)
        self._whole: Any = None
        self._lock = threading.Lock()

    @property
    def is_whole(self) -> bool:
        """Whether all of it is in memory."""
        return self._whole is not None

    def whole(self) -> Any:
        """All of it, decoded once and kept. What is written to it stays."""
        with self._lock:
            if self._whole is None:
                self._whole = self._reused.decoded(safe_open(self._file, "pt", threads=self._threads), self._name)
            return self._whole

    def part(self, layout: Any) -> Any:
        """A new tensor with the elements of a view.

        layout: a tensor on the device meta with the dtype, shape, strides and offset of the view. Its elements do not
            overlap.
        """
        self._file.check_size(self._tensor)
        narrow = layout.squeeze()
        order = sorted(range(narrow.dim()), key=narrow.stride, reverse=True)
        sorted_layout = narrow.permute(order)
        made = self._new(sorted_layout.shape)
        if made.numel():
            self._fill(made, sorted_layout)
        return made.permute([order.index(dimension) for dimension in range(len(order))]).reshape(layout.shape)

    def _fill(self, target: Any, layout: Any) -> None:
        """Fills a contiguous tensor with the elements of a view that has the largest stride first."""
        itemsize, first = layout.element_size(), layout.storage_offset()
        if layout.is_contiguous():
            self._read(target, first, layout.numel())
            return
        step, row_layout = layout.stride(0), layout[0]
        span = _span_of(row_layout)
        if self._is_cut() and ((step - span) * itemsize >= _GAP_NBYTES or step * itemsize > _PIECE_NBYTES):
            for row, row_target in enumerate(target):
                self._fill(row_target, layout[row])
            return
        count = min(max(_PIECE_NBYTES // (step * itemsize), 1), len(target)) if self._is_cut() else len(target)
        buffer = self._new(((count - 1) * step + span,))
        for row in range(0, len(target), count):
            rows = target[row:row + count]
            self._read(buffer, first + row * step, (len(rows) - 1) * step + span)
            rows.copy_(buffer.as_strided(rows.shape, (step, *row_layout.stride())))

    def _new(self, shape: Sequence[int]) -> Any:
        return self._reused.tensor(self._tensor.dtype, shape, math.prod(shape) * self._tensor.nbytes // self.count)

    def _read(self, target: Any, first: int, count: int) -> None:
        """Decodes elements [first, first + count) to the start of a contiguous tensor."""
        itemsize, address = target.element_size(), target.data_ptr()
        nbytes = count * itemsize
        step = _PIECE_NBYTES if self._is_cut() else nbytes
        for done in range(0, nbytes, step):
            self._file.read_range(self._tensor, first * itemsize + done, min(step, nbytes - done), address + done,
                                  threads=self._threads)

    def _is_cut(self) -> bool:
        """Whether pieces can be decoded alone. A stored frame has one checksum: each of its ranges needs all of it."""
        return self._file.piece_nbytes(self._tensor, self._tensor.nbytes, 1) == 1


def _span_of(layout: Any) -> int:
    """Elements from the first to the last one of a view."""
    return 1 + sum((int(size) - 1) * int(stride) for size, stride in zip(layout.shape, layout.stride()))
