"""fork, multiprocessing, the end of HDF5 and of the interpreter. A hang is a failure: no program is waited for
longer than world.TIMEOUT."""
import os

import pytest

from world import BEDS, check

THREAD_COUNTS = ("1", "4")


@pytest.mark.parametrize("bed", BEDS)
def test_fork_after_use(world, directory, bed):
    for thread_count in THREAD_COUNTS:
        world.program(bed, "processes", "after", directory, LMC_NUM_THREADS=thread_count)


@pytest.mark.parametrize("bed", BEDS)
def test_fork_during_use(world, directory, bed):
    for thread_count in THREAD_COUNTS:
        world.program(bed, "processes", "during", directory, LMC_NUM_THREADS=thread_count)


@pytest.mark.parametrize("thread_count", THREAD_COUNTS)
def test_fork_during_use_by_another_library(world, directory, thread_count):
    world.program("200", "processes", "elsewhere", directory, LMC_NUM_THREADS=thread_count)


@pytest.mark.parametrize("bed", BEDS)
def test_pool_by_fork(world, directory, bed):
    world.program(bed, "processes", "fork", directory, LMC_NUM_THREADS="2")


@pytest.mark.parametrize("bed", BEDS)
def test_pool_by_spawn(world, directory, bed):
    world.program(bed, "processes", "spawn", directory, LMC_NUM_THREADS="2")


@pytest.mark.parametrize("bed", BEDS)
def test_close_hdf5(world, directory, bed):
    """After H5close, which drops the plugin, its code is still there, and the interpreter ends well."""
    result = world.program(bed, "processes", "close", directory, LMC_NUM_THREADS="4")
    check("libh5lmc.so" in result.stdout, "not kept in memory: " + result.stdout)


@pytest.mark.parametrize("bed", BEDS)
def test_end_with_open_file(world, directory, bed):
    """Chunks that are encoded as late as when the interpreter ends are in the file."""
    world.program(bed, "processes", "exit", directory, LMC_NUM_THREADS="4")
    world.program(bed, "one_file", "read", os.path.join(directory, "open.h5"), "5")


def test_reload_plugin(world, directory):
    for bed in world.beds:
        world.program(bed, "processes", "reload", directory)
