"""The programs of bench/study, bench/checkpoint.py, bench/scale.py and bench/h5_parallel.py run on a small series that
is made here, and draw_study.py and draw_distributed.py make pictures of their numbers. Speeds are not judged; ratios
are those of the codec."""

import json
import os
import random
import shutil
import struct
import tempfile

from bench_build import compile_bench, draws
from tree import Skip, run

PYTHON = "/usr/bin/python3"
KINDS = ["weights.bf16", "weights.f32", "adam_m", "adam_v", "gradients"]
STEPS, END = (0, 40, 41, 50, 140, 141, 150, 240, 241, 250), 240
PICTURES = {"study_evolution.svg", "study_distance.svg", "study_engines.svg", "study_link.svg"}
DISTRIBUTED = {"distributed_ranks.svg", "distributed_link.svg"}
DISTRIBUTED_HDF5 = DISTRIBUTED | {"distributed_hdf5.svg"}
PROFILED = {"way": "LMC, own chunks", "ranks": 1, "filter": 500, "HDF5": 10, "kernel": 300, "copies": 200, "MPI": 5,
            "other": 1}


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


def measured_by(tree, report, script, *arguments):
    """What a program wrote, or its fault as a text."""
    status, output = run(PYTHON, tree.path(script), *arguments, "--json", report)
    if status != 0:
        return f"{script}: exit status {status}: {output.strip()[-500:]}"
    with open(report, encoding="ascii") as file:
        return json.load(file)


def has_mpi():
    probe = "import h5py, mpi4py; assert h5py.get_config().mpi"
    return shutil.which("mpirun") and run(PYTHON, "-c", probe, env={**os.environ, "H5PY_ALWAYS_USE_MPI": "1"})[0] == 0


def check_hdf5(tree, report):
    measured = measured_by(tree, report, "bench/h5_parallel.py", tree.build, "--mib", "8", "--ranks", "1,2", "--rounds",
                           "1", "--dtypes", "BF16", "--no-profile")
    if isinstance(measured, str):
        yield measured
        return
    ratios = {row["way"]: row["stored_nbytes"] / row["nbytes"] for row in measured["rows"]}
    if not 0.64 <= ratios["LMC, own chunks"] <= 0.68:
        yield f"bench/h5_parallel.py: {ratios}"
    with open(report, "w", encoding="ascii") as file:
        json.dump({**measured, "profile": [PROFILED]}, file)


def check(tree):
    if run(PYTHON, "-c", "import numpy")[0] != 0:
        raise Skip("no numpy (Debian: python3-numpy)")
    with tempfile.TemporaryDirectory(prefix="lmc-check-studies-") as folder:
        build, series, mpi = os.path.join(folder, "build"), os.path.join(folder, "series"), has_mpi()
        fault = compile_bench(tree, build, "lmc-bench-run")
        if fault:
            yield fault
            return
        os.symlink(os.path.join(tree.build, "lib"), os.path.join(build, "lib"))
        make_series(series)
        lmc_st = os.path.join(tree.build, "tool", "lmc-st")
        weights = os.path.join(series, "gpt", "step-240", "weights.f32.safetensors")
        snapshots = [os.path.join(series, "gpt", f"step-{step}") for step in (150, 140)]
        for name, script, *arguments in (
                ("study", "bench/study/study.py", build, series, "--rounds", "1"),
                ("store", "bench/study/run_store.py", build, os.path.join(series, "gpt"), "--rounds", "1",
                 "--zstd-level", "1"),
                ("checkpoint", "bench/checkpoint.py", build, *snapshots, "--mib", "8", "--rounds", "1", "--gb", "100",
                 "--busy"),
                ("narrow", "bench/study/narrow.py", lmc_st, weights, "--old", lmc_st, "--zstd-level", "1", "--only",
                 "in F32"),
                ("scale", "bench/scale.py", tree.build, "--mib", "16", "--rounds", "1")):
            measured = measured_by(tree, os.path.join(folder, name + ".json"), script, *arguments)
            if isinstance(measured, str):
                yield measured
            elif name == "store" and not 0 < measured["run"] < measured["alone"] < 1:
                yield f"{script}: {measured}"
            elif name == "narrow" and not all(0 < row["default_ratio"] < 0.9 for row in measured["rows"]):
                yield f"{script}: {measured}"
        if mpi:
            yield from check_hdf5(tree, os.path.join(folder, "h5_parallel.json"))
        yield from draws(tree, "bench/plots/draw_study.py", folder, PICTURES)
        yield from draws(tree, "bench/plots/draw_distributed.py", folder, DISTRIBUTED_HDF5 if mpi else DISTRIBUTED)
    if not mpi:
        raise Skip("no h5py with MPI (Debian: openmpi-bin python3-h5py-mpi)")
