"""The structs and calls of lmc_cuda.h, as ctypes. Every call releases the GIL. A package may have no liblmc_cuda."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from .. import _abi, _library

REASON_COUNT = 4

WRITE = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, c_void_p, c_size_t)


class Frame(_abi.Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("frame", c_void_p),
        ("frame_nbytes", c_size_t),
        ("base", c_void_p),
        ("base_nbytes", c_size_t),
        ("device_frame", c_uint64),
        ("device_content", c_uint64),
        ("content_capacity", c_uint64),
    ]


class BatchInfo(_abi.Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("frame_count", c_uint64),
        ("block_count", c_uint64),
        ("content_nbytes", c_uint64),
        ("host_block_count", c_uint64),
        ("image_nbytes", c_size_t),
        ("results_nbytes", c_size_t),
        ("scratch_nbytes_least", c_size_t),
    ]


class Device(_abi.Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("capability_major", c_uint),
        ("capability_minor", c_uint),
        ("multiprocessor_count", c_uint),
        ("thread_block_count", c_uint),
        ("kernels", c_char_p),
    ]


class Launch(_abi.Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("stream", c_void_p),
        ("image", c_uint64),
        ("results", c_uint64),
        ("scratch", c_uint64),
        ("scratch_nbytes", c_uint64),
    ]


class Memory(ctypes.Structure):
    _fields_ = [("write", WRITE), ("user", c_void_p)]


class Report(_abi.Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("block_count", c_uint64),
        ("device_block_count", c_uint64),
        ("host_block_count", c_uint64),
        ("failed_block_count", c_uint64),
        ("device_nbytes", c_uint64),
        ("host_nbytes", c_uint64),
        ("reason_count", c_uint64 * REASON_COUNT),
    ]


class Failure(_abi.Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("frame_index", c_uint64),
        ("block_index", c_uint64),
        ("offset", c_uint64),
        ("found_by_device", c_int),
        ("status", c_int),
    ]


# C name of each struct, for the test that compares them.
STRUCTS = {
    "lmc_cuda_frame": Frame,
    "lmc_cuda_info": BatchInfo,
    "lmc_cuda_device": Device,
    "lmc_cuda_launch": Launch,
    "lmc_cuda_memory": Memory,
    "lmc_cuda_report": Report,
    "lmc_cuda_failure": Failure,
}


class Calls:
    """The calls of a library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        def call(name: str, result: Any, *arguments: Any) -> Any:
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            return function

        self.kernels_text = call("lmc_cuda_kernels_text", c_char_p)
        self.init = call("lmc_cuda_init", c_int, c_void_p, POINTER(_abi.Diag))
        self.batch_create = call("lmc_cuda_batch_create", c_int, c_void_p, c_void_p)
        self.batch_free = call("lmc_cuda_batch_free", None, c_void_p)
        self.batch_clear = call("lmc_cuda_batch_clear", None, c_void_p)
        self.diag = call("lmc_cuda_diag", POINTER(_abi.Diag), c_void_p)
        self.prepare = call("lmc_cuda_prepare", c_int, c_void_p, c_void_p)
        self.batch_info = call("lmc_cuda_batch_info", c_int, c_void_p, c_void_p)
        self.write_image = call("lmc_cuda_write_image", c_int, c_void_p, c_void_p, c_size_t)
        self.decode = call("lmc_cuda_decode", c_int, c_void_p, c_void_p)
        self.finish = call("lmc_cuda_finish", c_int, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p)
        self.failed_block = call("lmc_cuda_failed_block", c_int, c_void_p, c_uint64, c_void_p)


@functools.lru_cache(maxsize=None)
def calls() -> Calls | None:
    """The calls of the package's library, or None if it has none. A build has a library of its own for them."""
    if hasattr(_abi.library, "lmc_cuda_init"):
        return Calls(_abi.library)
    path = _library.find(*_library.library_names("lmc_cuda"))
    return None if path is None else Calls(ctypes.CDLL(path))
