#!/bin/sh
# run.sh [--quick | --all] - LMC's levels and kernel sets beside memcpy, zstd and bzip2: ratio and GiB/s in memory, one
# thread. Then the bf16 snapshot of examples/data, and sizes of archives beside other tools (ratio.py). --quick is the
# default; --all adds tensors of 1 GiB, level max and all sizes of all dtypes.
# run.sh [lmc-bench options] [FILE.safetensors...] - lmc-bench alone.
# Tables go to stdout and build/bench/bench.txt, speeds to build/bench/bench*.json.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
. "$root/bench/setup.sh"
bench_build

matrix=
case ${1-} in
'' | --quick) matrix=quick ;;
--all) matrix=all ;;
esac
program=$bench/bench/lmc-bench
if [ -z "$matrix" ]; then
  "$program" --json "$bench/bench.json" "$@" | tee "$bench/bench.txt"
  exit 0
fi
if [ $# -gt 1 ]; then
  echo "run.sh: nothing goes with --quick or --all" >&2
  exit 2
fi
lmc_apt zstd
{
  "$program" --matrix "$matrix" --json "$bench/bench.json"
  "$program" --json "$bench/bench-model.json" "$root"/examples/data/step03000.bf16.safetensors | tail -n +3
  python3 "$root/bench/ratio.py" "$bench/tool/lmc-st" "$root"/examples/data/*.safetensors \
    $(ls "$root"/build/model/*.safetensors 2>/dev/null)
} | tee "$bench/bench.txt"
