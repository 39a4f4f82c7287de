"""format_coverage.py - which parts of the format a set of frames uses, from the local variables with which the
functions of the reference decoder return."""

import contextlib
import sys

import lmc_delta
import lmc_flags
import lmc_planes
import lmc_reference
import narrow_rans_coverage

# Every mode, and the numbers that change how bytes are read. The vectors must use all of them.
WANTED = set(
    [f"dtype {dtype}" for dtype in range(22)]
    + [f"frame mode {mode}" for mode in (0, 1, 2, 3)]
    + [f"block mode {mode}" for mode in (0, 1, 2)]
    + [f"plane mode {mode}, {where}" for mode in (0, 1) for where in ("symbols", "packed", "byte")]
    + [f"plane mode {mode}, {where}" for mode in (2, 3) for where in ("symbols", "byte")]
    + [f"exceptions mode {mode}" for mode in (0, 2)]
    + [f"flags mode {mode}" for mode in range(7)]
    + [f"flags mode {mode} within pairs" for mode in range(7)]
    + [f"q {q} in {where}" for q in (1, 2, 3) for where in ("a coded plane", "gaps")]
    + [f"low_nbits {p}" for p in range(9)]
    + [f"rotate {rotate}, {mask}" for rotate in (0, 1) for mask in ("mask", "no mask")]
    + ["offset 0", "offset", "base 0", "base", "escapes", "symbols 255 are no escapes", "k 0", "k", "k 15"]
    + ["levels 0", "levels", "levels 12", "quotient bytes", "no quotient bytes", "layers 1", "layers", "layers 16"]
    + ["tail bytes", "rest", "empty rest", "no rest", "empty layer", "first above 1", "first = last", "last 6"]
    + ["pairs of 2 flags", "pairs of 3 flags", "odd pairs", "odd pairs with the last flag", "even pairs"]
    + [f"columns, {what}" for what in [f"{W} bytes, rotate {rotate}" for W in (1, 2, 4, 8) for rotate in (0, 1)]]
    + [f"columns of {nbits} bits" for nbits in range(9)] + [f"rows of {nbits} bits" for nbits in range(9)]
    + ["columns, h - 1 steps", "columns, 0 steps", "32 columns", "33 columns", "64 times columns", "2^32 - 1 columns"]
    + ["no rows", "one row", "a block begins within a row", "a row value of 2^16 or more", "escapes with offsets"]
    + [f"block mode {mode}, columns" for mode in (0, 1, 2)]
    + ["singles", "no singles", "both", "no both", "all pairs are both"]
    + [f"base form {form}" for form in (0, 1, 2, 3)]
    + ["NaN of the base", "rounded up", "rounded down", "tie to above", "tie to below"]
    + [f"transform {transform} of {W} bytes" for transform in (0, 1, 2) for W in (1, 2, 4, 8)]
    + [f"low_nbytes {g} of {W}" for W in (1, 2, 4, 8) for g in {0, W - 1}]
    + [f"key_shift {what}" for what in ("0", "between", "8 W - 1")]
    + [f"{classes} classes" for classes in (1, 2, 16)]
    + ["a class without elements", "an element of class 15", "a last block without elements, delta frame"]
    + [f"delta block mode {mode}" for mode in (0, 3, 4)]
    + ["tail bytes after deltas", "tail bytes of a block that is the same"]
    + [f"q {q} of exceptions" for q in (1, 2, 3)] + ["no exceptions"]
    + [f"plane mode {mode} of low bytes" for mode in (0, 1, 3)]
    + [f"class low bits {k}" for k in range(9)]
    + ["head above 2^15", "head above 2^15 and flip", "head above 2^15, no flips", "z above w bits"]
    + ["escape in a class", "escape below 255 in a class", "symbol 255 in a class with 8 low bits"]
    + ["flips of one head", "heads of one class: 1"]
    + [f"ladder of {count} rungs" for count in range(10)]
    + [f"ladder, {left} left after {count} rungs" for count in (3, 9) for left in (0, 7)]
    + ["ladder, 8 left after 9 rungs", "ladder, bytes below the next rung", "ladder, list of exactly 8"]
    + ["a rung without symbols"]
) | narrow_rans_coverage.WANTED


def of_head(v):
    head = v["self"]
    yield f"dtype {v['dtype']}"
    yield f"frame mode {head.mode}"
    if head.mode == lmc_reference.MODE_DELTA:
        yield f"base form {head.base_form}"


def of_plan(v):
    plan = v["self"]
    yield f"low_nbits {plan.p}"
    yield f"rotate {int(plan.rotate)}, {'no mask' if plan.mask_value is None else 'mask'}"
    yield "offset" if plan.offset else "offset 0"
    yield "base" if plan.base else "base 0"
    if plan.columns is not None:
        yield f"columns, {plan.W} bytes, rotate {int(plan.rotate)}"
        if plan.columns.step_log2 in (0, plan.h - 1):
            yield f"columns, {'h - 1' if plan.columns.step_log2 else '0'} steps"


def of_columns(v):
    count = v["self"].count
    yield f"columns of {v['nbits']} bits"
    if count % 64 == 0:
        yield "64 times columns"
    elif count in (32, 33):
        yield f"{count} columns"
    elif count == 2**32 - 1:
        yield "2^32 - 1 columns"


def of_rows(v):
    if v["row_nbits"] == lmc_reference.ROWS_NONE:
        yield "no rows"
        return
    yield f"rows of {v['row_nbits']} bits"
    if v["row_count"] == 1:
        yield "one row"
    if v["f"] % v["C"]:
        yield "a block begins within a row"
    if max(v["rows"]) >= 1 << 16:
        yield "a row value of 2^16 or more"


def of_block(v):
    yield f"block mode {v['mode']}"
    if v["plan"].columns is not None:
        yield f"block mode {v['mode']}, columns"
    if v["mode"] != lmc_reference.BLOCK_STORED and v["tail_nbytes"]:
        yield "tail bytes"


def of_planes(v):
    for i, (mode, nbits) in enumerate(zip(v["modes"], v["plan"].plane_nbits)):
        yield f"plane mode {mode}, {'symbols' if i == 0 else 'packed' if nbits < 8 else 'byte'}"
    if lmc_planes.SYMBOL_ESCAPE in v["symbols"]:
        yield "escapes" if v["plan"].has_escapes else "symbols 255 are no escapes"
        if v["plan"].has_escapes and any(v["offsets"]):
            yield "escapes with offsets"


def of_gaps_plane(v):
    yield f"exceptions mode {v['mode']}"


def of_coded_plane(v):
    yield f"q {lmc_reference.counter_nbytes(v['n'])} in a coded plane"
    count = len(v["layers"])
    yield f"layers {count}" if count in (1, 16) else "layers"
    rest = v["layer_ns"][-1]
    yield "rest" if rest else "empty rest" if v["layers"][-1].has_list else "no rest"
    if 0 in v["layer_ns"][:-1]:
        yield "empty layer"
    for layer in v["layers"]:
        if layer.first > 1:
            yield "first above 1"
        if layer.first == layer.last:
            yield "first = last"
        if layer.last == 6:
            yield "last 6"


def of_flags(v):
    yield f"flags mode {v['mode']}"


def of_gaps(v):
    yield f"q {lmc_reference.counter_nbytes(v['n'])} in gaps"
    yield f"k {v['k']}" if v["k"] in (0, 15) else "k"


def of_quotients(v):
    yield f"levels {v['t']}" if v["t"] in (0, 12) else "levels"
    yield "quotient bytes" if v["members"] else "no quotient bytes"


def of_pairs(v):
    n, both = v["n"], v["has_both"]
    yield f"pairs of {n} flags" if n < 4 else "odd pairs" if n % 2 else "even pairs"
    if n % 2 and v["places"][-1] == n - 1:
        yield "odd pairs with the last flag"
    yield "singles" if 0 in both else "no singles"
    yield "both" if 1 in both else "no both"
    if all(v["has_member"]) and all(both):
        yield "all pairs are both"


def of_rounding(v):
    u = v["u"]
    if u % 2**31 > 0x7F800000:
        yield "NaN of the base"
    elif u % 65536 == 0x8000:
        yield "tie to above" if u >> 16 & 1 else "tie to below"
    else:
        yield "rounded up" if u % 65536 > 0x8000 else "rounded down"


def of_delta_plan(v):
    plan, W = v["self"], v["W"]
    yield f"transform {plan.transform} of {W} bytes"
    yield f"low_nbytes {plan.low_nbytes} of {W}"
    yield f"key_shift {'0' if plan.key_shift == 0 else '8 W - 1' if plan.key_shift == 8 * W - 1 else 'between'}"
    yield f"{v['C']} classes"


def of_delta_block(v):
    mode = v["mode"]
    yield f"delta block mode {mode}"
    if v["n"] == 0:
        yield "a last block without elements, delta frame"
    elif v["tail_nbytes"] and mode == lmc_delta.BLOCK_DELTA:
        yield "tail bytes after deltas"
    elif v["tail_nbytes"] and mode == lmc_delta.BLOCK_SAME:
        yield "tail bytes of a block that is the same"


def of_deltas(v):
    used = set(v["classes"])
    if len(used) < len(v["plan"].low_nbits):
        yield "a class without elements"
    if 15 in used:
        yield "an element of class 15"


def of_exceptions(v):
    yield f"q {v['q']} of exceptions" if v["places"] else "no exceptions"


def of_low_bytes(v):
    for mode in v["modes"]:
        yield f"plane mode {mode} of low bytes"


def of_heads(v):
    k = v["k"]
    yield f"class low bits {k}"
    if v["n"] == 1:
        yield "heads of one class: 1"
        if v["plan"].transform == lmc_delta.DELTA_MAGNITUDE:
            yield "flips of one head"
    if k == 8 and 255 in v["symbols"]:
        yield "symbol 255 in a class with 8 low bits"


def of_class_escapes(v):
    for symbol in v["escapes"]:
        yield "escape in a class" if symbol >= 255 else "escape below 255 in a class"


def of_element(v):
    plan = v["self"]
    if plan.transform == lmc_delta.DELTA_MAGNITUDE and v["high"] >> 15:
        yield "head above 2^15 and flip" if v["flip"] else "head above 2^15"
    elif v["high"] >> 15:
        yield "head above 2^15, no flips"
    if v["high"] >= 1 << max(plan.w - 8 * plan.low_nbytes, 0):
        yield "z above w bits"


def of_ladder(v):
    rungs, left = v["rungs"], v["places"]
    yield f"ladder of {rungs} rungs"
    yield f"ladder, {len(left)} left after {rungs} rungs"
    if rungs and len(v["go_on"]) == lmc_delta.RUNG_VALUES_MIN:
        yield "ladder, list of exactly 8"
    if rungs and not v["own"]:
        yield "a rung without symbols"
    if any(v["symbols"][place] < lmc_delta.LADDER[min(rungs, 8)][0] for place in left):
        yield "ladder, bytes below the next rung"


OF = {
    lmc_reference.Head.__init__: of_head,
    lmc_reference.Plan.__init__: of_plan,
    lmc_reference.Columns.__init__: of_columns,
    lmc_reference.decode_block: of_block,
    lmc_reference.read_offsets: of_rows,
    lmc_reference.decode_planes: of_planes,
    lmc_planes.decode_gaps_plane: of_gaps_plane,
    lmc_planes.decode_coded_plane: of_coded_plane,
    lmc_flags.read_flags: of_flags,
    lmc_flags.read_gaps: of_gaps,
    lmc_flags.read_quotients: of_quotients,
    lmc_flags.read_pairs_places: of_pairs,
    lmc_delta.rounded_to_bf16: of_rounding,
    lmc_delta.DeltaPlan.__init__: of_delta_plan,
    lmc_delta.decode_delta_block: of_delta_block,
    lmc_delta.decode_deltas: of_deltas,
    lmc_delta.read_exceptions: of_exceptions,
    lmc_delta.read_low_bytes: of_low_bytes,
    lmc_delta.read_heads: of_heads,
    lmc_delta.read_class_escapes: of_class_escapes,
    lmc_delta.DeltaPlan.element: of_element,
    lmc_delta.read_ladder: of_ladder,
}
OF_CODE = {}  # what follows from the variables of a function
for functions in (OF, narrow_rans_coverage.OF):
    for function, of in functions.items():
        OF_CODE.setdefault(function.__code__, []).append(of)
FLAGS_CODE, PAIRS_CODE = lmc_flags.read_flags.__code__, lmc_flags.read_pairs_places.__code__


@contextlib.contextmanager
def recording(seen):
    """While it is open, what the decoder meets is added to the set `seen`. Only for frames that decode."""

    def profile(frame, event, _):
        if event == "return" and frame.f_code in OF_CODE:
            for of in OF_CODE[frame.f_code]:
                seen.update(of(frame.f_locals))
            if frame.f_code is FLAGS_CODE and frame.f_back.f_code is PAIRS_CODE:
                seen.add(f"flags mode {frame.f_locals['mode']} within pairs")

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
