"""Files in stores: S3, HTTP servers, Google Cloud Storage, Hugging Face, and all else that fsspec reaches.

    lmcodec.safe_open("s3://bucket/model.lmc", "pt")
    lmcodec.remote.open("s3://bucket/model.lmc", "pt", storage_options={"anon": True})
    lmcodec.remote.Store("s3://bucket/store").load("org/model")

Only the header, the table and the wanted tensors are read, by ranges. docs/remote.md says how many requests that takes.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ._codec import threads_of
from ._files.options import Path
from ._files.safe_open import safe_open
from ._remote.remote_file import RemoteFile as File
from ._remote.remote_store import RemoteStore as Store

__all__ = ["File", "Store", "open"]


def open(url: str, framework: str, device: Any = "cpu", *, storage_options: Mapping[str, Any] | None = None,
         threads: int | None = None, base: Path | None = None, base_dirs: Sequence[Path] = (), requests: int = 8,
         retries: int = 4, timeout: float = 60.0, lowest_rate: float = 1024.0,
         time_limit: float | None = None) -> safe_open:
    """Opens an archive or a safetensors file in a store. The result is that of lmcodec.safe_open().

    framework, device, threads: as for safe_open(). All else, and what is raised: as for File.
    """
    threads_of(threads)
    file = File(url, storage_options=storage_options, base=base, base_dirs=base_dirs, requests=requests,
                retries=retries, timeout=timeout, lowest_rate=lowest_rate, time_limit=time_limit)
    return safe_open(file, framework, device, threads=threads)
