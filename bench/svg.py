"""svg.py - the little of SVG that the pictures of bench/ need: text, a card, panels with logarithmic axes, legends."""

import math

FONT = 12
DARK, PLAIN, PALE, GRID = "#111827", "#374151", "#6b7280", "#e5e7eb"


def escape(content):
    return content.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def text(x, y, content, anchor="start", colour=PLAIN, size=FONT, weight=None):
    anchor = "" if anchor == "start" else f' text-anchor="{anchor}"'
    size = "" if size == FONT else f' font-size="{size}"'
    weight = f' font-weight="{weight}"' if weight else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}"{anchor}{size}{weight}>{escape(content)}</text>'


def card(width, height, title, captions, content):
    """A whole picture: white, so that it can be read on any page; the captions stand at the bottom."""
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="{FONT}">',
             f'<rect width="{width}" height="{height}" rx="8" fill="white"/>',
             text(20, 30, title, size=16, weight="bold", colour=DARK), *content]
    for i, caption in enumerate(captions):
        lines.append(text(20, height - 12 - 16 * (len(captions) - 1 - i), caption, colour=PALE, size=11))
    return "\n".join([*lines, "</svg>"]) + "\n"


def mark(x, y, colour, is_open=False):
    fill = "white" if is_open else colour
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{fill}" stroke="{colour}" stroke-width="1.5"/>'


def path(points, colour, dash=None, width=1.8):
    steps = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="M{steps}" fill="none" stroke="{colour}" stroke-width="{width}"{dashes}/>'


def legend(x, y, entries):
    """Entries (name, colour, dash, mark: None, "full" or "open"), one beside the other."""
    for name, colour, dash, kind in entries:
        if kind is None or dash:
            yield path([(x, y - 4), (x + 26, y - 4)], colour, dash)
        if kind:
            yield mark(x + 13, y - 4, colour, kind == "open")
        yield text(x + 32, y, name)
        x += 32 + 7 * len(name) + 22


class Axis:
    """A logarithmic scale from pixel `begin` to pixel `end`, with ticks (value, label)."""

    def __init__(self, low, high, begin, end, ticks):
        self.low, self.high = math.log(low), math.log(high)
        self.begin, self.end = begin, end
        self.ticks = [(value, label) for value, label in ticks if low <= value <= high]

    def at(self, value):
        return self.begin + (math.log(value) - self.low) / (self.high - self.low) * (self.end - self.begin)


def decimal_ticks(label=lambda value: f"{value:g}", low=-6, high=7, steps=(1, 2, 5)):
    return [(step * 10.0 ** power, label(step * 10.0 ** power)) for power in range(low, high) for step in steps]


class Panel:
    """A diagram: frame, grid, titles. Axes may have no labels (None)."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def frame(self, title, x_title, y_title=None):
        left, right, top, bottom = self.x.begin, self.x.end, self.y.end, self.y.begin
        for value, label in self.x.ticks:
            x = self.x.at(value)
            yield f'<path d="M{x:.1f} {top}V{bottom}" stroke="{GRID}"/>'
            yield text(x, bottom + 16, label, "middle", size=11)
        for value, label in self.y.ticks:
            y = self.y.at(value)
            yield f'<path d="M{left} {y:.1f}H{right}" stroke="{GRID}"/>'
            yield text(left - 6, y + 4, label, "end", size=11)
        yield (f'<rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" fill="none" '
               'stroke="#9ca3af"/>')
        yield text(left, top - 9, title, size=13, weight="bold", colour=DARK)
        yield text((left + right) / 2, bottom + 33, x_title, "middle", colour=PALE)
        if y_title:
            yield text(right, top - 9, y_title, "end", colour=PALE)

    def line(self, points, colour, dash=None, is_open=False):
        places = [(self.x.at(x), self.y.at(y)) for x, y in sorted(points)]
        yield path(places, colour, dash)
        for x, y in places:
            yield mark(x, y, colour, is_open)
