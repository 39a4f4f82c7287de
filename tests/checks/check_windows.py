"""liblmc, and the side of os/ for Windows, compile without a warning with MinGW's cross compiler. Nothing of it is run
here: this keeps what POSIX alone has out of codec/, and what is in os/windows/ a program."""

import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor

from tree import Skip, run

COMPILER = "x86_64-w64-mingw32-gcc"
FLAGS = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-DLMC_BUILDING", "-Wall", "-Wextra", "-Werror", "-O2", "-c", "-o",
         os.devnull]


def xxhash_header():
    """Where this machine has it: it is all of its library, and of no machine in particular."""
    _, output = run("gcc", "-E", "-M", "-x", "c", "-", input="#include <xxhash.h>\n")
    return next((word for word in output.split() if os.path.basename(word) == "xxhash.h"), None)


def check(tree):
    header = xxhash_header()
    if not shutil.which(COMPILER):
        raise Skip(f"{COMPILER} is not installed (Debian: gcc-mingw-w64-x86-64)")
    if header is None:
        raise Skip("there is no xxhash.h")
    with tempfile.TemporaryDirectory() as headers:
        shutil.copy(header, headers)
        includes = [f"-I{tree.path('include')}", f"-I{tree.path('.')}", "-isystem", headers]
        paths = tree.files(".c", under=["codec", "os/windows"])
        with ThreadPoolExecutor(int(os.environ.get("LMC_JOBS", os.cpu_count()))) as pool:
            found = pool.map(lambda path: run(COMPILER, *FLAGS, *includes, tree.path(path)), paths)
            for path, (status, output) in zip(paths, found):
                if status != 0:
                    lines = [line for line in output.splitlines() if "error" in line]
                    yield f"{path}: {(lines or [output])[0]}"
