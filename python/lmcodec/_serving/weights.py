"""The weights of a model, tensor by tensor, wherever its archives are."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from .._errors import ArgumentError, DataError, loads_untrusted
from .._files.file import File
from .._files.model_files import weight_files
from .._files.options import Path
from .._files.safe_open import safe_open
from .._runs.local_store import Store

INDEX_NAME = "model.safetensors.index.json"


class Part(NamedTuple):
    """One file of weights. open: opens it. promised: tensors that an index promises; some may not be named."""

    shown: str
    open: Callable[[], File]
    promised: Sequence[str]


def parts_of(source: Path, name: str | None, base_dirs: Sequence[Path],
             storage_options: Mapping[str, Any] | None) -> list[Part]:
    """The files of weights of a model: of one in a store or run (name), of a directory, or one file.

    Raises FileNotFoundError, other OSError, ArgumentError, ModelNotFound, DataError, ImportError.
    """
    place = os.fsdecode(source)
    if name is not None:
        from .._remote.stores import hide_secrets

        folder = Store(place, storage_options=storage_options)._folder(name)
        return [Part(hide_secrets(path), lambda path=path: folder.open_file(path), ())  # type: ignore[misc]
                for path in folder.files(None)]
    if "://" in place:
        return _remote_parts(place, base_dirs, storage_options)
    if storage_options is not None:
        raise ArgumentError("%s: storage_options are for URLs" % place)
    found = weight_files(place, "model", None) if os.path.isdir(place) else [(place, [])]
    return [Part(path, lambda path=path: File(path, base_dirs=base_dirs), promised)  # type: ignore[misc]
            for path, promised in found]


def _remote_parts(url: str, base_dirs: Sequence[Path], storage_options: Mapping[str, Any] | None) -> list[Part]:
    """An archive, or a converted directory, at a URL."""
    from .._remote.remote_file import RemoteFile
    from .._remote.source import Requests, Source, default_settings
    from .._remote.stores import hide_secrets

    settings = default_settings(url, storage_options)
    requests = Requests(settings)
    root = settings.locate(url)

    def part(path: str, promised: Sequence[str] = ()) -> Part:
        return Part(hide_secrets(path),
                    lambda: RemoteFile(path, storage_options=storage_options, base_dirs=base_dirs), promised)

    def content(path: str) -> bytes | None:
        with requests.call():
            try:
                source = Source(root.join(path), settings, requests)
                return source.content() if source.nbytes <= 64 << 20 else None
            except (FileNotFoundError, PermissionError, IsADirectoryError):
                return None

    if root.name().endswith((".lmc", ".safetensors")) and not url.endswith("/"):
        with requests.call():
            try:
                Source(root, settings, requests)
                return [part(url)]
            except (FileNotFoundError, PermissionError, IsADirectoryError):
                pass
    index = content(INDEX_NAME)
    if index is None:
        return [part(root.join("model.safetensors.lmc").shown)]
    shown = hide_secrets(root.join(INDEX_NAME).shown)
    value = loads_untrusted(index, shown)
    places: dict[str, list[str]] = {}
    try:
        for tensor, place in value["weight_map"].items():
            if "/" in place or place in ("", ".", ".."):
                raise ValueError("a file %r" % (place,))
            places.setdefault(place, []).append(tensor)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise DataError("%s: is not an index of weights: %s" % (shown, error)) from None
    return [part(root.join(place + ".lmc").shown, names) for place, names in sorted(places.items())]


def tensors_of(parts: Sequence[Part], threads: int | None, is_in_parts: bool = False) -> Iterator[tuple[str, Any]]:
    """Names and tensors of torch of all files. The next one is decoded while the caller has the last one.

    is_in_parts: large tensors are decoded when they are used, and then only what is used of them (deferred.py).
    Raises DataError (a tensor of the index is missing), and as safe_open() does.
    """
    from .reused import Reused

    if is_in_parts:
        from .deferred import deferred_tensor, is_deferred
    reused = Reused()
    with ThreadPoolExecutor(1) as pool:
        waiting: tuple[str, Future[Any]] | None = None
        for part in parts:
            with safe_open(part.open(), "pt", threads=threads) as file:
                names = file.offset_keys()
                lacking = sorted(set(part.promised) - set(names))
                if lacking:
                    raise DataError("%s: the index promises a tensor %r that is not there" % (part.shown, lacking[0]))
                for name in names:
                    if is_in_parts and is_deferred(file.file, name):
                        following = name, pool.submit(deferred_tensor, file.file, name, threads, reused)
                    else:
                        following = name, pool.submit(reused.decoded, file, name)
                    if waiting is not None:
                        yield waiting[0], waiting[1].result()
                    waiting = following
                if waiting is not None:  # the file is closed now
                    yield waiting[0], waiting[1].result()
                    waiting = None
