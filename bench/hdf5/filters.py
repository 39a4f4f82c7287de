"""filters.py - LMC beside other filters of HDF5, through h5py: ratio, GiB/s of writing and of reading.

    filters.py [--chunk-kib 1024] [--rounds 9] [--clock wall|cpu] [--json OUT.json] FILE.safetensors...
    filters.py --ratio LMC_ST FILE.safetensors...

Needs h5py, numpy and hdf5plugin, and HDF5_PLUGIN_PATH with libh5lmc.so. `sh bench/h5.sh` provides all of them.

Each dataset has one dimension and chunks of one size. It holds all F32 tensors of a file, one behind the other, or all
BF16 tensors (as uint16), without the last part that fills no chunk. A write is `dataset[:] = values` and flush() of a
new file. A read is read_direct() into an array that exists, from a file just opened. The time to create, open and
close files does not count. Files are in memory (tmpfs). A round runs all codecs in turn and compares what it reads; the
fastest round of each codec counts.

One thread: the process stays on one core, and the libraries that can start threads use one (LMC_NUM_THREADS,
BLOSC_NTHREADS, OMP_NUM_THREADS). `--clock cpu` counts the time that the process had a core, for a machine with other
work.

--ratio compares stored bytes at 64 KiB and 1 MiB chunks with the archive that lmc-st makes of the same values as one
tensor.
"""
import json
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import time

for variable in ("LMC_NUM_THREADS", "BLOSC_NTHREADS", "BLOSC2_NTHREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"

import h5py
import hdf5plugin
import numpy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import command_line, machine_name, read_tensors, write_report  # noqa: E402

LMC = 59810
GIB = 1 << 30
NUMPY_TYPE = {"BF16": "<u2", "F32": "<f4"}

# name, arguments of create_dataset
CODECS = [
    ("none", {}),
    ("LMC default", {"compression": LMC}),
    ("LMC fast", {"compression": LMC, "compression_opts": (1,)}),
    ("LMC max", {"compression": LMC, "compression_opts": (2,)}),
    ("shuffle, gzip-4", {"compression": "gzip", "compression_opts": 4, "shuffle": True}),
    ("shuffle, LZF", {"compression": "lzf", "shuffle": True}),
    ("Blosc2 shuffle, zstd", hdf5plugin.Blosc2(cname="zstd", clevel=5, filters=hdf5plugin.Blosc2.SHUFFLE)),
    ("Blosc2 bitshuffle, zstd", hdf5plugin.Blosc2(cname="zstd", clevel=5, filters=hdf5plugin.Blosc2.BITSHUFFLE)),
    ("bitshuffle, zstd", hdf5plugin.Bitshuffle(cname="zstd", clevel=3)),
    ("bitshuffle, LZ4", hdf5plugin.Bitshuffle(cname="lz4")),
    ("zstd-3", hdf5plugin.Zstd(clevel=3)),
    ("shuffle, zstd-3", {**hdf5plugin.Zstd(clevel=3), "shuffle": True}),
]


# ---- data ----------------------------------------------------------------------------------------

def tensors_by_dtype(path):
    """The values of a safetensors file, one array for each dtype that is measured, in the order of the file."""
    parts = {}
    for _, dtype, _, content in read_tensors(path):
        if dtype in NUMPY_TYPE:
            parts.setdefault(dtype, []).append(content)
    return {dtype: numpy.frombuffer(b"".join(raw), NUMPY_TYPE[dtype]) for dtype, raw in parts.items()}


def load(paths, chunk_nbytes):
    """(name, dtype, values) of all files, cut to whole chunks."""
    for path in paths:
        for dtype, values in tensors_by_dtype(path).items():
            chunk = chunk_nbytes // values.itemsize
            if len(values) < chunk:
                print(f"{path}: left out, {values.nbytes} bytes of {dtype} fill no chunk", file=sys.stderr)
                continue
            name = os.path.basename(path).replace(".safetensors", "")
            yield name, dtype, values[:len(values) // chunk * chunk].copy()


# ---- measuring -----------------------------------------------------------------------------------

def write(path, values, chunk_nbytes, options, clock=time.perf_counter):
    """Seconds of one write, and the bytes that the chunks take in the file."""
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", shape=values.shape, dtype=values.dtype,
                                      chunks=(chunk_nbytes // values.itemsize,), **options)
        started = clock()
        dataset[:] = values
        file.flush()
        return clock() - started, dataset.id.get_storage_size()


def read(path, out, clock):
    with h5py.File(path, "r") as file:
        dataset = file["x"]
        started = clock()
        dataset.read_direct(out)
        return clock() - started


def check_pipeline(path, name, chunk_count):
    """HDF5 silently leaves out a filter that is missing or fails; the measurement would mean nothing."""
    with h5py.File(path, "r") as file:
        dataset = file["x"].id
        masks = [dataset.get_chunk_info(i).filter_mask for i in range(chunk_count)]
        if any(masks):
            sys.exit(f"filters.py: {name}: HDF5 stored chunks without the filter")


def measure(sets, folder, arguments):
    chunk_nbytes = arguments.chunk_kib << 10
    clock = time.process_time if arguments.clock == "cpu" else time.perf_counter
    results = {}
    for number in range(arguments.rounds):
        for name, dtype, values in sets:
            out = numpy.empty_like(values)
            for codec, options in CODECS:
                path = os.path.join(folder, "x.h5")
                write_seconds, stored_nbytes = write(path, values, chunk_nbytes, options, clock)
                out[:] = 0
                read_seconds = read(path, out, clock)
                if not numpy.array_equal(out.view(numpy.uint8), values.view(numpy.uint8)):
                    sys.exit(f"filters.py: {codec}: {name} came back different")
                if number == 0:
                    check_pipeline(path, codec, values.nbytes // chunk_nbytes)
                os.unlink(path)
                entry = results.setdefault((name, dtype, codec), {
                    "file": name, "dtype": dtype, "codec": codec, "nbytes": values.nbytes,
                    "stored_nbytes": stored_nbytes, "write_seconds": write_seconds, "read_seconds": read_seconds})
                entry["write_seconds"] = min(entry["write_seconds"], write_seconds)
                entry["read_seconds"] = min(entry["read_seconds"], read_seconds)
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
    for entry in results.values():
        entry["ratio"] = entry["stored_nbytes"] / entry["nbytes"]
        entry["write_gib"] = entry["nbytes"] / entry["write_seconds"] / GIB
        entry["read_gib"] = entry["nbytes"] / entry["read_seconds"] / GIB
    return list(results.values())


# ---- reporting -----------------------------------------------------------------------------------

def machine():
    return (f"{machine_name()}, Python {platform.python_version()}, h5py {h5py.__version__}, "
            f"HDF5 {h5py.version.hdf5_version}, hdf5plugin {hdf5plugin.version}")


def groups(results):
    """The results of each file and dtype."""
    found = {}
    for entry in results:
        found.setdefault((entry["file"], entry["dtype"]), []).append(entry)
    return found


def print_rows(heads, rows):
    print("\n| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def print_table(results):
    """A row for each filter: stored / original, then GiB/s of writing and of reading, for each data set."""
    sets = groups(results)
    rows = list(zip(*sets.values()))
    print_rows(["stored / original"] + [f"{name}, {entries[0]['nbytes'] / 1e6:.1f} MB of {dtype}"
                                        for (name, dtype), entries in sets.items()],
               ([row[0]["codec"]] + [f"{entry['ratio']:.4f}" for entry in row] for row in rows))
    print_rows(["GiB/s: write, read"] + [name for name, _ in sets],
               ([row[0]["codec"]] + [f"{entry['write_gib']:.2f}, {entry['read_gib']:.2f}" for entry in row]
                for row in rows))


# ---- ratio beside lmc-st -------------------------------------------------------------------------

def archive_nbytes(lmc_st, dtype, values, folder):
    """Size of the archive of one tensor with these values, without the header that names it."""
    plain, archive = os.path.join(folder, "m.safetensors"), os.path.join(folder, "m.lmc")
    entry = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [0, values.nbytes]}
    text = json.dumps({"x": entry}).encode()
    with open(plain, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + values.tobytes())
    subprocess.run([lmc_st, "convert", plain, "-o", archive, "-f", "-q"], check=True)
    return os.path.getsize(archive)


def print_ratios(sets, folder, lmc_st):
    print("| values | lmc-st | 1 MiB chunks | 64 KiB chunks |\n| --- | --- | --- | --- |")
    for name, dtype, values in sets:
        archive = archive_nbytes(lmc_st, dtype, values, folder)
        cells = []
        for chunk_kib in (1024, 64):
            _, stored = write(os.path.join(folder, "x.h5"), values, chunk_kib << 10, {"compression": LMC})
            cells.append(f"{stored / values.nbytes:.4f} ({(stored / archive - 1) * 100:+.2f} %)")
        print(f"| {name}, {dtype} | {archive / values.nbytes:.4f} | {' | '.join(cells)} |")


def main():
    parser = command_line(__doc__, 9)
    parser.add_argument("files", nargs="+", metavar="FILE.safetensors")
    parser.add_argument("--chunk-kib", type=int, default=1024)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--ratio", metavar="LMC_ST", help="only compare sizes with archives of this lmc-st")
    arguments = parser.parse_args()
    if not h5py.h5z.filter_avail(LMC):
        sys.exit("filters.py: HDF5 does not find libh5lmc.so: set HDF5_PLUGIN_PATH to its directory")
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    sets = list(load(arguments.files, (1024 if arguments.ratio else arguments.chunk_kib) << 10))
    folder = tempfile.mkdtemp(prefix="lmc-h5-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    try:
        if arguments.ratio:
            print_ratios(sets, folder, arguments.ratio)
            return
        results = measure(sets, folder, arguments)
    finally:
        shutil.rmtree(folder)
    print(f"{machine()}; chunks of {arguments.chunk_kib} KiB, one thread, fastest of "
          f"{arguments.rounds}{', CPU time' if arguments.clock == 'cpu' else ''}")
    print_table(results)
    write_report(arguments.json, {"machine": machine(), "chunk_kib": arguments.chunk_kib, "rounds": arguments.rounds,
                            "results": results})


if __name__ == "__main__":
    main()
