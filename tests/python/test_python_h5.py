"""lmcodec.h5: the filter in h5py, compress(), inspect()."""
import os
import subprocess
import sys
import threading

import numpy
import pytest

h5py = pytest.importorskip("h5py", reason="h5py is not installed (Debian: python3-h5py)")
import lmcodec  # noqa: E402
import lmcodec.h5 as h5  # noqa: E402


@pytest.fixture
def path(directory):
    return os.path.join(directory, "a.h5")


@pytest.fixture
def weights():
    return (numpy.random.default_rng(1).standard_normal((128, 1024)) * 0.02).astype("f4")


def filters(path):
    return {name: report.filters for name, report in h5.inspect(path).items()}


def test_without_plugin_path(directory, path, weights):
    """A new process needs the import alone."""
    program = ("import h5py, numpy, sys\n%s\nwith h5py.File(sys.argv[1], sys.argv[2]) as file:\n"
               "    if sys.argv[2] == 'w':\n"
               "        file.create_dataset('w', data=numpy.arange(65536.), compression=lmcodec.h5.LMC())\n"
               "    print(float(file['w'][-1]))\n")
    environment = {name: value for name, value in os.environ.items() if name != "HDF5_PLUGIN_PATH"}

    def run(mode, text, **more):
        return subprocess.run([sys.executable, "-c", program % text, path, mode], capture_output=True, text=True,
                              env={**environment, **more})

    for mode in ("w", "r"):
        done = run(mode, "import lmcodec.h5")
        assert done.returncode == 0 and done.stdout.strip() == "65535.0", done.stderr
    assert run("r", "").returncode != 0
    assert run("r", "", HDF5_PLUGIN_PATH=h5.PLUGIN_PATH).stdout.strip() == "65535.0"
    assert run("r", "import lmcodec.h5", HDF5_PLUGIN_PATH=directory + "/none").stdout.strip() == "65535.0"


@pytest.mark.parametrize("options", [
    {"compression": h5.LMC()}, dict(h5.LMC("max")), dict(**h5.LMC("fast", block_kib=64)),
    {"compression": h5.LMC(element_nbytes=4)}, {"compression": h5.FILTER_ID}])
def test_create(path, weights, options):
    with h5py.File(path, "w") as file:
        file.create_dataset("w", data=weights, chunks=(64, 1024), **options)
    with h5py.File(path) as file:
        assert numpy.array_equal(file["w"][()], weights)
        assert file["w"].id.get_create_plist().get_filter(0)[0] == 59810
    report = h5.inspect(path)["w"]
    assert report.filters == ("lmc",) and report.is_lmc and report.ratio < 0.9 and not report.problems
    assert report.chunk_count == 2 and report.chunks == (64, 1024) and report.dtype == "float32"


def test_rows(path):
    first = (numpy.random.default_rng(2).standard_normal((64, 1024)) * 0.02).astype("f4")
    run = numpy.stack([first * numpy.float32(1 + n * 1e-6) for n in range(4)])
    sizes = {}
    for rows in (False, True):
        with h5py.File(path, "w") as file:
            file.create_dataset("run", data=run, chunks=run.shape, compression=h5.LMC(rows=rows))
        with h5py.File(path) as file:
            assert numpy.array_equal(file["run"][()], run)
            sizes[rows] = file["run"].id.get_storage_size()
    assert sizes[True] < 0.7 * sizes[False]


def test_values():
    assert h5.LMC("max", rows=True, element_nbytes=2, block_kib=128).filter_options == (18, 2, 128)
    assert h5.LMC() == h5.LMC() and h5.LMC() != h5.LMC("fast") and dict(h5.LMC()) == {
        "compression": 59810, "compression_opts": (0, 0, 0)}
    for wrong in ({"level": "best"}, {"element_nbytes": 3}, {"block_kib": 8}, {"block_kib": 24}):
        with pytest.raises(lmcodec.ArgumentError):
            h5.LMC(**wrong)


def test_damaged_chunk(path, weights):
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("w", data=weights, chunks=(64, 1024), compression=h5.LMC())
        stored = bytearray(dataset.id.read_direct_chunk((64, 0))[1])
        stored[len(stored) // 2] ^= 1
        dataset.id.write_direct_chunk((64, 0), bytes(stored))
    with h5py.File(path) as file:
        assert numpy.array_equal(file["w"][:64], weights[:64])
        with pytest.raises(OSError):
            file["w"][64:]
        assert "checksum" in h5.last_error() or "corrupt" in h5.last_error()


# ---- inspect ----

def test_problems(path, weights):
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("group/w", data=weights, chunks=(32, 1024), compression=h5.LMC())
        dataset.id.write_direct_chunk((32, 0), weights[32:64].tobytes(), 1)
        dataset.id.write_direct_chunk((64, 0), b"nothing of LMC")
        dataset.id.write_direct_chunk((96, 0), bytes(lmcodec.encode(bytes(100))))
        assert h5.inspect(file["group"]) == {"w": h5.inspect(path)["group/w"]}
        assert list(h5.inspect(file["group/w"])) == [file["group/w"].name]
    assert h5.inspect(path)["group/w"].problems == {"without LMC": [(32, 0)], "refused": [(64, 0)],
                                                    "wrong size": [(96, 0)]}


def test_other_datasets(path, weights):
    with h5py.File(path, "w") as file:
        file["plain"] = weights
        file["scalar"] = 7.5
        file["text"] = "text"
        file["empty"] = h5py.Empty("f4")
        file.create_dataset("gzip", data=weights, compression="gzip", shuffle=True)
        lists = file.create_dataset("list", shape=(9,), dtype=h5py.vlen_dtype("f8"), chunks=(9,), compression=h5.LMC())
        lists[0] = numpy.arange(3.)
    found = h5.inspect(path)
    assert found["plain"].filters == () and found["plain"].ratio == 1 and found["plain"].chunks is None
    assert found["gzip"].filters == ("shuffle", "deflate") and not found["gzip"].is_lmc
    assert found["scalar"].shape == () and found["empty"].nbytes == 0
    assert found["list"].problems == {"unknown size": [(0,)]}
    with pytest.raises(OSError):
        h5.inspect(path + ".none")


# ---- compress ----

def test_compress(path, weights):
    before = h5py.Group.create_dataset
    with h5py.File(path, "w") as file:
        with h5.compress("fast"):
            file["item"] = weights
            file.create_dataset("created", data=weights)
            file.create_group("g").create_dataset("typed", shape=(1000, 100), dtype="f8")
            file.require_dataset("required", shape=(1000, 100), dtype="i4")
            file.create_dataset("flat", data=weights, shape=(weights.size,))
            file.create_dataset("chunked", data=weights, chunks=(8, 1024))
            file.create_dataset("growing", data=weights, maxshape=(None, 1024))
            file.create_dataset("complex", data=weights.astype("c8"))
            file.create_dataset("checked", data=weights, fletcher32=True)
            # left alone
            file.create_dataset("gzip", data=weights, compression="gzip")
            file.create_dataset("shuffle", data=weights, shuffle=True)
            file.create_dataset("scaled", data=numpy.arange(100000, dtype="i4"), scaleoffset=0)
            file["small"] = weights[0]
            file["scalar"] = 7.5
            file["text"] = "x" * 100000
            file["texts"] = numpy.array([b"x" * 100] * 1000)
            file["list"] = [1.0] * 10000
            file["nothing"] = h5py.Empty("f4")
            file["zero"] = numpy.zeros((0, 9))
            file["records"] = numpy.zeros(10000, "i4,f8")
        file["after"] = weights
    assert h5py.Group.create_dataset is before
    found = filters(path)
    for name in ("item", "created", "g/typed", "required", "flat", "chunked", "growing", "complex"):
        assert found.pop(name) == ("lmc",), name
    assert found.pop("checked") == ("lmc", "fletcher32")
    assert found.pop("gzip") == ("deflate",) and found.pop("shuffle") == ("shuffle",)
    assert found.pop("scaled") == ("scaleoffset",)
    assert not any(found.values()), found
    with h5py.File(path) as file:
        for name in ("item", "created", "growing", "chunked", "checked"):
            assert numpy.array_equal(file[name][()], weights), name
        assert file["chunked"].chunks == (8, 1024)
        assert file["item"].id.get_create_plist().get_filter(0)[2][0] == 1


def test_compress_a_dataset_like_another(path, weights):
    with h5py.File(path, "w") as file, h5.compress():
        file["item"] = weights
        file.create_dataset_like("like", file["item"])[()] = weights
        file.create_dataset_like("small", file["item"], shape=(8,), chunks=(8,))
    assert filters(path) == {"item": ("lmc",), "like": ("lmc",), "small": ()}
    with h5py.File(path) as file:
        assert numpy.array_equal(file["like"][()], weights) and file["like"].chunks == file["item"].chunks


def test_compress_nested(path, weights):
    before = h5py.Group.create_dataset
    with h5py.File(path, "w") as file:
        with h5.compress(min_nbytes=1 << 30):
            file["outer"] = weights
            with h5.compress(chunk_nbytes=1 << 16):
                file["inner"] = weights
            file["again"] = weights
        with pytest.raises(KeyError), h5.compress():
            raise KeyError
        with pytest.raises(lmcodec.ArgumentError), h5.compress("best"):
            pass
    assert filters(path) == {"outer": (), "inner": ("lmc",), "again": ()}
    assert h5.inspect(path)["inner"].chunks == (16, 1024)
    assert h5py.Group.create_dataset is before


def test_compress_is_of_its_thread(directory, weights):
    """Other threads write as ever, and contexts that end in another order than they began leave nothing behind."""
    before = h5py.Group.create_dataset
    found, began, may_end = {}, threading.Event(), threading.Event()

    def write(name):
        path = os.path.join(directory, name)
        with h5py.File(path, "w") as file:
            file["w"] = weights
        found[name] = filters(path)["w"]

    def first():
        with h5.compress():
            began.set()
            may_end.wait(30)
            write("first")
        write("first ended")

    thread = threading.Thread(target=first)
    thread.start()
    began.wait(30)
    write("none")
    with h5.compress():
        may_end.set()
        thread.join()
        write("second")
    assert found == {"first": ("lmc",), "first ended": (), "none": (), "second": ("lmc",)}
    assert h5py.Group.create_dataset is before


def test_compress_bfloat16(path):
    types = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    weights = numpy.ones((100, 1000), types.bfloat16)
    with h5py.File(path, "w") as file, h5.compress():
        file["w"] = weights
    assert filters(path) == {"w": ("lmc",)}


def test_compress_over_a_wrapper(path, weights):
    """Somebody wraps create_dataset within compress() and takes the wrapper away later."""
    before = h5py.Group.create_dataset
    try:
        with h5.compress():
            inner = h5py.Group.create_dataset
            h5py.Group.create_dataset = lambda *words, **options: inner(*words, **options)
        with h5py.File(path, "w") as file:
            file["w"] = weights
        assert filters(path) == {"w": ()}
    finally:
        h5py.Group.create_dataset = before
