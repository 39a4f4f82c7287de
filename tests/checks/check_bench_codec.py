"""The programs of bench/codec, bench/delta and bench/tool run on small sizes, their keys are as bench/README.md
documents them, draw.py makes its pictures of their numbers, and wrong round trips are noticed. Speeds are not
judged."""

import json
import os
import re
import shutil
import sys
import tempfile

from bench_build import compile_bench, draws
from tree import run

TINY = ["--pass-mib", "1", "--peer-mib", "1", "--repeats", "1"]
PICTURES = {"bench_levels.svg", "bench_sizes.svg", "bench_growth.svg", "h5_bench.svg"}
WRONG_DELTA = "codec/huffman", "dst[at++] = (uint8_t)(symbol - 1)", "dst[at++] = (uint8_t)symbol"
WRONG_BARE = ("codec/select", "(void)data, (void)nbytes, (void)seed;\n    return 0;",
              "static uint64_t calls;\n    (void)data, (void)nbytes, (void)seed;\n    return ++calls;")


def documented_keys(tree):
    """For each kind of row in bench/README.md its keys; the heads of the files by the names of the files."""
    keys = {}
    for line in tree.lines("bench/README.md"):
        head = re.match(r"`(\w+\.json)`: (.*)", line)
        row = re.match(r"\| ((?:`\w+` ?)+|all) \| (.*) \|$", line)
        if head:
            keys[head.group(1)] = set(re.findall(r"`(\w+)`", head.group(2)))
        elif row:
            for what in re.findall(r"\w+", row.group(1)):
                keys[what] = set(re.findall(r"`(\w+)`", row.group(2)))
    for what in ("tensor", "delta"):
        keys[what] = keys[what] - {"peer"} | keys["peer"]
    return {what: found | (keys["all"] if what in ("peer", "tensor", "delta", "range") else set())
            for what, found in keys.items()}


def measure(keys, report, *command):
    """Runs a program that writes `report`."""
    status, output = run(*command, "--json", report)
    if status != 0:
        yield f"{' '.join(command)}: exit status {status}: {output.strip()[-300:]}"
        return
    with open(report, encoding="ascii") as file:
        measured = json.load(file)
    name = os.path.basename(report)
    if set(measured) != keys[name] or not measured["rows"]:
        yield f"bench/README.md: {name}: keys {sorted(set(measured) ^ keys[name])}"
    for row in measured["rows"]:
        if set(row) != keys.get(row["what"]):
            yield f"bench/README.md: row {row['what']}: keys {sorted(set(row) ^ keys.get(row['what'], set()))}"
            return
        if any(value <= 0 for key, value in row.items() if key.endswith(("_us", "_GiB_s", "seconds", "_nbytes"))):
            yield f"bench: nothing measured: {row}"


def check_runs(tree, folder):
    build, keys = os.path.join(folder, "build"), documented_keys(tree)
    for program in ("lmc-bench", "lmc-bench-model", "lmc-bench-run", "lmc-bench-delta"):
        fault = compile_bench(tree, build, program)
        if fault:
            yield fault
            return
    bench, report = os.path.join(build, "bench", "lmc-bench"), os.path.join(folder, "bench.json")
    yield from measure(keys, report, bench, *TINY, "--matrix", "quick", "--max-mib", "1", "--dtype", "bf16")
    for name in ("tensors", "peers"):
        shutil.copy(report, os.path.join(folder, name + ".json"))
    if run(bench, "--set", "mmx")[0] != 2:
        yield "lmc-bench --set mmx: no wrong usage"
    yield from measure(keys, os.path.join(folder, "growth.json"), sys.executable, tree.path("bench/tool/growth.py"),
                       build, os.path.join(folder, "place"), "--rounds", "1", "--gib-max", "0.004", "--count-max", "10")
    pair = [tree.path(f"examples/data/step{step}.bf16.safetensors") for step in ("03000", "03010")]
    status, output = run(sys.executable, tree.path("bench/delta/delta.py"), build, "--mib", "1", "--rounds", "1", *pair)
    if status != 0 or "lmc default" not in output:
        yield f"bench/delta/delta.py: exit status {status}: {output.strip()[-300:]}"
    entries = [{"file": name, "dtype": "F32", "codec": codec, "ratio": 0.5, "read_gib": 2, "write_gib": 1}
               for name in ("model", "optim") for codec in ("none", "LMC default")]
    with open(os.path.join(folder, "h5.json"), "w", encoding="utf-8") as file:
        json.dump({"machine": "CPU", "chunk_kib": 64, "results": entries}, file)
    yield from draws(tree, "bench/plots/draw.py", folder, PICTURES)


def check_wrong(tree, folder, program, wrong, *options):
    """A program with a fault says that a round trip failed."""
    build = os.path.join(folder, "wrong-" + program)
    fault = compile_bench(tree, build, program, wrong)
    status, output = (1, fault) if fault else run(os.path.join(build, "bench", program), *options)
    if status != 1 or "round trip failed" not in output:
        yield f"{program}: a wrong round trip is not noticed: exit status {status}: {output.strip()[-300:]}"


def check(tree):
    with tempfile.TemporaryDirectory(prefix="lmc-check-bench-") as folder:
        yield from check_wrong(tree, folder, "lmc-bench-delta", WRONG_DELTA, "--mib", "1", "--rounds", "1", "--only",
                               "peers", "--synthetic", "bf16")
        yield from check_wrong(tree, folder, "lmc-bench", WRONG_BARE, *TINY, "--kib", "1", "--set", "scalar")
        yield from check_runs(tree, folder)
