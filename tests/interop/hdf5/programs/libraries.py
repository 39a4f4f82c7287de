"""libraries.py DIRECTORY MODULE... - imports these modules (h5py, tables, netCDF4, hdf5plugin), in this order, each
with a libhdf5 of its own. In the same order each writes a file with LMC, then each reads the files of all."""
import ctypes
import importlib
import itertools
import os
import sys

from common import (CHUNKS, COLUMNS, FILTER, check, check_coded, check_values, loaded, read_h5py, same, weights,
                    write_h5py)
from low_level import Hdf5

modules = {}


def libhdf5_of(package):
    """The libhdf5 that came with a package."""
    return next(path for path in loaded("libhdf5-") if package + ".libs" in path)


# ---- writers: path, numbers ----

def write_with_h5py(path, content):
    write_h5py(modules["h5py"], path, content, maxshape=(None, COLUMNS))


def write_with_tables(path, content):
    """PyTables has no words for a foreign filter: its HDF5 creates the dataset, and it appends the second half."""
    half = len(content) // 2
    Hdf5(libhdf5_of("tables")).create(path, "w", content[:half])
    with modules["tables"].open_file(path, "a") as file:
        file.root.w.append(content[half:])


def write_with_netcdf(path, content):
    """netCDF4 names known filters only; the C function beneath takes any."""
    file = modules["netCDF4"].Dataset(path, "w")
    file.createDimension("rows", None)
    file.createDimension("columns", COLUMNS)
    variable = file.createVariable("w", "<f4", ("rows", "columns"), chunksizes=CHUNKS)
    library = ctypes.CDLL(next(path for path in loaded("libnetcdf") if "netcdf4.libs" in path))
    status = library.nc_def_var_filter(file._grpid, variable._varid, FILTER, ctypes.c_size_t(0), None)
    check(status == 0, "nc_def_var_filter: %d" % status)
    variable[:] = content
    file.close()


# ---- readers ----

def read_with_h5py(path, content):
    check_values(read_h5py(modules["h5py"], path, content))


def read_with_tables(path, content):
    with modules["tables"].open_file(path, "r") as file:
        check(same(file.root.w[...], content), "%s: PyTables reads other numbers" % path)


def read_with_netcdf(path, content):
    file = modules["netCDF4"].Dataset(path, "r")
    file.set_auto_mask(False)
    found = file["w"][...]
    file.close()
    check(same(found, content), "%s: netCDF4 reads other numbers" % path)


WRITE = {"h5py": write_with_h5py, "tables": write_with_tables, "netCDF4": write_with_netcdf}
READ = {"h5py": read_with_h5py, "tables": read_with_tables, "netCDF4": read_with_netcdf}


def check_beside_hdf5plugin(directory):
    """Filters of hdf5plugin, each in a dataset of its own and one after LMC."""
    h5py, hdf5plugin = modules["h5py"], modules["hdf5plugin"]
    content = weights(9)
    path = os.path.join(directory, "both.h5")
    with h5py.File(path, "w") as file:
        for name, options in (("zstd", hdf5plugin.Zstd()), ("blosc2", hdf5plugin.Blosc2()),
                              ("bitshuffle", hdf5plugin.Bitshuffle()), ("lmc", {"compression": FILTER})):
            file.create_dataset(name, data=content, chunks=CHUNKS, **options)
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk(CHUNKS)
        plist.set_filter(FILTER, 0, ())
        plist.set_filter(hdf5plugin.Zstd.filter_id, 0, ())
        space = h5py.h5s.create_simple(content.shape)
        h5py.h5d.create(file.id, b"lmc-zstd", h5py.h5t.IEEE_F32LE, space, plist)
        file["lmc-zstd"][...] = content
    with h5py.File(path, "r") as file:
        for name in file:
            check(same(file[name][...], content), name + ": other numbers")
        check_values(check_coded(file["lmc"]))


def main():
    directory, names = sys.argv[1], sys.argv[2:]
    for name in names:
        modules[name] = importlib.import_module(name)
    files = {}
    for seed, name in enumerate(name for name in names if name in WRITE):
        files[name] = (os.path.join(directory, name + ".nc"), weights(seed))
        WRITE[name](*files[name])
        if "hdf5plugin" in modules and "h5py" in modules:
            check_beside_hdf5plugin(directory)
    for reader, writer in itertools.product(files, files):
        READ[reader](*files[writer])
    libraries = loaded("libhdf5-")
    check(len(loaded("libh5lmc")) == 1, "plugins: %s" % loaded("libh5lmc"))
    print(len(libraries), "libraries:", *(os.path.basename(path) for path in libraries))


main()
