"""LMC for datasets that other packages create; shapes of chunks."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
from typing import Any, Iterator, NamedTuple, Sequence

import h5py
import numpy

from .._errors import ArgumentError
from ._filter import LMC

CHUNK_NBYTES = 1 << 20  # a chunk of this size codes well, and a read of a part decodes little
MIN_NBYTES = 1 << 14  # below it a code table and a chunk's index cost more than they gain

# With one of these the caller has decided how the dataset is stored.
_DECIDED = ("compression", "compression_opts", "shuffle", "scaleoffset", "external", "dcpl")


class _Settings(NamedTuple):
    filter: LMC
    min_nbytes: int
    chunk_nbytes: int


_settings: contextvars.ContextVar[_Settings | None] = contextvars.ContextVar("lmcodec.h5.compress", default=None)
_lock = threading.Lock()
_user_count = 0
_original: Any = None


@contextlib.contextmanager
def compress(level: str = "default", *, min_nbytes: int = MIN_NBYTES,
             chunk_nbytes: int = CHUNK_NBYTES) -> Iterator[None]:
    """Within `with`, all datasets that h5py creates are stored with LMC, whichever package creates them.

        with lmcodec.h5.compress():
            model.save_weights("model.weights.h5")

    That holds for `create_dataset` and `group[name] = array` in this thread (or asyncio task), for arrays of numbers
    from min_nbytes on, if the caller has asked for no filter and for no layout. They get chunks of about chunk_nbytes,
    unless the caller gives some. Programs that do not use h5py, such as PyTables, are not affected.
    Raises ArgumentError (no such level, a size that is no number of bytes).
    """
    check_sizes(min_nbytes, chunk_nbytes)
    token = _settings.set(_Settings(LMC(level), min_nbytes, chunk_nbytes))
    _install()
    try:
        yield
    finally:
        _remove()
        _settings.reset(token)


def check_sizes(min_nbytes: Any, chunk_nbytes: Any) -> None:
    """ArgumentError for what are no sizes of datasets and chunks."""
    for name, value, least in (("min_nbytes", min_nbytes, 0), ("chunk_nbytes", chunk_nbytes, 1)):
        if not hasattr(value, "__index__") or value < least:
            raise ArgumentError("%s is an integer from %d on, not %r" % (name, least, value))


def _install() -> None:
    global _user_count, _original
    with _lock:
        _user_count += 1
        if _user_count == 1:
            _original = h5py.Group.create_dataset
            h5py.Group.create_dataset = _wrapped(_original)


def _remove() -> None:
    global _user_count
    with _lock:
        _user_count -= 1
        # If somebody has wrapped the wrapper meanwhile, it stays below theirs: it does nothing without settings.
        if _user_count == 0 and getattr(h5py.Group.create_dataset, "__wrapped__", None) is _original:
            h5py.Group.create_dataset = _original


def _wrapped(original: Any) -> Any:
    @functools.wraps(original)
    def create_dataset(self: Any, name: Any, shape: Any = None, dtype: Any = None, data: Any = None,
                       **options: Any) -> Any:
        settings = _settings.get()
        if settings is not None:
            if options.get("compression") == "unknown":  # create_dataset_like() says so of filters h5py does not know
                options = {**options, "compression": None, "compression_opts": None}
            options.update(_options(settings, shape, dtype, data, options))
        return original(self, name, shape, dtype, data, **options)

    return create_dataset


def _options(settings: _Settings, shape: Any, dtype: Any, data: Any, given: dict[str, Any]) -> dict[str, Any]:
    """What is to be added to the options of a dataset."""
    # 0 is a wish, too: scaleoffset=0 finds the scale itself
    wishes = [given.get(option) for option in _DECIDED]
    if any(wish is not None and wish is not False for wish in wishes) or given.get("chunks") is False:
        return {}
    found = _describe(shape, dtype, data)
    if found is None:
        return {}
    dimensions, item_nbytes = found
    nbytes = item_nbytes
    for size in dimensions:
        nbytes *= size
    if not dimensions or nbytes < max(1, settings.min_nbytes):
        return {}
    added: dict[str, Any] = {"compression": settings.filter}
    if given.get("chunks") in (None, True):
        added["chunks"] = chunks_for(dimensions, item_nbytes, settings.chunk_nbytes)
    return added


def _describe(shape: Any, dtype: Any, data: Any) -> tuple[tuple[int, ...], int] | None:
    """Shape and bytes of an element of a dataset of numbers, or None."""
    if shape is None:
        shape = getattr(data, "shape", None)
    if dtype is None:
        dtype = "f4" if data is None else getattr(data, "dtype", None)
    if shape is None or dtype is None or isinstance(data, h5py.Empty):
        return None
    try:
        numeric = numpy.dtype(dtype)
        dimensions = (int(shape),) if numpy.ndim(shape) == 0 else tuple(int(size) for size in shape)
    except (TypeError, ValueError):
        return None
    is_extension = numeric.kind == "V" and numeric.type is not numpy.void  # bfloat16 and fp8 of ml_dtypes
    return (dimensions, numeric.itemsize) if numeric.kind in "biufc" or is_extension else None


def chunks_for(shape: Sequence[int], item_nbytes: int, chunk_nbytes: int = CHUNK_NBYTES) -> tuple[int, ...]:
    """The shape of chunks of at most about `chunk_nbytes`: whole rows as far as they fit, of equal numbers."""
    left = max(1, chunk_nbytes // max(1, item_nbytes))
    chunk = []
    for size in reversed(shape):
        size = max(1, size)
        parts = -(-size // left)
        chunk.append(-(-size // parts))
        left = max(1, left // chunk[-1])
    return tuple(reversed(chunk))
