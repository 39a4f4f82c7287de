#!/bin/sh
# study.sh [--quick | --draw] - how tensors compress while they are trained, and what that buys behind a link: trains
# the series of bench/study/train_series.py below build/ (once), measures it with bench/study/study.py and
# bench/checkpoint.py, and draws docs/study_*.svg. Other programs must be still. Tables and numbers go to
# build/bench/study/. --quick: a short series, numbers in study-quick/; draws nothing. --draw: draws again from the
# numbers of the last run. Needs the Python package index, 3 GiB of disk, and python3-matplotlib.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
. "$root/bench/setup.sh"
numbers=$root/build/bench/study
quick=
series=$root/build/series
step=step-01210
base=step-01200
if [ "${1-}" = --quick ]; then
  quick=--quick
  series=$root/build/series-quick
  numbers=$root/build/bench/study-quick
  step=step-00150
  base=step-00140
fi

if [ "${1-}" != --draw ]; then
  bench_build
  mkdir -p "$numbers"
  if [ ! -e "$series/series.json" ]; then
    lmc_venv_torch_now
    rm -rf "$series"
    "$lmc_venv_dir/bin/python" -W ignore bench/study/train_series.py "$series" $quick
  fi
  lmc_make_venv venv-study python3 "" numpy==2.4.6 zstandard==0.25.0 lz4==4.4.5
  "$lmc_venv_dir/bin/python" bench/study/study.py "$bench" "$series" --json "$numbers/study.json" >"$numbers/study.txt"
  "$lmc_venv_dir/bin/python" bench/checkpoint.py "$bench" "$series/gpt/$step" "$series/gpt/$base" \
    --json "$numbers/checkpoint.json" >"$numbers/checkpoint.txt"
  cat "$numbers/study.txt" "$numbers/checkpoint.txt"
fi
if [ -z "$quick" ]; then
  lmc_apt python3-matplotlib
  /usr/bin/python3 bench/plots/draw_study.py "$numbers" "$root/docs"
fi
