"""corrupt_rans.py - frames that each break one rule of docs/format.md for rANS codes: sections 2.1, 3, 5.1, 6.4 and
6.5. make_corrupt.py writes them."""

import struct

import assemble as a
import assemble_delta as d
import assemble_rans as r
import lmc_reference
from assemble import BF16, F32, U8
from handmade import LETTERS, LETTERS_PLAN, LETTERS_TABLE, PLANES, STORED, scattered
from handmade_rans import RANS, skewed

N = 900
SYMBOLS = skewed(N, [97, 98, 99, 100])
FREQUENCIES = {97: 2048, 98: 1024, 99: 512, 100: 512}
TABLE = r.table(FREQUENCIES)
PLAN = r.rans_plan(TABLE, [])
LOWS = [number % 256 for number in scattered(N, 3)]


def frame(block, content=bytes(SYMBOLS), plan=PLAN, dtype=U8, **fields):
    return a.coded_frame(plan, [block], content, dtype, **{**RANS, **fields})


def make(add):
    def bad(name, rule, data, status="CORRUPT"):
        add(status, "rans_" + name, rule, data)

    assert lmc_reference.decode(frame(PLANES + b"\2" + r.plane(FREQUENCIES, SYMBOLS))) == bytes(SYMBOLS)
    features(bad)
    plans(bad)
    tables(bad)
    planes(bad)
    carried(bad)


# ---- section 2.1, 3


def features(bad):
    content = b"x" * 100
    bad("feature_alone", "the feature RANS, but no rANS table in the plan",
        a.coded_frame(LETTERS_PLAN, [STORED + LETTERS], LETTERS, **RANS))
    bad("table_alone", "a rANS table in the plan, but not the feature", frame(STORED + bytes(SYMBOLS), features=0))
    bad("feature_stored", "the feature RANS in a stored frame", a.stored_frame(content, **RANS))
    delta = bytes([0, 0, 0, 1, 0])
    bad("feature_delta", "the feature RANS in a delta frame", d.delta_frame(delta, [d.SAME], content, content, **RANS))
    bad("feature_7", "a required feature that nobody knows, beside RANS",
        frame(STORED + bytes(SYMBOLS), features=0xC0), "UNSUPPORTED")


def plans(bad):
    stored = STORED + bytes(SYMBOLS)
    bad("plan_4097", "a plan of more than 4096 bytes", frame(stored, plan=PLAN + bytes(4097 - len(PLAN))))
    bad("plan_byte_after", "a byte after the plan's end", frame(stored, plan=PLAN + b"\0"))
    for size in range(7, len(PLAN)):
        bad(f"plan_cut_{size}", "the plan ends within a rANS table", frame(stored, plan=PLAN[:size]))

    def other_plane(name, rule, plane, dtype, p):
        count = 1 + (p > 0) + max(lmc_reference.DTYPE_UNITS[dtype] - 2, 0)
        kinds = [b"\0"] * count
        kinds[0] = kinds[plane] = b"\2" + TABLE
        plan = a.plan([], p=p) + b"".join(kinds)
        bad("table_" + name, rule, frame(stored, plan=plan, dtype=dtype))

    other_plane("low_plane", "a rANS table for the low plane", 1, BF16, 8)
    other_plane("packed", "a rANS table for a packed plane", 1, BF16, 5)
    other_plane("packed_w1", "a rANS table for a packed plane", 1, U8, 3)
    other_plane("lower_byte", "a rANS table for a lower byte", 3, F32, 8)


# ---- section 6.4


def tables(bad):
    def table(name, rule, data, status="CORRUPT"):
        bad("table_" + name, rule, frame(STORED + bytes(SYMBOLS), plan=r.rans_plan(data, [])), status)

    def bits(first, last, *numbers):
        """Numbers are given as (b, the bits that follow)."""
        string = [value >> j & 1 for b, low in numbers for value, n in ((b, 4), (low, max(b - 1, 0))) for j in range(n)]
        return bytes([1, first, last]) + a.bit_plane(string)

    assert bits(97, 100, (12, 0), (11, 0), (10, 0), (10, 0)) == TABLE
    for count in (0, 2, 255):
        table(f"class_count_{count}", f"class_count {count}", bytes([count]) + TABLE[1:], "UNSUPPORTED")
    table("first_above_last", "first_symbol > last_symbol", bytes([1, 100, 99]) + TABLE[3:])
    table("first_0", "frequency 0 for first_symbol", r.table(FREQUENCIES, first=96))
    table("last_0", "frequency 0 for last_symbol", r.table(FREQUENCIES, last=101))
    table("only_0", "frequency 0 for the only symbol", bits(97, 97, (0, 0)))
    table("sum_4095", "the frequencies are 4095 together", r.table({97: 2048, 98: 2047}))
    table("sum_4097", "the frequencies are 4097 together", r.table({97: 2048, 98: 2049}))
    table("sum_8192", "the frequencies are twice 4096 together", r.table({97: 4096, 98: 4096}))
    table("sum_65536", "the frequencies are 16 times 4096 together", r.table({i: 256 for i in range(256)}))
    table("sum_wraps", "the frequencies are 4096 together in 16 bits", r.table({i: 4096 for i in range(17)}))
    table("sum_1", "the only frequency is 1", r.table({97: 1}))
    table("frequency_4097", "a frequency of 4097", bits(97, 97, (13, 1)))
    table("frequency_8191", "a frequency of 8191", bits(97, 97, (13, 4095)))
    for b in (14, 15):
        table(f"b_{b}", f"b = {b}", bits(97, 98, (b, 0), (12, 0)))
        table(f"b_{b}_last", f"b = {b}, at the end", bits(97, 98, (12, 0), (b, 0)))
    spare = r.table({97: 2048, 98: 2048, 99: 0}, last=98)
    assert (4 + 11) * 2 % 8 == 6
    for bit in (6, 7):
        table(f"spare_bit_{bit}", "spare bits after the frequencies", spare[:-1] + bytes([spare[-1] | 1 << bit]))


# ---- section 6.5


def planes(bad):
    def plane(name, rule, change, symbols=SYMBOLS, frequencies=FREQUENCIES, last_states=None):
        made = r.RansPlane(frequencies, symbols, last_states=last_states)
        change(made)
        plan = r.rans_plan(r.table(frequencies), [])
        bad("plane_" + name, rule, frame(PLANES + b"\2" + made.data(), bytes(symbols), plan))

    def unchanged(made):
        pass

    def count(value):
        def change(made):
            made.word_count = value
        return change

    words = r.RansPlane(FREQUENCIES, SYMBOLS).word_count
    assert 1 < words and 260 + 2 * words < N - 8
    plane("count_more", "word_count is 1 more than the words that are there", count(words + 1))
    plane("count_less", "word_count is 1 less than the words that are there", count(words - 1))
    plane("count_over", "the plane would be as long as a stored one", count((N - 260) // 2))
    plane("count_max", "word_count 2^32 - 1", count(2**32 - 1))
    plane("count_wraps", "260 + 2 word_count is right in 32 bits, but not in 64", count(words + (1 << 31)))

    def longer(made):
        made.words.append(0)
        made.word_count += 1

    def shorter(made):
        made.words.pop()
        made.word_count -= 1

    plane("words_more", "a word that no state takes", longer)
    plane("words_less", "a state needs a word more than there are", shorter)

    def none(made):
        made.words, made.word_count = [], 0

    plane("words_none", "states need words, but there are none", none)

    # as long as a stored plane, and longer, though every word is in use
    frequencies, low_plane = {97: 4095, 98: 1}, b"\2\1\7"
    plan = r.rans_plan(r.table(frequencies), [None], p=8)
    for n, words, is_good in [(260, 0, 0), (261, 0, 1), (261, 1, 0), (262, 1, 0), (263, 1, 1)]:
        symbols = [98 if i in (64, 128) and words else 97 for i in range(n)]
        made = r.RansPlane(frequencies, symbols)
        assert made.word_count == words
        content = b"".join(bytes([7, symbol]) for symbol in symbols)
        one = frame(PLANES + low_plane + made.data(), content, plan, BF16)
        if is_good:
            assert lmc_reference.decode(one) == content
        else:
            rule = f"a plane of {n} symbols and {words} words is not smaller than a stored one"
            bad(f"plane_n_{n}_words_{words}", rule, one)

    def state(lane, value):
        def change(made):
            made.states[lane] = value
        return change

    for lane, value in [(0, 65535), (63, 65535), (31, 0), (5, 1)]:
        plane(f"state_{lane}_{value}", f"the first state of lane {lane} is {value}", state(lane, value))

    for lane in (0, 40):
        made = r.RansPlane(FREQUENCIES, SYMBOLS, early={lane})
        assert made.states[lane] < 1 << 16
        bad(f"plane_state_low_{lane}", f"the first state of lane {lane} is below 2^16, and a word makes up for it",
            frame(PLANES + b"\2" + made.data()))

    # Symbols whose frequency is 4096 change no state.
    plane("state_low", "a first state below 2^16, but all symbols are right", state(7, 65535), [97] * N, {97: 4096})
    for lane, value in [(0, 1 << 17), (63, 1 << 17), (20, 0xFFFFFFFF), (1, 0x80000000)]:
        last = [1 << 16] * 64
        last[lane] = value
        plane(f"last_state_{lane}_{value:x}", f"the last state of lane {lane} is {value:x}", unchanged,
              last_states=last)
    plane("last_state_unchanged", "a last state of 2^17, which no symbol changes", state(40, 1 << 17), [97] * N,
          {97: 4096})

    right = PLANES + b"\2" + r.plane(FREQUENCIES, SYMBOLS)
    for size in (3, 5, 6, 100, 261, len(right) - 1):
        bad(f"plane_cut_{size}", "the block ends within a rANS plane", frame(right[:size]))
    bad("plane_byte_after", "a byte after a rANS plane", frame(right + b"\0"))
    prefix = PLANES + b"\2" + a.coded_plane(a.table([(1, 3)], {97: (0, 1), 98: (0, 2), 99: (0, 3)}), SYMBOLS)
    bad("plane_prefix_code", "a plane in a prefix code, but the table is a rANS table", frame(prefix))
    letters = [PLANES + b"\2" + r.plane(FREQUENCIES, SYMBOLS)]
    bad("plane_of_prefix_table", "a rANS plane, but the table is that of a prefix code",
        a.coded_frame(a.plan([LETTERS_TABLE]), letters, bytes(SYMBOLS)))


# ---- section 5.1


def carried(bad):
    ones = struct.pack("<64H", *[0] * 63 + [0x100])
    first = struct.pack("<64H", *[1] + [0] * 63)

    def not_zero(name, rule, modes, before, plan=PLAN, content=bytes(SYMBOLS), dtype=U8, coded=SYMBOLS):
        for lane, carried_bytes in ((0, first), (63, ones)):
            plane = r.plane(FREQUENCIES, coded, carried_bytes)
            block = PLANES + modes + before + plane
            bad(f"carried_{name}_lane_{lane}", rule, frame(block, content, plan, dtype))

    def bf16(lows, symbols=SYMBOLS):
        return b"".join(bytes([low, symbol]) for low, symbol in zip(lows, symbols))

    raw = r.rans_plan(TABLE, [None], p=8)
    low_table = a.table([(1, 1)], {0: (0, 1), 1: (0, 1)})
    bits = [low & 1 for low in LOWS]
    not_zero("no_low_plane", "carried bytes are not 0, but there is no low plane", b"\2", b"")
    not_zero("constant", "carried bytes are not 0, but the low plane is constant", b"\2\1", b"\7", plan=raw,
             content=bf16([7] * N), dtype=BF16)
    not_zero("coded", "carried bytes are not 0, but the low plane is coded", b"\2\2", a.coded_plane(low_table, bits),
             plan=r.rans_plan(TABLE, [low_table], p=8), content=bf16(bits), dtype=BF16)
    not_zero("exceptions", "carried bytes are not 0, but the low plane has exceptions", b"\2\3",
             b"\0" + a.bitmap(bits) + b"\0" + b"\1" * sum(bits), plan=raw, content=bf16(bits), dtype=BF16)
    short = bytes(symbol << 1 & 255 | bit for symbol, bit in zip(SYMBOLS, bits))
    packed = a.packed_plane(bits, 1)
    assert len(packed) == 113
    not_zero("short", "carried bytes are not 0, but the low plane has 113 bytes", b"\2\0", packed,
             plan=r.rans_plan(TABLE, [None], p=1), content=short)
    flags = [int(i % 8 > 0) for i in range(N)]
    mixed = [symbol if flag else 200 for symbol, flag in zip(SYMBOLS, flags)]
    others = [symbol for symbol, flag in zip(SYMBOLS, flags) if flag]
    exceptions = b"\xc8" + a.bitmap(flags) + b"\2"
    not_zero("by_exceptions", "the exceptions of plane 0 carry bytes", b"\3", exceptions, content=bytes(mixed),
             coded=others)
    not_zero("by_exceptions_low", "the exceptions of plane 0 carry bytes, beside a low plane that is stored", b"\3\0",
             bytes(LOWS) + exceptions, plan=raw, content=bf16(LOWS, mixed), dtype=BF16, coded=others)

    low_plane, plane = bytes(LOWS), r.plane(FREQUENCIES, SYMBOLS)
    content = bf16(LOWS)
    bad("carried_twice", "the low plane is in its body as a whole, but its end is carried, too",
        frame(PLANES + b"\2\0" + low_plane + r.plane(FREQUENCIES, SYMBOLS, low_plane[-128:]), content, raw, BF16))
    bad("carried_not", "the low plane is in its body as a whole, and the carried bytes are 0",
        frame(PLANES + b"\2\0" + low_plane + plane, content, raw, BF16))
    bad("carried_for_constant", "plane 0 is constant, and the low plane lacks 128 bytes",
        frame(PLANES + b"\1\0" + low_plane[:-128] + b"\7", bf16(LOWS, [7] * N), raw, BF16))
    p2 = r.rans_plan(TABLE, [None], p=2)
    symbols, lows = SYMBOLS + SYMBOLS[:1], [low % 4 for low in LOWS + LOWS[:1]]
    right = a.packed_plane(lows, 2)
    assert len(right) == 226 and (N + 1) * 2 % 8 == 2
    spare = right[:-1] + bytes([right[-1] | 0x80])
    content = bytes(symbol << 2 & 255 | low for symbol, low in zip(symbols, lows))
    good = frame(PLANES + b"\2\0" + r.carrying(FREQUENCIES, symbols, right), content, p2)
    assert lmc_reference.decode(good) == content
    bad("carried_spare_bits", "spare bits in the low plane, in the carried bytes",
        frame(PLANES + b"\2\0" + r.carrying(FREQUENCIES, symbols, spare), content, p2))
    changed = right[:-1] + bytes([right[-1] ^ 1])
    bad("carried_changed", "a carried byte has changed",
        frame(PLANES + b"\2\0" + r.carrying(FREQUENCIES, symbols, changed), content, p2), "CHECKSUM")
