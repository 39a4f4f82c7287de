"""The filter in many threads of a program."""
from support import BEDS, cases_for


@cases_for("1", "2")
def three_libraries_at_once(world, directory, thread_count):
    world.program("200", "threads", "three", directory, LMC_NUM_THREADS=thread_count)


@cases_for(*BEDS)
def many_threads(world, directory, bed):
    world.program(bed, "threads", "many", directory)


@cases_for(*BEDS)
def errors_by_thread(world, directory, bed):
    world.program(bed, "threads", "errors", directory)
