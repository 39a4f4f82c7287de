"""Stores: an index that is busy, cannot be read, or is wrong, and what makes it again."""
import os
import signal
import sqlite3
import time

import pytest

from faults import Faults
from stores import check_store, family, llm, tuned, write_file
from support import check, read
from users import as_nobody


def test_index_cannot_be_read(tool, directory):
    """It is not thrown away: that is left to repair."""
    store, made = family(tool, directory)
    index = os.path.join(store, "index.sqlite")
    made["new"] = write_file(os.path.join(directory, "made"), "new", tuned(llm(), seed=8))
    for folder, folders, files in os.walk(store):
        for name in folders + files:
            os.chmod(os.path.join(folder, name), 0o777)
    os.chmod(store, 0o777)
    os.chmod(index, 0)
    user = as_nobody(tool, directory)
    before = os.stat(index).st_ino
    tool.run("store", "add", store, made["new"], **user).expect(3, "index.sqlite: ", "unable to open")
    check(os.stat(index).st_ino == before, "the index was replaced")
    tool.run("store", "repair", store, **user).expect(0)
    tool.run("store", "add", store, made["new"], **user).expect(0)
    check(os.stat(index).st_size > 0, "there is no new index")
    check_store(tool, store, made)


def test_repair_reads_each_archive_once(tool, directory):
    store, _ = family(tool, directory)
    faults = Faults(tool, store)
    counts = []
    for is_there in (True, False):
        if not is_there:
            os.unlink(os.path.join(store, "index.sqlite"))
        result, calls = faults.run("pread:1:0:s0", "store", "repair", store)
        check(result.status == 0, result.stderr)
        counts.append(len(calls))
    check(0 < counts[1] <= counts[0], "reads with and without an index: %s" % counts)


@pytest.mark.parametrize("statement", ["UPDATE file SET nbytes = nbytes + 1, mtime_ns = 1",
                                       "UPDATE file SET path = model || '.lmc/none' WHERE id = 1"])
def test_index_is_wrong(tool, directory, statement):
    """Sound models are not refused for their sizes in the index. One that has a file too many for it, is until repair
    makes the index again."""
    store, made = family(tool, directory)
    database = sqlite3.connect(os.path.join(store, "index.sqlite"))
    with database:
        database.execute(statement)
    database.close()
    if "none" in statement:
        tool.run("store", "verify", store).expect(1, ".lmc/none is missing", "repair the store")
        tool.run("store", "repair", store).expect(0)
    tool.run("store", "verify", store).expect(0)
    check_store(tool, store, made)


@pytest.mark.posix("signals")
def test_interrupted_while_the_index_is_busy(tool, directory):
    """Another program has locked it: it is waited for, and left alone."""
    store, made = family(tool, directory)
    index = os.path.join(store, "index.sqlite")
    path = write_file(directory, "new", tuned(llm(), seed=8))
    before, start = read(index), time.monotonic()
    other = sqlite3.connect(index, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    process = tool.start("store", "add", store, path)
    time.sleep(1)
    check(process.poll() is None, "it has not waited")
    process.send_signal(signal.SIGINT)
    process.communicate()
    check(process.returncode == 130 and time.monotonic() - start < 8, "exit %d" % process.returncode)
    other.close()
    check(read(index) == before, "the index has changed")
    check_store(tool, store, made)
