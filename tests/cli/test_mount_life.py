"""lmc-st mount and unmount: how mounts begin and end, what they do when the source changes, names, users, memory."""
import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from bases import first_snapshot, next_snapshot, write_model
from mounted import PLACE, archive_kind, archived, fails, is_alive, is_mounted, servers_of, wait_for
from support import archive_of, check, check_no_controls, flip, model, read, small_model, weights, write
from trees import model_tree, remove, shard, small_tree, snapshot
from users import as_nobody

pytestmark = pytest.mark.posix("file systems of processes")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# how reads end when nobody answers any more
GONE = (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO)


def check_free(place):
    """The mount point is a plain folder again, and can be used."""
    check(not is_mounted(place) and os.listdir(place) == [], "it is not free: %s" % place)
    write(os.path.join(place, "file"), b"x")
    os.unlink(os.path.join(place, "file"))


# ---- the background ----

def test_background(tool, directory, mount):
    """The command returns when the files are there; the server has a session of its own, and nothing of the caller's
    but what was mounted. Whoever reads the outputs of the command meets their ends (Tool.run does)."""
    content, archive = archived(tool, directory)
    mounted = mount(os.path.basename(archive), cwd=directory)
    check(read(mounted.path("m.safetensors")) == content, "the bytes differ")
    proc = "/proc/%d/" % mounted.server
    check(os.getsid(mounted.server) == mounted.server, "the session is the caller's")
    check([os.readlink(proc + "fd/%d" % i) for i in range(3)] == ["/dev/null"] * 3, "the standard streams")
    check(os.readlink(proc + "cwd") == "/", "the working directory")
    mounted.unmount()
    check_free(mounted.place)


def test_many_mounts(tool, directory, mount):
    """One after the other, each unmounted at once: nothing of the start is in its way."""
    content, archive = archived(tool, directory)
    for _ in range(30):
        mounted = mount(archive)
        check(read(mounted.path("m.safetensors")) == content, "the bytes differ")
        mounted.unmount()


def test_messages_that_nobody_reads(tool, directory, mount):
    """The server goes on."""
    source = mount.place("source")
    content, archive = archived(tool, source)
    write(os.path.join(source, "bad.lmc"), b"no archive")
    mounted = mount.foreground(source)
    mounted.process.stderr.close()
    for _ in range(2):
        fails(errno.EIO, lambda: read(mounted.path("bad")))
        check(read(mounted.path("m.safetensors")) == content, "the bytes differ")
        os.utime(os.path.join(source, "bad.lmc"))
        time.sleep(1)  # as long as names are kept
    check(is_alive(mounted.server), "it has ended")
    tool.run("unmount", mounted.place).expect(0)
    mounted.process.wait()


def test_foreground(tool, directory, mount):
    """-f and --foreground, and with the letter among others; the status is that of a success."""
    content, archive = archived(tool, directory)
    for options in ((), ("-fj2",), ("--foreground",)):
        mounted = mount.foreground(archive, *options)
        check(read(mounted.path("m.safetensors")) == content, "the bytes differ")
        check(mounted.unmount() == "" and mounted.process.returncode == 0, "%s: a fault" % (options,))


def test_threads_and_idle_server_use_no_time(tool, directory, mount):
    """Many threads, and more than there are requests."""
    content, archive = archived(tool, directory)
    mounted = mount(archive, "-j", "64", "--cache", "100000")
    check(read(mounted.path("m.safetensors")) == content, "the bytes differ")
    mounted.unmount()


def test_relative_paths(tool, directory, mount):
    """Also after the server has another working directory."""
    tensors = first_snapshot()
    old = write_model(mount.place("bases"), "old.safetensors", tensors)
    source = mount.place("source")
    new = write_model(source, "new.safetensors", next_snapshot(tensors, 2))
    content = read(new)
    tool.run("convert", "--rm", new, "--base", old).expect(0)
    mount.place("a/mnt")
    mounted = mount("../source", "--base-dir", "../bases/../bases", place="./mnt/", cwd=os.path.join(directory, "a"))
    check(read(os.path.join(directory, "a/mnt/new.safetensors")) == content, "the bytes differ")
    tool.run("unmount", "mnt", cwd=os.path.join(directory, "a")).expect(0)
    mounted.wait_for_end()


def test_links_to_what_is_named(tool, directory, mount):
    """Of the source and the mount point; of the mount point when it is unmounted."""
    content, archive = archived(tool, directory)
    os.symlink(archive, os.path.join(directory, "source"))
    os.symlink(mount.place(), os.path.join(directory, "link"))
    mounted = mount(archive)
    mounted.unmount()
    tool.run("mount", os.path.join(directory, "source"), os.path.join(directory, "link"),
             more_environment={PLACE: mounted.place}).expect(0)
    check(os.listdir(mounted.place) == ["m.safetensors"] and read(mounted.path("m.safetensors")) == content, "bytes")
    mounted.server, = servers_of(mounted.place)
    tool.run("unmount", os.path.join(directory, "link")).expect(0)
    mounted.wait_for_end()


# ---- what cannot be mounted ----

def test_wrong_sources(tool, directory, mount):
    content, archive = archived(tool, directory)
    plain = write(os.path.join(directory, "plain.safetensors"), content)
    cut = write(os.path.join(directory, "cut.lmc"), read(archive)[:200])
    bad = flip(write(os.path.join(directory, "bad.lmc"), read(archive)), 30)
    absent = os.path.join(directory, "absent")
    os.mkfifo(os.path.join(directory, "pipe"))
    for more in ((), ("-f",)):
        mount.fails(3, "absent", "No such file", arguments=(absent, *more))
        mount.fails(2, "plain.safetensors", "plain file", arguments=(plain, *more))
        mount.fails(1, "cut.lmc", arguments=(cut, *more))
        mount.fails(1, "bad.lmc", arguments=(bad, *more))
        mount.fails(2, "pipe", arguments=(os.path.join(directory, "pipe"), *more))
        mount.fails(3, "absent", "No such file", arguments=(archive, "--base", absent, *more))
        mount.fails(3, "absent", "No such file", arguments=(archive, "--base-dir", absent, *more))
    listed = small_tree(os.path.join(directory, "c"))
    tool.run("convert", listed).expect(0)
    write(listed + ".lmc/.lmc-copied", b"no/such/file.lmc\n../x.lmc\n")
    mount.fails(1, ".lmc-copied", arguments=(listed + ".lmc",))
    check_free(mount.place())


def test_wrong_mount_points(tool, directory, mount):
    source = mount.place("source")
    content, archive = archived(tool, source)
    base = archive_kind(tool, mount.place("other/bases"), "m.npy")
    file = write(os.path.join(directory, "file"), b"")
    os.makedirs(os.path.join(source, "inner"))
    for more in ((), ("-f",)):
        mount.fails(3, "absent", "No such file", arguments=(source, *more), place=os.path.join(directory, "absent"))
        mount.fails(2, "file", "is not a directory", arguments=(source, *more), place=file)
        mount.fails(2, "inner", "is in what is to be mounted", arguments=(source, *more), place=source + "/inner")
        mount.fails(2, "source", "is in what is to be mounted", arguments=(source, *more), place=source)
        mount.fails(2, "would hide", archive, arguments=(archive, *more), place=source)
        mount.fails(2, "would hide", source, arguments=(source, *more), place=directory)
        mount.fails(2, "would hide", base, arguments=(archive, "--base", base, *more),
                    place=os.path.join(directory, "other"))
        mount.fails(2, "would hide", "bases", arguments=(archive, "--base-dir", os.path.dirname(base), *more),
                    place=os.path.join(directory, "other"))
    sibling = mount(source, place=mount.place("source.mnt"))  # a longer name is another one
    check(read(sibling.path("m.safetensors")) == content, "the bytes differ")


def test_mount_point_with_files(tool, directory, mount):
    """They are hidden as long as something is mounted there."""
    content, archive = archived(tool, directory)
    mine = write(os.path.join(mount.place(), "mine"), b"mine")
    mounted = mount(archive)
    check(os.listdir(mounted.place) == ["m.safetensors"], "names")
    mounted.unmount()
    check(read(mine) == b"mine", "the hidden file")


def test_mounts_on_each_other(tool, directory, mount):
    """The last one is shown, and unmounted first."""
    one, first = archived(tool, directory, 1, "one")
    two, second = archived(tool, directory, 2, "two")
    below, above = mount(first), None
    tool.run("mount", second, below.place, more_environment={PLACE: below.place}).expect(0)
    above = next(server for server in servers_of(below.place) if server != below.server)
    check(read(below.path("two")) == two, "the upper one")
    tool.run("unmount", below.place).expect(0)
    wait_for(lambda: not is_alive(above), "the upper one ends")
    check(read(below.path("one")) == one, "the lower one")
    below.unmount()
    check_free(below.place)


def test_usage(tool, directory, mount):
    _, archive = archived(tool, directory)
    place = mount.place()
    for arguments in ((), (archive,), (archive, place, place), (archive, place, "--idle", "0"),
                      (archive, place, "--idle", "x"), (archive, place, "--cache", "0"), (archive, place, "--cache=1G"),
                      (archive, place, "-j", "257"), (archive, place, "-o", "x"), (archive, place, "--bad"),
                      (archive, place, "--base", ""), (archive, place, "--base", archive, "--base-dir"),
                      (archive, place, "--allow-other=x"), (archive, place, "-c"), (archive, place, "--idle"),
                      ("-", place), (archive, "")):
        check(mount.call("mount", *arguments).status in (2, 3), "accepted: %s" % (arguments,))
    mount.call("mount", archive, place, "--force").expect(2, "mount has no option --force")
    mount.call("mount", archive, place, "-f", "--force").expect(2, "mount has no option --force")
    mount.call("mount", archive, place, "--force", "--foreground").expect(2, "mount has no option --force")
    tool.run("convert", "--foreground", archive).expect(2, "convert has no option --foreground")
    tool.run("convert", "--force", "--foreground", archive).expect(2, "convert has no option --foreground")
    tool.run("verify", "-f", archive).expect(2, "verify has no option --force")
    tool.run("-t", "-f", archive).expect(0)
    for arguments in ((), (place, place), (place, "-f"), (place, "-j1"), ("--idle=1", place)):
        tool.run("unmount", *arguments).expect(2)
    check_free(place)


# ---- ends ----

def test_unmount_of_what_is_no_mount(tool, directory, mount):
    place = mount.place()
    for path in (place, os.path.join(directory, "absent"), write(os.path.join(directory, "file"), b""), "/proc", "/"):
        tool.run("unmount", path).expect(2, "nothing is mounted there by lmc-st")
    content, archive = archived(tool, directory)
    os.mkdir(os.path.join(place, "m"))
    mounted = mount(archive)
    tool.run("unmount", mounted.path("m.safetensors")).expect(2, "nothing is mounted there")
    check(read(mounted.path("m.safetensors")) == content, "it is mounted still")


@pytest.mark.parametrize("how", ["file", "folder", "map"])
def test_busy_mount(tool, directory, mount, how):
    """What is in use stays mounted, and readable."""
    content, archive = archived(tool, directory)
    mounted = mount(archive)
    if how == "folder":
        held = os.open(mounted.place, os.O_RDONLY)
    else:
        held = os.open(mounted.path("m.safetensors"), os.O_RDONLY)
    tool.run("unmount", mounted.place).expect(3, mounted.place, "busy")
    check(is_alive(mounted.server) and read(mounted.path("m.safetensors")) == content, "it has ended")
    os.close(held)
    mounted.unmount()
    check_free(mounted.place)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("where", ["background", "foreground"])
def test_signals(tool, directory, mount, number, where):
    """A signal ends the server, also while files are open; these cannot be read any more."""
    content, archive = archived(tool, directory)
    before = signal.signal(number, signal.SIG_DFL)  # it may be ignored here, and what is ignored is inherited
    mounted = mount(archive) if where == "background" else mount.foreground(archive)
    signal.signal(number, before)
    file = os.open(mounted.path("m.safetensors"), os.O_RDONLY)
    check(os.pread(file, 100, 0) == content[:100], "the bytes differ")
    mounted.signal(number)
    check(mounted.wait_for_end() == "", "a message")
    check_free(mounted.place)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    fails(GONE, lambda: os.pread(file, 100, 0))
    with contextlib.suppress(OSError):  # closing it may say so, too
        os.close(file)
    check(where == "background" or mounted.process.returncode == 0, "exit status")


@pytest.mark.parametrize("how", ["lmc-st", "fusermount3"])
def test_killed_server(tool, directory, mount, how):
    """It leaves a dead mount, which can be unmounted and used again."""
    content, archive = archived(tool, directory)
    mounted = mount(archive)
    check(read(mounted.path("m.safetensors")) == content, "the bytes differ")
    mounted.signal(signal.SIGKILL)
    mounted.wait_for_end()
    fails(GONE, lambda: os.listdir(mounted.place))
    if how == "lmc-st":
        tool.run("unmount", mounted.place + "/").expect(0)
    else:
        subprocess.run(["fusermount3", "-u", mounted.place], check=True)
    check_free(mounted.place)
    again = mount(archive)
    check(read(again.path("m.safetensors")) == content, "the bytes differ")


@pytest.mark.parametrize("is_read", [False, True], ids=["new", "used"])
def test_stopped_server(tool, directory, mount, is_read):
    """A server that does not answer can be unmounted."""
    content, archive = archived(tool, directory)
    mounted = mount(archive)
    check(not is_read or read(mounted.path("m.safetensors")) == content, "the bytes differ")
    mounted.signal(signal.SIGSTOP)
    tool.run("unmount", mounted.place).expect(0)
    check_free(mounted.place)
    mounted.signal(signal.SIGCONT)
    mounted.wait_for_end()


def test_idle(tool, directory, mount):
    """It unmounts itself, but not while a file is open."""
    content, archive = archived(tool, directory)
    mounted = mount(archive, "--idle=1")
    with open(mounted.path("m.safetensors"), "rb") as file:
        for at in range(3):  # seconds
            time.sleep(1)
            check(os.pread(file.fileno(), 100, at * 100) == content[at * 100:at * 100 + 100], "the bytes differ")
    mounted.wait_for_end()
    check_free(mounted.place)


def test_idle_of_what_is_in_use(tool, directory, mount):
    """A working directory keeps it mounted."""
    _, archive = archived(tool, directory)
    mounted = mount.foreground(archive, "--idle=1")
    held = os.open(mounted.place, os.O_RDONLY)
    for _ in range(3):
        time.sleep(1)
    check(is_alive(mounted.server), "it has ended")
    check(os.listdir(held) == ["m.safetensors"], "names")
    os.close(held)
    check(mounted.wait_for_end() == "" and mounted.process.returncode == 0, "a fault")
    check_free(mounted.place)


def test_bench(build, directory, mount):
    """bench/mount.py runs, and compares all bytes. Speeds are not judged."""
    path = os.path.join(directory, "numbers.json")
    bench = os.path.join(ROOT, "bench", "mount.py")
    done = subprocess.run([sys.executable, bench, build, "--mib", "8", "--rounds", "1", "--json", path],
                          capture_output=True, text=True, timeout=300)
    check(done.returncode == 0, done.stderr[-2000:])
    found = json.loads(read(path))
    check(found["archive_nbytes"] < 0.67 * found["nbytes"], "ratio: %s" % found)
    check(min(value for key, value in found.items() if key.endswith("_s")) > 0, "times: %s" % found)
