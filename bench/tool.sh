#!/bin/sh
# tool.sh [speed.py options] - lmc-st convert, restore and verify beside cp, with one thread and with two, on 2 GiB and
# on files of many small tensors in the page cache. Where perf works: then the share of the work that only one thread
# can do. Needs 6 GiB of disk in $TMPDIR and as much memory for the page cache.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
. "$root/bench/setup.sh"
bench_build bench
python3 "$root/bench/tool/speed.py" speed "$bench" "$@"
if ! perf record -q -e cpu-clock -o /dev/null true >/dev/null 2>&1; then
  echo "SKIP serial share: perf record does not work here"
  exit 0
fi
bench_build profile -DCMAKE_C_FLAGS="-g -fno-omit-frame-pointer"
echo
python3 "$root/bench/tool/speed.py" serial "$bench"
