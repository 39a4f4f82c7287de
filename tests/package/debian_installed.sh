#!/bin/sh
# debian_installed.sh DIRECTORY VERSION - uses the Debian packages of LMC where they are installed, with no variable
# that says where they are. DIRECTORY is for files. The last line is "N passed, N failed[, N skipped]".
set -eu

source=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$1
version=$2
. "$source/checks.sh"
PATH=/usr/bin:/bin
export PATH
unset HDF5_PLUGIN_PATH LD_LIBRARY_PATH PYTHONPATH PKG_CONFIG_PATH LMCODEC_LIBRARY_DIR
model=$source/../../examples/data/step03000.bf16.safetensors

check "lmc-st: version" says "lmc-st $version" lmc-st --version
check "lmc-st: convert" lmc-st convert "$model" -o "$work/model.lmc"
check "lmc-st: restore" lmc-st restore "$work/model.lmc" -o "$work/model"
check "lmc-st: the same file" cmp "$work/model" "$model"
check "lmc-st: finds the plugin" sh -c 'lmc-st doctor | grep "^HDF5 plugin: .*/hdf5/serial/plugins/libh5lmc.so$"'
for file in /usr/share/man/man1/lmc-st.1.gz /usr/share/bash-completion/completions/lmc-st \
  /usr/share/zsh/vendor-completions/_lmc-st /usr/share/fish/vendor_completions.d/lmc-st.fish; do
  check "lmc-st: $file" test -f "$file"
done

for library in "user lmc" "user_st lmc_st" "user_h5 lmc_h5"; do
  set -- $library
  check "liblmc-dev: $1" cc "$source/$1.c" -o "$work/$1" $(pkg-config --cflags --libs "$2")
  check "liblmc-dev: $1 runs" says "$version" "$work/$1"
done
check "liblmc-dev: static" cc -static "$source/user.c" -o "$work/static" $(pkg-config --static --cflags --libs lmc)
check "liblmc-dev: static runs" says "$version" "$work/static"
printf 'cmake_minimum_required(VERSION 3.20)\nproject(user C)\nfind_package(lmc 1.0 REQUIRED)\n' >"$work/CMakeLists.txt"
check "liblmc-dev: find_package" cmake -S "$work" -B "$work/build"

if python3 -c 'import h5py' >"$work/log" 2>&1; then
  check "libhdf5-plugin-lmc: round trip" python3 "$source/h5_round_trip.py" "$work/w.h5"
  if command -v h5dump >"$work/log"; then
    check "libhdf5-plugin-lmc: h5dump" h5dump -d w -c 1,2 "$work/w.h5"
  else
    skip "libhdf5-plugin-lmc: h5dump" "needs h5dump (Debian: hdf5-tools)"
  fi
else
  skip "libhdf5-plugin-lmc" "needs h5py (Debian: python3-h5py)"
fi

check "python3-lmcodec: the version of the package" says "$version" \
  python3 -c 'import importlib.metadata, lmcodec; print(importlib.metadata.version("lmcodec"))'
check "python3-lmcodec: entry points" says lmcodec.numcodecs:Lmc python3 -c \
  'import importlib.metadata as m; print(*(p.value for p in m.entry_points(group="numcodecs.codecs", name="lmc")))'
check "python3-lmcodec: a buffer" says True \
  python3 -c 'import lmcodec; print(bytes(lmcodec.decode(lmcodec.encode(b"12345678" * 99, "F32"))) == b"12345678" * 99)'
check "python3-lmcodec: lists an archive" python3 -m lmcodec ls "$work/model.lmc"
check "python3-lmcodec: finds the plugin" \
  python3 -c 'import lmcodec, os; os.stat(os.path.join(lmcodec.PLUGIN_PATH, "libh5lmc.so"))'
finish
