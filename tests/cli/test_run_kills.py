"""Commands that change a run are killed at random moments, and before each call that changes a name. Such calls fail,
too. Then the run is sound, has all that was told to be added, and the next command removes what was half done.

The number of kills is 30 by default, 300 with -m large, or as LMC_KILLS says."""
import errno
import os
import random
import shutil
import signal
import time

import pytest

from faults import STOP, Faults, resume
from runs import check_run, check_step, checkpoints, listed, snapshots
from support import check

KILLS = int(os.environ.get("LMC_KILLS", "30"))
KILLS_SLOW = int(os.environ.get("LMC_KILLS", "300"))


class World:
    """A run, the snapshots that may be added to it, and what is known of the steps: for each the snapshots that it may
    have, None for a step that may be missing."""

    def __init__(self, tool, directory, made, count):
        self.tool, self.made, self.rng = tool, made, random.Random(count)
        self.run = os.path.join(directory, "run")
        self.known = {step: {None} for step in made}
        self.seconds = {}

    def present(self):
        return [step for step, paths in self.known.items() if paths != {None}]

    def some(self, steps, most):
        return self.rng.sample(steps, min(len(steps), self.rng.randint(1, most)))

    def choose(self):
        """A command, and what each step may become by it."""
        present = self.present()
        absent = [step for step in self.made if step not in present]
        kinds = ["add"] * 3 * bool(absent) + (["drop", "keep", "replace", "repair"] if len(present) > 2 else [])
        kind = self.rng.choice(kinds)
        if kind == "add":
            steps = self.some(absent, 4)
            return kind, ["add", self.run, *(self.made[step] for step in steps)], {s: self.made[s] for s in steps}
        if kind == "replace":
            step, other = self.rng.sample(present, 2)
            return kind, ["add", self.run, "-f", "--step", str(step), self.made[other]], {step: self.made[other]}
        if kind == "drop":
            steps = self.some(present, 4)
            return kind, ["drop", self.run, *map(str, steps)], {step: None for step in steps}
        if kind == "keep":
            last, every = self.rng.randint(1, 6), self.rng.choice([20, 30, 50])
            gone = [step for step in sorted(present)[:-last] if step % every != 0]
            options = ["--last", str(last), "--every", str(every)]
            return kind, ["keep", self.run, *options], {step: None for step in gone}
        return kind, ["repair", self.run], {}

    def kill(self):
        """Returns whether the command was still there to be killed."""
        kind, arguments, becoming = self.choose()
        longest = self.seconds.get(kind, 0.05)
        process = self.tool.start("run", *arguments)
        time.sleep(self.rng.uniform(0, longest))
        process.send_signal(signal.SIGKILL)
        told, message = process.communicate()
        what = "run %s: exit %d: %s" % (" ".join(arguments), process.returncode, message.decode())
        check(process.returncode in (0, -signal.SIGKILL), what)
        for step, path in becoming.items():
            self.known[step] = self.known[step] | {path}
        for line in told.decode().splitlines() if kind != "repair" else []:
            step, event = line.split(": ", 1)
            step = int(step.split()[1])
            if event.startswith(("added", "already there", "dropped")):
                self.known[step] = {None if event == "dropped" else becoming[step]}
        if process.returncode == 0:
            self.known.update({step: {path} for step, path in becoming.items()})
        self.seconds[kind] = longest * (1.3 if process.returncode != 0 else 0.7)
        self.check_state(what)
        return process.returncode != 0

    def check_state(self, what):
        if not os.path.exists(os.path.join(self.run, "run.json")):
            check(all(None in paths for paths in self.known.values()), what + ": there is no run")
            return
        verified = self.tool.run("run", "verify", self.run)
        check(verified.status == 0, "%s: then run verify: exit %d: %s" % (what, verified.status, verified.stderr))
        found = set(listed(self.tool, self.run))
        for step, paths in self.known.items():
            check(step in found or None in paths, "%s: step %d is missing" % (what, step))
            check(step not in found or paths != {None}, "%s: step %d is there" % (what, step))
            self.known[step] = paths - {None} if step in found else {None}
        for step in self.some(sorted(found), 2) if found else []:
            self.check_content(step)
        self.check_next_command(what)

    def check_content(self, step):
        """Which of the snapshots that it may be."""
        right = set()
        for path in self.known[step]:
            status = self.tool.run("run", "add", "--dry-run", self.run, path, "--step", str(step)).status
            right |= {path} if status == 0 else set()
        check(len(right) == 1, "step %d is none of %s" % (step, sorted(self.known[step])))
        self.known[step] = right
        check_step(self.tool, self.run, step, *right)

    def check_next_command(self, what):
        """A writer that changes no step."""
        present = self.present()
        self.tool.run("run", "drop", self.run, "1").expect(2, "there is no step 1")
        names = {str(step) for step in present} | {"run.json", ".lmc-lock"}
        check(set(os.listdir(self.run)) == names, "%s: the run has %s" % (what, sorted(os.listdir(self.run))))


@pytest.mark.posix("signals")
@pytest.mark.parametrize("count", [pytest.param(KILLS, marks=pytest.mark.slow),
                                   pytest.param(KILLS_SLOW, marks=pytest.mark.large)], ids=["some", "often"])
@pytest.mark.parametrize("make, number, size", [(snapshots, 12, 20000), (checkpoints, 8, 8000)],
                         ids=["files", "directories"])
def test_killed_at_random(tool, directory, make, number, size, count):
    world = World(tool, directory, make(os.path.join(directory, "made"), number, size=size), count)
    killed = sum(world.kill() for _ in range(count))
    check(killed > count // 5, "only %d of %d runs were still there to be killed" % (killed, count))


# ---- before each call that changes a name ----

NAMING = ("rename", "link", "unlink", "mkdir", "rmdir", "create", "fsync")


class Case:
    """A command on a run of four steps: its arguments, and the steps after it, {step: snapshot}."""

    def __init__(self, kind, tool, place, made):
        steps = sorted(made)
        self.tool, self.run, self.kept = tool, os.path.join(place, "run"), os.path.join(place, "kept")
        self.before = {step: made[step] for step in steps[:4]}
        self.after = dict(self.before)
        tool.run("run", "add", self.kept, *self.before.values()).expect(0)
        if kind == "new":
            shutil.rmtree(self.kept)
            self.before, self.after = {}, {steps[0]: made[steps[0]]}
            self.arguments = ["add", self.run, made[steps[0]]]
        elif kind == "add":
            self.after[steps[4]] = made[steps[4]]
            self.arguments = ["add", self.run, made[steps[4]]]
        elif kind == "replace":
            self.after[steps[1]] = made[steps[4]]
            self.arguments = ["add", self.run, made[steps[4]], "-f", "--step", str(steps[1])]
        elif kind == "drop":
            self.after = {step: made[step] for step in (steps[1], steps[3])}
            self.arguments = ["drop", self.run, str(steps[0]), str(steps[2])]
        else:
            self.arguments = ["repair", self.run]

    def renew(self):
        shutil.rmtree(self.run, ignore_errors=True)
        if os.path.exists(self.kept):
            shutil.copytree(self.kept, self.run)

    def check(self, what):
        """Each step is as before or as after the command; the next command makes all as after it, or as before."""
        if not os.path.exists(os.path.join(self.run, "run.json")):
            check(not self.before, what + ": there is no run")
            return
        verified = self.tool.run("run", "verify", self.run)
        check(verified.status == 0, "%s: then run verify: exit %d: %s" % (what, verified.status, verified.stderr))
        found = set(listed(self.tool, self.run))
        steps = set(self.before) | set(self.after)
        check(found <= steps and found >= set(self.before) & set(self.after), "%s: steps %s" % (what, sorted(found)))
        self.tool.run("run", "drop", self.run, "1").expect(2, "there is no step 1")
        wanted = {}
        for step in found:
            both = {paths[step] for paths in (self.before, self.after) if step in paths}
            for path in sorted(both):
                if self.tool.run("run", "add", "--dry-run", self.run, path, "--step", str(step)).status == 0:
                    wanted[step] = path
            check(step in wanted, "%s: step %d has another content" % (what, step))
        check_run(self.tool, self.run, wanted)


@pytest.mark.parametrize("make, size", [(snapshots, 300), pytest.param(checkpoints, 300, marks=pytest.mark.large)],
                         ids=["files", "directories"])
@pytest.mark.parametrize("action", ["s%d" % signal.SIGKILL, "e%d" % errno.EIO], ids=["killed", "fails"])
@pytest.mark.parametrize("kind", ["new", "add", pytest.param("replace", marks=pytest.mark.slow),
                                  pytest.param("drop", marks=pytest.mark.slow), "repair"])
def test_at_each_call(tool, directory, kind, action, make, size):
    made = make(os.path.join(directory, "made"), 5, size=size)
    faults = Faults(tool, os.path.join(directory, "place"))
    os.mkdir(faults.directory)
    case = Case(kind, tool, faults.directory, made)
    case.renew()
    result, calls = faults.run("any:1:0:s0", "run", *case.arguments)
    check(result.status == 0, result.stderr)
    moments = [i + 1 for i, call in enumerate(calls) if call in NAMING]
    check(len(moments) > 3, "calls: %s" % calls)
    for occurrence in moments:
        case.renew()
        result, _ = faults.run("any:%d:1:%s" % (occurrence, action), "run", *case.arguments)
        what = "run %s, %s at call %d (%s): exit %d: %s" % (
            " ".join(case.arguments), action, occurrence, calls[occurrence - 1], result.status, result.stderr)
        check(result.status in ((0, -signal.SIGKILL) if action[0] == "s" else (0, 3)), what)
        case.check(what)


@pytest.mark.posix("signals")
@pytest.mark.parametrize("make", [snapshots, checkpoints], ids=["files", "directories"])
@pytest.mark.parametrize("kind", ["new", "add", "replace", "drop"])
def test_interrupted(tool, directory, kind, make):
    """Ctrl-C in the midst of the work leaves nothing, not even for a later run."""
    made = make(os.path.join(directory, "made"), 5, size=300)
    faults = Faults(tool, os.path.join(directory, "place"))
    os.mkdir(faults.directory)
    case = Case(kind, tool, faults.directory, made)
    case.renew()
    process = faults.stopped("pwrite:1:1:" + STOP, "run", *case.arguments)
    process.send_signal(signal.SIGINT)
    status, message = resume(process)
    check(status == 130 and message.startswith("lmc-st: ") and message.count("\n") == 1, "%d: %s" % (status, message))
    check("kept" not in message, message)
    check(os.path.exists(case.run) == bool(case.before), "a run is there, or is not")
    if case.before:
        check_run(tool, case.run, case.before)
