#!/usr/bin/env python3
"""plot.py [--bench BENCH.json] [--growth GROWTH.json] FOLDER - draws what lmc-bench --matrix and growth.py measured:
bench_levels.svg (speed of levels, kernel sets and peers), bench_sizes.svg (speed against size, cold and in cache),
bench_growth.svg (time and memory of lmc-st against size and number of tensors)."""

import argparse
import json
import os
import sys

from measured import GIB, KIB, MIB, size_text
from svg import Axis, Panel, PALE, card, decimal_ticks, legend, mark, path, text

SETS = {"avx512": ("AVX-512", "#c2410c"), "avx2": ("AVX2", "#1d4ed8"), "neon": ("NEON", "#7e22ce"),
        "scalar": ("plain C", "#047857"), "-": ("", "#6b7280")}
LEVELS = ["lmc fast", "lmc default", "lmc max"]
COMMANDS = {"cp": "#6b7280", "convert": "#c2410c", "restore": "#1d4ed8", "get": "#047857", "get range": "#7e22ce"}
MEMCPY = "#374151"
DOTTED = "2 3"
DASHED = "6 4"
SPEEDS = decimal_ticks(low=-3, high=3)


def bounds(values, room=1.3):
    return min(values) / room, max(values) * room


def origin(measured):
    """Two captions: the machine, and the command."""
    compiler = f", {measured['compiler']}" if "compiler" in measured else ""
    return [f"{measured['machine']}, {measured['core_count']} cores; LMC {measured['lmc_version']}{compiler}",
            f"{measured['date'][:10]}: {measured['command']}"]


# ---- speed of levels ----

def level_rows(measured, dtype):
    """Rows of one dtype, cold, at 128 MiB or the largest size there is; peers last."""
    rows = [r for r in measured["rows"] if r["data"] == f"gauss.{dtype}" and
            (r["what"] == "peer" or r["what"] == "tensor" and r["regime"] == "cold")]
    sizes = [r["tensor_nbytes"] for r in rows if r["what"] == "tensor"]
    wanted = 128 * MIB if 128 * MIB in sizes else max(sizes, default=0)
    own = [r for r in rows if r["what"] == "tensor" and r["tensor_nbytes"] == wanted]
    own.sort(key=lambda r: (LEVELS.index(r["codec"]), list(SETS).index(r["kernels"])))
    return own + [r for r in rows if r["what"] == "peer"]


def level_marks(axis, row, what, y):
    """The points of a line, and its numbers right of them."""
    colour = SETS[row["kernels"]][1]
    speed, bare = row[f"{what}_GiB_s"], row.get(f"{what}_bare_GiB_s", 0)
    x = axis.at(speed)
    if bare > speed:
        yield path([(x, y), (axis.at(bare), y)], colour, width=1.2)
        yield mark(axis.at(bare), y, colour, True)
    yield mark(x, y, colour)
    share = speed / row["memcpy_GiB_s"]
    label = f"{speed:.2g} ({share:.2f})" if speed < 1 else f"{speed:.1f} ({share:.2f})"
    if x - axis.begin > 0.45 * (axis.end - axis.begin):
        yield text(x - 9, y + 4, label, "end", size=11)
    else:
        yield text(max(x, axis.at(max(bare, speed))) + 9, y + 4, label, size=11)


def level_block(rows, dtype, top, axes):
    """Names on the left, encode and decode beside each other."""
    height = 21 * len(rows) + 12
    memcpy = max(r["memcpy_GiB_s"] for r in rows if r["what"] == "tensor")
    for what, axis in axes.items():
        panel = Panel(axis, Axis(1, 2, top + height, top, []))
        yield from panel.frame(f"{dtype}: {what}", "GiB/s (in brackets: share of memcpy's speed)")
        yield path([(axis.at(memcpy), top), (axis.at(memcpy), top + height)], MEMCPY, DASHED)
        yield text(axis.at(memcpy), top - 5, f"memcpy {memcpy:.1f}", "middle", colour=MEMCPY, size=11)
    left = axes["encode"].begin
    yield text(left - 8, top - 9, "stored / original", "end", colour=PALE, size=11)
    for i, row in enumerate(rows):
        y = top + 17 + 21 * i
        name = row["codec"].replace("lmc", "LMC") + (f", {SETS[row['kernels']][0]}" if row["what"] == "tensor" else "")
        yield text(left - 66, y + 4, name, "end")
        yield text(left - 8, y + 4, f"{row['ratio']:.4f}", "end")
        for what, axis in axes.items():
            yield from level_marks(axis, row, what, y)


def draw_levels(measured):
    blocks = {dtype: level_rows(measured, dtype) for dtype in ("bf16", "f32")}
    blocks = {dtype: rows for dtype, rows in blocks.items() if any(r["what"] == "tensor" for r in rows)}
    rows = [row for some in blocks.values() for row in some]
    speeds = [r[key] for r in rows for key in ("encode_GiB_s", "decode_GiB_s", "encode_bare_GiB_s",
                                               "decode_bare_GiB_s", "memcpy_GiB_s") if r.get(key, 0) > 0]
    low, high = bounds(speeds, 1.6)
    ticks = decimal_ticks(low=-3, high=3, steps=(1,) if high / low > 1000 else (1, 2, 5))
    axes = {"encode": Axis(low, high, 240, 570, ticks), "decode": Axis(low, high, 600, 930, ticks)}
    content, top = [], 96
    used = [s for s in SETS if s != "-" and any(r["kernels"] == s for r in rows)]
    content += legend(20, 54, [*((SETS[s][0], SETS[s][1], None, "full") for s in used),
                               ("without checksums", PALE, None, "open"), ("memcpy", MEMCPY, DASHED, None)])
    for dtype, some in blocks.items():
        content += level_block(some, dtype, top, axes)
        top += 21 * len(some) + 12 + 84
    nbytes = max(r["tensor_nbytes"] for r in rows)
    peer = max((r["tensor_nbytes"] for r in rows if r["what"] == "peer"), default=0)
    captions = [f"Tensors of {size_text(nbytes)}, normally distributed, not in the caches; one thread"
                + (f"; peers: {size_text(peer)}." if peer else "."),
                *origin(measured)]
    return card(960, top - 84 + 116, "Speed and size: levels, kernel sets, and others", captions, content)


# ---- speed against size ----

def size_lines(rows, what, panel):
    for regime, dash in (("cold", None), ("cached", DASHED)):
        some = [r for r in rows if r["regime"] == regime]
        copies = {}
        for row in some:
            copies[row["tensor_nbytes"]] = max(copies.get(row["tensor_nbytes"], 0), row["memcpy_GiB_s"])
        if copies:
            yield from panel.line(copies.items(), "#9ca3af", dash, dash is not None)
        for name, (_, colour) in SETS.items():
            points = [(r["tensor_nbytes"], r[f"{what}_GiB_s"]) for r in some if r["kernels"] == name]
            if points:
                yield from panel.line(points, colour, dash, dash is not None)


def draw_sizes(measured):
    rows = [r for r in measured["rows"] if r["what"] == "tensor" and r["data"] == "gauss.bf16"]
    levels = [level for level in LEVELS[:2] if any(r["codec"] == level for r in rows)]
    speeds = bounds([r[key] for r in rows for key in ("encode_GiB_s", "decode_GiB_s", "memcpy_GiB_s")])
    sizes = [r["tensor_nbytes"] for r in rows]
    ticks = [(nbytes, size_text(nbytes)) for nbytes in (64 * KIB, MIB, 16 * MIB, 128 * MIB, GIB)]
    content, top = [], 100
    used = [s for s in SETS if any(r["kernels"] == s for r in rows)]
    content += legend(20, 54, [*((SETS[s][0], SETS[s][1], None, "full") for s in used),
                               ("memcpy", "#9ca3af", None, "full"), ("cold: solid", PALE, None, None),
                               ("in cache: dashed", PALE, DASHED, "open")])
    for level in levels:
        some = [r for r in rows if r["codec"] == level]
        for column, what in enumerate(("encode", "decode")):
            left = 60 + column * 440
            panel = Panel(Axis(*bounds(sizes, 1.5), left, left + 390, ticks), Axis(*speeds, top + 260, top, SPEEDS))
            content += panel.frame(f"{level.replace('lmc', 'LMC')}: {what}", "size of the tensor", "GiB/s")
            content += size_lines(some, what, panel)
        top += 260 + 76
    captions = ["bf16, normally distributed, one thread, checksums made and verified. Cold: tensors that no cache "
                "holds; in cache: one tensor again and again.",
                *origin(measured)]
    return card(920, top + 28, "Speed against size", captions, content)


# ---- growth ----

def time_text(ms):
    return f"{ms:g} ms" if ms < 1000 else f"{ms / 1000:g} s"


def growth_panels(rows, left):
    """For size and count: the axis' title, its values, and its ticks."""
    sizes = sorted({r["tensor_nbytes"] for r in rows if r["what"] == "size"})
    counts = sorted({r["tensor_count"] for r in rows if r["what"] == "count"})
    if sizes:
        ticks = [(n, size_text(n)) for n in sizes[::2 if len(sizes) > 4 else 1]]
        yield "size", "tensor_nbytes", "size of the one tensor", Axis(*bounds(sizes, 1.5), left, left + 380, ticks)
    if counts:
        ticks = [(n, f"{n:,}") for n in counts]
        yield "count", "tensor_count", "tensors of 4 KiB", Axis(*bounds(counts, 1.5), left + 440, left + 820, ticks)


def draw_growth(measured):
    rows = measured["rows"]
    times = Axis(*bounds([1e3 * r["seconds"] for r in rows]), 100 + 260, 100, decimal_ticks(time_text, steps=(1,)))
    peaks = Axis(*bounds([r["peak_nbytes"] / MIB for r in rows]), 436 + 220, 436,
                 decimal_ticks(lambda n: f"{n:g} MiB"))
    used = [name for name in COMMANDS if any(r["command"] == name for r in rows)]
    names = {"cp": "cp", "get": "get one tensor", "get range": f"get {size_text(measured['range_nbytes'])} of it"}
    content = list(legend(20, 54, [(names.get(name, name), COMMANDS[name], None, "full") for name in used]))
    for what, key, title, axis in growth_panels(rows, 70):
        for name, y, value in (("time", times, lambda r: 1e3 * r["seconds"]),
                               ("peak memory", peaks, lambda r: r["peak_nbytes"] / MIB)):
            panel = Panel(axis, y)
            content += panel.frame(f"{name} against {'size' if what == 'size' else 'number of tensors'}", title)
            for command in used:
                points = [(r[key], value(r)) for r in rows if r["what"] == what and r["command"] == command]
                if points:
                    content += panel.line(points, COMMANDS[command])
    captions = [f"lmc-st -j {measured['thread_count']} --no-fsync, bf16, files in the page cache, fastest of "
                f"{measured['round_count']} runs (3 from 1 GiB on); peak memory: the highest resident set.",
                *origin(measured)]
    return card(920, 772, "How time and memory grow", captions, content)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench")
    parser.add_argument("--growth")
    parser.add_argument("folder")
    arguments = parser.parse_args()
    pictures = (("bench_levels.svg", arguments.bench, draw_levels), ("bench_sizes.svg", arguments.bench, draw_sizes),
                ("bench_growth.svg", arguments.growth, draw_growth))
    for name, source, draw in pictures:
        if not source:
            continue
        with open(source, encoding="ascii") as file:
            measured = json.load(file)
        with open(os.path.join(arguments.folder, name), "w", encoding="ascii") as file:
            file.write(draw(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
