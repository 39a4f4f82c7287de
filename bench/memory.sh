#!/bin/sh
# memory.sh - peak memory of lmc-st on one tensor of 4 GiB and on 100,000 tensors, beside the bound that lmc_st.h
# promises. Needs 3 GiB of disk in $TMPDIR. Exit status 1 if the bound is broken.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
. tests/support/setup.sh
lmc_apt build-essential cmake pkg-config libcjson-dev libxxhash-dev libzstd-dev libbz2-dev python3
lmc_build bench -DCMAKE_BUILD_TYPE=Release -DLMC_BUILD_TESTS=OFF -DLMC_BUILD_BENCH=ON
python3 bench/tool.py memory build/bench
