"""convert --base: which tensors belong together, what an archive with a base costs, and that it restores."""
import os
import random
import shutil
import struct

import pytest

from bases import (changed, check_restores, convert, f32, first_snapshot, info, ls, make_chain, modes, next_snapshot,
                   of_chain, pair, restored, write_model)
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


def test_base_is_the_input(tool, directory):
    """Itself, a copy, an archive of it."""
    path = write_model(directory, "m.safetensors", first_snapshot())
    other = shutil.copy(path, os.path.join(directory, "other.safetensors"))
    alone = path + ".alone"
    tool.run("convert", path, "-o", alone).expect(0)
    for base in (path, other, alone):
        archive = convert(tool, path, base, "-f")
        check_restores(tool, archive, read(path), "--base", base)
        check(os.path.getsize(archive) < 0.1 * os.path.getsize(alone), "%d bytes" % os.path.getsize(archive))
        check("coded" not in modes(tool, archive).values(), "modes: %s" % modes(tool, archive))


def write_large(path, nbytes):
    """A file of real weights, over and over, in tensors of many sizes."""
    data = read(os.path.join(DATA, "step03000.bf16.safetensors"))[1 << 16:]
    tensors = []
    for i in range(64):
        size = nbytes // 64 // 2 * 2
        begin = (i * 40961 * 2) % (len(data) - size)
        tensors.append(("t%d" % i, "BF16", [size // 2], data[begin:begin + size]))
    return write(path, model(tensors))


def test_identical_large_file(tool, directory):
    path = write_large(os.path.join(directory, "large.safetensors"), 50 << 20)
    base = write_large(os.path.join(directory, "base.safetensors"), 50 << 20)
    archive = convert(tool, path, base)
    check(os.path.getsize(archive) < 64 << 10, "%d bytes" % os.path.getsize(archive))
    tool.run("restore", archive, "-o", path + ".back").expect(0)
    check(read(path + ".back") == read(path), "restored otherwise")


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


def test_copies_of_masters_in_one_file(tool, directory):
    """A BF16 tensor that is the rounding of an F32 tensor beside it needs no base and takes no place."""
    tensors = masters(3, 600000)
    both = write_model(directory, "both.safetensors", tensors)
    alone = write_model(directory, "alone.safetensors", tensors[:2])
    for path in (both, alone):
        tool.run("convert", path).expect(0)
    copy_nbytes = sum(len(content) for name, _, _, content in tensors if name.startswith("model"))
    cost = os.path.getsize(both + ".lmc") - os.path.getsize(alone + ".lmc")
    check(cost < 0.001 * copy_nbytes, "the copy of %d bytes costs %d" % (copy_nbytes, cost))
    check(modes(tool, both + ".lmc")["model.w"] == "delta", "modes: %s" % modes(tool, both + ".lmc"))
    check(info(tool, both + ".lmc")["base"] is None, "it needs no other file")
    content = read(both)
    os.unlink(both)
    check_restores(tool, both + ".lmc", content)
    got = tool.run("get", both + ".lmc", "model.w[17:19]").expect(0).output
    check(got == tensors[2][3][17 * 200:19 * 200], "get")


def test_copies_of_masters_in_the_base(tool, directory):
    """The base holds the tensors in F32, the new file in BF16, under the same names."""
    tensors = masters(4)
    base = write_model(directory, "base.safetensors", tensors[:2])
    renamed = [(name.replace("model", "master"), dtype, shape, content)
               for name, dtype, shape, content in tensors[2:]]
    new = write_model(directory, "new.safetensors", renamed)
    archive = convert(tool, new, base)
    check_restores(tool, archive, read(new))
    check(modes(tool, archive)["master.w"] == "delta", "modes: %s" % modes(tool, archive))
    check(os.path.getsize(archive) < 0.02 * os.path.getsize(new), "%d bytes" % os.path.getsize(archive))


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

def structure(directory):
    rng = random.Random(8)
    a, b, c, d, e = (weights(rng, 2000) for _ in range(5))
    old = [("same", "BF16", [2000], a), ("renamed.old", "BF16", [2000], b), ("reshaped", "BF16", [20, 100], c),
           ("retyped", "BF16", [2000], d), ("removed", "BF16", [2000], e), ("moved", "BF16", [2000], e[::-1])]
    near = changed(("moved", "BF16", [2000], e[::-1]), rng, 0.05)
    new = [near, ("added", "BF16", [2000], weights(rng, 2000)), ("renamed.new", "BF16", [2000], b),
           ("reshaped", "BF16", [100, 20], changed(old[2], rng, 0.1)[3]), ("retyped", "F16", [2000], d),
           ("same", "BF16", [2000], a)]
    return (write_model(directory, "old.safetensors", old), write_model(directory, "new.safetensors", new),
            {"same": "delta", "moved": "delta", "renamed.new": "delta", "added": "coded", "reshaped": "coded",
             "retyped": "coded"})


def test_structure_changes(tool, directory):
    """Renamed tensors that are equal are found; others need name, dtype and shape."""
    old, new, expected = structure(directory)
    archive = convert(tool, new, old)
    found = modes(tool, archive)
    check(found == expected, "modes: %s" % found)
    check_restores(tool, archive, read(new))
    listed = ls(tool, archive)
    check(listed["same"]["stored_nbytes"] < 100 and listed["renamed.new"]["stored_nbytes"] < 100,
          "equal tensors cost %s" % listed)
    for name in expected:
        check(tool.run("get", archive, name).expect(0).output == tool.run("get", new, name).expect(0).output, name)


def test_nothing_in_common(tool, directory):
    """No tensor needs the base: the archive is as without one, and has none."""
    old = write_model(directory, "old.safetensors", first_snapshot())
    for i, tensors in enumerate(([("other", "BF16", [900], weights(random.Random(9), 900))], [])):
        new = write_model(directory, "new%d.safetensors" % i, tensors)
        archive = convert(tool, new, old)
        check(info(tool, archive)["base"] is None, "a base that is not needed")
        with_base = read(archive)
        tool.run("convert", new, "-f").expect(0)
        check(read(archive) == with_base, "the archives differ")
        os.rename(old, old + ".away")
        check_restores(tool, archive, read(new))
        os.rename(old + ".away", old)


def test_unrelated_content(tool, directory):
    """Same names and shapes, nothing else: not larger than alone."""
    old = write_model(directory, "old.safetensors", first_snapshot(1))
    new = write_model(directory, "new.safetensors", first_snapshot(2))
    tool.run("convert", new).expect(0)
    alone = os.path.getsize(new + ".lmc")
    archive = convert(tool, new, old, "-f")
    check(os.path.getsize(archive) <= alone + 200, "%d bytes, alone %d" % (os.path.getsize(archive), alone))
    check_restores(tool, archive, read(new))


def test_special_values(tool, directory):
    """NaN payloads, infinities, zeros of both signs, denormals, against themselves and each other."""
    values = {"BF16": [0x0000, 0x8000, 0x0001, 0x8001, 0x7f80, 0xff80, 0x7fc0, 0x7fc1, 0xffff, 0x7f81, 0x3f80, 0x007f],
              "F16": [0x0000, 0x8000, 0x0001, 0x7c00, 0xfc00, 0x7e00, 0x7e01, 0xffff, 0x3c00, 0x03ff],
              "F32": [0, 1 << 31, 1, 0x7f800000, 0xff800000, 0x7fc00000, 0x7fc00001, 0xffffffff, 0x3f800000, 0x7fffff],
              "F64": [0, 1 << 63, 1, 0x7ff << 52, 0xfff << 52, 0x7ff8 << 48, (1 << 64) - 1, 0x3ff << 52]}
    formats = {"BF16": "<H", "F16": "<H", "F32": "<I", "F64": "<Q"}
    rng = random.Random(10)
    snapshots = []
    for _ in range(2):
        tensors = []
        for dtype, specials in values.items():
            picked = [rng.choice(specials) for _ in range(3000)]
            tensors.append((dtype, dtype, [3000], b"".join(struct.pack(formats[dtype], v) for v in picked)))
        snapshots.append(tensors)
    old, new = (write_model(directory, "%d.safetensors" % i, tensors) for i, tensors in enumerate(snapshots))
    check_restores(tool, convert(tool, new, old), read(new))


def test_aliases_with_a_base(tool, directory):
    """Equal tensors of the new file are stored once, whatever the base has."""
    rng = random.Random(11)
    shared, other = weights(rng, 3000), weights(rng, 3000)
    old = write_model(directory, "old.safetensors", [("a", "BF16", [3000], shared), ("b", "BF16", [3000], other)])
    near = changed(("a", "BF16", [3000], shared), rng, 0.1)[3]
    new = write_model(directory, "new.safetensors", [("a", "BF16", [3000], near), ("b", "BF16", [3000], near),
                                                     ("c", "BF16", [3000], near)])
    archive = convert(tool, new, old)
    found = modes(tool, archive)
    check(found == {"a": "delta", "b": "alias", "c": "alias"}, "modes: %s" % found)
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

def chain(tool, directory, length):
    contents = make_chain(tool, directory, length)
    for i in range(length + 1):
        check(restored(tool, of_chain(directory, i)) == contents[i], "snapshot %d of the chain" % i)
    last = of_chain(directory, length)
    for options in (["-j1"], ["-j4"]):
        check_restores(tool, last, contents[-1], *options)
    names, base = [], info(tool, last)["base"]
    while base is not None:
        check(base["file"] == os.path.join(directory, base["name"] + ".lmc"), "file: %s" % base)
        names.append(base["name"])
        base = base["base"]
    check(names == ["s%d.safetensors" % i for i in reversed(range(length))], "info: %s" % names)
    for i, content in enumerate(contents):
        write(os.path.join(directory, "plain"), content)
        tool.run("diff", os.path.join(directory, "plain"), of_chain(directory, i)).expect(0)


def test_short_chains(tool, directory):
    for length in (1, 2, 5):
        place = os.path.join(directory, str(length))
        os.mkdir(place)
        chain(tool, place, length)


def test_chain_of_20(tool, directory):
    chain(tool, directory, 20)


@pytest.mark.large
def test_chains_of_many_lengths(tool, directory):
    """(tests/unit/safetensors/test_st_base_chain.c has every length.)"""
    for length in (1, 2, 3, 7, 20):
        place = os.path.join(directory, str(length))
        os.mkdir(place)
        chain(tool, place, length)


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


def test_chain_is_limited(tool, directory):
    """64 files; the 65th is refused when it is made. Nothing of it stays."""
    tensors = [("t", "BF16", [600], weights(random.Random(12), 600))]
    for i in range(66):
        path = write_model(directory, "s%d.safetensors" % i, tensors)
        base = [] if i == 0 else ["--base", of_chain(directory, i - 1)]
        result = tool.run("convert", path, *base)
        if result.status != 0:
            break
        tensors = next_snapshot(tensors, i, 0.05)
        os.unlink(path)
    check(i == 64, "the chain ends at %d" % i)
    result.expect(1, "64")
    check(not os.path.exists(of_chain(directory, 64)), "an archive that nobody can read")
    tool.run("verify", of_chain(directory, 63)).expect(0)


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
