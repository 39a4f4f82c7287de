#!/bin/sh
# run.sh - builds and runs the tests of LMC, and installs what that needs (it says what).
#
#   sh tests/run.sh              everything but the slow parts
#   sh tests/run.sh all          everything
#   sh tests/run.sh NAME...      the parts named
#
# parts:  unit        CUnit programs and small examples
#         kernels     the same once per kernel set
#         neon        the kernels and the codec built for AArch64 and run by qemu: tests, and frames as of this machine
#         arm32       the same for 32-bit ARM, where a size_t is narrower than the numbers in a frame
#         sanitize    unit and cli with address and undefined behaviour sanitizers
#         fuzz        stored inputs through the fuzz targets, with sanitizers
#         cli         the command lmc-st, good and bad cases
#         reference   the Python reference decoders and reader: frozen, random and damaged frames and chunks of
#                     the HDF5 filter; archives of lmc-st, forged and damaged ones
#         hdf5        the HDF5 filter in the programs of the world: several libhdf5 in a process, threads, fork, kills,
#                     C programs, MPI, Keras
#         official    the safetensors package opens every archive; its verdict on good and bad headers; the
#                     library writes the files that it writes
#         transformers  models of the transformers library go through lmc-st and load again
#         h5py        the HDF5 filter in four versions of HDF5, each reading what the others wrote
#         h5examples  examples of the HDF5 filter in Python and for the shell, with four versions of HDF5
#         package     programs outside the tree against an installed LMC
#         checks      rules of the source: layers, exports, format document, text, warnings; the programs of bench/ run
#         format      clang-format
#         quickstart  the quick start of the README
# slow:   large       the command on files of several GiB (sparse, but as much to read)
#         thread      the CUnit programs with the thread sanitizer
#         search      fuzzing for new inputs, 40 seconds a target (clang)
#         model       the quick start with a 90 MB model from PyPI
#
# The last line is "N passed, N failed" (", N skipped" after a SKIP line with the reason for each).
# Exit status: 0 all passed, 1 something failed, 2 wrong usage or the set-up failed.
# Logs are in build/log. LMC_JOBS=N sets the number of build and test processes; LMC_WERROR=ON makes a
# warning fail the build.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
. tests/support/setup.sh

quick_parts="unit kernels neon arm32 sanitize fuzz cli reference official transformers h5py hdf5 h5examples package \
  checks format quickstart"
slow_parts="large thread search model"

# ---- counting -------------------------------------------------------------------------------------

passed=0
failed=0
skipped=0
python_packages_ok=1

count() { # PASSED FAILED SKIPPED
  passed=$((passed + $1))
  failed=$((failed + $2))
  skipped=$((skipped + $3))
  echo "$part: $1 passed, $2 failed$([ "$3" -eq 0 ] || echo ", $3 skipped")"
}

fail() { # WHAT
  echo "FAIL $part: $1"
  count 0 1 0
}

skip() { # NAME REASON
  echo "SKIP $1: $2"
  count 0 0 1
}

# Runs a program that ends with "N passed, N failed[, N skipped]"; shows its output only if it failed.
run_counted() { # LOG COMMAND...
  log=build/log/$1.log
  shift
  status=0
  "$@" >"$log" 2>&1 </dev/null || status=$?
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$' "$log" | tail -n 1)
  if [ -z "$line" ]; then
    tail -n 40 "$log"
    fail "no result, exit status $status: $*"
    return
  fi
  set -- $(echo "$line" | tr -cd '0-9 ')
  if [ "$status" -ne 0 ] || [ "$2" -ne 0 ]; then
    tail -n 100 "$log"
  else
    grep '^SKIP ' "$log" || true
  fi
  if [ "$status" -ne 0 ] && [ "$2" -eq 0 ]; then
    echo "FAIL $part: exit status $status with no failure counted"
    set -- "$1" 1 "${3:-0}"
  fi
  count "$1" "$2" "${3:-0}"
}

# Runs the programs known to ctest and adds up the test functions inside them.
run_ctest() { # LOG BUILD
  log=build/log/$1.log
  $without_aslr ctest --test-dir "build/$2" -V --timeout 300 -j "$lmc_jobs" >"$log" 2>&1 </dev/null || true
  counts=$(awk -f tests/support/ctest_count.awk "$log")
  set -- $counts
  if [ "$2" -ne 0 ]; then
    awk -f tests/support/ctest_failures.awk "$log" "$log" | tail -n 100
  fi
  sed -n 's/^[0-9]*: \(SKIP \)/\1/p' "$log"
  if [ "$1" -eq 0 ] && [ "$2" -eq 0 ]; then
    fail "no test ran; see $log"
  else
    count "$1" "$2" "$3"
  fi
}

# ---- builds ---------------------------------------------------------------------------------------

# Sanitizers of older compilers need a predictable address space; some containers forbid to ask for it.
without_aslr=
use_without_aslr() {
  if setarch -R true 2>/dev/null; then
    without_aslr="setarch -R"
  fi
}

build_test() {
  lmc_build test -DCMAKE_BUILD_TYPE=Release "-DLMC_WERROR=${LMC_WERROR:-OFF}"
}

build_sanitize() {
  lmc_build sanitize -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS_DEBUG=-O1 -g1" \
    "-DLMC_SANITIZE=address;undefined;float-cast-overflow"
}

# The cross compiler sees xxhash.h, which is all of its library, but no other header of this machine.
build_cross() { # DIR TOOLCHAIN
  mkdir -p build/cross-include &&
    cp "$(lmc_header_path xxhash.h)" build/cross-include/ &&
    lmc_build "$1" --toolchain "$root/tests/cross/$2.cmake" -DCMAKE_BUILD_TYPE=Release \
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

part_unit() { with_build build_test run_ctest unit test; }

part_kernels() { with_build build_test each_kernel_set; }

each_kernel_set() {
  for set in scalar avx2 avx512; do
    if [ "$(LMC_KERNELS=$set build/test/tests/kernels_name)" = "$set" ]; then
      export LMC_KERNELS="$set"
      echo "with LMC_KERNELS=$set:"
      run_ctest "kernels-$set" test
      unset LMC_KERNELS
    else
      skip "kernels-$set" "this machine does not have it"
    fi
  done
}

part_neon() {
  if lmc_has gcc-aarch64-linux-gnu && lmc_has libc6-dev-arm64-cross && lmc_has qemu-user; then
    with_build build_test with_build build_neon beside_native_build \
      neon "qemu-aarch64 -L /usr/aarch64-linux-gnu" neon,scalar
  else
    skip neon "needs a cross compiler and qemu (Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)"
  fi
}

part_arm32() {
  if lmc_has gcc-arm-linux-gnueabihf && lmc_has libc6-dev-armhf-cross && lmc_has qemu-user; then
    with_build build_test with_build build_arm32 beside_native_build \
      arm32 "qemu-arm -L /usr/arm-linux-gnueabihf" scalar
  else
    skip arm32 "needs a cross compiler and qemu (Debian: gcc-arm-linux-gnueabihf libc6-dev-armhf-cross qemu-user)"
  fi
}

beside_native_build() { # BUILD EMULATOR SETS
  run_counted "$1" python3 tests/cross/run.py --native build/test --cross "build/$1" --jobs "$lmc_jobs" \
    --emulator "$2" --sets "$3"
  grep '^left out' "build/log/$1.log" || true
}

part_sanitize() { with_build build_sanitize sanitized_tests; }

sanitized_tests() {
  use_without_aslr
  run_ctest sanitize-unit sanitize
  run_counted sanitize-cli $without_aslr python3 tests/cli/run.py --tool build/sanitize/tool/lmc-st \
    --jobs "$lmc_jobs"
  without_aslr=
}

# No input may make the libraries ask for more at once: a header has up to 100 MB, and a number in it takes four
# times the room of its digit and comma.
fuzz_malloc_mb=400

part_fuzz() { with_build build_sanitize replay_corpora; }

replay_corpora() {
  use_without_aslr
  run_counted fuzz-frame $without_aslr build/sanitize/tests/fuzz/frame_decode_replay \
    tests/fuzz/corpus/frame_decode tests/vectors
  run_counted fuzz-round-trip $without_aslr build/sanitize/tests/fuzz/round_trip_replay \
    tests/fuzz/corpus/round_trip
  for target in h5_decode h5_round_trip; do
    run_counted "fuzz-$target" env "ASAN_OPTIONS=max_allocation_size_mb=$fuzz_malloc_mb" $without_aslr \
      "build/sanitize/tests/fuzz/${target}_replay" "tests/fuzz/corpus/$target"
  done
  for target in st_header st_archive st_restore st_writer; do
    run_counted "fuzz-$target" env "ASAN_OPTIONS=max_allocation_size_mb=$fuzz_malloc_mb" $without_aslr \
      "build/sanitize/tests/fuzz/${target}_replay" "tests/fuzz/corpus/$target"
  done
  without_aslr=
}

part_cli() {
  with_build build_test run_counted cli python3 tests/cli/run.py --tool build/test/tool/lmc-st \
    --jobs "$lmc_jobs"
}

part_large() {
  with_build build_test run_counted large python3 tests/cli/run.py --tool build/test/tool/lmc-st --slow \
    --jobs 1
}

part_reference() {
  with_venv with_build build_test run_counted reference "$lmc_python" tests/reference/run.py --build build/test
}

part_hdf5() {
  if lmc_venvs_h5; then
    lmc_venv_keras || echo "set-up: the cases with Keras will be skipped"
    with_build build_test run_counted hdf5 python3 tests/hdf5/run.py --build build/test
  else
    skip hdf5 "needs Debian's python3-h5py and h5py from the package index"
  fi
}

part_official() { with_venv with_build build_test beside_official_package; }

beside_official_package() {
  run_counted official "$lmc_python" tests/official/run.py --tool build/test/tool/lmc-st
  run_counted official-writer "$lmc_python" tests/official/writer.py \
    --library build/test/safetensors/liblmc_st.so
}

part_transformers() {
  if lmc_venv_torch transformers==4.49.0 safetensors==0.8.0 'numpy<2'; then
    with_build build_test run_counted transformers \
      "$lmc_python_torch" tests/transformers/run.py --tool build/test/tool/lmc-st
  else
    skip transformers "needs torch (Debian: python3-torch python3-venv) and transformers from the package index"
  fi
}

part_h5py() {
  if lmc_has hdf5-tools && lmc_venvs_h5; then
    with_build build_test h5py_in_all_beds
  else
    skip h5py "needs h5py and HDF5's tools (Debian: python3-h5py python3-venv hdf5-tools) and the package index"
  fi
}

h5py_in_all_beds() {
  set --
  for bed in $lmc_h5_beds; do
    set -- "$@" --bed "$bed=build/venv-h5-$bed/bin/python"
  done
  run_counted h5py python3 tests/h5py/run.py --plugin build/test/filter/plugin --jobs "$lmc_jobs" "$@"
}

part_h5examples() {
  if lmc_venvs_h5; then
    with_build build_test run_counted h5examples sh tests/h5examples/run.sh build/test \
      $(for bed in $lmc_h5_beds; do echo "build/venv-h5-$bed/bin/python"; done)
  else
    skip h5examples "needs Debian's python3-h5py and h5py from the package index"
  fi
}

part_package() { with_build build_test run_counted package sh tests/package/run.sh build/test; }

part_checks() {
  with_build build_test run_counted checks python3 tests/checks/run.py --build build/test
}

part_format() {
  version=$(clang-format --version 2>/dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p')
  if [ "$version" = 14 ]; then
    if find include codec safetensors filter examples tests bench -name '*.[ch]' \
      -exec clang-format --dry-run -Werror {} + >build/log/format.log 2>&1; then
      count 1 0 0
    else
      grep 'error:' build/log/format.log | cut -d: -f1 | sort | uniq -c
      fail "clang-format -i would change these files"
    fi
  else
    skip format "needs clang-format 14, found ${version:-none}"
  fi
}

part_quickstart() {
  if sh examples/quickstart.sh examples/data/*.safetensors >build/log/quickstart.log 2>&1 </dev/null; then
    count 1 0 0
  else
    tail -n 40 build/log/quickstart.log
    fail "examples/quickstart.sh"
  fi
}

part_thread() {
  use_without_aslr
  if lmc_build thread -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS_DEBUG=-O1 -g" -DLMC_SANITIZE=thread; then
    run_ctest thread thread
  else
    fail "the build failed"
  fi
  without_aslr=
}

part_search() {
  printf 'int LLVMFuzzerTestOneInput(const char *d, long n) { return d == 0 && n; }\n' >build/probe.c
  if ! clang -fsanitize=fuzzer -o build/probe build/probe.c 2>/dev/null; then
    skip search "needs clang with libFuzzer (Debian: clang libclang-rt-14-dev)"
  elif lmc_build fuzz -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS_DEBUG=-O1 -g" \
    -DLMC_BUILD_FUZZERS=ON -DLMC_BUILD_TESTS=OFF "-DLMC_SANITIZE=address;undefined"; then
    for target in frame_decode round_trip; do
      search "$target" -max_len=20000
    done
    for target in h5_decode h5_round_trip; do
      search "$target" -max_len=4096 "-malloc_limit_mb=$fuzz_malloc_mb"
    done
    for target in st_header st_archive st_restore st_writer; do
      search "$target" -max_len=4096 "-malloc_limit_mb=$fuzz_malloc_mb" -dict=tests/fuzz/st.dict
    done
  else
    fail "the build failed"
  fi
}

search() { # TARGET OPTION...
  target=$1
  shift
  mkdir -p "build/fuzz/found-$target"
  if "build/fuzz/tests/fuzz/${target}_fuzz" -max_total_time=40 -timeout=10 -rss_limit_mb=2048 "$@" \
    "-artifact_prefix=build/fuzz/$target-" "build/fuzz/found-$target" \
    "tests/fuzz/corpus/$target" >"build/log/search-$target.log" 2>&1; then
    count 1 0 0
  else
    tail -n 40 "build/log/search-$target.log"
    fail "the input that breaks $target is in build/fuzz/"
  fi
}

part_model() {
  if sh examples/fetch_model.sh --bf16 >build/log/model.log 2>&1 </dev/null &&
    sh examples/quickstart.sh build/model/*.safetensors >>build/log/model.log 2>&1 </dev/null; then
    count 1 0 0
  else
    tail -n 40 build/log/model.log
    fail "fetch_model.sh or quickstart.sh"
  fi
}

# ---- main -----------------------------------------------------------------------------------------

wants() { # PART...: is one of these to run?
  for wanted in "$@"; do
    case " $parts " in *" $wanted "*) return 0 ;; esac
  done
  return 1
}

parts=
for name in "$@"; do
  case " $quick_parts $slow_parts all " in
  *" $name "*) ;;
  *)
    echo "run.sh: no part named '$name'; there are: $quick_parts $slow_parts all" >&2
    exit 2
    ;;
  esac
  [ "$name" = all ] && name="$quick_parts $slow_parts"
  parts="$parts $name"
done
parts=${parts:-$quick_parts}

packages="build-essential cmake pkg-config libcunit1-dev libcjson-dev libxxhash-dev libzstd-dev python3"
if wants checks; then
  packages="$packages clang libbz2-dev"
fi
if wants reference official model; then
  packages="$packages python3-venv"
fi
if wants checks cli sanitize; then
  packages="$packages libhdf5-dev"
fi
lmc_apt $packages
if wants cli; then
  # shells to complete in, and tools that look at the manual and at system calls
  (lmc_apt fish mandoc strace zsh) || echo "set-up: some cases of the part cli will be skipped"
fi
if wants unit kernels; then
  (lmc_apt libhdf5-dev) || echo "set-up: the example h5_direct_chunks will not be built"
fi
if wants checks; then
  (lmc_apt gcc-mingw-w64-x86-64) || echo "set-up: the check windows will be skipped"
fi
if wants neon; then
  (lmc_apt gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user) || echo "set-up: the part neon will be skipped"
fi
if wants arm32; then
  (lmc_apt gcc-arm-linux-gnueabihf libc6-dev-armhf-cross qemu-user) || echo "set-up: the part arm32 will be skipped"
fi
if wants hdf5; then
  (lmc_apt libhdf5-dev) || echo "set-up: the C programs of the part hdf5 will be skipped"
fi
if wants h5py hdf5 h5examples; then
  (lmc_apt hdf5-tools python3-h5py python3-venv) ||
    echo "set-up: h5py, and some cases of hdf5 and h5examples, will be skipped"
fi
if wants hdf5 h5examples; then
  (lmc_apt python3-h5py-mpi openmpi-bin) || echo "set-up: the cases with MPI and h5_parallel.py will be skipped"
fi
mkdir -p build/log
if wants reference official model; then
  lmc_venv numpy safetensors==0.8.0 xxhash zstandard || python_packages_ok=0
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
if [ "$skipped" -eq 0 ]; then
  echo "$passed passed, $failed failed"
else
  echo "$passed passed, $failed failed, $skipped skipped"
fi
[ "$failed" -eq 0 ]
