"""--rm while somebody else writes: what is removed is what was compared with the output, or nothing."""
import errno
import os
import shutil
import signal

import pytest

from faults import STOP, Faults, Job, medium_model, resume
from folders import SHARDS, FolderJob
from support import check, check_only, read, small_model, write
from trees import check_same, small_tree, snapshot
from users import as_nobody

NEW = b"what a trainer has saved meanwhile"


def replace(path):
    """As trainers save: a new file takes the name in one step."""
    os.replace(write(path + ".new", NEW), path)


def rewrite(path):
    """In place, and the time is set back, as rsync --inplace --times does."""
    status = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(status.st_size - 1)
        last = file.read(1)
        file.seek(status.st_size - 1)
        file.write(bytes([last[0] ^ 1]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def calls_after_the_output(faults, job, change):
    """Numbers of the calls between the output's name and the end of the program. A change in place whose time is set
    back can be missed in the instant before the input gets its private name, for that moves the time of change, too."""
    _, calls = faults.run("any:1:0:s0", *job.arguments("-j1", "--rm", "--no-fsync"))
    first = (calls.index("rename") if isinstance(job, FolderJob) else len(calls) - 1 - calls[::-1].index("link")) + 2
    return [i for i in range(first, len(calls) + 1) if change is not rewrite or calls[i - 1] != "rename"]



def victim_of(job):
    """The file that somebody else writes."""
    if isinstance(job, Job):
        return job.input
    return os.path.join(job.input, SHARDS[0] + (".lmc" if job.command == "restore" else ""))


def contents_of_strays(job):
    """Contents of all files beside the output, by their paths."""
    found = {}
    for folder, _, files in os.walk(job.directory):
        for name in files:
            path = os.path.join(folder, name)
            if path != job.output and not path.startswith(job.output + os.sep):
                found[path] = read(path)
    return found


@pytest.mark.parametrize("change", [replace, rewrite])
@pytest.mark.parametrize("kind", [Job, pytest.param(FolderJob, marks=pytest.mark.slow)])
@pytest.mark.parametrize("command", ["convert", "restore"])
def test_somebody_writes(tool, directory, kind, command, change):
    faults = Faults(tool, directory)
    job = kind(command, tool, faults.directory)
    refused = 0
    for occurrence in calls_after_the_output(faults, job, change):
        job.renew()
        process = faults.stopped("any:%d:1:%s" % (occurrence, STOP), *job.arguments("-j1", "--rm", "--no-fsync"))
        path = victim_of(job)
        if not os.path.exists(path):  # it has gone already, or has another name for a moment
            resume(process)
            continue
        change(path)
        content = read(path)
        status, message = resume(process)
        what = "%s --rm, %s before call %d: exit %d: %s" % (command, change.__name__, occurrence, status, message)
        check(content in contents_of_strays(job).values(), what + ": the new content is gone")
        check(read(path) == content, what + ": the new content has another name")
        check(status in (1, 3), what)
        refused += "no longer what was compared" in message
    check(refused > 0, "no run had compared the input when it changed")


def test_replaced_before_the_rename(tool, directory):
    """After the last look by its old name: it is put back."""
    faults = Faults(tool, directory)
    job = Job("convert", tool, faults.directory)
    process = faults.stopped("rename:1:1:" + STOP, *job.arguments("-j1", "--rm"))
    replace(job.input)
    status, message = resume(process)
    check(status == 3 and "no longer what was compared" in message, "exit %d: %s" % (status, message))
    check(read(job.input) == NEW and not job.leftovers(), "left: %s" % os.listdir(job.directory))


def test_replaced_twice(tool, directory):
    """The second time while it has a private name: both files stay, and the message says where."""
    faults = Faults(tool, directory)
    job = Job("convert", tool, faults.directory)
    process = faults.stopped("rename:1:1:%s,rename:2:1:%s" % (STOP, STOP), *job.arguments("-j1", "--rm"))
    replace(job.input)
    process.send_signal(signal.SIGCONT)
    os.waitpid(process.pid, os.WUNTRACED)
    write(job.input, NEW + b", again")
    status, message = resume(process)
    left = [name for name in job.leftovers() if name in message]
    check(status == 3 and len(left) == 1, "exit %d: %s" % (status, message))
    check(read(job.input) == NEW + b", again", "the second file is gone")
    check(read(os.path.join(job.directory, left[0])) == NEW, "the first file is gone")


def test_something_new_in_a_folder(tool, directory):
    """What has come into the directory since it was listed is kept, and all the rest with it."""
    faults = Faults(tool, directory)
    job = FolderJob("convert", tool, faults.directory)
    before = snapshot(job.input)
    process = faults.stopped("rename:2:1:" + STOP, *job.arguments("-j1", "--rm"))
    new = write(os.path.join(job.input, "new.txt"), NEW)
    status, message = resume(process)
    check(status == 3 and "new.txt: is no longer what was compared" in message, "exit %d: %s" % (status, message))
    check(read(new) == NEW, "the new file is gone")
    os.unlink(new)
    left = snapshot(job.input)
    check_same({**before, ".": left["."]}, left, "the input")


@pytest.mark.posix("links")
def test_hard_links_within_a_folder(tool, directory):
    """Two names of one file are both removed: that one goes is no change of the other."""
    source = small_tree(os.path.join(directory, "m"))
    os.link(os.path.join(source, "a.safetensors"), os.path.join(source, "sub", "c.safetensors"))
    os.symlink("config.json", os.path.join(source, "link.json"))
    tool.run("convert", source, "--rm").expect(0)
    check_only(directory, "m.lmc")


def has_private_file(job):
    """1 at the moment in which a file of the directory has a private name."""
    return any(name.startswith(".lmc-kept-") for _, _, names in os.walk(job.directory) for name in names)


@pytest.mark.slow
def test_written_by_an_open_descriptor(tool, directory):
    """A program that has had a file of the directory open since before: found until the file itself has gone."""
    faults = Faults(tool, directory)
    job = FolderJob("convert", tool, faults.directory)
    _, calls = faults.run("any:1:0:s0", *job.arguments("-j1", "--rm", "--no-fsync"))
    tried = 0
    for occurrence in range(calls.index("rename") + 2, len(calls) + 1):
        if calls[occurrence - 1] == "rename":  # as in calls_after_the_output()
            continue
        job.renew()
        with open(os.path.join(job.input, SHARDS[0]), "r+b") as file:
            process = faults.stopped("any:%d:1:%s" % (occurrence, STOP), *job.arguments("-j1", "--rm", "--no-fsync"))
            status = os.fstat(file.fileno())
            if status.st_nlink > 0 and not has_private_file(job):
                file.write(NEW)
                file.flush()
                os.utime(file.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
                tried += 1
            is_written = file.tell() > 0
            found, message = resume(process)
            check(not is_written or os.fstat(file.fileno()).st_nlink > 0,
                  "before call %d: what was written is gone; exit %d: %s" % (occurrence, found, message))
    check(tried > 10, "it was there at %d calls only" % tried)


def test_without_renaming_to_free_names(tool, directory):
    """Where the system cannot rename without replacing, a second name does it, and nothing is replaced."""
    faults = Faults(tool, directory)
    none = "rename:1:0:e%d" % errno.EINVAL
    job = Job("convert", tool, faults.directory)
    result, _ = faults.run(none, *job.arguments("-j1", "--rm"))
    check(result.status == 0 and not os.path.lexists(job.input), "exit %d: %s" % (result.status, result.stderr))
    job.renew()
    process = faults.stopped("%s,link:2:1:%s,link:3:1:%s" % (none, STOP, STOP), *job.arguments("-j1", "--rm"))
    replace(job.input)
    process.send_signal(signal.SIGCONT)
    os.waitpid(process.pid, os.WUNTRACED)
    write(job.input, NEW + b", again")
    status, message = resume(process)
    contents = contents_of_strays(job).values()
    check(status == 3 and NEW in contents and NEW + b", again" in contents, "exit %d: %s" % (status, message))


def test_folder_that_cannot_be_removed(tool, directory):
    """Nothing of a directory goes if not all of it can."""
    user = as_nobody(tool, directory)
    os.chmod(directory, 0o777)
    source = small_tree(os.path.join(directory, "m"))
    write(os.path.join(source, "z.txt"), b"z")
    for folder, folders, files in os.walk(directory):
        for name in folders + files:
            os.chown(os.path.join(folder, name), user.get("user", -1), -1)
    os.chmod(os.path.join(source, "sub"), 0o555)
    before = snapshot(source)
    tool.run("convert", source, "--rm", **user).expect(3, "m/sub", "Permission denied")
    check_same(before, snapshot(source), "the input")
    os.chmod(os.path.join(source, "sub"), 0o755)
    shutil.rmtree(source + ".lmc")
    tool.run("convert", source, "--rm", **user).expect(0)
    check_only(directory, "m.lmc")


def test_folder_that_stays_empty(tool, directory):
    """The message says that what was in it is gone."""
    faults = Faults(tool, directory)
    source = os.path.join(faults.directory, "m")
    for occurrence in range(1, 9):
        os.mkdir(source)
        write(os.path.join(source, "m.safetensors"), small_model())
        result, hits = faults.run("unlink:%d:1:e%d" % (occurrence, errno.EIO), "convert", source, "--rm", "-f")
        if "/m: cannot remove" in result.stderr or not hits:
            break
        shutil.rmtree(source, ignore_errors=True)
    result.expect(3, "m: cannot remove: ", "; other parts of the directory are removed")
    check(os.listdir(source) == [], "it is empty")


@pytest.mark.parametrize("kind", ["convert", "restore", "run add"])
def test_not_before_the_output_is_on_the_disk(tool, directory, kind):
    """Neither with --no-fsync: a disk that fails leaves the input, for the output may be in memory alone."""
    faults = Faults(tool, directory)
    job = Job("restore" if kind == "restore" else "convert", tool, faults.directory)
    run = os.path.join(faults.directory, "run")
    arguments = ["run", "add", run, job.input, "--step", "1"] if kind == "run add" else job.arguments()
    result, hits = faults.run("fsync:1:0:e%d" % errno.EIO, *arguments, "--rm", "--no-fsync")
    check(hits, "nothing was waited for")
    result.expect(3, os.strerror(errno.EIO))
    check(read(job.input) == job.given, "the input was changed")


def test_names_that_are_one(tool, directory):
    """Where case does not count, the second of two outputs would take the place of the first, whose input has gone. A
    second name of the first output, made while the command is stopped, stands for such a file system."""
    faults = Faults(tool, directory)
    out = os.path.join(faults.directory, "out")
    inputs = [os.path.join(faults.directory, name) for name in ("a/model.safetensors", "b/Model.safetensors")]
    for folder in (out, *map(os.path.dirname, inputs)):
        os.mkdir(folder)
    for seed, path in enumerate(inputs):
        write(path, medium_model(seed))
    process = faults.stopped("unlink:1:1:" + STOP, "convert", "-f", "--rm", "-j1", *inputs, "-o", out)
    first = os.path.join(out, "model.safetensors.lmc")
    os.link(first, os.path.join(out, "Model.safetensors.lmc"))
    status, message = resume(process)
    check(status == 2 and "b/Model.safetensors: an earlier input's output" in message, "%d: %s" % (status, message))
    check(not os.path.exists(inputs[0]) and os.path.exists(inputs[1]), "the wrong input was removed")
    check(os.stat(first).st_nlink == 2, "the first output was replaced")
    tool.run("verify", first).expect(0)
