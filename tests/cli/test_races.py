"""Two runs for the same output at once; inputs and outputs that change while the tool works."""
import os
import random

import pytest

from faults import NAMED, STOP, Faults, Job, resume
from support import check, read, write

ROUNDS = 25


# options; the exit statuses, sorted
@pytest.mark.parametrize("options, statuses", [((), (0, 2)), (("-f",), (0, 0))], ids=["plain", "forced"])
@pytest.mark.parametrize("command", ["convert", "restore"])
def test_two_at_once(tool, directory, command, options, statuses):
    job = Job(command, tool, directory)
    rng = random.Random(5)
    for i in range(ROUNDS):
        job.clear(None if i % 2 else b"the old output" if "-f" in options else None)
        both = [tool.start(*job.arguments(*options, "-j%d" % rng.choice((1, 2)))) for _ in range(2)]
        told = [process.communicate()[1].decode() for process in both]
        found = tuple(sorted(process.returncode for process in both))
        check(found == statuses, "round %d: exit %s: %s" % (i, found, told))
        check(2 not in found or any("exists already" in text for text in told), "messages: %s" % told)
        job.check_state("round %d" % i, job.wanted)


# ---- the output appears, or changes its kind, just before it gets its name ----

def before_naming(tool, directory, options, before, change, status):
    """Stops the tool before its first call that gives the name, changes the output, goes on."""
    faults = Faults(tool, directory)
    job = Job("convert", tool, faults.directory)
    call = "rename" if before else "link"
    process = faults.stopped("%s%s:1:1:%s" % (before, call, STOP), *job.arguments("-j1", *options))
    change(job)
    found, message = resume(process)
    check(found == status, "exit %d: %s" % (found, message))
    check(not job.leftovers() or job.leftovers() == ["other"], "left behind: %s" % job.leftovers())
    return job, message


def mine(job):
    write(job.output, b"mine")


def folder(job):
    os.mkdir(job.output)


def full_folder(job):
    os.mkdir(job.output)
    write(os.path.join(job.output, "x"), b"mine")


def dangling_link(job):
    os.symlink("nowhere", job.output)


def link_to_other(job):
    os.symlink(write(os.path.join(job.directory, "other"), b"mine"), job.output)


def is_mine(job, is_replaced):
    check(read(job.output) == (job.wanted if is_replaced else b"mine"), "the output")


def is_folder(job, _):
    check(os.path.isdir(job.output), "the folder is gone")


def is_link(job, is_replaced):
    check(os.path.islink(job.output) != is_replaced, "the link")
    check(not is_replaced or read(job.output) == job.wanted, "the output")
    other = os.path.join(job.directory, "other")
    check(not os.path.exists(other) or read(other) == b"mine", "the file behind the link was changed")


APPEARING = {mine: is_mine, folder: is_folder, full_folder: is_folder, dangling_link: is_link, link_to_other: is_link}
BEFORE = {"unnamed": "", "named": NAMED + ","}


@pytest.mark.parametrize("change", APPEARING)
@pytest.mark.parametrize("temporary_file", BEFORE)
def test_output_appears(tool, directory, change, temporary_file):
    job, message = before_naming(tool, directory, (), BEFORE[temporary_file], change, 2)
    check("exists already" in message, "message: " + message)
    APPEARING[change](job, False)


@pytest.mark.parametrize("change", APPEARING)
@pytest.mark.parametrize("temporary_file", BEFORE)
def test_output_appears_forced(tool, directory, change, temporary_file):
    look = APPEARING[change]
    job, _ = before_naming(tool, directory, ("-f",), BEFORE[temporary_file], change, 0 if look != is_folder else 3)
    look(job, True)


# ---- the input changes under the tool ----

def change_input(tool, directory, command, change, statuses, fragment, prepare=None):
    """Stops at several reads, changes the input, goes on: refused, or the output is of the old content. By
    the time of fchmod, all is read and written."""
    faults = Faults(tool, directory)
    for call in ("pread:1", "pread:2", "pread:3", "pread:4", "pread:6", "fchmod:1"):
        job = Job(command, tool, faults.directory)
        job.clear()
        if prepare:
            prepare(job.input)
        process = faults.stopped("%s:1:%s" % (call, STOP), *job.arguments("-j1"))
        change(job.input, job.given)
        status, message = resume(process)
        what = "%s, %s: exit %d: %s" % (command, call, status, message)
        check(status in statuses or (call == "fchmod:1" and status == 0), what)
        check(status == 0 or (fragment in message and message.count("\n") == 1), what)
        check(not job.leftovers(), what + "left behind: %s" % job.leftovers())
        check(os.path.exists(job.output) == (status == 0), what + "the output")
        if status == 0:
            check(read(job.output) == job.wanted, what + "the output is not of the old content")
        os.unlink(job.input)
        job.clear()


def grow(path, content):
    write(path, content + b"more")


def shrink(path, content):
    os.truncate(path, len(content) // 2)


def empty(path, _):
    os.truncate(path, 0)


def overwrite(path, content):
    with open(path, "r+b") as file:
        file.seek(len(content) - 100)
        file.write(bytes(byte ^ 1 for byte in content[-100:]))


def overwrite_keeping_time(path, content):
    """As rsync --inplace --times does."""
    status = os.stat(path)
    overwrite(path, content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def overwrite_and_link(path, content):
    """Another name for it moves the time of change, too."""
    overwrite_keeping_time(path, content)
    name = os.path.join(os.path.dirname(os.path.dirname(path)), "other-name-of-the-input")
    if os.path.exists(name):
        os.unlink(name)
    os.link(path, name)


def replace(path, content):
    os.rename(write(path + ".new", content[::-1]), path)


def remove_and_put_back(path, content):
    os.unlink(path)
    write(path, content[::-1])


# Status 1: the change was read as bad data. Status 0: only where the open file stayed what it was.
@pytest.mark.parametrize("change", [grow, shrink, empty, overwrite, overwrite_keeping_time, overwrite_and_link])
@pytest.mark.parametrize("command", ["convert", "restore"])
def test_input_changes(tool, directory, command, change):
    change_input(tool, directory, command, change, (1, 3), "m.safetensors")


@pytest.mark.parametrize("change", [replace, remove_and_put_back])
@pytest.mark.parametrize("command", ["convert", "restore"])
def test_name_of_the_input_changes(tool, directory, command, change):
    change_input(tool, directory, command, change, (0,), "")


def give_second_name(path):
    os.link(path, path + ".second")


def take_second_name(path, _):
    os.unlink(path + ".second")


@pytest.mark.parametrize("command", ["convert", "restore"])
def test_input_loses_a_name(tool, directory, command):
    """A trainer removes an old checkpoint, of which something else has hard links."""
    change_input(tool, directory, command, take_second_name, (0,), "", give_second_name)


def test_plain_file_changes_while_it_is_copied(tool, directory):
    """cat, and the SHA-256 of verify, look at the end."""
    faults = Faults(tool, directory)
    job = Job("convert", tool, faults.directory)
    for arguments in (("cat", job.input), ("verify", job.input, "--sha256", "0" * 64)):
        write(job.input, job.given)
        process = faults.stopped("pread:3:1:" + STOP, *arguments)
        overwrite_keeping_time(job.input, job.given)
        status, message = resume(process)
        check(status == 3 and "has changed while it was read" in message, "%s: exit %d: %s" % (
            arguments[0], status, message))


def test_output_directory_vanishes(tool, directory):
    faults = Faults(tool, directory)
    job = Job("convert", tool, faults.directory)
    place = os.path.join(faults.directory, "place")
    for moved in (None, os.path.join(faults.directory, "elsewhere")):
        os.mkdir(place)
        process = faults.stopped("pwrite:2:1:" + STOP, "convert", job.input, "-j1", "-o", os.path.join(place, "x"))
        for name in os.listdir(place):
            os.unlink(os.path.join(place, name))
        os.rmdir(place) if moved is None else os.rename(place, moved)
        status, message = resume(process)
        check(status == 3 and "No such file" in message and "/x: " in message, "exit %d: %s" % (status, message))
        check(moved is None or not os.listdir(moved), "left behind")
        check(not os.path.exists(place), "the directory came back")


def test_temporary_file_is_taken_away(tool, directory):
    """A cleaning job removes the named temporary file: the run fails and says so."""
    faults = Faults(tool, directory)
    job = Job("convert", tool, faults.directory)
    process = faults.stopped(NAMED + ",pwrite:2:1:" + STOP, *job.arguments("-j1"))
    check(len(job.leftovers()) == 1, "temporary files: %s" % job.leftovers())
    job.remove_leftovers()
    status, message = resume(process)
    check(status == 3 and "No such file" in message, "exit %d: %s" % (status, message))
    job.check_state("without the temporary file", None)
