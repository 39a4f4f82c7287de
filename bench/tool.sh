#!/bin/sh
# tool.sh [speed.py options] - lmc-st convert, restore and verify beside cp, with one thread and with two, on 2 GiB and
# on files of many small tensors in the page cache (tool/speed.py says how). Needs 6 GiB of disk in $TMPDIR and as much
# memory for the page cache.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
. "$root/bench/setup.sh"
bench_build
python3 "$root/bench/tool/speed.py" "$bench" "$@"
