#!/usr/bin/env python3
"""remote.py - an archive on an HTTP server: opened, one tensor, all tensors; beside a safetensors file, and beside
downloading first.

    python3 bench/remote.py [--mib N] [--latency-ms N] [--mb-per-s N] [--rounds N]

A server on this machine, a process of its own, waits before each answer and limits the bytes per second of all
connections together. It counts requests and bytes. Every case is a fresh process with the modules imported; the fastest
of the rounds counts. Needs numpy, ml_dtypes, fsspec and aiohttp. Results go to build/bench/remote.json, too.
"""
import json
import multiprocessing
import os
import sys
import tempfile
import time

from common import command_line, write_report

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(ROOT, "tests", "python", "stores")]
TENSOR = "layers.1.weight"
NAMES = {"model.safetensors": "safetensors file", "model.safetensors.lmc": "archive"}


# ---- the server ----

def serve(folder, latency_s, bytes_per_s, pipe):
    """Answers every message with the requests and bytes since the last one."""
    from range_server import RangeServer
    files = {}
    for name in NAMES:
        with open(os.path.join(folder, name), "rb") as file:
            files[name] = file.read()
    with RangeServer(files, latency_s=latency_s, bytes_per_s=bytes_per_s) as server:
        pipe.send(server.url)
        while pipe.recv():
            pipe.send((server.count(), server.nbytes))
            server.forget()


# ---- the cases: function(url) -> steps, each a function to be timed ----

def by_lmcodec(url):
    """lmcodec.remote: header, then ranges, several at once."""
    import fsspec.implementations.http  # noqa: F401
    import lmcodec.remote
    opened = []
    return [lambda: opened.append(lmcodec.remote.open(url, "np")), lambda: opened[0].get_tensor(TENSOR),
            lambda: opened[0].get_tensors()]


def by_fsspec(url):
    """A file of fsspec, which a reader of safetensors files goes through in order."""
    import fsspec
    import fsspec.implementations.http  # noqa: F401
    opened = []

    def header():
        opened.append(fsspec.open(url, "rb").open())
        nbytes = int.from_bytes(opened[0].read(8), "little")
        entries = json.loads(opened[0].read(nbytes))
        entries.pop("__metadata__", None)
        opened.append({name: (8 + nbytes + entry["data_offsets"][0], 8 + nbytes + entry["data_offsets"][1])
                       for name, entry in entries.items()})

    def read(name):
        begin, end = opened[1][name]
        opened[0].seek(begin)
        return opened[0].read(end - begin)

    return [header, lambda: read(TENSOR), lambda: [read(name) for name in opened[1]]]


def by_download(url):
    """The whole file to a disk, then lmcodec."""
    import fsspec
    import fsspec.implementations.http  # noqa: F401
    import lmcodec
    import lmcodec.numpy  # noqa: F401
    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, os.path.basename(url))
    opened = [folder]

    def download():
        fsspec.filesystem("http").get_file(url, path)
        opened.append(lmcodec.safe_open(path, "np"))

    return [download, lambda: opened[1].get_tensor(TENSOR), lambda: opened[1].get_tensors()]


CASES = [(by_lmcodec, "model.safetensors.lmc"), (by_download, "model.safetensors.lmc"),
         (by_lmcodec, "model.safetensors"), (by_fsspec, "model.safetensors"), (by_download, "model.safetensors")]
LABELS = {by_lmcodec: "lmcodec.remote", by_fsspec: "fsspec, in order", by_download: "download, then open"}
STEPS = ("open", "one tensor", "all tensors")


def measure(case, url, pipe):
    """In a fresh process: seconds of each step. A message before and behind each, for the server's counts."""
    for step in case(url):
        pipe.recv()
        begin = time.perf_counter()
        step()
        pipe.send(time.perf_counter() - begin)


def run_case(case, url, server):
    """(seconds, requests, bytes) of each step."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=measure, args=(case, url, there))
    process.start()
    results = []
    for _ in STEPS:
        server.send(True)
        server.recv()
        here.send(True)
        seconds = here.recv()
        server.send(True)
        results.append((seconds, *server.recv()))
    process.join()
    return results


# ---- data, tables ----

def make_files(folder, mib):
    """A model of bf16 weights, a quarter of a layer's bytes in each of four tensors of different sizes."""
    import lmcodec.numpy
    import ml_dtypes
    import numpy
    random = numpy.random.default_rng(1)
    tensors = {}
    for layer in range(max(2, mib // 8)):
        for part, rows in (("norm", 1), ("query", 512), ("weight", 2047), ("value", 1536)):
            tensors["layers.%d.%s" % (layer, part)] = \
                (random.standard_normal((rows, 1024), dtype="f4") * numpy.float32(0.02)).astype(ml_dtypes.bfloat16)
    for name in NAMES:
        lmcodec.numpy.save_file(tensors, os.path.join(folder, name))
    return sum(array.nbytes for array in tensors.values())


def show(rows):
    print("%-22s %-18s " % ("", "") + "".join("%-32s" % step for step in STEPS))
    print("%-22s %-18s " % ("", "") + "%8s %9s %12s   " % ("s", "requests", "MB") * len(STEPS))
    for row in rows:
        print("%-22s %-18s " % (row["way"], row["file"]) + "".join(
            "%8.2f %9d %12.2f   " % (step["s"], step["requests"], step["nbytes"] / 1e6) for step in row["steps"]))


def main():
    parser = command_line(__doc__, 3)
    parser.add_argument("--mib", type=int, default=128, help="of weights (default: 128)")
    parser.add_argument("--latency-ms", type=float, default=50)
    parser.add_argument("--mb-per-s", type=float, default=100, help="10^6 bytes (default: 100)")
    parser.set_defaults(json=os.path.join(ROOT, "build", "bench", "remote.json"))
    options = parser.parse_args()
    rows = [{"way": LABELS[case], "file": NAMES[name], "steps": []} for case, name in CASES]
    with tempfile.TemporaryDirectory() as folder:
        nbytes = make_files(folder, options.mib)
        here, there = multiprocessing.Pipe()
        server = multiprocessing.get_context("spawn").Process(
            target=serve, args=(folder, options.latency_ms / 1000, options.mb_per_s * 1e6, there), daemon=True)
        server.start()
        url = here.recv()
        for _ in range(options.rounds):
            for row, (case, name) in zip(rows, CASES):
                found = [{"s": seconds, "requests": requests, "nbytes": sent}
                         for seconds, requests, sent in run_case(case, url + name, here)]
                row["steps"] = [min(old, new, key=lambda step: step["s"])
                                for old, new in zip(row["steps"] or found, found)]
        here.send(False)
        server.join()
    print("%.1f MB of weights, %g ms before each answer, %g MB/s" % (nbytes / 1e6, options.latency_ms,
                                                                    options.mb_per_s))
    show(rows)
    write_report(options.json, {"weights_nbytes": nbytes, "latency_ms": options.latency_ms,
                                "mb_per_s": options.mb_per_s, "rows": rows})


if __name__ == "__main__":
    main()
