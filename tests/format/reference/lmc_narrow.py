"""Narrow elements of the reference decoder: docs/format.md, sections 3.2 (narrow fields), 4.2 (wide elements) and 5.4
(narrow blocks, but for the narrow elements themselves). Numbers are computed with integers: m and e stand for m 2^e."""
from lmc_basics import Corrupt, corrupt_unless, supported_if
from lmc_flags import read_flags
from lmc_planes import PLANE_CODED, decode_plane

NARROW_F16_IN_F32, NARROW_BF16_IN_F32, NARROW_F32_IN_F64, NARROW_PRODUCT, NARROW_PALETTE = range(5)
PRODUCT_F32, PRODUCT_F16, PRODUCT_BF16 = range(3)
FACTORS_I8, FACTORS_I8_ZEROS, FACTORS_E4M3, FACTORS_E5M2, FACTORS_LIST = range(5)
GROUP_LENGTH_MIN = 16
FACTOR_EXPONENT_MIN, FACTOR_EXPONENT_MAX = 107, 147
SCALE_EXPONENT_MIN, SCALE_EXPONENT_MAX = 27, 227

FORM_UNITS = [((4,), 2), ((4,), 2), ((8,), 4), ((2, 4), 1), ((2, 4, 8), 1)]  # of each form: every W, and W'
PRODUCT_UNITS = [4, 2, 2]  # of each product type: W
F32, F16, BF16 = (8, 23), (5, 10), (8, 7)  # bits of exponent and mantissa
PRODUCT_TYPES = [F32, F16, BF16]


# 3.2. Narrow fields


class Narrow:
    """Narrow fields: how wide elements of W bytes are made. `narrow_nbytes` is W'."""

    def __init__(self, reader, W):
        self.W = W
        self.form = reader.uint(1)
        supported_if(self.form <= NARROW_PALETTE, f"narrow form {self.form}")
        wide_nbytes, self.narrow_nbytes = FORM_UNITS[self.form]
        corrupt_unless(W in wide_nbytes, "a narrow form of another W")
        if self.form == NARROW_PRODUCT:
            self.read_product(reader)
        self.has_groups = self.form in (NARROW_PRODUCT, NARROW_PALETTE)
        if self.has_groups:
            self.row_length, self.group_length = reader.uint(4), reader.uint(4)
            corrupt_unless(self.row_length >= GROUP_LENGTH_MIN, "row_length")
            corrupt_unless(GROUP_LENGTH_MIN <= self.group_length <= self.row_length, "group_length")

    def read_product(self, reader):
        self.product_type, self.factor_kind = reader.uint(1), reader.uint(1)
        supported_if(self.product_type <= PRODUCT_BF16, f"product type {self.product_type}")
        supported_if(self.factor_kind <= FACTORS_LIST, f"factor kind {self.factor_kind}")
        corrupt_unless(PRODUCT_UNITS[self.product_type] == self.W, "a product type of another W")
        if self.factor_kind == FACTORS_LIST:
            self.factors = self.read_list(reader)
        else:
            self.factors = [FACTOR_OF[self.factor_kind](y) for y in range(256)]

    def read_list(self, reader):
        self.list_count = count = reader.uint(1) + 1
        return [read_factor(reader) for _ in range(count)] + [parts(0, F32)] * (256 - count)

    @property
    def groups_per_row(self):
        return -(-self.row_length // self.group_length)

    def group_of(self, e):
        """4.2: the group of element e of the frame."""
        row, column = divmod(e, self.row_length)
        return row * self.groups_per_row + column // self.group_length

    def wide(self, y, group):
        """4.2: the element for y. `group` is the scale or the palette of its group, or None."""
        if self.form == NARROW_PRODUCT:
            return product(group, self.factors[y], PRODUCT_TYPES[self.product_type])
        if self.form == NARROW_PALETTE:
            return group[y] if y < len(group) else 0
        return WIDENED[self.form](y)


def read_factor(reader):
    """A factor of kind LIST."""
    u = reader.uint(4)
    is_zero = u << 1 & 0xFFFFFFFF == 0
    corrupt_unless(is_zero or FACTOR_EXPONENT_MIN <= u >> 23 & 255 <= FACTOR_EXPONENT_MAX, "a factor of the list")
    return parts(u, F32)


# 4.2. Wide elements


def widened_f16(y):
    sign, exponent, mantissa = y >> 15, y >> 10 & 31, y & 1023
    if exponent == 31:
        is_nan = mantissa != 0
        return sign << 31 | 0x7F800000 | is_nan << 22 | mantissa << 13
    _, m, e = parts(y, F16)
    return sign << 31 | rounded(m, e, F32)


def widened_bf16(y):
    return y << 16


def widened_f32(y):
    sign, exponent, mantissa = y >> 31, y >> 23 & 255, y & 0x7FFFFF
    if exponent == 0:
        return sign << 63
    return sign << 63 | (2047 if exponent == 255 else exponent - 127 + 1023) << 52 | mantissa << 29


WIDENED = [widened_f16, widened_bf16, widened_f32]


def factor_i8(y):
    return (1, 256 - y, 0) if y >= 128 else (0, y, 0)


def factor_i8_zeros(y):
    return (1, 0, 0) if y == 128 else factor_i8(y)


def factor_e4m3(y):
    sign, e, m = y >> 7, y >> 3 & 15, y & 7
    return (sign, m, -9) if e == 0 else (sign, 8 + m, e - 10)


def factor_e5m2(y):
    sign, e, m = y >> 7, y >> 2 & 31, y & 3
    return (sign, m, -16) if e == 0 else (sign, 4 + m, e - 17)


FACTOR_OF = [factor_i8, factor_i8_zeros, factor_e4m3, factor_e5m2]


def product(scale, factor, of_type):
    """The number scale times factor: rounded to F32, then to the type. scale is the bits of an F32."""
    sign, m, e = factor
    _, scale_m, scale_e = parts(scale, F32)
    _, m, e = parts(rounded(m * scale_m, e + scale_e, F32), F32)
    exponent_nbits, mantissa_nbits = of_type
    return sign << exponent_nbits + mantissa_nbits | rounded(m, e, of_type)


def parts(u, of_type):
    """Sign, m and e of a finite number with the bits u."""
    exponent_nbits, mantissa_nbits = of_type
    mantissa = u & (1 << mantissa_nbits) - 1
    exponent = u >> mantissa_nbits & (1 << exponent_nbits) - 1
    if exponent > 0:
        mantissa |= 1 << mantissa_nbits
    return u >> exponent_nbits + mantissa_nbits, mantissa, max(exponent, 1) + unit_min(of_type) - 1


def unit_min(of_type):
    """The least positive number of a type is 2 to this power."""
    exponent_nbits, mantissa_nbits = of_type
    return 2 - (1 << exponent_nbits - 1) - mantissa_nbits


def rounded(m, e, of_type):
    """The bits of the number of a type that is nearest to m 2^e, m >= 0; ties to even, infinity beyond all numbers."""
    if m == 0:
        return 0
    exponent_nbits, mantissa_nbits = of_type
    unit = max(m.bit_length() - 1 - mantissa_nbits + e, unit_min(of_type))  # the last bit of the result is 2^unit
    if e >= unit:
        count = m << e - unit
    else:
        count, rest = divmod(m, 1 << unit - e)
        half = 1 << unit - e - 1
        count += rest > half or (rest == half and count & 1)
    infinity = (1 << exponent_nbits) - 1 << mantissa_nbits
    return min((unit - unit_min(of_type) << mantissa_nbits) + count, infinity)


# 5.4. Narrow blocks


def read_groups(narrow, reader, n, f):
    """The scale or the palette of each of n elements, from number f of the frame on."""
    first, k = narrow.group_of(f), narrow.groups_per_row
    flags = read_flags(reader, narrow.group_of(f + n - 1) - first + 1)
    corrupt_unless(all(flags[:k]), "a group without one that it could be like")
    m = sum(flags)
    new = iter(read_scales(reader, m) if narrow.form == NARROW_PRODUCT else read_palettes(reader, m, n, narrow.W))
    groups = []
    for i, flag in enumerate(flags):
        groups.append(next(new) if flag else groups[i - k])
    return [groups[narrow.group_of(f + i) - first] for i in range(n)]


def read_scales(reader, m):
    scales = read_numbers(reader, m, 4)
    for scale in scales:
        is_legal = scale >> 31 == 0 and SCALE_EXPONENT_MIN <= scale >> 23 <= SCALE_EXPONENT_MAX
        corrupt_unless(is_legal, "a scale")
    return scales


def read_palettes(reader, m, n, W):
    counts = [value + 1 for value in read_byte_plane(reader, m)]
    corrupt_unless(sum(counts) <= n, "more values of palettes than elements")
    values = iter(read_numbers(reader, sum(counts), W))
    return [[next(values) for _ in range(count)] for count in counts]


def read_numbers(reader, m, nbytes):
    """m numbers as planes of their bytes."""
    planes = [read_byte_plane(reader, m) for _ in range(nbytes)]
    return [int.from_bytes(number, "big") for number in zip(*planes)]


def read_byte_plane(reader, m):
    """A plane of what belongs to groups."""
    mode = reader.uint(1)
    if mode == PLANE_CODED:
        raise Corrupt("a coded plane of what belongs to groups")
    return decode_plane(reader, mode, m, 8, None)


def read_wide_exceptions(reader, n, W):
    """{place: element}"""
    places = [i for i, flag in enumerate(read_flags(reader, n)) if flag]
    return {place: reader.uint(W) for place in places}
