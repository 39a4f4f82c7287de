"""LMC for Zarr format 2, and for whatever takes codecs of numcodecs: the codec "lmc".

    zarr.create_array(store, data=weights, chunks=(256, 4096), zarr_format=2, compressors=lmcodec.numcodecs.Lmc())

An installed lmcodec registers the codec by its entry point. Elsewhere `import lmcodec.numcodecs` registers it.
"""

from __future__ import annotations

from typing import Any

import numpy

try:
    from numcodecs.abc import Codec
    from numcodecs.compat import ensure_contiguous_ndarray, ensure_ndarray
    from numcodecs.registry import register_codec
except ImportError as error:
    raise ImportError("lmcodec.numcodecs needs numcodecs (pip install 'lmcodec[numcodecs]'): %s" % error) from None

from ._chunks import stored_chunks

__all__ = ["Lmc"]


class Lmc(Codec):  # type: ignore[misc]
    """The codec "lmc": a compressor, or the last filter.

    level: "default", "fast" or "max".
    rows: the first axis of a chunk counts snapshots of one tensor. Each is coded against the one before it.

    The dtype and the shape are those of the buffer that is encoded. Its bytes come back as they were, big-endian ones
    too. Raises ArgumentError.
    """

    codec_id = "lmc"

    def __init__(self, level: str = "default", rows: bool = False) -> None:
        self.level, self.rows = stored_chunks.check_settings(level, rows)

    def encode(self, buf: Any) -> bytearray:
        """The stored form of an array, or of bytes. Raises DTypeError, MemoryError."""
        chunk: Any = ensure_ndarray(buf)
        if chunk.flags.f_contiguous and not chunk.flags.c_contiguous:
            chunk = chunk.T  # the order of the bytes in memory stays
        return stored_chunks.encode(numpy.asarray(chunk, order="C"), self.level, self.rows)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """The bytes of the array, in `out` if it is given.

        Raises DataError (also if `out` has another size), UnsupportedError, LimitError, MemoryError.
        """
        stored = ensure_contiguous_ndarray(buf)
        if out is None:
            out = numpy.empty(stored_chunks.content_nbytes(stored), "u1")
        stored_chunks.decode(stored, ensure_contiguous_ndarray(out))
        return out


register_codec(Lmc)
