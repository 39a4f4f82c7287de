"""measure.py - one measurement of bench/peers.py: a peer codes a file, in a process of its own.

    measure.py PEER THREADS SECONDS FOLDER NEW [BASE]

NEW and BASE are safetensors files with the same tensors. The process runs on as many cores as THREADS. FOLDER is empty,
and gets what files the peer needs, and result.json: "missing" with a reason if the peer cannot be had, "fault" if it
failed or gave other bytes back, or the numbers of a row.

A pass encodes or decodes all tensors. Passes are repeated until they took SECONDS; the fastest counts. Each pass of an
encoder has copies of the tensors, as some peers change what they are given. What a decoder gave is compared with the
file. Before the first pass, a few values are encoded and decoded. Memory is the most of the first pass beside what the
process had before it; "peak_nbytes" is all that it had then. Needs numpy.
"""

import ctypes
import gc
import importlib.metadata
import json
import mmap
import os
import shutil
import sys
import time

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from common import read_tensors, write_tensors  # noqa: E402
from in_files import TOOLS  # noqa: E402
from in_memory import CODECS, WIDTH, Tensor  # noqa: E402

PEERS = {**CODECS, **TOOLS}
PASS_COUNT_MAX = 100
WARM_VALUES = 4096  # of a tensor of each dtype
FAULT_LENGTH = 160


class Different(Exception):
    """Other bytes came back."""


# ---- this process ----

def status_nbytes(name):
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(name + ":"))


def forget_peak():
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def version_of(package):
    if package == "lmcodec":
        import lmcodec
        return lmcodec.__version__
    return importlib.metadata.version(package)


# ---- tensors ----

def views_of(path):
    """The tensors of a file that have bytes, without copies."""
    with open(path, "rb") as file:
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    head_nbytes = 8 + int.from_bytes(mapped[:8], "little")
    header = json.loads(bytes(mapped[8:head_nbytes]))
    header.pop("__metadata__", None)
    found = []
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        if begin < end:
            content = mapped[head_nbytes + begin:head_nbytes + end]
            found.append(Tensor(name, entry["dtype"], tuple(entry["shape"]), content))
    return found


def copies_of(views):
    return None if views is None else [view._replace(content=bytes(view.content)) for view in views]


def same(content, view):
    return numpy.array_equal(numpy.frombuffer(content, "u1"), numpy.frombuffer(view.content, "u1"))


def check(peer, decoded, views):
    for content, view in zip(peer.contents(decoded, views), views):
        if not same(content, view):
            raise Different(f"DIFFERENT: {view.name} came back with other bytes")


# ---- passes ----

def passes(seconds, prepare, run, finish):
    """Least seconds of the passes, how many there were, resident bytes before the first one and at most in it, and what
    the last one returned. prepare() gives the arguments of run(); finish() has its result."""
    fastest, spent, count, result = float("inf"), 0.0, 0, None
    while count == 0 or (spent < seconds and count < PASS_COUNT_MAX):
        arguments, result = prepare(), None
        gc.collect()
        if count == 0:
            ctypes.CDLL(None).malloc_trim(0)  # memory that is free is not resident
            forget_peak()
            resident = status_nbytes("VmRSS")
        begin = time.perf_counter()
        result = run(*arguments)
        taken = time.perf_counter() - begin
        if count == 0:
            peak = max(resident, status_nbytes("VmHWM"))
        finish(result, *arguments)
        fastest, spent, count = min(fastest, taken), spent + taken, count + 1
    return fastest, count, (resident, peak), result


def measure(peer, seconds, new, base):
    """The numbers of a row. new and base: views of the tensors."""
    is_changed = False

    def encode_arguments():
        tensors = copies_of(new), copies_of(base)
        peer.prepare(*tensors)
        return tensors

    def encode_done(stored, tensors, olds):
        nonlocal is_changed
        pairs = [*zip(tensors, new), *zip(olds or (), base or ())]
        is_changed = is_changed or not all(same(tensor.content, view) for tensor, view in pairs)

    encode_s, encode_count, encode_memory, stored = passes(seconds, encode_arguments, peer.encode, encode_done)
    stored_nbytes = peer.nbytes(stored)
    blank, olds = [view._replace(content=None) for view in new], copies_of(base)
    decode_s, decode_count, decode_memory, _ = passes(
        seconds, lambda: (stored, blank, olds), peer.decode, lambda decoded, *_: check(peer, decoded, new))
    return {"nbytes": sum(view.nbytes for view in new), "tensor_count": len(new), "stored_nbytes": stored_nbytes,
            "encode_s": encode_s, "decode_s": decode_s, "encode_pass_count": encode_count,
            "decode_pass_count": decode_count, "encode_memory_nbytes": encode_memory[1] - encode_memory[0],
            "decode_memory_nbytes": decode_memory[1] - decode_memory[0],
            "peak_nbytes": max(encode_memory[1], decode_memory[1]), "is_input_changed": is_changed}


def make(name, threads, folder):
    made, options = PEERS[name]
    os.makedirs(folder, exist_ok=True)
    return made(threads, folder, **options)


def warm(name, threads, folder, paths):
    """Codes a few values of each dtype: code is loaded or compiled, and threads are started."""
    os.mkdir(folder)
    for file, path in zip(("new", "base"), paths):
        few = {}
        for _, dtype, _, content in read_tensors(path):
            values = min(WARM_VALUES, len(content) // WIDTH[dtype])
            if values and dtype not in few:
                few[dtype] = dtype, (values,), content[:values * WIDTH[dtype]]
        write_tensors(os.path.join(folder, file + ".safetensors"), few)
    views = [views_of(os.path.join(folder, file + ".safetensors")) for file, _ in zip(("new", "base"), paths)]
    measure(make(name, threads, folder), 0, views[0], views[1] if len(views) > 1 else None)


def result_of(name, threads, seconds, folder, paths):
    peer = PEERS[name][0]
    try:
        made = make(name, threads, os.path.join(folder, "files"))
    except (ImportError, OSError) as fault:
        return {"missing": str(fault)}
    for file, path in zip(("new", "base"), paths):
        shutil.copy(path, os.path.join(folder, "files", file + ".safetensors"))
    head = {"package": peer.PACKAGE, "version": version_of(peer.PACKAGE)}
    try:
        warm(name, threads, os.path.join(folder, "warm"), paths)
        new, *base = map(views_of, paths)
        return {**head, **measure(made, seconds, new, base[0] if base else None)}
    except Exception as fault:  # whatever a peer raises is its result
        text = str(fault) if isinstance(fault, Different) else f"{type(fault).__name__}: {fault}"
        return {**head, "fault": " ".join(text.split())[:FAULT_LENGTH]}


def main():
    name, threads, seconds, folder, *paths = sys.argv[1:]
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[-int(threads):])
    result = result_of(name, int(threads), float(seconds), folder, paths)
    with open(os.path.join(folder, "result.json"), "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
