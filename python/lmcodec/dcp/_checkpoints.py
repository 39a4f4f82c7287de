"""The checkpoints of a training run as a whole: what is there, whether it is sound, and what may go."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from typing import Callable, Iterator, Sequence

from .._errors import ArgumentError, LMCError
from .._files.convert import convert, restore
from .._files.convert import verify as verify_file
from .._files.file import File
from .._files.options import Path
from .._system import sync_directory
from . import _layout
from ._reader import Reader

_STAGING_PREFIX = ".lmc-drop-"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of lmcodec.dcp.Writer.

    path: its directory. save_id: of the save. base: the directory of its base as the manifest names it; None for a key
    frame. chain: how many bases it needs. stored_nbytes: of the files of all ranks. is_complete: False if a save
    ended before its `.metadata` was written. time: of that file, in seconds since 1970; of lmc_dcp.json without it.
    """

    path: str
    save_id: str
    base: str | None
    chain: int
    stored_nbytes: int
    is_complete: bool
    time: float


def checkpoints(folder: Path) -> list[Checkpoint]:
    """The checkpoints of lmcodec.dcp.Writer in a folder, by time. Directories with no readable manifest are left out.

    Nothing is unpickled. Raises OSError.
    """
    found = []
    with os.scandir(os.fsdecode(folder)) as entries:
        for entry in entries:
            manifest = _layout.readable_manifest(entry.path)
            if manifest is not None:
                found.append(_described(entry.path, manifest))
    return sorted(found, key=lambda checkpoint: (checkpoint.time, checkpoint.path))


def verify(path: Path, *, threads: int | None = None, base_dirs: Sequence[Path] = ()) -> None:
    """Reads and verifies all that loading the checkpoint could read: the files of all ranks, with their bases.

    threads: None for one per core. base_dirs: as for Reader. `.metadata` is unpickled: verify only what you trust.
    Raises DataError (damaged, not complete, a file is missing), BaseError, ArgumentError (written by torch's own
    writer), UnsupportedError, OSError.
    """
    reader = Reader(path, base_dirs=base_dirs)
    metadata = reader.read_metadata()
    reader.set_up_storage_reader(metadata, True)
    items = list(metadata.storage_data.values())
    if not all(map(_layout.is_stored_item, items)):
        raise ArgumentError("%s was not written by lmcodec.dcp.Writer" % os.fsdecode(path))
    for name in sorted({item.relative_path for item in items}):
        archive, base = reader.place_of(name)
        verify_file(archive, threads=threads, base=base, base_dirs=reader.chain[1:])


def drop(*paths: Path, threads: int | None = None, fsync: bool = True,
         dropped: Callable[[str], object] | None = None) -> None:
    """Removes checkpoints. Those beside them that are coded against one of these are first stored again, as key frames.

    paths: directories of checkpoints of Writer. All are looked at before anything changes. threads: None for one per
    core. dropped(path) is called for each that is gone. Only one process may drop or save in a folder at a time, and
    no save that is coded against one of these may be under way.

    A checkpoint that is stored again needs as much more space as its largest file has when it is restored. Its save_id
    and its content stay, so what is coded against it stays valid. A kill at any moment leaves readable every
    checkpoint that stays; the next call goes on. Files that Writer did not write are left where they are.
    Raises ArgumentError (not a checkpoint of Writer), DataError, BaseError, OSError.
    """
    directories = [os.path.abspath(os.fsdecode(path)) for path in paths]
    for directory in directories:
        if _layout.read_manifest(directory) is None:
            raise ArgumentError("%s holds no checkpoint of lmcodec.dcp.Writer" % directory)
    leaving = {os.path.realpath(directory) for directory in directories}
    staying = [dependent for directory in directories for dependent in _layout.direct_dependents_of(directory)
               if os.path.realpath(dependent) not in leaving]
    for directory in dict.fromkeys(staying):
        _store_as_key_frame(directory, threads, fsync)
    for directory in directories:
        _remove(directory, fsync)
        if dropped is not None:
            dropped(directory)


def _described(path: str, manifest: _layout.Manifest) -> Checkpoint:
    base = None if manifest.base is None else os.path.normpath(os.path.join(os.path.realpath(path), manifest.base))
    is_complete = os.path.exists(os.path.join(path, _layout.METADATA_NAME))
    last_written = _layout.METADATA_NAME if is_complete else _layout.MANIFEST_NAME
    return Checkpoint(path, manifest.save_id, base, manifest.chain, sum(map(os.path.getsize, _data_files(path))),
                      is_complete, os.path.getmtime(os.path.join(path, last_written)))


def _data_files(directory: str) -> Iterator[str]:
    for name in sorted(os.listdir(directory)):
        if _layout.DATA_NAME.fullmatch(name):
            yield os.path.join(directory, name)


def _store_as_key_frame(directory: str, threads: int | None, fsync: bool) -> None:
    """Replaces each file that needs a base by one that needs none; then the manifests say so, that of `directory` last.

    A file without a base is read as such whatever the manifest says, so that each state between can be read. Until
    the last manifest is replaced, another call does what a killed one has left.
    """
    manifest = _layout.read_manifest(directory)
    if manifest is None or manifest.base is None:
        return
    chain = _layout.chain_of(directory, (), manifest)
    _remove_staging(directory)
    staging = tempfile.mkdtemp(prefix=_STAGING_PREFIX, dir=directory)
    try:
        for path in _data_files(directory):
            with File(path) as file:
                if file.base_name is None:
                    continue
            name = os.path.basename(path)
            plain, archive = os.path.join(staging, "plain"), os.path.join(staging, name)
            restore(path, plain, threads=threads, fsync=False, base=os.path.join(chain[0], name), base_dirs=chain[1:])
            convert(plain, archive, level=manifest.level, threads=threads, fsync=fsync)
            os.unlink(plain)
            os.replace(archive, path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    if fsync:
        sync_directory(directory)
    _shorten_chains(directory, 0, fsync)
    _layout.write_manifest(directory, manifest.with_base(None, None, 0), fsync)


def _shorten_chains(directory: str, chain: int, fsync: bool) -> None:
    """What is coded against a checkpoint, which has `chain` bases now, gets the length of its shorter chain."""
    for dependent in _layout.direct_dependents_of(directory):
        manifest = _layout.read_manifest(dependent)
        if manifest is not None and manifest.chain != chain + 1:
            _shorten_chains(dependent, chain + 1, fsync)  # first: a length that is right ends the search for others
            shorter = manifest.with_base(manifest.base, manifest.base_save_id, chain + 1)
            _layout.write_manifest(dependent, shorter, fsync)


def _remove(directory: str, fsync: bool) -> None:
    """Removes what Writer wrote: `.metadata` first, since a directory without it is not a checkpoint."""
    _remove_staging(directory)
    complete = os.path.join(directory, _layout.METADATA_NAME)
    if os.path.exists(complete):
        os.unlink(complete)
        if fsync:
            sync_directory(directory)
    for path in _data_files(directory):
        os.unlink(path)
    os.unlink(os.path.join(directory, _layout.MANIFEST_NAME))
    if not os.listdir(directory):
        os.rmdir(directory)


def _remove_staging(directory: str) -> None:
    for name in os.listdir(directory):
        if name.startswith(_STAGING_PREFIX):
            shutil.rmtree(os.path.join(directory, name), ignore_errors=True)
