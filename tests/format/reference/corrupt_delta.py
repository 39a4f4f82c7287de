"""corrupt_delta.py - delta frames that break one rule of docs/format.md each, for make_corrupt.py: heads and tails,
the base (8.1), the plan (8.2), blocks (8.3), heads of classes (8.4), ladders (8.5) and pairs (7.2)."""

import assemble as a
import assemble_delta as d
import lmc_reference as lmc
from assemble import BF16, F32, U8
from handmade_delta import F16
from assemble_delta import DIFFERENCE, MAGNITUDE, XOR, DeltaPlan, Deltas
from lmc_reference import H

BASE = bytes(i * 7 % 50 for i in range(90))
CONTENT = bytes(b + (i % 9 == 0) for i, b in enumerate(BASE))
PLAN = DeltaPlan(1, DIFFERENCE)
BLOCK = Deltas(PLAN, CONTENT, BASE).data()
WIDE = DeltaPlan(8, MAGNITUDE)  # a few elements are enough for a block not to be too large
F64, U16 = 21, 12


def make(add):
    """Calls add(status, name, rule, frame, base) for every case."""

    def delta(status, name, rule, frame, base=BASE):
        add(status, "delta_" + name, rule, frame, base)

    good = frame()
    assert lmc.decode(good, BASE) == CONTENT
    for function in (heads, tails, bases, plans, blocks, exceptions, low_bytes, class_heads, ladders, pairs):
        function(delta)


def frame(plan=PLAN, blocks=None, content=CONTENT, base=BASE, dtype=U8, **fields):
    plan_bytes = plan if isinstance(plan, bytes) else plan.data()
    if blocks is None:
        blocks = [Deltas(plan, content, base).data() if isinstance(plan, DeltaPlan) else d.SAME]
    return d.delta_frame(plan_bytes, blocks, content, base, dtype, **fields)


# ---- section 2 --------------------------------------------------------------------------------------------


def heads(delta):
    for status, name, rule, fields in [
        ("CORRUPT", "head_block_log2_9", "block_log2 below 10", dict(block_log2=9)),
        ("UNSUPPORTED", "head_feature_0", "a required feature that is reserved", dict(features=1)),
        ("CORRUPT", "head_element_nbytes_2", "element_nbytes is not the dtype's unit", dict(element_nbytes=2)),
        ("UNSUPPORTED", "head_byte_order", "big-endian elements", dict(byte_order=1)),
        ("UNSUPPORTED", "head_reserved", "reserved is not 0", dict(reserved=1)),
        ("CORRUPT", "head_content_2_63", "content_nbytes 2^63", dict(content_nbytes=1 << 63)),
        ("UNSUPPORTED", "head_base_form_4", "a form of the base that nobody knows", dict(base_form=4)),
        ("UNSUPPORTED", "head_base_form_255", "a form of the base that nobody knows", dict(base_form=255)),
    ]:
        delta(status, name, rule, frame(**fields))
    delta("CORRUPT", "head_plan_nbytes_0", "a delta frame without a plan", frame(b""))
    delta("CORRUPT", "head_plan_nbytes_4097", "a plan of more than 4096 bytes", frame(PLAN.data() + bytes(4092)))
    empty = a.checked(a.head(U8, lmc.MODE_DELTA, 0, 5) + PLAN.data(), b"", b"")
    delta("CORRUPT", "head_content_0", "a delta frame without content", empty, b"")


def tails(delta):
    content = b"x" * 1024 + b"y" * 100
    same = dict(content=content, base=content)
    two = [d.SAME, d.STORED + b"y" * 100]
    for status, name, rule, frame_bytes in [
        ("CORRUPT", "index_size_0", "stored_nbytes 0", frame(blocks=[b"", d.SAME + d.SAME], sizes=[0, 2], **same)),
        ("CORRUPT", "index_size_over", "stored_nbytes is more than the content + 1",
         frame(blocks=[d.SAME, two[1] + b"y"], **same)),
        ("CORRUPT", "index_sum_less", "the block sizes are less than there is",
         frame(blocks=two, sizes=[1, 100], **same)),
        ("CORRUPT", "index_sum_more", "the block sizes are more than there is",
         frame(blocks=two, sizes=[2, 101], **same)),
        ("CORRUPT", "index_shifted", "the block sizes cut at the wrong places",
         frame(blocks=two, sizes=[2, 100], **same)),
        ("CHECKSUM", "content_hash", "the index has another hash for a block",
         frame(blocks=two, hashes=[H(content[:1024]), H(content)], **same)),
        ("CHECKSUM", "content_of_block", "a byte of a stored block has changed",
         frame(blocks=[d.SAME, d.STORED + b"y" * 99 + b"z"], **same)),
    ]:
        delta(status, name, rule, frame_bytes, content)
    good = frame()
    for name, place in [("row_nbytes", 24), ("base_form", 30), ("plan", 33), ("index_size", -28), ("index_hash", -20),
                        ("index_base_hash", -10), ("itself", -1)]:
        changed = bytearray(good)
        changed[place] ^= 1
        status = "CORRUPT" if name == "base_form" else "CHECKSUM"
        rule = "the check is not the frame's" if status == "CHECKSUM" else "base form 1, but the dtype is not BF16"
        delta(status, "check_" + name, rule, changed)
    least = 32 + len(PLAN.data()) + 1 + 20 + 8
    for size in (31, 32, 40, least - 1):
        delta("TRUNCATED", f"cut_{size}", f"the first {size} of {len(good)} bytes", good[:size])
    for size in (least, len(good) - 1):
        delta("CHECKSUM", f"cut_{size}", "a part is missing, so the check is not where it was", good[:size])
    delta("CHECKSUM", "long", "a byte after the frame, so the check is not where it was", good + b"\0")


# ---- section 8.1 ------------------------------------------------------------------------------------------


def bases(delta):
    floats = a.numbers([0x3F800000 + i for i in range(60)], 4)
    values = d.rounded(floats)
    plan = DeltaPlan(2, MAGNITUDE)

    def bf16(**fields):
        return frame(plan, [d.SAME], values, floats, **{**dict(dtype=BF16, base_form=1), **fields})

    assert lmc.decode(bf16(), floats) == values
    delta("CORRUPT", "base_bf16_of_f32_f16", "base form 1, but the dtype is F16", bf16(dtype=13), floats)
    delta("CORRUPT", "base_bf16_of_f32_f32", "base form 1, but the dtype is F32", bf16(dtype=F32), floats)
    delta("CORRUPT", "base_bf16_of_f32_odd", "base form 1, but half an element",
          bf16(content_nbytes=len(values) - 1), floats)
    delta("CORRUPT", "base_bf16_of_f32_2_62", "base form 1, but 2^62 bytes of content",
          bf16(content_nbytes=1 << 62), floats)
    halves = {2: d.rounded_to_f16(floats, 4), 3: d.rounded_to_f16(values, 2)}
    for form, base in ((2, floats), (3, values)):
        def f16(**fields):
            return frame(plan, [d.SAME], halves[form], base, **{**dict(dtype=F16, base_form=form), **fields})

        assert lmc.decode(f16(), base) == halves[form]
        delta("CORRUPT", f"base_f16_{form}_bf16", f"base form {form}, but the dtype is BF16", f16(dtype=BF16), base)
        delta("CORRUPT", f"base_f16_{form}_odd", f"base form {form}, but half an element",
              f16(content_nbytes=len(values) - 1), base)
        delta("BASE", f"base_f16_{form}_other", f"base form {form}, and a base that rounds to other values", f16(),
              base[:-1] + b"\x7f")
    delta("CORRUPT", "base_f16_2_2_62", "base form 2, but 2^62 bytes of content",
          frame(plan, [d.SAME], halves[2], floats, dtype=F16, base_form=2, content_nbytes=1 << 62), floats)
    delta("BASE", "base_bf16_of_f32_missing", "the base is missing", bf16(), None)
    other = bytes([floats[0] ^ 1]) + floats[1:]
    assert d.rounded(other) == values
    delta("BASE", "base_bf16_of_f32_other", "another base that rounds to the same values", bf16(), other)
    hashes = [H(values)]
    delta("BASE", "base_bf16_of_f32_hash", "the base's hash is that of its rounded values",
          bf16(base_hashes=hashes), floats)

    delta("BASE", "base_missing", "the base is missing", frame(), None)
    delta("BASE", "base_bit", "a bit of the base is another one", frame(), BASE[:-1] + bytes([BASE[-1] ^ 0x80]))
    delta("BASE", "base_hash", "the index has another hash for the base", frame(base_hashes=[H(BASE) ^ 1]))
    delta("BASE", "base_missing_same", "the base is missing, and the block is the same",
          frame(blocks=[d.SAME], content=BASE), None)
    stored = frame(blocks=[d.STORED + CONTENT])
    delta("BASE", "base_missing_stored", "the base is missing, though the block is stored", stored, None)
    delta("BASE", "base_other_stored", "another base, though the block is stored", stored, CONTENT)
    delta("BASE", "base_other_bad_block", "another base comes before all faults of a block",
          frame(blocks=[b"\x09"]), CONTENT)
    classes = DeltaPlan(1, DIFFERENCE, 0, 0, [10], [0, 5])
    delta("BASE", "base_other_classes", "another base, with which the block would be too short",
          frame(classes), bytes([99] * 90))
    long = bytes(1024) + b"a" * 10
    hashes = [H(bytes(1024)), H(b"b" * 10)]
    delta("BASE", "base_second_block", "the second block has another base",
          frame(blocks=[d.SAME, d.SAME], content=long, base=long, base_hashes=hashes), long)


# ---- section 8.2 ------------------------------------------------------------------------------------------


def plans(delta):
    def bad(status, name, rule, plan, W=1):
        dtype = {1: U8, 2: BF16, 4: F32, 8: 20}[W]
        delta(status, "plan_" + name, rule, frame(bytes(plan), [d.SAME], BASE, BASE, dtype))

    for transform in (3, 4, 255):
        bad("UNSUPPORTED", f"transform_{transform}", f"transform {transform}", [transform, 0, 0, 1, 0])
    for W in (1, 2, 4, 8):
        bad("CORRUPT", f"low_nbytes_{W}", "low_nbytes is W", [0, W, 0, 1, 0], W)
        bad("CORRUPT", f"key_shift_{W}", "key_shift is 8 W", [1, 0, 8 * W, 1, 0], W)
    bad("CORRUPT", "low_nbytes_255", "low_nbytes 255", [0, 255, 0, 1, 0], 4)
    bad("CORRUPT", "key_shift_255", "key_shift 255", [0, 0, 255, 1, 0], 8)
    bad("CORRUPT", "class_count_0", "no classes", [0, 0, 0, 0])
    bad("CORRUPT", "class_count_17", "17 classes", [0, 0, 0, 17] + list(range(1, 17)) + [0] * 17)
    bad("CORRUPT", "first_key_0", "class 1 begins with key 0", [0, 0, 0, 2, 0, 0, 0])
    bad("CORRUPT", "first_keys_equal", "two classes begin with the same key", [0, 0, 0, 3, 9, 9, 0, 0, 0])
    bad("CORRUPT", "first_keys_fall", "the first keys fall", [0, 0, 0, 4, 1, 9, 8, 0, 0, 0, 0])
    bad("CORRUPT", "low_nbits_9", "9 low bits", [0, 0, 0, 1, 9])
    bad("CORRUPT", "low_nbits_9_last", "9 low bits in the last class", [0, 0, 0, 2, 7, 8, 9])
    bad("CORRUPT", "low_nbits_255", "255 low bits", [0, 0, 0, 2, 7, 255, 0])
    whole = [0, 0, 7, 3, 1, 2, 0, 0, 0]
    bad("CORRUPT", "byte_after", "a byte after the plan's end", whole + [0])
    for size in range(1, len(whole)):
        bad("CORRUPT", f"cut_{size}", "the plan ends early", whole[:size])


# ---- section 8.3 ------------------------------------------------------------------------------------------


def blocks(delta):
    def bad(status, name, rule, block, **fields):
        delta(status, "block_" + name, rule, frame(blocks=[block], **fields))

    for mode in (1, 2, 5, 6, 255):
        bad("UNSUPPORTED", f"mode_{mode}", f"block mode {mode} in a delta frame", bytes([mode]) + BLOCK[1:])
    for mode in (3, 4):
        content = b"\0" * len(BASE)
        delta("UNSUPPORTED", f"block_mode_{mode}_coded", f"block mode {mode} in a coded frame",
              a.coded_frame(a.plan([None]), [bytes([mode])], content), content)
    bad("CORRUPT", "byte_after", "a byte after the block's end", BLOCK + b"\0")
    bad("CORRUPT", "cut", "the block ends early", BLOCK[:-1])
    bad("CORRUPT", "mode_only", "the block ends after its mode", d.DELTA)
    bad("CORRUPT", "same_byte_after", "a byte after a block that is the same", d.SAME + b"\0", content=BASE)
    bad("CORRUPT", "stored_short", "a stored block has a byte too few", d.STORED + CONTENT[:-1])
    base = bytes(range(205))
    plan = DeltaPlan(2, DIFFERENCE)
    whole = Deltas(plan, base, base).data()
    for name, rule, block in [("tail_missing", "the tail bytes are missing", whole[:-1]),
                              ("tail_long", "one tail byte too many", whole + b"z")]:
        delta("CORRUPT", "block_" + name, rule, frame(plan, [block], base, base, BF16), base)
    long = bytes(2048) + b"x"
    delta("CORRUPT", "block_without_elements", "a block without elements has mode DELTA",
          frame(plan, [d.SAME, d.DELTA + b"x"], long, long, BF16), long)


def exceptions(delta):
    base, content = bytes(100), bytes(50) + b"abc" + bytes(47)
    rest = Deltas(PLAN, base, base).data()[2:]

    def bad(name, rule, places, values=None, count=None):
        count = len(places) if count is None else count
        values = content[50:53][: len(places)] if values is None else values
        block = d.DELTA + bytes([count]) + bytes(places) + values + rest
        delta("CORRUPT", "exceptions_" + name, rule, frame(PLAN, [block], content, base), base)

    good = d.DELTA + bytes([3, 50, 51, 52]) + b"abc" + rest
    assert lmc.decode(frame(PLAN, [good], content, base), base) == content
    bad("equal", "two exceptions at a place", [50, 51, 51, 52], b"abbc")
    bad("fall", "the places of exceptions fall", [51, 50, 52], b"bac")
    bad("at_n", "an exception at place n", [50, 51, 52, 100], b"abcd")
    bad("at_255", "an exception far beyond the end", [50, 51, 52, 255], b"abcd")
    bad("more", "one exception more than there are places", [50, 51, 52], count=4)
    few = bytes(3)
    block = d.DELTA + bytes([4])
    delta("CORRUPT", "exceptions_over_n", "more exceptions than elements", frame(PLAN, [block], few, few), few)
    wide = frame(PLAN, [d.DELTA + b"\xff\xff\xff"], bytes(300), bytes(300))
    delta("CORRUPT", "exceptions_65535", "more exceptions than elements", wide, bytes(300))


def low_bytes(delta):
    base = bytes(200)
    plan = DeltaPlan(2, DIFFERENCE, 1)
    deltas = Deltas(plan, base, base)
    flags = [1] + [0] * 99

    def bad(status, name, rule, plane):
        deltas.low_plane = lambda j, data: plane
        delta(status, "low_" + name, rule, frame(plan, [deltas.data()], base, base, BF16), base)

    deltas.low_plane = lambda j, data: b"\3\7" + d.ALL + b"\0" + bytes(100)
    assert lmc.decode(frame(plan, [deltas.data()], base, base, BF16), base) == base
    bad("CORRUPT", "coded", "a coded plane of low bytes", b"\2" + bytes(100))
    for mode in (4, 7, 255):
        bad("UNSUPPORTED", f"mode_{mode}", f"plane mode {mode} of low bytes", bytes([mode]) + bytes(100))
    bad("CORRUPT", "exceptions_coded", "exceptions of low bytes are coded", b"\3\0" + a.bitmap(flags) + b"\2\0")
    bad("CORRUPT", "gaps_none", "a gaps plane without exceptions", b"\3\0" + d.NONE + b"\0")
    bad("CORRUPT", "gaps_bits_none", "a gaps plane without exceptions", b"\3\0" + a.bitmap([0] * 100) + b"\0")
    bad("CORRUPT", "missing", "the plane of low bytes is missing", b"")


# ---- sections 8.4 and 8.5 ---------------------------------------------------------------------------------


def class_heads(delta):
    base = bytes(2 * 64)
    for k in range(8):
        plan = DeltaPlan(2, XOR, low_nbits=[k])
        values = a.numbers([0xFFFF] + [i % 2 << k for i in range(63)], 2)
        block = Deltas(plan, values, base).data()
        assert lmc.decode(frame(plan, [block], values, base, BF16), base) == values
        if k > 0:
            wide = block[:-2] + (1 << 16 - k).to_bytes(2, "little")
            delta("CORRUPT", f"escape_wide_{k}", f"an escape is not less than 2^(16 - {k})",
                  frame(plan, [wide], values, base, BF16), base)
        if k in (0, 7):
            for name, rule, bad in [("missing", "an escape is missing", block[:-2]),
                                    ("cut", "half of an escape is missing", block[:-1]),
                                    ("more", "one escape too many", block + b"\0\0")]:
                delta("CORRUPT", f"escape_{name}_{k}", rule, frame(plan, [bad], values, base, BF16), base)
    base = bytes(4 * 30)
    plan = DeltaPlan(4, XOR, low_nbits=[8])
    content = a.numbers([0xFFFF] * 2 + [0] * 28, 4)
    block = Deltas(plan, content, base).data()
    delta("CORRUPT", "escape_8", "an escape where there are none",
          frame(plan, [block + b"\0\0"], content, base, F32), base)
    base = bytes(4 * 5)
    plan = DeltaPlan(4, DIFFERENCE, low_nbits=[3])
    block = Deltas(plan, base, base).data()
    spare = block[:3] + bytes([block[3] | 0x80]) + block[4:]
    delta("CORRUPT", "low_bits_spare", "spare bits in the low bits of a class",
          frame(plan, [spare], base, base, F32), base)
    base = bytes(8 * 9)
    flips = Deltas(WIDE, base, base)
    for name, status, rule, flags in [("mode_7", "UNSUPPORTED", "flips in flags mode 7", b"\7"),
                                      ("spare", "CORRUPT", "spare bits in the flips", b"\0\0\2"),
                                      ("missing", "CORRUPT", "the flips are missing", b"")]:
        flips.flips_as = lambda _, flags=flags: flags
        delta(status, "flips_" + name, rule, frame(WIDE, [flips.data()], base, base, F64), base)


def ladders(delta):
    plan = DeltaPlan(2, DIFFERENCE)

    def bad(name, rule, symbols, change, status="CORRUPT"):
        base = bytes(2 * len(symbols))
        content = a.numbers([d.unzigzag(symbol) % 65536 for symbol in symbols], 2)
        deltas = Deltas(plan, content, base)
        assert lmc.decode(frame(plan, [deltas.data()], content, base, U16), base) == content
        ladder = change(deltas.data()[2:])
        delta(status, "ladder_" + name, rule, frame(plan, [d.DELTA + b"\0" + ladder], content, base, U16), base)

    twelve = [1, 2, 1, 2, 1] + [0] * 7  # flags, a plane of no rung, the rest
    bad("rest_missing", "a symbol of the rest is missing", twelve, lambda ladder: ladder[:-1])
    bad("rest_more", "one symbol too many in the rest", twelve, lambda ladder: ladder + b"\1")
    bad("spare_bits_flags", "spare bits in the flags of a rung", twelve,
        lambda ladder: ladder[:2] + bytes([ladder[2] | 0x80]) + ladder[3:])
    ones = [1, 2] * 5 + [9]
    bad("spare_bits_plane", "spare bits in a bit plane of a rung", ones,
        lambda ladder: ladder[:7] + bytes([ladder[7] | 0x80]) + ladder[8:])
    bad("plane_missing", "the block ends before the bit plane of a rung", ones, lambda ladder: ladder[:6])
    bad("mode_7", "a rung in flags mode 7", ones, lambda ladder: b"\7" + ladder[1:], "UNSUPPORTED")
    bad("rung_for_7", "a rung for 7 symbols", [0] * 7, lambda ladder: d.NONE)
    bad("no_rung_for_8", "no rung for 8 symbols", [0] * 8, lambda ladder: bytes(8))
    top = [31 + i for i in range(9)] + [0] * 20
    bad("tenth_rung", "a rung after the last one", top, lambda ladder: ladder + d.NONE)


# ---- section 7.2 ------------------------------------------------------------------------------------------


def pairs(delta):
    def bad(name, rule, n, flags, status="CORRUPT"):
        base = bytes(8 * n)
        deltas = Deltas(WIDE, base, base)
        deltas.flips_as = lambda _: flags
        delta(status, "pairs_" + name, rule, frame(WIDE, [deltas.data()], base, base, F64), base)

    for mode, ones in [(b"\5", "ones"), (b"\6", "zeros")]:
        bad(f"{ones}_n_1", "a pair of one flag", 1, mode + d.ALL + d.ALL)
        bad(f"{ones}_n_1_single", "a pair of one flag", 1, mode + d.ALL + d.NONE + b"\0")
        bad(f"{ones}_none", "no pair has a member", 20, mode + d.NONE)
        bad(f"{ones}_none_bitmap", "no pair has a member", 20, mode + a.bitmap([0] * 10))
        bad(f"{ones}_none_at_all", "no pair has a member", 20, mode + d.NONE + d.NONE)
        bad(f"{ones}_both_at_n", "the last pair has both members, but n is odd", 5, mode + d.ALL + d.ALL)
        bad(f"{ones}_second_at_n", "the last pair has the second member, but n is odd", 5,
            mode + d.ALL + d.NONE + b"\4")
        bad(f"{ones}_spare_bits", "spare bits in the plane of the second ones", 6, mode + d.ALL + d.NONE + b"\x0f")
        bad(f"{ones}_spare_bits_pairs", "spare bits in the flags of the pairs", 6, mode + b"\0\x0f" + d.ALL)
        bad(f"{ones}_spare_bits_both", "spare bits in the flags of both", 6, mode + d.ALL + b"\0\x0f")
        bad(f"{ones}_mode_7_pairs", "flags mode 7 within pairs", 6, mode + b"\7", "UNSUPPORTED")
        bad(f"{ones}_mode_7_both", "flags mode 7 within pairs", 6, mode + d.ALL + b"\7", "UNSUPPORTED")
        bad(f"{ones}_inner_n_1", "within, a pair of one flag", 2, mode + b"\5" + d.ALL + d.ALL + d.ALL)
        bad(f"{ones}_inner_both_at_n", "within, a member at place n", 6, mode + b"\5" + d.ALL + d.ALL + d.ALL)
        bad(f"{ones}_inner_none", "within, no pair has a member", 20, mode + b"\6" + d.NONE)
        bad(f"{ones}_inner_gaps", "within, a gap goes beyond the end", 20, mode + b"\1\1\0\x0a" + d.ALL)
        bad(f"{ones}_cut", "the block ends within the pairs", 100, mode + d.ALL)
