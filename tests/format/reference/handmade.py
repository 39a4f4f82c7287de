"""handmade.py - good frames that the library's encoder does not write, but that the format allows."""

import assemble as a
from assemble import BF16, F32, I64, U8

STORED, PLANES, MASKED = b"\0", b"\1", b"\2"

# The table of the worked frame: a 0, b 10, c 110, list 111.
LETTERS_TABLE = a.table([(1, 3)], {ord("a"): (0, 1), ord("b"): (0, 2), ord("c"): (0, 3)})
LETTERS_PLAN = a.plan([LETTERS_TABLE])
LETTERS = bytes((b"aaabaaacaabaaaab" * 20)[:300]) + b"z"


def scattered(n, step=7):
    """n numbers of 0 to 2^32 - 1 without a visible order."""
    return [(i * step * 2654435761 + 12345 >> 3) % 2**32 for i in range(n)]


def letters():
    return a.coded_frame(LETTERS_PLAN, [PLANES + b"\2" + a.coded_plane(LETTERS_TABLE, LETTERS)], LETTERS), LETTERS


def stored_empty():
    return a.stored_frame(b"", dtype=BF16), b""


def stored_one_byte():
    return a.stored_frame(b"x", dtype=I64, row_nbytes=0xFFFFFFFF, block_log2=20), b"x"


def coded_one_byte():
    return a.coded_frame(a.plan([None]), [STORED + b"x"], b"x", block_log2=20), b"x"


def bytes_below_an_element():
    """A block that has no element, after one that has."""
    content = bytes(2048) + b"x"
    constant = PLANES + b"\1\1" + b"\0\0"
    return a.coded_frame(a.plan([None, None], p=8), [constant, STORED + b"x"], content, dtype=BF16), content


def low_nbits(p, dtype):
    """Every p, with an offset and a base: block 0 with symbols and low bits as they are, block 1 constant."""
    W = a.lmc.DTYPE_UNITS[dtype]
    h = 8 if W == 1 else 16
    symbol_nbits = h - p
    offset, base = 12345 % (1 << h), 1234 % (1 << symbol_nbits)
    symbols = [number % 1000 % 257 % (1 << symbol_nbits) for number in scattered(1024)]
    if W == 1:
        symbols = [symbol if i % 16 == 3 else 1 for i, symbol in enumerate(symbols)]
    lows = [number % (1 << p) for number in scattered(1024, 3)]

    highs = [(symbol + base) % (1 << symbol_nbits) for symbol in symbols]
    heads = [((high << p | low) - offset) % (1 << h) for high, low in zip(highs, lows)]
    constant_head = (((2 + base) % (1 << symbol_nbits) << p | 1) - offset) % (1 << h)
    below = b"\x5a" * (W - 2)  # the bytes of the planes below the head
    content = b"".join(below + head.to_bytes(h // 8, "little") for head in heads + [constant_head] * 3)

    below_modes, below_bodies = b"\1" * len(below), below
    if W == 1:
        flags = [int(symbol != 1) for symbol in symbols]
        modes, body = b"\3\0", b"\1" + a.bitmap(flags) + b"\0" + bytes(s for s in symbols if s != 1)
    else:
        modes, body = b"\0\0", bytes(min(symbol, 255) for symbol in symbols)
        if symbol_nbits > 8:
            body += a.numbers([high for high, symbol in zip(highs, symbols) if symbol >= 255], 2)
    block = PLANES + modes + below_modes + below_bodies + a.packed_plane(lows, p) + body
    last = PLANES + b"\1\1" + below_modes + below_bodies + b"\1\2"
    if W == 1:
        last = STORED + content[1024:]
    plan = a.plan([None] * (2 + len(below)), p=p, offset=offset, base=base)
    return a.coded_frame(plan, [block, last], content, dtype), content


def escapes_only():
    """A constant plane of escapes; some of them would not have needed one. The mode of every plane differs."""
    p = 4
    highs = [number % 4096 for number in scattered(400)] + [0, 1, 254, 255, 4095]
    heads = [((high << p | 7) - 1000) % 65536 for high in highs]
    values = [head << 16 | i % 256 << 8 | 0xFF for i, head in enumerate(heads)]
    content = b"".join((v >> 1 | (v & 1) << 31).to_bytes(4, "little") for v in values)
    bodies = b"\xff" + bytes(i % 256 for i in range(len(values))) + b"\7" + b"\xff" + a.numbers(highs, 2)
    plan = a.plan([None] * 4, transform=1, p=p, offset=1000, base=4095)
    return a.coded_frame(plan, [PLANES + b"\1\1\0\1" + bodies], content, dtype=F32), content


def symbols_above_their_range():
    """Symbols of 4 bits stand in a byte: what is above the 4 bits falls out of the sum."""
    symbols = bytes([0xFA if i % 10 else 0x33 for i in range(100)])
    content = bytes((symbol + 5 << 4 | 2) % 256 for symbol in symbols)
    flags = [int(symbol == 0x33) for symbol in symbols]
    block = PLANES + b"\3\1" + b"\2" + b"\xfa" + a.gaps(flags, 1, 0) + b"\0" + b"\x33" * sum(flags)
    return a.coded_frame(a.plan([None, None], p=4, base=5), [block], content), content


def sixteen_layers():
    """Layers of one symbol and a list; the exceptions of a gaps plane use the same table as a coded plane,
    and in a block of two symbols most layers are empty."""
    table = a.table([(1, 1)] * 16, {symbol: (symbol - 10, 1) for symbol in range(10, 26)})
    first = bytes(10 + min(number % 97 % 19, number % 17) for number in scattered(1024))
    second = bytes(99 if i % 5 else 10 + i % 18 for i in range(1024))
    third = bytes(10 + i % 2 for i in range(200))
    fourth = b"\x0a\x0b\x0c" * 400
    flags = [byte != 99 for byte in second]
    exceptions = bytes(byte for byte in second if byte != 99)
    blocks = [
        PLANES + b"\2" + a.coded_plane(table, first),
        PLANES + b"\3" + b"\x63" + a.gaps(flags, 1, 1) + b"\2" + a.coded_plane(table, exceptions),
        PLANES + b"\2" + a.coded_plane(table, fourth[:1024]),
        PLANES + b"\2" + a.coded_plane(table, third),
    ]
    content = first + second + fourth[:1024] + third
    return a.coded_frame(a.plan([table]), blocks, content), content


def lengths_of_every_kind():
    """Layers with lengths 2 to 2, 1 to 6 and 6 to 6, the last one without a list."""
    lengths = {1: (0, 2), 2: (0, 2), 3: (0, 2)}
    lengths.update({4: (1, 1), 10: (1, 2), 5: (1, 3), 6: (1, 4), 7: (1, 6), 8: (1, 6), 9: (1, 6)})
    lengths.update({symbol: (2, 6) for symbol in range(192, 256)})
    table = a.table([(2, 2), (1, 6), (6, 6)], lengths)
    symbols = sorted(lengths)
    content = bytes(symbols[number % 1009 % 74 if number % 8 == 0 else number % 3] for number in scattered(1000))
    return a.coded_frame(a.plan([table]), [PLANES + b"\2" + a.coded_plane(table, content)], content), content


def gaps_frame(n, exceptions, k, member):
    """Blocks of a dominant byte; `exceptions` are the places of others."""
    places = set(exceptions)
    content = bytes(7 + i % 200 + 1 if i in places else 7 for i in range(n))
    flags = [int(byte != 7) for byte in content]
    others = bytes(byte for byte in content if byte != 7)
    block = PLANES + b"\3" + b"\7" + a.gaps(flags, member, k) + b"\0" + others
    return a.coded_frame(a.plan([None]), [block], content, block_log2=17), content


def gaps_levels_12():
    """Quotients that outlast the 12 levels: gaps of 20 with k = 0; the last one is as large as can be."""
    return gaps_frame(20 * 21 + 268, list(range(20, 20 * 21, 21)) + [20 * 21 + 267 - 1], 0, 1)


def gaps_k_15():
    return gaps_frame(1000, range(3, 1000, 17), 15, 1)


def gaps_few():
    return gaps_frame(200, range(1, 200, 20), 4, 1)


def gaps_of_zeros():
    return gaps_frame(700, [i for i in range(700) if i % 9], 2, 0)


def gaps_all_flags():
    """Every value is an exception, and some equal the dominant one."""
    symbols = bytes(i % 5 for i in range(100))
    content = b"".join(bytes([0x11, 0x22, symbol, symbol >> 8]) for symbol in symbols)
    gaps_plane = b"\2" + a.gaps([1] * 100, 1, 0) + b"\0" + symbols
    block = PLANES + b"\1\3\1\1" + b"\x11" + b"\x22" + gaps_plane + b"\0"
    return a.coded_frame(a.plan([None] * 4, p=8), [block], content, dtype=F32), content


def masked_equal():
    """Flagged elements that equal the mask value after all."""
    flags = [i % 2 for i in range(300)]
    elements = [i % 3 if flag else 2 for i, flag in enumerate(flags)]
    kept = bytes(element for element, flag in zip(elements, flags) if flag)
    content = a.numbers(elements, 4) + b"xyz"
    block = MASKED + a.bitmap(flags) + b"\1\1\1\0" + kept + b"\0\0\0" + b"xyz"
    plan = a.plan([None] * 4, transform=2, p=8, mask_value=b"\2\0\0\0")
    return a.coded_frame(plan, [block], content, dtype=F32), content


def masked_large():
    """More than 65535 flags and more than 65535 elements that are left."""
    n = 66300
    content = bytearray(b"a" * n)
    for i, number in enumerate(scattered(n)):
        content[i] = b"aaaaabbc"[number % 8]
    for place in range(100, n, 150):
        content[place] = ord("m")
    content[5000] = ord("z")
    flags = [int(byte != ord("m")) for byte in content]
    kept = bytes(byte for byte in content if byte != ord("m"))
    block = MASKED + a.gaps(flags, 0, 7) + b"\2" + a.coded_plane(LETTERS_TABLE, kept)
    plan = a.plan([LETTERS_TABLE], transform=2, mask_value=b"m")
    return a.coded_frame(plan, [block], bytes(content), block_log2=17), bytes(content)


def joined(dtype, rotate, highs):
    """Elements with these high parts, and 5a in the bytes below."""
    W = a.lmc.DTYPE_UNITS[dtype]
    below = W - 2 if W > 2 else 0
    elements = [high << 8 * below | int.from_bytes(b"\x5a" * below, "little") for high in highs]
    return a.numbers([v >> rotate | (v & rotate) << 8 * W - 1 for v in elements], W)


def offsets_block(i, dtype, rotate, p, values, rows_part):
    """Block i of `offsets`: what follows its rows, and its content. values: those of row and column of each."""
    W = a.lmc.DTYPE_UNITS[dtype]
    h = 8 if W == 1 else 16
    lows = [number % (1 << p) for number in scattered(1024, i + 2)]
    symbols = [number % min(1 << h - p, 300) if j % 16 == 3 else 1 for j, number in enumerate(scattered(1024, i + 1))]
    highs = [(symbol + 3) % (1 << h - p) for symbol in symbols]
    flags = [int(symbol != 1) for symbol in symbols]
    symbols_plane = b"\1" + a.bitmap(flags) + b"\0" + bytes(min(symbol, 255) for symbol in symbols if symbol != 1)
    if h - p > 8:
        symbols_plane += a.numbers([high for high, symbol in zip(highs, symbols) if symbol >= 255], 2)
    ts = [(high << p) + low for high, low in zip(highs, lows)]
    content = joined(dtype, rotate, [(t - 99 - value) % (1 << h) for t, value in zip(ts, values)])
    below = b"\x5a" * max(W - 2, 0)
    planes = b"\3" + b"\0" * (p > 0) + b"\1" * len(below) + below + a.packed_plane(lows, p) + symbols_plane
    if i == 10:
        return STORED + content, content
    return (PLANES + rows_part if i < 10 else MASKED + b"\4") + planes, content


def offsets(dtype, rotate, C, step_log2, column_nbits, p=8, has_mask=False):
    """Blocks with rows of 0 to 8 bits, one without rows, one stored and one masked. Values and offsets go round."""
    W = a.lmc.DTYPE_UNITS[dtype]
    columns = [number % (1 << column_nbits) for number in scattered(min(C, 12 * 1024))]
    blocks, content = [], b""
    for i in range(11 + has_mask):
        first, row_base = i * 1024, 65535 - 40 * i
        rows = [number % (1 << i) for number in scattered((first % C + 1023) // C + 1, 5)]
        values = [row_base + rows[(first % C + j) // C] + columns[(first + j) % C] << step_log2 for j in range(1024)]
        has_rows = i <= 8
        part = a.rows(i, row_base, rows) if has_rows else b"\xff"
        block, block_content = offsets_block(i, dtype, rotate, p, values if has_rows else [0] * 1024, part)
        blocks.append(block)
        content += block_content
    plan = a.plan([None] * (1 + (p > 0) + max(W - 2, 0)), (4 | 2 * has_mask) + rotate, p, 99, 3,
                  b"\x77" * W * has_mask, a.columns(C, step_log2, column_nbits, columns))
    return a.coded_frame(plan, blocks, content, dtype, features=a.lmc.FEATURE_OFFSETS), content


OFFSETS = {
    "offsets_w1": (U8, 0, 32, 0, 8, 0),
    "offsets_w1_low": (U8, 0, 50, 7, 1, 3),
    "offsets_w1_rotate": (U8, 1, 1000, 1, 2, 4),
    "offsets_w2": (BF16, 0, 33, 15, 3, 8),
    "offsets_w2_rotate": (BF16, 1, 64, 1, 7, 8, True),
    "offsets_w4_rotate": (F32, 1, 4099, 0, 5, 8),
    "offsets_w8": (I64, 0, 384, 3, 6, 8),
    "offsets_w8_rotate": (I64, 1, 32, 15, 4, 8),
    "offsets_w2_escapes": (BF16, 1, 100, 3, 4, 5),
    "offsets_w4": (F32, 0, 100, 7, 8, 8),
    "offsets_columns_huge": (BF16, 1, 2**32 - 1, 4, 0, 8),
}
LOW_NBITS = [(1, U8), (2, U8), (3, U8), (4, U8), (4, BF16), (5, F32), (7, I64)]
FUNCTIONS = [letters, stored_empty, stored_one_byte, coded_one_byte, bytes_below_an_element, escapes_only]
FUNCTIONS += [symbols_above_their_range, sixteen_layers, lengths_of_every_kind, gaps_levels_12, gaps_k_15]
FUNCTIONS += [gaps_few, gaps_of_zeros, gaps_all_flags, masked_equal, masked_large]


def frames():
    """{name: (frame, content)}."""
    made = {function.__name__: function() for function in FUNCTIONS}
    for p, dtype in LOW_NBITS:
        made[f"low_nbits_{p}_w{a.lmc.DTYPE_UNITS[dtype]}"] = low_nbits(p, dtype)
    made.update({name: offsets(*arguments) for name, arguments in OFFSETS.items()})
    return made
