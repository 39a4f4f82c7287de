"""Zarr arrays with LMC: the codec "lmc" of Zarr 3.

    zarr.create_array(store, data=weights, chunks=(256, 4096), serializer={"name": "lmc"}, compressors=None)

An installed lmcodec registers the codec by its entry point, and the data type "bfloat16" for arrays of
`ml_dtypes.bfloat16`, which Zarr lacks. Elsewhere `import lmcodec.zarr` registers both.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy

try:
    from zarr.abc.codec import ArrayBytesCodec
    from zarr.dtype import data_type_registry  # noqa: F401 (Zarr 3.1 has it)
    from zarr.registry import register_codec
except ImportError as error:
    raise ImportError("lmcodec.zarr needs Zarr 3.1 or newer (pip install 'lmcodec[zarr]'): %s" % error) from None

from ._chunks import (stored_chunks,
                      zarr_bfloat16)  # noqa: F401 (registers the data type)
from ._errors import ArgumentError

__all__ = ["LmcCodec"]

_NAME = "lmc"


class _SerializerClass(type(ArrayBytesCodec)):  # type: ignore[misc]
    """The class of LmcCodec. Zarr's message about compressors=LmcCodec() shows the class, and so says what to write."""

    def __repr__(cls) -> str:
        return "<class 'lmcodec.zarr.LmcCodec'; use serializer=LmcCodec(), compressors=None>"


@dataclass(frozen=True)
class LmcCodec(ArrayBytesCodec, metaclass=_SerializerClass):  # type: ignore[misc]
    """The codec "lmc", for `serializer=LmcCodec()` with `compressors=None`. It replaces "bytes".

    level: "default", "fast" or "max".
    rows: the first axis of a chunk counts snapshots of one tensor. Each is coded against the one before it.

    The dtype and the length of a matrix's rows are those of the array's chunks. A chunk is stored with little-endian
    elements in C order, whatever the byte order and the order of the array in memory. Raises ArgumentError.
    """

    is_fixed_size = False

    level: str = "default"
    rows: bool = False

    def __post_init__(self) -> None:
        stored_chunks.check_settings(self.level, self.rows)

    # ---- metadata ----

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> LmcCodec:
        """The codec of metadata. ArgumentError if it has a setting that this version does not know."""
        configuration = data.get("configuration") or {}
        unknown = sorted(set(configuration) - {"level", "rows"})
        if data.get("name") != _NAME or unknown:
            raise ArgumentError("not a configuration of the codec %r: %r" % (_NAME, data))
        return cls(**configuration)

    def to_dict(self) -> dict[str, Any]:
        return {"name": _NAME, "configuration": {"level": self.level, "rows": self.rows}}

    def validate(self, *, shape: tuple[int, ...], dtype: Any, chunk_grid: Any) -> None:
        stored_chunks.check_dtype(dtype.to_native_dtype())

    def evolve_from_array_spec(self, array_spec: Any) -> LmcCodec:
        stored_chunks.check_dtype(array_spec.dtype.to_native_dtype())  # within a shard, nothing else is called
        return self

    def compute_encoded_size(self, input_byte_length: int, _chunk_spec: Any) -> int:
        raise NotImplementedError

    # ---- chunks ----

    async def _encode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        return await asyncio.to_thread(self._encode_sync, chunk_data, chunk_spec)

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        return await asyncio.to_thread(self._decode_sync, chunk_data, chunk_spec)

    def _encode_sync(self, chunk_data: Any, chunk_spec: Any) -> Any:
        chunk = numpy.asarray(chunk_data.as_numpy_array(), _stored_dtype(chunk_spec), order="C")
        stored = stored_chunks.encode(chunk, self.level, self.rows)
        return chunk_spec.prototype.buffer.from_array_like(numpy.frombuffer(stored, "u1"))

    def _decode_sync(self, chunk_data: Any, chunk_spec: Any) -> Any:
        chunk = numpy.empty(chunk_spec.shape, _stored_dtype(chunk_spec))
        stored_chunks.decode(chunk_data.as_numpy_array(), chunk)
        return chunk_spec.prototype.nd_buffer.from_numpy_array(chunk)


def _stored_dtype(chunk_spec: Any) -> Any:
    return chunk_spec.dtype.to_native_dtype().newbyteorder("<")


register_codec(_NAME, LmcCodec)
