"""Archives that are not what lmc-st wrote: refused, never restored to other bytes."""
import os
import random
import re
import struct

import pytest

import promises
from support import Archive, check, check_only, in_directory, model, read, small_model, write

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def make(tool, directory, seed=1):
    path = in_directory(directory, small_model(seed))
    tool.run("convert", path, "-f").expect(0)
    content = read(path + ".lmc")
    os.unlink(path)
    os.unlink(path + ".lmc")
    return content


def refuse(tool, directory, content, *fragments):
    path = in_directory(directory, content, "x.lmc")
    tool.run("restore", path).expect(1, *fragments)
    tool.run("verify", path).expect(1, *fragments)
    check_only(directory, "x.lmc")
    os.unlink(path)


def test_swapped_frames(tool, directory):
    for first, second in (("noise.0", "noise.1"), ("scale.0", "scale.1")):
        archive = Archive(make(tool, directory))
        a, b = archive.part(first), archive.part(second)
        check(len(a[1]) == len(b[1]), "the frames should have one size")
        a[1], b[1] = b[1], a[1]
        refuse(tool, directory, archive.build(), 'tensor "%s"' % first, "belongs elsewhere")


def test_swapped_names(tool, directory):
    archive = Archive(make(tool, directory))
    a, b = archive.part("layer.0"), archive.part("layer.1")
    a[0], b[0] = b[0], a[0]
    refuse(tool, directory, archive.build(), 'tensor "layer.0"', "does not stand where it should")


def test_missing_frame(tool, directory):
    archive = Archive(make(tool, directory))
    archive.parts.remove(archive.part("layer.0"))
    refuse(tool, directory, archive.build(), 'tensor "layer.0"', "frame is missing")
    archive = Archive(make(tool, directory))
    archive.parts.pop()
    refuse(tool, directory, archive.build(), 'tensor "layer.1"', "frame is missing")


def test_extra_frame(tool, directory):
    archive = Archive(make(tool, directory))
    archive.parts.append(["more", archive.part("noise.0")[1]])
    refuse(tool, directory, archive.build(same_size=False), 'tensor "more"', "no such tensor")


def test_foreign_frame(tool, directory):
    archive = Archive(make(tool, directory))
    other = Archive(make(tool, directory, seed=2))
    archive.part("noise.1")[1] = other.part("noise.1")[1]
    refuse(tool, directory, archive.build(), 'tensor "noise.1"', "belongs elsewhere")


def test_foreign_dtype_and_size(tool, directory):
    archive = Archive(make(tool, directory))
    archive.part("scale.1")[1] = archive.part("empty")[1]
    refuse(tool, directory, archive.build(same_size=False), "")
    archive = Archive(make(tool, directory))
    archive.part("empty")[1] = archive.part("scale.1")[1]
    refuse(tool, directory, archive.build(same_size=False), "")


def test_foreign_table(tool, directory):
    archive = Archive(make(tool, directory))
    archive.parts[0][1] = Archive(make(tool, directory, seed=2)).parts[0][1]
    refuse(tool, directory, archive.build(same_size=False), "")


def test_no_table(tool, directory):
    archive = Archive(make(tool, directory))
    archive.parts.pop(0)
    refuse(tool, directory, archive.build(), "has no table")


def test_plain_file_with_the_mark(tool, directory):
    """It cannot be told from an archive that has lost its table; what to do about it is said. One entry is no mark."""
    tensors = [("t", "U8", [300], bytes(300))]
    marks = {"format": "lmc", "lmc_archive": "1"}
    path = in_directory(directory, model(tensors, marks))
    for command in ("convert", "verify", "ls", "info", "restore", "cat"):
        tool.run(command, path, *["-o", path + ".out"] * (command in ("convert", "restore"))).expect(
            1, '"format": "lmc"', '"lmc_archive": "1"', '"lmc.archive"', "remove these two entries")
    for key, value in marks.items():
        in_directory(directory, model(tensors, {key: value}))
        tool.round_trip(path)


@pytest.mark.skipif(not promises.has_hash(), reason="there is no libxxhash to make checksums with")
def test_a_promise_of_gibibytes(tool, directory):
    """A frame without the blocks for them is refused on opening. One that has them takes a block at a time."""
    path = in_directory(directory, promises.archive(4 << 30, is_long=False), "x.lmc")
    for command in ("ls", "info", "verify", "cat", "get"):
        tool.run(command, path, *["w"] * (command == "get")).expect(1, 'tensor "w"', "too short for so much content")
    in_directory(directory, promises.archive(4 << 30), "x.lmc")
    for command in ("verify", "restore", "cat", "get"):
        tool.run(command, path, *["w"] * (command == "get"), address_space=512 << 20).expect(
            1, 'tensor "w"', "block: its modes are cut short")
    check_only(directory, "x.lmc")


def test_other_frame_dtype(tool, directory):
    refuse(tool, directory, Archive(make(tool, directory)).build(dtype="I8"), "not a U8 tensor")


def test_changed_header(tool, directory):
    """The same header, written in another way: the data is right, but the file is not what was written."""
    archive = Archive(make(tool, directory))
    archive.metadata["more"] = "x"
    refuse(tool, directory, archive.build(same_size=False), "header is not the one that was written")


def test_lost_mark(tool, directory):
    archive = Archive(make(tool, directory))
    archive.metadata = {"format": "pt"}
    refuse(tool, directory, archive.build(), "no longer says so")


def test_newer_archive(tool, directory):
    archive = Archive(make(tool, directory))
    archive.metadata["lmc_archive"] = "2"
    refuse(tool, directory, archive.build(), "newer version", 'lmc_archive "2"')
    for at, value, text in ((4, 2, "archive version 2"), (8, 4, "feature 2 (shared code tables)"),
                            (11, 128, "feature 31")):
        archive = Archive(make(tool, directory))
        table = bytearray(archive.parts[0][1])
        table[at] = value
        archive.parts[0][1] = bytes(table)
        refuse(tool, directory, archive.build(), "newer version", text)


def test_flipped_bytes(tool, directory):
    """Every byte of an archive is covered by some check."""
    content = make(tool, directory)
    path = os.path.join(directory, "x.lmc")
    rng = random.Random(8)
    front = 8 + Archive(content).header_nbytes + 1000
    for turn in range(300):
        damaged = bytearray(content)
        at = rng.randrange(front if turn % 2 else len(content))
        damaged[at] ^= 1 << rng.randrange(8)
        write(path, bytes(damaged))
        result = tool.run("restore" if turn % 3 else "verify", path)
        check(result.status == 1, "byte %d flipped: exit %d: %s" % (at, result.status, result.stderr))
        check_only(directory, "x.lmc")


def test_truncated(tool, directory):
    content = make(tool, directory)
    for nbytes in range(0, len(content), 97):
        refuse(tool, directory, content[:nbytes], "")
    refuse(tool, directory, content[:-1], "1 bytes are missing")
    refuse(tool, directory, content + b"x", "follow the last tensor")


def test_lying_lengths(tool, directory):
    content = make(tool, directory)
    for length in (0, 1, 2, 8, len(content), 100_000_000, 100_000_001, 2**63, 2**64 - 1):
        refuse(tool, directory, struct.pack("<Q", length) + content[8:], "")


def test_not_an_archive(tool, directory):
    path = in_directory(directory, small_model(), "m.safetensors.lmc")
    tool.run("restore", path).expect(1, "plain safetensors file")
    check_only(directory, "m.safetensors.lmc")


def test_archive_of_an_archive(tool, directory):
    path = in_directory(directory, make(tool, directory), "x.lmc")
    tool.run("convert", path).expect(1, "archive already")
    check_only(directory, "x.lmc")


def test_example_of_the_document(tool, directory):
    """The bytes of docs/archive.md, section 7, restore to what it says."""
    with open(os.path.join(ROOT, "docs", "archive.md"), encoding="utf-8") as document:
        rows = re.findall(r"^[0-9a-f]{3}((?: [0-9a-f]{2}){1,16})$", document.read(), re.M)
    path = in_directory(directory, bytes.fromhex("".join(rows)), "x.lmc")
    tool.run("restore", path).expect(0)
    header = b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}   '
    check(read(os.path.join(directory, "x")) == struct.pack("<Q", 56) + header + b"abcd", "the bytes differ")


def test_nul_in_the_mark(tool, directory):
    """A plain file whose format only begins like an archive's."""
    for metadata in ({"format": "lmc\0x", "lmc_archive": "1"}, {"format\0": "lmc", "lmc_archive": "1"},
                     {"format": "lmc", "lmc_archive\0": "1"}, {"format": "lmc", "x\0": "y"}):
        path = in_directory(directory, model([("a", "U8", [1], b"x")], metadata))
        tool.run("ls", path).expect(0)
        tool.round_trip(path)
