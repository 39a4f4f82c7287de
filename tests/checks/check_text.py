"""Text of the project: ASCII sources, no tabs or trailing blanks, bounded lines and files, no path of
anybody's machine."""

import re

SOURCES = (".c", ".h", ".cc", ".cu", ".cuh", ".py", ".sh", ".cmake", "CMakeLists.txt", ".in", ".awk")
TEXTS = SOURCES + (".md", ".tsv", ".clang-format", ".editorconfig", ".gitignore", ".ci/run")
LINE_MAX = 120
FILE_LINES_MAX = 600

# An absolute path below a folder that is not the same on every machine.
COMMON_ROOTS = "usr tmp var dev proc etc bin lib sys".split()
PATH = re.compile(r"(?:^|[\s(=:`]|(?<![\w}])(?<![A-Z] )[\"'])/([a-z]+)/[A-Za-z0-9_.-]+", re.M)


def check(tree):
    for path in tree.files(*TEXTS):
        data = tree.data(path)
        if path.endswith(SOURCES):
            for number, line in enumerate(data.split(b"\n"), 1):
                if not line.isascii():
                    yield f"{path}:{number}: not ASCII"
        text = data.decode("utf-8")
        if text and not text.endswith("\n"):
            yield f"{path}: no newline at the end"
        lines = text.splitlines()
        if path.endswith(SOURCES) and len(lines) > FILE_LINES_MAX:
            yield f"{path}: {len(lines)} lines, at most {FILE_LINES_MAX}"
        for number, line in enumerate(lines, 1):
            if not path.endswith(".tsv") and (line != line.rstrip() or "\t" in line or "\r" in line):
                yield f"{path}:{number}: tab or blank at the end"
            if len(line) > LINE_MAX and path.endswith(SOURCES):
                yield f"{path}:{number}: {len(line)} characters, at most {LINE_MAX}"
        for match in PATH.finditer(text):
            if match.group(1) not in COMMON_ROOTS:
                number = text.count("\n", 0, match.start(1)) + 1
                yield f"{path}:{number}: names a path of one machine: {match.group(0).strip()}"
