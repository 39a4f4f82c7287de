"""Runs: directories that keep the snapshots of a training run."""

from __future__ import annotations

import ctypes
import operator
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence, SupportsIndex, overload

from .. import _abi
from .._codec import level_of
from .._errors import ArgumentError, StepNotFound, check, check_status
from .._files.convert import FileDone, Result, run_with_result
from .._files.file import File
from .._files.options import CallOptions, Path, Progress, Sizes, encode_path
from .._files.safe_open import safe_open
from .kept import EventOptions, Folder, temporary_place, written

KEY_EVERY_MAX = _abi.STORE_DEPTH_MAX + 1  # a chain: the others, and the step itself


@dataclass(frozen=True)
class Step(Sizes):
    """One step of a run. It can stand for its number: `run.restore(run.steps()[-1], "back")`.

    step: its number. files, nbytes: of the snapshot. stored_nbytes: what it takes in the run.
    base: the step that it is based on; None for a key frame, or if unknown.
    chain: how many steps it needs, 0 for a key frame; None if one of them is missing.
    time: when the snapshot was last modified, in seconds since 1970. is_directory: False for a single file.
    """

    step: int
    files: int
    nbytes: int
    stored_nbytes: int
    base: int | None
    chain: int | None
    time: int
    is_directory: bool

    def __index__(self) -> int:
        return self.step


@dataclass(frozen=True)
class RunInfo(Sizes):
    """A run as a whole. steps, key_frames: how many. first, last: steps, or None. files, nbytes, stored_nbytes: sums.

    chain: the longest. key_every: the most steps from one key frame to the next.
    """

    key_every: int
    steps: int
    key_frames: int
    first: int | None
    last: int | None
    files: int
    nbytes: int
    stored_nbytes: int
    chain: int


StepDone = Callable[[str, Step], object]


class Run:
    """A directory that keeps the snapshots of a training run: files, or checkpoint directories, by their steps.

        run = Run("run")
        run.add("checkpoint-3010")
        run.restore(3010, "back")
        weights = run.load(3010)

    path: of the directory. add() makes it. The constructor reads nothing; each call reads the run as it is then.

    Most steps are based on an earlier one. Bases are found automatically. Several threads and processes may use a run:
    calls that change it wait for each other. Ctrl-C ends a call or a wait within a second. What a killed call left
    behind is removed by the next call that changes the run.

    Arguments of several methods. step: a number, or a Step. threads: None for one per core. fsync=False leaves it to
    the system when the bytes reach the disk. progress(done bytes, all bytes), file_done(path, event, bytes before,
    bytes after) and step_done(event, step) are called from other threads, one at a time; an exception from them ends
    the call. The events of steps are "added", "already there", "re-based", "dropped" and "verified".

    Methods raise FileNotFoundError (no such directory; steps(), latest, len(), `in` and iteration find no step there,
    run[step] and checkout() raise StepNotFound), ArgumentError (it is not a run), StepNotFound, DataError (a broken
    run.json, damaged archives), UnsupportedError (written by a newer version), other OSError, MemoryError.
    """

    def __init__(self, path: Path) -> None:
        self._path = encode_path(path)

    def __repr__(self) -> str:
        return "Run(%r)" % os.fsdecode(self._path)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (os.path.abspath(os.fsdecode(self._path)),)

    # ---- what is there ----

    def steps(self) -> list[Step]:
        """The steps, by rising number. An empty list if the directory does not exist; FileNotFoundError for a URL."""
        try:
            with self._opened() as run:
                return _steps_of(run)
        except FileNotFoundError:
            if b"://" in self._path:
                raise
            return []

    @property
    def latest(self) -> Step | None:
        """The step with the highest number; None if there is no step."""
        steps = self.steps()
        return steps[-1] if steps else None

    def __getitem__(self, step: SupportsIndex) -> Step:
        """`run[3010]`: the step of this number. Raises StepNotFound."""
        number = _number(step)
        for found in self.steps():
            if found.step == number:
                return found
        raise StepNotFound("%s: there is no step %d" % (os.fsdecode(self._path), number))

    def info(self) -> RunInfo:
        """The run as a whole."""
        with self._opened() as run:
            steps, key_every = _steps_of(run), int(_abi.run_key_every(run))
        return RunInfo(key_every, len(steps), sum(step.chain == 0 for step in steps),
                       steps[0].step if steps else None, steps[-1].step if steps else None,
                       sum(step.files for step in steps), sum(step.nbytes for step in steps),
                       sum(step.stored_nbytes for step in steps), max((step.chain or 0 for step in steps), default=0))

    def __len__(self) -> int:
        return len(self.steps())

    def __bool__(self) -> bool:
        """True, also without steps."""
        return True

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps())

    def __reversed__(self) -> Iterator[Step]:
        return reversed(self.steps())

    def __contains__(self, step: object) -> bool:
        """`3010 in run`."""
        try:
            number = operator.index(step)  # type: ignore[arg-type]
        except TypeError:
            return False
        return any(found.step == number for found in self.steps())

    def path(self, step: SupportsIndex, file: str | None = None) -> str:
        """The folder of a step, or the archive of a file of its snapshot; the copy if the file has no archive.

        Other calls of the package read these paths, too. file: a path within the snapshot; of a snapshot that is a
        single file, its name. Raises FileNotFoundError: there is no such file.
        """
        folder = self._folder(step)
        return folder.path if file is None else folder.find(file)

    # ---- changes ----

    @overload
    def add(self, snapshot: Path, step: SupportsIndex | None = None, *, key_every: int | None = None,
            level: str = "default", force: bool = False, excludes: Sequence[str] = (), dry_run: bool = False,
            base_snapshot: Path | None = None, fsync: bool = True, threads: int | None = None,
            progress: Progress | None = None, file_done: FileDone | None = None,
            step_done: StepDone | None = None) -> Step: ...

    @overload
    def add(self, snapshot: SupportsIndex, step: Mapping[str, Any], *, key_every: int | None = None,
            level: str = "default", force: bool = False, excludes: Sequence[str] = (), dry_run: bool = False,
            base_snapshot: Path | None = None, fsync: bool = True, threads: int | None = None,
            progress: Progress | None = None, file_done: FileDone | None = None,
            step_done: StepDone | None = None) -> Step: ...

    def add(self, snapshot: Any, step: Any = None, *, key_every: int | None = None,
            level: str = "default", force: bool = False, excludes: Sequence[str] = (), dry_run: bool = False,
            base_snapshot: Path | None = None, fsync: bool = True, threads: int | None = None,
            progress: Progress | None = None, file_done: FileDone | None = None,
            step_done: StepDone | None = None) -> Step:
        """add(snapshot) adds a snapshot, a file or a directory, which is never changed. add(step, tensors) adds tensors
        of torch, NumPy or JAX by their names, as the file model.safetensors. Once this returns, it is safe in the run.

        step: by default the digits after `step`, `checkpoint`, `iter` or `epoch` in the name, else its last integer.
        key_every: the most steps from one key frame to the next, 1 to 63; the run remembers it. None keeps the run's
            number, which is 8 in a new run.
        level: "default", "fast" or "max". excludes: patterns of files that are copied as they are.
        force: replaces a step that is there with other content. Equal content is a success: "already there".
        dry_run: changes nothing; the result says what would happen.
        base_snapshot: the snapshot that was added as the newest step, or what restore() gives of that. It is read
            instead of the step, which takes less time the longer its chain is. It is ignored if it is not there, or
            its files have other names, sizes or times of modification than those of the step.

        Raises FileExistsError (the step is there with other content), ArgumentError (the name contains no step), and as
        convert().
        """
        if key_every is not None and not 1 <= key_every <= KEY_EVERY_MAX:
            raise ArgumentError("key_every is 1 to %d, not %d" % (KEY_EVERY_MAX, key_every))
        if isinstance(step, Mapping):
            with written(step, os.fsdecode(self._path)) as file:
                return self.add(file, snapshot, key_every=key_every, level=level, force=force, excludes=excludes,
                                dry_run=dry_run, base_snapshot=base_snapshot, fsync=fsync, threads=threads,
                                progress=progress, file_done=file_done, step_done=step_done)
        options = _Options(_abi.RunAddOptions(), threads=threads, progress=progress, step_done=step_done)
        options.struct.level, options.struct.force, options.struct.no_fsync = level_of(level), force, not fsync
        options.struct.dry_run = dry_run
        options.exclude(excludes)
        options.tell_files(file_done)
        if step is not None:
            options.struct.has_step, options.struct.step = 1, _number(step)
        options.struct.key_every = key_every or 0
        newest = self.latest if base_snapshot is not None else None
        if base_snapshot is not None and newest is not None and self._is_snapshot(os.fsdecode(base_snapshot), newest):
            options.struct.base_snapshot, options.struct.base_step = encode_path(base_snapshot), newest.step
        source, added = encode_path(snapshot), _abi.RunStep()
        options.check(options.run(lambda settings, diag: _abi.run_add(
            self._path, source, settings, ctypes.byref(added), diag)))
        return _step_of(added)

    def drop(self, *steps: SupportsIndex | Iterable[SupportsIndex], dry_run: bool = False, fsync: bool = True,
             threads: int | None = None, progress: Progress | None = None,
             step_done: StepDone | None = None) -> list[Step]:
        """Removes steps and returns them: drop(1, 2) or drop([1, 2]). Steps that are based on them are stored again
        first.

        dry_run: changes nothing; the result says what would be removed. Raises as restore() and convert() do.
        """
        numbers = _numbers([step for given in steps for step in (given if isinstance(given, Iterable) else (given,))])
        return self._remove(lambda settings, diag: _abi.run_drop(
            self._path, numbers, len(numbers), settings, diag),
            dry_run=dry_run, fsync=fsync, threads=threads, progress=progress, step_done=step_done)

    def keep(self, last: int = 0, every: int = 0, *, dry_run: bool = False, fsync: bool = True,
             threads: int | None = None, progress: Progress | None = None,
             step_done: StepDone | None = None) -> list[Step]:
        """Removes all steps but the newest `last` ones and those that `every` divides; the newest stays in any case.

        One of the two must be given. Returns the steps that it removes. Other arguments are those of drop().
        """
        if last < 0 or every < 0:
            raise ArgumentError("last and every are 0 or more")
        return self._remove(lambda settings, diag: _abi.run_keep(
            self._path, last, every, settings, diag),
            dry_run=dry_run, fsync=fsync, threads=threads, progress=progress, step_done=step_done)

    def repair(self) -> None:
        """Removes unfinished work and rebuilds run.json from the folders and archives. It needs no run.json."""
        options = CallOptions(_abi.StOptions())
        options.check(options.run(lambda settings, diag: _abi.run_repair(self._path, settings, diag)))

    # ---- contents ----

    def restore(self, step: SupportsIndex, to: Path, *, force: bool = False, fsync: bool = True,
                threads: int | None = None, progress: Progress | None = None,
                file_done: FileDone | None = None) -> Result:
        """Writes the snapshot of a step to the path `to`: a file if it was one, else a directory.

        force: replaces what is there. Raises FileExistsError, and as restore() of the package.
        """
        options = CallOptions(_abi.RunRestoreOptions(), threads=threads, progress=progress)
        options.struct.force, options.struct.no_fsync = force, not fsync
        options.tell_files(file_done)
        return run_with_result(_abi.run_restore, options, self._path, _number(step), encode_path(to))

    @contextmanager
    def checkout(self, step: SupportsIndex, folder: Path | None = None, *, threads: int | None = None,
                 progress: Progress | None = None) -> Iterator[str]:
        """The snapshot of a step as it was, until `with` ends: the path of a directory, or of a file if it was one.

            with run.checkout(3010) as checkpoint:
                trainer.train(resume_from_checkpoint=checkpoint)

        A directory is named checkpoint-STEP, a file as it was. It is in a new directory in `folder`, or by default in
        that of the system for temporary files. Raises as restore() does.
        """
        found = self[step]
        name = "checkpoint-%d" % found.step if found.is_directory else self._folder(step).archives()[0]
        with temporary_place(name, None if folder is None else os.fsdecode(folder)) as place:
            self.restore(step, place, fsync=False, threads=threads, progress=progress)
            yield place

    def verify(self, steps: Iterable[SupportsIndex] | None = None, *, threads: int | None = None,
               progress: Progress | None = None, step_done: StepDone | None = None) -> Result:
        """Reads whole steps, down to their key frames, and verifies what restoring them would give.

        steps: None for all. Damage does not stop it. Raises the exception of the first damage; its `damages` has one
        for each. Raises as verify() of the package.
        """
        numbers = None if steps is None else _numbers(tuple(steps))
        if numbers is not None and len(numbers) == 0:
            raise ArgumentError("no step is named")
        options = _Options(_abi.RunVerifyOptions(), threads=threads, progress=progress, step_done=step_done)
        options.collect_damages()
        return run_with_result(
            lambda path, settings, result, diag: _abi.run_verify(
                path, numbers, len(numbers or ()), settings, result, diag), options, self._path)

    def compare(self, step: SupportsIndex, snapshot: Path, *, threads: int | None = None,
                progress: Progress | None = None) -> None:
        """Compares a whole step with a snapshot, which may be removed if this raises nothing.

        Raises ChecksumError if they differ, and as compare() of the package.
        """
        options = CallOptions(_abi.StOptions(), threads=threads, progress=progress)
        number, source = _number(step), encode_path(snapshot)
        options.check(options.run(lambda settings, diag: _abi.run_compare(
            self._path, number, source, settings, diag)))

    @overload
    def open(self, step: SupportsIndex, file: str | None = None) -> File: ...

    @overload
    def open(self, step: SupportsIndex, file: str | None = None, *, framework: str, device: Any = "cpu",
             threads: int | None = None) -> safe_open: ...

    def open(self, step: SupportsIndex, file: str | None = None, *, framework: str | None = None, device: Any = "cpu",
             threads: int | None = None) -> File | safe_open:
        """A file of a step, open: a File, or with a framework what safe_open() gives.

        file: a path within the snapshot. By default it is the only file with tensors, or the model's weights
            (model.safetensors) if these are one file. framework, device: as for safe_open().

        Raises FileNotFoundError (no such file), ArgumentError (several files), and as File and safe_open() do.
        """
        return self._folder(step).open(file, framework, device, threads)

    def load(self, step: SupportsIndex, file: str | None = None, framework: str = "pt", *, device: Any = "cpu",
             threads: int | None = None, progress: Progress | None = None) -> dict[str, Any]:
        """All tensors of a file of a step, as a dict of new arrays by their names.

        file: as for open(); the model's weights may be several files with an index. framework: "pt", "np" or another of
        safe_open(). Raises as open() and load_file() do.
        """
        return self._folder(step).load(file, framework, device, threads, progress)

    def get_tensor(self, step: SupportsIndex, name: str, framework: str = "pt", *, device: Any = "cpu",
                   threads: int | None = None) -> Any:
        """One tensor of a step. "FILE:NAME" names its file; it is needed if several files have the name.

        Raises TensorNotFound, ArgumentError (several files have it), and as safe_open.get_tensor() does.
        """
        return self._folder(step).get_tensor(name, framework, device, threads)

    # ---- inner ----

    @contextmanager
    def _opened(self) -> Iterator[ctypes.c_void_p]:
        run, diag = ctypes.c_void_p(), _abi.StDiag()
        check(_abi.run_open(self._path, None, ctypes.byref(run), ctypes.byref(diag)), diag)
        try:
            yield run
        finally:
            _abi.run_close(run)

    def _folder(self, step: SupportsIndex) -> Folder:
        number = _number(step)
        folder = os.path.join(os.fsdecode(self._path), str(number))
        if not os.path.isdir(folder):
            with self._opened():  # raises if it is not a run at all
                raise StepNotFound("%s: there is no step %d" % (os.fsdecode(self._path), number))
        return Folder(folder, "step %d" % number)

    def _is_snapshot(self, path: str, step: Step) -> bool:
        """Whether files have the names, sizes and times of those of a step, and so are taken for its snapshot."""
        root = path if step.is_directory else os.path.dirname(path)
        try:
            folder = self._folder(step)
            files = [os.path.join(place, name) for place, _, names in os.walk(path) for name in names] or [path]
            return len(files) == step.files and sum(map(os.path.getsize, files)) == step.nbytes and all(
                os.stat(os.path.join(root, file)).st_mtime_ns == os.stat(folder.archive(file)).st_mtime_ns
                for file in folder.archives())
        except FileNotFoundError:
            return False

    def _remove(self, call: Callable[[Any, Any], int], *, dry_run: bool, fsync: bool, step_done: StepDone | None,
                **settings: Any) -> list[Step]:
        removed: list[Step] = []

        def note(event: str, step: Step) -> None:
            if event == "dropped":
                removed.append(step)
            if step_done is not None:
                step_done(event, step)

        options = _Options(_abi.RunDropOptions(), step_done=note, **settings)
        options.struct.dry_run, options.struct.no_fsync = dry_run, not fsync
        options.check(options.run(call))
        return removed


class _Options(EventOptions):
    """The options of a call that reports steps."""

    def __init__(self, struct: Any, *, step_done: StepDone | None = None, **options: Any) -> None:
        super().__init__(struct, **options)
        self.tell("step_done", _abi.STEP_DONE, _step_of, step_done, _abi.RUN_EVENTS)


def _number(step: SupportsIndex) -> int:
    number = operator.index(step)
    if not 0 <= number <= _abi.RUN_STEP_MAX:
        raise ArgumentError("a step is 0 to 2^63, not %d" % number)
    return number


def _numbers(steps: Sequence[SupportsIndex]) -> Any:
    return (ctypes.c_uint64 * len(steps))(*map(_number, steps))


def _step_of(step: Any) -> Step:
    has_base = step.has_base and step.base != _abi.RUN_UNKNOWN
    return Step(step.step, step.file_count, step.original_nbytes, step.stored_nbytes, step.base if has_base else None,
                None if step.chain == _abi.RUN_UNKNOWN else step.chain, step.time_s, bool(step.is_directory))


def _steps_of(run: ctypes.c_void_p) -> list[Step]:
    steps, step = [], _abi.RunStep()
    for index in range(_abi.run_step_count(run)):
        check_status(_abi.run_step_info(run, index, ctypes.byref(step)))
        steps.append(_step_of(step))
    return steps
