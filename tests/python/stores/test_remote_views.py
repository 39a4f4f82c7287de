"""Tensors in stores that are not as they are stored: big-endian, in Fortran order, in pieces and with bases."""
import os

import numpy
import pytest

pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

import lmcodec  # noqa: E402
import lmcodec.numpy  # noqa: E402
from lmcodec._remote import remote_file  # noqa: E402

from range_server import RangeServer  # noqa: E402
from remote_files import content_of  # noqa: E402

INDICES = (numpy.s_[3:5], numpy.s_[-1], numpy.s_[::100], numpy.s_[:, 7], numpy.s_[...])


@pytest.fixture
def server():
    with RangeServer() as running:
        yield running


def arrays(step=0):
    """The rows of some lie all over their storage, those of others one behind the other."""
    values = numpy.random.default_rng(1).standard_normal((400, 600), dtype="f4")
    values[:, :step] += 1
    return {"turned": numpy.asfortranarray(values), "big": values.astype(">f4"),
            "both": numpy.asfortranarray(values.astype(">f8")), "cube": values.reshape(20, 20, 600).transpose(1, 2, 0),
            "plain": values}


def put(server, directory, step, base=None):
    """An .npz file and its archive in the store. Returns the path of the file."""
    path = os.path.join(directory, "s%d.npz" % step)
    numpy.savez(path, **arrays(step))
    lmcodec.convert(path, base=base)
    for place in (path, path + ".lmc"):
        server.files["d/" + os.path.basename(place)] = content_of(place)
    return path


def check_arrays(url, expected):
    with lmcodec.safe_open(url, "np") as file:
        assert file.keys() == sorted(expected)
        loaded = file.get_tensors()
        for name, array in expected.items():
            little = array.astype(array.dtype.newbyteorder("<"))
            assert loaded[name].dtype == little.dtype and numpy.array_equal(loaded[name], little), name
            assert numpy.array_equal(file.get_tensor(name), little), name
            for index in INDICES:
                assert numpy.array_equal(file.get_slice(name)[index], little[index]), (name, index)


@pytest.mark.parametrize("batch_nbytes", [32 << 20, 400000, 50000])
@pytest.mark.parametrize("ending", [".npz", ".npz.lmc"])
def test_whole_and_in_pieces(server, directory, monkeypatch, batch_nbytes, ending):
    """Of a smaller batch, tensors need several."""
    monkeypatch.setattr(remote_file, "_BATCH_NBYTES", batch_nbytes)
    monkeypatch.setattr(remote_file, "_WHOLE_NBYTES", 10000)
    put(server, directory, 0)
    check_arrays(server.url + "d/s0" + ending, arrays())


@pytest.mark.parametrize("batch_nbytes", [32 << 20, 200000])
def test_bases(server, directory, monkeypatch, batch_nbytes):
    """The part of a base that a part of a view needs is a part of the storage."""
    monkeypatch.setattr(remote_file, "_BATCH_NBYTES", batch_nbytes)
    monkeypatch.setattr(remote_file, "_WHOLE_NBYTES", 10000)
    put(server, directory, 0)
    put(server, directory, 1, os.path.join(directory, "s0.npz"))
    put(server, directory, 2, os.path.join(directory, "s1.npz.lmc"))
    check_arrays(server.url + "d/s2.npz.lmc", arrays(2))


def test_a_few_rows_need_a_part(server, directory):
    path = os.path.join(directory, "big.npy")
    values = numpy.random.default_rng(1).standard_normal((3000, 1500), dtype="f4").astype(">f4")
    numpy.save(path, values)
    lmcodec.convert(path)
    server.files["big.npy.lmc"] = content_of(path + ".lmc")
    with lmcodec.safe_open(server.url + "big.npy.lmc", "np") as file:
        server.forget()
        assert numpy.array_equal(file.get_slice("array")[1500:1503], values[1500:1503])
        assert server.nbytes < values.nbytes / 4, server.nbytes
        assert numpy.array_equal(file.get_slice("array")[2000], values[2000])
        server.forget()
        assert numpy.array_equal(file.get_slice("array")[1000], values[1000])
        assert server.count() == 1
