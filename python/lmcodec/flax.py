"""JAX arrays: a drop-in replacement for safetensors.flax that also takes archives.

    from lmcodec.flax import load_file, save_file
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy

from . import numpy as _numpy
from ._files import memory
from ._files.left_out import warn_of_left_out
from ._files.options import Path, Progress
from ._files.safe_open import safe_open

if TYPE_CHECKING:
    import jax

__all__ = ["load", "load_file", "save", "save_file"]


def load_file(filename: Path, *, backend: str = "mmap", threads: int | None = None, base: Path | None = None,
              base_dirs: Sequence[Path] = (), dtype: Any = None, storage_options: Mapping[str, Any] | None = None,
              progress: Progress | None = None) -> dict[str, jax.Array]:
    """All tensors of a file as JAX arrays by their names. Arguments and exceptions as of lmcodec.numpy.load_file().

    Warns (UserWarning) as that does, and if JAX makes a dtype of 32 bits of one of 64, as it does unless jax_enable_x64
    is set.
    """
    with safe_open(filename, "flax", backend=backend, threads=threads, base=base, base_dirs=base_dirs,
                   storage_options=storage_options) as file:
        loaded = file.get_tensors(dtype=dtype, progress=progress)
        warn_of_left_out(file.file, filename, stacklevel=2)
        return loaded


def load(data: bytes | bytearray | memoryview, *, threads: int | None = None) -> dict[str, jax.Array]:
    """All tensors of the bytes of an archive or a safetensors file. Raises as load_file() does."""
    with memory.file_of(data) as path:
        return load_file(path, threads=threads)


def save_file(tensors: Mapping[str, Any], filename: Path, metadata: Mapping[str, str] | None = None,
              **options: Any) -> None:
    """Writes JAX arrays to a file. Options and exceptions as of lmcodec.numpy.save_file()."""
    _numpy.save_file(_to_numpy(tensors), filename, metadata, **options)


def save(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None, **options: Any) -> bytes:
    """The bytes of a file. Options and exceptions as of lmcodec.numpy.save()."""
    return _numpy.save(_to_numpy(tensors), metadata, **options)


def _to_numpy(tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {name: numpy.ascontiguousarray(array).reshape(numpy.shape(array)) for name, array in tensors.items()}
