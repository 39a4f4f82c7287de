#!/bin/sh
# scale.sh [--draw | scale.py options] - what a save of many ranks costs: real ranks, a simulation to 1000 of them, and
# two of its points behind a throttled pipe (scale.py says how). Other programs must be still. Tables go to stdout and
# build/bench/scale.txt, numbers to build/bench/scale.json. Then pictures are drawn of them and of the numbers of
# h5_parallel.sh: docs/distributed_*.svg. --draw: draws again. Needs the Python package index and python3-matplotlib.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
. "$root/bench/setup.sh"
if [ "${1-}" != --draw ]; then
  bench_build
  lmc_venv_torch_now
  "$lmc_venv_dir/bin/python" -W ignore "$root/bench/scale.py" "$bench" --json "$bench/scale.json" "$@" \
    >"$bench/scale.txt"
  cat "$bench/scale.txt"
fi
lmc_apt python3-matplotlib
/usr/bin/python3 "$root/bench/plots/draw_distributed.py" "$bench" "$root/docs"
