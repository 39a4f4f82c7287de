"""What is in a store of models at a URL: names, files, and what archives say of their bases."""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO, Iterable, Iterator, Mapping, NamedTuple

from .. import _abi
from .._errors import DataError, LMCError, UnsupportedError, loads_untrusted
from .._files.options import encode_path
from .._runs.kept import COPIED_NAME, SUFFIX, archives_of
from .._runs.local_store import RUN_LIST, STORE_MARK, StoredModel, is_step
from .._system import is_plain_name
from .chain import ChainFile, Search
from .source import Ranges, Requests, Settings, Source
from .stores import hide_secrets, is_http, list_files

INDEX_NAME = "index.sqlite"
MARK_NBYTES_MAX, TEXT_NBYTES_MAX = 4096, 64 << 20  # of store.json; of other JSON and of lists of copies
_WINDOW_NBYTES, _WINDOW_COUNT = 16 << 20, 4  # of a file that is copied: bytes of a request, requests at once
_INDEX_STEPS_MAX = 20_000  # of 10,000 instructions of SQLite each


class Head(NamedTuple):
    """What the header of an archive says. bases: the path in the store of each base file, and whether the tensors that
    need it equal theirs."""

    nbytes: int
    stored_nbytes: int
    bases: list[tuple[str, bool]]


class Listing(NamedTuple):
    """The files of each model, by their paths in its folder, with their sizes; those of a store on an HTTP server are
    its archives without sizes (-1), those of a run there are none."""

    models: dict[str, dict[str, int]]
    is_complete: bool


class Contents:
    """A store at a URL. Nothing is read before a method asks for it. Raises OSError, DataError, UnsupportedError."""

    def __init__(self, url: str, settings: Settings) -> None:
        self.settings, self.requests = settings, Requests(settings)
        self.root = settings.locate(url)
        if self.root.path.endswith("/"):
            self.root = self.root.at(self.root.path.rstrip("/"))
        self.shown = hide_secrets(self.root.shown)
        self.is_http = is_http(self.root.path)
        self._is_run: bool | None = None
        self._listed: tuple[tuple[int, str | None], Listing] | None = None  # by an index of this size and version

    # ---- files ----

    def source(self, path: str) -> Source:
        """A file by its path in the store. Raises FileNotFoundError."""
        return Source(self.root.join(path), self.settings, self.requests)

    def text(self, path: str, nbytes_max: int = TEXT_NBYTES_MAX) -> bytes:
        """All of a small file."""
        source = self.source(path)
        if source.nbytes > nbytes_max:
            raise DataError("%s: has %d bytes, more than are read of it" % (source.url, source.nbytes))
        return source.content()

    def has(self, path: str) -> bool:
        try:
            self.source(path)
        except (FileNotFoundError, PermissionError, IsADirectoryError):
            return False
        return True

    def folder_of(self, name: str) -> str:
        """The folder of a model, as a path in the store."""
        return name if self.is_run() else name + SUFFIX

    def path_in(self, name: str, file: str) -> str:
        """A file in the folder of a model, as a path in the store."""
        return "%s/%s" % (self.folder_of(name), file)

    def shown_folder(self, name: str) -> str:
        """The URL of that folder."""
        return self.root.join(self.folder_of(name)).shown

    def model_of(self, path: str) -> str | None:
        """The model that has the file of this path, or None."""
        return model_of(path, self.is_run())

    def is_run(self) -> bool:
        """Reads what makes a folder a store. Raises FileNotFoundError, DataError, UnsupportedError."""
        if self._is_run is None:
            try:
                mark = loads_untrusted(self.text(STORE_MARK, MARK_NBYTES_MAX), self._shown(STORE_MARK))
            except (FileNotFoundError, PermissionError) as error:  # S3 forbids what is not there, if listing is
                if not self.has(RUN_LIST):
                    raise error from None
                self._is_run = True
                return True
            if not isinstance(mark, dict) or mark.get("format") != "lmc-store" or \
                    not isinstance(mark.get("version"), int) or mark["version"] < 1:
                raise DataError("%s: is not what marks a store" % self._shown(STORE_MARK))
            if mark["version"] > 1:
                raise UnsupportedError("%s: this store has version %d; this package knows version 1"
                                       % (self._shown(STORE_MARK), mark["version"]))
            self._is_run = False
        return self._is_run

    def copied(self, name: str) -> set[str] | None:
        """The copies of a model that are named like archives; None of a single file."""
        try:
            text = self.text(self.path_in(name, COPIED_NAME))
        except (FileNotFoundError, PermissionError):  # S3 forbids what is not there, if listing is
            return None
        return set(text.decode("utf-8", "surrogateescape").split("\n"))

    # ---- lists ----

    def listing(self, name: str | None = None) -> Listing:
        """All models, or at least this one if it is there: then an object store is asked for its folder alone."""
        if self.is_run() and (name is None or self.is_http):
            return self._of_run()
        if self.is_http:
            return self._of_index()
        where = self.root if name is None else self.root.join(self.folder_of(name))
        start = "" if name is None else self.folder_of(name) + "/"
        found = self.requests.run(list_files(where), self.shown)
        return self._sorted_out({start + path: nbytes for path, nbytes in found.items()}, True)

    def steps(self) -> dict[str, dict[str, Any]]:
        """The entries of run.json by their steps, rising."""
        value = loads_untrusted(self.text(RUN_LIST), self._shown(RUN_LIST))
        try:
            if value["format"] != "lmc-run" or not isinstance(value["version"], int):
                raise DataError("%s: is not the list of a run" % self._shown(RUN_LIST))
            if value["version"] > 1:
                raise UnsupportedError("%s: this run has version %d; this package knows version 1"
                                       % (self._shown(RUN_LIST), value["version"]))
            entries = {entry["step"]: entry for entry in value["steps"]}
            if not all(type(step) is int for step in entries):
                raise TypeError("a step is not an integer")
        except (LookupError, TypeError, ValueError) as error:
            raise DataError("%s: is not the list of a run: %s" % (self._shown(RUN_LIST), error)) from None
        return {str(step): entries[step] for step in sorted(entries) if step >= 0}

    def _of_run(self) -> Listing:
        steps = self.steps()
        if self.is_http:
            return Listing({name: {} for name in steps}, False)
        found = self.requests.run(list_files(self.root), self.shown)
        models = self._sorted_out(found, True).models
        return Listing({name: models[name] for name in sorted(models, key=int) if name in steps}, True)

    def _of_index(self) -> Listing:
        """The archives that the index tells of. It is trusted for nothing but their names."""
        try:
            source = self.source(INDEX_NAME)
        except FileNotFoundError:
            raise FileNotFoundError(2, "an HTTP server lists no files, and there is no index: lmc-st store repair "
                                    "makes it", self._shown(INDEX_NAME)) from None
        version = (source.nbytes, source.version)
        if self._listed is None or self._listed[0] != version or source.version is None:
            with tempfile.TemporaryDirectory(prefix="lmcodec-") as folder:
                path = os.path.join(folder, INDEX_NAME)
                with open(path, "wb") as file:
                    copy_to(source, file)
                paths = _paths_of_index(path, source.url)
            self._listed = version, self._sorted_out(dict.fromkeys(paths, -1), False)
        return self._listed[1]

    def _sorted_out(self, files: Mapping[str, int], is_complete: bool) -> Listing:
        models: dict[str, dict[str, int]] = {}
        for path, nbytes in files.items():
            name = self.model_of(path) if is_safe(path) else None
            if name is not None:
                models.setdefault(name, {})[path[len(self.folder_of(name)) + 1:]] = nbytes
        order = sorted(models, key=int if self.is_run() else os.fsencode)
        return Listing({name: models[name] for name in order}, is_complete)

    def _shown(self, path: str) -> str:
        return hide_secrets(self.root.join(path).shown)

    # ---- what archives say ----

    def head(self, path: str) -> Head:
        """Opens an archive. Raises OSError, DataError, UnsupportedError, LimitError."""
        file = ChainFile(self.root.join(path), Search(None, (), self.settings, self.requests))
        handle = file.handle
        bases = []
        for number in range(handle.base_count()):
            base = handle.base_info(number)
            recorded = base.path.decode()
            inner = recorded if "/" in recorded else "%s/%s" % (os.path.dirname(path), recorded)
            bases.append((inner, bool(base.is_equal)))
        return Head(int(_abi.st_original_nbytes(handle.pointer)), int(_abi.st_stored_nbytes(handle.pointer)), bases)

    def described(self, names: Iterable[str] | None = None) -> list[StoredModel]:
        """All models, or those of these names: the header of each archive is read, and those of their bases. Only the
        list of a run is."""
        if self.is_run():
            return _steps_described(self.steps(), names)
        listing = self.listing()
        descriptions = _Descriptions(self, listing)
        return descriptions.of([name for name in listing.models if names is None or name in names])


class _Described(NamedTuple):
    """What the files of a model say. needed, equal: models that it needs, and those for equal tensors only."""

    is_directory: bool
    needed: set[str]
    equal: set[str]
    has_unknown_base: bool
    files: int
    nbytes: int
    stored_nbytes: int


class _Descriptions:
    """Descriptions of models, each made once. Archives are opened several at a time."""

    def __init__(self, contents: Contents, listing: Listing) -> None:
        self._contents, self._listing = contents, listing
        self._made: dict[str, _Described] = {}
        self._depths: dict[str, int | None] = {}

    def of(self, names: list[str]) -> list[StoredModel]:
        wanted = names
        with ThreadPoolExecutor(self._contents.settings.requests) as pool:
            while wanted:
                self._made.update(zip(wanted, pool.map(self._describe, wanted)))
                bases = {base for name in wanted for base in self._made[name].needed}
                wanted = [name for name in bases if name not in self._made]
        return [self._model(name) for name in names]

    def _describe(self, name: str) -> _Described:
        with self._contents.requests.call():
            return self._read(name)

    def _read(self, name: str) -> _Described:
        files = self._listing.models[name]
        copied = self._contents.copied(name) if not self._listing.is_complete or COPIED_NAME in files else None
        archives = archives_of(list(files), copied or set())
        needed: set[str] = set()
        equal: set[str] = set()
        is_sound = True
        nbytes = stored_nbytes = 0
        for archive in archives:
            try:
                head = self._contents.head(self._contents.path_in(name, archive + SUFFIX))
            except (LMCError, FileNotFoundError):
                is_sound = False
                continue
            nbytes, stored_nbytes = nbytes + head.nbytes, stored_nbytes + head.stored_nbytes
            for path, is_equal in head.bases:
                base = self._model_with(path)
                is_sound = is_sound and base is not None
                if base is not None and base != name:
                    (equal if is_equal else needed).add(base)
        copies = [size for path, size in files.items()
                  if path != COPIED_NAME and not (path.endswith(SUFFIX) and path[:-len(SUFFIX)] in archives)]
        return _Described(copied is not None, needed, equal - needed, not is_sound, len(archives) + len(copies),
                          nbytes + sum(copies), stored_nbytes + sum(copies))

    def _model_with(self, path: str) -> str | None:
        """The model that has a base file, or None."""
        name = self._contents.model_of(path)
        if name not in self._listing.models:
            return None
        inner = path[len(self._contents.folder_of(name)) + 1:]
        return name if {inner, inner + SUFFIX} & self._listing.models[name].keys() else None

    def _model(self, name: str) -> StoredModel:
        made = self._made[name]
        bases = tuple(sorted(made.needed | made.equal, key=os.fsencode))
        return StoredModel(name, made.is_directory, bases, made.has_unknown_base, self._depth(name, 1), made.files,
                           made.nbytes, made.stored_nbytes, None)

    def _depth(self, name: str, level: int) -> int | None:
        if name not in self._depths:
            made = self._made[name]
            self._depths[name] = None  # also of models that need each other
            if not made.has_unknown_base and level <= _abi.STORE_DEPTH_MAX + 1:
                below = [self._depth(base, level + 1) for base in made.needed]
                self._depths[name] = None if None in below else 1 + max((depth or 0 for depth in below), default=0)
        return self._depths[name]


def _steps_described(steps: Mapping[str, Mapping[str, Any]], names: Iterable[str] | None) -> list[StoredModel]:
    def depth_of(name: str) -> int | None:
        count = 1
        while steps[name]["base"] is not None:
            base = str(steps[name]["base"])
            if base not in steps or int(base) >= int(name):
                return None
            name, count = base, count + 1
        return count

    wanted = [name for name in steps if names is None or name in names]
    try:
        found = []
        for name in wanted:
            step, base = steps[name], steps[name]["base"]
            bases = () if base is None or str(base) not in steps else (str(base),)
            found.append(StoredModel(name, step["snapshot"] == "directory", bases, base is not None and not bases,
                                     depth_of(name), int(step["files"]), int(step["nbytes"]),
                                     int(step["stored_nbytes"]), int(step["time"])))
        return found
    except (LookupError, TypeError, ValueError) as error:
        raise DataError("%s: is not the list of a run: %s" % (RUN_LIST, error)) from None


# ---- names and paths ----

def is_name(name: str) -> bool:
    """Whether a model can have the name."""
    try:
        return bool(_abi.store_name_is_valid(encode_path(name)))
    except ValueError:
        return False


def model_of(path: str, is_run: bool) -> str | None:
    """The model that has the file of this path in a store, or None."""
    folder, slash, _ = path.partition("/") if is_run else _first_folder(path)
    name = folder if is_run else folder[:-len(SUFFIX)]
    return name if slash and (is_step(name) if is_run else is_name(name)) else None


def is_safe(path: str) -> bool:
    """Whether a path of an untrusted list stays in its folder."""
    return all(map(is_plain_name, path.split("/")))


def _first_folder(path: str) -> tuple[str, str, str]:
    """A path at its first folder that ends in .lmc: what leads to it, "/", what follows. ("", "", "") without one."""
    parts = path.split("/")
    for number, part in enumerate(parts[:-1]):
        if part.endswith(SUFFIX) and part != SUFFIX:
            return "/".join(parts[:number + 1]), "/", "/".join(parts[number + 1:])
    return "", "", ""


# ---- files that are copied ----

def copy_to(source: Source, file: BinaryIO, progress: Any = None) -> None:
    """Writes all of a remote file. Several windows of it are under way at a time. progress(bytes of one)."""
    if source.has(source.nbytes):
        file.write(source.content())
        if progress is not None:
            progress(source.nbytes)
        return
    starts = iter(range(0, source.nbytes, _WINDOW_NBYTES))
    waiting: list[tuple[Ranges, Any]] = []
    try:
        while True:
            for first in starts:
                ranges = Ranges([(first, min(first + _WINDOW_NBYTES, source.nbytes))])
                waiting.append((ranges, source.fetch(ranges)))
                if len(waiting) == _WINDOW_COUNT:
                    break
            if not waiting:
                return
            ranges, future = waiting.pop(0)
            future.result()
            for extent in ranges.extents:
                file.write(extent.view(extent.begin, extent.end))
            if progress is not None:
                progress(ranges.nbytes)
    finally:
        for _, future in waiting:
            future.cancel()


def models_of_index(path: str, contents: Contents) -> set[str]:
    """The models that an untrusted index tells of. Raises DataError."""
    found = {contents.model_of(inner) for inner in _paths_of_index(path, contents.shown) if is_safe(inner)}
    return {name for name in found if name is not None}


def _paths_of_index(path: str, shown: str) -> list[str]:
    """Paths of archives in the table `file` of an untrusted SQLite file. Raises DataError."""
    import sqlite3  # some builds of Python do without

    steps = iter(range(_INDEX_STEPS_MAX))
    uri = pathlib.Path(path).absolute().as_uri() + "?mode=ro&immutable=1"
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as database:
            database.set_progress_handler(lambda: next(steps, None) is None, 10_000)
            for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
                database.execute("PRAGMA " + pragma)
            [(kind, first_page)] = database.execute("SELECT type, rootpage FROM sqlite_master WHERE name = 'file'")
            hidden = [column[6] for column in database.execute("PRAGMA table_xinfo(file)") if column[1] == "path"]
            if kind != "table" or not first_page or hidden != [0]:  # views and generated columns compute what they like
                raise DataError("%s: is not the index of a store" % shown)
            rows: Iterator[tuple[Any]] = database.execute("SELECT path FROM file")
            return [name for name, in rows if isinstance(name, str)]
    except (sqlite3.Error, ValueError, OverflowError) as error:
        raise DataError("%s: is not the index of a store: %s" % (shown, error)) from None
