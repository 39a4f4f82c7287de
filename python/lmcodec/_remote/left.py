"""What a push leaves at the URL: models, or steps, that are not in the local store. They stay readable, and listed."""

from __future__ import annotations

import json
import os
import struct
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Mapping

from .._errors import ArgumentError, DataError, loads_untrusted
from .._files.file import Handle, open_path
from .._files.options import encode_path, path_array
from .._runs.kept import SUFFIX
from .._runs.local_store import RUN_LIST
from .chain import ChainFile, Search
from .store_list import Contents, is_safe, model_of

_ONE_BLOCK_NBYTES = 64 << 10  # of a tensor that is one block, whatever it is coded against
_SHOWN_MAX = 10  # models that a message names


class Left:
    """Models there that are not here. steps: their entries in run.json; those without one are no part of the run."""

    def __init__(self, contents: Contents, there: Mapping[str, int], names: set[str], is_run: bool) -> None:
        self._contents, self._is_run = contents, is_run
        self._files: dict[str, list[str]] = {}
        self.steps: dict[str, dict[str, Any]] = {}
        for path in there:
            name = model_of(path, is_run) if is_safe(path) else None
            if name is not None and name not in names:
                self._files.setdefault(name, []).append(path)
        if is_run and self._files:
            listed = contents.steps() if RUN_LIST in there else {}
            self.steps = {name: listed[name] for name in self._files if name in listed}
            self._files = {name: self._files[name] for name in self.steps}

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
        names = [name for name in self._files
                 if models and (not self._is_run or str(self.steps[name].get("base")) in models)]
        with ThreadPoolExecutor(self._contents.settings.requests) as pool:
            needed = [found & replaced for found in pool.map(self._bases_of, names)]
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

    def _bases_of(self, name: str) -> set[str]:
        """Paths at which the bases of a model may be found."""
        found: set[str] = set()
        for path in self._files[name]:
            if path.endswith(SUFFIX):
                try:
                    bases = self._contents.head(path).bases
                except DataError:  # damaged, or a copy that is named like an archive
                    continue
                found.update(base for base, _ in bases)
        if self._is_run:
            found |= {"%s/%s" % (self.steps[name].get("base"), base.partition("/")[2]) for base in found}
        return found | {base + SUFFIX for base in found}

    def _is_same(self, path: str, local: str, has_same_time: bool) -> bool:
        """Whether an archive there stores what the local one does, or cannot be read anyway.

        Hashes of tensors can be compared if their blocks have the same size. An archive that was stored again may have
        other blocks, but it has the time of the original file.
        """
        settings, requests = self._contents.settings, self._contents.requests
        try:
            old = ChainFile(self._contents.root.join(path), Search(None, (), settings, requests))
        except DataError:
            return True
        if not os.path.exists(local):
            return False
        new = open_path(encode_path(local), None, path_array([]))
        if not (old.handle.is_archive() and new.is_archive()) or old.handle.header() != new.header():
            return False
        assert old.source is not None
        pairs = list(zip(_hashes(old.source.content), _hashes(lambda first, nbytes: _part(local, first, nbytes))))
        sizes = _storage_sizes(new)
        is_small = [sizes[number] <= _ONE_BLOCK_NBYTES for number in range(len(pairs))]
        return all(before == after or has_same_time and not small for (before, after), small in zip(pairs, is_small))


def _json_text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _hashes(read: Callable[[int, int], bytes]) -> tuple[int, ...]:
    """The content hashes in the table of an archive (docs/archive.md, section 4)."""
    table = 8 + int.from_bytes(read(0, 8), "little")
    count, stored_nbytes = struct.unpack("<I16xQ", read(table + 12, 28))
    return struct.unpack("<%dQ" % count, read(table + 40 + stored_nbytes, 8 * count))


def _storage_sizes(handle: Handle) -> dict[int, int]:
    """Bytes of storages, by their numbers in the table. Views are numbered behind them."""
    return {tensor.number: tensor.storage_nbytes for tensor in handle.tensors().values()}


def _part(path: str, first: int, nbytes: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(first)
        return file.read(nbytes)
