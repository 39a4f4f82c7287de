"""Two runs for the same output at once; inputs and outputs that change while the tool works."""
import os
import random
import signal

from faults import NAMED, Faults, Job, resume
from support import CASES, case, check, read, write

ROUNDS = 25
STOP = "s%d" % signal.SIGSTOP


def two_at_once(tool, directory, command, options, statuses):
    """`statuses`: the sorted pairs of exit statuses that are right."""
    job = Job(command, tool, directory)
    rng = random.Random(5)
    for i in range(ROUNDS):
        job.clear(None if i % 2 else b"the old output" if "-f" in options else None)
        both = [tool.start(*job.arguments(*options, "-j%d" % rng.choice((1, 2)))) for _ in range(2)]
        told = [process.communicate()[1].decode() for process in both]
        found = tuple(sorted(process.returncode for process in both))
        check(found in statuses, "round %d: exit %s: %s" % (i, found, told))
        check(2 not in found or any("exists already" in text for text in told), "messages: %s" % told)
        job.check_state("round %d" % i, job.wanted)


@case
def two_converters(tool, directory):
    two_at_once(tool, directory, "convert", (), {(0, 2)})


@case
def two_converters_forced(tool, directory):
    two_at_once(tool, directory, "convert", ("-f",), {(0, 0)})


@case
def two_restorers(tool, directory):
    two_at_once(tool, directory, "restore", (), {(0, 2)})


@case
def two_restorers_forced(tool, directory):
    two_at_once(tool, directory, "restore", ("-f",), {(0, 0)})


# ---- the output appears, or changes its kind, just before it gets its name ----

def before_naming(tool, directory, options, before, change, status):
    """Stops the tool before its first call that gives the name, changes the output, goes on."""
    faults = Faults(tool, directory)
    job = Job("convert", tool, faults.directory)
    call = "rename" if before and "-f" in options else "link"
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


def add_naming_case(name, before, change, look):
    def kept(tool, directory):
        job, message = before_naming(tool, directory, (), before, change, 2)
        check("exists already" in message, "message: " + message)
        look(job, False)

    def forced(tool, directory):
        status = 0 if look != is_folder else 3
        job, _ = before_naming(tool, directory, ("-f",), before, change, status)
        look(job, True)
    variant = "named_" if before else ""
    CASES.append(("races/%soutput_appears_%s" % (variant, name), kept))
    CASES.append(("races/%soutput_appears_%s_forced" % (variant, name), forced))


def is_mine(job, is_replaced):
    check(read(job.output) == (job.wanted if is_replaced else b"mine"), "the output")


def is_folder(job, _):
    check(os.path.isdir(job.output), "the folder is gone")


def is_link(job, is_replaced):
    check(os.path.islink(job.output) != is_replaced, "the link")
    check(not is_replaced or read(job.output) == job.wanted, "the output")
    other = os.path.join(job.directory, "other")
    check(not os.path.exists(other) or read(other) == b"mine", "the file behind the link was changed")


for _before in ("", NAMED + ","):
    add_naming_case("file", _before, mine, is_mine)
    add_naming_case("folder", _before, folder, is_folder)
    add_naming_case("full_folder", _before, full_folder, is_folder)
    add_naming_case("dangling_link", _before, dangling_link, is_link)
    add_naming_case("link", _before, link_to_other, is_link)


# ---- the input changes under the tool ----

def change_input(tool, directory, command, change, statuses, fragment):
    """Stops at several reads, changes the input, goes on: refused, or the output is of the old content. By
    the time of fchmod, all is read and written."""
    faults = Faults(tool, directory)
    for call in ("pread:1", "pread:2", "pread:3", "pread:4", "pread:6", "fchmod:1"):
        job = Job(command, tool, faults.directory)
        job.clear()
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


def add_change_case(command, change, statuses, fragment):
    def run(tool, directory):
        change_input(tool, directory, command, change, statuses, fragment)
    CASES.append(("races/input_%s_%s" % (change.__name__, command), run))


# Status 1: the change was read as bad data. Status 0: only where the open file stayed what it was.
for _command in ("convert", "restore"):
    add_change_case(_command, grow, (1, 3), "m.safetensors")
    add_change_case(_command, shrink, (1, 3), "m.safetensors")
    add_change_case(_command, empty, (1, 3), "m.safetensors")
    add_change_case(_command, overwrite, (1, 3), "m.safetensors")
    add_change_case(_command, overwrite_keeping_time, (1, 3), "m.safetensors")
    add_change_case(_command, overwrite_and_link, (1, 3), "m.safetensors")
    add_change_case(_command, replace, (0,), "")
    add_change_case(_command, remove_and_put_back, (0,), "")


@case
def plain_file_changes_while_it_is_copied(tool, directory):
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


@case
def output_directory_vanishes(tool, directory):
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


@case
def temporary_file_is_taken_away(tool, directory):
    """A cleaning job removes the named temporary file: the run fails and says so."""
    faults = Faults(tool, directory)
    job = Job("convert", tool, faults.directory)
    process = faults.stopped(NAMED + ",pwrite:2:1:" + STOP, *job.arguments("-j1"))
    check(len(job.leftovers()) == 1, "temporary files: %s" % job.leftovers())
    job.remove_leftovers()
    status, message = resume(process)
    check(status == 3 and "No such file" in message, "exit %d: %s" % (status, message))
    job.check_state("without the temporary file", None)
