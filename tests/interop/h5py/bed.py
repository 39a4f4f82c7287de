"""bed.py - one h5py, one HDF5 and LMC's plugin: what all files here import h5py from.

The plugin is looked for in LMC_PLUGIN_DIR, or in build/test/filter/plugin. HDF5 reads its search path once, so it is
set here before h5py is imported. Settings of LMC in the environment do not reach the tests, but for the kernel set.
"""

import itertools
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
PLUGIN_DIR = os.path.abspath(os.environ.get("LMC_PLUGIN_DIR") or os.path.join(ROOT, "build/test/filter/plugin"))
PLUGIN = os.path.join(PLUGIN_DIR, "libh5lmc.so")

if not os.path.isfile(PLUGIN):
    raise SystemExit(f"there is no {PLUGIN}: build LMC, or say where in LMC_PLUGIN_DIR")
os.environ["HDF5_PLUGIN_PATH"] = PLUGIN_DIR
for setting in ("HDF5_PLUGIN_PRELOAD", "LMC_NUM_THREADS", "LMC_H5_DEBUG"):
    os.environ.pop(setting, None)

import h5py  # noqa: E402

HDF5 = tuple(int(part) for part in h5py.version.hdf5_version.split(".")[:3])
BED = "".join(str(part) for part in HDF5) if HDF5[0] > 1 else f"{HDF5[0]}{HDF5[1]}"  # 110, 114, 200, 220

FILTER_ID = 59810
FILTER_NAME = "lmc (needs LMC's plugin libh5lmc.so in a directory of HDF5_PLUGIN_PATH)"
MAGIC = 0x31434D4C
OVERHEAD_MAX = 64

OPTIONAL = h5py.h5z.FLAG_OPTIONAL
MANDATORY = 0

EXCHANGE = os.path.abspath(os.environ.get("LMC_H5_EXCHANGE", os.path.join(ROOT, "build", "h5")))


def beds_written():
    """Names of the beds whose files lie in the exchange folder."""
    found = sorted(os.listdir(EXCHANGE)) if os.path.isdir(EXCHANGE) else []
    return [name for name in found if os.path.isfile(os.path.join(EXCHANGE, name, "done"))]


def memory_file(**options):
    """A new file that never reaches the disk."""
    return h5py.File(f"memory{next(memory_files)}.h5", "w", driver="core", backing_store=False, **options)


memory_files = itertools.count()  # HDF5 tells open files apart by their names


def run_program(name, *arguments, plugin=True, **settings):
    """The result of programs.py in a process of its own; settings: environment variables."""
    environment = {key: value for key, value in os.environ.items() if key != "HDF5_PLUGIN_PATH"}
    if plugin:
        environment["HDF5_PLUGIN_PATH"] = PLUGIN_DIR
    command = [sys.executable, "-W", "ignore", os.path.join(HERE, "programs.py"), name, *map(str, arguments)]
    return subprocess.run(command, env={**environment, **settings}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=300)
