"""The layout of C is that of clang-format 14."""

import re
import shutil

from tree import Skip, run

FOLDERS = ["include", "common", "codec", "safetensors", "filter", "tool", "examples", "tests", "bench", "python",
           "gpu"]


def check(tree):
    version = re.search(r"version (\d+)", run("clang-format", "--version")[1]) if shutil.which("clang-format") else None
    if version is None or version.group(1) != "14":
        raise Skip(f"needs clang-format 14, found {version.group(1) if version else 'none'}")
    paths = tree.files(".c", ".h", ".cu", ".cuh", under=FOLDERS)
    status, output = run("clang-format", "--dry-run", "-Werror", *paths, cwd=tree.root)
    for path in sorted(set(re.findall(r"^(\S+?):\d+:\d+: error:", output, re.M))):
        yield f"{path}: clang-format -i would change it"
        status = 0
    if status != 0:
        yield output
