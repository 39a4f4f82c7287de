#!/bin/sh
# run.sh - builds LMC, runs its tests and counts them; installs what that needs (it says what).
#
#   sh tests/run.sh              the short parts: one build, and nothing from a package index; 4 to 7 minutes
#   sh tests/run.sh all          these and the long parts; 20 to 45 minutes on two cores
#   sh tests/run.sh release      these and the parts for a release; hours
#   sh tests/run.sh NAME...      the parts named
#
# short:  unit        CUnit programs and small examples
#         cli         the command lmc-st, good and bad cases
#         fuzz        seeds and stored inputs through the fuzz targets
#         format      frozen, random and damaged frames and chunks of the HDF5 filter, and archives of lmc-st, through
#                     decoders and a reader written from the documents alone
#         checks      rules of the source: text, layers, interface, format document, layout
# long:   sanitize    unit, fuzz and bad cases of cli with address and undefined behaviour sanitizers
#         kernels     the programs that meet the kernels, with the other kernel sets of the host
#         official    the safetensors package opens every archive; its verdict on good and bad headers; the
#                     library writes the files that it writes
#         transformers  models of the transformers library go through lmc-st and load again
#         containers  files of torch (an old and a current one), torch.distributed, transformers' Trainer, numpy and
#                     GGUF go through lmc-st and load again; damaged ones
#         h5py        the HDF5 filter in an old and a current version of HDF5, each reading what the other wrote
#         hdf5        the HDF5 filter in other programs: several libhdf5 in a process, threads, fork, kills, C programs,
#                     MPI, Keras
#         python      the package lmcodec with the library of the build: NumPy, PyTorch (an old and a current one), the
#                     tests of safetensors, transformers, diffusers, Lightning, Keras, h5py, types;
#                     torch.distributed.checkpoint; Zarr, Dask, object stores
#         package     programs outside the tree against an installed LMC; the Debian packages: built, looked at, used;
#                     the HDF5 plugin built by the compiler alone
#         gpu         registers and spills of the kernels for a GPU (their emulation: unit)
#         compilers   clang's warnings; the codec compiles for Windows
#         slow        the command's tests that take more than two seconds
#         quickstart  examples/quickstart.sh
# release: sanitize_cli  all cases of cli with the sanitizers of the part sanitize
#         thread      the CUnit programs that start threads, with the thread sanitizer
#         neon        the kernels and the codec built for AArch64 and run by qemu: tests, and frames as of this machine
#         arm32       the same for 32-bit ARM, where a size_t is narrower than the numbers in a frame
#         windows     all but Python, built for Windows by MinGW and run by Wine: unit tests, the command, frames and
#                     archives as of this machine
#         h5py_all    as h5py, with four versions of HDF5
#         h5examples  examples of the HDF5 filter in Python and for the shell, with four versions of HDF5
#         wheels      the wheels for all platforms: what is in them; what runs by itself, by QEMU or by Wine; that for
#                     Windows in a Python for Windows
#         benches     the programs of bench/ run and draw
#         large       the command on files of several GiB (sparse, but as much to read), hundreds of kills; a GiB of
#                     blocks through the emulated kernels for a GPU
#         model       the quick start with a 90 MB model from PyPI
#         mutation    defects of one line are put into a copy of the sources, one at a time, and must be found
#         valgrind    the CUnit programs and examples of C under memcheck; not test_st_memory, whose malloc it replaces
# alone:  search      fuzzing for new inputs (clang), LMC_SEARCH_SECONDS a target, by default 10
#
# Each part prints its counts. The last line is "N passed, N failed, N skipped" (after a SKIP line with the reason for
# each): single tests, those within a program or a call of pytest; the line before has the seconds of each part.
# Exit status: 0 all passed, 1 something failed, 2 wrong usage or the set-up failed.
# Logs are in build/log. LMC_JOBS=N sets the number of build and test processes; LMC_WERROR=ON makes a
# warning fail the build.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
. scripts/setup.sh
export LMC_JOBS="$lmc_jobs"
unset PYTHONDONTWRITEBYTECODE # some machines set it: importing torch would take four times as long
export PYTHONPYCACHEPREFIX="$root/build/pycache"

short_parts="unit cli fuzz format checks"
long_parts="sanitize kernels official transformers containers h5py hdf5 python package gpu compilers slow quickstart"
release_parts="sanitize_cli thread neon arm32 windows h5py_all h5examples wheels benches large model mutation valgrind"

# ---- counting -------------------------------------------------------------------------------------

passed=0
failed=0
skipped=0
python_packages_ok=1

count() { # PASSED FAILED SKIPPED
  passed=$((passed + $1))
  failed=$((failed + $2))
  skipped=$((skipped + $3))
  echo "$part: $1 passed, $2 failed, $3 skipped"
}

fail() { # WHAT
  echo "FAIL $part: $1"
  count 0 1 0
}

skip() { # NAME REASON
  echo "SKIP $1: $2"
  count 0 0 1
}

# Counts the tests in a log of ctest, pytest or a script; shows what failed, was skipped or left out.
count_log() { # LOG STATUS
  set -- "build/log/$1.log" "$2" $(awk -f tests/support/count.awk "build/log/$1.log")
  if [ "$4" -ne 0 ]; then
    awk -f tests/support/failures.awk "$1" "$1" | tail -n 100
  elif [ "$2" -ne 0 ]; then
    tail -n 40 "$1"
    fail "exit status $2 with no failure counted; see $1"
  elif [ "$3" -eq 0 ]; then
    fail "no test ran; see $1"
  fi
  sed -n -E 's/^([0-9]+: )?(SKIP |[0-9]+ tests left out)/\2/p' "$1"
  count "$3" "$4" "$5"
}

run_logged() { # LOG COMMAND...
  name=$1
  shift
  status=0
  "$@" >"build/log/$name.log" 2>&1 </dev/null || status=$?
  count_log "$name" "$status"
}

# The tests of a build that have one of the labels.
run_ctest() { # LOG BUILD "LABEL|LABEL..." [CTEST_OPTION...]
  log=$1
  build=$2
  labels=$3
  shift 3
  run_logged "$log" ${in_place:-} ctest --test-dir "build/$build" -L "^($labels)\$" -V --timeout 300 -j "$lmc_jobs" "$@"
}

run_pytest() { # LOG PYTHON ARGUMENT...
  log=$1
  python=$2
  shift 2
  run_logged "$log" "$python" -m pytest -q --build=build/test "$@"
}

# The same where it may be the system that has failed, as Wine does at times: the tests that failed are shown and run
# again, and the second time counts.
run_pytest_twice() { # LOG PYTHON FOLDER ARGUMENT...
  log=$1
  python=$2
  folder=$3
  shift 3
  status=0
  "$python" -m pytest -q "$folder" "$@" >"build/log/$log.log" 2>&1 </dev/null || status=$?
  if [ "$status" -ne 1 ]; then # pytest's status if tests have failed
    count_log "$log" "$status"
    return
  fi
  awk -f tests/support/failures.awk "build/log/$log.log" "build/log/$log.log" | tail -n 100
  echo "$part: those that failed are run again"
  sed -n 's/^FAILED \(.*\) - .*/\1/p' "build/log/$log.log" >"build/log/$log.failed"
  status=0
  xargs -r -d '\n' "$python" -m pytest -q "$@" <"build/log/$log.failed" >"build/log/$log-again.log" 2>&1 || status=$?
  count_log "$log-again" "$status"
  count "$(awk -f tests/support/count.awk "build/log/$log.log" | cut -d ' ' -f 1)" 0 0
}

# ---- builds ---------------------------------------------------------------------------------------

# Sanitizers of older compilers need a predictable address space; some containers forbid to ask for it.
run_ctest_in_place() { # as run_ctest
  ! setarch -R true 2>/dev/null || in_place="setarch -R"
  run_ctest "$@"
  in_place=
}

build_test() {
  lmc_build test -DCMAKE_BUILD_TYPE=Release "-DLMC_WERROR=${LMC_WERROR:-OFF}" -DLMC_BUILD_CUDA=AUTO
}

build_sanitize() {
  lmc_build sanitize -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS_DEBUG=-O1 -g1" \
    "-DLMC_SANITIZE=address;undefined;float-cast-overflow" -DLMC_BUILD_CUDA=AUTO
}

build_thread() {
  lmc_build thread:thread_programs -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS_DEBUG=-O1 -g1" -DLMC_SANITIZE=thread
}

build_valgrind() {
  lmc_build valgrind -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS_DEBUG=-O1 -g1" \
    "-DCMAKE_CROSSCOMPILING_EMULATOR=valgrind;-q;--error-exitcode=9;--leak-check=full"
}

# The cross compiler sees xxhash.h, which is all of its library, but no other header of this machine.
build_cross() { # DIR TOOLCHAIN
  mkdir -p build/cross-include &&
    cp "$(lmc_header_path xxhash.h)" build/cross-include/ &&
    lmc_build "$1" --toolchain "$root/tests/format/cross/$2.cmake" -DCMAKE_BUILD_TYPE=Release \
      "-DLMC_WERROR=${LMC_WERROR:-OFF}" -DLMC_BUILD_TOOLS=OFF -DLMC_BUILD_FILTER=OFF \
      "-DLMC_XXHASH_INCLUDE_DIR=$root/build/cross-include"
}

build_neon() { build_cross neon aarch64; }

build_arm32() { build_cross arm32 armhf; }

# Runs the rest of a part only if its build works; each build is tried once.
builds_done=
with_build() { # BUILD_FUNCTION COMMAND...
  case "$builds_done " in
  *" $1=ok "*) ;;
  *" $1=failed "*)
    fail "the build failed, see above"
    return
    ;;
  *)
    if ! "$1"; then
      builds_done="$builds_done $1=failed"
      fail "the build failed"
      return
    fi
    builds_done="$builds_done $1=ok"
    ;;
  esac
  shift
  "$@"
}

with_venv() { # COMMAND...
  if [ "$python_packages_ok" -eq 1 ]; then
    "$@"
  else
    fail "the Python packages could not be installed"
  fi
}

# ---- parts ----------------------------------------------------------------------------------------

part_unit() { with_build build_test run_ctest unit test 'unit|examples'; }

part_kernels() { with_build build_test each_kernel_set; }

each_kernel_set() {
  chosen=$(build/test/tests/kernels_name) # the part unit has that
  for set in scalar avx2 avx2-nopext avx512; do
    if [ "$set" = "$chosen" ]; then
      continue
    elif [ "$(LMC_KERNELS=$set build/test/tests/kernels_name)" = "$set" ]; then
      export LMC_KERNELS="$set"
      echo "with LMC_KERNELS=$set:"
      run_ctest "kernels-$set" test kernels
      unset LMC_KERNELS
    else
      skip "kernels-$set" "this machine does not have it"
    fi
  done
}

part_neon() {
  emulated "gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user" "qemu-aarch64 -L /usr/aarch64-linux-gnu" neon,scalar
}

part_arm32() {
  emulated "gcc-arm-linux-gnueabihf libc6-dev-armhf-cross qemu-user" "qemu-arm -L /usr/arm-linux-gnueabihf" scalar
}

build_windows() {
  sources=$root/build/dependencies/src
  lmc_dependencies_for windows x86_64-w64-mingw32-gcc x86_64-w64-mingw32-ar &&
    lmc_build windows --toolchain "$root/tests/format/cross/windows.cmake" -DCMAKE_BUILD_TYPE=Release \
      "-DLMC_WERROR=${LMC_WERROR:-OFF}" -DLMC_VENDORED_CJSON=ON "-DLMC_XXHASH_INCLUDE_DIR=$sources" \
      "-DLMC_ZSTD_INCLUDE_DIR=$sources" "-DLMC_ZSTD_LIBRARY=$root/build/dependencies/windows/libzstd.a" \
      "-DLMC_SQLITE_INCLUDE_DIR=$sources" "-DLMC_SQLITE_LIBRARY=$root/build/dependencies/windows/libsqlite3.a"
}

part_windows() {
  if ! lmc_has gcc-mingw-w64-x86-64 || ! lmc_has wine; then
    skip windows "needs a cross compiler and Wine (Debian: gcc-mingw-w64-x86-64 wine wine64)"
  elif ! lmc_dependency_sources; then
    skip windows "needs the sources of zstd and SQLite from the package index"
  else
    with_build build_test with_build build_windows by_wine
  fi
}

by_wine() {
  run_ctest windows windows unit
  run_pytest windows-frames "$lmc_pytest" tests/format/cross -n "$lmc_jobs" --cross build/windows \
    --emulator "sh $root/tests/support/wine.sh" --sets avx2,scalar
  run_pytest_twice windows-cli "$lmc_pytest" tests/cli -n auto --build build/windows
  WINEPREFIX="$root/build/wine" wineserver --kill || true
}

emulated() { # PACKAGES EMULATOR SETS
  for package in $1; do
    if ! lmc_has "$package"; then
      skip "$part" "needs a cross compiler and qemu (Debian: $1)"
      return
    fi
  done
  with_build build_test with_build "build_$part" beside_native_build "$part" "$2" "$3"
}

beside_native_build() { # BUILD EMULATOR SETS
  run_ctest "$1" "$1" unit --timeout 900
  run_pytest "$1-frames" "$lmc_pytest" tests/format/cross -n "$lmc_jobs" --cross "build/$1" --emulator "$2" \
    --sets "$3"
}

part_sanitize() {
  with_build build_sanitize run_ctest_in_place sanitize sanitize 'unit|examples|fuzz|cli|checks'
}

part_sanitize_cli() {
  with_build build_sanitize run_pytest sanitize_cli "$lmc_pytest" tests/cli -n auto --build build/sanitize
}

part_fuzz() { with_build build_test run_ctest fuzz test fuzz; }
part_cli() { with_build build_test run_ctest cli test cli; }
part_slow() { with_build build_test run_pytest slow "$lmc_pytest" tests/cli -m "slow and not large" -n "$lmc_jobs"; }
part_large() { with_build build_test run_pytest large "$lmc_pytest" tests/cli tests/unit/gpu -m large; }
part_checks() { with_build build_test run_ctest checks test checks; }
part_compilers() { with_build build_test run_ctest compilers test compilers; }
part_benches() { with_build build_test run_ctest benches test benches; }

part_gpu() {
  if lmc_venv_wheel; then
    export LMC_NVRTC="$(echo "$lmc_venv_dir"/lib/python3*/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.*)"
    with_build build_test run_ctest gpu test gpu
  else
    skip gpu "needs NVRTC from the package index"
  fi
}

part_package() { with_build build_test run_ctest package test package; }

part_quickstart() { with_build build_test run_ctest quickstart test quickstart; }

part_format() {
  with_build build_test run_pytest format "$lmc_pytest" tests/format/reference -n "$lmc_jobs"
}

part_official() {
  with_venv with_build build_test run_pytest official "$lmc_python" tests/interop/official -n "$lmc_jobs"
}

venv_old_torch() {
  lmc_venv_torch transformers==4.49.0 safetensors==0.8.0 'numpy<2' ml_dtypes==0.5.1 pytest pytest-xdist
}

part_transformers() {
  if venv_old_torch; then
    with_build build_test run_pytest transformers "$lmc_python_torch" tests/interop/transformers -n "$lmc_jobs"
  else
    skip transformers "needs torch (Debian: python3-torch python3-venv) and transformers from the package index"
  fi
}

part_containers() {
  in_venv containers-old venv_old_torch "$needs_torch" tests/interop/containers
  in_venv containers-now lmc_venv_torch_now "$needs_torch_now" tests/interop/containers
}

needs_torch="needs torch (Debian: python3-torch python3-venv) and a package index"
needs_torch_now="needs torch from the package index"

in_venv() { # LOG SET_UP REASON ARGUMENT...: pytest in the environment that SET_UP makes
  log=$1
  if "$2"; then
    shift 3
    with_build build_test run_pytest "$log" "$lmc_venv_dir/bin/python" "$@" -n "$lmc_jobs" --dist loadfile -W ignore
  else
    skip "$log" "$3"
  fi
}

part_hdf5() {
  if lmc_venvs_h5; then
    lmc_venv_keras || echo "set-up: the cases with Keras will be skipped"
    with_build build_test run_pytest hdf5 "$lmc_pytest" tests/interop/hdf5 -n "$lmc_jobs" --venvs build
  else
    skip hdf5 "needs Debian's python3-h5py and h5py from the package index"
  fi
}

part_h5py() { h5py_in 110 220; }
part_h5py_all() { h5py_in $lmc_h5_beds; }

h5py_in() { # BED...
  if lmc_has hdf5-tools && lmc_venvs_h5; then
    with_build build_test h5py_in_beds "$@"
  else
    skip "$part" "needs h5py and HDF5's tools (Debian: python3-h5py python3-venv hdf5-tools) and the package index"
  fi
}

# All versions of HDF5 at a time: first each writes its files, then each reads those of all.
h5py_in_beds() { # BED...
  for tests in write_exchange.py .; do
    for bed in "$@"; do
      {
        status=0
        "build/venv-h5-$bed/bin/python" -W ignore -m pytest -q -W ignore --bed "$bed" "tests/interop/h5py/$tests" \
          >"build/log/$part-$bed.log" 2>&1 </dev/null || status=$?
        echo "$status" >"build/log/$part-$bed.status"
      } &
    done
    wait
    for bed in "$@"; do
      echo "with the HDF5 of $bed:"
      count_log "$part-$bed" "$(cat "build/log/$part-$bed.status")"
    done
  done
}

part_h5examples() {
  if lmc_venvs_h5; then
    with_build build_test run_logged h5examples sh tests/interop/h5examples/run.sh build/test \
      $(for bed in $lmc_h5_beds; do echo "build/venv-h5-$bed/bin/python"; done)
  else
    skip h5examples "needs Debian's python3-h5py and h5py from the package index"
  fi
}

# All tests but the types and those of memory with an old torch; with a current one and with jax those that are about
# frameworks.
part_python() {
  at=tests/python/test_python
  in_venv python-old lmc_venv_python "$needs_torch" tests/python --ignore tests/python/test_wheel.py \
    --ignore tests/python/test_wheels.py --ignore tests/python/windows \
    --ignore "${at}_lightning.py" --ignore "${at}_diffusers.py" --ignore "${at}_types.py" --ignore "${at}_memory.py" \
    --ignore tests/python/stores --ignore tests/python/distributed
  in_venv python-now lmc_venv_torch_now "$needs_torch_now" "${at}_frameworks.py" "${at}_lightning.py" \
    "${at}_diffusers.py" "${at}_transformers.py" "${at}_keras.py" "${at}_document.py" "${at}_torch.py" \
    "${at}_numpy.py" "${at}_codec.py" "${at}_types.py" "${at}_run.py" "${at}_run_callback.py" "${at}_cuda.py" \
    "${at}_store.py" "${at}_memory.py" "${at}_objects.py" "${at}_shown.py" \
    "${at}_transformers_enable.py" "${at}_vllm.py" "${at}_vllm_parts.py" "${at}_changes.py" \
    "${at}_changes_torch.py" "${at}_rl.py" "${at}_fsspec.py"
  in_venv python-keras lmc_venv_keras "needs Keras and jax from the package index" "${at}_keras.py" "${at}_h5.py" \
    "${at}_h5_repack.py" "${at}_numpy.py" "${at}_frameworks.py"
  in_venv python-distributed lmc_venv_torch_now "$needs_torch_now" tests/python/distributed
  in_venv python-stores lmc_venv_stores "needs Zarr, Dask and fsspec from the package index" tests/python/stores
}

part_wheels() {
  if sh python/build_wheel.sh all >build/log/wheels.txt; then
    with_build build_test run_pytest wheels "$lmc_pytest" tests/python/test_wheel.py tests/python/test_wheels.py \
      --wheel "$(ls dist/lmcodec-*manylinux*"_$(uname -m)"*.whl)" --wheels dist -n "$lmc_jobs" --dist loadfile
  else
    fail "the wheels could not be built"
  fi
  python_for_windows dist/lmcodec-*-win_amd64.whl
}

python_for_windows() { # WHEEL
  if lmc_has gcc-mingw-w64-x86-64 && lmc_has wine && lmc_windows_python; then
    run_pytest "$part-windows" "$lmc_pytest" tests/python/windows -n "$lmc_jobs" --wheel "$1"
    WINEPREFIX="$root/build/wine" wineserver --kill || true
  else
    skip "$part-windows" "needs Wine, MinGW, Python 3.11 as /usr/bin/python3, and the package index"
  fi
}

part_thread() { with_build build_thread run_ctest_in_place thread thread threads; }

part_search() {
  printf 'int LLVMFuzzerTestOneInput(const char *d, long n) { return d == 0 && n; }\n' >build/probe.c
  if ! clang -fsanitize=fuzzer -o build/probe build/probe.c 2>/dev/null; then
    skip search "needs clang with libFuzzer (Debian: clang libclang-rt-14-dev)"
  elif lmc_build fuzz -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS_DEBUG=-O1 -g" \
    -DLMC_BUILD_FUZZERS=ON -DLMC_BUILD_TESTS=OFF "-DLMC_SANITIZE=address;undefined"; then
    with_build build_test search_all
  else
    fail "the build failed"
  fi
}

# As many targets at a time as there are jobs.
search_all() {
  targets="frame_decode round_trip h5_decode h5_round_trip st_header st_container st_archive st_restore st_writer"
  python3 tests/fuzz/corpus.py seeds build/test
  python3 tests/fuzz/corpus.py unpack build/fuzz/corpus
  running=0
  for target in $targets; do
    case $target in
    frame_decode | round_trip) search "$target" -max_len=20000 ;;
    h5_*) search "$target" -max_len=4096 -malloc_limit_mb=400 ;;
    *) search "$target" -max_len=4096 -malloc_limit_mb=400 -dict=tests/fuzz/st.dict ;;
    esac &
    running=$((running + 1))
    [ $((running % lmc_jobs)) -ne 0 ] || wait
  done
  wait
  for target in $targets; do
    if [ "$(cat "build/log/search-$target.status")" -eq 0 ]; then
      count 1 0 0
    else
      tail -n 40 "build/log/search-$target.log"
      fail "the input that breaks $target is in build/fuzz/"
    fi
  done
}

search() { # TARGET OPTION...
  target=$1
  shift
  status=0
  mkdir -p "build/fuzz/found-$target"
  "build/fuzz/tests/fuzz/${target}_fuzz" "-max_total_time=${LMC_SEARCH_SECONDS:-10}" -timeout=10 \
    -rss_limit_mb=2048 "$@" \
    "-artifact_prefix=build/fuzz/$target-" "build/fuzz/found-$target" "build/fuzz/corpus/$target" \
    "build/test/tests/fuzz/seeds/$target" >"build/log/search-$target.log" 2>&1 || status=$?
  echo "$status" >"build/log/search-$target.status"
}

part_model() {
  if sh examples/fetch_model.sh --bf16 --f16 --fp8 --int8 >build/log/model.log 2>&1 </dev/null &&
    sh examples/quickstart.sh build/model/*.safetensors >>build/log/model.log 2>&1 </dev/null; then
    count 1 0 0
  else
    tail -n 40 build/log/model.log
    fail "fetch_model.sh or quickstart.sh"
  fi
}

part_valgrind() { with_build build_valgrind run_ctest valgrind valgrind 'unit|examples' --timeout 3600 -E st_memory; }

part_mutation() { run_logged mutation "$lmc_pytest" tests/mutation/run.py; }

# ---- main -----------------------------------------------------------------------------------------

wants() { # PART...: is one of these to run?
  for wanted in "$@"; do
    case " $parts " in *" $wanted "*) return 0 ;; esac
  done
  return 1
}

# What some tests alone need. lmc_apt ends the script when it fails: here the subshell only.
apt_for() { # "PART..." WHAT PACKAGE...
  if wants $1; then
    what=$2
    shift 2
    (lmc_apt "$@") || echo "set-up: $what will be skipped"
  fi
}

parts=
for name in "$@"; do
  case " $short_parts $long_parts $release_parts search all release " in
  *" $name "*) ;;
  *)
    echo "run.sh: no part named '$name'; there are: $short_parts $long_parts $release_parts search all release" >&2
    exit 2
    ;;
  esac
  [ "$name" = all ] && name="$short_parts $long_parts"
  [ "$name" = release ] && name="$short_parts $long_parts $release_parts"
  parts="$parts $name"
done
parts=${parts:-$short_parts}

packages="build-essential cmake pkg-config libcunit1-dev libcjson-dev libsqlite3-dev libxxhash-dev libzstd-dev \
  python3 python3-pytest python3-pytest-xdist"
if wants format; then
  packages="$packages python3-xxhash python3-zstandard"
fi
if wants compilers benches; then
  packages="$packages clang libbz2-dev"
fi
if wants official model wheels; then
  packages="$packages python3-venv"
fi
if wants compilers benches sanitize sanitize_cli; then
  packages="$packages libhdf5-dev"
fi
lmc_apt $packages
lmc_find_pytest xxhash zstandard || lmc_find_pytest || true
# shells to complete in, and tools that look at the manual and at system calls
apt_for "cli sanitize_cli slow" "some cases of cli" fish mandoc strace zsh
apt_for "cli slow sanitize sanitize_cli transformers containers package" "the cases of lmc-st mount" fuse3 libfuse3-dev
apt_for "unit kernels" "the example h5_direct_chunks" libhdf5-dev
apt_for "compilers" "the check windows" gcc-mingw-w64-x86-64
apt_for "benches" "a check: pictures or stores," python3-matplotlib python3-zstandard
apt_for "valgrind" "the part valgrind" valgrind
apt_for "package" "the Debian packages, and cases with h5py," debhelper dh-python git libfuse3-dev lintian hdf5-tools \
  python3-h5py
apt_for "neon" "the part neon" gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
apt_for "arm32" "the part arm32" gcc-arm-linux-gnueabihf libc6-dev-armhf-cross qemu-user
apt_for "windows" "the part windows" gcc-mingw-w64-x86-64 wine wine64
apt_for "wheels" "wheels for systems that are not here" gcc-mingw-w64-x86-64 musl wine wine64 qemu-user \
  libc6-dev-arm64-cross
apt_for "hdf5" "the C programs of the part hdf5" libhdf5-dev
apt_for "h5py h5py_all hdf5 h5examples" "h5py, and cases of hdf5 and h5examples," hdf5-tools python3-h5py python3-venv
apt_for "hdf5 h5examples" "the cases with MPI and h5_parallel.py" python3-h5py-mpi openmpi-bin
mkdir -p build/log
if wants official model; then
  lmc_venv numpy safetensors==0.8.0 xxhash zstandard pytest pytest-xdist || python_packages_ok=0
fi

started=$(date +%s)
times=
for part in $parts; do
  echo "== $part"
  part_started=$(date +%s)
  "part_$part"
  times="$times $part $(($(date +%s) - part_started)),"
done
echo "== $(($(date +%s) - started)) s:${times%,}"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
