"""checkpoint.py - how long until a snapshot is safe behind a link, raw and with LMC.

    python3 bench/checkpoint.py BUILD SNAPSHOT BASE [--gb 100] [--mib 1024] [--rounds 3] [--busy] [--json FILE]

BUILD is a build folder with -DLMC_BUILD_BENCH=ON. SNAPSHOT and BASE are folders of two snapshots of one training, as
bench/study/train_series.py writes them. The snapshot that is measured has the weights in bf16 and f32 and both moments
of Adam. Its tensors are repeated with rotated rows, which keeps their statistics, until there are 8 files (shards) with
--mib together. lmc-st converts shard after shard, alone (a key frame) and with BASE's shard as base (a delta), with
1, 2, 4 ... threads. For each shard the fastest of --rounds counts. Files are in the page cache, and nothing is flushed.

From these speeds and ratios follows the time for a snapshot of --gb GB in shards of 5 GB: while a shard is on its way,
the next one is converted. So the slower of the two sets the pace, and the first shard must be there before the link has
work. Then 2 links are real: shards go through a pipe whose reader takes so many bytes a second. The clock is compared
with the computation for the times that converting these shards took.

--busy: other programs are at work. The speed for the computation is then that of the CPU time, which c threads share
evenly.
"""

import json
import os
import queue
import struct
import subprocess
import sys
import tempfile
import threading
import time

from common import MIB, circumstances, command_line, read_tensors, rotated, run, write_report

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tool"))
from throttled import GB, PIECE_NBYTES, drain, new_link, write_all  # noqa: E402

KINDS = ("weights.bf16", "weights.f32", "adam_m", "adam_v")
LINKS = (0.2, 1, 3, 10)       # GB/s
REAL_LINKS = (0.2, 1)
SHARD_COUNT = 8               # of what is measured
SHARD_GB = 5                  # of what is computed
KEY_EVERY = 8                 # snapshots


# ---- shards ----

def tensors_of(folder):
    """Yields name, dtype, shape, content."""
    for kind in KINDS:
        for name, *tensor in read_tensors(os.path.join(folder, kind + ".safetensors")):
            yield f"{kind}.{name}", *tensor


def make_shards(folder, snapshot, nbytes):
    """Writes SHARD_COUNT files; returns their paths."""
    os.makedirs(folder)
    tensors = list(tensors_of(snapshot))
    once = sum(len(content) for *_, content in tensors)
    copies = max(1, round(nbytes / SHARD_COUNT / once))
    paths = []
    for shard in range(SHARD_COUNT):
        header, at, numbers = {}, 0, range(shard * copies, (shard + 1) * copies)
        for number in numbers:
            for name, dtype, shape, content in tensors:
                header[f"{number}.{name}"] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(content)]}
                at += len(content)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        paths.append(os.path.join(folder, f"shard-{shard}.safetensors"))
        with open(paths[-1], "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for number in numbers:
                for _, _, shape, content in tensors:
                    file.write(rotated(shape, content, number + 1))
    return paths


def nbytes_of(paths):
    return sum(map(os.path.getsize, paths))


# ---- speeds ----

def convert_command(build, path, base, threads):
    based = ["--base", os.path.join(base, os.path.basename(path))] if base else []
    return [os.path.join(build, "tool", "lmc-st"), "convert", path, "-q", "-f", "--no-fsync", "-j", str(threads), "-o",
            path + ".lmc", *based]


def measure(build, paths, base, threads):
    """Returns seconds and CPU seconds of each shard, and stored bytes."""
    seconds, cpu_seconds, _ = zip(*(run(build, convert_command(build, path, base, threads)) for path in paths))
    return seconds, cpu_seconds, nbytes_of(path + ".lmc" for path in paths)


def verify(build, paths, base):
    tool = os.path.join(build, "tool", "lmc-st")
    for path in paths:
        based = ["--base", os.path.join(base, os.path.basename(path))] if base else []
        with subprocess.Popen([tool, "cat", path + ".lmc", *based], stdout=subprocess.PIPE) as cat:
            if subprocess.run(["cmp", "-s", path, "-"], stdin=cat.stdout, check=False).returncode != 0:
                raise SystemExit(f"checkpoint.py: {path}: what was restored differs")


def thread_counts():
    """1, 2, 4 ... as far as there are cores."""
    counts, cores = [1], len(os.sched_getaffinity(0))
    while 2 * counts[-1] <= cores:
        counts.append(2 * counts[-1])
    return counts


def measure_speeds(build, paths, base, rounds):
    """A row for each way: key frames and deltas, by threads."""
    ways = [(what, threads) for threads in thread_counts() for what in ("key", "delta")]
    best = {}
    for number in range(rounds):
        for what, threads in ways:
            seconds, cpu_seconds, stored = measure(build, paths, base if what == "delta" else None, threads)
            old = best.get((what, threads), (seconds, cpu_seconds))
            best[what, threads] = list(map(min, seconds, old[0])), list(map(min, cpu_seconds, old[1])), stored
            if number == 0 and threads == 1:
                verify(build, paths, base if what == "delta" else None)
    nbytes = nbytes_of(paths)
    return [{"what": what, "threads": threads, "ratio": best[what, threads][2] / nbytes,
             "GB_s": nbytes / GB / sum(best[what, threads][0]),
             "cpu_GB_s": nbytes / GB / sum(best[what, threads][1])} for what, threads in ways]


# ---- what follows ----

def seconds_behind(gigabytes, link, speed, ratio, shard_count):
    """Two stages in a row, each with one shard at a time."""
    convert, send = gigabytes / shard_count / speed, gigabytes * ratio / shard_count / link
    return convert + send + (shard_count - 1) * max(convert, send)


def by_cpu_time(speeds):
    """The same speeds, as far as CPU time allows."""
    return [{**speed, "GB_s": speed["threads"] * speed["cpu_GB_s"]} for speed in speeds]


def compute(speeds, gigabytes):
    """A row for each link: seconds by way, and snapshots in the time of a raw one, a key frame among KEY_EVERY."""
    shard_count = max(1, round(gigabytes / SHARD_GB))
    rows = []
    for link in LINKS:
        row = {"link_GB_s": link, "raw": gigabytes / link}
        for speed in speeds:
            row[f"{speed['what']} {speed['threads']}"] = seconds_behind(gigabytes, link, speed["GB_s"], speed["ratio"],
                                                                       shard_count)
        for threads in sorted({speed["threads"] for speed in speeds}):
            mean = (row[f"key {threads}"] + (KEY_EVERY - 1) * row[f"delta {threads}"]) / KEY_EVERY
            row[f"more {threads}"] = row["raw"] / mean
        for speed in speeds:
            if speed["threads"] == 1:
                row[f"{speed['what']} cores"] = link / speed["ratio"] / speed["cpu_GB_s"]
        rows.append(row)
    return rows


# ---- a real link ----

def send(paths, fd):
    """Writes the files that the queue names until it gives None."""
    while (path := paths.get()) is not None:
        with open(path, "rb", buffering=0) as file:
            while piece := file.read(PIECE_NBYTES):
                write_all(fd, piece)


def send_for_real(build, paths, base, what, threads, link):
    """Seconds until the reader of the throttled pipe has all of it, and the seconds that follow from converting."""
    read_fd, write_fd = new_link()
    ready = queue.Queue()
    sender = threading.Thread(target=send, args=(ready, write_fd))
    started = time.monotonic()
    reader = os.fork()
    if reader == 0:
        os.close(write_fd)
        drain(read_fd, link)
        os._exit(0)
    os.close(read_fd)
    sender.start()
    computed = 0
    for path in paths:
        if what != "raw":
            run(build, convert_command(build, path, base if what == "delta" else None, threads))
        ready_at = 0 if what == "raw" else time.monotonic() - started
        ready.put(path if what == "raw" else path + ".lmc")
        computed = max(computed, ready_at) + os.path.getsize(path if what == "raw" else path + ".lmc") / GB / link
    ready.put(None)
    sender.join()
    os.close(write_fd)
    os.waitpid(reader, 0)
    return time.monotonic() - started, computed


def confirm(build, paths, base, threads, rounds):
    rows = []
    for link in REAL_LINKS:
        for what in ("raw", "key", "delta"):
            seconds, computed = min(send_for_real(build, paths, base, what, threads, link) for _ in range(rounds))
            rows.append({"link_GB_s": link, "what": what, "threads": threads, "seconds": seconds,
                         "computed_seconds": computed})
    return rows


# ---- the report ----

def show(report):
    print(f"machine: {report['machine']}, {report['core_count']} cores, LMC {report['lmc_version']}")
    print(f"measured: {report['nbytes'] / MIB:.0f} MiB in {SHARD_COUNT} shards\n")
    print(f"{'':6} {'threads':>7} {'ratio':>7} {'GB/s':>7} {'GB / CPU s':>11}")
    for row in report["speeds"]:
        print(f"{row['what']:6} {row['threads']:7} {row['ratio']:7.4f} {row['GB_s']:7.2f} {row['cpu_GB_s']:11.2f}")
    ways = [key for key in report["computed"][0] if key.split()[0] in ("raw", "key", "delta") and "cores" not in key]
    print(f"\nseconds until {report['gb']:g} GB are safe, by {'CPU time' if report['is_busy'] else 'the clock'}\n")
    print(f"{'GB/s':>5} " + " ".join(f"{way:>9}" for way in ways))
    for row in report["computed"]:
        print(f"{row['link_GB_s']:5g} " + " ".join(f"{row[way]:9.1f}" for way in ways))
    print(f"\nsnapshots in the time of a raw one, one key frame in {KEY_EVERY}; cores that keep the link busy, if they "
          "scale\n")
    threads = sorted({row["threads"] for row in report["speeds"]})
    print(f"{'GB/s':>5} " + " ".join(f"{f'{count} threads':>10}" for count in threads) +
          f" {'cores, key':>12} {'cores, delta':>12}")
    for row in report["computed"]:
        print(f"{row['link_GB_s']:5g} " + " ".join(f"{row[f'more {count}']:10.2f}" for count in threads) +
              f" {row['key cores']:12.1f} {row['delta cores']:12.1f}")
    print(f"\nsnapshots in the space of a raw one: {report['more_in_space']:.2f}")
    print(f"\nthrottled pipe, {report['nbytes'] / GB:.2f} GB\n\n{'GB/s':>5} {'way':>8} {'seconds':>8} {'computed':>9}")
    for row in report["confirmed"]:
        print(f"{row['link_GB_s']:5g} {row['what']:>8} {row['seconds']:8.2f} {row['computed_seconds']:9.2f}")


def main():
    parser = command_line(__doc__, 3, "build", "snapshot", "base")
    parser.add_argument("--gb", type=float, default=100)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--busy", action="store_true")
    arguments = parser.parse_args()
    build = arguments.build
    with tempfile.TemporaryDirectory(prefix="lmc-checkpoint-") as folder:
        base = os.path.join(folder, "base")
        make_shards(base, arguments.base, arguments.mib * MIB)
        paths = make_shards(os.path.join(folder, "new"), arguments.snapshot, arguments.mib * MIB)
        speeds = measure_speeds(build, paths, base, arguments.rounds)
        ratios = {row["what"]: row["ratio"] for row in speeds}
        report = {**circumstances(build), "gb": arguments.gb, "nbytes": nbytes_of(paths),
                  "round_count": arguments.rounds, "is_busy": arguments.busy, "speeds": speeds,
                  "computed": compute(by_cpu_time(speeds) if arguments.busy else speeds, arguments.gb),
                  "more_in_space": KEY_EVERY / (ratios["key"] + (KEY_EVERY - 1) * ratios["delta"]),
                  "confirmed": confirm(build, paths, base, thread_counts()[-1], arguments.rounds)}
    show(report)
    write_report(arguments.json, report)


if __name__ == "__main__":
    main()
