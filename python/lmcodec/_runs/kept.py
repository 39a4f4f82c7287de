"""What runs and stores share: the folders of what they keep, tensors that have no file yet, and events."""

from __future__ import annotations

import importlib
import os
import tempfile
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence, TypeVar

from .._errors import ArgumentError, TensorNotFound
from .._files.file import File
from .._files.memory import shown_as
from .._files.model_files import weight_files
from .._files.options import CallOptions, Progress
from .._files.progress import call_of, part_of
from .._files.safe_open import safe_open
from .._system import is_plain_name, slashed

SUFFIX = ".lmc"
COPIED_NAME = ".lmc-copied"  # in a converted directory: copies whose names end in .lmc, a line each

_Told = TypeVar("_Told")


class Entry(NamedTuple):
    """A file of a folder as it is stored: the path or URL of an archive, or of a copy. nbytes: that it takes there; -1
    if a server does not list them."""

    path: str
    is_archive: bool
    nbytes: int


class Folder:
    """The folder of a step or a model: the archives of its files, and copies of the others.

    path: of the folder. shown: what the folder belongs to, as "step 10", for messages. file: a path within the original
    directory; the name of an original that was a single file.
    """

    def __init__(self, path: str, shown: str) -> None:
        self.path, self.shown = path, shown

    def find(self, file: str) -> str:
        """The archive of a file, or its copy if it has no archive. Raises FileNotFoundError."""
        path, copied = self._join(file), self.copied()
        if not is_inner(file):
            raise self._missing(path)
        if os.path.isfile(path + SUFFIX) and file + SUFFIX not in copied:
            return path + SUFFIX
        if os.path.isfile(path) and (file in copied or not file.endswith(SUFFIX)):
            return path
        raise self._missing(path)

    def archive(self, file: str) -> str:
        """The archive of a file that has one."""
        return self._join(file) + SUFFIX

    def archives(self) -> list[str]:
        """The files that have archives, sorted."""
        return archives_of(self.inner(), self.copied())

    def inner(self) -> list[str]:
        """The paths of all files in the folder."""
        return [slashed(os.path.relpath(os.path.join(place, name), self.path))
                for place, _, names in os.walk(self.path) for name in names]

    def entries(self) -> dict[str, Entry]:
        """All files, by their paths in the original directory. An archive goes before a copy of the same name."""
        copied = self.copied()
        found: dict[str, Entry] = {}
        for path in sorted(self.inner()):
            is_archive = path.endswith(SUFFIX) and path not in copied
            if path != COPIED_NAME and (is_archive or path not in found or not found[path].is_archive):
                found[path[:-len(SUFFIX)] if is_archive else path] = Entry(self._join(path), is_archive,
                                                                           self.nbytes_of(path))
        return found

    def nbytes_of(self, path: str) -> int:
        """Bytes of a file in the folder."""
        return os.stat(self._join(path)).st_size

    def copied(self) -> set[str]:
        """The copies whose names end in .lmc."""
        try:
            with open(self._join(COPIED_NAME), encoding="utf-8", errors="surrogateescape") as file:
                return set(file.read().split("\n"))
        except FileNotFoundError:  # of a single file
            return set()

    def open_file(self, path: str) -> File:
        """Opens a path that this object has given."""
        return File(path)

    def weights(self) -> list[str]:
        """The archives or copies of the model's weights. Raises FileNotFoundError."""
        return [path for path, _ in weight_files(self.path, "model", None)]

    # ---- contents ----

    def files(self, file: str | None) -> list[str]:
        """Where a file is; without a name, those that open() and load() take by default."""
        if file is not None:
            return [self.find(file)]
        files = self.archives()
        if len(files) == 1:
            return [self.archive(files[0])]
        try:
            return self.weights()
        except FileNotFoundError:
            raise self._several() from None

    def open(self, file: str | None, framework: str | None, device: Any, threads: int | None) -> File | safe_open:
        """A file, open: a File, or with a framework what safe_open() gives."""
        paths = self.files(file)
        if len(paths) > 1:
            raise self._several()
        opened = self.open_file(paths[0])
        return opened if framework is None else safe_open(opened, framework, device, threads=threads)

    def load(self, file: str | None, framework: str, device: Any, threads: int | None,
             progress: Progress | None) -> dict[str, Any]:
        """All tensors of a file, or of the model's weights."""
        with ExitStack() as stack:
            files = [stack.enter_context(safe_open(self.open_file(path), framework, device, threads=threads))
                     for path in self.files(file)]
            sizes, call = [one.content_nbytes for one in files], call_of(progress)
            loaded: dict[str, Any] = {}
            for number, one in enumerate(files):
                loaded.update(one.get_tensors(progress=part_of(call, sum(sizes[:number]), sum(sizes))))
            return loaded

    def get_tensor(self, name: str, framework: str, device: Any, threads: int | None) -> Any:
        """One tensor. "FILE:NAME" names its file. Raises TensorNotFound, ArgumentError (several files have it)."""
        found: list[tuple[str, str]] = []
        for file in self.archives():
            with self.open_file(self.archive(file)) as opened:
                names = [name, name[len(file) + 1:]] if name.startswith(file + ":") else [name]
                found += [(file, part) for part in names if part in opened.tensors][:1]
        if not found:
            raise TensorNotFound("%s: there is no tensor %r" % (self._where(), name))
        if len(found) > 1:
            raise ArgumentError("%s: several files have a tensor %r: FILE:NAME names one" % (self._where(), name))
        [(file, part)] = found
        with safe_open(self.open_file(self.archive(file)), framework, device, threads=threads) as tensors:
            return tensors.get_tensor(part)

    # ---- inner ----

    def _join(self, file: str) -> str:
        return os.path.join(self.path, file)

    def _missing(self, path: str) -> FileNotFoundError:
        return FileNotFoundError(2, "%s has no such file" % self.shown, path)

    def _several(self) -> ArgumentError:
        names = ", ".join(self.archives()) or "it has no archive"
        return ArgumentError("%s: a file must be named: %s" % (self._where(), names))

    def _where(self) -> str:
        """The folder, for messages."""
        return self.path


def is_inner(file: str) -> bool:
    """Whether a path stays within its folder."""
    path = slashed(file)
    return not path.startswith("/") and all(part in ("", ".") or is_plain_name(part) for part in path.split("/"))


def archives_of(files: Sequence[str], copied: set[str]) -> list[str]:
    """Of files in a folder, those that are archives, without `.lmc`, sorted. copied: copies that are named like one."""
    return sorted(path[:-len(SUFFIX)] for path in files if path.endswith(SUFFIX) and path not in copied)


@contextmanager
def written(tensors: Mapping[str, Any], path: str) -> Iterator[str]:
    """A safetensors file of these tensors, beside `path` until `with` ends. They may share memory. Errors within have
    the name "model.safetensors"."""
    first = next(iter(tensors.values()), None)
    name = {"jaxlib": "flax", "jax": "flax"}.get(type(first).__module__.partition(".")[0], "numpy")
    if hasattr(first, "data_ptr"):
        name = "torch"
        from .._arrays.torch_shared import unshared

        if all(hasattr(tensor, "data_ptr") for tensor in tensors.values()):  # else save_file() says what is wrong
            tensors = unshared(tensors)
    elif name == "numpy":
        tensors = {key: array.copy() if hasattr(array, "flags") and not array.flags.c_contiguous else array
                   for key, array in tensors.items()}
    module = importlib.import_module("lmcodec." + name)
    parent = os.path.dirname(os.path.abspath(path))
    os.stat(parent)  # its error names no temporary folder
    with tempfile.TemporaryDirectory(prefix=".lmcodec-", dir=parent) as folder:
        file = os.path.join(folder, "model.safetensors")
        with shown_as(file, "model.safetensors"):
            module.save_file(dict(tensors), file, {"format": "pt" if name == "torch" else "np"})
            yield file


@contextmanager
def temporary_place(name: str, folder: str | None) -> Iterator[str]:
    """A path with this name, in a new directory that goes when `with` ends. folder: where; None for the system's."""
    with tempfile.TemporaryDirectory(prefix="lmcodec-", dir=folder) as temporary:
        yield os.path.join(temporary, name)


class EventOptions(CallOptions):
    """The options of a call that reports steps or models, and what has been done with each."""

    def tell(self, field: str, kind: Any, told_of: Callable[[Any], _Told],
             call: Callable[[str, _Told], object] | None, events: Sequence[str]) -> None:
        """call(event, told_of(struct)) from now on. field: of the options' struct. kind: of its callback."""
        if call is not None:
            function = call
            setattr(self.struct, field, self.callback(
                kind, lambda user, event, described: function(events[event], told_of(described.contents))))
