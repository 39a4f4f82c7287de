"""No two files have one name below the folders that are listed here, so that a name says which file is meant: in a
message of a debugger, in a comment, in a talk about the code. Include guards are made of the header's path."""

import os
import re

FOLDERS = ["codec", "common", "python", "safetensors"]
IN_EVERY_FOLDER = {"README.md", "CMakeLists.txt", "__init__.py"}
GUARDED = ["bench", "codec", "common", "filter", "gpu", "os", "safetensors", "tool"]


def check_guard(tree, path):
    guard = "LMC_" + re.sub(r"\W", "_", path).upper()
    if f"\n#ifndef {guard}\n#define {guard}\n" not in tree.text(path):
        yield f"{path}: its include guard is not {guard}"


def check(tree):
    seen = {}
    for path in tree.files(under=FOLDERS):
        name = os.path.basename(path)
        if name in IN_EVERY_FOLDER:
            continue
        if name in seen:
            yield f"{path}: {seen[name]} has the same name"
        seen.setdefault(name, path)
    for path in tree.files(".h", ".cuh", under=GUARDED):
        yield from check_guard(tree, path)
