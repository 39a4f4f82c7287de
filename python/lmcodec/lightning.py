"""Checkpoints of Lightning as archives.

    trainer = Trainer(plugins=[lmcodec.lightning.CheckpointIO()])
"""

from __future__ import annotations

import importlib
import os
import secrets
import sys
import tempfile
import threading
from typing import Any

import torch

from . import _files
from . import torch as _torch
from ._errors import ArgumentError

__all__ = ["CheckpointIO"]

_BASES_FOLDER = ".lmc-bases"


def _base_classes() -> tuple[type, ...]:
    """CheckpointIO of the package that the program has imported: `lightning` or `pytorch_lightning`, or both."""
    packages = {"lightning": "lightning.fabric.plugins", "pytorch_lightning": "lightning_fabric.plugins"}
    used = [package for package in packages if package in sys.modules]
    found: list[type] = []
    for package in used or packages:
        try:
            found.append(importlib.import_module(packages[package]).CheckpointIO)
        except ImportError:
            continue
        if not used:
            break
    if not found:
        raise ImportError("lmcodec.lightning needs lightning or pytorch_lightning")
    return tuple(dict.fromkeys(found))


_Base: Any = type("_Base", _base_classes(), {})


class CheckpointIO(_Base):  # type: ignore[misc]
    """Saves checkpoints as archives, under the paths that Lightning gives; loads archives and plain checkpoints.

    level: "default", "fast" or "max". threads: None for one a core.
    max_chain: how many checkpoints in a row may be coded against the one before; 0: each stands alone. Such a chain is
        smaller. To read a checkpoint of it, the ones before are needed. They are kept as hard links in the folder
        .lmc-bases beside the checkpoints, as long as a checkpoint of this run needs them: move the folder with them.
    fsync: True waits until the bytes are on the disk.

    The name stays *.ckpt, since Lightning looks for that path when it resumes. `lmc-st restore a.ckpt -o b.ckpt` gives
    the file that torch.load reads, lmcodec.torch.load("a.ckpt") its content. Methods raise as convert() and
    lmcodec.torch.load() do; NotImplementedError for paths that are URLs.
    """

    def __init__(self, level: str = "default", *, threads: int | None = None, max_chain: int = 0,
                 fsync: bool = False) -> None:
        if max_chain < 0:
            raise ArgumentError("max_chain is 0 or more, not %d" % max_chain)
        self._level, self._threads, self._fsync, self._max_chain = level, threads, fsync, max_chain
        self._chains: dict[str, tuple[str, ...]] = {}  # of each checkpoint, the links that it needs
        self._latest: tuple[str, ...] = ()  # links that the next checkpoint may need; the last one is its base
        self._links: set[str] = set()
        self._lock = threading.Lock()

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Writes `checkpoint` to `path`, whole or not at all. It replaces a file there."""
        if storage_options is not None:
            raise TypeError("CheckpointIO of lmcodec takes no storage_options")
        name = _local(path)
        folder = os.path.dirname(name)
        os.makedirs(folder, exist_ok=True)
        with self._lock:
            self._save(checkpoint, name, folder)

    def load_checkpoint(self, path: Any, map_location: Any = lambda storage, location: storage,
                        weights_only: bool | None = None) -> dict[str, Any]:
        """The checkpoint, by torch.load(); `map_location` and `weights_only` are for that."""
        name = _local(path)
        if not os.path.isfile(name):
            raise FileNotFoundError(2, "Checkpoint file not found", name)
        loaded: dict[str, Any] = _torch.load(name, map_location, weights_only=weights_only, threads=self._threads,
                                             base_dirs=[os.path.join(os.path.dirname(name), _BASES_FOLDER)])
        return loaded

    def remove_checkpoint(self, path: Any) -> None:
        """Removes a checkpoint, and bases that no other one needs."""
        name = _local(path)
        with self._lock:
            if os.path.lexists(name):
                os.unlink(name)
            self._chains.pop(name, None)
            self._remove_links()

    def _save(self, checkpoint: dict[str, Any], name: str, folder: str) -> None:
        bases = os.path.join(folder, _BASES_FOLDER)
        chain = self._latest if len(self._latest) <= self._max_chain else ()
        if any(os.path.dirname(link) != bases or not os.path.exists(link) for link in chain):
            chain = ()
        work = os.path.join(folder, ".%s.tmp" % secrets.token_hex(8))  # `name` may be another name of a base
        try:
            with tempfile.NamedTemporaryFile(dir=folder, prefix=".", suffix=".tmp") as plain:
                torch.save(checkpoint, plain)
                plain.flush()
                _files.convert(plain.name, work, level=self._level, threads=self._threads, fsync=self._fsync,
                               base=chain[-1] if chain else None, base_dirs=[bases] if chain else [])
            os.replace(work, name)
        finally:
            if os.path.lexists(work):
                os.unlink(work)
        self._chains[name] = chain
        self._latest = (*chain, *self._link(name, bases)) if self._max_chain else ()
        self._remove_links()

    def _link(self, name: str, bases: str) -> tuple[str, ...]:
        """A second name for a checkpoint, which stays when Lightning removes or replaces the first."""
        link = os.path.join(bases, "%s-%s" % (secrets.token_hex(4), os.path.basename(name)))
        try:
            os.makedirs(bases, exist_ok=True)
            os.link(name, link)
        except OSError:  # no hard links here: the next checkpoint stands alone
            return ()
        self._links.add(link)
        return (link,)

    def _remove_links(self) -> None:
        self._chains = {name: chain for name, chain in self._chains.items() if os.path.exists(name)}
        needed = set(self._latest).union(*self._chains.values())
        for link in self._links - needed:
            try:
                os.unlink(link)
            except FileNotFoundError:
                pass
        self._links &= needed


def _local(path: Any) -> str:
    name: str = os.fspath(path)
    if "://" in name:
        raise NotImplementedError("checkpoints of lmcodec are local files, not %s" % name)
    return os.path.abspath(name)
