"""Archives that are not what lmc-st wrote: refused, never restored to other bytes."""
import os

import pytest

import promises
from support import Archive, check_only, in_directory, model, read, small_model


def make(tool, directory, seed=1):
    path = in_directory(directory, small_model(seed))
    tool.run("convert", path, "-f").expect(0)
    content = read(path + ".lmc")
    os.unlink(path)
    os.unlink(path + ".lmc")
    return content


def swap(archive, first, second, which):
    """Of two parts the names (0) or the frames (1)."""
    a, b = archive.part(first), archive.part(second)
    a[which], b[which] = b[which], a[which]


def with_table_byte(at, value):
    def change(archive, _):
        table = bytearray(archive.parts[0][1])
        table[at] = value
        archive.parts[0][1] = bytes(table)
    return change


# what is done to an archive, beside that of another model; parts of the message
REFUSED = {
    "swapped stored frames": (lambda a, _: swap(a, "noise.0", "noise.1", 1), 'tensor "noise.0"', "belongs elsewhere"),
    "swapped short frames": (lambda a, _: swap(a, "scale.0", "scale.1", 1), 'tensor "scale.0"', "belongs elsewhere"),
    "swapped names": (lambda a, _: swap(a, "layer.0", "layer.1", 0), 'tensor "layer.0"',
                      "does not stand where it should"),
    "missing frame": (lambda a, _: a.parts.remove(a.part("layer.0")), 'tensor "layer.0"', "frame is missing"),
    "missing last frame": (lambda a, _: a.parts.pop(), 'tensor "layer.1"', "frame is missing"),
    "extra frame": (lambda a, _: a.parts.append(["more", a.part("noise.0")[1]]), 'tensor "more"', "no such tensor"),
    "foreign frame": (lambda a, other: a.part("noise.1").__setitem__(1, other.part("noise.1")[1]), 'tensor "noise.1"',
                      "belongs elsewhere"),
    "foreign table": (lambda a, other: a.parts[0].__setitem__(1, other.parts[0][1]), ""),
    "no table": (lambda a, _: a.parts.pop(0), "has no table"),
    "changed header": (lambda a, _: a.metadata.update(more="x"), "header is not the one that was written"),
    "lost mark": (lambda a, _: setattr(a, "metadata", {"format": "pt"}), "no longer says so"),
    "newer archive": (lambda a, _: a.metadata.update(lmc_archive="2"), "newer version", 'lmc_archive "2"'),
    "newer table": (with_table_byte(4, 2), "newer version", "archive version 2"),
    "feature 2": (with_table_byte(8, 4), "newer version", "feature 2 (shared code tables)"),
    "feature 31": (with_table_byte(11, 128), "newer version", "feature 31"),
}


def refuse(tool, directory, content, *fragments):
    path = in_directory(directory, content, "x.lmc")
    tool.run("restore", path).expect(1, *fragments)
    tool.run("verify", path).expect(1, *fragments)
    check_only(directory, "x.lmc")


@pytest.mark.parametrize("what", REFUSED)
def test_refused(tool, directory, what):
    """(tests/format/reference has the archives that break one rule each, with the right checksums.)"""
    change, *fragments = REFUSED[what]
    archive = Archive(make(tool, directory))
    change(archive, Archive(make(tool, directory, seed=2)))
    refuse(tool, directory, archive.build(), *fragments)


def test_other_frame_dtype(tool, directory):
    refuse(tool, directory, Archive(make(tool, directory)).build(dtype="I8"), "not a U8 tensor")


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


def test_nul_in_the_mark(tool, directory):
    """A plain file whose format only begins like an archive's."""
    for metadata in ({"format": "lmc\0x", "lmc_archive": "1"}, {"format\0": "lmc", "lmc_archive": "1"},
                     {"format": "lmc", "lmc_archive\0": "1"}, {"format": "lmc", "x\0": "y"}):
        path = in_directory(directory, model([("a", "U8", [1], b"x")], metadata))
        tool.run("ls", path).expect(0)
        tool.round_trip(path)
