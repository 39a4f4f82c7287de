"""zarr_dask.py - two processes of Dask write a Zarr array with LMC at the same time, and read it again.

    python3 zarr_dask.py [--mib N] [STORE...]      # directories, or URLs such as s3://bucket/weights.zarr

The array has N MiB (64) of f32 numbers, in chunks of 4 MiB. Each worker makes chunks, encodes them and writes them;
then each reads chunks and sums them up. Nothing but the sums comes back. Needs lmcodec, zarr, dask and distributed.
"""

import argparse
import os
import sys
import tempfile
import time

import dask.array
import numpy
import zarr
from dask.distributed import Client, LocalCluster, get_task_stream

import lmcodec.zarr  # noqa: F401: registers the codec; an installed lmcodec needs no import

COLUMNS = 1024
CHUNK_ROWS = 1024  # a task of Dask, and a chunk of the store: no two workers write to one chunk


def weights(block_info=None):
    """A block of made-up weights. It is the same whoever makes it."""
    first_row = block_info[None]["array-location"][0][0]
    rows, columns = block_info[None]["chunk-shape"]
    return numpy.random.default_rng(first_row).standard_normal((rows, columns), dtype="f4") * numpy.float32(0.02)


def sum_of(block):
    """The sum of the bits of a block."""
    return numpy.array([[block.view("u4").sum(dtype="u8")]])


def sums(array):
    return array.map_blocks(sum_of, dtype="u8", chunks=(1, 1)).compute()


def count_workers(stream):
    return len({task["worker"] for task in stream.data})


def write_and_read(store, made, client):
    target = zarr.create_array(store, shape=made.shape, chunks=(CHUNK_ROWS, COLUMNS), dtype="f4", overwrite=True,
                               serializer={"name": "lmc"}, compressors=None)
    started = time.perf_counter()
    with get_task_stream(client) as writing:
        dask.array.store(made, target, lock=False)
    written = time.perf_counter()
    with get_task_stream(client) as reading:
        found = sums(dask.array.from_zarr(store))
    read = time.perf_counter()
    equal = numpy.array_equal(found, sums(made))
    print("%s: %d MiB, stored / original %.4f, written by %d processes in %.2f s, read by %d in %.2f s, %s"
          % (store, made.nbytes >> 20, target.nbytes_stored() / made.nbytes, count_workers(writing), written - started,
             count_workers(reading), read - written, "equal" if equal else "DIFFERENT"))
    return equal


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("stores", nargs="*", metavar="STORE")
    options = parser.parse_args()
    stores = options.stores or [os.path.join(tempfile.mkdtemp(), "weights.zarr")]
    rows = tuple(min(CHUNK_ROWS, options.mib * 256 - row) for row in range(0, options.mib * 256, CHUNK_ROWS))
    made = dask.array.map_blocks(weights, chunks=(rows, (COLUMNS,)), dtype="f4")
    with LocalCluster(n_workers=2, processes=True, threads_per_worker=1, dashboard_address=None) as cluster, \
            Client(cluster) as client:
        equal = [write_and_read(store, made, client) for store in stores]
    return 0 if all(equal) else 1


if __name__ == "__main__":
    sys.exit(main())
