"""draw_distributed.py - the pictures of docs/distributed.md, from the numbers of bench/scale.py and h5_parallel.py.

    /usr/bin/python3 bench/plots/draw_distributed.py NUMBERS PICTURES

NUMBERS is a folder with scale.json and h5_parallel.json. Each picture whose numbers are there goes to the folder
PICTURES. Equal numbers give equal bytes. Needs matplotlib.
"""

import os

from draw import BLUE, GREEN, GREY, PURPLE, RED, draw_all, pyplot, save
from draw_study import plain_number

STATES = {"weights": "weights in bf16", "whole": "weights, master weights, Adam's moments"}
WAYS = {"raw": (GREY, "raw"), "key": (BLUE, "key frame"), "delta": (RED, "delta"),
        "delta, base read": (GREEN, "delta, base read"), "delta 7": (PURPLE, "delta after a chain of 7")}
CORE_STYLES = {1: "--", 2: "-.", 4: "-"}
PARTS = {"filter": (RED, "LMC"), "HDF5": (PURPLE, "HDF5"), "copies": (BLUE, "copies"), "kernel": (GREY, "kernel"),
         "MPI": (GREEN, "MPI")}


def logarithmic(axes, places):
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(places)
    low, high = axes.get_ylim()
    axes.set_yticks([digit * 10.0**power for power in range(-3, 5) for digit in (1, 2, 5)
                     if low <= digit * 10.0**power <= high])
    axes.minorticks_off()
    plain_number(axes.xaxis)
    plain_number(axes.yaxis)


def states_of(measured):
    return list(dict.fromkeys(row["state"] for row in measured["simulated"]["by_ranks"]))


def caption(measured):
    return f"{measured['gb']:g} GB a rank, speeds of {measured['machine']}, {measured['core_count']} cores"


# ---- a save of many ranks ----

def draw_ranks(folder, measured):
    """Time of a save against the number of ranks."""
    states = states_of(measured)
    figure, panels = pyplot.subplots(1, len(states), figsize=(8.3, 4.2), squeeze=False, sharey=True)
    for axes, state in zip(panels[0], states):
        for way, (colour, label) in WAYS.items():
            points = [(row["ranks"], row["seconds"]) for row in measured["simulated"]["by_ranks"]
                      if (row["state"], row["way"], row["cores"]) == (state, way, 1)]
            if points:
                axes.plot(*zip(*points), "o-", color=colour, label=label)
        logarithmic(axes, (1, 8, 64, 256, 1000))
        axes.set_title(STATES[state])
        axes.set_xlabel("ranks, one core each")
    panels[0][0].set_ylabel("seconds")
    save(figure, os.path.join(folder, "distributed_ranks.svg"),
         f"A save behind a file system of {measured['total']:g} GB/s, nodes of 8 ranks with "
         f"{measured['node_link']:g} GB/s", caption(measured), panels[0][0])


def draw_link(folder, measured):
    """Time of a save against the bandwidth that each rank has; and the points that were run for real."""
    states = states_of(measured)
    figure, panels = pyplot.subplots(1, len(states) + 1, figsize=(8.3, 4.2), squeeze=False)
    for axes, state in zip(panels[0], states):
        for way in ("raw", "key", "delta"):
            colour, label = WAYS[way]
            for cores, style in CORE_STYLES.items() if way != "raw" else ((1, "-"),):
                points = [(row["link_GB_s"], row["seconds"]) for row in measured["simulated"]["by_link"]
                          if (row["state"], row["way"], row["cores"]) == (state, way, cores)]
                count = "" if way == "raw" else f", {cores} core{'s' if cores > 1 else ''}"
                axes.plot(*zip(*points), style, color=colour, label=label + count)
        logarithmic(axes, (0.02, 0.1, 0.5, 2, 5))
        axes.set_title(STATES[state], fontsize=8)
        axes.set_xlabel("GB/s of each of 1000 ranks")
    panels[0][0].set_ylabel("seconds")
    panels[0][0].legend(fontsize=7)
    axes = panels[0][-1]
    for row in measured["confirmed"]:
        axes.plot(row["computed_seconds"], row["seconds"], "o" if row["straggler"] == 1 else "s", markersize=6,
                  color=WAYS[row["way"]][0])
    longest = 1.1 * max(max(row["seconds"], row["computed_seconds"]) for row in measured["confirmed"])
    axes.plot((0, longest), (0, longest), ":", color=GREY)
    axes.set_title("2 real ranks, a throttled pipe", fontsize=8)
    axes.set_xlabel("seconds, simulated")
    axes.set_ylabel("seconds, measured")
    save(figure, os.path.join(folder, "distributed_link.svg"), "A save against the bandwidth of a rank",
         "Dots: 0.2 GB/s. Squares: 1 GB/s, one encoder 4 times slower. " + caption(measured))


# ---- parallel HDF5 ----

def draw_hdf5(folder, measured):
    """Speeds of writing and reading by layout and ranks, and the CPU time of a write."""
    rows = [row for row in measured["rows"] if row["dtype"] == "BF16"]
    ways = list(dict.fromkeys(row["way"] for row in rows))[::-1]
    figure, panels = pyplot.subplots(1, 3, figsize=(8.3, 4.6), gridspec_kw={"width_ratios": (2, 2, 2)})
    counts = sorted({row["ranks"] for row in rows})
    for axes, what in zip(panels, ("write", "read")):
        for place, (count, colour) in enumerate(zip(counts, (BLUE, RED, PURPLE))):
            speeds = {row["way"]: row[f"{what}_GiB_s"] for row in rows if row["ranks"] == count}
            height = 0.8 / len(counts)
            axes.barh([i + 0.4 - (place + 0.5) * height for i in range(len(ways))], [speeds[way] for way in ways],
                      height, color=colour, label=f"{count} rank{'s' if count > 1 else ''}")
        axes.set_yticks(range(len(ways)), ways if what == "write" else [], fontsize=7)
        axes.grid(False, axis="y")
        axes.set_xlabel(f"{what}, GiB/s")
    panels[1].legend(fontsize=7)
    profiled = measured["profile"][::-1]
    left = [0.0] * len(profiled)
    for part, (colour, label) in PARTS.items():
        widths = [row[part] / 1000 for row in profiled]
        panels[2].barh(range(len(profiled)), widths, 0.7, left, color=colour, label=label)
        left = [begin + width for begin, width in zip(left, widths)]
    panels[2].set_yticks(range(len(profiled)), [f"{row['way'].replace('LMC, ', '')}, {row['ranks']}"
                                                for row in profiled], fontsize=7)
    panels[2].grid(False, axis="y")
    panels[2].set_xlabel("CPU s a GiB of a write")
    panels[2].legend(fontsize=7)
    save(figure, os.path.join(folder, "distributed_hdf5.svg"), "Ranks of MPI write and read one dataset of bf16",
         f"HDF5 {measured['hdf5']}, {measured['mpi']}. {measured['machine']}, {measured['core_count']} cores")


if __name__ == "__main__":
    draw_all(__doc__, (draw_ranks, "scale"), (draw_link, "scale"), (draw_hdf5, "h5_parallel"))
