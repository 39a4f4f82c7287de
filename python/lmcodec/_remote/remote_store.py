"""Stores of models at URLs: they are listed, their tensors are read, their models restored."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from typing import Any, Iterator, Mapping, NoReturn

from .._errors import ArgumentError, DataError, loads_untrusted
from .._files.convert import FileDone, Result
from .._files.file import File
from .._files.options import Path, Progress
from .._files.progress import call_of
from .._runs.kept import SUFFIX, COPIED_NAME, Folder, archives_of
from .._runs.local_store import Name, Store, StoredModel, name_of
from .remote_file import RemoteFile
from .source import Settings, make_settings
from .stage import Stage
from .store_list import Contents, is_name, is_safe
from .stores import hide_secrets, list_files


class RemoteStore(Store):
    """A store of models, or a run, at a URL: "s3://bucket/store", "gs://...", "https://...". It is only read.

    It has the methods of lmcodec.Store. Those that change a store, verify() and push() raise ArgumentError. `time` of a
    model of a store is None. storage_options, requests, retries, timeout, lowest_rate, time_limit: as for File.

    Object stores are listed. An HTTP server cannot be: there the models and their archives are those of index.sqlite,
    which is fetched, and other files of a model are found by their names alone. Such a model is restored only if it is
    a single file.

    Methods raise ImportError (fsspec, or its package for this kind of URL), FileNotFoundError (no store),
    ModelNotFound, DataError, UnsupportedError, LimitError, PermissionError, TimeoutError, other OSError.
    """

    def __new__(cls, *_: Any, **__: Any) -> RemoteStore:
        return object.__new__(cls)

    def __init__(self, path: Path, *, storage_options: Mapping[str, Any] | None = None, requests: int = 8,
                 retries: int = 4, timeout: float = 60.0, lowest_rate: float = 1024.0,
                 time_limit: float | None = None) -> None:
        self._start(str(path), make_settings(str(path), storage_options, requests, retries, timeout, lowest_rate,
                                             time_limit))

    def _start(self, url: str, settings: Settings) -> None:
        self._url, self._settings = url, settings
        self._contents = Contents(url, settings)

    def __reduce__(self) -> tuple[Any, ...]:
        return _open_again, (self._url, self._settings)

    def _shown(self) -> str:
        return self._contents.shown

    # ---- what is there ----

    def models(self) -> list[StoredModel]:
        """The models. The header of each archive is read, with a request or two; names() is cheaper."""
        with self._contents.requests.call():
            return self._contents.described()

    def names(self) -> list[str]:
        """The names of the models, from a list: no archive is read."""
        with self._contents.requests.call():
            return list(self._contents.listing().models)

    def __getitem__(self, name: Name) -> StoredModel:
        with self._contents.requests.call():
            found = self._contents.described([name_of(name)])
        if not found:
            raise self._no_model(name_of(name))
        return found[0]

    # ---- contents ----

    def restore(self, name: Name, out: Path, *, force: bool = False, fsync: bool = True, threads: int | None = None,
                progress: Progress | None = None, file_done: FileDone | None = None) -> Result:
        """Writes a model to the path `out`: a file if it was one, else a directory.

        Its archives, and those that they are based on, are fetched to a new directory beside `out` first. progress
        gets the bytes of these first, and then those of the model. Raises as restore() of a local store does, and
        ArgumentError (a directory on an HTTP server).
        """
        if not force and os.path.lexists(os.fsencode(out)):
            raise FileExistsError(17, "is there already", os.fsdecode(out))
        call = call_of(progress)
        beside = os.path.dirname(os.path.abspath(os.fsdecode(out)))
        with tempfile.TemporaryDirectory(prefix=".lmcodec-", dir=beside) as folder:
            Stage(self._contents, folder, call).fetch(name_of(name), self._folder(name).known)
            return Store(folder).restore(name_of(name), out, force=force, fsync=fsync, threads=threads, progress=call,
                                         file_done=file_done)

    # ---- what a URL does not take ----

    def add(self, *_: Any, **__: Any) -> NoReturn:
        """Raises ArgumentError: a store at a URL is only read."""
        self._refuse()

    def drop(self, *_: Any, **__: Any) -> NoReturn:
        """Raises ArgumentError: a store at a URL is only read."""
        self._refuse()

    def plan(self, *_: Any, **__: Any) -> NoReturn:
        """Raises ArgumentError: a store at a URL is only read."""
        self._refuse()

    def repair(self) -> NoReturn:
        """Raises ArgumentError: a store at a URL is only read."""
        self._refuse()

    def verify(self, *_: Any, **__: Any) -> NoReturn:
        """Raises ArgumentError: a store at a URL is only read."""
        self._refuse()

    def push(self, *_: Any, **__: Any) -> NoReturn:
        """Raises ArgumentError: a store at a URL is only read."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ArgumentError("%s: this call takes a store on this machine; one at a URL is listed, read and restored"
                            % self._shown())

    # ---- inner ----

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        raise AssertionError("there is no local store")

    def _folder(self, name: Name) -> RemoteFolder:
        wanted = name_of(name)
        with self._contents.requests.call():
            files = self._contents.listing(wanted).models.get(wanted) if is_name(wanted) else None
        if files is None:
            raise self._no_model(wanted)
        return RemoteFolder(self._contents, wanted, files)


def _open_again(url: str, settings: Settings) -> RemoteStore:
    store = RemoteStore.__new__(RemoteStore)
    store._start(url, settings)
    return store


class RemoteFolder(Folder):
    """The folder of a model at a URL. files: what is known to be in it; of an HTTP server, its archives at most."""

    def __init__(self, contents: Contents, name: str, files: Mapping[str, int]) -> None:
        self._contents, self._name, self.known = contents, name, files
        super().__init__(contents.shown_folder(name), "model %s" % name)

    def find(self, file: str) -> str:
        if is_safe(file):
            copied = self.copied()
            if file + SUFFIX not in copied and self._has(file + SUFFIX):
                return self.archive(file)
            if (file in copied or not file.endswith(SUFFIX)) and self._has(file):
                return self._join(file)
        raise self._missing(hide_secrets(self._join(file)))

    def archive(self, file: str) -> str:
        return self._join(file + SUFFIX)

    def inner(self) -> list[str]:
        if self._contents.is_http and not self.known:
            raise ArgumentError("%s: an HTTP server does not list files: a file must be named" % self._where())
        return list(self.known)

    def archives(self) -> list[str]:
        return archives_of(list(self.known), self.copied())

    def nbytes_of(self, path: str) -> int:
        return self.known[path]

    def copied(self) -> set[str]:
        if not self._contents.is_http and COPIED_NAME not in self.known:
            return set()
        with self._contents.requests.call():
            return self._contents.copied(self._name) or set()

    def open_file(self, path: str) -> File:
        settings = self._contents.settings
        return RemoteFile(path, storage_options=settings.storage_options, requests=settings.requests,
                          retries=settings.retries, timeout=settings.pace.timeout,
                          lowest_rate=settings.pace.lowest_rate, time_limit=settings.time_limit)

    def weights(self) -> list[str]:
        try:
            return [self.find("model.safetensors")]
        except FileNotFoundError:
            index = "model.safetensors.index.json"
            self.find(index)
        with self._contents.requests.call():
            value = loads_untrusted(self._contents.text(self._contents.path_in(self._name, index)), self._where())
        try:
            names = sorted({str(place) for place in value["weight_map"].values()})
        except (LookupError, TypeError, AttributeError):
            raise DataError("%s: %s has no weight_map" % (self._where(), index)) from None
        return [self.find(file) for file in names]

    def _has(self, file: str) -> bool:
        if not self._contents.is_http or file in self.known:
            return file in self.known
        with self._contents.requests.call():
            return self._contents.has(self._contents.path_in(self._name, file))

    def _join(self, file: str) -> str:
        return self._contents.root.join(self._contents.path_in(self._name, file)).shown

    def _where(self) -> str:
        return hide_secrets(self.path)

    def _several(self) -> ArgumentError:
        if self._contents.is_http and not self.known:
            return ArgumentError("%s: a file must be named: an HTTP server does not list them" % self._where())
        return super()._several()


class Directory(Contents):
    """A converted directory at a URL, which is all that there is: it counts as a model without a name."""

    def path_in(self, name: str, file: str) -> str:
        return file

    def shown_folder(self, name: str) -> str:
        return self.root.shown

    def folder(self) -> RemoteFolder:
        """All of it. Object stores list it; an HTTP server tells of a file when it is asked for it.

        Raises FileNotFoundError (it has no files), other OSError.
        """
        known: dict[str, int] = {}
        if not self.is_http:
            found = self.requests.run(list_files(self.root), self.shown)
            known = {path: nbytes for path, nbytes in found.items() if is_safe(path)}
            if not known:
                raise FileNotFoundError(2, os.strerror(2), self.shown)
        return RemoteFolder(self, "", known)
