#!/usr/bin/env python3
"""Reference decoder of the chunks that the HDF5 filter stores.

Written from docs/hdf5-filter.md, section 3, alone, to be read next to it; the frames within are decoded by
lmc_reference.py. It favours clarity over speed.

    lmc_h5_chunk.py CHUNK [-o OUT]
"""
import argparse
import sys

import lmc_reference
from lmc_reference import MODE_DELTA, Base, Checksum, H, LmcError, Reader, Truncated, corrupt_unless, supported_if

MAGIC = b"\x8cLMH"
VERSION = 1
LAYOUT_PLAIN, LAYOUT_COLUMNS, LAYOUT_RECORDS, LAYOUT_ROWS = 0, 1, 2, 3
WIDTH_MIN, WIDTH_MAX = 2, 256
ROW_COUNT_MIN, ROW_COUNT_MAX = 2, 65536
SWAPS = (0, 2, 4, 8)


def decode(stored):
    """The chunk."""
    stored = bytes(stored)
    if stored[: len(MAGIC)] != MAGIC:
        return content_of(stored)
    head = Head(stored)
    contents = []
    for frame in head.frames(stored):
        has_base = head.layout == LAYOUT_ROWS and contents
        contents.append(content_of(frame, contents[-1] if has_base else None))
    inner = b"".join(contents)
    if head.layout == LAYOUT_ROWS:
        corrupt_unless(len(set(map(len, contents))) == 1, "rows of unequal size")
    if head.layout == LAYOUT_COLUMNS:
        check_columns([len(content) for content in contents], len(inner) // head.width, len(inner) % head.width)
    return regroup(head.layout, head.width, swapped(inner, head.swap))


def content_of(frame, base=None):
    """Only a row asks for a base: the content of the row before."""
    head = lmc_reference.Head(frame)
    if head.mode != MODE_DELTA:
        return lmc_reference.decode(frame)
    corrupt_unless(base is not None, "a frame that asks for a base")
    corrupt_unless(head.base_nbytes == len(base), "a base of another size")
    try:
        return lmc_reference.decode(frame, base)
    except Base as error:
        raise Checksum(f"rows of other chunks: {error}")


class Head:
    """Every field is judged as soon as it is there; the check comes before the sizes are used."""

    def __init__(self, stored):
        reader = Reader(stored, end=Truncated)
        reader.bytes(len(MAGIC))
        version = reader.uint(1)
        corrupt_unless(version != 0, "version 0")
        supported_if(version == VERSION, f"version {version}")
        self.layout = reader.uint(1)
        supported_if(self.layout <= LAYOUT_ROWS, f"layout {self.layout}")
        self.swap = reader.uint(1)
        corrupt_unless(self.swap in SWAPS, f"swap {self.swap}")
        corrupt_unless(self.layout != LAYOUT_PLAIN or self.swap != 0, "PLAIN without swap")
        corrupt_unless(self.layout != LAYOUT_COLUMNS or self.swap == 0, "COLUMNS with swap")
        supported_if(reader.uint(1) == 0, "reserved")
        self.width = reader.uint(2)
        if self.layout == LAYOUT_PLAIN:
            corrupt_unless(self.width == 0, "PLAIN with a width")
        elif self.layout != LAYOUT_ROWS or self.width != 0:
            corrupt_unless(WIDTH_MIN <= self.width <= WIDTH_MAX, f"width {self.width}")
        frame_count = self.width if self.layout == LAYOUT_COLUMNS else 1
        if self.layout == LAYOUT_ROWS:
            frame_count = reader.uint(4)
            corrupt_unless(ROW_COUNT_MIN <= frame_count <= ROW_COUNT_MAX, f"{frame_count} rows")
        self.sizes = [reader.uint(4) for _ in range(frame_count - 1)]
        covered = reader.position
        if reader.uint(8) != H(stored[:covered]):
            raise Checksum("head")
        self.nbytes = reader.position

    def frames(self, stored):
        """The last one ends where the chunk ends."""
        reader = Reader(stored[self.nbytes :], end=Truncated)
        frames = [reader.bytes(size) for size in self.sizes]
        frames.append(reader.data[reader.position :])
        return frames


def check_columns(sizes, n, surplus):
    corrupt_unless(sizes == [n] * (len(sizes) - 1) + [n + surplus], "columns of unequal size")


def swapped(inner, swap):
    if swap == 0:
        return inner
    whole = len(inner) // swap * swap
    return b"".join(inner[i : i + swap][::-1] for i in range(0, whole, swap)) + inner[whole:]


def regroup(layout, width, inner):
    if layout == LAYOUT_PLAIN or width == 0:
        return inner
    n = len(inner) // width
    chunk = bytearray(inner)
    for i in range(n):
        for j in range(width):
            if layout == LAYOUT_COLUMNS:
                chunk[i * width + j] = inner[j * n + i]
            else:
                chunk[j * n + i] = inner[i * width + j]
    return bytes(chunk)


def main():
    parser = argparse.ArgumentParser(description="Decode a stored chunk, by the letter of docs/hdf5-filter.md.")
    parser.add_argument("chunk", metavar="CHUNK", help="the file with the stored chunk")
    parser.add_argument("-o", metavar="OUT", help="where the chunk goes; without it only the size is shown")
    arguments = parser.parse_args()
    with open(arguments.chunk, "rb") as file:
        stored = file.read()
    try:
        chunk = decode(stored)
    except LmcError as error:
        print(f"{arguments.chunk}: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    if arguments.o is None:
        print(f"{arguments.chunk}: {len(chunk)} bytes")
    else:
        with open(arguments.o, "wb") as file:
            file.write(chunk)
    return 0


if __name__ == "__main__":
    sys.exit(main())
