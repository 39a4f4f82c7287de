#!/bin/sh
# tool.sh [tool.py speed options] - lmc-st convert and restore beside cp, on 2 GiB in the page cache. Needs 6 GiB of
# disk in $TMPDIR and as much memory for the page cache.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
. tests/support/setup.sh
lmc_apt build-essential cmake pkg-config libcjson-dev libxxhash-dev libzstd-dev libbz2-dev python3
lmc_build bench -DCMAKE_BUILD_TYPE=Release -DLMC_BUILD_TESTS=OFF -DLMC_BUILD_BENCH=ON
python3 bench/tool.py speed build/bench "$@"
