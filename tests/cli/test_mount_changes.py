"""lmc-st mount while its source changes; names, links, permissions, many files, memory."""
import errno
import os
import random
import resource
import shutil
import signal
import subprocess

import pytest

import runs
from mounted import archive_kind, archived, check_shows, escaped, fails, is_mounted, wait_for
from mounts import open_to_all, with_small_disk
from support import archive_of, check, check_no_controls, left_out, model, read, weights, write
from trees import shard, small_tree, snapshot
from users import as_nobody

pytestmark = pytest.mark.posix("file systems of processes")


def replace(path, content):
    """Gives a file another content in one step."""
    os.rename(write(path + ".new", content), path)


# ---- changes ----

def test_archive_is_replaced(tool, directory, mount):
    """Whoever has it open keeps the old bytes; a new open gives the new ones."""
    source = mount.place("source")
    old, archive = archived(tool, source)
    mounted = mount(source)
    path = mounted.path("m.safetensors")
    for seed in range(2, 6):
        new = model([("t", "BF16", [50 * seed], weights(random.Random(seed), 50 * seed))])
        fresh = archive_of(tool, write(os.path.join(directory, "fresh"), new))
        with open(path, "rb") as file:
            check(file.read(1000) == old[:1000], "the bytes differ")
            os.rename(fresh, archive)
            with open(path, "rb") as again:
                check(again.read() == new, "a new open gives other bytes than the new ones")
                check(os.fstat(again.fileno()).st_size == len(new), "size")
                check(os.fstat(again.fileno()).st_mtime_ns == os.stat(archive).st_mtime_ns, "time")
            file.seek(0)
            check(file.read() == old and os.fstat(file.fileno()).st_size == len(old), "who has it open")
        old = new
    wait_for(lambda: os.path.getsize(path) == len(old), "the name has the new size")


def test_archive_is_removed(tool, directory, mount):
    source = mount.place("source")
    content, archive = archived(tool, source)
    mounted = mount(source)
    with open(mounted.path("m.safetensors"), "rb") as file:
        os.unlink(archive)
        check(os.listdir(mounted.place) == [], "names")
        fails(errno.ENOENT, lambda: open(mounted.path("m.safetensors"), "rb"))
        check(file.read() == content, "the bytes differ")
    replace(archive, read(archived(tool, directory, 2)[1]))
    check(read(mounted.path("m.safetensors")) == shard(2), "a new one of this name")


def test_plain_file_changes(tool, directory, mount):
    """In place, too."""
    source = mount.place("source")
    plain = write(os.path.join(source, "plain"), b"first")
    mounted = mount(source)
    for content in (b"second, longer", b"3rd", b"four"):
        check(read(mounted.path("plain")), "it can be read")
        write(plain, content)
        check(read(mounted.path("plain")) == content, "a new open")


def test_directory_is_replaced(tool, directory, mount):
    """The source itself, by convert -f; what is open stays readable."""
    source = small_tree(os.path.join(directory, "c"))
    tool.run("convert", source).expect(0)
    mounted = mount(source + ".lmc")
    check_shows(mounted.place, source)
    for i in range(3):
        with open(mounted.path("sub", "b.safetensors"), "rb") as file:
            old = read(os.path.join(source, "sub", "b.safetensors"))
            write(os.path.join(source, "sub", "b.safetensors"), shard(10 + i))
            write(os.path.join(source, "sub", "new%d" % i), b"one more")
            os.path.exists(os.path.join(source, "config.json")) and os.unlink(os.path.join(source, "config.json"))
            tool.run("convert", "-f", source).expect(0)
            check(file.read() == old, "what was open")
        wait_for(lambda: not os.path.exists(mounted.path("config.json")), "config.json vanishes")
        for name in ("sub/b.safetensors", "sub/new%d" % i, "a.safetensors"):
            check(read(mounted.path(name)) == read(os.path.join(source, name)), name)
        wait_for(lambda: sorted(snapshot(mounted.place)) == sorted(snapshot(source)), "the names are the new ones")
    wait_for(lambda: os.stat(mounted.path("sub")).st_mtime_ns == os.stat(os.path.join(source, "sub")).st_mtime_ns,
             "the folder has its new time")


def test_names_come_and_go(tool, directory, mount):
    """Folder and file take each other's name; so do archive and plain file."""
    source = mount.place("source")
    mounted = mount(source)
    content, archive = archived(tool, directory, name="x")
    for _ in range(3):
        os.mkdir(os.path.join(source, "x"))
        write(os.path.join(source, "x", "inner"), b"inner")
        wait_for(lambda: os.path.isdir(mounted.path("x")), "x is a folder")
        check(read(mounted.path("x", "inner")) == b"inner", "a folder")
        shutil.copy(archive, os.path.join(source, "x.lmc"))
        check(read(mounted.path("x.lmc")) == content and read(mounted.path("x", "inner")) == b"inner", "both")
        shutil.rmtree(os.path.join(source, "x"))
        wait_for(lambda: os.path.isfile(mounted.path("x")), "x is the archive's original")
        check(read(mounted.path("x")) == content, "an archive")
        os.unlink(os.path.join(source, "x.lmc"))
        write(os.path.join(source, "x"), b"plain")
        check(read(mounted.path("x")) == b"plain", "a plain file")
        os.unlink(os.path.join(source, "x"))
        check(os.listdir(mounted.place) == [], "names")


def test_each_change_is_seen(tool, directory, mount):
    """Also one right after a list, which the time of the folder may not tell."""
    source = mount.place("source")
    mounted = mount(source)
    for i in range(300):
        write(os.path.join(source, "%03d" % i), b"")
        check(len(os.listdir(mounted.place)) == i + 1, "file %d" % i)
    status = os.stat(mounted.place)
    check(status.st_nlink == 1, "programs would take the number of links for that of folders")
    wait_for(lambda: os.stat(mounted.place).st_mtime_ns == os.stat(source).st_mtime_ns, "the folder has its new time")


def test_directory_takes_the_place_of_an_earlier_one(tool, directory, mount):
    """Whose inode it may have, and whose time it has."""
    source = small_tree(os.path.join(directory, "c"))
    tool.run("convert", source).expect(0)
    times = os.stat(source).st_mtime_ns
    mounted = mount(source + ".lmc")
    for i in range(4):
        check(sorted(os.listdir(mounted.place)) == sorted(os.listdir(source)), "%s" % os.listdir(mounted.place))
        for k in range(2):
            write(os.path.join(source, "more%d%d" % (i, k)), b"")
            os.utime(source, ns=(times, times))
            tool.run("convert", "-f", source).expect(0)


def test_run_in_use(tool, directory, mount):
    """Steps that are added one by one are there at once."""
    run = runs.place(directory)
    made = runs.snapshots(os.path.join(directory, "made"), 8)
    first, *others = sorted(made)
    tool.run("run", "add", run, made[first]).expect(0)
    mounted = mount(run)
    for i, step in enumerate(others):
        check(sorted(map(int, os.listdir(mounted.place))) == sorted(made)[:i + 1], "the steps before")
        tool.run("run", "add", run, made[step]).expect(0)
        name, = os.listdir(mounted.path(str(step)))
        check(read(mounted.path(str(step), name)) == read(made[step]), "step %d" % step)


# ---- links ----

def test_links_in_folders(tool, directory, mount):
    """Links to files and folders stand for these; a link to a folder that it is in is not shown, nor is one into the
    mount, which would wait for itself."""
    source = mount.place("source")
    content, archive = archived(tool, mount.place("other"))
    os.mkdir(os.path.join(source, "sub"))
    for name, target in {"m.lmc": archive, "up": "..", "self": ".", "sub/up": "..", "folder": "../other",
                         "dead": "nowhere", "loop": "loop", "sub/round": "../../source/sub",
                         "mnt": "../mnt", "mnt.lmc": "../mnt", "in mnt": "../mnt/m", "by link": "mnt/m"}.items():
        os.symlink(target, os.path.join(source, name))
    mounted = mount(source)
    found = snapshot(mounted.place)
    check(sorted(found) == [".", "folder", "folder/m.safetensors", "m", "sub"], "names: %s" % sorted(found))
    check(found["m"][3] == content and found["folder/m.safetensors"][3] == content, "the bytes differ")
    mounted.unmount()


def test_server_that_waits_for_itself(tool, directory, mount):
    """A link into the mount that it has to follow: a signal ends it, and with it those who ask."""
    source = small_tree(os.path.join(directory, "c"))
    tool.run("convert", source).expect(0)
    mounted = mount(source + ".lmc")
    os.symlink("../mnt/sub/b.safetensors", os.path.join(source + ".lmc", "link"))
    lists = [subprocess.Popen(["ls", "-l", mounted.place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
             for _ in range(4)]
    wait_for(lambda: all(process.poll() is not None or is_asking(process) for process in lists), "they ask")
    mounted.signal(signal.SIGTERM)
    mounted.wait_for_end()
    for process in lists:
        process.wait()
    check(not is_mounted(mounted.place), "it is mounted still")


def is_asking(process):
    """1 if the process waits for something."""
    return read("/proc/%d/stat" % process.pid).rsplit(b")", 1)[1].split()[0] in (b"S", b"D")


def test_link_is_turned(tool, directory, mount):
    """What it leads to now is shown: the present one of several versions."""
    source = mount.place("source")
    versions = [archived(tool, mount.place("v%d" % i), i) for i in range(1, 4)]
    link = os.path.join(source, "m.lmc")
    os.symlink(versions[0][1], link)
    mounted = mount(source)
    for content, archive in versions:
        os.symlink(archive, link + ".new")
        os.rename(link + ".new", link)
        check(read(mounted.path("m")) == content, "the bytes differ")


# ---- names ----

NAMES = ["\u00e4 \u65e5\u672c.safetensors", "a,b\\c,.safetensors", "new\nline\t.safetensors", " x ", "%s%n", "-o",
         "x\\040y", "fsname=x,allow_other", "\udcff\udcfe.bin", "\u202e\x1b[31m", "n" * 251, "a:b#c\"'`$(x)"]


@pytest.mark.parametrize("name", NAMES, ids=[ascii(name)[:12] for name in NAMES])
def test_names(tool, directory, mount, name):
    """Of the file, of the source that the list of mounts has, and of the mount point."""
    content, archive = archived(tool, mount.place("source/" + name), name=name[:247])
    for source in (archive, os.path.dirname(archive)):
        mounted = mount(source, place=mount.place("mnt/" + name))
        check(os.listdir(mounted.place) == [name[:247]], "names: %s" % os.listdir(mounted.place))
        check(read(mounted.path(name[:247])) == content, "the bytes differ")
        line, = (line for line in read("/proc/self/mountinfo").splitlines()
                 if line.split()[4] == escaped(os.fsencode(mounted.place)))
        kind, label = line.split(b" - ")[1].split()[:2]
        check(kind == b"fuse.lmc" and label == escaped(os.fsencode(source), b"#"), "listed as %s %s" % (kind, label))
        mounted.unmount()


def test_message_of_a_hostile_name(tool, directory, mount):
    """It is a line without control characters."""
    name = "\x1b[31m\n\u202e"
    path = write(os.path.join(mount.place("source"), name + ".lmc"), b"no archive")
    mounted = mount.foreground(os.path.dirname(path))
    fails(errno.EIO, lambda: read(mounted.path(name)))
    told = mounted.unmount()
    check(told.count("\n") == 1 and "\\u001b" in told, told)
    check_no_controls(told)


# ---- permissions and users ----

def by_user(tool, directory, function):
    """Calls function(arguments that run the tool as an ordinary user)."""
    user = as_nobody(tool, directory)

    def inside(disk):
        open_to_all("/dev/fuse", disk)
        function(user)
    if user:
        with_small_disk(directory, "mode=755", inside)
    else:
        function({})


def test_ordinary_user(tool, directory, mount):
    """Whoever may not open /dev/fuse is helped by fusermount3. What the user may not read is shown to be so."""
    source, place = mount.place("source"), mount.place()
    content, archive = archived(tool, source)
    closed = archive_kind(tool, source, "m.npy")
    os.unlink(closed)
    os.chmod(archive, 0o640)
    os.chown(archive, -1, os.getegid())
    os.chmod(closed + ".lmc", 0)
    write(os.path.join(mount.place("source/closed"), "file"), b"x")
    os.chmod(os.path.join(source, "closed"), 0)

    def check_mount(user):
        if user:
            os.chown(place, user["user"], -1)
        mounted = mount.foreground(source, **user)
        for name, mode in (("m.safetensors", "-r--r-----"), ("closed", "d---------"), ("", "dr-xr-xr-x")):
            found = tool_of_user(user, "stat", "-c", "%A %u", mounted.path(name)).decode()
            check(found == "%s %d\n" % (mode, user.get("user", os.geteuid())), "%r: %s" % (name, found))
        check(tool_of_user(user, "cat", mounted.path("m.safetensors")) == content, "the bytes differ")
        for command, name in (("cat", "m.npy"), ("stat", "m.npy"), ("ls", "closed")):
            told = tool_of_user(user, command, mounted.path(name))
            check(b"Permission denied" in told, "%s %s: %s" % (command, name, told))
        if user:
            fails(errno.EACCES, lambda: os.listdir(place))  # it is the user's alone
        tool.run("unmount", place, **user).expect(0)
        told = mounted.wait_for_end()
        check(told.count("\n") == 1 and "m.npy.lmc: " in told and "Permission denied" in told, told)
        others = mount(archive, place=mount.place("others"))
        if user:
            tool.run("unmount", others.place, **user).expect(3, "not permitted")
            check(read(others.path("m.safetensors")) == content, "it is mounted still")
            roots = mount.place("roots")
            mount.fails(3, "cannot mount: fusermount3: ", arguments=(source,), place=roots, **user)
        others.unmount()
    by_user(tool, directory, check_mount)
    os.chmod(os.path.join(source, "closed"), 0o700)


def tool_of_user(user, *command):
    """What a command writes when that user runs it."""
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **user).stdout


# ---- many files, little memory ----

def test_many_files(tool, directory, mount):
    """A thousand archives, all of which are open at once."""
    source = mount.place("source")
    contents = [model([("t", "U8", [100], random.Random(i).randbytes(100))]) for i in range(10)]
    for i, content in enumerate(contents):
        archive = archive_of(tool, write(os.path.join(directory, "x"), content))
        for k in range(100):
            shutil.copy(archive, os.path.join(source, "%03d.safetensors.lmc" % (100 * i + k)))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))  # as most systems have it, of less
    try:
        mounted = mount(source)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if hard < 2100:
        pytest.skip("the limit of open files is %d" % hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    names = sorted(os.listdir(mounted.place))
    check(names == ["%03d.safetensors" % i for i in range(1000)], "%d names" % len(names))
    files = []
    for i, name in enumerate(names):
        files.append(os.open(mounted.path(name), os.O_RDONLY))
        check(os.fstat(files[-1]).st_size == len(contents[i // 100]), "size of " + name)
    for i, file in enumerate(files):
        check(os.pread(file, 10000, 0) == contents[i // 100], "the bytes differ: " + names[i])
        os.close(file)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_memory_is_bounded(tool, directory, mount):
    """By the cache, not by the size of a file."""
    if not tool.limits:
        left_out("sanitizers take memory of their own")
    rng = random.Random(9)
    piece = weights(rng, 1 << 19)
    path = write(os.path.join(directory, "m.safetensors"),
                 model([("t%d" % i, "BF16", [len(piece) * 16 // 2], piece * 16) for i in range(16)]))
    tool.run("convert", "--rm", "--level=fast", path).expect(0)
    mounted = mount(path + ".lmc", "--cache=4", "-j2")
    with open(mounted.path("m.safetensors"), "rb") as file:
        nbytes = 0
        while data := file.read(1 << 20):
            nbytes += len(data)
        size = os.fstat(file.fileno()).st_size
        check(nbytes == size > 1 << 28, "%d bytes" % nbytes)
        for _ in range(200):
            os.pread(file.fileno(), 100, rng.randrange(size))
    check(memory_kib(mounted, "VmHWM") < 64 << 10, "%d KiB" % memory_kib(mounted, "VmHWM"))


def memory_kib(mounted, what):
    return next(int(line.split()[1]) for line in read("/proc/%d/status" % mounted.server).splitlines()
                if line.startswith(what.encode() + b":"))


def test_memory_does_not_grow(tool, directory, mount):
    """What has changed and is used no more is forgotten."""
    if not tool.limits:
        left_out("sanitizers take memory of their own")
    source = mount.place("source")
    plain = write(os.path.join(source, "plain"), b"x")
    mounted = mount(source)

    def change(first, end):
        for i in range(first, end):
            if i % 10 == 0:
                os.unlink(plain)
                write(plain, b"x")
            os.utime(plain, ns=(0, i * 1000))
            with open(mounted.path("plain"), "rb") as file:
                check(os.fstat(file.fileno()).st_mtime_ns == i * 1000, "time")
    change(1, 1000)
    before = memory_kib(mounted, "VmRSS")
    change(1000, 9000)
    check(memory_kib(mounted, "VmRSS") < before + 1024, "%d KiB more" % (memory_kib(mounted, "VmRSS") - before))


def test_memory_does_not_grow_with_folders(tool, directory, mount):
    """Those that vanish, and what is in them, are forgotten."""
    if not tool.limits:
        left_out("sanitizers take memory of their own")
    source = mount.place("source")
    mounted = mount(source)

    def come_and_go(first, end):
        for i in range(first, end):
            folders = [os.path.join(source, "step-%d" % i, name) for name in ("plain", "converted.lmc")]
            for folder in folders:
                os.makedirs(folder)
                for k in range(40):
                    write(os.path.join(folder, "%02d" % k), b"")
            for name in ("plain", "converted"):
                check(len(os.listdir(mounted.path("step-%d" % i, name))) == 40, "names")
            shutil.rmtree(os.path.dirname(folders[0]))
            check(os.listdir(mounted.place) == [], "names")
    come_and_go(0, 50)
    before = memory_kib(mounted, "VmRSS")
    come_and_go(50, 250)
    check(memory_kib(mounted, "VmRSS") < before + 2048, "%d KiB more" % (memory_kib(mounted, "VmRSS") - before))
