"""A file in a store or on this machine, and its bases: where they are searched for, and where their tensors are."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
from typing import Any, Iterable, Iterator, NamedTuple, Sequence, Union

from .. import _abi
from .._errors import BaseError, DataError, LimitError, LMCError, check, check_status, loads_untrusted, placed, reworded
from .._files.file import Handle, open_path
from .._files.options import encode_path, path_array
from .source import Requests, Settings, Source
from .stores import Location, Refused, hide_secrets

_RUN_LIST_NBYTES_MAX = 4 << 20  # of a run with 30,000 steps
_STORE_MARK = "store.json"
_STORE_LEVELS_MAX = 200  # folders above an archive that may be its store: those of a model's name, and of its files
_RUN_DEPTH_MAX = 3  # folders below that of a step in which an archive may be
_NOT_THERE = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, Refused)
"""Errors that say that a place in a store has no base. Others are outages: asking again later may find it."""


class Place(NamedTuple):
    """Stored bytes of a file, and the content [begin, end) of a tensor that they hold.

    is_frame: in an archive. begin, end: 0 if all of the tensor was asked for.
    """

    source: Source
    is_frame: bool
    offset: int
    nbytes: int
    begin: int
    end: int


class Search(NamedTuple):
    """Where bases are searched for: URLs or local paths."""

    base: str | None
    base_dirs: tuple[str, ...]
    settings: Settings
    requests: Requests

    def locate(self, place: str) -> Where:
        return self.settings.locate(place) if is_url(place) else place


Where = Union[Location, str]  # in a store, or a path of this machine


def is_url(place: str) -> bool:
    return "://" in place


class ChainFile:
    """An open file. source: None for one of this machine, whose bases the library finds itself."""

    def __init__(self, place: Where, search: Search, expected: tuple[int, str | None] | None = None) -> None:
        self._place, self._search = place, search
        self.source: Source | None = None
        if isinstance(place, str):
            self.handle = open_path(encode_path(place), None,
                                    path_array([folder for folder in search.base_dirs if not is_url(folder)]))
        else:
            self.source, self.handle = _open_source(place, search, expected)
        self._bases: dict[int, ChainFile] = {}
        self._base_failures: dict[int, LMCError] = {}

    def sources(self) -> Iterator[Source]:
        """Those of the file and of the open bases."""
        if self.source is not None:
            yield self.source
        for base in self._bases.values():
            yield from base.sources()

    # ---- places ----

    def frames(self, number: int) -> Iterator[Place]:
        """Where a tensor is stored, and each that it was coded against. Opens the bases that it needs."""
        for file, owner in self._line(number):
            assert file.source is not None
            yield Place(file.source, file.handle.is_archive(), *file.handle.place(owner), 0, 0)

    def parts(self, number: int, first: int, nbytes: int, is_storage: bool = False) -> Iterator[Place]:
        """Where a part of a tensor, or of its storage, is stored, and that of each that it was coded against. For a
        view, begin and end are in its storage."""
        scale = 1
        begin, end = first, first + nbytes
        for file, owner in self._line(number):
            begin, end = begin * scale, end * scale
            if is_storage:  # a base may be shorter than what needs it
                end = min(end, file._storage_nbytes(owner))
                if begin >= end:
                    return
            offset, stored_nbytes, begin, end = file.handle.range_place(
                owner if is_storage else number, is_storage, begin, end - begin)
            assert file.source is not None
            yield Place(file.source, file.handle.is_archive(), offset, stored_nbytes, begin, end)
            is_storage, scale = True, file._base_scale(owner)

    def stored_blocks(self, number: int, first: int, nbytes: int) -> Place | None:
        """The blocks with a part of a tensor's storage, if its frame is stored as it is; else None. Such a frame is
        verified as a whole, and read by blocks from then on."""
        owner = self.handle.owner(number)
        if not self.handle.is_archive() or self.handle.mode(owner) != _abi.MODE_STORED:
            return None
        head = self._head(owner)
        begin = first // head.block_nbytes * head.block_nbytes
        end = min(-(-(first + nbytes) // head.block_nbytes) * head.block_nbytes, head.content_nbytes)
        assert self.source is not None
        return Place(self.source, True, self.handle.place(owner)[0] + head.head_nbytes + begin, end - begin, begin, end)

    def tails(self, number: int) -> Iterator[int]:
        """Bytes of the tail of each frame, index included, as the checked heads say."""
        for file, owner in self._line(number):
            yield file._tail_nbytes(owner) if file.handle.is_archive() else 0

    def block_nbytes(self, number: int) -> int:
        """Bytes of the blocks that a tensor of an archive is stored in."""
        head = self._head(self.handle.owner(number))
        return int(min(head.block_nbytes, head.content_nbytes))

    def _tail_nbytes(self, owner: int) -> int:
        return int(self._head(owner).tail_nbytes)

    def _base_scale(self, owner: int) -> int:
        """Bytes of the base for a byte of the tensor: 2 from BF16 to F32."""
        if not self.handle.is_archive() or self.handle.base_of(owner) is None:
            return 1
        head = self._head(owner)
        return int(head.base_nbytes // max(1, head.content_nbytes)) or 1

    def _head(self, owner: int) -> _abi.Info:
        first = ctypes.create_string_buffer(_abi.INFO_NBYTES)
        nbytes = min(_abi.INFO_NBYTES, self.handle.place(owner)[1])
        head = _abi.Info()
        self.handle.mode(owner)
        self.handle.read_stored(owner, 0, nbytes, first)
        check_status(_abi.frame_read_info(first, nbytes, ctypes.byref(head), None))
        return head

    def _line(self, number: int) -> Iterator[tuple[ChainFile, int]]:
        """The tensor, what it was coded against, and so on, as far as they are in stores."""
        file: ChainFile | None = self
        while file is not None and file.source is not None:
            number = file.handle.owner(number)
            yield file, number
            base = file.handle.base_of(number)
            if base is None:
                return
            base_file, number = base
            if base_file is not None:
                file = file.base(base_file)

    def _storage_nbytes(self, number: int) -> int:
        tensor = _abi.StTensor()
        check_status(_abi.st_tensor_info(self.handle.pointer, number, ctypes.byref(tensor)))
        return int(tensor.storage_nbytes)

    # ---- the bases ----

    def base(self, number: int) -> ChainFile:
        """Finds and opens a base file, once. One thread at a time. Raises BaseError, LimitError, OSError (an outage of
        the store; the next call tries again)."""
        if number not in self._bases:
            if number in self._base_failures:
                raise reworded(self._base_failures[number], str(self._base_failures[number]))
            for twin in self._twins(number):
                self.base(twin)
            try:
                self._bases[number] = self._find_base(number)
            except BaseError as failure:
                self._base_failures[number] = reworded(failure, str(failure))  # without frames, which hold files
                raise
        return self._bases[number]

    def _twins(self, number: int) -> list[int]:
        """Earlier base files with the size and header of this one: the library takes a file for the first of them that
        is not open."""
        wanted = self.handle.base_info(number)
        infos = map(self.handle.base_info, range(number))
        return [twin for twin, info in enumerate(infos) if info.original_nbytes == wanted.original_nbytes
                and info.header_hash == wanted.header_hash]

    def _find_base(self, number: int) -> ChainFile:
        base = self.handle.base_info(number)
        path = base.path.decode()
        looked: list[str] = []
        other = ""
        search = self._search._replace(base=None)
        for place, is_named in self._candidates(base.name.decode(), path):
            looked.append(_shown(place))
            try:
                found = ChainFile(place, search)
                diag = _abi.StDiag()
                check(_abi.st_use_base(self.handle.pointer, found.handle.pointer, ctypes.byref(diag)), diag)
                self.handle.keep(found.handle)
                return found
            except FileNotFoundError as error:
                other = "; %s" % error if is_named else other
            except LimitError:
                raise
            except (OSError, LMCError) as error:
                if not isinstance(place, str) and not isinstance(error, (*_NOT_THERE, LMCError)):
                    raise
                other = "; %s" % error
        shown = _shown(self._place)
        raise placed(BaseError("%s: needs the base %s (hash %016x), which was not found: looked at %s%s"
                               % (shown, path, base.content_hash, ", ".join(looked), other)), shown)

    def _candidates(self, name: str, path: str) -> Iterator[tuple[Where, bool]]:
        """Places where the base file with this name and recorded path may be, in order, and whether the caller has
        named each."""
        assert isinstance(self._place, Location)
        if self._search.base is not None:
            yield self._search.locate(self._search.base), True
        beside = self._place.parent()
        in_store = ((folder, path) for folder in self._store_root(beside))
        is_in_store = "/" in path or self.handle.base_count() > 1
        places: list[Iterable[tuple[Where, str]]] = [
            ((self._search.locate(folder), name) for folder in self._search.base_dirs),
            in_store if is_in_store else (), ((folder, name) for folder in self._folders_in_run(beside)),
            [(beside, name)], () if is_in_store else in_store]
        for folder, inner in itertools.chain.from_iterable(places):
            for wanted in (inner, inner + ".lmc"):
                place = os.path.join(folder, wanted) if isinstance(folder, str) else folder.join(wanted)
                if place != self._place:  # which may have the name, size and header of its base in another step
                    yield place, False

    def _store_root(self, folder: Location) -> Iterator[Location]:
        """The nearest folder with the mark of a store."""
        for _ in range(_STORE_LEVELS_MAX):
            try:
                Source(folder.join(_STORE_MARK), self._search.settings, self._search.requests)
            except (OSError, LMCError) as error:
                is_bucket = folder.path.strip("/") != ""  # above buckets, stores refuse in ways of their own
                if is_bucket and not isinstance(error, (*_NOT_THERE, LMCError)):
                    raise
                above = folder.parent()
                if above.path == folder.path:
                    return
                folder = above
            else:
                yield folder
                return

    def _folders_in_run(self, folder: Location) -> Iterator[Location]:
        """The folder of the step on which the archive's step is based, by the run's list (docs/run.md)."""
        inner = ""
        for _ in range(_RUN_DEPTH_MAX):
            run, step = folder.parent(), folder.name()
            if re.fullmatch("0|[1-9][0-9]{0,18}", step):
                base = self._base_in_list(run.join("run.json"), int(step))
                if base is not None:
                    yield run.at("%s/%d%s" % (run.path.rstrip("/"), base, inner))
                return
            folder, inner = run, "/%s%s" % (step, inner)

    def _base_in_list(self, place: Location, step: int) -> int | None:
        try:
            source = Source(place, self._search.settings, self._search.requests)
            if source.nbytes > _RUN_LIST_NBYTES_MAX:
                return None
            steps = {entry["step"]: entry["base"]
                     for entry in loads_untrusted(source.content(), source.url)["steps"]}
        except (*_NOT_THERE, DataError, LookupError, TypeError):
            return None
        base = steps.get(step)
        return base if isinstance(base, int) else None


def _open_source(place: Location, search: Search,
                 expected: tuple[int, str | None] | None) -> tuple[Source, Handle]:
    source = Source(place, search.settings, search.requests, expected)
    name = os.fsencode(source.url)
    options = _abi.StOpenOptions()
    options.read, options.read_nbytes = source.read_function, source.nbytes

    def open_file(pointer: Any, diag: Any) -> int:
        return int(_abi.st_open(name, ctypes.byref(options), pointer, diag))

    try:
        handle = Handle(open_file)
    except OSError:
        source.raise_failure()
        raise
    handle.keep(source)
    source.opened()
    return source, handle


def _shown(place: Where) -> str:
    return hide_secrets(place if isinstance(place, str) else place.shown)


def to_places(paths: Sequence[Any]) -> tuple[str, ...]:
    """Paths and URLs of a caller. Those of this machine are made absolute."""
    return tuple(path if isinstance(path, str) and is_url(path) else os.path.abspath(os.fsdecode(encode_path(path)))
                 for path in paths)
