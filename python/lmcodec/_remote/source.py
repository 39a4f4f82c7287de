"""A file in a store whose bytes are read by ranges: tried again after faults, several at once, and held in memory.

The library reads through `Source.read_function`. It finds bytes that were fetched before, so that it waits for no
request. What it does not find is fetched then, a window at a time. So what a file promises takes no memory before it
comes.
"""

from __future__ import annotations

import asyncio
import bisect
import concurrent.futures
import contextlib
import ctypes
import errno
import mmap
import os
import random
import threading
import time
import weakref
from typing import Any, Coroutine, Iterable, Iterator, Mapping, NamedTuple

from .. import _abi
from .._buffer import Buffer, new_bytearray
from .._errors import ArgumentError, DataError
from .._files.file import changed
from .stores import (FINAL_ERRORS, Changed, Location, Pace, Part, Refused, TooSlow, cause_to_show, hide_secrets,
                     import_fsspec, locate, open_store)

FIRST_NBYTES = 512 << 10  # that the first request asks for: the header region of a file with 4,000 tensors
REQUEST_NBYTES = 16 << 20  # that one request asks for at most
GAP_NBYTES = 1 << 20  # of unwanted bytes that are fetched rather than asking twice; more than the library reads ahead
_BLOCK_NBYTES = 256 << 10  # that are fetched for a small read that nobody has foreseen
_BLOCK_COUNT = 16  # of those that are kept
_WINDOW_NBYTES = 32 << 20  # that are fetched at a time for a longer one
_MAPPED_NBYTES = 1 << 20  # from this size on, memory goes back to the system at once
_FIRST_PAUSE_S, _PAUSE_S_MAX = 0.1, 5.0


class Settings(NamedTuple):
    """How stores are asked.

    storage_options: for fsspec's file system of `protocol`. requests: at once. retries: of a request that failed.
    pace: of servers. time_limit: seconds that a call may take, or None.
    """

    protocol: str
    storage_options: dict[str, Any]
    requests: int
    retries: int
    pace: Pace
    time_limit: float | None

    def locate(self, url: str) -> Location:
        return locate(url, self.storage_options if _protocol_of(url) == self.protocol else {})


def _protocol_of(url: str) -> str:
    """What stands before `://`."""
    return url.partition("://")[0].lower()


def make_settings(url: str, storage_options: Mapping[str, Any] | None, requests: int, retries: int, timeout: float,
                  lowest_rate: float, time_limit: float | None) -> Settings:
    """Raises ArgumentError, TypeError."""
    if not isinstance(url, str):
        raise TypeError("a URL is a string, not %s" % type(url).__name__)
    if "://" not in url:
        raise ArgumentError("%s is not a URL" % (url,))
    if requests < 1 or retries < 0 or not timeout > 0:
        raise ArgumentError("requests must be 1 or more, retries 0 or more, and timeout above 0")
    if not lowest_rate >= 0 or (time_limit is not None and not time_limit > 0):
        raise ArgumentError("lowest_rate must be 0 or more, and time_limit above 0")
    return Settings(_protocol_of(url), dict(storage_options or {}), requests, retries, Pace(timeout, lowest_rate),
                    time_limit)


def default_settings(url: str, storage_options: Mapping[str, Any] | None) -> Settings:
    """What File has by default, for calls that take no other settings. Raises ArgumentError, TypeError."""
    return make_settings(url, storage_options, 8, 4, 60.0, 1024.0, None)


def writing_settings(url: str, storage_options: Mapping[str, Any] | None) -> Settings:
    """The same for calls that write. Folders are made where the file system is that of this machine; object stores have
    none. Raises ArgumentError, TypeError."""
    settings = default_settings(url, storage_options)
    if settings.protocol in ("file", "local"):
        settings.storage_options.setdefault("auto_mkdir", True)
    return settings


class NoAnswer(TimeoutError):
    """A server has sent nothing, or too little, for too long. asyncio would replace a bare TimeoutError and lose the
    URL."""


class Extent:
    """Bytes [begin, end) of a file in memory."""

    __slots__ = ("begin", "end", "content", "address", "_export")

    def __init__(self, begin: int, end: int) -> None:
        self.begin, self.end = begin, end
        self.content = mmap.mmap(-1, end - begin) if end - begin >= _MAPPED_NBYTES else new_bytearray(end - begin)
        self._export = (ctypes.c_char * (end - begin)).from_buffer(self.content)
        self.address = ctypes.addressof(self._export)

    def view(self, begin: int, end: int) -> memoryview:
        return memoryview(self.content)[begin - self.begin:end - self.begin]


class Ranges:
    """Ranges of a file, fetched together. They are sorted, and do not meet."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self.extents = [Extent(begin, end) for begin, end in merge(ranges)]
        self._begins = [extent.begin for extent in self.extents]
        self.nbytes = sum(extent.end - extent.begin for extent in self.extents)

    def extent_at(self, offset: int) -> Extent | None:
        """The extent that has this byte, or None."""
        at = bisect.bisect_right(self._begins, offset) - 1
        return self.extents[at] if at >= 0 and offset < self.extents[at].end else None

    def has(self, begin: int, end: int) -> bool:
        """Whether one extent has all of these bytes."""
        extent = self.extent_at(begin)
        return extent is not None and end <= extent.end


def merge(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges (begin, end) in order. Those with less than a gap between them become one."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if merged and begin - merged[-1][1] <= GAP_NBYTES:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif end > begin:
            merged.append((begin, end))
    return merged


class Requests:
    """The requests of a file and its bases, in fsspec's thread, with a limit for how many run at once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = import_fsspec().asyn.get_loop()
        self._slots: asyncio.Semaphore | None = None
        self._local = threading.local()  # end: of the call that this thread is in

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Requests of this thread must be answered within the time limit until `with` ends."""
        limit, outer = self._settings.time_limit, getattr(self._local, "end", None)
        self._local.end = None if limit is None else time.monotonic() + limit
        try:
            yield
        finally:
            self._local.end = outer

    def start(self, work: Coroutine[Any, Any, Any], url: str) -> concurrent.futures.Future[Any]:
        """Starts the work. RuntimeError in fsspec's thread, which would wait for itself."""
        if asyncio._get_running_loop() is self._loop:
            work.close()
            raise RuntimeError("fsspec's thread cannot wait for a request of its own")
        end = getattr(self._local, "end", None)
        return asyncio.run_coroutine_threadsafe(work if end is None else self._ended(work, end, url), self._loop)

    async def _ended(self, work: Coroutine[Any, Any, Any], end: float, url: str) -> Any:
        try:
            return await asyncio.wait_for(work, end - time.monotonic())
        except asyncio.TimeoutError as error:
            if isinstance(error, NoAnswer):
                raise
            text = "the call took longer than its time_limit of %g s" % (self._settings.time_limit or 0)
            raise NoAnswer(errno.ETIMEDOUT, text, url) from None

    def run(self, work: Coroutine[Any, Any, Any], url: str) -> Any:
        """Waits for the work, and cancels it if the wait is interrupted."""
        future = self.start(work, url)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            del future  # which holds the exception
            raise

    def slots(self) -> asyncio.Semaphore:
        """In fsspec's thread."""
        if self._slots is None:
            self._slots = asyncio.Semaphore(self._settings.requests)
        return self._slots


class Source:
    """A file in a store. url: as messages show it.

    expected: size and version that the file must have, of an earlier opening. Raises OSError, DataError (another one).
    """

    def __init__(self, location: Location, settings: Settings, requests: Requests,
                 expected: tuple[int, str | None] | None = None) -> None:
        self.url, self._settings, self._requests = hide_secrets(location.shown), settings, requests
        self._store = open_store(location, settings.pace)
        self._held: tuple[Ranges, ...] = ()
        self._blocks: dict[int, Ranges] = {}
        self._lock = threading.Lock()
        self._local = threading.local()  # failure: of a read of the library in this thread
        self.read_function = _read_function(self)
        self.nbytes, self.version = expected or (-1, None)
        self._first = Ranges([(0, FIRST_NBYTES)])
        self._more: Ranges | None = None  # of a long header
        self._read_begin()

    def _read_begin(self) -> None:
        """The first bytes, and of a file with a long safetensors header, more: it, and an archive's table behind it,
        which is mostly shorter than a quarter of it. A wrong guess costs a request."""
        extent = self._first.extents[0]
        part: Part = self._requests.run(self._tried(extent, 0, FIRST_NBYTES), self.url)
        self.nbytes, self.version = part.file_nbytes or 0, part.version
        length = int.from_bytes(extent.view(0, 8), "little")
        end = min(8 + length + length // 4, FIRST_NBYTES + REQUEST_NBYTES, self.nbytes)
        if end > FIRST_NBYTES and bytes(extent.view(8, 9)) in (b"{", b" "):
            self._more = Ranges([(FIRST_NBYTES, end)])
            self._requests.run(self._all_tried(self._more), self.url)

    def opened(self) -> None:
        """The header has been read: what was fetched for it goes, but for the first bytes."""
        with self._lock:
            self._more = None
            self._blocks.clear()

    def has(self, end: int) -> bool:
        """Bytes up to this one are in memory for good: they came with the header."""
        return end <= FIRST_NBYTES

    def content(self, first: int = 0, nbytes: int | None = None) -> bytes:
        """Bytes [first, first + nbytes) of it; all by default."""
        nbytes = self.nbytes - first if nbytes is None else nbytes
        content = new_bytearray(nbytes)
        with Buffer(content, writable=True) as room:
            self._copy(first, room.address, nbytes)
        return bytes(content)

    # ---- fetching ----

    def fetch(self, ranges: Ranges) -> concurrent.futures.Future[Any]:
        """Starts to fetch."""
        return self._requests.start(self._all_tried(ranges), self.url)

    def hold(self, ranges: Ranges) -> None:
        """The library finds these bytes from now on."""
        with self._lock:
            self._held += (ranges,)

    def release(self, ranges: Ranges) -> None:
        with self._lock:
            held = list(self._held)
            held.remove(ranges)
            self._held = tuple(held)

    async def _all_tried(self, ranges: Ranges) -> None:
        tasks = [asyncio.ensure_future(self._tried(extent, at, min(at + REQUEST_NBYTES, extent.end)))
                 for extent in ranges.extents for at in range(extent.begin, extent.end, REQUEST_NBYTES)]
        try:
            await asyncio.gather(*tasks)
        finally:
            while tasks:  # one that has failed holds an exception, whose frames would hold it
                tasks.pop().cancel()

    async def _tried(self, extent: Extent, begin: int, end: int) -> Part:
        """Reads bytes [begin, end), and tries again after pauses that grow."""
        for attempt in range(self._settings.retries + 1):
            if attempt > 0:
                await asyncio.sleep(min(_FIRST_PAUSE_S * 2 ** (attempt - 1), _PAUSE_S_MAX) * random.uniform(0.5, 1))
            try:
                async with self._requests.slots():
                    part = await self._store.read(begin, extent.view(begin, end), self.version)
                return self._checked(part, begin, end)
            except Changed:
                raise changed(self.url) from None
            except Exception as error:
                if isinstance(error, FINAL_ERRORS) or attempt == self._settings.retries:
                    raise self._failure(error, begin, end)
        raise AssertionError

    def _checked(self, part: Part, begin: int, end: int) -> Part:
        if self.nbytes >= 0 and part.file_nbytes != self.nbytes or self.version not in (None, part.version):
            raise Changed()
        wanted = min(end, part.file_nbytes or 0) - begin
        if part.nbytes != wanted:
            raise OSError(errno.EIO, "the server sent %d bytes instead of %d" % (part.nbytes, wanted))
        return part

    def _failure(self, error: Exception, begin: int, end: int) -> Exception:
        """The exception that a caller sees, with its cause."""
        failure = self._error(error, begin, end)
        failure.__cause__ = None if failure is error else cause_to_show(error)
        return failure

    def _error(self, error: Exception, begin: int, end: int) -> Exception:
        """The exception that a caller sees: it names the URL."""
        if isinstance(error, (ImportError, TypeError, DataError)):
            return error
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
        text = hide_secrets(text)
        if isinstance(error, FileNotFoundError):
            return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.url)
        if isinstance(error, TooSlow):
            return NoAnswer(errno.ETIMEDOUT, text, self.url)
        if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
            text = "the server sent nothing for %g s" % self._settings.pace.timeout
            return NoAnswer(errno.ETIMEDOUT, text, self.url)
        number = error.errno if isinstance(error, OSError) and error.errno else errno.EIO
        failure = OSError(number, "%s (bytes %d to %d)" % (text, begin, end), self.url)
        is_refusal = isinstance(error, FINAL_ERRORS) and type(failure) is OSError
        return Refused(failure.errno, failure.strerror, self.url) if is_refusal else failure

    # ---- what the library reads ----

    def _read(self, offset: int, destination: int, nbytes: int) -> int:
        try:
            self._copy(offset, destination, nbytes)
            return _abi.OK
        except BaseException as error:  # it cannot pass through the library, and is raised after the call
            self._local.failure = error
            return _abi.IO

    def _copy(self, offset: int, destination: int, nbytes: int) -> None:
        """Copies bytes of the file to memory at this address."""
        if offset + nbytes > self.nbytes:
            raise OSError(errno.EIO, "bytes %d to %d are not in the file" % (offset, offset + nbytes), self.url)
        while nbytes > 0:
            extent = self._extent_at(offset, nbytes)
            taken = min(nbytes, extent.end - offset)
            ctypes.memmove(destination, extent.address + offset - extent.begin, taken)
            offset, destination, nbytes = offset + taken, destination + taken, nbytes - taken

    def _extent_at(self, offset: int, nbytes: int) -> Extent:
        """Memory with the byte at this offset. nbytes: how many are wanted from there on."""
        first = offset // _BLOCK_NBYTES * _BLOCK_NBYTES
        for ranges in (*self._held, self._first, self._more, self._blocks.get(first)):
            extent = None if ranges is None else ranges.extent_at(offset)
            if extent is not None:
                return extent
        if nbytes > _BLOCK_NBYTES:
            return self._fetched(offset, offset + min(nbytes, _WINDOW_NBYTES)).extents[0]
        block = self._fetched(first, min(first + _BLOCK_NBYTES, self.nbytes))
        with self._lock:
            self._blocks[first] = block
            while len(self._blocks) > _BLOCK_COUNT:
                del self._blocks[next(iter(self._blocks))]
        return block.extents[0]

    def _fetched(self, begin: int, end: int) -> Ranges:
        ranges = Ranges([(begin, end)])
        self._requests.run(self._all_tried(ranges), self.url)
        return ranges

    def raise_failure(self) -> None:
        """Raises the exception that ended a read of the library in this thread, if there is one."""
        if getattr(self._local, "failure", None) is not None:
            raise self._taken_failure()

    def _taken_failure(self) -> BaseException:
        failure: BaseException = self._local.failure
        self._local.failure = None
        return failure


def _read_function(source: Source) -> Any:
    """A C function that reads from a source, which owns it, and must live as long as it is called."""
    reference = weakref.ref(source)

    def read(user: Any, offset: int, destination: int, nbytes: int) -> int:
        held = reference()
        return _abi.IO if held is None else held._read(offset, destination, nbytes)

    return _abi.READ(read)
