"""Equal tensors are stored once; lists of aliases that no writer makes are refused (docs/archive.md)."""
import ctypes
import ctypes.util
import hashlib
import json
import os
import random
import signal
import struct

from faults import Faults
from support import Archive, check, check_only, in_directory, load_hash, model, read, weights, write
from trees import Untouched


def modes(tool, path):
    return {t["name"]: t["mode"] for t in json.loads(tool.run("ls", "--json", path).expect(0).stdout)}


def archive_of(tool, directory, tensors, *options):
    """Converts, restores, compares, verifies; returns the archive's path."""
    content = model(tensors)
    path = tool.round_trip(in_directory(directory, content), *options)
    tool.run("verify", path, "--sha256", hashlib.sha256(content).hexdigest()).expect(0)
    return path


def frames(path):
    archive = Archive(read(path))
    return {name: frame for name, frame in archive.parts[1:]}


# ---- what is stored once ----

def test_many_equal_tensors(tool, directory):
    rng = random.Random(1)
    content = weights(rng, 2000)
    tensors = [("t%03d" % i, "BF16", [2000], content) for i in range(300)]
    archives = set()
    for options in (("-j1",), ("-j2",), ("--level", "fast"), ("--level", "max")):
        path = archive_of(tool, directory, tensors, *options)
        found = modes(tool, path)
        check(found.pop("t000") == "coded" and set(found.values()) == {"alias"}, "modes: %s" % set(found.values()))
        check(all(frame == b"" for name, frame in frames(path).items() if name != "t000"), "an alias has a frame")
        if options[0] in ("-j1", "-j2"):
            archives.add(read(path))
    check(len(archives) == 1, "the archive depends on the number of threads")


def test_what_counts_as_equal(tool, directory):
    """Dtype and bytes; neither name nor shape."""
    rng = random.Random(2)
    a, b = weights(rng, 600), weights(rng, 600)
    tensors = [("a", "BF16", [600], a), ("shape", "BF16", [2, 1, 300], a), ("dtype", "F16", [600], a),
               ("bytes", "U8", [1200], a), ("other", "BF16", [600], b), ("dtype again", "F16", [30, 20], a),
               ("shorter", "BF16", [599], a[:-2]), ("zeros", "BF16", [600], bytes(1200)), ("last", "BF16", [600], a),
               ("more zeros", "BF16", [600, 1], bytes(1200)), ("other again", "BF16", [600], b)]
    found = modes(tool, archive_of(tool, directory, tensors))
    aliases = sorted(name for name, mode in found.items() if mode == "alias")
    check(aliases == ["dtype again", "last", "more zeros", "other again", "shape"], "aliases: %s" % aliases)


def test_small_and_empty_tensors(tool, directory):
    """Whether they are stored once is open; that they come back is not."""
    rng = random.Random(3)
    tensors = []
    for nbytes in (0, 1, 8, 63, 64, 65, 127, 128, 1024, 1536, 1537):
        content = rng.randbytes(nbytes)
        tensors += [("%d.%d" % (nbytes, i), "U8", [nbytes], content) for i in range(3)]
        tensors += [("%d.F8" % nbytes, "F8_E4M3", [nbytes], content)]
    rng.shuffle(tensors)
    found = modes(tool, archive_of(tool, directory, tensors))
    check(sum(mode == "alias" for name, mode in found.items() if int(name.split(".")[0]) >= 1024) == 6, str(found))


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
    found = modes(tool, archive_of(tool, directory, tensors))
    check([name for name, mode in found.items() if mode == "alias"] == ["again"], "aliases: %s" % found)


def test_groups_that_alternate(tool, directory):
    """Several contents with the same begin, middle and end, each of them several times."""
    rng = random.Random(5)
    base = rng.randbytes(8192)
    contents = [base[:1000] + bytes([i]) + base[1001:] for i in range(9)]
    for count in (2, 3, 4, 9):
        tensors = [("t%d.%d" % (i, turn), "U8", [8192], contents[i]) for turn in range(4) for i in range(count)]
        path = archive_of(tool, directory, tensors)
        stored = {name: frame for name, frame in frames(path).items() if frame}
        check(all("t%d.0" % i in stored for i in range(count)), "a first one is an alias")
        check(count > 4 or len(stored) == count, "%d frames for %d contents" % (len(stored), count))


def test_hostile_groups_stay_linear(tool, directory):
    """Tensors that agree wherever samples could be taken do not cost a comparison of each with each."""
    rng = random.Random(6)
    base = rng.randbytes(4096)
    calls = []
    faults = Faults(tool, directory)
    for count in (150, 600):
        tensors = [("t%d" % i, "U8", [4096], base[:700] + struct.pack("<I", i) + base[704:]) for i in range(count)]
        path = in_directory(directory, model(tensors))
        _, hits = faults.run("pread:1:0:s%d" % signal.SIGURG, "convert", path, "-f", "-j1")
        check(len(hits) > count, "the reads were not counted: %d" % len(hits))
        calls.append(len(hits))
        archive_of(tool, directory, tensors, "-q")  # it is larger than its source
    check(calls[1] < 8 * calls[0], "reads: %s" % calls)


# ---- lists that no writer makes ----

HEAD_NBYTES = 40
A = weights(random.Random(7), 500)
TENSORS = [("a", "BF16", [500], A), ("b", "BF16", [500], A), ("other", "BF16", [500], weights(random.Random(8), 500)),
           ("dtype", "F16", [500], A), ("shorter", "BF16", [300], A[:600]), ("c", "BF16", [5, 100], A),
           ("last", "U8", [700], random.Random(9).randbytes(700))]
NAMES = [name for name, _, _, _ in TENSORS]


_made = {}


def archive_of_tensors(tool, directory):
    if tool.path not in _made:
        path = in_directory(directory, model(TENSORS))
        tool.run("convert", path, "--rm").expect(0)
        _made[tool.path] = read(path + ".lmc")
        os.unlink(path + ".lmc")
    return _made[tool.path]


class Forger:
    """Takes the archive of TENSORS apart and puts it together with other lists; all checksums are right."""

    def __init__(self, tool, directory):
        self.hash = load_hash()
        self.original = model(TENSORS)
        self.archive = Archive(archive_of_tensors(tool, directory))
        table = self.archive.parts[0][1]
        stored_nbytes = struct.unpack("<Q", table[32:40])[0]
        self.head = bytearray(table[:HEAD_NBYTES])
        self.stored = table[HEAD_NBYTES:HEAD_NBYTES + stored_nbytes]
        at = HEAD_NBYTES + stored_nbytes
        self.hashes = [table[at + 8 * i:at + 8 * i + 8] for i in range(len(TENSORS))]
        self.list = table[at + 8 * len(TENSORS):-24]
        check(struct.unpack("<I", self.head[8:12])[0] == 2, "feature bit 1 is not set")
        check(self.list == struct.pack("<5I", 2, 1, 0, 5, 0), "the list is %s" % self.list.hex())
        self.frames = {name: frame for name, frame in self.archive.parts[1:]}

    def build(self):
        header_nbytes = struct.unpack("<Q", self.original[:8])[0]
        header = self.original[8:8 + header_nbytes]
        body = bytes(self.head) + self.stored + b"".join(self.hashes) + self.list
        body += self.hash(struct.pack("<QQ", len(self.original), header_nbytes) + self.hash(header)
                          + b"".join(self.hashes))
        parts = [[self.archive.parts[0][0], body + bytes(16)], *([name, self.frames[name]] for name in NAMES)]
        self.archive.parts = parts
        length = struct.unpack("<Q", self.archive.build(same_size=False)[:8])[0]
        body += self.hash(self.archive.build(same_size=False)[8:8 + length])
        parts[0][1] = body + self.hash(body)
        return self.archive.build(same_size=False)

    def pairs(self, *pairs):
        self.list = struct.pack("<I", len(pairs)) + b"".join(struct.pack("<II", *pair) for pair in pairs)
        return self

    def frame(self, name, frame):
        self.frames[name] = frame
        return self

    def own_frame(self, name):
        return self.frame(name, self.frames["a"])

    def raw(self, content):
        self.list = content
        return self

    def features(self, value):
        self.head[8:12] = struct.pack("<I", value)
        return self

    def hash_of(self, name, other):
        self.hashes[NAMES.index(name)] = self.hashes[NAMES.index(other)]
        return self


def test_lists_that_are_right(tool, directory):
    """What the forger makes is accepted where it should be: the refusals below have their own reasons."""
    for what, change in {
            "as it was": lambda f: f,
            "one alias less": lambda f: f.pairs((5, 0)).own_frame("b"),
            "another owner": lambda f: f.pairs((5, 1)).own_frame("b"),
            "no alias at all": lambda f: f.raw(b"").own_frame("b").own_frame("c").features(0)}.items():
        path = in_directory(directory, change(Forger(tool, directory)).build(), "x.lmc")
        tool.run("verify", path).expect(0)
        tool.run("restore", path).expect(0)
        check(read(os.path.join(directory, "x")) == model(TENSORS), what)
        os.unlink(os.path.join(directory, "x"))


def u32(*values):
    return struct.pack("<%dI" % len(values), *values)


REFUSED = {
    "alias_of_an_alias": lambda f: f.pairs((1, 0), (5, 1)),
    "chain_in_a_circle": lambda f: f.pairs((1, 5), (5, 1)),
    "owner_after_alias": lambda f: f.pairs((1, 5)).own_frame("c"),
    "owner_after_alias_first": lambda f: f.pairs((0, 1), (5, 1)).frame("b", f.frames["a"]).frame("a", b""),
    "alias_of_itself": lambda f: f.pairs((1, 1), (5, 0)),
    "first_of_itself": lambda f: f.pairs((0, 0), (1, 0), (5, 0)),
    "other_dtype": lambda f: f.pairs((1, 0), (3, 0), (5, 0)).frame("dtype", b"").hash_of("dtype", "a"),
    "other_size": lambda f: f.pairs((1, 0), (4, 0), (5, 0)).frame("shorter", b"").hash_of("shorter", "a"),
    "other_hash": lambda f: f.pairs((1, 0), (2, 0), (5, 0)).frame("other", b""),
    "other_owner": lambda f: f.pairs((1, 0), (5, 2)),
    "alias_with_a_frame": lambda f: f.own_frame("c"),
    "alias_with_a_byte": lambda f: f.frame("c", b"x"),
    "owner_without_a_frame": lambda f: f.frame("a", b""),
    "alias_that_is_not_listed": lambda f: f.pairs((1, 0)),
    "no_list_but_aliases": lambda f: f.raw(b"").features(0),
    "list_without_its_feature": lambda f: f.features(0),
    "feature_without_its_list": lambda f: f.raw(b""),
    "count_of_zero": lambda f: f.raw(u32(0)).own_frame("b").own_frame("c"),
    "count_of_zero_and_pairs": lambda f: f.raw(u32(0, 1, 0, 5, 0)),
    "count_too_small": lambda f: f.raw(u32(1, 1, 0, 5, 0)),
    "count_too_large": lambda f: f.raw(u32(3, 1, 0, 5, 0)),
    "count_of_all": lambda f: f.raw(u32(2**32 - 1, 1, 0, 5, 0)),
    "count_that_wraps": lambda f: f.raw(u32(2**29 + 2, 1, 0, 5, 0)),
    "count_that_wraps_to_nothing": lambda f: f.raw(u32(2**29)),
    "half_a_count": lambda f: f.raw(b"\2\0"),
    "half_a_pair": lambda f: f.raw(u32(2, 1, 0, 5)),
    "a_byte_more": lambda f: f.raw(u32(2, 1, 0, 5, 0) + b"\0"),
    "a_byte_less": lambda f: f.raw(u32(2, 1, 0, 5, 0)[:-1]),
    "unsorted": lambda f: f.pairs((5, 0), (1, 0)),
    "twice": lambda f: f.pairs((1, 0), (1, 0), (5, 0)),
    "twice_with_two_owners": lambda f: f.pairs((1, 0), (5, 0), (5, 1)).own_frame("b"),
    "alias_out_of_range": lambda f: f.pairs((1, 0), (5, 0), (7, 0)),
    "alias_far_out_of_range": lambda f: f.pairs((1, 0), (5, 0), (2**32 - 1, 0)),
    "alias_and_owner_out_of_range": lambda f: f.pairs((1, 0), (5, 0), (8, 7)),
    "owner_out_of_range": lambda f: f.pairs((1, 0), (5, 2**32 - 1)),
    "too_many_pairs": lambda f: f.pairs((1, 0), (5, 0), *((i, 0) for i in range(6, 40))),
    "unknown_feature_beside": lambda f: f.features(2 | 16),
}

# Frames are not looked at before they are needed; a salvage gives the other tensors.
FOUND_WITH_FRAMES = ("owner_without_a_frame", "alias_that_is_not_listed", "no_list_but_aliases")


def test_lists_that_are_wrong(tool, directory):
    for what, change in REFUSED.items():
        path = in_directory(directory, change(Forger(tool, directory)).build(), "x.lmc")
        wanted = "newer version" if what == "unknown_feature_beside" else "x.lmc"
        commands = [["restore"], ["verify"]]
        if what not in FOUND_WITH_FRAMES:
            commands += [["restore", "--salvage"], ["ls"]]
        for command in commands:
            with Untouched(directory, what):
                tool.run(*command, path).expect(1, wanted)


def test_damaged_lists(tool, directory):
    """Every byte of the list is covered by the table's checksum."""
    forger = Forger(tool, directory)
    content = forger.build()
    at = content.index(forger.list)
    for i in range(len(forger.list)):
        damaged = bytearray(content)
        damaged[at + i] ^= 1 << i % 8
        path = in_directory(directory, bytes(damaged), "x.lmc")
        tool.run("verify", path).expect(1, "checksum")
    write(path, content)
    tool.run("verify", path).expect(0)
    check_only(directory, "x.lmc")
