"""The decoder of lmc_h5_chunk.py beside that of the library: on the worked examples of
docs/hdf5-filter.md, on frozen chunks, on chunks that the library encodes, and on damaged and forged ones. They must
agree on content and on refusal."""

import ctypes
import functools
import mmap
import os
import random
import re

import pytest

import document
import expectations
import h5_assemble
import lmc_h5_chunk
from expectations import read, reproduced
from lmc_reference import LmcError

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
VECTORS = os.path.join(ROOT, "tests", "format", "vectors", "h5")
CORRUPT = expectations.read_table(os.path.join(VECTORS, "corrupt", "EXPECT.tsv"))

# What the text says of each listing.
WORKED = [bytes([0, 1, 2, 3, 4]), b"abcde", b"abcabd"]

STATUSES = {4: "TRUNCATED", 5: "CORRUPT", 6: "UNSUPPORTED", 7: "CHECKSUM"}
# What lmc_h5_chunk_nbytes() believes: the largest block takes a byte and its entry in the index.
LARGEST_BLOCK_NBYTES, LARGEST_BLOCK_STORED_NBYTES = 8 << 20, 13
MAGIC = 0x31434D4C
BIG_ENDIAN, SHUFFLED, COLUMNS = 0x100, 0x200, 0x800
ROWS = 16  # added to a level
DTYPES = {1: (0, 7), 2: (11, 13, 14), 4: (15, 16, 17), 8: (19, 20, 21)}


class Library:
    """liblmc_h5 through its public calls."""

    def __init__(self, build):
        path = os.path.join(build, "lib", "liblmc_h5.so")
        self.calls = ctypes.CDLL(path)
        self.calls.lmc_h5_last_error.restype = ctypes.c_char_p

    def encode(self, chunk, values):
        size = ctypes.c_size_t()
        if self.calls.lmc_h5_encode_bound(ctypes.c_size_t(len(chunk)), ctypes.byref(size)) != 0:
            raise RuntimeError(self.calls.lmc_h5_last_error().decode())
        room = ctypes.create_string_buffer(size.value)
        array = (ctypes.c_uint * max(len(values), 1))(*values)
        status = self.calls.lmc_h5_encode_chunk(
            None, array, ctypes.c_size_t(len(values)), chunk, ctypes.c_size_t(len(chunk)), room, size,
            ctypes.byref(size))
        if status != 0:
            raise RuntimeError(self.calls.lmc_h5_last_error().decode())
        return room.raw[: size.value]

    def decode(self, stored):
        """(chunk, None), or (None, status)"""
        size = ctypes.c_size_t()
        status = self.calls.lmc_h5_chunk_nbytes(stored, ctypes.c_size_t(len(stored)), ctypes.byref(size))
        if status == 0 and size.value > len(stored) // LARGEST_BLOCK_STORED_NBYTES * LARGEST_BLOCK_NBYTES:
            raise RuntimeError(f"{len(stored)} bytes claim {size.value}")
        if status == 0:
            room = mmap.mmap(-1, size.value + 1)  # takes memory where it is written only: the claim may be large
            status = self.calls.lmc_h5_decode_chunk(
                None, stored, ctypes.c_size_t(len(stored)), ctypes.byref(ctypes.c_char.from_buffer(room)), size,
                ctypes.byref(size))
        return (room[: size.value], None) if status == 0 else (None, STATUSES.get(status, status))


def reference(stored):
    """(chunk, None), or (None, status)"""
    try:
        return lmc_h5_chunk.decode(stored), None
    except LmcError as error:
        return None, type(error).__name__.upper()


def decodes_to(library, stored, chunk):
    if reference(stored) != (chunk, None):
        return f"the reference decoder gives {reference(stored)[1] or 'other bytes'}"
    if library.decode(stored) != (chunk, None):
        return f"the library gives {library.decode(stored)[1] or 'other bytes'}"


def pair_decodes(library, name):
    return decodes_to(library, read(VECTORS, name + ".chunk"), read(VECTORS, name + ".bin"))


def refused(library, stored, status):
    found = [reference(stored)[1], library.decode(stored)[1]]
    if found != [status, status]:
        return f"expected {status}: the reference decoder gives {found[0]}, the library {found[1]}"


def agree(library, stored):
    """Where several rules are broken the two may name different ones."""
    ours, theirs = reference(stored), library.decode(stored)
    if ours[0] != theirs[0]:
        found = f"the reference decoder gives {ours[1] or 'bytes'}, the library {theirs[1] or 'bytes'}"
        return f"{stored[:40].hex()}...: {found}"


def worked_examples(text):
    section = re.search(r"^## 3\. A stored chunk$(.*?)(?=^## |\Z)", text, re.M | re.S).group(1)
    listings = re.findall(r"^```\n(.*?)^```$", section, re.M | re.S)
    if len(listings) != len(WORKED):
        raise ValueError(f"{len(listings)} listings, {len(WORKED)} contents")
    return [(document.listing_bytes(listing), chunk) for listing, chunk in zip(listings, WORKED)]


# ---- random ones ----


def random_values(rng):
    """(values, bytes of an element of the shuffle filter, rows)"""
    user = [rng.randrange(3), rng.choice((0, 1, 2, 4, 8)), rng.choice((0, 0, 16, 64))]
    kind = rng.choice(("none", "user", "plain", "columns", "shuffled"))
    element, kind_bits, shuffle = rng.choice((1, 2, 4, 8)), 0, 1
    if kind == "none":
        return [], 1, 1
    if kind == "user":
        return user[: rng.randrange(1, 4)], 1, 1
    if kind == "columns":
        element, kind_bits = rng.choice((2, 3, 5, 12, rng.randrange(2, 257))), COLUMNS
    else:
        kind_bits = rng.choice(DTYPES[element]) + 1 << 16 if rng.randrange(2) else 0
        kind_bits |= BIG_ENDIAN if element > 1 and rng.randrange(2) else 0
    if kind == "shuffled":
        span = rng.randrange(2 if element == 1 else 1, min(256 // element, 255) + 1)
        shuffle = span * element
        kind_bits |= SHUFFLED | span << 24
    if kind == "columns" or rng.randrange(2):
        return user + [MAGIC, element, 255 | kind_bits, 0, 0], shuffle, 1
    rows = rng.randrange(2, 7)
    user[0] += ROWS
    return user + [MAGIC, element, 255 | kind_bits, 0, 0, rows], shuffle, rows


def random_chunk(rng, shuffle, rows):
    """Numbers with a few high bytes, mostly; records of any length. Each row is the one before with some changes."""
    nbytes = rng.choice((rng.randrange(300), rng.randrange(3000), rng.randrange(12000) // rows))
    element = rng.choice((1, 2, 3, 4, 8, 12))
    tops = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 4)))
    noise = rng.randrange(1, 257)
    data = bytes(rng.choice(tops) if i % element == element - 1 else rng.randrange(noise) for i in range(nbytes))
    row, share = data, rng.choice((0, 0.002, 0.05, 1))
    for _ in range(rows - 1):
        row = bytes((byte + (rng.random() < share)) % 256 if i % element == 0 else byte for i, byte in enumerate(row))
        data += row
    return h5_assemble.shuffled(data, shuffle) if shuffle > 1 else data


def damaged(rng, stored):
    data = bytearray(stored)
    for _ in range(rng.choice((1, 1, 2, 5))):
        where = rng.randrange(len(data)) if rng.randrange(2) else rng.randrange(min(len(data), 60))
        data[where] ^= 1 << rng.randrange(8)
    if rng.randrange(4) == 0:
        del data[rng.randrange(len(data) + 1) :]
    return bytes(data)


def rows_elsewhere(rng, stored):
    """The frames of a chunk with rows, some in the place of others."""
    head = lmc_h5_chunk.Head(stored)
    frames = head.frames(stored)
    for _ in range(rng.randrange(1, 3)):
        frames[rng.randrange(len(frames))] = rng.choice(frames)
    return h5_assemble.chunk(head.layout, frames, head.width, head.swap)


@functools.lru_cache(maxsize=None)
def coded_chunks(library, seed, count):
    """Chunks of the library's encoder, whole and damaged: what is wrong, and the layouts that there were."""
    rng = random.Random(seed)
    seen = set()
    for i in range(count):
        values, shuffle, rows = random_values(rng)
        chunk = random_chunk(rng, shuffle, rows)
        stored = library.encode(chunk, values)
        if len(stored) > len(chunk) + 64:
            return f"chunk {i}: {len(chunk)} bytes became {len(stored)}", seen
        wrong = decodes_to(library, stored, chunk)
        for _ in range(3):
            wrong = wrong or agree(library, damaged(rng, stored))
        layout = lmc_h5_chunk.Head(stored).layout if stored[3:4] == b"H" else "frame"
        if layout == lmc_h5_chunk.LAYOUT_ROWS:
            wrong = wrong or agree(library, rows_elsewhere(rng, stored))
        if wrong:
            return f"chunk {i} with values {values}: {wrong}", seen
        seen.add(layout)
    return None, seen


def forged_chunks(library, seed, count):
    """Heads of any fields and frames of any size, with checks that are right."""
    rng = random.Random(seed)
    for i in range(count):
        layout = rng.choice((0, 1, 1, 2, 2, 3, 3, 4))
        swap = rng.choice((0, 2, 4, 8, 8, 3))
        width = rng.choice((0, 1, 2, 3, 4, 5, 8, 256, 257))
        n = rng.choice((0, 1, 5, rng.randrange(300)))
        frame_count = width if layout == 1 and width else rng.randrange(1, 9) if layout == 3 else 1
        sizes = [n] * frame_count
        sizes[-1] += rng.choice((0, rng.randrange(width + 1), rng.randrange(600))) if layout != 3 else 0
        if rng.randrange(4) == 0:
            sizes[rng.randrange(frame_count)] += rng.choice((-1, 1))
        contents = [bytes(rng.randrange(256) for _ in range(max(size, 0))) for size in sizes]
        frames = [h5_assemble.frame(content, rng.randrange(22)) for content in contents]
        lengths = [len(frame) for frame in frames[:-1]]
        if lengths and rng.randrange(6) == 0:
            lengths[rng.randrange(len(lengths))] += rng.choice((-1, 1, 20, 1 << 31))
        stored = h5_assemble.chunk(layout, frames, width, swap, sizes=lengths,
                                   reserved=rng.choice((0,) * 12 + (1,)), version=rng.choice((1,) * 12 + (0, 2)))
        wrong = agree(library, stored) or agree(library, damaged(rng, stored))
        if wrong:
            return f"forged chunk {i}: {wrong}"


# ---- tests: what is wrong is None ----

with open(os.path.join(ROOT, "docs", "hdf5-filter.md"), encoding="utf-8") as _file:
    WORKED_CHUNKS = worked_examples(_file.read())


@pytest.fixture(scope="module")
def library(build):
    return Library(build)


@pytest.mark.parametrize("stored, chunk", [pytest.param(*worked, id=str(i)) for i, worked in enumerate(WORKED_CHUNKS)])
def test_worked_chunk(library, stored, chunk):
    assert decodes_to(library, stored, chunk) is None


@pytest.mark.parametrize("name", sorted(name[: -len(".chunk")] for name in os.listdir(VECTORS) if ".chunk" in name))
def test_chunk(library, name):
    assert pair_decodes(library, name) is None


@pytest.mark.parametrize("expected", CORRUPT, ids=lambda expected: expected.name)
def test_corrupt_chunk(library, expected):
    assert refused(library, expected.data, expected.status) is None


def test_make_h5_chunks(directory):
    assert reproduced("make_h5_chunks.py", directory, VECTORS) is None


def test_random_chunks(library, seed, count):
    wrong, _ = coded_chunks(library, seed, count)
    assert wrong is None


def test_random_chunks_have_all_layouts(library, seed, count):
    _, seen = coded_chunks(library, seed, count)
    assert seen == {"frame", 0, 1, 2, 3}


def test_forged_chunks(library, seed, count):
    assert forged_chunks(library, seed, 10 * count) is None
