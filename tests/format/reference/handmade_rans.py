"""handmade_rans.py - good frames with rANS codes, beside handmade.py: sections 6.4 and 6.5 of docs/format.md, and the
carried bytes of section 5.1."""

import assemble as a
import assemble_rans as r
from assemble import BF16, F32, I64, U8
from handmade import MASKED, PLANES, STORED, scattered

F16 = 13
RANS = dict(features=a.lmc.FEATURE_RANS)


def skewed(n, values, step=7):
    """n of the values: about half of them the first one, a quarter the second one, and so on."""
    zeros = [(number >> 3 & -(number >> 3)).bit_length() for number in scattered(n, step)]
    return [values[min(max(count, 1), len(values)) - 1] for count in zeros]


def content_of(plan, highs, lows, below, values=None):
    """Elements of these `t >> p`, low bits and lower bytes (a list for each plane); values: of row and column."""
    dtype, rotate, p, offset = plan
    W = a.lmc.DTYPE_UNITS[dtype]
    h = 8 if W == 1 else 16
    elements = []
    for i, high in enumerate(highs):
        v = ((high << p | (lows[i] if p else 0)) - offset - (values[i] if values else 0)) % (1 << h)
        for plane in below:
            v = v << 8 | plane[i]
        elements.append(v >> rotate | (v & rotate) << 8 * W - 1)
    return a.numbers(elements, W)


def packed(lows, p):
    return bytes(lows) if p == 8 else a.packed_plane(lows, p)


def rans_least():
    """n = 261, the least there can be: without any word."""
    symbols = [10 + number % 8 for number in scattered(261)]
    frequencies = {10 + i: 512 for i in range(8)}
    data = r.plane(frequencies, symbols)
    assert len(data) == 260
    plan = r.rans_plan(r.table(frequencies), [])
    return a.coded_frame(plan, [PLANES + b"\2" + data], bytes(symbols), **RANS), bytes(symbols)


def rans_most_words():
    """As many words as there may be: the plane is a byte shorter than a stored one."""
    frequencies = {0: 1, 7: 4000, 9: 95}
    for count in range(1001):
        symbols = [7 if i >= count else 9 if i % 4 else 0 for i in range(1001)]
        plane = r.RansPlane(frequencies, symbols)
        if len(plane.data()) == 1000:
            break
    assert plane.word_count == 370
    plan = r.rans_plan(r.table(frequencies), [])
    return a.coded_frame(plan, [PLANES + b"\2" + plane.data()], bytes(symbols), **RANS), bytes(symbols)


def rans_blocks():
    """BF16 as an encoder would write it: large blocks, which end within 64 symbols, with carried bytes."""
    offset, base, blocks, content = 77, 200, [], b""
    for n in (8192, 4096 + 67):
        symbols = skewed(n, [120, 119, 121, 118, 117, 122, 116, 115, 3, 255, 0])
        lows = [number % 256 for number in scattered(n, 3)]
        blocks.append((symbols, lows))
    frequencies = r.frequencies_of(blocks[0][0] + blocks[1][0] + [60, 61])
    coded = []
    for symbols, lows in blocks:
        highs = [(symbol + base) % 256 for symbol in symbols]
        content += content_of((BF16, 1, 8, offset), highs, lows, [])
        coded.append(PLANES + b"\2\0" + r.carrying(frequencies, symbols, bytes(lows)))
    plan = r.rans_plan(r.table(frequencies), [None], 1, 8, offset, base)
    coded[-1] += b"!"
    return a.coded_frame(plan, coded, content + b"!", BF16, block_log2=13, **RANS), content + b"!"


def rans_low_nbits(p, n, dtype=U8):
    """A block of 1024 elements and one of n: the low plane of either can be shorter than 128 bytes. Escapes, too."""
    W = a.lmc.DTYPE_UNITS[dtype]
    symbol_nbits = (8 if W == 1 else 16) - p
    top, offset, base = 1 << symbol_nbits, 19, 5
    values = [3, 1, 2, top - 1, 300 % top, 255 % top, 254 % top, 0, 1000 % top]
    wholes = [skewed(count, values, 5 + count) for count in (1024, n)]
    symbols = [[min(s, 255) for s in block] for block in wholes]
    frequencies = r.frequencies_of(symbols[0] + symbols[1])
    blocks, content = [], b""
    for block, whole in zip(symbols, wholes):
        lows = [number % (1 << p) for number in scattered(len(block), 9)]
        below = [[number % 256 for number in scattered(len(block), 20 + i)] for i in range(max(W - 2, 0))]
        highs = [(s + base) % top for s in whole]
        content += content_of((dtype, 0, p, offset), highs, lows, below)
        low_plane = packed(lows, p)
        data = b"".join(bytes(plane) for plane in reversed(below))
        if len(low_plane) >= 128:
            data += r.carrying(frequencies, block, low_plane)
        else:
            data += low_plane + r.plane(frequencies, block)
        if symbol_nbits > 8:
            data += a.numbers([high for high, s in zip(highs, block) if s == 255], 2)
        blocks.append(PLANES + b"\2\0" + b"\0" * len(below) + data)
    plan = r.rans_plan(r.table(frequencies), [None] * (1 + max(W - 2, 0)), 0, p, offset, base)
    return a.coded_frame(plan, blocks, content, dtype, **RANS), content


def rans_low_modes():
    """The low plane in every mode, and plane 0 in every mode beside a low plane that is stored: only where the one is
    stored and the other one coded, bytes are carried."""
    symbols = skewed(1024, [200, 7, 100, 9])
    frequencies = r.frequencies_of(symbols)
    lows = skewed(1024, [1, 2, 3, 4])
    low_table = a.table([(1, 3)], {1: (0, 1), 2: (0, 2), 3: (0, 3)})
    sevens = [int(s != 7) for s in symbols]
    others = [s for s in symbols if s != 7]
    assert len(others) > 600
    plane, stored = r.plane(frequencies, symbols), bytes(lows)
    flags = [int(low != 1) for low in lows]
    exceptions = b"\1" + a.bitmap(flags) + b"\0" + bytes(low for low in lows if low != 1)
    of_symbols = b"\7" + a.bitmap(sevens) + b"\2" + r.plane(r.frequencies_of(symbols), others)
    stored_exceptions = b"\7" + a.bitmap(sevens) + b"\0" + bytes(others)
    blocks = [
        (b"\2\0", r.carrying(frequencies, symbols, stored), symbols, lows),
        (b"\2\1", b"\x44" + plane, symbols, [0x44] * 1024),
        (b"\2\2", a.coded_plane(low_table, lows) + plane, symbols, lows),
        (b"\2\3", exceptions + plane, symbols, lows),
        (b"\3\0", stored + of_symbols, symbols, lows),
        (b"\3\2", a.coded_plane(low_table, lows) + of_symbols, symbols, lows),
        (b"\3\0", stored + stored_exceptions, symbols, lows),
        (b"\0\2", a.coded_plane(low_table, lows) + bytes(symbols), symbols, lows),
        (b"\1\0", stored + b"\x99", [0x99] * 1024, lows),
    ]
    content = b"".join(content_of((F16, 0, 8, 0), block[2], block[3], []) for block in blocks) + b"xy"
    plan = r.rans_plan(r.table(frequencies), [low_table], p=8)
    coded = [PLANES + modes + bodies for modes, bodies, _, _ in blocks] + [STORED + b"xy"]
    return a.coded_frame(plan, coded, content, F16, **RANS), content


def rans_masked():
    """The elements that are left, in a masked block."""
    flags = [int(number % 5 > 0) for number in scattered(1024)]
    e = sum(flags)
    symbols, lows = skewed(e, [50, 51, 49, 48]), [number % 256 for number in scattered(e, 3)]
    frequencies = r.frequencies_of(symbols)
    kept = content_of((BF16, 1, 8, 0), symbols, lows, [])
    elements = iter(kept[i : i + 2] for i in range(0, len(kept), 2))
    content = b"".join(next(elements) if flag else b"\0\x80" for flag in flags)
    block = MASKED + a.bitmap(flags) + b"\2\0" + r.carrying(frequencies, symbols, bytes(lows))
    plan = r.rans_plan(r.table(frequencies), [None], 3, 8, mask_value=b"\0\x80")
    return a.coded_frame(plan, [block], content, BF16, **RANS), content


def rans_frequency_4096():
    """A single symbol: no state changes. The carried bytes are the states."""
    lows = [number % 256 for number in scattered(300, 3)]
    content = content_of((BF16, 0, 8, 0), [9] * 300, lows, [])
    data = r.carrying({9: 4096}, [9] * 300, bytes(lows))
    plan = r.rans_plan(r.table({9: 4096}), [None], p=8)
    return a.coded_frame(plan, [PLANES + b"\2\0" + data], content, BF16, **RANS), content


def rans_frequencies():
    """All 256 symbols have a code, 255 of them the least frequency: states of all sizes."""
    frequencies = {s: 1 if s != 128 else 4096 - 255 for s in range(256)}
    symbols = [number >> 3 & 255 if number % 9 == 0 else 128 for number in scattered(2048)]
    symbols[:64] = [0] * 64
    blocks = [PLANES + b"\2" + r.plane(frequencies, symbols[i : i + 1024]) for i in (0, 1024)]
    plan = r.rans_plan(r.table(frequencies), [])
    return a.coded_frame(plan, blocks, bytes(symbols), **RANS), bytes(symbols)


def rans_widths():
    """A frequency of each width: 1, 2, 4, ... 2048, and 1 more; most symbols between them have none."""
    frequencies = {20 * i: 1 << i for i in range(12)}
    frequencies[230] = 1
    values = sorted(frequencies, key=frequencies.get, reverse=True)
    symbols = skewed(800, values) + values * 4
    symbols = symbols[:1024]
    plan = r.rans_plan(r.table(frequencies), [])
    return a.coded_frame(plan, [PLANES + b"\2" + r.plane(frequencies, symbols)], bytes(symbols), **RANS), bytes(symbols)


def rans_above_their_range():
    """Symbols of 4 bits that stand as bytes of 16 and more."""
    symbols = skewed(512, [0xFA, 0x33, 0x05, 0xF0])
    lows = [number % 16 for number in scattered(512, 3)]
    frequencies = r.frequencies_of(symbols)
    content = content_of((U8, 0, 4, 0), [(s + 5) % 16 for s in symbols], lows, [])
    data = r.carrying(frequencies, symbols, a.packed_plane(lows, 4))
    plan = r.rans_plan(r.table(frequencies), [None], p=4, base=5)
    return a.coded_frame(plan, [PLANES + b"\2\0" + data], content, **RANS), content


def rans_offsets():
    """Rows and columns with offsets."""
    C, columns, rows = 100, [i * 7 % 16 for i in range(100)], [i % 4 for i in range(11)]
    symbols, lows = skewed(1024, [30, 31, 29]), [number % 256 for number in scattered(1024, 3)]
    values = [1000 + rows[i // C] + columns[i % C] << 3 for i in range(1024)]
    frequencies = r.frequencies_of(symbols)
    content = content_of((BF16, 1, 8, 0), symbols, lows, [], values)
    block = PLANES + a.rows(2, 1000, rows) + b"\2\0" + r.carrying(frequencies, symbols, bytes(lows))
    plan = r.rans_plan(r.table(frequencies), [None], 5, 8, columns_part=a.columns(C, 3, 4, columns))
    features = a.lmc.FEATURE_RANS | a.lmc.FEATURE_OFFSETS
    return a.coded_frame(plan, [block], content, BF16, features=features), content


LOW_NBITS = [(1, 900, U8), (1, 1023, U8), (2, 508, U8), (3, 350, U8), (3, 340, U8), (4, 280, U8), (4, 300, F16)]
LOW_NBITS += [(5, 300, F32), (7, 300, I64), (6, 280, BF16), (8, 280, F32)]
FUNCTIONS = [rans_least, rans_most_words, rans_blocks, rans_low_modes, rans_masked, rans_frequency_4096]
FUNCTIONS += [rans_frequencies, rans_widths, rans_above_their_range, rans_offsets]


def frames():
    """{name: (frame, content)}."""
    made = {function.__name__: function() for function in FUNCTIONS}
    for p, n, dtype in LOW_NBITS:
        made[f"rans_low_nbits_{p}_w{a.lmc.DTYPE_UNITS[dtype]}_{n}"] = rans_low_nbits(p, n, dtype)
    return made
