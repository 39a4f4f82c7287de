# setup.sh - what the commands of bench/ need. To be sourced; needs $root.
#
#   bench_build  builds LMC and the programs of bench/ in $bench
. "$root/scripts/setup.sh"

bench=$root/build/bench

bench_build() {
  lmc_apt build-essential cmake pkg-config libcjson-dev libsqlite3-dev libxxhash-dev libzstd-dev libbz2-dev \
    python3
  (cd "$root" && lmc_build bench -DCMAKE_BUILD_TYPE=Release -DLMC_BUILD_TESTS=OFF -DLMC_BUILD_BENCH=ON)
}
