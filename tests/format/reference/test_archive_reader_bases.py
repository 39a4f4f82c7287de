"""Archives with a base: those that lmc-st makes of files generated here, restored by the
reference reader, and refused by it and by lmc-st without the base and with another one; and archives put together by
hand, of which both must say the same."""

import functools
import os
import random
import struct

import pytest

import archive_base_cases
import archive_base_file_cases
import lmc_archive
from archive_files import noise, of, tensor, weights
from archive_tool import Directory, forged, judged
from lmc_archive_base import FILE, SELF
from lmc_delta import rounded_to_bf16

ARCHIVE_NAME = archive_base_cases.OWN_NAME + ".lmc"
NAMES = [f"s{i}.safetensors" for i in range(4)]


# Archives of lmc-st


def moved(rng, content, width, part):
    """Elements of `width` bytes, this part of which is changed by a little."""
    data = bytearray(content)
    for i in range(0, len(data) - width + 1, width):
        if rng.random() < part:
            value = int.from_bytes(data[i : i + width], "little") + rng.choice((-2, -1, 1, 2))
            data[i : i + width] = (value % (1 << 8 * width)).to_bytes(width, "little")
    return bytes(data)


def rounded(master):
    return b"".join(struct.pack("<H", rounded_to_bf16(u)) for u, in struct.iter_unpack("<I", master))


def singles(rng, count):
    return struct.pack(f"<{count}f", *(rng.gauss(0, 0.02) for _ in range(count)))


def snapshot(rng):
    kinds = [("BF16", 3000), ("F32", 4000), ("F16", 600), ("U8", 500), ("I64", 4000), ("F8_E4M3", 900),
             ("BF16", 150_002)]
    tensors = [tensor(f"{i}.{dtype}", dtype, weights(rng, nbytes)) for i, (dtype, nbytes) in enumerate(kinds)]
    return tensors + [tensor("noise", "U8", noise(rng, 300)), tensor("e", "F32", b""), tensor("1", "U8", b"x")]


def following(rng, tensors, part):
    widths = {"BF16": 2, "F16": 2, "F32": 4, "I64": 8}
    return [(name, dtype, shape, moved(rng, content, widths.get(dtype, 1), part))
            for name, dtype, shape, content in tensors]


def masters(rng):
    master = singles(rng, 3000)
    return [tensor("master", "F32", master), tensor("copy", "BF16", rounded(master))]


def chains(rng):
    """(what, tensors of the files of a chain, the first one first)."""
    first = snapshot(rng)
    yield "dense", [first, following(rng, first, 0.6)]
    yield "sparse", [first, following(rng, first, 0.01)]
    yield "the same", [first, first]
    yield "renamed", [first, [("model." + name, *rest) for name, *rest in first[::-1]]]
    other = snapshot(rng)
    yield "some are new", [first, following(rng, first, 0.05)[:3] + [(name + "'", *rest) for name, *rest in other]]
    twice = following(rng, first, 0.02)
    yield "equal tensors", [first, twice + [(name + " again", *rest) for name, *rest in twice]]
    yield "masters", [first, masters(rng)]
    old = masters(rng)
    master = tensor("master", "F32", moved(rng, old[0][3], 4, 0.05))
    yield "masters with a base", [old, [master, tensor("copy", "BF16", rounded(master[3]))]]
    second = following(rng, first, 0.02)
    yield "chain of 3", [first, second, following(rng, second, 0.02)]
    yield "chain of 4", [first, second, following(rng, second, 0.02), following(rng, second, 0.03)]


class Folder(Directory):
    """A directory of chains."""

    def make_chain(self, files, level):
        """Of all files but the first archives; of those in between nothing else is left."""
        for i, data in enumerate(files):
            path = self.write(NAMES[i], data)
            if i > 0:
                earlier = self.at(NAMES[i - 1]) + (".lmc" if i > 1 else "")
                done = self.tool.run("convert", "--rm", "--level", level, "--base", earlier, path)
                if done.returncode != 0:
                    raise ValueError(f"convert: {done.stderr.decode()}")
        return self.at(NAMES[len(files) - 1]) + ".lmc"


@functools.lru_cache(maxsize=None)
def chains_by_name(seed):
    return {what: [of(tensors) for tensors in chain] for what, chain in chains(random.Random(seed))}


@functools.lru_cache(maxsize=None)
def converted(tool, seed, what, level):
    """An archive of lmc-st comes back, and does not without its base or with others: what is wrong, and the places and
    forms of links that it has."""
    files = chains_by_name(seed)[what]
    folder = Folder(tool, "chain")
    path = folder.make_chain(files, level)
    archive = lmc_archive.opened(lmc_archive.read(path))
    links = archive.bases.links if archive.bases else {}
    places = {link.place for link in links.values()}
    wrong = judged(tool, path, files[-1])
    if FILE in places:
        wrong = wrong or without_base(tool, folder, path, files)
    if not places >= ({SELF} if what == "masters" else {FILE}):
        wrong = wrong or f"places of links: {places}"
    return wrong, places | {("form", head_of(archive, i).base_form) for i in links}


def head_of(archive, i):
    return lmc_archive.lmc_reference.Head(archive.file.bytes_of(archive.frames[i]))


def without_base(tool, folder, path, files):
    """Of the file at the end of the chain: it is there in another place, is not there, is another."""
    elsewhere = folder.at("elsewhere")
    first = folder.at(NAMES[0])
    os.rename(first, elsewhere)
    wrong = judged(tool, path, None)
    if len(files) == 2:
        wrong = wrong or judged(tool, path, files[-1], elsewhere)
    changed = bytearray(files[0])
    changed[8:] = bytes(byte ^ 1 for byte in changed[8:])
    for what, other in (("no file", b""), ("cut", files[0][:-1]), ("longer", files[0] + b"\0"),
                        ("another header", bytes(changed)), ("other content", other_content(files[0]))):
        folder.write(NAMES[0], other)
        refusal = judged(tool, path, None)
        wrong = wrong or refusal and f"base: {what}: {refusal}"
    return wrong


def other_content(file):
    """The file with a bit of each byte of its data changed."""
    start = 8 + int.from_bytes(file[:8], "little")
    return file[:start] + bytes(byte ^ 1 for byte in file[start:])


# Tests: what is wrong is None

CHAINS = [what for what, _ in chains(random.Random(0))]
LEVELS = ("default", "fast")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("what", CHAINS)
def test_archive_with_a_base(tool, seed, what, level):
    wrong, _ = converted(tool, seed, what, level)
    assert wrong is None


def test_places_and_forms(tool, seed):
    seen = set().union(*(converted(tool, seed, what, level)[1] for what in CHAINS for level in LEVELS))
    assert seen == {FILE, SELF, ("form", 0), ("form", 1)}


@pytest.mark.parametrize("archive, original, files",
                         [pytest.param(*case[1:], id=case[0])
                          for module in (archive_base_cases, archive_base_file_cases) for case in module.cases()])
def test_forged_archive_with_a_base(tool, archive, original, files):
    assert forged(tool, archive, original, files, ARCHIVE_NAME) is None
