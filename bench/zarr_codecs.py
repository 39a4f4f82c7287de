#!/usr/bin/env python3
"""zarr_codecs.py - LMC beside the codecs that Zarr has, on arrays in memory.

    python3 bench/zarr_codecs.py [--mib N] [--rounds N] [--only CODEC,...] [FILE.safetensors...]

Stored / original bytes: every tensor of a file becomes an array of Zarr 3, with chunks of about 1 MiB (--chunk-kib).
Without files they are those of examples/data. Tensors that the files have in common are stacked, too, as snapshots.
Speed: an array of N MiB (128) of normally distributed numbers, f32 and bf16, with chunks of 4 MiB, is written to a
store in memory and read again, with one thread for codecs. The time is CPU time of the process, which other programs
disturb less than the clock. The fastest of --rounds passes (5) counts. What was read is compared. "none" is what Zarr
itself takes.

Needs numpy, ml_dtypes and zarr 3, and lmcodec: installed, or by PYTHONPATH=python of a tree that is built. pcodec is
measured if it is installed. Numbers go to build/bench/zarr_codecs.json, too.
"""
import glob
import importlib.util
import os
import time
import warnings

import ml_dtypes
import numcodecs.blosc
import numpy
import zarr
from zarr.codecs import BloscCodec, BytesCodec, ZstdCodec
from zarr.storage import MemoryStore

from common import command_line, write_report

import lmcodec.numpy
import lmcodec.zarr
from lmcodec.zarr import LmcCodec

PCODEC = "pcodec 8"
PCODEC_DTYPES = {"float16", "float32", "float64", "int16", "int32", "int64", "uint16", "uint32", "uint64"}
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SPEED_CHUNK_ROWS, SPEED_COLUMNS = 1024, 1024


def find_codecs(dtypes, only):
    """name -> options of create_array(), of those that take arrays of these dtypes and that are wanted."""
    codecs = {
        "none": {"compressors": None},
        "Zarr's default: zstd 0": {"compressors": ZstdCodec()},
        "zstd 9": {"compressors": ZstdCodec(level=9)},
        "blosc: shuffle, zstd 5": {"compressors": BloscCodec(cname="zstd", clevel=5, shuffle="shuffle")},
        "blosc: bitshuffle, zstd 5": {"compressors": BloscCodec(cname="zstd", clevel=5, shuffle="bitshuffle")},
        "blosc: bitshuffle, lz4 5": {"compressors": BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle")},
        "LMC fast": {"serializer": LmcCodec("fast"), "compressors": None},
        "LMC default": {"serializer": LmcCodec(), "compressors": None},
        "LMC max": {"serializer": LmcCodec("max"), "compressors": None},
    }
    if importlib.util.find_spec("pcodec") and PCODEC_DTYPES.issuperset(map(str, dtypes)):
        from zarr.codecs.numcodecs import PCodec
        codecs[PCODEC] = {"serializer": PCodec(), "compressors": None}
    return {name: options for name, options in codecs.items() if not only or name in only}


def create(shape, dtype, chunks, options):
    return zarr.create_array(MemoryStore(), shape=shape, dtype=dtype, chunks=chunks,
                             **{"serializer": BytesCodec(), **options})


def stored_nbytes(array):
    """Bytes of the chunks, without the metadata."""
    content = array.store._store_dict
    return sum(len(content[key]) for key in content if not key.endswith("zarr.json"))


def check_equal(array, values):
    if array[...].tobytes() != values.tobytes():
        raise SystemExit("DIFFERENT after %r" % (array.metadata.codecs,))


# ---- ratio ----

def chunks_of(shape, itemsize, chunk_nbytes):
    """All of the last axes, of the first as many as there is room for."""
    row_nbytes = max(1, int(numpy.prod(shape[1:])) * itemsize)
    return (max(1, min(shape[0], chunk_nbytes // row_nbytes)), *shape[1:])


def ratio(tensors, options, chunk_nbytes, is_stack=False):
    stored = original = 0
    for values in tensors:
        if not values.ndim:
            continue
        inner = chunks_of(values.shape[1:], values.itemsize, chunk_nbytes) if is_stack else ()
        chunks = values.shape[:1] + inner if is_stack else chunks_of(values.shape, values.itemsize, chunk_nbytes)
        array = create(values.shape, values.dtype, chunks, options)
        array[...] = values
        check_equal(array, values)
        stored, original = stored + stored_nbytes(array), original + values.nbytes
    return stored / original


def ratios(paths, chunk_nbytes, only):
    rows = []
    files = [lmcodec.numpy.load_file(path) for path in paths]
    cases = {os.path.basename(path): (list(tensors.values()), False) for path, tensors in zip(paths, files)}
    first = files[0]
    alike = [tensors for tensors in files if all(
        name in tensors and tensors[name].shape == first[name].shape and tensors[name].dtype == first[name].dtype
        for name in first)]
    if len(alike) > 1:
        stacks = [numpy.stack([tensors[name] for tensors in alike]) for name in first if first[name].ndim]
        cases["%d snapshots like the first" % len(alike)] = (stacks, True)
    for case, (tensors, is_stack) in cases.items():
        codecs = find_codecs({values.dtype for values in tensors}, only)
        if is_stack:
            codecs["LMC default, rows"] = {"serializer": LmcCodec(rows=True), "compressors": None}
        for name, options in codecs.items():
            rows.append({"file": case, "codec": name, "ratio": ratio(tensors, options, chunk_nbytes, is_stack)})
    return rows


# ---- speed ----

def seconds_of(function):
    begin = time.process_time()
    function()
    return time.process_time() - begin


def speeds(mib, rounds, only):
    """Rounds go through all codecs in turn: what disturbs one disturbs all."""
    rows = []
    for dtype in ("f4", "bfloat16"):
        kind = numpy.dtype(dtype if dtype == "f4" else ml_dtypes.bfloat16)
        count = mib * (1 << 20) // kind.itemsize // SPEED_COLUMNS
        values = (numpy.random.default_rng(1).standard_normal((count, SPEED_COLUMNS), "f4") * 0.02).astype(kind)
        chunks = (SPEED_CHUNK_ROWS * 4 // kind.itemsize, SPEED_COLUMNS)
        best = {}
        for _ in range(rounds):
            for name, options in find_codecs({kind}, only).items():
                array = create(values.shape, values.dtype, chunks, options)
                written = seconds_of(lambda: array.__setitem__(..., values))
                read = seconds_of(lambda: array[...])
                check_equal(array, values)
                old = best.get(name, (written, read))
                best[name] = (min(written, old[0]), min(read, old[1]))
        rows += [{"dtype": dtype, "codec": name, "write_gib_s": values.nbytes / 2**30 / written,
                  "read_gib_s": values.nbytes / 2**30 / read} for name, (written, read) in best.items()]
    return rows


def print_tables(result):
    codecs = dict.fromkeys(row["codec"] for row in result["ratios"])
    files = dict.fromkeys(row["file"] for row in result["ratios"])
    found = {(row["file"], row["codec"]): "%.4f" % row["ratio"] for row in result["ratios"]}
    print("%-28s" % "stored / original" + "  ".join(files))
    for codec in codecs:
        print("%-28s" % codec + "  ".join("%-*s" % (len(name), found.get((name, codec), "")) for name in files))
    print("\n%-37s%6s  %6s" % ("GiB per second of CPU time", "write", "read"))
    for row in result["speeds"]:
        print("%-28s%-9s%6.2f  %6.2f" % (row["codec"], row["dtype"], row["write_gib_s"], row["read_gib_s"]))


def main():
    parser = command_line(__doc__, 5)
    parser.add_argument("--mib", type=int, default=128)
    parser.add_argument("--chunk-kib", type=int, default=1024)
    parser.set_defaults(json=os.path.join(ROOT, "build", "bench", "zarr_codecs.json"))
    parser.add_argument("files", nargs="*",
                        default=sorted(glob.glob(os.path.join(ROOT, "examples", "data", "*.safetensors"))))
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    only = [name for name in options.only.split(",") if name]
    warnings.simplefilter("ignore")
    numcodecs.blosc.set_nthreads(1)
    with zarr.config.set({"threading.max_workers": 1, "async.concurrency": 1}):
        result = {"zarr": zarr.__version__, "kernels": lmcodec.kernels(),
                  "ratios": ratios(options.files, options.chunk_kib << 10, only),
                  "speeds": speeds(options.mib, options.rounds, only)}
    write_report(options.json, result)
    print_tables(result)


if __name__ == "__main__":
    main()
