"""plugin_info.py PLUGIN - what HDF5 asks of a plugin: prints its kind (0: a filter), the filter's number, and whether
it encodes and decodes."""

import ctypes
import sys


class FilterClass(ctypes.Structure):
    """H5Z_class2_t, as far as it is looked at."""
    _fields_ = [("version", ctypes.c_int), ("id", ctypes.c_int), ("encoder_present", ctypes.c_uint),
                ("decoder_present", ctypes.c_uint), ("name", ctypes.c_char_p)]


plugin = ctypes.CDLL(sys.argv[1])
plugin.H5PLget_plugin_info.restype = ctypes.POINTER(FilterClass)
info = plugin.H5PLget_plugin_info().contents
print(plugin.H5PLget_plugin_type(), info.id, info.encoder_present, info.decoder_present)
