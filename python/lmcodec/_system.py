"""What systems do differently. All of it is here, but for the names of native files (_library) and files in memory
(_files.memory)."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import threading
import time
from contextlib import contextmanager
from typing import BinaryIO, Iterator, NoReturn, Sequence

IS_WINDOWS = sys.platform == "win32"
PATHS_ARE_ESCAPED = not IS_WINDOWS  # by the library, which shows a separator as it is, and the backslash is one there

_WAIT_S = 0.1 if IS_WINDOWS else None  # a wait without an end is not interrupted on Windows
_LOCK_WAIT_S = 0.05
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of Linux's renameat2()


def wait(event: threading.Event) -> None:
    """Waits for the event. KeyboardInterrupt ends it."""
    while not event.wait(_WAIT_S):
        pass


def become(program: str, arguments: Sequence[str]) -> NoReturn:
    """Runs a program in place of this one."""
    if IS_WINDOWS:  # a process that is replaced there seems to have ended, and the shell does not wait
        import signal
        import subprocess

        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program hears it, too, and cleans up
        sys.exit(subprocess.call([program, *arguments]))
    os.execv(program, [os.path.basename(program), *arguments])


# ---- names ----

def shown_path(path: bytes) -> str:
    """A path that the library names. It may have been cut within a character."""
    try:
        return os.fsdecode(path)
    except UnicodeDecodeError:
        return path.decode("utf-8", "replace")


def slashed(path: str) -> str:
    """A relative path as archives, lists and URLs have it."""
    return path.replace(os.sep, "/")


def is_plain_name(name: str) -> bool:
    """Whether a part of a path between slashes is one name, and does not lead elsewhere."""
    return name not in ("", ".", "..") and "\0" not in name and not (IS_WINDOWS and ("\\" in name or ":" in name))


def exchange(one: str, other: str) -> bool:
    """Two names change their places at once. False: the system, or the file system, cannot do this."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if not IS_WINDOWS else None
    if renameat2 is None:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS):
        return False
    raise OSError(code, os.strerror(code), other)


def sync_directory(path: str) -> None:
    """Waits until the names in a directory are on the disk, where the system can be asked to."""
    if IS_WINDOWS:
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---- locks ----

@contextmanager
def locked(file: BinaryIO) -> Iterator[None]:
    """Other threads and processes that lock the same file wait until `with` ends, and the file is closed."""
    if sys.platform == "win32":
        import msvcrt

        while not _try_lock(file):
            time.sleep(_LOCK_WAIT_S)
        try:
            yield
        finally:
            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _try_lock(file: BinaryIO) -> bool:
    """Windows locks bytes: the first one stands for the file."""
    if sys.platform == "win32":
        import msvcrt

        file.seek(0)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno not in (0, errno.EACCES, errno.EDEADLK):  # 0 of Wine
                raise
            return False
    return True
