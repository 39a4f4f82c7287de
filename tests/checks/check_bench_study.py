"""bench/study/study.py, run_store.py and bench/checkpoint.py run on a small series that is made here without torch, and
draw_study.py makes pictures of their numbers. Speeds are not judged; ratios are those of lmc-st, and what is computed
follows from what was measured."""

import json
import os
import random
import re
import shutil
import struct
import tempfile

from bench_build import compile_bench
from tree import Skip, run

PYTHON = "/usr/bin/python3"
KINDS = ["weights.bf16", "weights.f32", "adam_m", "adam_v", "gradients"]
STEPS, END = (0, 40, 41, 50, 140, 141, 150, 240, 241, 250), 240
PICTURES = {"study_evolution.svg": {"transformer", "convolutions", "learning rate", "weights, bf16"},
            "study_distance.svg": {"steps between the snapshots", "bf16, peak", "bf16, fine-tuning"},
            "study_engines.svg": {"LMC default", "xz -6", "bz2 -9", "plain bytes"},
            "study_link.svg": {"raw", "key frame, 1 thread", "delta, 1 thread", "link, GB/s"}}


# ---- a series ----

def write_file(path, dtype, values):
    content = b"".join(struct.pack("<f", value)[-2 if dtype == "BF16" else 0:] for value in values)
    tensors = {"w": {"dtype": dtype, "shape": [len(values) // 50, 50], "data_offsets": [0, len(content)]}}
    text = json.dumps(tensors).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + content)


def make_series(folder):
    models = []
    for name in ("gpt", "conv"):
        rng = random.Random(name)
        values, last = [rng.gauss(0, 0.02) for _ in range(40000)], 0
        for step in STEPS:
            spread, last = 1e-5 * (step - last), step
            values = [value + rng.gauss(0, spread) for value in values]
            place = os.path.join(folder, name, f"step-{step}")
            os.makedirs(place)
            for kind in KINDS[:2] if step == 0 else KINDS:
                write_file(os.path.join(place, kind + ".safetensors"), "BF16" if "bf16" in kind else "F32", values)
        models.append({"name": name, "parameters": 40000, "warm_up": 40, "end": END,
                       "snapshots": [{"step": step, "is_fine_tuning": step > END, "folder": f"{name}/step-{step}"}
                                     for step in STEPS],
                       "history": [{"step": step, "rate": 0.001, "loss": 1.0} for step in range(1, 251)]})
    with open(os.path.join(folder, "series.json"), "w", encoding="ascii") as file:
        json.dump({"torch": "none", "models": models}, file)


# ---- the programs ----

def run_python(tree, script, *arguments):
    status, output = run(PYTHON, tree.path(script), *arguments)
    return None if status == 0 else f"{script}: exit status {status}: {output.strip()[-500:]}"


def read_json(path):
    with open(path, encoding="ascii") as file:
        return json.load(file)


def check_study(tree, build, folder):
    fault = run_python(tree, "bench/study/study.py", build, os.path.join(folder, "series"), "--rounds", "1", "--json",
                       os.path.join(folder, "study.json"))
    if fault:
        yield fault
        return
    study = read_json(os.path.join(folder, "study.json"))
    rows = {what: [row for row in study["rows"] if row["what"] == what] for what in ("alone", "delta", "engine")}
    wanted = {"alone": 2 * (2 * len(STEPS) + 3 * (len(STEPS) - 1)), "delta": 2 * 5 * (3 + 3 + 2)}
    for what, count in wanted.items():
        if len(rows[what]) != count:
            yield f"bench/study/study.py: {len(rows[what])} rows {what}, not {count}"
    forms = ("plain", "groups", "XOR groups")
    wanted = {(engine, form) for engine in ("bz2 -9", "gzip -6", "xz -6") for form in forms}
    wanted |= {(f"LMC {level}", form) for level in ("default", "fast", "max") for form in ("alone", "with base")}
    for kind in KINDS:
        found = {(row["engine"], row["form"]) for row in rows["engine"] if (row["kind"], row["distance"]) == (kind, 10)}
        if wanted - found:
            yield f"bench/study/study.py: {kind}: no rows {sorted(wanted - found)}"
    if any(row["compress_MB_s"] <= 0 or row["decompress_MB_s"] <= 0 for row in rows["engine"]):
        yield "bench/study/study.py: nothing measured"
    for delta in rows["delta"]:
        alone = next(row for row in rows["alone"] if all(row[key] == delta[key] for key in ("model", "kind", "step")))
        if alone["changed"] is not None or not 0 < delta["changed"] <= 1 or delta["ratio"] > alone["ratio"] + 0.02:
            yield f"bench/study/study.py: {delta['kind']}, {delta['step']}: {delta['ratio']} after {alone['ratio']}"


def check_link(tree, build, folder):
    snapshots = [os.path.join(folder, "series", "gpt", f"step-{step}") for step in (150, 140)]
    fault = run_python(tree, "bench/checkpoint.py", build, *snapshots, "--mib", "8", "--rounds", "1", "--gb", "100",
                       "--busy", "--json", os.path.join(folder, "checkpoint.json"))
    if fault:
        yield fault
        return
    measured = read_json(os.path.join(folder, "checkpoint.json"))
    speeds = {f"{row['what']} {row['threads']}": row for row in measured["speeds"]}
    for row in measured["computed"]:
        if row["raw"] != 100 / row["link_GB_s"]:
            yield f"bench/checkpoint.py: raw {row['raw']}"
        for way, speed in speeds.items():
            convert, send = 100 / speed["threads"] / speed["cpu_GB_s"], 100 * speed["ratio"] / row["link_GB_s"]
            least, most = max(convert, send), convert + send
            if not least < row[way] < most:
                yield f"bench/checkpoint.py: {way}: {row[way]} s, not {least} to {most}"
    least = {row["what"]: measured["nbytes"] / 1e9 / row["link_GB_s"] for row in measured["confirmed"]}
    for row in measured["confirmed"]:
        sent = measured["nbytes"] / 1e9 * (1 if row["what"] == "raw" else speeds[f"{row['what']} 1"]["ratio"])
        if row["seconds"] < 0.9 * sent / row["link_GB_s"] - 0.01:
            yield f"bench/checkpoint.py: {row['what']} took {row['seconds']} s: the link is faster than it should be"
    if set(least) != {"raw", "key", "delta"} or speeds["delta 1"]["ratio"] >= speeds["key 1"]["ratio"]:
        yield f"bench/checkpoint.py: {measured['speeds']}"


def check_store(tree, build, folder):
    fault = run_python(tree, "bench/study/run_store.py", build, os.path.join(folder, "series", "gpt"), "--rounds", "1",
                       "--zstd-level", "1", "--json", os.path.join(folder, "store.json"))
    if fault:
        yield fault
        return
    store = read_json(os.path.join(folder, "store.json"))
    if not 0 < store["run"] < store["alone"] < 1 or store["snapshots"] != len(STEPS) - 1:
        yield f"bench/study/run_store.py: {store}"
    if store["chain"] < 1 or min(store[key] for key in ("add_s", "convert_s", "restore_key_s", "restore_last_s")) <= 0:
        yield f"bench/study/run_store.py: nothing measured: {store}"


def check_pictures(tree, folder):
    if run(PYTHON, "-c", "import matplotlib")[0] != 0:
        raise Skip("no pictures: no matplotlib (Debian: python3-matplotlib)")
    drawn = []
    for place in ("first", "second"):
        os.mkdir(os.path.join(folder, place))
        fault = run_python(tree, "bench/plots/draw_study.py", folder, os.path.join(folder, place))
        if fault:
            yield fault
            return
        drawn.append({})
        for name in os.listdir(os.path.join(folder, place)):
            with open(os.path.join(folder, place, name), encoding="utf-8") as file:
                drawn[-1][name] = file.read()
    if drawn[0] != drawn[1] or set(drawn[0]) != set(PICTURES):
        yield f"bench/plots/draw_study.py: equal numbers give other bytes, or pictures: {sorted(drawn[0])}"
        return
    for name, words in PICTURES.items():
        text = re.findall(r">([^<>]+)</text>", drawn[0][name])
        missing = [word for word in words if not any(line.startswith(word) for line in text)]
        if missing:
            yield f"{name}: not in the text: {missing}"


def check(tree):
    if run(PYTHON, "-c", "import numpy")[0] != 0:
        raise Skip("no numpy (Debian: python3-numpy)")
    folder = tempfile.mkdtemp(prefix="lmc-check-study-")
    build = os.path.join(folder, "build")
    try:
        fault = compile_bench(tree, build, "lmc-bench-run")
        if fault:
            yield fault
            return
        os.symlink(os.path.join(tree.build, "codec"), os.path.join(build, "codec"))
        make_series(os.path.join(folder, "series"))
        yield from check_study(tree, build, folder)
        yield from check_link(tree, build, folder)
        yield from check_store(tree, build, folder)
        yield from check_pictures(tree, folder)
    finally:
        shutil.rmtree(folder)
