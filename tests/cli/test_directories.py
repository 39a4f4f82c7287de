"""Model directories: what comes out, which are refused, where the output may be."""
import json
import os
import socket

import pytest

from support import check, check_only, flip, in_directory, read, small_model, write
from trees import Untouched, check_archived, check_restores, check_same, model_tree, remove, shard, small_tree, snapshot
from users import as_nobody


@pytest.mark.posix("names with control characters")
def test_whole_tree(tool, directory):
    """Contents, modes and times of files and folders; nothing in the source changes."""
    source = model_tree(os.path.join(directory, "m"))
    before = snapshot(source)
    for options in ((), ("-j1", "--level", "fast"), ("--no-fsync", "-q")):
        result = tool.run("convert", source, *options).expect(0)
        check(result.stdout == "" and result.stderr == "", "output: " + result.stdout + result.stderr)
        check_only(directory, "m", "m.lmc")
        check_same(before, snapshot(source), "the source")
        check_archived(tool, source, source + ".lmc", options)
        os.rename(source, source + ".old")
        tool.run("restore", source + ".lmc", *(o for o in options if o not in ("--level", "fast"))).expect(0)
        check_only(directory, "m", "m.lmc", "m.old")
        check_same(before, snapshot(source), "restored")
        remove(source + ".old")
        remove(source + ".lmc")
    remove(source)


def test_whole_tree_as_another_user(tool, directory):
    """Read-only folders are no obstacle to whom they belong."""
    user = as_nobody(tool, directory, os.path.dirname(directory))
    source = model_tree(os.path.join(directory, "m"))
    os.chmod(directory, 0o777)
    for folder, folders, files in os.walk(source):
        for name in folders + files + ["."]:
            os.chown(os.path.join(folder, name), user.get("user", -1), -1)
    before = snapshot(source)
    tool.run("convert", source, **user).expect(0)
    tool.run("convert", source, "-f", **user).expect(0)
    tool.run("restore", source + ".lmc", "-o", source + ".back", **user).expect(0)
    check_same(before, snapshot(source + ".back"), "restored")
    check_only(directory, "m", "m.lmc", "m.back")
    for name in os.listdir(directory):
        remove(os.path.join(directory, name))


@pytest.mark.posix("links")
def test_links_to_files(tool, directory):
    """As a hub's cache has them: a snapshot of links to blobs elsewhere."""
    blobs = os.path.join(directory, "blobs")
    source = os.path.join(directory, "m")
    os.mkdir(blobs)
    os.mkdir(source)
    write(os.path.join(blobs, "4d7a"), shard(1))
    write(os.path.join(blobs, "config"), b"{}")
    os.symlink("../blobs/4d7a", os.path.join(source, "model.safetensors"))
    os.symlink(os.path.join(blobs, "config"), os.path.join(source, "config.json"))
    os.symlink("model.safetensors", os.path.join(source, "again.safetensors"))
    os.chmod(os.path.join(blobs, "4d7a"), 0o444)
    os.utime(os.path.join(blobs, "4d7a"), ns=(1, 10**18 + 7))
    with Untouched(directory + "/blobs"):
        tool.run("convert", source).expect(0)
        tool.run("restore", source + ".lmc", "-o", source + ".back").expect(0)
    found = snapshot(source + ".back")
    for name, (content, mode, time) in {"model.safetensors": (shard(1), 0o444, 10**18 + 7),
                                        "again.safetensors": (shard(1), 0o444, 10**18 + 7),
                                        "config.json": (b"{}", 0o644, None)}.items():
        check(found[name][1] == mode and found[name][3] == content and time in (None, found[name][2]),
              "%s: mode %o, time %d" % (name, found[name][1], found[name][2]))


def test_names_of_the_directory(tool, directory):
    source = small_tree(os.path.join(directory, "m"))
    os.mkdir(os.path.join(directory, "other"))
    os.symlink("m", os.path.join(directory, "l"))
    for operand, cwd, archive in (("m", directory, "m.lmc"), ("m/", directory, "m.lmc"),
                                  ("./m///", directory, "m.lmc"),
                                  ("m/sub/..", directory, "m.lmc"), (".", source, "m.lmc"), ("./", source, "m.lmc"),
                                  ("..", os.path.join(source, "sub"), "m.lmc"), ("../m", source, "m.lmc"),
                                  (source + "/", "/", "m.lmc"), ("l", directory, "l.lmc"),
                                  ("l/", directory, "l.lmc"), ("l/.", directory, "m.lmc")):
        tool.run("convert", operand, cwd=cwd).expect(0)
        check_only(directory, "m", "other", "l", archive)
        check_archived(tool, source, os.path.join(directory, archive), operand)
        remove(os.path.join(directory, archive))
    tool.run("convert", "m", cwd=directory).expect(0)
    os.rename(source, source + ".old")
    for operand, cwd in (("m.lmc", directory), ("m.lmc/", directory), ("./m.lmc//", directory),
                         ("../m.lmc", os.path.join(directory, "other"))):
        tool.run("restore", operand, cwd=cwd).expect(0)
        check_same(snapshot(source + ".old"), snapshot(source), operand)
        remove(source)
    for operand in (".", "..", "m.old", "/", "m.lmc/."):
        tool.run("restore", operand, cwd=directory).expect(2, "-o")
    tool.run("restore", ".", "-o", "../m", cwd=source + ".lmc").expect(0)
    check_same(snapshot(source + ".old"), snapshot(source), "-o")


@pytest.mark.posix("names that end with a dot")
def test_names_of_the_output(tool, directory):
    source = small_tree(os.path.join(directory, "m"))
    os.makedirs(os.path.join(directory, "deep", "empty"))
    os.symlink("deep/empty", os.path.join(directory, "link"))
    for name, at in (("out", "out"), ("out/", "out"), ("./deep/../out//", "out"), ("deep/out", "deep/out"),
                     ("deep/empty", "deep/empty"), ("deep/empty/", "deep/empty/m.lmc"), ("link", "deep/empty"),
                     ("link/", "deep/empty/m.lmc"), ("link/in", "deep/empty/in"), ("-odd", "-odd"), ("...", "...")):
        tool.run("convert", "m", "-o", name, cwd=directory).expect(0)
        check_archived(tool, source, os.path.join(directory, at), name)
        remove(os.path.join(directory, at))
        os.makedirs(os.path.join(directory, "deep", "empty"), exist_ok=True)
        check(sorted(os.listdir(directory)) == ["deep", "link", "m"], "left behind: %s" % os.listdir(directory))
    for name, status in (("no/out", 3), ("config.json/out", 3), ("m" * 256, 3), ("deep/../no/..", 3)):
        with Untouched(directory, name):
            tool.run("convert", "m", "-o", name, cwd=directory).expect(status)


@pytest.mark.posix("links")
def test_places_that_are_refused(tool, directory):
    """Nothing is written, with -f neither."""
    source = small_tree(os.path.join(directory, "m"))
    write(os.path.join(directory, "file"), b"mine")
    os.symlink("nowhere", os.path.join(directory, "dangling"))
    os.symlink("m/sub", os.path.join(directory, "into"))
    os.mkfifo(os.path.join(directory, "pipe"))
    os.mkdir(os.path.join(directory, "empty"))
    outer = os.path.dirname(directory)
    for output, cwd, text in (("m", directory, "same directory"), ("m/", directory, "inside the input"),
                              ("../m", source, "same directory"), ("m/out", directory, "inside the input"),
                              ("m/sub", directory, "inside the input"), ("into", directory, "inside the input"),
                              ("into/out", directory, "inside the input"), (".", directory, "inside the output"),
                              ("..", directory, "inside the output"), ("/", directory, "inside the output"),
                              ("file", directory, "not a directory"), ("dangling", directory, "not a directory"),
                              ("pipe", directory, "not a directory"),
                              (".", os.path.join(directory, "empty"), "working directory"),
                              ("../empty", os.path.join(directory, "empty"), "working directory"),
                              ("-", directory, "streamed"), (outer, directory, "inside the output")):
        for options in ((), ("-f",), ("-f", "--rm")):
            if output == "-" and "--rm" in options:
                continue
            with Untouched(directory, "%s %s" % (output, options)):
                tool.run("convert", source, "-o", output, *options, cwd=cwd).expect(2, text)
    for arguments in (["convert", source, "-c"], ["cat", source], ["restore", source, "--salvage", "-o", "x"],
                      ["verify", source, "--sha256", "0" * 64]):
        with Untouched(directory, arguments):
            check(tool.run(*arguments, cwd=directory).expect(2).stdout == "", "standard output")


def test_existing_output(tool, directory):
    """An empty directory is no obstacle; any other needs -f, and is replaced as a whole."""
    source = small_tree(os.path.join(directory, "m"))
    archive = source + ".lmc"
    for command, first, second in (("convert", source, archive), ("restore", archive, source + ".back")):
        os.mkdir(second)
        tool.run(command, first, "-o", second).expect(0)
        good = snapshot(second)
        with Untouched(directory, command):
            tool.run(command, first, "-o", second).expect(2, "exists already")
        write(os.path.join(second, ".stray"), b"")
        os.makedirs(os.path.join(second, "deep", "stray"))
        os.chmod(os.path.join(second, "deep"), 0o500)
        os.unlink(os.path.join(second, "config.json"))
        tool.run(command, first, "-f", "-o", second).expect(0)
        check_same(good, snapshot(second), command + " -f")
    check_only(directory, "m", "m.lmc", "m.back")


# ---- what is in the directory ----

def add_fifo(path):
    os.mkfifo(path)


def add_socket(path):
    here = os.getcwd()
    os.chdir(os.path.dirname(path))  # their names must be short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.basename(path))
    os.chdir(here)


KINDS = {
    "a pipe": (add_fifo, 2, "not a regular file"),
    "a socket": (add_socket, 2, "not a regular file"),
    "a link to a device": (lambda path: os.symlink("/dev/null", path), 2, "not a regular file"),
    "a link to a directory": (lambda path: os.symlink("..", path), 2, "link to a directory"),
    "a link to its directory": (lambda path: os.symlink(".", path), 2, "link to a directory"),
    "a link to nowhere": (lambda path: os.symlink("nowhere", path), 3, "cannot follow this link: No such file"),
    "a link to itself": (lambda path: os.symlink("x", path), 3, ""),
}


@pytest.mark.posix("pipes and devices among files")
def test_kinds_that_are_refused(tool, directory):
    source = small_tree(os.path.join(directory, "m"))
    tool.run("convert", source, "-o", os.path.join(directory, "a")).expect(0)
    for what, (add, status, text) in KINDS.items():
        for command, root in (("convert", source), ("restore", os.path.join(directory, "a"))):
            path = os.path.join(root, "sub", "x")
            add(path)
            with Untouched(directory, what):
                tool.run(command, root, "-o", os.path.join(directory, "out")).expect(status, "sub/x", text)
                check(tool.run("verify", root).status == status, "verify: " + what)
            os.unlink(path)


def test_files_that_are_refused(tool, directory):
    """Each safetensors file is looked at before anything is written."""
    source = small_tree(os.path.join(directory, "m"))
    path = os.path.join(source, "sub", "z.safetensors")
    plain = in_directory(directory, small_model())
    tool.run("convert", plain).expect(0)
    contents = {"empty": b"", "cut": shard(1)[:-1], "longer": shard(1) + b"x", "text": b"no tensors in here",
                "archive": read(plain + ".lmc"), "pointer": b"version https://git-lfs.github.com/spec/v1\n"}
    for what, content in contents.items():
        write(path, content)
        with Untouched(directory, what):
            tool.run("convert", source).expect(1, "sub/z.safetensors")
            tool.run("convert", source, "-f", "-j1").expect(1, "sub/z.safetensors")
    os.unlink(path)
    tool.run("convert", source).expect(0)
    for what, content in (("plain", small_model()), ("cut", contents["archive"][:100]), ("empty", b"")):
        write(os.path.join(source + ".lmc", "z.safetensors.lmc"), content)
        with Untouched(directory, what):
            tool.run("restore", source + ".lmc", "-o", source + ".back").expect(1, "z.safetensors.lmc")


def test_files_that_cannot_be_read(tool, directory):
    user = as_nobody(tool, directory, os.path.dirname(directory))
    source = small_tree(os.path.join(directory, "m"))
    os.chmod(directory, 0o777)
    for path in ("a.safetensors", "config.json", "sub"):
        mode = os.stat(os.path.join(source, path)).st_mode
        os.chmod(os.path.join(source, path), 0)
        with Untouched(directory, path):
            tool.run("convert", source, **user).expect(3, path, "Permission denied")
        os.chmod(os.path.join(source, path), mode)
    os.chmod(directory, 0o755)
    with Untouched(directory, "the parent"):
        tool.run("convert", source, **user).expect(3, "cannot create")


def test_directories_without_models(tool, directory):
    source = os.path.join(directory, "m")
    for folder in ("", "sub.safetensors", "sub.safetensors.lmc"):
        os.mkdir(os.path.join(source, folder))
        for command in ("convert", "restore", "verify"):
            options = () if command == "verify" else ("-o", os.path.join(directory, "out"))
            with Untouched(directory, command):
                tool.run(command, source, *options).expect(2, "holds n")
        write(os.path.join(source, "model.bin"), b"x")
    write(os.path.join(source, ".lmc-copied"), b"")
    tool.run("verify", source).expect(2, "lmc-st: %s: holds n" % source)


def test_names_that_meet(tool, directory):
    """Two entries that would get one name."""
    source = os.path.join(directory, "m")
    archive = os.path.join(directory, "a.lmc")
    os.mkdir(source)
    plain = write(os.path.join(source, "x.safetensors"), shard(1))
    tool.run("convert", source, "-o", archive).expect(0)
    good = read(os.path.join(archive, "x.safetensors.lmc"))
    for content in (good, b"", b"anything"):
        path = write(os.path.join(source, "x.safetensors.lmc"), content)
        with Untouched(directory):
            tool.run("convert", source).expect(2, "x.safetensors: something stands where its archive would")
        os.unlink(path)
    for root, name, command in ((source, "x.safetensors.lmc", "convert"), (archive, "x.safetensors", "restore")):
        os.mkdir(os.path.join(root, name))
        with Untouched(directory, name):
            tool.run(command, root, "-o", os.path.join(directory, "out")).expect(2, "stands where")
        os.rmdir(os.path.join(root, name))
    shadow = write(os.path.join(archive, "x.safetensors"), read(plain))
    with Untouched(directory, "restore"):
        tool.run("restore", archive).expect(2, "stands where")
    os.unlink(shadow)


def test_plain_files_among_archives(tool, directory):
    """They are copied when the directory is restored."""
    source = small_tree(os.path.join(directory, "m"))
    tool.run("convert", source).expect(0)
    for root in (source, source + ".lmc"):
        path = write(os.path.join(root, "late.safetensors"), shard(3))
        os.utime(path, ns=(0, 10**18))
        os.utime(root, ns=(0, 10**18))
    check_restores(tool, source, source + ".lmc")
    tool.run("restore", source + ".lmc", "-o", source + ".back", "--rm").expect(0)
    check_only(directory, "m", "m.back")


def allocated(path):
    return os.stat(path).st_blocks * 512


@pytest.mark.posix("files with holes under Wine")
@pytest.mark.parametrize("data", [[], [0], [5 << 20], [1 << 20, (2 << 20) + 8192, (8 << 20) - 4096]],
                         ids=["nothing", "begin", "middle", "several"])
def test_holes_stay_holes(tool, directory, data):
    """A file of 8 MiB, with 4 KiB of data here and there, is copied and restored."""
    source = small_tree(os.path.join(directory, "m"))
    sparse = os.path.join(source, "sparse.bin")
    with open(sparse, "wb") as file:
        file.truncate(8 << 20)
        for offset in data:
            file.seek(offset)
            file.write(os.urandom(4096))
        os.fsync(file.fileno())
    if allocated(sparse) > 1 << 20:
        pytest.skip("this file system has no holes")
    tool.run("convert", source).expect(0)
    tool.run("restore", source + ".lmc", "-o", source + ".back").expect(0)
    for root in (source + ".lmc", source + ".back"):
        copy = os.path.join(root, "sparse.bin")
        check(read(copy) == read(sparse), "%s has other content" % copy)
        check(allocated(copy) <= 1 << 20, "%s takes %d bytes of the disk" % (copy, allocated(copy)))


def test_deep_folders(tool, directory):
    for depth, status in ((90, 0), (101, 1)):
        source = os.path.join(directory, "m%d" % depth)
        os.makedirs(os.path.join(source, *["d"] * depth))
        write(os.path.join(source, *["d"] * depth, "x.safetensors"), shard(1))
        with Untouched(source):
            tool.run("convert", source).expect(status, *["nested directories"] * status)
    check_only(directory, "m90", "m101", "m90.lmc")
    check_restores(tool, os.path.join(directory, "m90"), os.path.join(directory, "m90.lmc"))


def test_files_and_directories_together(tool, directory):
    """The good ones are done, the worst exit status is returned."""
    source = small_tree(os.path.join(directory, "m"))
    plain = in_directory(directory, shard(3), "n.safetensors")
    bad = in_directory(directory, b"x", "bad.safetensors")
    out = os.path.join(directory, "out")
    absent = os.path.join(directory, "absent")
    for operands, status in (((source, plain), 0), ((plain, bad, source), 1), ((absent, source + "/", plain, bad), 3)):
        os.mkdir(out)
        tool.run("convert", *operands, "-o", out).expect(status)
        check_only(out, "m.lmc", "n.safetensors.lmc")
        check_archived(tool, source, os.path.join(out, "m.lmc"))
        os.mkdir(out + "2")
        tool.run("restore", os.path.join(out, "n.safetensors.lmc"), os.path.join(out, "m.lmc/"), "-o",
                 out + "2").expect(0)
        check_only(out + "2", "m", "n.safetensors")
        check_same(snapshot(source), snapshot(out + "2/m"), "restored")
        remove(out)
        remove(out + "2")
    with Untouched(directory):
        tool.run("convert", source, plain, "-o", out).expect(2, "existing directory")


def test_damaged_archives_are_named(tool, directory):
    source = small_tree(os.path.join(directory, "m"))
    write(os.path.join(source, "c.safetensors"), shard(3))
    archive = source + ".lmc"
    tool.run("convert", source).expect(0)
    for name in ("a.safetensors.lmc", "sub/b.safetensors.lmc"):
        flip(os.path.join(archive, name), -100, 4)
    result = tool.run("verify", archive).expect(1, "a.safetensors.lmc", "sub/b.safetensors.lmc", 'tensor "layer.1"')
    check("c.safetensors" not in result.stderr and result.stderr.count("\n") == 2, "messages: " + result.stderr)
    write(os.path.join(archive, "c.safetensors.lmc"), b"x")
    tool.run("verify", archive).expect(1, "c.safetensors.lmc", "sub/b.safetensors.lmc")
    os.rename(source, source + ".old")
    for options in ((), ("-f",), ("-f", "--rm"), ("-j1",)):
        with Untouched(directory, options):
            tool.run("restore", archive, *options).expect(1, ".safetensors.lmc")
    os.rename(source + ".old", source)
    with Untouched(directory, "-f"):
        tool.run("restore", archive, "-f").expect(1)
    check(json.loads(read(os.path.join(source, "config.json"))) == {"hidden_size": 8}, "the old directory")


@pytest.mark.posix("names with control characters")
def test_shards_that_got_lost(tool, directory):
    """What the index names must be there as an archive: else neither verify nor restore succeed."""
    source = model_tree(os.path.join(directory, "m"))
    tool.run("convert", source).expect(0)
    archive = source + ".lmc"
    index = next(name for name in os.listdir(archive) if ".index" in name)
    shard_name = sorted(set(json.loads(read(os.path.join(archive, index)))["weight_map"].values()))[0]
    os.unlink(os.path.join(archive, shard_name + ".lmc"))
    with Untouched(directory, "lost"):
        tool.run("verify", archive).expect(1, index, shard_name, "missing")
        tool.run("restore", archive, "-o", os.path.join(directory, "out")).expect(1, index, shard_name, "missing")


def test_names_that_differ_in_case(tool, directory):
    """Where they are one name (Wine's file systems), no file gets lost without a word."""
    for names in (("config.json", "Config.json"), ("sub/file", "SUB/file"), ("sub/one", "SUB/two")):
        source = small_tree(os.path.join(directory, "m%d" % len(os.listdir(directory))))
        for i, name in enumerate(names):
            os.makedirs(os.path.dirname(os.path.join(source, name)), exist_ok=True)
            write(os.path.join(source, name), b"content %d" % i)
        if not tool.for_windows:
            tool.run("convert", source).expect(0)
            check_archived(tool, source, source + ".lmc")
            continue
        tool.run("convert", source).expect(2, "another one of the tree for the same")
        check(not os.path.exists(source + ".lmc"), "an archive that lacks a file")


@pytest.mark.parametrize("name", ["aux.txt", "sub/NUL.json", "con/x"])
def test_names_of_devices(tool, directory, name):
    """Windows has no such files: refused before anything is written."""
    source = small_tree(os.path.join(directory, "m"))
    os.makedirs(os.path.dirname(os.path.join(source, name)), exist_ok=True)
    write(os.path.join(source, name), b"content")
    if tool.for_windows:
        tool.run("convert", source).expect(2, "its name is the name of a device")
        check_only(directory, "m")
    else:
        tool.run("convert", source).expect(0)
        check_archived(tool, source, source + ".lmc")
