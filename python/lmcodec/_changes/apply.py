"""Deltas that are put into tensors in memory, and what they change there."""

from __future__ import annotations

import ctypes
import os
from array import array
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from .. import _abi
from .._arrays import Arrays, arrays_of
from .._buffer import Buffer, new_bytearray
from .._codec import OpenFrame, decode, info
from .._errors import ArgumentError, BaseError, DTypeError
from .._files import memory
from .._files.file import File, TensorInfo
from .._files.options import CallOptions, Path, Progress
from .state import Names, Place, State, one_mapping, place_of, translate

TO_APPLY, TO_LIST, UNCHECKED = range(3)  # lmc_st_changes_use
_INT32_COUNT = 1 << 31  # elements of a tensor whose indices fit int32


class Changes(NamedTuple):
    """Elements that change. indices: flat and rising, of 32 bits, or of 64 for 2**31 elements and more. values: the new
    elements, little-endian, one behind the other; element_nbytes: bytes of one.

    indices is None for a tensor that was not coded against a base: values has all of it.
    """

    indices: memoryview | None
    values: bytearray
    element_nbytes: int


class Found:
    """lmc_st_changes: what an open file changes in some of its tensors. Bases and results have been verified.

    bases: addresses of memory that holds the bases; None: they are in the file's base file.
    """

    def __init__(self, file: File, tensors: Sequence[TensorInfo], bases: Sequence[int] | None, use: int, *,
                 threads: int | None = None, progress: Progress | None = None) -> None:
        self.pointer = ctypes.c_void_p()
        self._handle, self._threads = file.open_handle(), threads  # the file stays open as long as this lives
        self._tensors = tensors
        indices = (ctypes.c_uint64 * len(tensors))(*(tensor.number for tensor in tensors))
        memory_of_bases = None if bases is None else (ctypes.c_void_p * len(tensors))(*bases)
        options = CallOptions(_abi.StOptions(), threads=threads, progress=progress)
        options.check(options.run(lambda settings, diag: _abi.st_changes_find(
            self._handle.pointer, indices, memory_of_bases, len(tensors), use, settings, ctypes.byref(self.pointer),
            diag)))

    def __del__(self, free: Any = _abi.st_changes_free) -> None:
        free(self.pointer)

    def count(self, number: int) -> int | None:
        """Elements that change in tensor `number` of the list; None if it was not coded against a base."""
        count = ctypes.c_uint64()
        return count.value if _abi.st_changes_count(self.pointer, number, ctypes.byref(count)) else None

    def list(self, number: int, indices: int, values: int) -> None:
        """Writes indices and new elements to these addresses."""
        options = CallOptions(_abi.StOptions())
        options.diag = _abi.StDiag()
        options.check(_abi.st_changes_list(self.pointer, number, index_nbytes_of(self._tensors[number]), indices,
                                           values))

    def apply(self, addresses: Sequence[int], written: Callable[[], object]) -> None:
        """Writes the new contents to memory that holds the bases, and calls written(). A signal is heard afterwards."""
        options = CallOptions(_abi.StOptions(), threads=self._threads)
        places = (ctypes.c_void_p * len(addresses))(*addresses)

        def write(settings: Any, diag: Any) -> int:
            status: int = _abi.st_changes_apply(self.pointer, places, settings, diag)
            if status == _abi.OK:
                written()
            return status

        options.check(options.run(write))


def index_nbytes_of(tensor: TensorInfo) -> int:
    """Bytes of an index: 4 or 8."""
    return 4 if tensor.nbytes // element_nbytes_of(tensor) <= _INT32_COUNT else 8


def element_nbytes_of(tensor: TensorInfo) -> int:
    """Bytes of what counts as an element: half of one of C64, and a byte of narrower ones."""
    return 4 if tensor.dtype == "C64" else max(1, int(_abi.DTYPE_NBITS[tensor.dtype]) // 8)


def changes_of(file: File, tensor: TensorInfo, base: Any = None, *, threads: int | None = None) -> Changes:
    """What changes in one tensor. base: a buffer with its base; None: it is in the file's base file."""
    width = element_nbytes_of(tensor)
    with ExitStack() as buffers:
        place = None if base is None else buffers.enter_context(Buffer(base))
        if place is not None and place.nbytes != tensor.nbytes:
            raise ArgumentError("the base has %d bytes, the tensor %d" % (place.nbytes, tensor.nbytes))
        if not file.has_base(tensor):
            content = new_bytearray(tensor.nbytes)
            with Buffer(content, writable=True) as out:
                file.read_many([tensor], [out.address], threads=threads)
            return Changes(None, content, width)
        found = Found(file, [tensor], None if place is None else [place.address], TO_LIST, threads=threads)
    count, index_nbytes = found.count(0) or 0, index_nbytes_of(tensor)
    indices, values = new_bytearray(count * index_nbytes), new_bytearray(count * width)
    with Buffer(indices, writable=True) as to_indices, Buffer(values, writable=True) as to_values:
        found.list(0, to_indices.address, to_values.address)
    return Changes(memoryview(indices).cast("i" if index_nbytes == 4 else "q"), values, width)


def changed_arrays(file: File, name: str, arrays: Arrays, base: int | None = None, *,
                   threads: int | None = None) -> tuple[Any, Any]:
    """The same as arrays of a framework on the host; of a tensor without a base, None and all of it. base: the address
    of memory that holds it."""
    tensor = file.find(name)
    if tensor.dtype == "C64" or _abi.DTYPE_NBITS[tensor.dtype] < 8:
        raise DTypeError("tensor %r: the elements of %s cannot be listed one by one" % (name, tensor.dtype))
    if not file.has_base(tensor):
        content, address = arrays.new(tensor.dtype, tensor.shape)
        file.read_many([tensor], [address], threads=threads)
        return None, content
    found = Found(file, [tensor], None if base is None else [base], TO_LIST, threads=threads)
    count = found.count(0) or 0
    indices, to_indices = arrays.new("I%d" % (8 * index_nbytes_of(tensor)), (count,))
    values, to_values = arrays.new(tensor.dtype, (count,))
    found.list(0, to_indices, to_values)
    return indices, values


def changes(frame: Any, base: Any) -> Changes:
    """The elements of a frame's content that differ from its base, with their places: without making the content.

    frame: what encode(..., base=...) gave, or any other buffer with a frame. base: a buffer with the base. Both base
    and content are verified. A frame that was not encoded against a base gives all of its content.
    Raises DataError, ChecksumError, UnsupportedError, BaseError (another base), ArgumentError (the content is not whole
    elements, or its base has another dtype), MemoryError, TypeError.
    """
    head = info(frame)
    if head.mode != "delta":
        return Changes(None, decode(frame), head.element_nbytes)
    with OpenFrame(frame) as opened_frame, Buffer(base) as old:
        if old.nbytes != head.base_nbytes or head.nbytes != head.base_nbytes:
            raise BaseError("the base has %d bytes, and the frame needs one of %d" % (old.nbytes, head.base_nbytes))
        places, values = bytearray(), bytearray()
        count = head.block_nbytes // head.element_nbytes
        is_narrow = head.nbytes // head.element_nbytes <= _INT32_COUNT
        found, room = array("I", bytes(4 * count)), new_bytearray(head.block_nbytes)
        with Buffer(found, writable=True) as to_places, Buffer(room, writable=True) as to_values:
            for number in range(head.block_count):
                changed = opened_frame.changes_of_block(number, old.address, to_places.address, to_values.address,
                                                        count)
                first = number * count
                places += array("i" if is_narrow else "q", [first + place for place in found[:changed]]).tobytes()
                values += room[:changed * head.element_nbytes]
    return Changes(memoryview(places).cast("i" if is_narrow else "q"), values, head.element_nbytes)


@contextmanager
def opened(delta: Any) -> Iterator[File]:
    """The file that a delta is: a path, its bytes, an open File, or an open file of Python."""
    if isinstance(delta, File):
        yield delta
        return
    if isinstance(delta, (str, os.PathLike)):
        with File(delta) as file:
            yield file
        return
    with memory.file_of(delta.read() if hasattr(delta, "read") else delta) as path, File(path) as file:
        yield file


def apply(delta: Path | bytes | bytearray | memoryview | File | Any, state: State, *, names: Names = None,
          write_unchecked: bool = False, threads: int | None = None, progress: Progress | None = None) -> None:
    """Changes tensors in place, from the version that a delta was made against to the one that it leads to.

    delta: what delta() gave, or any archive of a safetensors file that was coded against the tensors: its bytes, a
        path, an open File, or an open binary file. Its base file is not needed.
    state: the tensors by name, or a list of such mappings (shards), in any order: contiguous tensors of torch, NumPy
        arrays, or what serialize_file() takes with writable buffers. Those that the delta does not have stay as they
        are. A tensor on a device is copied to the host to be verified, and gets its changed values alone.
    names: where `state` has other names: a mapping, or a function, that gives the name there for a name in the delta.
    write_unchecked: False: every base and every result is verified before a byte is written. True: each block is
        verified just before it is written; if one fails, those before it have changed. That saves memory, and where
        much has changed half of the time.
    threads: None for one per core. progress(done bytes, all bytes) is called while the delta is verified.

    A tensor of which the delta holds all values is written whatever it was before; only tensors coded against a base
    are compared with it.

    Raises BaseError: a tensor is not what the delta was made against; the text says if the delta was applied before.
    ArgumentError: a tensor of the delta is missing in `state`, or has another dtype, shape or layout; tensors share
    memory that are to differ. DataError, ChecksumError, OSError, MemoryError, TypeError. Nothing was written then,
    unless write_unchecked; only if memory runs out in the middle, tensors are undefined.
    """
    with opened(delta) as file, ExitStack() as buffers:
        places = places_of(file, one_mapping(state), names, buffers)
        put(file, places, write_unchecked, threads, progress)


def places_of(file: File, tensors: Mapping[str, Any], names: Names, buffers: ExitStack) -> list[Place]:
    """Where the tensors of a delta are, in its order."""
    places = []
    for name, tensor in file.tensors.items():
        own_name = translate(names, name)
        if own_name not in tensors:
            raise ArgumentError("the state has no tensor %r, which the delta changes" % (own_name,))
        places.append(place_of(own_name, tensors[own_name], tensor.dtype, tensor.shape, buffers))
    return places


def put(file: File, places: Sequence[Place], write_unchecked: bool, threads: int | None,
        progress: Progress | None, written: Callable[[], object] = lambda: None) -> None:
    """Puts what a file changes in its tensors, in their order, to their places. written() is called as soon as all has
    been written; a signal that comes before is heard after it, if no tensor is on a device."""
    tensors = list(file.tensors.values())
    on_host = [number for number, place in enumerate(places) if place.device is None]
    on_device = [number for number, place in enumerate(places) if place.device is not None]
    bases = [places[number].address for number in on_host]
    found = Found(file, [tensors[number] for number in on_host], bases, UNCHECKED if write_unchecked else TO_APPLY,
                  threads=threads, progress=progress)
    names = list(file.tensors)
    changes = [(number, changed_arrays(file, names[number], _host(), places[number].address, threads=threads))
               for number in on_device]
    found.apply(bases, (lambda: None) if changes else written)
    for number, (indices, values) in changes:
        flat = places[number].device.detach().reshape(-1)
        if indices is None:
            flat.copy_(values.reshape(-1))
        else:
            flat[indices.long().to(flat.device)] = values.to(flat.device)
    if changes:
        written()


def _host() -> Arrays:
    """Tensors of torch on the host: no other framework has tensors on a device that are changed in place."""
    return arrays_of("pt", "cpu")
