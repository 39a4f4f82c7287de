#!/bin/sh
# run.sh [--quick | --all] - LMC's levels and kernel sets beside memcpy, zstd and bzip2, in memory, one thread, one run:
# ratio and GiB/s, with checksums and without, by dtype, size and state of the caches; ranges of a tensor; changes
# against a base (lmc-bench --matrix quick or all; bench_options.c has the options). Then the bf16 snapshot of
# examples/data, and sizes of archives beside other tools (ratio.py). --quick is the default; --all adds tensors of 1
# GiB, level max, and all sizes of all dtypes, and takes half an hour.
# run.sh [lmc-bench options] [FILE.safetensors...] - lmc-bench alone, as asked.
# Tables go to stdout and build/bench/bench.txt, speeds to build/bench/bench*.json, pictures to build/bench/*.svg (those
# of docs/ are made so; plot.py draws them from the JSON, and those of growth.sh too).
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
start=$PWD
. "$root/tests/support/setup.sh"

echo "This builds LMC and its benchmark below build/ and needs: a C compiler, cmake, pkg-config, cJSON, zstd,"
echo "xxHash, bzip2."
lmc_apt build-essential cmake pkg-config libcjson-dev libxxhash-dev libzstd-dev libbz2-dev python3
(cd "$root" && lmc_build bench -DCMAKE_BUILD_TYPE=Release -DLMC_BUILD_TESTS=OFF -DLMC_BUILD_BENCH=ON)

matrix=
case ${1-} in
'' | --quick) matrix=quick ;;
--all) matrix=all ;;
esac
bench=$root/build/bench/bench/lmc-bench
out=$root/build/bench
cd "$start"
if [ -z "$matrix" ]; then
  "$bench" --json "$out/bench.json" "$@" | tee "$out/bench.txt"
  exit 0
fi
if [ $# -gt 1 ]; then
  echo "run.sh: nothing goes with --quick or --all" >&2
  exit 2
fi
lmc_apt zstd
{
  "$bench" --matrix "$matrix" --json "$out/bench.json"
  "$bench" --json "$out/bench-model.json" "$root"/examples/data/step03000.bf16.safetensors | tail -n +3
  python3 "$root/bench/ratio.py" "$out/tool/lmc-st" "$root"/examples/data/*.safetensors \
    $(ls "$root"/build/model/*.safetensors 2>/dev/null)
} | tee "$out/bench.txt"
python3 "$root/bench/plot.py" --bench "$out/bench.json" "$out"
