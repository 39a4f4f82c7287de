#!/usr/bin/env python3
"""Reference decoder of LMC frames, version 1.

Written from docs/format.md alone, to be read next to it: section numbers in the comments are those of
that document, and names are the ones used there. It favours clarity over speed. It needs the package
`xxhash` for XXH3-64 and nothing else outside the standard library. This file holds sections 2 to 5; planes, rANS codes,
flags, narrow elements and deltas are in lmc_planes.py, lmc_rans.py, lmc_flags.py, lmc_narrow.py and lmc_delta.py.

    lmc_reference.py FRAME [-b BASE] [-o OUT]
"""
import argparse
import sys

from lmc_basics import (Base, Checksum, Corrupt, H, LmcError, Reader, Truncated, Unsupported, corrupt_unless,
                        counter_nbytes, supported_if, u64)
from lmc_delta import BASE_PLAIN, DeltaPlan, base_unit, check_base_form, decode_delta_block, verified_values
from lmc_flags import read_flags
from lmc_narrow import Narrow, read_groups, read_wide_exceptions
from lmc_planes import LIST, PLANE_CODED, PLANE_STORED, SYMBOL_ESCAPE, decode_plane, read_table
from lmc_rans import RANS_CARRIED_NBYTES, RansTable, decode_rans_plane

__all__ = ["Base", "Checksum", "Corrupt", "H", "Head", "LIST", "LmcError", "Reader", "Truncated", "Unsupported",
           "corrupt_unless", "counter_nbytes", "decode", "read_table", "supported_if", "u64"]

MAGIC = b"\x8cLMC"
VERSION = 1
MODE_STORED, MODE_CODED, MODE_SHORT, MODE_DELTA = 0, 1, 2, 3
BLOCK_LOG2_MIN, BLOCK_LOG2_MAX = 10, 20
FEATURE_OFFSETS, FEATURE_NARROW, FEATURE_RANS = 0x10, 0x20, 0x40
FEATURES_KNOWN = FEATURE_OFFSETS | FEATURE_NARROW | FEATURE_RANS
PLAN_NBYTES_MAX, OFFSETS_PLAN_NBYTES_MAX = 4096, 65536
CONTENT_NBYTES_MAX = 2**63 - 1
BYTE_ORDER_LITTLE = 0
SHORT_BLOCK_NBYTES = 255
SHORT_HEAD_NBYTES = 8
INDEX_ENTRY_NBYTES, DELTA_INDEX_ENTRY_NBYTES = 12, 20
HASH_NBYTES = 8
DTYPE_UNITS = [1] * 11 + [2] * 4 + [4] * 4 + [8] * 3  # section 2.4

TRANSFORM_ROTATE, TRANSFORM_MASK, TRANSFORM_OFFSETS = 1, 2, 4
TRANSFORM_KNOWN = 7
COLUMN_COUNT_MIN = 32
OFFSET_NBITS_MAX = 8
ROWS_NONE = 255
TABLE_RAW, TABLE_TABLE, TABLE_RANS = 0, 1, 2
BLOCK_STORED, BLOCK_PLANES, BLOCK_MASKED = 0, 1, 2
BLOCK_NARROW = 5


# 2. Frame


def decode(frame, base=None):
    """The content of a frame; frames that ask for no base ignore it."""
    head = Head(frame)
    if head.has_index:
        return decode_indexed(head, frame, base)
    return decode_uncoded(head, frame)


class Head:
    """2.1: every field is judged as soon as it is there."""

    def __init__(self, frame):
        reader = Reader(frame, end=Truncated)
        corrupt_unless(reader.bytes(len(MAGIC)) == MAGIC, "magic")
        Reader(frame, end=Truncated).bytes(SHORT_HEAD_NBYTES)  # section 1: before anything else is judged
        version = reader.uint(1)
        corrupt_unless(version != 0, "version 0")
        supported_if(version == VERSION, f"version {version}")
        self.dtype = dtype = reader.uint(1)
        supported_if(dtype < len(DTYPE_UNITS), f"dtype {dtype}")
        self.mode = reader.uint(1)
        supported_if(self.mode <= MODE_DELTA, f"mode {self.mode}")
        self.element_nbytes = DTYPE_UNITS[dtype]
        self.has_index = self.mode in (MODE_CODED, MODE_DELTA)
        self.plan_nbytes = 0
        self.has_offsets = self.has_narrow = self.has_rans = False
        self.base_form = BASE_PLAIN
        if self.mode == MODE_SHORT:
            self.content_nbytes = reader.uint(1)
            self.block_nbytes = SHORT_BLOCK_NBYTES
        else:
            self.read_long(reader)
        self.nbytes = reader.position
        self.block_count = -(-self.content_nbytes // self.block_nbytes)
        self.base_nbytes = self.content_nbytes * base_unit(self.base_form) if self.mode == MODE_DELTA else 0

    def read_long(self, reader):
        block_log2 = reader.uint(1)
        corrupt_unless(BLOCK_LOG2_MIN <= block_log2 <= BLOCK_LOG2_MAX, "block_log2")
        features = reader.uint(4)
        supported_if(features & ~FEATURES_KNOWN == 0, f"features {features:#x}")
        self.has_offsets = bool(features & FEATURE_OFFSETS)
        self.has_narrow = bool(features & FEATURE_NARROW)
        self.has_rans = bool(features & FEATURE_RANS)
        corrupt_unless(features == 0 or self.mode == MODE_CODED, "features, but no coded frame")
        self.plan_nbytes = reader.uint(4)
        has_plan = self.has_index
        corrupt_unless(has_plan or self.plan_nbytes == 0, "plan_nbytes of a stored frame")
        plan_nbytes_max = OFFSETS_PLAN_NBYTES_MAX if self.has_offsets else PLAN_NBYTES_MAX
        corrupt_unless(not has_plan or 1 <= self.plan_nbytes <= plan_nbytes_max, "plan_nbytes")
        self.content_nbytes = reader.uint(8)
        corrupt_unless(self.content_nbytes <= CONTENT_NBYTES_MAX, "content_nbytes")
        corrupt_unless(not has_plan or self.content_nbytes >= 1, "a plan, but no content")
        reader.uint(4)  # row_nbytes: informative
        corrupt_unless(reader.uint(1) == self.element_nbytes, "element_nbytes")
        supported_if(reader.uint(1) == BYTE_ORDER_LITTLE, "byte order")
        self.base_form = reader.uint(1)
        supported_if(self.mode == MODE_DELTA or self.base_form == 0, "base_form of a frame without a base")
        check_base_form(self.base_form, self.dtype, self.content_nbytes)
        supported_if(reader.uint(1) == 0, "reserved")
        self.block_elements = 1 << block_log2
        self.block_nbytes = self.element_nbytes << block_log2

    def block_content_nbytes(self, i):
        return min(self.block_nbytes, self.content_nbytes - i * self.block_nbytes)


def verify_check(head_and_plan, tail):
    """2.3: the last bytes of the tail are the check."""
    check = int.from_bytes(tail[-HASH_NBYTES:], "little")
    if check != H(tail[:-HASH_NBYTES], H(head_and_plan)):
        raise Checksum("check")


def decode_uncoded(head, frame):
    """A stored or a short frame."""
    tail_nbytes = 2 * HASH_NBYTES
    nbytes = head.nbytes + head.content_nbytes + tail_nbytes
    if len(frame) < nbytes:
        raise Truncated(f"{len(frame)} of {nbytes} bytes")
    corrupt_unless(len(frame) == nbytes, "bytes after the frame")
    content, tail = frame[head.nbytes : -tail_nbytes], frame[-tail_nbytes:]
    verify_check(frame[: head.nbytes], tail)
    blocks = (content[i : i + head.block_nbytes] for i in range(0, len(content), head.block_nbytes))
    content_hash = H(b"".join(u64(H(block)) for block in blocks))
    if content_hash != int.from_bytes(tail[:HASH_NBYTES], "little"):
        raise Checksum("content hash")
    return bytes(content)


def decode_indexed(head, frame, base):
    """A coded or a delta frame."""
    plan_end = head.nbytes + head.plan_nbytes
    entry_nbytes = DELTA_INDEX_ENTRY_NBYTES if head.mode == MODE_DELTA else INDEX_ENTRY_NBYTES
    tail_nbytes = head.block_count * entry_nbytes + HASH_NBYTES
    if len(frame) < plan_end + head.block_count + tail_nbytes:
        raise Truncated(f"{len(frame)} bytes are too few for {head.block_count} blocks")
    tail_start = len(frame) - tail_nbytes
    verify_check(frame[:plan_end], frame[tail_start:])
    plan = (DeltaPlan if head.mode == MODE_DELTA else Plan)(head, Reader(frame[head.nbytes : plan_end]))
    index = read_index(head, frame[tail_start:], tail_start - plan_end)
    blocks = Reader(frame[plan_end:tail_start])
    content = bytearray()
    for i, (stored_nbytes, block_hash, base_hash) in enumerate(index):
        reader, c = Reader(blocks.bytes(stored_nbytes)), head.block_content_nbytes(i)
        if head.mode == MODE_DELTA:
            part = base_part(head, base, i)
            values = verified_values(plan, part, part is not None and H(part) == base_hash)
            block = decode_delta_block(plan, reader, c, values)
        else:
            block = decode_block(plan, reader, c, i * head.block_elements)
        if H(block) != block_hash:
            raise Checksum(f"content of block {i}")
        content += block
    return bytes(content)


def base_part(head, base, i):
    """8.1: the part of a base that belongs to a block; None if the base has another size, or there is none."""
    if base is None or len(base) != head.base_nbytes:
        return None
    unit = base_unit(head.base_form)
    first = i * head.block_nbytes * unit
    return base[first : first + head.block_content_nbytes(i) * unit]


def read_index(head, tail, blocks_nbytes):
    """2.3: (stored_nbytes, hash of the content, hash of the base's part) of every block."""
    reader = Reader(tail)
    index = []
    for i in range(head.block_count):
        stored_nbytes, block_hash = reader.uint(4), reader.uint(8)
        corrupt_unless(1 <= stored_nbytes <= head.block_content_nbytes(i) + 1, f"stored_nbytes of block {i}")
        base_hash = reader.uint(8) if head.mode == MODE_DELTA else None
        index.append((stored_nbytes, block_hash, base_hash))
    corrupt_unless(sum(entry[0] for entry in index) == blocks_nbytes, "sum of the block sizes")
    return index


# 3. Plan, 4. Planes


class Plan:
    """How elements are cut into planes, and the planes' tables: None for a raw plane. W is that of the elements in
    planes, wide_nbytes that of the content."""

    def __init__(self, head, reader):
        self.wide_nbytes = head.element_nbytes
        self.narrow = Narrow(reader, head.element_nbytes) if head.has_narrow else None
        self.W = W = self.narrow.narrow_nbytes if self.narrow else head.element_nbytes
        self.h = 8 if W == 1 else 16
        transform = reader.uint(1)
        supported_if(transform & ~TRANSFORM_KNOWN == 0, f"transform {transform:#x}")
        has_columns = bool(transform & TRANSFORM_OFFSETS)
        corrupt_unless(has_columns == head.has_offsets, "OFFSETS is in the head or the plan, but not in both")
        self.rotate = bool(transform & TRANSFORM_ROTATE)
        self.p = reader.uint(1)
        corrupt_unless(0 <= self.p <= 4 if W == 1 else 4 <= self.p <= 8, "low_nbits")
        self.offset = reader.uint(2)
        corrupt_unless(self.offset < 1 << self.h, "offset")
        self.base = reader.uint(2)
        corrupt_unless(self.base < 1 << self.symbol_nbits, "base")
        self.mask_value = reader.uint(W) if transform & TRANSFORM_MASK else None
        self.columns = Columns(self, reader) if has_columns else None
        self.plane_nbits = [8] + [self.p] * (self.p > 0) + [8] * max(W - 2, 0)
        self.tables = [read_plane_table(reader, i, nbits) for i, nbits in enumerate(self.plane_nbits)]
        self.has_rans = isinstance(self.tables[0], RansTable)
        corrupt_unless(self.has_rans == head.has_rans, "RANS is in the head or the plan, but not in both")
        reader.finish("the plan")

    @property
    def symbol_nbits(self):
        return self.h - self.p

    @property
    def has_escapes(self):
        return self.symbol_nbits > 8

    def low_plane_nbytes(self, n):
        return (n * self.p + 7) // 8

    def carries(self, modes, n):
        """5.1: whether plane 0 carries bytes of the low plane."""
        return (self.has_rans and modes[0] == PLANE_CODED and self.p > 0 and modes[1] == PLANE_STORED
                and self.low_plane_nbytes(n) >= RANS_CARRIED_NBYTES)

    def element(self, s, escape, others, row_and_column):
        """The inverse of section 4. `escape` is None where there is none; `others` are the planes after plane 0;
        `row_and_column` is the offset of 4.1, or 0."""
        low = 0
        if self.p > 0:
            low, others = others[0], others[1:]
        high = escape if escape is not None else (s + self.base) % (1 << self.symbol_nbits)
        t = high << self.p | low
        v = (t - self.offset - row_and_column) % (1 << self.h)
        for byte in others:
            v = v << 8 | byte
        if self.rotate:
            v = v >> 1 | (v & 1) << (8 * self.W - 1)
        return v


class Columns:
    """3.1. A block adds its rows to them."""

    def __init__(self, plan, reader):
        self.count = reader.uint(4)
        corrupt_unless(self.count >= COLUMN_COUNT_MIN, "column_count")
        self.step_log2 = reader.uint(1)
        has_sign_at_bottom = plan.rotate and plan.W <= 2
        corrupt_unless(has_sign_at_bottom <= self.step_log2 < plan.h, "step_log2")
        nbits = reader.uint(1)
        corrupt_unless(nbits <= OFFSET_NBITS_MAX, "column_nbits")
        self.values = reader.packed_plane(self.count, nbits) if nbits > 0 else None

    def value(self, column):
        return 0 if self.values is None else self.values[column]


def read_plane_table(reader, i, nbits):
    kind = reader.uint(1)
    supported_if(kind <= TABLE_RANS, f"table kind {kind}")
    if kind == TABLE_RAW:
        return None
    corrupt_unless(nbits == 8, "a table for a packed plane")
    if kind == TABLE_TABLE:
        return read_table(reader)
    corrupt_unless(i == 0, "a rANS table for another plane than plane 0")
    return RansTable(reader)


# 5. Blocks


def decode_block(plan, reader, c, f):
    """A block's c bytes of content. f is the number of its first element."""
    n, tail_nbytes = divmod(c, plan.wide_nbytes)
    mode = reader.uint(1)
    supported_if(mode <= BLOCK_MASKED or (plan.narrow and mode == BLOCK_NARROW), f"block mode {mode}")
    if mode == BLOCK_STORED:
        content = reader.bytes(c)
    else:
        corrupt_unless(n >= 1, "a block without elements can only be stored")
        corrupt_unless(not plan.narrow or mode == BLOCK_NARROW, "planes of wide elements in a frame of narrow ones")
        elements = (decode_narrow if plan.narrow else decode_elements)(plan, reader, mode, n, f)
        content = b"".join(x.to_bytes(plan.wide_nbytes, "little") for x in elements) + reader.bytes(tail_nbytes)
    reader.finish("a block")
    return content


def decode_elements(plan, reader, mode, n, f):
    return decode_with_rows(plan, reader, n, f) if mode == BLOCK_PLANES else decode_masked(plan, reader, n)


def decode_narrow(plan, reader, _, n, f):
    """5.4: n wide elements."""
    narrow, W = plan.narrow, plan.W
    groups = read_groups(narrow, reader, n, f) if narrow.has_groups else [None] * n
    exceptions = read_wide_exceptions(reader, n, plan.wide_nbytes)
    mode = reader.uint(1)
    supported_if(mode <= BLOCK_MASKED, f"block mode {mode} of narrow elements")
    if mode == BLOCK_STORED:
        elements = [reader.uint(W) for _ in range(n)]
    else:
        elements = decode_elements(plan, reader, mode, n, f)
    return [exceptions[i] if i in exceptions else narrow.wide(elements[i], groups[i]) for i in range(n)]


def decode_masked(plan, reader, n):
    corrupt_unless(plan.mask_value is not None, "a masked block, but no mask value")
    flags = read_flags(reader, n)
    m = sum(flags)
    corrupt_unless(m >= 1, "a masked block of nothing but the mask value")
    elements = iter(decode_planes(plan, reader, m))
    return [next(elements) if flag else plan.mask_value for flag in flags]


def decode_with_rows(plan, reader, n, f):
    if plan.columns is None:
        return decode_planes(plan, reader, n)
    return decode_planes(plan, reader, n, read_offsets(plan.columns, reader, n, f))


def read_offsets(columns, reader, n, f):
    """5.3 and 4.1: the offset of row and column of each of n elements; None if the block has no rows."""
    C = columns.count
    row_nbits = reader.uint(1)
    if row_nbits == ROWS_NONE:
        return None
    corrupt_unless(row_nbits <= OFFSET_NBITS_MAX, "row_nbits")
    row_base = reader.uint(2)
    row_count = (f % C + n - 1) // C + 1
    differences = reader.packed_plane(row_count, row_nbits)
    rows = [row_base + difference for difference in differences]
    return [(rows[(f % C + i) // C] + columns.value((f + i) % C)) << columns.step_log2 for i in range(n)]


def decode_planes(plan, reader, n, offsets=None):
    """5.1 and 5.2: n elements."""
    modes = [reader.uint(1) for _ in plan.plane_nbits]
    planes = [None] * len(modes)
    for i in reversed(range(1 + plan.carries(modes, n), len(modes))):
        planes[i] = decode_plane(reader, modes[i], n, plan.plane_nbits[i], plan.tables[i])
    if plan.carries(modes, n):
        planes[0], planes[1] = decode_carrying_planes(plan, reader, n)
    else:
        planes[0] = decode_plane(reader, modes[0], n, 8, plan.tables[0])
    symbols = planes[0]
    escapes = [None] * n
    if plan.has_escapes:
        for i in range(n):
            if symbols[i] == SYMBOL_ESCAPE:
                escapes[i] = reader.uint(2)
                corrupt_unless(escapes[i] < 1 << plan.symbol_nbits, "an escape is too wide")
    offsets = offsets or [0] * n
    return [plan.element(symbols[i], escapes[i], [plane[i] for plane in planes[1:]], offsets[i]) for i in range(n)]


def decode_carrying_planes(plan, reader, n):
    """5.1: plane 0 and the low plane whose end it carries."""
    low_bytes = reader.bytes(plan.low_plane_nbytes(n) - RANS_CARRIED_NBYTES)
    symbols, carried = decode_rans_plane(reader, plan.tables[0], n)
    low_reader = Reader(low_bytes + carried)
    return symbols, decode_plane(low_reader, PLANE_STORED, n, plan.p, None)


def read_file(path):
    with open(path, "rb") as file:
        return file.read()


def main():
    parser = argparse.ArgumentParser(description="Decode an LMC frame, by the letter of docs/format.md.")
    parser.add_argument("frame", metavar="FRAME", help="the file with the frame")
    parser.add_argument("-b", metavar="BASE", help="the file with the base, for a frame that has one")
    parser.add_argument("-o", metavar="OUT", help="where the content goes; without it only the size is shown")
    arguments = parser.parse_args()
    frame = read_file(arguments.frame)
    base = None if arguments.b is None else read_file(arguments.b)
    try:
        content = decode(frame, base)
    except LmcError as error:
        print(f"{arguments.frame}: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    if arguments.o is None:
        print(f"{arguments.frame}: {len(content)} bytes of content")
    else:
        with open(arguments.o, "wb") as file:
            file.write(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
