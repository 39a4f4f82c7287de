#!/bin/sh
# delta.sh [delta.py options] [BASE NEW]... - snapshots against an earlier one: LMC's levels and kernel sets beside XOR
# and byte groups with several coders, and beside lists of what has changed; ratio and GiB/s in memory, one thread, one
# run, and the size of archives (delta.py says how). Without files: the two bf16 snapshots of examples/data and
# synthetic pairs. The table goes to stdout and build/bench/delta.txt, numbers to build/bench/delta.json.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
start=$PWD
. "$root/tests/support/setup.sh"

lmc_apt build-essential cmake pkg-config libcjson-dev libxxhash-dev libzstd-dev libbz2-dev python3
(cd "$root" && lmc_build bench -DCMAKE_BUILD_TYPE=Release -DLMC_BUILD_TESTS=OFF -DLMC_BUILD_BENCH=ON)
cd "$start"
out=$root/build/bench/delta
status=0
python3 "$root/bench/delta.py" "$root/build/bench" --json "$out.json" "$@" >"$out.txt" || status=$?
cat "$out.txt"
exit "$status"
