"""throttled_save.py - ranks that are plain processes: each encodes its tensors, and all send through one link."""

import multiprocessing
import os
import queue
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tool"))
from throttled import drain, new_link, write_all  # noqa: E402

QUEUED = 2  # pieces that are encoded and not sent yet; memory is bounded by them


def send(frames, fd, cpu_seconds):
    """Writes what the queue gives until it gives None."""
    begin = time.thread_time()
    while (frame := frames.get()) is not None:
        write_all(fd, frame)
    cpu_seconds.append(time.thread_time() - begin)


def save(encode, pairs, factor, fd):
    """Seconds and CPU seconds of encoding, CPU seconds of sending, bytes sent. Each tensor is a piece.

    factor: a processor that takes so many times as long; the process sleeps for the rest.
    """
    frames, sending, seconds, stored = queue.Queue(QUEUED), [], 0.0, 0
    sender = threading.Thread(target=send, args=(frames, fd, sending))
    sender.start()
    cpu = time.process_time()
    for tensor, base in pairs:
        begin = time.perf_counter()
        frame = encode(tensor, base)
        taken = time.perf_counter() - begin
        time.sleep((factor - 1) * taken)
        seconds += factor * taken
        stored += len(frame)
        frames.put(frame)
    frames.put(None)
    sender.join()
    return {"seconds": seconds, "cpu_seconds": time.process_time() - cpu - sending[0], "send_cpu_seconds": sending[0],
            "sent_nbytes": stored}


def rank_main(number, work, fds, barrier, results):
    read_fd, write_fd = fds
    os.close(read_fd)
    barrier.wait()
    found = save(*work, write_fd)
    os.close(write_fd)
    results.put((number, found))


def link_main(fds, link, barrier, results):
    read_fd, write_fd = fds
    os.close(write_fd)
    barrier.wait()
    begin = time.perf_counter()
    drain(read_fd, link)
    results.put((None, time.perf_counter() - begin))


def save_ranks(encode, states, factors, link):
    """Seconds until a link of so many GB/s has all, and what save() found in each rank.

    states: pairs of tensor and base (or None) for each rank. encode(tensor, base) returns the bytes to send.
    """
    context = multiprocessing.get_context("fork")
    fds, barrier, results = new_link(), context.Barrier(len(states) + 1), context.SimpleQueue()
    ranks = [context.Process(target=rank_main, args=(number, (encode, pairs, factor), fds, barrier, results))
             for number, (pairs, factor) in enumerate(zip(states, factors))]
    processes = [*ranks, context.Process(target=link_main, args=(fds, link, barrier, results))]
    for process in processes:
        process.start()
    for fd in fds:
        os.close(fd)
    found = dict(results.get() for _ in processes)
    for process in processes:
        process.join()
    return found.pop(None), [found[number] for number in range(len(states))]
