"""Copies an HDF5 file whose datasets are then stored with LMC."""

from __future__ import annotations

import itertools
import math
import os
import secrets
import shutil
from dataclasses import dataclass
from typing import Any, Sequence

import h5py
import numpy
from h5py import h5d, h5f, h5g, h5o, h5p, h5s

from .._chunks.stored_chunks import LEVEL_ROWS
from .._files.memory import shown_as
from .._files.options import Path, Sizes
from ._compress import CHUNK_NBYTES, MIN_NBYTES, check_sizes, chunks_for
from ._filter import FILTER_ID, LMC, set_filter
from ._inspect import open_to_read
from ._objects import Copier, is_fixed, read_elements

_SHUFFLE, _FLETCHER32 = 2, 3
_KEPT = {_SHUFFLE, _FLETCHER32, FILTER_ID}  # no other compression
# Filters that change how bytes are stored, not what they are: LMC takes their place. deflate, shuffle, szip, lzf,
# bzip2, blosc, lz4, bitshuffle, zstd, blosc2
_REPLACED = {1, 2, 4, 32000, 307, 32001, 32004, 32008, 32015, 32026, FILTER_ID}
_PIECE_NBYTES = 16 << 20


@dataclass(frozen=True)
class RepackResult(Sizes):
    """nbytes, stored_nbytes: of the file and of its copy. dataset_count; encoded_count: of them, those with LMC now."""

    nbytes: int
    stored_nbytes: int
    dataset_count: int
    encoded_count: int


def repack(src: Path, dst: Path, *, level: str = "default", min_nbytes: int = MIN_NBYTES,
           chunk_nbytes: int | None = None, overwrite: bool = False) -> RepackResult:
    """Writes a copy of an HDF5 file in which datasets are stored with LMC.

    level: "default", "fast" or "max".
    min_nbytes: smaller datasets are copied as they are. So are text and lists of variable length, references, virtual
        datasets, data in external files, and datasets with a filter that LMC cannot stand for (scale-offset, n-bit,
        a lossy filter, an unknown one), and datasets that another compression stores in fewer bytes: then
        all is written twice.
    chunk_nbytes: None keeps the chunks of chunked datasets, others get chunks of 1 MiB. A number gives all of them
        chunks of about that size; h5py's own choice is often too small.
    overwrite: replaces `dst`, which may be `src`, or the file that `dst` is a link to. Without it an existing `dst` is
        an error.

    Attributes, links, references, committed datatypes, fill values, limits of the shape, orders of creation, fletcher32
    and the user block are kept, and the permissions and the modification time of the file. Elements are copied as they
    are stored. `dst` appears whole, or not at all.
    Raises FileExistsError, other OSError (a dataset that cannot be read is named, with the reason if LMC's filter
    failed), RuntimeError (of HDF5), UnsupportedError, ArgumentError.
    """
    check_sizes(min_nbytes, CHUNK_NBYTES if chunk_nbytes is None else chunk_nbytes)
    source_path, target_path = os.fsdecode(src), os.fsdecode(dst)
    if overwrite:
        target_path = os.path.realpath(target_path)
    elif os.path.lexists(target_path):
        raise FileExistsError(17, "File exists", target_path)
    work = "%s.%s.tmp" % (target_path, secrets.token_hex(4))
    with shown_as(work, target_path):
        return _repack(source_path, target_path, work, _Encoder(LMC(level), min_nbytes, chunk_nbytes), overwrite)


def _repack(source_path: str, target_path: str, work: str, encoder: _Encoder, overwrite: bool) -> RepackResult:
    try:
        with open_to_read(source_path) as source:
            block = _copy(source, work, encoder)
            if encoder.larger:  # again, without LMC for these: what is removed from a file may leave a hole
                os.unlink(work)
                encoder.dataset_count = encoder.encoded_count = 0
                block = _copy(source, work, encoder)
        with open(source_path, "rb") as plain, open(work, "r+b") as target:
            target.write(plain.read(block))
            target.flush()
            os.fsync(target.fileno())
        found = os.stat(source_path)
        os.utime(work, ns=(found.st_atime_ns, found.st_mtime_ns))
        shutil.copymode(source_path, work)
        result = RepackResult(os.path.getsize(source_path), os.path.getsize(work), encoder.dataset_count,
                              encoder.encoded_count)
        if overwrite:
            os.replace(work, target_path)
        else:
            _move_to_new(work, target_path)
        return result
    finally:
        if os.path.lexists(work):
            os.unlink(work)


def _copy(source: Any, work: str, encoder: _Encoder) -> int:
    """Returns the bytes of the user block."""
    properties = source.id.get_create_plist()
    of_root = h5g.open(source.id, b"/").get_create_plist()
    properties.set_link_creation_order(of_root.get_link_creation_order())
    properties.set_attr_creation_order(of_root.get_attr_creation_order())
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    if properties.get_version()[0] >= 2:  # then all programs that read the file know the newer forms of objects
        access.set_libver_bounds(h5f.LIBVER_V18, h5f.LIBVER_LATEST)
    with h5py.File(_create(work, properties, access)) as target:
        os.chmod(work, 0o600)  # until it has the bits of the source
        Copier(source.id, target.id, encoder.copy).run()
    return int(properties.get_userblock())


def _create(path: str, properties: Any, access: Any) -> Any:
    """A new HDF5 file. h5py's OSError gives no name."""
    try:
        return h5f.create(os.fsencode(path), h5f.ACC_EXCL, properties, access)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), path) from None


def _move_to_new(work: str, target_path: str) -> None:
    try:
        os.link(work, target_path)
    except FileExistsError:
        raise
    except OSError:  # no hard links here
        if os.path.lexists(target_path):
            raise FileExistsError(17, "File exists", target_path) from None
        os.rename(work, target_path)


class _Encoder:
    """Copies the datasets that LMC can store."""

    def __init__(self, settings: LMC, min_nbytes: int, chunk_nbytes: int | None) -> None:
        self._values, self._min_nbytes, self._chunk_nbytes = settings.filter_options, min_nbytes, chunk_nbytes
        self.dataset_count = 0
        self.encoded_count = 0
        self.larger: set[int] = set()  # addresses of datasets that LMC stores in more bytes than another compression

    def copy(self, dataset: Any, target: Any, name: bytes, datatype: Any, links: Any) -> Any:
        """The copy with LMC, or None."""
        self.dataset_count += 1
        properties = dataset.get_create_plist()
        if not self._takes(dataset, properties):
            return None
        filters = {number: values for number, _, values, _ in map(properties.get_filter,
                                                                  range(properties.get_nfilters()))}
        was_chunked = properties.get_layout() == h5d.CHUNKED
        old_chunk = properties.get_chunk() if was_chunked else None
        if old_chunk is not None and self._chunk_nbytes is None:
            chunk = tuple(old_chunk)
        else:
            chunk = chunks_for(dataset.shape, dataset.get_type().get_size(), self._chunk_nbytes or CHUNK_NBYTES)
        properties.remove_filter(h5py.h5z.FILTER_ALL)
        if not was_chunked:
            properties.set_alloc_time(h5d.ALLOC_TIME_INCR)
        properties.set_chunk(chunk)
        old = filters.get(FILTER_ID)
        rows = LEVEL_ROWS if old and old[0] >= LEVEL_ROWS else 0  # datasets whose rows are snapshots stay so
        set_filter(properties, (self._values[0] + rows, *self._values[1:]))
        if _FLETCHER32 in filters:
            properties.set_fletcher32()
        copy = h5d.create(target, name, datatype, dataset.get_space(), dcpl=properties, lcpl=links)
        _copy_elements(dataset, copy, chunk, chunk == old_chunk)
        if filters.keys() - _KEPT and copy.get_storage_size() > dataset.get_storage_size():
            self.larger.add(h5o.get_info(dataset).addr)
        self.encoded_count += 1
        return copy

    def _takes(self, dataset: Any, properties: Any) -> bool:
        space = dataset.get_space()
        if space.get_simple_extent_type() != h5s.SIMPLE or properties.get_external_count():
            return False
        if h5o.get_info(dataset).addr in self.larger:
            return False
        if properties.get_layout() not in (h5d.CONTIGUOUS, h5d.CHUNKED, h5d.COMPACT):
            return False
        filters = {properties.get_filter(i)[0] for i in range(properties.get_nfilters())}
        if filters - _REPLACED - {_FLETCHER32}:
            return False
        datatype = dataset.get_type()
        nbytes = space.get_simple_extent_npoints() * datatype.get_size()
        return bool(nbytes >= max(1, self._min_nbytes) and is_fixed(datatype))


def _copy_elements(source: Any, target: Any, chunk: Sequence[int], is_same_chunk: bool) -> None:
    """Copies all elements in their stored form, a few chunks at a time. Chunks that do not exist are left out."""
    if source.get_space_status() == h5d.SPACE_STATUS_NOT_ALLOCATED:
        return
    shape, datatype = source.shape, source.get_type()
    is_sparse = is_same_chunk and source.get_num_chunks() < math.prod(-(-n // c) for n, c in zip(shape, chunk))
    piece = chunk if is_sparse else _piece(shape, chunk, datatype.get_size())
    for first in itertools.product(*(range(0, size, step) for size, step in zip(shape, piece))):
        if is_sparse and not source.get_chunk_info_by_coord(first).size:
            continue
        count = tuple(min(length, size - start) for length, size, start in zip(piece, shape, first))
        memory, source_space, target_space = h5s.create_simple(count), source.get_space(), target.get_space()
        source_space.select_hyperslab(first, count)
        target_space.select_hyperslab(first, count)
        elements = numpy.empty(math.prod(count) * datatype.get_size(), dtype="u1")
        read_elements(source, memory, source_space, elements, datatype)
        target.write(memory, target_space, elements, mtype=datatype)


def _piece(shape: Sequence[int], chunk: Sequence[int], item_nbytes: int) -> tuple[int, ...]:
    """The shape of several whole chunks that are copied at once."""
    piece = list(chunk)
    for axis in reversed(range(len(shape))):
        count = max(1, _PIECE_NBYTES // (math.prod(piece) * item_nbytes))
        piece[axis] *= min(count, -(-shape[axis] // piece[axis]))
    return tuple(piece)
