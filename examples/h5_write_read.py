"""h5_write_read.py - an HDF5 dataset stored with LMC, by h5py: write, look, read.

    export HDF5_PLUGIN_PATH=DIRECTORY      # that of libh5lmc.so; `lmc-st doctor` prints it
    python3 h5_write_read.py [FILE.h5]

Needs h5py and numpy. Reading takes nothing but the environment variable: any program that reads HDF5 will do.
"""

import sys

import h5py
import numpy

LMC = 59810  # number of the filter; compression_opts=(1,) would be level fast, (2,) level max


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "example.h5"
    if not h5py.h5z.filter_avail(LMC):
        sys.exit("HDF5 does not find libh5lmc.so: set HDF5_PLUGIN_PATH to its directory before Python starts")

    # Weights of a layer, as f32 and as bf16. HDF5 has no bf16 before 2.0: its bits in uint16 are read everywhere.
    weights = numpy.random.default_rng(1).normal(0, 0.02, (1024, 2048)).astype(numpy.float32)
    bf16 = ((weights.view(numpy.uint32) + 0x8000) >> 16).astype(numpy.uint16)

    with h5py.File(path, "w") as file:
        # Chunks of 256 KiB to 4 MiB serve best. Leave shuffle=True away: LMC does better by itself.
        file.create_dataset("f32", data=weights, chunks=(128, 2048), compression=LMC)
        file.create_dataset("bf16", data=bf16, chunks=(256, 2048), compression=LMC)

    with h5py.File(path, "r") as file:
        for name, dataset in file.items():
            print(f"{name}: {dataset.nbytes} bytes are {dataset.id.get_storage_size() / dataset.nbytes:.4f} of that")
        rows = file["bf16"][100:200]  # reads only the chunks that hold them
        equal = (numpy.array_equal(file["f32"][:], weights) and numpy.array_equal(file["bf16"][:], bf16) and
                 numpy.array_equal(rows, bf16[100:200]))
    print("read back equal" if equal else "DIFFERENT")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
