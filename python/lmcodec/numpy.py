"""NumPy arrays: a drop-in replacement for safetensors.numpy that also takes archives.

    from lmcodec.numpy import load_file, save_file

dtypes that NumPy lacks (bfloat16, fp8, fp4) come from ml_dtypes. An fp4 array has one byte per value.
"""

from __future__ import annotations

import sys
from typing import Any, Mapping, Sequence

import numpy

from ._arrays.numpy_arrays import name_of, pack_f4
from ._files import memory, writer
from ._files.convert import open_original
from ._files.options import Path, Progress
from ._files.safe_open import safe_open

__all__ = ["load", "load_file", "load_npy", "save", "save_file"]


def load_file(filename: Path, *, backend: str = "mmap", threads: int | None = None, base: Path | None = None,
              base_dirs: Sequence[Path] = (), progress: Progress | None = None) -> dict[str, Any]:
    """All tensors of an archive or a safetensors file, as a dict of new arrays by their names.

    threads: how many share the work; None for one per core. base, base_dirs: as for File.
    backend: accepted for compatibility with safetensors; ignored.
    progress(done bytes, all bytes): called while the file is read.
    Raises OSError, DataError, ChecksumError, UnsupportedError, BaseError, DTypeError, MemoryError.
    """
    with safe_open(filename, "np", backend=backend, threads=threads, base=base, base_dirs=base_dirs) as file:
        return file.get_tensors(progress=progress)


def load(data: bytes | bytearray | memoryview, *, threads: int | None = None) -> dict[str, Any]:
    """All tensors of the bytes of an archive or a safetensors file. Raises as load_file() does."""
    with memory.file_of(data) as path:
        return load_file(path, threads=threads)


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
    Raises OSError, DTypeError, ValueError (not contiguous), TypeError (no array, metadata are no strings), LMCError.
    """
    writer.write(_entries(tensor_dict), filename, metadata, plain=plain, level=level, threads=threads, fsync=fsync,
                  base=base, base_dirs=base_dirs, progress=progress)


def save(tensor_dict: Mapping[str, Any], metadata: Mapping[str, str] | None = None, *, plain: bool = False,
         level: str = "default", threads: int | None = None) -> bytes:
    """The bytes of an archive, or with plain=True of a safetensors file. Arguments and exceptions as of save_file()."""
    return writer.to_bytes(_entries(tensor_dict), metadata, plain=plain, level=level, threads=threads)


def load_npy(filename: Path, *, allow_pickle: bool = False, threads: int | None = None, base: Path | None = None,
             base_dirs: Sequence[Path] = (), progress: Progress | None = None) -> Any:
    """numpy.load() of the original of an archive: `model.npz.lmc`, `array.npy.lmc`.

    The original is restored to memory. For an .npz file it stays there until the result is closed. allow_pickle is
    for numpy.load(). Raises what numpy.load() raises, and as restore() does.
    """
    file = open_original(filename, threads=threads, base=base, base_dirs=base_dirs, progress=progress)
    result: Any = None
    try:
        result = numpy.load(file, allow_pickle=allow_pickle)
    finally:
        if isinstance(result, numpy.lib.npyio.NpzFile):
            setattr(result, "fid", file)  # which its close() closes
        else:
            file.close()
    return result


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
