"""The local checkpoint of an inference engine: a plain directory that holds one version, and is replaced as a whole."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager
from typing import Any, Iterator

from .._errors import ArgumentError
from .._system import exchange, locked, sync_directory

# SGLang keeps the version of a local checkpoint here (sglang.srt.weight_sync.local_checkpoint, `SYNC_DIR`). It takes
# nothing from the trainer's directory if this says that the version is there already.
_SYNC_DIR, _SGLANG_STATE, _OWN_STATE = ".weight_sync", "state.json", "lmc.json"


class LocalCheckpoint:
    """A directory with a checkpoint and `.weight_sync/`, which says what version of which training it is.

    path: of the directory, without links. Beside it are `.NAME.lmc-lock` and, while a version is made, `.NAME.lmc-next`
    and `.NAME.lmc-old`; `held()` removes what a killed process left of the two.

    version: what it holds, None if that is unknown. training: of whom, as publish() named it; None if unknown.
    is_replaceable: it is not there, empty, or has been made by pull() or SGLang. These are as of the last read().
    """

    version: int | None
    training: str | None
    is_replaceable: bool

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        parent, name = os.path.split(self.path)
        if not name:
            raise ArgumentError("%s: cannot be a local checkpoint" % path)
        self._lock, self.stage, self._old = (os.path.join(parent, ".%s.lmc-%s" % (name, what))
                                             for what in ("lock", "next", "old"))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Other threads and processes wait until `with` ends. What is there is read first."""
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(self._lock, "ab") as file, locked(file):
            if os.path.isdir(self._old) and not os.path.lexists(self.path):  # a kill between two renames
                os.rename(self._old, self.path)
            self.clear()
            self._read()
            yield

    def clear(self) -> None:
        """Removes unfinished work."""
        parent, name = os.path.split(self.stage)
        for left in (self._old, self.stage, os.path.join(parent, ".%s.lmc-st-partial" % name)):
            if os.path.lexists(left):
                shutil.rmtree(left)

    def replace(self, version: int, training: str | None, fsync: bool) -> None:
        """The directory `stage` becomes the checkpoint, with its version. A kill leaves the old one or the new one,
        except where the system cannot exchange two directories: there it may leave none, until the next held()."""
        folder = os.path.join(self.stage, _SYNC_DIR)
        os.makedirs(folder, exist_ok=True)
        _write(os.path.join(folder, _OWN_STATE), {"version": version, "training": training}, fsync)
        _write(os.path.join(folder, _SGLANG_STATE), {"version": "%06d" % version}, fsync)
        if fsync:
            sync_directory(folder)
            sync_directory(self.stage)
        if not os.path.lexists(self.path):
            os.rename(self.stage, self.path)
        elif not exchange(self.stage, self.path):
            os.rename(self.path, self._old)
            os.rename(self.stage, self.path)
        if fsync:
            sync_directory(os.path.dirname(self.path))
        self.clear()

    def _read(self) -> None:
        self.version = self.training = None
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            names = []
        self.is_replaceable = not names or _SYNC_DIR in names
        own, shown = (_object_of(os.path.join(self.path, _SYNC_DIR, name)) for name in (_OWN_STATE, _SGLANG_STATE))
        version, training = own.get("version"), own.get("training")
        if isinstance(version, int) and shown.get("version") == "%06d" % version:  # SGLang has changed nothing since
            self.version, self.training = version, training if isinstance(training, str) else None


def _object_of(path: str) -> dict[str, Any]:
    """A JSON object; an empty one if the file is not there, or is something else."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: str, content: dict[str, Any], fsync: bool) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        if fsync:
            os.fsync(file.fileno())
