"""narrow_rans_coverage.py - the part of format_coverage.py for narrow elements and rANS codes."""

import lmc_narrow
import lmc_planes
import lmc_rans
import lmc_reference
from lmc_narrow import F16, F32

NARROW_OF = [(0, 4), (1, 4), (2, 8), (3, 2), (3, 4), (4, 2), (4, 4), (4, 8)]

WANTED = set(
    [f"narrow form {form} of {W} bytes" for form, W in NARROW_OF]
    + [f"product {product_type} of factors {kind}" for product_type in range(3) for kind in range(5)]
    + ["factors 1", "factors", "factors 256", "one group in a row", "groups in a row", "a last group that is shorter"]
    + ["row_length 16", "group_length 16", "row_length 2^32 - 1", "group_length 2^32 - 1"]
    + [f"narrow elements in mode {mode}" for mode in (0, 1, 2)]
    + ["wide exceptions", "no wide exceptions", "a stored block among narrow ones", "trailing bytes of a narrow block"]
    + ["narrow elements with rows", "narrow elements in a rANS plane", "a block without elements among narrow ones"]
    + [f"a block {what} within a {of}" for what in ("begins", "ends") for of in ("group", "row")]
    + ["all groups are new", "a group that is not new", "fewer groups than in a row", "one group"]
    + [f"plane mode {mode} of groups" for mode in (0, 1, 3)]
    + ["palette of 1", "palette of 256", "as many values as elements", "a number beyond a palette"]
    + ["exponent of a scale 27", "exponent of a scale 227", "a number beyond the list"]
    + [f"product {what}" for what in ("0", "-0", "becomes 0", "becomes -0", "denormal F16", "inf", "-inf")]
    + ["product rounded to F32", "product rounded twice, up", "product rounded twice, down", "product that is a tie"]
    + [f"F16 {what}" for what in ("0", "-0", "denormal", "normal", "inf", "-inf", "NaN", "quiet NaN")]
    + [f"F32 {what}" for what in ("0", "-0", "denormal", "normal", "inf", "-inf", "NaN", "quiet NaN")]
    + ["rANS plane of 261", "rANS plane", "rANS plane above 4096", "rANS plane of whole rounds"]
    + ["rANS plane that ends within a round", "rANS plane without words", "rANS plane with as many words as may be"]
    + [f"frequency of {b} bits" for b in range(14)]
    + ["carried bytes", "carried bytes: the whole low plane", "no low plane", "a low plane shorter than 128 bytes"]
    + [f"low plane of mode {mode} beside a rANS plane" for mode in (0, 1, 2, 3)]
    + [f"low plane of {p} bits carried" for p in range(1, 9)] + ["a carried bit plane with spare bits"]
    + [f"plane mode {mode} beside a rANS table" for mode in (0, 1, 2, 3)]
    + ["escapes in a rANS plane", "rANS planes with offsets", "lower bytes beside a rANS plane", "rANS exceptions"]
    + ["masked elements in a rANS plane"]
)


def of_narrow(v):
    narrow = v["self"]
    yield f"narrow form {narrow.form} of {narrow.W} bytes"
    if narrow.form == lmc_narrow.NARROW_PRODUCT:
        yield f"product {narrow.product_type} of factors {narrow.factor_kind}"
    if narrow.has_groups:
        yield "one group in a row" if narrow.groups_per_row == 1 else "groups in a row"
        if narrow.row_length % narrow.group_length:
            yield "a last group that is shorter"
        for name in ("row_length", "group_length"):
            value = getattr(narrow, name)
            yield f"{name} {'2^32 - 1' if value == 2**32 - 1 else value}"


def of_list(v):
    count = v["count"]
    yield "factors" if 1 < count < 256 else f"factors {count}"


def of_block(v):
    plan, mode, n = v["plan"], v["mode"], v["n"]
    if plan.narrow is None:
        return
    if n == 0:
        yield "a block without elements among narrow ones"
    elif mode == lmc_reference.BLOCK_STORED:
        yield "a stored block among narrow ones"
    elif v["tail_nbytes"]:
        yield "trailing bytes of a narrow block"


def of_narrow_block(v):
    plan, mode = v["plan"], v["mode"]
    yield f"narrow elements in mode {mode}"
    yield "wide exceptions" if v["exceptions"] else "no wide exceptions"
    if mode == lmc_reference.BLOCK_PLANES and plan.columns is not None:
        yield "narrow elements with rows"
    if plan.narrow.form == lmc_narrow.NARROW_PALETTE:
        if any(y >= len(palette) for y, palette in zip(v["elements"], v["groups"])):
            yield "a number beyond a palette"
    elif plan.narrow.form == lmc_narrow.NARROW_PRODUCT and plan.narrow.factor_kind == lmc_narrow.FACTORS_LIST:
        if max(v["elements"]) >= plan.narrow.list_count:
            yield "a number beyond the list"


def of_groups(v):
    narrow, f, flags = v["narrow"], v["f"], v["flags"]
    end = f + v["n"]
    for place, what in ((f, "begins"), (end, "ends")):
        column = place % narrow.row_length
        if column:
            yield f"a block {what} within a row"
        if column % narrow.group_length:
            yield f"a block {what} within a group"
    yield "all groups are new" if all(flags) else "a group that is not new"
    if len(flags) < v["k"]:
        yield "fewer groups than in a row"
    if len(flags) == 1:
        yield "one group"


def of_scales(v):
    for scale in v["scales"]:
        yield f"exponent of a scale {scale >> 23}"


def of_palettes(v):
    counts = v["counts"]
    for count in counts:
        yield f"palette of {count}"
    if sum(counts) == v["n"]:
        yield "as many values as elements"


def of_groups_plane(v):
    yield f"plane mode {v['mode']} of groups"


def of_product(v):
    of_type = v["of_type"]
    sign, factor_m, factor_e = v["factor"]
    _, scale_m, scale_e = lmc_narrow.parts(v["scale"], F32)
    exact_m, exact_e = factor_m * scale_m, factor_e + scale_e
    minus = "-" if sign else ""
    result = lmc_narrow.rounded(v["m"], v["e"], of_type)
    direct = lmc_narrow.rounded(exact_m, exact_e, of_type)
    if factor_m == 0 or result == 0:
        yield f"product {minus}0" if factor_m == 0 else f"product becomes {minus}0"
        return
    if result == 0x7C00 and of_type == F16:
        yield f"product {minus}inf"
    elif result < 0x400 and of_type == F16:
        yield "product denormal F16"
    elif of_type == F32 and exact_m // (exact_m & -exact_m) >= 1 << 24:
        yield "product rounded to F32"
    if result != direct:
        yield f"product rounded twice, {'up' if result > direct else 'down'}"
    elif of_type != F32 and v["m"] % (1 << 23 - of_type[1]) == 1 << 22 - of_type[1]:
        yield "product that is a tie"


def of_widened(name, exponent_max):
    def of(v):
        minus, mantissa, exponent = "-" if v["sign"] else "", v["mantissa"], v["exponent"]
        if exponent == 0:
            yield f"{name} denormal" if mantissa else f"{name} {minus}0"
        elif exponent < exponent_max:
            yield f"{name} normal"
        elif mantissa:
            yield f"{name} quiet NaN" if mantissa >> (9 if exponent_max == 31 else 22) else f"{name} NaN"
        else:
            yield f"{name} {minus}inf"
    return of


def of_frequencies(v):
    for f in v["frequencies"]:
        yield f"frequency of {f.bit_length()} bits"


def of_rans_plane(v):
    n, words = v["n"], v["word_count"]
    yield "rANS plane of 261" if n == 261 else "rANS plane above 4096" if n > 4096 else "rANS plane"
    yield "rANS plane that ends within a round" if n % 64 else "rANS plane of whole rounds"
    if words == 0:
        yield "rANS plane without words"
    if 260 + 2 * words in (n - 1, n - 2):
        yield "rANS plane with as many words as may be"


def of_planes(v):
    plan, modes, n = v["plan"], v["modes"], v["n"]
    if not plan.has_rans:
        return
    yield f"plane mode {modes[0]} beside a rANS table"
    if modes[0] != lmc_planes.PLANE_CODED:
        return
    if plan.narrow is not None:
        yield "narrow elements in a rANS plane"
    yield from of_low_plane(plan, modes, n)
    if plan.has_escapes and 255 in v["symbols"]:
        yield "escapes in a rANS plane"
    if any(v["offsets"]):
        yield "rANS planes with offsets"
    if plan.W > 2:
        yield "lower bytes beside a rANS plane"


def of_low_plane(plan, modes, n):
    if plan.p == 0:
        yield "no low plane"
        return
    yield f"low plane of mode {modes[1]} beside a rANS plane"
    if not plan.carries(modes, n):
        if modes[1] == lmc_planes.PLANE_STORED:
            yield "a low plane shorter than 128 bytes"
        return
    yield "carried bytes"
    yield f"low plane of {plan.p} bits carried"
    if plan.low_plane_nbytes(n) == 128:
        yield "carried bytes: the whole low plane"
    if n * plan.p % 8:
        yield "a carried bit plane with spare bits"


def of_exceptions(v):
    if v["mode"] == lmc_planes.PLANE_CODED and isinstance(v["table"], lmc_rans.RansTable):
        yield "rANS exceptions"


def of_masked(v):
    if v["plan"].has_rans:
        yield "masked elements in a rANS plane"


OF = {
    lmc_narrow.Narrow.__init__: of_narrow,
    lmc_narrow.Narrow.read_list: of_list,
    lmc_reference.decode_block: of_block,
    lmc_reference.decode_narrow: of_narrow_block,
    lmc_reference.decode_masked: of_masked,
    lmc_reference.decode_planes: of_planes,
    lmc_narrow.read_groups: of_groups,
    lmc_narrow.read_scales: of_scales,
    lmc_narrow.read_palettes: of_palettes,
    lmc_narrow.read_byte_plane: of_groups_plane,
    lmc_narrow.product: of_product,
    lmc_narrow.widened_f16: of_widened("F16", 31),
    lmc_narrow.widened_f32: of_widened("F32", 255),
    lmc_rans.read_frequencies: of_frequencies,
    lmc_rans.decode_rans_plane: of_rans_plane,
    lmc_planes.decode_gaps_plane: of_exceptions,
}
