"""Directories again: runs that were killed and go on, archives that are kept, what -f replaces, what --rm
removes. Whatever an earlier run or somebody else left, the result is right and nothing else stays."""
import os
import shutil
import signal
import time

import pytest

from faults import STOP, Faults, resume, wait_until
from folders import partial
from support import check, check_only, end_with, flip, read, sparse_model, write
from trees import Untouched, check_archived, check_restores, check_same, remove, shard, small_tree, snapshot
from users import as_nobody

LARGE_GIB = 64  # minutes of work, and no disk


def unfinished(tool, directory, number=signal.SIGKILL):
    """A run that ends when all files but the last, z.safetensors, are there. Returns source and status."""
    source = small_tree(os.path.join(directory, "m"))
    write(os.path.join(source, "c.safetensors"), shard(3))
    sparse_model(os.path.join(source, "z.safetensors"), LARGE_GIB)
    process = tool.start("convert", source, address_space=None)
    last = os.path.join(partial(source + ".lmc"), "sub", "b.safetensors.lmc")
    wait_until(lambda: os.path.exists(last) or process.poll() is not None)
    check(process.poll() is None, "the run has ended")
    status = end_with(process, number)
    check_only(directory, "m", ".m.lmc.lmc-st-partial")
    write(os.path.join(source, "z.safetensors"), shard(4))
    return source, status


def finish(tool, source, kept, *options):
    """The next run; checks which archives it has kept, the result, that nothing is left over."""
    before = {name: os.stat(os.path.join(partial(source + ".lmc"), name)).st_ino for name in kept}
    told = tool.run("convert", source, "-v", *options)
    check(told.status == 0, "exit %d: %s" % (told.status, told.stderr))
    lines = told.stderr.split("\n")
    for name in ("a.safetensors", "c.safetensors", "sub/b.safetensors", "z.safetensors"):
        what = "kept" if name + ".lmc" in kept else "converted"
        check(any(line.startswith("%s: %s" % (name, what)) for line in lines), "%s was not %s: %s" % (
            name, what, told.stderr))
    for name, number in before.items():
        check(os.stat(os.path.join(source + ".lmc", name)).st_ino == number, "another file: " + name)
    check_archived(tool, source, source + ".lmc")
    check_restores(tool, source, source + ".lmc")
    check_only(os.path.dirname(source), "m", "m.lmc")


@pytest.mark.parametrize("number, wanted, options",
                         [pytest.param(signal.SIGKILL, -signal.SIGKILL, (), id="killed"),
                          pytest.param(signal.SIGTERM, 143, ("-j1",), id="ended", marks=pytest.mark.posix("signals"))])
def test_run_goes_on(tool, directory, number, wanted, options):
    source, status = unfinished(tool, directory, number)
    check(status == wanted, "status %d" % status)
    finish(tool, source, ("a.safetensors.lmc", "c.safetensors.lmc", "sub/b.safetensors.lmc"), *options)


def test_damaged_archives_are_made_anew(tool, directory):
    source, _ = unfinished(tool, directory)
    path = os.path.join(partial(source + ".lmc"), "a.safetensors.lmc")
    flip(path, -50)
    os.truncate(os.path.join(partial(source + ".lmc"), "c.safetensors.lmc"), 1000)
    finish(tool, source, ("sub/b.safetensors.lmc",))


def test_swapped_archives_are_made_anew(tool, directory):
    source, _ = unfinished(tool, directory)
    a, c = (os.path.join(partial(source + ".lmc"), name) for name in ("a.safetensors.lmc", "c.safetensors.lmc"))
    os.rename(a, a + "x")
    os.rename(c, a)
    os.rename(a + "x", c)
    finish(tool, source, ("sub/b.safetensors.lmc",))


@pytest.mark.posix("modes of files")
def test_changed_sources_are_converted(tool, directory):
    """Also if size and time are as before; new permissions are taken over."""
    source, _ = unfinished(tool, directory)
    path = os.path.join(source, "a.safetensors")
    status = os.stat(path)
    flip(path, -1)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    write(os.path.join(source, "config.json"), b"another")
    path = os.path.join(source, "c.safetensors")
    os.chmod(path, 0o600)
    os.utime(path, ns=(0, 10**18 + 1))
    os.utime(os.path.join(source, "sub"), ns=(0, 10**18 + 2))
    finish(tool, source, ("c.safetensors.lmc", "sub/b.safetensors.lmc"))


def test_removed_and_renamed_sources(tool, directory):
    source, _ = unfinished(tool, directory)
    os.rename(os.path.join(source, "a.safetensors"), os.path.join(source, "new.safetensors"))
    os.unlink(os.path.join(source, "config.json"))
    remove(os.path.join(source, "sub"))
    write(os.path.join(source, "sub"), b"a file now")
    os.unlink(os.path.join(source, "c.safetensors"))
    os.mkdir(os.path.join(source, "c.safetensors"))
    tool.run("convert", source).expect(0)
    check_archived(tool, source, source + ".lmc")
    check_restores(tool, source, source + ".lmc")
    check_only(directory, "m", "m.lmc")


@pytest.mark.posix("links")
def test_strangers_in_the_unfinished_directory(tool, directory):
    """Only archives of this source are taken over, and only if they are files."""
    source, _ = unfinished(tool, directory)
    staging = partial(source + ".lmc")
    elsewhere = os.path.join(directory, "elsewhere")
    os.rename(os.path.join(staging, "a.safetensors.lmc"), elsewhere)
    os.symlink("../elsewhere", os.path.join(staging, "a.safetensors.lmc"))
    os.unlink(os.path.join(staging, "c.safetensors.lmc"))
    os.makedirs(os.path.join(staging, "c.safetensors.lmc", "deep"))
    shutil.copy(os.path.join(staging, "sub", "b.safetensors.lmc"), os.path.join(staging, "x.safetensors.lmc"))
    shutil.copy(os.path.join(staging, "sub", "b.safetensors.lmc"), os.path.join(staging, "b.safetensors.lmc"))
    write(os.path.join(staging, "model.safetensors"), shard(9))
    write(os.path.join(staging, "config.json"), b"wrong")
    write(os.path.join(staging, ".lmc-st-0123456789ab"), b"")
    os.makedirs(os.path.join(staging, "more", "folders"))
    write(os.path.join(staging, "more", "folders", "file"), b"")
    archive = read(elsewhere)
    tool.run("convert", source).expect(0)
    check(read(elsewhere) == archive, "a file elsewhere was changed")
    os.unlink(elsewhere)
    check_archived(tool, source, source + ".lmc")
    check_restores(tool, source, source + ".lmc")
    check_only(directory, "m", "m.lmc")


def test_read_only_folders_in_the_unfinished_directory(tool, directory):
    """A run that was killed just before the end has given folders their permissions."""
    user = as_nobody(tool, directory, os.path.dirname(directory))
    source = small_tree(os.path.join(directory, "m"))
    write(os.path.join(source, "sub", "config.json"), b"{}")
    os.chmod(os.path.join(source, "sub"), 0o555)
    shutil.copytree(source, partial(source + ".lmc"))
    for folder, folders, files in os.walk(directory):
        for name in folders + files + ["."]:
            os.chown(os.path.join(folder, name), user.get("user", -1), -1)
    tool.run("convert", source, **user).expect(0)
    check_archived(tool, source, source + ".lmc")
    check_only(directory, "m", "m.lmc")
    remove(source)
    remove(source + ".lmc")


@pytest.mark.posix("links")
def test_unfinished_directory_is_no_directory(tool, directory):
    source = small_tree(os.path.join(directory, "m"))
    other = os.path.join(directory, "other")
    os.mkdir(other)
    write(os.path.join(other, "mine"), b"mine")
    path = partial(source + ".lmc")
    for make in (lambda: write(path, b"mine"), lambda: os.symlink("other", path), lambda: os.mkfifo(path)):
        make()
        with Untouched(directory):
            tool.run("convert", source).expect(3, "unfinished")
        os.unlink(path)


@pytest.mark.posix("signals")
def test_nothing_stays_before_the_first_archive(tool, directory):
    source = os.path.join(directory, "m")
    os.mkdir(source)
    sparse_model(os.path.join(source, "a.safetensors"), LARGE_GIB)
    for number in (signal.SIGINT, signal.SIGTERM):
        process = tool.start("convert", source, address_space=None)
        wait_until(lambda: os.path.exists(partial(source + ".lmc")))
        time.sleep(0.01)
        check(end_with(process, number) == 128 + number, "exit %s" % process.returncode)
        check_only(directory, "m")


def test_killed_restore(tool, directory):
    source = small_tree(os.path.join(directory, "m"))
    tool.run("convert", source).expect(0)
    os.rename(source, source + ".old")
    faults = Faults(tool, directory)
    for call in ("link:2", "rename:1"):
        process = faults.stopped("%s:1:%s" % (call, STOP), "restore", source + ".lmc", "-j1")
        check(not os.path.exists(source), "the directory is there before it is complete")
        process.kill()
        process.communicate()
        check_only(directory, "m.old", "m.lmc", ".m.lmc-st-partial")
        write(os.path.join(partial(source), "a.safetensors"), shard(8))
        write(os.path.join(partial(source), "stray"), b"")
        tool.run("restore", source + ".lmc").expect(0)
        check_same(snapshot(source + ".old"), snapshot(source), "restored")
        check_only(directory, "m.old", "m.lmc", "m")
        remove(source)


def test_directory_appears_whole(tool, directory):
    """Until the rename nothing has the name; with -f it is the old one that has it."""
    source = small_tree(os.path.join(directory, "m"))
    faults = Faults(tool, directory)
    tool.run("convert", source).expect(0)
    write(os.path.join(source + ".lmc", "stray"), b"")
    old = snapshot(source + ".lmc")
    for options in ((), ("-f",)):
        if not options:
            os.rename(source + ".lmc", source + ".old")
        process = faults.stopped("rename:1:1:" + STOP, "convert", source, *options)
        check(os.path.exists(partial(source + ".lmc")), "no unfinished directory")
        if options:
            check_same(old, snapshot(source + ".lmc"), "before the rename")
        else:
            check(not os.path.exists(source + ".lmc"), "there before the rename")
        check(resume(process) == (0, ""), "exit")
        check_archived(tool, source, source + ".lmc")
        if not options:
            remove(source + ".lmc")
            os.rename(source + ".old", source + ".lmc")
    check_only(directory, "m", "m.lmc")


# ---- -f ----

@pytest.mark.posix("links")
def test_force_keeps_what_is_right(tool, directory):
    source = small_tree(os.path.join(directory, "m"))
    for name in ("c", "d", "e"):
        write(os.path.join(source, name + ".safetensors"), shard(3))
    archive = source + ".lmc"
    tool.run("convert", source).expect(0)
    number = os.stat(os.path.join(archive, "a.safetensors.lmc")).st_ino
    os.chmod(os.path.join(source, "sub", "b.safetensors"), 0o600)  # it would change in what is replaced, too
    write(os.path.join(source, "c.safetensors"), shard(4))
    write(os.path.join(archive, "d.safetensors.lmc"), read(os.path.join(archive, "d.safetensors.lmc"))[:-1])
    os.makedirs(os.path.join(archive, "blobs"))
    os.rename(os.path.join(archive, "e.safetensors.lmc"), os.path.join(archive, "blobs", "e"))
    os.symlink(os.path.join(archive, "blobs", "e"), os.path.join(archive, "e.safetensors.lmc"))
    told = tool.run("convert", source, "-f", "-v")
    check(told.status == 0 and told.stderr.count(": kept") == 1 and told.stderr.count(": converted") == 4,
          "exit %d: %s" % (told.status, told.stderr))
    check(os.stat(os.path.join(archive, "a.safetensors.lmc")).st_ino == number, "it was written again")
    check_archived(tool, source, archive)
    check_restores(tool, source, archive)
    check_only(directory, "m", "m.lmc")


@pytest.mark.posix("limits of a file's size")
def test_failed_force_keeps_the_old_directory(tool, directory):
    source = small_tree(os.path.join(directory, "m"))
    tool.run("convert", source).expect(0)
    write(os.path.join(source, "z.safetensors"), shard(4))
    os.chmod(os.path.join(source, "a.safetensors"), 0o600)
    os.utime(os.path.join(source, "sub", "b.safetensors"), (1e9, 1e9))
    with Untouched(directory):
        tool.run("convert", source, "-f", file_size=4096).expect(3, "cannot write")
    write(os.path.join(source + ".lmc", "y.safetensors.lmc"), b"x")
    with Untouched(directory):
        tool.run("restore", source + ".lmc", "-f").expect(1)


def test_force_with_a_base(tool, directory):
    """An archive that has none is not what is wanted then, and the other way round."""
    source, base = small_tree(os.path.join(directory, "m")), small_tree(os.path.join(directory, "base"))
    path = os.path.join(source + ".lmc", "a.safetensors.lmc")
    tool.run("convert", source).expect(0)
    alone = os.path.getsize(path)
    tool.run("convert", source, "-f", "--base", base).expect(0)
    check(os.path.getsize(path) < alone / 2, "the base was ignored")
    number = os.stat(path).st_ino
    tool.run("convert", source, "-f", "--base", base).expect(0)
    check(os.stat(path).st_ino == number, "it was written again")
    tool.run("convert", source, "-f").expect(0)
    check(os.path.getsize(path) == alone, "it still has the base")


@pytest.mark.parametrize("base", ["archives", "plain"])
@pytest.mark.parametrize("length", [2, 3])
@pytest.mark.parametrize("option", ["-f", "--rm"])
def test_force_replaces_no_base_of_the_base(tool, directory, base, length, option):
    """However far down the chain it is."""
    sources = [small_tree(os.path.join(directory, "c-%d" % i)) for i in range(length + 1)]
    for i, source in enumerate(sources):
        write(os.path.join(source, "a.safetensors"), shard(i + 1))
    first = sources[0] + (".lmc" if base == "archives" else "")
    if base == "archives":
        tool.run("convert", sources[0], "--rm").expect(0)
    before = first
    for source in sources[1:-1]:
        tool.run("convert", source, "--base", before, "--rm").expect(0)
        before = source + ".lmc"
    with Untouched(directory):
        tool.run("convert", sources[-1], "--base", before, "-o", first, "-f", option).expect(
            2, "the output is the base or holds it")


# ---- --rm ----

@pytest.mark.posix("removal of the working directory")
def test_remove_after_comparison(tool, directory):
    source = small_tree(os.path.join(directory, "m"))
    before = snapshot(source)
    tool.run("convert", source, "--rm").expect(0)
    check_only(directory, "m.lmc")
    tool.run("restore", source + ".lmc/", "--rm").expect(0)
    check_only(directory, "m")
    check_same(before, snapshot(source), "restored")
    for options, left in ((("--rm", "-k"), ["m", "m.lmc"]), (("-k", "--rm", "-f"), ["m.lmc"])):
        tool.run("convert", source, *options).expect(0)
        check_only(directory, *left)
    tool.run("restore", source + ".lmc", "--rm", "-j1", "--no-fsync").expect(0)
    tool.run("convert", "../m/", "--rm", cwd=source).expect(0)
    check_only(directory, "m.lmc")


@pytest.mark.posix("links")
def test_directories_that_cannot_be_removed(tool, directory):
    """By a name that is not the directory's own: refused before anything is done."""
    source = small_tree(os.path.join(directory, "m"))
    os.symlink("m", os.path.join(directory, "l"))
    for name, cwd in (("l", directory), ("l/", directory), (".", source), ("m/.", directory), ("m/sub/..", directory)):
        with Untouched(directory, name):
            tool.run("convert", name, "--rm", cwd=cwd).expect(2, "--rm")
    with Untouched(directory, "an existing output"):
        os.mkdir(source + ".lmc")
        write(os.path.join(source + ".lmc", "x"), b"")
        tool.run("convert", source, "--rm").expect(2)
        remove(source + ".lmc")


def tampered(tool, directory, command, given, change, what):
    """A run with --rm that is stopped before the rename, when all is written; the input is changed then."""
    faults = Faults(tool, directory)
    process = faults.stopped("rename:1:1:" + STOP, command, given, "--rm")
    change()
    before = snapshot(given)
    status, message = resume(process)
    check(status in (1, 2, 3), "%s: exit %d: %s" % (what, status, message))
    check_same(before, snapshot(given), what + ": the input")


def test_changed_directories_are_not_removed(tool, directory):
    source = small_tree(os.path.join(directory, "m"))
    content = bytearray(shard(2))
    content[-1] ^= 1
    for what, change in {
            "a new file": lambda: write(os.path.join(source, "late"), b"x"),
            "a new model": lambda: write(os.path.join(source, "late.safetensors"), shard(5)),
            "a new folder": lambda: os.mkdir(os.path.join(source, "folder")),
            "another file": lambda: write(os.path.join(source, "config.json"), b'{"hidden_size": 9}\n'),
            "another model": lambda: write(os.path.join(source, "sub", "b.safetensors"), bytes(content)),
            "a pipe": lambda: os.mkfifo(os.path.join(source, "pipe"))}.items():
        tampered(tool, directory, "convert", source, change, what)
        remove(source + ".lmc")
        remove(source)
        small_tree(source)


def test_changed_archives_are_not_removed(tool, directory):
    source = small_tree(os.path.join(directory, "m"))
    archive = source + ".lmc"
    for what, change in {
            "a new file": lambda: write(os.path.join(archive, "late"), b"x"),
            "a new archive": lambda: shutil.copy(os.path.join(archive, "a.safetensors.lmc"),
                                                 os.path.join(archive, "sub", "late.safetensors.lmc")),
            "a new folder": lambda: os.mkdir(os.path.join(archive, "folder")),
            "another file": lambda: write(os.path.join(archive, "config.json"), b"{}"),
            "another archive": lambda: shutil.copy(os.path.join(archive, "a.safetensors.lmc"),
                                                   os.path.join(archive, "sub", "b.safetensors.lmc"))}.items():
        tool.run("convert", source).expect(0)
        remove(source)
        tampered(tool, directory, "restore", archive, change, what)
        remove(archive)
        remove(source)
        small_tree(source)
