"""run_store.py - a training run in a store of `lmc-st run`: bytes beside other ways, time of adding and of restoring.

    python3 bench/study/run_store.py BUILD SERIES/gpt [--count 20] [--zstd-level 19] [--rounds 3] [--json FILE]

BUILD is a build folder, SERIES what train_series.py wrote. The snapshots are the newest --count steps with optimizer
state: weights in bf16 and f32 and Adam's moments, without the gradients. Stored bytes, over those of all snapshots:

  run       lmc-st run add, a key frame every 8 steps
  alone     lmc-st convert of each snapshot
  XOR zstd  each file XORed with the same file of the step before, in groups of bytes of equal significance, through
            zstd; the first of 8 without XOR. Left out if there is no Python package zstandard

Times are of the clock, the fastest of --rounds: `run add` beside `convert --base` of the same snapshot, and `run
restore` of the step with the longest chain beside that of its key frame. What was restored is compared.
"""

import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import numpy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import command_line, nbytes_of, write_report  # noqa: E402

KEY_EVERY = 8
LEFT_OUT = "gradients"
WIDTH = {"weights.bf16": 2}


def find_snapshots(series, count):
    state = "adam_m.safetensors"
    names = [name for name in os.listdir(series) if os.path.exists(os.path.join(series, name, state))]
    return sorted(names, key=step_of)[-count:]


def step_of(name):
    return int(name.split("-")[1])


def copy_snapshots(series, steps, folder):
    for step in steps:
        os.makedirs(os.path.join(folder, step))
        for name in os.listdir(os.path.join(series, step)):
            if not name.startswith(LEFT_OUT):
                shutil.copy(os.path.join(series, step, name), os.path.join(folder, step, name))


def seconds_of(command):
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def read_groups(path, base):
    """The file's bytes, XORed with the base's, bytes of equal significance together."""
    width = WIDTH.get(os.path.basename(path)[:-len(".safetensors")], 4)
    content = numpy.fromfile(path, "u1")
    if base is not None:
        before = numpy.fromfile(base, "u1")
        content[:before.size] ^= before[:content.size]
    whole = content[:content.size // width * width].reshape(-1, width)
    return whole.T.tobytes() + content[whole.size:].tobytes()


def zstd_nbytes(folder, steps, level):
    try:
        import zstandard
    except ImportError:
        return None
    coder, total = zstandard.ZstdCompressor(level=level), 0
    for number, step in enumerate(steps):
        for name in os.listdir(os.path.join(folder, step)):
            base = os.path.join(folder, steps[number - 1], name) if number % KEY_EVERY else None
            total += len(coder.compress(read_groups(os.path.join(folder, step, name), base)))
    return total


def measure_adding(tool, folder, steps, work, rounds):
    """Seconds of adding the second snapshot to a run, and of converting it."""
    first, second = (os.path.join(folder, step) for step in steps[:2])
    base, run, out = os.path.join(work, "base.lmc"), os.path.join(work, "timed"), os.path.join(work, "out.lmc")
    subprocess.run([tool, "convert", "-q", first, "-o", base], check=True)
    added, converted = [], []
    for _ in range(rounds):
        shutil.rmtree(run, ignore_errors=True)
        shutil.rmtree(out, ignore_errors=True)
        subprocess.run([tool, "run", "add", "-q", run, first], check=True, stdout=subprocess.DEVNULL)
        added.append(seconds_of([tool, "run", "add", "-q", run, second]))
        converted.append(seconds_of([tool, "convert", "-q", second, "--base", base, "-o", out]))
    return min(added), min(converted)


def find_chain(tool, run):
    """The step with the longest chain, its key frame, and how long the chain is."""
    listed = json.loads(subprocess.run([tool, "run", "ls", "--json", run], check=True, stdout=subprocess.PIPE).stdout)
    bases = {step["step"]: step["base"] for step in listed}
    last = max(listed, key=lambda step: step["chain"])
    key = last["step"]
    while bases[key] is not None:
        key = bases[key]
    return key, last["step"], last["chain"]


def measure_restoring(tool, run, folder, steps, chain, work, rounds):
    """Seconds of restoring a key frame, and the last step of its chain."""
    seconds = []
    for number in chain:
        step = next(step for step in steps if step_of(step) == number)
        tries = []
        for _ in range(rounds):
            out = os.path.join(work, "back")
            shutil.rmtree(out, ignore_errors=True)
            tries.append(seconds_of([tool, "run", "restore", "-q", run, str(number), "-o", out]))
            names = os.listdir(os.path.join(folder, step))
            if filecmp.cmpfiles(os.path.join(folder, step), out, names, shallow=False)[0] != names:
                raise SystemExit("run_store.py: %s: the restored files differ" % step)
        seconds.append(min(tries))
    return seconds


def main():
    parser = command_line(__doc__, 3, "build", "series")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--zstd-level", type=int, default=19)
    options = parser.parse_args()
    tool = os.path.join(options.build, "tool", "lmc-st")
    steps = find_snapshots(options.series, options.count)
    if len(steps) < 2:
        parser.error("%s: fewer than 2 snapshots with optimizer state" % options.series)
    with tempfile.TemporaryDirectory(prefix="lmc-run-") as work:
        folder, run, alone = (os.path.join(work, name) for name in ("snapshots", "run", "alone"))
        copy_snapshots(options.series, steps, folder)
        original = nbytes_of(folder)
        paths = [os.path.join(folder, step) for step in steps]
        subprocess.run([tool, "run", "add", "-q", run, *paths], check=True, stdout=subprocess.DEVNULL)
        os.mkdir(alone)
        for path in paths:
            archive = os.path.join(alone, os.path.basename(path))
            subprocess.run([tool, "convert", "-q", path, "-o", archive], check=True)
        added, converted = measure_adding(tool, folder, steps, work, options.rounds)
        *chain, links = find_chain(tool, run)
        key, last = measure_restoring(tool, run, folder, steps, chain, work, options.rounds)
        zstd = zstd_nbytes(folder, steps, options.zstd_level)
        result = {"snapshots": len(steps), "original_nbytes": original, "run": nbytes_of(run) / original,
                  "alone": nbytes_of(alone) / original, "xor_zstd": zstd and zstd / original, "add_s": added,
                  "convert_s": converted, "restore_key_s": key, "restore_last_s": last, "chain": links}
    print("%d snapshots, %d bytes" % (len(steps), original))
    other = "left out" if zstd is None else "%.4f" % result["xor_zstd"]
    print("stored: run %.4f, alone %.4f, XOR zstd -%d %s" % (result["run"], result["alone"], options.zstd_level, other))
    print("run add %.3f s, convert --base %.3f s: %.2f" % (added, converted, added / converted))
    print("run restore: key frame %.3f s, a step on a chain of %d %.3f s: %.2f" % (key, links, last, last / key))
    write_report(options.json, result)


if __name__ == "__main__":
    main()
