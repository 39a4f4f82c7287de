"""filter/sources.txt, for programs that build the HDF5 plugin without CMake, lists the files that CMake builds it from,
and has the filter's number."""

import os
import re

from tree import Skip

LIST = "filter/sources.txt"
LINKED = ["filter/CMakeFiles/h5lmc.dir/link.txt", "codec/CMakeFiles/lmc_static.dir/link.txt"]
OBJECT = re.compile(r"\S*CMakeFiles/\w+\.dir/\S+\.c\.o\b")
WORDS = {"include", "define", "compile", "link", "source"}


def built_from(tree):
    """The sources of the objects that the build links: below FOLDER/CMakeFiles/TARGET.dir as in FOLDER, with "__" for
    ".."."""
    found = set()
    for name in LINKED:
        path = os.path.join(tree.build, name)
        if not os.path.exists(path):
            raise Skip("only builds by make tell what they link")
        with open(path, encoding="utf-8") as file:
            for target in OBJECT.findall(file.read()):
                full = os.path.normpath(os.path.join(tree.build, name.split("/")[0], target))
                path = re.sub(r"CMakeFiles/\w+\.dir/|\.o$", "", os.path.relpath(full, tree.build))
                found.add(re.sub(r"\w+/__/", "", path))
    return found


def check(tree):
    lines = [line.split() for line in tree.lines(LIST) if line.strip() and not line.startswith("#")]
    for line in lines:
        if len(line) != 2 or line[0] not in WORDS:
            yield f"{LIST}: cannot be read: {' '.join(line)}"
            return
    sources = [value for word, value in lines if word == "source"]
    if len(sources) != len(set(sources)):
        yield f"{LIST}: has a file twice"
    number = re.search(r"set\(LMC_H5_FILTER_ID (\d+)", tree.text("filter/CMakeLists.txt")).group(1)
    if ["define", f"LMC_H5_FILTER_ID={number}"] not in lines:
        yield f"{LIST}: the filter's number is not {number}"
    for path in sorted(built_from(tree) ^ set(sources)):
        yield f"{LIST}: {'has' if path in sources else 'lacks'} {path}, unlike the build"
