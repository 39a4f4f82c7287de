"""directories.py KIND DIRECTORY [PLUGIN] - plugins in several places, and ones that come and go.

append    the directory of PLUGIN is added to h5py's search path at run time
two       h5py finds the plugin of HDF5_PLUGIN_PATH, PyTables another copy of it, PLUGIN
gone      the file is removed once it is loaded
replaced  the file is replaced by another copy once it is loaded, and HDF5 is closed and opened again
"""
import ctypes
import os
import shutil
import sys

import h5py

from common import check, loaded, open_plugin, read_h5py, same, weights, write_h5py


def use(path, seed=1):
    write_h5py(h5py, path, weights(seed))
    read_h5py(h5py, path, weights(seed))


def append(path, plugin):
    try:
        use(path)
    except (ValueError, OSError):
        pass
    else:
        raise AssertionError("works without the plugin")
    h5py.h5pl.append(os.path.dirname(plugin).encode())
    use(path)


def two_copies(path, plugin):
    import tables
    from low_level import Hdf5
    use(path)
    hdf5 = Hdf5(next(path for path in loaded("libhdf5-") if "tables.libs" in path))
    check(hdf5.call("H5PLreplace", os.path.dirname(plugin).encode(), 0) == 0, "H5PLreplace")
    for seed in range(3):
        hdf5.create(path + ".other", "w", weights(seed))
        read_h5py(h5py, path + ".other", weights(seed))
        use(path, seed)
        with tables.open_file(path) as file:
            check(same(file.root.w[...], weights(seed)), "PyTables reads other numbers")
    check(len(loaded("libh5lmc")) == 2, "not two copies: %s" % loaded("libh5lmc"))
    for copy in loaded("libh5lmc"):
        check(open_plugin(copy).lmc_h5_last_error() == b"", "a message")


def only_plugin():
    return os.path.join(os.environ["HDF5_PLUGIN_PATH"], "libh5lmc.so")


def gone(path, _):
    use(path)
    os.unlink(only_plugin())
    for seed in range(3):
        use(path, seed)


def replaced(path, _):
    use(path)
    content = weights(2)
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("w", data=content, chunks=(16, content.shape[1]), compression=59810)
        # as an installation does it: a new file takes the name
        shutil.copy(only_plugin(), only_plugin() + ".new")
        os.rename(only_plugin() + ".new", only_plugin())
        file.flush()
        dataset[...] = content
    read_h5py(h5py, path, content)
    hdf5 = ctypes.CDLL(next(path for path in loaded("libhdf5") if "_hl" not in path and "_cpp" not in path))
    check(hdf5.H5close() >= 0 and hdf5.H5open() >= 0, "H5close, H5open")
    with open("/proc/self/maps") as maps:
        check("libh5lmc.so (deleted)" in maps.read(), "the old plugin was unloaded: its threads may have contexts")


kind, directory, *plugin = sys.argv[1:]
{"append": append, "two": two_copies, "gone": gone, "replaced": replaced}[kind](
    os.path.join(directory, "file.h5"), plugin[0] if plugin else None)
