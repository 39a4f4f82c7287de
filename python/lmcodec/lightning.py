"""Checkpoints of Lightning as archives.

    trainer = Trainer(plugins=[lmcodec.lightning.CheckpointIO()])
"""

from __future__ import annotations

import importlib
import os
import secrets
import sys
import threading
from typing import Any

from . import torch as _torch
from ._errors import ArgumentError, LMCError
from ._files.file import File

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

    level: "default", "fast" or "max". threads: None for one per core.
    max_chain: how many checkpoints in a row may be coded against the one before; 0: each stands alone. Such a chain is
        smaller. To read a checkpoint of it, the ones before are needed. They are kept as hard links in the folder
        .lmc-bases beside the checkpoints, as long as a checkpoint beside the folder needs them: move it with them.
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
        self._latest: tuple[str, ...] = ()  # links that the next checkpoint may need; the last one is its base
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
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
        """Removes a checkpoint, also of an earlier run, and bases that no other one needs."""
        name = _local(path)
        with self._lock:
            links = _links_of(name)
            if os.path.lexists(name):
                os.unlink(name)
            self._remove_links(links)

    def _save(self, checkpoint: dict[str, Any], name: str, folder: str) -> None:
        bases = os.path.join(folder, _BASES_FOLDER)
        chain = self._latest if len(self._latest) <= self._max_chain else ()
        if any(os.path.dirname(link) != bases or not os.path.exists(link) for link in chain):
            chain = ()
        work = os.path.join(folder, ".%s.tmp" % secrets.token_hex(8))  # `name` may be another name of a base
        try:
            _torch.save(checkpoint, work, level=self._level, threads=self._threads, fsync=self._fsync,
                        base=chain[-1] if chain else None, base_dirs=[bases] if chain else [])
            links = {*self._latest, *_links_of(name)}
            os.replace(work, name)
        finally:
            if os.path.lexists(work):
                os.unlink(work)
        self._latest = (*chain, *self._link(name, bases)) if self._max_chain else ()
        self._remove_links(links)

    def _link(self, name: str, bases: str) -> tuple[str, ...]:
        """A second name for a checkpoint, which stays when Lightning removes or replaces the first."""
        link = os.path.join(bases, "%s-%s" % (secrets.token_hex(4), os.path.basename(name)))
        try:
            os.makedirs(bases, exist_ok=True)
            os.link(name, link)
        except OSError:  # no hard links here: the next checkpoint stands alone
            return ()
        return (link,)

    def _remove_links(self, links: set[str]) -> None:
        """Removes those of these links that neither the next checkpoint needs nor one beside their folder."""
        links = links.difference(self._latest)
        for bases in {os.path.dirname(link) for link in links}:
            _remove_unneeded({link for link in links if os.path.dirname(link) == bases}, os.path.dirname(bases))


def _remove_unneeded(links: set[str], folder: str) -> None:
    """Removes those of these links that no checkpoint of the folder needs."""
    try:
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if not name.startswith(".") and os.path.isfile(path):
                links.difference_update(_chain_of(path))
        for link in links:
            os.unlink(link)
    except OSError:  # a file that cannot be read may need them, or another process removes them
        return


def _links_of(path: str) -> set[str]:
    """The links that a checkpoint needs, and those that are other names of it."""
    bases = os.path.join(os.path.dirname(path), _BASES_FOLDER)
    try:
        links = [os.path.join(bases, name) for name in os.listdir(bases)]
        return {*_chain_of(path), *(link for link in links if os.path.samefile(link, path))}
    except OSError:  # no such checkpoint, or no links
        return set()


def _chain_of(path: str) -> list[str]:
    """The links that a checkpoint needs: its bases, the bases of those, and so on. OSError."""
    bases = os.path.join(os.path.dirname(path), _BASES_FOLDER)
    chain: list[str] = []
    wanted = [path]
    while wanted:
        try:
            with File(wanted.pop()) as file:
                names = file.base_names
        except LMCError:  # another kind of file, which has no base
            continue
        for name in names:
            found = [os.path.join(bases, name + suffix) for suffix in ("", ".lmc")]
            link = next(filter(os.path.isfile, found), None)
            if link is not None and link not in chain:
                chain.append(link)
                wanted.append(link)
    return chain


def _local(path: Any) -> str:
    name: str = os.fspath(path)
    if "://" in name:
        raise NotImplementedError("checkpoints of lmcodec are local files, not %s" % name)
    return os.path.abspath(name)
