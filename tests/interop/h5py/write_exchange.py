"""write_exchange.py - writes one library's files into the exchange folder, for all libraries to read. It is a test of
its own, for it must have run in every library before the others of this folder:

    LMC_PLUGIN_DIR=DIR LMC_H5_EXCHANGE=OUT python -m pytest write_exchange.py

makes OUT/BED/*.h5 and, last, OUT/BED/done.
"""

import os
import shutil

import objects
from bed import BED, EXCHANGE, HDF5, h5py
from sweeps import SWEEPS

# Two ages of the file format: chunks are found in different ways. HDF5 1.10 reads both, but no new types.
BOUNDS = {"layouts": ("v110", "v110"), "histories": ("v110", "v110"), "new_types": ("v110", "latest")}


def write_sweep(path, name, groups):
    with h5py.File(path, "w", libver=BOUNDS.get(name, ("earliest", "v110"))) as file:
        for group, cases in groups.items():
            place = file.create_group(group)
            for case in cases:
                if case.filetype.is_here:
                    case.write(place)


def write_objects(path):
    with h5py.File(path, "w", libver=("earliest", "v110")) as file:
        for kind, option in objects.CASES:
            objects.write(file, kind, option)


def test_write():
    folder = os.path.join(EXCHANGE, BED)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for name, groups in SWEEPS.items():
        write_sweep(os.path.join(folder, name + ".h5"), name, groups)
    write_objects(os.path.join(folder, "objects.h5"))
    with open(os.path.join(folder, "done"), "w", encoding="utf-8") as file:
        file.write(".".join(map(str, HDF5)) + "\n")
