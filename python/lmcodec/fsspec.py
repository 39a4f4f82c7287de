"""Originals of archives as files of fsspec: the protocol "lmc".

    fsspec.open("lmc::model.safetensors.lmc")                                # the original, as an open file
    fsspec.open("lmc://config.json::s3://bucket/model.lmc")                  # of a converted directory
    fsspec.filesystem("lmc", fo="s3://bucket/store").ls("org/model@1")       # of a store or a run

An installed lmcodec registers the protocol by its entry point. Elsewhere `import lmcodec.fsspec` does.
docs/python_frameworks.md has the options.
"""

from __future__ import annotations

import collections
import errno
import os
import shutil
import tempfile
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Mapping, NoReturn, Sequence

try:
    import fsspec
    from fsspec.callbacks import DEFAULT_CALLBACK
    from fsspec.spec import AbstractFileSystem
    from fsspec.utils import isfilelike, tokenize
except ImportError as error:
    raise ImportError("lmcodec.fsspec needs fsspec (pip install 'lmcodec[remote]'): %s" % error) from None

from ._files.options import Path
from ._files.original import Original
from ._fsspec.original_file import OriginalFile
from ._fsspec.sources import Options, Source, has_folder, is_damage, is_url, place_of, source_of
from ._remote.remote_file import RemoteFile
from ._runs.kept import Entry

__all__ = ["LMCFileSystem"]

_OPEN_FILES = 16  # that are kept open
_COPIED_NBYTES = 64 << 20  # that get_file() holds at a time


class _Kept(type(AbstractFileSystem)):  # type: ignore[misc]
    """fsspec keeps instances by their arguments. Relative paths among these depend on the current directory."""

    @property
    def current_directory(cls) -> str | None:
        try:
            return os.getcwd()
        except OSError:  # it was removed
            return None


class LMCFileSystem(AbstractFileSystem, metaclass=_Kept):  # type: ignore[misc]
    """The originals of an archive, a converted directory, a run or a store. They can only be read.

    fo: path or URL of the source. target_protocol, target_options: of its file system, as in all chained URLs.
    base: of a single archive. base_dirs: where bases are looked for, too. threads: that decode; None for one per core.
    requests, retries, timeout, lowest_rate, time_limit: for sources at URLs, as for lmcodec.remote.File.

    Paths are relative to the source. A single archive is one file, which the empty path names as well. In a
    store or a run, the first folder is the name of a model, or the number of a step. Files that were copied when a
    directory was converted are passed through. `size` of info() is that of the original, or None in a list if the
    archive is damaged; `stored_size` is that of the archive. What is at a URL is listed once, until invalidate_cache().

    Nothing is read before a method asks for it. Several threads may use it. A child process and a pickle find the
    source again. Methods raise FileNotFoundError, IsADirectoryError, OSError with EROFS (a call that writes), other
    OSError, DataError (damage), BaseError (no base), ArgumentError (an HTTP server lists no files).
    """

    protocol = "lmc"
    root_marker = ""
    _extra_tokenize_attributes = ("current_directory",)

    def __init__(self, fo: str | os.PathLike[str] = "", target_protocol: str | None = None,
                 target_options: Mapping[str, Any] | None = None, base: Path | None = None,
                 base_dirs: Sequence[Path] = (), threads: int | None = None, requests: int = 8, retries: int = 4,
                 timeout: float = 60.0, lowest_rate: float = 1024.0, time_limit: float | None = None,
                 **options: Any) -> None:
        super().__init__(**options)
        if isinstance(base_dirs, (str, bytes)):
            raise TypeError("a list of folders is wanted, not one")
        self._place, storage_options = place_of(os.fspath(fo), target_protocol, target_options or {})
        self._options = Options(storage_options, base, tuple(base_dirs), {
            "requests": requests, "retries": retries, "timeout": timeout, "lowest_rate": lowest_rate,
            "time_limit": time_limit})
        self._threads = threads
        self._start()

    def _start(self) -> None:
        self._found: Source | None = None
        self._originals: collections.OrderedDict[Any, Original] = collections.OrderedDict()
        self._facts: dict[Any, dict[str, Any]] = {}
        self._lock, self._owner = threading.RLock(), os.getpid()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        return super()._strip_protocol(path).strip("/")

    # ---- what is there ----

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Name, size, type and more of a file or a folder."""
        path = self._strip_protocol(path)
        entry = self._source().find(path)
        if entry is not None:
            return self._described(path, entry)
        if not has_folder(self._source(), path):
            raise _missing(path)
        return {"name": path, "size": 0, "type": "directory"}

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """What is in a folder, or the file itself."""
        path = self._strip_protocol(path)
        children = self._source().children(path)
        if not children and path:
            entry = self._source().find(path)
            if entry is None:
                raise _missing(path)
            return [self._described(path, entry)] if detail else [path]
        named = {"%s/%s" % (path, name) if path else name: child for name, child in sorted(children.items())}
        if not detail:
            return list(named)
        with ThreadPoolExecutor(self._options.reading["requests"] if is_url(self._place) else 1) as pool:
            return list(pool.map(self._listed, named, named.values()))

    def ukey(self, path: str) -> str:
        """A text that differs between contents of a file."""
        return str(tokenize(self._place, self.info(path)))

    def invalidate_cache(self, path: str | None = None) -> None:
        """Lists of a source at a URL are asked for again, and its files opened again."""
        with self._lock:
            self._start()
        super().invalidate_cache(path)

    def _listed(self, path: str, entry: Entry | None) -> dict[str, Any]:
        if entry is None:
            return {"name": path, "size": 0, "type": "directory"}
        try:
            return self._described(path, entry)
        except Exception as error:
            if not is_damage(error):
                raise
            return {"name": path, "size": None, "type": "file", "stored_size": entry.nbytes}

    def _described(self, path: str, entry: Entry) -> dict[str, Any]:
        found: dict[str, Any] = {"name": path, "type": "file"}
        if not is_url(entry.path):
            found["mtime"] = os.stat(entry.path).st_mtime
        if entry.is_archive:
            return {**found, **self._facts_of(entry)}
        nbytes = self._copied_nbytes(entry)
        return {**found, "size": nbytes, "stored_size": nbytes}

    def _copied_nbytes(self, entry: Entry) -> int:
        """Bytes of a copy, which an HTTP server tells when it is asked for the file."""
        if entry.nbytes >= 0:
            return entry.nbytes
        system, place = self._copy(entry)
        return int(system.size(place))

    def _facts_of(self, entry: Entry) -> dict[str, Any]:
        """What an archive tells when it is opened. version: a text that a store has for its content, or None."""
        key = _key_of(entry)
        if key not in self._facts:
            file = self._opened(entry).file
            facts: dict[str, Any] = {"size": file.nbytes, "stored_size": file.stored_nbytes}
            if isinstance(file, RemoteFile):
                facts["version"] = file.version
            self._facts[key] = facts
        return self._facts[key]

    # ---- contents ----

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, cache_type: str | None = None,
              cache_options: dict[str, Any] | None = None, **options: Any) -> Any:
        """cache_type: of fsspec; by default "readahead" for sources at URLs, else "none"."""
        if mode != "rb":
            self._refuse(path)
        entry = self._entry(path)
        if not entry.is_archive:
            system, place = self._copy(entry)
            copy = system.open(place, mode, block_size=block_size, cache_options=cache_options)
            held = weakref.finalize(copy, lambda system: None, system)  # that of a ZIP file closes it when it goes
            held.atexit = False
            return copy
        kind = cache_type or ("readahead" if is_url(entry.path) else "none")
        return OriginalFile(self, self._strip_protocol(path), self._opened(entry).again(), mode, block_size, kind,
                            cache_options)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """Bytes [start, end) of a file. Numbers below 0 count from its end."""
        entry = self._entry(path)
        original = self._opened(entry).again() if entry.is_archive else None
        nbytes = original.nbytes if original is not None else self._copied_nbytes(entry)
        begin, stop = slice(start, end).indices(nbytes)[:2]
        if original is not None:
            return original.read(begin, stop)
        system, place = self._copy(entry)
        return bytes(system.cat_file(place, start=begin, end=stop)) if begin < stop else b""

    def get_file(self, rpath: str, lpath: Any, callback: Any = DEFAULT_CALLBACK, **_: Any) -> None:
        """Copies a file to this machine. It appears whole or not at all; a folder is made.

        lpath: its path there, a folder for it, or an open file to write to. callback: of fsspec.
        """
        if isfilelike(lpath):
            self._copy_to(rpath, lpath, callback)
            return
        if self.isdir(rpath):
            os.makedirs(lpath, exist_ok=True)
            return
        place = os.path.abspath(lpath)  # get() puts a `/` behind it for the root
        if os.path.isdir(place):
            name = self._strip_protocol(rpath) or next(iter(self._source().children("")))
            place = os.path.join(place, os.path.basename(name))
        folder = os.path.dirname(place)
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".lmcodec-", dir=folder) as temporary:
            work = os.path.join(temporary, "file")
            with open(work, "xb") as file:
                self._copy_to(rpath, file, callback)
            os.replace(work, place)

    def _copy_to(self, path: str, file: Any, callback: Any) -> None:
        entry = self._entry(path)
        if not entry.is_archive:
            system, place = self._copy(entry)
            with system.open(place, "rb") as copy:
                shutil.copyfileobj(copy, file)
            return
        original = self._opened(entry).again()
        callback.set_size(original.nbytes)
        room = memoryview(bytearray(min(_COPIED_NBYTES, original.nbytes)))
        for begin in range(0, original.nbytes, _COPIED_NBYTES):
            part = room[:original.nbytes - begin]
            original.read_into(begin, part)
            file.write(part)
            callback.relative_update(part.nbytes)

    # ---- inner ----

    def _source(self) -> Source:
        if self._owner != os.getpid():  # a child: the lock may have been held, and files of stores are the parent's
            self._start()
        with self._lock:
            if self._found is None:
                self._found = source_of(self._place, self._options, self._opened)
            return self._found

    def _entry(self, path: str) -> Entry:
        path = self._strip_protocol(path)
        entry = self._source().find(path)
        if entry is None:
            if has_folder(self._source(), path):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            raise _missing(path)
        return entry

    def _opened(self, entry: Entry) -> Original:
        """The original of an archive, open. A few are kept: they are closed when nobody reads them any more."""
        key = _key_of(entry)
        with self._lock:
            if key in self._originals:
                self._originals.move_to_end(key)
                return self._originals[key]
        original = Original(self._options.open_file(entry.path), self._threads)
        with self._lock:
            self._originals[key] = original
            while len(self._originals) > _OPEN_FILES:
                self._originals.popitem(last=False)
        return original

    def _copy(self, entry: Entry) -> tuple[Any, str]:
        """Where a copy is: a file system, and the path in it."""
        if not is_url(entry.path):
            return fsspec.filesystem("file"), entry.path
        system, path = fsspec.core.url_to_fs(entry.path, **self._options.storage_options)
        return system, path

    # ---- what is refused ----

    def _refuse(self, path: Any = None, *_: Any, **__: Any) -> NoReturn:
        raise OSError(errno.EROFS, "the files of LMC archives can only be read", path)

    mkdir = makedirs = rmdir = rm = rm_file = _rm = cp_file = copy = mv = put = put_file = pipe = pipe_file = _refuse
    touch = _refuse


def _key_of(entry: Entry) -> Any:
    """A file of this machine is another one if it was replaced."""
    if is_url(entry.path):
        return entry.path
    stat = os.stat(entry.path)
    return entry.path, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


fsspec.register_implementation("lmc", LMCFileSystem, clobber=True)
