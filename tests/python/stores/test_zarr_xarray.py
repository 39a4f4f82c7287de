"""xarray writes and reads datasets with LMC, with Dask in several threads, too."""
import os

import pytest

numpy = pytest.importorskip("numpy", reason="numpy is not installed")
zarr = pytest.importorskip("zarr", reason="zarr is not installed")
for module in ("dask", "xarray"):
    pytest.importorskip(module, reason="%s is not installed" % module)

from lmcodec.numcodecs import Lmc
from lmcodec.zarr import LmcCodec


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
def test_xarray_with_dask(directory, dataset):
    import xarray
    paths = [os.path.join(directory, name) for name in ("first", "second")]
    dataset.chunk(row=16).to_zarr(paths[0], encoding={"weight": {"serializer": LmcCodec("fast"), "compressors": None}})
    opened = xarray.open_zarr(paths[0])
    assert opened.equals(dataset) and opened.weight.chunks == ((8,), (16,) * 4, (512,))
    assert zarr.open_array(os.path.join(paths[0], "weight")).serializer == LmcCodec("fast")
    (opened * 2).to_zarr(paths[1], encoding={"weight": {"serializer": LmcCodec(), "compressors": None}})
    assert xarray.open_zarr(paths[1]).equals(dataset * 2)


@pytest.mark.filterwarnings("ignore")
def test_xarray_format_2(directory, dataset):
    import xarray
    path = os.path.join(directory, "store")
    dataset.to_zarr(path, zarr_format=2, encoding={"weight": {"compressors": Lmc("max")}})
    assert xarray.open_zarr(path).equals(dataset)
    assert zarr.open_array(os.path.join(path, "weight")).compressors == (Lmc("max"),)
