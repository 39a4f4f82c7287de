"""Copies of a store of models in an object store: what it lacks is put there."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Iterator, Mapping, Sequence

from .._errors import ArgumentError, DataError, loads_untrusted
from .._files.progress import ProgressCall
from .._runs.kept import COPIED_NAME, SUFFIX
from .._runs.local_store import RUN_LIST, STORE_MARK, Pushed, StoredModel
from .._system import slashed
from .left import Left
from .source import writing_settings
from .store_list import INDEX_NAME, Contents, model_of
from .stores import list_files

_LIST_NAME = ".lmc-pushed.json"  # files that were put, by their paths: what os.stat() said of them
_SMALL_NBYTES = 32 << 20  # files up to this size are put several at a time
_SAVE_EVERY_NBYTES = 1 << 30  # of files that were put, after which the list is saved

_Stats = Sequence[int]  # size, st_mtime_ns, st_ctime_ns; the size is -1 until a put has ended


def push(root: str, models: Sequence[StoredModel], is_run: bool, url: str, storage_options: Mapping[str, Any] | None,
         delete: bool, dry_run: bool, progress: ProgressCall | None) -> Pushed:
    """Store.push()."""
    contents = Contents(url, writing_settings(url, storage_options))
    if contents.is_http:
        raise ArgumentError("%s: nothing can be put on an HTTP server" % contents.shown)
    names = {model.name for model in models}
    return _Push(root, contents, names, is_run, dry_run, progress).run([*_files_of(root, models, is_run)], delete)


class _Push:
    def __init__(self, root: str, contents: Contents, names: set[str], is_run: bool, dry_run: bool,
                 progress: ProgressCall | None) -> None:
        self._root, self._contents, self._names, self._is_run = root, contents, names, is_run
        self._dry_run, self._progress = dry_run, progress
        self._system = contents.root.system
        self._pushed: dict[str, _Stats] = {}
        self._run_list: bytes | None = None  # instead of the local one
        self._done = self._unsaved = 0

    def run(self, groups: list[list[str]], delete: bool) -> Pushed:
        """groups: files that may be put at the same time, after those of the groups before."""
        there = self._contents.requests.run(list_files(self._contents.root), self._contents.shown)
        self._read_pushed(there)
        check_target(self._contents, there, self._is_run)
        left = Left(self._contents, {} if delete else there, self._names, self._is_run)
        stats = {path: _stats_of(os.path.join(self._root, path)) for group in groups for path in group}
        if left.steps:
            self._run_list = left.run_list(self._root)
            stats[RUN_LIST] = [len(self._run_list), *stats[RUN_LIST][1:]]
        wanted = [[path for path in group if there.get(path) != stats[path][0]
                   or list(self._pushed.get(path, ())) != list(stats[path])] for group in groups]
        put = tuple(path for group in wanted for path in group)
        extra = tuple(sorted(path for path in there.keys() - stats.keys() if self._is_extra(path, delete)))
        replaced = {path for path in (*put, *extra) if path in there and path.endswith(SUFFIX)}
        left.check(self._root, replaced, self._with_same_time(stats))
        total = sum(stats[path][0] for path in put)
        if not self._dry_run:
            if put or extra:
                self._put_all([group for group in wanted if group], stats, total)
            for path in extra:
                self._system.rm_file(self._place(path))
        return Pushed(put, total, extra, len(stats) - len(put))

    def _is_extra(self, path: str, delete: bool) -> bool:
        """Whether a file that is not here must go: one that stayed in a model would become part of it."""
        name = model_of(path, self._is_run)
        return name in self._names or delete and (path == INDEX_NAME or name is not None)

    def _with_same_time(self, stats: Mapping[str, _Stats]) -> set[str]:
        """Files whose modification times are those of the files that were put last."""
        return {path for path, found in stats.items() if list(self._pushed.get(path, ())[1:2]) == list(found[1:2])}

    def _read_pushed(self, there: Mapping[str, int]) -> None:
        """What earlier pushes have put."""
        if _LIST_NAME in there:
            name = "%s/%s" % (self._contents.shown, _LIST_NAME)
            value = loads_untrusted(self._contents.text(_LIST_NAME), name)
            if not isinstance(value, dict):
                raise DataError("%s: is not the list of what was put" % name)
            self._pushed = {path: stats for path, stats in value.items() if isinstance(stats, list)}

    def _put_all(self, groups: list[list[str]], stats: Mapping[str, _Stats], total: int) -> None:
        def put(path: str) -> str:
            if path == RUN_LIST and self._run_list is not None:
                self._system.pipe_file(self._place(path), self._run_list)
            else:
                self._system.put_file(os.path.join(self._root, path), self._place(path))
            return path

        def note(path: str) -> None:
            self._pushed[path] = stats[path]
            self._done, self._unsaved = self._done + stats[path][0], self._unsaved + stats[path][0]
            if self._progress is not None:
                self._progress(self._done, total)
            if self._unsaved >= _SAVE_EVERY_NBYTES:
                self._save()

        for path in {path for group in groups for path in group if path in self._pushed}:
            self._pushed[path] = [-1, *self._pushed[path][1:]]  # the old content may go at any time
        self._save()
        try:
            with ThreadPoolExecutor(self._contents.settings.requests) as pool:
                for group in groups:
                    for path in pool.map(put, [path for path in group if stats[path][0] <= _SMALL_NBYTES]):
                        note(path)
                    for path in group:
                        if stats[path][0] > _SMALL_NBYTES:
                            note(put(path))
        finally:
            self._save()

    def _save(self) -> None:
        self._system.pipe_file(self._place(_LIST_NAME), json.dumps(self._pushed).encode())
        self._unsaved = 0

    def _place(self, path: str) -> str:
        return self._contents.root.join(path).path


def check_target(contents: Contents, there: Mapping[str, int], is_run: bool) -> None:
    """Refuses to write a store, or a run, to what is something else. there: the files at the URL. Raises
    ArgumentError."""
    own, other = (RUN_LIST, STORE_MARK) if is_run else (STORE_MARK, RUN_LIST)
    if there and own not in there and _LIST_NAME not in there:
        raise ArgumentError("%s: is neither empty nor a store" % contents.shown)
    if other in there:
        kinds = ("store", "run") if is_run else ("run", "store")
        raise ArgumentError("%s: is a %s, and this is a %s" % (contents.shown, *kinds))


def folder_groups(root: str, folder: str) -> list[list[str]]:
    """The files of a model, by their paths in the store `root`, in the groups in which they may be put: the last one
    says that a directory is complete."""
    files = sorted(slashed(os.path.relpath(os.path.join(place, file), root))
                   for place, _, files in os.walk(os.path.join(root, folder)) for file in files)
    last = "%s/%s" % (folder, COPIED_NAME)
    return [[file for file in files if file != last], [file for file in files if file == last]]


def _files_of(root: str, models: Sequence[StoredModel], is_run: bool) -> Iterator[list[str]]:
    """The files of a store in groups: its mark, those of models behind those of their bases, its lists."""
    by_name = {model.name: model for model in models}
    yield [] if is_run else [STORE_MARK]
    for name in _bases_first(by_name):
        folder = name if is_run else name + SUFFIX
        yield from folder_groups(root, folder)
    yield [name for name in (RUN_LIST if is_run else INDEX_NAME,) if os.path.exists(os.path.join(root, name))]


def _bases_first(models: Mapping[str, StoredModel]) -> list[str]:
    """Names of models, each behind its bases."""
    order: dict[str, None] = {}
    waiting = [(name, False) for name in reversed(list(models))]
    begun: set[str] = set()
    while waiting:
        name, has_bases = waiting.pop()
        if has_bases or name in begun:
            if has_bases:
                order[name] = None
            continue
        begun.add(name)
        waiting.append((name, True))
        waiting += [(base, False) for base in models[name].bases if base in models]
    return list(order)


def _stats_of(path: str) -> _Stats:
    found = os.stat(path)
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns]
