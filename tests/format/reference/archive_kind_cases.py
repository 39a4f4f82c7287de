"""archive_kind_cases.py - archives of files of other kinds that break one rule of docs/archive.md, section 8, each,
every hash made right again, and some that look odd but break none. A case is (what, archive, original file or None if
it must be refused)."""

import json
import random
import struct

import zstandard

from archive_forge import Forge, Layout, header_of
from lmc_archive_layout import GGUF, NPY, PIECE_NBYTES, RAW, ZIP
from lmc_reference import H

TENSORS = [("a", "U8", [4], b"abcd"), ("e", "F32", [0], b""), ("b", "BF16", [2], b"wxyz")]
GAPS = [b"before", b"", b"between", b"behind it"]
SKELETON = b"".join(GAPS)
NUMBERS = [len(gap) for gap in GAPS]
compressed = zstandard.ZstdCompressor().compress


def made(tensors=None, gaps=None, kind=RAW, forge=None, **fields):
    """`fields` are those of the layout, `forge` those of the archive."""
    tensors = TENSORS if tensors is None else tensors
    case = Forge(tensors, header_of(tensors, None))
    case.layout = Layout(kind, GAPS if gaps is None else gaps)
    for changed, values in ((case, forge or {}), (case.layout, fields)):
        for name, value in values.items():
            assert hasattr(changed, name), name
            setattr(changed, name, value)
    return case


def good(what, case):
    return what, case.build(), case.original


def bad(what, case):
    return what, case.build(), None


# 8.1. The layout


def kinds():
    for kind in (ZIP, NPY, GGUF, RAW):
        yield good(f"kind {kind}", made(kind=kind))
    for kind in (0, 5, 255, 256 + RAW, RAW << 8, 2**31, 2**32 - 1):
        yield bad(f"kind {kind}", made(kind=kind))


def features():
    yield good("an original header with metadata", made(forge={"header": header_of(TENSORS)}))
    yield good("stored header by zstd", made(forge={"method": 1}))
    yield bad("a layout without bit 3", made(forge={"features": 0}))
    yield bad("bit 3 without a layout", plain(features=8))
    alone = made(forge={"features": 0})
    alone.the_layout = lambda: b""
    yield bad("a skeleton without bit 3 and a layout", alone)
    for bit in (2, 4, 31):
        yield bad(f"bit {bit}, too", made(forge={"features": 8 | 1 << bit}))
    yield bad("bits 0 and 3, without a list of bases", made(forge={"features": 9}))
    yield bad("bits 1 and 3, without aliases", made(forge={"features": 10}))
    twice = [("a", "U8", [4], b"abcd"), ("b", "U8", [4], b"abcd")]
    aliased = Forge(twice, header_of(twice, None), [(1, 0)])
    aliased.layout = Layout(RAW, [b"x", b"y", b"z"])
    yield good("an alias", aliased)
    nbytes = len(made().original)
    for number in (0, 7, len(SKELETON) - 1, len(SKELETON), nbytes - 1, nbytes + 1, 2**64 - 1):
        yield bad(f"file_nbytes {number}", made(forge={"file_nbytes": number}))
    yield bad("whole_hash without the layout", made(forge={"whole_hash": plain(file_nbytes=nbytes).the_whole_hash()}))
    yield bad("bytes behind the layout", made(forge={"table_end": bytes(8)}))


def plain(**fields):
    """Without a layout and a skeleton."""
    case = Forge(TENSORS, header_of(TENSORS, None))
    for name, value in fields.items():
        setattr(case, name, value)
    return case


def gaps():
    yield good("no skeleton", made(gaps=[b""] * 4))
    yield good("all is skeleton", made([], [b"all"]))
    yield good("an empty file", made([], [b""]))
    yield good("no gap before the first tensor", made(gaps=[b"", b"x", b"y", b"z"]))
    for what, changed in (("one more", [6, 0, 7, 10]), ("one less", [6, 0, 7, 8]), ("none", [0, 0, 0, 0]),
                          ("too much before the first tensor", [2**63, 0, 7, 9]), ("the largest", [2**64 - 1] * 4),
                          ("the right sum modulo 2^64", [2**64 - 1, 0, 0, 23]),
                          ("the right sum modulo 2^64 of two halves", [2**63, 2**63, 13, 9]),
                          ("the right sum modulo 2^64, large ones last", [6, 16, 2**64 - 1, 1])):
        yield bad(f"gaps: {what}", made(numbers=changed))
        yield bad(f"gaps by zstd: {what}", made(gaps_data=compressed(numbers_data(changed))))
    for what, changed in (("another order", [9, 0, 7, 6]), ("all at the end", [0, 0, 0, 22])):
        other = made(numbers=changed)
        places = [sum(changed[:i]) for i in range(5)]
        other.layout.gaps = [SKELETON[begin:end] for begin, end in zip(places, places[1:])]
        yield good(f"gaps: {what}", other)
    for number in (0, 21, 23, 2**63, 2**64 - 1):
        yield bad(f"skeleton_nbytes {number}", made(skeleton_nbytes=number))
        yield bad(f"skeleton_nbytes {number}, file_nbytes, too",
                  made(skeleton_nbytes=number, forge={"file_nbytes": (number + 8) % 2**64}))
    yield bad("skeleton_nbytes and its gap a byte more", made(numbers=[6, 0, 7, 10], skeleton_nbytes=23))
    data = numbers_data(NUMBERS)
    for nbytes in (0, 1, 8, 24, 31, 33, 40, 2**31, 2**32 - 8, 2**32 - 1):
        yield bad(f"gaps_nbytes {nbytes}", made(gaps_nbytes=nbytes))
    yield bad("a gap too few", made(numbers=[6, 0, 16]))
    yield bad("a gap too many", made(numbers=NUMBERS + [0]))
    yield bad("no gaps", made(gaps_data=b""))
    frame = compressed(data)
    yield good("gaps by zstd", made(gaps_data=frame))
    yield good("gaps by zstd with a checksum", made(
        gaps_data=zstandard.ZstdCompressor(write_checksum=True).compress(data)))
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(data)
    skippable = b"\x50\x2a\x4d\x18" + struct.pack("<I", 4) + b"skip"
    for what, stored in (("without a content size", unsized), ("of a gap more", compressed(data + bytes(8))),
                         ("of a gap less", compressed(data[:-8])), ("cut", frame[:-1]), ("and a byte", frame + b"\0"),
                         ("and a skippable frame", frame + skippable), ("behind a skippable frame", skippable + frame),
                         ("and an empty frame", frame + compressed(b"")), ("alone skippable", skippable)):
        yield bad(f"gaps by zstd: {what}", made(gaps_data=stored))
    rest = -len(frame) % 8
    assert rest > 0
    for zeros in (b"", bytes(rest + 8), b"\1" + bytes(rest - 1), bytes(rest - 1) + b"\x80"):
        yield bad(f"gaps by zstd, then {zeros!r}", made(gaps_data=frame, zeros=zeros))
    for zeros in (bytes(4), bytes(8), b"x" * 8):
        yield bad(f"gaps, then {zeros!r}", made(zeros=zeros))


def numbers_data(numbers):
    return b"".join(struct.pack("<Q", number) for number in numbers)


# 8.2. The skeleton


def edited(change):
    """The members of the archive header are (name, entry) in a list that `change` alters."""
    def edit(text):
        members = list(json.loads(text).items())
        change(members)
        return ("{" + ",".join(json.dumps(name) + ":" + json.dumps(value) for name, value in members) + "}").encode()
    return edit


def names():
    for name in ("lmc.skeleton~", "lmc.skeleto", "", "LMC.skeleton", "lmc.archive~", "lmc.skeleton\0"):
        yield bad(f"the skeleton is called {name!r}", made(name=name))
    taken = [("lmc.skeleton", "U8", [1], b"x"), ("lmc.skeleton~", "U8", [1], b"y")]
    yield good("a skeleton with ~~", made(taken, [b"1", b"2", b"3"]))
    yield bad("a skeleton with ~", made(taken[:1], [b"1", b"2"], name="lmc.skeleton"))
    yield bad("a skeleton with ~~~", made(taken, [b"1", b"2", b"3"], name="lmc.skeleton~~~"))
    missing = made(name=False)
    missing.layout.tensor = lambda: b""
    yield bad("no skeleton", missing)
    yield bad("no skeleton, which is empty", made(gaps=[b""] * 4, name=False))
    empty = made(gaps=[b""] * 4)
    yield good("an empty skeleton", empty)
    more = [("e", "U8", [0], b""), ("f", "U8", [0], b"")]
    yield good("aliases and an empty skeleton at one place", with_aliases(more))

    def skeleton_first(members):
        members.insert(1, members.pop())

    yield good("the skeleton's entry stands first in the text", made(forge={"edit_outer": edited(skeleton_first)}))
    yield bad("the skeleton stands between the frames", between())
    for what, change in (("rank 2", {"shape": [1, 34]}), ("rank 0", {"shape": []}), ("I8", {"dtype": "I8"}),
                         ("BOOL", {"dtype": "BOOL"}), ("I16", {"dtype": "I16", "shape": [17]})):
        def retyped(members, change=change):
            members[-1][1].update(change)

        assert len(SKELETON) + 12 == 34
        yield bad(f"{what} of the skeleton", made(forge={"edit_outer": edited(retyped)}))
    second = made()
    second.names, second.frames = second.names + ["lmc.skeleton~"], second.frames + [b""]
    yield bad("a tensor more before the skeleton", second)
    yield bad("bytes behind the skeleton", made(forge={"end": b"\0"}))


def with_aliases(tensors):
    case = Forge(tensors, header_of(tensors, None), [(1, 0)])
    case.layout = Layout(RAW, [b""] * 3)
    return case


def between():
    case = made(name="b")
    case.names = ["a", "e", "lmc.skeleton"]
    case.frames, skeleton = case.frames[:2] + [case.skeleton()], case.frames[2]
    case.skeleton = lambda: skeleton
    return case


def pieces():
    stored = compressed(b"x" * 100)
    long = made(gaps=[b"x" * 90, b"", b"", b"x" * 10])
    yield good("a piece as it is", long)
    yield good("a piece by zstd", made(gaps=long.layout.gaps, stored=[stored]))
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(b"x" * 100)
    other = compressed(b"y" * 100)
    assert len(compressed(SKELETON)) > len(SKELETON)
    yield bad("a piece by zstd that is longer than the piece", made(stored=[compressed(SKELETON)]))
    for what, piece in (("without a content size", unsized), ("cut", stored[:-1]), ("and a byte", stored + b"\0"),
                        ("of more", compressed(b"x" * 101)), ("of less", compressed(b"x" * 99)), ("of another", other),
                        ("said of other bytes", b"?" * 30), ("twice", stored + stored), ("empty", b"")):
        yield bad(f"a piece by zstd: {what}", made(gaps=long.layout.gaps, stored=[piece]))
    yield bad("another piece as it is", made(stored=[SKELETON[::-1]]))
    yield bad("hash of another piece", made(hashes=[H(SKELETON) ^ 1]))
    for size in (0, 1, 21, 23, 2**31, 2**32 - 1):
        yield bad(f"stored_nbytes {size}", made(sizes=[size]))
    for what, between_them in (("a byte", b"\0"), ("an entry", bytes(12))):
        yield bad(f"{what} between the pieces and their index", made(between=between_them))
    cut = made()
    cut.layout.stored, cut.layout.sizes = [SKELETON[:-1]], [22]
    yield bad("the pieces end in the index", cut)
    yield bad("skeleton_hash", made(skeleton_hash=H(b"")))
    index = made().layout.the_index()
    for what, other_index in (("no index", b""), ("a cut index", index[:-1]), ("two indices", index * 2),
                              ("a short index", index[:4])):
        yield bad(what, made(index=other_index))
    yield bad("an empty skeleton with an index", made(gaps=[b""] * 4, index=index))
    yield bad("an empty skeleton with a piece", made(gaps=[b""] * 4, between=b"x"))


def many_pieces():
    rng = random.Random(1)
    noise = rng.randbytes(PIECE_NBYTES)
    large = [bytes(PIECE_NBYTES - 3), b"", noise[:3] + noise, b"rest"]
    case = made(gaps=large)
    yield good("three pieces", case)
    by_zstd = [compressed(case.layout.pieces[0]), case.layout.pieces[1], case.layout.pieces[2]]
    yield good("three pieces, one by zstd", made(gaps=large, stored=by_zstd))
    turned = made(gaps=large)
    turned.layout.stored[:2] = turned.layout.stored[1::-1]
    yield bad("two pieces in another order", turned)
    sizes = [PIECE_NBYTES - 1, PIECE_NBYTES + 1, 4]
    yield bad("a piece too long, another too short", made(gaps=large, sizes=sizes))
    yield good("a whole piece", made(gaps=[b"", noise, b"", b""]))
    one = made(gaps=[b"", noise + b"x", b"", b""])
    one.layout.stored, one.layout.hashes = [noise + b"x"], [H(noise + b"x")]
    yield bad("a piece that is too long", one)
    halves = made(gaps=[b"", noise, b"", b""])
    halves.layout.stored = [noise[:10], noise[10:]]
    halves.layout.hashes = [H(half) for half in halves.layout.stored]
    yield bad("pieces that are too short", halves)


def cases():
    for part in (kinds, features, gaps, names, pieces, many_pieces):
        for what, archive, original in part():
            yield f"{part.__name__}: {what}", archive, original
