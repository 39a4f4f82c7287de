"""What a file system of originals is made of: one archive, a converted directory, or the models of a store or a run."""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping, NamedTuple, Protocol
from urllib.parse import unquote

from .._errors import ArgumentError, DataError, LMCError, ModelNotFound, placed
from .._files.file import File
from .._files.options import Path, encode_path
from .._files.original import Original
from .._remote.remote_file import RemoteFile
from .._remote.remote_store import Directory, RemoteStore
from .._remote.source import make_settings
from .._remote.stores import hide_secrets, is_http
from .._runs.kept import COPIED_NAME, SUFFIX, Entry, Folder
from .._runs.local_store import RUN_LIST, STORE_MARK, Store


class Options(NamedTuple):
    """How archives are opened. storage_options: of a URL, for its file system. base: of a single archive. reading: the
    options of lmcodec.remote.File for requests."""

    storage_options: Mapping[str, Any]
    base: Path | None
    base_dirs: tuple[Path, ...]
    reading: Mapping[str, Any]

    def open_file(self, path: str) -> File:
        """The file at a path or a URL, open."""
        if not is_url(path):
            return File(path, base=self.base, base_dirs=self.base_dirs)
        return RemoteFile(path, storage_options=self.storage_options, base=self.base, base_dirs=self.base_dirs,
                          **self.reading)


Opened = Callable[[Entry], Original]


class Source(Protocol):
    """Originals by their paths, which have no `/` at their ends. Folders are the parts of these before a `/`."""

    def find(self, path: str) -> Entry | None:
        """The file of this path, or None."""

    def children(self, path: str) -> dict[str, Entry | None]:
        """What is in a folder, by names; None for folders. Empty if there is no such folder."""


class OneFile:
    """An archive. Its original has its name without `.lmc`, and stands for the root of the file system, too."""

    def __init__(self, entry: Entry, name: str) -> None:
        self._entry, self._name = entry, name[:-len(SUFFIX)] if name.endswith(SUFFIX) else name

    def find(self, path: str) -> Entry | None:
        return self._entry if path in ("", self._name) else None

    def children(self, path: str) -> dict[str, Entry | None]:
        return {self._name: self._entry} if path == "" else {}


class OneFolder:
    """A converted directory, or the files of a model."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def find(self, path: str) -> Entry | None:
        if path in ("", COPIED_NAME):
            return None
        try:
            place = self._folder.find(path)
        except FileNotFoundError:
            return None
        is_archive = place == self._folder.archive(path)
        try:
            nbytes = self._folder.nbytes_of(path + SUFFIX if is_archive else path)
        except LookupError:  # an HTTP server lists nothing
            nbytes = -1
        return Entry(place, is_archive, nbytes)

    def children(self, path: str) -> dict[str, Entry | None]:
        found: dict[str, Entry | None] = {}
        start = path + "/" if path else ""
        for inner, entry in self._folder.entries().items():
            if inner.startswith(start):
                name, slash, _ = inner[len(start):].partition("/")
                found[name] = None if slash else entry
        return found


class Models:
    """A store or a run: each model, or step, is a folder of its name. is_kept: lists are kept, not asked for again."""

    def __init__(self, store: Store, is_kept: bool) -> None:
        self._store, self._is_kept = store, is_kept
        self._names: list[str] | None = None
        self._folders: dict[str, OneFolder | None] = {}

    def find(self, path: str) -> Entry | None:
        parts = path.split("/")
        for count in range(len(parts) - 1, 0, -1):
            folder = self._folder("/".join(parts[:count]))
            found = None if folder is None else folder.find("/".join(parts[count:]))
            if found is not None:
                return found
        return None

    def children(self, path: str) -> dict[str, Entry | None]:
        start = path + "/" if path else ""
        found: dict[str, Entry | None] = {name[len(start):].partition("/")[0]: None
                                          for name in self._list() if name.startswith(start)}
        parts = path.split("/")
        for count in range(1, len(parts) + 1 if path else 0):  # a model's name may begin with that of another one
            folder = self._folder("/".join(parts[:count]))
            if folder is not None:
                found.update(folder.children("/".join(parts[count:])))
        return found

    def _list(self) -> list[str]:
        if self._names is None or not self._is_kept:
            self._names = self._store.names()
        return self._names

    def _folder(self, name: str) -> OneFolder | None:
        if name not in self._folders or not self._is_kept:
            try:
                self._folders[name] = OneFolder(self._store._folder(name))
            except ModelNotFound:
                self._folders[name] = None
        return self._folders[name]


# ---- what there is ----

def source_of(place: str, options: Options, opened: Opened) -> Source:
    """The source at a path or a URL. opened: gives the original of an archive, open.

    Raises FileNotFoundError, other OSError, DataError (a file that is not an archive), UnsupportedError, ImportError.
    """
    if is_url(place):
        return _remote_source(place, options, opened)
    encode_path(place)
    if os.path.isdir(place):
        if any(os.path.isfile(os.path.join(place, name)) for name in (STORE_MARK, RUN_LIST)):
            return Models(Store(place), False)
        return OneFolder(Folder(place, place))
    return _one_file(place, os.path.basename(place), os.stat(place).st_size, opened)


def _remote_source(url: str, options: Options, opened: Opened) -> Source:
    settings = make_settings(url, options.storage_options, **options.reading)
    location = settings.locate(url)
    is_folder = url.endswith("/")
    if not is_http(location.path):
        is_folder = location.system.info(location.path)["type"] == "directory"
    if not is_folder:
        try:
            name = location.name()
            return _one_file(url, unquote(name) if is_http(location.path) else name, -1, opened)
        except FileNotFoundError:
            if not is_http(location.path):
                raise
    store = RemoteStore.__new__(RemoteStore)
    store._start(url, settings)
    try:
        store._contents.is_run()
        return Models(store, True)
    except (FileNotFoundError, PermissionError):
        return OneFolder(Directory(url, settings).folder())


def _one_file(place: str, name: str, nbytes: int, opened: Opened) -> OneFile:
    entry = Entry(place, True, nbytes)
    file = opened(entry).file
    if not file.is_archive:
        shown = hide_secrets(place)
        raise placed(DataError("%s: is a plain %s file, not an LMC archive" % (shown, file.container)), shown)
    return OneFile(entry, name)


# ---- chains of URLs ----

_LOCAL = ("file", "local")  # protocols of this machine's files


def place_of(target: str, protocol: str | None, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A path of this machine or a URL, and its storage options, of what fsspec makes of a chained URL."""
    if not target:
        raise ArgumentError("lmc: an archive, a directory, a run or a store must be named behind `::`, as in "
                            "lmc::model.safetensors.lmc or lmc://model.safetensors::s3://bucket/model.lmc")
    if protocol is None and is_url(target) and ("::" in target or target.partition("://")[0] not in _LOCAL):
        return target, dict(options)
    [(place, own), *below] = _links(target, protocol or "file", options)
    return place, {**own, **dict(below)}


def _links(target: str, protocol: str, options: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The place, with its own options; and for each protocol below, its options."""
    own = dict(options)
    if protocol in _LOCAL:
        import fsspec

        return [(str(fsspec.get_filesystem_class("file")._strip_protocol(target)), {})]
    url = target if is_url(target) else "%s://%s" % (protocol, target)
    inner_protocol = own.pop("target_protocol", None)
    if inner_protocol is None:
        return [(url, own)]
    inner = own.pop("fo", "")
    [(place, inner_own), *below] = _links(inner, inner_protocol, own.pop("target_options", None) or {})
    place = place if is_url(place) else "file://" + place
    chained = "%s::%s" % (protocol if inner == target else url, place)  # a cache has the paths of what it caches
    return [(chained, own), (inner_protocol, inner_own), *below]


def is_url(place: str) -> bool:
    """Whether it is a URL, and no path of this machine."""
    return "://" in place


def has_folder(source: Source, path: str) -> bool:
    """Whether there is a folder, as far as the source tells what it has."""
    try:
        return path == "" or bool(source.children(path))
    except ArgumentError:  # an HTTP server lists nothing
        return False


def is_damage(error: Exception) -> bool:
    """Whether a file cannot be read for what it is; others can."""
    return isinstance(error, (LMCError, FileNotFoundError, PermissionError))
