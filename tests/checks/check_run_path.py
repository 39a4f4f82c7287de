"""No program or library, built or installed, has an entry in its run path that is empty or relative. The loader looks
for either in the current directory, and would run what lies there."""

import os
import re
import tempfile

from tree import run

ELF = b"\x7fELF"
RELOCATABLE = {b"\x01\x00", b"\x00\x01"}  # an object, which has no run path, in either byte order
ENTRY = re.compile(r"/|\$ORIGIN(/|$)|\$\{ORIGIN\}(/|$)")


def elf_files(folder):
    for path, _, names in os.walk(folder):
        for name in names:
            whole = os.path.join(path, name)
            if os.path.islink(whole) or not os.path.isfile(whole):
                continue
            with open(whole, "rb") as file:
                head = file.read(18)
            if head[:4] == ELF and head[16:] not in RELOCATABLE:
                yield whole


def run_paths(path):
    """The run paths of an ELF file, each as its entries."""
    status, text = run("readelf", "-dW", path, env={**os.environ, "LC_ALL": "C"})
    if status != 0:
        raise RuntimeError(f"readelf {path}: {text}")
    return [value.split(":") for value in re.findall(r"\((?:RPATH|RUNPATH)\).*?\[(.*)\]", text)]


def faults(folder):
    """A line for each file below the folder that looks in the current directory; one if there is no file at all."""
    count = 0
    for path in elf_files(folder):
        count += 1
        for entries in run_paths(path):
            if not all(ENTRY.match(entry) for entry in entries):
                yield f"{os.path.relpath(path, folder)} has the run path {':'.join(entries)!r}"
    if count == 0:
        yield f"{folder} has no ELF file"


def check(tree):
    yield from faults(tree.build)
    with tempfile.TemporaryDirectory() as prefix:
        status, text = run("cmake", "--install", tree.build, "--prefix", prefix)
        if status != 0:
            yield f"cmake --install: {text}"
        else:
            yield from ("installed: " + fault for fault in faults(prefix))
