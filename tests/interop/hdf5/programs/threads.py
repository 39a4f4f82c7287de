"""threads.py KIND DIRECTORY - the filter in many threads.

three   h5py, PyTables and netCDF4 in a thread each: three locks, so the filter runs in all at once
many    eight threads of h5py
errors  the message of a failure belongs to the thread that met it
"""
import concurrent.futures
import ctypes
import os
import sys
import threading

import h5py

from common import CHUNKS, COLUMNS, FILTER, MANY_BLOCKS, check, open_plugin, read_h5py, same, weights, write_h5py

ROUNDS = 12


def with_h5py(path, start):
    start.wait()
    for seed in range(ROUNDS):
        content = weights(seed, 32)
        write_h5py(h5py, path, content, compression_opts=MANY_BLOCKS)
        read_h5py(h5py, path, content)


def with_tables(path, start):
    import tables
    from common import loaded
    from low_level import Hdf5
    hdf5 = Hdf5(next(path for path in loaded("libhdf5-") if "tables.libs" in path))
    start.wait()
    for seed in range(ROUNDS):
        content = weights(100 + seed, 32)
        hdf5.create(path, "w", content[:16], values=MANY_BLOCKS)
        with tables.open_file(path, "a") as file:
            file.root.w.append(content[16:])
        with tables.open_file(path, "r") as file:
            check(same(file.root.w[...], content), "PyTables reads other numbers")


def with_netcdf(path, start):
    import netCDF4
    from common import loaded
    library = ctypes.CDLL(next(path for path in loaded("libnetcdf") if "netcdf4.libs" in path))
    start.wait()
    for seed in range(ROUNDS):
        content = weights(200 + seed, 32)
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("rows", len(content))
            file.createDimension("columns", COLUMNS)
            variable = file.createVariable("w", "<f4", ("rows", "columns"), chunksizes=CHUNKS)
            status = library.nc_def_var_filter(file._grpid, variable._varid, FILTER, ctypes.c_size_t(3),
                                               (ctypes.c_uint * 3)(*MANY_BLOCKS))
            check(status == 0, "nc_def_var_filter: %d" % status)
            variable[:] = content
        with netCDF4.Dataset(path, "r") as file:
            file.set_auto_mask(False)
            check(same(file["w"][...], content), "netCDF4 reads other numbers")


def run_together(workers, directory):
    start = threading.Barrier(len(workers))
    with concurrent.futures.ThreadPoolExecutor(len(workers)) as pool:
        runs = [pool.submit(worker, os.path.join(directory, "%d.nc" % i), start) for i, worker in enumerate(workers)]
        for run in runs:
            run.result()


def provoke(path, damage):
    """Reads a damaged chunk; returns this thread's message."""
    content = weights(1)
    write_h5py(h5py, path, content)
    with h5py.File(path, "a") as file:
        _, stored = file["w"].id.read_direct_chunk((0, 0))
        file["w"].id.write_direct_chunk((0, 0), damage(stored))
    try:
        with h5py.File(path, "r") as file:
            file["w"][:CHUNKS[0]]
    except OSError:
        return open_plugin().lmc_h5_last_error()
    raise AssertionError("a damaged chunk was read")


def check_errors(directory):
    path = os.path.join(directory, "%s.h5")
    write_h5py(h5py, path % "good", weights(1))
    library = open_plugin()
    with concurrent.futures.ThreadPoolExecutor(1) as one, concurrent.futures.ThreadPoolExecutor(1) as other:
        cut = one.submit(provoke, path % "cut", lambda stored: stored[:len(stored) // 2]).result()
        foreign = other.submit(provoke, path % "foreign", lambda stored: b"\x28" * 5000).result()
        check(cut.startswith(b"lmc") and foreign.startswith(b"lmc") and cut != foreign, "%s, %s" % (cut, foreign))
        check(one.submit(library.lmc_h5_last_error).result() == cut, "the message of one thread was changed by another")
        # what succeeds leaves the message
        one.submit(read_h5py, h5py, path % "good", weights(1)).result()
        check(one.submit(library.lmc_h5_last_error).result() == cut, "the message was lost")
    check(library.lmc_h5_last_error() == b"", "this thread met no failure: %s" % library.lmc_h5_last_error())


kind, directory = sys.argv[1:]
if kind == "three":
    run_together([with_h5py, with_tables, with_netcdf], directory)
elif kind == "many":
    run_together([with_h5py] * 8, directory)
else:
    check_errors(directory)
