#!/bin/sh
# build_wheel.sh [--target x86_64|aarch64] - builds the wheel of lmcodec for every Linux with glibc 2.17 or newer
# (manylinux2014), into dist/. The last line is the wheel's path.
#
# It needs Debian's packages build-essential, cmake, libxxhash-dev, libzstd-dev and python3-venv. From the package index
# it installs the tools for wheels and a C compiler into build/venv-wheel: zig, which has the headers and symbols of old
# versions of glibc. SQLite is compiled from the copy in the Python package sqlean.py, for that of the system needs its
# glibc; for aarch64 also zstd, from the copy in zstandard. That wheel is not run here.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
. scripts/setup.sh

target=x86_64
if [ "$#" -eq 2 ] && [ "$1" = --target ]; then
  target=$2
elif [ "$#" -ne 0 ]; then
  target=
fi
case $target in
x86_64 | aarch64) ;;
*)
  echo "usage: build_wheel.sh [--target x86_64|aarch64]" >&2
  exit 2
  ;;
esac
work=$root/build/wheel-$target

lmc_apt build-essential cmake libxxhash-dev libzstd-dev python3-venv >&2
lmc_venv_wheel >&2
venv=$lmc_venv_dir
PATH=$venv/bin:$PATH
zig=$("$venv/bin/python" -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
export ZIG_GLOBAL_CACHE_DIR="$root/build/zig-cache" ZIG_LOCAL_CACHE_DIR="$root/build/zig-cache"

# Only these headers of this machine: others of its C library would be mixed with zig's.
rm -rf "$work/include" "$work/wheel"
mkdir -p "$work/include"
cp "$(lmc_header_path xxhash.h)" "$work/include/"

compiler="$zig cc -target $target-linux-gnu.2.17"
zstd=$(cc -print-file-name=libzstd.a)
zstd_headers=$(dirname "$(lmc_header_path zstd.h)")
if [ "$target" != "$(uname -m)" ]; then
  zstd=$work/zstd/libzstd.a
  zstd_headers=$work/zstd
  if [ ! -e "$zstd" ]; then # the package has all of zstd in one file
    mkdir -p "$work/zstd"
    pip download -q --no-deps --no-binary :all: -d "$work/zstd" zstandard==0.25.0 >&2
    tar -xzf "$work/zstd/zstandard-0.25.0.tar.gz" -C "$work/zstd" --strip-components 2 zstandard-0.25.0/zstd
    $compiler -O3 -DNDEBUG -fPIC -c "$work/zstd/zstd.c" -o "$work/zstd/zstd.o"
    "$zig" ar rcs "$zstd" "$work/zstd/zstd.o"
  fi
fi
sqlite=$work/sqlite/libsqlite3.a
if [ ! -e "$sqlite" ]; then # the package has all of SQLite in one file
  mkdir -p "$work/sqlite"
  pip download -q --no-deps --no-binary :all: -d "$work/sqlite" sqlean.py==3.50.4.5 >&2
  tar -xzf "$work/sqlite/sqlean_py-3.50.4.5.tar.gz" -C "$work/sqlite" --strip-components 2 sqlean_py-3.50.4.5/sqlite
  sed -i '/^#include "init.h"/,$d' "$work/sqlite/sqlite3.c" # behind it stands what registers the package's extensions
  $compiler -O2 -w -DNDEBUG -DSQLITE_THREADSAFE=1 -DSQLITE_OMIT_LOAD_EXTENSION -fPIC -c "$work/sqlite/sqlite3.c" \
    -o "$work/sqlite/sqlite3.o"
  "$zig" ar rcs "$sqlite" "$work/sqlite/sqlite3.o"
fi
cp "$work/sqlite/sqlite3.h" "$zstd_headers/zstd.h" "$zstd_headers/zstd_errors.h" "$work/include/"

# CMake takes one word for these programs.
for tool in ar ranlib; do
  printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$zig" "$tool" >"$work/zig-$tool"
  chmod +x "$work/zig-$tool"
done

log=$root/build/log/build-wheel-$target.log
if ! CC="$compiler" CFLAGS="-include $root/python/manylinux/glibc_2_17.h" LDFLAGS=-Wl,-s \
  CMAKE_BUILD_PARALLEL_LEVEL="$lmc_jobs" _PYTHON_HOST_PLATFORM="linux-$target" \
  python -m build --wheel --no-isolation --outdir "$work/wheel" \
  -Cbuild-dir="$work/cmake" -Cinstall.strip=false \
  -Ccmake.define.CMAKE_SYSTEM_NAME=Linux -Ccmake.define.CMAKE_SYSTEM_PROCESSOR="$target" \
  -Ccmake.define.CMAKE_AR="$work/zig-ar" -Ccmake.define.CMAKE_RANLIB="$work/zig-ranlib" \
  -Ccmake.define.LMC_XXHASH_INCLUDE_DIR="$work/include" -Ccmake.define.LMC_ZSTD_INCLUDE_DIR="$work/include" \
  -Ccmake.define.LMC_ZSTD_LIBRARY="$zstd" -Ccmake.define.LMC_SQLITE_INCLUDE_DIR="$work/include" \
  -Ccmake.define.LMC_SQLITE_LIBRARY="$sqlite" -Ccmake.define.LMC_WERROR=OFF >"$log" 2>&1; then
  grep -E -A 8 'error|Error' "$log" | head -n 40 >&2
  echo "build failed; all of it: $log" >&2
  exit 1
fi

# For another processor auditwheel takes no name of a platform: it finds the oldest that will do.
mkdir -p dist
rm -f dist/lmcodec-*_"$target".whl
if ! auditwheel repair --plat auto --wheel-dir dist "$work"/wheel/*.whl >>"$log" 2>&1 ||
  ! ls dist/lmcodec-*manylinux2014_"$target"*.whl >/dev/null 2>&1; then
  tail -n 20 "$log" >&2
  echo "this is no wheel for manylinux2014; all of it: $log" >&2
  exit 1
fi
echo "$root"/dist/lmcodec-*manylinux2014_"$target"*.whl
