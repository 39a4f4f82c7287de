"""save(): buffers as the tensors of a file, without a framework."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Any, Mapping, Sequence

from . import _abi, _writer
from ._buffer import Buffer
from ._codec import dtype_of
from ._errors import ArgumentError
from ._options import Path, Progress


def save(tensors: Mapping[str, tuple[str, Sequence[int], Any]], filename: Path,
         metadata: Mapping[str, str] | None = None, *, plain: bool | None = None, level: str = "default",
         threads: int | None = None, fsync: bool = False, base: Path | None = None, base_dirs: Sequence[Path] = (),
         progress: Progress | None = None) -> None:
    """Writes buffers to a file, which replaces one of this name.

    tensors: (dtype, shape, buffer) by names, such as ("BF16", (2, 3), twelve bytes): little-endian, in C order. The
        buffer may be read-only.
    plain: True writes a safetensors file, False an archive. By default a name *.safetensors gives a safetensors file,
        any other name an archive.
    Other arguments are those of convert(). Raises ArgumentError (no such dtype, a buffer of another size), OSError,
    TypeError, BufferError, LMCError.
    """
    with ExitStack() as buffers:
        entries = []
        for name, (dtype, shape, data) in tensors.items():
            buffer = buffers.enter_context(Buffer(data))
            nbits = math.prod(shape) * _abi.DTYPE_NBITS[_abi.DTYPE_NAMES[dtype_of(dtype)]]
            if nbits != buffer.nbytes * 8:
                raise ArgumentError("tensor %r: %s of shape %s has %d bits, the buffer %d"
                                    % (name, dtype, list(shape), nbits, buffer.nbytes * 8))
            entries.append(_writer.Entry(name, dtype, shape, buffer.address, data))
        _writer.write(entries, filename, metadata, plain=plain, level=level, threads=threads, fsync=fsync, base=base,
                      base_dirs=base_dirs, progress=progress)
