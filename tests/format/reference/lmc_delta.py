"""Delta frames of the reference decoder: docs/format.md, section 8."""
from lmc_basics import Base, corrupt_unless, counter_nbytes, supported_if
from lmc_flags import read_flags
from lmc_planes import PLANE_CODED, SYMBOL_ESCAPE, decode_plane

BASE_PLAIN = 0
DELTA_MAGNITUDE, DELTA_DIFFERENCE, DELTA_XOR = 0, 1, 2
CLASS_COUNT_MAX = 16
CLASS_LOW_NBITS_MAX = 8
BLOCK_STORED, BLOCK_SAME, BLOCK_DELTA = 0, 3, 4
LADDER = [(0, 0), (1, 1), (3, 1), (5, 1), (7, 2), (11, 2), (15, 3), (23, 3), (31, 5)]  # first symbol, bits d
RUNG_VALUES_MIN = 8
DTYPE_F16, DTYPE_BF16, DTYPE_F32 = 13, 14, 17

# forms of a base that rounds: dtype of the content, dtype of the base, bytes of the base for each byte of content
ROUNDED = {1: (DTYPE_BF16, DTYPE_F32, 2), 2: (DTYPE_F16, DTYPE_F32, 2), 3: (DTYPE_F16, DTYPE_BF16, 1)}


# 8.1 Base


def check_base_form(base_form, dtype, content_nbytes):
    supported_if(base_form == BASE_PLAIN or base_form in ROUNDED, f"base form {base_form}")
    if base_form in ROUNDED:
        corrupt_unless(dtype == ROUNDED[base_form][0], "a base that is rounded to another dtype")
        corrupt_unless(content_nbytes % 2 == 0, "a base that is rounded, and half an element")
        corrupt_unless(content_nbytes * base_unit(base_form) < 1 << 63, "a base that is rounded, and too much content")


def base_unit(base_form):
    """Bytes of the base for each byte of content."""
    return ROUNDED[base_form][2] if base_form in ROUNDED else 1


def base_values(base_form, part):
    """The base's part of a block as bytes to be compared with the block's content."""
    if base_form == BASE_PLAIN:
        return part
    dtype, base_dtype, unit = ROUNDED[base_form]
    elements = (int.from_bytes(part[i : i + 2 * unit], "little") for i in range(0, len(part), 2 * unit))
    floats = elements if base_dtype == DTYPE_F32 else (u << 16 for u in elements)
    rounded = rounded_to_bf16 if dtype == DTYPE_BF16 else rounded_to_f16
    return b"".join(rounded(u).to_bytes(2, "little") for u in floats)


def rounded_to_bf16(u):
    if u % (1 << 31) > 0x7F800000:
        return u >> 31 << 15 | 0x7FC0
    return (u + 0x7FFF + (u >> 16) % 2) % (1 << 32) >> 16


def rounded_to_f16(u):
    sign, v = u >> 31 << 15, u % (1 << 31)
    if v > 0x7F800000:
        return sign | 0x7E00
    if v >= 0x47800000:
        return sign | 0x7C00
    if v >= 0x38800000:
        return sign | (v - 0x38000000 + 0xFFF + (v >> 13) % 2) >> 13
    if v < 0x33000000:
        return sign
    s, m = 126 - (v >> 23), v % (1 << 23) + (1 << 23)
    return sign | (m + (1 << s - 1) - 1 + (m >> s) % 2) >> s


# 8.2 Delta plan


class DeltaPlan:
    """How an element and its base value give a difference and a class, and the low bits of each class."""

    def __init__(self, head, reader):
        self.W = W = head.element_nbytes
        self.w = 8 * W
        self.base_form = head.base_form
        self.transform = reader.uint(1)
        supported_if(self.transform <= DELTA_XOR, f"transform {self.transform}")
        self.low_nbytes = reader.uint(1)
        corrupt_unless(self.low_nbytes <= W - 1, "low_nbytes")
        self.key_shift = reader.uint(1)
        corrupt_unless(self.key_shift <= 8 * W - 1, "key_shift")
        C = reader.uint(1)
        corrupt_unless(1 <= C <= CLASS_COUNT_MAX, "class_count")
        self.first_keys = [0] + list(reader.bytes(C - 1))
        rises = all(first < second for first, second in zip(self.first_keys, self.first_keys[1:]))
        corrupt_unless(rises, "the first keys do not rise")
        self.low_nbits = list(reader.bytes(C))
        corrupt_unless(max(self.low_nbits) <= CLASS_LOW_NBITS_MAX, "low bits of a class")
        reader.finish("the plan")

    def class_of(self, b):
        if self.transform == DELTA_MAGNITUDE:
            b %= 1 << self.w - 1
        key = (b >> self.key_shift) % 256
        return max(i for i, first in enumerate(self.first_keys) if first <= key)

    def element(self, b, high, flip, low):
        """The inverse of the transform. `high` is the head, `low` the low bytes as a number."""
        f, head = 0, high
        if self.transform == DELTA_MAGNITUDE:
            f = flip | high >> 15
            head = high % (1 << 15)
        z = (head << 8 * self.low_nbytes | low) % (1 << self.w)
        if self.transform == DELTA_XOR:
            return b ^ z
        d = -(z >> 1) - 1 if z % 2 else z >> 1
        if self.transform == DELTA_DIFFERENCE:
            return (b + d) % (1 << self.w)
        magnitude_nbits = self.w - 1
        return (b + d) % (1 << magnitude_nbits) | ((b >> magnitude_nbits) ^ f) << magnitude_nbits


# 8.3 Delta blocks


def verified_values(plan, part, part_hash_is_right):
    """8.1: nothing of a block is decoded before its part of the base is there and right."""
    if part is None or not part_hash_is_right:
        raise Base("the base is missing" if part is None else "another base")
    return base_values(plan.base_form, part)


def decode_delta_block(plan, reader, c, values):
    """A block's c bytes of content; `values` are its base values, as bytes."""
    n, tail_nbytes = divmod(c, plan.W)
    mode = reader.uint(1)
    supported_if(mode in (BLOCK_STORED, BLOCK_SAME, BLOCK_DELTA), f"block mode {mode} in a delta frame")
    if mode == BLOCK_STORED:
        content = reader.bytes(c)
    elif mode == BLOCK_SAME:
        content = values
    else:
        corrupt_unless(n >= 1, "a delta block without elements")
        bases = [int.from_bytes(values[i : i + plan.W], "little") for i in range(0, n * plan.W, plan.W)]
        elements = decode_deltas(plan, reader, bases)
        content = b"".join(x.to_bytes(plan.W, "little") for x in elements) + reader.bytes(tail_nbytes)
    reader.finish("a block")
    return content


def decode_deltas(plan, reader, bases):
    n = len(bases)
    exceptions = read_exceptions(plan, reader, n)
    lows = read_low_bytes(plan, reader, n)
    elements = [None] * n
    classes = [plan.class_of(b) for b in bases]
    for number, k in enumerate(plan.low_nbits):
        places = [i for i in range(n) if classes[i] == number]
        if places:
            heads, flips = read_heads(plan, reader, len(places), k)
            for i, head, flip in zip(places, heads, flips):
                elements[i] = plan.element(bases[i], head, flip, lows[i])
    for place, x in exceptions.items():
        elements[place] = x
    return elements


def read_exceptions(plan, reader, n):
    """{place: element}."""
    q = counter_nbytes(n)
    count = reader.uint(q)
    corrupt_unless(count <= n, "more exceptions than elements")
    places = [reader.uint(q) for _ in range(count)]
    corrupt_unless(all(a < b for a, b in zip(places, places[1:])), "the places of exceptions do not rise")
    corrupt_unless(not places or places[-1] < n, "an exception at place n or beyond")
    return {place: reader.uint(plan.W) for place in places}


def read_low_bytes(plan, reader, n):
    """For each element its low bytes, as a number."""
    lows = [0] * n
    modes = []
    for _ in range(plan.low_nbytes):
        modes.append(reader.uint(1))
        corrupt_unless(modes[-1] != PLANE_CODED, "a coded plane of low bytes")
        lows = [low << 8 | byte for low, byte in zip(lows, decode_plane(reader, modes[-1], n, 8, None))]
    return lows


# 8.4 Heads of a class


def read_heads(plan, reader, n, k):
    flips = read_flags(reader, n) if plan.transform == DELTA_MAGNITUDE else [0] * n
    lows = reader.packed_plane(n, k)
    symbols = read_ladder(reader, n)
    wide = symbols
    if k < 8:
        escapes = iter(read_class_escapes(reader, symbols.count(SYMBOL_ESCAPE), k))
        wide = [next(escapes) if symbol == SYMBOL_ESCAPE else symbol for symbol in symbols]
    return [symbol << k | low for symbol, low in zip(wide, lows)], flips


def read_class_escapes(reader, count, k):
    escapes = [reader.uint(2) for _ in range(count)]
    corrupt_unless(all(escape < 1 << 16 - k for escape in escapes), "an escape is too wide")
    return escapes


# 8.5 Ladders


def read_ladder(reader, n):
    symbols = [None] * n
    places = list(range(n))  # of the symbols in the list of this rung
    rungs = 0
    while rungs < len(LADDER) and len(places) >= RUNG_VALUES_MIN:
        first, d = LADDER[rungs]
        go_on = read_flags(reader, len(places))
        own = [place for place, flag in zip(places, go_on) if not flag]
        numbers = [0] * len(own)
        for _ in range(d):
            numbers = [number << 1 | bit for number, bit in zip(numbers, reader.bit_plane(len(own)))]
        for place, number in zip(own, numbers):
            symbols[place] = first + number
        places = [place for place, flag in zip(places, go_on) if flag]
        rungs += 1
    for place, byte in zip(places, reader.bytes(len(places))):
        symbols[place] = byte
    return symbols
