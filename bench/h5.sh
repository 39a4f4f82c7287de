#!/bin/sh
# h5.sh [h5_bench.py options] [FILE.safetensors...] - LMC beside other filters of HDF5, through h5py: ratio and GiB/s,
# one thread, one run (h5_bench.py says how), and the ratio beside lmc-st's. Without files: weights and Adam state of
# examples/data, and the model of fetch_model.sh if it was fetched. Tables go to stdout and build/bench/h5.txt,
# numbers to build/bench/h5.json, a plot to build/bench/h5.svg. Python packages come from the package index.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
start=$PWD
. "$root/tests/support/setup.sh"

lmc_apt build-essential cmake pkg-config libcjson-dev libxxhash-dev libzstd-dev libbz2-dev python3-venv
(cd "$root" && lmc_build bench -DCMAKE_BUILD_TYPE=Release -DLMC_BUILD_TESTS=OFF -DLMC_BUILD_BENCH=ON)
lmc_make_venv venv-h5-bench python3 "" h5py==3.16.0 numpy==2.4.6 hdf5plugin==7.1.0
python=$lmc_venv_dir/bin/python
HDF5_PLUGIN_PATH=$root/build/bench/filter/plugin
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
cd "$start"
out=$root/build/bench/h5
"$python" "$root/bench/h5_bench.py" --json "$out.json" "$@" >"$out.txt"
"$python" "$root/bench/h5_plot.py" "$out.json" "$out.svg"
echo >>"$out.txt"
"$python" "$root/bench/h5_bench.py" --ratio "$root/build/bench/tool/lmc-st" "$@" >>"$out.txt"
cat "$out.txt"
