"""Functions are one thought and files are a subject (CONTRIBUTING.md, "Names, sizes, comments"): the counts of rooms.py
keep to these limits. A limit is lowered when a folder does better, and never raised."""

import rooms

FUNCTION_LINES_MAX = 60

# Folder: the share of statics named once (percent), the median of the .c files.
LIMITS = {"codec": (48, 180), "safetensors": (47, 220), "tool": (48, 190), "filter": (60, 130), "gpu": (73, 130)}


def check(tree):
    for folder, (share_max, median_min) in LIMITS.items():
        counts = rooms.measure(tree, folder)
        share = 100 * counts["once"] / counts["statics"]
        if counts["longest"] > FUNCTION_LINES_MAX:
            yield f"{counts['where']}: {counts['longest']} lines, at most {FUNCTION_LINES_MAX}"
        if share > share_max:
            yield f"{folder}/: {share:.1f} % of its statics are named once, at most {share_max} %"
        if counts["median"] < median_min:
            yield f"{folder}/: half of its .c files have fewer than {counts['median'] + 1} lines, at least {median_min}"
