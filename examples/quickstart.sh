#!/bin/sh
# quickstart.sh [FILE.safetensors...] - builds LMC and takes real trained weights through it: converts,
# lists, verifies, restores, compares, and prints what that gave. Without arguments: the files of
# examples/data, and those that fetch_model.sh has fetched. Everything it writes is below build/.
# Exit status: 0 if every file came back unchanged.
set -eu

files=
for file in "$@"; do
  case $file in
  /*) ;;
  *) file=$PWD/$file ;;
  esac
  files="$files$file
"
done
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
. scripts/setup.sh
if [ -z "$files" ]; then
  files=$(ls examples/data/*.safetensors build/model/*.safetensors 2>/dev/null || true)
fi

echo "This builds LMC below build/ and needs: a C compiler, cmake, pkg-config, cJSON, SQLite, zstd, xxHash."
lmc_apt build-essential cmake pkg-config libcjson-dev libsqlite3-dev libxxhash-dev libzstd-dev
echo "building (log: build/log/build-release.log)"
lmc_build release -DCMAKE_BUILD_TYPE=Release -DLMC_BUILD_TESTS=OFF
lmc_st=$root/build/release/tool/lmc-st

out=build/quickstart
rm -rf "$out"
mkdir -p "$out"
table=$out/table.txt
failed=0

now() { # nanoseconds
  date +%s%N
}

# The least time of three runs, in nanoseconds.
best_of_3() { # COMMAND...
  best=
  for run in 1 2 3; do
    start=$(now)
    "$@"
    time=$(($(now) - start))
    if [ -z "$best" ] || [ "$time" -lt "$best" ]; then
      best=$time
    fi
  done
}

printf '%s\n' "file|bytes|stored|ratio|convert GiB/s|restore GiB/s|sha256" >"$table"
first=1
IFS='
'
for file in $files; do
  unset IFS
  name=$(basename "$file")
  archive=$out/$name.lmc
  restored=$out/$name
  best_of_3 "$lmc_st" convert "$file" -o "$archive" -q -f
  convert_ns=$best
  if [ "$first" -eq 1 ]; then
    echo
    echo "\$ lmc-st ls $archive"
    "$lmc_st" ls "$archive"
    echo
    first=0
  else
    "$lmc_st" ls "$archive" >"$out/$name.ls"
  fi
  verified=0
  "$lmc_st" verify "$archive" -q || verified=1
  best_of_3 "$lmc_st" restore "$archive" -o "$restored" -q -f
  before=$(sha256sum <"$file")
  after=$(sha256sum <"$restored")
  same=equal
  if [ "$before" != "$after" ] || [ "$verified" -ne 0 ]; then
    same=DIFFERENT
    failed=1
  fi
  awk -v name="$name" -v bytes="$(wc -c <"$file")" -v stored="$(wc -c <"$archive")" -v convert="$convert_ns" \
    -v restore="$best" -v same="$same" 'BEGIN {
      gib = bytes / 1073741824 * 1e9
      printf "%s|%d|%d|%.4f|%.2f|%.2f|%s\n", name, bytes, stored, stored / bytes, gib / convert, gib / restore, same
    }' >>"$table"
done
unset IFS

echo "Whole commands, files read and written (best of 3); kernels and threads as chosen for this machine:"
echo
awk -F'|' '
  { for (i = 1; i <= NF; i++) { cell[NR, i] = $i; if (length($i) > width[i]) width[i] = length($i) } }
  END {
    for (row = 1; row <= NR; row++) {
      line = sprintf("%-" width[1] "s", cell[row, 1])
      for (i = 2; i <= NF; i++) line = line sprintf("  %" width[i] "s", cell[row, i])
      print line
    }
  }' "$table"
echo
if [ "$failed" -ne 0 ]; then
  echo "quickstart.sh: a file did not come back unchanged" >&2
  exit 1
fi
echo "Every file came back unchanged. The archives are in $out."
