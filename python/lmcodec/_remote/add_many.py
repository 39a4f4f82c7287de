"""Many models are added to a store at a URL, by tasks that other machines may run.

A task makes the sketches of a model. The caller merges them into one index, from which other tasks predict what each
model would take on each other one. The caller decides on the bases. A task stores a model in a copy of the parts of the
store that it needs, and puts the new folder beside the others.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import shutil
import tempfile
import uuid
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from .. import _abi
from .._codec import level_of
from .._errors import ArgumentError, DataError, check_status, loads_untrusted
from .._files.options import CallOptions, Path, encode_path, path_array
from .._runs.kept import COPIED_NAME, SUFFIX
from .._runs.local_store import STORE_MARK, ModelDone, Store, StoredModel, checked_depth
from .push import check_target, folder_groups
from .source import Settings, writing_settings
from .stage import Stage
from .store_list import INDEX_NAME, Contents, copy_to, is_name, models_of_index
from .stores import hide_secrets, is_http, list_files

_BUSY_NAME = ".lmc-adding.json"  # models that a call adds: those whose folder may be there in part
_PLANNING_NAME = ".lmc-planning-%s.sqlite"  # the sketches of all models, for tasks
_TASKS_MAX = 256  # that predict
_MODELS_MIN = 8  # of one of these
_KEPT_NBYTES = 1 << 62  # more than any model takes: it keeps its base


class Place(NamedTuple):
    """A store at a URL, for tasks. token: of one call; it sets tasks apart from equal ones of an earlier call."""

    url: str
    settings: Settings
    token: str

    def open(self) -> Contents:
        return Contents(self.url, self.settings)


class Sketched(NamedTuple):
    """is_directory: of the model. sketches: an index with its own."""

    is_directory: bool
    sketches: bytes


class Predicted(NamedTuple):
    """What a model is predicted to take alone, on other models by their names, and on which it would be based."""

    name: str
    alone_nbytes: int
    nbytes: dict[str, int]
    chosen: list[str]


class Added(NamedTuple):
    """sketches: an index with those of the model, and perhaps others; nothing if the model was there."""

    event: str
    model: StoredModel
    sketches: bytes


# ---- tasks ----

def sketch(place: Place, name: str, path: str, excludes: Sequence[str]) -> Sketched:
    """The sketches of a model that is to be added."""
    with _scratch() as folder, _fetched(place.settings, path, folder) as source:
        return Sketched(os.path.isdir(source), _index_of(folder, name, source, excludes))


def sketch_stored(place: Place, name: str) -> Sketched:
    """The sketches of a model of the store."""
    contents = place.open()
    with _scratch() as folder:
        Stage(contents, folder).fetch(name, contents.listing(name).models[name])
        Store(folder).repair()
        return Sketched(False, _content_of(os.path.join(folder, INDEX_NAME)))


def predict(place: Place, index: str, names: Sequence[str], allowed: Sequence[str] | None) -> list[Predicted]:
    """What models take on others, those allowed (None: all). index: a path in the store."""
    with _scratch() as folder:
        path = os.path.join(folder, INDEX_NAME)
        with open(path, "wb") as file:
            copy_to(place.open().source(index), file)
        return _predict(path, names, allowed)


def store_model(place: Place, name: str, path: str, bases: Sequence[str], is_present: bool, depth: int, level: str,
                excludes: Sequence[str], threads: int | None) -> Added:
    """Stores a model, and puts its folder. bases: models of the store that it may be based on. is_present: it is there;
    it is compared, and nothing is put."""
    contents, events = place.open(), []
    with _scratch() as folder, _fetched(place.settings, path, folder) as source:
        root = os.path.join(folder, "store")
        os.mkdir(root)
        stage = Stage(contents, root)
        stage.write_mark({})
        for needed in [*bases, *([name] if is_present else [])]:
            stage.fetch(needed, contents.listing(needed).models[needed])
        model = Store(root).add(source, name, depth=depth, level=level, excludes=excludes, fsync=False,
                                threads=threads, model_done=lambda event, _: events.append(event))
        if is_present:
            return Added(events[-1], dataclasses.replace(model, time=None), b"")
        groups = folder_groups(root, name + SUFFIX)
        _remove_others(contents, name + SUFFIX, {file for group in groups for file in group})
        put_groups(contents, root, groups)
        return Added(events[-1], dataclasses.replace(model, time=None), _content_of(os.path.join(root, INDEX_NAME)))


@contextmanager
def _scratch() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="lmcodec-") as folder:
        yield folder


@contextmanager
def _fetched(settings: Settings, path: str, folder: str) -> Iterator[str]:
    """The path of a model on this machine; one at a URL is fetched."""
    if "://" not in path:
        yield path
        return
    found = settings.locate(path)
    place = found.path.rstrip("/")
    os.mkdir(os.path.join(folder, "model"))
    target = os.path.join(folder, "model", found.name())
    if not found.query and found.system.isdir(place):
        found.system.get(place + "/", target + "/", recursive=True)
    else:
        found.system.get_file(place + found.query, target)
    yield target


def _remove_others(contents: Contents, folder: str, files: set[str]) -> None:
    """Removes what a call that ended early left in the folder of a model, but for these files."""
    place = contents.root.join(folder)
    for path in contents.requests.run(list_files(place), contents.shown):
        if "%s/%s" % (folder, path) not in files:
            place.system.rm_file(place.join(path).path)


def put_groups(contents: Contents, root: str, groups: list[list[str]]) -> None:
    """Puts files, given their paths in the store, those of a group at the same time."""
    with ThreadPoolExecutor(contents.settings.requests) as pool:
        for group in groups:
            for _ in pool.map(lambda path: contents.root.system.put_file(
                    os.path.join(root, path), contents.root.join(path).path), group):
                pass


def _content_of(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


# ---- the library's calls on an index ----

def _index_of(folder: str, name: str, source: str, excludes: Sequence[str]) -> bytes:
    path = os.path.join(folder, INDEX_NAME)
    options = CallOptions(_abi.StoreIndexOptions())
    options.exclude(excludes)
    options.check(options.run(lambda settings, diag: _abi.store_index_add(
        encode_path(path), encode_path(name), encode_path(source), settings, diag)))
    return _content_of(path)


def _merge(path: str, other: bytes, name: str) -> None:
    """Adds what another index has of a model."""
    with _scratch() as folder:
        file = os.path.join(folder, INDEX_NAME)
        with open(file, "wb") as target:
            target.write(other)
        options = CallOptions(_abi.StoreIndexOptions())
        options.check(options.run(lambda settings, diag: _abi.store_index_merge(
            encode_path(path), encode_path(file), encode_path(name), settings, diag)))


def _predict(path: str, names: Sequence[str], allowed: Sequence[str] | None) -> list[Predicted]:
    predicted: list[Predicted] = []

    def note(_: Any, name: bytes, base: bytes | None, nbytes: int, is_chosen: int) -> None:
        if base is None:
            predicted.append(Predicted(name.decode(), nbytes, {}, []))
            return
        predicted[-1].nbytes[base.decode()] = nbytes
        if is_chosen:
            predicted[-1].chosen.append(base.decode())

    options = CallOptions(_abi.StoreIndexOptions())
    told = options.callback(_abi.PREDICTION, note)
    wanted, bases = path_array(names), None if allowed is None else path_array(allowed)
    options.check(options.run(lambda settings, diag: _abi.store_index_predict(
        encode_path(path), wanted, len(wanted), bases, len(allowed or ()), settings, told, diag)))
    return predicted


def _arrange(alone: Sequence[int], costs: Sequence[tuple[int, int, int]], depth: int) -> list[int | None]:
    """The base of each model, by numbers. costs: model, base, bytes."""
    bases = (ctypes.c_size_t * len(alone))(*[_abi.STORE_NO_BASE] * len(alone))
    found = [_abi.StoreCost(*cost) for cost in sorted(costs)]
    check_status(_abi.store_arrange(len(alone), (ctypes.c_uint64 * len(alone))(*alone),
                                    (_abi.StoreCost * len(found))(*found), len(found), depth, bases))
    return [None if base == _abi.STORE_NO_BASE else base for base in bases]


# ---- the caller ----

class _Here:
    """Runs tasks in this process, one after another."""

    @staticmethod
    def submit(function: Callable[..., Any], *arguments: Any) -> Any:
        return _Later(function, arguments)


class _Later(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def result(self) -> Any:
        return self.function(*self.arguments)


def add_many(url: str, models: Sequence[Path] | Mapping[str, Path], client: Any = None, *, depth: int = 1,
             level: str = "default", excludes: Sequence[str] = (), threads: int | None = 1,
             storage_options: Mapping[str, Any] | None = None,
             model_done: ModelDone | None = None) -> list[StoredModel]:
    """Adds many models to a store in an object store, which is made if there is none. Tasks of `client` do the work.

        from dask.distributed import Client
        lmcodec.store.add_many("s3://bucket/store", ["Qwen2.5-7B", "Qwen2.5-7B-Instruct"], Client("scheduler:8786"))

    models: files or directories that every worker can read under the same path, or URLs; or a mapping of names to
        these. By default the name of a model is the last component of its path.
    client: of dask.distributed, or an executor of concurrent.futures: anything with submit(function, *arguments). None:
        the tasks run in this process. Workers need this package, credentials for the URL, and a directory for temporary
        files with room for the archives of a model and of its bases (and for a model at a URL). A task whose worker
        dies may run again.
    depth, level, excludes: as for Store.add(). threads: of one task. storage_options: of the URL, and of models at URLs
        of its kind.
    model_done(event, model): is called for each model in this thread, "added" or "already there".

    Which model is based on which is planned for all of them together, by their sketches and those in the store's index:
    the order does not matter. A model that is there with equal content is a success. A model that cannot be added
    leaves the others be. A call that ends early leaves a sound store; another one with the same models goes on.

    No other program may change the store meanwhile. Returns the models in their order. Raises the exception of the
    first model that failed, as Store.add() does (FileExistsError: the name is there with other content); its `failures`
    has all of them by their names. Raises ArgumentError (an HTTP server; neither a store nor empty; a name twice or not
    valid), ImportError, PermissionError, other OSError, DataError.
    """
    named = _named(models)
    level_of(level)
    settings = writing_settings(url, storage_options)
    call = _Call(Place(url, settings, uuid.uuid4().hex), client or _Here, named, checked_depth(depth), level,
                 tuple(excludes), threads)
    return call.run(model_done or (lambda event, model: None))


def _named(models: Sequence[Path] | Mapping[str, Path]) -> dict[str, str]:
    """The paths of models by their names. Raises ArgumentError, TypeError."""
    if isinstance(models, (str, bytes, os.PathLike)):
        raise TypeError("a list of models, or a mapping of names to models, is wanted, not one path")
    if isinstance(models, Mapping):
        named = {name: os.fsdecode(path) for name, path in models.items()}
    else:
        named = {}
        for path in map(os.fsdecode, models):
            place = path.partition("?")[0] if is_http(path) else path
            name = place.rstrip("/").rpartition("/")[2]
            if name in named:
                raise ArgumentError("%s and %s would both be model %s"
                                    % (hide_secrets(named[name]), hide_secrets(path), name))
            named[name] = path
    for name, path in named.items():
        if not is_name(name):
            raise ArgumentError("%s: cannot be stored as model %s" % (hide_secrets(path), name))
    return {name: path if "://" in path else os.path.abspath(path) for name, path in named.items()}


class _Call:
    """One call of add_many()."""

    def __init__(self, place: Place, client: Any, named: dict[str, str], depth: int, level: str,
                 excludes: tuple[str, ...], threads: int | None) -> None:
        self._place, self._client, self._named, self._depth = place, client, named, depth
        self._rest = (depth, level, excludes, threads)
        self._contents = place.open()
        if self._contents.is_http:
            raise ArgumentError("%s: nothing can be put on an HTTP server" % self._contents.shown)
        self._system = self._contents.root.system
        self._done: dict[str, StoredModel] = {}
        self._failures: dict[str, Exception] = {}
        self._has_changed = False

    def run(self, model_done: ModelDone) -> list[StoredModel]:
        present = self._open_store()
        new = [name for name in self._named if name not in present]
        with _scratch() as folder:
            self._index, planning = (os.path.join(folder, name) for name in (INDEX_NAME, "planning.sqlite"))
            self._bring_index(present)
            try:
                self._store([name for name in self._named if name in present], {}, True, model_done)
                if new:
                    new = self._sketch(new, planning)
                    for names, bases in self._plan(new, present, planning):
                        self._store(names, bases, False, model_done)
            finally:
                if self._has_changed:
                    self._system.put_file(self._index, self._path(INDEX_NAME))
        self._note_busy({name: is_directory for name, is_directory in self._busy.items() if name not in self._done
                         and (name in self._failures or name in self._partial)})
        if self._failures:
            first = next(iter(self._failures.values()))
            first.failures = dict(self._failures)  # type: ignore[attr-defined]
            raise first
        return [self._done[name] for name in self._named]

    def _path(self, path: str) -> str:
        return self._contents.root.join(path).path

    # ---- what is there ----

    def _open_store(self) -> dict[str, StoredModel]:
        """The models that are there; makes a store of an empty place."""
        contents = self._contents
        there = contents.requests.run(list_files(contents.root), contents.shown)
        check_target(contents, there, False)
        self._busy: dict[str, bool] = {}
        if _BUSY_NAME in there:
            found = loads_untrusted(contents.text(_BUSY_NAME), "%s/%s" % (contents.shown, _BUSY_NAME))
            if not isinstance(found, dict):
                raise DataError("%s/%s: is not the list of what is being added" % (contents.shown, _BUSY_NAME))
            self._busy = {name: bool(is_directory) for name, is_directory in found.items()}
        if STORE_MARK not in there:
            self._system.pipe_file(self._path(STORE_MARK), b'{"format":"lmc-store","version":1}\n')
        for path in there:
            if path.startswith(_PLANNING_NAME.partition("%")[0]):
                self._system.rm_file(self._path(path))
        listed = {contents.model_of(path) for path in there}
        self._partial = {name for name, is_directory in self._busy.items() if is_directory and name in listed
                         and "%s%s/%s" % (name, SUFFIX, COPIED_NAME) not in there}
        with contents.requests.call():
            return {model.name: model for model in contents.described() if model.name not in self._partial}

    def _note_busy(self, busy: Mapping[str, bool]) -> None:
        if busy:
            self._system.pipe_file(self._path(_BUSY_NAME), json.dumps(busy).encode())
        elif self._busy:
            self._system.rm_file(self._path(_BUSY_NAME))

    def _bring_index(self, present: Mapping[str, StoredModel]) -> None:
        """The index of the store, with the sketches of all models that are there and can be read."""
        indexed: set[str] = set()
        try:
            with open(self._index, "wb") as file:
                copy_to(self._contents.source(INDEX_NAME), file)
            _predict(self._index, [], None)  # which is a check
            indexed = models_of_index(self._index, self._contents)
        except (FileNotFoundError, DataError):
            if os.path.exists(self._index):
                os.unlink(self._index)
        lacking = [name for name in present if name not in indexed]
        for name, found in self._results(lacking, lambda name: (sketch_stored, name)):
            _merge(self._index, found.sketches, name)
            self._has_changed = True
        for name in lacking:
            self._failures.pop(name, None)  # what cannot be read is no base

    def _results(self, names: Sequence[str], task_of: Callable[[str], tuple[Any, ...]]) -> Iterator[tuple[str, Any]]:
        """Runs a task for each model. Those that fail are noted, and left out."""
        tasks = [(name, task_of(name)) for name in names]
        futures = deque((name, self._client.submit(task[0], self._place, *task[1:])) for name, task in tasks)
        while futures:  # a result is not kept for longer than it is needed
            name, future = futures.popleft()
            try:
                found = future.result()
            except Exception as error:
                self._failures[name] = error
                continue
            yield name, found

    # ---- planning ----

    def _sketch(self, new: Sequence[str], planning: str) -> list[str]:
        """Makes the index of what is there and what is new. Returns the models that could be read."""
        if os.path.exists(self._index):
            shutil.copyfile(self._index, planning)
        sketched = []
        for name, found in self._results(new, lambda name: (sketch, name, self._named[name], self._rest[2])):
            _merge(planning, found.sketches, name)
            self._busy[name] = found.is_directory or name in self._partial  # whose rest is there until this is put
            sketched.append(name)
        self._note_busy(self._busy)
        return sketched

    def _plan(self, new: Sequence[str], present: Mapping[str, StoredModel],
              planning: str) -> Iterator[tuple[list[str], dict[str, list[str]]]]:
        """Models that can be stored at the same time, and which bases each may have; after those before."""
        if not new:
            return
        shared = _PLANNING_NAME % self._place.token
        self._system.put_file(planning, self._path(shared))
        try:
            predicted = self._predict(shared, new, None)
            base_of = self._bases_of(predicted, present)
            depths = {name: _depth_of(name, base_of) for name in predicted}
            yield [name for name in predicted if depths[name] == 0], {}
            for depth in sorted(set(depths.values()) - {0}):
                wanted = [name for name in predicted if depths[name] == depth]
                allowed = [name for name, model in present.items() if (model.depth or depth + 1) <= depth]
                allowed += [name for name in self._done if depths.get(name, depth) < depth]
                yield wanted, {found.name: found.chosen for found in self._predict(shared, wanted, allowed).values()}
        finally:
            self._system.rm_file(self._path(shared))

    def _predict(self, shared: str, names: Sequence[str], allowed: Sequence[str] | None) -> dict[str, Predicted]:
        size = max(_MODELS_MIN, -(-len(names) // _TASKS_MAX))
        parts = [names[start:start + size] for start in range(0, len(names), size)]
        futures = [self._client.submit(predict, self._place, shared, list(part), allowed) for part in parts]
        return {found.name: found for future in futures for found in future.result()}

    def _bases_of(self, predicted: Mapping[str, Predicted], present: Mapping[str, StoredModel]) -> dict[str, str]:
        """The base that each new model should have. What is there stays as it is."""
        kept = [name for name, model in present.items()
                if name not in predicted and model.depth is not None and model.depth <= self._depth]
        names = [*predicted, *kept]
        numbers = {name: number for number, name in enumerate(names)}
        alone = [found.alone_nbytes for found in predicted.values()] + [0] * len(kept)
        costs = [(numbers[name], numbers[base], nbytes) for name, found in predicted.items()
                 for base, nbytes in found.nbytes.items() if base in numbers]
        for name in kept:
            base = next((base for base in present[name].bases if base in numbers), None)
            if base is not None and (present[name].depth or 1) > 1:
                alone[numbers[name]] = _KEPT_NBYTES // len(names)
                costs.append((numbers[name], numbers[base], 0))
        arranged = _arrange(alone, costs, self._depth)
        return {name: names[base] for name, base in zip(names, arranged) if base is not None}

    # ---- storing ----

    def _store(self, names: Sequence[str], bases: Mapping[str, Sequence[str]], is_present: bool,
               model_done: ModelDone) -> None:
        wanted = [name for name in names if name not in self._failures]
        for name, added in self._results(wanted, lambda name: (
                store_model, name, self._named[name], list(bases.get(name, ())), is_present, *self._rest)):
            if not is_present:
                _merge(self._index, added.sketches, name)
                self._has_changed = True
            self._done[name] = added.model
            model_done(added.event, added.model)


def _depth_of(name: str, base_of: Mapping[str, str]) -> int:
    depth = 0
    while name in base_of:
        name, depth = base_of[name], depth + 1
    return depth
