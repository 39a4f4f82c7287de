"""What an HDF5 file holds, and chunks that a reader should not trust."""

from __future__ import annotations

import ctypes
import math
import os
from dataclasses import dataclass, field
from typing import Any, Iterator, Sequence

import h5py

from .._chunks.stored_chunks import calls
from .._files.options import Sizes
from ._filter import FILTER_ID

_SHUFFLE, _FLETCHER32 = 2, 3
_CHECKSUM_NBYTES = 4  # of fletcher32, behind the content
_NAMES = {1: "deflate", _SHUFFLE: "shuffle", _FLETCHER32: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset",
          32000: "lzf", FILTER_ID: "lmc"}

WITHOUT_LMC, WRONG_SIZE, REFUSED, UNKNOWN_SIZE = "without LMC", "wrong size", "refused", "unknown size"


@dataclass(frozen=True)
class DatasetReport(Sizes):
    """How a dataset is stored.

    dtype: its name, or its bits if numpy has no such dtype. nbytes: of the content. stored_nbytes: of the chunks.
    chunks: their shape, or None. chunk_count: those that are stored. filters: their names, or numbers as text.
    problems: of a dataset with LMC, places of chunks by what is wrong with them:
        "without LMC"   the program that wrote the chunk lacked the filter; write the chunk again;
        "wrong size"    it has another size than the dataset's chunks; HDF5 before 2.2 would read beyond its memory;
        "refused"       it is damaged, or from a newer version;
        "unknown size"  another filter decides the size.
    """

    shape: tuple[int, ...] | None
    dtype: str
    nbytes: int
    stored_nbytes: int
    chunks: tuple[int, ...] | None = None
    chunk_count: int = 0
    filters: tuple[str, ...] = ()
    problems: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)

    @property
    def is_lmc(self) -> bool:
        """LMC is among its filters."""
        return "lmc" in self.filters


def inspect(file: str | os.PathLike[str] | Any) -> dict[str, DatasetReport]:
    """How each dataset of a file is stored. All stored chunks are read, and none is decoded.

    file: a path, or an open h5py.File, Group or Dataset.
    Raises OSError. HDF5 itself may crash on a file that somebody has forged: docs/hdf5-filter.md, section 6.
    """
    if isinstance(file, h5py.Dataset):
        return {file.name: _report(file)}
    if isinstance(file, h5py.Group):
        return dict(_reports(file))
    with open_to_read(file) as opened:
        return dict(_reports(opened))


def open_to_read(path: Any) -> Any:
    """h5py.File, or OSError with the file's name. h5py gives no name, and no errno if the file is not HDF5."""
    try:
        return h5py.File(path, "r")
    except OSError as error:
        name = os.fsdecode(path)
        if error.errno is None:
            raise OSError("%s: not an HDF5 file, or a damaged one: %s" % (name, error)) from None
        raise OSError(error.errno, os.strerror(error.errno), name) from None


def _reports(group: Any) -> Iterator[tuple[str, DatasetReport]]:
    names: list[str] = []
    group.visititems(lambda name, thing: names.append(name) if isinstance(thing, h5py.Dataset) else None)
    for name in names:
        yield name, _report(group[name])


def _report(dataset: Any) -> DatasetReport:
    identifier = dataset.id
    properties = identifier.get_create_plist()
    filters = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
    item_nbytes = identifier.get_type().get_size()
    is_chunked = dataset.chunks is not None
    report = DatasetReport(
        dataset.shape, _dtype_name(dataset), (dataset.size or 0) * item_nbytes, identifier.get_storage_size(),
        dataset.chunks, identifier.get_num_chunks() if is_chunked else 0,
        tuple(_NAMES.get(number, str(number)) for number in filters))
    if is_chunked and FILTER_ID in filters:
        chunk_nbytes = math.prod(dataset.chunks) * item_nbytes
        is_fixed = _has_fixed_size(dataset)
        for place, mask, stored in _chunks_of(dataset):
            problem = _problem(filters, mask, stored, chunk_nbytes, is_fixed)
            if problem:
                report.problems.setdefault(problem, []).append(place)
    return report


def _chunks_of(dataset: Any) -> Iterator[tuple[tuple[int, ...], int, bytes]]:
    """Place, filter mask and stored bytes of every chunk that is stored."""
    places: list[tuple[int, ...]] = []
    if h5py.version.hdf5_version_tuple >= (1, 14, 2) and hasattr(dataset.id, "chunk_iter"):
        dataset.id.chunk_iter(lambda chunk: places.append(chunk.chunk_offset))
    else:  # chunk_iter of earlier versions gives other places, or is not there
        places = [dataset.id.get_chunk_info(i).chunk_offset for i in range(dataset.id.get_num_chunks())]
    for place in places:
        mask, stored = dataset.id.read_direct_chunk(place)
        yield place, mask, bytes(stored)


def _problem(filters: Sequence[int], mask: int, stored: bytes, chunk_nbytes: int, is_fixed: bool) -> str | None:
    """What is wrong with a chunk of a dataset with LMC. Filters ran in their order, but for those whose bit of the mask
    is set; the size is followed backwards."""
    place = filters.index(FILTER_ID)
    nbytes = len(stored)
    is_known = is_fixed and list(filters).count(FILTER_ID) == 1
    for i in reversed(range(len(filters))):
        if mask >> i & 1:
            continue
        if filters[i] == FILTER_ID and is_known:
            size = ctypes.c_size_t()
            if calls().lmc_h5_chunk_nbytes(stored, max(nbytes, 0), ctypes.byref(size)) != 0:
                return REFUSED
            nbytes = size.value
        elif filters[i] == _FLETCHER32:
            nbytes -= _CHECKSUM_NBYTES
        elif filters[i] != _SHUFFLE or i > place:  # a shuffle behind LMC has moved the head of the chunk
            is_known = False
    if is_known and nbytes != chunk_nbytes:
        return WRONG_SIZE
    if mask >> place & 1:
        return WITHOUT_LMC
    return None if is_known else UNKNOWN_SIZE


def _has_fixed_size(dataset: Any) -> bool:
    """Not text, lists and references: what HDF5 stores is not what the type in memory says."""
    try:
        return not dataset.dtype.hasobject
    except TypeError:  # numpy has no such type; HDF5 does
        return True


def _dtype_name(dataset: Any) -> str:
    try:
        return str(dataset.dtype)
    except TypeError:
        return "%d-bit type" % (8 * dataset.id.get_type().get_size())
