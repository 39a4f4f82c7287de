#!/bin/sh
# build_wheel.sh [PLATFORM... | all] - builds wheels of lmcodec into dist/, by default the one for this machine's Linux.
# The last lines are their paths.
#
#   manylinux-x86_64 manylinux-aarch64    every Linux with glibc 2.17 or newer (manylinux2014)
#   musllinux-x86_64 musllinux-aarch64    every Linux with musl 1.1 or newer
#   macos-arm64 macos-x86_64              macOS 11.0 or newer
#   windows-x86_64                        Windows 10 or newer
#
# It needs Debian's packages build-essential, cmake, libxxhash-dev and python3-venv, and libfuse3-dev for
# `lmc-st mount`. From the package index it installs the tools for wheels and a C compiler into build/venv-wheel: zig,
# which has the headers and libraries of all these systems. zstd and SQLite are compiled from sources in Python packages
# (lmc_dependency_sources of scripts/setup.sh). No wheel is run here.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
. scripts/setup.sh

all="manylinux-x86_64 manylinux-aarch64 musllinux-x86_64 musllinux-aarch64 macos-arm64 macos-x86_64 windows-x86_64"
[ "$#" -gt 0 ] || set -- "manylinux-$(uname -m)"
[ "$*" != all ] || set -- $all
for platform in "$@"; do
  case " $all " in
  *" $platform "*) ;;
  *)
    echo "build_wheel.sh: no platform named '$platform'; there are: $all" >&2
    exit 2
    ;;
  esac
done

lmc_apt build-essential cmake libxxhash-dev python3-venv >&2
(lmc_apt libfuse3-dev) >&2 || echo "set-up: lmc-st in the wheels will have no mount" >&2
lmc_venv_wheel >&2
venv=$lmc_venv_dir
PATH=$venv/bin:$PATH
zig=$("$venv/bin/python" -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
export ZIG_GLOBAL_CACHE_DIR="$root/build/zig-cache" ZIG_LOCAL_CACHE_DIR="$root/build/zig-cache"

# What the C library of zig's target is, the name by which Python knows the platform, and further options.
describe() { # PLATFORM
  machine=${1#*-}
  flags=
  set_plugin_dir=
  case $1 in
  manylinux-*)
    target=$machine-linux-gnu.2.17
    python_platform=linux-$machine
    flags="-include $root/python/zig/old_libc.h"
    ;;
  musllinux-*)
    target=$machine-linux-musl
    python_platform=musllinux-1-1-$machine
    flags="-include $root/python/zig/old_libc.h"
    ;;
  macos-*)
    target=$(echo "$machine" | sed s/arm64/aarch64/)-macos.11.0
    python_platform=macosx-11.0-$machine
    ;;
  windows-*)
    target=$machine-windows-gnu
    python_platform=win-amd64
    set_plugin_dir=-Ccmake.define.LMC_PLUGIN_DIR_FROM_BIN=../Lib/site-packages/lmcodec/_native/hdf5
    ;;
  esac
}

build() { # PLATFORM
  describe "$1"
  work=$root/build/wheel/$1
  sources=$root/build/dependencies/src
  libraries=$root/build/dependencies/zig-$1
  lmc_dependencies_for "zig-$1" "$zig cc -target $target" "$zig ar"
  rm -rf "$work/wheel" "$sources/fuse3"
  fuse_header=$(lmc_header_path fuse3/fuse_log.h 2>/dev/null) && cp -R "$(dirname "$fuse_header")" "$sources/"
  CFLAGS="$flags" CMAKE_BUILD_PARALLEL_LEVEL="$lmc_jobs" _PYTHON_HOST_PLATFORM="$python_platform" \
    python -m build --wheel --no-isolation --outdir "$work/wheel" \
    -Cbuild-dir="$work/cmake" -Cinstall.strip=false $set_plugin_dir \
    -Ccmake.define.CMAKE_TOOLCHAIN_FILE="$root/python/zig/zig.cmake" \
    -Ccmake.define.LMC_ZIG="$zig" -Ccmake.define.LMC_ZIG_TARGET="$target" -Ccmake.define.LMC_WERROR=OFF \
    -Ccmake.define.LMC_XXHASH_INCLUDE_DIR="$sources" -Ccmake.define.LMC_ZSTD_INCLUDE_DIR="$sources" \
    -Ccmake.define.LMC_ZSTD_LIBRARY="$libraries/libzstd.a" -Ccmake.define.LMC_SQLITE_INCLUDE_DIR="$sources" \
    -Ccmake.define.LMC_SQLITE_LIBRARY="$libraries/libsqlite3.a" -Ccmake.define.LMC_FUSE_INCLUDE_DIR="$sources"
}

# For another processor auditwheel takes no name of a platform: it finds the oldest that will do.
finish() { # PLATFORM
  case $1 in
  manylinux-*)
    rm -f dist/lmcodec-*-manylinux*"_$machine".whl
    auditwheel repair --plat auto --wheel-dir dist "$work"/wheel/*.whl &&
      made=$(ls dist/lmcodec-*manylinux2014_"$machine"*.whl)
    ;;
  *)
    tag=$(echo "$python_platform" | tr .- __)
    rm -f dist/lmcodec-*-"$tag".whl
    made=dist/$(basename "$work"/wheel/lmcodec-*-py3-none-"$tag".whl)
    cp "$work/wheel/$(basename "$made")" dist/
    ;;
  esac
}

mkdir -p dist build/log
paths=
for platform in "$@"; do
  log=$root/build/log/build-wheel-$platform.log
  if ! build "$platform" >"$log" 2>&1; then
    grep -E -A 8 'error|Error' "$log" | head -n 40 >&2
    echo "build failed; all of it: $log" >&2
    exit 1
  fi
  if ! finish "$platform" >>"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "this is no wheel for $platform; all of it: $log" >&2
    exit 1
  fi
  paths="$paths $root/$made"
done
printf '%s\n' $paths
