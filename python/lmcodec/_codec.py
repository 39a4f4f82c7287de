"""Frames: tensors in memory."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Callable, NamedTuple, Sequence, TypeVar

from . import _abi, _waiting
from ._arrays.dtypes import NUMPY_NAMES
from ._buffer import LARGE_NBYTES, TRUSTED_EXPANSION, Buffer, new_bytearray, take_pages
from ._errors import ArgumentError, check_status, error_of

_Result = TypeVar("_Result")

_ROW_VALUES_MIN = 32
_ROW_NBYTES_MAX = 0xFFFFFFFF
_WAITING_FROM_NBYTES = 128 << 20  # a shorter call ends soon enough by itself

# dtypes of buffers by their format (module struct), where a format means the same on every machine
_FORMAT_DTYPES = {
    "b": "I8", "B": "U8", "?": "BOOL", "h": "I16", "H": "U16", "i": "I32", "I": "U32", "q": "I64", "Q": "U64",
    "e": "F16", "f": "F32", "d": "F64", "Zf": "C64",
    "l": "I%d" % (8 * ctypes.sizeof(ctypes.c_long)), "L": "U%d" % (8 * ctypes.sizeof(ctypes.c_long)),
}


class _Context:
    """lmc_ctx: scratch memory of one thread."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.pointer = ctypes.c_void_p()
        check_status(_abi.ctx_create(None, ctypes.byref(self.pointer)))

    def __del__(self, free: Any = _abi.ctx_free, getpid: Callable[[], int] = os.getpid) -> None:
        if self.pointer and self.pid == getpid():  # a child has no use for what its parent was writing to
            free(self.pointer)

    def check(self, status: int) -> None:
        if status != _abi.OK:
            diag = _abi.ctx_diag(self.pointer).contents
            raise error_of(status, diag.text.decode("utf-8", "replace"), offset=diag.offset)


_local = threading.local()


def context() -> _Context:
    """The context of this thread. It is made on the first call, and freed when the thread ends."""
    found: _Context | None = getattr(_local, "context", None)
    if found is None or found.pid != os.getpid():
        found = _local.context = _Context()
    return found


def level_of(level: str) -> int:
    """The number of a level. ArgumentError if there is none of this name."""
    try:
        return _abi.LEVELS[level]
    except (KeyError, TypeError):
        raise ArgumentError("there is no level %r: 'default', 'fast' or 'max'" % (level,)) from None


def dtype_of(name: str) -> int:
    """The number of a dtype, such as "BF16". ArgumentError if there is none of this name."""
    try:
        return _abi.DTYPES[name]
    except (KeyError, TypeError):
        raise ArgumentError("there is no dtype %r: one of %s" % (name, ", ".join(_abi.DTYPE_NAMES))) from None


def threads_of(threads: int | None) -> int:
    """A thread_count of the library: 0 stands for one per core."""
    if threads is None:
        return 0
    if not hasattr(threads, "__index__") or not 0 <= threads <= _abi.THREAD_COUNT_MAX:
        raise ArgumentError("threads: %r is not 0 to %d" % (threads, _abi.THREAD_COUNT_MAX))
    return threads


class FrameInfo(NamedTuple):
    """What the head of a frame says. Nothing of it is verified before the frame is decoded.

    dtype: as safetensors names it. mode: "stored", "coded", "short" or "delta". nbytes: bytes of the content.
    row_nbytes: bytes of a row of the matrix, or 0. base_nbytes: bytes of the base that a delta needs, or 0.
    form: of narrow contents in wide elements, such as "F16 in F32"; else None. has_rans: symbols have a rANS code.
    """

    dtype: str
    mode: str
    nbytes: int
    element_nbytes: int
    block_nbytes: int
    block_count: int
    row_nbytes: int
    base_nbytes: int
    version: int
    form: str | None = None
    has_rans: bool = False


def info(frame: Any) -> FrameInfo:
    """What a frame says of itself. It looks at the first 1068 bytes at most.

    frame: bytes, or an object with their buffer. The first 32 are enough for everything but the form. Raises DataError,
    UnsupportedError.
    """
    with Buffer(frame) as source:
        head = _read_info(source)
        form = _read_form(source)
    return FrameInfo(_abi.DTYPE_NAMES[head.dtype], _abi.FRAME_MODES[head.mode], head.content_nbytes,
                     head.element_nbytes, head.block_nbytes, head.block_count, head.row_nbytes, head.base_nbytes,
                     head.version, form.text.decode() or None, bool(form.has_rans))


def _read_info(frame: Buffer) -> _abi.Info:
    head, diag = _abi.Info(), _abi.Diag()
    status = _abi.frame_read_info(frame.address, frame.nbytes, ctypes.byref(head), ctypes.byref(diag))
    if status != _abi.OK:
        raise error_of(status, diag.text.decode("utf-8", "replace"), offset=diag.offset)
    return head


def _read_form(frame: Buffer) -> _abi.FormInfo:
    """The form of a frame whose head is known to be good."""
    form, diag = _abi.FormInfo(), _abi.Diag()
    status = _abi.frame_read_form(frame.address, frame.nbytes, ctypes.byref(form), ctypes.byref(diag))
    if status not in (_abi.OK, _abi.TRUNCATED):
        raise error_of(status, diag.text.decode("utf-8", "replace"), offset=diag.offset)
    return form


def encode(data: Any, dtype: str | None = None, *, level: str = "default", threads: int | None = 1,
           row_nbytes: int | None = None, base: Any = None) -> bytearray:
    """Encodes the bytes of `data` into one frame.

    data: bytes, a NumPy array, or any object with a buffer that is contiguous in C order. It may be read-only.
    dtype: as safetensors names it: "BF16", "F32", ... By default that of the buffer, or "U8" for plain bytes. It guides
        the compression. It never changes what is decoded.
    level: "default", "fast" or "max".
    threads: 1 to 256; None or 0 for one per core.
    row_nbytes: bytes of a row of a matrix, of 32 bits. By default those of a buffer with two dimensions or more; 0 for
        none.
    base: an earlier snapshot of the data, of as many bytes. The frame may then need it to be decoded.

    Returns at most 48 bytes more than `data` has. Raises ArgumentError, BaseError (its size differs), MemoryError,
    TypeError (not a buffer, or one of Python objects), and BufferError or ValueError for a buffer that is not
    contiguous.
    """
    if hasattr(data, "data_ptr"):
        raise TypeError("a tensor of torch has no buffer: lmcodec.torch.encode() takes it")
    params = _abi.Params()
    _abi.params_init(ctypes.byref(params), ctypes.sizeof(params))
    guess_dtype, guess_row_nbytes = _describe(data) if dtype is None or row_nbytes is None else ("U8", 0)
    params.dtype = dtype_of(guess_dtype if dtype is None else dtype)
    if row_nbytes is not None and not 0 <= row_nbytes <= _ROW_NBYTES_MAX:
        raise ArgumentError("row_nbytes is 0 to %d, not %d" % (_ROW_NBYTES_MAX, row_nbytes))
    params.row_nbytes = guess_row_nbytes if row_nbytes is None else row_nbytes
    params.level, thread_count = level_of(level), threads_of(threads)
    with Buffer(data) as source:
        nbytes = source.nbytes
    return _waited(nbytes, lambda: _encode(params, data, base, thread_count))


def _encode(params: _abi.Params, data: Any, base: Any, thread_count: int) -> bytearray:
    bound, nbytes = ctypes.c_size_t(), ctypes.c_size_t()
    scratch = context()
    scratch.check(_abi.ctx_set_thread_count(scratch.pointer, thread_count))
    with Buffer(data) as source, Buffer(b"" if base is None else base) as old:
        check_status(_abi.encode_bound(ctypes.byref(params), source.nbytes, ctypes.byref(bound)))
        frame = new_bytearray(bound.value)
        with Buffer(frame, writable=True) as destination:
            scratch.check(_abi.encode_delta(scratch.pointer, ctypes.byref(params), source.address, source.nbytes,
                                            _base_address(base, old), old.nbytes, destination.address,
                                            destination.nbytes, ctypes.byref(nbytes)))
    del frame[nbytes.value:]
    return frame


def decode(frame: Any, out: Any = None, *, base: Any = None, threads: int | None = 1) -> Any:
    """Decodes a frame and verifies it.

    frame: bytes, or an object with their buffer.
    out: a writable buffer with as many bytes as the content has; it is returned. By default a new bytearray.
    base: the base that the frame was encoded against, if it was.
    threads: 1 to 256; None or 0 for one per core.

    Raises DataError, ChecksumError, UnsupportedError, BaseError (no base, or another one), ArgumentError (`out` has
    another size, or lies where the frame lies), MemoryError. `out` has undefined bytes then.
    """
    thread_count = threads_of(threads)
    with Buffer(frame) as source:
        head = _read_info(source)
        nbytes: int = head.content_nbytes
        if out is None and nbytes >= LARGE_NBYTES:
            _verify_ends(source, head)
    return _waited(nbytes, lambda: _decode(frame, nbytes, out, base, thread_count))


def _verify_ends(frame: Buffer, head: _abi.Info) -> None:
    """Verifies head and tail of a frame, before memory is taken for the content that the head promises."""
    scratch, opened = context(), ctypes.c_void_p()
    is_whole = frame.nbytes >= head.frame_nbytes_min
    head_nbytes, tail_nbytes = (head.head_nbytes, head.tail_nbytes) if is_whole else (frame.nbytes, 0)
    status = _abi.frame_create(scratch.pointer, frame.address, head_nbytes, frame.address + frame.nbytes - tail_nbytes,
                               tail_nbytes, frame.nbytes, ctypes.byref(opened))
    _abi.frame_free(opened)
    scratch.check(status)


def _decode(frame: Any, nbytes: int, out: Any, base: Any, thread_count: int) -> Any:
    written = ctypes.c_size_t()
    scratch = context()
    scratch.check(_abi.ctx_set_thread_count(scratch.pointer, thread_count))
    result = new_bytearray(nbytes) if out is None else out
    with Buffer(frame) as source, Buffer(b"" if base is None else base) as old, \
            Buffer(result, writable=True) as destination:
        if out is None and nbytes >= LARGE_NBYTES:
            take_pages(destination.address, min(nbytes, TRUSTED_EXPANSION * source.nbytes))
        if destination.nbytes != nbytes:
            raise ArgumentError("out has %d bytes, the content %d" % (destination.nbytes, nbytes))
        scratch.check(_abi.decode_delta(scratch.pointer, source.address, source.nbytes, _base_address(base, old),
                                        old.nbytes, destination.address, destination.nbytes, ctypes.byref(written)))
    return result


class OpenFrame:
    """lmc_frame, with the bytes that it was opened from, until `with` ends."""

    def __init__(self, frame: Any) -> None:
        self._source, self._scratch = Buffer(frame), context()
        self._pointer = ctypes.c_void_p()
        try:
            self._head = _read_info(self._source)
            self._create()
        except BaseException:
            self._source.__exit__()
            raise

    def _create(self) -> None:
        tail_nbytes = min(self._head.tail_nbytes, self._source.nbytes)
        self._scratch.check(_abi.frame_create(
            self._scratch.pointer, self._source.address, min(self._head.head_nbytes, self._source.nbytes),
            self._source.address + self._source.nbytes - tail_nbytes, tail_nbytes, self._source.nbytes,
            ctypes.byref(self._pointer)))

    def __enter__(self) -> OpenFrame:
        return self

    def __exit__(self, *_: object) -> None:
        _abi.frame_free(self._pointer)
        self._source.__exit__()

    def changes_of_block(self, number: int, base: int, places: int, values: int, capacity: int) -> int:
        """Lists the elements of a block that differ from the base: u32 places in the block, and elements, at these
        addresses, which have room for so many. base: the address of all of it. Returns how many there are."""
        offset, stored_nbytes, content_nbytes = ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_size_t()
        check_status(_abi.frame_block(self._pointer, number, *map(ctypes.byref, (offset, stored_nbytes,
                                                                                 content_nbytes))))
        changes = _abi.Changes(places, values, capacity)
        self._scratch.check(_abi.decode_delta_changes(
            self._scratch.pointer, self._pointer, number, self._source.address + offset.value, stored_nbytes.value,
            base + number * self._head.block_nbytes, content_nbytes.value, ctypes.byref(changes)))
        return int(changes.count)


def _base_address(base: Any, buffer: Buffer) -> int | None:
    """NULL without a base; an empty base is one."""
    return None if base is None else buffer.address


def _waited(nbytes: int, function: Callable[[], _Result]) -> _Result:
    """function(), which calls the library with the context of its thread. Ctrl-C ends a long call."""
    if nbytes < _WAITING_FROM_NBYTES:
        return function()
    cancel = _waiting.new_flag()

    def cancellable() -> _Result:
        scratch = context()
        check_status(_abi.ctx_set_cancel(scratch.pointer, ctypes.byref(cancel)))
        try:
            return function()
        finally:
            check_status(_abi.ctx_set_cancel(scratch.pointer, None))

    return _waiting.run(cancellable, cancel)


def _describe(data: Any) -> tuple[str, int]:
    """dtype and bytes of a row, as the buffer tells them."""
    try:
        view = memoryview(data)
    except (TypeError, ValueError, BufferError):  # a NumPy array of ml_dtypes has a buffer that cannot tell its dtype
        dtype = NUMPY_NAMES.get(str(getattr(data, "dtype", "")), "U8")
        return dtype, row_nbytes_of(getattr(data, "shape", ()), getattr(data, "itemsize", 0))
    return _FORMAT_DTYPES.get(view.format.lstrip("@=<"), "U8"), row_nbytes_of(view.shape or (), view.itemsize)


def row_nbytes_of(shape: Sequence[int], itemsize: int) -> int:
    """As archives have it: the last dimension, and dimensions before it as long as it has few values."""
    values = 1
    for size in reversed(shape[1:]):
        if values < _ROW_VALUES_MIN:
            values *= size
    return min(values * itemsize, _ROW_NBYTES_MAX) if len(shape) > 1 else 0
