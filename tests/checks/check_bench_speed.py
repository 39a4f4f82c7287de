"""lmc-bench and bench/tool/growth.py run on small sizes, and draw.py makes pictures of their numbers. Rows and keys are
as bench/README.md documents them. lmc-bench can leave out checksums. Speeds are not judged, but there are some."""

import json
import os
import re
import shutil
import sys
import tempfile

from bench_build import compile_bench
from tree import Skip, run

DTYPES = {"bf16": "gauss.bf16", "f32": "gauss.f32", "f16": "gauss.f16", "f8_e4m3": "gauss.f8_e4m3",
          "adam_m": "adam_m.f32", "adam_v": "adam_v.f32", "matrix": "matrix.bf16"}
LEVELS = {"lmc fast", "lmc default", "lmc max"}
PEERS = {"zstd -3", "byte groups + zstd -3", "bzip2 -9", "byte groups + bzip2 -9", "byte groups + Huffman"}
TINY = ["--pass-mib", "1", "--peer-mib", "1", "--repeats", "1"]
COMMANDS = {"size": {"cp", "convert", "restore", "get", "get range"}, "count": {"cp", "convert", "restore", "get"}}
PICTURES = {"bench_levels.svg": {"LMC fast", "LMC default", "memcpy", "stored / original"} | PEERS,
            "bench_sizes.svg": {"plain C", "memcpy", "64 KiB", "1 MiB"},
            "bench_growth.svg": {"convert", "restore", "get one tensor", "peak memory", "4 MiB", "10"},
            "h5_bench.svg": {"model, F32", "LMC default  0.500", "read", "write"}}


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


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def check_keys(measured, name, keys):
    if set(measured) != keys[name]:
        yield f"bench/README.md: {name}: keys {sorted(set(measured) ^ keys[name])}"
    for row in measured["rows"]:
        if set(row) != keys.get(row["what"]):
            yield f"bench/README.md: row {row['what']}: keys {sorted(set(row) ^ keys.get(row['what'], set()))}"
            return
        missing = [key for key, value in row.items() if key.endswith(("_us", "_GiB_s", "seconds", "_nbytes")) and
                   value <= 0]
        if missing:
            yield f"bench: nothing measured: {missing}: {row}"


class Bench:
    def __init__(self, build, folder):
        self.program = os.path.join(build, "bench", "lmc-bench")
        self.folder = folder

    def run(self, *options):
        """Returns the numbers, or a fault."""
        report = os.path.join(self.folder, "bench.json")
        status, output = run(self.program, *TINY, "--json", report, *options)
        if status != 0:
            return None, f"lmc-bench {' '.join(options)}: exit status {status}: {output.strip()[-300:]}"
        with open(report, encoding="ascii") as file:
            measured = json.load(file)
        table = sum(row["data"] in line and row["codec"] in line
                    for row in measured["rows"][-1:] for line in output.splitlines())
        return measured, None if table else f"lmc-bench {' '.join(options)}: {measured['rows'][-1]} not in the table"


def check_matrix(bench, keys):
    """Everything of the matrix but its large sizes."""
    measured, fault = bench.run("--matrix", "all", "--max-mib", "1")
    if fault:
        yield fault
        return
    yield from check_keys(measured, "bench.json", keys)
    rows = measured["rows"]
    sets = {row["kernels"] for row in rows} - {"-"}
    if "scalar" not in sets:
        yield f"lmc-bench: kernel sets {sets}"
    wanted = {(what, data, level, name, nbytes, regime) for what in ("tensor", "delta") for data in DTYPES.values()
              for level in LEVELS for name in sets for nbytes in (65536, 1 << 20) for regime in ("cold", "cached")}
    found = {(r["what"], r["data"], r["codec"], r["kernels"], r["tensor_nbytes"], r["regime"])
             for r in rows if r["what"] in ("tensor", "delta")}
    if found != wanted:
        yield f"lmc-bench --matrix all: rows {sorted(found ^ wanted)[:3]}"
    peers = {(r["data"], r["codec"]) for r in rows if r["what"] == "peer"}
    if peers != {(data, peer) for data in ("gauss.bf16", "gauss.f32") for peer in PEERS}:
        yield f"lmc-bench --matrix all: peers {sorted(peers)}"
    yield from check_ratios(rows)


def check_ratios(rows):
    """All kernel sets reach one ratio for the same tensors. (Plain C takes fewer of the small ones in a cold pass.)"""
    ratios = {}
    for r in rows:
        key = tuple(r.get(k) for k in ("what", "data", "codec", "tensor_nbytes", "regime"))
        is_comparable = r["regime"] == "cached" or r["tensor_nbytes"] == 1 << 20
        if not 0 < r["ratio"] < 1 or is_comparable and ratios.setdefault(key, r["ratio"]) != r["ratio"]:
            yield f"lmc-bench: ratio of {r}"
            return
    groups = {r["codec"]: r["ratio"] for r in rows if r["what"] == "peer" and r["data"] == "gauss.bf16"}
    if groups["byte groups + Huffman"] >= groups["byte groups + zstd -3"]:
        yield f"bench/codec/huffman.c: not the peer that it stands for: {groups}"


def check_parts(bench, keys):
    for part in ("range", "delta", "peer", "tensor"):
        measured, fault = bench.run("--only", part, "--kib", "200", "--dtype", "f32", "--set", "scalar")
        if fault:
            yield fault
            continue
        yield from check_keys(measured, "bench.json", keys)
        found = {(r["what"], r["data"]) for r in measured["rows"]}
        if found != {(part, "gauss.f32")}:
            yield f"lmc-bench --only {part}: {found}"
        if part == "range" and {r["range_nbytes"] for r in measured["rows"]} != {65536}:
            yield f"lmc-bench --only range: {measured['rows']}"
    for wrong in (["--set", "mmx"], ["--mib", "0"], ["--mib"], ["--level", ""], ["--what", "1"]):
        if run(bench.program, *wrong)[0] != 2:
            yield f"lmc-bench {' '.join(wrong)}: no wrong usage"


def check_bare(tree, folder):
    """Bare runs call the stand-in for the hash: a round trip fails when it returns another number each time."""
    build = os.path.join(folder, "bare")
    wrong = ("codec/select", "(void)data, (void)nbytes, (void)seed;\n    return 0;",
             "static uint64_t calls;\n    (void)data, (void)nbytes, (void)seed;\n    return ++calls;")
    fault = compile_bench(tree, build, "lmc-bench", wrong)
    if fault:
        yield fault
        return
    status, output = run(os.path.join(build, "bench", "lmc-bench"), *TINY, "--kib", "1", "--set", "scalar")
    if status != 1 or "a round trip failed with the scalar kernels" not in output:
        yield f"bench/codec/select.c: a stand-in for the hash that is none is not noticed: exit status {status}"


def check_growth(tree, build, folder, keys):
    place, report = os.path.join(folder, "place"), os.path.join(folder, "growth.json")
    arguments = [build, place, "--rounds", "1", "--gib-max", "0.004", "--count-max", "10", "--json", report]
    status, output = run(sys.executable, tree.path("bench/tool/growth.py"), *arguments)
    if status != 0:
        yield f"bench/tool/growth.py: exit status {status}: {output.strip()[-300:]}"
        return
    with open(report, encoding="ascii") as file:
        measured = json.load(file)
    yield from check_keys(measured, "growth.json", keys)
    found = {(r["what"], r["tensor_nbytes"], r["tensor_count"], r["command"]) for r in measured["rows"]}
    points = [("size", 1 << 20, 1), ("size", 4 << 20, 1), ("count", 4096, 1), ("count", 4096, 10)]
    if found != {(*point, command) for point in points for command in COMMANDS[point[0]]}:
        yield f"bench/tool/growth.py: rows {sorted(found)}"
    if os.listdir(place):
        yield f"bench/tool/growth.py: left behind: {os.listdir(place)}"


def check_pictures(tree, folder, bench):
    """Pictures of small numbers: all names stand in them, equal numbers give equal bytes."""
    if run("/usr/bin/python3", "-c", "import matplotlib")[0] != 0:
        raise Skip("no pictures: no matplotlib (Debian: python3-matplotlib)")
    for name, options in (("tensors", ("--matrix", "quick", "--only", "tensor", "--max-mib", "1")),
                          ("peers", ("--only", "peer"))):
        _, fault = bench.run("--dtype", "bf16", *options)
        if fault:
            yield fault
            return
        os.rename(os.path.join(folder, "bench.json"), os.path.join(folder, f"{name}.json"))
    entries = [{"file": name, "dtype": "F32", "codec": codec, "ratio": 0.5, "read_gib": 2, "write_gib": 1}
               for name in ("model", "optim") for codec in ("none", "LMC default")]
    with open(os.path.join(folder, "h5.json"), "w", encoding="utf-8") as file:
        json.dump({"machine": "CPU", "chunk_kib": 64, "results": entries}, file)
    drawn = []
    for place in ("first", "second"):
        os.mkdir(os.path.join(folder, place))
        status, output = run("/usr/bin/python3", tree.path("bench/plots/draw.py"), folder, os.path.join(folder, place))
        if status != 0:
            yield f"bench/plots/draw.py: exit status {status}: {output.strip()[-300:]}"
            return
        if sorted(os.listdir(os.path.join(folder, place))) != sorted(PICTURES):
            yield f"bench/plots/draw.py: pictures {sorted(os.listdir(os.path.join(folder, place)))}"
            return
        drawn.append({name: read(os.path.join(folder, place, name)) for name in PICTURES})
    for name, words in PICTURES.items():
        text = set(re.findall(r">([^<>]+)</text>", drawn[0][name]))
        missing = [word for word in words if not any(line.startswith(word) for line in text)]
        if missing:
            yield f"{name}: not in the text: {missing}"
        if drawn[0][name] != drawn[1][name]:
            yield f"{name}: equal numbers give other bytes"
        if len(drawn[0][name]) > 60000:
            yield f"{name}: {len(drawn[0][name])} bytes"


def check(tree):
    folder = tempfile.mkdtemp(prefix="lmc-check-bench-")
    build = os.path.join(folder, "build")
    keys = documented_keys(tree)
    bench = Bench(build, folder)
    try:
        for program in ("lmc-bench", "lmc-bench-model", "lmc-bench-run"):
            fault = compile_bench(tree, build, program)
            if fault:
                yield fault
                return
        yield from check_matrix(bench, keys)
        yield from check_parts(bench, keys)
        yield from check_bare(tree, folder)
        yield from check_growth(tree, build, folder, keys)
        yield from check_pictures(tree, folder, bench)
    finally:
        shutil.rmtree(folder)
