#!/bin/sh
# checkpoint.sh [checkpoint.py options] - whole checkpoints of a training, as transformers' Trainer writes them: stored
# / original beside zstd, optimizer.pt beside the same tensors in a safetensors file, and with --speed the time and the
# memory of large files of torch beside safetensors files (tool/checkpoint.py says how). Needs torch from the Python
# package index; --speed needs 13 GiB of disk in $TMPDIR and as much memory.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
. "$root/bench/setup.sh"
bench_build
lmc_apt zstd
lmc_venv_torch_now
"$lmc_venv_dir/bin/python" -W ignore "$root/bench/tool/checkpoint.py" "$bench" --json "$bench/checkpoint.json" "$@"
