"""Writes tensors as an archive or as a safetensors file; serialize_file(), which needs no framework for that."""

from __future__ import annotations

import ctypes
import math
import operator
import os
from contextlib import ExitStack
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

from .. import _abi
from .._arrays.dtypes import NUMPY_NAMES
from .._buffer import Buffer
from .._codec import dtype_of, level_of
from .._errors import ArgumentError, LMCError, check_status, error_of
from . import memory
from .file import File
from .options import CallOptions, Path, Progress, encode_path

Read = Callable[[int, int, int], None]


class Entry(NamedTuple):
    """A tensor to be written: its content at `address`, little-endian and in C order. `owner` keeps it alive.

    read: supplies the content instead: read(offset, address, nbytes) copies bytes [offset, offset + nbytes) of it to
        the address. Threads of the library call it, more than once for the same bytes.
    """

    name: str
    dtype: str
    shape: Sequence[int]
    address: int
    owner: Any
    read: Read | None = None


class TensorSpec(NamedTuple):
    """A tensor at an address, for serialize_file(), as safetensors.TensorSpec. Its memory must stay until that returns.

    dtype: "BF16" or "bfloat16". data_ptr: the address of the content. data_len: its bytes.
    """

    dtype: str
    shape: Sequence[int]
    data_ptr: int
    data_len: int


class _Writer:
    """lmc_st_writer with its tensors and metadata."""

    def __init__(self, entries: Iterable[Entry], metadata: Mapping[str, str] | None) -> None:
        self.pointer = ctypes.c_void_p()
        check_status(_abi.st_writer_create(None, ctypes.byref(self.pointer)))
        self._owners: list[Any] = []
        self.raised: list[BaseException] = []
        if not isinstance(metadata, (Mapping, type(None))):
            raise TypeError("metadata must be a dict of strings, not %s" % type(metadata).__name__)
        for key, value in (metadata or {}).items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise TypeError("metadata must map strings to strings, not %r to %r" % (key, value))
            encoded, text = key.encode(), value.encode()
            check_status(_abi.st_writer_set_metadata(self.pointer, encoded, len(encoded), text, len(text)))
        for entry in entries:
            self._add(entry)

    def _add(self, entry: Entry) -> None:
        if not isinstance(entry.name, str):
            raise TypeError("names of tensors are strings, not %s" % type(entry.name).__name__)
        if entry.name == "__metadata__":
            raise ArgumentError("no tensor can have the name '__metadata__', which is that of the metadata")
        if not all(0 <= dimension < 1 << 64 for dimension in entry.shape):
            raise ArgumentError("tensor %r: no file has the shape %s" % (entry.name, list(entry.shape)))
        name = entry.name.encode()
        shape = (ctypes.c_uint64 * len(entry.shape))(*entry.shape)
        about = (self.pointer, name, len(name), dtype_of(entry.dtype), shape, len(entry.shape))
        if entry.read is None:
            status = _abi.st_writer_add(*about, entry.address or None)
        else:
            function = self._guarded(entry.read)
            self._owners.append(function)
            status = _abi.st_writer_add_from(*about, function, None)
        if status != _abi.OK:
            raise error_of(status, tensor=entry.name)
        self._owners.append(entry.owner)

    def _guarded(self, read: Read) -> Any:
        """A C function for `read`. What it raises ends the call of the library."""
        raised = self.raised  # and not self, which owns the function: such a cycle keeps the tensors

        def guarded(user: Any, offset: int, address: int, nbytes: int) -> int:
            try:
                read(offset, address, nbytes)
            except BaseException as error:
                raised.append(error)
                return _abi.CANCELLED
            return _abi.OK

        return _abi.READ(guarded)

    def __del__(self, free: Any = _abi.st_writer_free) -> None:
        if self.pointer:
            free(self.pointer)


def is_plain_name(filename: Path) -> bool:
    """A file called *.safetensors is written as one."""
    return os.fsencode(filename).endswith(b".safetensors")


def write(entries: Iterable[Entry], filename: Path, metadata: Mapping[str, str] | None, *, plain: bool | None = None,
          level: str = "default", threads: int | None = None, fsync: bool = False, base: Path | None = None,
          base_dirs: Sequence[Path] = (), progress: Progress | None = None) -> None:
    """Writes a file, which replaces one of this name. plain: None lets the name decide."""
    if plain is None:
        plain = is_plain_name(filename)
    if plain and base is not None:
        raise LMCError("a safetensors file has no base: plain=False, or a name that does not end in .safetensors")
    options = _options(plain, level, threads=threads, base=base, base_dirs=() if plain else base_dirs,
                       progress=progress)
    options.struct.force, options.struct.no_fsync = 1, not fsync
    _write(entries, encode_path(filename), metadata, plain, options)


def serialize_file(tensors: Mapping[str, Any], filename: Path, metadata: Mapping[str, str] | None = None, *,
                   plain: bool | None = None, level: str = "default", threads: int | None = None, fsync: bool = False,
                   base: Path | None = None, base_dirs: Sequence[Path] = (),
                   progress: Progress | None = None) -> None:
    """Writes buffers to a file, which replaces one of this name. No framework is needed.

    tensors: by names (dtype, shape, buffer), such as ("BF16", (2, 3), twelve bytes), or what safetensors takes: a dict
        with "dtype", "shape" and "data", or a TensorSpec of safetensors or of this package. Buffers are little-endian
        and in C order. They may be read-only.
    plain: True writes a safetensors file, False an archive. By default a name *.safetensors gives a safetensors file,
        any other name an archive.
    Other arguments are those of convert(). Raises ArgumentError (no such dtype, a buffer of another size), OSError,
    TypeError, BufferError, LMCError.
    """
    with ExitStack() as buffers:
        write(_entries(tensors, buffers), filename, metadata, plain=plain, level=level, threads=threads, fsync=fsync,
              base=base, base_dirs=base_dirs, progress=progress)


def serialize(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None, *, plain: bool = False,
              level: str = "default", threads: int | None = None) -> bytes:
    """The bytes of an archive, or with plain=True of a safetensors file. Arguments are those of serialize_file()."""
    with ExitStack() as buffers:
        return to_bytes(_entries(tensors, buffers), metadata, plain=plain, level=level, threads=threads)


def deserialize(data: bytes | bytearray | memoryview) -> list[tuple[str, dict[str, Any]]]:
    """The tensors in the bytes of an archive or a safetensors file, as safetensors.deserialize() gives them: pairs of a
    name and a dict with "shape", "dtype" and "data", a bytearray. Raises as File does, and File.read()."""
    with memory.file_of(data) as path, File(path) as file:
        return [(name, {"shape": list(tensor.shape), "dtype": tensor.dtype, "data": file.read(name)})
                for name, tensor in file.tensors.items()]


def _entries(tensors: Mapping[str, Any], buffers: ExitStack) -> list[Entry]:
    return [entry_of_buffer(name, given, buffers) for name, given in tensors.items()]


def entry_of_buffer(name: str, given: Any, buffers: ExitStack, writable: bool = False) -> Entry:
    """The entry for a tensor as serialize_file() takes it. `buffers` keeps its memory in its place."""
    if hasattr(given, "data_ptr") and hasattr(given, "data_len"):  # a TensorSpec
        dtype, shape, address, nbytes, owner = given.dtype, given.shape, given.data_ptr, given.data_len, given
    else:
        if isinstance(given, Mapping):
            dtype, shape, owner = given["dtype"], given["shape"], given["data"]
        elif isinstance(given, (tuple, list)) and len(given) == 3:
            dtype, shape, owner = given
        else:
            raise TypeError("tensor %r: (dtype, shape, buffer) is wanted, not %s" % (name, type(given).__name__))
        try:
            buffer = buffers.enter_context(Buffer(owner, writable))
        except (TypeError, BufferError) as error:
            raise type(error)("tensor %r: %s" % (name, error)) from None
        address, nbytes = buffer.address, buffer.nbytes
    try:
        shape = tuple(map(operator.index, shape))
    except TypeError:
        raise TypeError("tensor %r: the shape is a list of integers, not %r" % (name, shape)) from None
    entry = Entry(name, NUMPY_NAMES.get(dtype) or dtype, shape, address, owner)
    nbits = _nbits_of(entry.dtype, entry.shape)
    if nbits != nbytes * 8:
        raise ArgumentError("tensor %r: %s of shape %s has %d bits, the buffer %d"
                            % (name, entry.dtype, list(entry.shape), nbits, nbytes * 8))
    return entry


def _nbits_of(dtype: str, shape: Sequence[int]) -> int:
    return math.prod(shape) * int(_abi.DTYPE_NBITS[_abi.DTYPE_NAMES[dtype_of(dtype)]])


def nbytes_of(entry: Entry) -> int:
    """Bytes of a tensor."""
    return _nbits_of(entry.dtype, entry.shape) // 8


def to_bytes(entries: Iterable[Entry], metadata: Mapping[str, str] | None, *, plain: bool, level: str = "default",
             threads: int | None = None, base: Iterable[Entry] | None = None,
             progress: Progress | None = None) -> bytes:
    """The bytes of a file. base: an archive is coded against the file that these tensors would make."""
    options = _options(plain, level, threads=threads, progress=progress)
    if base is not None:
        options.struct.base_writer = options.keep(_Writer(base, None)).pointer
    with memory.written(options.struct, lambda path: _write(entries, path, metadata, plain, options)) as file:
        return file.read()


def _options(plain: bool, level: str, **settings: Any) -> CallOptions:
    number = level_of(level)
    if plain:
        return CallOptions(_abi.StOutputOptions(), **settings)
    options = CallOptions(_abi.StWriteOptions(), **settings)
    options.struct.level = number
    return options


def _write(entries: Iterable[Entry], path: bytes, metadata: Mapping[str, str] | None, plain: bool,
           options: CallOptions) -> None:
    writer = _Writer(entries, metadata)
    call = _abi.st_writer_write_plain if plain else _abi.st_writer_write
    status = options.run(lambda settings, diag: call(writer.pointer, path, settings, None, diag))
    if writer.raised:
        raise writer.raised.pop()
    options.check(status)
