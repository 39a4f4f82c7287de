#!/bin/sh
# check_device.sh [--driver FILE] [--mib N] - runs everything that needs a GPU, on a machine that has one, and says what
# passed. It needs a C compiler, CMake, the libraries that LMC needs (docs/install.md), CUnit (Debian: libxxhash-dev
# libzstd-dev libsqlite3-dev libcjson-dev libcunit1-dev), and NVRTC: of a toolkit, or of the Python package
# nvidia-cuda-nvrtc, which torch brings. It needs no network: what else is missing is left out, with a line that says
# so. What takes longest comes last: the tools of compute-sanitizer.
#
#   --driver FILE  the driver's library; libcuda.so.1 by default
#   --mib N        MiB of bf16 for the speeds; 1024 by default
#
# LMC_DEVICE_PYTHON names a Python with torch for CUDA and pytest; python3 by default. LMC_NVRTC names libnvrtc.so,
# which is looked for in that Python's packages and in /usr/local/cuda* by default.
# Exit status: 0 all that ran has passed, 1 something failed, 2 the set-up failed. Logs are in build/device/log.
set -u

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root" || exit 2
driver=libcuda.so.1
mib=1024
while [ "$#" -gt 0 ]; do
  case $1 in
  --driver) driver=${2-} ;;
  --mib) mib=${2-} ;;
  *)
    echo "usage: check_device.sh [--driver FILE] [--mib N]" >&2
    exit 2
    ;;
  esac
  shift 2 || exit 2
done
build=$root/build/device
logs=$build/log
python=${LMC_DEVICE_PYTHON:-python3}
failed=0
export LMC_CUDA_DRIVER="$driver"
mkdir -p "$logs"

left_out() { # NAME REASON
  echo "left out  $1: $2"
}

give_up() { # LOG REASON
  tail -n 20 "$1"
  echo "$2: $1" >&2
  exit 2
}

check() { # NAME COMMAND...: one line; the end of the log if it failed
  name=$1
  shift
  if "$@" >"$logs/$name.log" 2>&1; then
    echo "passed    $name"
  else
    echo "FAILED    $name: $logs/$name.log"
    tail -n 15 "$logs/$name.log"
    failed=1
  fi
}

# ---- the device and the build -----------------------------------------------------------------------------------

if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=name,driver_version,compute_cap,memory.total --format=csv,noheader || echo "nvidia-smi failed"
else
  left_out nvidia-smi "it is not installed"
fi
if ! builder=$(command -v "$python"); then
  echo "there is no $python (LMC_DEVICE_PYTHON)" >&2
  exit 2
fi
cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DLMC_BUILD_CUDA=ON -DLMC_GPU_PYTHON="$builder" \
  -DLMC_NVRTC="${LMC_NVRTC-}" >"$logs/configure.log" 2>&1 || give_up "$logs/configure.log" "nothing can be built"
grep 'Kernels for GPUs' "$logs/configure.log"
cmake --build "$build" --parallel "${LMC_JOBS:-$(getconf _NPROCESSORS_ONLN)}" >"$logs/build.log" 2>&1 ||
  give_up "$logs/build.log" "the build failed"
"$build/tests/gpu_device" >"$logs/device.log" 2>&1 || give_up "$logs/device.log" "no device can be used"
cat "$logs/device.log"

# ---- right results -----------------------------------------------------------------------------------------------

for name in test_gpu_vectors test_gpu_blocks test_gpu_damage test_gpu_rules; do
  check "$name" "$build/tests/$name"
done
for name in bf16_default bf16_fast f32_default f16_max f8_default; do # a GiB of blocks, byte for byte
  check "large_$name" "$build/tests/gpu_large" "$name"
done

# ---- Python ------------------------------------------------------------------------------------------------------

if "$python" -c 'import torch, pytest, sys; sys.exit(not torch.cuda.is_available())' >/dev/null 2>&1; then
  check python env -u LMC_CUDA_DRIVER "$python" -m pytest -q --build "$build" tests/python/test_python_cuda.py
else
  left_out python "$python has no pytest, or no torch that sees a device (LMC_DEVICE_PYTHON)"
fi

# ---- speeds ------------------------------------------------------------------------------------------------------

check speed "$build/tests/gpu_speed" "$mib"
cat "$logs/speed.log"
if "$python" -c 'import torch, sys; from nvidia import nvcomp; sys.exit(not torch.cuda.is_available())' \
  >/dev/null 2>&1; then
  check nvcomp "$python" bench/gpu_nvcomp.py --mib "$mib"
  cat "$logs/nvcomp.log"
else
  left_out nvcomp "$python has no nvidia-nvcomp-cu12 (or cu13), or no torch that sees a device"
fi
left_out dietgpu "it is in no package: github.com/facebookresearch/dietgpu has to be built"

# ---- races and wrong accesses -------------------------------------------------------------------------------------

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | tail -n 1)
if [ -n "$sanitizer" ]; then
  for tool in memcheck racecheck synccheck initcheck; do
    check "${tool}_vectors" "$sanitizer" --tool "$tool" --error-exitcode 1 "$build/tests/test_gpu_vectors" valid
    check "${tool}_blocks" "$sanitizer" --tool "$tool" --error-exitcode 1 "$build/tests/test_gpu_blocks" kernels
  done
  check memcheck_damage "$sanitizer" --tool memcheck --error-exitcode 1 "$build/tests/test_gpu_damage"
else
  left_out compute-sanitizer "it is not installed"
fi

[ "$failed" -eq 0 ] && echo "all that ran has passed"
exit "$failed"
