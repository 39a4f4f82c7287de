"""h5_parallel.py - several processes write and read one dataset stored with LMC (MPI, parallel HDF5).

    export HDF5_PLUGIN_PATH=DIRECTORY      # that of libh5lmc.so, on every node
    mpirun -n 2 python3 h5_parallel.py FILE.h5

Needs mpi4py and an h5py that was built with MPI (Debian: python3-h5py-mpi, with H5PY_ALWAYS_USE_MPI=1).
"""

import sys

import h5py
import numpy
from mpi4py import MPI

LMC = 59810
ROWS = 1024  # of each process
COLUMNS = 512


def main():
    world = MPI.COMM_WORLD
    first = world.rank * ROWS
    mine = numpy.random.default_rng(world.rank).normal(0, 0.02, (ROWS, COLUMNS)).astype(numpy.float32)

    with h5py.File(sys.argv[1], "w", driver="mpio", comm=world) as file:
        # All processes create the dataset, with the same arguments.
        dataset = file.create_dataset("x", (world.size * ROWS, COLUMNS), "f4", chunks=(384, COLUMNS), compression=LMC)
        # With filters HDF5 wants writes to be collective: everybody at once. A chunk may hold rows of two processes.
        with dataset.collective:
            dataset[first:first + ROWS] = mine

    with h5py.File(sys.argv[1], "r", driver="mpio", comm=world) as file:
        dataset = file["x"]
        with dataset.collective:
            equal = numpy.array_equal(dataset[first:first + ROWS], mine)
        ratio = dataset.id.get_storage_size() / (world.size * ROWS * COLUMNS * 4)
    print(f"process {world.rank} of {world.size}: {'equal' if equal else 'DIFFERENT'}, the file has {ratio:.4f}",
          flush=True)
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
