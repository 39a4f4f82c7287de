"""Zarr arrays with LMC on a server that speaks S3, through fsspec and through obstore; Dask writes there, too."""
import os
import re
import subprocess
import sys

import pytest

numpy = pytest.importorskip("numpy", reason="numpy is not installed")
zarr = pytest.importorskip("zarr", reason="zarr is not installed")
for module in ("moto", "s3fs", "obstore", "distributed"):
    pytest.importorskip(module, reason="%s is not installed" % module)

import lmcodec
from lmcodec.zarr import LmcCodec
from s3_server import s3_server

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


@pytest.fixture(scope="module")
def server():
    with s3_server("bucket") as variables:
        yield variables


@pytest.fixture
def bucket(server, monkeypatch):
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    return "s3://bucket/"


def stores(url):
    """The same place through both packages."""
    from obstore.store import from_url
    return {"fsspec": zarr.storage.FsspecStore.from_url(url), "obstore": zarr.storage.ObjectStore(from_url(url))}


@pytest.mark.parametrize("shards", [None, (128, 512)], ids=["chunks", "shards"])
@pytest.mark.parametrize("writer", ["fsspec", "obstore"])
def test_array(bucket, writer, shards):
    url = bucket + "%s-%s.zarr" % (writer, "shards" if shards else "chunks")
    values = numpy.random.default_rng(1).standard_normal((512, 512)).astype("f4")
    zarr.create_array(stores(url)[writer], data=values, chunks=(64, 512), shards=shards, serializer=LmcCodec(),
                      compressors=None)
    for store in stores(url).values():
        array = zarr.open_array(store, mode="r")
        assert (array[:] == values).all() and (array[100:200, 7] == values[100:200, 7]).all()
        assert 0.5 * values.nbytes < array.nbytes_stored() < 0.9 * values.nbytes


def test_a_damaged_object(bucket):
    import s3fs
    values = numpy.random.default_rng(2).standard_normal((64, 64)).astype("f4")
    zarr.create_array(bucket + "damaged.zarr", data=values, chunks=(32, 64), serializer=LmcCodec(), compressors=None)
    files = s3fs.S3FileSystem()
    stored = files.cat_file("bucket/damaged.zarr/c/1/0")
    files.pipe_file("bucket/damaged.zarr/c/1/0", stored[:-1])
    for store in stores(bucket + "damaged.zarr").values():
        array = zarr.open_array(store, mode="r")
        assert (array[:32] == values[:32]).all()
        with pytest.raises(lmcodec.DataError):
            array[:]


LINE = re.compile(r"^(.*): 16 MiB, stored / original (0\.\d+), written by (\d) processes in .*, read by (\d) in .*, "
                  r"equal$")


def test_two_processes_of_dask(bucket, directory):
    """The example: both workers write to one store at the same time, here and on the server."""
    names = [os.path.join(directory, "dask.zarr"), bucket + "dask.zarr"]
    program = [sys.executable, "-W", "ignore", os.path.join(ROOT, "examples", "zarr_dask.py"), "--mib", "16"]
    done = subprocess.run(program + names, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [LINE.match(line).groups() for line in done.stdout.splitlines()]
    assert [name for name, *_ in found] == names
    for name, ratio, writers, readers in found:
        array = zarr.open_array(name, mode="r")
        assert array.serializer == LmcCodec() and array.shape == (4096, 1024) and float(ratio) < 0.84
        assert (writers, readers) == ("2", "2") and abs(array[4000].std() - 0.02) < 0.002
