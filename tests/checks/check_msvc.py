"""The public headers compile for MSVC, as C11 and C++11, without an extension of another compiler. The library exports
its calls there, and programs import them. clang stands in for MSVC; other compilers: check_warnings.py."""

import re
import shutil

from tree import Skip, run

TARGET = ["clang", "--target=x86_64-pc-windows-msvc", "-ffreestanding"]  # freestanding: without headers of Windows
STRICT = ["-fsyntax-only", "-pedantic-errors", "-Wall", "-Wextra", "-Werror"]
MARKS = [([], "dllimport"), (["-DLMC_BUILDING"], "dllexport"), (["-DLMC_STATIC"], None)]


def mark_of(tree, options):
    """The word in __declspec() in front of a call, or None."""
    _, output = run(*TARGET, *options, "-E", "-P", tree.path("include/lmc.h"))
    found = re.search(r"(?:__declspec\((\w+)\) )?const char \*lmc_version_text\(void\);", output)
    return found.group(1) if found else "unknown"


def check(tree):
    if not shutil.which("clang"):
        raise Skip("clang is not installed")
    for path in tree.files(".h", under=["include"]):
        for language, standard in (("c", "c11"), ("c++", "c++11")):
            status, output = run(*TARGET, f"-std={standard}", *STRICT, "-x", language, tree.path(path))
            if status != 0:
                yield f"{path}: as {standard}: {output.splitlines()[0]}"
    for options, wanted in MARKS:
        found = mark_of(tree, options)
        if found != wanted:
            yield f"include/lmc.h: LMC_API is {found} with {options or 'no macro'}, not {wanted}"
