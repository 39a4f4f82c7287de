#!/usr/bin/env python3
"""rooms.py [FOLDER...] - how large functions and files of the C sources are: a table of files, lines, functions, the
longest function, the share of statics that are called once and not used otherwise, and the median of the .c files. A
function that is passed to another one, as qsort() and visitors take it, has its reason. Share and median leave
codec/kernels/ out, where macros make the names of functions."""
import os
import re
import statistics
import sys

FOLDERS = ["common", "os", "codec", "safetensors", "tool", "filter", "gpu"]
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
HEAD = re.compile(r"(?:[A-Za-z_][\w\s*]*?[\s*])([a-z_]\w*)\s*\(", re.S)
KERNELS = "codec/kernels/"
NOT_A_NAME = {"if", "for", "while", "switch", "return", "sizeof", "defined"}


def blanked(text):
    """The text without comments, strings and preprocessor lines; line breaks stay."""
    text = TOKEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m.group()), text,
                  flags=re.M | re.S)


def functions(text):
    """(name, is static, lines) of each function defined in blanked text, whose body begins on a line of its own."""
    for opening in re.finditer(r"^\{$", text, re.M):
        start = max(text.rfind(mark, 0, opening.start()) for mark in (";", "}")) + 1
        head = HEAD.search(text, start, opening.start())
        end = re.compile(r"^\}", re.M).search(text, opening.end())
        if not head or not end or head.group(1) in NOT_A_NAME or "=" in text[start:head.start(1)]:
            continue
        first = text.count("\n", 0, len(text[:start]) + len(text[start:]) - len(text[start:].lstrip()))
        is_static = re.search(r"\b(static)\b", text[start:head.start(1)]) is not None
        yield head.group(1), is_static, text.count("\n", 0, end.start()) - first + 1


def measure(tree, folder):
    sources = {path: tree.text(path) for path in tree.files(".c", ".h", under=(folder,))}
    plain = {path: TOKEN.sub(" ", text) for path, text in sources.items()}
    statics = once = count = 0
    longest = (0, "")
    for path, text in sources.items():
        for name, is_static, lines in functions(blanked(text)):
            count += 1
            longest = max(longest, (lines, f"{path}: {name}"))
            if is_static and KERNELS not in path:
                where = [plain[path]] if path.endswith(".c") else plain.values()
                statics += 1
                used = [rest for t in where for rest in re.findall(rf"\b{name}\b(\s*.)", t, re.S)]
                once += len(used) == 2 and all(rest.endswith("(") for rest in used)
    lengths = [text.count("\n") for path, text in sources.items() if path.endswith(".c") and KERNELS not in path]
    return {"files": len(sources), "lines": sum(text.count("\n") for text in sources.values()), "functions": count,
            "longest": longest[0], "where": longest[1], "statics": statics, "once": once,
            "median": int(statistics.median(lengths)) if lengths else 0}


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from tree import Tree
    root = Tree(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), None)
    print("folder        files   lines  functions  longest  called once  share  median")
    for name in sys.argv[1:] or FOLDERS:
        m = measure(root, name)
        print("%-12s %6d %7d %10d %8d %12s %5d%% %7d" % (name, m["files"], m["lines"], m["functions"], m["longest"],
              "%d/%d" % (m["once"], m["statics"]), 100 * m["once"] / max(1, m["statics"]), m["median"]))
