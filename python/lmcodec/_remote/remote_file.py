"""Files in stores: what the wanted tensors need is fetched while earlier ones are decoded."""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import threading
import zlib
from concurrent.futures import Future
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence, Tuple

from .. import _abi
from .._codec import threads_of
from .._errors import ClosedError, LimitError
from .._files.file import File, Handle, TensorInfo, changed
from .._files.options import Path, Progress
from .._files.part_reader import PartReader
from .._files.progress import ProgressCall, call_of, part_of
from .chain import ChainFile, Place, Search, to_places
from .source import GAP_NBYTES, Ranges, Requests, Settings, Source, make_settings
from .stores import hide_secrets

_BATCH_NBYTES = 32 << 20  # stored bytes that are fetched for one call of the library
_HELD_NBYTES = 128 << 20  # stored bytes in memory: those of the batch that is decoded, and of the next
_WHOLE_NBYTES = 1 << 20  # a frame up to this size is fetched whole, if only a part of it is wanted
_HEAD_NBYTES = 8192  # of a frame, that the library reads at once
_TAIL_NBYTES_MAX = 1 << 20  # of a frame, that are fetched with its head. More only once the head was verified
_INDICES_NBYTES_MAX = 32 << 20  # of the frames that a read needs
_KEPT_NBYTES = 32 << 20  # of heads and indices, for later reads

_Ends = Sequence[Tuple[Source, Ranges]]  # heads and indices of frames


class _Wanted(NamedTuple):
    """Content [first, first + nbytes) of a tensor, and where it goes.

    reader: reads its storage, of which this is a part; None if it is a part of the tensor. kept: content [begin, end)
    that the reader has afterwards.
    """

    tensor: TensorInfo
    first: int
    nbytes: int
    address: int
    reader: PartReader | None = None
    kept: tuple[int, int] = (0, 0)

    def is_whole(self) -> bool:
        return self.reader is None and self.nbytes == self.tensor.nbytes


class _Batch:
    """What is fetched together and decoded in one go: whole tensors, or a part of one. ends: fetched before."""

    def __init__(self, wanted: list[_Wanted], places: Iterable[Place], ends: _Ends = ()) -> None:
        self.wanted = wanted
        by_source: dict[Source, list[tuple[int, int]]] = {}
        for place in places:
            if place.nbytes and not place.source.has(place.offset + place.nbytes) and \
                    not any(source is place.source and ranges.has(place.offset, place.offset + place.nbytes)
                            for source, ranges in ends):
                by_source.setdefault(place.source, []).append((place.offset, place.offset + place.nbytes))
        self._ranges = [(source, Ranges(ranges)) for source, ranges in by_source.items()]
        self._held: _Ends = [*self._ranges, *ends]
        self.nbytes = sum(ranges.nbytes for _, ranges in self._ranges)
        self.is_started = False
        self._futures: list[Future[Any]] = []

    def start(self) -> None:
        self.is_started = True
        self._futures = [source.fetch(ranges) for source, ranges in self._ranges]

    def wait(self) -> None:
        for number in range(len(self._futures)):
            self._futures[number].result()  # without a name: a future that has failed holds the exception

    def cancel(self) -> None:
        while self._futures:
            self._futures.pop().cancel()

    def held(self) -> contextlib.AbstractContextManager[None]:
        """The library finds the bytes, which have come. Reads in other threads may use them, too."""
        return _held(self._held)


@contextlib.contextmanager
def _held(bytes_of: _Ends) -> Iterator[None]:
    """The library finds these bytes until `with` ends."""
    for source, ranges in bytes_of:
        source.hold(ranges)
    try:
        yield
    finally:
        for source, ranges in bytes_of:
            source.release(ranges)


@contextlib.contextmanager
def _failures_of(root: ChainFile) -> Iterator[None]:
    """Replaces the error by which the library says that a read failed with the exception that says why."""
    try:
        yield
    except OSError:
        for source in root.sources():
            source.raise_failure()
        raise


class RemoteFile(File):
    """An open archive or plain file at a URL. It is used like lmcodec.File.

    url: "s3://bucket/model.lmc", "https://...", "gs://...", "hf://...", "memory://...": all that fsspec supports.
    storage_options: of fsspec's file system: credentials, endpoints.
    base, base_dirs: URLs or local paths. The base is also searched for beside the URL.
    requests: at once. retries: of a failed request. timeout: seconds within which a server must answer.
    lowest_rate: bytes a second that an answer must have, on average over each `timeout`; 0 for none. HTTP and S3.
    time_limit: seconds after which a call that waits for a store ends: the opening, or a read; None for no limit.

    Several threads may read one file. A child process opens the file again. A pickle contains the URL and
    storage_options, with the credentials in them. The file must not have changed when it is opened again.
    Raises ImportError (fsspec, or its package for this kind of URL), FileNotFoundError, PermissionError, OSError,
    TimeoutError, and as lmcodec.File.
    """

    shares_ranges = False

    def __init__(self, url: str, *, storage_options: Mapping[str, Any] | None = None, base: Path | None = None,
                 base_dirs: Sequence[Path] = (), requests: int = 8, retries: int = 4, timeout: float = 60.0,
                 lowest_rate: float = 1024.0, time_limit: float | None = None) -> None:
        if isinstance(base_dirs, (str, bytes)):
            raise TypeError("a list of folders is wanted, not one")
        settings = make_settings(url, storage_options, requests, retries, timeout, lowest_rate, time_limit)
        places = to_places(base_dirs)
        self._start(url, settings, None if base is None else to_places([base])[0], places, None)

    def _start(self, url: str, settings: Settings, base: str | None, base_dirs: tuple[str, ...],
               expected: tuple[int, str | None] | None) -> None:
        self._made_of = (url, settings, base, base_dirs)
        self._base_lock = threading.Lock()  # bases are opened by one thread
        self._requests = Requests(settings)
        with self._requests.call():
            root = ChainFile(settings.locate(url), Search(base, base_dirs, settings, self._requests), expected)
        self._root: ChainFile | None = root
        self._kept: collections.OrderedDict[tuple[Source, int], Ranges] = collections.OrderedDict()
        self._kept_lock = threading.Lock()
        self._begin(root.handle)

    def read_many(self, tensors: Sequence[TensorInfo], addresses: Sequence[int], *, threads: int | None = None,
                  progress: Progress | None = None) -> None:
        threads_of(threads)
        self._read([_Wanted(tensor, 0, tensor.nbytes, address) for tensor, address in zip(tensors, addresses)],
                   threads, call_of(progress))

    def read_range(self, tensor: TensorInfo, first_byte: int, nbytes: int, address: int, *,
                   threads: int | None = 1) -> None:
        self._read([_Wanted(tensor, first_byte, nbytes, address)], None, None)

    def read_storage(self, tensor: TensorInfo, first_byte: int, nbytes: int, address: int, reader: PartReader) -> None:
        self._read([_Wanted(tensor, first_byte, nbytes, address, reader)], None, None)

    def read_skeleton(self, offset: int, nbytes: int, address: int) -> None:
        self._open()
        root = self._root
        if root is None:
            raise ClosedError("File is closed")
        with self._requests.call(), _failures_of(root):
            super().read_skeleton(offset, nbytes, address)

    def check_size(self, tensor: TensorInfo) -> None:
        """Nothing: pages come as content does, and the frame would be fetched for it."""

    def check_base(self, tensors: Iterable[TensorInfo]) -> None:
        """Opens the bases that the tensors need: their headers are fetched, and no content."""
        self._open()
        root = self._root
        if root is None:
            raise ClosedError("File is closed")
        with self._requests.call(), self._base_lock:
            for tensor in tensors:
                if tensor.nbytes:
                    collections.deque(root.frames(tensor.number), maxlen=0)

    # ---- what is fetched ----

    def _read(self, wanted: list[_Wanted], threads: int | None, progress: ProgressCall | None) -> None:
        self._open()
        root = self._root
        if root is None:
            raise ClosedError("File is closed")
        total, done = sum(part.nbytes for part in wanted), 0
        # Views come behind their storage, which is fetched once for all of them.
        wanted = sorted(wanted, key=lambda part: (part.tensor.offset, part.tensor.number))
        batches = self._batches(root, [part for part in wanted if part.nbytes])
        waiting: collections.deque[_Batch] = collections.deque()
        try:
            with self._requests.call():
                while self._fill(waiting, batches):
                    waiting[0].wait()
                    with waiting[0].held():
                        self._decode(root, waiting[0], threads, part_of(progress, done, total))
                    done += sum(part.nbytes for part in waiting.popleft().wanted)
        finally:
            for batch in waiting:
                batch.cancel()

    @staticmethod
    def _fill(waiting: collections.deque[_Batch], batches: Iterator[_Batch]) -> bool:
        """Starts to fetch as much as memory is allowed for. False if nothing is left."""
        held = sum(batch.nbytes for batch in waiting if batch.is_started)
        while True:
            if not waiting or waiting[-1].is_started and held + _BATCH_NBYTES <= _HELD_NBYTES:
                waiting.extend(itertools.islice(batches, 1))
            if not waiting or waiting[-1].is_started or len(waiting) > 1 and held + waiting[-1].nbytes > _HELD_NBYTES:
                return bool(waiting)
            waiting[-1].start()
            held += waiting[-1].nbytes

    def _decode(self, root: ChainFile, batch: _Batch, threads: int | None, progress: ProgressCall | None) -> None:
        wanted = batch.wanted
        with _failures_of(root):
            if wanted[0].is_whole():
                self._decode_many(root.handle, [part.tensor for part in wanted], [part.address for part in wanted],
                                  threads, progress)
                return
            for part in wanted:
                if part.reader is None:
                    self._decode_range(root.handle, part.tensor, part.first, part.nbytes, part.address)
                else:
                    part.reader.read(part.tensor.number, part.first, part.nbytes, part.address)
                    part.reader.kept = part.kept
        if progress is not None:
            progress(wanted[0].nbytes, wanted[0].nbytes)

    def _batches(self, root: ChainFile, wanted: list[_Wanted]) -> Iterator[_Batch]:
        parts: list[_Wanted] = []
        places: set[Place] = set()
        nbytes = end = 0
        for part in wanted:
            with self._base_lock:
                frames = list(root.frames(part.tensor.number))
            frames_nbytes = sum(frame.nbytes for frame in frames)
            more_nbytes = sum(frame.nbytes for frame in frames if frame not in places)
            if part.is_whole():
                is_small = frames_nbytes <= _BATCH_NBYTES
            else:
                is_small = part.reader is None and frames_nbytes <= _WHOLE_NBYTES and frames[0].is_frame
            gap = frames[0].offset - end  # is fetched, too, if it is small
            more_nbytes += gap if 0 < gap <= GAP_NBYTES else 0
            if parts and (not is_small or nbytes + more_nbytes > _BATCH_NBYTES):
                yield _Batch(parts, places)
                parts, places, nbytes, more_nbytes = [], set(), 0, frames_nbytes
            if not is_small:
                pieces = self._pieces if part.reader is None else self._storage_pieces
                yield from pieces(root, part, frames)
                continue
            parts.append(part)
            places.update(frames)
            nbytes += more_nbytes
            end = frames[0].offset + frames[0].nbytes
        if parts:
            yield _Batch(parts, places)

    def _pieces(self, root: ChainFile, part: _Wanted, frames: list[Place]) -> Iterator[_Batch]:
        """A part of a large tensor, or all of it, in pieces of whole blocks."""
        number, is_view = part.tensor.number, part.tensor.strides is not None
        ends = self._ends_of(root, part.tensor, frames)
        at, end = part.first, part.first + part.nbytes
        while at < end:
            span = min(_BATCH_NBYTES, end - at)
            with _held(ends), _failures_of(root):
                places = list(root.parts(number, at, span))
                if is_view and places[0].nbytes > 2 * _BATCH_NBYTES:  # each piece would need all of the storage
                    span = end - at
                    places = list(root.parts(number, at, span))
                while not is_view and span > 1 and sum(place.nbytes for place in places) > 2 * _BATCH_NBYTES:
                    span //= 2  # of a long chain
                    places = list(root.parts(number, at, span))
            if sum(place.nbytes for place in places) > _HELD_NBYTES:
                raise self._limit_error(part.tensor, "what must be decoded at once has too many bytes")
            stop = at + span if is_view else min(places[0].end, end)
            yield _Batch([_Wanted(part.tensor, at, stop - at, part.address + at - part.first)], places, ends)
            at = stop

    def _storage_pieces(self, root: ChainFile, part: _Wanted, frames: list[Place]) -> Iterator[_Batch]:
        """A part of a storage, in pieces of whole blocks. What the reader has is not fetched again.

        A frame that is stored as it is must be verified as a whole first. If that is too much to hold, the library
        fetches it block by block.
        """
        reader, number = part.reader, part.tensor.number
        assert reader is not None
        is_open = reader.number == number
        kept = reader.kept if is_open else (0, 0)
        ends = self._ends_of(root, part.tensor, frames)
        at, end = part.first, part.first + part.nbytes
        while at < end:
            first = kept[1] if kept[0] <= at < kept[1] else at
            stop = min(end, first + _BATCH_NBYTES)
            with _held(ends), _failures_of(root):
                stored = root.stored_blocks(number, first, stop - first) if first < stop else None
                if stored is None:
                    places, stop = self._blocks(root, number, first, stop)
                elif is_open:
                    places = [stored]
                else:
                    places = frames if frames[0].nbytes <= _HELD_NBYTES else []
                last = root.stored_blocks(number, stop - 1, 1) or next(root.parts(number, stop - 1, 1, True))
            left = (last.begin, last.end) if stop < last.end or at > last.begin else (0, 0)
            yield _Batch([_Wanted(part.tensor, at, stop - at, part.address + at - part.first, reader, left)], places,
                         ends)
            at, is_open = stop, True

    @staticmethod
    def _blocks(root: ChainFile, number: int, first: int, stop: int) -> tuple[list[Place], int]:
        """Where content [first, stop) of a storage is stored, or less of it, down to a block; and the end of that."""
        while first < stop:
            places = list(root.parts(number, first, stop - first, True))
            if stop - first == 1 or sum(place.nbytes for place in places) <= 2 * _BATCH_NBYTES:
                return places, min(stop, places[0].end)
            stop = first + (stop - first) // 2  # of a long chain
        return [], stop

    def _ends_of(self, root: ChainFile, tensor: TensorInfo, frames: list[Place]) -> _Ends:
        """Heads and tails of the frames that a tensor needs."""
        ends = self._fetch_ends(frames, [min(tensor.storage_nbytes >> 12, _TAIL_NBYTES_MAX)] * len(frames))
        with _held(ends), _failures_of(root):
            tails = list(root.tails(tensor.number))
        if sum(tails) > _INDICES_NBYTES_MAX:
            raise self._limit_error(tensor, "the index of its frames has %d bytes" % sum(tails))
        return self._fetch_ends(frames, tails)

    def _limit_error(self, tensor: TensorInfo, text: str) -> LimitError:
        source = self._root.source if self._root is not None else None
        name = next(name for name, known in self.tensors.items() if known.number == tensor.number)
        error = LimitError("%s: tensor %r: %s, more than are held of a file in a store: copy the file to a disk"
                           % (source.url if source is not None else "", name, text))
        error.file, error.tensor = source.url if source is not None else None, name
        return error

    def _fetch_ends(self, frames: list[Place], tails: list[int]) -> _Ends:
        """Fetches heads of frames and `tails` bytes of their ends, which say where the blocks are."""
        ends: list[tuple[Source, Ranges]] = []
        futures = []
        for frame, tail_nbytes in zip(frames, tails):
            if not frame.is_frame:
                continue
            key, end = (frame.source, frame.offset), frame.offset + frame.nbytes
            first = max(end - max(tail_nbytes, _HEAD_NBYTES), frame.offset)
            ranges = self._kept.get(key)
            if ranges is None or ranges.extent_at(first) is None:
                ranges = Ranges([(frame.offset, min(frame.offset + _HEAD_NBYTES, end)), (first, end)])
                futures.append((key, ranges, frame.source.fetch(ranges)))
            ends.append((frame.source, ranges))
        for _, _, future in futures:
            future.result()
        with self._kept_lock:
            self._kept.update((key, ranges) for key, ranges, _ in futures)
            while sum(ranges.nbytes for ranges in self._kept.values()) > _KEPT_NBYTES:
                self._kept.popitem(last=False)
        return ends

    # ---- life ----

    def close(self) -> None:
        """Closes the file. A read that is at work in another thread ends first."""
        self._root = None
        super().close()

    def shown_name(self) -> str:
        return hide_secrets(self._made_of[0])

    def __enter__(self) -> RemoteFile:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        self._open()
        return _open_again, (*self._made_of, self._version(), zlib.crc32(self._header))

    @property
    def version(self) -> str | None:
        """What the store has told the content of the file apart by when it was opened, or None."""
        version = self._version()
        return None if version is None else version[1]

    def _version(self) -> tuple[int, str | None] | None:
        root = self._root
        return None if root is None or root.source is None else (root.source.nbytes, root.source.version)

    def _reopen(self, handle: Handle) -> Handle:
        """In a child process, since connections, locks and fsspec's thread belong to the parent."""
        with self._lock:
            if self._pid != os.getpid():
                again = _open_again(*self._made_of, self._version(), zlib.crc32(self._header))
                self._root, self._requests, self._handle = again._root, again._requests, again._handle
                self._kept, self._kept_lock, self._base_lock = again._kept, again._kept_lock, again._base_lock
                self._pid = os.getpid()
        return self._handle or handle


def _open_again(url: str, settings: Settings, base: str | None, base_dirs: tuple[str, ...],
                version: tuple[int, str | None] | None, header_crc: int) -> RemoteFile:
    """The file of a pickle, or of a parent process."""
    file = RemoteFile.__new__(RemoteFile)
    file._start(url, settings, base, base_dirs, version)
    if zlib.crc32(file.header) != header_crc:
        raise changed(hide_secrets(url))
    return file
