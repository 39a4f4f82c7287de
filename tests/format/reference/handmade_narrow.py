"""handmade_narrow.py - good frames of narrow elements, beside handmade.py: sections 3.2, 4.2 and 5.4 of
docs/format.md."""

import math

import assemble as a
import assemble_narrow as w
import assemble_rans as r
from assemble import BF16, F32, I64, U8
from handmade import MASKED, PLANES, STORED, scattered
from handmade_rans import content_of, skewed

F16, C64, U64, F64 = 13, 18, 20, 21
DTYPE_OF_PRODUCT = [F32, F16, BF16]


def narrow_frame(fields, plan, blocks, content, dtype, features=0, **others):
    return a.coded_frame(fields + plan, blocks, content, dtype, features=w.NARROW_FEATURE | features, **others)


def raw_plan(W, **fields):
    """A plan without tables, for elements of W bytes."""
    return a.plan([None] * max(W, 1), p=0 if W == 1 else 8, **fields)


def stored_planes(ys, W, rotate=0):
    """A block of mode PLANES, whose planes are stored. It goes with raw_plan."""
    vs = [(y << rotate | y >> 8 * W - 1) & (1 << 8 * W) - 1 if rotate else y for y in ys]
    return PLANES + b"\0" * W + b"".join(bytes(v >> 8 * j & 255 for v in vs) for j in range(W))


def elements_of(data, W):
    return [int.from_bytes(data[i : i + W], "little") for i in range(0, len(data), W)]


def with_exceptions(xs, exceptions):
    return [exceptions.get(i, x) for i, x in enumerate(xs)]


# Forms without groups

F16_SPECIALS = [0, 0x8000, 1, 0x8001, 0x3FF, 0x83FF, 0x200, 0x400, 0x8400, 0x3C00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00]
F16_SPECIALS += [0x7C01, 0xFC01, 0x7DFF, 0x7E00, 0xFE00, 0x7E01, 0x7FFF, 0xFFFF]
F32_SPECIALS = [u << 16 for u in F16_SPECIALS] + [1, 0x807FFFFF, 0x7FFFFF, 0x800000, 0x80800000, 0x7F7FFFFF]
F32_SPECIALS += [0x7F800000, 0xFF800000, 0x7F800001, 0xFF800001, 0x7FC00000, 0xFFFFFFFF, 0x7FBFFFFF]
SPECIALS = {w.F16_IN_F32: F16_SPECIALS, w.BF16_IN_F32: F16_SPECIALS + [0x7F80, 0xFF80, 0x7F81, 0x7F7F, 0x80, 0x7F],
            w.F32_IN_F64: F32_SPECIALS}


def plain(form, dtype, trailing):
    """Narrow blocks in each mode, one that is stored, a short one; exceptions in some of them."""
    W, narrow_nbytes, widen = w.PLAIN[form]
    specials = SPECIALS[form]
    ys = [number % (1 << 8 * narrow_nbytes) for number in scattered(4 * 1024)] + [0x4242] * 60
    ys[: len(specials)] = specials
    mask_value = specials[1]
    flags = [int(i % 16 == 5) for i in range(1024)]
    ys[3072:4096] = [number if flag else mask_value for number, flag in zip(ys[3072:4096], flags)]
    wholes = [ys[i : i + 1024] for i in range(0, len(ys), 1024)]
    exceptions = [{i: 2 ** (8 * W) - 1 - i for i in (40, 41, 700, 1023)}, {}, {}, {i: i for i in range(9, 900, 70)}, {}]
    contents = [a.numbers(with_exceptions(map(widen, ys), e), W) for ys, e in zip(wholes, exceptions)]
    kept = [y for y, flag in zip(wholes[3], flags) if flag]
    constant = PLANES + b"\1" * narrow_nbytes + a.numbers([0x4242 << 1], narrow_nbytes)
    blocks = [
        w.block(b"", w.exceptions_part(1024, exceptions[0], W), stored_planes(wholes[0], narrow_nbytes, 1)),
        w.block(b"", w.NONE, STORED + a.numbers(wholes[1], narrow_nbytes)),
        STORED + contents[2],
        w.block(b"", w.exceptions_part(1024, exceptions[3], W, lambda flags: a.gaps(flags, 1, 5)),
                MASKED + a.gaps(flags, 1, 3) + stored_planes(kept, narrow_nbytes, 1)[1:]),
        w.block(b"", w.NONE, constant, trailing),
    ]
    plan = raw_plan(narrow_nbytes, transform=3, mask_value=a.numbers([mask_value], narrow_nbytes))
    content = b"".join(contents) + trailing
    return narrow_frame(w.fields(form), plan, blocks, content, dtype), content


def narrow_without_elements():
    """After a narrow block one that has no element, which is stored."""
    content = a.numbers(range(0, 1024 << 16, 1 << 16), 4) + b"xyz"
    blocks = [w.block(b"", w.NONE, stored_planes(range(1024), 2)), STORED + b"xyz"]
    return narrow_frame(w.fields(w.BF16_IN_F32), raw_plan(2), blocks, content, F32), content


# Products


def rounded_twice(number, mantissa_nbits, sign):
    """A scale whose product with `number` lies above or below the middle of two numbers that have so many bits. As an
    F32 it is the middle. So it is rounded to the other side."""
    first = (1 << mantissa_nbits + 1) + 1
    for middle in range(first, 2 * first, 2):
        shift = 22 - mantissa_nbits + number.bit_length()
        m = (middle << shift) // number + (sign > 0)
        goes_back = middle >> 1 & 1 == (sign < 0)  # since ties go to even
        if 1 << 23 <= m < 1 << 24 and m * number != middle << shift and goes_back:
            scale = 127 << 23 | m - (1 << 23)
            if w.f32(w.f32_bits(w.f32(scale) * number)) == math.ldexp(middle, shift - 23):
                return scale
    raise ValueError(number)


SCALES = {
    w.PRODUCT_F32: [0x0D800000, 0x71FFFFFF, 0x3F800001, 0x3DCCCCCD, 0x0D800001, 0x71800000, 0x3F800000],
    w.PRODUCT_F16: [0x33000000, 0x33FFFFFF, 0x387FF000, 0x4401E3C7, 0x3F801000, 0x0D800000, 0x71FFFFFF, 0x4B7FFFFF],
    w.PRODUCT_BF16: [0x0D800000, 0x71FFFFFF, 0x3F808000, 0x3F80FFFF, 0x3F817FFF, 0x3F803333, 0x3F7F8000],
}
SCALES[w.PRODUCT_F16] += [0x33800000, 0x34400000, rounded_twice(7, 10, 1), rounded_twice(7, 10, -1)]
SCALES[w.PRODUCT_BF16] += [rounded_twice(7, 7, 1), rounded_twice(7, 7, -1), 0x3F800000, 0x3DCCCCCD]
SCALES[w.PRODUCT_F32] += [0x3F7FFFFF, 0x40490FDB, 0x2EDBE6FF, 0x501502F9]
LIST_16 = [0, 0x80000000, 0x3F800000, 0xBF800000, 0x35800000, 0x49FFFFFF, 0xB5FFFFFF, 0xC9FFFFFF, 0x3EAAAAAB]
LIST_16 += [0x40000000, 0x3F317218, 0xBF317218, 0x3DA30FEC, 0x40E00000, 0xC0E00000, 0x477FF000]
LIST_256 = LIST_16 + [w.f32_bits(number / 77) for number in range(-120, 121) if number != 0]


def product(product_type, kind, factors=()):
    """All factors with many scales. Rows of three groups: not all groups are new. The second block begins within a
    group."""
    groups = w.Groups(300, 100)
    dtype = DTYPE_OF_PRODUCT[product_type]
    W = a.lmc.DTYPE_UNITS[dtype]
    scales = SCALES[product_type] * 2
    ys = [i * 97 % 256 for i in range(1024 + 300)]
    blocks, content, used = [], b"", 0
    for f, n, flags in [(0, 1024, [1] * 8 + [0, 1, 0]), (1024, 300, [1, 1, 1, 0])]:
        count = sum(flags)
        new = scales[used : used + count]
        used += count
        of_group = groups.all_of(flags, new)
        numbers = [w.factor(y, kind, factors) for y in ys[f : f + n]]
        xs = [w.product(of_group[g], number, product_type) for g, number in zip(groups.of_block(f, n), numbers)]
        exceptions = {i: 2 ** (8 * W) - 3 * i for i in (1, 99, 250)}
        content += a.numbers(with_exceptions(xs, exceptions), W)
        write = w.shortest_plane if f else w.stored_plane
        parts = w.scales_part(flags, new, write), w.exceptions_part(n, exceptions, W, lambda flags: a.gaps(flags, 1, 4))
        blocks.append(w.block(*parts, stored_planes(ys[f : f + n], 1), b"!" if f and W > 1 else b""))
    content += b"!"
    fields = w.fields(w.PRODUCT, product_type, kind, factors, groups.row_length, groups.group_length)
    return narrow_frame(fields, raw_plan(1), blocks, content, dtype), content


def groups(row_length, group_length, flags_as=a.bitmap):
    """Three blocks of BF16 products, and all ways to write planes of scales. Every third group that may be old is
    new."""
    groups = w.Groups(row_length, group_length)
    blocks, content = [], b""
    writes = [w.stored_plane, w.shortest_plane, lambda data: w.shortest_plane(data[:1] * len(data))]
    for i, n in enumerate((1024, 1024, 555)):
        numbers = groups.of_block(1024 * i, n)
        flags = [int(j < groups.k or j % 3 == 2) for j in range(numbers[-1] + 1)]
        if flags_as == w.ALL:
            flags = [1] * len(flags)
        scales = [0x3F800000 + 0x10000 * (number % 50) for number in scattered(sum(flags), 11)]
        if i == 2:
            scales = [0x3F3F3F3F] * len(scales)
        of_group = groups.all_of(flags, scales)
        ys = [1 + (i + j // 7) % 3 for j in range(n)]
        content += a.numbers([w.product(of_group[g], y, w.PRODUCT_BF16) for g, y in zip(numbers, ys)], 2)
        part = w.scales_part(flags, scales, writes[i], lambda flags: w.ALL if flags_as == w.ALL else flags_as(flags))
        blocks.append(w.block(part, w.NONE, stored_planes(ys, 1)))
    fields = w.fields(w.PRODUCT, w.PRODUCT_BF16, w.I8, (), row_length, group_length)
    return narrow_frame(fields, raw_plan(1), blocks, content, BF16), content


GROUPS = {
    "k_1": (100, 100),
    "least": (16, 16),
    "of_1": (17, 16),
    "k_3": (100, 40),
    "k_more_than_a_block": (3000, 64, w.ALL),
    "row_huge": (2**32 - 1, 16, w.ALL),
    "huge": (2**32 - 1, 2**32 - 1),
    "gaps": (64, 16, lambda flags: a.gaps(flags, 0, 1) if 0 in flags else w.ALL),
}


# Palettes


def palette(dtype):
    """Palettes of 1 and of 256 values; numbers beyond the end."""
    W = a.lmc.DTYPE_UNITS[dtype]
    groups = w.Groups(1000, 128)  # the last group of a row has 104 elements
    blocks, content = [], b""
    for f, n, flags, counts in [
        (0, 1024, [1] * 8 + [0], [256, 1, 2, 30, 16, 3, 20, 17]),
        (1024, 1024, [1] * 8 + [1, 0], [1, 1, 1, 1, 1, 1, 2, 2, 256]),
        (2048, 300, [1, 1, 1], [60, 43, 1]),
    ]:
        numbers = groups.of_block(f, n)
        values = scattered(sum(counts), 13)
        values = [value * 0x100000001 & (1 << 8 * W) - 1 for value in values]
        palettes = [[values.pop() for _ in range(count)] for count in counts]
        of_group = groups.all_of(flags, palettes)
        ys = [number % (len(of_group[g]) + 1) % 256 for number, g in zip(scattered(n), numbers)]
        ys[-1] = 255
        xs = [of_group[g][y] if y < len(of_group[g]) else 0 for g, y in zip(numbers, ys)]
        exceptions = {} if f == 2048 else {5: 1, 600: 2 ** (8 * W) - 1}
        content += a.numbers(with_exceptions(xs, exceptions), W)
        write = w.shortest_plane if f == 1024 else w.stored_plane
        part = w.palettes_part(flags, palettes, W, write)
        blocks.append(w.block(part, w.exceptions_part(n, exceptions, W), STORED + bytes(ys)))
    trailing = b"\7" * (W - 1)
    blocks[-1] += trailing
    fields = w.fields(w.PALETTE, row_length=groups.row_length, group_length=groups.group_length)
    return narrow_frame(fields, raw_plan(1), blocks, content + trailing, dtype), content + trailing


def palette_full():
    """As many values as elements; in planes that are short, since the block has to be."""
    palettes = [[0] * 255 + [9], [5] * 44]
    ys = [255] * 256 + [3] * 44
    xs = [9] * 256 + [5] * 44
    part = w.palettes_part([1, 1], palettes, 8, w.shortest_plane)
    block = w.block(part, w.NONE, stored_planes(ys, 1))
    fields = w.fields(w.PALETTE, row_length=300, group_length=256)
    content = a.numbers(xs, 8)
    return narrow_frame(fields, raw_plan(1), [block], content, I64), content


# Narrow elements with offsets, and with rANS codes


def narrow_offsets(form, dtype, inner_dtype):
    """Rows and columns of the narrow elements; their length is not that of the rows of groups."""
    C, columns, rows = 100, [i * 7 % 16 for i in range(100)], [i % 4 for i in range(11)]
    highs, lows = skewed(1024, [30, 31, 29]), [number % 256 for number in scattered(1024, 3)]
    has_low = inner_dtype != U8
    values = [1000 + rows[i // C] + columns[i % C] << 1 for i in range(1024)]
    inner = content_of((inner_dtype, 1, 8 * has_low, 0), highs, lows, [], values)
    W, narrow_nbytes = a.lmc.DTYPE_UNITS[dtype], a.lmc.DTYPE_UNITS[inner_dtype]
    ys = elements_of(inner, narrow_nbytes)
    columns_part = a.columns(C, 1, 4, columns)
    plan = a.plan([None] * (1 + has_low), 5, 8 * has_low, columns_part=columns_part)
    planes = PLANES + a.rows(2, 1000, rows) + b"\0" * (1 + has_low) + bytes(lows) * has_low + bytes(highs)
    if form == w.PRODUCT:
        groups = w.Groups(64, 64)
        part = w.scales_part([1] + [0] * 15, [0x3F812345])
        xs = [w.product(0x3F812345, w.factor(y, w.I8_ZEROS), w.PRODUCT_BF16) for y in ys]
        fields = w.fields(form, w.PRODUCT_BF16, w.I8_ZEROS, (), groups.row_length, groups.group_length)
    else:
        part, fields = b"", w.fields(form)
        xs = [w.PLAIN[form][2](y) for y in ys]
    content = a.numbers(xs, W)
    block = w.block(part, w.NONE, planes)
    return narrow_frame(fields, plan, [block], content, dtype, a.lmc.FEATURE_OFFSETS), content


def narrow_rans_product():
    """Factors in a rANS plane of a large block."""
    n, groups = 5000, w.Groups(5000, 1000)
    scales = [0x3C23D70A, 0x3C000000, 0x3BFFFFFF, 0x3D123456, 0x3F000001]
    ys = skewed(n, [0, 1, 255, 2, 254, 3, 253, 127, 128, 4, 252])
    frequencies = r.frequencies_of(ys)
    numbers = groups.of_block(0, n)
    xs = [w.product(scales[g], w.factor(y, w.I8), w.PRODUCT_BF16) for g, y in zip(numbers, ys)]
    content = a.numbers(xs, 2) + b"?"
    block = w.block(w.scales_part([1] * 5, scales, flags_as=lambda _: w.ALL), w.NONE,
                    PLANES + b"\2" + r.plane(frequencies, ys), b"?")
    fields = w.fields(w.PRODUCT, w.PRODUCT_BF16, w.I8, (), groups.row_length, groups.group_length)
    plan = r.rans_plan(r.table(frequencies), [])
    frame = narrow_frame(fields, plan, [block], content, BF16, a.lmc.FEATURE_RANS, block_log2=13)
    return frame, content


def narrow_rans_f16():
    """F16 in F32: a low plane that plane 0 carries; all of the elements, then those of a masked block."""
    symbols, lows = skewed(1024, [0x77, 0x78, 0x76]), [number % 256 for number in scattered(1024, 3)]
    frequencies = r.frequencies_of(symbols)
    ys = elements_of(content_of((F16, 1, 8, 0), symbols, lows, []), 2)
    planes = b"\2\0" + r.carrying(frequencies, symbols, bytes(lows))
    xs = [w.f16_in_f32(y) for y in ys]
    content = a.numbers(xs + xs, 4)
    blocks = [w.block(b"", w.NONE, PLANES + planes), w.block(b"", w.NONE, MASKED + w.ALL + planes)]
    plan = r.rans_plan(r.table(frequencies), [None], 3, 8, mask_value=b"\0\x80")
    return narrow_frame(w.fields(w.F16_IN_F32), plan, blocks, content, C64, a.lmc.FEATURE_RANS), content


PLAIN = {"f16_in_f32": (w.F16_IN_F32, F32, b"ab"), "bf16_in_f32": (w.BF16_IN_F32, C64, b""),
         "f32_in_f64": (w.F32_IN_F64, F64, b"seven_b")}
KINDS = {"i8": (w.I8,), "i8_zeros": (w.I8_ZEROS,), "e4m3": (w.E4M3,), "e5m2": (w.E5M2,), "list": (w.LIST, LIST_16)}
FUNCTIONS = [narrow_without_elements, narrow_rans_product, narrow_rans_f16]


def frames():
    """{name: (frame, content)}."""
    made = {function.__name__: function() for function in FUNCTIONS}
    made.update({f"narrow_{name}": plain(*arguments) for name, arguments in PLAIN.items()})
    for i, of_type in enumerate(("f32", "f16", "bf16")):
        for kind, arguments in KINDS.items():
            made[f"narrow_product_{of_type}_{kind}"] = product(i, *arguments)
    made["narrow_product_list_256"] = product(w.PRODUCT_F32, w.LIST, LIST_256)
    made["narrow_product_list_1"] = product(w.PRODUCT_F16, w.LIST, [0xBFC00000])
    made.update({f"narrow_groups_{name}": groups(*arguments) for name, arguments in GROUPS.items()})
    for name, dtype in [("w2", BF16), ("w4", F32), ("w8", U64)]:
        made[f"narrow_palette_{name}"] = palette(dtype)
    made["narrow_palette_full"] = palette_full()
    made["narrow_offsets_w1"] = narrow_offsets(w.PRODUCT, BF16, U8)
    made["narrow_offsets_w2"] = narrow_offsets(w.F16_IN_F32, F32, F16)
    return made
