"""Stand-ins for functions that look for a file *.safetensors, or read it. They take the archive *.safetensors.lmc if
there is no such file.

Libraries go on with the name of the file that is not there: they look at its end, and at names beside it.
"""

from __future__ import annotations

import builtins
import functools
import os
import pathlib
from typing import Any, Callable, NamedTuple, Sequence

import huggingface_hub
import safetensors
import safetensors.torch
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

from .. import torch as _torch
from .._files.options import Path
from .._files.safe_open import safe_open

_PLAIN, _SUFFIX = ".safetensors", ".lmc"

BaseDirs = Callable[[], Sequence[Path]]


def archive_of(path: Any) -> str | None:
    """The archive that stands in for a file; None if the file is there, or has no archive."""
    try:
        name = os.fsdecode(path)
    except TypeError:  # a descriptor
        return None
    is_wanted = name.endswith(_PLAIN) and not os.path.exists(name) and os.path.isfile(name + _SUFFIX)
    return name + _SUFFIX if is_wanted else None


class _Names:
    """A module with some names of its own."""

    def __init__(self, module: Any, **own: Any) -> None:
        self.__dict__.update(own)
        self.__dict__["_module"] = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._module, name, value)


class _KindOfPath(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, pathlib.Path)


class _Path(type(pathlib.Path()), metaclass=_KindOfPath):  # type: ignore[misc]
    def exists(self, **options: Any) -> bool:
        return super().exists(**options) or archive_of(self) is not None

    def is_file(self, **options: Any) -> bool:
        return super().is_file(**options) or archive_of(self) is not None


class StandIns(NamedTuple):
    """Pairs of an object and what stands in for it, by the id of the object.

    seekers: a module that has one of these looks for files, or reads them. helpers: are replaced there, too.
    open: for such a module. Objects live as long as their packages.
    """

    seekers: dict[int, tuple[Any, Any]]
    helpers: dict[int, tuple[Any, Any]]
    open: Any


def make_stand_ins(base_dirs: BaseDirs) -> StandIns:
    """base_dirs(): where bases of archives are looked for."""
    readers, readers_of_torch = _readers(base_dirs), _readers_of_torch(base_dirs)
    theirs = _Names(safetensors.torch, **readers_of_torch)
    pairs = [(safetensors, _Names(safetensors, torch=theirs, **readers)), (safetensors.torch, theirs)]
    for module, own in ((safetensors, readers), (safetensors.torch, readers_of_torch), (huggingface_hub, _finders())):
        pairs += [(getattr(module, name), function) for name, function in own.items()]
    path = _Names(os.path, **_tests())
    helpers = [(os, _Names(os, path=path)), (os.path, path), (pathlib.Path, _Path)]
    return StandIns({id(pair[0]): pair for pair in pairs}, {id(pair[0]): pair for pair in helpers},
                    functools.wraps(builtins.open)(_open))


def _tests() -> dict[str, Any]:
    exists, isfile = os.path.exists, os.path.isfile
    return {"exists": lambda path: exists(path) or archive_of(path) is not None,
            "isfile": lambda path: isfile(path) or archive_of(path) is not None}


def _open(file: Any, *arguments: Any, **options: Any) -> Any:
    mode = arguments[0] if arguments else options.get("mode", "r")
    archive = archive_of(file) if "r" in mode and "+" not in mode else None
    return builtins.open(file if archive is None else archive, *arguments, **options)


def _readers(base_dirs: BaseDirs) -> dict[str, Any]:
    original = safetensors.safe_open

    class _SafeOpen(type):
        def __call__(cls, filename: Any, *arguments: Any, **options: Any) -> Any:
            archive = archive_of(filename)
            if archive is None:
                return original(filename, *arguments, **options)
            framework = arguments[0] if arguments else options.pop("framework", "pt")
            return safe_open(archive, framework, *arguments[1:], base_dirs=base_dirs(), **options)

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, (original, safe_open))

    return {"safe_open": _SafeOpen("safe_open", (), {})}


def _readers_of_torch(base_dirs: BaseDirs) -> dict[str, Any]:
    original = {name: getattr(safetensors.torch, name) for name in ("load", "load_file", "load_model")}

    @functools.wraps(original["load_file"])
    def load_file(filename: Any, *arguments: Any, **options: Any) -> Any:
        archive = archive_of(filename)
        if archive is None:
            return original["load_file"](filename, *arguments, **options)
        return _torch.load_file(archive, *arguments, base_dirs=base_dirs(), **options)

    @functools.wraps(original["load_model"])
    def load_model(model: Any, filename: Any, *arguments: Any, **options: Any) -> Any:
        archive = archive_of(filename)
        if archive is None:
            return original["load_model"](model, filename, *arguments, **options)
        return _torch.load_model(model, archive, *arguments, base_dirs=base_dirs(), **options)

    return {"load": _torch.load, "load_file": load_file, "load_model": load_model}


def _finders() -> dict[str, Any]:
    """Functions of huggingface_hub. In a repository or in the cache of one, the archive is found by its own name."""
    download, find = huggingface_hub.hf_hub_download, huggingface_hub.try_to_load_from_cache
    file_exists, snapshot = huggingface_hub.file_exists, huggingface_hub.snapshot_download
    missing = (EntryNotFoundError, LocalEntryNotFoundError)

    @functools.wraps(download)
    def hf_hub_download(repo_id: str, filename: str, *arguments: Any, **options: Any) -> Any:
        try:
            return download(repo_id, filename, *arguments, **options)
        except missing:
            if not filename.endswith(_PLAIN):
                raise
            try:
                found = download(repo_id, filename + _SUFFIX, *arguments, **options)
            except missing:
                found = None
            if found is None:
                raise
            return found[:-len(_SUFFIX)] if isinstance(found, str) else found

    @functools.wraps(find)
    def try_to_load_from_cache(repo_id: str, filename: str, *arguments: Any, **options: Any) -> Any:
        found = find(repo_id, filename, *arguments, **options)
        if not isinstance(found, str) and filename.endswith(_PLAIN):
            archive = find(repo_id, filename + _SUFFIX, *arguments, **options)
            return archive[:-len(_SUFFIX)] if isinstance(archive, str) else found
        return found

    @functools.wraps(file_exists)
    def exists(repo_id: str, filename: str, **options: Any) -> Any:
        return file_exists(repo_id, filename, **options) or (
            filename.endswith(_PLAIN) and file_exists(repo_id, filename + _SUFFIX, **options))

    @functools.wraps(snapshot)
    def snapshot_download(repo_id: str, **options: Any) -> Any:
        patterns = options.get("allow_patterns")
        if patterns is not None:
            patterns = [patterns] if isinstance(patterns, str) else list(patterns)
            options["allow_patterns"] = [*patterns, *(name + _SUFFIX for name in patterns if name.endswith(_PLAIN))]
        return snapshot(repo_id, **options)

    return {"hf_hub_download": hf_hub_download, "try_to_load_from_cache": try_to_load_from_cache,
            "file_exists": exists, "snapshot_download": snapshot_download}
