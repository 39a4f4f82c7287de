"""What a file of torch.save() or NumPy has besides tensors, which load_file() leaves out.

The pickle of a file of torch is read as a graph: no class of it is looked up or made, and nothing of it is called.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import warnings
from typing import Any, ClassVar, Iterator

from . import members
from .file import File
from .options import Path
from .original import Original

_START_NBYTES = 1 << 20  # of the file, in which its pickle ends: of 5,000 tensors. It takes half a second
_NAMES_MAX = 8  # in the warning
_PATH_CHARS = 200  # of each
_ARGS_MAX = 100  # of a call, and items of a tuple that is a key
_READS_OBJECTS = "lmcodec.numpy.load(allow_pickle=True)"
_ENTRY = struct.Struct("<4s5H3I2H")  # the local header of an entry of a ZIP file


def warn_of_left_out(file: File, path: Path, *, stacklevel: int) -> None:
    """Warns if a file of torch.save() or NumPy has entries that are not tensors. file: it or its archive, open, at
    `path`."""
    if type(file) is not File or file.container not in ("zip", "npy"):
        return
    try:
        names, reader = _left_out_of(file, path)
    except Exception:  # a long pickle, or a file that is not understood: nothing can be said
        return
    if names:
        more = " and %d more" % (len(names) - _NAMES_MAX) if len(names) > _NAMES_MAX else ""
        warnings.warn("%s: load_file() gives the tensors, and leaves out %s%s: %s gives all"
                      % (os.fsdecode(path), ", ".join(map(_shown, names[:_NAMES_MAX])), more, reader),
                      stacklevel=stacklevel + 1)


def _shown(name: str) -> str:
    return name if name.isprintable() else repr(name)


def _left_out_of(file: File, path: Path) -> tuple[list[str], str]:
    """What is left out, and the call that gives all."""
    if file.container == "npy":
        return [] if file.tensors else ["all of it (%s)" % members.OBJECTS], _READS_OBJECTS
    content = Original(file).read(0, _START_NBYTES) if file.is_archive else _start_of_plain(path)
    if members.is_of_torch(content):
        return list(_names(_object_of(content), "", {}, set())), "lmcodec.torch.load()"
    found = members.left_out(file)
    reader = _READS_OBJECTS if members.OBJECTS in found.values() else "lmcodec.numpy.load()"
    return ["%s (%s)" % (name[:_PATH_CHARS], reason) for name, reason in found.items()], reader


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
    is_tensor: bool  # among what it was made of is the storage of a tensor
    args: tuple[Any, ...]
    entries: list[tuple[Any, Any]]
    state: Any

    def __new__(cls, *args: Any, **options: Any) -> _Node:
        if len(args) > _ARGS_MAX:  # a copy for each call
            raise ValueError("a call with many arguments")
        self = super().__new__(cls)
        self.args, self.state, self.entries = args, None, []
        self.is_tensor = any(map(_is_tensor, args))
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
    """The one that is written in Python: it takes no memory by numbers of the file, nor time without end."""

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)

    def find_class(self, module: str, name: str) -> Any:
        return _OrderedDict if (module, name) == ("collections", "OrderedDict") else _Node

    def persistent_load(self, pid: Any) -> Any:
        return _Storage()

    def load_bytearray8(self) -> None:
        raise ValueError("a bytearray, whose size the file chooses")

    dispatch[pickle.BYTEARRAY8[0]] = load_bytearray8


def _checking_keys(opcode: bytes, keys: slice) -> None:
    """Refuses keys, at these places of the stack, that take long to hash: a tuple of tuples of the same ones."""
    load = pickle._Unpickler.dispatch[opcode[0]]

    def checked(reader: Any) -> None:
        for key in reader.stack[keys]:
            if isinstance(key, tuple) and (len(key) > _ARGS_MAX or any(isinstance(part, tuple) for part in key)):
                raise ValueError("a key of many parts")
        load(reader)

    _Reader.dispatch[opcode[0]] = checked


_checking_keys(pickle.SETITEM, slice(-2, -1))
for _opcode, _step in ((pickle.SETITEMS, 2), (pickle.DICT, 2), (pickle.ADDITEMS, 1), (pickle.FROZENSET, 1)):
    _checking_keys(_opcode, slice(None, None, _step))


# ---- names ----

def _names(value: Any, path: str, known: dict[int, bool], seen: set[int]) -> Iterator[str]:
    """Paths of the largest parts that have no tensor. Empty ones are no loss. seen: ids of what has one."""
    if isinstance(value, (dict, list, tuple)) and not value:
        return
    if not _has_tensor(value, known):
        yield path or "all of it"
    elif not _is_tensor(value) and id(value) not in seen:
        seen.add(id(value))
        for key, part in _parts(value, seen):
            is_short = isinstance(key, str) or isinstance(key, int) and key.bit_length() <= 64
            name = str(key) if is_short else type(key).__name__
            yield from _names(part, ("%s.%s" % (path, name) if path else name)[:_PATH_CHARS], known, seen)


def _parts(value: Any, seen: set[int]) -> list[tuple[Any, Any]]:
    """What is in a container. The state of an object is given once."""
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    if not isinstance(value, _Node):
        return []
    if value.is_ordered_dict or id(value.state) in seen:
        return value.entries
    seen.add(id(value.state))
    return [*value.entries, *_parts(value.state, seen)]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, _Storage) or isinstance(value, _Node) and value.is_tensor


def _has_tensor(value: Any, known: dict[int, bool]) -> bool:
    """known: by id, of the parts that were looked at. One within itself has none."""
    if _is_tensor(value):
        return True
    if id(value) not in known:
        known[id(value)] = False
        if isinstance(value, _Node):
            parts = [part for _, part in value.entries]
            parts += [*value.args] if value.is_ordered_dict else [*value.args, value.state]
        else:
            parts = [part for _, part in _parts(value, set())]
        known[id(value)] = any(_has_tensor(part, known) for part in parts)
    return known[id(value)]
