"""fork, multiprocessing, the end of HDF5 and of the interpreter. A hang is a failure: the runner waits for no program
longer than support.TIMEOUT."""
import os

from support import BEDS, case, cases_for, check

THREAD_COUNTS = ("1", "4")


@cases_for(*BEDS)
def fork_after_use(world, directory, bed):
    for thread_count in THREAD_COUNTS:
        world.program(bed, "processes", "after", directory, LMC_NUM_THREADS=thread_count)


@cases_for(*BEDS)
def fork_during_use(world, directory, bed):
    for thread_count in THREAD_COUNTS:
        world.program(bed, "processes", "during", directory, LMC_NUM_THREADS=thread_count)


@cases_for(*THREAD_COUNTS)
def fork_during_use_by_another_library(world, directory, thread_count):
    world.program("200", "processes", "elsewhere", directory, LMC_NUM_THREADS=thread_count)


@cases_for(*BEDS)
def pool_by_fork(world, directory, bed):
    world.program(bed, "processes", "fork", directory, LMC_NUM_THREADS="2")


@cases_for(*BEDS)
def pool_by_spawn(world, directory, bed):
    world.program(bed, "processes", "spawn", directory, LMC_NUM_THREADS="2")


@cases_for(*BEDS)
def close_hdf5(world, directory, bed):
    """After H5close, which drops the plugin, its code is still there, and the interpreter ends well."""
    result = world.program(bed, "processes", "close", directory, LMC_NUM_THREADS="4")
    check("libh5lmc.so" in result.stdout, "not kept in memory: " + result.stdout)


@cases_for(*BEDS)
def end_with_open_file(world, directory, bed):
    """Chunks that are encoded as late as when the interpreter ends are in the file."""
    world.program(bed, "processes", "exit", directory, LMC_NUM_THREADS="4")
    world.program(bed, "one_file", "read", os.path.join(directory, "open.h5"), "5")


@case
def reload_plugin(world, directory):
    for bed in BEDS:
        world.program(bed, "processes", "reload", directory)
