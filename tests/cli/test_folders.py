"""Model directories on bad days: system calls fail, the tool is killed, the tree is not what it should be."""
import errno
import os
import random
import shutil
import signal
import time

import pytest

from faults import STOP, Faults, allowed_statuses, moments, resume
from folders import SHARDS, FolderJob, tree
from mounts import with_small_disk
from support import check, check_only, read, small_model, write

KILLS = int(os.environ.get("LMC_KILLS", "10"))
KILLS_SLOW = int(os.environ.get("LMC_KILLS", "200"))
NO_FSYNC = "--no-fsync"
OLD = {"old": b"the old output"}

# What fails, and whether the run may end well all the same.
MUST_FAIL = {"pread": (errno.EIO,), "pwrite": (errno.EIO, errno.ENOSPC), "mkdir": (errno.ENOSPC,),
             "readdir": (errno.EIO,)}
MAY_FAIL = {"alloc": (errno.ENOMEM,), "fstat": (errno.EIO,), "open": (errno.EMFILE,), "opendir": (errno.EMFILE,),
            "create": (errno.ENOSPC,), "tmpfile": (errno.ENOSPC,),
            "stat": (errno.EACCES,), "read": (errno.EIO,), "write": (errno.ENOSPC,), "copy": (errno.EIO,),
            "fsync": (errno.EIO,), "fchmod": (errno.EIO,), "link": (errno.EIO,), "rename": (errno.EIO,),
            "unlink": (errno.EIO,), "rmdir": (errno.EIO,), "close": (errno.EIO,)}

# After these, finished archives are kept for the next run.
MENDABLE = (errno.ENOSPC, errno.EIO, errno.EDQUOT)

# Removing what was begun takes these calls itself.
FOR_REMOVAL = ("opendir", "readdir", "unlink", "rmdir", "stat", "alloc")


def fail_each(tool, directory, command, call, number, options, old):
    faults = Faults(tool, directory)
    job = FolderJob(command, tool, faults.directory)
    partial = os.path.basename(job.partial)
    occurrence = 1
    while True:
        rule = "%s:%d:1:e%d" % (call, occurrence, number)
        what = "%s %s %s" % (command, " ".join(options), rule)
        job.clear(old)
        result, hits = faults.run(rule, *job.arguments(*options))
        if not hits:
            break
        statuses = (3,) if call in MUST_FAIL else (0, 1, 2, 3) if call == "stat" else (0, 3)
        check(result.status in statuses,
              "%s: exit %d: %s" % (what, result.status, result.stderr))
        leftovers = (partial,) if call in FOR_REMOVAL or (command == "convert" and number in MENDABLE) else ()
        if result.status != 0:
            kept = os.path.exists(os.path.join(job.partial, SHARDS[0] + ".lmc"))
            check(not kept or call in FOR_REMOVAL or "run the same again" in result.stderr, "message: " + result.stderr)
            check(result.stderr.startswith("lmc-st: ") and result.stderr.count("\n") == 1, "message: " + result.stderr)
            check(call == "stat" or "out of memory" in result.stderr or os.strerror(number) in result.stderr,
                  "message: " + result.stderr)
            check(call != "fsync" or "its name" not in result.stderr, "the cause: " + result.stderr)
            job.check_state(what, old, leftovers=leftovers)
        else:
            job.check_state(what, job.wanted, leftovers=leftovers)
        if leftovers:
            job.check_next_run(tool, what, options)
        occurrence += 1 if call == "fsync" else 1 + occurrence // 8
    job.check_state(what, job.wanted)


def fail_with(tool, directory, command, call, numbers, options, old):
    options = options if call == "fsync" else (*options, NO_FSYNC)
    for number in numbers:
        fail_each(tool, directory, command, call, number, options, old)
        shutil.rmtree(os.path.join(directory, "M" if command == "convert" else "M.lmc"))
        shutil.rmtree(os.path.join(directory, "M.lmc" if command == "convert" else "M"))


@pytest.mark.parametrize("call", [*MUST_FAIL, *MAY_FAIL])
@pytest.mark.parametrize("command", ["convert", "restore"])
def test_fault(tool, directory, command, call):
    fail_with(tool, directory, command, call, {**MUST_FAIL, **MAY_FAIL}[call], ("-j1",), None)


@pytest.mark.parametrize("call", ["rename", "unlink", "rmdir", "fsync", "opendir"])
@pytest.mark.parametrize("command", ["convert", "restore"])
def test_fault_forced(tool, directory, command, call):
    fail_with(tool, directory, command, call, MAY_FAIL[call], ("-j1", "-f"), OLD)


# ---- killed ----

def kill_often(tool, directory, command, options, old, count, numbers):
    job = FolderJob(command, tool, directory)
    partial = os.path.basename(job.partial)
    rng = random.Random(count)
    process = tool.start(*job.arguments(*options))
    started = time.monotonic()
    process.communicate()
    longest = 1.1 * (time.monotonic() - started)
    ended_early = 0
    for i in range(count):
        if i % 4 == 0:
            job.clear(old)  # else the run goes on with what the one before has left
        elif job.state() == job.wanted:
            shutil.rmtree(job.output)
        number = numbers[i % len(numbers)]
        process = tool.start(*job.arguments(*options))
        time.sleep(rng.uniform(0, longest))
        process.send_signal(number)
        message = process.communicate()[1].decode()
        what = "%s %s, signal %d, no. %d: exit %d" % (command, options, number, i, process.returncode)
        check(process.returncode in allowed_statuses(number), what + ": " + message)
        ended_early += process.returncode != 0
        longest *= 1.05 if process.returncode != 0 else 0.85  # other work may slow the machine down, or cease
        if tool.for_windows:
            job.take_set_aside(what, old)
        job.check_state(what, job.wanted, old, None, leftovers=(partial,))
        if i % 4 == 3:
            job.check_next_run(tool, what, options)
    check(ended_early > 0, "none of %d runs was still there to be killed" % count)


# Options, what stands in the place of the output, signals.
AT_RANDOM = {"plain": (("-j1", NO_FSYNC), None, (signal.SIGKILL,)),
             "forced": (("-j2", "-f", NO_FSYNC), OLD, (signal.SIGKILL, signal.SIGTERM))}


@pytest.mark.parametrize("count", [KILLS, pytest.param(KILLS_SLOW, marks=pytest.mark.large)], ids=["some", "often"])
@pytest.mark.parametrize("variant", AT_RANDOM)
@pytest.mark.parametrize("command", ["convert", "restore"])
def test_killed(tool, directory, command, variant, count):
    options, old, numbers = AT_RANDOM[variant]
    kill_often(tool, directory, command, options, old, count, numbers)


# Options, what stands in the place of the output, signal.
AT_EACH_CALL = {"plain": (("-j1", NO_FSYNC), None, signal.SIGKILL),
                "forced": (("-j1", "-f", NO_FSYNC), OLD, signal.SIGKILL),
                "polite": (("-j1", NO_FSYNC), None, signal.SIGTERM)}


@pytest.mark.parametrize("variant", [pytest.param(variant, marks=[] if variant == "forced" else pytest.mark.slow)
                                     for variant in AT_EACH_CALL])
@pytest.mark.parametrize("command", ["convert", "restore"])
def test_killed_at_each_call(tool, directory, command, variant):
    options, old, number = AT_EACH_CALL[variant]
    faults = Faults(tool, directory)
    job = FolderJob(command, tool, faults.directory)
    job.clear(old)
    result, calls = faults.run("any:1:0:s0", *job.arguments(*options))
    check(result.status == 0 and len(calls) > 50, "exit %d, calls: %s" % (result.status, calls))
    for occurrence in moments(calls)[::5]:
        job.clear(old)
        result, _ = faults.run("any:%d:1:s%d" % (occurrence, number), *job.arguments(*options))
        what = "%s %s, signal %d before call %d (%s): exit %d" % (
            command, " ".join(options), number, occurrence, calls[occurrence - 1], result.status)
        check(result.status in allowed_statuses(number), what + ": " + result.stderr)
        job.check_state(what, job.wanted, old, leftovers=(os.path.basename(job.partial),))
        job.check_next_run(tool, what, options)


# ---- disks, permissions, races ----

@pytest.mark.posix("mounts of this process")
def test_full_disk(tool, directory):
    def run(place):
        for command in ("convert", "restore"):
            job = FolderJob(command, tool, place)
            nbytes = sum(len(content or b"") for content in job.wanted.values())
            for space in (0, 8192, nbytes // 4, nbytes // 2, nbytes - 50000):
                filler = os.path.join(place, "filler")
                os.mkdir(filler)
                free = os.statvfs(place)
                with open(os.path.join(filler, "x"), "wb") as file:
                    os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_bsize - space)
                result = tool.run(*job.arguments("-j2")).expect(3, "No space left on device")
                check(result.stderr.count("\n") == 1, "message: " + result.stderr)
                shutil.rmtree(filler)
                leftovers = (os.path.basename(job.partial),) if command == "convert" else ()
                job.check_state("%s with %d bytes free" % (command, space), None, leftovers=leftovers)
                shutil.rmtree(job.partial, ignore_errors=True)
            tool.run(*job.arguments("-j2")).expect(0)
            job.check_state("with enough space", job.wanted)
            shutil.rmtree(job.output)
            shutil.rmtree(job.input)
    with_small_disk(directory, "size=16m", run)


def test_two_at_once(tool, directory):
    """One of them does it; the other says why it does not."""
    for command in ("convert", "restore"):
        for options in ((), ("-f",)):
            job = FolderJob(command, tool, directory)
            for i in range(10):
                job.clear()
                both = [tool.start(*job.arguments(NO_FSYNC, *options)) for _ in range(2)]
                told = [process.communicate()[1].decode() for process in both]
                found = sorted(process.returncode for process in both)
                check(found in ([0, 2], [0, 0]) and (options or found == [0, 2]), "exit %s: %s" % (found, told))
                job.check_state("%s %s, round %d" % (command, options, i), job.wanted)
            shutil.rmtree(job.input)
            shutil.rmtree(job.output)


def test_another_is_writing(tool, directory):
    faults = Faults(tool, directory)
    job = FolderJob("convert", tool, faults.directory)
    process = faults.stopped("pwrite:3:1:" + STOP, *job.arguments("-j1"))
    for options in ((), ("-f",)):
        tool.run(*job.arguments(*options)).expect(2, "another process is writing it")
    status, message = resume(process)
    check(status == 0, "exit %d: %s" % (status, message))
    job.check_state("the first run", job.wanted)


def test_output_appears_meanwhile(tool, directory):
    """Not replaced without -f; nothing of the tool's own stays."""
    faults = Faults(tool, directory)
    job = FolderJob("convert", tool, faults.directory)
    for kind in ("folder", "file"):
        process = faults.stopped("pwrite:3:1:" + STOP, *job.arguments("-j1"))
        if kind == "folder":
            os.mkdir(job.output)
            write(os.path.join(job.output, "mine"), b"mine")
        else:
            write(job.output, b"mine")
        status, message = resume(process)
        check(status in (2, 3) and message.count("\n") == 1, "exit %d: %s" % (status, message))
        check(not job.leftovers(), "left behind: %s" % job.leftovers())
        mine = os.path.join(job.output, "mine") if kind == "folder" else job.output
        check(read(mine) == b"mine", "what appeared was changed")
        shutil.rmtree(job.output) if kind == "folder" else os.unlink(job.output)


def test_files_vanish_and_change(tool, directory):
    """While the first shard is read, the second goes away, is cut, or is overwritten."""
    faults = Faults(tool, directory)
    for name in (SHARDS[1], "config.json", "tokenizer.model"):
        for change in ("vanish", "cut"):
            job = FolderJob("convert", tool, faults.directory)
            process = faults.stopped("pwrite:1:1:" + STOP, *job.arguments("-j1"))
            path = os.path.join(job.input, name)
            if change == "vanish":
                os.unlink(path)
            else:
                os.truncate(path, 5)
            status, message = resume(process)
            what = "%s, %s: exit %d: %s" % (name, change, status, message)
            made = tree(job.output) if status == 0 else {}
            made_before = made == job.wanted  # it had been read by then
            made_after = change == "cut" and made == {**job.wanted, name: read(path)}
            check(made_before or made_after or (status in (1, 3) and name in message), what)
            check(message.count("\n") <= 1 and not job.leftovers(), what + "left behind: %s" % job.leftovers())
            check(os.path.exists(job.output) == (status == 0), what + "the output")
            shutil.rmtree(job.input)
            shutil.rmtree(job.output, ignore_errors=True)


# ---- trees of other programs ----

@pytest.mark.parametrize("name, store", [("manifest.ocdbt", "OCDBT"), ("params/.zarray", "Zarr"),
                                         ("params/zarr.json", "Zarr")])
def test_stores_of_chunks(tool, directory, name, store):
    """Checkpoints of Orbax and TensorStore: the message says why their tensors are not converted."""
    path = os.path.join(directory, "M")
    os.makedirs(os.path.dirname(os.path.join(path, name)))
    write(os.path.join(path, name), b"{}")
    result = tool.run("convert", path).expect(2, "its store of chunks, %s" % store)
    check(name in result.stderr and result.stderr.count("\n") == 1, result.stderr)
    check_only(directory, "M")
    write(os.path.join(path, "m.safetensors"), small_model())
    result = tool.run("convert", path)
    check(result.status == 0 and store in result.stderr, result.stderr)
    check(result.stderr.count("copied as it is") == 1, result.stderr)
    check(read(os.path.join(path + ".lmc", name)) == b"{}", "copied")
