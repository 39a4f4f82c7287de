"""Files that numpy writes: .npy of all dtypes, orders and versions, .npz."""

import os
import zipfile

import numpy
import pytest

from command import check
from value_cases import numpy_expected


def check_array(tool, path, array):
    expected = numpy_expected(array)
    _, back = tool.check_file(path, {"array": expected} if expected else {})
    loaded = numpy.load(back, allow_pickle=True)
    check(loaded.dtype == array.dtype and loaded.shape == array.shape, f"{loaded.dtype} {loaded.shape}")
    if array.dtype.hasobject:
        check(list(map(str, loaded.ravel())) == list(map(str, array.ravel())), "other objects")
    else:
        check(loaded.tobytes() == array.tobytes(), "other values")


def some_values(kind, shape, order):
    random = numpy.random.default_rng(1)
    values = (random.normal(0, 20, shape)).astype(numpy.dtype(kind)) if kind[-1] != "?" else random.random(shape) < 0.3
    return numpy.asarray(values, order=order)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("version", ((1, 0), (2, 0), (3, 0)))
def test_versions(tool, directory, version):
    array = some_values("f4", (100, 20), "C")
    path = os.path.join(directory, "file.npy")
    with open(path, "wb") as file:
        numpy.lib.format.write_array(file, array, version=version)
    check_array(tool, path, array)


RECORDS = {
    "structure": numpy.zeros(500, [("a", "f4"), ("b", "i2", (3,)), ("c", "S5")]),
    "aligned": numpy.ones((10, 5), numpy.dtype([("a", "i1"), ("b", "f8")], align=True)),
    "nested": numpy.zeros(50, [("a", [("x", "f4"), ("y", "f4")]), ("t", "u1")]),
    "named-in-chinese": numpy.zeros(50, [("\u4e2d", "f4")]),  # version 3
    "long-header": numpy.zeros(5, [(f"field{i}" * 5, "f4") for i in range(3000)]),  # version 2
    "objects": numpy.array([{"a": 1}, "text", None, [1, 2]], dtype=object),
    "objects-in-a-structure": numpy.array([(1.0, "x")] * 20, [("a", "f4"), ("o", "O")]),
    "void": numpy.zeros(300, "V6"),
    "strided": numpy.arange(1000, dtype="i4")[::3],
    "turned": numpy.arange(6000, dtype="i4").reshape(20, 30, 10).transpose(1, 2, 0),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RECORDS)
def test_odd_arrays(tool, directory, name):
    path = os.path.join(directory, "file.npy")
    numpy.save(path, RECORDS[name])
    check_array(tool, path, RECORDS[name])


def test_memory_map(tool, directory):
    path = os.path.join(directory, "file.npy")
    array = numpy.lib.format.open_memmap(path, "w+", "f4", (300, 200))
    array[:] = some_values("f4", (300, 200), "C")
    array.flush()
    check_array(tool, path, numpy.array(array))


def test_more_behind_the_array(tool, directory):
    """Several arrays in a file: numpy.load() reads one after the other, here the first is a tensor."""
    path = os.path.join(directory, "file.npy")
    first, second = some_values("f4", (50, 40), "C"), some_values("i4", (30,), "C")
    with open(path, "wb") as file:
        numpy.save(file, first)
        numpy.save(file, second)
    _, back = tool.check_file(path, {"array": numpy_expected(first)})
    with open(back, "rb") as file:
        check((numpy.load(file) == first).all() and (numpy.load(file) == second).all(), "other values")


@pytest.mark.parametrize("length", (10, 60, 127, 128, 129, 1000))
def test_cut_off(tool, directory, length):
    path = os.path.join(directory, "file.npy")
    numpy.save(path, some_values("f4", (50, 40), "C"))
    os.truncate(path, length)
    tool.run("convert", path, status=1)
    check(os.listdir(directory) == ["file.npy"], "something is left")


# ---- .npz ----

def arrays():
    return {"weights": some_values("f4", (300, 200), "C"), "step": numpy.array(7),
            "turned": some_values("f8", (30, 20), "F"),
            "big": some_values(">i4", (50,), "C"), "complex": some_values("c16", (9, 8), "C"),
            "empty": numpy.zeros((0, 3), "f4"), "names": numpy.array(["a", "bc"], dtype=object),
            "layers/0/bias": some_values("f2", (70,), "C"), "\u00e9": some_values("i1", (70,), "C"),
            "flags": some_values("?", (400,), "C")}


def check_loads(path, values):
    with numpy.load(path, allow_pickle=True) as loaded:
        check(sorted(loaded.files) == sorted(values), f"{loaded.files}")
        for name, array in values.items():
            check(loaded[name].dtype == array.dtype and (loaded[name] == array).all(), f"{name}: other values")


@pytest.mark.filterwarnings("ignore")
def test_archive_of_arrays(tool, directory):
    path = os.path.join(directory, "file.npz")
    values = arrays()
    numpy.savez(path, **values)
    expected = {name: numpy_expected(array) for name, array in values.items()}
    _, back = tool.check_file(path, {name: tensor for name, tensor in expected.items() if tensor})
    check_loads(back, values)


def test_without_names(tool, directory):
    path = os.path.join(directory, "file.npz")
    values = [some_values("f4", (30, 20), "C"), some_values("i4", (9,), "C")]
    numpy.savez(path, *values)
    tool.check_file(path, {f"arr_{i}": numpy_expected(array) for i, array in enumerate(values)})


def test_compressed(tool, directory):
    """Deflated arrays are no tensors, and are kept as they are."""
    path = os.path.join(directory, "file.npz")
    values = arrays()
    numpy.savez_compressed(path, **values)
    archive, back = tool.check_file(path, {})
    check(os.path.getsize(archive) < os.path.getsize(path) + 2000, f"{os.path.getsize(archive)} bytes")
    check_loads(back, values)


def test_mixed(tool, directory):
    """A ZIP in which some arrays are stored, others deflated, and with a comment at its end."""
    path = os.path.join(directory, "file.npz")
    stored, deflated = some_values("f4", (300, 20), "C"), some_values("f4", (200, 20), "C")
    for name, array in (("s", stored), ("d", deflated)):
        numpy.save(os.path.join(directory, name + ".npy"), array)
    with zipfile.ZipFile(path, "w") as file:
        file.write(os.path.join(directory, "d.npy"), "d.npy", zipfile.ZIP_DEFLATED)
        file.write(os.path.join(directory, "s.npy"), "s.npy", zipfile.ZIP_STORED)
        file.writestr("notes.txt", "text" * 100)
        file.comment = b"a comment"
    _, back = tool.check_file(path, {"s": numpy_expected(stored)})
    with numpy.load(back) as loaded:
        check((loaded["s"] == stored).all() and (loaded["d"] == deflated).all(), "other values")


def test_arrays_of_many_steps(tool, directory):
    path = os.path.join(directory, "file.npz")
    values = {f"step{i:05}": numpy.full(20, i, "f4") for i in range(3000)}
    numpy.savez(path, **values)
    tool.check_file(path, {name: numpy_expected(array) for name, array in values.items()})


# ---- with a base ----

@pytest.mark.parametrize("kind", ("npy", "npz"))
def test_base_of_arrays(tool, directory, kind):
    random = numpy.random.default_rng(2)
    old = some_values("f4", (400, 300), "C")
    new = old + random.normal(0, 1e-4, old.shape).astype("f4") * (random.random(old.shape) < 0.2)
    paths = [os.path.join(directory, f"{name}.{kind}") for name in ("old", "new")]
    for path, array in zip(paths, (old, new)):
        if kind == "npy":
            numpy.save(path, array)
        else:
            numpy.savez(path, weights=array, step=numpy.array(len(path)))
    tool.check_base(*paths)


def test_base_with_other_names(tool, directory):
    """As a pytree is flattened: a part in front, '/' between parts."""
    random = numpy.random.default_rng(3)
    paths = []
    for name, prefix in (("old", "layers/"), ("new", "state/params/layers/")):
        arrays = {f"{prefix}{i}/kernel": some_values("f4", (100, 200 + i % 2), "C") + numpy.float32(i)
                  for i in range(6)}
        if name == "new":
            arrays = {key: value + (random.random(value.shape) < 0.1) * numpy.float32(1e-4)
                      for key, value in arrays.items()}
        paths.append(os.path.join(directory, f"{name}.npz"))
        numpy.savez(paths[-1], **{key: value.astype("f4") for key, value in arrays.items()})
    archive = tool.check_base(*paths)
    check(set(tool.modes(archive).values()) == {"delta"}, tool.modes(archive))


def test_npz_against_npy(tool, directory):
    """Names differ, there is one tensor of this dtype and size."""
    old = some_values("f4", (400, 300), "C")
    first, second = os.path.join(directory, "old.npy"), os.path.join(directory, "new.npz")
    numpy.save(first, old)
    numpy.savez(second, array=old)
    tool.check_base(first, second)
