#!/bin/sh
# growth.sh [FOLDER] [growth.py options] - time and peak memory of lmc-st against the size of a tensor (1 MiB .. 4 GiB)
# and the number of tensors (1 .. 100,000). Files are made in FOLDER (build/growth), which wants 13 GiB, and removed.
# The table goes to stdout and build/bench/growth.txt, numbers to build/bench/growth.json, a picture to
# build/bench/bench_growth.svg.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
. "$root/tests/support/setup.sh"
folder=$root/build/growth
case ${1-} in
'' | -*) ;;
*)
  folder=$1
  shift
  ;;
esac

lmc_apt build-essential cmake pkg-config libcjson-dev libxxhash-dev libzstd-dev libbz2-dev python3
(cd "$root" && lmc_build bench -DCMAKE_BUILD_TYPE=Release -DLMC_BUILD_TESTS=OFF -DLMC_BUILD_BENCH=ON)
out=$root/build/bench/growth
python3 "$root/bench/growth.py" "$root/build/bench" "$folder" --json "$out.json" "$@" | tee "$out.txt"
python3 "$root/bench/plot.py" --growth "$out.json" "$root/build/bench"
