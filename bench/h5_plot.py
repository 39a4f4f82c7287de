#!/usr/bin/env python3
"""h5_plot.py RESULTS.json OUT.svg - draws what h5_bench.py measured: for each data set the ratio of each filter
against its speed of writing and of reading."""
import json
import math
import sys

PANEL_WIDTH, PANEL_HEIGHT = 460, 250
LEFT, TOP, GAP = 62, 74, 84  # room for numbers and titles around and between panels
MARK = 4
FONT = 11
CHARACTER = {"normal": 6.2, "bold": 7.2}  # width of one, about
COLOURS = {"LMC": "#c2410c", "none": "#6b7280", "other": "#1d4ed8"}
TICKS = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10]


def kind(codec):
    return "LMC" if codec.startswith("LMC") else "none" if codec == "none" else "other"


def text(x, y, content, anchor="start", colour="#374151", size=FONT, weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}" '
            f'font-weight="{weight}">{content}</text>')


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


class Panel:
    """One diagram: its place, its scales, and what is taken in it."""

    def __init__(self, left, top, entries, what, ratios, speeds):
        self.left, self.top = left, top
        self.entries, self.what = entries, what
        self.ratios, self.speeds = ratios, speeds
        self.taken = []

    def x(self, ratio):
        low, high = self.ratios
        return self.left + (ratio - low) / (high - low) * PANEL_WIDTH

    def y(self, speed):
        low, high = (math.log(s) for s in self.speeds)
        return self.top + (1 - (math.log(speed) - low) / (high - low)) * PANEL_HEIGHT

    def frame(self, title):
        bottom = self.top + PANEL_HEIGHT
        yield text(self.left, self.top - 10, title, size=13, weight="bold", colour="#111827")
        yield (f'<rect x="{self.left}" y="{self.top}" width="{PANEL_WIDTH}" height="{PANEL_HEIGHT}" fill="none" '
               'stroke="#9ca3af"/>')
        for speed in TICKS:
            if self.speeds[0] <= speed <= self.speeds[1]:
                y = self.y(speed)
                yield f'<path d="M{self.left} {y:.1f}h{PANEL_WIDTH}" stroke="#e5e7eb"/>'
                yield text(self.left - 6, y + 4, f"{speed:g}", "end")
        for step in range(math.ceil(self.ratios[0] * 20), math.floor(min(self.ratios[1], 1) * 20) + 1):
            x = self.x(step / 20)
            yield f'<path d="M{x:.1f} {self.top}v{PANEL_HEIGHT}" stroke="#e5e7eb"/>'
            yield text(x, bottom + 15, f"{step / 20:.2f}", "middle")
        yield text(self.left + PANEL_WIDTH / 2, bottom + 31, "stored / original", "middle")

    def place(self, x, y, width):
        """A place for a label near a point where nothing is yet: x, y of its base line, and which end x is."""
        for distance in range(0, 120, 6):
            for anchor, dy in (("start", distance), ("end", distance), ("start", -distance), ("end", -distance)):
                left = x + 8 if anchor == "start" else x - 8 - width
                box = (left, y + dy + 4 - FONT, left + width, y + dy + 7)
                inside = (box[0] > self.left and box[2] < self.left + PANEL_WIDTH and box[1] > self.top and
                          box[3] < self.top + PANEL_HEIGHT)
                if inside and not any(overlap(box, other) for other in self.taken):
                    self.taken.append(box)
                    return (x + 8 if anchor == "start" else x - 8), y + dy + 4, anchor
        return x + 8, y + 4, "start"

    def points(self):
        places = []
        for entry in self.entries:
            x, y = self.x(entry["ratio"]), self.y(entry[f"{self.what}_gib"])
            places.append((entry["codec"], x, y))
            self.taken.append((x - MARK, y - MARK, x + MARK, y + MARK))
        for codec, x, y in places:
            colour = COLOURS[kind(codec)]
            weight = "bold" if kind(codec) == "LMC" else "normal"
            label_x, label_y, anchor = self.place(x, y, CHARACTER[weight] * len(codec))
            if abs(label_y - 4 - y) > 8:
                yield (f'<path d="M{x:.1f} {y:.1f}L{label_x:.1f} {label_y - 4:.1f}" stroke="{colour}" '
                       'stroke-width="0.6"/>')
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{MARK}" fill="{colour}"/>'
            yield text(label_x, label_y, codec, anchor, colour, weight=weight)


def draw(measured):
    sets = {}
    for entry in measured["results"]:
        sets.setdefault((entry["file"], entry["dtype"]), []).append(entry)
    speeds = [e[key] for e in measured["results"] for key in ("write_gib", "read_gib")]
    speeds = min(speeds) / 1.4, max(speeds) * 1.4
    width = LEFT + 2 * PANEL_WIDTH + GAP + 20
    height = TOP + len(sets) * (PANEL_HEIGHT + GAP) - GAP + 50
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
           'font-family="sans-serif">')
    yield f'<rect width="{width}" height="{height}" fill="white"/>'
    yield text(LEFT, 24, f"HDF5 filters through h5py, chunks of {measured['chunk_kib']} KiB, one thread: GiB/s against "
               "ratio (upper left is best)", size=14, weight="bold", colour="#111827")
    yield text(LEFT, 42, measured["machine"].replace("&", "&amp;"))
    for row, ((name, dtype), entries) in enumerate(sets.items()):
        found = [entry["ratio"] for entry in entries]
        span = max(found) - min(found)
        ratios = min(found) - 0.5 * span, max(found) + 0.2 * span  # room for labels on the left
        for column, what in enumerate(("write", "read")):
            panel = Panel(LEFT + column * (PANEL_WIDTH + GAP), TOP + row * (PANEL_HEIGHT + GAP), entries, what, ratios,
                          speeds)
            yield from panel.frame(f"{what}: {name} ({dtype})")
            yield from panel.points()
    yield "</svg>"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="ascii") as file:
        measured = json.load(file)
    with open(sys.argv[2], "w", encoding="ascii") as file:
        file.write("\n".join(draw(measured)) + "\n")


if __name__ == "__main__":
    main()
