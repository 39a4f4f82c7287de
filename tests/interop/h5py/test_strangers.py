"""Files that somebody has forged, values and chunk: the chunk has fewer bytes than the dataset's chunks
(docs/hdf5-filter.md, 6). LMC refuses it where the values are right, and HDF5 does since 2.2. What earlier versions make
of the others is not asked here, for they read and write beyond their memory. examples/h5_inspect.py must find all of
them."""

import os
import subprocess
import sys

import pytest

import forge
import programs
from bed import HDF5, ROOT, h5py, run_program

CONTENT = bytes(range(programs.STRANGE_NBYTES))
CHUNKS = {
    "stored": forge.stored_frame(CONTENT),
    "short": forge.short_frame(CONTENT),
    "swapped": forge.regrouped(forge.PLAIN, 4, 0, [forge.stored_frame(CONTENT)]),
    "columns": forge.regrouped(forge.COLUMNS, 0, 4, [forge.short_frame(CONTENT[:32])] * 4),
    "rows": forge.regrouped(forge.ROWS, 0, 0, [forge.short_frame(CONTENT[:64])] * 2),
}

@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("strange") / "strange.h5"
    result = run_program("strange", path, plugin=False)
    assert result.returncode == 0, result.stderr
    return path


def put(path, name, chunk):
    with h5py.File(path, "r+") as file:
        file[name].id.write_direct_chunk((0,), chunk, 1 if name == "skipped" else 0)


def check_refused(path, name):
    """Read, and written in part: by processes that may crash."""
    for program in ("read", "change"):
        result = run_program(program, path, name)
        assert (result.returncode, result.stdout) == (0, f"{name} failed\n"), (program, result)


@pytest.mark.parametrize("form", CHUNKS)
def test_right_values(path, form):
    put(path, "honest", CHUNKS[form])
    check_refused(path, "honest")


if HDF5 >= (2, 2):

    @pytest.mark.parametrize("name", sorted(set(programs.STRANGE) - {"honest"}))
    def test_forged_values(path, name):
        put(path, name, CONTENT if name == "skipped" else CHUNKS["stored"])
        check_refused(path, name)


@pytest.mark.parametrize("name", programs.STRANGE)
@pytest.mark.parametrize("form", CHUNKS)
def test_example_finds_them(path, name, form):
    put(path, name, CONTENT if name == "skipped" else CHUNKS[form])
    done = subprocess.run([sys.executable, os.path.join(ROOT, "examples", "h5_inspect.py"), path, name],
                          stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1 and done.stdout.endswith("  wrong size: 1 chunks, the first at (0,)\n"), done.stdout
