"""bench/delta/delta.py runs: every method is there, all kernel sets store equal bytes, and it notices a wrong round
trip."""

import json
import os
import random
import shutil
import struct
import sys
import tempfile

from bench_build import compile_bench
from tree import run

METHODS = {"lmc fast", "lmc default", "lmc max", "lmc default, 2 threads", "lmc default, ranges",
           "lmc default, no base", "XOR groups, bzip2 -9", "XOR groups, zstd -1", "XOR groups, zstd -19",
           "XOR groups, RLE + Huffman", "int32 index + value", "u16 gap + value, zstd -1", "u16 gap + XOR, zstd -1"}
WIDTH = {"F8_E4M3": 1, "BF16": 2, "F32": 4, "F64": 8}


def write_file(path, tensors):
    header, data = {}, b""
    for name, (dtype, content) in tensors.items():
        shape = [len(content) // WIDTH[dtype]]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def change(draw, content, width, share):
    """A copy in which that share of the values has other low bits."""
    changed = bytearray(content)
    count = len(content) // width
    for i in draw.sample(range(count), int(count * share)):
        changed[i * width] ^= draw.choice((1, 1, 1, 2, 3, 7, 255))
    return bytes(changed)


def make_pair(base_path, new_path):
    """Writes small and large tensors, one without a base, one of another size in the base. Returns the bytes of new."""
    draw = random.Random(6)
    base, new = {}, {}
    for name, dtype, count, share in (("few", "BF16", 200000, 2e-5), ("many", "BF16", 70001, 0.7),
                                      ("same", "F8_E4M3", 333, 0), ("dense", "F32", 5000, 1),
                                      ("sparse", "F64", 3000, 0.01), ("one", "BF16", 1, 1)):
        content = bytes(draw.choice(b"\x3c\x3d\xbc\x80\x12") for _ in range(count * WIDTH[dtype]))
        base[name] = dtype, content
        new[name] = dtype, change(draw, content, WIDTH[dtype], share)
    new["added"] = "BF16", bytes(range(200)) * 2
    base["resized"], new["resized"] = ("F32", bytes(40)), ("F32", b"\x01\x02\x03\x04" * 11)
    write_file(base_path, base)
    write_file(new_path, new)
    return sum(len(content) for _, content in new.values())


def check_rows(pair, nbytes):
    if pair["nbytes"] != nbytes or pair["without_base"] != 2:
        yield f"bench/delta/delta.py: {nbytes} bytes, 2 tensors without a base; it says {pair}"
    stored = {}
    for row in pair["rows"]:
        if stored.setdefault(row["method"], row["stored_nbytes"]) != row["stored_nbytes"]:
            yield f"bench/delta/delta.py: other bytes with another kernel set: {row}"
        if min(row["encode_GiB_s"], row["decode_GiB_s"], row["memcpy_GiB_s"]) <= 0:
            yield f"bench/delta/delta.py: no speed: {row}"
    if set(stored) != METHODS:
        yield f"bench/delta/delta.py: methods {sorted(set(stored) ^ METHODS)}"
    elif stored["lmc default"] >= stored["lmc default, no base"]:
        yield "bench/delta/methods.c: the base makes nothing smaller"


def check_runs(tree, folder):
    base_path, new_path, report = (os.path.join(folder, name) for name in ("a.safetensors", "b.safetensors", "json"))
    nbytes = make_pair(base_path, new_path)
    build = os.path.join(folder, "build")
    command = [sys.executable, tree.path("bench/delta/delta.py"), build, "--mib", "1", "--rounds", "1",
               "--json", report]
    fault = compile_bench(tree, build, "lmc-bench-delta")
    if fault:
        yield fault
        return
    status, output = run(*command, base_path, new_path)
    if status != 0:
        yield f"bench/delta/delta.py: exit status {status}: {output.strip()[-300:]}"
        return
    with open(report, encoding="utf-8") as file:
        yield from check_rows(json.load(file)["pairs"][0], nbytes)
    shown = {line[:26].strip() for line in output.splitlines()}
    if not METHODS <= shown:
        yield f"bench/delta/delta.py: not in the table: {METHODS - shown}"
    if run(*command, base_path)[0] != 2:
        yield "bench/delta/delta.py: takes a base without a file"
    with open(new_path, "r+b") as file:
        file.truncate(os.path.getsize(new_path) - 1)
    if run(*command, base_path, new_path)[0] != 1:
        yield "bench/delta/delta.py: measures a truncated file"


def check_wrong_round_trip(tree, folder):
    """A decoder that gives other bytes makes the program fail."""
    build = os.path.join(folder, "wrong")
    wrong = "codec/huffman", "dst[at++] = (uint8_t)(symbol - 1)", "dst[at++] = (uint8_t)symbol"
    fault = compile_bench(tree, build, "lmc-bench-delta", wrong)
    if fault:
        yield fault
        return
    status, output = run(os.path.join(build, "bench", "lmc-bench-delta"), "--mib", "1", "--rounds", "1", "--only",
                         "peers", "--synthetic", "bf16")
    if status != 1 or "RLE + Huffman (no kernels): the round trip failed" not in output:
        yield f"bench/delta/main.c: a wrong round trip is not noticed: exit status {status}"


def check(tree):
    folder = tempfile.mkdtemp(prefix="lmc-check-bench-")
    try:
        yield from check_runs(tree, folder)
        yield from check_wrong_round_trip(tree, folder)
    finally:
        shutil.rmtree(folder)
