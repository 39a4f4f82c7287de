"""PyTorch tensors: safetensors.torch and torch.save(), torch.load() with archives.

    from lmcodec.torch import load_file, save_file                  # tensors, as safetensors.torch has them
    lmcodec.torch.save(checkpoint, "checkpoint.pt")                 # an archive of what torch.save() writes
    checkpoint = lmcodec.torch.load("checkpoint.pt")
"""

from __future__ import annotations

import ctypes
import inspect
import os
import pickle
import sys
from typing import IO, Any, Mapping, Sequence, overload

import torch

from . import _codec
from ._arrays.torch_shared import check_dense, check_dense_and_unshared, has_memory, names_to_remove
from ._arrays.torch_tensors import arrays, is_plain, refusal_of
from ._arrays.torch_types import NAMES, dtype_of, name_of, shape_of
from ._codec import row_nbytes_of
from ._errors import ArgumentError, DataError
from ._files import memory, objects, writer
from ._files.convert import open_original
from ._files.left_out import warn_of_left_out
from ._files.options import Path, Progress
from ._files.safe_open import safe_open
from ._system import IS_WINDOWS

__all__ = ["decode", "encode", "load", "load_file", "load_into", "load_model", "save", "save_file", "save_model"]


def load_file(filename: Path, device: Any = "cpu", *, backend: str = "mmap", threads: int | None = None,
              base: Path | None = None, base_dirs: Sequence[Path] = (), dtype: torch.dtype | None = None,
              storage_options: Mapping[str, Any] | None = None,
              progress: Progress | None = None) -> dict[str, torch.Tensor]:
    """All tensors of an archive or a safetensors file, as a dict of new tensors by their names.

    filename: a path, or a URL such as "s3://bucket/model.lmc"; storage_options are for fsspec then.
    dtype: such as torch.float32: tensors of floating point are converted to it while they are read. This takes less
        memory and time than to convert them later.
    device: "cpu", "cuda", "cuda:1", "mps", ..., or the number of an accelerator. Tensors for CUDA go through pinned
        memory, 256 MiB at a time: the next batch is decoded while the last one is copied.
    threads: how many share the work; None for one per core. base, base_dirs: as for File.
    backend: accepted for compatibility with safetensors; ignored.
    progress(done bytes, all bytes): called while the file is read; True shows a bar.
    Warns (UserWarning) about entries of a file of torch.save() or NumPy that are not tensors.
    Raises OSError, DataError, ChecksumError, UnsupportedError, BaseError, DTypeError (this torch lacks a dtype),
    ArgumentError, MemoryError.
    """
    with safe_open(filename, "pt", device, backend=backend, threads=threads, base=base, base_dirs=base_dirs,
                   storage_options=storage_options) as file:
        loaded = file.get_tensors(dtype=dtype, progress=progress)
        warn_of_left_out(file.file, filename, stacklevel=2)
        return loaded


def load_into(tensors: Mapping[str, torch.Tensor], filename: Path, *, threads: int | None = None,
              base: Path | None = None, base_dirs: Sequence[Path] = (),
              storage_options: Mapping[str, Any] | None = None, progress: Progress | None = None) -> None:
    """Reads the tensors of these names from a file into existing memory: `load_into(model.state_dict(), "m.lmc")`.

    tensors: contiguous ones in memory, of the dtype in the file, are decoded into directly: this takes a quarter of the
        time of load_file() and no extra memory. Others of the same shape are filled piece by piece, as Tensor.copy_()
        converts.
    Other arguments are those of load_file(). Further tensors of the file are not read.

    Raises TensorNotFound (the file lacks one of the names), ArgumentError (another shape, a tensor that cannot be
    written: sparse, nested, quantized, expanded, without memory of its size), and as load_file() does. If a name, a
    shape, a dtype or a tensor is wrong, or the base of the archive is missing, nothing has been written. After any
    other exception, such as ChecksumError, each tensor holds old content, new content, or both mixed: load again before
    you use them.
    """
    with safe_open(filename, "pt", threads=threads, base=base, base_dirs=base_dirs,
                   storage_options=storage_options) as file:
        file.get_tensors(list(tensors), out=tensors, progress=progress)


@overload
def load(data: bytes | bytearray | memoryview, *, threads: int | None = None) -> dict[str, torch.Tensor]: ...


@overload
def load(f: Any, map_location: Any = None, *, weights_only: bool | None = None, mmap: bool | None = None,
         threads: int | None = None, base: Path | None = None, base_dirs: Sequence[Path] = (),
         storage_options: Mapping[str, Any] | None = None, progress: Progress | None = None,
         **options: Any) -> Any: ...


@objects.first_is_also("data")
def load(f: Any, map_location: Any = None, *, weights_only: bool | None = None, mmap: bool | None = None,
         threads: int | None = None, base: Path | None = None, base_dirs: Sequence[Path] = (),
         storage_options: Mapping[str, Any] | None = None, progress: Progress | None = None, **options: Any) -> Any:
    """What torch.load() gives for a file, or for the original of an archive. For a safetensors file and its archive, as
    a file or as bytes, what safetensors.torch.load() gives: a dict of their tensors.

    f: a path, an open file, a URL, or bytes. An archive is restored to memory. Only torch unpickles it, by the rules of
        `weights_only`. An archive in an open file reaches to its end; the position is undefined afterwards.
    mmap: True maps the restored original instead of copying it: less memory and time. Needs torch 2.1 or newer. Copies
        on Windows, where a file that is mapped cannot be removed.
    map_location, weights_only and further options, by name, are for torch.load(). A safetensors file, or an archive of
        one, has nothing to unpickle: it is read to the device `map_location`, as by load_file().
    base, base_dirs: of the archive. storage_options: of a URL, for fsspec. Raises what torch.load() raises, and as
    restore() does.
    """
    given = {"weights_only": weights_only, "mmap": mmap}
    options.update((name, value) for name, value in given.items() if value is not None)
    if mmap and "mmap" not in inspect.signature(torch.load).parameters:
        raise ArgumentError("torch %s has no mmap: it came with 2.1" % torch.__version__)
    with objects.located(f, storage_options) as (source, container):
        if container is None:
            return _unpickled(source, map_location, options)
        if container == "safetensors":
            if map_location is not None and not isinstance(map_location, (str, int, torch.device)):
                raise ArgumentError("an archive of a safetensors file has no map_location but a device")
            return load_file(source, "cpu" if map_location is None else map_location, threads=threads, base=base,
                             base_dirs=base_dirs, progress=progress)
        with open_original(source, threads=threads, base=base, base_dirs=base_dirs, progress=progress) as original:
            if IS_WINDOWS:
                options.pop("mmap", None)
            return _unpickled(memory.path_of(original) if options.get("mmap") else original, map_location, options)


def _unpickled(source: Any, map_location: Any, options: dict[str, Any]) -> Any:
    """torch.load(), without its advice to turn off weights_only."""
    try:
        return torch.load(source, map_location, **options)
    except pickle.UnpicklingError as error:
        text = str(error).partition("WeightsUnpickler error: ")[2] or str(error)
        lines = [line for line in text.splitlines() if "weights_only" not in line and line.strip()]
        raise pickle.UnpicklingError("\n".join(lines) or "this is not a file of torch.save()") from None


def encode(tensor: torch.Tensor, *, level: str = "default", threads: int | None = 1, row_nbytes: int | None = None,
           base: torch.Tensor | None = None) -> bytearray:
    """lmcodec.encode() of a tensor of any dtype, on any device. A frame holds no shape.

    base: an earlier snapshot of the tensor, of as many bytes.
    Raises TypeError (not a tensor), ValueError (sparse, not contiguous), DTypeError, and as lmcodec.encode() does.
    """
    entry = _entry_of_one("tensor", tensor, "encode")
    if row_nbytes is None:
        row_nbytes = row_nbytes_of(tensor.shape, tensor.element_size())
    old = None if base is None else _entry_of_one("base", base, "encode").owner  # a copy must be kept alive
    return _codec.encode(_bytes_of(entry.owner), entry.dtype, level=level, threads=threads, row_nbytes=row_nbytes,
                         base=None if old is None else _bytes_of(old))


def decode(frame: Any, out: torch.Tensor | None = None, *, base: torch.Tensor | None = None,
           threads: int | None = 1) -> torch.Tensor:
    """lmcodec.decode() to a tensor.

    out: a contiguous tensor in host memory with as many bytes; it is returned. Autograd sees it change. By default a
        new one of the frame's dtype, with one dimension: reshape() gives it its shape.
    base: what the frame was encoded against, if it was. Raises DTypeError, ValueError, and as lmcodec.decode() does.
    """
    old = None if base is None else _entry_of_one("base", base, "decode").owner  # a copy must be kept alive
    old_bytes = None if old is None else _bytes_of(old)
    if out is None:
        content = _codec.decode(frame, base=old_bytes, threads=threads)
        head = _codec.info(frame)
        dtype = dtype_of(head.dtype)
        if len(content) % torch.empty(0, dtype=dtype).element_size():
            raise DataError("the frame has %d bytes, which are not whole values of %s" % (len(content), head.dtype))
        return torch.frombuffer(content, dtype=torch.uint8).view(dtype) if content else torch.empty(0, dtype=dtype)
    if not is_plain(out) or not out.is_contiguous():
        raise ArgumentError("out must be a dense, contiguous tensor in host memory, not quantized and not a view of "
                            "conjugate or negative values")
    refusal = refusal_of(out)
    if refusal is not None:
        raise ArgumentError("out " + refusal)
    arrays("cpu").begin_writing(out)
    _codec.decode(frame, _bytes_of(out), base=old_bytes, threads=threads)
    return out


def _entry_of_one(name: str, tensor: Any, call: str) -> writer.Entry:
    """The entry of an argument of encode() or decode(), the call."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError("a tensor of torch is wanted; lmcodec.%s() takes buffers" % call)
    check_dense({name: tensor})
    if not tensor.is_contiguous():
        raise ValueError("the %s is not contiguous: .contiguous() packs it" % name)
    return _entry(name, tensor)


def _bytes_of(tensor: torch.Tensor) -> Any:
    """The memory of a contiguous tensor in host memory, as a buffer."""
    nbytes = tensor.numel() * tensor.element_size()
    return (ctypes.c_ubyte * nbytes).from_address(tensor.data_ptr()) if nbytes else bytearray()


def save_file(tensors: dict[str, torch.Tensor], filename: Path, metadata: Mapping[str, str] | None = None, *,
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
    Raises ValueError (not a tensor, sparse, not contiguous), RuntimeError (shared memory), OSError, DTypeError,
    TypeError (metadata that are not strings), LMCError.
    """
    writer.write(_entries(tensors), filename, metadata, plain=plain, level=level, threads=threads, fsync=fsync,
                  base=base, base_dirs=base_dirs, progress=progress)


@overload
def save(tensors: dict[str, torch.Tensor], f: Mapping[str, str] | None = None,
         metadata: Mapping[str, str] | None = None, *, plain: bool = False, level: str = "default",
         threads: int | None = None) -> bytes: ...


@overload
def save(obj: Any, f: str | os.PathLike[str] | IO[bytes], *, level: str = "default", threads: int | None = None,
         fsync: bool = False, base: Path | None = None, base_dirs: Sequence[Path] = (),
         progress: Progress | None = None, **options: Any) -> None: ...


@objects.first_is_also("tensors")
def save(obj: Any, f: Any = None, metadata: Any = None, *, plain: bool = False, level: str = "default",
         threads: int | None = None, **options: Any) -> Any:
    """save(obj, f) writes an archive of what torch.save() writes: load() reads it. save(tensors) and save(tensors,
    metadata) return the bytes of an archive, where safetensors.torch.save() returns those of a safetensors file.

    f: a path, whose file is replaced, whole or not at all; or an open file, which gets one archive, up to its end. The
        result is an archive, whatever its name is: `lmc-st restore` gives the file of torch.save(). The plain file is
        beside it meanwhile.
    fsync: True waits until the bytes are on the disk. base, base_dirs: an earlier file to code against.
    Further options are for torch.save(), and given by name.
    tensors, metadata: as for save_file(). plain: True returns the bytes of a safetensors file.
    level: "default", "fast" or "max". threads: None for one per core.
    Raises what torch.save() raises, and as convert() and save_file() do.
    """
    if f is None and not isinstance(obj, dict):
        raise TypeError("a path or an open file is wanted, not None: only a dict of tensors is saved to bytes")
    if f is None or isinstance(f, Mapping):
        if options:
            raise TypeError("save() without a file takes no %r" % sorted(options)[0])
        if f is not None and metadata is not None:
            raise TypeError("metadata is given twice")
        return writer.to_bytes(_entries(obj), metadata if f is None else f, plain=plain, level=level, threads=threads)
    if metadata is not None or plain:
        raise TypeError("a file of torch.save() has no metadata, and is an archive: torch.save() writes a plain one")
    ours = {name: options.pop(name) for name in ("fsync", "base", "base_dirs", "progress") if name in options}
    return objects.pack(lambda file: torch.save(obj, file, **options), f, level=level, threads=threads, **ours)


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
    """Loads a file into a module. Options are those of load_file() but `dtype`.

    Parameters and buffers in memory that are contiguous, and of the shape and dtype in the file, are decoded to. Others
    are loaded and copied. Returns the names that the file lacks, and those that the module lacks.
    Raises RuntimeError if there are such names and `strict`, and as load_file() does. After an exception, parameters
    may hold old content, new content, or both mixed, as for load_into().
    """
    state = _loaded_state(model, filename, device, **options)
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


def _loaded_state(model: Any, filename: Path, device: Any, *, backend: str = "mmap", threads: int | None = None,
                  base: Path | None = None, base_dirs: Sequence[Path] = (),
                  storage_options: Mapping[str, Any] | None = None,
                  progress: Progress | None = None) -> dict[str, Any]:
    """The tensors of a file. Where the module has memory for one, it is the module's own tensor, which has been read.

    load_state_dict() then copies a tensor to itself, which is nothing, and its hooks see what the file holds.
    """
    with safe_open(filename, "pt", device, backend=backend, threads=threads, base=base, base_dirs=base_dirs,
                   storage_options=storage_options) as file:
        known = file.file.tensors
        out = {name: tensor for name, tensor in model.state_dict(keep_vars=True).items()
               if name in known and is_plain(tensor) and tensor.is_contiguous()
               and NAMES.get(tensor.dtype) == known[name].dtype
               and tuple(tensor.shape) == shape_of(known[name].dtype, known[name].shape)}
        loaded = file.get_tensors(out=out if device == "cpu" else None, progress=progress)
        warn_of_left_out(file.file, filename, stacklevel=3)
        return loaded


def _listed(what: str, names: Any) -> str:
    shown = ", ".join('"%s"' % name for name in sorted(names))
    return "\n    %s key(s) in state_dict: %s" % (what, shown) if shown else ""


def _entries(tensors: Any) -> list[writer.Entry]:
    check_dense_and_unshared(tensors)
    for name, tensor in tensors.items():
        if tensor.dim() == 0 and NAMES.get(tensor.dtype) == "F4":
            raise ArgumentError("tensor %r: files have no shape for the two values of %s without dimensions: save "
                                "tensor.reshape(1)" % (name, tensor.dtype))
    return [_entry(name, tensor) for name, tensor in tensors.items()]


def _entry(name: str, tensor: Any) -> writer.Entry:
    if not tensor.is_contiguous():
        raise ValueError(
            "You are trying to save a non contiguous tensor: `%s` which is not allowed. It either means you are trying "
            "to save tensors which are reference of each other in which case it's recommended to save only the full "
            "tensors, and reslice at load time, or simply call `.contiguous()` on your tensor to pack it before saving."
            % name)
    dtype = name_of(tensor)
    if tensor.device.type != "meta" and not has_memory(tensor):
        raise ArgumentError("tensor %r has no memory of its size" % name)
    tensor = tensor.detach().to("cpu")
    if tensor.numel() and not tensor.data_ptr():  # of a subclass, or of zeros alone
        raise ArgumentError("tensor %r has no memory of its own" % name)
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    if sys.byteorder == "big":
        raise NotImplementedError("tensors are written on little-endian machines alone")
    shape = [*tensor.shape]
    if dtype == "F4" and shape:
        shape[-1] *= 2
    return writer.Entry(name, dtype, shape, tensor.data_ptr(), tensor)
