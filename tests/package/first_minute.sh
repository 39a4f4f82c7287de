#!/bin/sh
# first_minute.sh CLONE DIST - what a new user does, as root on a system that has nothing yet (bare_systems.sh): the
# quick start; Debian packages, and the plugin in the system's HDF5; then the wheel, in an environment.
set -eux
clone=$1
dist=$2
data=$clone/examples/data
work=$(mktemp -d)
cd "$work"

(cd "$clone" && sh examples/quickstart.sh)

cat >use.py <<'PY'
import sys
import h5py, lmcodec, lmcodec.numpy, numpy
a = numpy.random.default_rng(1).normal(size=(512, 512)).astype("float32")
with h5py.File("w.h5", "w") as file:
    file.create_dataset("w", data=a, chunks=(256, 512), compression=59810)
with h5py.File("w.h5") as file:
    assert (file["w"][:] == a).all() and file["w"].id.get_storage_size() < 0.9 * a.nbytes
lmcodec.numpy.save_file({"a": a}, "a.safetensors.lmc")
assert (lmcodec.numpy.load_file("a.safetensors.lmc")["a"] == a).all()
plain, stored = lmcodec.numpy.load_file("m.safetensors"), lmcodec.numpy.load_file(sys.argv[1])
assert plain.keys() == stored.keys() and all((plain[name] == stored[name]).all() for name in plain)
PY

use() { # PYTHON: the command and the package that are found first
  cp "$data/step03000.optim.safetensors" m.safetensors
  lmc-st doctor
  lmc-st convert -f m.safetensors
  lmc-st convert -f "$data/step03010.bf16.safetensors" --base "$data/step03000.bf16.safetensors" -o delta.lmc
  lmc-st restore -f m.safetensors.lmc -o back.safetensors
  cmp back.safetensors m.safetensors
  lmc-st restore -f delta.lmc --base "$data/step03000.bf16.safetensors" -o back.safetensors
  cmp back.safetensors "$data/step03010.bf16.safetensors"
  mkdir -p mnt
  lmc-st mount m.safetensors.lmc mnt
  cmp mnt/m.safetensors m.safetensors
  lmc-st unmount mnt
  "$1" use.py m.safetensors.lmc
}

apt-get install -y "$dist"/*.deb
apt-get install -y fuse3 hdf5-tools python3-h5py python3-venv
use python3 # HDF5_PLUGIN_PATH is not set: Debian's HDF5 has its plugins where the package puts it
h5repack -f UD=59810,0,0 w.h5 w2.h5
h5diff w.h5 w2.h5
apt-get purge -y python3-lmcodec lmc-st libhdf5-plugin-lmc liblmc-dev liblmc1 liblmc-st1 liblmc-h5-1
[ -z "$(find /usr/bin /usr/lib -name '*lmc*')" ]

python3 -m venv env
env/bin/pip install "$dist"/lmcodec-*manylinux*"$(uname -m)"*.whl numpy h5py
PATH=$work/env/bin:$PATH
HDF5_PLUGIN_PATH=$(env/bin/python -c 'import lmcodec; print(lmcodec.PLUGIN_PATH)')
export HDF5_PLUGIN_PATH
use env/bin/python
