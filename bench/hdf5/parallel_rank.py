"""parallel_rank.py - a rank of bench/h5_parallel.py: writes its part of a dataset with MPI in each way, and reads it.

    mpirun -n N python3 parallel_rank.py FOLDER SETTINGS

SETTINGS is JSON: source (a safetensors file), dtype, mib, rounds, profile (a way, or null), control (the folder of
perf's pipes). Rank 0 prints JSON. The dataset has rows of 4096 values, from all values of `source` again and again.
Each rank begins at another place. Needs mpi4py, h5py with MPI, and lmcodec.
"""

import ctypes
import json
import os
import sys
import time

import h5py
import lmcodec
import numpy
from mpi4py import MPI

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import read_tensors  # noqa: E402

LMC = {"compression": 59810}
GZIP = {"compression": "gzip", "compression_opts": 1, "shuffle": True}
COLUMNS = 4096
CHUNK_NBYTES = 1 << 20
NUMPY_TYPE = {"BF16": "<u2", "F32": "<f4"}
RESET_PEAK = "5"  # what /proc/self/clear_refs takes for it
SLOW = ("gzip-1, shuffle",)  # these take one round

world = MPI.COMM_WORLD


# ---- data ----

def read_values(path, wanted):
    parts = [content for _, dtype, _, content in read_tensors(path) if dtype == wanted]
    return numpy.frombuffer(b"".join(parts), NUMPY_TYPE[wanted])


class Part:
    """What a rank has of a dataset, where it stands, and how chunks are cut: shape, index, values, chunks."""

    def __init__(self, values, row_count, layout):
        chunk_rows = CHUNK_NBYTES // COLUMNS // values.itemsize
        self.shape = (row_count, COLUMNS)
        rows, columns = row_count // world.size, COLUMNS // world.size
        if layout.startswith("columns"):
            shape = row_count, columns
            self.index = numpy.s_[:, world.rank * columns:(world.rank + 1) * columns]
        else:
            shape = rows, COLUMNS
            self.index = numpy.s_[world.rank * rows:(world.rank + 1) * rows]
        self.chunks = {"contiguous": None, "rows": (chunk_rows, COLUMNS), "rows, across": (chunk_rows - 8, COLUMNS),
                       "columns": (chunk_rows * world.size, columns), "columns, across": (chunk_rows, COLUMNS)}[layout]
        self.values = numpy.resize(numpy.roll(values, -world.rank * len(values) // world.size), shape)


WAYS = {  # layout, options of create_dataset, whether each rank has a file of its own
    "no filter, contiguous": ("contiguous", {}, False),
    "no filter, chunks": ("rows", {}, False),
    "LMC, own chunks": ("rows", LMC, False),
    "LMC, boundaries shared": ("rows, across", LMC, False),
    "LMC, columns, own chunks": ("columns", LMC, False),
    "LMC, columns, all shared": ("columns, across", LMC, False),
    "LMC, a file per rank": ("rows", LMC, True),
    "gzip-1, shuffle": ("rows", GZIP, False),
}


# ---- what is measured ----

def seconds_of_all(function):
    """The clock from the first rank's begin to the last one's end, and what the function returned."""
    world.Barrier()
    begin = time.perf_counter()
    result = function()
    world.Barrier()
    return time.perf_counter() - begin, result


def resident_nbytes(key):
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(key))


class Dataset:
    """A dataset in a file, as one way has it."""

    def __init__(self, folder, way, part):
        _, self.options, self.is_own_file = WAYS[way]
        self.part = part
        self.path = os.path.join(folder, f"x{world.rank if self.is_own_file else ''}.h5")

    def open(self, mode):
        return h5py.File(self.path, mode) if self.is_own_file else h5py.File(self.path, mode, driver="mpio", comm=world)

    def write(self, control=None):
        shape, index = (self.part.values.shape, ...) if self.is_own_file else (self.part.shape, self.part.index)
        with self.open("w") as file:
            dataset = file.create_dataset("x", shape, self.part.values.dtype, chunks=self.part.chunks, **self.options)
            if control:
                control("enable")
            if self.is_own_file:
                dataset[index] = self.part.values
            else:
                with dataset.collective:
                    dataset[index] = self.part.values
            if control:
                control("disable")
            return dataset.id.get_storage_size()

    def read(self, out):
        with self.open("r") as file:
            dataset = file["x"]
            if self.is_own_file:
                dataset.read_direct(out)
            else:
                with dataset.collective:
                    dataset.read_direct(out, self.part.index)

    def remove(self):
        world.Barrier()
        if self.is_own_file or world.rank == 0:
            os.unlink(self.path)
        world.Barrier()


def measure_way(folder, way, part):
    dataset = Dataset(folder, way, part)
    ctypes.CDLL(None).malloc_trim(0)  # memory that an earlier way has freed
    before = resident_nbytes("VmRSS")
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write(RESET_PEAK)
    write_seconds, stored = seconds_of_all(dataset.write)
    extra = resident_nbytes("VmHWM") - before
    out = numpy.zeros_like(part.values)
    read_seconds, _ = seconds_of_all(lambda: dataset.read(out))
    if not numpy.array_equal(out.view(numpy.uint8), part.values.view(numpy.uint8)):
        raise SystemExit(f"parallel_rank.py: {way}, rank {world.rank}: what was read differs")
    dataset.remove()
    return {"write_seconds": write_seconds, "read_seconds": read_seconds,
            "extra_nbytes": world.allreduce(extra, MPI.MAX),
            "stored_nbytes": world.allreduce(stored) if dataset.is_own_file else stored}


def measure_codec(part, dtype):
    """The same chunks, coded by liblmc without HDF5: what the filter itself takes."""
    rows = part.chunks[0]
    chunks = [part.values[first:first + rows] for first in range(0, len(part.values), rows)]
    row_nbytes = COLUMNS * part.values.itemsize
    frames, out = [], bytearray(CHUNK_NBYTES)
    cpu = time.process_time()
    write_seconds, _ = seconds_of_all(
        lambda: frames.extend(lmcodec.encode(chunk, dtype, row_nbytes=row_nbytes) for chunk in chunks))
    read_seconds, _ = seconds_of_all(lambda: [lmcodec.decode(frame, out) for frame in frames])
    cpu = time.process_time() - cpu
    return {"write_seconds": write_seconds, "read_seconds": read_seconds, "cpu_seconds": world.allreduce(cpu),
            "extra_nbytes": 0, "stored_nbytes": world.allreduce(sum(map(len, frames)))}


def merged(old, new):
    """The fastest, and the most memory."""
    return {key: (max if key == "extra_nbytes" else min)(value, old.get(key, value)) for key, value in new.items()}


def measure(folder, settings, values, row_count):
    found = {}
    for number in range(settings["rounds"]):
        for way, (layout, _, _) in WAYS.items():
            if number == 0 or way not in SLOW:
                found[way] = merged(found.get(way, {}), measure_way(folder, way, Part(values, row_count, layout)))
        codec = measure_codec(Part(values, row_count, "rows"), settings["dtype"])
        found["liblmc alone"] = merged(found.get("liblmc alone", {}), codec)
    return found


# ---- under perf ----

def profile(folder, settings, values, row_count):
    """Only the writes themselves are recorded."""
    way = settings["profile"]
    dataset = Dataset(folder, way, Part(values, row_count, WAYS[way][0]))

    def control(word):
        world.Barrier()
        if world.rank == 0:
            with open(os.path.join(settings["control"], "control"), "w", encoding="ascii") as pipe:
                pipe.write(word + "\n")
            with open(os.path.join(settings["control"], "answer"), encoding="ascii") as pipe:
                pipe.readline()
        world.Barrier()

    for _ in range(settings["rounds"]):
        dataset.write(control)
        dataset.remove()
    return {}


def main():
    folder, settings = sys.argv[1], json.loads(sys.argv[2])
    values = read_values(settings["source"], settings["dtype"])
    row_count = (settings["mib"] << 20) // COLUMNS // values.itemsize
    found = (profile if settings["profile"] else measure)(folder, settings, values, row_count)
    if world.rank == 0:
        print(json.dumps({"hdf5": h5py.version.hdf5_version, "mpi": MPI.Get_library_version().split(",")[0],
                          "nbytes": row_count * COLUMNS * values.itemsize, "ways": found}))


if __name__ == "__main__":
    main()
