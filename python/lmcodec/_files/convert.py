"""Whole files and directories: convert, restore, verify, compare."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Any, BinaryIO, Callable, Sequence

from .. import _abi
from .._codec import level_of
from .._errors import ArgumentError, BaseError, DataError, UnsupportedError
from . import memory
from .options import CallOptions, Path, Progress, Sizes, encode_path

_SUFFIX = b".lmc"

FileDone = Callable[[str, str, int, int], object]


@dataclass(frozen=True)
class Result(Sizes):
    """The result of a call on whole files. For a directory, its numbers are sums over the files.

    nbytes, stored_nbytes: of the original file and of the archive. file_count, kept_count: of a directory: its files,
    and archives that an earlier run wrote. container: "safetensors", "zip", "npy", "gguf" or "raw". sha256: of the
    original file, if asked for. damages: salvage: an exception for each lost tensor. warnings: of a directory: one
    for each file that was copied though it looks like one to be converted.
    """

    nbytes: int
    stored_nbytes: int
    tensor_count: int
    is_archive: bool
    file_count: int
    kept_count: int
    container: str
    sha256: bytes | None = None
    damages: tuple[Exception, ...] = ()
    warnings: tuple[Exception, ...] = ()


def convert(src: Path, dst: Path | None = None, *, level: str = "default", threads: int | None = None,
            force: bool = False, fsync: bool = True, raw: bool = False, base: Path | None = None,
            base_dirs: Sequence[Path] = (), excludes: Sequence[str] = (), progress: Progress | None = None,
            file_done: FileDone | None = None) -> Result:
    """Writes the archive `dst` of the file `src`. For a directory, writes a directory whose models are archives.

    dst: src + ".lmc" by default; required if `src` is a directory.
    level: "default", "fast" or "max". threads: None for one per core.
    force: replaces an existing `dst`. fsync=False leaves it to the system when the bytes reach the disk.
    raw: takes a file of any kind, such as one of torch.save() in the format before torch 1.6.
    base: a file to code against, or a directory for a directory. The archive cannot be read without it.
    base_dirs: where bases of the base are looked for.
    excludes: for directories, patterns of files that are copied as they are.
    progress(done bytes, all bytes) and file_done(path, event, bytes before, bytes after; of a directory) are called
        from other threads, one at a time. An exception from them ends the call.

    Ctrl-C ends the call. It leaves nothing behind, or in a directory, what the next call continues from.
    Raises FileExistsError, other OSError, DataError (`src` is an archive already, or is damaged), LimitError,
    BaseError, ArgumentError, MemoryError.
    """
    options = CallOptions(_abi.StConvertOptions(), threads=threads, base=base, base_dirs=base_dirs, progress=progress)
    options.struct.level, options.struct.raw = level_of(level), raw
    options.struct.force, options.struct.no_fsync = force, not fsync
    options.exclude(excludes)
    options.tell_files(file_done)
    options.collect_warnings()
    source = encode_path(src)
    if dst is None and os.path.isdir(src):
        raise ArgumentError("%s is a directory: dst must be given" % os.fsdecode(src))
    target = source + _SUFFIX if dst is None else encode_path(dst)
    try:
        return run_with_result(_abi.st_convert, options, source, target)
    except DataError as error:
        if not raw and "this is not a safetensors file" in str(error):
            error.args = ("%s (raw=True takes a file of any kind)" % error,)
        raise


def restore(src: Path, dst: Path | None = None, *, threads: int | None = None, force: bool = False, fsync: bool = True,
            base: Path | None = None, base_dirs: Sequence[Path] = (), salvage: bool = False,
            progress: Progress | None = None, file_done: FileDone | None = None) -> Result:
    """Writes the original of the archive, or converted directory, `src`. Every byte is verified.

    dst: src without ".lmc" by default; required if `src` is a directory.
    base: of the archive; by default it is searched for in base_dirs and beside the archive.
    salvage: a damaged archive gives a safetensors file of the tensors that are sound; `damages` of the result has an
        exception for each one that is lost.
    Other arguments are those of convert(). Raises as convert() does, and ChecksumError, UnsupportedError.
    """
    options = CallOptions(_abi.StRestoreOptions(), threads=threads, base=base, base_dirs=base_dirs, progress=progress)
    options.struct.force, options.struct.no_fsync, options.struct.salvage = force, not fsync, salvage
    options.tell_files(file_done)
    options.collect_damages()
    source = encode_path(src)
    if dst is None and (not source.endswith(_SUFFIX) or os.path.isdir(source)):
        raise ArgumentError("%s is not a file *.lmc: dst must be given" % os.fsdecode(src))
    target = source[:-len(_SUFFIX)] if dst is None else encode_path(dst)
    return run_with_result(_abi.st_restore, options, source, target)


def verify(src: Path, *, threads: int | None = None, base: Path | None = None, base_dirs: Sequence[Path] = (),
           sha256: bool = False, progress: Progress | None = None) -> Result:
    """Reads a whole archive, or all archives of a directory, and verifies what restoring would give.

    sha256: asks for the hash of the original file; not for directories.
    Raises the exception of the first damage; its `damages` has one for each. Raises BaseError if the base is missing,
    and as restore() does.
    """
    options = CallOptions(_abi.StVerifyOptions(), threads=threads, base=base, base_dirs=base_dirs, progress=progress)
    options.struct.sha256 = sha256
    options.collect_damages()
    return run_with_result(_abi.st_verify, options, encode_path(src))


def compare(archive: Path, plain: Path, *, threads: int | None = None, base: Path | None = None,
            base_dirs: Sequence[Path] = (), progress: Progress | None = None) -> None:
    """Compares what an archive, or converted directory, restores to with `plain`, byte by byte.

    Raises ChecksumError if they differ, and as verify() does.
    """
    options = CallOptions(_abi.StCompareOptions(), threads=threads, base=base, base_dirs=base_dirs, progress=progress)
    archive_path, plain_path = encode_path(archive), encode_path(plain)
    options.check(options.run(lambda settings, diag: _abi.st_compare(archive_path, plain_path, settings, diag)))


def open_original(src: Path, *, threads: int | None = None, base: Path | None = None, base_dirs: Sequence[Path] = (),
                  progress: Progress | None = None) -> BinaryIO:
    """The original of an archive as an open file, positioned at its start: in memory, without a name; on Windows, a
    temporary file, which is removed when it is closed.

    Close it, or use `with`: until then it takes as much memory as the original has bytes. Takes and raises what
    restore() does.
    """
    options = CallOptions(_abi.StRestoreOptions(), threads=threads, base=base, base_dirs=base_dirs, progress=progress)
    source = encode_path(src)
    return memory.written(options.struct, lambda path: run_with_result(_abi.st_restore, options, source, path))


def run_with_result(call: Any, options: CallOptions, *arguments: Any) -> Result:
    """call(*arguments, options, result, diag), and its result. Raises what its status says."""
    result = _abi.StResult()
    status = options.run(lambda settings, diag: call(*arguments, settings, ctypes.byref(result), diag))
    try:
        options.check(status)
    except (DataError, BaseError, UnsupportedError):
        if not (getattr(options.struct, "salvage", 0) and result.damaged_count > 0):
            raise
    return Result(result.original_nbytes, result.stored_nbytes, result.tensor_count, bool(result.is_archive),
                  result.file_count, result.kept_count, _abi.st_container_name(result.container).decode(),
                  bytes(result.sha256) if getattr(options.struct, "sha256", 0) else None, tuple(options.damages),
                  tuple(options.warnings))
