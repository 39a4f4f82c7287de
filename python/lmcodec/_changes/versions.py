"""A stream of versions of the same tensors: deltas that know their number, and refuse to be applied out of order."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any, Iterator, Mapping, NamedTuple, NoReturn

from .._errors import ArgumentError, BaseError, DataError, reworded
from .._files import writer
from .._files.file import File, thread_count_of
from .._files.options import Path
from .._files.writer import Entry
from .apply import opened, places_of, put
from .delta import PART_NBYTES, bases_of, parts_of
from .state import Names, State, copy_of, entries_of, one_mapping, overwrite

_STREAM, _VERSION, _PART = "lmc_stream", "lmc_version", "lmc_part"  # metadata of a delta


class _Stamp(NamedTuple):
    """What a delta says of itself. It leads from version - 1 to version; a snapshot leads from any version to it."""

    stream: str
    version: int
    is_snapshot: bool
    part: int
    part_count: int


class DeltaWriter:
    """Makes the deltas of tensors that change, each against the version before. It keeps a copy of the last version.

    state: the tensors, as delta() takes them: they are version 0. Later states may have other tensors.
    level: "default", "fast" or "max". threads: None for one per core.

    The deltas are for a DeltaReader, which refuses those of another writer, and those that are out of order; apply()
    and File take them too. One thread at a time may use a writer. A call that fails leaves its version as it was. One
    that is interrupted at its very end, while the copy is renewed, has made the version: readers without the delta need
    a snapshot. A writer can be neither copied nor pickled: its copy would make other versions of the same numbers.
    """

    def __init__(self, state: State, *, level: str = "default", threads: int | None = None) -> None:
        self._level, self._threads = level, threads
        self._stream = os.urandom(16).hex()
        self._version = 0
        with ExitStack() as buffers:
            self._last = {name: copy_of(entry) for name, entry in entries_of(state, buffers).items()}

    def __reduce__(self) -> NoReturn:
        raise TypeError("a DeltaWriter cannot be copied or pickled: two writers of one stream would make other "
                        "versions of the same number")

    @property
    def version(self) -> int:
        """The number of the last version: 0 before the first delta."""
        return self._version

    def delta(self, state: State) -> bytes:
        """The delta of the next version, which `state` is. Raises as delta() does."""
        parts = list(self._made(state, None))
        return parts[0]

    def parts(self, state: State, part_nbytes: int = PART_NBYTES) -> Iterator[bytes]:
        """The same delta in parts, as delta_parts() gives them. The version is made once all were taken: until then the
        tensors of `state` must not change, and a stream that is given up counts for nothing."""
        if part_nbytes < 1:
            raise ArgumentError("part_nbytes is at least 1, not %d" % part_nbytes)
        return self._made(state, part_nbytes)

    def snapshot(self) -> bytes:
        """The last version as a whole, for readers that have none or have lost a delta."""
        return self._packed(self._last, None, self._version, 0, 1, is_snapshot=True)

    def _made(self, state: State, part_nbytes: int | None) -> Iterator[bytes]:
        version = self._version + 1
        with ExitStack() as buffers:
            entries = entries_of(state, buffers)
            bases = bases_of(entries, self._last, None)
            parts = [entries] if part_nbytes is None else list(parts_of(entries, part_nbytes)) or [entries]
            for number, part in enumerate(parts):
                yield self._packed(part, {name: bases[name] for name in part if name in bases}, version, number,
                                   len(parts))
            if self._version != version - 1:
                raise ArgumentError("version %d was made while its parts were made for another state" % version)
            last = {name: bases.get(name) or copy_of(entry) for name, entry in entries.items()}
            pairs = [(last[name], entry) for name, entry in entries.items()]
            try:
                overwrite(pairs, thread_count_of(self._threads))
            except BaseException:  # of a signal handler: some tensors may be of the last version
                overwrite(pairs, 1)
                raise
            finally:
                self._last, self._version = last, version

    def _packed(self, entries: Mapping[str, Entry], bases: Mapping[str, Entry] | None, version: int, part: int,
                part_count: int, is_snapshot: bool = False) -> bytes:
        stamp = {_STREAM: self._stream, _VERSION: "%s%d" % ("snapshot " if is_snapshot else "", version),
                 _PART: "%d of %d" % (part + 1, part_count)}
        return writer.to_bytes(entries.values(), stamp, plain=False, level=self._level, threads=self._threads,
                               base=None if bases is None else bases.values())


class DeltaReader:
    """Keeps tensors at the last version of a DeltaWriter.

    state: the tensors, as apply() takes them; they must stay where they are. names: as for apply().
    threads: None for one per core.

    The first delta tells the stream; it must have been made against the tensors as they are. One thread at a time may
    use a reader.
    """

    def __init__(self, state: State, *, names: Names = None, threads: int | None = None) -> None:
        self._state, self._names, self._threads = state, names, threads
        self._stream: str | None = None
        self._version: int | None = None
        self._parts: set[int] = set()  # that were applied of the version that is being received
        self._received = 0  # its number

    @property
    def version(self) -> int | None:
        """The version that the tensors are: None before the first delta, or while some parts of a version are missing
        before the first one was whole."""
        return self._version

    def apply(self, delta: Path | bytes | bytearray | memoryview | File | Any) -> int | None:
        """Applies the next delta, a part of it, or a snapshot. Returns the version.

        Raises BaseError: the delta is of another stream, was applied before, or others are missing that come before it:
        the text names the version. Otherwise as apply(). Nothing was changed then. An interrupt leaves the tensors at
        the version that the reader tells, if none is on a device.
        """
        with opened(delta) as file:
            stamp = _stamp_of(file)
            if not stamp.is_snapshot:
                self._check(stamp)
            try:
                with ExitStack() as buffers:
                    places = places_of(file, one_mapping(self._state), self._names, buffers)
                    put(file, places, False, self._threads, None, lambda: self._advance(stamp))
            except BaseError as error:
                raise reworded(error, "%s: the delta leads from version %d to %d"
                               % (error, stamp.version - 1, stamp.version)) from None
        return self._version

    def _advance(self, stamp: _Stamp) -> None:
        self._stream, self._received = stamp.stream, stamp.version
        self._parts.add(stamp.part)
        if len(self._parts) == stamp.part_count or stamp.is_snapshot:
            self._version, self._parts = stamp.version, set()

    def _check(self, stamp: _Stamp) -> None:
        """Refuses a delta that is not the next one."""
        if self._stream not in (None, stamp.stream):
            raise BaseError("the delta is of another stream: its version %d says nothing of these tensors"
                            % stamp.version)
        if self._parts and (stamp.version > self._received or self._version is None and stamp.version < self._received):
            raise BaseError("version %d is missing in part: %d of its parts were applied, and the delta leads to "
                            "version %d" % (self._received, len(self._parts), stamp.version))
        if self._parts and stamp.version == self._received and stamp.part in self._parts:
            raise BaseError("this part of version %d was applied before" % stamp.version)
        if self._version is None:
            return
        if stamp.version <= self._version:
            raise BaseError("version %d was applied before: the tensors are at version %d"
                            % (stamp.version, self._version))
        if stamp.version > self._version + 1:
            raise BaseError("version %d is missing: the delta leads to version %d, and the tensors are at version %d"
                            % (self._version + 1, stamp.version, self._version))


def _stamp_of(file: File) -> _Stamp:
    metadata = file.metadata or {}
    if _STREAM not in metadata:
        raise ArgumentError("the delta has no version: a DeltaWriter makes those that a DeltaReader takes; apply() "
                            "takes any")
    try:
        kind, _, number = metadata[_VERSION].rpartition(" ")
        part, _, part_count = metadata[_PART].partition(" of ")
        stamp = _Stamp(metadata[_STREAM], int(number), kind == "snapshot", int(part) - 1, int(part_count))
        if stamp.version < 0 or not 0 <= stamp.part < stamp.part_count:
            raise ValueError("part %s of version %s" % (metadata[_PART], metadata[_VERSION]))
    except (KeyError, ValueError) as error:
        raise DataError("the delta has no sound version: %s" % error) from None
    return stamp
