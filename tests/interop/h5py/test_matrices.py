"""Matrices: the filter tells the codec how long a row is. Datasets of versions that did not are read and written as
ever."""

import shutil

import numpy
import pytest

import forge
import frozen
import programs
from bed import FILTER_ID, h5py, memory_file, run_program
from cases import read_all, write_part
from contents import noise
from library import encode_chunk, lmc_values


def matrix(dtype, shape, name="matrix"):
    """Numbers whose scale depends on the row, and on the column: each of the innermost axis, and of the one before."""
    dtype = numpy.dtype(dtype)
    count = int(numpy.prod(shape))
    parts = numpy.frombuffer(noise(f"{name}{shape}", 8 * count), "<u2").reshape(count, 4)
    bell = parts.astype("<f8").sum(axis=1) - 131070
    column = numpy.arange(count) % shape[-1]
    row = numpy.arange(count) // shape[-1]
    if dtype.kind == "f":
        values = bell * 2.0 ** (-18.0 - row * 7 % 8 - column * 5 % 3)
    else:
        values = bell / 2.0 ** (17 - 8 * dtype.itemsize // 3 + row * 7 % 4)
    return numpy.nan_to_num(values).astype(dtype, casting="unsafe").reshape(shape)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def chunks_of(dataset):
    """The stored bytes of all chunks, by their offsets."""
    infos = [dataset.id.get_chunk_info(i) for i in range(dataset.id.get_num_chunks())]
    assert all(info.filter_mask == 0 for info in infos)
    return {info.chunk_offset: dataset.id.read_direct_chunk(info.chunk_offset)[1] for info in infos}


def row_nbytes_in(chunk):
    """What the frames of a stored chunk say."""
    frames = forge.Regrouped(chunk).frames if chunk[:4] == forge.MAGIC_REGROUPED else [chunk]
    offset, nbytes = forge.HEAD["row_nbytes"]
    assert all(frame[:4] == forge.MAGIC and frame[6] != forge.SHORT for frame in frames)
    return {int.from_bytes(frame[offset:offset + nbytes], "little") for frame in frames}


# ---- round trips ----

# dataset, chunk: whole chunks, and chunks beyond one edge or all
SHAPES = [
    ((64, 96), (64, 96)), ((64, 96), (16, 48)), ((50, 70), (16, 32)), ((33, 500), (8, 129)), ((500, 33), (129, 32)),
    ((5, 40), (64, 128)), ((9, 10, 50), (4, 3, 40)), ((20, 6, 3, 3), (8, 6, 3, 3)),
    ((7, 2, 3, 40, 3), (2, 2, 2, 16, 2)),
]


@pytest.mark.parametrize("shuffle", [False, True], ids=["", "shuffle"])
@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4", "<f8", ">f8", "<i2", ">u4", "u1"])
@pytest.mark.parametrize("shape, chunk", SHAPES)
def test_matrices_come_back(shape, chunk, dtype, shuffle):
    values = matrix(dtype, shape)
    with memory_file() as file:
        for level in (0, 1, 2, 16, 18):
            dataset = file.create_dataset(f"level{level}", data=values, chunks=chunk, shuffle=shuffle, fillvalue=3,
                                          maxshape=(None,) * len(shape), compression=FILTER_ID,
                                          compression_opts=(level,))
            file.flush()
            assert same(dataset[...], values)
            part = tuple(slice(n // 3, n - n // 4) for n in shape)
            assert same(dataset[part], values[part])
            assert len(chunks_of(dataset)) == numpy.prod([-(-n // c) for n, c in zip(shape, chunk)])


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i2"])
def test_a_matrix_that_grows_and_shrinks(dtype):
    values = matrix(dtype, (70, 200))
    with memory_file(rdcc_nbytes=0) as file:
        dataset = file.create_dataset("x", (10, 30), dtype, maxshape=(None, None), chunks=(16, 64), fillvalue=1,
                                      compression=FILTER_ID)
        wanted = numpy.full((10, 30), 1, dtype)
        for rows, columns in ((10, 30), (20, 64), (20, 65), (70, 200), (33, 129), (40, 140)):
            common = (slice(0, min(rows, wanted.shape[0])), slice(0, min(columns, wanted.shape[1])))
            larger = numpy.full((rows, columns), 1, dtype)
            larger[common] = wanted[common]
            wanted = larger
            dataset.resize((rows, columns))
            assert same(dataset[...], wanted)
            part = (slice(rows // 2, rows), slice(columns // 3, columns))
            wanted[part] = values[part]
            dataset[part] = values[part]
            file.flush()
            assert same(dataset[...], wanted)


@pytest.mark.parametrize("shuffle", [False, True], ids=["", "shuffle"])
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", "<i2"])
def test_frames_are_told(dtype, shuffle):
    """The same bytes come from the public call with the same values; the released version's values tell nothing."""
    values = matrix(dtype, (60, 200))
    row = 100 * values.itemsize
    with memory_file() as file:
        dataset = file.create_dataset("x", data=values, chunks=(30, 100), shuffle=shuffle, compression=FILTER_ID)
        file.flush()
        found = lmc_values(dataset)
        assert found[8:] == (0, row)
        for chunk in chunks_of(dataset).values():
            assert row_nbytes_in(chunk) == {row}
        if shuffle:
            return
        plain = values[:30, :100].tobytes()
        assert chunks_of(dataset)[0, 0] == encode_chunk(found, plain)
        for short in (found[:8], found[:9], found[:9] + (0,)):
            chunk = encode_chunk(short, plain)
            assert row_nbytes_in(chunk) == {0}
            dataset.id.write_direct_chunk((0, 0), chunk)
            assert same(dataset[...], values)


def test_frames_of_rows_are_told():
    """With level + 16 a row of the first axis is a matrix of its own."""
    values = numpy.repeat(matrix("<f4", (1, 40, 100)), 6, axis=0)
    values[:, ::7, ::9] += numpy.arange(6, dtype="<f4")[:, None, None] / 1024
    with memory_file() as file:
        dataset = file.create_dataset("x", data=values, chunks=(6, 40, 100), compression=FILTER_ID,
                                      compression_opts=(16,))
        file.flush()
        assert lmc_values(dataset)[8:] == (6, 400)
        [chunk] = chunks_of(dataset).values()
        assert len(forge.Regrouped(chunk).frames) == 6 and row_nbytes_in(chunk) == {400}
        assert same(dataset[...], values)


def test_chunks_do_not_need_the_values(tmp_path):
    """Chunks of one dataset are read in another one, whatever that says of rows."""
    values = matrix("<f4", (30, 128))
    with memory_file() as file:
        chunks = []
        for shape in ((30, 128), (60, 64), (3840,), (2, 15, 128)):
            dataset = file.create_dataset(f"{shape}", data=values.reshape(shape), chunks=shape, compression=FILTER_ID)
            file.flush()
            chunks.append(dataset.id.read_direct_chunk((0,) * len(shape))[1])
        assert len(set(chunks)) == 3  # the last one has rows of 128, as the first
        for dataset in file.values():
            for chunk in chunks:
                dataset.id.write_direct_chunk((0,) * dataset.ndim, chunk)
                assert dataset[...].tobytes() == values.tobytes()


# ---- datasets of the released version ----


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A file with the values of the released version, and a chunk in each dataset that its encoder could have made."""
    path = tmp_path_factory.mktemp("released") / "released.h5"
    result = run_program("released", path, plugin=False)
    assert result.returncode == 0, result.stderr
    with h5py.File(path, "r+") as file:
        for name, values in programs.RELEASED.items():
            assert tuple(lmc_values(file[name])) == values
            chunk = encode_chunk(values, matrix(name, (40, 100))[:16, :64].tobytes())
            assert row_nbytes_in(chunk) == {0}
            file[name].id.write_direct_chunk((0, 0), chunk)
    return path


@pytest.mark.parametrize("name", programs.RELEASED)
def test_released_dataset(released, tmp_path, name):
    """Read, written, extended; its values stay, and chunks go on without the length of a row."""
    path = tmp_path / "copy.h5"
    shutil.copy(released, path)
    values = matrix(name, (40, 100))
    wanted = numpy.zeros((70, 150), name)
    wanted[:16, :64] = values[:16, :64]
    with h5py.File(path, "r") as file:
        assert same(file[name][...], wanted[:40, :100])
    with h5py.File(path, "r+") as file:
        file[name][5:40, 3:100] = wanted[5:40, 3:100] = values[5:, 3:]
        file[name].resize((70, 150))
        file[name][60:, 20:150] = wanted[60:, 20:] = matrix(name, (10, 130))
    with h5py.File(path, "r") as file:
        assert same(file[name][...], wanted)
        assert tuple(lmc_values(file[name])) == programs.RELEASED[name]
        for chunk in chunks_of(file[name]).values():
            assert row_nbytes_in(chunk) == {0}


def test_new_dataset_like_a_released_one(released, tmp_path):
    """Its creation properties serve a new dataset, which gets the length of a row."""
    with h5py.File(released, "r") as file, memory_file() as other:
        for name, values in programs.RELEASED.items():
            stored = file[name].id.get_create_plist()
            made = h5py.h5d.create(other.id, name.encode(), h5py.h5t.py_create(numpy.dtype(name)),
                                   h5py.h5s.create_simple((40, 100)), stored)
            rows = (16 if values[0] >= 16 else 0,)
            assert lmc_values(h5py.Dataset(made)) == values[:8] + rows + (64 * numpy.dtype(name).itemsize,)


@pytest.mark.parametrize("name", frozen.FILES)
def test_frozen_files_are_written(name, tmp_path):
    """All that the released version stored may be written again, in the same dataset."""
    path = tmp_path / "copy.h5"
    shutil.copy(frozen.path_of(name), path)
    cases = frozen.FILES[name]
    with h5py.File(path, "r+") as file:
        for case in cases:
            dataset = h5py.h5d.open(file.id, case.name.encode())
            before = tuple(lmc_values(file[case.name]))
            assert len(before) in (8, 9)
            found = read_all(dataset)
            half = (slice(0, max(1, found.shape[0] // 2)),) + (slice(None),) * (found.ndim - 1)
            write_part(dataset, half, lambda shape, f=found, h=half: f[::-1][h].reshape(shape))
            assert tuple(lmc_values(file[case.name])) == before
    with h5py.File(path, "r") as file:
        for case in cases:
            wanted = case.expected().copy()
            half = slice(0, max(1, wanted.shape[0] // 2))
            wanted[half] = case.expected()[::-1][half]
            assert read_all(h5py.h5d.open(file.id, case.name.encode())).tobytes() == wanted.tobytes()
