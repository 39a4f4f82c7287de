"""Every C file compiles without a warning with clang, and the headers with a C++ compiler. The build holds gcc to that
(LMC_WERROR), but for bench/ and python/, which gcc compiles here.

clang finds faults before it optimises, but for what it says of loops that it was told to unroll; such are in kernels
only.
"""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

from tree import run

FLAGS = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", "-c", "-o", os.devnull]
INCLUDES = [".", "include", "tests/support"]


def hdf5_flags():
    """Debian has the serial library under a name of its own."""
    for name in ("hdf5-serial", "hdf5"):
        status, output = run("pkg-config", "--cflags", name)
        if status == 0:
            return output.replace("-I", "-isystem ").split()
    return []


def commands(tree):
    flags = FLAGS + [f"-I{tree.path(folder)}" for folder in INCLUDES]
    flags += run("pkg-config", "--cflags", "libcjson", "libzstd", "sqlite3")[1].split() + hdf5_flags()
    flags += [f'-DLMC_TESTS_DIR="{tree.path("tests")}"',
              '-DLMC_H5_PLUGIN="p"', '-DLMC_PLUGIN_DIR_FROM_BIN="a"', '-DLMC_PLUGIN_DIR_FROM_BUILD="b"',
              '-DPLUGIN_NAME="d"',
              '-DLMC_FAKE_CUDA="c"', '-DLMC_CUDA_NO_KERNELS="n"']
    for path in tree.files(".c"):
        if path.startswith(("os/windows/", "tests/python/windows/")):
            continue  # check_windows.py, and the tests there, compile these
        yield ["clang", "-O3" if path.startswith("codec/kernels/") else "-fsyntax-only", *flags, tree.path(path)]
    for path in tree.files(".c", under=["bench", "python"]):
        yield ["gcc", "-O1", *flags, tree.path(path)]
    for path in tree.files(".h", under=["include"]):
        for compiler, language in (("gcc", "c"), ("gcc", "c++"), ("clang", "c"), ("clang", "c++")):
            standard = "-std=c++11" if language == "c++" else "-std=c99"
            yield [compiler, "-x", language, standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only",
                   "-Wno-pragma-once-outside-header", tree.path(path)]
    for compiler in ("g++", "clang++"):
        for standard in ("-std=c++11", "-std=c++20"):
            yield [compiler, standard, "-Wall", "-Wextra", "-Wshadow", "-pedantic", "-Werror", "-fsyntax-only",
                   f"-I{tree.path('include')}", tree.path("tests/package/user_cxx.cc")]
        # the oldest C++ has no other form of LMC_INIT()
        yield [compiler, "-std=c++98", "-Wall", "-Werror", "-fsyntax-only", "-x", "c++", tree.path("include/lmc_st.h")]


def check(tree):
    for compiler in ("gcc", "clang"):
        if not shutil.which(compiler):
            yield f"{compiler}: not installed"
            return
    wanted = list(commands(tree))
    with ThreadPoolExecutor(int(os.environ.get("LMC_JOBS", os.cpu_count()))) as pool:
        for command, (status, output) in zip(wanted, pool.map(lambda c: run(*c), wanted)):
            if status != 0:
                lines = [line for line in output.splitlines() if "error" in line or "warning" in line]
                yield f"{command[0]}: {os.path.relpath(command[-1], tree.root)}: {(lines or [output])[0]}"
