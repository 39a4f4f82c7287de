"""bench/store.py measures small families: what it says of bytes, bases and causes is plausible, and the pieces of
bench/store are right (bench_store_pieces.py). A stand-in takes the place of `lmc-st store`. Speeds are not judged.
bench/store_many.py computes what more workers save."""

import json
import os
import stat
import tempfile

from check_bench_studies import PYTHON
from tree import Skip, run

# Keeps copies. Says of each model that it takes 1000000 bytes, after `plan` 7; the second one is based on the first,
# and the third on both.
STAND_IN = """#!/bin/sh
if [ "$1" != store ]; then
  exec {tool} "$@"
fi
command=$2 store=$3
shift 3
mkdir -p "$store"
case $command in
add) cp -r "$1" "$store/" ;;
restore) cp -r "$store/$1" "$3" ;;
plan) touch "$store/planned" ;;
ls) {python} - "$store" <<'END'
import json, os, sys
names = sorted(os.listdir(sys.argv[1]))
nbytes = 7 if "planned" in names else 1000000
names = [name for name in names if name != "planned"]
print(json.dumps([{{"name": name, "base": names[0] if number == 1 else names[:2] if number == 2 else None,
                    "depth": 1, "nbytes": 1, "stored_nbytes": nbytes, "files": 1, "time": 0}}
                  for number, name in enumerate(names)]))
END
  ;;
esac
"""
WAYS = ["plain files", "zstd -3", "chunks, LZ4", "XOR zstd, raw", "XOR zstd, LMC", "FM-Delta", "LMC alone",
        "LMC, true base", "LMC, best base", "LMC store", "LMC store, plan"]


def make_build(tree, folder):
    """A folder with the stand-in, which passes other commands on."""
    os.makedirs(os.path.join(folder, "tool"))
    path = os.path.join(folder, "tool", "lmc-st")
    with open(path, "w", encoding="ascii") as file:
        file.write(STAND_IN.format(tool=os.path.join(tree.build, "tool", "lmc-st"), python=PYTHON))
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)


def measured(tree, report, *arguments):
    """What the program wrote, or its fault as a text."""
    status, output = run(PYTHON, tree.path("bench/store.py"), *arguments, "--small", "--json", report)
    if status != 0:
        return f"bench/store.py: exit status {status}: {output.strip()[-500:]}"
    with open(report, encoding="ascii") as file:
        return json.load(file)


def faults_of_study(study):
    models, kinds = len(study["truth"]["models"]), {one["name"]: one["kind"] for one in study["truth"]["models"]}
    stored = {way: {row["model"]: row["stored_nbytes"] for row in study["rows"] if row["way"] == way} for way in WAYS}
    if any(len(one) != models for one in stored.values()) or len(study["rows"]) != models * len(WAYS):
        yield "a way has not kept all models"
        return
    sums = {way: sum(one.values()) for way, one in stored.items()}
    if not sums["LMC, true base"] < sums["XOR zstd, LMC"] < sums["XOR zstd, raw"] < sums["LMC alone"] \
            < sums["zstd -3"] < sums["plain files"]:
        yield f"sizes: {sums}"
    if not sums["FM-Delta"] < sums["XOR zstd, LMC"] or not sums["chunks, LZ4"] < sums["plain files"]:
        yield f"sizes: {sums}"
    if any(stored["LMC, best base"][name] > stored["LMC alone"][name] for name in kinds):
        yield "a best base makes a model larger"
    causes = {(row["way"], kinds[row["model"]]): row["cause"] for row in study["rows"]}
    for kind, way, cause in (("duplicate", "LMC, true base", "duplicate"), ("renamed", "XOR zstd, raw", "duplicate"),
                             ("fine-tune", "LMC, true base", "delta"), ("base", "XOR zstd, raw", "alone"),
                             ("base", "LMC, true base", "delta"), ("FP8 copy", "LMC, true base", "alone"),
                             ("duplicate", "LMC alone", "alone"), ("LoRA", "FM-Delta", "delta")):
        if causes[way, kind] != cause:
            yield f"{way}: {kind}: {causes[way, kind]}"
    shares = [study["changed"][name] for name, kind in kinds.items() if kind == "fine-tune"]
    if not 0 < min(shares) < 0.02 or not max(shares) > 0.7:
        yield f"changed values: {sorted(shares)}"
    if study["changed"][next(name for name in kinds if kinds[name] == "F16 copy")] is not None:
        yield "the F16 copy is compared with the base"
    losses = [one["losses"] for one in study["truth"]["models"] if one["kind"] == "base"]
    if any(last > first - 1 for first, last in losses):
        yield f"no base has learned: {losses}"
    wrong = {way: {one["model"] for one in faults} for way, faults in study["wrong_bases"].items()}
    best = {row["model"]: row["stored_nbytes"] for row in study["rows"] if row["way"] == "LMC, best base"}
    alone = {row["model"] for row in study["rows"] if row["way"] == "LMC store" and not row["bases"]}
    if list(wrong) != ["LMC store"] or \
            {name for name in alone if 1.01 * best[name] < stored["LMC alone"][name]} != alone & wrong["LMC store"]:
        yield f"wrong bases: {wrong}"
    reads = sorted(row["read_nbytes"] for row in study["rows"] if row["way"] == "LMC store, plan")
    if reads[-3:] != [7, 14, 21]:
        yield f"bytes read: {reads}"


def faults_of_many(tree, folder):
    """bench/store_many.py: more workers take less time, and no phase is left out."""
    report, library = os.path.join(folder, "many.json"), os.path.join(tree.build, "lib")
    status, output = run("env", "LMCODEC_LIBRARY_DIR=" + library, PYTHON, tree.path("bench/store_many.py"), "--models",
                         "200", "--tensors", "3", "--index-models", "2", "6", "--workers", "1", "8", "--rounds", "1",
                         "--json", report)
    if status != 0:
        yield f"bench/store_many.py: exit status {status}: {output.strip()[-500:]}"
        return
    with open(report, encoding="ascii") as file:
        rows = json.load(file)["rows"]
    one, eight = (sum(taken for taken, _ in rows[workers].values()) for workers in ("1", "8"))
    if not one / 8 <= eight < one / 4 or len(rows["1"]) != 8:
        yield f"seconds of one worker and of eight: {one}, {eight}"


def check(tree):
    if run(PYTHON, "-c", "import numpy, zstandard")[0] != 0:
        raise Skip("no numpy or zstandard (Debian: python3-numpy python3-zstandard)")
    status, output = run(PYTHON, tree.path("tests/checks/bench_store_pieces.py"), tree.path("."))
    yield from output.splitlines()
    if status != 0:
        yield f"bench_store_pieces.py: exit status {status}"
    with tempfile.TemporaryDirectory(prefix="lmc-check-store-") as folder:
        build, report = os.path.join(folder, "build"), os.path.join(folder, "report.json")
        make_build(tree, build)
        yield from faults_of_many(tree, folder)
        study = measured(tree, report, build, "--work", os.path.join(folder, "work"), "--families", "2", "--exhaustive")
        yield from [study] if isinstance(study, str) else faults_of_study(study)
        chunks = measured(tree, report, build, "--dedupe")
        if isinstance(chunks, str):
            yield chunks
            return
        plain, archives = (row["new_share"] for row in chunks["rows"])
        if not 1 / 28 < plain < 0.11 or not 1 / 28 < archives < plain + 0.02:
            yield f"new bytes of a store of chunks: {plain} of the file, {archives} of the archive"
