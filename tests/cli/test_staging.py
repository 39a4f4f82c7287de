"""The unfinished directory ".NAME.lmc-st-partial" in a folder where others may write; names that are too long; disks
that are full. Nothing is written or removed outside it, and what is finished is kept."""
import errno
import os
import shutil
import subprocess

import pytest

from faults import NAMED, STOP, Faults, resume
from folders import SHARDS, FolderJob, partial
from support import check, check_only, read, remove_all, write
from trees import Untouched, check_archived, shard, small_tree
from users import NOBODY


def victim(directory):
    """A folder with names that a run would write or remove."""
    path = os.path.join(directory, "victim")
    os.mkdir(path)
    for name in ("b.safetensors.lmc", "config.json", "precious"):
        write(os.path.join(path, name), b"precious")
    return path


# ---- prepared by another user ----

def test_of_another_user(tool, directory):
    if os.geteuid() != 0:
        pytest.skip("only root can make files of another user")
    source = small_tree(os.path.join(directory, "m"))
    victim(directory)
    staging = partial(source + ".lmc")
    os.mkdir(staging, 0o700)
    os.symlink("../victim", os.path.join(staging, "sub"))
    os.chown(staging, NOBODY, NOBODY)
    with Untouched(directory):
        tool.run("convert", source).expect(2, "belongs to another user")
        tool.run("convert", source, "-f").expect(2, "belongs to another user")


@pytest.mark.posix("modes of files")
def test_others_may_write(tool, directory):
    source = small_tree(os.path.join(directory, "m"))
    victim(directory)
    staging = partial(source + ".lmc")
    for mode in (0o777, 0o770, 0o702, 0o1777):
        os.mkdir(staging)
        os.chmod(staging, mode)
        os.symlink("../victim", os.path.join(staging, "sub"))
        with Untouched(directory):
            tool.run("convert", source).expect(2, "may be written in by other users")
        os.unlink(os.path.join(staging, "sub"))
        os.rmdir(staging)


@pytest.mark.posix("links")
def test_links_left_inside(tool, directory):
    """Of a run of this user: links are removed, what they lead to is not touched."""
    source = small_tree(os.path.join(directory, "m"))
    path = victim(directory)
    staging = partial(source + ".lmc")
    os.mkdir(staging, 0o700)
    os.symlink("../victim", os.path.join(staging, "sub"))
    os.symlink("../victim", os.path.join(staging, "more"))
    with Untouched(path):
        tool.run("convert", source).expect(0)
    check_archived(tool, source, source + ".lmc")


def test_files_of_others_are_not_kept(tool, directory):
    """An archive that is right now, but whose owner may change it later."""
    if os.geteuid() != 0:
        pytest.skip("only root can make files of another user")
    source = small_tree(os.path.join(directory, "m"))
    tool.run("convert", source).expect(0)
    staging = partial(source + ".lmc")
    os.rename(source + ".lmc", staging)
    os.chown(os.path.join(staging, "a.safetensors.lmc"), NOBODY, NOBODY)
    told = tool.run("convert", source, "-v")
    check(told.status == 0 and told.stderr.count(": kept") == 1, "exit %d: %s" % (told.status, told.stderr))
    check(os.stat(os.path.join(source + ".lmc", "a.safetensors.lmc")).st_uid == 0, "the owner")


def test_source_that_others_may_write(tool, directory):
    """The output gets the same permissions; a run that was killed before its name came is gone on with."""
    faults = Faults(tool, directory)
    source = small_tree(os.path.join(faults.directory, "m"))
    os.chmod(source, 0o777)
    os.chmod(os.path.join(source, "sub"), 0o775)
    process = faults.stopped("rename:1:1:" + STOP, "convert", source)
    process.kill()
    process.communicate()
    check(os.stat(partial(source + ".lmc")).st_mode & 0o022 == 0, "others may write in what is not finished")
    tool.run("convert", source).expect(0)
    check_archived(tool, source, source + ".lmc")
    check_only(faults.directory, "m", "m.lmc")


# ---- swapped while a run works ----

def swap(path, target):
    os.rename(path, path + "-aside")
    os.symlink(target, path)


def swapped_at_each_call(tool, directory, place):
    """Somebody puts a link in the place of `place` ("": of the directory itself): nothing behind it changes."""
    faults = Faults(tool, directory)
    path = victim(faults.directory)
    swapped = 0
    for occurrence in range(1, 200):
        for name in os.listdir(faults.directory):
            full = os.path.join(faults.directory, name)
            if name != "victim":
                os.unlink(full) if os.path.islink(full) else shutil.rmtree(full)
        source = small_tree(os.path.join(faults.directory, "m"))
        here = os.path.join(partial(source + ".lmc"), place) if place else partial(source + ".lmc")
        process = tool.start("convert", source, "-j1", more_environment=faults.environment(
            "%s,any:%d:1:%s" % (NAMED, occurrence, STOP)))
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            process.returncode = os.waitstatus_to_exitcode(status)
            process.communicate()
            break
        if os.path.isdir(here):
            swap(here, path)
            swapped += 1
        with Untouched(path, "before call %d" % occurrence):
            resume(process)
    check(swapped > 10, "the directory was there at %d calls only" % swapped)


def test_folder_inside_becomes_a_link(tool, directory):
    swapped_at_each_call(tool, directory, "sub")


def test_directory_becomes_a_link(tool, directory):
    swapped_at_each_call(tool, directory, "")


def after_the_work(faults, source, *options):
    """Numbers of the calls from the first that gives a name on."""
    _, calls = faults.run("any:1:0:s0", "convert", source, "-j1", "--no-fsync", *options)
    return range(calls.index("rename") + 1, len(calls) + 1)


def prepare(directory, with_output=True):
    """A source, an older output, a directory that nobody has given to be removed."""
    remove_all(directory)
    source = small_tree(os.path.join(directory, "m"))
    if with_output:
        os.mkdir(source + ".lmc")
        write(os.path.join(source + ".lmc", "old"), b"the old output")
    os.mkdir(os.path.join(directory, "precious"))
    write(os.path.join(directory, "precious", "file"), b"precious")
    return source


def holds_precious(directory):
    return any(b"precious" == read(os.path.join(folder, name))
               for folder, _, names in os.walk(directory) for name in names)


def test_another_directory_in_the_way(tool, directory):
    """Somebody moves another directory of the user to where the old output is, or will be: -f does not remove it."""
    faults = Faults(tool, directory)
    moved = 0
    for place in ("partial", "target"):
        prepare(faults.directory)
        for occurrence in after_the_work(faults, os.path.join(faults.directory, "m"), "-f"):
            source = prepare(faults.directory)
            process = faults.stopped("any:%d:1:%s" % (occurrence, STOP), "convert", source, "-j1", "--no-fsync", "-f")
            here = partial(source + ".lmc") if place == "partial" else source + ".lmc"
            if os.path.isdir(here):
                os.rename(here, here + "-aside")
                os.rename(os.path.join(faults.directory, "precious"), here)
                moved += 1
            status, message = resume(process)
            check(holds_precious(faults.directory), "%s, before call %d: it is gone; exit %d: %s" % (
                place, occurrence, status, message))
    check(moved > 20, "it was moved %d times only" % moved)


def test_old_output_is_no_unfinished_one(tool, directory):
    """While -f removes what it has replaced, under the name of an unfinished directory, another run waits."""
    faults = Faults(tool, directory)
    source = prepare(faults.directory)
    process = faults.stopped("unlink:1:1:" + STOP, "convert", source, "-j1", "-f")
    check(os.path.isdir(partial(source + ".lmc")), "the old one has another name")
    tool.run("convert", source, "-f").expect(2, "another process")
    status, message = resume(process)
    check(status == 0, "exit %d: %s" % (status, message))
    check_archived(tool, source, source + ".lmc")
    check_only(faults.directory, "m", "m.lmc", "precious")


def test_killed_while_the_old_output_goes(tool, directory):
    """Also if others may write in it: the next run removes the rest."""
    faults = Faults(tool, directory)

    def shared():
        source = prepare(faults.directory)
        for name in (source, source + ".lmc"):
            os.chmod(name, 0o775)
        return source
    for occurrence in after_the_work(faults, shared(), "-f"):
        source = shared()
        faults.run("any:%d:1:s9" % occurrence, "convert", source, "-j1", "--no-fsync", "-f")
        tool.run("convert", source, "-f").expect(0)
        check_archived(tool, source, source + ".lmc", "killed before call %d" % occurrence)
        check_only(faults.directory, "m", "m.lmc", "precious")


def test_new_directory_is_swapped(tool, directory):
    """Another user's directory takes the place of the unfinished one, when it is made and when it gets its name."""
    if os.geteuid() != 0:
        pytest.skip("only root can make files of another user")
    faults = Faults(tool, directory)
    source = prepare(faults.directory, with_output=False)
    _, calls = faults.run("any:1:0:s0", "convert", source, "-j1", "--rm")
    for occurrence in (calls.index("mkdir") + 2, calls.index("rename") + 1):
        source = prepare(faults.directory, with_output=False)
        process = faults.stopped("any:%d:1:%s" % (occurrence, STOP), "convert", source, "-j1", "--rm")
        here = partial(source + ".lmc")
        os.rename(here, here + "-aside")
        os.mkdir(here)
        write(os.path.join(here, "theirs"), b"theirs")
        os.chmod(here, 0o777)
        os.chown(here, NOBODY, NOBODY)
        status, message = resume(process)
        check(status in (2, 3), "before call %d: exit %d: %s" % (occurrence, status, message))
        check(os.path.exists(os.path.join(source, "a.safetensors")), "the input is gone")
        check(any(name == "theirs" for _, _, names in os.walk(faults.directory) for name in names), "theirs is gone")


@pytest.mark.posix("links")
def test_strange_archives_in_the_old_output(tool, directory):
    """Links, pipes and files with more names are not taken over; what they lead to stays as it is."""
    source = small_tree(os.path.join(directory, "m"))
    other = victim(directory)
    tool.run("convert", source).expect(0)
    archive = os.path.join(source + ".lmc", "a.safetensors.lmc")
    second = os.path.join(directory, "second")
    os.link(archive, second)
    os.chmod(second, 0o600)
    mode = os.stat(second).st_mode
    for make in (lambda: None, lambda: os.symlink(os.path.join(source, "a.safetensors"), archive),
                 lambda: os.symlink(other, archive), lambda: os.mkfifo(archive)):
        if make() is None and not os.path.lexists(archive):
            continue
        with Untouched(other):
            tool.run("convert", source, "-f").expect(0)
        check_archived(tool, source, source + ".lmc")
        check(os.stat(second).st_mode == mode, "the other name's permissions")
        os.unlink(archive)


@pytest.mark.posix("names with control characters")
def test_message_about_a_strange_name(tool, directory):
    source = small_tree(os.path.join(directory, "m\n\x1b[31mx"))
    os.mkdir(partial(source + ".lmc"))
    os.chmod(partial(source + ".lmc"), 0o777)
    told = tool.run("convert", source).expect(2, "may be written in by other users", "remove it")
    check(told.stderr.count("\n") == 1, "message: %r" % told.stderr)


# ---- names that are too long ----

def test_name_too_long_for_the_archive(tool, directory):
    """Refused before anything is written: the other archives would be made in vain."""
    source = small_tree(os.path.join(directory, "m"))
    name = "z" * (252 - len(".safetensors")) + ".safetensors"
    write(os.path.join(source, name), shard(3))
    faults = Faults(tool, directory)
    with Untouched(directory):
        _, calls = faults.run("any:1:0:s0", "convert", source)
        check("mkdir" not in calls, "something was made: %s" % calls)
        tool.run("convert", source).expect(2, name[:100], "256 bytes", "255 are the most")
    shorter = os.path.join(source, name[1:])
    os.rename(os.path.join(source, name), shorter)
    tool.run("convert", source).expect(0)
    os.rename(source, source + ".old")
    tool.run("restore", source + ".lmc").expect(0)
    check(read(os.path.join(source, name[1:])) == shard(3), "restored")
    single = write(os.path.join(directory, name), shard(3))
    with Untouched(directory):
        tool.run("convert", single).expect(3, "File name too long")


@pytest.mark.posix("another limit of paths")
def test_path_too_long(tool, directory):
    """A file so deep that it cannot be opened by its path: told before the archives are made."""
    source = small_tree(os.path.join(directory, "m"))
    here = os.open(source, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 240, dir_fd=here)
        deeper = os.open("d" * 240, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(os.open("note.txt", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)
    tool.run("convert", source).expect(2, "its path here or in the output has")
    check_only(directory, "m")
    subprocess.run(["rm", "-r", source], check=True)


# ---- disks that are full ----

def test_full_disk_keeps_what_is_finished(tool, directory):
    faults = Faults(tool, directory)
    job = FolderJob("convert", tool, faults.directory)
    second = os.path.join(job.partial, SHARDS[1] + ".lmc")
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        job.clear()
        occurrence = 1
        while True:  # the first write after the first archive has its name
            result, hits = faults.run("pwrite:%d:0:e%d" % (occurrence, number), *job.arguments("-j1"))
            check(hits and result.status == 3, "no write failed: exit %d" % result.status)
            if os.path.exists(os.path.join(job.partial, SHARDS[0] + ".lmc")):
                break
            job.clear()
            occurrence += 1
        check(os.strerror(number) in result.stderr and "run the same again" in result.stderr
              and result.stderr.count("\n") == 1, "message: " + result.stderr)
        check(not os.path.exists(second) and not os.path.lexists(job.output), "more than that is there")
        inode = os.stat(os.path.join(job.partial, SHARDS[0] + ".lmc")).st_ino
        told = tool.run(*job.arguments("-v"))
        check(told.status == 0 and "%s: kept" % SHARDS[0] in told.stderr, "exit %d: %s" % (told.status, told.stderr))
        check(os.stat(os.path.join(job.output, SHARDS[0] + ".lmc")).st_ino == inode, "it was made again")
        job.check_state("after the next run", job.wanted)


def test_failed_restore_leaves_nothing(tool, directory):
    """Restored files are not taken up again, so nothing is kept."""
    faults = Faults(tool, directory)
    job = FolderJob("restore", tool, faults.directory)
    result, _ = faults.run("pwrite:6:0:e%d" % errno.ENOSPC, *job.arguments("-j1"))
    check(result.status == 3, "exit %d: %s" % (result.status, result.stderr))
    check_only(faults.directory, "M.lmc")
