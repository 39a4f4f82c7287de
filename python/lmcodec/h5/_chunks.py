"""Shapes of chunks."""

from __future__ import annotations

from typing import Sequence

CHUNK_NBYTES = 1 << 20  # a chunk of this size codes well, and a read of a part decodes little


def chunks_for(shape: Sequence[int], item_nbytes: int, chunk_nbytes: int = CHUNK_NBYTES) -> tuple[int, ...]:
    """The shape of chunks of at most about `chunk_nbytes`: whole rows as far as they fit, of equal numbers."""
    left = max(1, chunk_nbytes // max(1, item_nbytes))
    chunk = []
    for size in reversed(shape):
        size = max(1, size)
        parts = -(-size // left)
        chunk.append(-(-size // parts))
        left = max(1, left // chunk[-1])
    return tuple(reversed(chunk))
