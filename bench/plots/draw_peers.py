"""draw_peers.py - pictures of the numbers of bench/peers.py: ratio against the speed of encoding and of decoding.

    /usr/bin/python3 bench/plots/draw_peers.py REPORT.json PICTURES

Writes peers_encode.svg and peers_decode.svg into the folder PICTURES, with one thread. Of the data of each kind (bf16,
f32, a delta), they have those with the most bytes. A line joins what a package offers. Equal numbers give equal bytes.
Needs matplotlib.
"""

import os
import sys

from draw import BLUE, GREEN, GREY, PURPLE, RED, STYLE, matplotlib, origin, pyplot, read_json, save
from draw_study import plain_number
from matplotlib.lines import Line2D

MARKERS, COLOURS = "osD^v", (BLUE, GREEN, PURPLE, GREY)
DIRECTIONS = {"encode": "encoding", "decode": "decoding"}


def kinds_of(rows):
    """Rows of the largest data of each kind: bf16, f32, deltas."""
    kinds = [[row for row in rows if row["dtypes"] == dtype and not row["delta"]] for dtype in ("BF16", "F32")]
    kinds.append([row for row in rows if row["delta"]])
    for kind in kinds:
        if kind:
            data = max(kind, key=lambda row: row["nbytes"])["data"]
            yield data, [row for row in kind if row["data"] == data]


def styles_of(rows):
    """package -> colour, marker. LMC has its own."""
    packages = sorted({row["package"] for row in rows} - {"lmcodec"})
    styles = {"lmcodec": (RED, "o")}
    for number, package in enumerate(packages):
        styles[package] = COLOURS[number % len(COLOURS)], MARKERS[number // len(COLOURS) % len(MARKERS)]
    return styles


def draw_panel(axes, data, rows, styles, what):
    for package, (colour, marker) in styles.items():
        points = sorted((row[f"{what}_GiB_s"], row["ratio"]) for row in rows if row["package"] == package)
        if points:
            axes.plot(*zip(*points), marker, linestyle="-", linewidth=0.8, color=colour, markersize=6,
                      zorder=3 if package == "lmcodec" else 2)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xticks([digit * 10.0**power for power in range(-4, 3) for digit in (1, 3)
                     if low <= digit * 10.0**power <= high])
    axes.minorticks_off()
    plain_number(axes.xaxis)
    axes.invert_yaxis()
    axes.set_title(f"{data}, {rows[0]['nbytes'] / 1e6:.0f} MB")
    axes.set_xlabel(f"{what}, GiB/s (right is better)")


def draw(folder, measured, what):
    rows = [row for row in measured["rows"] if row["thread_count"] == 1]
    styles = styles_of(rows)
    figure, panels = pyplot.subplots(2, 2, figsize=(8.3, 7))
    for axes, (data, found) in zip(panels.flat, kinds_of(rows)):
        draw_panel(axes, data, found, styles, what)
    for axes in panels.flat:
        if not axes.lines:
            axes.axis("off")
    for axes in panels[:, 0]:
        axes.set_ylabel("stored / original (up is better)")
    panels[1][1].legend(
        [Line2D([], [], color=colour, marker=marker, linewidth=0.8) for colour, marker in styles.values()],
        ["LMC" if package == "lmcodec" else package for package in styles], loc="center", ncol=2)
    save(figure, os.path.join(folder, f"peers_{what}.svg"), f"Size and speed of {DIRECTIONS[what]}, one thread",
         origin(measured))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    matplotlib.rcParams.update(STYLE)
    for what in DIRECTIONS:
        draw(sys.argv[2], read_json(sys.argv[1]), what)


if __name__ == "__main__":
    main()
