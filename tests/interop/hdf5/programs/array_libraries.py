"""array_libraries.py DIRECTORY - xarray and h5netcdf write with LMC; xarray reads by both of its engines."""
import os
import sys

import h5netcdf
import h5py
import numpy as np
import xarray

import lmcodec.h5

from common import CHUNKS, COLUMNS, FILTER, check, check_values, read_h5py, same, weights

content = weights(3)
path = os.path.join(sys.argv[1], "xarray.nc")
xarray.Dataset({"w": (("rows", "columns"), content)}, {"rows": np.arange(len(content))}).to_netcdf(
    path, engine="h5netcdf", encoding={"w": {"compression": FILTER, "chunksizes": CHUNKS}})
check_values(read_h5py(h5py, path, content))

path_of_level = os.path.join(sys.argv[1], "level.nc")
xarray.Dataset({"w": (("rows", "columns"), content)}).to_netcdf(
    path_of_level, engine="h5netcdf",
    encoding={"w": {"compression": FILTER, "compression_opts": (2,), "chunksizes": CHUNKS}})
check_values(read_h5py(h5py, path_of_level, content), user=(2, 0, 0))

path_of_h5netcdf = os.path.join(sys.argv[1], "h5netcdf.nc")
with h5netcdf.File(path_of_h5netcdf, "w") as file:
    file.dimensions = {"rows": len(content), "columns": COLUMNS}
    file.create_variable("w", ("rows", "columns"), "<f4", data=content, chunks=CHUNKS, compression=FILTER)
check_values(read_h5py(h5py, path_of_h5netcdf, content))

path_of_netcdf4, path_of_repacked = (os.path.join(sys.argv[1], name) for name in ("netcdf4.nc", "repacked.nc"))
xarray.Dataset({"w": (("rows", "columns"), content)}).to_netcdf(
    path_of_netcdf4, engine="netcdf4", encoding={"w": {"zlib": True, "chunksizes": CHUNKS}})
lmcodec.h5.repack(path_of_netcdf4, path_of_repacked, min_nbytes=0)
check(lmcodec.h5.inspect(path_of_repacked)["w"].is_lmc, "repack() encodes what netCDF4 wrote")

for name in (path, path_of_level, path_of_h5netcdf, path_of_repacked):
    for engine in ("h5netcdf", "netcdf4"):
        with xarray.open_dataset(name, engine=engine) as dataset:
            check(same(dataset["w"].values, content), "%s by %s" % (name, engine))
