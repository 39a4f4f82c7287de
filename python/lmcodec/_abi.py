"""The structs and calls of lmc.h, lmc_experimental.h, lmc_st.h, lmc_run.h and lmc_store.h, as ctypes. Every call
releases the GIL.

A struct that may grow has its size in its first member. A test compares the sizes and places of all members with the
headers. What a member means stands there.
"""

from __future__ import annotations

import ctypes
from ctypes import (POINTER, c_char, c_char_p, c_int, c_int64, c_size_t, c_ubyte, c_uint, c_uint32, c_uint64,
                    c_void_p)
from typing import Any

from . import _library

OK, TRUNCATED, CANCELLED = 0, 4, 12
NO_OFFSET = 2**64 - 1
IO = 10
BASE_FILE = 0
CONTAINER_SAFETENSORS = 0
MODE_STORED = 0
RUN_STEP_MAX = 2**63
RUN_UNKNOWN = 2**64 - 1
STORE_DEPTH_MAX = 62
STORE_UNKNOWN = 2**64 - 1
STORE_NO_BASE = ctypes.c_size_t(-1).value
INFO_NBYTES = 32
FORM_NBYTES = 1068
THREAD_COUNT_MAX = 256
LEVELS = {"default": 0, "fast": 1, "max": 2}
FRAME_MODES = ("stored", "coded", "short", "delta")
EVENTS = ("converted", "restored", "verified", "copied", "kept")

PROGRESS = ctypes.CFUNCTYPE(None, c_void_p, c_uint64, c_uint64)
FILE_DONE = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_int, c_uint64, c_uint64)
ALLOCATE = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_size_t)
RELEASE = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)
READ = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, c_void_p, c_size_t)


class Sized(ctypes.Structure):
    """A struct whose first member is its size."""

    def __init__(self) -> None:
        super().__init__()
        self.struct_size = ctypes.sizeof(self)


class Diag(Sized):
    _fields_ = [("struct_size", c_size_t), ("status", c_int), ("offset", c_uint64), ("text", c_char * 160)]


class Params(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("dtype", c_int),
        ("level", c_int),
        ("block_log2", c_uint),
        ("row_nbytes", c_uint32),
        ("base_form", c_int),
    ]


class Info(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("version", c_uint),
        ("dtype", c_int),
        ("mode", c_int),
        ("element_nbytes", c_uint),
        ("block_log2", c_uint),
        ("row_nbytes", c_uint32),
        ("content_nbytes", c_uint64),
        ("block_count", c_uint64),
        ("block_nbytes", c_size_t),
        ("head_nbytes", c_size_t),
        ("tail_nbytes", c_uint64),
        ("base_form", c_int),
        ("base_nbytes", c_uint64),
        ("base_block_nbytes", c_size_t),
        ("frame_nbytes_min", c_uint64),
    ]


class FormInfo(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("form", c_int),
        ("group_length", c_uint32),
        ("text", c_char * 64),
        ("has_rans", c_int),
    ]


class Allocator(ctypes.Structure):
    _fields_ = [("allocate", ALLOCATE), ("release", RELEASE), ("user", c_void_p)]


class Changes(ctypes.Structure):
    _fields_ = [("places", c_void_p), ("values", c_void_p), ("capacity", c_size_t), ("count", c_size_t)]


class StDiag(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("status", c_int),
        ("os_errno", c_int),
        ("has_tensor", c_int),
        ("offset", c_uint64),
        ("file", c_char * 512),
        ("tensor", c_char * 160),
        ("text", c_char * 512),
    ]


class StTensor(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_void_p),
        ("name_nbytes", c_size_t),
        ("dtype", c_int),
        ("dtype_name", c_char_p),
        ("shape", POINTER(c_uint64)),
        ("rank", c_size_t),
        ("nbytes", c_uint64),
        ("data_offset", c_uint64),
        ("stored_nbytes", c_uint64),
        ("is_view", c_int),
        ("is_big_endian", c_int),
        ("strides", POINTER(c_uint64)),
        ("offset", c_uint64),
        ("view_of", c_uint64),
        ("storage_nbytes", c_uint64),
        ("note", c_char_p),
    ]


class StOpenOptions(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("allocator", POINTER(Allocator)),
        ("raw", c_int),
        ("read", READ),
        ("read_user", c_void_p),
        ("read_nbytes", c_uint64),
        ("base", c_char_p),
        ("base_dirs", POINTER(c_char_p)),
        ("base_dir_count", c_size_t),
    ]


class StBase(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("original_nbytes", c_uint64),
        ("header_hash", c_uint64),
        ("content_hash", c_uint64),
        ("tensor_count", c_uint64),
        ("path", c_char_p),
        ("is_equal", c_int),
    ]


FAULT = ctypes.CFUNCTYPE(None, c_void_p, POINTER(StDiag))


class StCommon(ctypes.Structure):
    """What the options of every long call have."""

    _fields_ = [
        ("thread_count", c_uint),
        ("progress", PROGRESS),
        ("user", c_void_p),
        ("cancel", POINTER(c_int)),
        ("allocator", POINTER(Allocator)),
    ]


_START: list[Any] = [("struct_size", c_size_t), ("common", StCommon)]
_IN: list[Any] = [("has_in_fd", c_int), ("in_fd", c_int)]
_OUT: list[Any] = [("has_out_fd", c_int), ("out_fd", c_int)]
_BASES: list[Any] = [("base", c_char_p), ("base_dirs", POINTER(c_char_p)), ("base_dir_count", c_size_t)]
_FORCE: list[Any] = [("force", c_int), ("no_fsync", c_int)]
_EXCLUDES: list[Any] = [("excludes", POINTER(c_char_p)), ("exclude_count", c_size_t)]


class StOptions(Sized):
    _fields_ = _START


class StConvertOptions(Sized):
    _fields_ = [*_START, ("level", c_int), *_FORCE, *_IN, *_OUT, *_BASES, ("raw", c_int), *_EXCLUDES,
                ("file_done", FILE_DONE), ("warning", FAULT)]


class StRestoreOptions(Sized):
    _fields_ = [*_START, *_FORCE, *_IN, *_OUT, *_BASES, ("salvage", c_int), ("damage", FAULT),
                ("file_done", FILE_DONE)]


class StVerifyOptions(Sized):
    _fields_ = [*_START, *_IN, *_BASES, ("sha256", c_int), ("damage", FAULT), ("file_done", FILE_DONE)]


class StCompareOptions(Sized):
    _fields_ = [*_START, *_BASES]


class StWriteOptions(Sized):
    _fields_ = [*_START, ("level", c_int), *_FORCE, *_OUT, *_BASES, ("base_writer", c_void_p)]


class StOutputOptions(Sized):
    _fields_ = [*_START, *_FORCE, *_OUT]


class StResult(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("original_nbytes", c_uint64),
        ("stored_nbytes", c_uint64),
        ("tensor_count", c_uint64),
        ("is_archive", c_int),
        ("damaged_count", c_uint64),
        ("sha256", c_ubyte * 32),
        ("file_count", c_uint64),
        ("kept_count", c_uint64),
        ("container", c_int),
    ]


class RunStep(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("step", c_uint64),
        ("is_directory", c_int),
        ("has_base", c_int),
        ("base", c_uint64),
        ("chain", c_uint64),
        ("file_count", c_uint64),
        ("original_nbytes", c_uint64),
        ("stored_nbytes", c_uint64),
        ("time_s", c_int64),
    ]


STEP_DONE = ctypes.CFUNCTYPE(None, c_void_p, c_int, POINTER(RunStep))


class RunAddOptions(Sized):
    _fields_ = [*_START, ("has_step", c_int), ("step", c_uint64), ("key_every", c_uint), ("dry_run", c_int),
                ("level", c_int), *_FORCE, *_EXCLUDES, ("step_done", STEP_DONE), ("file_done", FILE_DONE),
                ("warning", FAULT), ("base_snapshot", c_char_p), ("base_step", c_uint64)]


class RunDropOptions(Sized):
    _fields_ = [*_START, ("dry_run", c_int), ("no_fsync", c_int), ("step_done", STEP_DONE)]


class RunRestoreOptions(Sized):
    _fields_ = [*_START, *_FORCE, ("file_done", FILE_DONE)]


class RunVerifyOptions(Sized):
    _fields_ = [*_START, ("step_done", STEP_DONE), ("damage", FAULT), ("file_done", FILE_DONE)]


class StoreModel(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("is_directory", c_int),
        ("bases", POINTER(c_char_p)),
        ("base_count", c_size_t),
        ("has_unknown_base", c_int),
        ("depth", c_uint64),
        ("file_count", c_uint64),
        ("original_nbytes", c_uint64),
        ("stored_nbytes", c_uint64),
        ("time_s", c_int64),
    ]


MODEL_DONE = ctypes.CFUNCTYPE(None, c_void_p, c_int, POINTER(StoreModel))


class StoreAddOptions(Sized):
    _fields_ = [*_START, ("name", c_char_p), ("depth", c_uint), ("level", c_int), *_FORCE, *_EXCLUDES,
                ("model_done", MODEL_DONE), ("file_done", FILE_DONE), ("warning", FAULT)]


class StoreDropOptions(Sized):
    _fields_ = [*_START, ("no_fsync", c_int), ("model_done", MODEL_DONE)]


class StorePlanOptions(Sized):
    _fields_ = [*_START, ("apply", c_int), ("depth", c_uint), ("no_fsync", c_int), ("model_done", MODEL_DONE)]


class StorePlanResult(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("stored_nbytes", c_uint64),
        ("planned_nbytes", c_uint64),
        ("changed_count", c_uint64),
        ("changed_nbytes", c_uint64),
    ]


class StoreRestoreOptions(Sized):
    _fields_ = [*_START, *_FORCE, ("file_done", FILE_DONE)]


class StoreVerifyOptions(Sized):
    _fields_ = [*_START, ("model_done", MODEL_DONE), ("damage", FAULT), ("file_done", FILE_DONE)]


class StoreIndexOptions(Sized):
    _fields_ = [*_START, *_EXCLUDES]


class StoreCost(ctypes.Structure):
    _fields_ = [("model", c_uint32), ("base", c_uint32), ("nbytes", c_uint64)]


PREDICTION = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_char_p, c_uint64, c_int)

# C name of each struct, for the test that compares them.
STRUCTS = {
    "lmc_diag": Diag,
    "lmc_params": Params,
    "lmc_info": Info,
    "lmc_form_info": FormInfo,
    "lmc_allocator": Allocator,
    "lmc_changes": Changes,
    "lmc_st_diag": StDiag,
    "lmc_st_tensor": StTensor,
    "lmc_st_open_options": StOpenOptions,
    "lmc_st_base": StBase,
    "lmc_st_common": StCommon,
    "lmc_st_options": StOptions,
    "lmc_st_convert_options": StConvertOptions,
    "lmc_st_restore_options": StRestoreOptions,
    "lmc_st_verify_options": StVerifyOptions,
    "lmc_st_compare_options": StCompareOptions,
    "lmc_st_write_options": StWriteOptions,
    "lmc_st_output_options": StOutputOptions,
    "lmc_st_result": StResult,
    "lmc_run_step": RunStep,
    "lmc_run_add_options": RunAddOptions,
    "lmc_run_drop_options": RunDropOptions,
    "lmc_run_restore_options": RunRestoreOptions,
    "lmc_run_verify_options": RunVerifyOptions,
    "lmc_store_cost": StoreCost,
    "lmc_store_index_options": StoreIndexOptions,
    "lmc_store_model": StoreModel,
    "lmc_store_add_options": StoreAddOptions,
    "lmc_store_drop_options": StoreDropOptions,
    "lmc_store_plan_options": StorePlanOptions,
    "lmc_store_plan_result": StorePlanResult,
    "lmc_store_restore_options": StoreRestoreOptions,
    "lmc_store_verify_options": StoreVerifyOptions,
}

library = _library.load()


def _call(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments
    return function


def _optional_call(name: str, result: Any, *arguments: Any) -> Any:
    return _call(name, result, *arguments) if hasattr(library, name) else None


_DIAG = POINTER(StDiag)

version_text = _call("lmc_version_text", c_char_p)
kernels_name = _call("lmc_kernels_name", c_char_p)
status_text = _call("lmc_status_text", c_char_p, c_int)
core_count = _call("lmc_core_count", c_uint)
dtype_name = _call("lmc_dtype_name", c_char_p, c_int)
dtype_nbits = _call("lmc_dtype_nbits", c_uint, c_int)
dtype_guess = _call("lmc_dtype_guess", c_int, c_void_p, c_size_t, c_uint)
params_init = _call("lmc_params_init_sized", None, c_void_p, c_size_t)
ctx_create = _call("lmc_ctx_create", c_int, c_void_p, c_void_p)
ctx_free = _call("lmc_ctx_free", None, c_void_p)
ctx_diag = _call("lmc_ctx_diag", POINTER(Diag), c_void_p)
ctx_set_thread_count = _call("lmc_ctx_set_thread_count", c_int, c_void_p, c_uint)
ctx_set_cancel = _call("lmc_ctx_set_cancel", c_int, c_void_p, POINTER(c_int))
encode_bound = _call("lmc_encode_bound", c_int, c_void_p, c_size_t, c_void_p)
encode_delta = _call("lmc_encode_delta", c_int, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p,
                     c_size_t, c_void_p)
decode_delta = _call("lmc_decode_delta", c_int, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p, c_size_t,
                     c_void_p)
frame_read_info = _call("lmc_frame_read_info", c_int, c_void_p, c_size_t, c_void_p, c_void_p)
frame_read_form = _call("lmc_frame_read_form", c_int, c_void_p, c_size_t, c_void_p, c_void_p)
frame_create = _call("lmc_frame_create", c_int, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_uint64, c_void_p)
frame_free = _call("lmc_frame_free", None, c_void_p)
frame_block = _call("lmc_frame_block", c_int, c_void_p, c_uint64, POINTER(c_uint64), POINTER(c_size_t),
                    POINTER(c_size_t))
decode_delta_changes = _call("lmc_decode_delta_changes", c_int, c_void_p, c_void_p, c_uint64, c_void_p, c_size_t,
                             c_void_p, c_size_t, c_void_p)

st_container_name = _call("lmc_st_container_name", c_char_p, c_int)
st_mode_name = _call("lmc_st_mode_name", c_char_p, c_int)
st_open = _call("lmc_st_open", c_int, c_char_p, c_void_p, c_void_p, _DIAG)
st_close = _call("lmc_st_close", None, c_void_p)
st_container_of = _call("lmc_st_container_of", c_int, c_void_p)
st_is_archive = _call("lmc_st_is_archive", c_int, c_void_p)
st_stored_nbytes = _call("lmc_st_stored_nbytes", c_uint64, c_void_p)
st_original_nbytes = _call("lmc_st_original_nbytes", c_uint64, c_void_p)
st_header = _call("lmc_st_header", c_void_p, c_void_p, POINTER(c_size_t))
st_tensor_count = _call("lmc_st_tensor_count", c_uint64, c_void_p)
st_tensor_info = _call("lmc_st_tensor_info", c_int, c_void_p, c_uint64, c_void_p)
st_tensor_mode = _call("lmc_st_tensor_mode", c_int, c_void_p, c_uint64, POINTER(c_int), _DIAG)
st_tensor_form = _call("lmc_st_tensor_form", c_int, c_void_p, c_uint64, POINTER(c_int), c_void_p, _DIAG)
st_tensor_place = _call("lmc_st_tensor_place", c_int, c_void_p, c_uint64, POINTER(c_uint64), POINTER(c_uint64))
st_tensor_origin = _call("lmc_st_tensor_origin", c_int, c_void_p, c_uint64, POINTER(c_uint64), POINTER(c_uint64))
st_tensor_base = _call("lmc_st_tensor_base", c_int, c_void_p, c_uint64, POINTER(c_int), POINTER(c_uint64),
                       POINTER(c_uint64))
st_range_place = _call("lmc_st_range_place", c_int, c_void_p, c_uint64, c_int, c_uint64, c_uint64,
                       *[POINTER(c_uint64)] * 4, _DIAG)
st_use_base = _call("lmc_st_use_base", c_int, c_void_p, c_void_p, _DIAG)
st_read_range = _call("lmc_st_read_range", c_int, c_void_p, c_void_p, c_uint64, c_uint64, c_size_t, c_void_p, _DIAG)
st_read_stored = _call("lmc_st_read_stored", c_int, c_void_p, c_uint64, c_uint64, c_size_t, c_void_p, _DIAG)
st_read_many = _optional_call("lmc_st_read_many", c_int, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, _DIAG)
st_changes_find = _call("lmc_st_changes_find", c_int, c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p,
                        _DIAG)
st_changes_free = _call("lmc_st_changes_free", None, c_void_p)
st_changes_count = _call("lmc_st_changes_count", c_int, c_void_p, c_size_t, POINTER(c_uint64))
st_changes_list = _call("lmc_st_changes_list", c_int, c_void_p, c_size_t, c_uint, c_void_p, c_void_p)
st_changes_apply = _call("lmc_st_changes_apply", c_int, c_void_p, c_void_p, c_void_p, _DIAG)
st_reader_create = _call("lmc_st_reader_create", c_int, c_void_p, c_uint64, c_void_p, _DIAG)
st_reader_create_storage = _call("lmc_st_reader_create_storage", c_int, c_void_p, c_uint64, c_void_p, _DIAG)
st_reader_free = _call("lmc_st_reader_free", None, c_void_p)
st_reader_read = _call("lmc_st_reader_read", c_int, c_void_p, c_uint64, c_size_t, c_void_p, _DIAG)
st_skeleton_nbytes = _call("lmc_st_skeleton_nbytes", c_uint64, c_void_p)
st_skeleton_read = _call("lmc_st_skeleton_read", c_int, c_void_p, c_uint64, c_size_t, c_void_p, _DIAG)
st_base_count = _call("lmc_st_base_count", c_uint64, c_void_p)
st_base_info = _call("lmc_st_base_info", c_int, c_void_p, c_uint64, c_void_p)
st_convert = _call("lmc_st_convert", c_int, c_char_p, c_char_p, c_void_p, c_void_p, _DIAG)
st_restore = _call("lmc_st_restore", c_int, c_char_p, c_char_p, c_void_p, c_void_p, _DIAG)
st_verify = _call("lmc_st_verify", c_int, c_char_p, c_void_p, c_void_p, _DIAG)
st_compare = _call("lmc_st_compare", c_int, c_char_p, c_char_p, c_void_p, _DIAG)
st_writer_create = _call("lmc_st_writer_create", c_int, c_void_p, c_void_p)
st_writer_free = _call("lmc_st_writer_free", None, c_void_p)
st_writer_set_metadata = _call("lmc_st_writer_set_metadata", c_int, c_void_p, c_char_p, c_size_t, c_char_p, c_size_t)
st_writer_add = _call("lmc_st_writer_add", c_int, c_void_p, c_char_p, c_size_t, c_int, c_void_p, c_size_t, c_void_p)
st_writer_add_from = _call("lmc_st_writer_add_from", c_int, c_void_p, c_char_p, c_size_t, c_int, c_void_p, c_size_t,
                           READ, c_void_p)
st_writer_write = _call("lmc_st_writer_write", c_int, c_void_p, c_char_p, c_void_p, c_void_p, _DIAG)
st_writer_write_plain = _call("lmc_st_writer_write_plain", c_int, c_void_p, c_char_p, c_void_p, c_void_p, _DIAG)

run_open = _call("lmc_run_open", c_int, c_char_p, c_void_p, c_void_p, _DIAG)
run_close = _call("lmc_run_close", None, c_void_p)
run_step_count = _call("lmc_run_step_count", c_uint64, c_void_p)
run_step_info = _call("lmc_run_step_info", c_int, c_void_p, c_uint64, c_void_p)
run_key_every = _call("lmc_run_key_every", c_uint, c_void_p)
run_event_name = _call("lmc_run_event_name", c_char_p, c_int)
run_add = _call("lmc_run_add", c_int, c_char_p, c_char_p, c_void_p, c_void_p, _DIAG)
run_drop = _call("lmc_run_drop", c_int, c_char_p, c_void_p, c_size_t, c_void_p, _DIAG)
run_keep = _call("lmc_run_keep", c_int, c_char_p, c_uint64, c_uint64, c_void_p, _DIAG)
run_repair = _call("lmc_run_repair", c_int, c_char_p, c_void_p, _DIAG)
run_restore = _call("lmc_run_restore", c_int, c_char_p, c_uint64, c_char_p, c_void_p, c_void_p, _DIAG)
run_verify = _call("lmc_run_verify", c_int, c_char_p, c_void_p, c_size_t, c_void_p, c_void_p, _DIAG)
run_compare = _call("lmc_run_compare", c_int, c_char_p, c_uint64, c_char_p, c_void_p, _DIAG)

store_open = _call("lmc_store_open", c_int, c_char_p, c_void_p, c_void_p, _DIAG)
store_close = _call("lmc_store_close", None, c_void_p)
store_model_count = _call("lmc_store_model_count", c_uint64, c_void_p)
store_model_info = _call("lmc_store_model_info", c_int, c_void_p, c_uint64, c_void_p)
store_is_run = _call("lmc_store_is_run", c_int, c_void_p)
store_name_is_valid = _call("lmc_store_name_is_valid", c_int, c_char_p)
store_event_name = _call("lmc_store_event_name", c_char_p, c_int)
store_add = _call("lmc_store_add", c_int, c_char_p, c_char_p, c_void_p, _DIAG)
store_drop = _call("lmc_store_drop", c_int, c_char_p, c_void_p, c_size_t, c_void_p, _DIAG)
store_repair = _call("lmc_store_repair", c_int, c_char_p, c_void_p, _DIAG)
store_plan = _call("lmc_store_plan", c_int, c_char_p, c_void_p, c_void_p, _DIAG)
store_index_add = _call("lmc_store_index_add", c_int, c_char_p, c_char_p, c_char_p, c_void_p, _DIAG)
store_index_merge = _call("lmc_store_index_merge", c_int, c_char_p, c_char_p, c_char_p, c_void_p, _DIAG)
store_index_predict = _call("lmc_store_index_predict", c_int, c_char_p, c_void_p, c_size_t, c_void_p, c_size_t,
                            c_void_p, PREDICTION, _DIAG)
store_arrange = _call("lmc_store_arrange", c_int, c_size_t, c_void_p, c_void_p, c_size_t, c_uint, c_void_p)
store_restore = _call("lmc_store_restore", c_int, c_char_p, c_char_p, c_char_p, c_void_p, c_void_p, _DIAG)
store_verify = _call("lmc_store_verify", c_int, c_char_p, c_void_p, c_size_t, c_void_p, c_void_p, _DIAG)

RUN_EVENT_COUNT, STORE_EVENT_COUNT = 5, 6
RUN_EVENTS = tuple(run_event_name(number).decode() for number in range(RUN_EVENT_COUNT))
STORE_EVENTS = tuple(store_event_name(number).decode() for number in range(STORE_EVENT_COUNT))
DTYPE_COUNT = 22
DTYPE_NAMES = tuple(dtype_name(number).decode() for number in range(DTYPE_COUNT))
DTYPES = {name: number for number, name in enumerate(DTYPE_NAMES)}
DTYPE_NBITS = {name: dtype_nbits(number) for name, number in DTYPES.items()}
