"""Deltas: archives of tensors in memory, coded against an earlier version of them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Iterator, Mapping

from .._errors import ArgumentError
from .._files import writer
from .._files.options import Progress
from .._files.writer import Entry
from .state import Names, State, entries_of, translate

PART_NBYTES = 64 << 20  # of content in a part of a stream


def delta(old: State, new: State, *, names: Names = None, level: str = "default", threads: int | None = None,
          metadata: Mapping[str, str] | None = None, progress: Progress | None = None) -> bytes:
    """The bytes of an archive of `new` that is coded against `old`. apply() makes `new` of `old` by them.

    old, new: tensors by name, or a list of such mappings (shards): tensors of torch on any device, NumPy arrays, or
        what serialize_file() takes. Their order, and how they are divided into shards, may differ. A tensor of `new`
        that `old` does not have with this dtype and shape is coded whole. One that only `old` has is left out.
    names: where `old` has other names: a mapping, or a function, that gives the name there for a name in `new`.
    level: "default", "fast" or "max". threads: None for one per core. metadata: strings that the archive carries.
    progress(done bytes, all bytes) is called while it is made. An exception from it ends the call.

    The result can be stored: it is the content of a file whose base is "base.safetensors". Raises ArgumentError (two
    shards have one name), DTypeError, TypeError, MemoryError.
    """
    with ExitStack() as buffers:
        entries = entries_of(new, buffers)
        base = bases_of(entries, entries_of(old, buffers), names)
        return writer.to_bytes(entries.values(), metadata, plain=False, level=level, threads=threads,
                               base=base.values(), progress=progress)


def delta_parts(old: State, new: State, *, part_nbytes: int = PART_NBYTES, names: Names = None,
                level: str = "default", threads: int | None = None,
                metadata: Mapping[str, str] | None = None) -> Iterator[bytes]:
    """The delta in parts, to be sent while the next ones are made: each is the delta of some of the tensors, and can be
    applied alone, in any order.

    part_nbytes: a part has tensors of so many bytes, or one that is larger. Others are those of delta(). The tensors
    must not change before the last part was made.
    """
    if part_nbytes < 1:
        raise ArgumentError("part_nbytes is at least 1, not %d" % part_nbytes)
    with ExitStack() as buffers:
        entries = entries_of(new, buffers)
        base = bases_of(entries, entries_of(old, buffers), names)
        for part in parts_of(entries, part_nbytes):
            yield writer.to_bytes(part.values(), metadata, plain=False, level=level, threads=threads,
                                  base=[base[name] for name in part if name in base])


def bases_of(entries: Mapping[str, Entry], old: Mapping[str, Entry], names: Names) -> dict[str, Entry]:
    """The tensors of `old` that those of `entries` can be coded against, under the names of these."""
    bases = {}
    for name, entry in entries.items():
        found = old.get(translate(names, name))
        if found is not None and (found.dtype, tuple(found.shape)) == (entry.dtype, tuple(entry.shape)):
            bases[name] = found._replace(name=name)
    return bases


def parts_of(entries: Mapping[str, Entry], part_nbytes: int) -> Iterator[dict[str, Entry]]:
    """Tensors in their order, in parts of so many bytes."""
    part: dict[str, Entry] = {}
    nbytes = 0
    for name, entry in entries.items():
        if part and nbytes + writer.nbytes_of(entry) > part_nbytes:
            yield part
            part, nbytes = {}, 0
        part[name] = entry
        nbytes += writer.nbytes_of(entry)
    if part:
        yield part
