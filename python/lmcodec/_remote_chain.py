"""A file in a store or on this machine, and its bases: where they are looked for, and where tensors stand in them."""

from __future__ import annotations

import ctypes
import json
import os
import re
from typing import Any, Iterator, NamedTuple, Sequence
from urllib.parse import quote

from . import _abi
from ._errors import BaseError, DataError, LimitError, LMCError, check, check_status
from ._file import Handle, open_path
from ._options import encode_path, path_array
from ._remote_source import Requests, Settings, Source, protocol_of
from ._remote_stores import hide_secrets

_RUN_LIST_NBYTES_MAX = 64 << 20
_RUN_DEPTH_MAX = 3  # folders below that of a step in which an archive may be


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
    """Where bases are looked for: URLs, or paths of this machine."""

    base: str | None
    base_dirs: tuple[str, ...]
    settings: Settings
    requests: Requests


def is_url(place: str) -> bool:
    return "://" in place


class ChainFile:
    """An open file. source: None for one of this machine, whose bases the library finds itself."""

    def __init__(self, place: str, search: Search, expected: tuple[int, str | None] | None = None) -> None:
        self.place, self._search = place, search
        self.source: Source | None = None
        if is_url(place):
            self.source, self.handle = _open_source(place, search, expected)
        else:
            self.handle = open_path(encode_path(place), None,
                                    path_array([folder for folder in search.base_dirs if not is_url(folder)]))
        self._base: ChainFile | None = None
        self._base_failure: BaseError | None = None
        self._owners: list[int] | None = None

    def is_archive(self) -> bool:
        return bool(_abi.st_is_archive(self.handle.pointer))

    def sources(self) -> Iterator[Source]:
        """Of the file and the bases that are open."""
        if self.source is not None:
            yield self.source
        if self._base is not None:
            yield from self._base.sources()

    # ---- places ----

    def frames(self, number: int) -> Iterator[Place]:
        """Where a tensor stands, and each that it was coded against. Opens the bases that it needs."""
        for file, owner in self._line(number):
            offset, nbytes = file._place(owner)
            assert file.source is not None
            yield Place(file.source, file.is_archive(), offset, nbytes, 0, 0)

    def parts(self, number: int, first: int, nbytes: int) -> Iterator[Place]:
        """Where a part of a tensor stands, and that of each that it was coded against."""
        first_nbytes = 0
        begin, end = first, first + nbytes
        for file, owner in self._line(number):
            nbytes_here = file._content_nbytes(owner)
            scale = nbytes_here // first_nbytes if first_nbytes else 1  # 2 from BF16 to F32
            first_nbytes = nbytes_here
            numbers = [ctypes.c_uint64() for _ in range(4)]
            diag = _abi.StDiag()
            check(_abi.st_range_place(file.handle.pointer, owner, begin * scale, (end - begin) * scale,
                                      *map(ctypes.byref, numbers), ctypes.byref(diag)), diag)
            offset, stored_nbytes, begin, end = (value.value for value in numbers)
            assert file.source is not None
            yield Place(file.source, file.is_archive(), offset, stored_nbytes, begin, end)

    def _line(self, number: int) -> Iterator[tuple[ChainFile, int]]:
        """The tensor, what it was coded against, and so on, as far as it stands in stores."""
        file: ChainFile | None = self
        while file is not None and file.source is not None:
            number = file._owner(number)
            yield file, number
            where, base = ctypes.c_int(), ctypes.c_uint64()
            if not _abi.st_tensor_base(file.handle.pointer, number, ctypes.byref(where), ctypes.byref(base)):
                return
            number = base.value
            if where.value == _abi.BASE_FILE:
                file = file.base()

    def _place(self, number: int) -> tuple[int, int]:
        offset, nbytes = ctypes.c_uint64(), ctypes.c_uint64()
        check_status(_abi.st_tensor_place(self.handle.pointer, number, ctypes.byref(offset), ctypes.byref(nbytes)))
        return offset.value, nbytes.value

    def _content_nbytes(self, number: int) -> int:
        tensor = _abi.StTensor()
        check_status(_abi.st_tensor_info(self.handle.pointer, number, ctypes.byref(tensor)))
        return int(tensor.nbytes)

    def _owner(self, number: int) -> int:
        """The tensor whose frame serves this one: the first at its place."""
        if not self.is_archive():
            return number
        if self._owners is None:
            first: dict[tuple[int, int], int] = {}
            places = map(self._place, range(_abi.st_tensor_count(self.handle.pointer)))
            self._owners = [first.setdefault(place, index) for index, place in enumerate(places)]
        return self._owners[number]

    # ---- the base ----

    def base(self) -> ChainFile:
        """Finds and opens the base, once. One thread at a time. Raises BaseError, LimitError."""
        if self._base is None:
            if self._base_failure is not None:
                raise self._base_failure
            try:
                self._base = self._find_base()
            except BaseError as failure:
                self._base_failure = failure
                raise
        return self._base

    def _find_base(self) -> ChainFile:
        name = self.handle.base_name() or ""
        looked: list[str] = []
        other = ""
        search = self._search._replace(base=None)
        for place, is_named in self._candidates(name):
            looked.append(hide_secrets(place))
            try:
                found = ChainFile(place, search)
                self._use(found)
                return found
            except FileNotFoundError as error:
                other = "; %s" % error if is_named else other
            except LimitError:
                raise
            except (OSError, LMCError) as error:
                other = "; %s" % error
        failure = BaseError("%s: wants the base %s (hash %016x), which was not found: looked at %s%s"
                            % (hide_secrets(self.place), name, self._base_hash(), ", ".join(looked), other))
        failure.file = hide_secrets(self.place)
        raise failure

    def _base_hash(self) -> int:
        base = _abi.StBase()
        _abi.st_base_info(self.handle.pointer, ctypes.byref(base))
        return int(base.content_hash)

    def _use(self, base: ChainFile) -> None:
        """The library reads the base from now on. Raises BaseError (it is another file)."""
        diag = _abi.StDiag()
        check(_abi.st_use_base(self.handle.pointer, base.handle.pointer, ctypes.byref(diag)), diag)
        self.handle.keep(base.handle)

    def _candidates(self, name: str) -> Iterator[tuple[str, bool]]:
        """Places where the base may be, in order, and whether the caller has named each."""
        if self._search.base is not None:
            yield self._search.base, True
        for folder in (*self._search.base_dirs, parent_of(self.place)):
            yield join(folder, name), False
            yield join(folder, name + ".lmc"), False
        in_run = self._folder_in_run()
        if in_run is not None:
            yield join(in_run, name), False
            yield join(in_run, name + ".lmc"), False

    def _folder_in_run(self) -> str | None:
        """The folder of the step on which the archive's step is based, by the run's list (docs/run.md)."""
        folder, inner = parent_of(self.place), ""
        for _ in range(_RUN_DEPTH_MAX):
            run, step = parent_of(folder), name_of(folder)
            if re.fullmatch("0|[1-9][0-9]{0,18}", step):
                base = self._base_in_list(join(run, "run.json"), int(step))
                return None if base is None else join(run, "%d%s" % (base, inner))
            folder, inner = run, "/%s%s" % (step, inner)
        return None

    def _base_in_list(self, place: str, step: int) -> int | None:
        try:
            source = Source(place, self._search.settings, self._search.requests)
            if source.nbytes > _RUN_LIST_NBYTES_MAX:
                return None
            steps = {entry["step"]: entry["base"] for entry in json.loads(source.content())["steps"]}
        except (OSError, DataError, ValueError, LookupError, TypeError):
            return None
        base = steps.get(step)
        return base if isinstance(base, int) else None


def _open_source(url: str, search: Search, expected: tuple[int, str | None] | None) -> tuple[Source, Handle]:
    source = Source(url, search.settings, search.requests, expected)
    name = os.fsencode(source.url)

    def open_file(pointer: Any, diag: Any) -> int:
        return int(_abi.st_open_from(name, source.read_function, None, source.nbytes, None, pointer, diag))

    try:
        handle = Handle(open_file)
    except OSError:
        source.raise_failure()
        raise
    handle.keep(source)
    source.opened()
    return source, handle


# ---- names ----


def _split(place: str) -> tuple[str, str, str]:
    """What stands before the part of a URL that has the folders, this part, and what stands behind it."""
    pieces = place.split("::")
    at = next((index for index, piece in enumerate(pieces) if is_url(piece)), 0)
    path, question, query = pieces[at].partition("?")
    if not question or protocol_of(path) not in ("http", "https"):
        path, question, query = pieces[at], "", ""
    before = "::".join(pieces[:at]) + ("::" if at else "")
    after = "".join("::" + piece for piece in pieces[at + 1:])
    return before, path, question + query + after


def parent_of(place: str) -> str:
    """The folder of a file, or of a folder."""
    before, path, after = _split(place)
    folder, slash, _ = path.rstrip("/").rpartition("/")
    return before + (folder if slash and not folder.endswith("/") else path) + after


def name_of(place: str) -> str:
    """The last part of a URL's path."""
    return _split(place)[1].rstrip("/").rpartition("/")[2]


def join(folder: str, name: str) -> str:
    """A file in a folder, which is a URL or a path of this machine."""
    if not is_url(folder):
        return os.path.join(folder, name)
    before, path, after = _split(folder)
    shown = quote(name) if protocol_of(path) in ("http", "https") else name
    return "%s%s/%s%s" % (before, path.rstrip("/"), shown, after)


def to_places(paths: Sequence[Any]) -> tuple[str, ...]:
    """Paths and URLs of a caller. Those of this machine are made absolute."""
    return tuple(path if isinstance(path, str) and is_url(path) else os.path.abspath(os.fsdecode(encode_path(path)))
                 for path in paths)
