"""The binary interface of each shared library is the one that tests/checks/interface/ keeps for this version: exported
calls, and size and offsets of every public struct. A change of either is seen as a change of that list,
and a list belongs to one version: what programs were built against does not change without it.

    python3 tests/checks/check_interface.py --build DIR     writes the lists again, after the version was raised

Within a major version a stable header keeps its calls, and the members of its structs keep their places: a list that
has lost something is not written.
"""

import argparse
import glob
import os
import re
import struct
import sys
import tempfile

from tree import Tree, run

LIBRARIES = [("liblmc.so", ["lmc.h", "lmc_experimental.h"]),
             ("liblmc_st.so", ["lmc_st.h", "lmc_st_experimental.h", "lmc_run.h", "lmc_store.h"]),
             ("liblmc_h5.so", ["lmc_h5.h"]), ("liblmc_cuda.so", ["lmc_cuda.h"])]
INSTALLED_STATIC = ["liblmc.a", "liblmc_h5.a", "liblmc_cuda.a"]
STABLE = ["lmc.h", "lmc_st.h", "lmc_h5.h"]
HEADERS = [header for _, headers in LIBRARIES for header in headers]
LISTS = "tests/checks/interface"


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def version_of(tree):
    return ".".join(re.search(r"project\(lmc VERSION (\d+)\.(\d+)", tree.text("CMakeLists.txt")).groups())


def calls_of(text):
    """The names of the calls that a header declares."""
    text = re.sub(r"^\s*#.*(\\\n.*)*", "", text, flags=re.M)
    return set(re.findall(r"\bLMC_API\b[^;()]*?\b(\w+)\s*\(", text))


def members_of(text):
    """Public structs: name -> names of members. A member may be an array or a pointer to a function."""
    found = {}
    for body, name in re.findall(r"^typedef struct \w+ \{\n(.*?)^\} (\w+);", text, re.M | re.S):
        members = []
        for declaration in body.split(";"):
            function = re.search(r"\(\*(\w+)\)\(", declaration)
            if function:
                members.append(function.group(1))
            else:
                members += re.findall(r"(\w+)\s*(?:\[[^\]]*\]\s*)?(?=,|$)", declaration.strip())
        found[name] = members
    return found


def layouts_of(tree, header, structs):
    """The lines "struct NAME SIZE" and "  MEMBER OFFSET", as the compiler has them."""
    lines = ["#include <stdio.h>", f'#include "{header}"', "int main(void) {"]
    for name, members in structs.items():
        lines.append(f'printf("struct {name} %zu\\n", sizeof({name}));')
        lines += [f'printf("  {member} %zu\\n", offsetof({name}, {member}));' for member in members]
    lines.append("return 0; }")
    with tempfile.TemporaryDirectory(prefix="lmc-check-") as folder:
        source, program = os.path.join(folder, "layout.c"), os.path.join(folder, "layout")
        with open(source, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        status, output = run("cc", "-std=c11", f"-I{tree.path('include')}", "-o", program, source)
        return run(program)[1] if status == 0 else output


def interface_of(tree, header):
    text = without_comments(tree.text(f"include/{header}"))
    calls = "".join(f"call {name}\n" for name in sorted(calls_of(text)))
    return f"version {version_of(tree)}\n{calls}{layouts_of(tree, header, members_of(text))}"


def exported_by(library):
    status, output = run("nm", "-D", "--defined-only", library)
    return {line.split()[-1].split("@")[0] for line in output.splitlines()} if status == 0 else set()


def check_exports(tree, library, headers):
    paths = glob.glob(os.path.join(tree.build, "**", library), recursive=True)
    if not paths:
        if library != "liblmc_cuda.so":  # a build may leave it out
            yield f"{library}: not found"
        return
    calls = set()
    for header in headers:
        calls |= calls_of(without_comments(tree.text(f"include/{header}")))
    declared = " or ".join(f"include/{header}" for header in headers)
    exported = exported_by(paths[0])
    for name in sorted(exported - calls):
        yield f"{name}: exported by {library}, but not declared in {declared}"
    for name in sorted(calls - exported):
        yield f"{name}: declared in {declared}, but not exported by {library}"


def check_static(tree, library):
    """Names of an installed static library are those of the program that links it: all begin with lmc_."""
    paths = glob.glob(os.path.join(tree.build, "**", library), recursive=True)
    if not paths:
        if library != "liblmc_cuda.a":  # a build may leave it out
            yield f"{library}: not found"
        return
    _, output = run("nm", "-g", "--defined-only", *paths)
    names = {line.split()[2] for line in output.splitlines() if len(line.split()) == 3}
    if not names:
        yield f"{library}: no names were found in it"
    for name in sorted(names):
        if not name.startswith("lmc_"):
            yield f"{name}: {library} defines it, but its name does not begin with lmc_"


def check_list(tree, header):
    name = f"{LISTS}/{header}.txt"
    kept = tree.text(name).splitlines() if tree.exists(name) else ["nothing"]
    found = interface_of(tree, header).splitlines()
    if kept[0] != found[0]:
        yield f"{name}: is of {kept[0]}, the project's is {found[0]}; tests/checks/check_interface.py writes it"
        return
    for line in sorted(set(kept) ^ set(found)):
        verb = 'has' if line in kept else 'lacks'
        yield f"{name}: {verb} `{line.strip()}`, unlike the header: raise the minor version"
    if kept != found and set(kept) == set(found):
        yield f"{name}: the order of members differs from the header's: raise the minor version"


def check_growth(tree, header):
    """struct_size comes first in every struct that has it."""
    for name, members in members_of(without_comments(tree.text(f"include/{header}"))).items():
        if "struct_size" in members[1:]:
            yield f"include/{header}: struct_size is not the first member of {name}"


def check(tree):
    for library, headers in LIBRARIES:
        yield from check_exports(tree, library, headers)
    for library in INSTALLED_STATIC:
        yield from check_static(tree, library)
    for header in HEADERS:
        yield from check_growth(tree, header)
        if struct.calcsize("P") == 8:  # the lists are of machines with 64 bits
            yield from check_list(tree, header)


def lost(kept, found):
    """The lines of a stable header's list that the next one lacks. A struct that begins with struct_size may grow."""
    growing = {line.split()[1] for line, member in zip(kept, kept[1:]) if member == "  struct_size 0"}
    for line in entries(kept) - entries(found):
        words = line.split()
        if not (words[0] == "struct" and words[1] in growing and len(words) == 3):
            yield line


def entries(lines):
    """The lines of a list without its version; those of a member with its struct before them."""
    found, of_struct = set(), ""
    for line in lines[1:]:
        if line.startswith("struct "):
            of_struct = "struct " + line.split()[1]
        found.add(of_struct + line if line.startswith("  ") else line)
    return found


def write_list(tree, header):
    name, text = f"{LISTS}/{header}.txt", interface_of(tree, header)
    kept, found = tree.text(name).splitlines() if tree.exists(name) else ["version 0.0"], text.splitlines()
    if header in STABLE and kept[0].split(".")[0] == found[0].split(".")[0]:
        missing = sorted(lost(kept, found))
        if missing:
            sys.exit(f"{name}: include/{header} no longer has `{missing[0]}`; that takes a new major version")
    with open(tree.path(name), "w", encoding="utf-8") as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser(description="writes the lists of the binary interface")
    parser.add_argument("--build", required=True, help="a build of the project")
    arguments = parser.parse_args()
    here = os.path.dirname(os.path.abspath(__file__))
    tree = Tree(os.path.dirname(os.path.dirname(here)), os.path.abspath(arguments.build))
    os.makedirs(tree.path(LISTS), exist_ok=True)
    for header in HEADERS:
        write_list(tree, header)


if __name__ == "__main__":
    main()
