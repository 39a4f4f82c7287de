#!/bin/sh
# h5_parallel.sh [h5_parallel.py options] - LMC in parallel HDF5: 1, 2 and 4 ranks of MPI write and read one dataset,
# beside other layouts and filters (h5_parallel.py says how), and where the CPU time goes. Tables go to stdout and
# build/bench/h5_parallel.txt, numbers to build/bench/h5_parallel.json. The CPU time needs perf.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
. "$root/bench/setup.sh"
bench_build
lmc_apt openmpi-bin python3-h5py-mpi
python3 "$root/bench/h5_parallel.py" "$bench" --json "$bench/h5_parallel.json" "$@" >"$bench/h5_parallel.txt"
cat "$bench/h5_parallel.txt"
