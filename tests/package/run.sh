#!/bin/sh
# run.sh BUILD - installs BUILD to a new place and builds programs against it, outside of the tree: by the
# CMake package and by pkg-config, shared and static. The last line is "N passed, N failed[, N skipped]".
set -eu

source=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
build=$1
root=$source/../..
version=$(sed -n 's/^project(lmc VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
soversion=${version%%.*}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$source/checks.sh"

says_version() { # PROGRAM: runs it; it must print the version of the project
  [ "$("$@")" = "$version" ]
}

# Installed at one place and moved to another: nothing in it may hold the first.
cmake --install "$build" --prefix "$work/first" >"$work/log" 2>&1 || {
  cat "$work/log"
  echo "0 passed, 1 failed"
  exit 1
}
prefix=$work/moved
mv "$work/first" "$prefix"
libdir=$(dirname "$(find "$prefix" -name liblmc.a)")
for file in include/lmc.h include/lmc_experimental.h include/lmc_st.h include/lmc_run.h include/lmc_h5.h \
  include/lmc_cuda.h bin/lmc-st \
  share/man/man1/lmc-st.1 share/bash-completion/completions/lmc-st share/zsh/site-functions/_lmc-st \
  share/fish/vendor_completions.d/lmc-st.fish; do
  check "installed $file" test -f "$prefix/$file"
done
for file in liblmc.so "liblmc.so.$soversion" "liblmc.so.$version" liblmc_st.so liblmc_h5.so \
  "liblmc_h5.so.$soversion" liblmc_h5.a liblmc_cuda.so "liblmc_cuda.so.${version%.*}" liblmc_cuda.a; do
  check "installed $file" test -f "$libdir/$file"
done
check "soname" sh -c 'objdump -p "$1" | grep -q "SONAME *liblmc.so.$2\$"' sh "$libdir/liblmc.so" "$soversion"
check "command runs" "$prefix/bin/lmc-st" --version
check "command finds the moved plugin" sh -c '"$1" doctor | grep "^HDF5 plugin:   $2.*/lmc/hdf5/libh5lmc.so$"' sh \
  "$prefix/bin/lmc-st" "$prefix"

check "find_package: configure" cmake -S "$source/find_package" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix"
check "find_package: build" cmake --build "$work/cmake"
for program in user_shared user_static user_st user_cxx user_h5 user_h5_static; do
  check "find_package: $program" says_version "$work/cmake/$program"
done
mkdir "$work/newer"
printf 'cmake_minimum_required(VERSION 3.20)\nproject(newer NONE)\nfind_package(lmc 99.0 REQUIRED)\n' \
  >"$work/newer/CMakeLists.txt"
check "find_package: a newer version is not there" sh -c \
  '! cmake -S "$1" -B "$1/build" -DCMAKE_PREFIX_PATH="$2"' sh "$work/newer" "$prefix"

PKG_CONFIG_PATH=$libdir/pkgconfig
export PKG_CONFIG_PATH
check "pkg-config: version" test "$(pkg-config --modversion lmc)" = "$version"
check "pkg-config: version of lmc_st" test "$(pkg-config --modversion lmc_st)" = "$version"
check "pkg-config: shared" cc "$source/user.c" -o "$work/shared" $(pkg-config --cflags --libs lmc)
check "pkg-config: shared runs" says_version env LD_LIBRARY_PATH="$libdir" "$work/shared"
check "pkg-config: static" cc -static "$source/user.c" -o "$work/static" $(pkg-config --static --cflags --libs lmc)
check "pkg-config: static runs" says_version "$work/static"
check "pkg-config: lmc_st" cc "$source/user_st.c" -o "$work/st" $(pkg-config --cflags --libs lmc_st)
check "pkg-config: lmc_st runs" says_version env LD_LIBRARY_PATH="$libdir" "$work/st"
check "pkg-config: lmc_h5" cc "$source/user_h5.c" -o "$work/h5" $(pkg-config --cflags --libs lmc_h5)
check "pkg-config: lmc_h5 runs" says_version env LD_LIBRARY_PATH="$libdir" "$work/h5"
check "pkg-config: lmc_h5 has the usual number" says 59810 env LD_LIBRARY_PATH="$libdir" "$work/h5" number
check "pkg-config: lmc_h5 static" \
  cc -static "$source/user_h5.c" -o "$work/h5_static" $(pkg-config --static --cflags --libs lmc_h5)
check "pkg-config: lmc_h5 static runs" says_version "$work/h5_static"

# The plugin: alone in the directory that pkg-config tells, and loaded from there.
plugin_dir=$(pkg-config --variable=plugindir lmc_h5)
check "plugin: alone in its directory" says libh5lmc.so ls -A "$plugin_dir"
check "plugin: says what it is" says "0 59810 1 1" python3 "$source/plugin_info.py" "$plugin_dir/libh5lmc.so"
if /usr/bin/python3 -c 'import h5py' >"$work/log" 2>&1; then
  check "plugin: found by h5py" says True env HDF5_PLUGIN_PATH="$plugin_dir" \
    /usr/bin/python3 -c 'import h5py; print(h5py.h5z.filter_avail(59810))'
  check "plugin: round trip" env HDF5_PLUGIN_PATH="$plugin_dir" /usr/bin/python3 "$source/h5_round_trip.py" "$work/1.h5"
else
  skip "plugin found by h5py" "needs h5py (Debian: python3-h5py)"
fi

# The plugin by the compiler alone, as a program that brings it with itself builds it.
mkdir "$work/plain"
check "plugin without CMake: builds" python3 "$source/plain_plugin.py" "$work/plain/libh5lmc.so" -O0
check "plugin without CMake: says what it is" says "0 59810 1 1" \
  python3 "$source/plugin_info.py" "$work/plain/libh5lmc.so"
if /usr/bin/python3 -c 'import h5py' >"$work/log" 2>&1; then
  check "plugin without CMake: round trip" env HDF5_PLUGIN_PATH="$work/plain" \
    /usr/bin/python3 "$source/h5_round_trip.py" "$work/2.h5"
else
  skip "plugin without CMake: round trip" "needs h5py (Debian: python3-h5py)"
fi

# The Python package with a link to the installed library, which finds liblmc beside itself and not beside the link.
mkdir -p "$work/python"
cp -r "$root/python/lmcodec" "$work/python/"
mkdir "$work/python/lmcodec/_native"
ln -s "$libdir/liblmc_st.so.$soversion" "$work/python/lmcodec/_native/"
check "lmcodec: by a link" says True env PYTHONPATH="$work/python" \
  python3 -c 'import lmcodec; print(lmcodec.decode(lmcodec.encode(b"1234" * 99, "F32")) == b"1234" * 99)'

# LMC without the filter, and with a number of its own: in one build folder, one after the other.
other=$work/other
options="-DCMAKE_BUILD_TYPE=Debug -DLMC_BUILD_TOOLS=OFF -DLMC_BUILD_TESTS=OFF"
build_and_install() { # PREFIX OPTION...
  other_prefix=$1
  shift
  cmake -S "$root" -B "$other" $options "$@" && cmake --build "$other" --parallel "${LMC_JOBS:-2}" &&
    cmake --install "$other" --prefix "$other_prefix"
}
check "without the filter: builds" build_and_install "$work/bare" -DLMC_BUILD_FILTER=OFF
check "without the filter: no trace of it" says "" find "$work/bare" -name '*h5*'
mkdir "$work/bare_user"
printf 'cmake_minimum_required(VERSION 3.20)\nproject(bare C)\nfind_package(lmc REQUIRED)
if(TARGET lmc::lmc_h5)\n  message(FATAL_ERROR "lmc_h5 is there")\nendif()\n' >"$work/bare_user/CMakeLists.txt"
check "without the filter: the package can be found" \
  cmake -S "$work/bare_user" -B "$work/bare_user/build" -DCMAKE_PREFIX_PATH="$work/bare"
check "filter 32999: builds" build_and_install "$work/32999" -DLMC_BUILD_FILTER=ON -DLMC_H5_FILTER_ID=32999
PKG_CONFIG_PATH=$(dirname "$(find "$work/32999" -name lmc_h5.pc)")
check "filter 32999: the plugin says so" says "0 32999 1 1" \
  python3 "$source/plugin_info.py" "$(pkg-config --variable=plugindir lmc_h5)/libh5lmc.so"
check "filter 32999: pkg-config" cc "$source/user_h5.c" -o "$work/h5_32999" $(pkg-config --cflags --libs lmc_h5)
check "filter 32999: pkg-config passes the number on" says 32999 \
  env LD_LIBRARY_PATH="$PKG_CONFIG_PATH/.." "$work/h5_32999" number
check "filter 32999: find_package" sh -c 'cmake -S "$1" -B "$2" -DCMAKE_PREFIX_PATH="$3" -DLMC_USER_H5_ONLY=ON &&
  cmake --build "$2"' sh "$source/find_package" "$work/cmake_32999" "$work/32999"
for program in user_h5 user_h5_static; do
  check "filter 32999: $program has the number" says 32999 "$work/cmake_32999/$program" number
done
check "filter 70000: refused" sh -c '! cmake -S "$1" -B "$2" -DLMC_H5_FILTER_ID=70000' sh "$root" "$other"

finish
