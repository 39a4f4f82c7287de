"""load() and save() of the frameworks: what they were given, and objects that are written as archives.

A framework writes an object to a file of its own kind, and that is converted. To read it, the original is restored to
memory, and the framework reads that. A file that is not an archive is the framework's own matter.
"""

from __future__ import annotations

import functools
import io
import os
import secrets
import shutil
import tempfile
from contextlib import contextmanager
from typing import Any, BinaryIO, Callable, Iterator, Mapping, NamedTuple, Sequence

from .._errors import ArgumentError, LMCError
from . import memory
from .convert import convert
from .file import File
from .options import Path, Progress

_START_NBYTES = 9  # the length of a header, and its brace


class Given(NamedTuple):
    """What load() was given. source: a path, or an open file that the framework reads itself.

    container: "safetensors" of an archive or a safetensors file, that of its original for any other archive, None for
    what the framework reads itself.
    """

    source: Any
    container: str | None


@contextmanager
def located(source: Any, storage_options: Mapping[str, Any] | None) -> Iterator[Given]:
    """source: a path, a URL, an open file, or the bytes of a file. What is not a local file is in memory as long as
    `with` lasts. Bytes of no kind that File knows are refused."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        with memory.file_of(source) as path:
            File(path).close()
            container = container_of(path)
            yield Given(io.BytesIO(source) if container is None else path, container)
        return
    if isinstance(source, str) and "://" in source and not os.path.exists(source):
        from .._remote.download import download
        from .._remote.stores import hide_secrets

        with download(source, storage_options) as file:
            path = memory.path_of(file)
            with memory.shown_as(path, hide_secrets(source)):
                yield Given(path, container_of(path))
        return
    if storage_options is not None:
        raise ArgumentError("storage_options are for URLs, not for %r" % (source,))
    if not hasattr(source, "read"):
        yield Given(source, container_of(source))
    elif not _starts_like_ours(source):
        yield Given(source, None)
    elif _is_all_of_a_file(source):  # whose base may lie beside it
        yield Given(source.name, container_of(source.name))
    else:
        with memory.file_of(source.read()) as path:
            yield Given(path, container_of(path))


def container_of(path: Path) -> str | None:
    """As of Given. Raises as File does, if the file starts as an archive does."""
    try:
        with File(path) as file:
            return file.container if file.is_archive or file.container == "safetensors" else None
    except LMCError:
        with open(path, "rb") as plain:
            if plain.read(_START_NBYTES)[8:] == b"{":
                raise
        return None


def _starts_like_ours(file: Any) -> bool:
    """An open file is left where it was."""
    try:
        position = file.tell()
        start = file.read(_START_NBYTES)
        file.seek(position)
    except (AttributeError, OSError, ValueError):  # it cannot seek
        return False
    return isinstance(start, bytes) and start[8:] in (b"{", b" ")


def _is_all_of_a_file(file: Any) -> bool:
    if not isinstance(getattr(file, "raw", file), io.FileIO):  # gzip has the name of the file that it unpacks
        return False
    name = getattr(file, "name", None)
    try:
        return isinstance(name, str) and file.tell() == 0 and os.path.samestat(os.fstat(file.fileno()), os.stat(name))
    except (AttributeError, OSError, ValueError):
        return False


def pack(write: Callable[[BinaryIO], object], to: Any, *, level: str = "default", threads: int | None = None,
         fsync: bool = False, base: Path | None = None, base_dirs: Sequence[Path] = (),
         progress: Progress | None = None) -> None:
    """Writes what write(file) writes to an archive. The plain file is beside it meanwhile.

    to: a path, whose file is replaced, or an open file. Raises what write() raises, and as convert() does.
    """
    is_path = not hasattr(to, "write")
    if is_path and isinstance(to, str) and "://" in to:
        raise ArgumentError("%s: nothing is written to URLs: write a local file and copy it" % to)
    folder = os.path.dirname(os.path.abspath(os.fsdecode(to))) if is_path else tempfile.gettempdir()
    work = os.path.join(folder, ".lmcodec-%s.tmp" % secrets.token_hex(8))
    packed = to if is_path else work + ".lmc"
    mode = 0o666 if is_path else 0o600  # becomes that of the archive; others may look into a folder for temporary files
    try:
        with memory.shown_as(work, os.fsdecode(to) if is_path else work):
            with open(work, "xb", opener=lambda path, flags: os.open(path, flags, mode)) as plain:
                write(plain)
            convert(work, packed, level=level, threads=threads, force=True, fsync=fsync, raw=True, base=base,
                    base_dirs=base_dirs, progress=progress)
        if not is_path:
            with open(packed, "rb") as file:
                shutil.copyfileobj(file, to)
    finally:
        for name in (work, work + ".lmc"):
            if os.path.lexists(name):
                os.unlink(name)


def first_is_also(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The first argument, named as the framework does, may be given by the name that safetensors has for it, too."""
    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            if name not in options:
                return function(*args, **options)
            if args:
                raise TypeError("%s() got multiple values for argument %r" % (function.__name__, name))
            return function(options.pop(name), **options)
        return call
    return decorated
