"""Functions are one thought and files are a subject (CONTRIBUTING.md, "Names, sizes, comments"): the counts of rooms.py
keep to these limits. A limit is lowered when a folder does better, and never raised."""

import rooms

FUNCTION_LINES_MAX = 60

# Folder: the share of statics called once (percent), the median of the .c files.
LIMITS = {"os": (36, 40), "codec": (47, 180), "safetensors": (37, 220), "tool": (30, 190), "filter": (57, 130),
          "gpu": (68, 130)}


def check(tree):
    for folder, (share_max, median_min) in LIMITS.items():
        counts = rooms.measure(tree, folder)
        share = 100 * counts["once"] / counts["statics"]
        if counts["longest"] > FUNCTION_LINES_MAX:
            yield f"{counts['where']}: {counts['longest']} lines, at most {FUNCTION_LINES_MAX}"
        if share > share_max:
            yield f"{folder}/: {share:.1f} % of its statics are called once, at most {share_max} %"
        if counts["median"] < median_min:
            yield f"{folder}/: half of its .c files have fewer than {counts['median'] + 1} lines, at least {median_min}"
