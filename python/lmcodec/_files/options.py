"""Options of calls on files, and what must live as long as the call: callbacks, names, the cancel flag."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Callable, Sequence, Union

from .. import _abi, _system, _waiting
from .._codec import threads_of
from .._errors import LMCError, check, error_of
from .progress import Progress as Progress, call_of

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


def encode_path(path: Path) -> bytes:
    """A path for the library. TypeError if it is not one, ValueError if it has a NUL."""
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError("embedded null byte")
    return encoded


def path_array(paths: Sequence[Path]) -> Any:
    """An array of C strings."""
    if isinstance(paths, (str, bytes, os.PathLike)):
        raise TypeError("a list of paths is wanted, not one path")
    return (ctypes.c_char_p * len(paths))(*(encode_path(path) for path in paths))


class Sizes:
    """What has nbytes and stored_nbytes."""

    nbytes: int
    stored_nbytes: int

    @property
    def ratio(self) -> float:
        """Stored bytes per original byte."""
        return self.stored_nbytes / self.nbytes if self.nbytes else 1.0


class CallOptions:
    """The options of one call. struct: one of _abi that has the fields which are set."""

    def __init__(self, struct: Any, *, threads: int | None = None, base: Path | None = None,
                 base_dirs: Sequence[Path] = (), progress: Progress | None = None) -> None:
        self.struct = struct
        self.struct.common.thread_count = threads_of(threads)
        self.cancel = _waiting.new_flag()
        self.struct.common.cancel = ctypes.pointer(self.cancel)
        self.damages: list[Exception] = []
        self.warnings: list[Exception] = []
        self._raised: list[BaseException] = []
        self._kept: list[Any] = []
        if base is not None:
            self.struct.base = encode_path(base)
        if base_dirs:
            self.struct.base_dirs, self.struct.base_dir_count = self.keep(path_array(base_dirs)), len(base_dirs)
        call = call_of(progress)
        if call is not None:
            told = call
            self.struct.common.progress = self.callback(_abi.PROGRESS, lambda user, done, total: told(done, total))

    def collect_damages(self) -> None:
        """Verify and salvage: every damage becomes an exception in `damages`."""
        self.struct.damage = self.callback(_abi.FAULT, lambda user, diag: self.damages.append(_error(diag)))

    def collect_warnings(self) -> None:
        """Convert, directories: every warning becomes an exception in `warnings`."""
        self.struct.warning = self.callback(_abi.FAULT, lambda user, diag: self.warnings.append(_error(diag)))

    def exclude(self, patterns: Sequence[str]) -> None:
        """Directories: files that are copied as they are."""
        if patterns:
            self.struct.excludes, self.struct.exclude_count = self.keep(path_array(patterns)), len(patterns)

    def tell_files(self, file_done: Callable[[str, str, int, int], object] | None) -> None:
        """Directories: file_done(path, event, bytes before, bytes after) is called after each file."""
        if file_done is not None:
            call = file_done
            self.struct.file_done = self.callback(
                _abi.FILE_DONE, lambda user, path, event, before, after:
                call(_system.shown_path(path), _abi.EVENTS[event], before, after))

    def run(self, function: Callable[[Any, Any], int]) -> int:
        """function(options, diag) in a thread that Ctrl-C ends. Raises what a callback raised. Returns the status."""
        self.diag = _abi.StDiag()
        status = _waiting.run(lambda: function(ctypes.byref(self.struct), ctypes.byref(self.diag)), self.cancel)
        if self._raised:
            raise self._raised.pop()  # kept, it would keep its frames, which hold files and memory
        return status

    def check(self, status: int) -> None:
        """Raises the exception of a call that failed. Its `damages` has an exception for each damage."""
        try:
            check(status, self.diag)
        except LMCError as error:
            error.damages = tuple(self.damages)
            raise

    def keep(self, thing: Any) -> Any:
        """`thing`, which must live as long as the call."""
        self._kept.append(thing)
        return thing

    def callback(self, kind: Any, function: Callable[..., object]) -> Any:
        """A C function for a Python function. An exception ends the call of the library."""
        def guarded(*arguments: Any) -> None:
            if self._raised:
                return
            try:
                function(*arguments)
            except BaseException as error:
                self._raised.append(error)
                self.cancel.value = 1

        return self.keep(kind(guarded))


def _error(diag: Any) -> Exception:
    found = diag.contents
    try:
        check(found.status, found)
    except Exception as error:
        return error
    return error_of(found.status)
