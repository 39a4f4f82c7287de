"""PyTorch tensors: a drop-in replacement for safetensors.torch that also takes archives, and torch.load() of archives.

    from lmcodec.torch import load_file, save_file
"""

from __future__ import annotations

import inspect
import sys
from typing import Any, Mapping, Sequence

import torch

from ._arrays.torch_shared import check_dense_and_unshared, names_to_remove
from ._arrays.torch_types import name_of
from ._errors import ArgumentError, LMCError
from ._files import memory, writer
from ._files.convert import open_original
from ._files.file import File
from ._files.options import Path, Progress
from ._files.safe_open import safe_open

__all__ = ["load", "load_bytes", "load_file", "load_model", "save", "save_file", "save_model"]


def load_file(filename: Path, device: Any = "cpu", *, backend: str = "mmap", threads: int | None = None,
              base: Path | None = None, base_dirs: Sequence[Path] = (),
              progress: Progress | None = None) -> dict[str, Any]:
    """All tensors of an archive or a safetensors file, as a dict of new tensors by their names.

    device: "cpu", "cuda", "cuda:1", "mps", ..., or the number of an accelerator. Tensors for CUDA go through pinned
        memory, 256 MiB at a time: the next batch is decoded while the last one is copied.
    threads: how many share the work; None for one per core. base, base_dirs: as for File.
    backend: accepted for compatibility with safetensors; ignored.
    progress(done bytes, all bytes): called while the file is read.
    Raises OSError, DataError, ChecksumError, UnsupportedError, BaseError, DTypeError (this torch lacks a dtype),
    ArgumentError, MemoryError.
    """
    with safe_open(filename, "pt", device, backend=backend, threads=threads, base=base, base_dirs=base_dirs) as file:
        return file.get_tensors(progress=progress)


def load_bytes(data: bytes | bytearray | memoryview, *, threads: int | None = None) -> dict[str, Any]:
    """All tensors of the bytes of an archive or a safetensors file. Raises as load_file() does."""
    with memory.file_of(data) as path:
        return load_file(path, threads=threads)


def load(source: Any, map_location: Any = None, *, weights_only: bool | None = None, mmap: bool | None = None,
         threads: int | None = None, base: Path | None = None, base_dirs: Sequence[Path] = (),
         progress: Progress | None = None, **options: Any) -> Any:
    """For bytes, load_bytes(). For a path, torch.load() of the file, or of the original if it is an archive.

    source: the bytes of a file, as for safetensors.torch.load(), or a path such as `optimizer.pt.lmc`, as for
        torch.load(). An archive is restored to memory. Only torch unpickles it, by the rules of `weights_only`.
    mmap: True maps the restored original instead of copying it: less memory and time. Needs torch 2.1 or newer.
    map_location, weights_only and further options are for torch.load(). An archive of a safetensors file has nothing
        to unpickle: load_file() reads it to the device `map_location`.
    base, base_dirs: of the archive. Raises what torch.load() raises, and as restore() does.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return load_bytes(source, threads=threads)
    given = {"weights_only": weights_only, "mmap": mmap}
    options.update((name, value) for name, value in given.items() if value is not None)
    if mmap and "mmap" not in inspect.signature(torch.load).parameters:
        raise ArgumentError("torch %s has no mmap: it came with 2.1" % torch.__version__)
    container = _container_of(source)
    if container is None:
        return torch.load(source, map_location, **options)
    if container == "safetensors":
        if map_location is not None and not isinstance(map_location, (str, int, torch.device)):
            raise ArgumentError("an archive of a safetensors file has no map_location but a device")
        return load_file(source, "cpu" if map_location is None else map_location, threads=threads, base=base,
                         base_dirs=base_dirs, progress=progress)
    with open_original(source, threads=threads, base=base, base_dirs=base_dirs, progress=progress) as original:
        return torch.load(memory.path_of(original) if mmap else original, map_location, **options)


def save_file(tensors: dict[str, Any], filename: Path, metadata: Mapping[str, str] | None = None, *,
              plain: bool | None = None, level: str = "default", threads: int | None = None, fsync: bool = False,
              base: Path | None = None, base_dirs: Sequence[Path] = (), progress: Progress | None = None) -> None:
    """Writes tensors to a file, which replaces one of this name.

    tensors: contiguous and dense, of any shape and on any device. No two may share memory.
    metadata: a dict from strings to strings.
    plain: True writes a safetensors file, False an archive. By default a name *.safetensors gives a safetensors file,
        any other name an archive.
    level: "default", "fast" or "max". threads: None for one per core.
    fsync: True waits until the bytes are on the disk.
    base: an earlier file to code against, which the archive then needs to be read.
    Raises ValueError (no tensor, sparse, not contiguous), RuntimeError (shared memory), OSError, DTypeError, TypeError
    (metadata are no strings), LMCError.
    """
    writer.write(_entries(tensors), filename, metadata, plain=plain, level=level, threads=threads, fsync=fsync,
                  base=base, base_dirs=base_dirs, progress=progress)


def save(tensors: dict[str, Any], metadata: Mapping[str, str] | None = None, *, plain: bool = False,
         level: str = "default", threads: int | None = None) -> bytes:
    """The bytes of an archive, or with plain=True of a safetensors file. Arguments and exceptions as of save_file()."""
    return writer.to_bytes(_entries(tensors), metadata, plain=plain, level=level, threads=threads)


def save_model(model: Any, filename: Path, metadata: Mapping[str, str] | None = None, force_contiguous: bool = True,
               **options: Any) -> None:
    """Writes the state of a module. Of tensors that share memory only one is written; the metadata name the rest.

    force_contiguous: tensors that are not contiguous are copied. Options are those of save_file().
    Raises RuntimeError if no tensor covers the memory that some share, and as save_file() does.
    """
    state = model.state_dict()
    told = dict(metadata or {})
    for kept, removed in names_to_remove(state).items():
        for name in removed:
            told.setdefault(name, kept)
            del state[name]
    if force_contiguous:
        state = {name: tensor.contiguous() for name, tensor in state.items()}
    try:
        save_file(state, filename, told or metadata, **options)
    except ValueError as error:
        raise ValueError("%s Or use save_model(..., force_contiguous=True)." % error) from None


def load_model(model: Any, filename: Path, strict: bool = True, device: Any = "cpu",
               **options: Any) -> tuple[set[str], list[str]]:
    """Loads a file into a module. Options are those of load_file().

    Returns the names that the file lacks, and those that the module lacks.
    Raises RuntimeError if there are such names and `strict`, and as load_file() does.
    """
    state = load_file(filename, device, **options)
    removed = names_to_remove(model.state_dict(), preferred=state.keys())
    missing_names, unexpected = model.load_state_dict(state, strict=False)
    missing = set(missing_names)
    for names in removed.values():
        for name in names:
            if name in missing:
                missing.remove(name)
            else:
                unexpected.append(name)
    if strict and (missing or unexpected):
        raise RuntimeError("".join(["Error(s) in loading state_dict for %s:" % type(model).__name__,
                                    _listed("Missing", missing), _listed("Unexpected", unexpected)]))
    return missing, unexpected


def _listed(what: str, names: Any) -> str:
    shown = ", ".join('"%s"' % name for name in sorted(names))
    return "\n    %s key(s) in state_dict: %s" % (what, shown) if shown else ""


def _container_of(source: Any) -> str | None:
    """The container of an archive's original (File.container). None for what torch reads itself: an open Python file, a
    plain file, a file that does not start as archives do."""
    if hasattr(source, "read"):
        return None
    try:
        with File(source) as file:
            return file.container if file.is_archive else None
    except LMCError:
        with open(source, "rb") as plain:
            if plain.read(9)[8:] == b"{":  # after the length of the header
                raise
        return None


def _entries(tensors: Any) -> list[writer.Entry]:
    check_dense_and_unshared(tensors)
    return [_entry(name, tensor) for name, tensor in tensors.items()]


def _entry(name: str, tensor: Any) -> writer.Entry:
    if not tensor.is_contiguous():
        raise ValueError(
            "You are trying to save a non contiguous tensor: `%s` which is not allowed. It either means you are trying "
            "to save tensors which are reference of each other in which case it's recommended to save only the full "
            "tensors, and reslice at load time, or simply call `.contiguous()` on your tensor to pack it before saving."
            % name)
    dtype = name_of(tensor)
    tensor = tensor.detach().to("cpu")
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    if sys.byteorder == "big":
        raise NotImplementedError("tensors are written on little-endian machines alone")
    shape = [*tensor.shape]
    if dtype == "F4" and shape:
        shape[-1] *= 2
    return writer.Entry(name, dtype, shape, tensor.data_ptr(), tensor)
