"""draw.py - the pictures of docs/, from the numbers that the programs of bench/ wrote.

    /usr/bin/python3 bench/plots/draw.py NUMBERS PICTURES

NUMBERS is a folder with JSON: tensors.json and peers.json (lmc-bench), growth.json (growth.py), h5.json (filters.py).
Each picture whose numbers are there goes to the folder PICTURES. Equal numbers give equal bytes. Needs matplotlib.
"""

import json
import os
import sys

import matplotlib
matplotlib.use("svg")
from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
RED, BLUE, GREEN, PURPLE, GREY = "#c2410c", "#1d4ed8", "#047857", "#7e22ce", "#6b7280"
SETS = {"avx512": ("AVX-512", RED), "avx2": ("AVX2", BLUE), "neon": ("NEON", PURPLE), "scalar": ("plain C", GREEN)}
COMMANDS = {"cp": ("cp", GREY), "convert": ("convert", RED), "restore": ("restore", BLUE),
            "get": ("get one tensor", GREEN), "get range": ("get 64 KiB", PURPLE)}

STYLE = {"svg.fonttype": "none", "svg.hashsalt": "lmc", "font.size": 9, "axes.titlesize": 10, "axes.grid": True,
         "axes.axisbelow": True, "grid.color": "#e5e7eb", "axes.edgecolor": "#9ca3af", "axes.spines.top": False,
         "axes.spines.right": False, "legend.frameon": False, "lines.markersize": 4,
         "figure.constrained_layout.use": True}


def size_text(nbytes, _=None):
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if nbytes >= unit:
            return f"{nbytes / unit:g} {name}"
    return f"{nbytes:g} B"


def time_text(seconds, _=None):
    return f"{seconds:g} s" if seconds >= 1 else f"{1e3 * seconds:g} ms"


def origin(measured):
    """The machine and the version, for the line below a picture."""
    compiler = f", {measured['compiler']}" if "compiler" in measured else ""
    return f"{measured['machine']}, LMC {measured['lmc_version']}{compiler}"


def save(figure, path, title, caption, legend_of=None):
    """Writes a picture. A legend of these axes stands below the title, in room that empty lines keep free."""
    figure.suptitle(title + (2 * "\n" if legend_of else ""), fontweight="bold", fontsize=11)
    if legend_of:
        handles, labels = legend_of.get_legend_handles_labels()
        figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.955), ncol=len(labels))
    figure.supxlabel(caption, fontsize=8, color=GREY)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)


def best_set(rows):
    return next(name for name in SETS if any(row["kernels"] == name for row in rows))


# ---- ratio against speed ----

def spread(places, gap):
    """Moves places apart until neighbours have that gap; their order stays."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = list(places)
    for _ in range(200):
        for low, high in zip(order, order[1:]):
            push = max(0, gap - (moved[high] - moved[low])) / 2
            moved[low] -= push
            moved[high] += push
    return moved


def label_points(axes, points, in_column):
    """Writes names right of points (x, y, name), at least a line apart; in_column: all of them right of all points."""
    axes.figure.draw_without_rendering()  # the axes get their final place
    places = [axes.transData.transform(point[:2]) * 72 / axes.figure.dpi for point in points]
    column = max(x for x, _ in places)
    for (x, y, name), place, height in zip(points, places, spread([y for _, y in places], 13)):
        offset = (column - place[0] if in_column else 0) + 14, height - place[1]
        is_far = in_column or abs(offset[1]) > 4
        axes.annotate(name, (x, y), offset, textcoords="offset points", va="center",
                      arrowprops={"arrowstyle": "-", "lw": 0.5, "color": GREY, "shrinkB": 3} if is_far else None)


def draw_levels(folder, tensors, peers):
    rows = [r for r in tensors["rows"] if r["regime"] == "cold" and r["data"] == "gauss.bf16"]
    rows = [r for r in rows if r["kernels"] == best_set(rows)]
    levels = sorted({r["codec"] for r in rows})
    nbytes = max(set.intersection(*({r["tensor_nbytes"] for r in rows if r["codec"] == level} for level in levels)))
    own = [r for r in rows if r["tensor_nbytes"] == nbytes]
    memcpy = max(r["memcpy_GiB_s"] for r in own)
    others = [r for r in peers["rows"] if r["data"] == "gauss.bf16" and r["what"] == "peer"]
    figure, axes = pyplot.subplots(figsize=(8.3, 4.2))
    groups = [(RED, [(r["decode_GiB_s"], r["ratio"], r["codec"].replace("lmc", "LMC")) for r in own]),
              (BLUE, [(r["decode_GiB_s"], r["ratio"], r["codec"]) for r in others])]
    for colour, points in groups:
        axes.plot(*list(zip(*points))[:2], "o", color=colour, markersize=6, clip_on=False)
    axes.axvline(memcpy, color=GREY, linestyle="--")
    axes.annotate(f"memcpy {memcpy:.1f}", (memcpy, 0), (-6, 6), xycoords=("data", "axes fraction"),
                  textcoords="offset points", ha="right", color=GREY)
    ratios = [y for _, points in groups for _, y, _ in points]
    axes.set_xlim(0, 1.05 * memcpy)
    axes.set_ylim(max(ratios) + 0.015, min(ratios) - 0.015)
    axes.set_xlabel("decode, GiB/s (right is better)")
    axes.set_ylabel("stored / original (up is better)")
    for colour, points in groups:
        label_points(axes, points, in_column=colour == RED)
    save(figure, os.path.join(folder, "bench_levels.svg"), "Size and speed, normally distributed bf16, one thread",
         f"LMC with {SETS[best_set(rows)][0]} and memcpy: {size_text(nbytes)}; others: "
         f"{size_text(others[0]['tensor_nbytes'])}. " + origin(tensors))


# ---- speed against size ----

def draw_sizes(folder, tensors):
    rows = [r for r in tensors["rows"] if r["codec"] == "lmc default" and r["data"] == "gauss.bf16"]
    best = best_set(rows)
    figure, panels = pyplot.subplots(1, 2, figsize=(8.3, 3.8), sharey=True)
    for axes, what in zip(panels, ("encode", "decode")):
        lines = [(name, colour, "cold", kernels, f"{what}_GiB_s") for kernels, (name, colour) in SETS.items()]
        lines += [(SETS[best][0] + ", in cache", SETS[best][1], "cached", best, f"{what}_GiB_s"),
                  ("memcpy", GREY, "cold", best, "memcpy_GiB_s")]
        for name, colour, regime, kernels, key in lines:
            points = sorted((r["tensor_nbytes"], r[key]) for r in rows
                            if r["regime"] == regime and r["kernels"] == kernels)
            if points:
                axes.plot(*zip(*points), "o-" if regime == "cold" else "o:", color=colour, label=name)
        axes.set_title(f"LMC default, {what}")
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted({r["tensor_nbytes"] for r in rows}))
        axes.xaxis.set_major_formatter(FuncFormatter(size_text))
        axes.tick_params(axis="x", labelsize=8)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("size of the tensor")
    panels[0].set_ylabel("GiB/s")
    save(figure, os.path.join(folder, "bench_sizes.svg"), "Speed against size of a tensor",
         "Normally distributed bf16, one thread. " + origin(tensors), panels[0])


# ---- growth of time and memory ----

def draw_growth(folder, measured):
    figure, panels = pyplot.subplots(2, 2, figsize=(8.3, 5.6), sharex="col", sharey="row")
    for column, (what, key) in enumerate((("size", "tensor_nbytes"), ("count", "tensor_count"))):
        for axes, value in zip(panels[:, column], ("seconds", "peak_nbytes")):
            for command, (name, colour) in COMMANDS.items():
                points = sorted((r[key], r[value]) for r in measured["rows"]
                                if r["what"] == what and r["command"] == command)
                if points:
                    axes.plot(*zip(*points), "o-", color=colour, label=name)
            axes.set_xscale("log", base=4 if what == "size" else 10)
            axes.set_yscale("log", base=10 if value == "seconds" else 2)
    for axes in panels.flat:
        axes.minorticks_off()
    panels[1][0].xaxis.set_major_formatter(FuncFormatter(size_text))
    panels[1][1].xaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.0f}"))
    panels[0][0].yaxis.set_major_formatter(FuncFormatter(time_text))
    panels[1][0].yaxis.set_major_formatter(FuncFormatter(size_text))
    panels[0][0].set_ylabel("time")
    panels[1][0].set_ylabel("peak memory")
    panels[1][0].set_xlabel("size of the one tensor")
    panels[1][1].set_xlabel("number of tensors of 4 KiB")
    save(figure, os.path.join(folder, "bench_growth.svg"), "Time and memory of lmc-st",
         f"lmc-st -j {measured['thread_count']}, files in the page cache. " + origin(measured), panels[0][0])


# ---- filters of HDF5 ----

def draw_hdf5(folder, measured):
    sets = {}
    for entry in measured["results"]:
        sets.setdefault((entry["file"], entry["dtype"]), []).append(entry)
    sets = dict(list(sets.items())[:2])
    figure, panels = pyplot.subplots(1, len(sets), figsize=(8.3, 4.6), squeeze=False, sharex=True)
    for axes, ((name, dtype), entries) in zip(panels[0], sets.items()):
        entries = sorted(entries, key=lambda entry: -entry["ratio"])
        for offset, what, colour in ((0.2, "read", BLUE), (-0.2, "write", RED)):
            axes.barh([i + offset for i in range(len(entries))], [entry[f"{what}_gib"] for entry in entries], 0.38,
                      color=colour, label=what)
        axes.set_yticks(range(len(entries)), [f"{entry['codec']}  {entry['ratio']:.3f}" for entry in entries])
        axes.grid(False, axis="y")
        axes.set_xlabel("GiB/s")
        axes.set_title(f"{name}, {dtype}")
    panels[0][0].legend(loc="lower right")
    save(figure, os.path.join(folder, "h5_bench.svg"), "Filters of HDF5: stored / original, and speed",
         f"Chunks of {measured['chunk_kib']} KiB, one thread. " + measured["machine"])


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def draw_all(text, *pictures):
    """What a program does that draws; text: its own. Each picture: a function, and the names of its numbers."""
    if len(sys.argv) != 3:
        sys.exit(text)
    numbers, folder = sys.argv[1:]
    matplotlib.rcParams.update(STYLE)
    for draw, *names in pictures:
        paths = [os.path.join(numbers, f"{name}.json") for name in names]
        if all(map(os.path.exists, paths)):
            draw(folder, *map(read_json, paths))


if __name__ == "__main__":
    draw_all(__doc__, (draw_levels, "tensors", "peers"), (draw_sizes, "tensors"), (draw_growth, "growth"),
             (draw_hdf5, "h5"))
