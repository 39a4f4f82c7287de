"""Open files: archives and plain files, without a framework."""

from __future__ import annotations

import ctypes
import json
import os
import threading
import zlib
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from . import _abi, _codec
from ._buffer import Buffer, new_bytearray
from ._errors import ArgumentError, ClosedError, DataError, TensorNotFound, check, check_status
from ._options import CallOptions, Path, Progress, encode_path, path_array

_WAITING_FROM_NBYTES = 16 << 20  # of content that is read in another thread
_PIECE_NBYTES = 128 << 20  # is read in a small part of a second


class TensorInfo(NamedTuple):
    """A tensor as the header describes it. number: in the order of contents. dtype: as files name it. offset: of its
    content among that of all tensors."""

    number: int
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


class _Places(NamedTuple):
    """Paths of a file and of its base, which are those of every process and working directory."""

    path: bytes
    base: bytes | None
    base_dirs: list[bytes]


class Handle:
    """lmc_st_file. It is closed with the last reference to it, so no call is at work then.

    open_file(pointer, diag): the call that opens it.
    """

    def __init__(self, open_file: Callable[[Any, Any], int]) -> None:
        self.pointer = ctypes.c_void_p()
        self._kept: list[Any] = []
        diag = _abi.StDiag()
        check(open_file(ctypes.byref(self.pointer), ctypes.byref(diag)), diag)

    def __del__(self, close: Any = _abi.st_close) -> None:
        if self.pointer:
            close(self.pointer)

    def keep(self, thing: Any) -> None:
        """`thing` must live until the file is closed."""
        self._kept.append(thing)

    def header(self) -> bytes:
        nbytes = ctypes.c_size_t()
        address = _abi.st_header(self.pointer, ctypes.byref(nbytes))
        return ctypes.string_at(address, nbytes.value)

    def base_name(self) -> str | None:
        """Name of the file that the archive was coded against; None if it needs none."""
        base = _abi.StBase()
        if not _abi.st_base_info(self.pointer, ctypes.byref(base)):
            return None
        name: bytes = base.name
        return name.decode()


def open_path(path: bytes, base: bytes | None, base_dirs: Any) -> Handle:
    """Opens a file of this machine. base_dirs: path_array()."""
    handle = Handle(lambda pointer, diag: int(_abi.st_open(path, pointer, diag)))
    if base is not None or base_dirs:
        diag = _abi.StDiag()
        check(_abi.st_set_base(handle.pointer, base, base_dirs, len(base_dirs), ctypes.byref(diag)), diag)
    return handle


class File:
    """An open archive, or a plain file of a kind that has archives.

    path: of the file. The content tells the kind.
    base: the file that the archive was coded against. By default it is looked for in base_dirs and beside the archive.

    Several threads may read one file. A child process may read the file of its parent. A pickle holds the paths: the
    file is opened again where it is loaded, and must be the same.
    Raises OSError (no such file, not readable), DataError, UnsupportedError, LimitError, MemoryError. A closed file
    raises ClosedError.
    """

    def __init__(self, path: Path, *, base: Path | None = None, base_dirs: Sequence[Path] = ()) -> None:
        handle = open_path(encode_path(path), None if base is None else encode_path(base), path_array(base_dirs))
        self._places = _Places(os.path.abspath(encode_path(path)),
                               None if base is None else os.path.abspath(encode_path(base)),
                               [os.path.abspath(encode_path(folder)) for folder in base_dirs])
        self._begin(handle)

    def _begin(self, handle: Handle) -> None:
        self._handle: Handle | None = handle
        self._header = handle.header()
        self._metadata, self._tensors = _parse(self._header)
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @property
    def is_archive(self) -> bool:
        """False for a plain file."""
        return bool(_abi.st_is_archive(self._open().pointer))

    @property
    def container(self) -> str:
        """What the file is, or was before it was converted: "safetensors", "zip", "npy", "gguf" or "raw"."""
        name: bytes = _abi.st_container_name(_abi.st_container_of(self._open().pointer))
        return name.decode()

    @property
    def nbytes(self) -> int:
        """Bytes of the original file."""
        return int(_abi.st_file_nbytes(self._open().pointer))

    @property
    def stored_nbytes(self) -> int:
        """Bytes of the open file."""
        return int(_abi.st_stored_nbytes(self._open().pointer))

    @property
    def header(self) -> bytes:
        """The JSON header of the original file; of another file than a safetensors file, one made for its tensors."""
        self._open()
        return self._header

    @property
    def metadata(self) -> dict[str, str] | None:
        """`__metadata__` of the header, or None if it has none."""
        self._open()
        return None if self._metadata is None else dict(self._metadata)

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """What the tensors are, by their names, in the order of their content."""
        self._open()
        return self._tensors

    @property
    def base_name(self) -> str | None:
        """Name of the file that the archive was coded against, without folder and `.lmc`; None if it needs none."""
        return self._open().base_name()

    def find(self, name: str) -> TensorInfo:
        """What this tensor is. Raises TensorNotFound."""
        self._open()
        try:
            return self._tensors[name]
        except (KeyError, TypeError):
            raise TensorNotFound("File does not contain tensor %s" % (name,)) from None

    def read(self, name: str, *, threads: int | None = None) -> bytearray:
        """The content of a tensor: little-endian, in C order, verified. Raises as read_into() does."""
        tensor = self.find(name)
        content = new_bytearray(tensor.nbytes)
        self.read_into(name, content, threads=threads)
        return content

    def read_into(self, name: str, out: Any, *, threads: int | None = None) -> None:
        """Reads the content of a tensor into a writable buffer of its size.

        threads: None for one a core. Raises TensorNotFound, ArgumentError (another size), DataError, ChecksumError,
        UnsupportedError, BaseError, OSError, MemoryError. `out` has undefined bytes then.
        """
        tensor = self.find(name)
        with Buffer(out, writable=True) as destination:
            if destination.nbytes != tensor.nbytes:
                raise ArgumentError("out has %d bytes, the tensor %d" % (destination.nbytes, tensor.nbytes))
            self.read_many([tensor], [destination.address], threads=threads)

    def read_many(self, tensors: Sequence[TensorInfo], addresses: Sequence[int], *, threads: int | None = None,
                  progress: Progress | None = None) -> None:
        """Reads whole tensors to memory at these addresses, which has room for them. For those who wrap a framework.

        Threads share the work. progress(done bytes, all bytes) is called after each piece of it. What it raises ends
        the call. Raises as read_into() does.
        """
        self._decode_many(self._open(), tensors, addresses, threads, progress)

    def read_range(self, tensor: TensorInfo, first_byte: int, nbytes: int, address: int) -> None:
        """Reads bytes [first_byte, first_byte + nbytes) of a tensor to memory at this address."""
        self._decode_range(self._open(), tensor, first_byte, nbytes, address)

    def _decode_many(self, handle: Handle, tensors: Sequence[TensorInfo], addresses: Sequence[int],
                     threads: int | None = None, progress: Progress | None = None) -> None:
        nbytes = sum(tensor.nbytes for tensor in tensors)
        if len(tensors) == 1 and nbytes < _WAITING_FROM_NBYTES and progress is None:
            self._decode_range(handle, tensors[0], 0, nbytes, addresses[0])
            return
        indices = (ctypes.c_uint64 * len(tensors))(*(tensor.number for tensor in tensors))
        destinations = (ctypes.c_void_p * len(tensors))(*addresses)
        options = CallOptions(threads=threads, progress=progress)
        options.check(options.run(lambda settings, diag: _abi.st_read_many(
            handle.pointer, indices, destinations, len(tensors), settings, diag)))

    def _decode_range(self, handle: Handle, tensor: TensorInfo, first_byte: int, nbytes: int, address: int) -> None:
        if nbytes == 0:
            return
        if nbytes >= _WAITING_FROM_NBYTES and nbytes == tensor.nbytes:
            self._decode_many(handle, [tensor], [address])
            return
        piece_nbytes = self._piece_nbytes(handle, tensor, nbytes, _PIECE_NBYTES)
        for done in range(0, nbytes, piece_nbytes):  # a signal is heard between two pieces
            diag = _abi.StDiag()
            check(_abi.st_read_range(handle.pointer, _codec.context().pointer, tensor.number, first_byte + done,
                                     min(piece_nbytes, nbytes - done), address + done, ctypes.byref(diag)), diag)

    def place(self, tensor: TensorInfo) -> tuple[int, int]:
        """Where the tensor is stored in the open file: its offset and how many bytes."""
        offset, nbytes = ctypes.c_uint64(), ctypes.c_uint64()
        status = _abi.st_tensor_place(self._open().pointer, tensor.number, ctypes.byref(offset), ctypes.byref(nbytes))
        check_status(status)
        return offset.value, nbytes.value

    def has_base(self, tensor: TensorInfo) -> bool:
        """Was the tensor coded against another one? Of a tensor that is stored as another one, False."""
        place, index = ctypes.c_int(), ctypes.c_uint64()
        return bool(_abi.st_tensor_base(self._open().pointer, tensor.number, ctypes.byref(place), ctypes.byref(index)))

    def read_stored(self, tensor: TensorInfo, first_byte: int, nbytes: int, address: int) -> None:
        """Reads bytes of the tensor's place as they are stored."""
        diag = _abi.StDiag()
        check(_abi.st_read_stored(self._open().pointer, tensor.number, first_byte, nbytes, address,
                                  ctypes.byref(diag)), diag)

    def check_frame(self, tensor: TensorInfo) -> None:
        """Verifies head and tail of the tensor's frame, and that the content that they promise is the tensor's."""
        diag, content_hash, block_nbytes = _abi.StDiag(), ctypes.c_uint64(), ctypes.c_size_t()
        check(_abi.st_content_hash(self._open().pointer, tensor.number, ctypes.byref(content_hash),
                                   ctypes.byref(block_nbytes), ctypes.byref(diag)), diag)

    def piece_nbytes(self, tensor: TensorInfo, nbytes: int, wanted: int) -> int:
        """How many bytes of a tensor to read at once, of nbytes in all, where `wanted` at a time would be enough."""
        return self._piece_nbytes(self._open(), tensor, nbytes, wanted)

    @staticmethod
    def _piece_nbytes(handle: Handle, tensor: TensorInfo, nbytes: int, wanted: int) -> int:
        """A stored frame has one checksum: every range of it is read with all of it."""
        if nbytes <= wanted:
            return nbytes
        mode, diag = ctypes.c_int(), _abi.StDiag()
        check(_abi.st_tensor_mode(handle.pointer, tensor.number, ctypes.byref(mode), ctypes.byref(diag)), diag)
        return nbytes if mode.value == _abi.MODE_STORED else wanted

    def close(self) -> None:
        """Closes the file. A read that is at work in another thread ends first."""
        self._handle = None

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        self._open()
        return _open_again, (self._places, zlib.crc32(self._header))

    def _open(self) -> Handle:
        handle = self._handle
        if handle is None:
            raise ClosedError("File is closed")
        if self._pid != os.getpid():
            handle = self._reopen(handle)
        return handle

    def _reopen(self, handle: Handle) -> Handle:
        """In a child process: the lock of a file with a base may have been held when the parent forked."""
        with self._lock:
            if self._pid != os.getpid():
                if handle.base_name() is not None:
                    places = self._places
                    handle = open_path(places.path, places.base, path_array(places.base_dirs))
                    if handle.header() != self._header:
                        raise changed(os.fsdecode(places.path))
                    self._handle = handle
                self._pid = os.getpid()
            return self._handle or handle


def changed(name: str) -> DataError:
    """The exception for a file that is another one than before."""
    error = DataError("%s: the file has changed since it was opened" % name)
    error.file = name
    return error


def _open_again(places: _Places, header_crc: int) -> File:
    """The file of a pickle."""
    file = File(places.path, base=places.base, base_dirs=places.base_dirs)
    if zlib.crc32(file.header) != header_crc:
        raise changed(os.fsdecode(places.path))
    return file


def _parse(header: bytes) -> tuple[dict[str, str] | None, dict[str, TensorInfo]]:
    """Metadata and tensors. One pass of json takes less time than a call of the library for each tensor."""
    entries = json.loads(header)
    metadata = entries.pop("__metadata__", None)
    ordered = sorted(entries.items(), key=lambda item: item[1]["data_offsets"])
    tensors = {}
    for index, (name, entry) in enumerate(ordered):
        first, end = entry["data_offsets"]
        tensors[name] = TensorInfo(index, entry["dtype"], tuple(entry["shape"]), first, end - first)
    return metadata, tensors
