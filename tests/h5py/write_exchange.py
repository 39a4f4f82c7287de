"""write_exchange.py - writes one library's files into the exchange folder, for all libraries to read.

    LMC_PLUGIN_DIR=DIR LMC_H5_EXCHANGE=OUT python write_exchange.py --bed NAME

makes OUT/NAME/*.h5 and, last, OUT/NAME/done.
"""

import argparse
import os

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


def main():
    parser = argparse.ArgumentParser(description="writes the files that all libraries read")
    parser.add_argument("--bed", required=True, help="the library that this must be")
    wanted = parser.parse_args().bed
    if wanted != BED:
        raise SystemExit(f"this is the HDF5 of {BED}, not of {wanted}")
    folder = os.path.join(EXCHANGE, BED)
    os.makedirs(folder, exist_ok=True)
    for name, groups in SWEEPS.items():
        write_sweep(os.path.join(folder, name + ".h5"), name, groups)
    write_objects(os.path.join(folder, "objects.h5"))
    with open(os.path.join(folder, "done"), "w", encoding="utf-8") as file:
        file.write(".".join(map(str, HDF5)) + "\n")


if __name__ == "__main__":
    main()
