"""Modules of libraries whose functions are replaced by stand-ins, and get them back."""

from __future__ import annotations

import sys
import threading
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any, Sequence

from .._files.options import Path
from .stand_ins import StandIns, make_stand_ins

_PACKAGES = ("transformers", "peft", "sentence_transformers", "accelerate")
_NOTHING = object()

_lock = threading.RLock()
_enabled: list[Enabled] = []
_changes: list[tuple[dict[str, Any], str, Any, Any]] = []  # names of a module, name, what it was, what it is


class Enabled:
    """What enable() returns. It is a context manager: the end of `with` is disable()."""

    def __init__(self, base_dirs: Sequence[Path]) -> None:
        self.base_dirs = list(base_dirs)
        with _lock:
            _enabled.append(self)
            if len(_enabled) == 1:
                _begin()

    def disable(self) -> None:
        """Takes this enable() back. Once all are taken back, the libraries are as they were."""
        with _lock:
            if self in _enabled:
                _enabled.remove(self)
                if not _enabled:
                    _end()

    def __enter__(self) -> Enabled:
        return self

    def __exit__(self, *_: object) -> None:
        self.disable()


def _base_dirs() -> list[Path]:
    return [folder for each in list(_enabled) for folder in each.base_dirs]


class _Finder(MetaPathFinder):
    """Patches modules of the libraries that are imported later."""

    def __init__(self) -> None:
        self._local = threading.local()

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.partition(".")[0] not in _PACKAGES or getattr(self._local, "is_searching", False):
            return None
        self._local.is_searching = True
        try:
            found = (finder.find_spec(name, path, target) for finder in sys.meta_path
                     if finder is not self and hasattr(finder, "find_spec"))
            spec = next((each for each in found if each is not None), None)
        finally:
            self._local.is_searching = False
        loader: Any = spec.loader if spec is not None else None
        if hasattr(loader, "exec_module"):
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                with _lock:
                    if _enabled:
                        _patch(module)

            try:
                loader.exec_module = exec_module
            except AttributeError:  # a loader that is not written in Python
                pass
        return spec


_finder = _Finder()
_stand_ins: StandIns | None = None


def _begin() -> None:
    global _stand_ins
    _stand_ins = make_stand_ins(_base_dirs)
    sys.meta_path.insert(0, _finder)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _PACKAGES and isinstance(module, ModuleType):
            _patch(module)


def _end() -> None:
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for names, name, before, now in reversed(_changes):
        if names.get(name) is now:  # nobody else has changed it
            if before is _NOTHING:
                del names[name]
            else:
                names[name] = before
    _changes.clear()


def _patch(module: ModuleType) -> None:
    assert _stand_ins is not None
    seekers, helpers, opens = _stand_ins
    names = vars(module)
    found = [(name, *seekers[id(value)]) for name, value in names.items() if id(value) in seekers]
    if found:
        found += [(name, *helpers[id(value)]) for name, value in names.items() if id(value) in helpers]
        found += [("open", _NOTHING, opens)] if "open" not in names else []
    taken = {id(now): (before, now) for pairs in (seekers, helpers) for before, now in pairs.values()}
    found += [(name, *taken[id(value)]) for name, value in names.items() if id(value) in taken]  # from another module
    for name, before, now in found:
        _changes.append((names, name, before, now))
        names[name] = now
