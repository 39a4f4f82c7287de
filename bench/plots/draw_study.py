"""draw_study.py - the pictures of docs/study.md, from the numbers of bench/study/study.py and bench/checkpoint.py.

    /usr/bin/python3 bench/plots/draw_study.py NUMBERS PICTURES

NUMBERS is a folder with study.json and checkpoint.json. Each picture whose numbers are there goes to the folder
PICTURES. Equal numbers give equal bytes. Needs matplotlib.
"""

import os

from draw import BLUE, GREEN, GREY, PURPLE, RED, draw_all, label_points, origin, pyplot, save
from matplotlib.ticker import FuncFormatter

KINDS = {"weights.bf16": ("weights, bf16", RED), "weights.f32": ("weights, f32", BLUE), "adam_m": ("Adam's m", GREEN),
         "adam_v": ("Adam's v", PURPLE), "gradients": ("gradients", GREY)}
MODELS = {"gpt": "transformer", "conv": "convolutions"}
PHASES = {"peak": "o-", "middle": "s--", "late": "^-.", "fine-tuning": "D:"}
FORMS = {"plain": (GREY, "plain bytes"), "groups": (BLUE, "byte groups"), "XOR groups": (PURPLE, "XOR, byte groups")}


def rows_of(study, model, what, **wanted):
    return [row for row in study["rows"] if row["model"] == model and row["what"] == what and
            all(row[key] == value for key, value in wanted.items())]


def plain_number(axis):
    axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))


# ---- along the training ----

def draw_evolution(folder, study):
    """Ratio of each snapshot alone, and the entropies of the weights; below, the learning rate."""
    figure, panels = pyplot.subplots(3, 2, figsize=(8.3, 7), sharex="col", sharey="row",
                                     gridspec_kw={"height_ratios": (3, 3, 1)})
    for column, model in enumerate(study["models"]):
        name, axes = model["name"], panels[:, column]
        for kind, (label, colour) in KINDS.items():
            points = sorted((row["step"], row["ratio"]) for row in rows_of(study, name, "alone", kind=kind))
            axes[0].plot(*zip(*points), "o-", color=colour, label=label)
        weights = sorted(rows_of(study, name, "alone", kind="weights.f32"), key=lambda row: row["step"])
        for key, colour in (("exponent", RED), ("symbols", BLUE), ("sign", GREY)):
            axes[1].plot([row["step"] for row in weights], [row[key] for row in weights], "o-", color=colour, label=key)
        history = model["history"][::20] + model["history"][-1:]
        axes[2].plot([point["step"] for point in history], [point["rate"] for point in history],
                     color=GREY)
        for panel in axes:
            panel.axvline(model["end"], color=GREY, linestyle=":")
        axes[0].set_title(f"{MODELS[name]}, {model['parameters'] / 1e6:.1f} million parameters")
        axes[2].set_xlabel("step (dotted: fine-tuning begins)")
    panels[0][0].set_ylabel("stored / original")
    panels[1][0].set_ylabel("bits a value, weights in f32")
    panels[1][0].legend()
    panels[2][0].set_ylabel("learning rate")
    save(figure, os.path.join(folder, "study_evolution.svg"), "Snapshots alone, along the training",
         "LMC default. " + origin(study), panels[0][0])


# ---- against the distance ----

def draw_distance(folder, study):
    """Ratio of deltas against the number of steps between, and the share of values that changed."""
    figure, panels = pyplot.subplots(2, 2, figsize=(8.3, 6), sharex=True, sharey="row")
    for column, model in enumerate(study["models"]):
        for phase, style in PHASES.items():
            points = sorted((row["distance"], row["ratio"], row["changed"])
                            for row in rows_of(study, model["name"], "delta", kind="weights.bf16", phase=phase))
            if points:
                distances, ratios, changed = zip(*points)
                panels[0][column].plot(distances, ratios, style, color=RED, label=f"bf16, {phase}")
                panels[1][column].plot(distances, changed, style, color=RED, label=phase)
        for kind in ("weights.f32", "adam_m", "adam_v"):
            points = sorted((row["distance"], row["ratio"])
                            for row in rows_of(study, model["name"], "delta", kind=kind, phase="middle"))
            if points:
                panels[0][column].plot(*zip(*points), "s--", color=KINDS[kind][1], label=f"{KINDS[kind][0]}, middle")
        panels[0][column].set_title(MODELS[model["name"]])
        panels[1][column].set_xscale("log")
        panels[1][column].set_xlabel("steps between the snapshots")
        plain_number(panels[1][column].xaxis)
    panels[0][0].set_ylabel("stored / original")
    panels[1][0].set_ylabel("share of bf16 weights that changed")
    panels[0][1].legend(fontsize=7)
    for axes in panels.flat:
        axes.set_ylim(0, 1)
    save(figure, os.path.join(folder, "study_distance.svg"), "Snapshots against an earlier one",
         "LMC default with a base. " + origin(study))


# ---- engines ----

def draw_engines(folder, study):
    """Ratio against speed: weights in bf16, 10 steps apart."""
    figure, panels = pyplot.subplots(1, 2, figsize=(8.3, 5), sharex=True, sharey=True)
    for axes, model in zip(panels, study["models"]):
        rows = rows_of(study, model["name"], "engine", kind="weights.bf16", distance=10)
        for form, (colour, label) in FORMS.items():
            others = [row for row in rows if row["form"] == form and not row["engine"].startswith("LMC")]
            axes.plot([row["compress_MB_s"] for row in others], [row["ratio"] for row in others], "o", color=colour,
                      label=label)
        own = [row for row in rows if row["engine"] == "LMC default"]
        axes.plot([row["compress_MB_s"] for row in own], [row["ratio"] for row in own], "*", color=RED, markersize=10,
                  label="LMC default")
        points = [(row["compress_MB_s"], row["ratio"], row["engine"].replace("LMC default", f"LMC {row['form']}"))
                  for row in rows if row["form"] in ("groups", "XOR groups") or row["engine"] == "LMC default"]
        axes.set_xscale("log")
        plain_number(axes.xaxis)
        axes.set_xlabel("compress, MB/s (right is better)")
        axes.set_title(MODELS[model["name"]])
        axes.set_ylim(1.02, 0)
        label_points(axes, points, in_column=False)
    panels[0].set_ylabel("stored / original (up is better)")
    save(figure, os.path.join(folder, "study_engines.svg"), "Weights in bf16, ten steps after an earlier snapshot",
         "One thread. " + origin(study), panels[0])


# ---- a link ----

def draw_link(folder, measured):
    """Time until a snapshot is safe, against the speed of the link."""
    figure, axes = pyplot.subplots(figsize=(8.3, 4.2))
    threads = sorted({row["threads"] for row in measured["speeds"]})
    ways = [("raw", GREY, "-")]
    ways += [(f"{what} {count}", colour, style) for what, colour in (("key", BLUE), ("delta", RED))
             for count, style in zip(threads, ("--", "-", "-.", ":"))]
    names = {"raw": "raw", "key": "key frame", "delta": "delta"}
    links = [row["link_GB_s"] for row in measured["computed"]]
    for way, colour, style in ways:
        what, *count = way.split()
        label = names[what] + (f", {count[0]} thread{'s' if count[0] != '1' else ''}" if count else "")
        axes.plot(links, [row[way] for row in measured["computed"]], style, color=colour, label=label)
    for row in measured["confirmed"]:
        way = "raw" if row["what"] == "raw" else f"{row['what']} {row['threads']}"
        computed = next(there[way] for there in measured["computed"] if there["link_GB_s"] == row["link_GB_s"])
        axes.plot(row["link_GB_s"], computed * row["seconds"] / row["computed_seconds"], "o", markersize=6,
                  color={"raw": GREY, "key": BLUE, "delta": RED}[row["what"]])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(links)
    axes.minorticks_off()
    plain_number(axes.xaxis)
    plain_number(axes.yaxis)
    axes.set_xlabel("link, GB/s")
    axes.set_ylabel("seconds")
    axes.legend()
    save(figure, os.path.join(folder, "study_link.svg"), f"Until {measured['gb']:g} GB are safe behind a link",
         "Lines: computed from speeds. Dots: a throttled pipe, relative to what was computed for it. " +
         origin(measured))


if __name__ == "__main__":
    draw_all(__doc__, (draw_evolution, "study"), (draw_distance, "study"), (draw_engines, "study"),
             (draw_link, "checkpoint"))
