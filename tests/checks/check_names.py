"""No two files have one name below the folders that are listed here, so that a name says which file is meant: in a
message of a debugger, in a comment, in a talk about the code."""

import os

FOLDERS = ["codec", "common", "python", "safetensors"]
IN_EVERY_FOLDER = {"README.md", "CMakeLists.txt", "__init__.py"}


def check(tree):
    seen = {}
    for path in tree.files(under=FOLDERS):
        name = os.path.basename(path)
        if name in IN_EVERY_FOLDER:
            continue
        if name in seen:
            yield f"{path}: {seen[name]} has the same name"
        seen.setdefault(name, path)
