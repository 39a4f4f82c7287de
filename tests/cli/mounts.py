"""Runs a part of a case in its own mount namespace, with a small file system that is gone afterwards."""
import ctypes
import os
import traceback

import pytest

from support import check, write

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000

_libc = ctypes.CDLL(None, use_errno=True)


class _Denied(Exception):
    pass


def _call(name, *arguments):
    if getattr(_libc, name)(*arguments) != 0:
        raise _Denied("%s: %s" % (name, os.strerror(ctypes.get_errno())))


def _enter():
    """A mount namespace of this process alone; as another user than root, with a user namespace."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        _call("unshare", CLONE_NEWNS)
    else:
        _call("unshare", CLONE_NEWNS | CLONE_NEWUSER)
        write("/proc/self/setgroups", b"deny")
        write("/proc/self/uid_map", b"0 %d 1" % user)
        write("/proc/self/gid_map", b"0 %d 1" % group)
    _call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)


def _child(function, place, options):
    """Runs in the child; returns the verdict and a text."""
    try:
        _enter()
        _call("mount", b"tmpfs", os.fsencode(place), b"tmpfs", 0, options.encode())
    except (_Denied, OSError) as reason:
        return "skip", "no file system can be mounted here: %s" % reason
    try:
        function(place)
        return "pass", ""
    except AssertionError as failure:
        return "fail", str(failure)
    except pytest.skip.Exception as reason:
        return "skip", str(reason)
    except Exception:  # pylint: disable=broad-except
        return "fail", traceback.format_exc()


def with_small_disk(directory, options, function):
    """Calls function(place) in a child process: place is a tmpfs with these options."""
    place = os.path.join(directory, "disk")
    os.mkdir(place)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        verdict, text = _child(function, place, options)
        os.write(writer, ("%s %s" % (verdict, text)).encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read().decode()
    os.waitpid(child, 0)
    verdict, _, text = told.partition(" ")
    if verdict == "skip":
        pytest.skip(text)
    check(verdict == "pass", text or "the child process has ended early")


def fill_up(path, left_nbytes):
    """Leaves so many bytes of the file system free (in whole pages)."""
    free = os.statvfs(os.path.dirname(path))
    nbytes = free.f_bavail * free.f_bsize - left_nbytes
    if nbytes > 0:
        with open(path, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, nbytes)


def open_to_all(device, disk):
    """Lets all users open a device. To be called where with_small_disk() has mounted the disk."""
    path = os.path.join(disk, os.path.basename(device))
    os.mknod(path, os.stat(device).st_mode | 0o666, os.stat(device).st_rdev)
    os.chmod(path, 0o666)
    _call("mount", os.fsencode(path), os.fsencode(device), None, MS_BIND, None)
