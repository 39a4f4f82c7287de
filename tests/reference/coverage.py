"""coverage.py - which parts of the format a set of frames uses, from the local variables with which the
functions of the reference decoder return."""

import contextlib
import sys

import lmc_reference

# Every mode, and the numbers that change how bytes are read. The vectors must use all of them.
WANTED = set(
    [f"dtype {dtype}" for dtype in range(22)]
    + [f"frame mode {mode}" for mode in (0, 1, 2)]
    + [f"block mode {mode}" for mode in (0, 1, 2)]
    + [f"plane mode {mode}, {where}" for mode in (0, 1) for where in ("symbols", "packed", "byte")]
    + [f"plane mode {mode}, {where}" for mode in (2, 3) for where in ("symbols", "byte")]
    + [f"exceptions mode {mode}" for mode in (0, 2)]
    + [f"flags mode {mode}" for mode in (0, 1, 2)]
    + [f"q {q} in {where}" for q in (1, 2, 3) for where in ("a coded plane", "gaps")]
    + [f"low_nbits {p}" for p in range(9)]
    + [f"rotate {rotate}, {mask}" for rotate in (0, 1) for mask in ("mask", "no mask")]
    + ["offset 0", "offset", "base 0", "base", "escapes", "symbols 255 are no escapes", "k 0", "k", "k 15"]
    + ["levels 0", "levels", "levels 12", "quotient bytes", "no quotient bytes", "layers 1", "layers", "layers 16"]
    + ["tail bytes", "rest", "empty rest", "no rest", "empty layer", "first above 1", "first = last", "last 6"]
)


def of_head(v):
    yield f"dtype {v['dtype']}"
    yield f"frame mode {v['self'].mode}"


def of_plan(v):
    plan = v["self"]
    yield f"low_nbits {plan.p}"
    yield f"rotate {int(plan.rotate)}, {'no mask' if plan.mask_value is None else 'mask'}"
    yield "offset" if plan.offset else "offset 0"
    yield "base" if plan.base else "base 0"


def of_block(v):
    yield f"block mode {v['mode']}"
    if v["mode"] != lmc_reference.BLOCK_STORED and v["tail_nbytes"]:
        yield "tail bytes"


def of_planes(v):
    for i, (mode, nbits) in enumerate(zip(v["modes"], v["plan"].plane_nbits)):
        yield f"plane mode {mode}, {'symbols' if i == 0 else 'packed' if nbits < 8 else 'byte'}"
    if 255 in v["symbols"]:
        yield "escapes" if v["plan"].has_escapes else "symbols 255 are no escapes"


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


OF = {
    lmc_reference.Head.__init__: of_head,
    lmc_reference.Plan.__init__: of_plan,
    lmc_reference.decode_block: of_block,
    lmc_reference.decode_planes: of_planes,
    lmc_reference.decode_gaps_plane: of_gaps_plane,
    lmc_reference.decode_coded_plane: of_coded_plane,
    lmc_reference.read_flags: of_flags,
    lmc_reference.read_gaps: of_gaps,
    lmc_reference.read_quotients: of_quotients,
}
OF_CODE = {function.__code__: of for function, of in OF.items()}


@contextlib.contextmanager
def recording(seen):
    """While it is open, what the decoder meets is added to the set `seen`. Only for frames that decode."""

    def profile(frame, event, _):
        if event == "return" and frame.f_code in OF_CODE:
            seen.update(OF_CODE[frame.f_code](frame.f_locals))

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
