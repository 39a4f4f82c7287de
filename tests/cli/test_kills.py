"""The tool is killed: at random moments, before each of its system calls, and politely. Never anything
but a whole file under the final name; nothing else stays; the next run succeeds.

The number of random moments is 20 by default, 200 with -m large, or as LMC_KILLS says."""
import os
import random
import signal
import struct
import time

import pytest

from faults import NAMED, Faults, Job, allowed_statuses, moments, resume
from support import check, read, weights, write

KILLS = int(os.environ.get("LMC_KILLS", "20"))
KILLS_SLOW = int(os.environ.get("LMC_KILLS", "200"))
LARGE_NBYTES = 24 << 20
OLD = b"the old output"


def write_large(path):
    """bf16 weights of 24 MB in a few tensors: long enough for a run to be hit in its midst."""
    rng = random.Random(7)
    piece = weights(rng, 1 << 18)
    pieces = LARGE_NBYTES // len(piece)
    tensors = [pieces // 2, pieces // 4, pieces // 4]
    at, entries = 0, []
    for i, count in enumerate(tensors):
        end = at + count * len(piece)
        entries.append('"t%d":{"dtype":"BF16","shape":[%d],"data_offsets":[%d,%d]}' % (
            i, (end - at) // 2, at, end))
        at = end
    text = ("{" + ",".join(entries) + "}").encode()
    return write(path, struct.pack("<Q", len(text)) + text + piece * sum(tensors))


class LargeJob(Job):
    """As Job, with the large file."""

    made = {}

    def __init__(self, command, tool, directory):
        if tool.path not in self.made:
            path = write_large(os.path.join(directory, "large"))
            tool.run("convert", path).expect(0)
            self.made[tool.path] = (read(path), read(path + ".lmc"))
            os.unlink(path)
            os.unlink(path + ".lmc")
        super().__init__(command, tool, directory, self.made[tool.path])


def duration(job, tool, options):
    """Seconds of an undisturbed run, the median of three."""
    seconds = []
    for _ in range(3):
        job.clear()
        process = tool.start(*job.arguments(*options))
        started = time.monotonic()
        check(process.communicate()[1] == b"" and process.returncode == 0, "exit %d" % process.returncode)
        seconds.append(time.monotonic() - started)
    return sorted(seconds)[1]


def run_until(tool, job, options, seconds, number):
    """Runs the job, sends the signal after so many seconds; returns exit status and message."""
    process = tool.start(*job.arguments(*options))
    time.sleep(seconds)
    process.send_signal(number)
    _, message = process.communicate()
    return process.returncode, message.decode()


def kill_often(tool, directory, command, options, old, count, numbers):
    job = LargeJob(command, tool, directory)
    rng = random.Random(count)
    longest = 1.1 * duration(job, tool, options)
    ended_early = 0
    for i in range(count):
        job.clear(old)
        number = numbers[i % len(numbers)]
        status, message = run_until(tool, job, options, rng.uniform(0, longest), number)
        what = "%s %s, signal %d, no. %d: exit %d" % (command, " ".join(options), number, i, status)
        check(status in allowed_statuses(number), what + ": " + message)
        ended_early += status != 0
        longest *= 1.02 if status != 0 else 0.9  # other work may slow the machine down, or cease
        check_state_or_renaming(job, what, number, *([job.wanted] if status == 0 else [job.wanted, old]))
        if number != signal.SIGKILL and status != 0:
            job.check_state(what, old)
        job.clear(old)
    check(ended_early > 0, "none of %d runs was still there to be killed" % count)
    tool.run(*job.arguments(*options)).expect(0)
    job.check_state("the next run", job.wanted)


def check_state_or_renaming(job, what, number, *outputs):
    """Only rename() replaces a file, and it needs a name to begin with: killed just then, the tool leaves
    the finished file under a temporary name."""
    left = job.leftovers()
    is_renaming = (number == signal.SIGKILL and "-f" in what and len(left) == 1 and left[0].startswith(".lmc-st-")
                   and read(os.path.join(job.directory, left[0])) == job.wanted)
    job.check_state(what, *outputs, leftovers=is_renaming)
    job.remove_leftovers()


# Options, what stands in the place of the output, signals.
AT_RANDOM = {"plain": (("-j1", "--no-fsync"), None, (signal.SIGKILL,)),
             "forced": (("-j2", "-f", "--no-fsync"), OLD, (signal.SIGKILL,)),
             "polite": (("-j2", "--no-fsync"), None, (signal.SIGTERM, signal.SIGINT))}


@pytest.mark.posix("files without a name, which a kill leaves nothing of")
@pytest.mark.parametrize("count", [KILLS, pytest.param(KILLS_SLOW, marks=pytest.mark.large)], ids=["some", "often"])
@pytest.mark.parametrize("variant", AT_RANDOM)
@pytest.mark.parametrize("command", ["convert", "restore"])
def test_kill_at_random(tool, directory, command, variant, count):
    options, old, numbers = AT_RANDOM[variant]
    kill_often(tool, directory, command, options, old, count, numbers)


# ---- before each system call ----

# Options, rules before that of the signal, what stands in the place of the output, signal.
AT_EACH_CALL = {"plain": (("-j1", "--no-fsync"), "", None, signal.SIGKILL),
                "forced": (("-j1", "-f", "--no-fsync"), "", OLD, signal.SIGKILL),
                "named": (("-j1", "--no-fsync"), NAMED + ",", None, signal.SIGKILL),
                "named_forced": (("-j1", "-f", "--no-fsync"), NAMED + ",", OLD, signal.SIGKILL),
                "polite": (("-j1",), "", None, signal.SIGTERM),
                "polite_named": (("-j1", "-f"), NAMED + ",", OLD, signal.SIGINT)}


@pytest.mark.parametrize("variant", [pytest.param(variant, marks=[] if variant == "named_forced" else pytest.mark.slow)
                                     for variant in AT_EACH_CALL])
@pytest.mark.parametrize("command", ["convert", "restore"])
def test_kill_at_each_call(tool, directory, command, variant):
    options, before, old, number = AT_EACH_CALL[variant]
    faults = Faults(tool, directory)
    job = Job(command, tool, faults.directory)
    job.clear(old)
    result, calls = faults.run(before + "any:1:0:s0", *job.arguments(*options))
    if before == NAMED + ",":
        calls = [call for call in calls if call != "tmpfile"]  # hit by the rule before
    check(result.status == 0 and len(calls) > 20, "exit %d, calls: %s" % (result.status, calls))
    for occurrence in moments(calls):
        job.clear(old)
        result, _ = faults.run("%sany:%d:1:s%d" % (before, occurrence, number), *job.arguments(*options))
        what = "%s %s, signal %d before call %d (%s): exit %d" % (
            command, " ".join(options), number, occurrence, calls[occurrence - 1], result.status)
        check(result.status in allowed_statuses(number), what + ": " + result.stderr)
        if before == "":
            check_state_or_renaming(job, what, number, job.wanted, old)
        else:
            job.check_state(what, job.wanted, old, leftovers=number == signal.SIGKILL)
            check(all(name.startswith(".lmc-st-") for name in job.leftovers()), what + ": %s" % job.leftovers())
        job.remove_leftovers()
        check_next_run(tool, job, options, what)


def check_next_run(tool, job, options, what):
    """The same command without harm. What is complete already is refused without -f."""
    is_complete = os.path.lexists(job.output) and "-f" not in options
    result = tool.run(*job.arguments(*options))
    check(result.status == (2 if is_complete else 0), "%s: the next run: exit %d: %s" % (
        what, result.status, result.stderr))
    job.check_state(what + ": the next run", job.wanted)


# ---- more signals ----

def test_signal_exit_statuses(tool, directory):
    """In the midst of the work, each polite signal has its status; the message is one line."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # it may be ignored here, and what is ignored is inherited
    faults = Faults(tool, directory)
    for command in ("convert", "restore"):
        job = Job(command, tool, faults.directory)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = faults.stopped("pread:3:1:s%d" % signal.SIGSTOP, *job.arguments("-j1"))
            process.send_signal(number)
            status, message = resume(process)
            check(status == 128 + number, "%s, signal %d: exit %d: %s" % (command, number, status, message))
            check(message.startswith("lmc-st: ") and message.count("\n") == 1, "message: " + message)
            job.check_state("signal %d" % number, None)
        os.unlink(job.input)


def test_ignored_hangup_stays_ignored(tool, directory):
    """As under nohup."""
    faults = Faults(tool, directory)
    job = Job("convert", tool, faults.directory)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = faults.stopped("pread:3:1:s%d" % signal.SIGSTOP, *job.arguments("-j1"))
    finally:
        signal.signal(signal.SIGHUP, before)
    process.send_signal(signal.SIGHUP)
    status, message = resume(process)
    check(status == 0, "exit %d: %s" % (status, message))
    job.check_state("SIGHUP", job.wanted)
