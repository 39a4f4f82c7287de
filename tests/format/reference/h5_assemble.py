"""h5_assemble.py - stored chunks put together by hand, the right and the wrong ones: the inverse of lmc_h5_chunk.py,
without any judgement of its own. Section numbers are those of docs/hdf5-filter.md."""

import struct

from assemble import short_frame, stored_frame
from lmc_h5_chunk import LAYOUT_COLUMNS, LAYOUT_PLAIN, LAYOUT_RECORDS, LAYOUT_ROWS, MAGIC
from lmc_reference import H, u64


def head(layout, width=0, swap=0, sizes=(), check=None, row_count=None, **fields):
    """`fields` replaces any of the head's; `sizes` are those of all frames but the last. row_count: of layout ROWS, if
    it is not what the sizes say."""
    all_fields = dict(magic=MAGIC, version=1, layout=layout, swap=swap, reserved=0, width=width)
    all_fields.update(fields)
    data = struct.pack("<4sBBBBH", *all_fields.values())
    if layout == LAYOUT_ROWS:
        data += struct.pack("<I", len(sizes) + 1 if row_count is None else row_count)
    data += b"".join(struct.pack("<I", size) for size in sizes)
    return data + u64(H(data) if check is None else check)


def chunk(layout, frames, width=0, swap=0, sizes=None, **fields):
    """A regrouped chunk of these frames; `sizes` stands in the head instead of the right ones."""
    sizes = [len(frame) for frame in frames[:-1]] if sizes is None else sizes
    return head(layout, width, swap, sizes, **fields) + b"".join(frames)


def frame(content, dtype=0):
    return short_frame(content, dtype) if len(content) < 256 else stored_frame(content, dtype)


def swapped(data, swap):
    if swap == 0:
        return data
    whole = len(data) - len(data) % swap
    return b"".join(data[i : i + swap][::-1] for i in range(0, whole, swap)) + data[whole:]


def columns_of(data, width):
    """The contents of the frames in layout COLUMNS."""
    n = len(data) // width
    columns = [data[j : n * width : width] for j in range(width)]
    columns[-1] += data[n * width :]
    return columns


def rows_of(data, row_count):
    return [data[i * len(data) // row_count : (i + 1) * len(data) // row_count] for i in range(row_count)]


def shuffled(data, width):
    return b"".join(columns_of(data, width))


def unshuffled(data, width):
    n = len(data) // width
    return bytes(data[j * n + i] for i in range(n) for j in range(width)) + data[n * width :]


def regrouped(data, layout, width=0, swap=0, dtype=0, row_count=2):
    """A chunk with this content, its frames stored."""
    if layout == LAYOUT_COLUMNS:
        return chunk(layout, [frame(column, dtype) for column in columns_of(data, width)], width)
    inner = data if width == 0 else unshuffled(data, width)
    if layout == LAYOUT_ROWS:
        rows = rows_of(swapped(inner, swap), row_count)
        return chunk(layout, [frame(row, dtype) for row in rows], width, swap)
    return chunk(layout, [frame(swapped(inner, swap), dtype)], width, swap)


__all__ = ["LAYOUT_COLUMNS", "LAYOUT_PLAIN", "LAYOUT_RECORDS", "LAYOUT_ROWS", "chunk", "columns_of", "frame", "head",
           "regrouped", "rows_of", "shuffled", "swapped", "unshuffled"]
