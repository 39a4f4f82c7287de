"""bench_build.py - programs of bench/ for the checks, in a folder that the scripts of bench/ take for a build."""

import os

from tree import run

PROGRAMS = {
    "lmc-bench": "bench_main bench_options bench_report bench_lmc bench_range bench_peers bench_data bench_synth "
                 "bench_select",
    "lmc-bench-delta": "delta_main delta_pair delta_methods delta_lists delta_huffman bench_data bench_synth",
    "lmc-bench-model": "make_model bench_synth",
    "lmc-bench-run": "run_command",
}


def compile_bench(tree, folder, program, changed=None):
    """Compiles a program; `changed` (name, old, new) replaces text of a source. Returns a fault, or None."""
    os.makedirs(os.path.join(folder, "bench"), exist_ok=True)
    link = os.path.join(folder, "tool")
    if not os.path.exists(link):
        os.symlink(os.path.join(tree.build, "tool"), link)
    names = PROGRAMS[program].split()
    sources = [tree.path(f"bench/{name}.c") for name in names]
    if changed:
        name, old, new = changed
        text = tree.text(f"bench/{name}.c")
        if text.count(old) != 1:
            return f"bench/{name}.c: not there once: {old}"
        sources[names.index(name)] = os.path.join(folder, f"{name}.c")
        with open(os.path.join(folder, f"{name}.c"), "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))
    includes = [f"-I{tree.path(name)}" for name in ("include", "bench", ".")]
    status, output = run("cc", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O1", "-o",
                         os.path.join(folder, "bench", program), *includes, *sources,
                         os.path.join(tree.build, "safetensors", "liblmc_st.a"),
                         os.path.join(tree.build, "codec", "liblmc.a"), *"-lcjson -lzstd -lbz2 -lm -lpthread".split())
    return None if status == 0 else f"bench/{names[0]}.c: {output.strip().splitlines()[-1]}"
