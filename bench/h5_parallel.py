"""h5_parallel.py - LMC in parallel HDF5: collective writes and reads of one dataset by several ranks of MPI.

    python3 bench/h5_parallel.py BUILD [--mib 256] [--ranks 1,2,4] [--rounds 3] [--dtypes BF16,F32] [--no-profile]
                                 [--folder DIR] [--json FILE]

BUILD is a build folder with the HDF5 plugin and the shared libraries. A dataset of --mib MiB is shared evenly among the
ranks, each a process of bench/hdf5/parallel_rank.py under mpirun with Debian's h5py (python3-h5py-mpi, openmpi-bin).
The values are real weights (examples/data), repeated. Chunks have 1 MiB. The ways:

  no filter            contiguous, and in chunks
  own chunks           a rank has rows; its part is a multiple of a chunk, so no chunk has values of two ranks
  boundaries shared    chunks are 8 rows shorter, so the chunk at each boundary has values of two ranks
  columns, own chunks  a rank has columns; a chunk has the columns of one rank, and as many more rows
  columns, all shared  a rank has columns, and each chunk has values of all ranks
  a file per rank      without MPI's driver
  gzip-1, shuffle      chunks as own chunks; one round
  liblmc alone         the chunks of `own chunks`, encoded and decoded by each rank without HDF5

A write is timed from creation of the dataset to the closed file, a read with the opening of the file. Barriers enclose
both, so the slowest rank counts. Nothing is flushed; the folder should be in memory (/dev/shm, the default). A round
runs all ways in turn and compares what was read; the fastest round counts. `memory` is what the write takes of
memory beside the values, in the rank that takes most.

Where perf is there, and unless --no-profile, it records the writes of some ways. CPU time is given by the library that
spent it, as milliseconds per GiB of values. A rank of Open MPI that waits polls, which is CPU time of MPI; it lets
others run (mpi_yield_when_idle). `of 1 rank` is the speed beside that of one rank, as far as the CPU time but
MPI's shows. `malloc keeps`: the C library keeps freed memory (MALLOC_TRIM_THRESHOLD_,
MALLOC_MMAP_THRESHOLD_).
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

from common import GIB, MIB, circumstances, command_line, write_report

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

PYTHON = "/usr/bin/python3"  # Debian's h5py
SOURCES = {"BF16": "step03000.bf16", "F32": "step03000.f32-part"}
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
          "-n")
KEEP = {"MALLOC_TRIM_THRESHOLD_": str(1 << 31), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)}  # the most that all glibc take
PROFILED = (("LMC, own chunks", 1, {}), ("LMC, own chunks", 2, {}), ("LMC, own chunks", 2, KEEP),
            ("LMC, columns, all shared", 2, {}), ("LMC, a file per rank", 1, {}), ("LMC, a file per rank", 2, {}),
            ("no filter, contiguous", 2, {}))
PROFILED_MIB = 256
PROFILED_ROUNDS = 6
PARTS = {"filter": ("libh5lmc",), "HDF5": ("libhdf5",), "kernel": ("[kernel", "[vdso"), "copies": ("libc.so", "libc-"),
         "MPI": ("libmpi", "libopen-", "mca_", "libmca", "libevent", "libpmix", "libpsm", "libucp", "libuct")}


def environment(build, more):
    return {**os.environ, "H5PY_ALWAYS_USE_MPI": "1", "LMC_NUM_THREADS": "1", "LMCODEC_LIBRARY_DIR": build,
            "HDF5_PLUGIN_PATH": os.path.join(build, "filter", "plugin"), "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.path.join(ROOT, "python"), **more}


def run_ranks(build, rank_count, folder, settings, before=(), more=None):
    """What rank 0 printed. `before`: a command that starts mpirun."""
    command = [*before, *MPIRUN, str(rank_count), PYTHON, os.path.join(ROOT, "bench", "hdf5", "parallel_rank.py"),
               folder, json.dumps(settings)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          stdin=subprocess.DEVNULL, env=environment(build, more or {}))
    if done.returncode != 0:
        raise SystemExit(f"h5_parallel.py: {rank_count} ranks: exit status {done.returncode}\n{done.stderr.strip()}")
    return json.loads(done.stdout.strip().splitlines()[-1])


# ---- speeds ----

def measure(arguments, folder):
    rows, versions = [], {}
    for dtype in arguments.dtypes.split(","):
        source = os.path.join(ROOT, "examples", "data", SOURCES[dtype] + ".safetensors")
        settings = {"source": source, "dtype": dtype, "mib": arguments.mib, "rounds": arguments.rounds, "profile": None}
        for rank_count in map(int, arguments.ranks.split(",")):
            found = run_ranks(arguments.build, rank_count, folder, settings)
            versions = {"hdf5": found["hdf5"], "mpi": found["mpi"]}
            for way, row in found["ways"].items():
                rows.append({"dtype": dtype, "ranks": rank_count, "way": way, "nbytes": found["nbytes"], **row,
                             "write_GiB_s": found["nbytes"] / GIB / row["write_seconds"],
                             "read_GiB_s": found["nbytes"] / GIB / row["read_seconds"]})
            print(f"{dtype}, {rank_count} ranks: done", file=sys.stderr, flush=True)
    return rows, versions


# ---- where CPU time goes ----

def part_of(library):
    return next((part for part, names in PARTS.items() if library.startswith(names)), "other")


def samples_by_part(path):
    """Samples of a file of perf by who spent them; a sample is a millisecond."""
    report = subprocess.run(["perf", "report", "-i", path, "--stdio", "--sort", "dso", "-F", "sample,dso"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    counts = dict.fromkeys((*PARTS, "other"), 0)
    for line in report.splitlines():
        if line.strip() and not line.startswith("#"):
            count, library = line.split()[:2]
            counts[part_of(library)] += int(count)
    return counts


def profile(arguments, folder):
    """A row for each of PROFILED."""
    control, answer, data = (os.path.join(folder, name) for name in ("control", "answer", "perf.data"))
    os.mkfifo(control)
    os.mkfifo(answer)
    perf = ("perf", "record", "-q", "-e", "cpu-clock", "-F", "1000", "-o", data, "-D", "-1", "--control",
            f"fifo:{control},{answer}")
    settings = {"source": os.path.join(ROOT, "examples", "data", SOURCES["BF16"] + ".safetensors"), "dtype": "BF16",
                "mib": PROFILED_MIB, "rounds": PROFILED_ROUNDS, "control": folder}
    rows = []
    for way, rank_count, more in PROFILED:
        run_ranks(arguments.build, rank_count, folder, {**settings, "profile": way}, perf, more)
        gib = PROFILED_MIB * MIB * PROFILED_ROUNDS / GIB
        rows.append({"way": way + (", malloc keeps" if more else ""), "ranks": rank_count,
                     **{part: count / gib for part, count in samples_by_part(data).items()}})
    return rows


# ---- the report ----

def row_of(rows, dtype, ranks, way):
    return next((row for row in rows if (row["dtype"], row["ranks"], row["way"]) == (dtype, ranks, way)), None)


def show_rows(rows):
    for dtype in sorted({row["dtype"] for row in rows}):
        print(f"\n{dtype}\n\n{'':26} {'ranks':>5} {'ratio':>7} {'write s':>8} {'GiB/s':>6} {'read s':>8} {'GiB/s':>6} "
              f"{'memory MiB':>11} {'of 1 rank':>10}")
        for way in dict.fromkeys(row["way"] for row in rows):
            for row in rows:
                if (row["dtype"], row["way"]) == (dtype, way):
                    alone = row_of(rows, dtype, 1, way)
                    times = f"{alone['write_seconds'] / row['write_seconds']:10.2f}" if alone else ""
                    print(f"{way:26} {row['ranks']:5} {row['stored_nbytes'] / row['nbytes']:7.4f} "
                          f"{row['write_seconds']:8.3f} {row['write_GiB_s']:6.2f} {row['read_seconds']:8.3f} "
                          f"{row['read_GiB_s']:6.2f} {row['extra_nbytes'] / MIB:11.0f} {times}")


def show_profile(rows):
    parts = (*PARTS, "other")
    print("\nCPU time of a write, BF16, ms per GiB of values\n")
    print(f"{'':40} {'ranks':>5} " + " ".join(f"{part:>7}" for part in parts) + f" {'but MPI':>8} {'of 1 rank':>10}")
    work = {(row["way"], row["ranks"]): sum(row[part] for part in parts if part != "MPI") for row in rows}
    for row in rows:
        own, alone = work[row["way"], row["ranks"]], work.get((row["way"], 1))
        print(f"{row['way']:40} {row['ranks']:5} " + " ".join(f"{row[part]:7.0f}" for part in parts) + f" {own:8.0f} " +
              (f"{row['ranks'] * alone / own:10.2f}" if alone else ""))


def main():
    parser = command_line(__doc__, 3, "build")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--dtypes", default="BF16,F32")
    parser.add_argument("--no-profile", action="store_true")
    parser.add_argument("--folder", default="/dev/shm" if os.path.isdir("/dev/shm") else None)
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="lmc-h5-parallel-", dir=arguments.folder)
    try:
        rows, versions = measure(arguments, folder)
        is_profiled = not arguments.no_profile and shutil.which("perf") is not None
        profiled = profile(arguments, folder) if is_profiled else []
    finally:
        shutil.rmtree(folder)
    report = {**circumstances(), "round_count": arguments.rounds, **versions, "rows": rows, "profile": profiled}
    print(f"{report['machine']}, {report['core_count']} cores, HDF5 {report['hdf5']}, {report['mpi']}, "
          f"{arguments.mib} MiB, fastest of {arguments.rounds}")
    show_rows(rows)
    if profiled:
        show_profile(profiled)
    write_report(arguments.json, report)


if __name__ == "__main__":
    main()
