"""throttled.py - a link of a given speed: a pipe whose reader takes so many bytes a second."""

import fcntl
import os
import time

GB = 10**9
PIECE_NBYTES = 1 << 20
F_SETPIPE_SZ = 1031    # fcntl.F_SETPIPE_SZ of Python 3.10
BURST_SECONDS = 0.005  # what a reader that woke up late may make good


def new_link():
    """The two ends of a pipe, to read and to write."""
    read_fd, write_fd = os.pipe()
    fcntl.fcntl(write_fd, F_SETPIPE_SZ, PIECE_NBYTES)
    return read_fd, write_fd


def drain(fd, link):
    """Takes `link` GB a second from the pipe until its writers have closed it, no byte earlier."""
    started, taken = None, 0
    while True:
        piece = os.read(fd, PIECE_NBYTES)
        if not piece:
            return
        started = time.monotonic() if started is None else started
        taken += len(piece)
        ahead = started + taken / (link * GB) - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        elif ahead < -BURST_SECONDS:  # a link that had no work does not catch up
            started -= ahead + BURST_SECONDS


def write_all(fd, content):
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view[:PIECE_NBYTES]):]
