"""NumPy arrays: safetensors.numpy and numpy.save(), numpy.load() with archives.

    from lmcodec.numpy import load_file, save_file                  # arrays by names, as safetensors.numpy has them
    lmcodec.numpy.savez("arrays.npz", a=array)                      # an archive of what numpy.savez() writes
    arrays = lmcodec.numpy.load("arrays.npz")

dtypes that NumPy lacks (bfloat16, fp8, fp4) come from ml_dtypes. An fp4 array has one byte per value.
"""

from __future__ import annotations

import os
import sys
from typing import IO, TYPE_CHECKING, Any, Mapping, Sequence, overload

import numpy

from ._arrays.numpy_arrays import name_of, pack_f4
from ._files import objects, writer
from ._files.convert import open_original
from ._files.left_out import warn_of_left_out
from ._files.options import Path, Progress
from ._files.safe_open import safe_open

__all__ = ["load", "load_file", "load_into", "save", "save_file", "savez"]


class _NotGiven:
    """The default of an argument that may be None."""

    def __repr__(self) -> str:
        return "<no value>"


_NOT_GIVEN: Any = _NotGiven()

if TYPE_CHECKING:
    Array = numpy.ndarray[Any, Any]


def load_file(filename: Path, *, backend: str = "mmap", threads: int | None = None, base: Path | None = None,
              base_dirs: Sequence[Path] = (), dtype: Any = None,
              storage_options: Mapping[str, Any] | None = None,
              progress: Progress | None = None) -> dict[str, Array]:
    """All tensors of an archive or a safetensors file, as a dict of new arrays by their names.

    filename: a path, or a URL such as "s3://bucket/model.lmc"; storage_options are for fsspec then.
    dtype: such as "float32": tensors of floating point are converted to it while they are read. This takes less
        memory and time than to convert them later.
    threads: how many share the work; None for one per core. base, base_dirs: as for File.
    backend: accepted for compatibility with safetensors; ignored.
    progress(done bytes, all bytes): called while the file is read; True shows a bar.
    Warns (UserWarning) about arrays of a NumPy file that are not tensors: compressed ones, and those of Python
    objects.
    Raises OSError, DataError, ChecksumError, UnsupportedError, BaseError, DTypeError, MemoryError.
    """
    with safe_open(filename, "np", backend=backend, threads=threads, base=base, base_dirs=base_dirs,
                   storage_options=storage_options) as file:
        loaded = file.get_tensors(dtype=dtype, progress=progress)
        warn_of_left_out(file.file, filename, stacklevel=2)
        return loaded


def load_into(arrays: Mapping[str, Array], filename: Path, *, threads: int | None = None, base: Path | None = None,
              base_dirs: Sequence[Path] = (), storage_options: Mapping[str, Any] | None = None,
              progress: Progress | None = None) -> None:
    """Reads the tensors of these names from a file into arrays that exist.

    arrays: contiguous ones of the dtype in the file are decoded into directly: this takes a quarter of the time of
        load_file() and no extra memory. Others of the same shape are filled piece by piece, as `array[...] = tensor`
        converts.
    Other arguments are those of load_file(). Further tensors of the file are not read.

    Raises TensorNotFound (the file lacks one of the names), ArgumentError (another shape, read-only), and as
    load_file() does. If a name, a shape or a dtype is wrong, or the base of the archive is missing, nothing has been
    written. After any other exception, such as ChecksumError, each array holds old content, new content, or both mixed.
    """
    with safe_open(filename, "np", threads=threads, base=base, base_dirs=base_dirs,
                   storage_options=storage_options) as file:
        file.get_tensors(list(arrays), out=arrays, progress=progress)


@overload
def load(data: bytes | bytearray | memoryview, *, threads: int | None = None) -> dict[str, Array]: ...


@overload
def load(file: Any, mmap_mode: Any = None, allow_pickle: bool = False, *, threads: int | None = None,
         base: Path | None = None, base_dirs: Sequence[Path] = (), storage_options: Mapping[str, Any] | None = None,
         progress: Progress | None = None, **options: Any) -> Any: ...


@objects.first_is_also("data")
def load(file: Any, mmap_mode: Any = None, allow_pickle: bool = False, *, threads: int | None = None,
         base: Path | None = None, base_dirs: Sequence[Path] = (), storage_options: Mapping[str, Any] | None = None,
         progress: Progress | None = None, **options: Any) -> Any:
    """What numpy.load() gives for a file, or for the original of an archive: `model.npz.lmc`, `array.npy.lmc`. For a
    safetensors file and its archive, as a file or as bytes, what safetensors.numpy.load() gives: a dict of their
    arrays.

    file: a path, an open file, a URL, or bytes. An archive is restored to memory. For an .npz file it stays there until
        the result is closed. A safetensors file, or an archive of one, is read as by load_file(). An archive
        in an open file reaches to its end; the position is undefined afterwards.
    mmap_mode, allow_pickle and further options, by name, are for numpy.load(). An original in memory is not mapped.
    base, base_dirs: of the archive. storage_options: of a URL, for fsspec. Raises what numpy.load() raises, and as
    restore() does.
    """
    with objects.located(file, storage_options) as (source, container):
        if container is None:
            return numpy.load(source, mmap_mode, allow_pickle, **options)
        if container == "safetensors":
            return load_file(source, threads=threads, base=base, base_dirs=base_dirs, progress=progress)
        original = open_original(source, threads=threads, base=base, base_dirs=base_dirs, progress=progress)
    result: Any = None
    try:
        result = numpy.load(original, None, allow_pickle, **options)
    finally:
        if isinstance(result, numpy.lib.npyio.NpzFile):
            setattr(result, "fid", original)  # which its close() closes
        else:
            original.close()
    return result


def save_file(tensor_dict: Mapping[str, Any], filename: Path, metadata: Mapping[str, str] | None = None, *,
              plain: bool | None = None, level: str = "default", threads: int | None = None, fsync: bool = False,
              base: Path | None = None, base_dirs: Sequence[Path] = (), progress: Progress | None = None) -> None:
    """Writes arrays to a file, which replaces one of this name.

    tensor_dict: arrays of any shape, including () and empty ones, contiguous in C order.
    metadata: a dict from strings to strings.
    plain: True writes a safetensors file, False an archive. By default a name *.safetensors gives a safetensors file,
        any other name an archive.
    level: "default", "fast" or "max". threads: None for one per core.
    fsync: True waits until the bytes are on the disk.
    base: an earlier file to code against, which the archive then needs to be read.
    Raises OSError, DTypeError, ValueError (not contiguous), TypeError (not an array, metadata that are not
    strings), LMCError.
    """
    writer.write(_entries(tensor_dict), filename, metadata, plain=plain, level=level, threads=threads, fsync=fsync,
                  base=base, base_dirs=base_dirs, progress=progress)


@overload
def save(tensor_dict: Mapping[str, Any], arr: Mapping[str, str] | None = None,
         metadata: Mapping[str, str] | None = None, *, plain: bool = False, level: str = "default",
         threads: int | None = None) -> bytes: ...


@overload
def save(file: str | os.PathLike[str] | IO[bytes], arr: Any, *, level: str = "default", threads: int | None = None,
         fsync: bool = False, base: Path | None = None, base_dirs: Sequence[Path] = (),
         progress: Progress | None = None, **options: Any) -> None: ...


@objects.first_is_also("tensor_dict")
def save(file: Any, arr: Any = _NOT_GIVEN, metadata: Any = None, *, plain: bool = False, level: str = "default",
         threads: int | None = None, **options: Any) -> Any:
    """save(file, arr) writes an archive of what numpy.save() writes: load() reads it. save(arrays) and save(arrays,
    metadata) return the bytes of an archive, where safetensors.numpy.save() returns those of a safetensors file.

    file: a path, whose file is replaced, whole or not at all; or an open file, which gets one archive, up to its end.
        The result is an archive. Its name is the one that is given: no ".npy" is added.
    fsync: True waits until the bytes are on the disk. base, base_dirs: an earlier file to code against.
    Further options are for numpy.save(), and given by name.
    arrays, metadata: as for save_file(). plain: True returns the bytes of a safetensors file.
    level: "default", "fast" or "max". threads: None for one per core.
    Raises what numpy.save() raises, and as convert() and save_file() do.
    """
    if isinstance(file, Mapping):
        if options:
            raise TypeError("save() without a file takes no %r" % sorted(options)[0])
        given = None if arr is _NOT_GIVEN else arr
        return writer.to_bytes(_entries(file), given if metadata is None else metadata, plain=plain, level=level,
                               threads=threads)
    if arr is _NOT_GIVEN:
        raise TypeError("save() missing 1 required positional argument: 'arr'")
    if metadata is not None or plain:
        raise TypeError("a file of numpy.save() has no metadata, and is an archive: numpy.save() writes a plain one")
    ours = {name: options.pop(name) for name in ("fsync", "base", "base_dirs", "progress") if name in options}
    if isinstance(arr, numpy.ma.MaskedArray) and not arr.dtype.hasobject:
        arr = arr.data  # which numpy.save() writes to open files in memory; to a file on a disk it writes none
    return objects.pack(lambda plain: numpy.save(plain, arr, **options), file, level=level, threads=threads, **ours)


def savez(file: str | os.PathLike[str] | IO[bytes], *args: Any, **kwds: Any) -> None:
    """Writes an archive of what numpy.savez() writes: load() reads it. File and exceptions are as for save()."""
    objects.pack(lambda plain: numpy.savez(plain, *args, **kwds), file)


def _entries(tensors: Mapping[str, Any]) -> list[writer.Entry]:
    return [_entry(name, array) for name, array in tensors.items()]


def _entry(name: str, array: Any) -> writer.Entry:
    if not isinstance(array, (numpy.ndarray, numpy.generic)):
        raise TypeError("Key `%s` is invalid, expected numpy.ndarray but received %s" % (name, type(array)))
    array = numpy.asarray(array)
    if not array.flags.c_contiguous:
        raise ValueError("You are trying to save a non contiguous array: `%s` which is not allowed. "
                         "numpy.ascontiguousarray() packs it." % name)
    dtype = name_of(array)
    shape = array.shape
    if dtype == "F4":
        array = pack_f4(array)
    elif array.dtype.byteorder == ">" or array.dtype.byteorder == "=" and sys.byteorder == "big":
        array = array.byteswap()
    return writer.Entry(name, dtype, shape, array.__array_interface__["data"][0], array)
