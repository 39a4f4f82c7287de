#!/usr/bin/env python3
"""mount.py - reading an archive through `lmc-st mount`, beside the plain file and beside restoring it first.

    python3 bench/mount.py BUILD [--mib N] [--model DIR] [--threads N] [--rounds N] [--json FILE]

BUILD has tool/lmc-st (`sh bench/run.sh` makes build/bench). The model is that of bench/serving.py: real weights
in bf16, repeated until they have --mib (default 2048). Archive and plain file are in the page cache. Each round mounts
anew and measures in turn, in this process:

    plain     the plain file, read in order, 1 MiB at a time
    first     the mounted file, read so for the first time: all of it is decoded
    second    the same again: it is in the page cache
    mapped    the mounted file of a new mount, mapped; each page is touched in order
    random    2000 reads of 64 KiB of a new mount, at random places: median and 99th percentile
    load      all tensors by safetensors.safe_open(), from the plain file, from a new mount, and from a file that
              `lmc-st restore` writes first (it is not forced to the disk)

The fastest of the rounds counts; all bytes are compared once. Needs /dev/fuse and fusermount3; safetensors and torch
for `load`, which is left out without them.
"""

import contextlib
import hashlib
import mmap
import os
import random
import subprocess
import tempfile
import time

from common import GIB, KIB, MIB, circumstances, command_line, write_report
from serving import link_model, make_model

CHUNK = MIB
RANDOM_COUNT, RANDOM_NBYTES = 2000, 64 * KIB


@contextlib.contextmanager
def mounted(tool, archive, threads):
    """The folder where the archive, or converted directory, is mounted."""
    with tempfile.TemporaryDirectory(prefix="lmc-bench-") as folder:
        subprocess.run([tool, "mount", archive, folder, "-j", str(threads)], check=True)
        try:
            yield folder
        finally:
            subprocess.run([tool, "unmount", folder], check=True)


# ---- what is measured: function(path) -> seconds, or several ----

def read_in_order(path, digest=None):
    """Seconds to read a file in order."""
    room = bytearray(CHUNK)
    begin = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        while True:
            nbytes = file.readinto(room)
            if not nbytes:
                return time.perf_counter() - begin
            if digest:
                digest.update(memoryview(room)[:nbytes])


def touch_mapped(path):
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        begin = time.perf_counter()
        for at in range(0, len(mapped), CHUNK):
            mapped[at:at + CHUNK:mmap.PAGESIZE]
        return time.perf_counter() - begin


def read_at_random(path, seed):
    """Seconds of each read."""
    chosen = random.Random(seed)
    room = bytearray(RANDOM_NBYTES)
    places = [chosen.randrange(os.path.getsize(path) // RANDOM_NBYTES) * RANDOM_NBYTES for _ in range(RANDOM_COUNT)]
    taken = []
    with open(path, "rb", buffering=0) as file:
        for place in places:
            begin = time.perf_counter()
            os.preadv(file.fileno(), [room], place)
            taken.append(time.perf_counter() - begin)
    return taken


def load(paths):
    """Seconds to have all tensors of files in memory."""
    import safetensors
    begin = time.perf_counter()
    for path in paths:
        with safetensors.safe_open(path, "pt") as file:
            for name in file.keys():
                file.get_tensor(name).clone()
    return time.perf_counter() - begin


# ---- a round ----

def measure_reads(tool, archive, name, plain, threads, seed):
    found = {"plain_s": read_in_order(plain)}
    with mounted(tool, archive, threads) as folder:
        found["first_s"] = read_in_order(os.path.join(folder, name))
        found["second_s"] = read_in_order(os.path.join(folder, name))
    with mounted(tool, archive, threads) as folder:
        found["mapped_s"] = touch_mapped(os.path.join(folder, name))
    with mounted(tool, archive, threads) as folder:
        taken = sorted(read_at_random(os.path.join(folder, name), seed))
    found["random_median_s"] = taken[len(taken) // 2]
    found["random_p99_s"] = taken[len(taken) * 99 // 100]
    return found


def measure_loads(tool, packed, names, model, threads):
    found = {"load_plain_s": load([os.path.join(model, name) for name in names])}
    with mounted(tool, packed, threads) as folder:
        found["load_mounted_s"] = load([os.path.join(folder, name) for name in names])
    with tempfile.TemporaryDirectory(prefix="lmc-bench-") as folder:
        back = os.path.join(folder, "back")
        begin = time.perf_counter()
        subprocess.run([tool, "restore", packed, "-o", back, "-q", "--no-fsync", "-j", str(threads)], check=True)
        found["restore_s"] = time.perf_counter() - begin
        found["load_restored_s"] = load([os.path.join(back, name) for name in names])
    return found


def check_bytes(tool, archive, name, plain, threads):
    with mounted(tool, archive, threads) as folder:
        digests = [hashlib.sha256(), hashlib.sha256()]
        for path, digest in zip((plain, os.path.join(folder, name)), digests):
            read_in_order(path, digest)
    if digests[0].digest() != digests[1].digest():
        raise SystemExit("%s: what is mounted differs" % name)


def main():
    parser = command_line(__doc__, 5, "build")
    parser.add_argument("--mib", type=int, default=2048, help="of the model that is made (default: 2048)")
    parser.add_argument("--model", metavar="DIR", help="a directory with safetensors files instead")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of the mount")
    options = parser.parse_args()
    tool = os.path.join(options.build, "tool", "lmc-st")
    with tempfile.TemporaryDirectory(prefix="lmc-bench-") as temporary:
        model, packed = os.path.join(temporary, "model"), os.path.join(temporary, "packed")
        link_model(model, options.model) if options.model else make_model(model, options.mib * MIB)
        subprocess.run([tool, "convert", model, "-o", packed, "-q", "--no-fsync"], check=True)
        names = sorted(name for name in os.listdir(model) if name.endswith(".safetensors"))
        name = max(names, key=lambda each: os.path.getsize(os.path.join(model, each)))
        plain, archive = os.path.join(model, name), os.path.join(packed, name + ".lmc")
        check_bytes(tool, archive, name, plain, options.threads)
        rounds = [measure_reads(tool, archive, name, plain, options.threads, seed) for seed in range(options.rounds)]
        try:
            import safetensors  # noqa: F401: measure_loads() needs both
            import torch  # noqa: F401
        except ImportError:
            print("torch and safetensors are not installed: loading is not measured")
        else:
            for number in range(options.rounds):
                rounds[number].update(measure_loads(tool, packed, names, model, options.threads))
        nbytes, archive_nbytes = os.path.getsize(plain), os.path.getsize(archive)
    best = {key: min(each[key] for each in rounds) for key in rounds[0]}
    head = circumstances(options.build)
    print("%.2f GiB in %.2f GiB, %s, %d cores, %d threads; fastest of %d rounds" % (
        nbytes / GIB, archive_nbytes / GIB, head["machine"], head["core_count"], options.threads, options.rounds))
    for key, text in (("plain_s", "plain file, in the page cache"), ("first_s", "mounted, first read"),
                      ("second_s", "mounted, second read"), ("mapped_s", "mounted, mapped, first touch")):
        print("%-32s %6.3f s  %6.2f GiB/s  %5.2f x plain" % (text, best[key], nbytes / GIB / best[key],
                                                            best[key] / best["plain_s"]))
    print("%-32s %6.0f us, 99 %% below %.0f us" % ("mounted, 64 KiB at random", best["random_median_s"] * 1e6,
                                                  best["random_p99_s"] * 1e6))
    if "load_plain_s" in best:
        print("%-32s %6.3f s plain, %.3f s mounted, %.3f s restored (%.3f s of it restoring, %.2f GiB written)" % (
            "safetensors, all tensors", best["load_plain_s"], best["load_mounted_s"],
            best["restore_s"] + best["load_restored_s"], best["restore_s"], nbytes / GIB))
    write_report(options.json, {**head, "nbytes": nbytes, "archive_nbytes": archive_nbytes,
                                "thread_count": options.threads, "round_count": options.rounds, **best})


if __name__ == "__main__":
    main()
