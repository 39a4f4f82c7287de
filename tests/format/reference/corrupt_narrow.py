"""corrupt_narrow.py - frames that each break one rule of docs/format.md for narrow elements: sections 2.1, 3.2, 5 and
5.4. make_corrupt.py writes them."""

import assemble as a
import assemble_delta as d
import assemble_narrow as w
import lmc_reference
from assemble import BF16, F32, I64, U8
from handmade import MASKED, PLANES, STORED
from handmade_narrow import F16, F64, LIST_16, narrow_frame, raw_plan, stored_planes

N = 200  # elements of a frame
YS = [i * 5 % 9 for i in range(N)]
GROUPS = w.Groups(50, 20)  # three groups in a row, the last one of 10 elements; the frame has 12
FLAGS = [1, 1, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0]
SCALES = [0x3F800000, 0x3F810000, 0x40000000, 0x3C230000, 0x3E000000]
PALETTES = [[9, 8, 7], [70000], [1, 2], [5, 4, 3, 2, 1], [6]]
EXCEPTIONS = {3: 0x1234, 77: 0x5678}
INNER = stored_planes(YS, 1)
FIELDS = w.fields(w.PRODUCT, w.PRODUCT_BF16, w.I8, (), 50, 20)
PALETTE_FIELDS = w.fields(w.PALETTE, row_length=50, group_length=20)


def product_frame(groups=None, exceptions=None, inner=INNER, trailing=b"", fields=FIELDS, plan=raw_plan(1),
                  flags=FLAGS, scales=SCALES, write=w.stored_plane, content_scales=None, block=None, features=0,
                  content_trailing=b"", **others):
    """A frame of BF16 products. What is given stands for the right part."""
    of_group = GROUPS.all_of([1] * 3 + FLAGS[3:], content_scales or SCALES)
    xs = [w.product(of_group[g], y, w.PRODUCT_BF16) for g, y in zip(GROUPS.of_block(0, N), YS)]
    content = a.numbers([EXCEPTIONS.get(i, x) for i, x in enumerate(xs)], 2) + content_trailing
    groups = w.scales_part(flags, scales, write) if groups is None else groups
    exceptions = w.exceptions_part(N, EXCEPTIONS, 2) if exceptions is None else exceptions
    block = w.block(groups, exceptions, inner, trailing) if block is None else block
    return narrow_frame(fields, plan, [block], content, BF16, features, **others)


def palette_frame(groups=None, inner=STORED + bytes(YS), flags=FLAGS, palettes=PALETTES, write=w.stored_plane, W=4,
                  fields=PALETTE_FIELDS):
    of_group = GROUPS.all_of(FLAGS, PALETTES)
    picked = [(of_group[g], y) for g, y in zip(GROUPS.of_block(0, N), YS)]
    content = a.numbers([palette[y] if y < len(palette) else 0 for palette, y in picked], W)
    groups = w.palettes_part(flags, palettes, W, write) if groups is None else groups
    dtype = {4: F32, 8: I64}[W]
    return narrow_frame(fields, raw_plan(1), [w.block(groups, w.NONE, inner)], content, dtype)


def plain_frame(form=w.BF16_IN_F32, dtype=F32, plan=None, inner=None, fields=None, before=b""):
    """BF16 in F32, the same element everywhere."""
    content = b"\0\0\x80\x3f" * N
    inner = PLANES + b"\1\1" + b"\x80\x3f" if inner is None else inner
    fields = w.fields(form) if fields is None else fields
    block = w.block(before, w.NONE, inner)
    return narrow_frame(fields, plan or raw_plan(2), [block], content, dtype)


def make(add):
    def bad(name, rule, frame, status="CORRUPT", base=None):
        add(status, "narrow_" + name, rule, frame, base)

    for good in (product_frame(), palette_frame(), palette_frame(W=8), plain_frame(),
                 product_frame(trailing=b"!", content_trailing=b"!")):
        assert len(lmc_reference.decode(good)) >= 2 * N
    features(bad)
    forms(bad)
    products(bad)
    lengths(bad)
    plans(bad)
    modes(bad)
    inner_blocks(bad)
    groups(bad)
    scales(bad)
    palettes(bad)
    exceptions(bad)
    cuts(bad)


# ---- section 2.1


def features(bad):
    content = b"x" * 100
    narrow = dict(features=w.NARROW_FEATURE)
    bad("feature_stored", "the feature NARROW in a stored frame", a.stored_frame(content, BF16, **narrow))
    delta = bytes([0, 0, 0, 1, 0])
    bad("feature_delta", "the feature NARROW in a delta frame",
        d.delta_frame(delta, [d.SAME], content, content, BF16, **narrow))
    bad("plan_4097", "a plan of more than 4096 bytes", product_frame(plan=raw_plan(1) + bytes(4096)))


# ---- section 3.2


def forms(bad):
    for form in (5, 6, 255):
        bad(f"form_{form}", f"narrow form {form}", plain_frame(fields=bytes([form])), "UNSUPPORTED")
    of = {w.F16_IN_F32: (1, 2, 8), w.BF16_IN_F32: (1, 2, 8), w.F32_IN_F64: (1, 2, 4), w.PRODUCT: (1, 8)}
    of[w.PALETTE] = (1,)
    dtypes = {1: U8, 2: F16, 4: F32, 8: F64}
    content = b"x" * 800
    for form, Ws in of.items():
        for W in Ws:
            plan = raw_plan([2, 2, 4, 1, 1][form])
            frame = narrow_frame(w.fields(form), plan, [STORED + content], content, dtypes[W])
            bad(f"form_{form}_w{W}", f"narrow form {form}, but W = {W}", frame)


def products(bad):
    content = b"x" * 800

    def fields(status, name, rule, data, dtype=F32):
        bad(name, rule, narrow_frame(data, raw_plan(1), [STORED + content], content, dtype), status)

    for number in (3, 255):
        fields("UNSUPPORTED", f"product_type_{number}", f"product type {number}", w.fields(w.PRODUCT, number))
    for number in (5, 255):
        fields("UNSUPPORTED", f"factor_kind_{number}", f"factor kind {number}", w.fields(w.PRODUCT, 0, number))
    for number, dtype, W in [(w.PRODUCT_F32, BF16, 2), (w.PRODUCT_F16, F32, 4), (w.PRODUCT_BF16, F32, 4)]:
        fields("CORRUPT", f"product_type_{number}_w{W}", f"product type {number} for elements of {W} bytes",
               w.fields(w.PRODUCT, number), dtype)
    for name, bits in [("denormal", 1), ("denormal_negative", 0x807FFFFF), ("exponent_106", 0x357FFFFF),
                       ("exponent_106_negative", 0xB5000000), ("exponent_148", 0x4A000000), ("infinity", 0x7F800000),
                       ("exponent_1", 0x00800000), ("exponent_148_negative", 0xCA000001), ("nan", 0xFFC00000)]:
        for place, factors in [("first", [bits] + LIST_16), ("last", LIST_16 + [bits])]:
            fields("CORRUPT", f"factor_{name}_{place}", f"a factor of the list is {bits:08x}",
                   w.fields(w.PRODUCT, w.PRODUCT_F32, w.LIST, factors))


def lengths(bad):
    for form in (w.PRODUCT, w.PALETTE):
        for row, group, rule in [(0, 16, "row_length 0"), (15, 15, "row_length 15"), (15, 16, "row_length 15"),
                                 (50, 0, "group_length 0"), (50, 15, "group_length 15"),
                                 (50, 51, "group_length is more than row_length"),
                                 (50, 2**32 - 1, "group_length is more than row_length")]:
            data = w.fields(form, w.PRODUCT_BF16, row_length=row, group_length=group)
            frame = narrow_frame(data, raw_plan(1), [STORED + b"x" * 400], b"x" * 400, BF16)
            bad(f"lengths_{form}_{row}_{group}", rule, frame)


def plans(bad):
    """The fields after the narrow ones, and where they end."""
    list_fields = w.fields(w.PRODUCT, w.PRODUCT_BF16, w.LIST, LIST_16[:3], 50, 20)
    for name, whole in [("product", FIELDS + raw_plan(1)), ("list", list_fields + raw_plan(1)),
                        ("palette", PALETTE_FIELDS + raw_plan(1)), ("plain", w.fields(w.BF16_IN_F32) + raw_plan(2))]:
        dtype = F32 if name == "plain" else BF16
        for size in range(3 if name == "list" else 1, len(whole)):
            bad(f"plan_{name}_cut_{size}", "the plan ends early",
                narrow_frame(whole[:size], b"", [STORED + b"x" * 400], b"x" * 400, dtype))
        bad(f"plan_{name}_long", "a byte after the plan's end",
            narrow_frame(whole, b"\0", [STORED + b"x" * 400], b"x" * 400, dtype))
    bad("low_nbits_8_w1", "low_nbits above 4, though narrow elements have a byte",
        product_frame(plan=a.plan([None] * 2, p=8)))
    bad("low_nbits_0_w2", "low_nbits 0, though narrow elements have two bytes", plain_frame(plan=a.plan([None])))
    bad("offset_256_w1", "offset 2^8, though narrow elements have a byte",
        product_frame(plan=a.plan([None], offset=256)))
    bad("base_256_w1", "window_start 2^8, though narrow elements have a byte",
        product_frame(plan=a.plan([None], base=256)))
    bad("mask_of_w", "a mask value as wide as the content's elements",
        plain_frame(plan=raw_plan(2, transform=2, mask_value=bytes(4))))
    bad("planes_of_w", "the plan has a plane for each byte of the content's elements", plain_frame(plan=raw_plan(4)))


# ---- section 5


def modes(bad):
    wide = a.numbers([0] * N, 2)
    right = w.block(w.scales_part(FLAGS, SCALES), w.NONE, INNER)
    whole = w.block(w.scales_part(FLAGS, SCALES), w.exceptions_part(N, EXCEPTIONS, 2), INNER)
    bad("mode_1", "a block of planes among narrow ones", product_frame(block=PLANES + INNER[1:]))
    bad("mode_1_constant", "a block of planes among narrow ones",
        narrow_frame(FIELDS, raw_plan(1), [PLANES + b"\1\0"], wide, BF16))
    for mode in (1, 2):
        bad(f"mode_{mode}_of_narrow", f"the parts of a narrow block, in a block of mode {mode}",
            product_frame(block=bytes([mode]) + whole[1:]))
    masked = raw_plan(1, transform=2, mask_value=b"\0")
    bad("mode_2", "a masked block among narrow ones",
        narrow_frame(FIELDS, masked, [MASKED + w.ALL + b"\1\0"], wide, BF16))
    for mode in (3, 4, 6, 255):
        block = bytes([mode]) + right[1:]
        bad(f"mode_{mode}", f"block mode {mode}", product_frame(block=block), "UNSUPPORTED")
    bad("mode_5_without_feature", "a narrow block in a frame without narrow fields",
        a.coded_frame(raw_plan(2), [right], wide, BF16), "UNSUPPORTED")
    delta = bytes([0, 0, 0, 1, 0])
    bad("mode_5_delta", "a narrow block in a delta frame", d.delta_frame(delta, [b"\5" + bytes(9)], wide, wide, BF16),
        "UNSUPPORTED", wide)
    content = a.numbers([0] * 1024, 4) + b"xyz"
    full = w.block(b"", w.NONE, PLANES + b"\1\1\0\0")
    for name, mode in [("narrow", b"\5"), ("planes", PLANES), ("masked", MASKED)]:
        bad(f"without_elements_{name}", f"a block without elements is in mode {name}",
            narrow_frame(w.fields(w.BF16_IN_F32), raw_plan(2), [full, mode + b"xyz"], content, F32))


def inner_blocks(bad):
    for mode in (3, 4, 5, 6, 255):
        bad(f"inner_mode_{mode}", f"narrow elements in mode {mode}", product_frame(inner=bytes([mode]) + INNER[1:]),
            "UNSUPPORTED")
    nested = w.block(w.scales_part(FLAGS, SCALES), w.NONE, INNER)
    bad("inner_nested", "a narrow block in a narrow block", product_frame(inner=nested), "UNSUPPORTED")
    stored = STORED + bytes(YS)
    assert lmc_reference.decode(product_frame(inner=stored)) == lmc_reference.decode(product_frame())
    bad("inner_stored_short", "a narrow element is missing", product_frame(inner=stored[:-1]))
    bad("inner_stored_long", "a narrow element too many", product_frame(inner=stored + b"\0"))
    bad("inner_planes_short", "a narrow element is missing", product_frame(inner=INNER[:-1]))
    bad("inner_planes_long", "a narrow element too many", product_frame(inner=INNER + b"\0"))
    bad("inner_stored_wide", "narrow elements as wide as those of the content",
        plain_frame(inner=STORED + b"\0\0\x80\x3f" * (N - 20)))
    flags = [int(y != 4) for y in YS]
    kept = bytes(y for y in YS if y != 4)
    masked = MASKED + a.bitmap(flags) + b"\0" + kept
    plan = raw_plan(1, transform=2, mask_value=b"\4")
    assert lmc_reference.decode(product_frame(inner=masked, plan=plan)) == lmc_reference.decode(product_frame())
    bad("inner_masked_no_value", "masked narrow elements, but no mask value", product_frame(inner=masked))
    bad("inner_masked_none", "no flag is set in a masked block of narrow elements",
        product_frame(inner=MASKED + w.NONE + b"\1\4", plan=plan))
    bad("trailing_missing", "the trailing byte is missing", product_frame(content_trailing=b"!"))
    bad("trailing_long", "one trailing byte too many", product_frame(content_trailing=b"!", trailing=b"!!"))
    bad("trailing_none", "a byte after the block's end", product_frame(trailing=b"!"))
    bad("trailing_inner", "the trailing byte is counted as a narrow element, too",
        product_frame(content_trailing=b"!", trailing=b"!", inner=stored + b"!"))


# ---- section 5.4


def with_flags(flags):
    """The frame with other flags; the scales stay those of its groups."""
    of_group = GROUPS.all_of(FLAGS, SCALES)
    return product_frame(flags=flags, scales=[scale for scale, flag in zip(of_group, flags) if flag])


def groups(bad):
    assert with_flags([1] * 12)
    for place in range(3):
        flags = FLAGS[:]
        flags[place] = 0
        bad(f"groups_not_new_{place}", f"group {place} is not new, but a row has 3", with_flags(flags))
        bad(f"groups_palette_not_new_{place}", f"group {place} is not new, but a row has 3",
            palette_frame(flags=flags, palettes=PALETTES[:place] + PALETTES[place + 1 :]))
    bad("groups_none_new", "no group is new", product_frame(groups=w.NONE))
    bad("groups_palette_none_new", "no group is new", palette_frame(groups=w.NONE))
    xs = a.numbers([w.product(0x3F800000, 3, w.PRODUCT_BF16)] * 1024, 2)
    huge = w.fields(w.PRODUCT, w.PRODUCT_BF16, w.I8, (), 2**32 - 1, 512)

    def two(flags, count):
        part = w.scales_part(flags, [0x3F800000] * count)
        return narrow_frame(huge, raw_plan(1), [w.block(part, w.NONE, PLANES + b"\1\3")], xs, BF16)

    assert lmc_reference.decode(two([1, 1], 2)) == xs
    bad("groups_last_not_new", "a group is not new, in a block of fewer groups than a row has", two([1, 0], 1))
    second = narrow_frame(w.fields(w.PRODUCT, w.PRODUCT_BF16, w.I8, (), 512, 512), raw_plan(1),
                          [w.block(w.scales_part(flags, [0x3F800000] * count), w.NONE, PLANES + b"\1\3")
                           for flags, count in (([1, 1], 2), ([0, 1], 1))], xs * 2, BF16)
    bad("groups_of_block_before", "the first group of a second block is not new", second)
    for mode in (7, 255):
        bad(f"groups_flags_mode_{mode}", f"flags mode {mode}", product_frame(groups=bytes([mode]) + bytes(20)),
            "UNSUPPORTED")
    right = w.scales_part(FLAGS, SCALES)
    bad("groups_spare_bits", "spare bits in the flags of groups",
        product_frame(groups=right[:2] + bytes([right[2] | 0x80]) + right[3:]))
    bad("groups_missing", "no groups in a frame of products", product_frame(groups=b""))
    bad("groups_in_plain", "groups in a frame without scales",
        plain_frame(before=w.scales_part([1] * 8, [0x3F800000] * 8)))


def group_planes(bad, kind, frame, count):
    """The rules of their planes; `frame(j, plane)` has this plane in place j."""
    for mode in (4, 5, 255):
        bad(f"{kind}_plane_mode_{mode}", f"plane mode {mode} of what belongs to groups",
            frame(0, bytes([mode]) + bytes(5)), "UNSUPPORTED")
    for j in range(count):
        bad(f"{kind}_plane_{j}_coded", "a coded plane of what belongs to groups", frame(j, b"\2" + bytes(5)))
    bad(f"{kind}_plane_exceptions_coded", "coded exceptions in a plane of what belongs to groups",
        frame(0, b"\3\0" + a.bitmap([1, 0, 0, 0, 0]) + b"\2" + b"\x3f"))
    bad(f"{kind}_plane_exceptions_constant", "exceptions in mode 1 in a plane of what belongs to groups",
        frame(0, b"\3\0" + a.bitmap([1, 0, 0, 0, 0]) + b"\1" + b"\x3f"))
    bad(f"{kind}_plane_no_exceptions", "a plane of exceptions without any", frame(0, b"\3\x3f" + w.NONE + b"\0"))


def scales(bad):
    def planes(j, plane):
        written = [w.stored_plane(bytes(scale >> 24 - 8 * i & 255 for scale in SCALES)) for i in range(4)]
        written[j] = plane
        return product_frame(groups=a.bitmap(FLAGS) + b"".join(written))

    group_planes(bad, "scales", planes, 4)
    for name, bits in [("zero", 0), ("negative", 0xBF800000), ("minus_zero", 0x80000000), ("exponent_26", 0x0D7FFFFF),
                       ("denormal", 1), ("exponent_228", 0x72000000), ("infinity", 0x7F800000), ("nan", 0x7FC00000),
                       ("negative_nan", 0xFFFFFFFF), ("exponent_0", 0x007FFFFF)]:
        for place in (0, 4):
            changed = SCALES[:]
            changed[place] = bits
            try:
                frame = product_frame(scales=changed, content_scales=changed)
            except (OverflowError, ValueError):
                frame = product_frame(scales=changed)
            bad(f"scale_{name}_{place}", f"a scale is {bits:08x}", frame)


def palettes(bad):
    def planes(j, plane):
        values = sum(PALETTES, [])
        written = [w.stored_plane(bytes(len(palette) - 1 for palette in PALETTES))]
        written += [w.stored_plane(bytes(value >> 24 - 8 * i & 255 for value in values)) for i in range(4)]
        written[j] = plane
        return palette_frame(groups=a.bitmap(FLAGS) + b"".join(written))

    group_planes(bad, "palettes", planes, 5)
    count = sum(map(len, PALETTES))
    padded = [palette + [0] * (N - count if i == 3 else 0) for i, palette in enumerate(PALETTES)]
    assert sum(map(len, padded)) == N
    assert lmc_reference.decode(palette_frame(palettes=padded, write=w.shortest_plane)) != b""
    padded[2] = padded[2] + [0]
    bad("palettes_201_values", "a value more than there are elements",
        palette_frame(palettes=padded, write=w.shortest_plane))
    bad("palettes_most_values", "256 values for each group", palette_frame(
        groups=w.ALL + b"\1\xff" + b"\1\0" * 4))


def exceptions(bad):
    right = w.exceptions_part(N, EXCEPTIONS, 2)
    for mode in (7, 255):
        bad(f"exceptions_flags_mode_{mode}", f"flags mode {mode}", product_frame(exceptions=bytes([mode]) + right[1:]),
            "UNSUPPORTED")
    bad("exceptions_long", "a byte more than there are exceptions", product_frame(exceptions=right + b"\0"))
    bad("exceptions_narrow", "exceptions as wide as narrow elements", product_frame(
        exceptions=w.exceptions_part(N, {i: 1 for i in EXCEPTIONS}, 1)))
    bad("exceptions_beyond", "an exception at place n", product_frame(
        exceptions=a.gaps_of(N, [N], 1, 2) + b"\0\0"))
    bad("exceptions_missing", "no flags of exceptions", product_frame(exceptions=b""))


def cuts(bad):
    whole = w.block(w.scales_part(FLAGS, SCALES), w.exceptions_part(N, EXCEPTIONS, 2), INNER)
    for size in (1, 2, 3, 4, 8, 27, 28, 40, 54, 57, 58, 59, 60, 61, 150):
        rule = f"the block ends after {size} of {len(whole)} bytes"
        bad(f"block_cut_{size}", rule, product_frame(block=whole[:size]))
    whole = w.block(w.palettes_part(FLAGS, PALETTES, 4), w.NONE, INNER)
    for size in (4, 5, 9, 10, 11, 20, 40):
        bad(f"palettes_cut_{size}", f"the block ends after {size} bytes", cut_palettes(whole[:size]))


def cut_palettes(block):
    content = lmc_reference.decode(palette_frame())
    return narrow_frame(PALETTE_FIELDS, raw_plan(1), [block], content, F32)
