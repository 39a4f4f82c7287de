"""Files that meet a program without the plugin: made there, or read there."""

import json

import numpy
import pytest

import contents
import forge
import programs
from bed import BED, FILTER_ID, FILTER_NAME, HDF5, h5py, run_program
from library import encode_chunk, last_error, lmc_values

VALUES = contents.content("weights", "foreign", 100, 4)
REFUSED = {"other_size", "huge_size"}  # their values speak of chunks of another size


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A file from a process without the plugin."""
    path = tmp_path_factory.mktemp("foreign") / "made.h5"
    result = run_program("foreign", path, plugin=False)
    assert result.returncode == 0, result.stderr
    return path.read_bytes()


@pytest.fixture
def path(made, tmp_path):
    copy = tmp_path / "copy.h5"
    copy.write_bytes(made)
    return copy


@pytest.mark.parametrize("name", programs.FOREIGN)
def test_direct_chunks_are_read(path, name):
    with h5py.File(path, "r+") as file:
        assert tuple(lmc_values(file[name]))[:16] == programs.FOREIGN[name][:16]  # h5py 3.15 shows no more
        file[name].id.write_direct_chunk((0,), encode_chunk((), VALUES))
    with h5py.File(path, "r") as file:
        if name in REFUSED:
            with pytest.raises(OSError):
                file[name][...]
            assert "holds 400 bytes where the dataset's chunks have" in last_error()
        else:
            assert file[name][...].tobytes() == VALUES


@pytest.mark.parametrize("name", sorted(set(programs.FOREIGN) - REFUSED))
@pytest.mark.parametrize("kind", ["weights", "random", "zeros"])
def test_written_later_with_the_plugin(path, name, kind):
    """Values that the filter would refuse at the creation of a dataset do no harm to a chunk."""
    values = contents.content(kind, "later", 100, 4)
    with h5py.File(path, "r+") as file:
        file[name][...] = numpy.frombuffer(values, "<f4")
    with h5py.File(path, "r") as file:
        info = file[name].id.get_chunk_info(0)
        assert info.filter_mask == 0 and info.size <= 464
        assert file[name][...].tobytes() == values


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_written_later_where_the_values_are_wrong(path, name):
    """What LMC stored could not be read again, so HDF5 stores the chunk as it is."""
    with h5py.File(path, "r+") as file:
        file[name][...] = numpy.frombuffer(VALUES, "<f4")
        file.flush()
        assert "400 bytes" in last_error()
    with h5py.File(path, "r") as file:
        info = file[name].id.get_chunk_info(0)
        assert (info.filter_mask, info.size) == (1, 400)
        assert file[name][...].tobytes() == VALUES


@pytest.mark.parametrize("name", programs.FOREIGN)
def test_damage_is_refused(path, name):
    chunk = encode_chunk((), VALUES)
    with h5py.File(path, "r+", rdcc_nbytes=0) as file:
        for damaged in (chunk[:-1], chunk[:50], b"\x8cLMH" + chunk[4:], b"nonsense", forge.stored_frame(b""),
                        chunk[:99] + bytes([chunk[99] ^ 64]) + chunk[100:]):
            file[name].id.write_direct_chunk((0,), damaged)
            with pytest.raises(OSError):
                file[name][...]


def test_what_is_seen_without_the_plugin(tmp_path):
    """The name stands in the file; HDF5 1.10 says it, later ones do not."""
    path = tmp_path / "with.h5"
    with h5py.File(path, "w", libver=("earliest", "v110")) as file:
        file.create_dataset("x", data=numpy.arange(1000.0), chunks=(1000,), compression=FILTER_ID)
        stored = file["x"].id.get_storage_size()
    (tmp_path / "empty").mkdir()
    result = run_program("missing", path, "x", plugin=False, HDF5_PLUGIN_PATH=str(tmp_path / "empty"))
    assert result.returncode == 0, result.stderr
    properties, message, chunk, refusal = result.stdout.splitlines()
    properties = json.loads(properties)
    assert properties["number"] == FILTER_ID and properties["name"] == FILTER_NAME and len(properties["values"]) == 8
    if HDF5 < (1, 14):
        assert "required filter" in message and "libh5lmc.so" in message
    assert message.startswith("Can't ")
    assert chunk == f"0 {stored}"
    assert str(FILTER_ID) in refusal


def test_plugin_is_found_in_a_process_of_its_own(tmp_path):
    path = tmp_path / "own.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=numpy.arange(1000.0), chunks=(100,), compression=FILTER_ID)
    result = run_program("missing", path, "x")
    assert result.stdout.splitlines()[1::2] == ["read", "created"], (BED, result)
