"""What a file of torch.save() has besides tensors, which load_file() leaves out.

The pickle of such a file is read as a graph: no class of it is looked up or made, and nothing of it is called.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import warnings
from typing import Any, Iterator

from .file import File
from .options import Path
from .original import Original

_START_NBYTES = 1 << 20  # of the file, in which its pickle ends: of 5,000 tensors. It takes half a second
_NAMES_MAX = 8  # in the warning
_ENTRY = struct.Struct("<4s5H3I2H")  # the local header of an entry of a ZIP file


def warn_of_left_out(file: File, path: Path, *, stacklevel: int) -> None:
    """Warns if a file of torch.save() has entries that are no tensors. file: it or its archive, open, at `path`."""
    if type(file) is not File or file.container != "zip":
        return
    try:
        content = Original(file).read(0, _START_NBYTES) if file.is_archive else _start_of_plain(path)
        names = list(_names(_object_of(content), "", {}, set()))
    except Exception:  # no file of torch, a long pickle, or one that is not understood: nothing can be said
        return
    if names:
        more = " and %d more" % (len(names) - _NAMES_MAX) if len(names) > _NAMES_MAX else ""
        warnings.warn("%s: load_file() gives the tensors, and leaves out %s%s: lmcodec.torch.load() gives all"
                      % (os.fsdecode(path), ", ".join(names[:_NAMES_MAX]), more), stacklevel=stacklevel + 1)


# ---- the start of the file ----

def _start_of_plain(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(_START_NBYTES)


def _object_of(content: bytes) -> Any:
    """The graph of the pickle, which is the first entry that torch writes."""
    signature, _, _, method, _, _, _, _, _, name_nbytes, extra_nbytes = _ENTRY.unpack_from(content)
    name = content[_ENTRY.size:_ENTRY.size + name_nbytes]
    if signature != b"PK\3\4" or method != 0 or not name.endswith(b"/data.pkl"):
        raise ValueError("no file of torch.save()")
    return _Reader(io.BytesIO(content[_ENTRY.size + name_nbytes + extra_nbytes:])).load()


# ---- the pickle ----

class _Storage:
    """Bytes of a tensor."""


class _Node:
    """What a class or a function of the pickle would have given."""

    is_ordered_dict = False
    args: tuple[Any, ...]
    entries: list[tuple[Any, Any]]
    state: Any

    def __new__(cls, *args: Any, **options: Any) -> _Node:
        self = super().__new__(cls)
        self.args, self.state, self.entries = args, None, []
        return self

    def __init__(self, *args: Any, **options: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        self.entries.append((key, value))

    def append(self, value: Any) -> None:
        self[len(self.entries)] = value

    def extend(self, values: Any) -> None:
        for value in values:
            self.append(value)


class _OrderedDict(_Node):
    is_ordered_dict = True


class _Reader(pickle._Unpickler):
    """The one that is written in Python: it takes no memory by numbers of the file."""

    def find_class(self, module: str, name: str) -> Any:
        return _OrderedDict if (module, name) == ("collections", "OrderedDict") else type("_Of", (_Node,), {})

    def persistent_load(self, pid: Any) -> Any:
        return _Storage()


# ---- names ----

def _names(value: Any, path: str, known: dict[int, bool], seen: set[int]) -> Iterator[str]:
    """Paths of the largest parts that have no tensor. Those that say nothing are no loss. seen: ids of what has one."""
    if value is None or isinstance(value, (dict, list, tuple)) and not value:
        return
    if not _has_tensor(value, known):
        yield path or "all of it"
    elif not _is_tensor(value) and id(value) not in seen:
        seen.add(id(value))
        for key, part in _parts(value):
            yield from _names(part, "%s.%s" % (path, key) if path else str(key), known, seen)


def _parts(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    if not isinstance(value, _Node):
        return []
    state = [] if value.is_ordered_dict else _parts(value.state)
    return [*value.entries, *state]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, _Storage) or isinstance(value, _Node) and any(
        _is_tensor(argument) for argument in value.args)


def _has_tensor(value: Any, known: dict[int, bool]) -> bool:
    """known: by id, of the parts that were looked at. One within itself has none."""
    if _is_tensor(value):
        return True
    if id(value) not in known:
        known[id(value)] = False
        arguments = value.args if isinstance(value, _Node) else ()
        parts = [*(part for _, part in _parts(value)), *arguments]
        known[id(value)] = any(_has_tensor(part, known) for part in parts)
    return known[id(value)]
