"""mpi.py FILE SEED - writes with LMC on the ranks of MPI, and reads. Chunks are shared between ranks."""
import sys

import h5py
from mpi4py import MPI

from common import CHUNKS, FILTER, MANY_BLOCKS, check, filter_of, same, weights

path, seed = sys.argv[1], int(sys.argv[2])
world = MPI.COMM_WORLD
content = weights(seed)
# a boundary within a chunk
boundary = len(content) * world.rank // world.size
first = boundary + (5 if world.rank > 0 else 0)
end = len(content) * (world.rank + 1) // world.size + (5 if world.rank + 1 < world.size else 0)
check(world.size > 1 and first % CHUNKS[0] in (0, 5), "ranks: %d" % world.size)

with h5py.File(path, "w", driver="mpio", comm=world) as file:
    dataset = file.create_dataset("w", content.shape, "<f4", chunks=CHUNKS, compression=FILTER,
                                  compression_opts=MANY_BLOCKS)
    with dataset.collective:
        dataset[first:end] = content[first:end]
    try:
        dataset[first:end] = content[first:end]
    except OSError as refusal:
        check("independent write" in str(refusal), str(refusal))
    else:
        raise AssertionError("an independent write of filtered chunks")
    with dataset.collective:  # a second time: chunks of other ranks are read, changed and written
        dataset[first + 1:end - 1] = content[first + 1:end - 1]

with h5py.File(path, "r", driver="mpio", comm=world) as file:
    dataset = file["w"]
    check(same(dataset[...], content), "read independently")
    check(same(dataset[world.rank:40 + world.rank], content[world.rank:40 + world.rank]), "read independently in part")
    with dataset.collective:
        check(same(dataset[first:end], content[first:end]), "read collectively")
    if world.rank == 0:
        print(*filter_of(dataset)[2])
