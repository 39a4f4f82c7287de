"""A whole file in a store, fetched to memory."""

from __future__ import annotations

from typing import Any, BinaryIO, Mapping

from .._files import memory
from .source import Requests, Source, default_settings

_PART_NBYTES = 32 << 20


def download(url: str, storage_options: Mapping[str, Any] | None) -> BinaryIO:
    """An open file in memory, positioned at its start. Retries, limits and exceptions are those of lmcodec.remote."""
    settings = default_settings(url, storage_options)
    requests = Requests(settings)
    source = Source(settings.locate(url), settings, requests)
    file = memory.new_file()
    try:
        for first in range(0, source.nbytes, _PART_NBYTES):
            left = memoryview(source.content(first, min(_PART_NBYTES, source.nbytes - first)))
            while left:
                left = left[file.write(left):]
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file
