#!/bin/sh
# memory.sh - peak memory of lmc-st on one tensor of 4 GiB and on 100,000 tensors, beside the bound that lmc_st.h
# promises. Needs 3 GiB of disk in $TMPDIR. Exit status 1 if lmc-st breaks the bound.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
. "$root/bench/setup.sh"
bench_build
python3 "$root/bench/tool/memory.py" "$bench"
