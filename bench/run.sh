#!/bin/sh
# run.sh [lmc-bench options] [FILE.safetensors...] - LMC's levels and kernel sets beside memcpy, zstd and bzip2:
# ratio and GiB/s in memory, one thread, same bytes, one run. Without files: normal bf16 and f32 numbers and the
# bf16 snapshot of examples/data, and then the sizes of archives beside other tools (ratio.py). The tables go to
# stdout and build/bench/bench.txt, the speeds to build/bench/bench*.json too.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
start=$PWD
. "$root/tests/support/setup.sh"

echo "This builds LMC and its benchmark below build/ and needs: a C compiler, cmake, pkg-config, cJSON, zstd,"
echo "xxHash, bzip2."
lmc_apt build-essential cmake pkg-config libcjson-dev libxxhash-dev libzstd-dev libbz2-dev
(cd "$root" && lmc_build bench -DCMAKE_BUILD_TYPE=Release -DLMC_BUILD_TESTS=OFF -DLMC_BUILD_BENCH=ON)

bench=$root/build/bench/bench/lmc-bench
json=$root/build/bench/bench.json
table=$root/build/bench/bench.txt
{
  echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, $(uname -sm)"
  echo "compiler: $(cc --version | head -n 1)"
} | tee "$table"
cd "$start"
if [ $# -gt 0 ]; then
  "$bench" --json "$json" "$@" | tee -a "$table"
else
  "$bench" --json "$json" | tee -a "$table"
  "$bench" --json "$root/build/bench/bench-model.json" "$root"/examples/data/step03000.bf16.safetensors |
    tail -n +3 | tee -a "$table"
fi
if [ $# -eq 0 ]; then
  lmc_apt zstd
  python3 "$root/bench/ratio.py" "$root/build/bench/safetensors/lmc-st" "$root"/examples/data/*.safetensors \
    $(ls "$root"/build/model/*.safetensors 2>/dev/null) | tee -a "$table"
fi
