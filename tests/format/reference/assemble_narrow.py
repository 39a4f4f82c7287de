"""assemble_narrow.py - narrow elements put together by hand, beside assemble.py: sections 3.2, 4.2 and 5.4 of
docs/format.md. Numbers are computed with the floats of Python: a product of two F32 is exact in them."""

import math
import struct

import assemble as a
import lmc_reference as lmc

F16_IN_F32, BF16_IN_F32, F32_IN_F64, PRODUCT, PALETTE = range(5)
PRODUCT_F32, PRODUCT_F16, PRODUCT_BF16 = range(3)
I8, I8_ZEROS, E4M3, E5M2, LIST = range(5)
NARROW = b"\5"
NONE, ALL = b"\3", b"\4"
NARROW_FEATURE = lmc.FEATURE_NARROW


def f32_bits(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def f32(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


# 3.2. Narrow fields


def fields(form, product_type=0, factor_kind=0, factors=(), row_length=64, group_length=32):
    """`factors`: the bits of each."""
    data = bytes([form])
    if form == PRODUCT:
        data += bytes([product_type, factor_kind])
        if factor_kind == LIST:
            data += bytes([len(factors) - 1]) + a.numbers(factors, 4)
    return data + struct.pack("<II", row_length, group_length) if form in (PRODUCT, PALETTE) else data


# 4.2. Wide elements


def factor(y, kind, factors=()):
    """As a float: all of them are exact."""
    if kind == LIST:
        return f32(factors[y]) if y < len(factors) else 0.0
    if kind in (E4M3, E5M2):
        exponent, digits, bias = (y >> 3 & 15, 8, 10) if kind == E4M3 else (y >> 2 & 31, 4, 17)
        m = y % digits + (digits if exponent else 0)
        return math.copysign(math.ldexp(m, max(exponent, 1) - bias), 0.5 - (y >> 7))
    return -0.0 if kind == I8_ZEROS and y == 128 else float(y - 256 if y >= 128 else y)


def product(scale, number, product_type):
    """The bits of a wide element; `scale` has the bits of an F32."""
    u = f32_bits(f32(scale) * number)
    if product_type == PRODUCT_F32:
        return u
    if product_type == PRODUCT_BF16:
        return u + 0x7FFF + (u >> 16 & 1) >> 16
    try:
        return struct.unpack("<H", struct.pack("<e", f32(u)))[0]
    except OverflowError:
        return u >> 31 << 15 | 0x7C00


def f16_in_f32(y):
    if y >> 10 & 31 == 31:
        is_nan = y & 1023 > 0
        return (y & 0x8000) << 16 | 0x7F800000 | (y & 1023) << 13 | (0x400000 if is_nan else 0)
    return f32_bits(struct.unpack("<e", struct.pack("<H", y))[0])


def f32_in_f64(y):
    exponent, sign = y >> 23 & 255, y >> 31 << 63
    if exponent in (0, 255):
        return sign | (0x7FF << 52 | (y & 0x7FFFFF) << 29 if exponent else 0)
    return struct.unpack("<Q", struct.pack("<d", f32(y)))[0]


PLAIN = {F16_IN_F32: (4, 2, f16_in_f32), BF16_IN_F32: (4, 2, lambda y: y << 16), F32_IN_F64: (8, 4, f32_in_f64)}


class Groups:
    """Which elements share a scale or a palette."""

    def __init__(self, row_length, group_length):
        self.row_length, self.group_length = row_length, group_length
        self.k = (row_length + group_length - 1) // group_length

    def number(self, e):
        return e // self.row_length * self.k + e % self.row_length // self.group_length

    def of_block(self, f, n):
        """The number within the block of each element's group."""
        numbers = [self.number(f + i) for i in range(n)]
        return [number - numbers[0] for number in numbers]

    def all_of(self, flags, new):
        """What belongs to each group, if flags are set for those that are new."""
        new, found = iter(new), []
        for i, flag in enumerate(flags):
            found.append(next(new) if flag else found[i - self.k])
        return found


# 5.4. Narrow blocks


def stored_plane(data):
    return b"\0" + bytes(data)


def byte_planes(values, nbytes, write=stored_plane):
    """Planes of numbers, the most significant bytes first; `write` makes one of its bytes."""
    return b"".join(write(bytes(value >> 8 * j & 255 for value in values)) for j in reversed(range(nbytes)))


def shortest_plane(data):
    """A plane that is constant, or has exceptions, or is stored."""
    most = max(sorted(set(data)), key=data.count)
    others = bytes(value for value in data if value != most)
    if not others:
        return b"\1" + bytes([most])
    if len(others) <= len(data) // 2:
        return b"\3" + bytes([most]) + a.bitmap([int(value != most) for value in data]) + b"\0" + others
    return stored_plane(data)


def scales_part(flags, scales, write=stored_plane, flags_as=a.bitmap):
    return flags_as(flags) + byte_planes(scales, 4, write)


def palettes_part(flags, palettes, W, write=stored_plane, flags_as=a.bitmap):
    counts = write(bytes(len(palette) - 1 for palette in palettes))
    return flags_as(flags) + counts + byte_planes(sum(palettes, []), W, write)


def exceptions_part(n, exceptions, W, flags_as=a.bitmap):
    """`exceptions`: {place: element}."""
    flags = [int(i in exceptions) for i in range(n)]
    return flags_as(flags) + a.numbers([exceptions[i] for i in sorted(exceptions)], W)


def block(groups, exceptions, inner, trailing=b""):
    """The parts of a narrow block; `inner` begins with its mode."""
    return NARROW + groups + exceptions + inner + trailing
