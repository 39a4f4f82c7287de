"""lmc-st mount: the files that are shown, their bytes, and that they can only be read."""
import errno
import mmap
import os
import random
import shutil
import threading

import pytest

import runs
import stores
from bases import first_snapshot, make_chain, next_snapshot, of_chain, write_model
from mounted import KINDS, archive_kind, check_restored, check_shows, check_shows_file, fails, restored, wait_for
from support import Archive, check, flip, model, parse, read, weights, write
from test_checkpoints import checkpoint
from trees import model_tree, remove, shard, small_tree

pytestmark = pytest.mark.posix("file systems of processes")


# ---- what is shown ----

@pytest.mark.parametrize("name", KINDS)
def test_every_kind(tool, directory, mount, name):
    """A single archive: a folder with its original alone."""
    path = archive_kind(tool, directory, name)
    place = mount(path + ".lmc").place
    check(os.listdir(place) == [name], "names: %s" % os.listdir(place))
    check_shows_file(os.path.join(place, name), path)
    check_shows_file(os.path.join(place, name), restored(tool, directory, "restore", path + ".lmc"))
    status = os.stat(place)
    check(status.st_mode & 0o777 == 0o550, "mode of the folder: %o" % status.st_mode)
    check(status.st_mtime_ns == os.stat(path).st_mtime_ns, "time of the folder")


def test_archive_of_another_name(tool, directory, mount):
    """One that is not named .lmc is shown by its own name."""
    path = archive_kind(tool, directory, "m.npy")
    other = os.path.join(directory, "other name")
    os.rename(path + ".lmc", other)
    check_shows_file(mount(other).path("other name"), path)


@pytest.mark.parametrize("make", [model_tree, checkpoint, small_tree])
def test_converted_directory(tool, directory, mount, make):
    source = make(os.path.join(directory, "c"))
    os.symlink("config.json" if make != checkpoint else "latest", os.path.join(source, "a link"))
    tool.run("convert", source).expect(0)
    os.symlink("a link", os.path.join(source + ".lmc", "another link"))
    place = mount(source + ".lmc").place
    check_restored(tool, directory, place, "restore", source + ".lmc")
    check("another link" in os.listdir(place), "links to files are files")
    if make == model_tree:
        remove(source)
        remove(source + ".lmc")


def test_converted_directory_of_another_name(tool, directory, mount):
    """Its list of copies tells what it is."""
    source = model_tree(os.path.join(directory, "c"))
    tool.run("convert", source).expect(0)
    os.rename(source + ".lmc", os.path.join(directory, "d"))
    check_shows(mount(os.path.join(directory, "d")).place, source)
    remove(source)
    remove(os.path.join(directory, "d"))


def test_folder(tool, directory, mount):
    """Archives, converted directories, plain files, and folders of these. A name that is taken keeps its suffix."""
    source, wanted = os.path.join(directory, "source"), os.path.join(directory, "wanted")
    for root in (source, wanted):
        os.makedirs(os.path.join(root, "sub", "empty"))
        for i, name in enumerate(("a.safetensors", "b.safetensors", "sub/c.safetensors")):
            write(os.path.join(root, name), shard(i + 1))
            os.utime(os.path.join(root, name), ns=(0, 10**18 + i * 86_400_123_456_789))
        small_tree(os.path.join(root, "model"))
        small_tree(os.path.join(root, "sub", "model"))
        write(os.path.join(root, "note.txt"), b"a plain file")
        os.utime(os.path.join(root, "note.txt"), ns=(0, 10**18))
    for name in ("a.safetensors", "sub/c.safetensors", "model", "sub/model"):
        tool.run("convert", "--rm", os.path.join(source, name)).expect(0)
    tool.run("convert", os.path.join(source, "b.safetensors")).expect(0)  # its name is taken by itself
    shutil.copy2(os.path.join(wanted, "b.safetensors"), os.path.join(wanted, "b.safetensors.lmc"))
    for name in ("", "sub", "sub/empty", "model", "model/sub", "sub/model", "sub/model/sub"):
        os.utime(os.path.join(wanted, name), ns=(0, 10**18))
        place = os.path.join(source, name)
        os.utime(place if os.path.exists(place) else place.replace("model", "model.lmc"), ns=(0, 10**18))
    for folder in ("model", "sub/model"):
        for name in ("a.safetensors.lmc", "sub/b.safetensors.lmc", "config.json"):
            os.utime(os.path.join(source, folder + ".lmc", name), ns=(0, 10**18))
            os.utime(os.path.join(wanted, folder, name.replace(".lmc", "")), ns=(0, 10**18))
    check_shows(mount(source).place, wanted)


@pytest.mark.parametrize("make", [runs.snapshots, runs.checkpoints], ids=["files", "directories"])
def test_run(tool, directory, mount, make):
    """Steps that are added later are shown, too, those that are dropped vanish."""
    run, made = runs.added(tool, directory, make, 3)
    place = mount(run).place

    def check_steps(*steps):
        check(sorted(map(int, os.listdir(place))) == sorted(steps), "steps: %s" % os.listdir(place))
        for step in steps:
            check_restored(tool, directory, os.path.join(place, str(step)), "run", "restore", run, str(step))
    check_steps(*made)
    more = make(os.path.join(directory, "more"), 5)
    new = sorted(set(more) - set(made))
    tool.run("run", "add", run, *(more[step] for step in new)).expect(0)
    check_steps(*made, *new)
    tool.run("run", "drop", run, str(min(made)), str(new[0])).expect(0)
    check_steps(*sorted(made)[1:], new[1])
    for step in (min(made), new[0]):
        wait_for(lambda: not os.path.exists(os.path.join(place, str(step))), "step %d vanishes" % step)


def test_store(tool, directory, mount):
    store, made = stores.family(tool, directory)
    base = stores.llm()
    made["org/model@1"] = stores.write_directory(os.path.join(directory, "made"), "m1", stores.tuned(base, 3))
    stores.add(tool, store, made["org/model@1"], name="org/model@1")
    place = mount(store).place

    def check_models():
        for name in made:
            check_restored(tool, directory, os.path.join(place, name), "store", "restore", store, name)
        check(sorted(os.listdir(place)) == sorted({name.split("/")[0] for name in made}), str(os.listdir(place)))
    check_models()
    made["org/sub/late"] = stores.write_file(os.path.join(directory, "made"), "late", stores.tuned(base, 5))
    made["org/late"] = made["org/model@1"]
    for name in ("org/sub/late", "org/late"):
        stores.add(tool, store, made[name], name=name)
    check_models()
    tool.run("store", "drop", store, "org/late", "base").expect(0)
    del made["org/late"], made["base"]
    check_models()
    check(sorted(os.listdir(os.path.join(place, "org"))) == ["model@1", "sub"], "org/late was dropped")


def test_names_that_meet(tool, directory, mount):
    """Each archive is shown, whichever names are taken; by the same name each time."""
    path = archive_kind(tool, directory, "m.npy")
    source = mount.place("source")
    write(os.path.join(source, "x"), b"plain")
    for name in ("x.lmc.lmc.lmc", "x.lmc", "y.lmc.lmc", "y.lmc", "x.lmc.lmc"):
        shutil.copy2(path + ".lmc", os.path.join(source, name))
        mounted = mount(source)
        names = sorted(os.listdir(mounted.place))
        check(len(names) == len(os.listdir(source)), "names: %s" % names)
        for shown in set(names) - {"x"}:
            check_shows_file(mounted.path(shown), path)
        mounted.unmount()
    check(names == ["x", "x.lmc", "x.lmc.lmc", "x.lmc.lmc.lmc", "y", "y.lmc"], "names: %s" % names)


def test_names_of_a_run_in_other_folders(tool, directory, mount):
    """Files that are named as those of a run or a store are shown where there is none."""
    path = archive_kind(tool, directory, "m.npy")
    source = os.path.join(directory, "source")
    os.mkdir(source)
    os.rename(path + ".lmc", os.path.join(source, "m.npy.lmc"))
    for name in ("run.json", "store.json", "index.sqlite", "index.sqlite.txt"):
        write(os.path.join(source, name), b'{"mine":1}')
    names = os.listdir(mount(source).place)
    check(sorted(names) == ["index.sqlite", "index.sqlite.txt", "m.npy", "run.json", "store.json"], str(names))


# ---- bases ----

def test_chain(tool, directory, mount):
    """Archives that are based on each other, in one folder; one of them alone."""
    contents = make_chain(tool, directory, 4)
    place = mount.place("all")
    source = os.path.join(directory, "chain")
    os.mkdir(source)
    for i in range(5):
        os.rename(of_chain(directory, i), of_chain(source, i))
    mount(source, place=place)
    for i in (4, 0, 2, 1, 3):
        check(read(os.path.join(place, "s%d.safetensors" % i)) == contents[i], "archive %d" % i)
    one = mount(of_chain(source, 3), place=mount.place("one"))
    check(read(one.path("s3.safetensors")) == contents[3], "one archive")


@pytest.mark.parametrize("how", ["--base", "--base-dir", "archive"])
def test_base_elsewhere(tool, directory, mount, how):
    tensors = first_snapshot()
    old = write_model(mount.place("bases"), "old.safetensors", tensors)
    new = write_model(mount.place("source"), "new.safetensors", next_snapshot(tensors, 2))
    content = read(new)
    tool.run("convert", "--rm", new, "--base", old).expect(0)
    if how == "archive":
        tool.run("convert", "--rm", old).expect(0)
    options = {"--base": ("--base", "bases/old.safetensors"), "--base-dir": ("--base-dir=bases",),
               "archive": ("--base", "bases/old.safetensors.lmc")}[how]
    mount.place()
    mount("source/new.safetensors.lmc", *options, place="mnt", cwd=directory)
    check(read(os.path.join(directory, "mnt/new.safetensors")) == content, "the bytes differ")


def test_base_directories(tool, directory, mount):
    """A converted directory against another."""
    old = checkpoint(os.path.join(directory, "old"))
    new = checkpoint(os.path.join(directory, "new"), nudged=20)
    tool.run("convert", new, "--base", old).expect(0)
    os.mkdir(os.path.join(directory, "elsewhere"))
    os.rename(old, os.path.join(directory, "elsewhere", "old"))
    old = os.path.join(directory, "elsewhere", "old")
    for options in (("--base", old), ("--base-dir", old)):
        mounted = mount(new + ".lmc", *options)
        check_shows(mounted.place, new, str(options))
        mounted.unmount()


def test_missing_base(tool, directory, mount):
    """Only the archive that needs it cannot be read, and the message names the base."""
    tensors = first_snapshot()
    source = mount.place("source")
    old = write_model(directory, "old.safetensors", tensors)
    new = write_model(source, "new.safetensors", next_snapshot(tensors, 2))
    alone = write_model(source, "alone.safetensors", tensors)
    content, size = read(alone), os.path.getsize(new)
    tool.run("convert", "--rm", new, "--base", old).expect(0)
    tool.run("convert", "--rm", alone).expect(0)
    os.unlink(old)
    mounted = mount.foreground(source)
    check(sorted(os.listdir(mounted.place)) == ["alone.safetensors", "new.safetensors"], "names")
    check(os.path.getsize(mounted.path("new.safetensors")) == size, "the size is known")
    fails(errno.EIO, lambda: read(mounted.path("new.safetensors")))
    check(read(mounted.path("alone.safetensors")) == content, "the other file")
    told = mounted.unmount()
    check("new.safetensors.lmc" in told and "old.safetensors" in told, told)


# ---- bytes ----

def large_model(directory, seed=3, piece_count=40):
    """Tensors of several blocks, in coded and stored frames, and small ones between them."""
    rng = random.Random(seed)
    piece = weights(rng, 1 << 17)
    tensors = []
    for i in range(4):
        content = b"".join(piece[-k:] + piece[:-k] for k in (2 * rng.randrange(1, 1000)
                                                              for _ in range(piece_count // 8)))
        tensors.append(("large.%d" % i, "BF16", [len(content) // 2], content))
        tensors += [("small.%d.%d" % (i, k), "F32", [200], rng.randbytes(800)) for k in range(30)]
        tensors.append(("noise.%d" % i, "U8", [500_000], rng.randbytes(500_000)))
    return write(os.path.join(directory, "large.safetensors"), model(tensors, {"format": "pt"}))


def large_archive(tool, directory, *options):
    """The content, and the archive."""
    path = large_model(directory)
    content = read(path)
    tool.run("convert", "--rm", path, *options).expect(0)
    return content, path + ".lmc"


@pytest.mark.parametrize("options", [(), ("-j1", "--cache=1")], ids=["default", "little memory"])
def test_random_ranges(tool, directory, mount, options):
    """By several readers at once, who do not find each page in the system's memory."""
    content, archive = large_archive(tool, directory)
    path = mount(archive, *options).path("large.safetensors")
    faults = []

    def read_ranges(seed):
        rng = random.Random(seed)
        file = os.open(path, os.O_RDONLY)
        for i in range(2500):
            at = rng.randrange(len(content))
            nbytes = min(int(rng.expovariate(1 / 20000)) + 1, len(content) - at)
            if i % 50 == 0:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            if os.pread(file, nbytes, at) != content[at:at + nbytes]:
                faults.append((at, nbytes))
        os.close(file)
    readers = [threading.Thread(target=read_ranges, args=(seed,)) for seed in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    check(not faults, "%d ranges differ: %s" % (len(faults), faults[:5]))
    check(read(path) == content, "the whole file")
    with open(path, "rb") as file:
        check(os.pread(file.fileno(), 100, len(content)) == b"" and
              os.pread(file.fileno(), 100, len(content) - 3) == content[-3:], "at the end")


def test_memory_map(tool, directory, mount):
    content, archive = large_archive(tool, directory)
    rng = random.Random(5)
    with open(mount(archive).path("large.safetensors"), "rb") as file:
        for flags in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
            with mmap.mmap(file.fileno(), 0, flags=flags, prot=mmap.PROT_READ) as mapped:
                for _ in range(2000):
                    at = rng.randrange(len(content))
                    check(mapped[at:at + 5000] == content[at:at + 5000], "bytes at %d" % at)
                check(mapped[:] == content, "all bytes")
        fails(errno.EACCES, lambda: mmap.mmap(file.fileno(), 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_WRITE))


def test_many_opens(tool, directory, mount):
    path = archive_kind(tool, directory, "m.pt")
    content = read(path)
    mounted = mount(path + ".lmc")

    def descriptors():
        return len(os.listdir("/proc/%d/fd" % mounted.server))
    check(read(mounted.path("m.pt")) == content, "the first time")
    before = descriptors()
    rng = random.Random(4)
    for _ in range(500):
        with open(mounted.path("m.pt"), "rb") as file:
            file.seek(rng.randrange(len(content)))
            at = file.tell()
            check(file.read(10) == content[at:at + 10], "bytes at %d" % at)
    files = [open(mounted.path("m.pt"), "rb") for _ in range(100)]
    check(all(file.read() == content for file in files), "many at once")
    for file in files:
        file.close()
    wait_for(lambda: descriptors() <= before, "all files are closed")


def overwrite(path, content):
    """In place, so that a file that is open is the same; its time stays."""
    status = os.stat(path)
    with open(path, "r+b") as file:
        file.write(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_system_keeps_what_was_read(tool, directory, mount):
    """Pages that were read stay when the file is closed: the archive is not needed for them. The system may drop some
    when it likes, but hardly three times in a row."""
    content, archive = large_archive(tool, directory)
    path = mount(archive).path("large.safetensors")
    stored = read(archive)
    for attempts_left in (2, 1, 0):
        check(read(path) == content, "the bytes differ")
        with open(path, "rb") as file:
            overwrite(archive, stored[:4000] + bytes(len(stored) - 4000))
            try:
                check(file.read() == content, "the bytes differ")
                break
            except OSError:
                if attempts_left == 0:
                    raise
        overwrite(archive, stored)


# ---- only to be read ----

def test_nothing_can_be_changed(tool, directory, mount):
    source = small_tree(os.path.join(directory, "c"))
    tool.run("convert", source).expect(0)
    place = mount(source + ".lmc").place
    file, other = os.path.join(place, "a.safetensors"), os.path.join(place, "new")
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND):
        fails((errno.EROFS, errno.EACCES), lambda: os.open(file, flags))
    for call in (lambda: os.open(other, os.O_CREAT | os.O_WRONLY), lambda: os.unlink(file), lambda: os.mkdir(other),
                 lambda: os.rmdir(os.path.join(place, "sub")), lambda: os.rename(file, other),
                 lambda: os.rename(file, os.path.join(place, "config.json")), lambda: os.chmod(file, 0o644),
                 lambda: os.chown(file, 1, 1), lambda: os.utime(file), lambda: os.truncate(file, 0),
                 lambda: os.link(file, other), lambda: os.symlink("x", other), lambda: os.mkfifo(other),
                 lambda: os.setxattr(file, "user.x", b"1"), lambda: os.chmod(place, 0o700)):
        fails((errno.EROFS, errno.EACCES), call)
    check_shows(place, source)


# ---- damage ----

def part_of(content, name):
    """The bytes of a tensor."""
    return next(part for found, _, _, part in parse(content)[1] if found == name)


def middle_of(archive, name):
    """The place of a byte in the midst of what the archive stores of the tensor."""
    parts = Archive(read(archive))
    content = parts.part(name)[1]
    return read(archive).index(content) + len(content) // 2


@pytest.mark.parametrize("options", [(), ("--cache=1", "-j1")], ids=["default", "little memory"])
def test_damage(tool, directory, mount, options):
    """What needs the damaged block fails; other bytes of the file, and other files, are right."""
    source = mount.place("source")
    content, archive = large_archive(tool, source)
    other = archive_kind(tool, source, "m.pt")
    flip(archive, middle_of(archive, "large.1"))
    begin = content.index(part_of(content, "large.1"))
    nbytes = len(part_of(content, "large.1"))
    mounted = mount.foreground(source, *options)
    path = mounted.path("large.safetensors")
    fails(errno.EIO, lambda: read(path))
    bad = []
    with open(path, "rb") as file:
        for at in range(0, len(content), 4096):
            try:
                found = os.pread(file.fileno(), 4096, at)
                check(found == content[at:at + 4096], "wrong bytes at %d" % at)
            except OSError as error:
                check(error.errno == errno.EIO, str(error))
                bad.append(at)
    check(bad and begin <= bad[0] + 4095 and bad[-1] < begin + nbytes, "%d pages fail, from %s" % (len(bad), bad[:1]))
    check(bad[-1] - bad[0] < nbytes // 2, "more than the block fails: %d to %d" % (bad[0], bad[-1]))
    check_shows_file(mounted.path("m.pt"), other)
    told = mounted.unmount().splitlines()
    check(1 <= len(told) <= 2 and len(bad) > 8, "%d lines: %s" % (len(told), told[:3]))  # a line for each open
    for line in told:
        check(line.startswith("lmc-st: ") and archive in line and '"large.1"' in line and "block" in line, line)


def test_damage_of_each_part(tool, directory, mount):
    """Wherever a bit is flipped: the right bytes or an error, never others."""
    path = archive_kind(tool, directory, "m.pt")
    content, archived = read(path), read(path + ".lmc")
    source = mount.place("source")
    rng = random.Random(2)
    for i in range(40):
        at = rng.randrange(len(archived))
        flip(write(os.path.join(source, "%d.pt.lmc" % i), archived), at, 1 << rng.randrange(8))
    mounted = mount(source)
    read_count = 0
    for i in range(40):
        try:
            check(read(mounted.path("%d.pt" % i)) == content, "other bytes of %d" % i)
            read_count += 1
        except OSError as error:
            check(error.errno == errno.EIO, str(error))
    check(read_count < 20, "damage that nobody notices: %d" % read_count)


def test_what_is_no_archive(tool, directory, mount):
    """A truncated archive, a file that is only named as one, an empty one: each is listed, and cannot be opened."""
    source = mount.place("source")
    path = archive_kind(tool, source, "m.pt")
    archived = read(path + ".lmc")
    for name, content in {"cut.pt.lmc": archived[:-1000], "head.pt.lmc": archived[:100], "text.lmc": b"no archive",
                          "empty.lmc": b"", "plain.lmc": shard(1)}.items():
        write(os.path.join(source, name), content)
    mounted = mount.foreground(source)
    names = ["cut.pt", "empty", "head.pt", "m.pt", "m.pt.lmc", "plain", "text"]
    check(sorted(os.listdir(mounted.place)) == names, "names: %s" % os.listdir(mounted.place))
    for name in 2 * ("cut.pt", "empty", "head.pt", "plain", "text"):
        fails(errno.EIO, lambda: read(mounted.path(name)))
    for name in ("m.pt", "m.pt.lmc"):
        check_shows_file(mounted.path(name), path)
    told = mounted.unmount()
    for name in ("cut.pt.lmc", "head.pt.lmc", "text.lmc", "empty.lmc", "plain.lmc"):
        check(told.count(name + ": ") == 1, "%s is not named once: %s" % (name, told))
