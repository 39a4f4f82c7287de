"""What a push leaves at the URL: models, or steps, that are not in the local store. They stay readable, and listed."""

from __future__ import annotations

import json
import os
import struct
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Mapping

from .._errors import ArgumentError, DataError, loads_untrusted
from .._runs.kept import COPIED_NAME, SUFFIX
from .._runs.local_store import RUN_LIST
from .chain import ChainFile, Search
from .store_list import Contents, is_safe, model_of

_SHOWN_MAX = 10  # models that a message names


class Left:
    """Models there that are not here. steps: the entries of steps in run.json, which may lack some."""

    def __init__(self, contents: Contents, there: Mapping[str, int], names: set[str], is_run: bool) -> None:
        self._contents, self._is_run = contents, is_run
        self._files: dict[str, list[str]] = {}
        self.steps: dict[str, dict[str, Any]] = {}
        for path in there:
            name = model_of(path, is_run) if is_safe(path) else None
            if name is not None and name not in names:
                self._files.setdefault(name, []).append(path)
        if is_run and self._files and RUN_LIST in there:
            listed = contents.steps()
            self.steps = {name: listed[name] for name in self._files if name in listed}

    def run_list(self, root: str) -> bytes:
        """The list of the run `root`, with the entries of these steps."""
        path = os.path.join(root, RUN_LIST)
        with open(path, "rb") as file:
            value = loads_untrusted(file.read(), path)
        entries = {int(entry["step"]): entry for entry in [*value.pop("steps"), *self.steps.values()]}
        lines = ",\n".join(_json_text(entries[step]) for step in sorted(entries))
        return ('%s,"steps":[\n%s\n]}\n' % (_json_text(value)[:-1], lines)).encode()

    def check(self, root: str, replaced: set[str], same_time: set[str]) -> None:
        """Refuses to replace what these models are based on. replaced: files there that are put again, or removed.
        same_time: paths of local files that have the modification times of the ones there.

        The archives of a model that may be based on them are opened. Raises ArgumentError, DataError,
        UnsupportedError, OSError.
        """
        models = {model_of(path, self._is_run) for path in replaced}
        names = [name for name in self._files if any(self._may_need(name, model) for model in models if model)]
        with ThreadPoolExecutor(self._contents.settings.requests) as pool:
            needed = list(pool.map(lambda name: self._bases_of(name, replaced), names))
            paths = sorted(set().union(*needed))
            is_same = pool.map(lambda path: self._is_same(path, os.path.join(root, path), path in same_time), paths)
            changed = {path for path, same in zip(paths, is_same) if not same}
        lost = ["%s needs %s" % (name, model_of(path, self._is_run))
                for name, found in zip(names, needed) for path in sorted(found & changed)[:1]]
        if lost:
            more = ", and %d more" % (len(lost) - _SHOWN_MAX) if len(lost) > _SHOWN_MAX else ""
            raise ArgumentError(
                "%s: what is there and not in the local store would become unreadable, since its bases would be "
                "replaced: %s%s. Nothing was pushed. delete=True removes what is not in the local store; a push to "
                "another URL keeps it" % (self._contents.shown, ", ".join(lost[:_SHOWN_MAX]), more))

    def _may_need(self, name: str, other: str) -> bool:
        """Whether a model may be based on another one. A step without a known base may be based on any before it."""
        if not self._is_run:
            return True
        base = self.steps.get(name, {}).get("base", "unknown")
        return base is not None and (str(base) == other if isinstance(base, int) else int(other) < int(name))

    def _bases_of(self, name: str, replaced: set[str]) -> set[str]:
        """Those of the paths `replaced` at which the bases of a model may be. The base of a step has its name, in
        folders that may have other numbers."""
        folder, files = self._contents.folder_of(name) + "/", self._files[name]
        copied = self._contents.copied(name) if folder + COPIED_NAME in files else None
        found: set[str] = set()
        for path in files:
            if path.endswith(SUFFIX) and path[len(folder):] not in (copied or ()):
                try:
                    bases = self._contents.head(path).bases
                except DataError:  # damaged
                    continue
                found.update(base for base, _ in bases)
        found |= {base + SUFFIX for base in found}
        if not self._is_run:
            return found & replaced
        ends = {base.rpartition("/")[2] for base in found}
        return {path for path in replaced
                if path.rpartition("/")[2] in ends and self._may_need(name, path.partition("/")[0])}

    def _is_same(self, path: str, local: str, has_same_time: bool) -> bool:
        """Whether an archive there stores what the local one does, or cannot be read anyway.

        Hashes of tensors can be compared if their blocks have the same size. An archive that was stored again may have
        other blocks, but it has the time of the original file.
        """
        search = Search(None, (), self._contents.settings, self._contents.requests)
        try:
            old = ChainFile(self._contents.root.join(path), search)
        except DataError:
            return True
        if not os.path.exists(local):
            return False
        new = ChainFile(local, search)
        if not (old.handle.is_archive() and new.handle.is_archive()) or old.handle.header() != new.handle.header():
            return False
        assert old.source is not None
        before, after = _hashes(old.source.content), _hashes(lambda first, nbytes: _part(local, first, nbytes))
        return all(one == other or has_same_time and _has_other_blocks(old, new, number)
                   for number, (one, other) in enumerate(zip(before, after)))


def _has_other_blocks(old: ChainFile, new: ChainFile, number: int) -> bool:
    """Whether a tensor is stored in blocks of another size. One that is damaged counts."""
    try:
        block_nbytes = old.block_nbytes(number)
    except DataError:
        return True
    return block_nbytes != new.block_nbytes(number)


def _json_text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _hashes(read: Callable[[int, int], bytes]) -> tuple[int, ...]:
    """The content hashes in the table of an archive (docs/archive.md, section 4)."""
    table = 8 + int.from_bytes(read(0, 8), "little")
    count, stored_nbytes = struct.unpack("<I16xQ", read(table + 12, 28))
    return struct.unpack("<%dQ" % count, read(table + 40 + stored_nbytes, 8 * count))


def _part(path: str, first: int, nbytes: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(first)
        return file.read(nbytes)
