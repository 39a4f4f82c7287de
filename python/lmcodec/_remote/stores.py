"""Stores of files: HTTP servers, S3, and whatever else fsspec reaches. A read is one request.

fsspec gives sessions and credentials. For HTTP and S3, the requests are made here, since the first answer also has
the size and version of the file, which fsspec would discard.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import io
import re
import sys
from typing import Any, Callable, Coroutine, NamedTuple, Protocol
from urllib.parse import quote

from .._errors import ArgumentError, LMCError

CHUNK_NBYTES = 256 << 10  # of an answer that are copied at a time
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")
_EXTRAS = {"http": "remote", "s3": "s3"}  # extras of this package that install the stores for URLs with these prefixes
_RETRIED_STATUSES = (408, 425, 429)  # of HTTP, and all from 500 on


class Part(NamedTuple):
    """Bytes that were read. file_nbytes: of the whole file, or None if the store does not say. version: a text that
    differs between contents of the file, or None."""

    nbytes: int
    file_nbytes: int | None
    version: str | None


class Store(Protocol):
    """A file in a store. All of it runs in fsspec's thread."""

    async def read(self, offset: int, into: memoryview, version: str | None) -> Part:
        """Reads bytes from `offset` on, as many as the file has or `into` holds.

        version: of an earlier part. The store may refuse another one (Changed). Raises Refused, FileNotFoundError,
        PermissionError; after any other exception the read may be tried again.
        """


class Refused(OSError):
    """The store will not give the bytes, however often it is asked."""


class Changed(Exception):
    """The file is no longer the one that was opened."""


class TooSlow(OSError):
    """The server sends less than the lowest rate."""


class Pace(NamedTuple):
    """How slow a server may be. timeout: seconds in which it must send something. lowest_rate: bytes a second, on
    average over that time; 0 for none."""

    timeout: float
    lowest_rate: float


def hide_secrets(url: str) -> str:
    """A URL as messages show it: without passwords, and without what follows `?`, as signatures do."""
    without_query = re.sub(r"(https?://[^?#\s'\")]*)\?[^\s'\")]*", r"\1", url)
    without_user = re.sub(r"(https?://)[^/\s]*@", r"\1", without_query)  # a token may stand alone
    return re.sub(r"://[^/\s]*:[^/\s]*@", "://", without_user)


def cause_to_show(error: BaseException) -> BaseException | None:
    """The error that a traceback shows as the cause of another one; None if its texts have secrets."""
    below: BaseException | None = error
    seen: set[int] = set()
    while below is not None and id(below) not in seen:
        if hide_secrets(str(below)) != str(below):
            return None
        seen.add(id(below))
        below = below.__cause__ or below.__context__
    return error


def import_fsspec() -> Any:
    """The package fsspec. ImportError says what to install."""
    try:
        import fsspec.asyn
        import fsspec.core
    except ImportError:
        raise ImportError("lmcodec: URLs need the package fsspec: pip install 'lmcodec[remote]'") from None
    return fsspec


class Location(NamedTuple):
    """A file or a folder of a store. Only a caller's URL chooses the store.

    A name is appended to the path, so `::` or a scheme in it has no effect.
    system: of fsspec. path: in it. query: what follows the path of HTTP, from `?` on. shown: the URL for messages.
    """

    system: Any
    path: str
    query: str
    shown: str

    def parent(self) -> Location:
        """The folder of a file, or of a folder. A store's root is its own."""
        folder, slash, _ = self.path.rstrip("/").rpartition("/")
        return self if folder.endswith("/") else self.at(folder or slash)

    def name(self) -> str:
        """The last part of the path."""
        return self.path.rstrip("/").rpartition("/")[2]

    def join(self, name: str) -> Location:
        """A file in the folder."""
        folder = self.path.rstrip("/") + "/" if self.path else ""
        return self.at(folder + (quote(name) if is_http(self.path) else name))

    def at(self, path: str) -> Location:
        """Another place in the store."""
        if not self.path and "://" in self.shown.partition("::")[0]:  # the root of a file system on top of another
            first, colons, below = self.shown.partition("::")
            return self._replace(path=path, shown=first + path + colons + below)
        before, found, after = self.shown.rpartition(self.path) if self.path else (self.shown, "", "")
        is_kept = after.startswith(("?", "::"))
        return self._replace(path=path, shown=before + path + after if found and is_kept else before + path)


def is_http(path: str) -> bool:
    """Whether the path of a location is a URL of HTTP."""
    return path.startswith(("http://", "https://"))


def locate(url: str, options: dict[str, Any]) -> Location:
    """The location that a URL names. options: for fsspec's file system. Raises ImportError, ArgumentError."""
    fsspec = import_fsspec()
    try:
        system, path = fsspec.core.url_to_fs(url, **options)
    except ImportError as error:
        extra = next((extra for start, extra in _EXTRAS.items() if url.lower().startswith(start)), None)
        hint = "" if extra is None else " (pip install 'lmcodec[%s]')" % extra
        raise ImportError("lmcodec: %s: %s%s" % (hide_secrets(url), error, hint)) from None
    except ValueError as error:
        raise ArgumentError("%s: %s" % (hide_secrets(url), error)) from None
    if "://" + path not in url and "://" + path[1:] in url:  # file systems may put a slash before it
        path = path[1:]
    path, question, query = path.partition("?") if is_http(path) else (path, "", "")
    return Location(system, path, question + query, url)


def open_store(location: Location, pace: Pace) -> Store:
    """The store of a file. The pace is enforced where the store reports what has arrived."""
    system, path = location.system, location.path + location.query
    if _is_a(system, "fsspec.implementations.http", "HTTPFileSystem"):
        return _HttpStore(system, path, pace)
    if _is_a(system, "s3fs.core", "S3FileSystem"):
        return _S3Store(system, path, pace)
    return _AsyncStore(system, path) if system.async_impl else _SyncStore(system, path)


def _is_a(system: Any, module: str, name: str) -> bool:
    return module in sys.modules and isinstance(system, getattr(sys.modules[module], name))


def range_header(offset: int, nbytes: int) -> str:
    """The value of `Range`."""
    return "bytes=%d-%d" % (offset, offset + nbytes - 1)


class _Room:
    """Where an answer goes. nbytes: that have come."""

    def __init__(self, into: memoryview) -> None:
        self.into, self.nbytes = into, 0

    async def take(self, chunks: Any) -> int:
        """Copies an answer. Returns its bytes. Refused if they are more than were asked for."""
        async for chunk in chunks:
            if len(chunk) > len(self.into) - self.nbytes:
                raise Refused(errno.EIO, "the server sends more than it was asked for")
            self.into[self.nbytes:self.nbytes + len(chunk)] = chunk
            self.nbytes += len(chunk)
        return self.nbytes


async def _at_pace(work: Coroutine[Any, Any, Part], room: _Room, pace: Pace) -> Part:
    """The result of a request that fills the room. Raises TooSlow."""
    task = asyncio.ensure_future(work)
    try:
        while True:
            before = room.nbytes
            await asyncio.wait({task}, timeout=pace.timeout if pace.lowest_rate > 0 else None)
            if task.done():
                return task.result()
            if room.nbytes - before < pace.lowest_rate * pace.timeout:
                raise TooSlow(errno.ETIMEDOUT, "the server sent %d bytes in %g s, and %g a second are the least"
                              % (room.nbytes - before, pace.timeout, pace.lowest_rate))
    finally:
        task.cancel()
        del task  # which holds what it has raised


class _HttpStore:
    def __init__(self, system: Any, url: str, pace: Pace) -> None:
        self._system, self._url, self._pace = system, url, pace

    async def read(self, offset: int, into: memoryview, version: str | None) -> Part:
        room = _Room(into)
        return await _at_pace(self._read(offset, room, version), room, self._pace)

    async def _read(self, offset: int, room: _Room, version: str | None) -> Part:
        import aiohttp

        session = await self._system.set_session()
        options = dict(self._system.kwargs)
        headers = {**options.pop("headers", {}), "Range": range_header(offset, len(room.into)),
                   "Accept-Encoding": "identity"}
        if version is not None and version.startswith('"'):  # a weak one never matches
            headers["If-Match"] = version
        options.setdefault("timeout", aiohttp.ClientTimeout(total=None, sock_connect=self._pace.timeout,
                                                            sock_read=self._pace.timeout))
        try:
            async with session.get(self._system.encode_url(self._url), headers=headers, **options) as response:
                return await self._take(response, offset, room)
        except aiohttp.TooManyRedirects:
            raise Refused(errno.ELOOP, "the server redirects too often") from None

    @staticmethod
    async def _take(response: Any, offset: int, room: _Room) -> Part:
        version = response.headers.get("ETag") or response.headers.get("Last-Modified")
        file_nbytes = _check_answer(response.status, response.reason, response.headers, offset, len(room.into))
        if response.status == 416:
            return Part(0, file_nbytes, version)
        nbytes = await room.take(response.content.iter_chunked(CHUNK_NBYTES))
        return Part(nbytes, file_nbytes, version)


def _check_answer(status: int, reason: str | None, headers: Any, offset: int, nbytes: int) -> int:
    """Bytes of the whole file. Raises what Store.read() raises."""
    if status in (404, 410):
        raise FileNotFoundError(errno.ENOENT, "no such file (HTTP %d)" % status)
    if status in (401, 403, 407):
        raise PermissionError(errno.EACCES, "the server forbids it (HTTP %d %s)" % (status, reason))
    if status == 412:
        raise Changed()
    if status >= 500 or status in _RETRIED_STATUSES:
        raise OSError(errno.EIO, "the server failed: HTTP %d %s" % (status, reason))
    if headers.get("Content-Encoding", "identity") != "identity":
        raise Refused(errno.EIO, "the server compresses what it sends (%s)" % headers["Content-Encoding"])
    match = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
    if status in (206, 416) and match and match[3] == "*":
        raise Refused(errno.EIO, "the server does not tell the size of the file")
    if status == 416 and offset == 0:
        return int(match[3]) if match else 0  # nothing begins there: the file is empty
    if status == 416:
        raise Changed()  # the file has become shorter
    if status == 200:
        whole = headers.get("Content-Length", "")
        if offset == 0 and whole.isdigit() and int(whole) <= nbytes:
            return int(whole)
        raise Refused(errno.EOPNOTSUPP, "the server gives no parts of files: it ignores the header Range")
    if status != 206:
        raise Refused(errno.EIO, "the server answers HTTP %d %s" % (status, reason))
    if not match or match[1] is None or int(match[1]) != offset:
        raise Refused(errno.EIO, "the server sends another part than it was asked for")
    return int(match[3])


class _S3Store:
    def __init__(self, system: Any, path: str, pace: Pace) -> None:
        self._system, self._pace = system, pace
        bucket, key, version = system.split_path(path)
        self._object = {"Bucket": bucket, "Key": key}
        if version:
            self._object["VersionId"] = version

    async def read(self, offset: int, into: memoryview, version: str | None) -> Part:
        room = _Room(into)
        return await _at_pace(self._read(offset, room, version), room, self._pace)

    async def _read(self, offset: int, room: _Room, version: str | None) -> Part:
        condition = {} if version is None else {"IfMatch": version}
        try:
            response = await self._system._call_s3("get_object", **self._object, **condition,
                                                   Range=range_header(offset, len(room.into)))
        except OSError as error:
            status = _status_of(error)
            if status == 412 or status == 416 and offset > 0:
                raise Changed() from error
            if status == 416:
                return Part(0, 0, None)
            if status is not None and 400 <= status < 500 and status not in _RETRIED_STATUSES \
                    and not isinstance(error, (FileNotFoundError, PermissionError)):
                raise Refused(*error.args) from error
            raise
        headers = {"Content-Range": response.get("ContentRange", ""), "Content-Length": str(response["ContentLength"])}
        body = response["Body"]
        try:
            file_nbytes = _check_answer(206 if headers["Content-Range"] else 200, None, headers, offset,
                                       len(room.into))
            nbytes = await room.take(body.iter_chunks(CHUNK_NBYTES))
        finally:
            body.close()
        return Part(nbytes, file_nbytes, response.get("ETag"))


def _status_of(error: OSError) -> int | None:
    """The status of HTTP behind an exception of s3fs."""
    told = getattr(error.__cause__, "response", None) or {}
    status = told.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return None if status is None else int(status)


class _AsyncStore:
    """A file system that makes its requests in fsspec's thread. Size and content are two requests."""

    def __init__(self, system: Any, path: str) -> None:
        self._system, self._path = system, path
        self._file_nbytes: int | None = None

    async def read(self, offset: int, into: memoryview, version: str | None) -> Part:
        if self._file_nbytes is None:
            self._file_nbytes = size_of(await self._info())
        end = min(offset + len(into), self._file_nbytes)
        content = await self._cat(offset, end) if end > offset else b""
        if len(content) > len(into):
            raise Refused(errno.EIO, "the store sends more than it was asked for")
        into[:len(content)] = content
        return Part(len(content), self._file_nbytes, None)

    async def _info(self) -> Any:
        return await self._system._info(self._path)

    async def _cat(self, offset: int, end: int) -> Any:
        return await self._system._cat_file(self._path, start=offset, end=end)


def size_of(info: Any) -> int:
    """Size of a file, by what fsspec says of it."""
    if info.get("type") == "directory":
        raise IsADirectoryError(errno.EISDIR, "is a directory")
    if info.get("size") is None:
        raise Refused(errno.EIO, "the store does not tell the size of the file")
    return int(info["size"])


class _SyncStore(_AsyncStore):
    """A file system whose calls wait: each is made in another thread."""

    async def _info(self) -> Any:
        return await _in_thread(self._system.info, self._path)

    async def _cat(self, offset: int, end: int) -> Any:
        return await _in_thread(self._system.cat_file, self._path, start=offset, end=end)


async def list_files(location: Location) -> dict[str, int]:
    """Sizes of all files below a folder, by their paths from there. In fsspec's thread. HTTP servers list nothing."""
    system = location.system
    system.invalidate_cache(location.path)
    if system.async_impl:
        found = await system._find(location.path, detail=True)
    else:
        found = await _in_thread(system.find, location.path, detail=True)
    start = location.path.strip("/")
    start = start + "/" if start else ""  # of the root of a file system
    inner = {path.lstrip("/"): info for path, info in found.items()}
    return {path[len(start):]: int(info.get("size") or 0) for path, info in inner.items()
            if path.startswith(start) and info.get("type") != "directory" and not path.endswith("/")}


async def _in_thread(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, functools.partial(function, *arguments, **options))


FINAL_ERRORS = (Refused, FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError,
                io.UnsupportedOperation, NotImplementedError, ImportError, TypeError, ValueError, LMCError, Changed)
"""Errors that trying again would not mend."""
