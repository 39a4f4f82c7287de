"""A file in a store whose bytes are read by ranges: tried again after faults, several at once, and held in memory.

The library reads through `Source.read_function`. It finds bytes that were fetched before, so that it waits for no
request. What it does not find is fetched then.
"""

from __future__ import annotations

import asyncio
import bisect
import concurrent.futures
import ctypes
import errno
import mmap
import os
import random
import re
import threading
from typing import Any, Coroutine, Iterable, Mapping, NamedTuple

from . import _abi
from ._buffer import new_bytearray
from ._errors import ArgumentError, DataError
from ._file import changed
from ._remote_stores import (FINAL_ERRORS, Changed, Part, Store, cause_to_show, hide_secrets, import_fsspec,
                             open_store)

FIRST_NBYTES = 512 << 10  # that the first request asks for: the header region of a file with 4,000 tensors
REQUEST_NBYTES = 16 << 20  # that one request asks for at most
GAP_NBYTES = 1 << 20  # of unwanted bytes that are fetched rather than asking twice; more than the library reads ahead
_BLOCK_NBYTES = 256 << 10  # that are fetched for a small read that nobody has foreseen
_BLOCK_COUNT = 16  # of those that are kept
_MAPPED_NBYTES = 1 << 20  # from this size on, memory goes back to the system at once
_HEADER_NBYTES_MAX = 100_000_000  # LMC_ST_HEADER_NBYTES_MAX
_FIRST_PAUSE_S, _PAUSE_S_MAX = 0.1, 5.0


class Settings(NamedTuple):
    """How stores are asked.

    storage_options: for fsspec's file system of `protocol`. requests: at once. retries: of a request that failed.
    timeout: seconds in which a server must send something.
    """

    protocol: str
    storage_options: dict[str, Any]
    requests: int
    retries: int
    timeout: float

    def store(self, url: str) -> Store:
        options = self.storage_options if protocol_of(url) == self.protocol else {}
        return open_store(url, options, self.timeout)


def protocol_of(url: str) -> str:
    """What stands before `://`."""
    return url.partition("://")[0].lower()


def make_settings(url: str, storage_options: Mapping[str, Any] | None, requests: int, retries: int,
                  timeout: float) -> Settings:
    """Raises ArgumentError, TypeError."""
    if not isinstance(url, str):
        raise TypeError("a URL is a string, not %s" % type(url).__name__)
    if "://" not in url:
        raise ArgumentError("%s is no URL" % (url,))
    if requests < 1 or retries < 0 or not timeout > 0:
        raise ArgumentError("requests must be 1 or more, retries 0 or more, and timeout above 0")
    return Settings(protocol_of(url), dict(storage_options or {}), requests, retries, timeout)


class NoAnswer(TimeoutError):
    """A server has sent nothing for too long. asyncio would make a TimeoutError anew, without the URL."""


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

    def find(self, offset: int, nbytes: int) -> int | None:
        """The address of these bytes in memory, or None."""
        at = bisect.bisect_right(self._begins, offset) - 1
        if at < 0 or offset + nbytes > self.extents[at].end:
            return None
        return self.extents[at].address + offset - self.extents[at].begin


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
    """The requests of a file and its bases: so many at once, in fsspec's thread."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._loop = import_fsspec().asyn.get_loop()
        self._slots: asyncio.Semaphore | None = None

    def start(self, work: Coroutine[Any, Any, Any]) -> concurrent.futures.Future[Any]:
        """Begins the work. RuntimeError in fsspec's thread, which would wait for itself."""
        if asyncio._get_running_loop() is self._loop:
            work.close()
            raise RuntimeError("fsspec's thread cannot wait for a request of its own")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Waits for the work. What interrupts the wait ends it."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def slots(self) -> asyncio.Semaphore:
        """In fsspec's thread."""
        if self._slots is None:
            self._slots = asyncio.Semaphore(self._count)
        return self._slots


class Source:
    """A file in a store. url: as messages show it.

    expected: size and version that the file must have, of an earlier opening. Raises OSError, DataError (another one).
    """

    def __init__(self, url: str, settings: Settings, requests: Requests,
                 expected: tuple[int, str | None] | None = None) -> None:
        self.url, self._settings, self._requests = hide_secrets(url), settings, requests
        self._store = settings.store(url)
        self._head: Ranges | None = None  # came with the header
        self._ranges: tuple[Ranges, ...] = ()  # held
        self._blocks: dict[int, Ranges] = {}
        self._lock = threading.Lock()
        self.failure: BaseException | None = None
        self.read_function = _abi.READ(self._read)
        self.nbytes, self.version = expected or (-1, None)
        self._read_begin()

    def _read_begin(self) -> None:
        """The first bytes, and the rest of the header region if it is longer."""
        begin = Extent(0, FIRST_NBYTES)
        part: Part = self._requests.run(self._tried(begin, 0, FIRST_NBYTES))
        self.nbytes, self.version = part.file_nbytes or 0, part.version
        end = min(header_region_nbytes(begin.view(0, part.nbytes)), self.nbytes)
        head = Ranges([(0, max(end, part.nbytes))])
        if part.nbytes:
            head.extents[0].view(0, part.nbytes)[:] = begin.view(0, part.nbytes)
        if end > part.nbytes:
            self._requests.run(self._tried(head.extents[0], part.nbytes, end))
        self._head = head

    def opened(self) -> None:
        """The header has been read: what was fetched for it goes, unless it is little."""
        with self._lock:
            if self._head is not None and self._head.nbytes > FIRST_NBYTES:
                self._head = None
            self._blocks.clear()

    def has(self, begin: int, end: int) -> bool:
        """These bytes are in memory for good: they came with the header."""
        return self._head is not None and self._head.find(begin, end - begin) is not None

    def content(self) -> bytes:
        """All of it, for small files."""
        extent = Extent(0, self.nbytes)
        self._requests.run(self._tried(extent, 0, self.nbytes))
        return bytes(extent.content)

    # ---- fetching ----

    def fetch(self, ranges: Ranges) -> concurrent.futures.Future[Any]:
        """Begins to fetch."""
        return self._requests.start(self._all_tried(ranges))

    def hold(self, ranges: Ranges) -> None:
        """The library finds these bytes from now on."""
        with self._lock:
            self._ranges += (ranges,)

    def release(self, ranges: Ranges) -> None:
        with self._lock:
            held = list(self._ranges)
            held.remove(ranges)
            self._ranges = tuple(held)

    async def _all_tried(self, ranges: Ranges) -> None:
        tasks = [asyncio.ensure_future(self._tried(extent, at, min(at + REQUEST_NBYTES, extent.end)))
                 for extent in ranges.extents for at in range(extent.begin, extent.end, REQUEST_NBYTES)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

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
                    failure = self._error(error, begin, end)
                    raise failure from None if failure is error else cause_to_show(error)
        raise AssertionError

    def _checked(self, part: Part, begin: int, end: int) -> Part:
        if self.nbytes >= 0 and part.file_nbytes != self.nbytes or self.version not in (None, part.version):
            raise Changed()
        wanted = min(end, part.file_nbytes or 0) - begin
        if part.nbytes != wanted:
            raise OSError(errno.EIO, "the server sent %d bytes instead of %d" % (part.nbytes, wanted))
        return part

    def _error(self, error: Exception, begin: int, end: int) -> Exception:
        """The exception that a caller sees: it names the URL."""
        if isinstance(error, (ImportError, TypeError, DataError)):
            return error
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
        text = hide_secrets(text)
        if isinstance(error, FileNotFoundError):
            return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.url)
        if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
            return NoAnswer(errno.ETIMEDOUT, "the server sent nothing for %g s" % self._settings.timeout, self.url)
        number = error.errno if isinstance(error, OSError) and error.errno else errno.EIO
        return OSError(number, "%s (bytes %d to %d)" % (text, begin, end), self.url)

    # ---- what the library reads ----

    def _read(self, user: Any, offset: int, destination: int, nbytes: int) -> int:
        try:
            if nbytes == 0:
                return _abi.OK
            address, kept = self._find(offset, nbytes)
            ctypes.memmove(destination, address, nbytes)
            del kept
            return _abi.OK
        except BaseException as error:  # it cannot pass through the library, and is raised behind it
            self.failure = error
            return _abi.IO

    def _find(self, offset: int, nbytes: int) -> tuple[int, Any]:
        """The address of these bytes, and what keeps them there."""
        for ranges in (*self._ranges, self._head):
            address = None if ranges is None else ranges.find(offset, nbytes)
            if address is not None:
                return address, ranges
        first = offset // _BLOCK_NBYTES * _BLOCK_NBYTES
        block = self._blocks.get(first)
        address = None if block is None else block.find(offset, nbytes)
        if block is None or address is None:
            block = Ranges([(first, min(max(first + _BLOCK_NBYTES, offset + nbytes), self.nbytes))])
            self._requests.run(self._all_tried(block))
            address = block.find(offset, nbytes)
            with self._lock:
                if block.nbytes <= _BLOCK_NBYTES:
                    self._blocks[first] = block
                while len(self._blocks) > _BLOCK_COUNT:
                    del self._blocks[next(iter(self._blocks))]
        if address is None:
            raise OSError(errno.EIO, "bytes %d to %d are not in the file" % (offset, offset + nbytes), self.url)
        return address, block

    def raise_failure(self) -> None:
        """Raises what has ended a read of the library, if it did."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure


def header_region_nbytes(begin: memoryview) -> int:
    """Bytes of a file from its begin to the end of header and table, as its first bytes promise it; else 0.

    A promise that is wrong costs a request: the library checks the header itself.
    """
    if len(begin) < 9 or bytes(begin[8:9]) not in (b"{", b" "):
        return 0
    end = 8 + int.from_bytes(begin[:8], "little")
    if end > _HEADER_NBYTES_MAX:
        return 0
    table = re.search(rb'"lmc\.archive~*":\{"dtype":"U8","shape":\[(\d{1,12})\]', bytes(begin[8:end]))
    return end + (min(int(table[1]), 2 * _HEADER_NBYTES_MAX) if table else 0)
