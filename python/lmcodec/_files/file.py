"""Open files: archives and plain files, without a framework."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import threading
import zlib
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

from .. import _abi, _codec, _waiting
from .._buffer import LARGE_NBYTES, TRUSTED_EXPANSION, Buffer, new_bytearray
from .._errors import ArgumentError, ClosedError, DataError, LimitError, TensorNotFound, check, check_status, placed
from .options import CallOptions, Path, Progress, encode_path, path_array
from .part_reader import Opened, PartReader

if TYPE_CHECKING:
    from .._changes.apply import Changes

_WAITING_FROM_NBYTES = 16 << 20  # of content that is read in another thread
_PIECE_NBYTES = 128 << 20  # is read in a small part of a second
_SHARED_NBYTES = 2 << 20  # of a part of a tensor that is worth another thread
_REPEATED_NBYTES, _REPEATED_TIMES = 1 << 30, 64  # that views may repeat: bytes, or times the bytes of the file


class TensorInfo(NamedTuple):
    """A tensor as the file describes it, and as it is read: little-endian, in C order.

    number: in the file. dtype: as files name it. offset: of its storage among those of all tensors. nbytes: of what is
        read. storage_nbytes: of the storage.
    What follows is of a view, a tensor whose elements are picked from a storage of a torch or NumPy file.
    strides: in elements; None for a tensor that is all of its storage, and not a view.
    storage_offset: of the first element in the storage, in elements. is_big_endian: there; what is read is not.
    view_of: the tensor that is the first of the same storage; None for that one.
    note: why the dtype is U8, and not that of the file.
    """

    number: int
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    storage_nbytes: int
    strides: tuple[int, ...] | None = None
    storage_offset: int = 0
    is_big_endian: bool = False
    view_of: str | None = None
    note: str | None = None


class TensorCoding(NamedTuple):
    """How a tensor stands in its file. Nothing of it is verified before the tensor is read.

    mode: "coded", "delta", "stored", "short", "alias" (equal to an earlier tensor), or "plain" (in no archive).
    form: of narrow contents in wide elements, such as "F16 in F32"; else None. has_rans: symbols have a rANS code.
    """

    mode: str
    form: str | None
    has_rans: bool


class _Listing(NamedTuple):
    """What the header says."""

    tensors: Mapping[str, TensorInfo]
    metadata: dict[str, str] | None


class _Places(NamedTuple):
    """Absolute paths of a file and of its base: other processes may have another working directory.

    stamp: what a file that replaces this one has otherwise.
    """

    path: bytes
    base: bytes | None
    base_dirs: list[bytes]
    stamp: tuple[int, int]


class Handle:
    """lmc_st_file. It is closed with the last reference to it, so no call is at work then.

    open_file(pointer, diag): the call that opens it.
    """

    def __init__(self, open_file: Callable[[Any, Any], int]) -> None:
        self.opened = Opened()
        self.pointer = self.opened.pointer
        self._kept: list[Any] = []
        self._owners: list[int] | None = None
        self._reader = PartReader(self.opened)
        diag = _abi.StDiag()
        check(open_file(ctypes.byref(self.pointer), ctypes.byref(diag)), diag)

    def __del__(self) -> None:
        self.opened.close()

    def keep(self, thing: Any) -> None:
        """`thing`, such as a base, must live until the file is closed."""
        self._kept.append(thing)
        if isinstance(thing, Handle):
            thing.opened.add_user(self.opened)

    def header(self) -> bytes:
        nbytes = ctypes.c_size_t()
        address = _abi.st_header(self.pointer, ctypes.byref(nbytes))
        return ctypes.string_at(address, nbytes.value)

    def tensors(self) -> dict[str, TensorInfo]:
        """What the library lists, in its order."""
        found: dict[str, TensorInfo] = {}
        names: list[str] = []
        tensor = _abi.StTensor()
        for number in range(_abi.st_tensor_count(self.pointer)):
            check_status(_abi.st_tensor_info(self.pointer, number, ctypes.byref(tensor)))
            names.append(ctypes.string_at(tensor.name, tensor.name_nbytes).decode())
            view = () if not tensor.is_view else (
                tuple(tensor.strides[:tensor.rank]) if tensor.rank else (), tensor.offset, bool(tensor.is_big_endian),
                names[tensor.view_of] if tensor.view_of != number else None,
                tensor.note.decode() if tensor.note else None)
            found[names[-1]] = TensorInfo(number, tensor.dtype_name.decode(),
                                          tuple(tensor.shape[:tensor.rank]) if tensor.rank else (),
                                          tensor.data_offset, tensor.nbytes, tensor.storage_nbytes, *view)
        return found

    def is_archive(self) -> bool:
        return bool(_abi.st_is_archive(self.pointer))

    def base_count(self) -> int:
        """Base files that the archive records."""
        return int(_abi.st_base_count(self.pointer))

    def base_info(self, number: int) -> Any:
        """What the archive records of a base file."""
        base = _abi.StBase()
        check_status(_abi.st_base_info(self.pointer, number, ctypes.byref(base)))
        return base

    def place(self, number: int) -> tuple[int, int]:
        """Where a tensor is stored in the open file: its offset and how many bytes."""
        offset, nbytes = ctypes.c_uint64(), ctypes.c_uint64()
        check_status(_abi.st_tensor_place(self.pointer, number, ctypes.byref(offset), ctypes.byref(nbytes)))
        return offset.value, nbytes.value

    def range_place(self, number: int, is_storage: bool, first_byte: int, nbytes: int) -> tuple[int, int, int, int]:
        """Offset and size of the stored bytes for a part of a tensor, and the content [begin, end) that they hold."""
        numbers, diag = [ctypes.c_uint64() for _ in range(4)], _abi.StDiag()
        check(_abi.st_range_place(self.pointer, number, is_storage, first_byte, nbytes, *map(ctypes.byref, numbers),
                                  ctypes.byref(diag)), diag)
        offset, stored_nbytes, begin, end = (each.value for each in numbers)
        return offset, stored_nbytes, begin, end

    def mode(self, number: int) -> int:
        """The mode of a tensor's frame. Its head is checked."""
        mode, diag = ctypes.c_int(), _abi.StDiag()
        check(_abi.st_tensor_mode(self.pointer, number, ctypes.byref(mode), ctypes.byref(diag)), diag)
        return mode.value

    def coding(self, number: int) -> TensorCoding:
        mode, form, diag = ctypes.c_int(), _abi.FormInfo(), _abi.StDiag()
        check(_abi.st_tensor_form(self.pointer, number, ctypes.byref(mode), ctypes.byref(form), ctypes.byref(diag)),
              diag)
        return TensorCoding(_abi.st_mode_name(mode.value).decode(), form.text.decode() or None, bool(form.has_rans))

    def base_of(self, number: int) -> tuple[int | None, int] | None:
        """Which base file has what a tensor was coded against (None: this file), and its number there; None if it
        stands alone."""
        where, file, base = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_uint64()
        found = _abi.st_tensor_base(self.pointer, number, *map(ctypes.byref, (where, file, base)))
        if not found:
            return None
        return (file.value if where.value == _abi.BASE_FILE else None), base.value

    def base_file_of(self, number: int) -> int | None:
        """The base file that a tensor needs, itself or because a tensor of this file that it needs does."""
        base = self.base_of(self.owner(number))
        while base is not None and base[0] is None:
            base = self.base_of(self.owner(base[1]))
        return None if base is None else base[0]

    def owner(self, number: int) -> int:
        """The tensor whose frame serves this one: the first at its place."""
        if not self.is_archive():
            return number
        if self._owners is None:
            first: dict[tuple[int, int], int] = {}
            places = map(self.place, range(_abi.st_tensor_count(self.pointer)))
            self._owners = [first.setdefault(place, index) for index, place in enumerate(places)]
        return self._owners[number]

    def read_stored(self, number: int, first_byte: int, nbytes: int, address: Any) -> None:
        """Reads bytes of a tensor's place as they are stored."""
        diag = _abi.StDiag()
        check(_abi.st_read_stored(self.pointer, number, first_byte, nbytes, address, ctypes.byref(diag)), diag)

    def read_part(self, number: int, first_byte: int, nbytes: int, address: int) -> bool:
        """Reads a part of a tensor with the reader of the last part. It has the frame open, and the last block.

        False if another thread has the reader, or may have had it when the parent forked.
        """
        if not self._reader.take():
            return False
        try:
            self._reader.read(number, first_byte, nbytes, address)
        finally:
            self._reader.give()
        return True

    def origin(self, number: int) -> tuple[int, int]:
        """Where a tensor's storage stands in the original file, and its bytes."""
        offset, nbytes = ctypes.c_uint64(), ctypes.c_uint64()
        check_status(_abi.st_tensor_origin(self.pointer, number, ctypes.byref(offset), ctypes.byref(nbytes)))
        return offset.value, nbytes.value

    def read_skeleton(self, offset: int, nbytes: int, address: int) -> None:
        """Reads bytes of what stands between the tensors of the original file."""
        diag = _abi.StDiag()
        check(_abi.st_skeleton_read(self.pointer, offset, nbytes, address, ctypes.byref(diag)), diag)


def open_path(path: bytes, base: bytes | None, base_dirs: Any) -> Handle:
    """Opens a file of this machine. base_dirs: path_array()."""
    options = _abi.StOpenOptions()
    options.base, options.base_dirs, options.base_dir_count = base, base_dirs, len(base_dirs)
    return Handle(lambda pointer, diag: int(_abi.st_open(path, ctypes.byref(options), pointer, diag)))


class File:
    """An open archive, or a plain file of a kind that has archives.

    path: of the file. Its content decides what kind it is.
    base: the file that the archive was coded against. By default it is searched for in base_dirs and beside the
        archive.

    Several threads may read one file. A child process may read the file of its parent. A pickle holds the paths: the
    file is opened again where it is loaded, and must be the same, with the same size and time of its last change.
    Raises OSError (no such file, not readable), DataError, UnsupportedError, LimitError, MemoryError. A closed file
    raises ClosedError.
    """

    shares_ranges = True  # read_range() has several threads

    def __init__(self, path: Path, *, base: Path | None = None, base_dirs: Sequence[Path] = ()) -> None:
        handle = open_path(encode_path(path), None if base is None else encode_path(base), path_array(base_dirs))
        self._places = _Places(os.path.abspath(encode_path(path)),
                               None if base is None else os.path.abspath(encode_path(base)),
                               [os.path.abspath(encode_path(folder)) for folder in base_dirs],
                               _stamp_of(encode_path(path)))
        self._begin(handle)

    def _begin(self, handle: Handle) -> None:
        self._handle: Handle | None = handle
        self._header = handle.header()
        self._listing: _Listing | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @property
    def is_archive(self) -> bool:
        """False for a plain file."""
        return self._open().is_archive()

    @property
    def container(self) -> str:
        """What the file is, or was before it was converted: "safetensors", "zip", "npy", "gguf" or "raw"."""
        handle = self._open()
        name: bytes = _abi.st_container_name(_abi.st_container_of(handle.pointer))
        return name.decode()

    @property
    def nbytes(self) -> int:
        """Bytes of the original file."""
        handle = self._open()
        return int(_abi.st_original_nbytes(handle.pointer))

    @property
    def stored_nbytes(self) -> int:
        """Bytes of the open file."""
        handle = self._open()
        return int(_abi.st_stored_nbytes(handle.pointer))

    @property
    def header(self) -> bytes:
        """The JSON header of the original safetensors file. For other files, one made from their tensors."""
        self._open()
        return self._header

    @property
    def metadata(self) -> dict[str, str] | None:
        """`__metadata__` of the header, or None if it has none."""
        metadata = self._listed(self._open()).metadata
        return None if metadata is None else dict(metadata)

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """Descriptions of the tensors by name, read-only: the first of each storage in the order of contents, then the
        others."""
        return self._listed(self._open()).tensors

    def _listed(self, handle: Handle) -> _Listing:
        """The header is parsed when its content is asked for: a file of many tensors is opened in less time."""
        listing = self._listing
        if listing is None:
            is_safetensors = _abi.st_container_of(handle.pointer) == _abi.CONTAINER_SAFETENSORS
            with _collector_paused():
                entries = json.loads(self._header)
                metadata = entries.pop("__metadata__", None)
                tensors = _tensors_of(entries) if is_safetensors else handle.tensors()
                del entries
            listing = self._listing = _Listing(MappingProxyType(tensors), metadata)
        return listing

    @property
    def base_name(self) -> str | None:
        """Name of the file that the archive was coded against, without folder; None if it has no base.

        Of several base files, that of the first: base_names has all.
        """
        return next(iter(self.base_names), None)

    @property
    def base_names(self) -> list[str]:
        """Names of the files that the archive was coded against, without folders. Most archives have one at most."""
        handle = self._open()
        return [handle.base_info(number).name.decode() for number in range(handle.base_count())]

    def find(self, name: str) -> TensorInfo:
        """The description of this tensor. Raises TensorNotFound."""
        tensors = self.tensors
        try:
            return tensors[name]
        except (KeyError, TypeError):
            raise placed(TensorNotFound("File does not contain tensor %s" % (name,)),  # the text of safetensors
                         self.shown_name(), str(name)) from None

    def coding(self, name: str) -> TensorCoding:
        """How a tensor is stored. Reads the start of its frame. Raises TensorNotFound, DataError, UnsupportedError."""
        return self._open().coding(self.find(name).number)

    def read(self, name: str, *, threads: int | None = None) -> bytearray:
        """The content of a tensor: little-endian, in C order, verified. Raises as read_into() does."""
        tensor = self.find(name)
        self.check_repeats({name: tensor})
        self.check_size(tensor)
        content = new_bytearray(tensor.nbytes)
        self.read_into(name, content, threads=threads)
        return content

    def read_into(self, name: str, out: Any, *, threads: int | None = None) -> None:
        """Reads the content of a tensor into a writable buffer of its size.

        threads: None for one per core. Raises TensorNotFound, ArgumentError (another size), DataError, ChecksumError,
        UnsupportedError, BaseError, OSError, MemoryError. `out` has undefined bytes then.
        """
        tensor = self.find(name)
        with Buffer(out, writable=True) as destination:
            if destination.nbytes != tensor.nbytes:
                raise ArgumentError("out has %d bytes, the tensor %d" % (destination.nbytes, tensor.nbytes))
            self.read_many([tensor], [destination.address], threads=threads)

    def read_many(self, tensors: Sequence[TensorInfo], addresses: Sequence[int], *, threads: int | None = None,
                  progress: Progress | None = None) -> None:
        """Reads whole tensors to memory at these addresses, which has room for them. For code that wraps a framework.

        Threads share the work. progress(done bytes, all bytes) is called after each piece of it. An exception from it
        ends the call. Raises as read_into() does.
        """
        _codec.threads_of(threads)
        self._decode_many(self._open(), tensors, addresses, threads, progress)

    def changes(self, name: str, *, base: Any = None, threads: int | None = None) -> Changes:
        """The elements of a tensor that differ from those of the tensor that it was coded against, with their places.

        base: a buffer with the base's content. By default it is read from the archive's base file.
        threads: None for one per core. Base and result are verified. A tensor that stands alone, or is stored as
        another one of this file, comes whole.
        Raises TensorNotFound, ArgumentError (the base has another size or dtype), BaseError (it is missing, or
        another), DataError, ChecksumError, OSError, MemoryError.
        """
        from .._changes.apply import changes_of

        return changes_of(self, self.find(name), base, threads=threads)

    def open_handle(self) -> Handle:
        """The open file of the library. ClosedError."""
        return self._open()

    def read_range(self, tensor: TensorInfo, first_byte: int, nbytes: int, address: int, *,
                   threads: int | None = 1) -> None:
        """Reads bytes [first_byte, first_byte + nbytes) of a tensor to memory at this address."""
        handle = self._open()
        count = min(thread_count_of(threads), nbytes // _SHARED_NBYTES) if nbytes >= 2 * _SHARED_NBYTES else 1
        if nbytes in (0, tensor.nbytes) or nbytes > _PIECE_NBYTES or tensor.strides is not None:
            self._decode_range(handle, tensor, first_byte, nbytes, address)
        elif count > 1 and self._piece_nbytes(handle, tensor, nbytes, 0) == 0:
            step = -(-nbytes // count >> 20) << 20
            _waiting.share(lambda done: self._decode_range(handle, tensor, first_byte + done, min(step, nbytes - done),
                                                           address + done), range(0, nbytes, step))
        elif not handle.read_part(tensor.number, first_byte, nbytes, address):
            self._decode_range(handle, tensor, first_byte, nbytes, address)

    def _decode_many(self, handle: Handle, tensors: Sequence[TensorInfo], addresses: Sequence[int],
                     threads: int | None = None, progress: Progress | None = None) -> None:
        nbytes = sum(tensor.nbytes for tensor in tensors)
        if len(tensors) == 1 and nbytes < _WAITING_FROM_NBYTES and progress is None:
            self._decode_range(handle, tensors[0], 0, nbytes, addresses[0])
            return
        indices = (ctypes.c_uint64 * len(tensors))(*(tensor.number for tensor in tensors))
        destinations = (ctypes.c_void_p * len(tensors))(*addresses)
        options = CallOptions(_abi.StOptions(), threads=threads, progress=progress)
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

    def check_repeats(self, tensors: Mapping[str, TensorInfo]) -> None:
        """Raises LimitError if views with strides of 0 would repeat a small file over much memory."""
        views = {name: tensor for name, tensor in tensors.items() if tensor.strides is not None}
        storages = {tensor.view_of or name: tensor.storage_nbytes for name, tensor in views.items()}
        repeated = sum(tensor.nbytes for tensor in views.values()) - sum(storages.values())
        if repeated > max(_REPEATED_NBYTES, _REPEATED_TIMES * self.stored_nbytes):
            largest = max(views, key=lambda name: views[name].nbytes)
            raise placed(LimitError("tensor %r: views repeat what is stored over %d bytes; get_slice() reads parts"
                                    % (largest, repeated)), None, largest)

    def place(self, tensor: TensorInfo) -> tuple[int, int]:
        """Where the tensor is stored in the open file: its offset and how many bytes."""
        return self._open().place(tensor.number)

    def check_size(self, tensor: TensorInfo) -> None:
        """Verifies head and tail of the frame of a large tensor of which few bytes are stored.

        Call it before memory is taken for the tensor. Raises as read_into() does.
        """
        if tensor.nbytes >= LARGE_NBYTES and tensor.nbytes > TRUSTED_EXPANSION * self.place(tensor)[1]:
            self.check_frame(tensor)

    def check_base(self, tensors: Iterable[TensorInfo]) -> None:
        """Reads a byte of the first tensor that needs each base file: one that is missing, or another, is found."""
        handle = self._open()
        first: dict[int, TensorInfo] = {}
        for tensor in tensors if handle.base_count() else ():
            base = handle.base_file_of(tensor.number) if tensor.nbytes else None
            if base is not None:
                first.setdefault(base, tensor)
        byte = ctypes.c_ubyte()
        for tensor in first.values():
            self.read_range(tensor, 0, 1, ctypes.addressof(byte))

    def has_base(self, tensor: TensorInfo) -> bool:
        """Whether the tensor was coded against another one. False for a tensor that is stored as another one."""
        return self._open().base_of(tensor.number) is not None

    def read_storage(self, tensor: TensorInfo, first_byte: int, nbytes: int, address: int, reader: PartReader) -> None:
        """Reads bytes of the tensor's storage as they stand in the original file. reader: of this file's storages."""
        self._open()
        reader.read(tensor.number, first_byte, nbytes, address)

    @property
    def skeleton_nbytes(self) -> int:
        """Bytes of the original file that belong to no tensor."""
        handle = self._open()
        return int(_abi.st_skeleton_nbytes(handle.pointer))

    def read_skeleton(self, offset: int, nbytes: int, address: int) -> None:
        """Reads bytes of the original file's skeleton."""
        self._open().read_skeleton(offset, nbytes, address)

    def read_stored(self, tensor: TensorInfo, first_byte: int, nbytes: int, address: int) -> None:
        """Reads bytes of the tensor's place as they are stored."""
        self._open().read_stored(tensor.number, first_byte, nbytes, address)

    def check_frame(self, tensor: TensorInfo) -> None:
        """Verifies head and tail of the tensor's frame, and that they promise the bytes of its storage."""
        self._open().range_place(tensor.number, True, 0, 1)

    def piece_nbytes(self, tensor: TensorInfo, nbytes: int, wanted: int) -> int:
        """How many of nbytes bytes of a tensor to read at once, where `wanted` at a time would be enough."""
        return self._piece_nbytes(self._open(), tensor, nbytes, wanted)

    @staticmethod
    def _piece_nbytes(handle: Handle, tensor: TensorInfo, nbytes: int, wanted: int) -> int:
        """A stored frame has one checksum, so that all of it is read for each range."""
        return nbytes if nbytes <= wanted or handle.mode(tensor.number) == _abi.MODE_STORED else wanted

    def close(self) -> None:
        """Closes the file. A read that is at work in another thread ends first."""
        self._handle = None

    def __repr__(self) -> str:
        handle = self._handle
        if handle is None:
            return "<lmcodec.File %r, closed>" % self.shown_name()
        nbytes, stored_nbytes = _abi.st_original_nbytes(handle.pointer), _abi.st_stored_nbytes(handle.pointer)
        kind = "ratio %.3f" % (stored_nbytes / nbytes if nbytes else 1) if handle.is_archive() else "no archive"
        count = len(self._listed(handle).tensors)
        return "<lmcodec.File %r, %d tensors, %d bytes, %s>" % (self.shown_name(), count, nbytes, kind)

    def shown_name(self) -> str:
        return os.fsdecode(self._places.path)

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        self._open()
        return _open_again, (self._places, zlib.crc32(self._header))

    def _open(self) -> Handle:
        """The handle. The caller keeps it while it uses the pointer: close() in another thread lets go of it."""
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
                if handle.base_count():
                    places = self._places
                    handle = open_path(places.path, places.base, path_array(places.base_dirs))
                    if handle.header() != self._header or _stamp_of(places.path) != places.stamp:
                        raise changed(os.fsdecode(places.path))
                    self._handle = handle
                self._pid = os.getpid()
            return self._handle or handle


def thread_count_of(threads: int | None) -> int:
    """How many threads a call with this argument starts."""
    return _codec.threads_of(threads) or int(_abi.core_count())


def changed(name: str) -> DataError:
    """The exception for a file that has been replaced since it was opened."""
    return placed(DataError("%s: the file has changed since it was opened" % name), name)


def _open_again(places: _Places, header_crc: int) -> File:
    """The file of a pickle."""
    file = File(places.path, base=places.base, base_dirs=places.base_dirs)
    if zlib.crc32(file.header) != header_crc or file._places.stamp != places.stamp:
        raise changed(os.fsdecode(places.path))
    return file


def _stamp_of(path: bytes) -> tuple[int, int]:
    """Size and time of the last change. Numbers of devices and files may differ where other machines see the file."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Python's collector does not visit all objects of the process while many are made of which none is garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _tensors_of(entries: dict[str, Any]) -> dict[str, TensorInfo]:
    """The tensors of a header of a safetensors file. This takes less time than a call of the library for each."""
    defaults = tuple(TensorInfo._field_defaults.values())
    make, tensors = tuple.__new__, {}
    ordered = sorted(entries.items(), key=lambda item: item[1]["data_offsets"])
    for index, (name, entry) in enumerate(ordered):
        first, end = entry["data_offsets"]
        tensors[name] = make(TensorInfo, (index, entry["dtype"], tuple(entry["shape"]), first, end - first, end - first,
                                          *defaults))
    return tensors
