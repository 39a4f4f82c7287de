"""The public headers compile for MSVC, as C11, C++11 and C++17, without an extension of another compiler. The library
exports its calls there, and programs import them: every call that a public header declares is marked for that, and
nothing else is. clang stands in for MSVC; other compilers: check_warnings.py."""

import re
import shutil

from check_interface import without_comments
from tree import Skip, run

TARGET = ["clang", "--target=x86_64-pc-windows-msvc", "-ffreestanding"]  # freestanding: without headers of Windows
STRICT = ["-fsyntax-only", "-pedantic-errors", "-Wall", "-Wextra", "-Werror"]
PLUGIN = "filter/plugin/filter.c"  # the two functions that HDF5 looks for
MARKS = [([], "dllimport"), (["-DLMC_BUILDING"], "dllexport"), (["-DLMC_STATIC"], None)]


def mark_of(tree, options):
    """The word in __declspec() in front of a call, or None."""
    _, output = run(*TARGET, *options, "-E", "-P", tree.path("include/lmc.h"))
    found = re.search(r"(?:__declspec\((\w+)\) )?const char \*lmc_version_text\(void\);", output)
    return found.group(1) if found else "unknown"


def declarations_of(text):
    """What a header declares outside of braces: without macros, types and bodies of inline functions."""
    text = re.sub(r"^[ \t]*#.*(\\\n.*)*", "", without_comments(text), flags=re.M)
    text = text.replace('extern "C" {', "")
    while True:
        shorter = re.sub(r"\{[^{}]*\}", ";", text)
        if shorter == text:
            return [part.strip() for part in text.split(";")]
        text = shorter


def check_marked(tree):
    for path in tree.files(".h", under=["include"]):
        for declaration in declarations_of(tree.text(path)):
            call = re.search(r"\b(lmc_\w+)\s*\(", declaration)
            if call and not re.match(r"typedef\b|static\b", declaration) and "LMC_API" not in declaration:
                yield f"{path}: {call.group(1)} is not marked LMC_API"
    for path in tree.files(".c", ".h"):
        if not path.startswith("include/") and path != PLUGIN and re.search(r"\bLMC_API\b", tree.text(path)):
            yield f"{path}: marks something as LMC_API that no public header declares"


def check(tree):
    yield from check_marked(tree)
    if not shutil.which("clang"):
        raise Skip("clang is not installed")
    for path in tree.files(".h", under=["include"]):
        for language, standard in (("c", "c11"), ("c++", "c++11"), ("c++", "c++17")):
            status, output = run(*TARGET, f"-std={standard}", *STRICT, "-x", language, tree.path(path))
            if status != 0:
                yield f"{path}: as {standard}: {output.splitlines()[0]}"
    for options, wanted in MARKS:
        found = mark_of(tree, options)
        if found != wanted:
            yield f"include/lmc.h: LMC_API is {found} with {options or 'no macro'}, not {wanted}"
