"""kills.py DIRECTORY KILLS - a writer is killed at random moments. Files closed before are intact; one that was being
written does not open, or what can be read of its chunks is right."""
import os
import random
import signal
import sys
import time

import h5py
import numpy as np

from common import CHUNKS, FILTER, check, in_child, read_h5py, same, weights

DATASETS = 4
ROWS = 64
FILES_MAX = 200


def content_of(number, i):
    return weights(1000 * number + i, ROWS)


def write_file(path, number):
    """Chunk by chunk, with flushes between: the file is in every state there is."""
    with h5py.File(path, "w") as file:
        for i in range(DATASETS):
            dataset = file.create_dataset("w%d" % i, (ROWS, CHUNKS[1]), "<f4", chunks=CHUNKS, compression=FILTER)
            content = content_of(number, i)
            for row in range(0, ROWS, CHUNKS[0]):
                dataset[row:row + CHUNKS[0]] = content[row:row + CHUNKS[0]]
                if row % (2 * CHUNKS[0]) == 0:
                    file.flush()


def write_files(directory, closed):
    for number in range(FILES_MAX):
        write_file(os.path.join(directory, "%d.h5" % number), number)
        os.write(closed, b".")
    time.sleep(60)  # until it is killed


def check_closed(path, number):
    for i in range(DATASETS):
        read_h5py(h5py, path, content_of(number, i), "w%d" % i)


def check_unfinished(path, number):
    """Returns how many chunks could be read and hold what was written."""
    right = 0
    try:
        file = h5py.File(path, "r")
    except OSError:
        return 0
    for i in range(DATASETS):
        wanted = content_of(number, i)
        for row in range(0, ROWS, CHUNKS[0]):
            try:
                found = file["w%d" % i][row:row + CHUNKS[0]]
            except (OSError, KeyError, RuntimeError):
                continue
            if same(found, wanted[row:row + CHUNKS[0]]):
                right += 1
            else:  # never written: the fill value
                check(not np.any(found), "%s: chunk at %d of w%d is wrong" % (path, row, i))
    return right


def status_of(child):
    return os.waitpid(child, 0)[1]


def kill_once(directory, moment):
    """Kills a writer some time after it has closed its first file; returns how many it had closed."""
    closed, closed_by_child = os.pipe()
    child = in_child(lambda: write_files(directory, closed_by_child))
    os.close(closed_by_child)
    check(os.read(closed, 1) == b".", "the writer failed")
    time.sleep(moment)
    os.kill(child, signal.SIGKILL)
    check(os.WIFSIGNALED(status_of(child)), "the writer had ended")
    count = 1
    while os.read(closed, 1):
        count += 1
    os.close(closed)
    return count


def report(result, count):
    os.write(result, b"%d\n" % count)


def main():
    directory, kills = sys.argv[1], int(sys.argv[2])
    rng = random.Random(kills)
    results, result = os.pipe()
    unfinished = 0
    for _ in range(kills):
        count = kill_once(directory, rng.uniform(0, 0.1))
        for number in range(count):
            path = os.path.join(directory, "%d.h5" % number)
            if number >= count - 2:
                check(status_of(in_child(lambda: check_closed(path, number))) == 0, "a closed file is not intact")
            os.unlink(path)
        path = os.path.join(directory, "%d.h5" % count)
        if os.path.exists(path):
            unfinished += 1
            checker = in_child(lambda: report(result, check_unfinished(path, count)))
            check(status_of(checker) == 0, "an unfinished file is read wrongly")
            os.unlink(path)
    os.close(result)
    right = [int(line) for line in os.fdopen(results).read().split()]
    check(unfinished > 0, "no kill met a file that was being written")
    print("%d unfinished files, %d of them with chunks that can be read" % (unfinished, sum(map(bool, right))))


main()
