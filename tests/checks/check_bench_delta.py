"""bench/delta/delta.py runs: every method is there, sizes are what they must be, and a wrong round trip is noticed.

(check_bench_speed.py runs the other programs of bench/; the check `warnings` compiles all.)
"""

import json
import os
import random
import shutil
import struct
import sys
import tempfile

from bench_build import compile_bench
from tree import run

METHODS = {"lmc fast", "lmc default", "lmc max", "lmc default, no base", "XOR groups, bzip2 -9", "XOR groups, zstd -1",
           "XOR groups, zstd -19", "XOR groups, RLE + Huffman", "int32 index + value", "u16 gap + value, zstd -1",
           "u16 gap + XOR, zstd -1"}
WIDTH = {"F8_E4M3": 1, "BF16": 2, "F32": 4, "F64": 8}
BLOCK = 65536


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
    """Small and large tensors; one with hardly a change, one without a base, one of another size in the base."""
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
    return base, new


def units_of(base, new):
    """For each dtype its width, what was and what is; where nothing was there are zeros."""
    units = {}
    for name, (dtype, content) in new.items():
        was = base.get(name, (dtype, b""))[1]
        unit = units.setdefault(dtype, [WIDTH[dtype], b"", b""])
        unit[1] += was if len(was) == len(content) else bytes(len(content))
        unit[2] += content
    return list(units.values())


def index_nbytes(units):
    total = 0
    for width, was, now in units:
        changed = sum(was[i:i + width] != now[i:i + width] for i in range(0, len(now), width))
        total += 4 + changed * (4 + width)
    return total


def zero_runs(block):
    """The symbols of bench/codec/huffman.c."""
    symbols, run_length = [], 0
    for byte in block + b"\1":  # an end that is no zero; taken off again
        if byte == 0:
            run_length += 1
            continue
        while run_length:
            symbols.append((run_length - 1) & 1)
            run_length = (run_length - 1) >> 1
        symbols.append(byte + 1)
    return symbols[:-1]


def huffman_bounds(units, huffman_nbits):
    """Least and most bytes that coded groups can have: the bits alone, and with tables of 257 nibbles."""
    least = most = 0
    for width, was, now in units:
        difference = bytes(a ^ b for a, b in zip(was, now))
        for group in (difference[k::width] for k in range(width)):
            most += 4
            for i in range(0, len(group), BLOCK):
                block = group[i:i + BLOCK]
                nbits = huffman_nbits(zero_runs(block)) if any(block) else 0
                least += min(nbits // 8, len(block))
                most += min(nbits * 1.02 // 8 + 4 + 129 + 1, len(block) + 1)
    return least, most


def check_rows(pair, units, huffman_nbits):
    nbytes = sum(len(now) for _, _, now in units)
    if pair["nbytes"] != nbytes or pair["without_base"] != 2:
        yield f"bench/delta/delta.py: {nbytes} bytes, 2 tensors without a base; it says {pair}"
    rows = {row["method"]: row for row in pair["rows"]}
    if set(rows) != METHODS:
        yield f"bench/delta/delta.py: methods {sorted(set(rows) ^ METHODS)}"
        return
    for row in pair["rows"]:
        if row["stored_nbytes"] != rows[row["method"]]["stored_nbytes"]:
            yield f"bench/delta/delta.py: other bytes with another kernel set: {row}"
        if min(row["encode_GiB_s"], row["decode_GiB_s"], row["memcpy_GiB_s"]) <= 0:
            yield f"bench/delta/delta.py: no speed: {row}"
    if rows["int32 index + value"]["stored_nbytes"] != index_nbytes(units):
        yield f"bench/delta/lists.c: {rows['int32 index + value']}, not {index_nbytes(units)} bytes"
    least, most = huffman_bounds(units, huffman_nbits)
    if not least <= rows["XOR groups, RLE + Huffman"]["stored_nbytes"] <= most:
        yield f"bench/codec/huffman.c: {rows['XOR groups, RLE + Huffman']}, not {least} to {most} bytes"
    if rows["lmc default"]["stored_nbytes"] >= rows["lmc default, no base"]["stored_nbytes"]:
        yield "bench/delta/methods.c: the base makes nothing smaller"


def check_runs(tree, folder):
    sys.path.insert(0, tree.path("bench"))
    from ratio import huffman_nbits  # another program's count of the same bits
    sys.path.pop(0)
    base_path, new_path, report = (os.path.join(folder, name) for name in ("a.safetensors", "b.safetensors", "json"))
    units = units_of(*make_pair(base_path, new_path))
    build = os.path.join(folder, "build")
    command = [sys.executable, tree.path("bench/delta/delta.py"), build, "--mib", "1", "--rounds", "1", "--json", report]
    fault = compile_bench(tree, build, "lmc-bench-delta")
    if fault:
        yield fault
        return
    status, output = run(*command, base_path, new_path)
    if status != 0:
        yield f"bench/delta/delta.py: exit status {status}: {output.strip()[-300:]}"
        return
    with open(report, encoding="utf-8") as file:
        yield from check_rows(json.load(file)["pairs"][0], units, huffman_nbits)
    shown = {line[:26].strip() for line in output.splitlines()}
    if not METHODS <= shown:
        yield f"bench/delta/delta.py: not in the table: {METHODS - shown}"
    if run(*command, base_path)[0] != 2:
        yield "bench/delta/delta.py: a base without a file is no wrong usage"
    with open(new_path, "r+b") as file:
        file.truncate(os.path.getsize(new_path) - 1)
    if run(*command, base_path, new_path)[0] != 1:
        yield "bench/delta/delta.py: a file that was cut is measured"


def check_wrong_round_trip(tree, folder):
    """With a decoder that gives other bytes, the program must say so."""
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
