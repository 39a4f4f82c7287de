"""The filter in many threads of a program."""
import pytest

from world import BEDS


@pytest.mark.parametrize("thread_count", ["1", "2"])
def test_three_libraries_at_once(world, directory, thread_count):
    world.program("200", "threads", "three", directory, LMC_NUM_THREADS=thread_count)


@pytest.mark.parametrize("bed", BEDS)
def test_many_threads(world, directory, bed):
    world.program(bed, "threads", "many", directory)


@pytest.mark.parametrize("bed", BEDS)
def test_errors_by_thread(world, directory, bed):
    world.program(bed, "threads", "errors", directory)
