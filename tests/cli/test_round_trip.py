"""What goes in comes out: dtypes, sizes, names, levels, threads."""
import json
import itertools
import os
import random

from bases import modes
from support import BITS, Archive, check, in_directory, model, read, small_model, weights

SIZES = (0, 1, 2, 3, 7, 8, 31, 127, 128, 129, 255, 256, 257, 1000, 4097)


def all_dtypes(rng):
    tensors = []
    for dtype, bits in BITS.items():
        for count in SIZES:
            if count * bits % 8 == 0:
                content = weights(rng, count * bits // 16 + 1)[:count * bits // 8]
                tensors.append(("%s.%d" % (dtype, count), dtype, [count], content))
    return tensors


def test_every_dtype_and_size(tool, directory):
    tensors = all_dtypes(random.Random(2))
    path = in_directory(directory, model(tensors))
    for level in ("default", "fast", "max"):
        tool.round_trip(path, "--level", level)


def test_special_floats(tool, directory):
    patterns = [b"\x00\x80", b"\x80\x7f", b"\x80\xff", b"\xc0\x7f", b"\xc1\xff", b"\x01\x00", b"\x01\x80"]
    rng = random.Random(4)
    content = b"".join(rng.choice(patterns) for _ in range(70000))
    path = in_directory(directory, model([("a", "BF16", [70000], content), ("b", "F32", [35000], content),
                                          ("c", "F16", [70000], content), ("d", "F64", [17500], content)]))
    tool.round_trip(path)


def test_threads_do_not_change_bytes(tool, directory):
    rng = random.Random(5)
    block = weights(rng, 50000)
    tensors = [("big", "BF16", [20 * 50000 + 7], block * 20 + weights(rng, 7))]
    tensors += [("t%d" % i, "BF16", [i * 40], weights(rng, i * 40)) for i in range(60)]
    tensors += [("noise", "U8", [3_000_001], rng.randbytes(3_000_001))]
    path = in_directory(directory, model(tensors))
    archives = set()
    for threads in ("-j1", "-j2", "-j5", "-j0"):
        archives.add(read(tool.round_trip(path, threads)))
    check(len(archives) == 1, "the archive depends on the number of threads")


def test_more_threads_than_memory(tool, directory):
    """Where there is no room for as many threads, in the address space or for data, fewer do the work."""
    rng = random.Random(8)
    block = weights(rng, 1 << 18)
    content = model([("t%d" % i, "BF16", [1 << 18], bytes([i]) + block[1:]) for i in range(24)])
    path = in_directory(directory, content)
    archive = tool.round_trip(path, "-j1")
    expected = read(archive)
    for what, megabytes in itertools.product(("address_space", "data"), (60, 100, 200, 400, 1000)):
        limits = {what: megabytes << 20}
        tool.run("convert", path, "-f", "-j64", **limits).expect(0)
        check(read(archive) == expected, "the archive differs, %s, %d MiB" % (what, megabytes))
        tool.run("restore", archive, "-f", "-j64", "-o", path + ".back", **limits).expect(0)
        check(read(path + ".back") == content, "the restored file differs, %s, %d MiB" % (what, megabytes))
        tool.run("verify", archive, "-j64", **limits).expect(0)


def test_archive_is_not_larger(tool, directory):
    rng = random.Random(6)
    path = in_directory(directory, model([("a", "F32", [100000], rng.randbytes(400000))]))
    archive = tool.round_trip(path)
    check(os.path.getsize(archive) < os.path.getsize(path) + 1000, "noise has grown too much")


def test_archive_is_safetensors(tool, directory):
    path = in_directory(directory, small_model())
    archive = Archive(read(tool.round_trip(path)))
    names = [name for name, _ in archive.parts]
    check(names == ["lmc.archive", "embed", "noise.0", "noise.1", "scale.0", "scale.1", "empty", "layer.0",
                    "layer.1"], "names: %s" % names)
    check(archive.metadata == {"format": "lmc", "lmc_archive": "1"}, "metadata")
    check((archive.header_nbytes + 8) % 8 == 0, "alignment")


def test_container_overhead(tool, directory):
    rng = random.Random(7)
    tensors = [("model.layers.%d.attn.query.weight" % i, "BF16", [256], weights(rng, 256)) for i in range(37)]
    path = in_directory(directory, model(tensors))
    archive = Archive(read(tool.round_trip(path)))
    overhead = 8 + archive.header_nbytes + len(archive.parts[0][1])
    check(overhead < 6500, "container overhead is %d bytes" % overhead)


def test_names_survive(tool, directory):
    names = ["", "\0", "a\0b", "\u20ac\U0001f600", "../x", "a\"b\\c", "\x1b[31m", "x" * 10000, "lmc.archive",
             "lmc.archive~", "__metadata", "format"]
    path = in_directory(directory, model([(name, "U8", [3], b"abc") for name in names]))
    archive = tool.round_trip(path)
    listed = json.loads(tool.run("ls", "--json", archive).expect(0).stdout)
    check([tensor["name"] for tensor in listed] == names, "names: %s" % listed)
    check(Archive(read(archive)).parts[0][0] == "lmc.archive~~", "the table's name")
    table = tool.run("ls", archive).expect(0).stdout
    check("\x1b" not in table and "\0" not in table, "control characters in the table")


def test_list_json(tool, directory):
    content = small_model()
    path = in_directory(directory, content)
    archive = tool.round_trip(path)
    listed = json.loads(tool.run("ls", archive, "--json").expect(0).stdout)
    parts = Archive(read(archive)).parts[1:]
    check([t["stored_nbytes"] for t in listed] == [len(frame) for _, frame in parts], "stored sizes")
    check([t["mode"] for t in listed] == ["coded", "stored", "stored", "short", "short", "short", "coded",
                                          "coded"], "modes: %s" % [t["mode"] for t in listed])
    check(listed[0]["dtype"] == "BF16" and listed[0]["shape"] == [40, 50] and listed[0]["nbytes"] == 4000,
          "first tensor: %s" % listed[0])
    check(abs(listed[0]["ratio"] - listed[0]["stored_nbytes"] / 4000) < 1e-6, "ratio")
    check(listed[5]["nbytes"] == 0 and listed[5]["ratio"] is None, "empty tensor: %s" % listed[5])
    plain = json.loads(tool.run("ls", "--json", path).expect(0).stdout)
    check(all(t["mode"] == "plain" and t["stored_nbytes"] == t["nbytes"] for t in plain), "plain: %s" % plain)
    check(json.loads(tool.run("ls", "--json", in_directory(directory, b"\x02" + bytes(7) + b"{}", "e")).stdout)
          == [], "no tensors")


# ---- equal tensors are stored once ----

def test_many_equal_tensors(tool, directory):
    rng = random.Random(1)
    content = weights(rng, 2000)
    tensors = [("t%03d" % i, "BF16", [2000], content) for i in range(300)]
    archives = set()
    for options in (("-j1",), ("-j2",), ("--level", "fast"), ("--level", "max")):
        path = tool.round_trip(in_directory(directory, model(tensors)), *options)
        found = modes(tool, path)
        check(found.pop("t000") == "coded" and set(found.values()) == {"alias"}, "modes: %s" % set(found.values()))
        check(all(frame == b"" for _, frame in Archive(read(path)).parts[2:]), "an alias has a frame")
        if options[0] in ("-j1", "-j2"):
            archives.add(read(path))
    check(len(archives) == 1, "the archive depends on the number of threads")


def test_what_counts_as_equal(tool, directory):
    """Dtype and bytes; neither name nor shape. (tests/unit/safetensors/test_st_alias.c finds them.)"""
    rng = random.Random(2)
    a, b = weights(rng, 600), weights(rng, 600)
    tensors = [("a", "BF16", [600], a), ("shape", "BF16", [2, 1, 300], a), ("dtype", "F16", [600], a),
               ("bytes", "U8", [1200], a), ("other", "BF16", [600], b), ("dtype again", "F16", [30, 20], a),
               ("shorter", "BF16", [599], a[:-2]), ("zeros", "BF16", [600], bytes(1200)), ("last", "BF16", [600], a),
               ("more zeros", "BF16", [600, 1], bytes(1200)), ("other again", "BF16", [600], b)]
    found = modes(tool, tool.round_trip(in_directory(directory, model(tensors))))
    aliases = sorted(name for name, mode in found.items() if mode == "alias")
    check(aliases == ["dtype again", "last", "more zeros", "other again", "shape"], "aliases: %s" % aliases)


def test_equal_at_first_sight(tool, directory):
    """One byte differs, wherever it is; long tensors are compared to the end."""
    rng = random.Random(4)
    base = bytearray(rng.randbytes(1 << 20))
    tensors = [("base", "U8", [1 << 20], bytes(base))]
    places = [0, 511, 512, 600, 5000, (1 << 18) - 1, 1 << 18, 1 << 19, (1 << 20) - 513, (1 << 20) - 1]
    for place in places:
        base[place] ^= 1
        tensors.append(("x%d" % place, "U8", [1 << 20], bytes(base)))
        base[place] ^= 1
    tensors.append(("again", "U8", [1 << 20], bytes(base)))
    found = modes(tool, tool.round_trip(in_directory(directory, model(tensors))))
    check([name for name, mode in found.items() if mode == "alias"] == ["again"], "aliases: %s" % found)
