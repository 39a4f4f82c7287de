#!/bin/sh
# run.sh BUILD - installs BUILD to a new place and builds programs against it, outside of the tree: by the
# CMake package and by pkg-config, shared and static. The last line is "N passed, N failed".
set -eu

source=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
build=$1
version=$(sed -n 's/^project(lmc VERSION \([0-9.]*\).*/\1/p' "$source/../../CMakeLists.txt")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

check() { # NAME COMMAND...: runs a command; it must succeed
  name=$1
  shift
  if "$@" >"$work/log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAIL $name: $*"
    cat "$work/log"
  fi
}

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
for file in include/lmc.h include/lmc_st.h bin/lmc-st share/man/man1/lmc-st.1 \
  share/bash-completion/completions/lmc-st share/zsh/site-functions/_lmc-st \
  share/fish/vendor_completions.d/lmc-st.fish; do
  check "installed $file" test -f "$prefix/$file"
done
for file in liblmc.so liblmc.so.0 "liblmc.so.$version" liblmc_st.so; do
  check "installed $file" test -f "$libdir/$file"
done
check "soname" sh -c 'objdump -p "$1" | grep -q "SONAME *liblmc.so.0$"' sh "$libdir/liblmc.so"
check "command runs" "$prefix/bin/lmc-st" --version

check "find_package: configure" cmake -S "$source/find_package" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix"
check "find_package: build" cmake --build "$work/cmake"
for program in user_shared user_static user_st user_cxx; do
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

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
