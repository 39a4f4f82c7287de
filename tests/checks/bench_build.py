"""bench_build.py - programs of bench/ for the checks, in a folder that the scripts of bench/ take for a build, and
pictures of their numbers."""

import os
import re

from tree import Skip, run


def sources_of(tree, program):
    """The sources of a program, as bench/CMakeLists.txt lists them, without their suffix."""
    listed = re.search(rf"add_executable\({program}\s([^)]*)\)", tree.text("bench/CMakeLists.txt")).group(1)
    return [name[:-len(".c")] for name in listed.split()]


def compile_bench(tree, folder, program, changed=None):
    """Compiles a program; `changed` (name, old, new) replaces text of a source. Returns a fault, or None."""
    os.makedirs(os.path.join(folder, "bench"), exist_ok=True)
    link = os.path.join(folder, "tool")
    if not os.path.exists(link):
        os.symlink(os.path.join(tree.build, "tool"), link)
    names = sources_of(tree, program)
    sources = [tree.path(f"bench/{name}.c") for name in names]
    if changed:
        name, old, new = changed
        text = tree.text(f"bench/{name}.c")
        if text.count(old) != 1:
            return f"bench/{name}.c: not there once: {old}"
        copy = os.path.join(folder, os.path.basename(name) + ".c")
        sources[names.index(name)] = copy
        with open(copy, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))
    includes = [f"-I{tree.path(name)}" for name in ("include", ".")]
    status, output = run("cc", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O1", "-o",
                         os.path.join(folder, "bench", program), *includes, *sources,
                         os.path.join(tree.build, "safetensors", "liblmc_st.a"),
                         os.path.join(tree.build, "codec", "liblmc.a"),
                         *"-lcjson -lsqlite3 -lzstd -lbz2 -lm -lpthread".split())
    return None if status == 0 else f"bench/{names[0]}.c: {output.strip().splitlines()[-1]}"


def draws(tree, script, folder, wanted):
    """Faults of a program that draws these pictures of the numbers in a folder."""
    if run("/usr/bin/python3", "-c", "import matplotlib")[0] != 0:
        raise Skip("no pictures: no matplotlib (Debian: python3-matplotlib)")
    place = os.path.join(folder, "pictures-" + os.path.basename(script))
    os.mkdir(place)
    status, output = run("/usr/bin/python3", tree.path(script), folder, place)
    if status != 0 or set(os.listdir(place)) != wanted:
        yield f"{script}: exit status {status}: {output.strip()[-300:]}, pictures {sorted(os.listdir(place))}"
