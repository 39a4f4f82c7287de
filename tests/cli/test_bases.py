"""convert --base: which tensors belong together, what an archive with a base costs, and that it restores."""
import os
import random
import shutil
import struct

import pytest

from bases import (changed, check_restores, convert, f32, first_snapshot, info, make_chain, next_snapshot, of_chain,
                   pair, restored, write_model)
from support import check, model, read, weights, write
from trees import Untouched, check_same, remove, snapshot

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(ROOT, "examples", "data")


def copy_of(directory, name):
    return shutil.copy(os.path.join(DATA, name), os.path.join(directory, name))


# ---- sizes ----

def test_real_snapshots(tool, directory):
    """Ten updates apart: a third of what the archive takes alone; the same for every number of threads."""
    old, new = (copy_of(directory, "step0%d.bf16.safetensors" % step) for step in (3000, 3010))
    made = set()
    for options in (["-j1"], ["-j4"]):
        archive = convert(tool, new, old, "-f", *options)
        made.add(read(archive))
        check(restored(tool, archive, *options) == read(new), "restored otherwise: %s" % options)
    check(len(made) == 1, "the archive depends on the number of threads")
    check(len(made.pop()) < 0.23 * os.path.getsize(new), "%d bytes" % os.path.getsize(archive))
    for level in ("fast", "max"):
        archive = convert(tool, new, old, "-f", "--level", level)
        check_restores(tool, archive, read(new))


def test_every_distance(tool, directory):
    """From nothing changed to everything; the more, the larger."""
    sizes = []
    for part in (0, 0.0005, 0.01, 0.1, 0.5, 1):
        old, new = pair(directory, part)
        archive = convert(tool, new, old, "-f")
        check_restores(tool, archive, read(new))
        sizes.append(os.path.getsize(archive))
    check(sizes == sorted(sizes), "sizes: %s" % sizes)
    tool.run("convert", new, "-f").expect(0)
    check(sizes[0] < 0.1 * os.path.getsize(archive), "nothing changed: %d of %d" % (
        sizes[0], os.path.getsize(archive)))


# ---- masters and copies ----

def rounded(content):
    """F32 to BF16, to nearest, ties to even."""
    bits = (value for value, in struct.iter_unpack("<I", content))
    return b"".join(struct.pack("<H", ((b + 0x7fff + (b >> 16 & 1)) >> 16) & 0xffff) for b in bits)


def masters(seed, count=60000):
    rng = random.Random(seed)
    single = f32(rng, count)
    small = f32(rng, 500)
    return [("master.w", "F32", [count // 100, 100], single), ("master.b", "F32", [500], small),
            ("model.w", "BF16", [count // 100, 100], rounded(single)), ("model.b", "BF16", [500], rounded(small))]


def test_masters_and_copies_with_a_base(tool, directory):
    """Both ways in one archive; the tensor that the copy is coded against has a base itself."""
    tensors = masters(5)
    rng = random.Random(6)
    old = write_model(directory, "old.safetensors", tensors)
    new_masters = [changed(tensor, rng, 0.1) for tensor in tensors[:2]]
    new = write_model(directory, "new.safetensors", new_masters + [
        (copy[0], copy[1], copy[2], rounded(master[3])) for copy, master in zip(tensors[2:], new_masters)])
    archive = convert(tool, new, old)
    check_restores(tool, archive, read(new))
    tool.run("get", archive, "model.w[3]").expect(0)


# ---- what belongs together ----


def test_unrelated_content(tool, directory):
    """Same names and shapes, nothing else: not larger than alone."""
    old = write_model(directory, "old.safetensors", first_snapshot(1))
    new = write_model(directory, "new.safetensors", first_snapshot(2))
    tool.run("convert", new).expect(0)
    alone = os.path.getsize(new + ".lmc")
    archive = convert(tool, new, old, "-f")
    check(os.path.getsize(archive) <= alone + 200, "%d bytes, alone %d" % (os.path.getsize(archive), alone))
    check_restores(tool, archive, read(new))


def test_several_inputs(tool, directory):
    """One base for all of them."""
    tensors = first_snapshot()
    old = write_model(directory, "old.safetensors", tensors)
    paths = [write_model(directory, "n%d.safetensors" % i, next_snapshot(tensors, i)) for i in range(3)]
    tool.run("convert", *paths, "--base", old).expect(0)
    for path in paths:
        content = read(path)
        os.unlink(path)
        check_restores(tool, path + ".lmc", content)
    tool.run("restore", *[path + ".lmc" for path in paths], "--base", old).expect(0)
    tool.run("verify", *[path + ".lmc" for path in paths], "--base", old).expect(0)


# ---- chains ----


def test_chain(tool, directory):
    """(tests/unit/safetensors/test_st_base_chain.c has every length.)"""
    contents = make_chain(tool, directory, 5)
    for i, content in enumerate(contents):
        plain = write(os.path.join(directory, "plain"), content)
        check(restored(tool, of_chain(directory, i)) == content, "snapshot %d of the chain" % i)
        tool.run("diff", plain, of_chain(directory, i)).expect(0)
    last = of_chain(directory, 5)
    for options in (["-j1"], ["-j4"]):
        check_restores(tool, last, contents[-1], *options)
    names, base = [], info(tool, last)["base"]
    while base is not None:
        check(base["file"] == os.path.join(directory, base["name"] + ".lmc"), "file: %s" % base)
        names.append(base["name"])
        base = base["base"]
    check(names == ["s%d.safetensors" % i for i in reversed(range(5))], "info: %s" % names)


# ---- headers of chains ----

HEADER_NBYTES = 60_000_000  # of spaces: a table stores them in 6 KB
OTHERS_NBYTES = 300 << 20  # what a run takes beside headers, in address space


def write_wide(directory, i, tensors, is_equal):
    """Snapshot i with a header of HEADER_NBYTES, whose text is that of the others or not."""
    content = model(tensors, {"step": "0" if is_equal else str(i)}, padding=False)
    length, = struct.unpack("<Q", content[:8])
    text = content[8:8 + length].ljust(HEADER_NBYTES)
    path = os.path.join(directory, "s%d.safetensors" % i)
    return write(path, struct.pack("<Q", len(text)) + text + content[8 + length:])


def wide_chain(tool, directory, count, is_equal):
    """Archives 1 to count - 1, each made while the one before was there as a plain file, which makes no chain; then
    only the first plain file is left."""
    tensors = [("t", "BF16", [600], weights(random.Random(5), 600))]
    for i in range(count):
        path = write_wide(directory, i, tensors, is_equal)
        tensors = next_snapshot(tensors, i, 0.05)
        if i > 0:
            before = os.path.join(directory, "s%d.safetensors" % (i - 1))
            tool.run("convert", path, "--base", before).expect(0)
            if i > 1:
                os.unlink(before)
    os.unlink(path)
    return of_chain(directory, count - 1)


@pytest.mark.slow
def test_equal_headers_of_a_chain_are_held_once(tool, directory):
    last = wide_chain(tool, directory, 9, is_equal=True)
    check(os.path.getsize(last) < 20000, "%d bytes" % os.path.getsize(last))
    tool.run("verify", last, address_space=OTHERS_NBYTES + 3 * HEADER_NBYTES).expect(0)


@pytest.mark.slow
def test_headers_of_a_chain_are_limited(tool, directory):
    """Six of them fit the limit of 400,000,000 bytes, seven do not: small files that would take memory without end."""
    last = wide_chain(tool, directory, 9, is_equal=False)
    tool.run("verify", of_chain(directory, 5)).expect(0)
    for path in (of_chain(directory, 6), last):
        result = tool.run("verify", path, address_space=OTHERS_NBYTES + 9 * HEADER_NBYTES)
        result.expect(1, "400000000 bytes")
    tensors = [("t", "BF16", [600], weights(random.Random(6), 600))]
    new = write_wide(directory, 10, tensors, is_equal=False)
    tool.run("convert", new, "--base", of_chain(directory, 5)).expect(1, "400000000 bytes")
    check(not os.path.exists(new + ".lmc"), "an archive that nobody can read")
    tool.run("convert", new, "--base", of_chain(directory, 4)).expect(0)


def test_chain_with_plain_files_between(tool, directory):
    """Where the plain file is there, it is taken; then the chain ends."""
    contents = make_chain(tool, directory, 4)
    write(os.path.join(directory, "s2.safetensors"), contents[2])
    os.unlink(of_chain(directory, 0))
    check_restores(tool, of_chain(directory, 4), contents[4])
    facts = info(tool, of_chain(directory, 4))["base"]
    check(facts["base"]["file"].endswith("s2.safetensors") and facts["base"]["base"] is None, "info: %s" % facts)


# ---- directories ----

def model_directory(root, seed, part=0.1):
    """Files at the top and below, the second snapshot of which resembles the first."""
    os.makedirs(os.path.join(root, "unet"))
    for i, name in enumerate(("a.safetensors", "b.safetensors", "unet/a.safetensors")):
        tensors = first_snapshot(100 + i, 1000)
        write_model(root, name, tensors if seed == 0 else next_snapshot(tensors, seed, part))
    write(os.path.join(root, "config.json"), b"{}")
    return root


def test_directories(tool, directory):
    """Files belong together by their relative names, whether the base is plain or converted."""
    old, new = (model_directory(os.path.join(directory, name), i) for i, name in enumerate(("old", "new")))
    only_new = write_model(new, "extra.safetensors",
                           [("other." + name, *rest) for name, *rest in first_snapshot(7, 900)])
    write_model(old, "gone.safetensors", first_snapshot(8, 1000))
    tool.run("convert", new, "-o", new + ".alone").expect(0)
    tool.run("convert", old).expect(0)
    for base in (old, old + ".lmc"):
        with Untouched(base):
            tool.run("convert", new, "--base", base, "-f").expect(0)
        for name in ("a", "b", "unet/a"):
            archive = os.path.join(new + ".lmc", name + ".safetensors.lmc")
            check(os.path.getsize(archive) < 0.6 * os.path.getsize(archive.replace("new.lmc", "new.alone")), name)
        check(read(os.path.join(new + ".lmc", "extra.safetensors.lmc"))
              == read(os.path.join(new + ".alone", "extra.safetensors.lmc")), only_new)
        tool.run("verify", new + ".lmc", "--base", base).expect(0)
        tool.run("restore", new + ".lmc", "--base", base, "-o", new + ".back").expect(0)
        check_same(snapshot(new), snapshot(new + ".back"), "restored")
        remove(new + ".back")
        with Untouched(directory):
            tool.run("verify", new + ".lmc").expect(1, "a.safetensors", "b.safetensors")
            tool.run("restore", new + ".lmc", "-o", new + ".back").expect(1, "a.safetensors")


def test_directory_base_must_be_one(tool, directory):
    old, new = (model_directory(os.path.join(directory, name), i) for i, name in enumerate(("old", "new")))
    file = os.path.join(new, "a.safetensors")
    with Untouched(directory):
        tool.run("convert", new, "--base", os.path.join(old, "a.safetensors")).expect(2, "directory")
        tool.run("convert", file, "--base", old).expect(2, "directory")
        tool.run("convert", new, "--base", os.path.join(directory, "absent")).expect(3, "absent")
        tool.run("convert", new, "--base", old, "-o", old, "-f").expect(2)
    before = snapshot(old)
    tool.run("convert", new, "--base", old, "-o", os.path.join(old, "unet"), "-f").expect(2)
    check(sorted(before) == sorted(snapshot(old)), "something in the base was replaced")
    tool.run("convert", new, "--base", old).expect(0)
    tool.run("restore", new + ".lmc", "--base-dir", old, "-o", os.path.join(old, "unet"), "-f").expect(2, "in the base")
    check(sorted(before) == sorted(snapshot(old)), "something in a base directory was replaced")
    tool.run("restore", new + ".lmc", "--base-dir", old, "-o", os.path.join(old, "more")).expect(0)


def test_directory_base_with_files_that_are_no_archives(tool, directory):
    """They are only named so, and stand in nobody's way, also where an output is replaced."""
    old, new = (model_directory(os.path.join(directory, name), i) for i, name in enumerate(("old", "new")))
    write(os.path.join(old, "note.lmc"), b"no archive")
    write(os.path.join(old, "empty.lmc"), b"")
    tool.run("convert", new, "--base", old).expect(0)
    tool.run("convert", new, "--base", old, "-f").expect(0)
    tool.run("verify", new + ".lmc", "--base", old).expect(0)
