"""HDF5 with MPI: Debian's h5py on two ranks."""
import os

import pytest

from world import DEBIAN_PYTHON, PROGRAMS, check, need_command

RANKS = "2"
VALUES = ("0", "0", "16")  # common.MANY_BLOCKS


def need_mpi(world):
    need_command("mpirun", "openmpi-bin")
    probe = world.run(DEBIAN_PYTHON, "-c", "import h5py, mpi4py; assert h5py.get_config().mpi", H5PY_ALWAYS_USE_MPI="1")
    if probe.status != 0:
        pytest.skip("needs h5py with MPI (Debian: python3-h5py-mpi)")


@pytest.mark.parametrize("thread_count", ["1", "2"])
def test_two_ranks(world, directory, thread_count):
    need_mpi(world)
    by_ranks = os.path.join(directory, "ranks.h5")
    alone = os.path.join(directory, "alone.h5")
    mpi = world.run("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", RANKS, DEBIAN_PYTHON,
                    os.path.join(PROGRAMS, "mpi.py"), by_ranks, "1", H5PY_ALWAYS_USE_MPI="1",
                    LMC_NUM_THREADS=thread_count, cwd=directory).expect(0)
    world.program("110", "one_file", "write", alone, "1", *VALUES)
    same_values = world.program("110", "one_file", "same-chunks", by_ranks, "1", alone)
    check(mpi.stdout.strip() == same_values.stdout.strip(), "values: %s, %s" % (mpi.stdout, same_values.stdout))
    for bed in world.beds:
        world.program(bed, "one_file", "read", by_ranks, "1", *VALUES)
