"""Writers that are killed."""
from support import BEDS, cases_for

KILLS = 10  # in each environment


@cases_for(*BEDS)
def kill_writer(world, directory, bed):
    world.program(bed, "kills", directory, KILLS)
