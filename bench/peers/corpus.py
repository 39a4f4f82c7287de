"""corpus.py - safetensors files that bench/peers.py measures beside those that are there.

    corpus.py FOLDER MIB [MODEL.safetensors]

Writes into FOLDER, and prints the paths, one a line:

  normal.bf16, normal.f32   64 MiB of normally distributed numbers, sigma 0.02, in one matrix
  large.bf16                the matrices of examples/data/step03000.bf16.safetensors, repeated until all have MIB MiB
                            together. Each copy has its rows and its columns in an order of its own: statistics stay,
                            and no coder finds one copy in another
  int8-in-bf16, -in-f32     the matrices of MODEL quantised to int8 with a scale for each row, and held in floats again

Equal calls write equal files. Needs numpy.
"""

import os
import sys

import numpy

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "bench"), os.path.join(ROOT, "bench", "study"), os.path.join(ROOT, "examples")]
from common import MIB, read_tensors, write_tensors  # noqa: E402
from model_file import to_bf16  # noqa: E402
from narrow import write_copy  # noqa: E402

SAMPLE = os.path.join(ROOT, "examples", "data", "step03000.bf16.safetensors")
NORMAL_MIB, COLUMNS, SIGMA = 64, 4096, 0.02


def write_normal(path, dtype):
    width = 2 if dtype == "BF16" else 4
    shape = NORMAL_MIB * MIB // width // COLUMNS, COLUMNS
    values = numpy.random.default_rng(1).standard_normal(shape, "f4") * numpy.float32(SIGMA)
    write_tensors(path, {"normal": (dtype, shape, (to_bf16(values) if dtype == "BF16" else values).tobytes())})


def write_large(path, nbytes):
    random = numpy.random.default_rng(1)
    matrices = [(name, shape, content) for name, _, shape, content in read_tensors(SAMPLE) if len(shape) == 2]
    copies = max(1, nbytes // sum(len(content) for _, _, content in matrices))
    tensors = {}
    for name, (rows, columns), content in matrices:
        matrix = numpy.frombuffer(content, "<u2").reshape(rows, columns)
        parts = [matrix[random.permutation(rows)][:, random.permutation(columns)].tobytes() for _ in range(copies)]
        tensors[name] = "BF16", (rows * copies, columns), b"".join(parts)
    write_tensors(path, tensors)


def main():
    folder, mib, *model = sys.argv[1:]
    paths = {name: os.path.join(folder, name + ".safetensors")
             for name in ("normal.bf16", "normal.f32", "large.bf16", "int8-in-bf16", "int8-in-f32")}
    write_normal(paths["normal.bf16"], "BF16")
    write_normal(paths["normal.f32"], "F32")
    write_large(paths["large.bf16"], int(mib) * MIB)
    for path in model:
        tensors = list(read_tensors(path))
        write_copy(tensors, "int8, per row", "BF16", paths["int8-in-bf16"])
        write_copy(tensors, "int8, per row", "F32", paths["int8-in-f32"])
    print("\n".join(path for path in paths.values() if os.path.exists(path)))


if __name__ == "__main__":
    main()
