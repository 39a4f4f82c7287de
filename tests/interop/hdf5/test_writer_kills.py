"""Writers that are killed."""
import pytest

from world import BEDS

KILLS = 10  # in each environment


@pytest.mark.parametrize("bed", BEDS)
def test_kill_writer(world, directory, bed):
    world.program(bed, "kills", directory, KILLS)
