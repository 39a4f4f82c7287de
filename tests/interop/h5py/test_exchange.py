"""Every library's files, read by this one: each byte as the case says, no chunk larger than it may be."""

import os

import pytest

import objects
from bed import EXCHANGE, HDF5, beds_written, h5py
from sweeps import groups


def version_of(bed):
    with open(os.path.join(EXCHANGE, bed, "done"), encoding="utf-8") as file:
        return tuple(int(part) for part in file.read().split("."))


def written():
    """(library, sweep, group, its cases) of what there is to read: some types came with HDF5 2."""
    for bed in beds_written():
        for sweep, group, cases in groups():
            version = version_of(bed)
            cases = [case for case in cases
                     if case.filetype.since <= version and (HDF5 >= case.filetype.since or not case.filetype.is_new)]
            if cases:
                yield pytest.param(bed, sweep, group, cases, id=f"{bed}-{sweep}-{group}")


@pytest.fixture(scope="module")
def files():
    opened = {}

    def get(bed, sweep):
        if (bed, sweep) not in opened:
            opened[bed, sweep] = h5py.File(os.path.join(EXCHANGE, bed, sweep + ".h5"), "r")
        return opened[bed, sweep]

    yield get
    for file in opened.values():
        file.close()


def test_files_are_there():
    assert beds_written()


@pytest.mark.parametrize("bed, sweep, group, cases", written())
def test_reads(files, bed, sweep, group, cases):
    place = files(bed, sweep)[group]
    assert sorted(place) == sorted(case.name for case in cases)
    faults = [fault for case in cases for fault in (case.fault(place), case.storage_fault(place)) if fault]
    assert not faults


@pytest.mark.parametrize("kind", objects.KINDS)
@pytest.mark.parametrize("bed", beds_written())
def test_reads_objects(files, bed, kind):
    place = files(bed, "objects")["/"]
    faults = [objects.fault(place, kind, option) for k, option in objects.CASES if k == kind]
    assert faults and not any(faults), faults
