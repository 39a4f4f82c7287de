#!/bin/sh
# run.sh BUILD PYTHON... - runs the examples of the HDF5 filter that are scripts: those in Python with each PYTHON
# (with h5py), h5_repack.sh with HDF5's tools, h5_parallel.py with MPI. The last line is "N passed, N failed[, N
# skipped]". Those in C are run by ctest.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../../.." && pwd)
here=$root/tests/interop/h5examples
examples=$root/examples
build=$(CDPATH='' cd -- "$1" && pwd)
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
HDF5_PLUGIN_PATH=$build/filter/plugin
export HDF5_PLUGIN_PATH
passed=0
failed=0
skipped=0

report() { # NAME GOOD(0 or 1): counts; shows the log of what failed
  if [ "$2" -eq 1 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAIL $1"
    cat "$work/log"
  fi
}

prints() { # PATTERN: the log has it, its lines taken as one
  tr '\n' ' ' <"$work/log" | grep -q -E "$1"
}

check() { # NAME PATTERN COMMAND...: must succeed and print the pattern
  name=$1
  pattern=$2
  shift 2
  good=0
  "$@" >"$work/log" 2>&1 && prints "$pattern" && good=1
  report "$name" "$good"
}

check_fails() { # NAME PATTERN COMMAND...: the same, but it must not succeed
  name=$1
  pattern=$2
  shift 2
  good=1
  if "$@" >"$work/log" 2>&1 || ! prints "$pattern"; then
    good=0
  fi
  report "$name" "$good"
}

skip() { # NAME REASON
  echo "SKIP $1: $2"
  skipped=$((skipped + 1))
}

problems_in() { # PYTHON FILE: a line for each problem that h5_inspect.py names, behind the dataset's name
  status=0
  "$1" "$examples/h5_inspect.py" "$2" >"$work/inspected" || status=$?
  awk '/^[^ ]/ { sub(":.*", ""); name = $0 } /^  [a-zA-Z ]+: / { print name ":" $0 }' "$work/inspected"
  return "$status"
}

problems_of_strangers() { # PYTHON: finds all of strange.txt, and fails
  ! problems_in "$1" "$here/data/strange.h5" >"$work/problems" &&
    diff "$here/data/strange.txt" "$work/problems" && echo all found
}

for python in "$@"; do
  "$python" -c 'import h5py, sys
with h5py.File(sys.argv[1], "w") as file:
    file["type"] = h5py.h5t.STD_I8LE.dtype' "$work/type.h5"
  bed=$(basename "$(dirname "$(dirname "$python")")")
  check "h5_write_read.py, $bed" 'bf16: [0-9]* bytes are 0\.6.* read back equal' \
    "$python" "$examples/h5_write_read.py" "$work/$bed.h5"
  check_fails "h5_write_read.py without the plugin, $bed" 'set HDF5_PLUGIN_PATH' \
    env HDF5_PLUGIN_PATH= "$python" "$examples/h5_write_read.py" "$work/none.h5"
  check "h5_inspect.py, $bed" "bf16: uint16 .*, ratio 0[.]6.* 4 chunks of .*, filters: 59810 lmc" \
    "$python" "$examples/h5_inspect.py" "$work/$bed.h5"
  check "h5_inspect.py: a file of strangers, $bed" "all found" problems_of_strangers "$python"
  check_fails "h5_inspect.py without the plugin, $bed" "unknown size: 8 chunks" \
    env HDF5_PLUGIN_PATH= "$python" "$examples/h5_inspect.py" "$work/$bed.h5" f32
  check_fails "h5_inspect.py: a group of strangers, $bed" "wrong size: .*refused: " \
    "$python" "$examples/h5_inspect.py" "$here/data/strange.h5" /
  check_fails "h5_inspect.py: a datatype, $bed" "neither a dataset nor a group" \
    "$python" "$examples/h5_inspect.py" "$work/type.h5" type
  check "h5_direct_chunks.py, $bed" 'all equal' "$python" "$examples/h5_direct_chunks.py" "$work/direct.h5"
  run_line='shuffle [+] gzip 0[.]7.*, LMC 0[.]6.*, LMC with rows 0[.]'
  check "h5_training_run.py, $bed" \
    "made-up run: 12 snap.*${run_line}1.*equal step03000.*step03010.*: 2 snap.*${run_line}4.*equal" \
    "$python" "$examples/h5_training_run.py" "$work/run.h5"
  check_fails "h5_training_run.py without the plugin, $bed" 'set HDF5_PLUGIN_PATH' \
    env HDF5_PLUGIN_PATH= "$python" "$examples/h5_training_run.py" "$work/none.h5"
done

if command -v h5repack >"$work/log" && [ $# -gt 0 ]; then
  "$1" -c 'import h5py, sys
with h5py.File(sys.argv[1], "w") as file:
    file["group/rows"] = [[x / 7 for x in range(500)] for y in range(300)]
    file["one"] = 3.5' "$work/in.h5"
  check "h5_repack.sh" 'Filter-0: .*-59810 .*the same contents come back' \
    sh "$examples/h5_repack.sh" "$work/in.h5" "$work/out.h5"
  check "h5_repack.sh: of a file that has LMC" 'the same contents come back' \
    sh "$examples/h5_repack.sh" "$work/$(basename "$(dirname "$(dirname "$1")")").h5" "$work/out.h5"
  "$1" -c 'import h5py, sys
with h5py.File(sys.argv[1], "w") as file:
    file["small"] = 3.5' "$work/small.h5"
  check_fails "h5_repack.sh: small datasets alone" 'has a dataset 1024 bytes or more' \
    sh "$examples/h5_repack.sh" "$work/small.h5" "$work/out.h5"
  check_fails "h5_repack.sh without the plugin" 'LMC was not used' \
    env HDF5_PLUGIN_PATH= sh "$examples/h5_repack.sh" "$work/in.h5" "$work/out.h5"
else
  skip h5_repack.sh "needs h5repack (Debian: hdf5-tools) and a Python with h5py"
fi

H5PY_ALWAYS_USE_MPI=1
export H5PY_ALWAYS_USE_MPI
mpi_python=/usr/bin/python3
if command -v mpirun >"$work/log" && OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$mpi_python" -c \
  'import h5py, mpi4py, sys; sys.exit(not h5py.get_config().mpi)' >"$work/log" 2>&1; then
  good_line='process [01] of 2: equal, the file has 0\.8'
  check "h5_parallel.py" "$good_line.*$good_line" \
    env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    mpirun --oversubscribe -n 2 "$mpi_python" "$examples/h5_parallel.py" "$work/parallel.h5"
else
  skip h5_parallel.py "needs mpirun and h5py with MPI (Debian: python3-h5py-mpi)"
fi

if [ "$skipped" -eq 0 ]; then
  echo "$passed passed, $failed failed"
else
  echo "$passed passed, $failed failed, $skipped skipped"
fi
[ "$failed" -eq 0 ]
