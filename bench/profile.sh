#!/bin/sh
# profile.sh encode|decode|encode-bare|decode-bare [lmc-bench options] - the stage budget of one direction: what each
# function takes in CPU milliseconds per GiB of content, by `perf record -e cpu-clock` (a sample each millisecond).
# Without options: --set avx512 --level default --dtype bf16. Making the data is left out. Needs perf (Debian:
# linux-perf); the samples stay in build/bench/perf.data, for `perf annotate -i`.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
. "$root/bench/setup.sh"
if [ $# -eq 0 ]; then
  sed -n '2,5s/^# //p' "$root/bench/profile.sh" >&2
  exit 2
fi
direction=$1
shift
[ $# -gt 0 ] || set -- --set avx512 --level default --dtype bf16

command -v perf >/dev/null || { echo "profile.sh: no perf (Debian: linux-perf)" >&2; exit 2; }
bench_build
data=$bench/perf.data
line=$(perf record -o "$data" -q -e cpu-clock -F 1000 "$bench/bench/lmc-bench" --repeats 40 "$@" \
  --profile "$direction" | tail -n 1)
echo "$line"
echo "  ms per GiB  function"
gib=$(echo "$line" | sed 's/.*: \([0-9.]*\) GiB in .*/\1/')
perf report -i "$data" --stdio --no-children -n --sort dso,symbol 2>/dev/null | awk -v gib="$gib" '
  !/^ *[0-9.]+%/ || $3 ~ /^libm/ || $5 ~ /^bench_|^(cos|log|sqrt)/ { next }
  $4 == "[k]" { kernel += $2; next }
  $2 / gib >= 0.5 { printf "%12.1f  %s%s\n", $2 / gib, $5, $3 ~ /^lmc-bench/ ? "" : " (" $3 ")" }
  END { printf "%12.1f  the kernel; most of it is the first touch of buffers, before the passes\n", kernel / gib }'
