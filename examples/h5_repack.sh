#!/bin/sh
# h5_repack.sh IN.h5 OUT.h5 - stores all datasets of a file with LMC, by h5repack, and checks it by going back.
# Needs HDF5's tools (Debian: hdf5-tools) and HDF5_PLUGIN_PATH: the directory of libh5lmc.so.
set -eu

if [ $# -ne 2 ]; then
  echo "usage: sh h5_repack.sh IN.h5 OUT.h5" >&2
  exit 2
fi
back=$(mktemp "${TMPDIR:-/tmp}/h5_repack.XXXXXX")
trap 'rm -f "$back"' EXIT

# UD=NUMBER,FLAG,COUNT,VALUES: flag 0 = the filter must be there; no values = level default (fast: UD=59810,0,1,1).
# A dataset without chunks becomes one chunk; -l CHUNK=ROWSxCOLUMNS gives others. -m: none below 1024 bytes.
h5repack -m 1024 -f UD=59810,0,0 "$1" "$2"

# h5repack does not complain when it cannot use a filter: look whether it is there.
if ! h5ls -r -v "$2" | grep 'Filter-0:  lmc'; then
  echo "h5_repack.sh: LMC was not used: is HDF5_PLUGIN_PATH (now '${HDF5_PLUGIN_PATH:-}') right, and has a dataset" \
    "1024 bytes or more?" >&2
  exit 1
fi
echo "$(wc -c <"$1") bytes are $(wc -c <"$2") now"

# And back: the plugin is needed here too, and by everybody who reads the file.
h5repack -f NONE "$2" "$back"
h5diff "$1" "$back"
echo "the same contents come back"
