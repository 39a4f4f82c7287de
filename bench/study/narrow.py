"""narrow.py - wide types with narrow contents: what LMC makes of weights that were quantised and held in floats again.

    python3 bench/study/narrow.py LMC_ST FILE.safetensors [--old OLD_LMC_ST] [--only WORD]... [--zstd-level 19]
                                  [--json FILE]

FILE has F32 weights. From it the program makes a file for each row of the table: the matrices are rounded or
quantised, and stored as products in a float type; everything else of F32 becomes that type. Prints stored / original
as a table in Markdown: of OLD_LMC_ST, a build before narrow forms; of LMC_ST, levels default and max;
of byte groups of each tensor, through the command zstd. Archives are restored and compared. The last column has the
form of most bytes, as lmc-st info says it. --only: rows whose name contains WORD. Needs numpy.
"""

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "bench"), os.path.join(ROOT, "examples")]
from common import archive_nbytes, circumstances, read_tensors, write_report  # noqa: E402
from model_file import scale_of, to_bf16, to_f8_e4m3  # noqa: E402

E4M3_MAX, E5M2_MAX = 448, 57344
FP8_BLOCK = 128

# the 16 values of NF4 (QLoRA, arXiv 2305.14314)
NF4 = numpy.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                   -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                   0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
                   0.7229568362236023, 1.0], "<f4")


# ---- values: F32 in, F32 out ---------------------------------------------------------------------

def rounded_to_e4m3(values):
    code = to_f8_e4m3(numpy.clip(values, -E4M3_MAX, E4M3_MAX)).astype("<i4")
    exponent, mantissa = code >> 3 & 15, code & 7
    size = numpy.where(exponent == 0, numpy.ldexp(mantissa.astype("<f4"), -9),
                       numpy.ldexp((8 + mantissa).astype("<f4"), exponent - 10))
    return numpy.where(code & 128, -size, size).astype("<f4")


def rounded_to_e5m2(values):
    """The upper half of an F16, rounded to nearest, ties to even."""
    bits = numpy.clip(values, -E5M2_MAX, E5M2_MAX).astype("<f2").view("<u2").astype("<u4")
    return ((bits + 0x7F + (bits >> 8 & 1)) & 0xFF00).astype("<u2").view("<f2").astype("<f4")


def rounded_to_nf4(values):
    return NF4[numpy.searchsorted((NF4[1:] + NF4[:-1]) / 2, values)]


def groups_of(matrix, length):
    """Neighbours of the matrix in rows; all of it in one if they do not fill their rows."""
    return matrix.reshape(-1, length) if matrix.size % length == 0 else matrix.reshape(1, -1)


def integers(limit, length):
    """A scale for each `length` neighbours; None: a row; 0: the tensor."""
    def quantise(matrix):
        groups = groups_of(matrix, matrix.size if length == 0 else length or matrix.shape[1])
        scale = scale_of(numpy.abs(groups).max(axis=1, keepdims=True), limit)
        return numpy.clip(numpy.rint(groups / scale), -limit, limit).astype("<f4") * scale
    return quantise


def nf4_groups(length):
    def quantise(matrix):
        groups = groups_of(matrix, length)
        scale = scale_of(numpy.abs(groups).max(axis=1, keepdims=True), 1)
        return rounded_to_nf4(groups / scale) * scale
    return quantise


def fp8_blocks(rounded, limit, length):
    """A scale for each block of `length` rows and columns; 0: the tensor."""
    def quantise(matrix):
        out = numpy.empty_like(matrix)
        step = length or max(matrix.shape)
        for row in range(0, matrix.shape[0], step):
            for column in range(0, matrix.shape[1], step):
                place = slice(row, row + step), slice(column, column + step)
                scale = scale_of(numpy.abs(matrix[place]).max(), limit)
                out[place] = rounded(matrix[place] / scale) * scale
        return out
    return quantise


def as_f16(values):
    return values.astype("<f2").astype("<f4")


def as_bf16(values):
    return (to_bf16(values).astype("<u4") << 16).view("<f4")


def unchanged(values):
    return values


# name -> what becomes of a matrix, and the float types it is held in
KINDS = {
    "F32": (unchanged, ["F64"]),
    "F16": (as_f16, ["F32"]),
    "BF16": (as_bf16, ["F32"]),
    "int8, a scale per tensor": (integers(127, 0), ["F32", "BF16"]),
    "int8, per row": (integers(127, None), ["F32", "BF16", "F16"]),
    "int8, per 64": (integers(127, 64), ["BF16"]),
    "int8, per 32": (integers(127, 32), ["F16"]),
    "int4, per 128": (integers(7, 128), ["BF16"]),
    "int4, per 64": (integers(7, 64), ["BF16"]),
    "int4, per 32": (integers(7, 32), ["F32", "BF16", "F16"]),
    "fp8 e4m3, without a scale": (rounded_to_e4m3, ["BF16", "F16"]),
    "fp8 e4m3, a scale per tensor": (fp8_blocks(rounded_to_e4m3, E4M3_MAX, 0), ["BF16"]),
    "fp8 e4m3, per block of 128 x 128": (fp8_blocks(rounded_to_e4m3, E4M3_MAX, FP8_BLOCK), ["F32", "BF16"]),
    "fp8 e5m2, per block of 128 x 128": (fp8_blocks(rounded_to_e5m2, E5M2_MAX, FP8_BLOCK), ["BF16"]),
    "NF4, per 64": (nf4_groups(64), ["BF16", "F16"]),
}
BYTES_OF = {"F64": lambda values: values.astype("<f8"), "F32": lambda values: values, "BF16": to_bf16,
            "F16": lambda values: values.astype("<f2")}
ALL_OF_IT = ("F16", "BF16")  # no quantisation: what is no matrix is rounded, too


# ---- files and sizes -----------------------------------------------------------------------------

def write_copy(tensors, kind, holder, path):
    """Writes the file of a row. Returns its groups of bytes of equal significance, one after another."""
    quantise, _ = KINDS[kind]
    header, parts, groups, end = {}, [], [], 0
    for name, dtype, shape, content in tensors:
        width = 1
        if dtype == "F32":
            values = numpy.frombuffer(content, "<f4").reshape(shape)
            if values.ndim == 2 or kind in ALL_OF_IT:
                values = numpy.ascontiguousarray(quantise(values).reshape(shape), "<f4")
            array = BYTES_OF[holder](values)
            dtype, content, width = holder, array.tobytes(), array.itemsize
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + len(content)]}
        end += len(content)
        parts.append(content)
        groups += [content[i::width] for i in range(width)]
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.writelines([struct.pack("<Q", len(text)), text, *parts])
    return b"".join([text, *groups])


def zstd_nbytes(data, level):
    return len(subprocess.run(["zstd", f"-{level}", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout)


def form_of(tool, path, folder):
    """The form of most bytes of an archive, without the length of its groups, which may be that of a row."""
    archive = os.path.join(folder, "form.lmc")
    subprocess.run([tool, "convert", "-f", "-q", path, "-o", archive], check=True)
    told = subprocess.run([tool, "info", "--json", archive], stdout=subprocess.PIPE, check=True).stdout
    forms = json.loads(told)["forms"]
    return max(forms, key=lambda text: forms[text]["nbytes"], default="")


def measure(args, tensors, kind, holder, folder):
    path = os.path.join(folder, "copy.safetensors")
    grouped = write_copy(tensors, kind, holder, path)
    nbytes = os.path.getsize(path)
    sizes = {"default": archive_nbytes(args.tool, path), "max": archive_nbytes(args.tool, path, "--level", "max"),
             "zstd": zstd_nbytes(grouped, args.zstd_level)}
    if args.old:
        sizes["old"] = archive_nbytes(args.old, path)
    return {"kind": kind, "holder": holder, "nbytes": nbytes, "form": form_of(args.tool, path, folder),
            **{f"{name}_ratio": size / nbytes for name, size in sizes.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", metavar="LMC_ST")
    parser.add_argument("file", metavar="FILE.safetensors")
    parser.add_argument("--old", metavar="OLD_LMC_ST")
    parser.add_argument("--only", metavar="WORD", action="append")
    parser.add_argument("--zstd-level", type=int, default=19)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    tensors = list(read_tensors(args.file))
    columns = (["old"] if args.old else []) + ["default", "max", "zstd"]
    titles = {"old": "LMC without the form", "default": "LMC now", "max": "level max",
              "zstd": f"byte groups, zstd -{args.zstd_level}"}
    print("| contents | held in | " + " | ".join(titles[name] for name in columns) + " | form |")
    print("| --- " * (len(columns) + 3) + "|")
    rows = []
    for kind, holder in ((kind, holder) for kind, (_, holders) in KINDS.items() for holder in holders):
        if args.only and not any(word in f"{kind} in {holder}" for word in args.only):
            continue
        with tempfile.TemporaryDirectory(prefix="lmc-bench-") as folder:
            row = measure(args, tensors, kind, holder, folder)
        rows.append(row)
        print(f"| {kind} | {holder} | " + " | ".join(f"{row[name + '_ratio']:.4f}" for name in columns)
              + f" | {row['form']} |", flush=True)
    write_report(args.json, {**circumstances(), "file": os.path.basename(args.file), "rows": rows})


if __name__ == "__main__":
    main()
