"""What tests of lmcodec.Run and lmcodec.Store share: models that never were, calls from several threads, and a call
that is interrupted while it waits for the lock."""
import subprocess
import sys
import threading

import numpy

# The lock is that of the open file: one that this program holds keeps the call waiting.
_WAITING = """
import fcntl, os, signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
import lmcodec
kind, folder, path = sys.argv[1:]
lock = open(os.path.join(folder, ".lmc-lock"), "r+b")
fcntl.flock(lock, fcntl.LOCK_EX)
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    getattr(lmcodec, kind)(folder).add(path)
except KeyboardInterrupt:
    print("interrupted")
"""


def layers(seed, count, rows):
    """The tensors of a model: F32, 512 columns."""
    random = numpy.random.default_rng(seed)
    return {"layers.%d" % n: random.standard_normal((rows, 512), dtype="f4") for n in range(count)}


def tuned(tensors, seed):
    """A fine-tune: some values have moved a little."""
    changes = numpy.random.default_rng(seed)
    return {name: numpy.where(changes.random(array.shape) < 0.05, array * numpy.float32(1.001), array)
            for name, array in tensors.items()}


def add_from_threads(kept, paths):
    """One thread a path. Returns what was raised."""
    faults = []

    def add(path):
        try:
            kept.add(path, fsync=False, threads=1)
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=add, args=[path]) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return faults


def interrupt_waiting_add(kind, folder, path):
    """kind: Run or Store. What the process printed; "interrupted" if the call has ended as it should."""
    done = subprocess.run([sys.executable, "-c", _WAITING, kind, folder, path], capture_output=True, text=True,
                          timeout=60)
    return done.stdout.strip() or done.stderr
