"""zarr_dask.py - two processes of Dask write a Zarr array with LMC at the same time, and read it again.

    python3 zarr_dask.py [STORE [MIB]]      # a directory, or a URL such as s3://bucket/weights.zarr

The array has MIB MiB (64) of f32 numbers, in chunks of 4 MiB. Each worker makes chunks, encodes them and writes them;
then each reads chunks and sums them up. Nothing but the sums comes back. Needs lmcodec, zarr, dask and distributed.
"""

import os
import sys
import tempfile
import time

import dask.array
import numpy
import zarr
from dask.distributed import Client, LocalCluster

import lmcodec.zarr  # noqa: F401: tells Zarr the codec; an installed lmcodec needs no import

COLUMNS = 1024
CHUNK_ROWS = 1024  # a task of Dask, and a chunk of the store: no two workers write to one chunk


def weights(block_info=None):
    """A block of made-up weights. It is the same whoever makes it."""
    first_row = block_info[None]["array-location"][0][0]
    rows, columns = block_info[None]["chunk-shape"]
    return numpy.random.default_rng(first_row).standard_normal((rows, columns), dtype="f4") * numpy.float32(0.02)


def sum_of(block):
    """The process that has done it, and the sum of the bits of a block."""
    return numpy.array([[os.getpid(), int(block.view("u4").sum(dtype="u8"))]], dtype="u8")


def sums(array):
    return array.map_blocks(sum_of, dtype="u8", chunks=(1, 2)).compute()


def main():
    store = sys.argv[1] if len(sys.argv) > 1 else os.path.join(tempfile.mkdtemp(), "weights.zarr")
    rows = int(sys.argv[2] if len(sys.argv) > 2 else 64) * 256
    made = dask.array.map_blocks(weights, chunks=(dask.array.core.normalize_chunks(CHUNK_ROWS, (rows,))[0], (COLUMNS,)),
                                 dtype="f4")
    with LocalCluster(n_workers=2, processes=True, threads_per_worker=1, dashboard_address=None) as cluster, \
            Client(cluster):
        target = zarr.create_array(store, shape=made.shape, chunks=(CHUNK_ROWS, COLUMNS), dtype="f4", overwrite=True,
                                   serializer={"name": "lmc"}, compressors=None)
        started = time.perf_counter()
        dask.array.store(made, target, lock=False)
        written = time.perf_counter()
        found = sums(dask.array.from_zarr(store))
        read = time.perf_counter()
        equal = numpy.array_equal(found[:, 1], sums(made)[:, 1])
    print("%d MiB, %d processes: stored / original %.4f, written in %.2f s, read in %.2f s, %s"
          % (made.nbytes >> 20, len(set(found[:, 0].tolist())), target.nbytes_stored() / made.nbytes, written - started,
             read - written, "equal" if equal else "DIFFERENT"))
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
