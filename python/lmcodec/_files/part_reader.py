"""Reading many parts of tensors, one after another."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Callable

from .. import _abi
from .._errors import check


class Opened:
    """An open file of the library (pointer), and what must end before it is closed: its readers, and the files whose
    base it is. Python may finalize the objects of a cycle in any order."""

    def __init__(self) -> None:
        self.pointer = ctypes.c_void_p()
        self._readers: dict[int, tuple[ctypes.c_void_p, int]] = {}
        self._users: list[Opened] = []

    def add_user(self, file: Opened) -> None:
        """The file is coded against this one."""
        self._users.append(file)

    def close(self, close: Any = _abi.st_close) -> None:
        """May be called again."""
        for user in self._users:
            user.close(close)
        for reader, _ in list(self._readers.values()):
            self.free_reader(reader)
        if self.pointer:
            close(self.pointer)
        self.pointer.value = None

    def add_reader(self, reader: ctypes.c_void_p) -> None:
        self._readers[id(reader)] = reader, os.getpid()

    def free_reader(self, reader: ctypes.c_void_p, free: Any = _abi.st_reader_free,
                    getpid: Callable[[], int] = os.getpid) -> None:
        """Frees a reader, if there is one. A child has no use for what its parent may have been writing to."""
        _, pid = self._readers.pop(id(reader), (None, -1))
        if pid == getpid():
            free(reader)
        reader.value = None


class PartReader:
    """Reads parts of tensors of an open file. It has the frame of the last tensor open, and the block that it decoded
    last.

    file: open. create: makes the library's reader of a tensor, or of its storage.
    number: of the tensor that is open, or -1. kept: content [begin, end) of it that is there already, as far as those
    know who fetch the rest. One thread at a time.
    """

    def __init__(self, file: Opened, create: Any = _abi.st_reader_create) -> None:
        self._file, self._create = file, create
        self._pointer, self.number = ctypes.c_void_p(), -1
        self._lock, self._pid = threading.Lock(), os.getpid()
        self.kept = 0, 0

    def __del__(self) -> None:
        self._file.free_reader(self._pointer)

    def is_mine(self) -> bool:
        """False in a child of the process that made it."""
        return self._pid == os.getpid()

    def take(self) -> bool:
        """Makes this thread the one that reads, until give(). False if another thread is, or may have been when the
        parent forked."""
        return self.is_mine() and self._lock.acquire(blocking=False)

    def give(self) -> None:
        self._lock.release()

    def read(self, number: int, first_byte: int, nbytes: int, address: int) -> None:
        """Reads bytes of a tensor."""
        diag = _abi.StDiag()
        if self.number != number:
            self._file.free_reader(self._pointer)
            self.number, self.kept = -1, (0, 0)
            check(self._create(self._file.pointer, number, ctypes.byref(self._pointer), ctypes.byref(diag)), diag)
            self._file.add_reader(self._pointer)
            self.number = number
        check(_abi.st_reader_read(self._pointer, first_byte, nbytes, address, ctypes.byref(diag)), diag)
