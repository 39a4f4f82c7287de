"""handmade_delta.py - good delta frames that the library's encoder does not write, but that the format allows."""

import assemble as a
import assemble_delta as d
from assemble import BF16, F32, U8
from assemble_delta import DIFFERENCE, MAGNITUDE, XOR, DeltaPlan, Deltas
from handmade import scattered

U64, F16 = 20, 13
DTYPES = {1: U8, 2: F16, 4: F32, 8: U64}


def changed(values, W, most, seed=5):
    """Neighbours of one value in four: the top byte changes, and the lowest one."""
    top = 8 * (W - 1)
    steps = [number % (most + 1) << top | number // 16 % 256 % (1 << top) for number in scattered(len(values), seed)]
    signs = [0, 0, 0, 0, 0, 0, 1, -1]
    return [(value + signs[i * 5 % 8] * step) % (1 << 8 * W) for i, (value, step) in enumerate(zip(values, steps))]


def one_block(plan, content, base, dtype, change=lambda deltas: None, **fields):
    deltas = Deltas(plan, content, base)
    change(deltas)
    return d.delta_frame(plan.data(), [deltas.data()], content, base, dtype, **fields), content, base


def width(W, transform):
    """Every width and transform, as many low bytes as can be, sixteen classes or two, all numbers of low bits, planes
    of every mode, exceptions, and bytes after the last element."""
    n = 520 + W if W < 4 else 270 + W
    mantissa_nbits = {1: 3, 2: 10, 4: 23, 8: 52}[W] if transform == MAGNITUDE else 8 * W - 4
    tops = [number % 15 if i % 4 == 1 else 15 if i == 8 else 0 for i, number in enumerate(scattered(n))]
    below = [number % (1 << min(mantissa_nbits, 20)) for number in scattered(n, 3)]
    base = [top << mantissa_nbits | number for top, number in zip(tops, below)]
    values = changed(base, W, 9)
    if transform == MAGNITUDE:
        values = [value ^ (i % 11 == 0) << 8 * W - 1 for i, value in enumerate(values)]
    low_nbits = [(9 - k) % 9 for k in range(16)] if transform != XOR else [0, 8]
    first_keys = list(range(1, 16)) if transform != XOR else [3]
    key_shift = mantissa_nbits if transform != DIFFERENCE else 0
    plan = DeltaPlan(W, transform, W - 1, key_shift, first_keys, low_nbits)

    def low_plane(j, data):
        if j == W - 2:
            return b"\0" + data
        common = max(set(data), key=data.count)
        if data == bytes([common]) * n:
            return b"\1" + data[:1]
        flags = [int(byte != common) for byte in data]
        return b"\3" + bytes([common]) + a.gaps(flags, 1, j) + b"\0" + bytes(byte for byte in data if byte != common)

    def change(deltas):
        deltas.low_plane = low_plane
        deltas.flips_as = lambda flags: d.pairs(flags) if len(flags) > 1 and 1 in flags else a.bitmap(flags)
        if W < 8:
            deltas.except_at(0, 7, n - 1)

    tail = b"\xfe\xdc\xba"[: W - 1]
    return one_block(plan, a.numbers(values, W) + tail, a.numbers(base, W) + b"\1" * len(tail), DTYPES[W], change)


def heads_above_15_bits():
    """Bit 15 of a head flips, whatever the flip says; half of these heads are escapes."""
    base = [number % 0x8000 for number in scattered(800)]
    values = [(b + step) % 0x8000 | (i % 5 == 0) << 15 for i, (b, step) in enumerate(zip(base, [0, 1, -1, 5] * 200))]

    def change(deltas):
        for i in range(deltas.n):
            if i % 5 == 0 and i not in deltas.exceptions:
                deltas.heads[i] |= 0x8000
                deltas.flips[i] = i % 2

    plan = DeltaPlan(2, MAGNITUDE, 0, 14, [1], [8, 3])
    return one_block(plan, a.numbers(values, 2), a.numbers(base, 2), BF16, change)


def z_above_its_bits(transform):
    """Heads and low bytes may give more bits than an element has: only the lowest 8 W of z count."""
    W = 2 if transform == XOR else 1
    g = W - 1
    base = [number % (1 << 8 * W) for number in scattered(300)]
    values = changed(base, W, 2)

    def change(deltas):
        for i in range(0, deltas.n, 16):
            limit = 127 if transform == MAGNITUDE else 255
            deltas.heads[i] += (limit - i % 40) << 8

    return one_block(DeltaPlan(W, transform, g), a.numbers(values, W), a.numbers(base, W), DTYPES[W], change)


def z_that_no_zigzag_makes():
    """By MAGNITUDE z may have all 8 W bits, though a difference has one less: the long way round."""
    base = [number % 256 for number in scattered(300)]
    same = bytes(700)
    values = [b & 0x80 | (b + step) % 128 for b, step in zip(base, [0, 1, 63, 64, 100, 127] * 50)]

    def change(deltas):
        for i, step in enumerate([0, 1, 63, 64, 100, 127] * 50):
            deltas.heads[i] = 2 * step if i % 4 else 2 * (128 - step) - 1

    plan = DeltaPlan(1, MAGNITUDE, 0, 3, [1, 8, 15], [0, 1, 2, 7])
    return one_block(plan, bytes(values) + same, bytes(base) + same, 7, change)


def escapes_without_need():
    """255 stands for symbols that are less, and with 8 low bits for itself."""
    steps = [number % 65536 if number % 40 == 0 else number % 3 for number in scattered(600)]
    base = [(i % 3 if i % 4 == 0 else 0) * 20000 for i in range(600)]
    values = [b ^ step for b, step in zip(base, steps)]

    def change(deltas):
        deltas.escaped = set(range(0, 600, 12)) | {1, 2, 598}
        for i in range(200, 210):
            deltas.except_at(i)
            deltas.heads[i] = 0xFFFF

    plan = DeltaPlan(2, XOR, 0, 8, [0x20, 0x80], [0, 5, 8])
    return one_block(plan, a.numbers(values, 2), a.numbers(base, 2), 12, change)


def ladder_ends():
    """Classes whose ladders end in every way: at each rung, with 0, 7, 8 and more symbols left, of any value."""
    ladders = [([0] * 8, 0)] + [([0] * 5 + [1, 2, 6], 0), ([], 8)]
    for rungs in range(1, 10):
        own = [first + i % (end - first) for first, end in d.LADDER[:rungs] for i in range(2)]
        own += [own[-1]] * 6
        ladders += [(own, left) for left in ((0, 7) if rungs < 9 else (0, 7, 8, 60))]
    plan = DeltaPlan(1, DIFFERENCE, 0, 0, range(1, 7), [0] * 7)
    blocks, content, base = [], b"", b""
    for first in range(0, len(ladders), 6):
        elements = []  # (class, symbol, whether it goes on to the end)
        for number, (own, left) in enumerate(ladders[first : first + 6]):
            elements += [(number + 1, symbol, False) for symbol in own]
            elements += [(number + 1, (254 - 43 * i) % 255, True) for i in range(left)]
        elements += [(0, int(i % 9 == 0), False) for i in range(1024 - len(elements))]
        elements = [element for _, element in sorted(zip(scattered(1024), elements))]
        block_base = bytes(number for number, _, _ in elements)
        block = bytes((number + d.unzigzag(symbol)) % 256 for number, symbol, _ in elements)
        deltas = Deltas(plan, block, block_base)
        deltas.stays = {i for i, (_, _, stays) in enumerate(elements) if stays}
        deltas.rungs_as = a.bitmap if first else d.gaps(0, 0)
        blocks.append(deltas.data())
        content, base = content + block, base + block_base
    return d.delta_frame(plan.data(), blocks, content, base, U8), content, base


def empty_classes():
    """Most classes have no element, and some have one; 255 as the first key of the last one."""
    base = bytes([0, 250, 254, 17]) + b"\x28" * 900
    values = bytes((b + i % 4 * (i % 3 == 0)) % 256 for i, b in enumerate(base))
    plan = DeltaPlan(1, DIFFERENCE, 0, 0, [1, 2, 3, 10, 20, 40, 41, 42, 43, 100, 101, 102, 200, 254, 255], [3] * 16)
    return one_block(plan, values, base, U8)


def nested(flags):
    """Pairs within pairs, of set flags and of clear ones, down to nothing."""
    if len(flags) < 2:
        return a.bitmap(flags)
    if len(set(flags)) == 1:
        return d.ALL if flags[0] else d.NONE
    return d.pairs(flags, int(len(flags) % 4 < 2), nested, nested)


def pairs_of_pairs():
    """Flips in every kind of pairs, a class for each."""
    kinds = [
        (d.pairs, [1, 1]), (d.pairs, [0, 1]), (lambda flags: d.pairs(flags, 0), [1, 0]),
        (d.pairs, [0, 0, 1]), (lambda flags: d.pairs(flags, 0), [0, 0, 0]), (d.pairs, [1] * 100),
        (lambda flags: d.pairs(flags, 1, d.gaps(0), d.gaps(1, 0)), [int(i % 7 == 3) for i in range(101)]),
        (lambda flags: d.pairs(flags, 0, d.gaps(2, 0), d.gaps(0)), [int(i % 5 > 1) for i in range(90)]),
        (nested, [int(number % 13 < 2) for number in scattered(201)]),
        (nested, [int(number % 9 > 1) for number in scattered(258)]),
        (nested, [int(i in (0, 99, 100)) for i in range(101)]),
        (nested, [int(i != 2) for i in range(3)]),
        (lambda flags: d.pairs(flags, 1, lambda few: d.pairs(few, 0, d.pairs)), [1, 0, 1, 1, 0, 0, 0, 1, 1]),
    ]
    base, flips = [], []
    for number, (_, flags) in enumerate(kinds):
        base += [number << 3 | i % 8 for i in range(len(flags))]
        flips += flags
    values = bytes(b ^ flip << 7 for b, flip in zip(base, flips))
    writers = iter([kind for kind, _ in kinds])

    def change(deltas):
        deltas.flips_as = lambda flags: next(writers)(flags)
        deltas.rungs_as = nested

    plan = DeltaPlan(1, MAGNITUDE, 0, 3, range(1, len(kinds)), [0] * len(kinds))
    return one_block(plan, values, bytes(base), 7, change)


def many_exceptions():
    """Elements that none of the rest says anything of, but it is there."""
    base = [number << 20 for number in scattered(200)]
    values = [b ^ 0xFEDCBA9876543210 if i % 2 else b for i, b in enumerate(base)]

    def change(deltas):
        deltas.exceptions = {i: deltas.x[i] for i in range(1, deltas.n, 2)}
        for i in deltas.exceptions:
            deltas.void(i, i % 7, 1, 0)

    plan = DeltaPlan(8, MAGNITUDE, 1, 52, [1, 100, 128], [0, 3, 4, 2])
    return one_block(plan, a.numbers(values, 8), a.numbers(base, 8), 21, change)


def modes_of_blocks():
    """All modes, SAME and STORED for whole blocks and for one that has no element."""
    base = a.numbers([number % 65536 for number in scattered(3 * 1024)], 2) + b"z"
    same, stored = base[:2048], bytes(2048)
    plan = DeltaPlan(2, DIFFERENCE, 0, 15, [1], [0, 1])
    third = a.numbers(changed(d.elements(base[4096:6144], 2), 2, 0), 2)
    deltas = Deltas(plan, third, base[4096:6144])
    deltas.except_at(*range(100))
    blocks = [d.SAME, d.STORED + stored, deltas.data(), d.SAME]
    content = same + stored + third + base[6144:]
    return d.delta_frame(plan.data(), blocks, content, base, BF16, row_nbytes=77), content, base


def last_byte(block):
    """A block of one byte after one of elements; it is stored, or the same."""
    base = bytes(range(256)) * 8 + b"q"
    content = base if block == d.SAME else base[:-1] + b"r"
    plan = DeltaPlan(2, XOR).data()
    return d.delta_frame(plan, [d.SAME, block + content[-1:] * (block != d.SAME)], content, base, F16), content, base


def same_with_tail_bytes():
    content = bytes(range(203))
    return d.delta_frame(DeltaPlan(8, MAGNITUDE).data(), [d.SAME], content, content, U64), content, content


def bf16_of_f32():
    """NaN, infinities, ties and neighbours of all of them: the rounded base is the content, then it is not."""
    tops = [0, 1, 2, 0x3F80, 0x3F81, 0x7F7F, 0x7F80, 0x7F81, 0x7FBF, 0x7FC0, 0x7FFF]
    lows = [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
    special = [sign << 31 | top << 16 | low for sign in (0, 1) for top in tops for low in lows]
    base = a.numbers((special * 8)[:1024] + scattered(200), 4)
    values = d.rounded(base)
    content = values[:2048] + a.numbers(changed(d.elements(values[2048:], 2), 2, 3), 2)
    plan = DeltaPlan(2, MAGNITUDE, 0, 7, [1, 0x7F, 0x80], [0, 1, 2, 0])
    blocks = [d.SAME] + [Deltas(plan, content[2048:], values[2048:]).data()]
    return d.delta_frame(plan.data(), blocks, content, base, BF16, base_form=1), content, base


def f16_of(W):
    """The same for F16: also what is just too large, the least normal and subnormal numbers, and ties of these."""
    tops = [0, 0x32FF, 0x3300, 0x3380, 0x33C0, 0x387F, 0x3880, 0x3F80, 0x477F, 0x4780, 0x7F7F, 0x7F80, 0x7F81, 0x7FFF]
    lows = [0, 1, 0x0FFF, 0x1000, 0x1001, 0x2000, 0x3000, 0xE000, 0xEFFF, 0xF000, 0xFFFF] if W == 4 else [0]
    special = [sign << 31 | top << 16 | low for sign in (0, 1) for top in tops for low in lows]
    numbers = (special * 40)[:1024] + scattered(200)
    base = a.numbers([u >> 8 * (4 - W) for u in numbers], W)
    values = d.rounded_to_f16(base, W)
    content = values[:2048] + a.numbers(changed(d.elements(values[2048:], 2), 2, 3), 2)
    plan = DeltaPlan(2, MAGNITUDE, 0, 10, [1, 0xF, 0x1F], [0, 1, 2, 0])
    blocks = [d.SAME] + [Deltas(plan, content[2048:], values[2048:]).data()]
    form = d.F16_OF_F32 if W == 4 else d.F16_OF_BF16
    return d.delta_frame(plan.data(), blocks, content, base, F16, base_form=form), content, base


def f16_of_f32():
    return f16_of(4)


def f16_of_bf16():
    return f16_of(2)


def large_block():
    """Counts and places of 3 bytes."""
    n = 65536 + 40
    base = bytes(i % 251 // 25 for i in range(n))
    values = bytes(b + (i % 97 == 0) for i, b in enumerate(base))

    def change(deltas):
        deltas.except_at(0, 300, 65535, 65536, n - 1)
        deltas.rungs_as = d.gaps(4)

    return one_block(DeltaPlan(1, DIFFERENCE), values, base, U8, change, block_log2=17)


FUNCTIONS = [heads_above_15_bits, z_that_no_zigzag_makes, escapes_without_need, ladder_ends, empty_classes,
             pairs_of_pairs, many_exceptions, modes_of_blocks, same_with_tail_bytes, bf16_of_f32,
             f16_of_f32, f16_of_bf16, large_block]


def frames():
    """{name: (frame, content, base)}."""
    made = {function.__name__: function() for function in FUNCTIONS}
    for W in DTYPES:
        for name, transform in [("magnitude", MAGNITUDE), ("difference", DIFFERENCE), ("xor", XOR)]:
            made[f"w{W}_{name}"] = width(W, transform)
            if W == 1:
                made[f"z_above_its_bits_{name}"] = z_above_its_bits(transform)
    made["last_byte_same"], made["last_byte_stored"] = last_byte(d.SAME), last_byte(d.STORED)
    return made
