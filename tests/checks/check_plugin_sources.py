"""filter/sources.txt, for programs that build the HDF5 plugin without CMake, lists the files that CMake builds it from,
its macros and the filter's number."""

import re

LIST = "filter/sources.txt"
TARGETS = [("codec", "lmc_objects"), ("filter", "lmc_h5_objects"), ("filter", "h5lmc_objects")]
WORDS = {"include", "define", "compile", "link", "source"}


def built_from(tree):
    for folder, target in TARGETS:
        text = tree.text(f"{folder}/CMakeLists.txt")
        for name in re.search(rf"add_library\({target} OBJECT\s+([^)]*)\)", text).group(1).split():
            yield f"{folder}/{name}"


def check(tree):
    lines = [line.split() for line in tree.lines(LIST) if line.strip() and not line.startswith("#")]
    for line in lines:
        if len(line) != 2 or line[0] not in WORDS:
            yield f"{LIST}: cannot be read: {' '.join(line)}"
            return
    sources = [value for word, value in lines if word == "source"]
    wanted = list(built_from(tree))
    for path in sorted(set(sources) ^ set(wanted)):
        yield f"{LIST}: {'has' if path in sources else 'lacks'} {path}, unlike CMakeLists.txt"
    if len(sources) != len(set(sources)):
        yield f"{LIST}: has a file twice"
    number = re.search(r"set\(LMC_H5_FILTER_ID (\d+)", tree.text("filter/CMakeLists.txt")).group(1)
    if ["define", f"LMC_H5_FILTER_ID={number}"] not in lines:
        yield f"{LIST}: the filter's number is not {number}"
