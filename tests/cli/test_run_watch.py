"""run watch beside a trainer that never was: what becomes a step, when, and what does not; restarts, kills, signals.
No test asserts a time: each waits for a state, for as long as a slow machine may need."""
import contextlib
import errno
import os
import random
import shutil
import signal
import time

import pytest

from bases import first_snapshot, next_snapshot
from faults import Faults
from runs import check_run, checkpoints, listed, snapshots, tree_of
from support import check, model, read, write

PATIENCE = 120  # seconds until a state must be there
SETTLE = "0.2"
KILLS = int(os.environ.get("LMC_KILLS", "15"))
KILLS_SLOW = int(os.environ.get("LMC_KILLS", "100"))


class Watch:
    """A watch that runs; what it has told."""

    def __init__(self, tool, place, run, watched, *options, settle=SETTLE, environment=None, **limits):
        self.for_windows = tool.for_windows
        self.paths = [os.path.join(place, "told-%d" % random.randrange(10**9)) for _ in range(2)]
        with tool.limited(**limits), open(self.paths[0], "wb") as out, open(self.paths[1], "wb") as err:
            self.process = tool.spawn("run", "watch", run, watched, "--settle", settle, *options, stdout=out,
                                      stderr=err, more_environment=environment)

    def told(self):
        return read(self.paths[0]).decode()

    def messages(self):
        return read(self.paths[1]).decode()

    def wait(self, is_there, what):
        end = time.monotonic() + PATIENCE
        while not is_there():
            check(self.process.poll() is None, "%s: the watch ended: %s" % (what, self.messages()))
            check(time.monotonic() < end, "%s: never: %s%s" % (what, self.told(), self.messages()))
            time.sleep(0.01)

    def wait_for_steps(self, *steps):
        self.wait(lambda: set(steps) <= steps_told(self.told()), "steps %s" % (steps,))

    def wait_for_message(self, text):
        self.wait(lambda: text in self.messages(), "message %r" % text)

    def catches(self, number):
        with open("/proc/%d/status" % self.process.pid, encoding="utf-8") as file:
            caught = next(line for line in file if line.startswith("SigCgt:"))
        return int(caught.split()[1], 16) >> (number - 1) & 1

    def end(self, status=0, number=signal.SIGTERM):
        """Ends it by a signal, which must come after the first moments of the process; None: it ends by itself. On
        Windows it is killed."""
        if self.for_windows and number is not None:
            self.process.kill()
            self.process.wait(PATIENCE)
            return self.told(), self.messages()
        if number in (signal.SIGINT, signal.SIGTERM):
            self.wait(lambda: self.catches(number), "signal handler")
        if number is not None:
            self.process.send_signal(number)
        found = self.process.wait(PATIENCE)
        check(found == status, "exit %d, expected %d: %s" % (found, status, self.messages()))
        return self.told(), self.messages()


def steps_told(told):
    """Steps of which a line says that they are in the run."""
    return {int(line.split(":")[0].split()[1]) for line in told.splitlines()
            if line.split(": ")[1].startswith(("added", "already there"))}


@pytest.fixture
def watched(tool, directory):
    """Starts watches of a directory; ends them after the test."""
    started = []
    run, place = os.path.join(directory, "run"), os.path.join(directory, "out")
    os.mkdir(place)

    def start(*options, **named):
        started.append(Watch(tool, directory, run, place, *options, **named))
        return started[-1]
    start.run, start.place = run, place
    yield start
    for watch in started:
        with contextlib.suppress(OSError):
            watch.process.kill()
        watch.process.wait()


def put(place, name, source):
    """A file, bytes, or a directory appears, or replaces a file, at once: a slow machine shows no half of it."""
    hidden = os.path.join(place, ".put")
    if isinstance(source, bytes):
        write(hidden, source)
    elif os.path.isdir(source):
        shutil.copytree(source, hidden)
    else:
        shutil.copy(source, hidden)
    os.rename(hidden, os.path.join(place, name))


def put_steps(place, made, *steps):
    for step in steps:
        put(place, os.path.basename(made[step]), made[step])


def write_slowly(path, content, pieces=6):
    with open(path, "wb") as file:
        for i in range(pieces):
            file.write(content[len(content) * i // pieces:len(content) * (i + 1) // pieces])
            file.flush()
            time.sleep(0.05)


def save_checkpoint(source, target, rng):
    """As trainers do: in pieces, one file after another, some of them under another name first."""
    os.mkdir(target)
    for name, content in sorted(tree_of(source).items()):
        path = os.path.join(target, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if rng.random() < 0.5:
            write_slowly(path, content)
        else:
            write_slowly(path + ".tmp", content, pieces=2)
            os.rename(path + ".tmp", path)


# ---- what is added ----

def test_checkpoints_of_a_trainer(tool, directory, watched):
    made = checkpoints(os.path.join(directory, "made"), 3)
    rng = random.Random(1)
    watch = watched("--key-every", "2", settle="2")
    save_checkpoint(made[100], os.path.join(watched.place, "checkpoint-100"), rng)
    save_checkpoint(made[200], os.path.join(watched.place, "tmp-checkpoint-200"), rng)
    watch.wait_for_steps(100)
    check(set(listed(tool, watched.run)) == {100}, "a temporary directory is in the run")
    os.rename(os.path.join(watched.place, "tmp-checkpoint-200"), os.path.join(watched.place, "checkpoint-200"))
    watch.wait_for_steps(200)
    save_checkpoint(made[300], os.path.join(watched.place, "checkpoint-300"), rng)
    watch.wait_for_steps(300)
    told, messages = watch.end()
    check(messages == "" and len(told.splitlines()) == 3, told + messages)
    entries = check_run(tool, watched.run, made)
    check([entry["chain"] for entry in entries.values()] == [0, 1, 0], "chains")
    check({name: tree_of(os.path.join(watched.place, name)) for name in os.listdir(watched.place)} ==
          {"checkpoint-%d" % step: tree_of(path) for step, path in made.items()}, "a source was changed")


def test_files_in_pieces_and_by_rename(tool, directory, watched):
    made = snapshots(os.path.join(directory, "made"), 4)
    watch = watched(settle="2")
    write_slowly(os.path.join(watched.place, "step10.safetensors"), read(made[10]))
    write_slowly(os.path.join(watched.place, "step20.safetensors.tmp"), read(made[20]))
    os.rename(os.path.join(watched.place, "step20.safetensors.tmp"), os.path.join(watched.place, "step20.safetensors"))
    shutil.copy(made[30], os.path.join(watched.place, ".step30.safetensors"))
    shutil.copy(made[40], os.path.join(watched.place, "tmp_step40.safetensors"))
    watch.wait_for_steps(10, 20)
    check(watch.end() == (watch.told(), ""), watch.messages())
    check_run(tool, watched.run, {10: made[10], 20: made[20]})


def test_by_rising_step(tool, directory, watched):
    """Those that are complete at once, whatever their names and times."""
    made = snapshots(os.path.join(directory, "made"), 5, size=300)
    for step in (30, 10, 50, 20, 40):
        shutil.copy(made[step], os.path.join(watched.place, "s%s-step%d.safetensors" % ("abcde"[-step // 10], step)))
    watch = watched()
    watch.wait_for_steps(*made)
    watch.end()
    entries = listed(tool, watched.run)
    check([entry["base"] for entry in entries.values()] == [None, 10, 20, 30, 40], "bases")


def test_earlier_step_comes_later(tool, directory, watched):
    made = snapshots(os.path.join(directory, "made"), 2, size=300)
    watch = watched()
    for step in (20, 10):
        put_steps(watched.place, made, step)
        watch.wait_for_steps(step)
    watch.end()
    check_run(tool, watched.run, made)


@pytest.mark.posix("links and pipes")
def test_what_is_no_snapshot(tool, directory, watched):
    """Told once, and left: also after changes, and with other snapshots beside them."""
    made = snapshots(os.path.join(directory, "made"), 2, size=300)
    write(os.path.join(watched.place, "model.safetensors"), read(made[10]))
    write(os.path.join(watched.place, "log-1.txt"), b"loss 1\n")
    os.mkdir(os.path.join(watched.place, "logs"))
    os.mkdir(os.path.join(watched.place, "checkpoint-7"))
    shutil.copy(made[10], os.path.join(directory, "step5.safetensors"))
    tool.run("convert", os.path.join(directory, "step5.safetensors"), "-o",
             os.path.join(watched.place, "step5.safetensors.lmc")).expect(0)
    os.symlink(made[10], os.path.join(watched.place, "step11.safetensors"))
    os.mkfifo(os.path.join(watched.place, "step12.safetensors"))
    watch = watched()
    for name in ("model.safetensors", "logs"):
        watch.wait_for_message("/%s: its name has no step" % name)
    for name in ("log-1.txt", "checkpoint-7", "step5.safetensors.lmc"):
        watch.wait_for_message("/%s: has no tensors" % name)
    write(os.path.join(watched.place, "log-1.txt"), b"loss 1\nloss 0\n")
    put_steps(watched.place, made, 20)
    watch.wait_for_steps(20)
    put(watched.place, os.path.join("checkpoint-7", "model.safetensors"), made[10])  # what was left has tensors now
    watch.wait_for_steps(7)
    told, messages = watch.end()
    check(len(messages.splitlines()) == 5 and len(told.splitlines()) == 2, told + messages)
    check(set(listed(tool, watched.run)) == {7, 20}, "steps")


def test_without_messages(directory, watched):
    made = snapshots(os.path.join(directory, "made"), 1, size=300)
    write(os.path.join(watched.place, "model.safetensors"), read(made[10]))
    shutil.copy(made[10], watched.place)
    watch = watched("-q")
    watch.wait(lambda: os.path.isdir(os.path.join(watched.run, "10")), "step 10")
    check(watch.end() == ("", ""), watch.told() + watch.messages())


# ---- what fails ----

@pytest.mark.parametrize("kind", ["file", "named", "by content"])
def test_damaged(tool, directory, watched, kind):
    """Told once, tried again when it changes; others go on."""
    made = snapshots(os.path.join(directory, "made"), 2)
    name = {"file": "step10.safetensors", "named": "checkpoint-10/model.safetensors",
            "by content": "checkpoint-10/model.bin"}[kind]
    broken = os.path.join(watched.place, name)
    os.makedirs(os.path.dirname(broken), exist_ok=True)
    write(broken, read(made[10])[:-100])
    watch = watched()
    watch.wait_for_message(name)
    put_steps(watched.place, made, 20)
    watch.wait_for_steps(20)
    check(watch.messages().count("\n") == 1, watch.messages())
    put(watched.place, name, read(made[10])[:-50])
    watch.wait(lambda: watch.messages().count("\n") == 2, "a second message")
    put(watched.place, name, made[10])
    watch.wait_for_steps(10)
    told, messages = watch.end()
    check(messages.count("\n") == 2, messages)
    top = os.path.join(watched.place, name.split("/")[0])
    check_run(tool, watched.run, {10: top, 20: made[20]})


@pytest.mark.parametrize("pattern, name, is_excluded",
                         [("odd.*", "odd.pt", True), ("logs/*", "logs/odd.pt", True), ("odd.*", "logs/odd.pt", True),
                          ("logs/*", "logs/deep/odd.pt", False)])
def test_excluded_files_are_not_looked_at(tool, directory, watched, pattern, name, is_excluded):
    """Whether a snapshot is complete is asked of the files that convert would read."""
    made = snapshots(os.path.join(directory, "made"), 1)
    folder = os.path.join(watched.place, "checkpoint-10")
    os.makedirs(os.path.join(folder, os.path.dirname(name)))
    shutil.copy(made[10], folder)
    write(os.path.join(folder, name), b"PK\3\4 and nothing that follows")
    watch = watched("--exclude", pattern)
    if not is_excluded:
        watch.wait_for_message(name)
        return
    watch.wait_for_steps(10)
    check(watch.end()[1] == "", watch.messages())
    check_run(tool, watched.run, {10: folder})


@pytest.mark.posix("mounts of this process")
def test_full_disk(tool, directory, watched):
    """Told once; the watch goes on, and adds the snapshot when there is room."""
    made = snapshots(os.path.join(directory, "made"), 2)
    shutil.copy(made[10], watched.place)
    first = watched(file_size=4096)
    first.wait_for_message("File too large")
    time.sleep(1)  # more tries
    check(first.messages().count("\n") == 1, first.messages())
    first.end()
    second = watched()
    second.wait_for_steps(10)
    second.end()
    check_run(tool, watched.run, {10: made[10]})


def test_folder_that_cannot_be_listed(tool, directory, watched):
    """The message names it; the snapshot is no step, whatever was found before. Others go on."""
    made = checkpoints(os.path.join(directory, "made"), 2)
    put_steps(watched.place, made, 100)
    faults = Faults(tool, os.path.join(watched.place, "checkpoint-100", "global_step100"))
    faults.log = os.path.join(directory, "hits")  # beside the folder it would change the snapshot
    watch = watched(environment=faults.environment("readdir:1:0:e%d" % errno.EACCES))
    watch.wait_for_message("/global_step100: cannot read: Permission denied")
    put_steps(watched.place, made, 200)
    watch.wait_for_steps(200)
    told, messages = watch.end()
    check(messages.count("\n") == 1 and set(listed(tool, watched.run)) == {200}, told + messages)
    watch = watched()
    watch.wait_for_steps(100)
    watch.end()
    check_run(tool, watched.run, made)


def test_other_content_of_a_step(tool, directory, watched):
    made = snapshots(os.path.join(directory, "made"), 2)
    shutil.copy(made[10], watched.place)
    watch = watched()
    watch.wait_for_steps(10)
    put(watched.place, "step10.safetensors", made[20])
    watch.wait_for_message("step 10 is in the run with other content")
    check(watch.end()[1].count("\n") == 1, watch.messages())
    check_run(tool, watched.run, {10: made[10]})


# ---- restarts, removal, retention ----

def test_restart(tool, directory, watched):
    """What is there already is known by its content."""
    made = snapshots(os.path.join(directory, "made"), 3)
    for step in (10, 20):
        shutil.copy(made[step], watched.place)
    watch = watched()
    watch.wait_for_steps(10, 20)
    watch.end()
    before = tree_of(watched.run)
    watch = watched()
    watch.wait_for_steps(10, 20)
    check(tree_of(watched.run) == before, "the run has changed")
    put_steps(watched.place, made, 30)
    watch.wait_for_steps(30)
    told, messages = watch.end()
    check(told.count("already there") == 2 and told.count("added") == 1 and messages == "", told + messages)
    check_run(tool, watched.run, made)


def test_removal(tool, directory, watched):
    made = checkpoints(os.path.join(directory, "made"), 2)
    files = snapshots(os.path.join(directory, "files"), 1)
    shutil.copytree(made[100], os.path.join(watched.place, "checkpoint-100"))
    shutil.copy(files[10], watched.place)
    watch = watched("--rm")
    watch.wait(lambda: os.listdir(watched.place) == [], "empty directory")
    put_steps(watched.place, made, 200)
    watch.wait(lambda: os.listdir(watched.place) == [], "empty directory")
    check(watch.end()[1] == "", watch.messages())
    check_run(tool, watched.run, {**made, 10: files[10]})


def test_removal_of_what_is_there(tool, directory, watched):
    """A restart removes what an earlier watch has added, but nothing that differs."""
    made = snapshots(os.path.join(directory, "made"), 2)
    tool.run("run", "add", watched.run, *made.values()).expect(0)
    shutil.copy(made[10], watched.place)
    write(os.path.join(watched.place, "step20.safetensors"), read(made[10]))
    watch = watched("--rm")
    watch.wait_for_message("step 20 is in the run with other content")
    watch.wait(lambda: os.listdir(watched.place) == ["step20.safetensors"], "one file")
    watch.end()
    check_run(tool, watched.run, made)


def test_retention(tool, directory, watched):
    made = snapshots(os.path.join(directory, "made"), 8, size=300)
    watch = watched("--last", "2", "--every", "30")
    for step in made:
        put_steps(watched.place, made, step)
        watch.wait_for_steps(step)
    watch.wait(lambda: set(listed(tool, watched.run)) == {30, 60, 70, 80}, "steps that are kept")
    watch.end()
    check_run(tool, watched.run, {step: made[step] for step in (30, 60, 70, 80)})
    watch = watched("--last", "2", "--every", "30")  # steps that would go at once are not added again
    watch.wait_for_steps(30, 60, 70, 80)
    put(watched.place, "step90.safetensors", made[80])
    watch.wait_for_steps(90)
    told, _ = watch.end()
    check(steps_told(told) == {30, 60, 70, 80, 90}, told)


# ---- places ----

@pytest.mark.parametrize("inner", ["run-1", "runs-2/run-3"])
def test_run_in_the_directory(tool, directory, watched, inner):
    made = checkpoints(os.path.join(directory, "made"), 2)
    run = os.path.join(watched.place, inner)
    os.makedirs(os.path.dirname(run), exist_ok=True)
    watch = Watch(tool, directory, run, watched.place)
    with contextlib.ExitStack() as stack:
        stack.callback(watch.process.kill)
        put_steps(watched.place, made, 100)
        watch.wait_for_steps(100)
        put_steps(watched.place, made, 200)
        watch.wait_for_steps(200)
        told, messages = watch.end()
    check(steps_told(told) == {100, 200}, told + messages)
    check("runs-2: has no tensors" in messages or messages == "", messages)
    check_run(tool, run, made)


@pytest.mark.parametrize("inner", ["", "10"])
def test_directory_in_the_run(tool, directory, inner):
    made = checkpoints(os.path.join(directory, "made"), 1)
    run = os.path.join(directory, "run")
    tool.run("run", "add", run, made[100], "--step", "10").expect(0)
    tool.run("run", "watch", run, os.path.join(run, inner)).expect(2, "must not be the run")


@pytest.mark.posix("the root of all directories")
def test_run_is_the_root(tool, directory):
    """Every directory is in it."""
    process = tool.start("run", "watch", "/", directory)
    try:
        _, messages = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    check(process.returncode == 2 and b"must not be the run" in messages, "exit %s" % process.returncode)


@pytest.mark.parametrize("how", ["removed", "renamed", "replaced"])
def test_directory_goes_away(directory, watched, how):
    made = snapshots(os.path.join(directory, "made"), 1, size=300)
    shutil.copy(made[10], watched.place)
    watch = watched()
    watch.wait_for_steps(10)
    if how == "removed":
        shutil.rmtree(watched.place)
    else:
        os.rename(watched.place, watched.place + "-old")
    if how == "replaced":
        os.mkdir(watched.place)
    _, messages = watch.end(3, number=None)
    check(messages.startswith("lmc-st: " + watched.place) and messages.count("\n") == 1, messages)


def test_directory_is_not_there(tool, directory):
    run, place = os.path.join(directory, "run"), os.path.join(directory, "out")
    tool.run("run", "watch", run, place).expect(3, place)
    write(place, b"")
    tool.run("run", "watch", run, place).expect(2, "must be a directory")
    tool.run("run", "watch", run).expect(2, "takes a run and the directory")
    check(not os.path.exists(run), "a run was made")


@pytest.mark.parametrize("value", ["-1", "x", "", "1.2.3", "1e3", "86401", "."])
def test_settle_is_a_number(tool, directory, value):
    tool.run("run", "watch", "run", directory, "--settle", value).expect(2, "a number of seconds")


# ---- signals and kills ----

@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "busy"])
def test_signal(tool, directory, watched, number, is_busy):
    """A success. What is half added is given up, and nothing of it stays."""
    made = snapshots(os.path.join(directory, "made"), 2, size=300 if not is_busy else 400000)
    shutil.copy(made[10], watched.place)
    watch = watched()
    if is_busy:
        watch.wait(lambda: os.path.exists(os.path.join(watched.run, ".lmc-new")), "work")
    else:
        watch.wait_for_steps(10)
    check(watch.end(0, number)[1] == "", watch.messages())
    watch = watched()
    watch.wait_for_steps(10)
    watch.end()
    check_run(tool, watched.run, {10: made[10]})


@pytest.mark.parametrize("count", [pytest.param(KILLS, marks=pytest.mark.slow),
                                   pytest.param(KILLS_SLOW, marks=pytest.mark.large)], ids=["some", "often"])
@pytest.mark.parametrize("options", [(), ("--rm", "--last", "3", "--every", "40")], ids=["all", "kept"])
def test_killed_at_random(tool, directory, watched, options, count):
    """After each kill the run is sound, has what was told, and the next watch goes on."""
    rng = random.Random(count)
    content, tensors, told, found = {}, first_snapshot(count=20000), set(), set()
    for i in range(count):
        step = 10 * (i + 1)
        content[step] = model(tensors)
        tensors = next_snapshot(tensors, seed=step, part=0.05)
        put(watched.place, "step%d.safetensors" % step, content[step])
        watch = watched(*options, settle="0.05")
        time.sleep(rng.uniform(0, 0.5))
        watch.end(-signal.SIGKILL, signal.SIGKILL)
        told |= steps_told(watch.told())
        dropped = {int(line.split(":")[0].split()[1]) for line in watch.told().splitlines() if ": dropped" in line}
        if os.path.exists(os.path.join(watched.run, "run.json")):
            tool.run("run", "verify", watched.run).expect(0)
            found = set(listed(tool, watched.run))
            lost = told - dropped - found
            wanted = {s for s in lost if not options or s % 40 == 0}
            check(not wanted, "steps %s were told and are gone: %s" % (sorted(wanted), watch.told()))
        gone = {s for s in content if not os.path.exists(os.path.join(watched.place, "step%d.safetensors" % s))}
        check(gone <= told, "removed and not told to be added: %s" % sorted(gone - told))
    watch = watched(*options)
    last = max(content)
    watch.wait(lambda: os.path.isdir(os.path.join(watched.run, str(last))), "the last step")
    made = {s: write(os.path.join(directory, "step%d" % s), content[s]) for s in content}
    if options:
        wanted = {s for s in content if s % 40 == 0}
        watch.wait(lambda: wanted <= set(listed(tool, watched.run)), "steps that are kept")
    else:
        watch.wait_for_steps(*content)
        wanted = set(content)
    watch.end()
    tool.run("run", "drop", watched.run, "1").expect(2, "there is no step 1")  # removes what is half done
    tool.run("run", "verify", watched.run).expect(0)
    found = set(listed(tool, watched.run))
    check(wanted <= found, "steps %s are missing" % sorted(wanted - found))
    check_run(tool, watched.run, {s: made[s] for s in found})
