"""Files of tests/interop/h5py/data: what the filter once wrote is read for ever."""

import glob
import os

import pytest

import frozen
import objects
from bed import FILTER_ID, h5py


@pytest.mark.parametrize("name", frozen.FILES)
def test_frozen_file(name):
    with h5py.File(frozen.path_of(name), "r") as file:
        assert sorted(file) == sorted(case.name for case in frozen.FILES[name])
        assert not [fault for case in frozen.FILES[name] for fault in [case.fault(file)] if fault]
        for case in frozen.FILES[name]:
            dcpl = file[case.name].id.get_create_plist()
            assert FILTER_ID in [dcpl.get_filter(i)[0] for i in range(dcpl.get_nfilters())]


@pytest.mark.parametrize("kind", frozen.OBJECTS)
def test_frozen_objects(kind):
    with h5py.File(frozen.path_of("objects"), "r") as file:
        assert objects.fault(file, kind, "plain") is None


def test_all_files_are_known():
    found = {os.path.basename(path)[:-3] for path in glob.glob(os.path.join(frozen.DATA, "*.h5"))}
    assert found == {*frozen.FILES, "objects"}
