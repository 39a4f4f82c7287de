"""tensors.py - the tensors of safetensors files, for the Python programs of bench/."""

import json
import struct


def read_tensors(path):
    """Yields name, dtype, shape, content."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        yield name, entry["dtype"], entry["shape"], data[begin:end]


def rotated(shape, content, count):
    """The content with `count` rows moved from its begin to its end."""
    rows = shape[0] if shape else 1
    cut = count % rows * (len(content) // rows) if rows else 0
    return content[cut:] + content[:cut]
