"""Commands that change a run or a store: any call to the system fails or is the last one, and any request for memory
is refused. test_run_kills.py and test_store_faults.py do this at each call that changes a name; here it is at the first
occurrences of any call, and at some of those behind. What was kept stays, and the next command makes it sound."""
import errno
import os
import signal

import pytest

import test_run_kills
import test_store_faults
from faults import Faults
from runs import snapshots
from support import check

DENSE = 12  # the first occurrences, all of which are hit; then each is a third later than the one before
ACTIONS = {"fails": ("any", "e%d" % errno.EIO, (0, 3)), "full": ("any", "e%d" % errno.ENOSPC, (0, 3)),
           "killed": ("any", "s%d" % signal.SIGKILL, (-signal.SIGKILL,)),
           "no memory": ("alloc", "e%d" % errno.ENOMEM, (0, 3))}
CAUSES = tuple(": cannot %s: %s" % (verb, os.strerror(code)) for verb in ("read", "open")
               for code in (errno.EIO, errno.ENOSPC))  # of a base that is there


def run_case(kind, tool, directory):
    made = snapshots(os.path.join(directory, "made"), 5, size=300)
    faults = Faults(tool, os.path.join(directory, "place"))
    os.mkdir(faults.directory)
    return faults, test_run_kills.Case(kind, tool, faults.directory, made)


CASES = {"run": run_case, "store": test_store_faults.case_of}


def occurrences():
    at = 1
    while True:
        yield at
        at += 1 if at < DENSE else at // 3


@pytest.mark.slow
@pytest.mark.posix("signals")
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("kind", ["add", "replace", "drop"])
@pytest.mark.parametrize("kept", CASES)
def test_any_call(tool, directory, kept, kind, action):
    faults, case = CASES[kept](kind, tool, directory)
    call, effect, statuses = ACTIONS[action]
    struck = 0
    for occurrence in occurrences():
        case.renew()
        rule = "%s:%d:1:%s" % (call, occurrence, effect)
        result, hits = faults.run(rule, kept, *case.arguments, "-j1")
        if not hits:
            break
        what = "%s %s, %s (%s): exit %d: %s" % (
            kept, " ".join(case.arguments), rule, hits[0], result.status, result.stderr)
        is_base_unread = result.status == 1 and any("which was not found: looked in" in line and line.endswith(cause)
                                                    for line in result.stderr.splitlines() for cause in CAUSES)
        check(result.status in statuses or is_base_unread, what)
        check(result.status != 3 or result.stderr.startswith("lmc-st: "), what)
        case.check(what)
        struck += 1
    check(struck > DENSE, "only %d occurrences" % struck)
