#!/bin/sh
# growth.sh [FOLDER] [growth.py options] - time and peak memory of lmc-st against the size of a tensor (1 MiB .. 4 GiB)
# and the number of tensors (1 .. 100,000). Files are made in FOLDER (build/growth), which needs 13 GiB, and removed.
# The table goes to stdout and build/bench/growth.txt, numbers to build/bench/growth.json.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
. "$root/bench/setup.sh"
folder=$root/build/growth
case ${1-} in
'' | -*) ;;
*)
  folder=$1
  shift
  ;;
esac
bench_build
python3 "$root/bench/tool/growth.py" "$bench" "$folder" --json "$bench/growth.json" "$@" | tee "$bench/growth.txt"
