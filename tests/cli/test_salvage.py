"""restore --salvage: of a damaged archive, exactly the tensors that verify; verify names the others."""
import errno
import os
import random
import re
import struct
import subprocess

import pytest

from faults import Faults
from support import Archive, check, check_only, in_directory, model, parse, read, small_model, weights, write
from trees import Untouched

ODD = ["", "\0", "a\0b", "\u20ac\U0001f600", "../x", "a\"b\\c", "\x1b[31m", "x" * 3000, "lmc.archive", "__metadata",
       "alias 1", "alias 2", "alias of noise"]
METADATA = {"format": "pt", "k\u00e4y \"": "v\n\u20ac\0", "": ""}


def odd_model():
    """Coded, stored, short and empty frames, aliases, names of every kind; all but some have content."""
    rng = random.Random(11)
    shared, noise = weights(rng, 3000), rng.randbytes(5000)
    tensors = []
    for i, name in enumerate(ODD[:10]):
        if i % 4 == 0:
            tensors.append((name, "BF16", [10, 100 + i], weights(rng, 1000 + 10 * i)))
        elif i % 4 == 1:
            tensors.append((name, "U8", [2, 1, 300 + i], rng.randbytes(600 + 2 * i)))
        else:
            tensors.append((name, "F32", [i], rng.randbytes(4 * i)))
    tensors.append(("owner", "BF16", [3000], shared))
    tensors.append(("nothing", "I64", [0, 7], b""))
    tensors.append(("noise", "I8", [5000], noise))
    tensors.append((ODD[10], "BF16", [30, 100], shared))
    tensors.append((ODD[12], "I8", [5000], noise))
    tensors.append(("scalar", "F64", [], rng.randbytes(8)))
    tensors.append((ODD[11], "BF16", [3000], shared))
    return tensors


OWNERS = {ODD[10]: "owner", ODD[11]: "owner", ODD[12]: "noise"}


class Parts:
    """Where the frames of an archive are."""

    def __init__(self, content):
        self.content = content
        archive = Archive(content)
        self.data = 8 + archive.header_nbytes
        self.front = self.data + len(archive.parts[0][1])  # with the table
        self.frames = {}
        at = self.data
        for name, frame in archive.parts:
            self.frames[name] = (at, at + len(frame))
            at += len(frame)

    def hit(self, *places):
        """The tensors that are lost when these bytes are damaged."""
        owners = {name for name, (begin, end) in self.frames.items() if any(begin <= p < end for p in places)}
        return owners | {alias for alias, owner in OWNERS.items() if owner in owners}

    def cut(self, nbytes):
        """The tensors that are lost when only so many bytes are there."""
        owners = {name for name, (_, end) in self.frames.items() if end > nbytes and name not in OWNERS}
        return owners | {alias for alias, owner in OWNERS.items() if owner in owners}


def make(tool, directory, tensors, metadata=None):
    path = in_directory(directory, model(tensors, metadata))
    tool.run("convert", path).expect(0)
    content = read(path + ".lmc")
    os.unlink(path)
    os.unlink(path + ".lmc")
    return content


def shown_names(tensors, lost):
    """How messages show the names, for those that they do not cut."""
    return ['tensor "%s"' % name for name, _, _, _ in tensors if name in lost and re.fullmatch(r"[a-z./]{1,99}", name)]


def salvage(tool, directory, damaged, tensors, metadata, lost, *options):
    """Runs verify and restore --salvage; checks the output against the tensors that are not lost."""
    path = in_directory(directory, bytes(damaged), "x.lmc")
    with Untouched(directory):
        told = tool.run("verify", path, *options).expect(1, *shown_names(tensors, lost)).stderr
    check(told.count(": tensor ") == len(lost), "verify has named %d, not %d: %s" % (
        told.count(": tensor "), len(lost), told))
    with Untouched(directory):
        tool.run("restore", path, *options).expect(1)
    told = tool.run("restore", "--salvage", path, *options).expect(1, *shown_names(tensors, lost)).stderr
    check(told.count("\n") == len(lost), "%d messages, %d tensors: %s" % (told.count("\n"), len(lost), told))
    check_only(directory, "x", "x.lmc")
    found = parse(read(os.path.join(directory, "x")))
    wanted = [tensor for tensor in tensors if tensor[0] not in lost]
    check(found[0] == metadata, "metadata: %s" % found[0])
    check([t[0] for t in found[1]] == [t[0] for t in wanted], "names: %s, lost were %s" % (
        [t[0][:20] for t in found[1]], [name[:20] for name in lost]))
    check(found[1] == wanted, "tensors differ")
    tool.run("verify", "-q", os.path.join(directory, "x")).expect(0)
    check(read(path) == bytes(damaged), "the archive was changed")
    os.unlink(os.path.join(directory, "x"))


def flip(content, *places):
    damaged = bytearray(content)
    for i, place in enumerate(places):
        damaged[place] ^= 1 << (place + i) % 8
    return damaged


def test_one_byte_anywhere(tool, directory):
    tensors = odd_model()
    content = make(tool, directory, tensors, METADATA)
    parts = Parts(content)
    rng = random.Random(5)
    for turn in range(30):
        place = rng.randrange(parts.front, len(content))
        salvage(tool, directory, flip(content, place), tensors, METADATA, parts.hit(place),
                "-j%d" % (turn % 2 + 1))


def test_begin_and_end_of_each_frame(tool, directory):
    """The magic and the last byte of the checksum: one tensor and its aliases each."""
    tensors = odd_model()
    content = make(tool, directory, tensors, METADATA)
    parts = Parts(content)
    for name, (begin, end) in parts.frames.items():
        if name in OWNERS or name.startswith("lmc.archive~"):
            continue
        for place in (begin, end - 1):
            salvage(tool, directory, flip(content, place), tensors, METADATA, parts.hit(place))


def test_several_tensors(tool, directory):
    tensors = odd_model()
    content = make(tool, directory, tensors, METADATA)
    parts = Parts(content)
    rng = random.Random(6)
    for count in (2, 3, 5, 8, 30):
        places = [rng.randrange(parts.front, len(content)) for _ in range(count)]
        salvage(tool, directory, flip(content, *places), tensors, METADATA, parts.hit(*places))
    begin, end = parts.frames["owner"]
    blank = bytearray(content)
    blank[begin:end] = bytes(end - begin)
    salvage(tool, directory, blank, tensors, METADATA, parts.hit(begin))
    swapped = bytearray(content)
    one, other = parts.frames[ODD[1]], parts.frames[ODD[5]]
    swapped[one[0]:one[0] + 64] = content[other[0]:other[0] + 64]
    salvage(tool, directory, swapped, tensors, METADATA, parts.hit(one[0]))


def test_all_tensors(tool, directory):
    """What is left is a file without tensors."""
    for metadata in (None, METADATA, {}):
        tensors = odd_model()
        content = make(tool, directory, tensors, metadata)
        parts = Parts(content)
        places = [begin + 1 for name, (begin, end) in parts.frames.items() if begin < end and begin >= parts.front]
        lost = {name for name, _, _, _ in tensors}
        check(parts.hit(*places) == lost, "the test is wrong")
        salvage(tool, directory, flip(content, *places), tensors, metadata, lost)


def test_cut_anywhere(tool, directory):
    tensors = odd_model()
    content = make(tool, directory, tensors, METADATA)
    parts = Parts(content)
    rng = random.Random(7)
    ends = sorted({end for _, end in parts.frames.values() if end > parts.front})
    for nbytes in [parts.front, len(content) - 1, *ends[:-1:3], *(end + 1 for end in ends[:-1:4]),
                   *(rng.randrange(parts.front, len(content)) for _ in range(12))]:
        salvage(tool, directory, content[:nbytes], tensors, METADATA, parts.cut(nbytes))
    place = parts.frames["owner"][0] + 100
    salvage(tool, directory, flip(content[:-10], place), tensors, METADATA,
            parts.cut(len(content) - 10) | parts.hit(place))


@pytest.mark.parametrize("name", ["small 7", "large"])
def test_unreadable_byte(tool, directory, name):
    """What the disk does not give is lost like what is damaged, and nothing beside it: small tensors are read together,
    large ones in parts of several blocks."""
    rng = random.Random(9)
    tensors = [("small %d" % i, "BF16", [3000], weights(rng, 3000)) for i in range(20)]
    tensors.insert(12, ("large", "BF16", [1500000], weights(rng, 30000) * 50))
    content = make(tool, directory, tensors, METADATA)
    path = in_directory(directory, content, "x.lmc")
    faults = Faults(tool, directory)
    begin, end = Parts(content).frames[name]
    faults.byte = begin + (end - begin) * 2 // 5
    for threads in ("-j1", "-j2"):
        result, hits = faults.run("pread:1:0:e%d" % errno.EIO, "restore", "--salvage", "-f", threads, path)
        result.expect(3, 'tensor "%s"' % name, os.strerror(errno.EIO))
        check("pread" in hits and result.stderr.count("\n") == 1, result.stderr)
        check(parse(read(os.path.join(directory, "x")))[1] == [one for one in tensors if one[0] != name], "tensors")
    if name == "large":
        damaged = in_directory(directory, bytes(flip(content, faults.byte)), "damaged.lmc")
        told = tool.run("restore", "--salvage", "-f", damaged).expect(1, "; damaged: 1 of ").stderr
        check(told.split("; ")[1] == result.stderr.split("; ")[1], "blocks: %s%s" % (told, result.stderr))


def test_damaged_table(tool, directory):
    """Without a sound table and header there is nothing to go by: refused, nothing written."""
    content = make(tool, directory, odd_model(), METADATA)
    parts = Parts(content)
    rng = random.Random(8)
    places = [rng.randrange(parts.front) for _ in range(20)] + [0, 8, parts.data - 1, parts.data, parts.front - 1]
    cases = [flip(content, place) for place in places]
    cases += [content[:rng.randrange(parts.front)] for _ in range(10)] + [content[:parts.front - 1], b"", content[:8]]
    cases += [small_model()]
    for damaged in cases:
        path = in_directory(directory, bytes(damaged), "x.lmc")
        with Untouched(directory):
            tool.run("restore", "--salvage", path).expect(1, "x.lmc")
            check(tool.run("restore", "--salvage", path, "-c").expect(1).stdout == "", "standard output")


def test_something_appended(tool, directory):
    """All of the archive is there: refused by verify, but not lost."""
    content = make(tool, directory, odd_model(), METADATA)
    original = model(odd_model(), METADATA)
    for tail in (b"x", bytes(512)):
        path = in_directory(directory, content + tail, "x.lmc")
        tool.run("verify", path).expect(1, "follow the last tensor")
        tool.run("restore", path, "-o", path + ".back").expect(1, "follow the last tensor")
        tool.run("restore", "--salvage", path, "-o", path + ".back", "-f").expect(0)
        check(read(path + ".back") == original, "the file differs")


def test_undamaged(tool, directory):
    """The original, byte for byte, white space in its header and all."""
    text = b' {"b" : {"dtype":"U8","shape":[3],"data_offsets":[0,3],"more":{"x":[1]}}, "__metadata__":null}\n'
    for content in (small_model(), model(odd_model(), METADATA), model([]),
                    struct.pack("<Q", len(text)) + text + b"abc"):
        path = in_directory(directory, content)
        os.utime(path, ns=(0, 10**18))
        tool.run("convert", path).expect(0)
        for options in ((), ("-j1",), ("-v",)):
            result = tool.run("restore", "--salvage", path + ".lmc", "-f", *options)
            check(result.status == 0 and ("lost" in result.stderr) is False, "exit %d" % result.status)
            check(read(path) == content and os.stat(path).st_mtime_ns == 10**18, "the file differs")
        os.unlink(path + ".lmc")


def test_metadata_and_dtypes_stay(tool, directory):
    """Null and empty metadata, shapes with zeros and of rank 0, dtypes below a byte, other keys of entries."""
    rng = random.Random(4)
    tensors = [("lost", "BF16", [500], weights(rng, 500)), ("f4", "F4", [3, 2], b"abc"), ("f6", "F6_E2M3", [4], b"abc"),
               ("c", "C64", [1, 1, 1], bytes(8)), ("zero", "F16", [0, 2**40, 5], b""), ("scalar", "I16", [], b"ab"),
               ("ones", "BOOL", [1] * 30, b"\1")]
    for metadata in (None, {}, {"a": "b"}):
        content = make(tool, directory, tensors, metadata)
        place = Parts(content).frames["lost"][0] + 50
        salvage(tool, directory, flip(content, place), tensors, metadata, {"lost"})
    text = (b'{"lost":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"__metadata__":null,'
            b'"kept":{"more":[{}],"data_offsets":[2,3],"shape":[1],"dtype":"U8"}}')
    path = in_directory(directory, struct.pack("<Q", len(text)) + text + b"abc")
    tool.run("convert", path, "--rm").expect(0)
    content = read(path + ".lmc")
    os.unlink(path + ".lmc")
    place = Parts(content).frames["lost"][0] + 9
    salvage(tool, directory, flip(content, place),
            [("lost", "U8", [2], b"ab"), ("kept", "U8", [1], b"c")], None, {"lost"})


def test_blocks_are_named(tool, directory):
    """verify names each damaged block, and a place near the damage."""
    rng = random.Random(10)
    tensors = [("small", "U8", [300], rng.randbytes(300)), ("big", "BF16", [1500000], weights(rng, 15000) * 100)]
    content = make(tool, directory, tensors)
    begin, end = Parts(content).frames["big"]
    last = -1
    for share in (0.1, 0.25, 0.5, 0.75, 0.98):
        place = begin + int((end - begin) * share)
        path = in_directory(directory, bytes(flip(content, place)), "x.lmc")
        told = tool.run("verify", path).expect(1, 'tensor "big"', "damaged: 1 of ").stderr
        found = re.search(r"offset (\d+): .* 1 of (\d+) blocks, number (\d+)\n", told)
        offset, count, number = map(int, found.groups())
        check(count > 10 and last < number < count, "number %d of %d after %d" % (number, count, last))
        check(place - (end - begin) / count * 3 < offset <= place, "offset %d, damage at %d" % (offset, place))
        last = number
        salvage(tool, directory, flip(content, place), tensors, None, {"big"})
    places = [begin + int((end - begin) * share) for share in (0.2, 0.5, 0.6, 0.8)]
    path = in_directory(directory, bytes(flip(content, *places)), "x.lmc")
    tool.run("verify", path).expect(1, "damaged: 4 of ")
    blank = bytearray(content)
    blank[places[0]:places[3]] = bytes(places[3] - places[0])
    path = in_directory(directory, bytes(blank), "x.lmc")
    told = tool.run("verify", path).expect(1, "blocks, number").stderr
    first, final = map(int, re.search(r" (\d+)-(\d+)\n", told).groups())
    check(first < final, "blocks: " + told)
    salvage(tool, directory, blank, tensors, None, {"big"})


@pytest.mark.posix("limits of a file's size")
def test_outputs_and_streams(tool, directory):
    tensors = odd_model()
    content = make(tool, directory, tensors, METADATA)
    parts = Parts(content)
    place = parts.frames["owner"][0] + 70
    damaged = bytes(flip(content, place))
    path = in_directory(directory, damaged, "x.safetensors.lmc")
    tool.run("restore", "--salvage", path).expect(1)
    saved = read(path[:-4])
    with Untouched(directory):
        told = tool.run("restore", "--salvage", path).expect(2, "exists already").stderr
        check(told.count("\n") == 1, "messages: " + told)
    for options in (("-f",), ("-f", "-j1"), ("-f", "--no-fsync"), ("-o", path + ".out")):
        tool.run("restore", "--salvage", path, *options).expect(1)
        check(read(path[:-4]) == saved, "%s: other bytes" % (options,))
    check(read(path + ".out") == saved, "-o")
    for arguments, stdin in ((["-c", path], None), (["-c", "-"], damaged), (["-c", path, "-j1"], None)):
        process = subprocess.run([tool.path, "restore", "--salvage", *arguments], input=stdin, capture_output=True,
                                 check=False)
        check(process.returncode == 1 and process.stdout == saved, "%s: exit %d" % (arguments, process.returncode))
    told = tool.run("restore", "--salvage", "-v", "-f", path)
    check(told.status == 1 and "%d tensors saved, %d lost" % (len(tensors) - 3, 3) in told.stderr, told.stderr)
    write(path[:-4], b"mine")
    with Untouched(directory):
        tool.run("restore", "--salvage", path, "-f", file_size=4096).expect(3, "cannot write")
        tool.run("restore", "--salvage", "--rm", path, "-f").expect(2)
        tool.run("convert", "--salvage", path).expect(2)
        tool.run("restore", "--salvage", directory, "-o", os.path.join(directory, "y")).expect(2)
