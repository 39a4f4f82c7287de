"""bench/h5_parallel.py and bench/scale.py run on small sizes, and draw_distributed.py makes pictures of their numbers.
Speeds are not judged. Sizes are those of the codec, what was simulated keeps to the bandwidth it was given, and real
ranks are never faster than their link."""

import json
import os
import re
import shutil
import tempfile

from tree import Skip, run

PYTHON = "/usr/bin/python3"
WITHOUT = {"no filter, contiguous", "no filter, chunks"}
LMC = {"LMC, own chunks", "LMC, boundaries shared", "LMC, columns, own chunks", "LMC, columns, all shared",
       "LMC, a file per rank", "liblmc alone"}
PROFILED = {"way": "LMC, own chunks", "ranks": 1, "filter": 500, "HDF5": 10, "kernel": 300, "copies": 200, "MPI": 5,
            "other": 1}
PICTURES = {"distributed_ranks.svg": {"weights in bf16", "raw", "key frame", "delta, base read", "seconds"},
            "distributed_link.svg": {"key frame, 1 core", "delta, 4 cores", "2 real ranks", "seconds, measured"},
            "distributed_hdf5.svg": {"LMC, own chunks", "liblmc alone", "write, GiB/s", "2 ranks", "kernel"}}
ROUNDED = 1e-6


def run_program(tree, script, *arguments):
    status, output = run(PYTHON, tree.path(script), *arguments)
    return None if status == 0 else f"{script}: exit status {status}: {output.strip()[-500:]}"


def read_json(path):
    with open(path, encoding="ascii") as file:
        return json.load(file)


# ---- parallel HDF5 ----

def why_no_mpi():
    if shutil.which("mpirun") is None:
        return "no mpirun (Debian: openmpi-bin)"
    probe = run(PYTHON, "-c", "import h5py, mpi4py; assert h5py.get_config().mpi",
                env={**os.environ, "H5PY_ALWAYS_USE_MPI": "1"})
    return "no h5py with MPI (Debian: python3-h5py-mpi)" if probe[0] else None


def check_hdf5(tree, folder):
    fault = run_program(tree, "bench/h5_parallel.py", tree.build, "--mib", "8", "--ranks", "1,2", "--rounds", "1",
                        "--dtypes", "BF16", "--no-profile", "--json", os.path.join(folder, "h5_parallel.json"))
    if fault:
        yield fault
        return
    measured = read_json(os.path.join(folder, "h5_parallel.json"))
    ratios = {(row["way"], row["ranks"]): row["stored_nbytes"] / row["nbytes"] for row in measured["rows"]}
    wanted = {(way, ranks) for way in {*WITHOUT, *LMC, "gzip-1, shuffle"} for ranks in (1, 2)}
    if set(ratios) != wanted:
        yield f"bench/h5_parallel.py: ways {sorted(set(ratios) ^ wanted)}"
    for (way, ranks), ratio in ratios.items():
        least, most = (1, 1) if way in WITHOUT else (0.64, 0.68) if way in LMC else (0.68, 0.9)
        if not least <= ratio <= most:
            yield f"bench/h5_parallel.py: {way}, {ranks} ranks: stored / original {ratio}"
    if ratios["LMC, own chunks", 1] != ratios["liblmc alone", 1]:
        yield f"bench/h5_parallel.py: other chunks than those of liblmc: {ratios}"
    if any(min(row["write_seconds"], row["read_seconds"]) <= 0 for row in measured["rows"]):
        yield "bench/h5_parallel.py: nothing measured"
    with open(os.path.join(folder, "h5_parallel.json"), "w", encoding="ascii") as file:
        json.dump({**measured, "profile": [PROFILED]}, file)


# ---- ranks, simulated and real ----

def check_scale(tree, folder):
    fault = run_program(tree, "bench/scale.py", tree.build, "--mib", "16", "--rounds", "1", "--json",
                        os.path.join(folder, "scale.json"))
    if fault:
        yield fault
        return
    measured = read_json(os.path.join(folder, "scale.json"))
    ratios = {row["way"]: row["ratio"] for row in measured["speeds"] if row["by"] == "processes"}
    if not ratios["delta"] < 0.25 < 0.6 < ratios["key"] < ratios["raw"] == 1:
        yield f"bench/scale.py: stored / original {ratios}"
    yield from check_simulated(measured)
    sent = {row["way"]: 2 * row["rank_nbytes"] / 1e9 * row["ratio"] for row in measured["speeds"]
            if row["by"] == "processes"}
    for row in measured["confirmed"]:
        least = 0.9 * sent[row["way"]] / row["link_GB_s"] - 0.01
        if min(row["seconds"], row["computed_seconds"]) < least:
            yield f"bench/scale.py: {row}: less than {least} s, which the link takes"
    if len(measured["confirmed"]) != 6:
        yield f"bench/scale.py: {len(measured['confirmed'])} points confirmed"


def check_simulated(measured):
    """A save takes at least what the link, the file system and the encoder need; more ranks do not take less."""
    simulated = measured["simulated"]
    limits = {row["way"]: row for row in simulated["limits"]}
    for row in simulated["by_ranks"]:
        limit = limits.get(row["way"], {"traffic": 1, "cpu_seconds": 0})
        share = min(measured["node_link"] / min(8, row["ranks"]), measured["total"] / row["ranks"])
        least = max(measured["gb"] * limit["traffic"] / share, 0.8 * limit["cpu_seconds"] / row["cores"])
        if row["seconds"] < least * (1 - ROUNDED):
            yield f"bench/scale.py: {row}: at least {least} s"
        if row["ranks"] == 1000 and row["way"] == "raw" and row["seconds"] > 1.01 * least:
            yield f"bench/scale.py: {row}: the file system allows {least} s"
    for way in limits:
        seconds = [row["seconds"] for row in simulated["by_ranks"] if (row["way"], row["cores"]) == (way, 1)]
        if any(later < 0.99 * earlier for earlier, later in zip(seconds, seconds[1:])):
            yield f"bench/scale.py: {way}: more ranks are faster: {seconds}"
    for row in simulated["by_straggler"]:
        none = next(other["seconds"] for other in simulated["by_straggler"] if other["straggler"] == "none" and
                    (other["way"], other["ranks"]) == (row["way"], row["ranks"]))
        if row["seconds"] < 0.99 * none or row["straggler"] == "slow link" and row["way"] == "raw" and \
                row["seconds"] < 4.9 * none:
            yield f"bench/scale.py: {row}: {none} s without stragglers"


# ---- pictures ----

def check_pictures(tree, folder, wanted):
    if run(PYTHON, "-c", "import matplotlib")[0] != 0:
        raise Skip("no pictures: no matplotlib (Debian: python3-matplotlib)")
    drawn = []
    for place in ("first", "second"):
        os.mkdir(os.path.join(folder, place))
        fault = run_program(tree, "bench/plots/draw_distributed.py", folder, os.path.join(folder, place))
        if fault:
            yield fault
            return
        drawn.append({})
        for name in os.listdir(os.path.join(folder, place)):
            with open(os.path.join(folder, place, name), encoding="utf-8") as file:
                drawn[-1][name] = file.read()
    if drawn[0] != drawn[1] or set(drawn[0]) != wanted:
        yield f"bench/plots/draw_distributed.py: equal numbers give other bytes, or pictures: {sorted(drawn[0])}"
        return
    for name in wanted:
        text = re.findall(r">([^<>]+)</text>", drawn[0][name])
        missing = [word for word in PICTURES[name] if not any(line.startswith(word) for line in text)]
        if missing:
            yield f"{name}: not in the text: {missing}"


def check(tree):
    if run(PYTHON, "-c", "import numpy")[0] != 0:
        raise Skip("no numpy (Debian: python3-numpy)")
    folder = tempfile.mkdtemp(prefix="lmc-check-distributed-")
    missing = why_no_mpi()
    try:
        if not missing:
            yield from check_hdf5(tree, folder)
        yield from check_scale(tree, folder)
        yield from check_pictures(tree, folder, set(PICTURES) - ({"distributed_hdf5.svg"} if missing else set()))
    finally:
        shutil.rmtree(folder)
    if missing:
        raise Skip(missing)
