#!/bin/sh
# pictures.sh [--draw] - measures the numbers of the pictures in docs/, and draws docs/*.svg. Other programs must be
# still. Needs 13 GiB of disk below build/, 4 GiB of memory, and the package index for the filters of HDF5.
# Numbers go to build/bench/pictures/*.json. --draw draws again from the numbers of the last run.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
. "$root/bench/setup.sh"
numbers=$root/build/bench/pictures

lmc_apt python3-matplotlib
if [ "${1-}" != --draw ]; then
  bench_build
  mkdir -p "$numbers"
  "$bench/bench/lmc-bench" --matrix all --only tensor --dtype bf16 --json "$numbers/tensors.json"
  "$bench/bench/lmc-bench" --only peer --dtype bf16 --json "$numbers/peers.json"
  sh "$root/bench/growth.sh" --rounds 3 --json "$numbers/growth.json"
  sh "$root/bench/h5.sh" --json "$numbers/h5.json" "$root/examples/data/step03000.bf16.safetensors" \
    "$root/examples/data/step03000.optim.safetensors"
fi
/usr/bin/python3 "$root/bench/plots/draw.py" "$numbers" "$root/docs"
