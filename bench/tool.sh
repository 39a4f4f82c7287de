#!/bin/sh
# tool.sh [tool.py speed options] - lmc-st convert, restore and verify beside cp, with one thread and with two, on
# 2 GiB and on files of many small tensors in the page cache; then, where perf is there, the share of the work that
# only one thread can do. Needs 6 GiB of disk in $TMPDIR and as much memory for the page cache.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
. tests/support/setup.sh
lmc_apt build-essential cmake pkg-config libcjson-dev libxxhash-dev libzstd-dev libbz2-dev python3
lmc_build bench -DCMAKE_BUILD_TYPE=Release -DLMC_BUILD_TESTS=OFF -DLMC_BUILD_BENCH=ON
python3 bench/tool.py speed build/bench "$@"
if ! perf record -q -e cpu-clock -o /dev/null true >/dev/null 2>&1; then
  echo "SKIP serial share: perf record does not work here"
  exit 0
fi
lmc_build profile -DCMAKE_BUILD_TYPE=Release -DLMC_BUILD_TESTS=OFF -DLMC_BUILD_BENCH=ON \
  -DCMAKE_C_FLAGS="-g -fno-omit-frame-pointer"
echo
python3 bench/tool.py serial build/profile
