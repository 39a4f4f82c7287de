"""An open file of the file system."""

from __future__ import annotations

from typing import Any

from fsspec.spec import AbstractBufferedFile

from .._files.original import Original


class OriginalFile(AbstractBufferedFile):  # type: ignore[misc]
    """The original of an archive, open for reading. One thread at a time. A pickle opens it again.

    original: of this file alone.
    """

    def __init__(self, system: Any, path: str, original: Original, mode: str, block_size: Any, cache_type: str,
                 cache_options: dict[str, Any] | None) -> None:
        self._original = original
        super().__init__(system, path, mode, block_size, cache_type=cache_type, cache_options=cache_options,
                         size=original.nbytes)

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self._original.read(start, end)

    def readinto(self, b: Any) -> int:
        """Fills a writable buffer, or a part of it at the end of the file. Returns the number of bytes."""
        if self.closed or self.cache.name != "none":
            return int(super().readinto(b))
        room = memoryview(b).cast("B")[:max(0, self.size - self.loc)]
        self._original.read_into(self.loc, room)
        self.loc += room.nbytes
        return room.nbytes
