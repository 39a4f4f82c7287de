# setup.sh - what the commands of bench/ need. To be sourced; needs $root.
#
#   bench_build NAME [CMAKE_OPTION...]  builds LMC and the programs of bench/ in build/NAME, and sets $bench to that
. "$root/tests/support/setup.sh"

bench_build() {
  bench=$root/build/$1
  lmc_apt build-essential cmake pkg-config libcjson-dev libxxhash-dev libzstd-dev libbz2-dev python3
  (cd "$root" && lmc_build "$@" -DCMAKE_BUILD_TYPE=Release -DLMC_BUILD_TESTS=OFF -DLMC_BUILD_BENCH=ON)
}
