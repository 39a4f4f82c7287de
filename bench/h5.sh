#!/bin/sh
# h5.sh [filters.py options] [FILE.safetensors...] - LMC beside other filters of HDF5, through h5py: ratio and GiB/s,
# one thread (hdf5/filters.py says how), and the ratio beside lmc-st's. Without files: weights and Adam state of
# examples/data, and the model of fetch_model.sh if it was fetched. Tables go to stdout and build/bench/h5.txt,
# numbers to build/bench/h5.json. Python packages come from the package index.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
. "$root/bench/setup.sh"
bench_build
lmc_apt python3-venv
lmc_make_venv venv-h5-bench python3 "" h5py==3.16.0 numpy==2.4.6 hdf5plugin==7.1.0
python=$lmc_venv_dir/bin/python
HDF5_PLUGIN_PATH=$bench/filter/plugin
export HDF5_PLUGIN_PATH

files=0
for argument in "$@"; do
  case $argument in *.safetensors) files=1 ;; esac
done
if [ "$files" -eq 0 ]; then
  for name in bf16 f32-part optim; do
    set -- "$@" "$root/examples/data/step03000.$name.safetensors"
  done
  for file in "$root"/build/model/*.safetensors; do
    if [ -f "$file" ]; then
      set -- "$@" "$file"
    fi
  done
fi
{
  "$python" "$root/bench/hdf5/filters.py" --json "$bench/h5.json" "$@"
  echo
  "$python" "$root/bench/hdf5/filters.py" --ratio "$bench/tool/lmc-st" "$@"
} >"$bench/h5.txt"
cat "$bench/h5.txt"
