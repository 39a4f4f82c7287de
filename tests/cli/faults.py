"""Runs the tool with tests/support/fail_io.c loaded before it: system calls fail, or the tool stops at a
known place. Knows what each failed call may end in."""
import errno
import os
import random
import signal
import time

import pytest

from support import check, left_out, model, read, remove_all, weights, write

# No file system takes unnamed files, as the tool sees it.
NAMED = "tmpfile:1:0:e%d" % errno.EOPNOTSUPP

# A rule's action that stops the tool.
STOP = "s%d" % signal.SIGSTOP


class Faults:
    """The tool in a directory whose files' system calls fail as rules say (head of fail_io.c)."""

    def __init__(self, tool, directory):
        self.tool = tool
        self.directory = os.path.realpath(directory)
        self.log = self.directory + ".log"
        self.byte = None  # of reads and writes at an offset, only those of this byte count
        self.library = os.path.join(os.path.dirname(os.path.dirname(tool.path)), "tests", "fail_io.so")
        if not tool.limits:
            left_out("programs with sanitizers take no LD_PRELOAD")
        if not os.path.exists(self.library):
            pytest.skip("no " + self.library)

    def environment(self, rules):
        return {"LD_PRELOAD": self.library, "FAIL_IO": rules, "FAIL_IO_UNDER": self.directory,
                "FAIL_IO_LOG": self.log, **({} if self.byte is None else {"FAIL_IO_BYTE": str(self.byte)})}

    def run(self, rules, *arguments, **options):
        """Returns the result and the calls that were hit."""
        result = self.tool.run(*arguments, more_environment=self.environment(rules), **options)
        return result, self.take_hits()

    def take_hits(self):
        if not os.path.exists(self.log):
            return []
        hits = read(self.log).decode().split()
        os.unlink(self.log)
        return hits

    def stopped(self, rules, *arguments):
        """A process that a rule with s19 has stopped; the caller goes on with resume()."""
        process = self.tool.start(*arguments, more_environment=self.environment(rules))
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        self.take_hits()
        if not os.WIFSTOPPED(status):
            process.returncode = os.waitstatus_to_exitcode(status)
        check(os.WIFSTOPPED(status), "%s: %s has ended instead of stopping: %s" % (
            arguments, rules, process.stderr.read() if process.returncode is not None else ""))
        return process


def resume(process):
    """Returns exit status and message of a stopped process."""
    process.send_signal(signal.SIGCONT)
    _, message = process.communicate()
    return process.returncode, message.decode("utf-8", "replace")


def allowed_statuses(number):
    """Killed, or through before; a polite signal may come before the tool has asked for it."""
    return (0, -number) if number == signal.SIGKILL else (0, -number, 128 + number)


def moments(calls):
    """Numbers of the calls to be killed before: all but the midst of long repetitions."""
    chosen, same = [], 0
    for i, call in enumerate(calls):
        same = same + 1 if i > 0 and calls[i - 1] == call else 0
        if same < 2 or same % 12 == 0 or calls[i + 1:i + 2] != [call]:
            chosen.append(i + 1)
    return chosen


def wait_until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    check(condition(), "this did not come to pass")


def medium_model(seed=1):
    """About 2 MB: several runs for two threads, tensors that disk space is asked for, small ones, an
    empty one."""
    rng = random.Random(seed)
    piece = weights(rng, 20000)
    return model([
        ("embed", "BF16", [640000], piece * 32),
        ("norm", "F32", [2], rng.randbytes(8)),
        ("empty", "F32", [0], b""),
        ("noise", "U8", [600000], rng.randbytes(600000)),
        ("head", "BF16", [20000], piece),
    ], {"format": "pt"})


_made = {}


def prepared(tool, directory):
    """Writes m.safetensors and m.safetensors.lmc (made without faults); returns their contents."""
    if tool.path not in _made:
        content = medium_model()
        path = write(os.path.join(directory, "m.safetensors"), content)
        tool.run("convert", path).expect(0)
        _made[tool.path] = (content, read(path + ".lmc"))
        os.unlink(path + ".lmc")
        os.unlink(path)
    return _made[tool.path]


class Job:
    """One command with its input in the directory and the output that it should make (None: verify)."""

    def __init__(self, command, tool, directory, contents=None):
        content, archive = contents or prepared(tool, directory)
        self.command = command
        self.directory = directory
        names = {"convert": ("m.safetensors", "m.safetensors.lmc"),
                 "restore": ("m.safetensors.lmc", "m.safetensors"),
                 "verify": ("m.safetensors.lmc", None)}[command]
        self.input_name, self.output_name = names
        self.given = content if command == "convert" else archive
        self.wanted = {"convert": archive, "restore": content, "verify": None}[command]
        self.input = write(os.path.join(directory, self.input_name), self.given)
        self.output = None if self.output_name is None else os.path.join(directory, self.output_name)

    def arguments(self, *options):
        return [self.command, self.input, *options]

    def clear(self, old=None):
        """Makes the output absent, or `old`."""
        if self.output is not None and os.path.lexists(self.output):
            os.unlink(self.output)
        if old is not None:
            write(self.output, old)

    def renew(self):
        """Nothing but the input, as it was."""
        remove_all(self.directory)
        write(self.input, self.given)

    def leftovers(self):
        return sorted(set(os.listdir(self.directory)) - {self.input_name, self.output_name})

    def check_state(self, what, *outputs, leftovers=False):
        """The output is one of `outputs` (None: absent), the input what it was, nothing else is there."""
        check(read(self.input) == self.given, what + ": the input was changed")
        check(leftovers or not self.leftovers(), "%s: left behind: %s" % (what, self.leftovers()))
        if self.output is None:
            return
        found = read(self.output) if os.path.lexists(self.output) else None
        check(found in outputs, "%s: the output is %s" % (
            what, "absent" if found is None else "%d bytes of something else" % len(found)))

    def remove_leftovers(self):
        for name in self.leftovers():
            os.unlink(os.path.join(self.directory, name))


# ---- what a failed call may end in ----

FAILS, PASSES, EITHER = "fails", "passes", "either"


def outlook(call, number, occurrence):
    """What the tool may make of the errno `number` (0: one byte at a time) of the n-th such call."""
    if number == 0 or call in ("thread", "futimens"):
        return PASSES
    if number == errno.EINTR:
        return PASSES if call in ("pread", "pwrite", "read", "write", "fallocate") else EITHER
    if call == "fallocate" and number not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return PASSES
    if call == "tmpfile" and number in (errno.EOPNOTSUPP, errno.EISDIR):
        return PASSES
    if call == "fchmod" and number == errno.EPERM:
        return PASSES
    if call in ("close", "stat", "link", "unlink", "rename", "tmpfile", "create"):
        return EITHER  # there may be another way
    if call in ("fsync", "open") and occurrence > 1:
        return EITHER  # the directory
    return FAILS


def check_failure(job, result, number, what):
    """Exit 3 with one line that names the file and the cause."""
    result.expect(3)
    check(result.stderr.count("\n") == 1, "%s: several lines: %s" % (what, result.stderr))
    cause = "out of memory" if number == errno.ENOMEM else os.strerror(number)
    check(cause in result.stderr or os.strerror(number) in result.stderr,
          "%s: message %r lacks %r" % (what, result.stderr, cause))
    check("m.safetensors" in result.stderr or number == errno.ENOMEM,
          "%s: message %r names no file" % (what, result.stderr))


def check_outcome(job, result, call, number, occurrence, old, what):
    """After a call has failed: the status fits, and so do the files."""
    expected = outlook(call, number, occurrence)
    check(result.status in (0, 3), "%s: exit %s: %s" % (what, result.status, result.stderr))
    check(expected != PASSES or result.status == 0, "%s: did not go on: %s" % (what, result.stderr))
    check(expected != FAILS or result.status == 3, "%s: was not noticed" % what)
    leftovers = call == "unlink"  # what cannot be removed stays
    if result.status == 0:
        job.check_state(what, job.wanted, leftovers=leftovers)
    else:
        check_failure(job, result, number, what)
        job.check_state(what, old, leftovers=leftovers)
    job.remove_leftovers()
