#!/usr/bin/env python3
"""ratio.py LMC_ST FILE.safetensors... - bytes of archives and of what other tools make of the same files.

Prints stored / original for lmc-st (levels max, default and fast), bzip2 -9 and zstd -19, both on the file as it is
and on byte groups, and for byte groups with a Huffman code per 64 KiB, the scheme of arXiv 2505.09810 (a size
computed from the code lengths, 128 bytes a table). Byte groups are made tensor by tensor, the header stays in
front. Needs the zstd command; bzip2 is Python's. Where the Python package zipnn is there, a column has its size, tensor
by tensor; what it does not make smaller, or does not know, counts as it is. The smallest of each row has a star, and
the last line counts the rows where lmc default is smaller than all other tools.
"""
import bz2
import collections
import os
import subprocess
import sys

from common import archive_nbytes, huffman_nbits, read_tensors

try:
    import zipnn
except ImportError:
    zipnn = None

WIDTH = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "C64": 4, "BF16": 2, "F16": 2, "I16": 2,
         "U16": 2}
ZIPNN_NAMES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F8_E4M3": "float8_e4m3fn",
               "F8_E5M2": "float8_e5m2", "I8": "float8_e4m3fn"}  # it has no integers, but what codes bytes
LEVELS = ("max", "default", "fast")
BLOCK = 65536
TABLE_NBYTES = 128


def tensors_of(path, data):
    """dtype and content of each tensor, in the order of the file; first without a dtype what is before them."""
    tensors = [(dtype, content) for _, dtype, _, content in read_tensors(path)]
    return [(None, data[:len(data) - sum(len(content) for _, content in tensors)]), *tensors]


def byte_groups(tensors):
    """The file's header, and its tensors' bytes in groups of equal significance, as a list of byte strings."""
    return [content[i::WIDTH.get(dtype, 1)] for dtype, content in tensors for i in range(WIDTH.get(dtype, 1))]


def block_nbits(block):
    """Bits of a Huffman code of the block, at least one for each byte."""
    return max(len(block), huffman_nbits(collections.Counter(block).values()))


def huffman_nbytes(groups):
    """Blocks of each group under a code of their own, or as they are where that is less."""
    total = 0
    for group in groups:
        for i in range(0, len(group), BLOCK):
            block = group[i:i + BLOCK]
            total += min(len(block), TABLE_NBYTES + (block_nbits(block) + 7) // 8)
    return total


def zstd_nbytes(data):
    return len(subprocess.run(["zstd", "-19", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout)


def zipnn_nbytes(tensors):
    """Size of the header and of each tensor as zipnn stores it; every tensor is decoded and compared."""
    total = 0
    for dtype, tensor in tensors:
        stored_nbytes = len(tensor)
        if dtype in ZIPNN_NAMES and tensor:
            codec = zipnn.ZipNN(input_format="byte", bytearray_dtype=ZIPNN_NAMES[dtype])
            stored = codec.compress(bytearray(tensor))
            if bytes(codec.decompress(stored)) != tensor:
                sys.exit("ratio.py: zipnn does not give a tensor back")
            stored_nbytes = min(stored_nbytes, len(stored))
        total += stored_nbytes
    return total


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    columns = [f"lmc {level}" for level in LEVELS]
    columns += ["bzip2 -9", "groups bzip2", "zstd -19", "groups zstd", "groups Huffman"]
    columns += ["zipnn"] if zipnn else []
    print(f"{'file':36} {'bytes':>10} " + " ".join(f"{name:>14} " for name in columns))
    won = 0
    for path in sys.argv[2:]:
        with open(path, "rb") as file:
            data = file.read()
        tensors = tensors_of(path, data)
        groups = byte_groups(tensors)
        grouped = b"".join(groups)
        sizes = [archive_nbytes(sys.argv[1], path, "--level", level) for level in LEVELS]
        sizes += [len(bz2.compress(data, 9)), len(bz2.compress(grouped, 9)), zstd_nbytes(data), zstd_nbytes(grouped),
                  huffman_nbytes(groups)]
        sizes += [zipnn_nbytes(tensors)] if zipnn else []
        won += sizes[1] < min(sizes[len(LEVELS):])
        cells = (f"{size / len(data):.5f}{'*' if size == min(sizes) else ' '}" for size in sizes)
        print(f"{os.path.basename(path):36} {len(data):>10} " + " ".join(f"{cell:>15}" for cell in cells), flush=True)
    print(f"lmc default is smaller than all other tools in {won} of {len(sys.argv) - 2} rows")


if __name__ == "__main__":
    main()
