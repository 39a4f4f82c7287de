"""Two worker processes of Dask write and read one store at the same time; xarray writes and reads datasets."""
import os
import subprocess
import sys

import pytest

numpy = pytest.importorskip("numpy", reason="numpy is not installed")
zarr = pytest.importorskip("zarr", reason="zarr is not installed")
for module in ("dask", "distributed", "xarray"):
    pytest.importorskip(module, reason="%s is not installed" % module)

from lmcodec.numcodecs import Lmc
from lmcodec.zarr import LmcCodec

PROGRAM = """
import os, sys
import dask.array, numpy, xarray, zarr
from dask.distributed import Client, LocalCluster
from lmcodec.zarr import LmcCodec

def weights(block):
    return (numpy.random.default_rng(block).standard_normal((128, 256)) * 0.02).astype("f4")

def write_and_read(array, first):
    for block in range(first, 16, 2):
        array[block * 128:(block + 1) * 128] = weights(block)
        assert (array[block * 128:(block + 1) * 128] == weights(block)).all()
    return os.getpid()

def read(array):
    return all((array[block * 128:(block + 1) * 128] == weights(block)).all() for block in range(16))

def main(store):
    with LocalCluster(n_workers=2, processes=True, threads_per_worker=1, dashboard_address=None) as cluster, \\
            Client(cluster) as client:
        array = zarr.create_array(store + "/array", shape=(2048, 256), chunks=(128, 256), dtype="f4",
                                  serializer=LmcCodec(), compressors=None)
        workers = list(client.scheduler_info()["workers"])
        assert len(workers) == 2
        tasks = [client.submit(write_and_read, array, first, workers=[workers[first]]) for first in range(2)]
        assert len(set(client.gather(tasks)) | {os.getpid()}) == 3
        assert client.gather([client.submit(read, array, workers=[name], pure=False) for name in workers]) == [True] * 2
        values = dask.array.from_zarr(store + "/array")
        dataset = xarray.Dataset({"weight": (("row", "column"), values)})
        dataset.to_zarr(store + "/dataset", encoding={"weight": {"serializer": LmcCodec("fast"), "compressors": None}})
        assert xarray.open_zarr(store + "/dataset").equals(dataset)

if __name__ == "__main__":
    main(sys.argv[1])
"""


@pytest.mark.filterwarnings("ignore")
def test_two_processes(directory):
    program = os.path.join(directory, "program.py")
    with open(program, "w") as file:
        file.write(PROGRAM)
    done = subprocess.run([sys.executable, "-W", "ignore", program, directory], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    array = zarr.open_array(os.path.join(directory, "array"))
    assert len(os.listdir(os.path.join(directory, "array", "c"))) == 16 and array.nbytes_stored() < 0.85 * array.nbytes
    assert zarr.open_array(os.path.join(directory, "dataset", "weight")).serializer == LmcCodec("fast")


# ---- xarray ----

@pytest.fixture
def dataset():
    import xarray
    steps = numpy.stack([numpy.random.default_rng(1).standard_normal((64, 512), "f4")] * 8)
    steps[:, 3] += numpy.arange(8)[:, None]
    return xarray.Dataset({"weight": (("step", "row", "column"), steps), "loss": ("step", steps[:, 3, 0])},
                          coords={"step": numpy.arange(8) * 10}, attrs={"run": "a test"})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("serializer", [{"name": "lmc", "configuration": {"rows": True}}, LmcCodec(rows=True)],
                         ids=["settings", "codec"])
def test_xarray(directory, dataset, serializer):
    import xarray
    paths = [os.path.join(directory, name) for name in ("first", "second")]
    dataset.to_zarr(paths[0], encoding={"weight": {"serializer": serializer, "compressors": None,
                                                   "chunks": (4, 64, 512)}})
    opened = xarray.open_zarr(paths[0])
    assert opened.equals(dataset) and opened.attrs == dataset.attrs
    assert opened.weight.encoding["serializer"] == LmcCodec(rows=True)
    array = zarr.open_array(os.path.join(paths[0], "weight"))
    assert array.nbytes_stored() < 0.4 * array.nbytes
    opened.to_zarr(paths[1])  # a copy keeps the codec
    assert zarr.open_array(os.path.join(paths[1], "weight")).serializer == LmcCodec(rows=True)
    later = dataset.assign_coords(step=dataset.step + 80)
    later.to_zarr(paths[0], append_dim="step")
    assert xarray.open_zarr(paths[0]).equals(xarray.concat([dataset, later], "step"))


@pytest.mark.filterwarnings("ignore")
def test_xarray_format_2(directory, dataset):
    import xarray
    path = os.path.join(directory, "store")
    dataset.to_zarr(path, zarr_format=2, encoding={"weight": {"compressors": Lmc("max")}})
    assert xarray.open_zarr(path).equals(dataset)
    assert zarr.open_array(os.path.join(path, "weight")).compressors == (Lmc("max"),)
