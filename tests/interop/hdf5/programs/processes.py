"""processes.py KIND DIRECTORY - fork, multiprocessing and unloading.

after      the filter is used before a fork, and in the child
during     forks while a thread is inside the filter's own code (and outside of HDF5, which holds locks across a fork);
           the children use the filter through h5py
elsewhere  forks while a thread is inside the filter for another libhdf5 (netCDF4's)
fork       a multiprocessing pool by fork; spawn: by spawn
close      H5close, then the end of the interpreter
exit       the end of the interpreter with a file open
reload     the plugin is loaded and unloaded by ctypes, again and again, before and after HDF5 has loaded it
"""
import _ctypes
import ctypes
import multiprocessing
import os
import sys
import threading

import h5py

from common import (CHUNKS, COLUMNS, FILTER, MANY_BLOCKS, check, in_child, loaded, open_plugin,
                    read_h5py, weights, write_h5py)

FORKS = 15
kept = []  # until the interpreter ends


def use(path, seed=1):
    content = weights(seed, 32)
    write_h5py(h5py, path, content, compression_opts=MANY_BLOCKS)
    read_h5py(h5py, path, content)


def fork(work):
    """Runs work() in a forked child, which must end well."""
    _, status = os.waitpid(in_child(work), 0)
    check(status == 0, "the child ended with status %d" % status)


def fork_after(directory):
    path = os.path.join(directory, "%s.h5")
    use(path % "parent")
    for seed in range(3):
        fork(lambda: (read_h5py(h5py, path % "parent", weights(1, 32)), use(path % "child", seed)))
        fork(lambda: fork(lambda: use(path % "grandchild", seed)))
        use(path % "parent")


class Busy:
    """Calls work() in a thread until the end of the block."""

    def __init__(self, work):
        self.work = work
        self.failure = None
        self.ends = threading.Event()
        self.began = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.ends.is_set():
                self.work()
                self.began.set()
        except BaseException as failure:
            self.failure = failure
            self.began.set()

    def __enter__(self):
        self.thread.start()
        self.began.wait()

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()
        check(self.failure is None, "the thread failed: %r" % self.failure)


def fork_during(directory):
    use(os.path.join(directory, "first.h5"))
    plugin = open_plugin()
    content = weights(2, 32)
    bound = ctypes.c_size_t()
    check(plugin.lmc_h5_encode_bound(ctypes.c_size_t(content.nbytes), ctypes.byref(bound)) == 0, "bound")
    stored = ctypes.create_string_buffer(bound.value)
    back = ctypes.create_string_buffer(content.nbytes)
    nbytes = ctypes.c_size_t()

    def work():
        status = plugin.lmc_h5_encode_chunk(None, (ctypes.c_uint * 3)(*MANY_BLOCKS), ctypes.c_size_t(3),
                                            content.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(content.nbytes),
                                            stored, bound, ctypes.byref(nbytes))
        check(status == 0, "encode: %d" % status)
        status = plugin.lmc_h5_decode_chunk(None, stored, nbytes, back, ctypes.c_size_t(content.nbytes),
                                            ctypes.byref(nbytes))
        check(status == 0 and back.raw == content.tobytes(), "decode: %d" % status)

    with Busy(work):
        for seed in range(FORKS):
            fork(lambda: use(os.path.join(directory, "child.h5"), seed))


def fork_elsewhere(directory):
    import netCDF4
    path = os.path.join(directory, "first.h5")
    content = weights(1, 32)
    use(path)

    def work():
        with netCDF4.Dataset(path, "r") as file:
            file.set_auto_mask(False)
            check(file["w"][...].tobytes() == content.tobytes(), "netCDF4 reads other numbers")

    with Busy(work):
        for seed in range(FORKS):
            fork(lambda: use(os.path.join(directory, "child.h5"), seed))


def use_in_pool(task):
    directory, seed = task
    read_h5py(h5py, os.path.join(directory, "parent.h5"), weights(1, 32))
    use(os.path.join(directory, "%d.h5" % seed), seed)
    return seed


def run_pool(method, directory):
    use(os.path.join(directory, "parent.h5"))
    tasks = [(directory, seed) for seed in range(8)]
    with multiprocessing.get_context(method).Pool(3) as pool:
        check(sorted(pool.map(use_in_pool, tasks)) == list(range(8)), "not all tasks were done")
    for _, seed in tasks:
        read_h5py(h5py, os.path.join(directory, "%d.h5" % seed), weights(seed, 32))


def close_library(directory):
    use(os.path.join(directory, "a.h5"))
    hdf5 = ctypes.CDLL(next(path for path in loaded("libhdf5") if "_hl" not in path and "_cpp" not in path))
    check(hdf5.H5close() >= 0, "H5close failed")
    print("closed; still there:", *loaded("libh5lmc"))


def leave_open(directory):
    use(os.path.join(directory, "a.h5"))
    file = h5py.File(os.path.join(directory, "open.h5"), "w")
    file.create_dataset("w", data=weights(5), chunks=CHUNKS, compression=FILTER, compression_opts=MANY_BLOCKS)
    kept.append(file)


def reload_plugin(directory):
    path = os.path.join(os.environ["HDF5_PLUGIN_PATH"], "libh5lmc.so")
    for use_it in (False, True):
        for _ in range(100):
            library = open_plugin(path)
            check(library.lmc_h5_last_error() == b"", "a message")
            if use_it:
                use(os.path.join(directory, "a.h5"))
                use_it = False
            _ctypes.dlclose(library._handle)
        check(loaded("libh5lmc"), "the plugin was unloaded: it must stay")
    use(os.path.join(directory, "b.h5"))


KINDS = {"after": fork_after, "during": fork_during, "elsewhere": fork_elsewhere,
         "fork": lambda directory: run_pool("fork", directory), "spawn": lambda directory: run_pool("spawn", directory),
         "close": close_library, "exit": leave_open, "reload": reload_plugin}

if __name__ == "__main__":
    KINDS[sys.argv[1]](sys.argv[2])
