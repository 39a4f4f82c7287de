"""archives.py - odd files, and what the official package says of an archive that lmc-st writes."""

import json
import os
import struct

import numpy
from safetensors import safe_open
from safetensors.numpy import save_file

from official import judge, read

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
FRAME_MAGIC = bytes([0x8C, 0x4C, 0x4D, 0x43])
TABLE_NAME = "lmc.archive"

# dtype: bits of an element
DTYPES = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
          "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
          "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64}


def write_raw(path, tensors, metadata=None, padding=0):
    """A file from (name, dtype, shape, bytes), in that order and with no care for alignment."""
    header = {} if metadata is None else {"__metadata__": metadata}
    end = 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode() + b" " * padding
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(data for _, _, _, data in tensors)


def make_odd_files(folder):
    """Legal files that are easy to get wrong."""
    random = numpy.random.default_rng(1)

    def raw(name, tensors, **options):
        write_raw(os.path.join(folder, name + ".safetensors"), tensors, **options)

    def noise(nbytes):
        return random.integers(0, 256, nbytes, dtype=numpy.uint8).tobytes()

    def dtype_tensor(dtype, count):
        nbytes = count * DTYPES[dtype] // 8
        if dtype == "BOOL":
            return (dtype.lower(), dtype, [count], (numpy.frombuffer(noise(nbytes), "u1") & 1).tobytes())
        return (dtype.lower(), dtype, [count], noise(nbytes))

    raw("no-tensors", [])
    raw("no-tensors-padded", [], metadata={"format": "pt"}, padding=1000)
    raw("empty-and-scalar", [("empty", "F32", [0], b""), ("scalar", "F64", [], noise(8)),
                             ("empty.3d", "BF16", [4, 0, 7], b""), ("one", "U8", [1], b"x")])
    raw("every-dtype-small", [dtype_tensor(dtype, 40) for dtype in DTYPES])
    raw("every-dtype-large", [dtype_tensor(dtype, 70000) for dtype in DTYPES])
    raw("unaligned", [("a", "U8", [3], b"abc"), ("b", "F32", [1000], noise(4000)), ("c", "U8", [1], b"d"),
                      ("d", "F64", [500], noise(4000))])
    raw("names", [(name, "U8", [300], noise(300)) for name in
                  ("", " ", "a\nb", "../up", "a" * 5000, "\u00e9\u4e2d\U0001f600", 'quote"\\', "nul\0in", "A", "a")])
    raw("name-of-the-table", [(TABLE_NAME, "U8", [4], b"mine"), (TABLE_NAME + "~", "U8", [4], b"too!")])
    raw("metadata", [("x", "I32", [100], noise(400))],
        metadata={"format": "pt", "k\u00e9y": 'v"\n', "lmc_archive": "9"})
    raw("equal-tensors", [(f"copy.{i}", "F16", [100, 50], bytes(range(250)) * 40) for i in range(5)])
    raw("deep-shape", [("x", "U8", [1] * 64 + [5], b"12345")])
    raw("many-tensors", [(f"layers.{i}.scale", "F32", [1], noise(4)) for i in range(3000)])
    weights = random.normal(0, 0.02, 300000).astype(numpy.float32)
    pruned = numpy.where(random.random(300000) < 0.7, 0, weights).astype(numpy.float32)
    save_file({"weights": weights.reshape(300, 1000), "pruned": pruned, "half": weights.astype(numpy.float16),
               "zeros": numpy.zeros(100000, numpy.int64), "double": weights.astype(numpy.float64),
               "steps": numpy.arange(100000, dtype=numpy.int32), "flags": weights > 0.03},
              os.path.join(folder, "numpy.safetensors"), metadata={"made": "by numpy"})


def archive_faults(original, archive):
    """What is wrong with an archive, in the eyes of the official package."""
    contents = {name: (dtype, content) for name, dtype, _, content in judge(read(original)).tensors}
    with safe_open(archive, framework="numpy") as file:
        archive_names = set(file.keys())
        metadata = file.metadata() or {}
        table = TABLE_NAME
        while table in contents:
            table += "~"
        if archive_names != set(contents) | {table}:
            yield f"names differ: {sorted(archive_names ^ (set(contents) | {table}))[:3]}"
            return
        if metadata.get("format") != "lmc" or metadata.get("lmc_archive") != "1":
            yield f"metadata: {metadata}"
        framed = set()
        without_frame = []
        for name in archive_names:
            part = file.get_slice(name)
            data = file.get_tensor(name)
            if part.get_dtype() != "U8" or part.get_shape() != [len(data)] or data.dtype != numpy.uint8:
                yield f"{name[:40]!r}: {part.get_dtype()} {part.get_shape()}"
            elif name != table and len(data) == 0:
                without_frame.append(name)
            elif name != table and data[:4].tobytes() != FRAME_MAGIC:
                yield f"{name[:40]!r}: holds no frame: {data[:8].tobytes().hex()}"
            elif name != table:
                framed.add(contents[name])
        yield from (f"{name[:40]!r}: has no frame and equals no tensor that has one"
                    for name in without_frame if contents[name] not in framed)
