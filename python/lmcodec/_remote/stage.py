"""Local copies of parts of a store of models at a URL."""

from __future__ import annotations

import json
import os
import posixpath
from typing import Any, Mapping

from .._errors import ArgumentError, LMCError
from .._files.file import open_path
from .._files.options import encode_path, path_array
from .._files.progress import ProgressCall
from .._runs.kept import SUFFIX
from .._runs.local_store import RUN_LIST, STORE_MARK
from .source import Source
from .store_list import Contents, copy_to, is_safe
from .stores import hide_secrets


class Stage:
    """A local copy of a part of a store, which is a store itself: models, and what they are based on."""

    def __init__(self, contents: Contents, folder: str, progress: ProgressCall | None = None) -> None:
        self._contents, self._folder, self._progress = contents, folder, progress
        self._done = self._total = 0

    def fetch(self, name: str, files: Mapping[str, int]) -> None:
        """Fetches a model, the base files of its archives, those of these, and so on. files: what is known to be in its
        folder, with sizes."""
        contents = self._contents
        if contents.is_http and (not files or contents.copied(name) is not None):
            raise ArgumentError("%s: model %s is a directory, whose files an HTTP server does not list: open() and "
                                "load() read its archives" % (contents.shown, name))
        with contents.requests.call():
            steps = contents.steps() if contents.is_run() else {}
        self.write_mark(steps)
        folder = contents.folder_of(name)
        waiting = ["%s/%s" % (folder, file) for file in files]
        self._total += sum(max(0, nbytes) for nbytes in files.values())
        wanted, seen = set(waiting), set(waiting)
        while waiting:
            path = waiting.pop(0)
            if not self._copy(path) and path in wanted:
                raise FileNotFoundError(2, "the file is gone", hide_secrets(contents.root.join(path).shown))
            more = [base for base in self._bases(path, steps) if base not in seen]
            waiting += more
            seen.update(more)

    def write_mark(self, steps: Mapping[str, Any]) -> None:
        """What makes the copy a store, or a run."""
        mark = {"format": "lmc-store", "version": 1}
        if self._contents.is_run():
            mark = {**json.loads(self._contents.text(RUN_LIST)), "steps": list(steps.values())}
        name = RUN_LIST if self._contents.is_run() else STORE_MARK
        with open(os.path.join(self._folder, name), "w", encoding="utf-8") as file:
            json.dump(mark, file)

    def _copy(self, path: str) -> bool:
        """False if there is no such file."""
        place = self._place(path)
        if os.path.exists(place):  # of a model that was fetched before
            return True
        with self._contents.requests.call():
            try:
                source: Source = self._contents.source(path)
            except (FileNotFoundError, PermissionError):
                return False
            os.makedirs(os.path.dirname(place), exist_ok=True)
            self._total = max(self._total, self._done + source.nbytes)
            with open(place, "xb") as file:
                copy_to(source, file, self._note)
        return True

    def _note(self, nbytes: int) -> None:
        self._done += nbytes
        if self._progress is not None:
            self._progress(self._done, self._total)

    def _place(self, path: str) -> str:
        return os.path.join(self._folder, *path.split("/"))

    def _bases(self, path: str, steps: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Where the base files of a fetched file may be; none if it is not an archive."""
        place = self._place(path)
        if not path.endswith(SUFFIX) or not os.path.isfile(place):
            return []
        try:
            handle = open_path(encode_path(place), None, path_array([]))
        except (LMCError, OSError):  # a copy that is named like an archive, or damage: the restoring tells
            return []
        recorded = [handle.base_info(number).path.decode() for number in range(handle.base_count())]
        folders = [os.path.dirname(path)]
        step, _, inner = folders[0].partition("/")
        if step in steps:  # a run names no paths: the files of a step are based on those of another one
            folders.append(posixpath.join(str(steps[step].get("base")), inner).rstrip("/"))
        found = []
        for name in recorded:
            for start in [""] if "/" in name else folders:
                found += [posixpath.join(start, name), posixpath.join(start, name + SUFFIX)]
        return [base for base in found if is_safe(base) and self._contents.model_of(base) is not None]
