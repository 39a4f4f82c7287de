"""Directories as trainers write them: files of several containers, what is left out, what only looks like a container,
archives that lie in them, and bases in folders of other numbers."""
import errno
import io
import os
import random
import struct
import zipfile

import pytest

from faults import Faults
from support import check, check_only, read, small_model, weights, write
from trees import Untouched, check_restores, check_same, index, remove, shard, snapshot


def npy(seed, count=3000, nudged=0):
    """A numpy array of bf16-like u2 values; `nudged` of them differ from those without."""
    rng = random.Random(seed)
    values = bytearray(weights(rng, count))
    for _ in range(nudged):
        values[2 * rng.randrange(count)] ^= 1
    text = ("{'descr': '<u2', 'fortran_order': False, 'shape': (%d,), }" % count).encode()
    text = text.ljust(-(10 + len(text) + 1) % 64 + len(text)) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(values)


def gguf(seed):
    """A GGUF file of one F32 tensor."""
    info = struct.pack("<Q", 1) + b"w" + struct.pack("<IQIQ", 1, 64, 0, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + info
    return head.ljust((len(head) + 31) // 32 * 32, b"\0") + random.Random(seed).randbytes(256)


def npz(seed):
    """Two arrays as numpy.savez() keeps them, one of them deflated, and a text behind the last."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a.npy", npy(seed))
        archive.writestr("b.npy", npy(seed + 1), zipfile.ZIP_DEFLATED)
        archive.writestr("note.txt", b"no array")
    return stream.getvalue()


def checkpoint(root, seed=1, step=500, nudged=0):
    """What a trainer leaves: weights, state in folders, text."""
    folder = os.path.join(root, "global_step%d" % step)
    os.makedirs(folder)
    write(os.path.join(root, "model.safetensors"), shard(seed))
    write(os.path.join(root, "optimizer.npy"), npy(seed, nudged=nudged))
    write(os.path.join(root, "model.gguf"), gguf(seed))
    write(os.path.join(root, "state.npz"), npz(seed))
    write(os.path.join(root, "trainer_state.json"), b'{"global_step": %d}\n' % step)
    write(os.path.join(root, "training_args.bin"), b"\x80\x02}q\x00.")
    write(os.path.join(root, "latest"), b"global_step%d" % step)
    write(os.path.join(folder, "rank_00.npy"), npy(seed + 100, nudged=nudged))
    write(os.path.join(folder, "renamed.bin"), small_model(seed + 1))
    return root


CONVERTED = ("model.safetensors", "optimizer.npy", "model.gguf", "state.npz", "global_step500/rank_00.npy",
             "global_step500/renamed.bin")


def files_of(root):
    return sorted(path for path, entry in snapshot(root).items() if entry[3] is not None)


def warn(tool, *arguments, status=0, lines=()):
    """Runs the tool: for each of `lines`, a line on standard error that holds it."""
    result = tool.run(*arguments)
    found = result.stderr.splitlines()
    check(result.status == status and len(found) == len(lines), "%s: %d: %s" % (arguments, result.status, found))
    for line, wanted in zip(found, lines):
        check(wanted in line and line.startswith("lmc-st: "), "%r lacks %r" % (line, wanted))


def test_trainer_directory(tool, directory):
    source = checkpoint(os.path.join(directory, "c"))
    archive = source + ".lmc"
    wanted = sorted(name + ".lmc" if name in CONVERTED else name for name in files_of(source))
    for options in ((), ("-j1", "-f"), ("-f", "-v")):
        result = tool.run("convert", source, *options)
        check(result.status == 0 and ("-v" in options) == (result.stderr != ""), result.stderr)
        check(files_of(archive) == wanted, "names: %s" % files_of(archive))
        tool.run("verify", archive).expect(0)
        check_restores(tool, source, archive)
    check(result.stderr.count(": kept,") == len(CONVERTED) and result.stderr.count(": copied,") == 3, result.stderr)
    tool.run("convert", source, "-f", "--rm").expect(0)
    tool.run("restore", archive, "--rm").expect(0)
    check_only(directory, "c")


def test_what_looks_like_a_container(tool, directory):
    """It is copied with a line of its own, unless the tool is to be quiet, and comes back."""
    source = checkpoint(os.path.join(directory, "c"))
    write(os.path.join(source, "bad.npy"), npy(3)[:-1].replace(b"'descr'", b"'desc' "))
    write(os.path.join(source, "global_step500", "cut.gguf"), gguf(1)[:30])
    write(os.path.join(source, "cut.npz"), npz(1)[:-30])
    lines = ("c/bad.npy", "c/cut.npz", "cut.gguf")
    warn(tool, "convert", source, lines=lines)
    warn(tool, "convert", source, "-f", "-j1", lines=lines)
    archive = source + ".lmc"
    check(read(archive + "/bad.npy") == read(source + "/bad.npy"), "bad.npy")
    tool.run("verify", archive).expect(0)
    check_restores(tool, source, archive)
    remove(archive)
    tool.run("convert", source, "-q").expect(0)
    check_restores(tool, source, archive)
    write(os.path.join(source, "bad.safetensors"), shard(1)[:-1])
    with Untouched(directory):
        tool.run("convert", source, "-f", "-q").expect(1, "bad.safetensors")
    warn(tool, "convert", source, "-f", "--exclude", "bad.*", "--exclude", "cut.*", "--rm")
    check_only(directory, "c.lmc")


@pytest.mark.posix("names with control characters")
def test_archives_in_a_directory(tool, directory):
    """They are copied, listed, and come back as they were; all that is not listed is restored."""
    source = checkpoint(os.path.join(directory, "c"))
    one = write(os.path.join(directory, "one.npy"), npy(7))
    tool.run("convert", one).expect(0)
    good = read(one + ".lmc")
    names = {"a.lmc": b"text", "global_step500/old.npy.lmc": good, "old.npy.lmc": good,
             "old.safetensors.lmc": good[:-9], "z.lmc.lmc": b"", ".lmc": b"a hidden name is none"}
    listed = "".join(sorted(name + "\n" for name in names if name != ".lmc")).encode()
    for name, content in names.items():
        write(os.path.join(source, name), content)
    lines = ("global_step500/old.npy.lmc: is an LMC archive already", "c/old.npy.lmc", "old.safetensors.lmc")
    archive = source + ".lmc"
    for options in ((), ("-f",)):
        warn(tool, "convert", source, *options, lines=lines)
        check(read(archive + "/.lmc-copied") == listed, "the list: %r" % read(archive + "/.lmc-copied"))
        tool.run("verify", "-q", archive).expect(0)
        check_restores(tool, source, archive)
    before = snapshot(source)
    warn(tool, "convert", source, "-f", "--rm", lines=lines)
    tool.run("restore", archive, "--rm").expect(0)
    check_same(before, snapshot(source), "restored")
    with Untouched(directory):
        write(os.path.join(source, "new\n.lmc"), b"")
        warn(tool, "convert", source, status=2, lines=lines + ("line break",))
        os.unlink(os.path.join(source, "new\n.lmc"))
        os.utime(source, ns=(0, before["."][2]))
    write(os.path.join(source, "\n.npy.lmc"), npy(4))  # converted, thus not listed
    warn(tool, "convert", source, lines=lines)
    check_restores(tool, source, archive)


def test_names_that_meet_archives(tool, directory):
    """An array that is named as an archive is one more file to be converted; its name frees no place."""
    source = checkpoint(os.path.join(directory, "c"))
    write(os.path.join(source, "optimizer.npy.lmc"), npy(5))
    tool.run("convert", source).expect(0)
    check(read(source + ".lmc/optimizer.npy.lmc") != npy(5), "the array was copied")
    check_restores(tool, source, source + ".lmc")
    remove(source + ".lmc")
    write(os.path.join(source, "optimizer.npy.lmc"), b"text")
    with Untouched(directory):
        tool.run("convert", source).expect(2, "optimizer.npy: something stands where")
    tool.run("convert", source, "--exclude", "optimizer.npy").expect(0)
    check_restores(tool, source, source + ".lmc")


def test_lists_that_are_refused(tool, directory):
    source = checkpoint(os.path.join(directory, "c"))
    write(os.path.join(source, "a.lmc"), b"1")
    write(os.path.join(source, "b.lmc"), b"2")
    tool.run("convert", source).expect(0)
    archive = source + ".lmc"
    path = os.path.join(archive, ".lmc-copied")
    for content in (b"a.lmc\nb.lm\n", b"b.lmc\na.lmc\n", b"a.lmc\na.lmc\nb.lmc\n", b"a.lmc\nb.lmc",
                    b"a.lmc\n\nb.lmc\n", b"a.lmc\nb.lmc\nc.lmc\n", b"../c/a.lmc\n", b"a.lmc\nb.lmc\nlatest\n",
                    b"\0\n", b"a.lmc\nb.lmc\n\xff"):
        write(path, content)
        with Untouched(directory, content):
            for arguments in (("verify", archive), ("restore", archive, "-o", source + ".back")):
                tool.run(*arguments).expect(1, ".lmc-copied")
    for content, named in ((b"", "/a.lmc"), (b"a.lmc\n", "/b.lmc")):
        write(path, content)
        with Untouched(directory, content):
            for arguments in (("verify", archive), ("restore", archive, "-o", source + ".back")):
                tool.run(*arguments).expect(1, named)
    os.truncate(path, (16 << 20) + 1)
    with Untouched(directory, "large"):
        tool.run("verify", archive).expect(1, "16777216")
    write(os.path.join(source, ".lmc-copied"), b"")
    with Untouched(directory):
        tool.run("convert", source, "-f").expect(2, ".lmc-copied")


def test_damaged_archives_are_not_copied(tool, directory):
    source = checkpoint(os.path.join(directory, "c"))
    tool.run("convert", source).expect(0)
    path = os.path.join(source + ".lmc", "optimizer.npy.lmc")
    good = read(path)
    time = os.stat(path).st_mtime_ns
    for content in (b"", good[:-1], good[:100], b"\0" * 9 + good[9:], good[:-50] + b"x" + good[-49:], npy(1), shard(1)):
        write(path, content)
        with Untouched(directory):
            tool.run("restore", source + ".lmc", "-o", source + ".back").expect(1, "optimizer.npy")
            tool.run("verify", source + ".lmc").expect(1, "optimizer.npy.lmc")
    write(path, good)
    os.utime(path, ns=(time, time))
    check_restores(tool, source, source + ".lmc")


@pytest.mark.parametrize("patterns, copied", [
    (["*.npy"], {"optimizer.npy", "global_step500/rank_00.npy"}),
    (["*/*.npy"], {"global_step500/rank_00.npy"}),
    (["global_step*/*"], {"global_step500/rank_00.npy", "global_step500/renamed.bin"}),
    (["model.safetensors", "rank_[0-9][0-9].np?"], {"model.safetensors", "global_step500/rank_00.npy"}),
    (["global_step500", "nothing", "[", "*.NPY", "c/*"], set()),
])
def test_exclude(tool, directory, patterns, copied):
    source = checkpoint(os.path.join(directory, "c"))
    write(os.path.join(source, "model.safetensors.index.json"), index("model.safetensors"))
    options = [word for pattern in patterns for word in ("--exclude", pattern)]
    tool.run("convert", source, *options).expect(0)
    found = {name[:-4] for name in files_of(source + ".lmc") if name.endswith(".lmc")}
    check(found == set(CONVERTED) - copied, "converted: %s" % found)
    check_restores(tool, source, source + ".lmc")
    tool.run("convert", source, "-f").expect(0)  # archives that are kept, and new ones
    tool.run("convert", source, "-f", *options, "--rm").expect(0)
    check({name[:-4] for name in files_of(source + ".lmc") if name.endswith(".lmc")} == found, "after -f")


def test_options_that_are_refused(tool, directory):
    source = checkpoint(os.path.join(directory, "c"))
    plain = os.path.join(source, "model.safetensors")
    with Untouched(directory):
        tool.run("convert", plain, "--exclude", "*.npy").expect(2, "--exclude", "directory")
        tool.run("convert", source, plain, "--exclude", "x", "-o", directory).expect(2, "--exclude")
        tool.run("convert", "-", "--exclude", "x").expect(2, "--exclude")
        tool.run("convert", source, "--exclude", "").expect(2, "empty")
        tool.run("convert", source, "--exclude").expect(2, "value is missing")
        tool.run("convert", source, *["--exclude=x"] * 65).expect(2, "too many patterns")
        tool.run("convert", source, "--raw").expect(2, "raw is for a file")
        tool.run("restore", source, "--raw").expect(2, "--raw")
        tool.run("convert", os.path.join(directory, "absent"), "--exclude", "x").expect(3, "absent")
    tool.run("convert", source, *["--exclude=x"] * 64).expect(0)


def test_raw_files(tool, directory):
    path = write(os.path.join(directory, "x.bin"), b"some text of no kind, " * 1000)
    with Untouched(directory):
        tool.run("convert", path).expect(1)
    tool.run("convert", path, "--raw").expect(0)
    content = read(path)
    os.unlink(path)
    tool.run("restore", path + ".lmc").expect(0)
    check(read(path) == content, "the raw file")


def test_unfinished_directory(tool, directory):
    """What an earlier run left is kept where it is right, whatever kind of file it is of; copies are made again."""
    source = checkpoint(os.path.join(directory, "c"))
    write(os.path.join(source, "a.lmc"), b"text")
    tool.run("convert", source).expect(0)
    os.rename(source + ".lmc", os.path.join(directory, ".c.lmc.lmc-st-partial"))
    partial = os.path.join(directory, ".c.lmc.lmc-st-partial")
    write(os.path.join(partial, "latest.lmc"), b"of no archive")
    write(os.path.join(partial, ".lmc-copied"), b"latest.lmc\n")
    write(os.path.join(partial, "optimizer.npy.lmc"), b"damaged")
    result = tool.run("convert", source, "-v", "--exclude", "model.gguf")
    check(result.status == 0 and result.stderr.count(": kept,") == 4, result.stderr)
    check_only(directory, "c", "c.lmc")
    check("model.gguf" in files_of(source + ".lmc") and "latest.lmc" not in files_of(source + ".lmc"), "names")
    check_restores(tool, source, source + ".lmc")


# ---- bases ----

def base_share(tool, archive, *options):
    return {name: '"delta"' in tool.run("ls", "--json", os.path.join(archive, name)).expect(0).stdout
            for name in files_of(archive) if name.endswith(".lmc")}


def test_folders_of_other_numbers(tool, directory):
    old = checkpoint(os.path.join(directory, "checkpoint-490"), step=490)
    new = checkpoint(os.path.join(directory, "checkpoint-500"), nudged=20)
    archive = new + ".lmc"
    tool.run("convert", new, "--base", old).expect(0)
    shares = base_share(tool, archive)
    check(shares["global_step500/rank_00.npy.lmc"] and shares["optimizer.npy.lmc"], "delta: %s" % shares)
    for options in (("--base", old), ("--base-dir", old), ()):  # it stands beside, under a name of other digits
        tool.run("verify", archive, *options).expect(0)
        tool.run("restore", archive, "-o", new + ".back", *options).expect(0)
        check_same(snapshot(new), snapshot(new + ".back"), "restored")
        remove(new + ".back")
    tool.run("convert", new, "-f", "--base", old, "--rm").expect(0)
    tool.run("restore", archive, "--base", old, "--rm").expect(0)
    tool.run("convert", old).expect(0)
    tool.run("convert", new, "--base", old + ".lmc").expect(0)
    check(base_share(tool, archive) == shares, "against archives")
    remove(archive)
    os.mkdir(os.path.join(old, "global_step480"))  # two of them: none is taken
    tool.run("convert", new, "--base", old).expect(0)
    shares = base_share(tool, archive)
    check(not shares["global_step500/rank_00.npy.lmc"] and shares["optimizer.npy.lmc"], "two folders: %s" % shares)
    os.rename(os.path.join(old, "global_step480"), os.path.join(old, "global_step500"))
    tool.run("convert", new, "--base", old, "-f").expect(0)
    check(not base_share(tool, archive)["global_step500/rank_00.npy.lmc"], "a folder of the same name")


@pytest.mark.parametrize("name, is_taken", [
    ("global_step7", True), ("global_step0500", True), ("global_step", False), ("global_step490x", False),
    ("Global_step490", False), ("global_step4_90", False), ("4global_step490", False)])
def test_similar_names(tool, directory, name, is_taken):
    old = checkpoint(os.path.join(directory, "old"), step=490)
    new = checkpoint(os.path.join(directory, "new"), nudged=20)
    os.rename(os.path.join(old, "global_step490"), os.path.join(old, name))
    write(os.path.join(old, "global_step1"), b"a file is no folder")
    tool.run("convert", new, "--base", old).expect(0)
    shares = base_share(tool, new + ".lmc")
    check(shares["global_step500/rank_00.npy.lmc"] == is_taken, "delta: %s" % shares)


def test_removal_with_a_base_inside(tool, directory):
    """--rm keeps an input in which the bases of its archive lie, also where folders have other numbers."""
    old = checkpoint(os.path.join(directory, "old"), step=490)
    new = checkpoint(os.path.join(directory, "new"), nudged=20)
    write(os.path.join(new, "a.lmc"), b"no archive")
    os.rename(os.path.join(old, "global_step490", "rank_00.npy"), os.path.join(directory, "r.npy"))
    os.symlink("../../r.npy", os.path.join(old, "global_step490", "rank_00.npy"))
    tool.run("convert", new, "--base", old, "--rm").expect(0)
    tool.run("restore", new + ".lmc", "--base", old, "--rm").expect(0)
    inside = os.path.join(new, "z.npy")
    os.rename(os.path.join(directory, "r.npy"), inside)
    os.unlink(os.path.join(old, "global_step490", "rank_00.npy"))
    os.symlink(inside, os.path.join(old, "global_step490", "rank_00.npy"))
    tool.run("convert", new, "--base", old, "--rm").expect(2, "is kept", "rank_00.npy.lmc")
    check_only(directory, "old", "new", "new.lmc")


# ---- salvage ----

def test_salvage_of_other_kinds(tool, directory):
    """What is saved is a safetensors file, and is named as one."""
    for name, content, saved in (("x.npy", npy(1), "x.npy.safetensors"),
                                 ("m.safetensors", small_model(), "m.safetensors")):
        path = write(os.path.join(directory, name), content)
        tool.run("convert", path, "--rm").expect(0)
        tool.run("restore", path + ".lmc", "--salvage").expect(0)
        check_only(directory, name + ".lmc", saved)
        tool.run("ls", os.path.join(directory, saved)).expect(0)
        os.unlink(os.path.join(directory, saved))
        write(path + ".lmc", read(path + ".lmc")[:-1])  # the suffix tells then what the original was
        tool.run("restore", path + ".lmc", "--salvage").expect(1)
        check_only(directory, name + ".lmc", saved)
        os.unlink(os.path.join(directory, saved))
        os.unlink(path + ".lmc")


def test_salvage_without_what_is_no_tensor(tool, directory):
    """Bytes between the tensors that the disk does not give are told, and keep no tensor from being saved."""
    faults = Faults(tool, directory)
    path = write(os.path.join(directory, "x.npy"), npy(1))
    tool.run("convert", path, "--rm").expect(0)
    faults.byte = os.path.getsize(path + ".lmc") - 1
    result, _ = faults.run("pread:1:0:e%d" % errno.EIO, "restore", "--salvage", path + ".lmc")
    check(result.expect(3, os.strerror(errno.EIO)).stderr.count("\n") == 1, result.stderr)
    check(read(path + ".safetensors").endswith(npy(1)[-6000:]), "the tensor")


@pytest.mark.posix("names that are no UTF-8")
def test_a_name_that_no_base_can_have(tool, directory):
    """A file whose name is no UTF-8 cannot be recorded as a base: it goes without one."""
    for name, nudged in (("old", 0), ("new", 5)):
        root = os.path.join(directory, name)
        os.mkdir(root)
        write(os.path.join(root, "a.npy"), npy(1, nudged=nudged))
        write(os.path.join(root, "b\udcff.npy"), npy(2, nudged=nudged))
    new = os.path.join(directory, "new")
    tool.run("convert", new, "--base", os.path.join(directory, "old")).expect(0)
    tool.run("restore", new + ".lmc", "-o", os.path.join(directory, "back"), "--base-dir",
             os.path.join(directory, "old")).expect(0)
    for name in ("a.npy", "b\udcff.npy"):
        check(read(os.path.join(directory, "back", name)) == read(os.path.join(new, name)), "the bytes differ")


def test_bases_beside(tool, directory):
    """Directories whose names differ in digits belong together; of several, the one of the right content is taken."""
    made = {step: checkpoint(os.path.join(directory, "checkpoint-%d" % step), step=step, nudged=step)
            for step in (80, 90, 100, 110)}
    tool.run("convert", made[80]).expect(0)
    for old, new in ((80, 90), (90, 100), (90, 110)):
        tool.run("convert", made[new], "--base", made[old] + ".lmc").expect(0)
    for step, path in made.items():
        os.rename(path, path + ".original")
        tool.run("restore", path + ".lmc").expect(0)
        check_same(snapshot(path + ".original"), snapshot(path), "step %d" % step)
        remove(path)
    tool.run("get", os.path.join(made[110] + ".lmc", "optimizer.npy.lmc"), "array").expect(0)
    remove(made[90] + ".lmc")
    result = tool.run("verify", made[110] + ".lmc").expect(1, "needs the base optimizer.npy", "not found")
    check("needs that base itself" not in result.stderr, result.stderr)
    os.rename(made[90] + ".original", made[90])  # plain
    tool.run("verify", made[110] + ".lmc").expect(0)
    os.rename(made[110] + ".lmc", os.path.join(directory, "other"))
    result = tool.run("verify", os.path.join(directory, "other")).expect(1, "needs the base")
    check("needs that base itself" not in result.stderr, result.stderr)
