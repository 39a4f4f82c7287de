#!/usr/bin/env python3
"""Reference decoder of LMC frames, version 1.

Written from docs/format.md alone, to be read next to it: section numbers in the comments are those of
that document, and names are the ones used there. It favours clarity over speed. It needs the package
`xxhash` for XXH3-64 and nothing else outside the standard library.

    lmc_reference.py FRAME [-o OUT]
"""
import argparse
import sys

import xxhash


class LmcError(Exception):
    """A frame that is refused."""


class Truncated(LmcError):
    """The frame ends too early: more bytes could help."""


class Corrupt(LmcError):
    """The frame breaks a rule of the format: more bytes could not help."""


class Unsupported(LmcError):
    """A decoder of a newer version could read this."""


class Checksum(LmcError):
    """A well-formed frame that is not what was written."""


MAGIC = b"\x8cLMC"
VERSION = 1
MODE_STORED, MODE_CODED, MODE_SHORT = 0, 1, 2
BLOCK_LOG2_MIN, BLOCK_LOG2_MAX = 10, 20
FEATURES_KNOWN = 0
PLAN_NBYTES_MAX = 4096
CONTENT_NBYTES_MAX = 2**63 - 1
BYTE_ORDER_LITTLE = 0
SHORT_BLOCK_NBYTES = 255
INDEX_ENTRY_NBYTES = 12
HASH_NBYTES = 8
DTYPE_UNITS = [1] * 11 + [2] * 4 + [4] * 4 + [8] * 3  # section 2.4

TRANSFORM_ROTATE, TRANSFORM_MASK = 1, 2
TABLE_RAW, TABLE_TABLE = 0, 1
BLOCK_STORED, BLOCK_PLANES, BLOCK_MASKED = 0, 1, 2
PLANE_STORED, PLANE_CONSTANT, PLANE_CODED, PLANE_GAPS = 0, 1, 2, 3
SYMBOL_ESCAPE = 255
LAYER_COUNT_MAX = 16
LAYER_NBITS_MAX = 6
FLAGS_BITMAP, FLAGS_GAPS_OF_ONES, FLAGS_GAPS_OF_ZEROS = 0, 1, 2
GAP_LOW_NBITS_MAX = 15
GAP_LEVEL_COUNT_MAX = 12
GAP_LEVEL_VALUES_MIN = 16

LIST = -1  # stands for a layer's list where a symbol could be


# 1. Conventions


def H(data, seed=0):
    return xxhash.xxh3_64_intdigest(bytes(data), seed)


def u64(number):
    return number.to_bytes(8, "little")


def corrupt_unless(condition, rule):
    if not condition:
        raise Corrupt(rule)


def supported_if(condition, what):
    if not condition:
        raise Unsupported(what)


class Reader:
    """Bytes that are read from the front; `end` is what is raised where there are too few of them."""

    def __init__(self, data, end=Corrupt):
        self.data = bytes(data)
        self.position = 0
        self.end = end

    def bytes(self, count):
        if count > len(self.data) - self.position:
            raise self.end(f"{count} bytes wanted at {self.position} of {len(self.data)}")
        self.position += count
        return self.data[self.position - count : self.position]

    def uint(self, count):
        return int.from_bytes(self.bytes(count), "little")

    def bit_plane(self, n):
        data = self.bytes((n + 7) // 8)
        bits = [byte >> i & 1 for byte in data for i in range(8)]
        corrupt_unless(not any(bits[n:]), "spare bits must be 0")
        return bits[:n]

    def packed_plane(self, n, p):
        bits = self.bit_plane(n * p)
        return [sum(bits[i * p + j] << j for j in range(p)) for i in range(n)]

    def finish(self, what):
        corrupt_unless(self.position == len(self.data), f"{what} must be consumed exactly")


# 2. Frame


def decode(frame):
    """The content of a frame."""
    head = Head(frame)
    if head.mode == MODE_CODED:
        return decode_coded(head, frame)
    return decode_uncoded(head, frame)


class Head:
    """2.1: every field is judged as soon as it is there."""

    def __init__(self, frame):
        reader = Reader(frame, end=Truncated)
        for byte in MAGIC:
            corrupt_unless(reader.uint(1) == byte, "magic")
        version = reader.uint(1)
        corrupt_unless(version != 0, "version 0")
        supported_if(version == VERSION, f"version {version}")
        self.dtype = dtype = reader.uint(1)
        supported_if(dtype < len(DTYPE_UNITS), f"dtype {dtype}")
        self.mode = reader.uint(1)
        supported_if(self.mode <= MODE_SHORT, f"mode {self.mode}")
        self.element_nbytes = DTYPE_UNITS[dtype]
        self.plan_nbytes = 0
        if self.mode == MODE_SHORT:
            self.content_nbytes = reader.uint(1)
            self.block_nbytes = SHORT_BLOCK_NBYTES
        else:
            self.read_long(reader)
        self.nbytes = reader.position
        self.block_count = -(-self.content_nbytes // self.block_nbytes)

    def read_long(self, reader):
        block_log2 = reader.uint(1)
        corrupt_unless(BLOCK_LOG2_MIN <= block_log2 <= BLOCK_LOG2_MAX, "block_log2")
        features = reader.uint(4)
        supported_if(features & ~FEATURES_KNOWN == 0, f"features {features:#x}")
        self.plan_nbytes = reader.uint(4)
        coded = self.mode == MODE_CODED
        corrupt_unless(coded or self.plan_nbytes == 0, "plan_nbytes of a stored frame")
        corrupt_unless(not coded or 1 <= self.plan_nbytes <= PLAN_NBYTES_MAX, "plan_nbytes of a coded frame")
        self.content_nbytes = reader.uint(8)
        corrupt_unless(self.content_nbytes <= CONTENT_NBYTES_MAX, "content_nbytes")
        corrupt_unless(not coded or self.content_nbytes >= 1, "a coded frame without content")
        reader.uint(4)  # row_nbytes: informative
        corrupt_unless(reader.uint(1) == self.element_nbytes, "element_nbytes")
        supported_if(reader.uint(1) == BYTE_ORDER_LITTLE, "byte order")
        supported_if(reader.uint(2) == 0, "reserved")
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


def decode_coded(head, frame):
    plan_end = head.nbytes + head.plan_nbytes
    tail_nbytes = head.block_count * INDEX_ENTRY_NBYTES + HASH_NBYTES
    if len(frame) < plan_end + head.block_count + tail_nbytes:
        raise Truncated(f"{len(frame)} bytes are too few for {head.block_count} blocks")
    tail_start = len(frame) - tail_nbytes
    verify_check(frame[:plan_end], frame[tail_start:])
    plan = Plan(head, frame[head.nbytes : plan_end])
    index = read_index(head, frame[tail_start:], tail_start - plan_end)
    blocks = Reader(frame[plan_end:tail_start])
    content = bytearray()
    for i, (stored_nbytes, block_hash) in enumerate(index):
        block = decode_block(plan, blocks.bytes(stored_nbytes), head.block_content_nbytes(i))
        if H(block) != block_hash:
            raise Checksum(f"content of block {i}")
        content += block
    return bytes(content)


def read_index(head, tail, blocks_nbytes):
    """2.3: (stored_nbytes, hash of the content) of every block."""
    reader = Reader(tail)
    index = []
    for i in range(head.block_count):
        stored_nbytes, block_hash = reader.uint(4), reader.uint(8)
        corrupt_unless(1 <= stored_nbytes <= head.block_content_nbytes(i) + 1, f"stored_nbytes of block {i}")
        index.append((stored_nbytes, block_hash))
    corrupt_unless(sum(entry[0] for entry in index) == blocks_nbytes, "sum of the block sizes")
    return index


# 3. Plan, 4. Planes


class Plan:
    """How elements are cut into planes, and the planes' tables: None for a raw plane."""

    def __init__(self, head, data):
        reader = Reader(data)
        self.W = W = head.element_nbytes
        self.h = 8 if W == 1 else 16
        transform = reader.uint(1)
        supported_if(transform & ~(TRANSFORM_ROTATE | TRANSFORM_MASK) == 0, f"transform {transform:#x}")
        self.rotate = bool(transform & TRANSFORM_ROTATE)
        self.p = reader.uint(1)
        corrupt_unless(0 <= self.p <= 4 if W == 1 else 4 <= self.p <= 8, "low_nbits")
        self.offset = reader.uint(2)
        corrupt_unless(self.offset < 1 << self.h, "offset")
        self.base = reader.uint(2)
        corrupt_unless(self.base < 1 << self.symbol_nbits, "base")
        self.mask_value = reader.uint(W) if transform & TRANSFORM_MASK else None
        self.plane_nbits = [8] + [self.p] * (self.p > 0) + [8] * max(W - 2, 0)
        self.tables = [read_plane_table(reader, nbits) for nbits in self.plane_nbits]
        reader.finish("the plan")

    @property
    def symbol_nbits(self):
        return self.h - self.p

    @property
    def has_escapes(self):
        return self.symbol_nbits > 8

    def element(self, s, escape, others):
        """The inverse of section 4. `escape` is None where there is none; `others` are the planes after plane 0."""
        low = 0
        if self.p > 0:
            low, others = others[0], others[1:]
        high = escape if escape is not None else (s + self.base) % (1 << self.symbol_nbits)
        t = high << self.p | low
        v = (t - self.offset) % (1 << self.h)
        for byte in others:
            v = v << 8 | byte
        if self.rotate:
            v = v >> 1 | (v & 1) << (8 * self.W - 1)
        return v


def read_plane_table(reader, nbits):
    kind = reader.uint(1)
    supported_if(kind <= TABLE_TABLE, f"table kind {kind}")
    if kind == TABLE_RAW:
        return None
    corrupt_unless(nbits == 8, "a table for a packed plane")
    return read_table(reader)


# 5. Blocks


def decode_block(plan, data, c):
    """A block's c bytes of content."""
    reader = Reader(data)
    n, tail_nbytes = divmod(c, plan.W)
    mode = reader.uint(1)
    supported_if(mode <= BLOCK_MASKED, f"block mode {mode}")
    if mode == BLOCK_STORED:
        content = reader.bytes(c)
    else:
        corrupt_unless(n >= 1, "a block without elements can only be stored")
        decode_elements = decode_planes if mode == BLOCK_PLANES else decode_masked
        elements = decode_elements(plan, reader, n)
        content = b"".join(x.to_bytes(plan.W, "little") for x in elements) + reader.bytes(tail_nbytes)
    reader.finish("a block")
    return content


def decode_masked(plan, reader, n):
    corrupt_unless(plan.mask_value is not None, "a masked block, but no mask value")
    flags = read_flags(reader, n)
    m = sum(flags)
    corrupt_unless(m >= 1, "a masked block of nothing but the mask value")
    elements = iter(decode_planes(plan, reader, m))
    return [next(elements) if flag else plan.mask_value for flag in flags]


def decode_planes(plan, reader, n):
    """5.1 and 5.2: n elements."""
    modes = [reader.uint(1) for _ in plan.plane_nbits]
    planes = [None] * len(modes)
    for i in reversed(range(len(modes))):
        planes[i] = decode_plane(reader, modes[i], n, plan.plane_nbits[i], plan.tables[i])
    symbols = planes[0]
    escapes = [None] * n
    if plan.has_escapes:
        for i in range(n):
            if symbols[i] == SYMBOL_ESCAPE:
                escapes[i] = reader.uint(2)
                corrupt_unless(escapes[i] < 1 << plan.symbol_nbits, "an escape is too wide")
    return [plan.element(symbols[i], escapes[i], [plane[i] for plane in planes[1:]]) for i in range(n)]


def decode_plane(reader, mode, n, nbits, table):
    supported_if(mode <= PLANE_GAPS, f"plane mode {mode}")
    if mode == PLANE_STORED:
        return list(reader.bytes(n)) if nbits == 8 else reader.packed_plane(n, nbits)
    if mode == PLANE_CONSTANT:
        value = reader.uint(1)
        corrupt_unless(value < 1 << nbits, "the value of a constant plane is too wide")
        return [value] * n
    corrupt_unless(nbits == 8, "a packed plane that is coded or gaps")
    if mode == PLANE_CODED:
        corrupt_unless(table is not None, "a coded plane without a table")
        return decode_coded_plane(reader, table, n)
    return decode_gaps_plane(reader, table, n)


def decode_gaps_plane(reader, table, n):
    dominant = reader.uint(1)
    flags = read_flags(reader, n)
    corrupt_unless(any(flags), "a gaps plane without exceptions")
    mode = reader.uint(1)
    corrupt_unless(mode in (PLANE_STORED, PLANE_CODED), "mode of the exceptions")
    exceptions = iter(decode_plane(reader, mode, sum(flags), 8, table))
    return [next(exceptions) if flag else dominant for flag in flags]


# 6. Coded planes


class Layer:
    """`symbols` maps a length to the symbols that have it, in order."""

    def __init__(self, first, last):
        self.first = first
        self.last = last
        self.symbols = {length: [] for length in range(first, last + 1)}
        self.has_list = False
        self.codes = {}  # (length, code): symbol or LIST

    def complete(self, is_last):
        """6.2: find the list's length; 6.1: assign the codes."""
        r = 64 - sum(64 // 2**length * len(symbols) for length, symbols in self.symbols.items())
        self.has_list = r != 0
        if self.has_list:
            fits = [length for length in self.symbols if r == 64 // 2**length]
            corrupt_unless(fits, "a layer's code is not complete")
            self.symbols[fits[0]].append(LIST)
        else:
            corrupt_unless(is_last, "a layer without a list is not the last one")
        corrupt_unless(self.symbols[self.first] and self.symbols[self.last], "a layer's first or last is not in use")
        code = 0
        for length in range(self.first, self.last + 1):
            if length > self.first:
                code <<= 1
            for entry in self.symbols[length]:
                self.codes[length, code] = entry
                code += 1


def read_table(reader):
    """6.2: the layers of a table."""
    layer_count = reader.uint(1)
    corrupt_unless(1 <= layer_count <= LAYER_COUNT_MAX, "layer_count")
    layers = []
    for _ in range(layer_count):
        byte = reader.uint(1)
        first, last = byte & 15, byte >> 4
        corrupt_unless(1 <= first <= last <= LAYER_NBITS_MAX, "a layer's first and last")
        layers.append(Layer(first, last))
    low, high = reader.uint(1), reader.uint(1)
    corrupt_unless(low <= high, "low and high")
    places = [symbols for layer in layers for symbols in layer.symbols.values()]  # of classes 1, 2, ...
    C = len(places)
    classes = reader.packed_plane(high - low + 1, C.bit_length())
    corrupt_unless(max(classes) <= C, "a class above C")
    corrupt_unless(classes[0] != 0 and classes[-1] != 0, "class 0 for low or high")
    for i, number in enumerate(classes):
        if number != 0:
            places[number - 1].append(low + i)
    for layer in layers:
        layer.complete(is_last=layer is layers[-1])
    return layers


def counter_nbytes(n):
    """q of sections 6.3 and 7."""
    return 1 if n < 256 else 2 if n < 65536 else 3


def decode_coded_plane(reader, layers, n):
    """6.3: n symbols."""
    layer_ns, plane_ns = read_counts(reader, layers, n)
    planes = [[reader.bit_plane(bits) for bits in plane_ns[i]] for i in range(len(layers))]
    symbols = list(reader.bytes(layer_ns[-1]))  # the rest
    for i in reversed(range(len(layers))):
        symbols = decode_layer(layers[i], layer_ns[i], planes[i], symbols)
    return symbols


def read_counts(reader, layers, n):
    """The symbols of every layer, and after them those of the rest; the bits of every layer's planes."""
    q = counter_nbytes(n)
    layer_ns, plane_ns = [n], []
    for layer in layers:
        in_layer = layer_ns[-1]
        counts = [reader.uint(q) for _ in range(layer.first, layer.last)]
        go_on = reader.uint(q) if layer.has_list else 0
        corrupt_unless(max(counts + [go_on]) <= in_layer, "a count exceeds the symbols of its layer")
        plane_ns.append([in_layer] * layer.first + counts)
        layer_ns.append(go_on)
    return layer_ns, plane_ns


def decode_layer(layer, n, planes, listed):
    """The n symbols of a layer, given those that go on from it."""
    planes = [iter(plane) for plane in planes]
    listed = iter(listed)
    symbols = []
    try:
        for _ in range(n):
            length, code = 0, 0
            while (length, code) not in layer.codes:
                code = code << 1 | next(planes[length])
                length += 1
            entry = layer.codes[length, code]
            symbols.append(next(listed) if entry == LIST else entry)
    except StopIteration:
        raise Corrupt("a plane or a list is too short") from None
    for left in planes + [listed]:
        corrupt_unless(next(left, None) is None, "a plane or a list is too long")
    return symbols


# 7. Flags


def read_flags(reader, n):
    mode = reader.uint(1)
    supported_if(mode <= FLAGS_GAPS_OF_ZEROS, f"flags mode {mode}")
    if mode == FLAGS_BITMAP:
        return reader.bit_plane(n)
    member = 1 if mode == FLAGS_GAPS_OF_ONES else 0
    flags = [1 - member] * n
    place = -1
    for gap in read_gaps(reader, n):
        place += gap + 1
        corrupt_unless(place < n, "a member beyond the end")
        flags[place] = member
    return flags


def read_gaps(reader, n):
    m = reader.uint(counter_nbytes(n))
    corrupt_unless(1 <= m <= n, "the number of members")
    k = reader.uint(1)
    corrupt_unless(k <= GAP_LOW_NBITS_MAX, "k")
    gaps = [0] * m
    for j in range(k):
        gaps = [gap | bit << j for gap, bit in zip(gaps, reader.bit_plane(m))]
    quotients = read_quotients(reader, m)
    return [gap + (quotient << k) for gap, quotient in zip(gaps, quotients)]


def read_quotients(reader, m):
    quotients = [0] * m
    members = list(range(m))  # whose values are in the list of this level
    t = 0
    while t < GAP_LEVEL_COUNT_MAX and len(members) >= GAP_LEVEL_VALUES_MIN:
        bits = reader.bit_plane(len(members))
        members = [member for member, bit in zip(members, bits) if bit]
        for member in members:
            quotients[member] += 1
        t += 1
    for member, value in zip(members, reader.bytes(len(members))):
        quotients[member] += value
    return quotients


def main():
    parser = argparse.ArgumentParser(description="Decode an LMC frame, by the letter of docs/format.md.")
    parser.add_argument("frame", metavar="FRAME", help="the file with the frame")
    parser.add_argument("-o", metavar="OUT", help="where the content goes; without it only the size is shown")
    arguments = parser.parse_args()
    with open(arguments.frame, "rb") as file:
        frame = file.read()
    try:
        content = decode(frame)
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
