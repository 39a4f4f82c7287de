#!/usr/bin/env python3
"""Writes tests/format/vectors/corrupt/EXPECT.tsv: frames that break one rule of docs/format.md each, the status with
which a decoder must refuse each one, and why. Their checksums are right wherever the rule is not about checksums, and
so are the hashes of their contents: a decoder that forgets the rule accepts them.
Also writes the good frames of handmade.py and its kin to tests/format/vectors.

    make_corrupt.py [DIR]        DIR: instead of tests/format/vectors
"""
import os
import sys

import assemble as a
import corrupt_delta
import corrupt_narrow
import corrupt_rans
import expectations
import handmade
import handmade_delta
import handmade_narrow
import handmade_rans
import lmc_reference
from assemble import BF16, F32, U8, coded_frame, plan, raw_table, short_frame, stored_frame
from handmade import LETTERS, LETTERS_PLAN, LETTERS_TABLE, MASKED, PLANES, STORED
from lmc_reference import H, MODE_CODED, u64

CASES = {}  # name: (status, rule, frame, base or None)

CONTENT = b"abcdefgh" * 40
LETTERS_BLOCK = PLANES + b"\2" + a.coded_plane(LETTERS_TABLE, LETTERS)
RAW_U8 = plan([None])
RAW_BF16 = plan([None, None], p=8)


def add(status, name, rule, frame, base=None):
    assert name not in CASES, name
    CASES[name] = (status, rule, bytes(frame), base)


def letters(plan_bytes=LETTERS_PLAN, blocks=(LETTERS_BLOCK,), content=LETTERS, **fields):
    return coded_frame(plan_bytes, list(blocks), content, **fields)


def one_block(status, name, rule, block, content, plan_bytes=RAW_U8, dtype=U8, **fields):
    add(status, "block_" + name, rule, coded_frame(plan_bytes, [block], content, dtype, **fields))


# ---- section 2 --------------------------------------------------------------------------------------------


def heads():
    stored_block = [STORED + LETTERS]
    both = [
        ("CORRUPT", "magic", "the magic is another one", dict(magic=b"\x8cLMD")),
        ("CORRUPT", "version_0", "version 0", dict(version=0)),
        ("UNSUPPORTED", "version_2", "version 2", dict(version=2)),
        ("CORRUPT", "block_log2_9", "block_log2 below 10", dict(block_log2=9)),
        ("CORRUPT", "block_log2_21", "block_log2 above 20", dict(block_log2=21)),
        ("UNSUPPORTED", "feature_0", "a required feature that is reserved", dict(features=1)),
        ("UNSUPPORTED", "feature_31", "a required feature that nobody knows", dict(features=1 << 31)),
        ("CORRUPT", "element_nbytes_2", "element_nbytes is not the dtype's unit", dict(element_nbytes=2)),
        ("CORRUPT", "element_nbytes_0", "element_nbytes 0", dict(element_nbytes=0)),
        ("UNSUPPORTED", "byte_order", "big-endian elements", dict(byte_order=1)),
        ("UNSUPPORTED", "base_form", "the form of a base that the frame does not have", dict(base_form=1)),
        ("UNSUPPORTED", "reserved", "reserved is not 0", dict(reserved=1)),
        ("CORRUPT", "content_2_63", "content_nbytes 2^63", dict(content_nbytes=1 << 63)),
    ]
    for status, name, rule, fields in both:
        add(status, "head_coded_" + name, rule, letters(**fields))
        add(status, "head_stored_" + name, rule, stored_frame(CONTENT, **fields))
    for name, dtype in [("22", 22), ("255", 255)]:
        unknown = a.head(U8, 0, 0)[:5] + bytes([dtype]) + a.head(U8, 0, 0)[6:]
        add("UNSUPPORTED", "head_stored_dtype_" + name, f"dtype {dtype}", a.checked(unknown, b"", u64(H(b""))))
    add("UNSUPPORTED", "head_short_dtype_22", "dtype 22", a.checked(b"\x8cLMC\1\x16\2\0", b"", u64(H(b""))))
    for mode in (4, 5, 6, 255):
        add("UNSUPPORTED", f"head_mode_{mode}", f"frame mode {mode}", letters(mode=mode))
    for status, name, rule, fields in both[:3]:
        add(status, "head_short_" + name, rule, short_frame(b"abc", **fields))
    less = "element_nbytes is less than the dtype's unit"
    add("CORRUPT", "head_coded_element_nbytes_1_bf16", less,
        coded_frame(RAW_BF16, [PLANES + b"\1\1xx"], b"x" * 100, BF16, element_nbytes=1))
    add("CORRUPT", "head_stored_element_nbytes_1_bf16", less, stored_frame(CONTENT, BF16, element_nbytes=1))
    add("CORRUPT", "head_coded_plan_nbytes_0", "a coded frame without a plan", letters(b"", stored_block))
    long_plan = LETTERS_PLAN + bytes(4097 - len(LETTERS_PLAN))
    add("CORRUPT", "head_coded_plan_nbytes_4097", "a plan of more than 4096 bytes", letters(long_plan))
    add("CORRUPT", "head_stored_plan_nbytes_1", "a stored frame with a plan", stored_frame(CONTENT, plan_nbytes=1))
    empty = a.checked(a.head(U8, MODE_CODED, 0, len(LETTERS_PLAN)) + LETTERS_PLAN, b"", b"")
    add("CORRUPT", "head_coded_content_0", "a coded frame without content", empty)


def tails():
    add("CORRUPT", "stored_long", "a byte after a stored frame", stored_frame(CONTENT) + b"\0")
    add("CORRUPT", "short_long", "a byte after a short frame", short_frame(b"abc") + b"\0")
    add("CORRUPT", "stored_content_less", "content_nbytes is less than there is",
        stored_frame(CONTENT, content_nbytes=len(CONTENT) - 1))

    content = b"x" * 1024 + b"y" * 100
    x, y = PLANES + b"\1x", PLANES + b"\1y"
    both = [x, y]
    index = [len(block) for block in both]
    assert index == [3, 3]
    add("CORRUPT", "index_size_0", "stored_nbytes 0", coded_frame(RAW_U8, [x + y, b""], content, sizes=[6, 0]))
    add("CORRUPT", "index_size_0_first", "stored_nbytes 0", coded_frame(RAW_U8, [b"", x + y], content, sizes=[0, 6]))
    add("CORRUPT", "index_size_over", "stored_nbytes is more than the content + 1",
        coded_frame(RAW_U8, [x, STORED + b"y" * 100 + b"y"], content))
    add("CORRUPT", "index_size_huge", "stored_nbytes is more than the content + 1",
        coded_frame(RAW_U8, both, content, sizes=[2**32 - 3, 9]))
    add("CORRUPT", "index_sum_less", "the block sizes are less than what lies between plan and tail",
        coded_frame(RAW_U8, both, content, sizes=[3, 2]))
    add("CORRUPT", "index_sum_more", "the block sizes are more than what lies between plan and tail",
        coded_frame(RAW_U8, both, content, sizes=[3, 4]))
    add("CORRUPT", "index_sum_byte_after", "a byte between the last block and the tail",
        coded_frame(RAW_U8, both + [b"\0"], content, sizes=index))
    add("CORRUPT", "index_sum_byte_before", "a byte between plan and blocks",
        coded_frame(RAW_U8, [b"\0"] + both, content, sizes=index))
    add("CORRUPT", "index_shifted", "the block sizes cut at the wrong places",
        coded_frame(RAW_U8, both, content, sizes=[2, 4]))


def flipped(frame, place):
    changed = bytearray(frame)
    changed[place] ^= 0x10
    return changed


def checksums():
    coded, stored, short = letters(), stored_frame(CONTENT), short_frame(b"abc")
    for name, frame in [("coded", coded), ("stored", stored), ("short", short)]:
        add("CHECKSUM", f"check_{name}", "the check is wrong", flipped(frame, -1))
    add("CHECKSUM", "check_row_nbytes", "the head is not what was written", flipped(coded, 24))
    add("CHECKSUM", "check_plan", "the plan is not what was written", flipped(coded, 34))
    add("CHECKSUM", "check_plan_wrong", "a plan that is wrong, and not what was written", flipped(coded, 32 + 8))
    add("CHECKSUM", "check_index_size", "the index is not what was written", flipped(coded, -20))
    add("CHECKSUM", "check_index_hash", "the index is not what was written", flipped(coded, -10))
    add("CHECKSUM", "check_stored_hash", "the content hash is not what was written", flipped(stored, -10))
    add("CHECKSUM", "content_of_block", "a byte of a stored block has changed",
        flipped(letters(blocks=[STORED + LETTERS]), 100))
    add("CHECKSUM", "content_of_coded_block", "a symbol of the rest is another one",
        letters(blocks=[LETTERS_BLOCK[:-1] + b"y"]))
    add("CHECKSUM", "content_stored", "a byte of the content has changed", flipped(stored, 100))
    add("CHECKSUM", "content_short", "a byte of the content has changed", flipped(short, 9))
    add("CHECKSUM", "hash_of_block", "the index has another hash for a block", letters(hashes=[H(LETTERS) ^ 1]))
    content = b"x" * 1024 + b"y"
    add("CHECKSUM", "hash_of_last_block", "the index has another hash for the last block",
        coded_frame(RAW_U8, [PLANES + b"\1x", STORED + b"y"], content, hashes=[H(content[:1024]), H(b"x")]))
    wrong = a.checked(a.head(U8, 0, len(CONTENT)), CONTENT, u64(H(CONTENT)))
    add("CHECKSUM", "hash_stored", "the content hash is H of the content itself", wrong)
    wrong = a.checked(a.short_head(U8, 3), b"abc", u64(1))
    add("CHECKSUM", "hash_short", "the content hash is wrong", wrong)


def truncations():
    coded, stored, short = letters(), stored_frame(CONTENT), short_frame(b"abc")
    minimum = 32 + len(LETTERS_PLAN) + 1 + 12 + 8
    for name, frame, sizes in [
        ("coded", coded, [0, 3, 4, 7, 8, 31, 32, 40, minimum - 1]),
        ("stored", stored, [31, 32, 100, len(stored) - 16, len(stored) - 8, len(stored) - 1]),
        ("short", short, [7, 8, 11, 19, 26]),
    ]:
        for size in sizes:
            add("TRUNCATED", f"cut_{name}_{size}", f"the first {size} of {len(frame)} bytes", frame[:size])
    add("TRUNCATED", "cut_other_version", "a version is judged from 8 bytes on", lmc_reference.MAGIC + b"\2")
    add("CORRUPT", "cut_other_magic", "4 bytes that are not the magic", b"LMC1")
    huge = dict(content_nbytes=2**62)
    for name, frame in [("coded", letters(**huge)), ("stored", stored_frame(CONTENT, **huge))]:
        add("TRUNCATED", f"cut_{name}_huge", "2^62 bytes of content in a frame of a few", frame)
    for size in (minimum, len(coded) - 20, len(coded) - 1):
        add("CHECKSUM", f"cut_coded_{size}", "a part is missing, so the check is not where it was", coded[:size])
    add("CHECKSUM", "coded_long", "a byte after a coded frame, so the check is not where it was", coded + b"\0")
    add("TRUNCATED", "cut_stored_content_more", "content_nbytes is more than there is",
        stored_frame(CONTENT, content_nbytes=len(CONTENT) + 1))


# ---- section 3 and 6.2 ------------------------------------------------------------------------------------


def plans():
    stored_letters = [STORED + LETTERS]
    stored_content = [STORED + CONTENT]

    def bad(status, name, rule, plan_bytes, dtype=U8):
        blocks, content = (stored_letters, LETTERS) if dtype == U8 else (stored_content, CONTENT)
        add(status, "plan_" + name, rule, coded_frame(plan_bytes, blocks, content, dtype))

    raw2, raw4 = [None] * 2, [None] * 4
    bad("UNSUPPORTED", "transform_bit_3", "transform has bit 3", plan([None], transform=8))
    bad("UNSUPPORTED", "transform_bit_7", "transform has bit 7", plan([None], transform=0x80))
    bad("CORRUPT", "low_nbits_5_w1", "low_nbits above 4 for elements of a byte", plan(raw2, p=5))
    bad("CORRUPT", "low_nbits_8_w1", "low_nbits above 4 for elements of a byte", plan(raw2, p=8))
    bad("CORRUPT", "low_nbits_3_w2", "low_nbits below 4 for elements of 2 bytes", plan(raw2, p=3), BF16)
    bad("CORRUPT", "low_nbits_0_w2", "low_nbits below 4 for elements of 2 bytes", plan([None], p=0), BF16)
    bad("CORRUPT", "low_nbits_9_w2", "low_nbits above 8", plan(raw2, p=9), BF16)
    bad("CORRUPT", "low_nbits_9_w4", "low_nbits above 8", plan(raw4, p=9), F32)
    bad("CORRUPT", "offset_256_w1", "offset 2^8 for a head of 8 bits", plan([None], offset=256))
    bad("CORRUPT", "base_256_w1", "base 2^8 for symbols of 8 bits", plan([None], base=256))
    bad("CORRUPT", "base_16_w1", "base 2^4 for symbols of 4 bits", plan(raw2, p=4, base=16))
    bad("CORRUPT", "base_256_w2", "base 2^8 for symbols of 8 bits", plan(raw2, p=8, base=256), BF16)
    bad("CORRUPT", "base_4096_w4", "base 2^12 for symbols of 12 bits", plan(raw4, p=4, base=4096), F32)
    bad("CORRUPT", "table_kind_2", "a rANS table that is missing, and no feature RANS", LETTERS_PLAN[:6] + b"\2")
    bad("UNSUPPORTED", "table_kind_3", "a built-in table", LETTERS_PLAN[:6] + b"\3")
    bad("UNSUPPORTED", "table_kind_255", "a built-in table", plan(raw2, p=8)[:7] + b"\xff", BF16)
    bad("CORRUPT", "packed_table", "a table for a packed plane", plan([None, LETTERS_TABLE], p=4))
    bad("CORRUPT", "packed_table_w2", "a table for a packed plane", plan([None, LETTERS_TABLE], p=7), BF16)
    bad("CORRUPT", "byte_after", "a byte after the plan's end", LETTERS_PLAN + b"\0")
    bad("CORRUPT", "plane_missing", "the plan ends before its last plane", plan([None], p=8), BF16)
    bad("CORRUPT", "mask_missing", "the plan ends before its mask value", plan([], p=8, transform=2), F32)
    bad("CORRUPT", "mask_short", "the plan ends within its mask value", plan([], 2, 8, mask_value=b"\0"), BF16)
    bad("CORRUPT", "one_byte", "a plan of one byte", b"\0")
    for size in range(7, len(LETTERS_PLAN)):
        bad("CORRUPT", f"table_cut_{size}", "the plan ends within a table", LETTERS_PLAN[:size])


def tables():
    def bad(name, rule, table):
        add("CORRUPT", "table_" + name, rule, letters(plan([table]), [STORED + LETTERS]))

    def packed(classes, nbits):
        return a.packed_plane(classes, nbits)

    classes_abc = packed([1, 2, 3], 2)
    bad("layer_count_0", "layer_count 0", raw_table([], 97, 97, b""))
    bad("layer_count_17", "layer_count 17", a.table([(1, 1)] * 17, {s: (s, 1) for s in range(17)}))
    bad("first_above_last", "first > last", raw_table([(3, 1)], 97, 99, classes_abc))
    bad("first_0", "first 0", raw_table([(0, 3)], 97, 99, packed([2, 3, 4], 3)))
    bad("last_7", "last 7", a.table([(1, 7)], {97 + i: (0, i + 1) for i in range(7)}))
    bad("last_15", "last 15", raw_table([(1, 15)], 97, 99, packed([1, 2, 3], 4)))
    bad("low_above_high", "low > high", raw_table([(1, 3)], 99, 97, b""))
    bad("low_above_high_by_1", "low > high", raw_table([(1, 3)], 98, 97, b""))
    bad("class_above_c", "a class above C", raw_table([(1, 2)], 97, 100, packed([1, 2, 3, 2], 2)))
    bad("class_0_low", "class 0 for the symbol low", raw_table([(1, 3)], 96, 99, packed([0, 1, 2, 3], 2)))
    bad("class_0_high", "class 0 for the symbol high", raw_table([(1, 3)], 97, 100, packed([1, 2, 3, 0], 2)))
    spare = bytes([classes_abc[0] | 0x40])
    bad("spare_bits", "spare bits in the plane of classes", raw_table([(1, 3)], 97, 99, spare))
    bad("incomplete", "r is no power of two", raw_table([(1, 3)], 97, 98, packed([1, 3], 2)))
    bad("list_below_first", "the list would be shorter than first",
        raw_table([(2, 3)], 97, 99, packed([1, 2, 2], 2)))
    bad("over_full", "the codes do not fit", raw_table([(1, 2)], 97, 99, packed([1, 1, 2], 2)))
    bad("full_before_further", "a layer without a list before a further one",
        raw_table([(1, 2), (1, 1)], 97, 100, packed([1, 2, 2, 3], 2)))
    bad("layer_without_symbols", "a layer of nothing but a list", raw_table([(1, 1), (1, 1)], 97, 97, packed([1], 2)))
    bad("first_unused", "no code is as short as first", raw_table([(1, 2)], 97, 99, packed([2, 2, 2], 2)))
    bad("last_unused", "no code is as long as last", raw_table([(1, 3)], 97, 98, packed([1, 2], 2)))
    bad("last_unused_full", "no code is as long as last", raw_table([(1, 3)], 97, 98, packed([1, 1], 2)))


# ---- section 5 --------------------------------------------------------------------------------------------


def blocks():
    content = b"x" * 100
    exact = STORED + content
    for mode in (3, 4, 255):
        one_block("UNSUPPORTED", f"mode_{mode}", f"block mode {mode}", bytes([mode]) + exact[1:], content)
    one_block("UNSUPPORTED", "mode_4_alone", "block mode 4, in a block of one byte", b"\4", content)
    one_block("CORRUPT", "stored_short", "a stored block has a byte too few", exact[:-1], content)
    constant = PLANES + b"\1x"
    one_block("CORRUPT", "byte_after", "a byte after the block's end", constant + b"\0", content)
    one_block("CORRUPT", "mode_only", "the block ends after its mode", PLANES, content)
    one_block("CORRUPT", "plane_mode_only", "the block ends before the constant", PLANES + b"\1", content)
    one_block("CORRUPT", "plane_short", "the block ends within a plane", PLANES + b"\0" + content[:-1], content)
    for mode in (4, 5, 6, 7, 8, 128, 255):
        one_block("UNSUPPORTED", f"plane_mode_{mode}", f"plane mode {mode}", PLANES + bytes([mode]) + b"x", content)
        one_block("UNSUPPORTED", f"packed_mode_{mode}", f"plane mode {mode} for a packed plane",
                  PLANES + b"\1" + bytes([mode]) + b"\7\7", b"w" * 50, plan([None, None], p=4))
    one_block("CORRUPT", "no_table", "a coded plane without a table", PLANES + LETTERS_BLOCK[1:], LETTERS)

    after_x = b"x" * 2048  # a block of BF16, then one of a single byte
    first = PLANES + b"\1\1xx"
    for name, mode in [("planes", PLANES), ("masked", MASKED)]:
        masked = plan([None, None], p=8, transform=2, mask_value=b"zz")
        add("CORRUPT", f"block_{name}_without_elements", f"a block without elements is in mode {name}",
            coded_frame(masked, [first, mode + b"x"], after_x + b"x", BF16))
    add("UNSUPPORTED", "block_mode_4_without_elements", "block mode 4, in a block without elements",
        coded_frame(RAW_BF16, [first, b"\4x"], after_x + b"x", BF16))
    one_block("CORRUPT", "tail_missing", "the tail bytes of a block are missing", first, content + b"y", RAW_BF16, BF16)
    one_block("CORRUPT", "tail_long", "one tail byte too many", first + b"yy", content + b"y", RAW_BF16, BF16)


def packed_planes():
    p5 = plan([None, None], p=4, base=5)
    value = bytes([(5 + 1) << 4 | 3])
    ok = PLANES + b"\1\1" + b"\3\1"
    assert a.lmc.decode(coded_frame(p5, [ok], value * 9)) == value * 9
    one_block("CORRUPT", "packed_coded", "a coded packed plane", PLANES + b"\1\2" + bytes(5) + b"\1", value * 9, p5)
    one_block("CORRUPT", "packed_gaps", "a gaps packed plane",
              PLANES + b"\1\3" + b"\3" + a.bitmap([1] + [0] * 98) + b"\0\3" + b"\1", value * 99, p5)
    one_block("CORRUPT", "packed_constant", "a constant that is too wide", PLANES + b"\1\1" + b"\x13\1", value * 9, p5)
    one_block("CORRUPT", "packed_spare_bits", "spare bits in a packed plane",
              PLANES + b"\1\0" + b"\x33\x33\x33\x33\x13" + b"\1", value * 9, p5)
    wide = a.packed_plane([1] * 3, 7)
    content = b"\x81\x00" * 3
    p7 = plan([None, None], p=7, base=1)
    ok = PLANES + b"\1\0" + wide + b"\0"
    assert a.lmc.decode(coded_frame(p7, [ok], content, BF16)) == content
    one_block("CORRUPT", "packed_spare_bits_w2", "spare bits in a packed plane",
              PLANES + b"\1\0" + wide[:2] + bytes([wide[2] | 0x80]) + b"\0", content, p7, BF16)


def masks():
    content = b"m" * 20 + b"x" * 5 + b"m" * 15
    flags = [int(byte != 0x6D) for byte in content]
    masked = plan([None], transform=2, mask_value=b"m")
    ok = MASKED + a.bitmap(flags) + b"\1x"
    assert a.lmc.decode(coded_frame(masked, [ok], content)) == content
    one_block("CORRUPT", "mask_no_value", "a masked block, but no mask value", ok, content)
    all_masked = b"m" * 40
    one_block("CORRUPT", "mask_none_left", "no flag is set", MASKED + a.bitmap([0] * 40) + b"\1x", all_masked, masked)
    one_block("CORRUPT", "mask_none_left_empty", "no flag is set, and no plane follows", MASKED + a.bitmap([0] * 40),
              all_masked, masked)
    one_block("CORRUPT", "mask_none_left_gaps", "no flag is set", MASKED + a.gaps([0] * 40, 0, 0) + b"\0" + b"",
              all_masked, masked)
    one_block("CORRUPT", "mask_cut", "the block ends within the flags", ok[:4], content, masked)
    one_block("CORRUPT", "mask_plane_long", "a plane with a byte for a masked value",
              MASKED + a.bitmap(flags) + b"\0" + b"x" * 6, content, masked)


def escapes():
    highs = [0x123, 0xFFF, 0x456] * 4
    content = b"".join(b"zz" + (high << 4 | 7).to_bytes(2, "little") for high in highs)
    p4 = plan([None] * 4, p=4)
    start = PLANES + b"\1\1\1\1" + b"zz" + b"\7\xff"
    right = a.numbers(highs, 2)
    assert a.lmc.decode(coded_frame(p4, [start + right], content, F32)) == content
    one_block("CORRUPT", "escape_missing", "the last escape is missing", start + right[:-2], content, p4, F32)
    one_block("CORRUPT", "escape_cut", "half of the last escape is missing", start + right[:-1], content, p4, F32)
    one_block("CORRUPT", "escape_more", "one escape too many", start + right + b"\0\0", content, p4, F32)
    one_block("CORRUPT", "escape_wide", "an escape is not less than 2^12", start + right[:2] + b"\xff\x1f" + right[4:],
              content, p4, F32)


# ---- sections 3.1, 4.1 and 5.3 ----------------------------------------------------------------------------

OFFSETS = dict(features=lmc_reference.FEATURE_OFFSETS)
COLUMNS_33 = [i * 5 % 7 for i in range(33)]
ROWS_4 = [0, 3, 1, 2]


def constant_high_parts(dtype, rotate, C, step_log2, column_values, n=100):
    """n elements with t = 40 or 4000 each, and rows of 1000 + ROWS_4: what decoders make of them."""
    W = lmc_reference.DTYPE_UNITS[dtype]
    nbits, t = 8 * W, 0x40 << 8 * W - 8
    highs = [(t - (1000 + ROWS_4[i // C] + column_values[i % C] << step_log2)) % (1 << nbits) for i in range(n)]
    return a.numbers([high >> rotate | (high & rotate) << nbits - 1 for high in highs], W)


def matrix(C=33, step_log2=3, column_nbits=3, column_values=COLUMNS_33, dtype=U8, rotate=0, plan_bytes=None,
           rows=None, planes=None, **fields):
    """A frame of four rows or less. plan_bytes, rows and planes stand for the right ones."""
    is_u8 = dtype == U8
    columns = a.columns(C, step_log2, column_nbits, column_values)
    right_plan = plan([None] if is_u8 else [None] * 2, 4 + rotate, 0 if is_u8 else 8, columns_part=columns)
    right_rows = a.rows(2, 1000, ROWS_4[: 99 // C + 1])
    right_planes = b"\1\x40" if is_u8 else b"\1\1\0\x40"
    block = PLANES + (right_rows if rows is None else rows) + (right_planes if planes is None else planes)
    content = constant_high_parts(dtype, rotate, C, step_log2, column_values)
    return coded_frame(plan_bytes or right_plan, [block], content, dtype, **{**OFFSETS, **fields})


def offsets():
    def bad(name, rule, frame):
        add("CORRUPT", "offsets_" + name, rule, frame)

    for good in (matrix(), matrix(dtype=BF16), matrix(step_log2=1, rotate=1), matrix(dtype=BF16, rotate=1)):
        assert len(a.lmc.decode(good)) >= 100
    bad("feature_alone", "the feature OFFSETS, but no columns in the plan", letters(**OFFSETS))
    bad("feature_stored", "the feature OFFSETS in a stored frame", stored_frame(CONTENT, **OFFSETS))
    bad("feature_delta", "the feature OFFSETS in a delta frame", delta_with_feature())
    bad("transform_alone", "columns in the plan, but not the feature", matrix(features=0))
    long_frame = matrix(65524, column_nbits=8, column_values=[0] * 65524)
    assert long_frame[12:16] == (65537).to_bytes(4, "little")
    bad("plan_nbytes_65537", "a plan of more than 65536 bytes", long_frame)
    bad("column_count_0", "column_count 0", matrix(plan_bytes=plan([None], 4, columns_part=a.columns(0, 3))))
    bad("column_count_31", "column_count below 32", matrix(31, column_values=COLUMNS_33[:31]))
    bad("step_8_w1", "step_log2 8 for high parts of 8 bits", matrix(step_log2=8))
    bad("step_255_w1", "step_log2 255 for high parts of 8 bits", matrix(step_log2=255))
    bad("step_16_w2", "step_log2 16 for high parts of 16 bits", matrix(step_log2=16, dtype=BF16))
    bad("step_0_w1_rotate", "step_log2 0, but the lowest bit is the sign", matrix(step_log2=0, rotate=1))
    bad("step_0_w2_rotate", "step_log2 0, but the lowest bit is the sign", matrix(step_log2=0, rotate=1, dtype=BF16))
    bad("column_nbits_9", "column_nbits 9", matrix(column_nbits=9))
    bad("columns_huge", "2^32 - 1 columns of 8 bits in a plan of a few bytes",
        matrix(plan_bytes=plan([None], 4, columns_part=a.columns(2**32 - 1, 3)[:-1] + b"\x08" + bytes(40))))
    columns = a.columns(33, 3, 3, COLUMNS_33)
    spare = columns[:-1] + bytes([columns[-1] | 0x80])
    bad("columns_spare_bits", "spare bits in the plane of columns",
        matrix(plan_bytes=plan([None], 4, columns_part=spare)))
    right = plan([None], 4, columns_part=columns)
    for size in range(6, len(right)):
        bad(f"plan_cut_{size}", "the plan ends within its columns, or behind them", matrix(plan_bytes=right[:size]))
    offsets_of_rows(bad)


def offsets_of_rows(bad):
    for row_nbits in (9, 254):
        bad(f"row_nbits_{row_nbits}", f"row_nbits {row_nbits}", matrix(rows=a.rows(row_nbits, 1000, ROWS_4)))
    rows = a.rows(3, 1000, ROWS_4)
    assert a.lmc.decode(matrix(rows=rows)) == a.lmc.decode(matrix())
    bad("rows_spare_bits", "spare bits in the plane of rows", matrix(rows=rows[:-1] + bytes([rows[-1] | 0x80])))
    for size in range(len(rows)):
        bad(f"rows_cut_{size}", "the block ends within its rows", matrix(rows=rows[:size], planes=b""))
    bad("rows_missing", "planes in the place of the rows", matrix(rows=b""))
    bad("rows_none_long", "row_base follows, but the block has no rows", matrix(rows=b"\xff\0\0"))
    bad("rows_of_masked", "a masked block has rows", masked_with_rows())


def delta_with_feature():
    delta = bytes([0, 0, 0, 1, 0])
    content = b"x" * 100
    head_and_plan = a.head(U8, lmc_reference.MODE_DELTA, 100, len(delta), **OFFSETS) + delta
    index = (1).to_bytes(4, "little") + u64(H(content)) * 2
    return a.checked(head_and_plan, b"\3", index)


def masked_with_rows():
    """Rows where only blocks of mode PLANES have them."""
    plan_bytes = plan([None], 6, mask_value=b"m", columns_part=a.columns(33, 3, 3, COLUMNS_33))
    flags = [i % 3 % 2 for i in range(60)]
    content = bytes(0x78 if flag else 0x6D for flag in flags)
    right = [MASKED + a.bitmap(flags) + b"\1x"]
    assert a.lmc.decode(coded_frame(plan_bytes, right, content, **OFFSETS)) == content
    return coded_frame(plan_bytes, [MASKED + a.bitmap(flags) + a.rows(0) + b"\1x"], content, **OFFSETS)


# ---- section 6.3 ------------------------------------------------------------------------------------------


def coded_planes():
    def bad(name, rule, change, symbols=LETTERS, table=LETTERS_TABLE):
        plane = a.CodedPlane(table, symbols)
        change(plane)
        block = PLANES + b"\2" + plane.data()
        add("CORRUPT", "coded_" + name, rule, letters(plan([table]), [block], bytes(symbols)))

    def longer(layer, j, bit=0):
        def change(plane):
            plane.planes[layer][j].append(bit)
            plane.counts[layer][j - 1] += 1
        return change

    def shorter(layer, j):
        def change(plane):
            plane.planes[layer][j].pop()
            plane.counts[layer][j - 1] -= 1
        return change

    def spare(layer, j):
        def change(plane):
            bits = plane.planes[layer][j]
            assert len(bits) % 8
            bits += [0] * (7 - len(bits) % 8) + [1]
        return change

    def count(layer, i, value):
        def change(plane):
            plane.counts[layer][i] = value
        return change

    bad("spare_bits_full", "spare bits in a plane with a bit for every symbol", spare(0, 0))
    bad("spare_bits_partial", "spare bits in a plane of the longer codes", spare(0, 1))
    bad("spare_bits_last", "spare bits in the last plane", spare(0, 2))
    bad("plane_longer", "a plane has a bit more than there are longer codes", longer(0, 1))
    bad("last_plane_longer", "the last plane has a bit more than there are longer codes", longer(0, 2))
    bad("plane_shorter", "a plane has a bit less than there are longer codes", shorter(0, 1))
    bad("last_plane_shorter", "the last plane has a bit less than there are longer codes", shorter(0, 2))
    n = len(LETTERS)
    bad("count_over_n", "a plane's bits exceed the symbols", count(0, 0, n + 1))
    bad("count_max", "a plane's bits exceed the symbols", count(0, 1, 65535))
    bad("list_over_n", "a list's symbols exceed those of the layer", count(0, 2, n + 1))

    def rest(data, in_list=1):
        def change(plane):
            plane.rest = data
            plane.counts[0][2] = in_list
        return change

    bad("list_longer", "the rest has a symbol more than there are codes of the list", rest(b"zz", 2))
    bad("list_shorter", "the rest has a symbol less than there are codes of the list", rest(b"", 0))
    bad("rest_short", "the block ends before the rest", rest(b""))
    bad("rest_long", "a byte after the rest", rest(b"zz"))

    def no_longer_codes(plane):
        plane.counts[0][0], plane.planes[0][1] = 0, []

    bad("count_0", "a plane has no bits, but there are longer codes", no_longer_codes)

    def cut(plane):
        plane.planes, plane.rest = [[plane.planes[0][0]]], b""

    bad("planes_cut", "the block ends before its planes", cut)

    two = a.table([(1, 2), (2, 3)], {97: (0, 1), 98: (0, 2), 99: (1, 2), 100: (1, 2), 101: (1, 2), 102: (1, 3)})
    symbols = (b"aababacaadbefaz" * 30)[:400]
    plane = a.CodedPlane(two, symbols)
    assert a.lmc.decode(letters(plan([two]), [PLANES + b"\2" + plane.data()], symbols)) == symbols
    in_list = plane.counts[0][1]

    def one_more(plane):
        plane.counts[0][1] += 1
        for bits in plane.planes[1][:2]:
            bits.append(0)

    def two_less(plane):
        plane.counts[0][1] -= 2
        for bits in plane.planes[1][:2]:
            del bits[-2:]

    bad("layer_2_longer", "a second layer has more symbols than the first one's list", one_more, symbols, two)
    bad("layer_2_shorter", "a second layer has fewer symbols than the first one's list", two_less, symbols, two)
    bad("layer_2_count_over", "the bits of a second layer's plane exceed its symbols", count(1, 0, in_list + 1),
        symbols, two)
    bad("layer_2_list_over", "a second layer's list exceeds its symbols", count(1, 1, in_list + 1), symbols, two)

    bad("layer_2_spare_bits", "spare bits in a second layer's plane", spare(1, 0), symbols, two)


# ---- section 5.1 gaps and section 7 -------------------------------------------------------------------------


def flags():
    places = list(range(3, 200, 9))
    content = bytes(ord("x") if i in places else ord("-") for i in range(200))
    flag_list = [int(byte == ord("x")) for byte in content]
    others = b"x" * len(places)
    distances = [3] + [8] * (len(places) - 1)

    def bad(status, name, rule, flags_bytes, mode=b"\0", exceptions=others, plan_bytes=RAW_U8):
        block = PLANES + b"\3" + b"-" + flags_bytes + mode + exceptions
        add(status, "gaps_" + name, rule, coded_frame(plan_bytes, [block], content))

    both = a.table([(1, 1)], {ord("x"): (0, 1), ord("-"): (0, 1)})

    def of(values, member=1, k=2):
        return a.gaps_of(200, values, member, k)

    good = of(distances)
    assert good == a.gaps(flag_list, 1, 2)
    for mode in (7, 8, 255):
        bad("UNSUPPORTED", f"mode_{mode}", f"flags mode {mode}", bytes([mode]) + good[1:])
    spare_content = content + b"-"
    spare = bytearray(a.bitmap(flag_list + [0]))
    spare[-1] |= 0x80
    add("CORRUPT", "gaps_bitmap_spare_bits", "spare bits in a bitmap", coded_frame(
        RAW_U8, [PLANES + b"\3" + b"-" + bytes(spare) + b"\0" + others], spare_content))
    bad("CORRUPT", "m_0", "m = 0", b"\1\0\0", exceptions=b"")
    bad("CORRUPT", "m_0_of_zeros", "m = 0, all flags are set", b"\2\0\0", b"\2", a.coded_plane(both, content),
        plan([both]))
    bad("CORRUPT", "m_over_n", "m > n", a.gaps_of(200, [0] * 201, 1, 0), exceptions=b"")
    bad("CORRUPT", "beyond_by_1", "the last member is at place n", of(distances[:-1] + [200 - places[-2] - 1]))
    bad("CORRUPT", "beyond_far", "a member is far beyond the end", of(distances[:-1] + [255]))
    bad("CORRUPT", "beyond_in_the_middle", "members are beyond the end", of([190] + distances[1:]))
    bad("CORRUPT", "k_16", "k = 16", a.gaps_of(200, distances, 1, 16))
    bad("CORRUPT", "k_255", "k = 255", good[:2] + b"\xff" + good[3:])
    bad("CORRUPT", "none_set", "a gaps plane without exceptions", a.bitmap([0] * 200), exceptions=b"")
    bad("CORRUPT", "none_set_at_all", "a gaps plane without exceptions", b"\3", exceptions=b"")
    bad("CORRUPT", "none_set_of_zeros", "a gaps plane without exceptions", of([0] * 200, 0, 0), exceptions=b"")
    bad("CORRUPT", "exceptions_coded_no_table", "exceptions are coded without a table", good, b"\2")
    for mode in (1, 3):
        bad("CORRUPT", f"exceptions_mode_{mode}", f"exceptions in mode {mode}", good, bytes([mode]), b"x")
    bad("CORRUPT", "exceptions_cut", "an exception is missing", good, exceptions=others[:-1])
    bad("CORRUPT", "exceptions_more", "one exception too many", good, exceptions=others + b"x")
    bad("CORRUPT", "cut", "the block ends within the gaps", good[:4], b"", b"")
    m = len(places)
    plane_nbytes = (m + 7) // 8
    assert m % 8
    low = bytearray(good)
    low[3 + plane_nbytes - 1] |= 0x80
    bad("CORRUPT", "low_spare_bits", "spare bits in a plane of low bits", low)
    level = bytearray(good)
    level[3 + 3 * plane_nbytes - 1] |= 0x80
    bad("CORRUPT", "level_spare_bits", "spare bits in a level", level)


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "vectors")
    for make in (heads, tails, checksums, truncations, plans, tables, blocks, packed_planes, masks, escapes,
                 offsets, coded_planes, flags):
        make()
    for module in (corrupt_delta, corrupt_rans, corrupt_narrow):
        module.make(add)
    corrupt = os.path.join(directory, "corrupt")
    os.makedirs(corrupt, exist_ok=True)
    write(os.path.join(corrupt, "EXPECT.tsv"), expectations.text_of(CASES))
    good = {**handmade.frames(), **handmade_rans.frames(), **handmade_narrow.frames()}
    for name, (frame, content) in good.items():
        write(os.path.join(directory, f"handmade_{name}.lmc"), frame)
        write(os.path.join(directory, f"handmade_{name}.bin"), content)
    deltas = handmade_delta.frames()
    for name, parts in deltas.items():
        for suffix, data in zip((".lmc", ".bin", ".base"), parts):
            write(os.path.join(directory, f"handmade_delta_{name}{suffix}"), data)
    print(f"{len(CASES)} corrupt frames, {len(good) + len(deltas)} good ones")


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


if __name__ == "__main__":
    main()
