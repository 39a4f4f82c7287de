"""Several libhdf5 in one process: h5py has 2.0.0, PyTables 1.14.6, netCDF4 2.2.0; and what stands on them."""
import itertools
import os

import pytest

from world import ROOT, check

ORDERS = ["+".join(order) for order in itertools.permutations(("h5py", "tables", "netCDF4"))]
ORDERS_WITH_HDF5PLUGIN = ["hdf5plugin+h5py+tables+netCDF4", "netCDF4+tables+hdf5plugin+h5py",
                          "tables+hdf5plugin+h5py+netCDF4", "h5py+netCDF4+tables+hdf5plugin"]


@pytest.mark.parametrize("order", [*ORDERS, *ORDERS_WITH_HDF5PLUGIN])
def test_import_order(world, directory, order):
    result = world.program("200", "libraries", directory, *order.split("+"))
    check(result.stdout.startswith("3 libraries"), result.stdout)


def test_same_version_twice(world, directory):
    """h5py and PyTables with a copy of 1.14.6 each."""
    for order in (("h5py", "tables"), ("tables", "h5py")):
        result = world.program("114", "libraries", directory, *order)
        check(result.stdout.startswith("2 libraries"), result.stdout)


def test_newest_library(world, directory):
    """Here h5py and netCDF4 have HDF5 2.2.0, PyTables 1.14.6."""
    world.program("220", "libraries", directory, "netCDF4", "hdf5plugin", "tables", "h5py")


def test_three_libraries_with_threads(world, directory):
    world.program("200", "libraries", directory, "tables", "netCDF4", "h5py", LMC_NUM_THREADS="4")


@pytest.mark.parametrize("bed", ["200", "220"])
def test_xarray_and_h5netcdf(world, directory, bed):
    world.program(bed, "array_libraries", directory, PYTHONPATH=os.path.join(ROOT, "python"),
                  LMCODEC_LIBRARY_DIR=world.build)
