"""low_level.py - HDF5 called by ctypes, to create a dataset with the libhdf5 of a Python package that knows no foreign
filters (PyTables)."""
import ctypes

from common import CHUNKS, FILTER, check

GIVE_IDENTIFIERS = {"H5Fcreate", "H5Screate_simple", "H5Pcreate", "H5Dcreate2"}
UNLIMITED = 2**64 - 1
TRUNCATE = 2  # H5F_ACC_TRUNC
OPTIONAL = 1  # H5Z_FLAG_OPTIONAL
DEFAULT = ctypes.c_int64(0)  # H5P_DEFAULT and H5S_ALL


def sizes(*numbers):
    return (ctypes.c_uint64 * len(numbers))(*numbers)


class Hdf5:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.H5open()

    def call(self, name, *arguments):
        """Identifiers come as c_int64, so that they can be passed on."""
        function = getattr(self.library, name)
        function.restype = ctypes.c_int64 if name in GIVE_IDENTIFIERS else ctypes.c_int
        result = function(*arguments)
        check(result >= 0, "%s failed" % name)
        return ctypes.c_int64(result) if name in GIVE_IDENTIFIERS else result

    def constant(self, name):
        return ctypes.c_int64(ctypes.c_int64.in_dll(self.library, name).value)

    def create(self, path, name, content, values=()):
        """Writes f4 numbers as a dataset that may grow."""
        f4 = self.constant("H5T_IEEE_F32LE_g")
        file = self.call("H5Fcreate", path.encode(), ctypes.c_uint(TRUNCATE), DEFAULT, DEFAULT)
        space = self.call("H5Screate_simple", 2, sizes(*content.shape), sizes(UNLIMITED, content.shape[1]))
        plist = self.call("H5Pcreate", self.constant("H5P_CLS_DATASET_CREATE_ID_g"))
        self.call("H5Pset_chunk", plist, 2, sizes(*CHUNKS))
        self.call("H5Pset_filter", plist, FILTER, ctypes.c_uint(OPTIONAL), ctypes.c_size_t(len(values)),
                  (ctypes.c_uint * len(values))(*values))
        dataset = self.call("H5Dcreate2", file, name.encode(), f4, space, DEFAULT, plist, DEFAULT)
        self.call("H5Dwrite", dataset, f4, DEFAULT, DEFAULT, DEFAULT, content.ctypes.data_as(ctypes.c_void_p))
        for close, number in (("H5Dclose", dataset), ("H5Pclose", plist), ("H5Sclose", space), ("H5Fclose", file)):
            self.call(close, number)
