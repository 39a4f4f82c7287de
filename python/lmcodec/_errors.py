"""Exceptions: a class for each kind of status.

The system's errors are OSError by their errno, and MemoryError. All others are LMCError.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from typing import Any, TypeVar

from . import _abi, _system


class _Root(Exception):
    """Python lets the bases of LMCError change only if they are classes written in Python."""


class LMCError(_Root):
    """Anything that the library or the package refuses. The text names file and tensor.

    It is a safetensors.SafetensorError, too, once a program has imported safetensors.

    status: text of the status, for example "checksum does not match", or None.
    file, tensor: names, or None. The end of a very long name is missing, and "..." stands for it.
    offset: byte of the file or frame at which the fault was seen, or None.
    damages: verify() and restore(salvage=True): an exception for each damaged tensor.
    """

    status: str | None = None
    file: str | None = None
    tensor: str | None = None
    offset: int | None = None
    damages: tuple[Exception, ...] = ()
    _file_in_text: str | None = None  # how the text writes the file, if the library has written it

    def __init__(self, *args: object) -> None:
        _join_safetensors()
        super().__init__(*args)

    def __str__(self) -> str:  # KeyError would quote it
        return Exception.__str__(self)


def _join_safetensors() -> None:
    """Makes every exception of the package one of safetensors, if the program has imported that.

    `except` looks at base classes alone. safetensors is not imported for it: who catches its exception has done so.
    """
    theirs = getattr(sys.modules.get("safetensors"), "SafetensorError", None)
    if isinstance(theirs, type) and not issubclass(LMCError, theirs) and not issubclass(theirs, LMCError):
        LMCError.__bases__ = (theirs, _Root)


class ArgumentError(LMCError, ValueError):
    """The request is wrong: an unknown option, a buffer of the wrong size, two files that are one."""


class DataError(LMCError):
    """The bytes are damaged, truncated, or not LMC data."""


class ChecksumError(DataError):
    """The bytes are well-formed, but not what was written."""


class UnsupportedError(LMCError):
    """The data was written by a newer version. The text names the feature."""


class BaseError(LMCError):
    """The base is missing, or is not the one that the data was coded against."""


class LimitError(LMCError):
    """A documented limit is exceeded."""


class Cancelled(LMCError):
    """The caller cancelled the call."""


class DeviceError(LMCError, RuntimeError):
    """A device, or its driver, failed."""


class TensorNotFound(LMCError, KeyError):
    """The file has no tensor of this name."""


class ModelNotFound(ArgumentError, KeyError):
    """The store has no such model."""


class StepNotFound(ModelNotFound):
    """The run has no such step."""


class SliceError(LMCError, IndexError):
    """An index or a slice leaves the tensor, has too many dimensions, or is a list. Other types raise TypeError."""


class DTypeError(LMCError, TypeError):
    """The framework has no such dtype, or files have none for it."""


class ClosedError(LMCError, ValueError):
    """The file is closed."""


SafetensorError = LMCError
_join_safetensors()

_Error = TypeVar("_Error", bound=LMCError)

(_ARG, _NOMEM, _DST_SMALL, _TRUNCATED, _CORRUPT, _UNSUPPORTED, _CHECKSUM, _BASE, _LIMIT, _IO, _HEADER,
 _CANCELLED) = range(1, 13)

_ESCAPE = re.compile(rb'\\(?:(["\\n])|x([0-9a-f]{2})|u([0-9a-f]{4}))')

_CLASSES: dict[int, type[LMCError]] = {
    _ARG: ArgumentError,
    _DST_SMALL: ArgumentError,
    _TRUNCATED: DataError,
    _CORRUPT: DataError,
    _HEADER: DataError,
    _CHECKSUM: ChecksumError,
    _UNSUPPORTED: UnsupportedError,
    _BASE: BaseError,
    _LIMIT: LimitError,
    _CANCELLED: Cancelled,
}


def error_of(status: int, text: str = "", file: str | None = None, tensor: str | None = None,
             offset: int | None = None, os_errno: int = 0) -> Exception:
    """The exception for a status that is not LMC_OK."""
    meaning = _abi.status_text(status).decode()
    text = text or meaning
    if status == _NOMEM:
        return MemoryError(text)
    if status == _IO or os_errno in (errno.EEXIST, errno.EISDIR):
        if os_errno == errno.ENOENT and "://" in (file or ""):
            text += " (this call takes local paths; safe_open(), load_file() and lmcodec.remote read URLs)"
        return OSError(os_errno or errno.EIO, text, file)
    where = [part for part in (file, "tensor %r" % tensor if tensor is not None else None) if part]
    kind = _CLASSES.get(status, LMCError)
    if status == _ARG and text.startswith("there is no step "):
        kind = StepNotFound
    if status == _ARG and text.startswith("there is no model "):
        kind = ModelNotFound
    error = kind(": ".join([*where, text]))
    error.status, error.file, error.tensor, error.offset = meaning, file, tensor, offset
    return error


def reworded(error: LMCError, text: str, kind: type[LMCError] | None = None) -> LMCError:
    """The same error with another text, and of another kind if one is given."""
    told = (kind or type(error))(text)
    told.status, told.file, told.tensor, told.offset = error.status, error.file, error.tensor, error.offset
    return told


def renamed(error: LMCError, name: str) -> LMCError:
    """The same error, with another name of its file."""
    told = reworded(error, str(error).replace(error._file_in_text or error.file or name, name))
    told.file = name
    return told


def placed(error: _Error, file: str | None = None, tensor: str | None = None) -> _Error:
    """The same error, which now names its file and its tensor.

    Exceptions are made where they are raised, as `raise placed(...)`: an exception that a local name of its own frames
    holds is a cycle. Open files and memory would stay until Python's collector comes.
    """
    error.file, error.tensor = file, tensor
    return error


def check(status: int, diag: _abi.StDiag) -> None:
    """Raises the exception for the status and diagnostic of a call on files, if it failed."""
    if status != _abi.OK:
        raise _error_of_diag(status, diag)


def _error_of_diag(status: int, diag: _abi.StDiag) -> Exception:
    shown = _system.shown_path(diag.file) or None
    tensor = unescaped(diag.tensor).decode("utf-8", "surrogateescape") if diag.has_tensor else None
    offset = None if diag.offset == _abi.NO_OFFSET else diag.offset
    error = error_of(status, diag.text.decode("utf-8", "replace"), shown, tensor, offset, diag.os_errno)
    file = _system.shown_path(unescaped(diag.file)) or None if _system.PATHS_ARE_ESCAPED else shown
    if isinstance(error, OSError):
        if file is None and diag.os_errno == errno.ENOENT:
            file = ""  # the path that was given
        if file is not None and "://" in file:
            from ._remote.stores import hide_secrets

            file = hide_secrets(file)
        error.filename = file
    elif isinstance(error, LMCError):
        error.file, error._file_in_text = file, shown
    return error


def unescaped(shown: bytes) -> bytes:
    r"""The name behind what the library shows: \" \\ \n, \xNN for a byte that is not UTF-8, and \uNNNN for any other
    character that is unsafe to print. A name that the library has cut stays cut, with "..." at its end."""
    return _ESCAPE.sub(_meant, shown)


def _meant(escape: re.Match[bytes]) -> bytes:
    character, byte, code_point = escape.groups()
    if byte:
        return bytes([int(byte, 16)])
    if code_point:
        return chr(int(code_point, 16)).encode()
    return b"\n" if character == b"n" else bytes(character)


def check_status(status: int) -> None:
    """Raises the exception for a status that comes without a diagnostic."""
    if status != _abi.OK:
        raise error_of(status)


def loads_untrusted(text: str | bytes, what: str) -> Any:
    """The value of a JSON text. what: its file, for the message.

    Raises DataError for every text that json does not read, one that nests too deeply among them.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise DataError("%s: the JSON nests too deeply" % what) from None
    except ValueError as error:
        raise DataError("%s: %s" % (what, error)) from None
