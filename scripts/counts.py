#!/usr/bin/env python3
"""Prints how large the project is, of the files that git knows, and what the parts of a run of the tests took.

    python3 scripts/counts.py [LOG]        LOG: what tests/run.sh printed
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CODE = (".c", ".h", ".py")


def lines_of(path):
    with open(os.path.join(ROOT, path), "rb") as file:
        return file.read().count(b"\n")


def print_sizes():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout.decode()
    paths = [path for path in listed.split("\0") if path and os.path.isfile(os.path.join(ROOT, path))]
    code = [path for path in paths if path.endswith(CODE) and not path.startswith("third_party/")]
    tests = [path for path in code if path.startswith("tests/")]
    print(f"{len(paths):7} files")
    print(f"{sum(map(lines_of, set(code) - set(tests))):7} lines of .c, .h and .py outside tests/ and third_party/")
    print(f"{sum(map(lines_of, tests)):7} lines of .c, .h and .py in tests/")
    for folder in sorted({path.split("/")[1] for path in tests if path.count("/") > 1}):
        print(f"{sum(lines_of(path) for path in tests if path.startswith(f'tests/{folder}/')):15} {folder}")


def print_seconds(log):
    """The line before the last: == 123 s: unit 40, cli 60"""
    with open(log, encoding="utf-8", errors="replace") as file:
        whole, parts = re.findall(r"^== (\d+) s: (.*)$", file.read(), re.M)[-1]
    print(f"{whole:>7} seconds of the tests")
    for name, seconds in sorted((part.split() for part in parts.split(", ")), key=lambda part: -int(part[1])):
        print(f"{seconds:>15} {name}")


if __name__ == "__main__":
    print_sizes()
    for log_path in sys.argv[1:]:
        print_seconds(log_path)
