#!/bin/sh
# delta.sh [delta.py options] [BASE NEW]... - snapshots against an earlier one: LMC beside XOR and byte groups with
# several coders, and beside lists of changes. Ratio and GiB/s in memory, one thread, and the size of archives
# (delta/delta.py says how). Without files: the two bf16 snapshots of examples/data and synthetic pairs.
# The table goes to stdout and build/bench/delta.txt, numbers to build/bench/delta.json.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
. "$root/bench/setup.sh"
bench_build
status=0
python3 "$root/bench/delta/delta.py" "$bench" --json "$bench/delta.json" "$@" >"$bench/delta.txt" || status=$?
cat "$bench/delta.txt"
exit "$status"
