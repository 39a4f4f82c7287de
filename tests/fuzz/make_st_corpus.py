#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets of liblmc_st: make_st_corpus.py --tool LMC-ST DIRECTORY

st_header gets the files of tests/cli/header_corpus.py, st_archive and st_restore get archives that the tool
made of small files, whole, damaged and taken apart (st_craft.h says how). tests/fuzz/README.md says when to
run it.
"""
import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "cli"))
import header_corpus  # noqa: E402

SEED_NBYTES_MAX = 4000
AS_IT_IS, REPAIRED, PARTS = b"\x00", b"\x01", b"\x02"
NEVER = 255


def tensors_file(*tensors, metadata=None):
    """A safetensors file of (name, dtype, shape, content)."""
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, dtype, shape, content in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header, separators=(",", ":"))
    return struct.pack("<Q", len(text)) + text.encode() + data


def bf16_weights(rng, count):
    values = (struct.pack("<f", rng.gauss(0, 0.02)) for _ in range(count))
    return b"".join(value[2:] for value in values)


def small_files(rng):
    """Name and content of files whose archives are small and hold every kind of frame."""
    weights = bf16_weights(rng, 800)
    pruned = b"".join(weights[i:i + 2] if rng.random() < 0.3 else b"\0\0" for i in range(0, 1600, 2))
    ramp = struct.pack("<200q", *range(0, 600, 3))
    yield "none", tensors_file()
    yield "short", tensors_file(("a", "U8", [4], b"abcd"))
    yield "empty", tensors_file(("e", "F32", [0, 3], b""), ("f", "F32", [0], b""))
    yield "stored", tensors_file(("r", "U8", [400], rng.randbytes(400)))
    yield "coded", tensors_file(("w", "BF16", [800], weights))
    yield "masked", tensors_file(("w", "BF16", [2, 400], pruned), ("b", "BF16", [2], b"\0\0\x80\x3f"))
    yield "integers", tensors_file(("i", "I64", [200], ramp), ("bool", "BOOL", [300], bytes(299) + b"\1"))
    yield "constant", tensors_file(("c", "F32", [2000], b"\0\0\x80\x3f" * 2000), metadata={"format": "pt"})
    yield "equal", tensors_file(*((name, "BF16", [300], weights[:600]) for name in "xyz"))
    yield "names", tensors_file(("lmc.archive", "U8", [1], b"1"), ("a\0b", "U8", [1], b"2"), ("", "F4", [4], b"34"))


def large_files():
    """Files of which threads get something to do, but whose archives are small."""
    yield "blocks", tensors_file(("c", "BF16", [500000], bytes(1000000)))
    yield "tensors", tensors_file(*(("t%d" % i, "U8", [150000], bytes([i]) * 150000) for i in range(6)))
    yield "mixed", tensors_file(("c", "F32", [150000], b"\0\0\x80\x3f" * 150000), ("s", "U8", [3], b"abc"),
                                ("e", "F32", [0], b""), ("d", "I16", [300000], b"\1\0" * 300000))


def convert(tool, content, level):
    with tempfile.TemporaryDirectory() as folder:
        source, archive = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.lmc")
        with open(source, "wb") as file:
            file.write(content)
        subprocess.run([tool, "convert", source, "-o", archive, "-q", "--level", level], check=True)
        with open(archive, "rb") as file:
            return file.read()


def parts_of(original, archive):
    """What fuzz_build_archive() takes: the original header, then names and frames."""
    header_nbytes = struct.unpack_from("<Q", original)[0]
    outer_nbytes = struct.unpack_from("<Q", archive)[0]
    outer = json.loads(archive[8:8 + outer_nbytes])
    parts = struct.pack("<H", header_nbytes) + original[8:8 + header_nbytes]
    for name, entry in outer.items():
        if name == "__metadata__" or entry["data_offsets"][0] == 0:
            continue  # the table
        begin, end = (8 + outer_nbytes + offset for offset in entry["data_offsets"])
        raw_name = json.dumps(name)[1:-1].encode()
        parts += bytes([len(raw_name)]) + raw_name + struct.pack("<H", end - begin) + archive[begin:end]
    return parts


def flipped(rng, content):
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1:]


def zstd_frame_of_spaces(start, nbytes):
    """A zstd frame of `start` and spaces: blocks of one repeated byte take four bytes for 128 KiB."""
    frame = struct.pack("<IBI", 0xfd2fb528, 0xa0, nbytes)
    frame += struct.pack("<I", len(start) << 3)[:3] + start
    left = nbytes - len(start)
    while left > 0:
        count = min(left, 128 << 10)
        left -= count
        frame += struct.pack("<I", (left == 0) | 1 << 1 | count << 3)[:3] + b" "
    return frame


def bomb(header_nbytes):
    """An archive without tensors whose original header takes much more room than it does."""
    stored = zstd_frame_of_spaces(b"{}", header_nbytes)
    table = struct.pack("<4sBBHIIQQQ", b"\x8cLMA", 1, 1, 0, 0, 0, 8 + header_nbytes, header_nbytes, len(stored))
    table += stored + bytes(24)
    entry = {"dtype": "U8", "shape": [len(table)], "data_offsets": [0, len(table)]}
    outer = {"__metadata__": {"format": "lmc", "lmc_archive": "1"}, "lmc.archive": entry}
    text = json.dumps(outer, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + table


def header_seeds():
    for case in header_corpus.CASES:
        yield case.name, case.content


def archive_seeds(tool, rng):
    for name, original in small_files(rng):
        for level in ("default", "fast"):
            archive = convert(tool, original, level)
            parts = parts_of(original, archive)
            yield f"{name}-{level}", AS_IT_IS + archive
            yield f"{name}-{level}-flip", AS_IT_IS + flipped(rng, archive)
            yield f"{name}-{level}-repaired", REPAIRED + flipped(rng, archive)
            yield f"{name}-{level}-parts", PARTS + parts
            yield f"{name}-{level}-parts-flip", PARTS + flipped(rng, parts)
        yield f"{name}-cut", AS_IT_IS + archive[:rng.randrange(len(archive))]
    yield "plain", AS_IT_IS + original
    yield "bomb", REPAIRED + bomb(2 << 20)


def restore_seeds(tool, rng):
    files = list(small_files(rng))[3:7] + list(large_files())
    for number, (name, original) in enumerate(files):
        parts = parts_of(original, convert(tool, original, "default"))
        threads = bytes([number % 4])
        yield name, threads + bytes([NEVER]) + parts
        yield f"{name}-stop", threads + bytes([number]) + parts
        for _ in range(3):
            parts = flipped(rng, parts)
        yield f"{name}-flip", threads + bytes([NEVER]) + parts


def write_seeds(folder, seeds):
    os.makedirs(folder, exist_ok=True)
    for name, content in seeds:
        if len(content) <= SEED_NBYTES_MAX:
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)


def main():
    parser = argparse.ArgumentParser(description="Writes the seeds of the fuzz targets of liblmc_st.")
    parser.add_argument("--tool", required=True, help="the command lmc-st")
    parser.add_argument("directory", help="where the folders of the targets are")
    arguments = parser.parse_args()
    rng = random.Random(1)
    write_seeds(os.path.join(arguments.directory, "st_header"), header_seeds())
    write_seeds(os.path.join(arguments.directory, "st_archive"), archive_seeds(arguments.tool, rng))
    write_seeds(os.path.join(arguments.directory, "st_restore"), restore_seeds(arguments.tool, rng))


if __name__ == "__main__":
    main()
