"""h5_round_trip.py FILE - writes numbers through the filter by h5py and reads them back in a process of its own, which
finds the plugin anew."""

import subprocess
import sys

import h5py
import numpy

FILTER_ID = 59810
READ = "import h5py, sys; sys.stdout.buffer.write(h5py.File(sys.argv[1])['w'][:].tobytes())"

values = numpy.random.default_rng(1).normal(size=(64, 1024)).astype("f4")
with h5py.File(sys.argv[1], "w") as file:
    dataset = file.create_dataset("w", data=values, chunks=(16, 1024), compression=FILTER_ID)
    if dataset.id.get_storage_size() >= values.nbytes:
        sys.exit("the filter was not used")
read = subprocess.run([sys.executable, "-c", READ, sys.argv[1]], check=True, stdout=subprocess.PIPE)
if read.stdout != values.tobytes():
    sys.exit("what was read is not what was written")
