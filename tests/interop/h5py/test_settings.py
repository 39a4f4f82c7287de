"""Settings from the environment: threads and kernel sets change no byte, LMC_H5_DEBUG tells each failure once."""

import functools

import numpy
import pytest

from bed import FILTER_ID, PLUGIN_DIR, h5py, run_program


@functools.lru_cache(maxsize=None)
def stored_with(**settings):
    result = run_program("store", LMC_PLUGIN_DIR=PLUGIN_DIR, **settings)
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) > 50
    return result.stdout


@pytest.mark.parametrize("count", ["1", "2", "4", "0", "garbage", "-1"])
def test_threads_change_no_byte(count):
    assert stored_with(LMC_NUM_THREADS=count) == stored_with()


NEEDED = {"scalar": set(), "avx2": {"avx2", "bmi2"}, "avx2-nopext": {"avx2", "bmi2"},
          "avx512": {"avx512bw", "avx512vbmi", "avx512_vbmi2"}}


def processor_flags():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        return set(file.read().split())


@pytest.mark.parametrize("name", NEEDED)
def test_kernel_sets_change_no_byte(name):
    if not NEEDED[name] <= processor_flags():
        pytest.skip("this machine does not have it")
    assert stored_with(LMC_KERNELS=name) == stored_with()


# ---- LMC_H5_DEBUG ----


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """A file with datasets of one, three and no damaged chunks."""
    path = tmp_path_factory.mktemp("debug") / "damaged.h5"
    with h5py.File(path, "w") as file:
        for name in ("one", "two", "sound"):
            file.create_dataset(name, data=numpy.arange(1000, dtype="f4"), chunks=(100,), compression=FILTER_ID)
        file.flush()
        file["one"].id.write_direct_chunk((300,), b"nonsense")
        for start in (0, 500):
            _, chunk = file["two"].id.read_direct_chunk((start,))
            file["two"].id.write_direct_chunk((start,), chunk[:-1])
    return path


def debug_lines(path, names, **settings):
    result = run_program("read", path, *names, **settings)
    assert result.returncode == 0, result.stderr
    assert [line.split()[1] == "failed" for line in result.stdout.splitlines()] == [n != "sound" for n in names]
    return result.stderr.splitlines()


def test_debug_has_a_line_for_each_failure(damaged):
    lines = debug_lines(damaged, ("one", "sound", "two", "one"), LMC_H5_DEBUG="1")
    assert len(lines) == 3
    assert all(line.startswith("lmc-h5: lmc: chunk: ") and " at byte " in line for line in lines)
    assert lines[0] == lines[2] != lines[1]


@pytest.mark.parametrize("setting", [{}, {"LMC_H5_DEBUG": "0"}, {"LMC_H5_DEBUG": ""}], ids=str)
def test_nothing_is_printed_unasked(damaged, setting):
    assert debug_lines(damaged, ("one", "sound", "two"), **setting) == []


def test_debug_is_silent_where_nothing_fails(damaged):
    assert debug_lines(damaged, ("sound",), LMC_H5_DEBUG="1") == []
