#!/usr/bin/env python3
"""peers.py - LMC beside other compressors of tensors, on the same bytes: ratio, speed, memory.

    python3 bench/peers.py BUILD [--quick] [--only WORD]... [--data WORD]... [--mib N] [--rounds N]
                           [--delta BASE NEW]... [--json FILE] [--pictures DIR] [FILE.safetensors...]

The peers come from the Python package index, in versions that scripts/setup.sh names, into build/venv-peers. Those that
cannot be had are left out, and the report says why. `--python PYTHON` installs nothing: it measures the peers that this
interpreter has. bench/peers/in_memory.py and in_files.py have the list. --only: those whose name contains WORD; LMC's
levels are always measured. --data: likewise the files and deltas whose name in the report contains WORD.

Without files: those of examples/data and build/model (examples/fetch_model.sh), and those that bench/peers/corpus.py
makes, of which one has --mib MiB; as deltas, the snapshots of examples/data, and what examples/data/train_snapshots.py
has written to build/snapshots: files of the last pair of steps that are ten apart. --quick: only examples/data, the
later snapshot as a delta only, one round, one thread.

Each measurement is a process of its own (bench/peers/measure.py), on one core or two: a peer that can be told its
number of threads is measured with one and with two. Rounds go through all peers; the fastest round counts, and a peer
whose process takes longer than 20 s has one. All bytes that come back are compared; where they differ, the report has a
fault and no numbers.

A peer for memory takes one tensor after another and returns new memory. A peer for files has its files in memory
(tmpfs). ratio is stored bytes / bytes of the tensors. A delta is coded the peer's own way if it has one. Otherwise it
is marked: "XOR" is computed by NumPy around the peer's usual way, in its time; "difference" counts the steps between
floats. Memory is what the process takes beside its input, while it encodes and decodes.

The report goes to build/bench/peers.json, too. DIR gets peers_encode.svg and peers_decode.svg, which need matplotlib
for /usr/bin/python3.
"""

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from common import GIB, MIB, circumstances, command_line, read_tensors, write_report

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "bench", "peers")]
from in_files import TOOLS  # noqa: E402
from in_memory import CODECS  # noqa: E402

PEERS = {**CODECS, **TOOLS}
EXAMPLES = os.path.join(ROOT, "examples", "data")
PASSES_S, QUICK_PASSES_S = 0.3, 0.1  # of the passes in a process
SLOW_S, LIMIT_S = 20, 1800
FULL_FOLDER = 8  # bytes in memory for a byte of the largest file
LMC = "LMC default"


# ---- what is measured ----

def environment(python):
    """The interpreter of the peers, and reasons by the names of packages that could not be installed."""
    if python:
        return python, {}
    script = 'set -eu; root=$1; cd "$root"; . scripts/setup.sh; lmc_venv_peers'
    if subprocess.run(["sh", "-c", script, "sh", ROOT], stdout=sys.stderr, check=False).returncode != 0:
        sys.exit("peers.py: no environment for the peers; --python PYTHON measures what PYTHON has")
    folder = os.path.join(ROOT, "build", "venv-peers")
    with open(os.path.join(folder, "left-out"), encoding="utf-8") as file:
        return os.path.join(folder, "bin", "python"), dict(line.rstrip("\n").split(": ", 1) for line in file)


def name_of(path):
    return os.path.basename(path).replace(".safetensors", "")


def snapshot_pairs(folder):
    """(base, new) for each kind of file of the last two steps that are ten apart."""
    steps = {}
    for path in glob.glob(os.path.join(folder, "step*.safetensors")):
        step, kind = re.fullmatch(r"step(\d+)\.(.*)\.safetensors", os.path.basename(path)).groups()
        steps.setdefault(int(step), {})[kind] = path
    pairs = [(steps[step - 10], kinds) for step, kinds in sorted(steps.items()) if step - 10 in steps]
    return [(pairs[-1][0][kind], path) for kind, path in sorted(pairs[-1][1].items()) if kind in pairs[-1][0]] \
        if pairs else []


def cases_of(options, python, folder):
    """name -> paths: a file, or a base after its file."""
    files, pairs = options.files, options.delta
    if not files and not pairs:
        files = sorted(glob.glob(os.path.join(EXAMPLES, "*.safetensors")))
        pairs = [[os.path.join(EXAMPLES, f"step0{step}.bf16.safetensors") for step in (3000, 3010)]]
        if options.quick:
            files.remove(pairs[0][1])
        else:
            model = os.path.join(ROOT, "build", "model")
            models = sorted(glob.glob(os.path.join(model, "*.safetensors")))
            whole = [path for path in models if name_of(path) == "all-MiniLM-L6-v2"]
            made = subprocess.run([python, os.path.join(ROOT, "bench", "peers", "corpus.py"), folder,
                                   str(options.mib), *whole], stdout=subprocess.PIPE, check=True, text=True).stdout
            files += models + made.splitlines()
            there = {os.path.basename(new) for _, new in pairs}
            pairs += [pair for pair in snapshot_pairs(os.path.join(ROOT, "build", "snapshots"))
                      if os.path.basename(pair[1]) not in there]
    cases = {}
    for path in files:
        cases[name_of(path) if name_of(path) not in cases else path] = [path]
    for base, new in pairs:
        name = f"{name_of(base)} -> {name_of(new)}"
        cases[name if name not in cases else f"{base} -> {new}"] = [new, base]
    words = options.data or [""]
    chosen = {case: paths for case, paths in cases.items() if any(word in case for word in words)}
    if not chosen:
        sys.exit(f"peers.py: no such data among: {', '.join(cases)}")
    return chosen


def check_pair(case, paths):
    """Ends the program if a base has other tensors."""
    shapes = [[(name, dtype, shape) for name, dtype, shape, _ in read_tensors(path)] for path in paths]
    if shapes[1:] not in ([], shapes[:1]):
        sys.exit(f"peers.py: {case}: the files have other tensors")


def room(options):
    """A folder in memory if there is room, else one for temporary files."""
    shared = "/dev/shm"
    largest = max([options.mib * MIB, *map(os.path.getsize, options.files + sum(options.delta, []))])
    fits = os.path.isdir(shared) and shutil.disk_usage(shared).free > FULL_FOLDER * largest
    return tempfile.TemporaryDirectory(prefix="lmc-bench-", dir=shared if fits else None)


# ---- measuring ----

def variables(build, threads):
    """The environment of a measurement: LMC's library, and what tells peers their threads, or not to look for news."""
    count = str(threads)
    return {**os.environ, "LMCODEC_LIBRARY_DIR": os.path.join(build, "lib"),
            "PYTHONPATH": os.path.join(ROOT, "python") + os.pathsep + os.environ.get("PYTHONPATH", ""),
            "MOONCLIP_THREADS": count, "BLOSC_NTHREADS": count, "OMP_NUM_THREADS": count, "NUMBA_NUM_THREADS": count,
            "MOONCLIP_FSYNC": "0", "BIGSMALL_DISABLE_VERSION_CHECK": "1", "HF_HUB_OFFLINE": "1"}


def measure(options, python, folder, peer, threads, paths):
    """What a process found: a row, or "missing", or "fault"."""
    place = os.path.join(folder, "measure")
    os.mkdir(place)
    command = [python, "-W", "ignore", os.path.join(ROOT, "bench", "peers", "measure.py"), peer, str(threads),
               str(QUICK_PASSES_S if options.quick else PASSES_S), place, *paths]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=LIMIT_S, check=False,
                              env=variables(options.build, threads))
        result = os.path.join(place, "result.json")
        if done.returncode == 0 and os.path.exists(result):
            with open(result, encoding="utf-8") as file:
                return json.load(file)
        if done.returncode < 0:
            return {"fault": f"killed by {signal.Signals(-done.returncode).name}"}
        return {"fault": f"exit status {done.returncode}: {(done.stderr.strip() or '?').splitlines()[-1][:160]}"}
    except subprocess.TimeoutExpired:
        return {"fault": f"no end in {LIMIT_S} s"}
    finally:
        shutil.rmtree(place)


def better(old, new):
    """A row from those of two rounds."""
    if old is None:
        return {**new, "round_count": 1}
    least = {key: min(old[key], new[key]) for key in ("encode_s", "decode_s")}
    most = {key: max(old[key], new[key])
            for key in ("stored_nbytes", "peak_nbytes", "encode_memory_nbytes", "decode_memory_nbytes")}
    return {**old, **least, **most, "round_count": old["round_count"] + 1}


def runs_of(peers, is_delta, thread_counts):
    """(peer, number of threads) of a round."""
    return [(name, threads) for threads in thread_counts for name in peers if threads in PEERS[name][0].THREADS
            and (PEERS[name][0].DELTA if is_delta else PEERS[name][0].IS_DENSE)]


def measure_case(options, python, folder, case, paths, left_out):
    """Rows and faults of a file or a pair. Peers that turn out to be missing go to left_out."""
    rows, faults, slow = {}, {}, set()
    peers = [name for name in PEERS if name not in left_out
             and (name.startswith("LMC") or not options.only or any(word in name for word in options.only))]
    for number in range(options.rounds):
        for run in runs_of(peers, len(paths) > 1, (1,) if options.quick else (1, 2)):
            if run[0] in left_out or run in faults or run in slow:
                continue
            show_progress(f"{case}: round {number + 1} of {options.rounds}: {run[0]}, {run[1]}")
            begin = time.monotonic()
            found = measure(options, python, folder, *run, paths)
            if time.monotonic() - begin > SLOW_S:
                slow.add(run)
            if "missing" in found:
                left_out[run[0]] = found["missing"]
            elif "fault" in found:
                faults[run] = found["fault"]
                rows.pop(run, None)
            else:
                rows[run] = better(rows.get(run), found)
    show_progress("")
    return [finished(case, len(paths) > 1, *run, row) for run, row in rows.items()], \
        [{"data": case, "peer": peer, "thread_count": threads, "fault": text}
         for (peer, threads), text in faults.items()]


def finished(case, is_delta, peer, threads, row):
    gib = row["nbytes"] / GIB
    return {"data": case, "delta": PEERS[peer][0].DELTA if is_delta else None, "peer": peer, "thread_count": threads,
            **row, "ratio": row["stored_nbytes"] / row["nbytes"], "encode_GiB_s": gib / row["encode_s"],
            "decode_GiB_s": gib / row["decode_s"]}


# ---- reporting ----

def show_progress(text):
    """A line of a terminal, in the place of the last one."""
    if sys.stderr.isatty():
        print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)


def dtypes_of(path):
    return "+".join(dict.fromkeys(dtype for _, dtype, _, content in read_tensors(path) if content))


def print_case(case, dtypes, rows, faults):
    """A line for each peer, the least ratio first; speeds with one thread and with two."""
    one = sorted((row for row in rows if row["thread_count"] == 1), key=lambda row: row["ratio"])
    two = {row["peer"]: row for row in rows if row["thread_count"] == 2}
    size = f": {one[0]['nbytes']} bytes of {dtypes} in {one[0]['tensor_count']} tensors" if one else ""
    print(f"\n{case}{size}")
    print(f"{'':33} {'delta':10} {'ratio':>7} {'1 thread: encode':>17} {'decode':>7} {'2: encode':>10} {'decode':>7}"
          f" {'MiB: encode':>12} {'decode':>7}")
    for row in one:
        other = two.get(row["peer"])
        speeds = f"{other['encode_GiB_s']:10.3f} {other['decode_GiB_s']:7.3f}" if other else " " * 18
        print(f"{row['peer']:33} {row['delta'] or '':10} {row['ratio']:7.4f} {row['encode_GiB_s']:17.3f} "
              f"{row['decode_GiB_s']:7.3f} {speeds} {row['encode_memory_nbytes'] / MIB:12.0f} "
              f"{row['decode_memory_nbytes'] / MIB:7.0f}" + ("  changes its input" if row["is_input_changed"] else ""))
    for fault in faults:
        print(f"{fault['peer']:33} with {fault['thread_count']}: {fault['fault']}")
    sys.stdout.flush()


def print_smaller(rows):
    """The peers that store less than LMC's default level, by data."""
    print("\nSmaller than LMC's level default:")
    for case in dict.fromkeys(row["data"] for row in rows):
        found = {row["peer"]: row for row in rows if row["data"] == case and row["thread_count"] == 1}
        own = {name: row["ratio"] for name, row in found.items() if name.startswith("LMC")}
        less = sorted((row["ratio"], name) for name, row in found.items()
                      if name not in own and row["ratio"] < own.get(LMC, 0))
        print(f"  {case}: LMC " + ", ".join(f"{name[4:]} {ratio:.4f}" for name, ratio in own.items()) + "; " +
              (", ".join(f"{name} {ratio:.4f}" for ratio, name in less) or "none"))


def draw(report, pictures):
    os.makedirs(pictures, exist_ok=True)
    subprocess.run(["/usr/bin/python3", os.path.join(ROOT, "bench", "plots", "draw_peers.py"), report, pictures],
                   check=True)


def read_options():
    parser = command_line(__doc__, 3, "build")
    parser.add_argument("files", nargs="*", metavar="FILE.safetensors")
    parser.add_argument("--delta", nargs=2, action="append", default=[], metavar=("BASE", "NEW"))
    parser.add_argument("--only", action="append", metavar="WORD")
    parser.add_argument("--data", action="append", metavar="WORD")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--python")
    parser.add_argument("--pictures", metavar="DIR")
    parser.set_defaults(json=os.path.join(ROOT, "build", "bench", "peers.json"))
    options = parser.parse_intermixed_args()
    options.rounds = 1 if options.quick else options.rounds
    return options


def main():
    options = read_options()
    python, reasons = environment(options.python)
    left_out = {name: reasons[made.PACKAGE] for name, (made, _) in PEERS.items() if made.PACKAGE in reasons}
    head = {**circumstances(options.build), "round_count": options.rounds, "is_quick": options.quick}
    print(f"{head['machine']}, {head['core_count']} cores; LMC {head['lmc_version']}; fastest of {options.rounds}; "
          "GiB/s")
    rows, faults = [], []
    report = {**head, "left_out": left_out, "faults": faults, "rows": rows}
    with room(options) as folder:
        cases = cases_of(options, python, folder)
        for case, paths in cases.items():
            check_pair(case, paths)
            found, failed = measure_case(options, python, folder, case, paths, left_out)
            dtypes = dtypes_of(paths[0])
            print_case(case, dtypes, found, failed)
            rows += [{**row, "dtypes": dtypes} for row in found]
            faults += failed
            write_report(options.json, report)  # what there is so far, as it may take an hour
    print_smaller(rows)
    for name, reason in left_out.items():
        print(f"left out: {name}: {reason}")
    if options.pictures:
        draw(options.json, options.pictures)


if __name__ == "__main__":
    main()
