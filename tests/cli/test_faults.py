"""Every system call fails once, at each of its occurrences: exit 3, one line, nothing left; or the fault
is overcome and the output is what it is without."""
import errno
import os

import pytest

from faults import NAMED, Faults, Job, check_outcome
from support import check, write

SHORT = 0
IO_ERRORS = {
    "open": (errno.EIO, errno.EMFILE, errno.EINTR),
    "fstat": (errno.EIO,),
    "stat": (errno.EIO, errno.EACCES),
    "pread": (errno.EIO, errno.EINTR, SHORT),
    "read": (errno.EIO, errno.EINTR, SHORT),
    "close": (errno.EIO, errno.EINTR),
    "thread": (errno.EAGAIN,),
    "alloc": (errno.ENOMEM,),
}
WRITE_ERRORS = {
    "tmpfile": (errno.ENOSPC, errno.EOPNOTSUPP, errno.EISDIR),
    "create": (errno.ENOSPC, errno.EACCES),
    "pwrite": (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EINTR, SHORT),
    "write": (errno.ENOSPC, errno.EINTR, SHORT),
    "fallocate": (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR, errno.EOPNOTSUPP, errno.ENOSYS),
    "ftruncate": (errno.EIO,),
    "copy": (errno.EIO, errno.ENOSPC, errno.EXDEV, SHORT),
    "fsync": (errno.EIO, errno.ENOSPC, errno.EINVAL),
    "fchmod": (errno.EIO, errno.EPERM),
    "futimens": (errno.EPERM,),
    "link": (errno.EIO, errno.EPERM, errno.EMLINK, errno.ENOSPC),
    "rename": (errno.EIO, errno.ENOSPC, errno.EACCES),
    "unlink": (errno.EIO,),
}

# Occurrences beyond these are hit at steps that double: memory is asked for often.
DENSE = {"alloc": 24}
DENSE_DEFAULT = 20


def occurrences(call):
    dense = DENSE.get(call, DENSE_DEFAULT)
    yield from range(1, dense + 1)
    at = dense + 1
    while True:
        yield at
        at += max(1, at // 8)


def action(number):
    return "e%d" % number if number else "short"


def fail_each(job, faults, call, number, options, before, old):
    """One run for each occurrence of the call, until there are no more. Returns the number of hits."""
    for occurrence in occurrences(call):
        rule = "%s:%d:1:%s" % (call, occurrence, action(number))
        what = " ".join([*job.arguments(*options)[0:1], *options, before + rule])
        job.clear(old)
        result, hits = faults.run(before + rule, *job.arguments(*options))
        if hits.count(call) == 0:
            check(result.status == 0, "%s: %s" % (what, result.stderr))
            job.check_state(what, job.wanted)
            return occurrence - 1
        check_outcome(job, result, call, number, occurrence, old, what)


def fail_from_here(job, faults, call, number, options, before, old):
    """The first and all later calls fail."""
    times = 0 if number != SHORT else 500  # else megabytes byte by byte
    rule = "%s:1:%d:%s" % (call, times, action(number))
    job.clear(old)
    result, hits = faults.run(before + rule, *job.arguments(*options))
    if hits.count(call) > 0:
        check_outcome(job, result, call, number, 1, old, before + rule)


NEEDED = {"open", "fstat", "pread", "alloc", "pwrite", "fsync", "fchmod"}
LAST_STEPS = ("create", "pwrite", "fsync", "fchmod", "close", "link", "rename", "unlink", "stat")
OLD = b"the old output"
# Options, rules before that of the call, what stands in the place of the output.
VARIANTS = {"j1": (("-j1",), "", None), "j2": (("-j2",), "", None), "named": (("-j1",), NAMED + ",", None),
            "forced": (("-j1", "-f"), "", OLD), "forced_named": (("-j1", "-f"), NAMED + ",", OLD)}


def each_fault():
    """Command, variant, call, errors of it."""
    for variant in ("j1", "j2"):
        for command in ("convert", "restore", "verify"):
            calls = IO_ERRORS if command == "verify" else {**IO_ERRORS, **WRITE_ERRORS}
            for call, numbers in calls.items():
                if (variant, call) != ("j2", "alloc"):  # as with one thread, but for where it strikes
                    yield command, variant, call, numbers
    for command in ("convert", "restore"):
        for call in LAST_STEPS:
            for variant in ("named", "forced", "forced_named"):
                yield command, variant, call, (WRITE_ERRORS.get(call) or IO_ERRORS[call])[:2]


@pytest.mark.parametrize("command, variant, call, numbers",
                         [pytest.param(*fault, id="-".join(fault[:3])) for fault in each_fault()])
def test_fault(tool, directory, command, variant, call, numbers):
    options, before, old = VARIANTS[variant]
    if command != "verify" and call != "fsync":
        options = (*options, "--no-fsync")
    faults = Faults(tool, directory)
    job = Job(command, tool, faults.directory)
    for number in numbers:
        hits = fail_each(job, faults, call, number, options, before, old)
        is_needed = variant in ("j1", "j2") and call in NEEDED
        check(hits > 0 or not is_needed, "%s makes no call %s that could fail" % (command, call))
        if number != errno.EINTR:
            fail_from_here(job, faults, call, number, options, before, old)


@pytest.mark.parametrize("is_named", (True, False), ids=("named", "unnamed"))
@pytest.mark.parametrize("command", ("convert", "restore"))
def test_failed_close(tool, directory, command, is_named):
    """A file system may report only when a file is closed that it could not write: the output, which has a temporary
    name or none, does not get its own. Other files may fail to close."""
    faults = Faults(tool, directory)
    job = Job(command, tool, faults.directory)
    statuses = []
    for occurrence in occurrences("close"):
        job.clear()
        rules = [NAMED] if is_named else []
        result, hits = faults.run(",".join([*rules, "close:%d:1:e%d" % (occurrence, errno.EIO)]),
                                  *job.arguments("-j1", "--no-fsync"))
        if "close" not in hits:
            break
        job.check_state("close %d" % occurrence, job.wanted if result.status == 0 else None)
        statuses.append(result.status)
    check(3 in statuses, "no failed close was noticed: %s" % statuses)


def test_outputs_of_one_name(tool, directory):
    """Two inputs with the same output: nothing is written, whichever allocation fails before that is known."""
    faults = Faults(tool, directory)
    content = Job("convert", tool, faults.directory).given
    first, second, to = (os.path.join(faults.directory, name) for name in ("a", "b", "to"))
    for folder in (first, second, to):
        os.mkdir(folder)
    inputs = [write(os.path.join(folder, "m.safetensors"), content) for folder in (first, second)]
    for occurrence in occurrences("alloc"):
        result, hits = faults.run("alloc:%d:1:e12" % occurrence, "convert", "-j1", "-f", *inputs, "-o", to)
        check(os.listdir(to) == [], "failed allocation %d: an output was written" % occurrence)
        result.expect(3 if hits else 2)
        if not hits:
            check(occurrence > 1, "no allocation could fail")
            break
