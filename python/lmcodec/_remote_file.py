"""Files in stores: what the wanted tensors need is fetched while earlier ones are decoded."""

from __future__ import annotations

import collections
import contextlib
import os
import threading
import zlib
from concurrent.futures import Future
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from ._errors import ClosedError
from ._file import File, Handle, TensorInfo, changed
from ._options import Path, Progress, part_of
from ._remote_chain import ChainFile, Place, Search, to_places
from ._remote_source import Ranges, Requests, Settings, Source, make_settings
from ._remote_stores import hide_secrets

_BATCH_NBYTES = 32 << 20  # stored bytes that are fetched for one call of the library
_HELD_NBYTES = 128 << 20  # stored bytes in memory: those of the batch that is decoded, and of the next
_WHOLE_NBYTES = 1 << 20  # a frame up to this size is fetched whole, if only a part of it is wanted
_HEAD_NBYTES = 8192  # of a frame, that the library reads at once
_INDEX_COUNT = 32  # ends of frames that are kept
_BLOCK_NBYTES, _INDEX_ENTRY_NBYTES = 64 << 10, 20  # of most blocks at least; of an index at most


class _Wanted(NamedTuple):
    """Content [first, first + nbytes) of a tensor, and where it goes."""

    tensor: TensorInfo
    first: int
    nbytes: int
    address: int

    def is_whole(self) -> bool:
        return self.nbytes == self.tensor.nbytes


class _Batch:
    """What is fetched together and decoded in one go: whole tensors, or a part of one."""

    def __init__(self, wanted: list[_Wanted], places: Sequence[Place], ends: Sequence[tuple[Source, Ranges]]) -> None:
        self.wanted, self._ends = wanted, ends
        by_source: dict[Source, list[tuple[int, int]]] = {}
        for place in places:
            if not place.source.has(place.offset, place.offset + place.nbytes):
                by_source.setdefault(place.source, []).append((place.offset, place.offset + place.nbytes))
        self._ranges = [(source, Ranges(ranges)) for source, ranges in by_source.items()]
        self.nbytes = sum(ranges.nbytes for _, ranges in self._ranges)
        self._futures: list[Future[Any]] = []

    def start(self) -> None:
        self._futures = [source.fetch(ranges) for source, ranges in self._ranges]

    def wait(self) -> None:
        for future in self._futures:
            future.result()

    def cancel(self) -> None:
        for future in self._futures:
            future.cancel()

    def __enter__(self) -> _Batch:
        """The library finds the bytes, which have come. Reads in other threads may use them, too."""
        for source, ranges in (*self._ranges, *self._ends):
            source.hold(ranges)
        return self

    def __exit__(self, *_: object) -> None:
        for source, ranges in (*self._ranges, *self._ends):
            source.release(ranges)


@contextlib.contextmanager
def _failures_of(root: ChainFile) -> Iterator[None]:
    """Where the library says that reading has failed, the exception that says why takes its place."""
    try:
        yield
    except OSError:
        for source in root.sources():
            source.raise_failure()
        raise


class RemoteFile(File):
    """An open archive, or a plain file, of which a URL tells the place. It is used as lmcodec.File is.

    url: "s3://bucket/model.lmc", "https://...", "gs://...", "hf://...", "memory://...": all that fsspec knows.
    storage_options: of fsspec's file system: credentials, endpoints.
    base, base_dirs: URLs, or paths of this machine. The base is also looked for beside the URL.
    requests: at once. retries: of a request that failed. timeout: seconds in which a server must send something.

    Several threads may read one file. A child process opens the file again. A pickle has the URL and storage_options,
    with the credentials in it. The file must be the same then.
    Raises ImportError (fsspec, or its package for this kind of URL), FileNotFoundError, PermissionError, OSError,
    TimeoutError, and as lmcodec.File.
    """

    def __init__(self, url: str, *, storage_options: Mapping[str, Any] | None = None, base: Path | None = None,
                 base_dirs: Sequence[Path] = (), requests: int = 8, retries: int = 4, timeout: float = 60.0) -> None:
        if isinstance(base_dirs, (str, bytes)):
            raise TypeError("a list of folders is wanted, not one")
        settings = make_settings(url, storage_options, requests, retries, timeout)
        places = to_places(base_dirs)
        self._start(url, settings, None if base is None else to_places([base])[0], places, None)

    def _start(self, url: str, settings: Settings, base: str | None, base_dirs: tuple[str, ...],
               expected: tuple[int, str | None] | None) -> None:
        self._made_of = (url, settings, base, base_dirs)
        self._base_lock = threading.Lock()  # bases are opened by one thread
        self._root: ChainFile | None = ChainFile(url, Search(base, base_dirs, settings, Requests(settings.requests)),
                                                 expected)
        self._ends: collections.OrderedDict[tuple[str, int], tuple[Source, Ranges]] = collections.OrderedDict()
        self._begin(self._root.handle)

    def read_many(self, tensors: Sequence[TensorInfo], addresses: Sequence[int], *, threads: int | None = None,
                  progress: Progress | None = None) -> None:
        self._read([_Wanted(tensor, 0, tensor.nbytes, address) for tensor, address in zip(tensors, addresses)],
                   threads, progress)

    def read_range(self, tensor: TensorInfo, first_byte: int, nbytes: int, address: int) -> None:
        self._read([_Wanted(tensor, first_byte, nbytes, address)], None, None)

    # ---- what is fetched ----

    def _read(self, wanted: list[_Wanted], threads: int | None, progress: Progress | None) -> None:
        self._open()
        root = self._root
        if root is None:
            raise ClosedError("File is closed")
        total, done = sum(part.nbytes for part in wanted), 0
        batches = self._batches(root, sorted((part for part in wanted if part.nbytes), key=lambda part: part.tensor))
        waiting: collections.deque[_Batch] = collections.deque()
        try:
            while self._fill(waiting, batches):
                waiting[0].wait()
                with waiting[0]:
                    self._decode(root, waiting[0], threads, part_of(progress, done, total))
                done += sum(part.nbytes for part in waiting.popleft().wanted)
        finally:
            for batch in waiting:
                batch.cancel()

    @staticmethod
    def _fill(waiting: collections.deque[_Batch], batches: Iterator[_Batch]) -> bool:
        """Begins to fetch as much as may be in memory. False if nothing is left."""
        held = sum(batch.nbytes for batch in waiting)
        while not waiting or held + _BATCH_NBYTES <= _HELD_NBYTES:
            batch = next(batches, None)
            if batch is None:
                break
            batch.start()
            waiting.append(batch)
            held += batch.nbytes
        return bool(waiting)

    def _decode(self, root: ChainFile, batch: _Batch, threads: int | None, progress: Progress | None) -> None:
        wanted = batch.wanted
        with _failures_of(root):
            if wanted[0].is_whole():
                self._decode_many(root.handle, [part.tensor for part in wanted], [part.address for part in wanted],
                                  threads, progress)
                return
            for part in wanted:
                self._decode_range(root.handle, *part)
        if progress is not None:
            progress(wanted[0].nbytes, wanted[0].nbytes)

    def _batches(self, root: ChainFile, wanted: list[_Wanted]) -> Iterator[_Batch]:
        parts: list[_Wanted] = []
        places: list[Place] = []
        nbytes = 0
        for part in wanted:
            frames = self._frames(root, part)
            frames_nbytes = sum(frame.nbytes for frame in frames)
            if part.is_whole():
                is_small = frames_nbytes <= _BATCH_NBYTES
            else:
                is_small = frames_nbytes <= _WHOLE_NBYTES and frames[0].is_frame
            if parts and (not is_small or nbytes + frames_nbytes > _BATCH_NBYTES):
                yield _Batch(parts, places, [])
                parts, places, nbytes = [], [], 0
            if not is_small:
                yield from self._pieces(root, part, frames)
                continue
            parts.append(part)
            places += frames
            nbytes += frames_nbytes
        if parts:
            yield _Batch(parts, places, [])

    def _frames(self, root: ChainFile, part: _Wanted) -> list[Place]:
        with self._base_lock:
            return list(root.frames(part.tensor.number))

    def _pieces(self, root: ChainFile, part: _Wanted, frames: list[Place]) -> Iterator[_Batch]:
        """A part of a large tensor, or all of it, in pieces of whole blocks."""
        ends = self._fetch_ends(frames, part.tensor.nbytes)
        at, end = part.first, part.first + part.nbytes
        while at < end:
            for source, ranges in ends:
                source.hold(ranges)
            try:
                with _failures_of(root):
                    places = list(root.parts(part.tensor.number, at, min(_BATCH_NBYTES, end - at)))
            finally:
                for source, ranges in ends:
                    source.release(ranges)
            stop = min(places[0].end, end)
            yield _Batch([_Wanted(part.tensor, at, stop - at, part.address + at - part.first)], places, ends)
            at = stop

    def _fetch_ends(self, frames: list[Place], content_nbytes: int) -> list[tuple[Source, Ranges]]:
        """Heads and indices of frames: they tell where blocks stand."""
        ends = []
        started = []
        for frame in frames:
            key = (frame.source.url, frame.offset)
            held = self._ends.get(key)
            if held is None and frame.is_frame:
                entries = 2 * content_nbytes // _BLOCK_NBYTES + 1
                tail_nbytes = min(frame.nbytes, entries * _INDEX_ENTRY_NBYTES + 4096)
                held = frame.source, Ranges([(frame.offset, frame.offset + min(frame.nbytes, _HEAD_NBYTES)),
                                             (frame.offset + frame.nbytes - tail_nbytes, frame.offset + frame.nbytes)])
                started.append((key, held, held[0].fetch(held[1])))
            if held is not None:
                ends.append(held)
        for key, held, future in started:
            future.result()
            self._ends[key] = held
        while len(self._ends) > _INDEX_COUNT:
            self._ends.popitem(last=False)
        return ends

    # ---- life ----

    def close(self) -> None:
        """Closes the file. A read that is at work in another thread ends first."""
        self._root = None
        super().close()

    def __enter__(self) -> RemoteFile:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        self._open()
        return _open_again, (*self._made_of, self._version(), zlib.crc32(self._header))

    def _version(self) -> tuple[int, str | None] | None:
        root = self._root
        return None if root is None or root.source is None else (root.source.nbytes, root.source.version)

    def _reopen(self, handle: Handle) -> Handle:
        """In a child process: connections, locks and fsspec's thread are the parent's."""
        with self._lock:
            if self._pid != os.getpid():
                again = _open_again(*self._made_of, self._version(), zlib.crc32(self._header))
                self._root, self._ends, self._handle = again._root, again._ends, again._handle
                self._base_lock = again._base_lock
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
