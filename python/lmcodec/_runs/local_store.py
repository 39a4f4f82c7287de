"""Stores: directories that keep models, and find for each what it is based on."""

from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence, Union, overload

from .. import _abi
from .._codec import level_of
from .._errors import ArgumentError, ModelNotFound, check, check_status
from .._files.convert import FileDone, Result, run_with_result
from .._files.file import File
from .._files.options import CallOptions, Path, Progress, Sizes, encode_path, path_array
from .._files.progress import call_of
from .._files.safe_open import safe_open
from .kept import SUFFIX, EventOptions, Folder, temporary_place, written

STORE_MARK, RUN_LIST = "store.json", "run.json"  # files that make a directory a store, or a run


@dataclass(frozen=True)
class StoredModel(Sizes):
    """One model of a store. It can stand for its name: `store.restore(store["a"], "back")`.

    name: in the store. is_directory: False for a single file.
    bases: names of the models that it is based on, sorted. has_unknown_base: it needs a file that is not in the store,
        or one of its archives cannot be read.
    depth: the length of the longest chain of models that it needs, itself included; 1 if it needs no other. Models that
        it needs for equal tensors only do not count. None if one of them is missing.
    files, nbytes: of the model. stored_nbytes: what it takes in the store.
    time: when it was last modified, in seconds since 1970; None if a store at a URL does not tell.
    """

    name: str
    is_directory: bool
    bases: tuple[str, ...]
    has_unknown_base: bool
    depth: int | None
    files: int
    nbytes: int
    stored_nbytes: int
    time: int | None


@dataclass(frozen=True)
class StorePlan(Sizes):
    """What the models of a store should be based on, so that all take the least space.

    models: as they should be; stored_nbytes of each is predicted. nbytes: of all models. stored_nbytes: what they take
    now; what they took, if the plan was applied. planned_nbytes: what they would take; what they take, if it was
    applied. changed, changed_nbytes: models that would be, or were, re-encoded, and their bytes before compression.
    """

    models: tuple[StoredModel, ...]
    nbytes: int
    stored_nbytes: int
    planned_nbytes: int
    changed: int
    changed_nbytes: int


@dataclass(frozen=True)
class Pushed:
    """What a push has done. put, removed: paths in the store. put_nbytes: bytes that were put. kept: files that were
    there already."""

    put: tuple[str, ...]
    put_nbytes: int
    removed: tuple[str, ...]
    kept: int


ModelDone = Callable[[str, StoredModel], object]
Name = Union[str, StoredModel]


class Store:
    """A directory that keeps models: files, or directories of files, by their names.

        store = Store("store")
        store.add("Qwen2.5-7B")
        store.add("Qwen2.5-7B-Instruct")                       # is stored as what has changed
        store.restore("Qwen2.5-7B-Instruct", "back")
        weights = store.load("Qwen2.5-7B-Instruct")

    path: of the directory, which add() makes, or a URL such as "s3://bucket/store" for a store that is only read
        (docs/remote.md). The constructor reads nothing; each call reads the store as it is then.
    storage_options: of a URL, for fsspec's file system: credentials, endpoints.

    The bases of a model are found by the values of its tensors. A run is a store, too: its models are its steps, named
    in decimal; add() refuses it. Several threads and processes may use a store: calls that change it wait for each
    other. Ctrl-C ends a call or a wait within a second. What a killed call left behind is removed by the next call that
    changes the store.

    Arguments of several methods. name: of a model, or a StoredModel. threads: None for one per core. fsync=False leaves
    it to the system when the bytes reach the disk. progress(done bytes, all bytes), file_done(path, event, bytes
    before, bytes after) and model_done(event, model) are called from other threads, one at a time; an exception from
    them ends the call. The events of models are "added", "already there", "re-based", "dropped", "verified" and
    "planned".

    Methods raise FileNotFoundError (no such directory; those that list models find none there), ArgumentError (it is
    not a store), ModelNotFound, DataError (damaged archives), UnsupportedError (written by a newer version), other
    OSError, MemoryError.
    """

    def __new__(cls, path: Path, *, storage_options: Mapping[str, Any] | None = None) -> Store:
        if cls is Store and isinstance(path, str) and "://" in path:
            from .._remote.remote_store import RemoteStore

            return super().__new__(RemoteStore)
        return super().__new__(cls)

    def __init__(self, path: Path, *, storage_options: Mapping[str, Any] | None = None) -> None:
        if storage_options is not None:
            raise ArgumentError("storage_options are for URLs, not for %r" % (path,))
        self._path = encode_path(path)

    def __repr__(self) -> str:
        return "Store(%r)" % self._shown()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (os.path.abspath(self._shown()),)

    # ---- what is there ----

    def models(self) -> list[StoredModel]:
        """The models: of a store by the bytes of their names, of a run by rising step. The header of each archive is
        read. An empty list if the directory does not exist."""
        try:
            with self._opened() as store:
                return _models_of(store)
        except FileNotFoundError:
            return []

    def names(self) -> list[str]:
        """The names of the models, in the order of models()."""
        return [model.name for model in self.models()]

    def __getitem__(self, name: Name) -> StoredModel:
        """`store["a"]`: the model of this name. Raises ModelNotFound."""
        wanted = name_of(name)
        for found in self.models():
            if found.name == wanted:
                return found
        raise self._no_model(wanted)

    def __len__(self) -> int:
        return len(self.names())

    def __bool__(self) -> bool:
        """True, also without models."""
        return True

    def __iter__(self) -> Iterator[str]:
        """The names of the models."""
        return iter(self.names())

    def __reversed__(self) -> Iterator[str]:
        return reversed(self.names())

    def __contains__(self, name: object) -> bool:
        """`"a" in store`."""
        return isinstance(name, (str, StoredModel)) and name_of(name) in self.names()

    def dependents(self, name: Name) -> list[StoredModel]:
        """The models that are based on this one. Raises ModelNotFound."""
        wanted, models = name_of(name), self.models()
        if all(model.name != wanted for model in models):
            raise self._no_model(wanted)
        return [model for model in models if wanted in model.bases]

    def path(self, name: Name, file: str | None = None) -> str:
        """The folder of a model, or the archive of one of its files; the copy if the file has no archive.

        Other calls of the package read these paths, too. file: a path within the model; of a model that is a single
        file, its name. Raises FileNotFoundError: there is no such file.
        """
        folder = self._folder(name)
        return folder.path if file is None else folder.find(file)

    # ---- changes ----

    @overload
    def add(self, path: Path, name: str | None = None, *, depth: int = 1, level: str = "default", force: bool = False,
            excludes: Sequence[str] = (), fsync: bool = True, threads: int | None = None,
            progress: Progress | None = None, file_done: FileDone | None = None,
            model_done: ModelDone | None = None) -> StoredModel: ...

    @overload
    def add(self, path: str, name: Mapping[str, Any], *, depth: int = 1, level: str = "default", force: bool = False,
            excludes: Sequence[str] = (), fsync: bool = True, threads: int | None = None,
            progress: Progress | None = None, file_done: FileDone | None = None,
            model_done: ModelDone | None = None) -> StoredModel: ...

    def add(self, path: Any, name: Any = None, *, depth: int = 1, level: str = "default", force: bool = False,
            excludes: Sequence[str] = (), fsync: bool = True, threads: int | None = None,
            progress: Progress | None = None, file_done: FileDone | None = None,
            model_done: ModelDone | None = None) -> StoredModel:
        """add(path) adds a model, a file or a directory, which is never changed. add(name, tensors) adds tensors of
        torch, NumPy or JAX by their names, as the file model.safetensors. Once this returns, it is safe in the store.

        name: by default the last component of the path; such as "org/model@revision" (docs/store.md).
        depth: how many other models the new one may need in a row, 1 to 62.
        level: "default", "fast" or "max". excludes: patterns of files that are copied as they are.
        force: replaces a model that is there with other content. Equal content is a success: "already there".

        Raises FileExistsError (the model is there with other content), ArgumentError (a model cannot have this name,
        the store is a run), and as convert().
        """
        if isinstance(name, Mapping):
            with written(name, os.fsdecode(self._path)) as file:
                return self.add(file, name_of(path), depth=depth, level=level, force=force, excludes=excludes,
                                fsync=fsync, threads=threads, progress=progress, file_done=file_done,
                                model_done=model_done)
        added: list[StoredModel] = []

        def note(event: str, model: StoredModel) -> None:
            added.append(model)
            if model_done is not None:
                model_done(event, model)

        options = _Options(_abi.StoreAddOptions(), threads=threads, progress=progress, model_done=note)
        options.struct.level, options.struct.force, options.struct.no_fsync = level_of(level), force, not fsync
        options.struct.depth = checked_depth(depth)
        options.struct.name = None if name is None else _encoded(name)
        options.exclude(excludes)
        options.tell_files(file_done)
        source = encode_path(path)
        options.check(options.run(lambda settings, diag: _abi.store_add(self._path, source, settings, diag)))
        return added[-1]

    def drop(self, *names: Name | Iterable[Name], fsync: bool = True, threads: int | None = None,
             progress: Progress | None = None, model_done: ModelDone | None = None) -> list[StoredModel]:
        """Removes models and returns them: drop("a", "b") or drop(["a", "b"]). Models that are based on them are stored
        again first.

        No model is removed if one of the names is unknown. Raises ModelNotFound, and as restore() and convert() do.
        """
        removed: list[StoredModel] = []

        def note(event: str, model: StoredModel) -> None:
            if event == "dropped":
                removed.append(model)
            if model_done is not None:
                model_done(event, model)

        wanted = _array_of([name for given in names
                            for name in ((given,) if isinstance(given, (str, StoredModel)) else given)])
        options = _Options(_abi.StoreDropOptions(), threads=threads, progress=progress, model_done=note)
        options.struct.no_fsync = not fsync
        options.check(options.run(lambda settings, diag: _abi.store_drop(
            self._path, wanted, len(wanted), settings, diag)))
        return removed

    def plan(self, *, apply: bool = False, depth: int = 1, fsync: bool = True, threads: int | None = None,
             progress: Progress | None = None, model_done: ModelDone | None = None) -> StorePlan:
        """Looks at the whole store, and finds what each model should be based on, so that all take the least space.

        apply: re-encodes models as planned, if that saves space in total. A call that ends early leaves a valid store,
            and the same call goes on where it ended. False: no archive changes.
        depth: how many other models one may need in a row, 1 to 62. model_done gets the events "planned" and,
            with apply, "re-based".

        Raises ArgumentError (a run, a base that is not in the store), and as drop() does.
        """
        planned: list[StoredModel] = []

        def note(event: str, model: StoredModel) -> None:
            if event == "planned":
                planned.append(model)
            if model_done is not None:
                model_done(event, model)

        options = _Options(_abi.StorePlanOptions(), threads=threads, progress=progress, model_done=note)
        options.struct.apply, options.struct.no_fsync, options.struct.depth = apply, not fsync, checked_depth(depth)
        result = _abi.StorePlanResult()
        options.check(options.run(lambda settings, diag: _abi.store_plan(
            self._path, settings, ctypes.byref(result), diag)))
        return StorePlan(tuple(planned), sum(model.nbytes for model in planned), result.stored_nbytes,
                         result.planned_nbytes, result.changed_count, result.changed_nbytes)

    def repair(self) -> None:
        """Removes unfinished work, and makes what can be derived from the archives: the index and store.json; of a run,
        run.json."""
        options = CallOptions(_abi.StoreDropOptions())
        options.check(options.run(lambda settings, diag: _abi.store_repair(self._path, settings, diag)))

    def push(self, url: str, *, storage_options: Mapping[str, Any] | None = None, delete: bool = False,
             dry_run: bool = False, progress: Progress | None = None) -> Pushed:
        """Copies to an object store what it lacks of this store: "s3://bucket/store", "gs://...".

        Models come after those that they are based on, the index last. A put is atomic in S3, GCS and Azure. A file is
        left out if an earlier push has put it there, and neither size nor times have changed here since; the list of
        these is URL/.lmc-pushed.json. A push that ends early is continued by the next one.

        At the end, files are removed that a model had there and no longer has here. Models, or steps, that are only
        there stay, and stay readable: run.json keeps their entries, and a push that would replace what they are based
        on by other content is refused before it changes anything. delete: removes them instead.
        dry_run: changes nothing; the result says what would happen. progress: bytes of files that are put.

        No other program may push to the same URL, or change this store, meanwhile. Raises ArgumentError (an HTTP
        server; neither a store nor empty; a model there would become unreadable), ImportError, FileNotFoundError,
        PermissionError, other OSError, DataError, UnsupportedError.
        """
        from .._remote.push import push

        with self._opened() as store:
            models, is_run = _models_of(store), bool(_abi.store_is_run(store))
        return push(self._shown(), models, is_run, url, storage_options, delete, dry_run, call_of(progress))

    # ---- contents ----

    def restore(self, name: Name, out: Path, *, force: bool = False, fsync: bool = True, threads: int | None = None,
                progress: Progress | None = None, file_done: FileDone | None = None) -> Result:
        """Writes a model to the path `out`: a file if it was one, else a directory.

        force: replaces what is there. Raises FileExistsError, and as restore() of the package.
        """
        options = CallOptions(_abi.StoreRestoreOptions(), threads=threads, progress=progress)
        options.struct.force, options.struct.no_fsync = force, not fsync
        options.tell_files(file_done)
        return run_with_result(_abi.store_restore, options, self._path, _encoded(name), encode_path(out))

    @contextmanager
    def checkout(self, name: Name, folder: Path | None = None, *, threads: int | None = None,
                 progress: Progress | None = None) -> Iterator[str]:
        """A model as it was, until `with` ends: the path of a directory, or of a file if it was one.

            with store.checkout("Qwen2.5-7B-Instruct") as path:
                model = AutoModelForCausalLM.from_pretrained(path)

        A directory has the last segment of the model's name, a file its own name. It is in a new directory in `folder`,
        or by default in that of the system for temporary files. Raises as restore() does.
        """
        found = self[name]
        own = found.name.rpartition("/")[2] if found.is_directory else self._folder(found).archives()[0]
        with temporary_place(own, None if folder is None else os.fsdecode(folder)) as place:
            self.restore(found, place, fsync=False, threads=threads, progress=progress)
            yield place

    def verify(self, names: Iterable[Name] | None = None, *, threads: int | None = None,
               progress: Progress | None = None, model_done: ModelDone | None = None) -> Result:
        """Reads whole models, down to what they are based on, and verifies what restoring them would give.

        names: None for all. Damage does not stop it. Raises the exception of the first damage; its `damages` has one
        for each. Raises as verify() of the package.
        """
        wanted = None if names is None else _array_of([names] if isinstance(names, (str, StoredModel)) else names)
        if wanted is not None and len(wanted) == 0:
            raise ArgumentError("no model is named")
        options = _Options(_abi.StoreVerifyOptions(), threads=threads, progress=progress, model_done=model_done)
        options.collect_damages()
        return run_with_result(
            lambda path, settings, result, diag: _abi.store_verify(
                path, wanted, len(wanted or ()), settings, result, diag), options, self._path)

    @overload
    def open(self, name: Name, file: str | None = None) -> File: ...

    @overload
    def open(self, name: Name, file: str | None = None, *, framework: str, device: Any = "cpu",
             threads: int | None = None) -> safe_open: ...

    def open(self, name: Name, file: str | None = None, *, framework: str | None = None, device: Any = "cpu",
             threads: int | None = None) -> File | safe_open:
        """A file of a model, open: a File, or with a framework what safe_open() gives.

        file: a path within the model. By default it is the only file with tensors, or the model's weights
            (model.safetensors) if these are one file. framework, device: as for safe_open().

        Raises FileNotFoundError (no such file), ArgumentError (several files), and as File and safe_open() do.
        """
        return self._folder(name).open(file, framework, device, threads)

    def load(self, name: Name, file: str | None = None, framework: str = "pt", *, device: Any = "cpu",
             threads: int | None = None, progress: Progress | None = None) -> dict[str, Any]:
        """All tensors of a file of a model, as a dict of new arrays by their names.

        file: as for open(); the model's weights may be several files with an index. framework: "pt", "np" or another of
        safe_open(). Raises as open() and load_file() do.
        """
        return self._folder(name).load(file, framework, device, threads, progress)

    def get(self, name: Name, tensor: str, framework: str = "pt", *, device: Any = "cpu",
            threads: int | None = None) -> Any:
        """One tensor of a model. "FILE:TENSOR" names its file; it is needed if several files have the tensor.

        Raises TensorNotFound, ArgumentError (several files have it), and as safe_open.get_tensor() does.
        """
        return self._folder(name).get_tensor(tensor, framework, device, threads)

    # ---- inner ----

    @contextmanager
    def _opened(self) -> Iterator[ctypes.c_void_p]:
        store, diag = ctypes.c_void_p(), _abi.StDiag()
        check(_abi.store_open(self._path, None, ctypes.byref(store), ctypes.byref(diag)), diag)
        try:
            yield store
        finally:
            _abi.store_close(store)

    def _shown(self) -> str:
        return os.fsdecode(self._path)

    def _no_model(self, name: str) -> ModelNotFound:
        return ModelNotFound("%s: there is no model \"%s\"" % (self._shown(), name))

    def _folder(self, name: Name) -> Folder:
        root, wanted = self._shown(), name_of(name)
        is_store = os.path.isfile(os.path.join(root, STORE_MARK))
        folder = os.path.join(root, wanted + SUFFIX if is_store else wanted)
        if not _abi.store_name_is_valid(_encoded(wanted)) or not os.path.isdir(folder) or \
                not is_store and not is_step(wanted):
            with self._opened():  # raises if it is not a store at all
                raise self._no_model(wanted)
        return Folder(folder, "model %s" % wanted)


class _Options(EventOptions):
    """The options of a call that reports models."""

    def __init__(self, struct: Any, *, model_done: ModelDone | None = None, **options: Any) -> None:
        super().__init__(struct, **options)
        self.tell("model_done", _abi.MODEL_DONE, _model_of, model_done, _abi.STORE_EVENTS)


def name_of(name: Name) -> str:
    """The name that a caller gave. Raises TypeError."""
    if isinstance(name, StoredModel):
        return name.name
    if not isinstance(name, str):
        raise TypeError("the name of a model is a str, not %s" % type(name).__name__)
    return name


def is_step(name: str) -> bool:
    """Whether the name is that of a step: a number in decimal."""
    return name.isascii() and name.isdecimal() and (name == "0" or name[0] != "0") and int(name) <= _abi.RUN_STEP_MAX


def checked_depth(depth: int) -> int:
    """The depth that a caller gave. Raises ArgumentError."""
    if not 1 <= depth <= _abi.STORE_DEPTH_MAX:
        raise ArgumentError("depth is 1 to %d, not %d" % (_abi.STORE_DEPTH_MAX, depth))
    return depth


def _encoded(name: Name) -> bytes:
    return encode_path(name_of(name))


def _array_of(names: Iterable[Name]) -> Any:
    return path_array([name_of(name) for name in names])


def _model_of(model: Any) -> StoredModel:
    return StoredModel(model.name.decode(), bool(model.is_directory),
                       tuple(model.bases[number].decode() for number in range(model.base_count)),
                       bool(model.has_unknown_base), None if model.depth == _abi.STORE_UNKNOWN else model.depth,
                       model.file_count, model.original_nbytes, model.stored_nbytes, model.time_s)


def _models_of(store: ctypes.c_void_p) -> list[StoredModel]:
    models, model = [], _abi.StoreModel()
    for index in range(_abi.store_model_count(store)):
        check_status(_abi.store_model_info(store, index, ctypes.byref(model)))
        models.append(_model_of(model))
    return models
