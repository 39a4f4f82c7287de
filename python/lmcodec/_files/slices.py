"""Parts of tensors: which bytes an index needs, and the rules of safetensors for indices."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple, Sequence

from .._arrays import Arrays
from .._errors import SliceError
from .file import File


_PIECE_NBYTES = 1 << 20  # of rows that are read at a time, if little of each is wanted


class Rows(NamedTuple):
    """Part of a tensor that lies in one piece: `first` to `end` of the first dimension, and the index in it."""

    first: int
    end: int
    inner: tuple[Any, ...]


class Slice:
    """A tensor of an open file whose parts are read by an index: `file.get_slice(name)[2:5, :, 0]`.

    It reads only the blocks with the rows that the index needs. It stays usable after the file is closed.
    Files of "pt" take every index that torch takes. Other frameworks take integers, slices and one `...`, as
    safetensors does.
    """

    def __init__(self, file: File, name: str, arrays: Arrays, threads: int | None = None) -> None:
        self._file, self._name, self._arrays, self._threads = file, name, arrays, threads
        self._tensor = file.find(name)

    def __repr__(self) -> str:
        tensor = self._tensor
        return "<lmcodec.Slice %r, %s %s, of %r>" % (self._name, tensor.dtype, list(tensor.shape), self._file)

    def get_shape(self) -> list[int]:
        """The shape of the whole tensor."""
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        """The dtype of the tensor, such as "BF16"."""
        return self._tensor.dtype

    def __getitem__(self, index: Any) -> Any:
        """The part as an array of its own.

        Raises SliceError (outside the tensor) or TypeError (no such index); of files of "pt", what torch raises. Raises
        as File.read_into() does.
        """
        tensor, arrays = self._tensor, self._arrays
        if not arrays.is_free_index:
            index = _checked(index, tensor.shape)
        rows = _rows_of(index, tensor.shape) if tensor.dtype != "F4" else None
        self._file.check_size(tensor)
        if rows is None:
            self._file.check_repeats({self._name: tensor})
            array, address = arrays.new(tensor.dtype, tensor.shape)
            self._file.read_range(tensor, 0, tensor.nbytes, address)
            return arrays.part_of(array, tensor.dtype, tensor.shape, index)
        row_nbytes = tensor.nbytes // tensor.shape[0] if tensor.shape[0] else 0
        if _is_worth_cutting(rows, tensor.shape, row_nbytes) and tensor.strides is None:
            return self._read_cut(rows, row_nbytes)
        shape = (rows.end - rows.first, *tensor.shape[1:])
        array, address = arrays.new(tensor.dtype, shape)
        self._file.read_range(tensor, rows.first * row_nbytes, (rows.end - rows.first) * row_nbytes, address,
                              threads=self._threads)
        return arrays.part_of(array, tensor.dtype, shape, rows.inner)

    def _read_cut(self, rows: Rows, row_nbytes: int) -> Any:
        """Reads the rows in pieces, from which the part is copied: memory is taken for that alone."""
        tensor, arrays = self._tensor, self._arrays
        step = rows.inner[0].step
        most = max(_PIECE_NBYTES // row_nbytes // step, 1) * step  # rows of a piece
        array, address = arrays.new(tensor.dtype, (most, *tensor.shape[1:]))
        result: Any = None
        for first in range(rows.first, rows.end, most):
            count = min(most, rows.end - first)
            self._file.read_range(tensor, first * row_nbytes, count * row_nbytes, address, threads=self._threads)
            part = array[:count][rows.inner]
            if result is None:
                shape = (-(-(rows.end - rows.first) // step), *part.shape[1:])
                result, _ = arrays.new(tensor.dtype, shape)
            done = (first - rows.first) // step
            result[done:done + len(part)] = part
        return arrays.part_of(result, tensor.dtype, shape, (slice(None),))


def _is_worth_cutting(rows: Rows, shape: Sequence[int], row_nbytes: int) -> bool:
    """Whether an index of integers and slices takes at most half of what is large."""
    first_key, keys = rows.inner[0], rows.inner[1:]
    if not isinstance(first_key, slice) or (rows.end - rows.first) * row_nbytes < 2 * _PIECE_NBYTES:
        return False
    if not all(key is Ellipsis or _is_basic(key) for key in keys) or keys.count(Ellipsis) > 1:
        return False
    keys = _without_ellipsis(keys, len(shape) - 1)
    if len(keys) >= len(shape):
        return False
    taken = 1.0 / int(first_key.step)
    for key, size in zip(keys, shape[1:]):
        taken *= (1 if isinstance(key, int) else len(range(*key.indices(size)))) / max(size, 1)
    return 0 < taken <= 0.5


def _is_basic(key: Any) -> bool:
    """An integer, or a slice of integers."""
    parts = (key.start, key.stop, key.step) if isinstance(key, slice) else (key,)
    return all(type(part) is int or part is None and part is not key for part in parts)


def _rows_of(index: Any, shape: Sequence[int]) -> Rows | None:
    """The rows that an index of integers, slices and "..." needs; None if it needs all, or is of another kind."""
    keys = index if isinstance(index, tuple) else (index,)
    if not shape or not keys:
        return None
    first_key = keys[0]
    size = shape[0]
    if isinstance(first_key, slice):
        try:
            start, stop, step = first_key.indices(size)
        except (TypeError, ValueError):
            return None
        if step < 1:
            return None
        stop = max(start, stop)
        return Rows(start, stop, (slice(None, None, step), *keys[1:]))
    if isinstance(first_key, bool) or not hasattr(first_key, "__index__") or hasattr(first_key, "__len__"):
        return None
    try:
        row = operator.index(first_key)
    except TypeError:
        return None
    if not -size <= row < size:
        return None
    return Rows(row % size, row % size + 1, (0, *keys[1:]))


def _checked(index: Any, shape: Sequence[int]) -> tuple[Any, ...]:
    """The rules of safetensors. A list must be empty, and bounds must lie in the tensor.

    Unlike safetensors, steps and negative bounds work. More indices than dimensions are refused.
    """
    if isinstance(index, list) and not index:
        index = slice(0, 0)
    elif isinstance(index, list):
        raise SliceError("Non empty lists are not implemented")
    keys = tuple(map(_key_of, _without_ellipsis(index if isinstance(index, tuple) else (index,), len(shape))))
    shown = "Error during slicing [%s] with shape %s: " % (", ".join(map(_show, keys)), list(shape))
    if len(keys) > len(shape):
        raise SliceError(shown + "more slicing indexes than dimensions in tensor")
    for dimension, (key, size) in enumerate(zip(keys, shape)):
        if isinstance(key, int) and key < -size:
            raise SliceError("Invalid index %d for dimension %d of size %d" % (key, dimension, size))
        asked = _outside(key, size)
        if asked is not None:
            raise SliceError("%sindex %d out of bounds for tensor dimension #%d of size %d"
                             % (shown, asked, dimension, size))
    return keys


def _without_ellipsis(keys: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
    """The index with a slice for each dimension that `...` stands for."""
    at = [number for number, key in enumerate(keys) if key is Ellipsis]
    if len(at) > 1:
        raise SliceError("Only one ellipsis (...) is allowed in slice index")
    return keys if not at else keys[:at[0]] + (slice(None),) * (rank + 1 - len(keys)) + keys[at[0] + 1:]


def _key_of(key: Any) -> Any:
    if isinstance(key, slice):
        for bound in (key.start, key.stop, key.step):
            if bound is not None:
                operator.index(bound)
        if key.step is not None and operator.index(key.step) < 1:
            raise SliceError("the step of a slice is 1 or more, not %d" % key.step)
        return key
    try:
        return operator.index(key)
    except TypeError:
        raise TypeError("an index is an integer, a slice or ..., not %s" % type(key).__name__) from None


def _outside(key: Any, size: int) -> int | None:
    """The first index outside a dimension that the key asks for."""
    if isinstance(key, int):
        return key if key >= size else None
    if key.start is not None and key.start >= size and (size > 0 or key.start > 0):
        return int(key.start)
    return int(key.stop) - 1 if key.stop is not None and key.stop > size else None


def _show(key: Any) -> str:
    if isinstance(key, int):
        return str(key)
    return ":".join("" if bound is None else str(bound) for bound in (key.start, key.stop))
