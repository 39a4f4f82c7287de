"""archive_cases.py - archives that break one rule of docs/archive.md each, every hash made right again, and some
that look odd but break none. A case is (what, archive, original file or None if it must be refused)."""

import json
import re
import struct

import zstandard

import archive_headers
import assemble
from archive_forge import MARK, Forge, header_of
from lmc_archive import DTYPE_NUMBERS
from lmc_reference import H, u64
from safetensors_header import HEADER_NBYTES_MAX

# 0 and 2 are equal, 1 and 3 are empty, 4 has the bytes of 0 under another dtype.
FIVE = [("a", "U8", [4], b"abcd"), ("b", "F32", [0, 3], b""), ("c", "U8", [2, 2], b"abcd"), ("d", "F32", [0], b""),
        ("e", "I8", [4], b"abcd")]
TWO = archive_headers.TENSORS
ALIASES = [(2, 0), (3, 1)]
ONE_TENSOR_NAMES = [
    "", "\0", "a\0b", "lmc.archive", "lmc.archive~", "__metadata", "\U0001f600", "\"\\/", "\x7f", "\n", "x" * 5000]


def five(aliases=ALIASES, **fields):
    return forge(FIVE, None, aliases, **fields)


def two(**fields):
    return forge(TWO, None, (), **fields)


def forge(tensors, header, aliases, **fields):
    made = Forge(tensors, header, aliases)
    for name, value in fields.items():
        assert hasattr(made, name), name
        setattr(made, name, value)
    return made


def replaced(old, new):
    def edit(text):
        assert old in text, old
        return text.replace(old, new, 1)
    return edit


def good(what, made):
    return what, made.build(), made.original


def bad(what, made):
    return what, made.build(), None


def section_2():
    for what, text, place, allowed in archive_headers.texts():
        tensors = list(TWO)
        dtype = re.search(rb'"(?:a|\\u0061)":\{[^}]*?"dtype":"(F32|F4|I16|F6_E2M3)"', text)
        if dtype:
            tensors[0] = ("a", dtype.group(1).decode(), [4], b"abcd")
        if place is not None:
            tensors.insert(place, ("e", "F32", [0], b""))
        yield (good if allowed else bad)(f"original header, {what}", Forge(tensors, text))
    mark = MARK.replace("}", ',"k":"v"}')
    plain = forge(TWO, None, (), mark=mark).outer_text(200)
    for what, old, new, allowed in archive_headers.EDITS:
        if old in plain:
            made = two(mark=mark, edit_outer=replaced(old, new))
            yield (good if allowed else bad)(f"outer header, {what}", made)


def rule_1():
    archive = two().build()
    length = int.from_bytes(archive[:8], "little")
    for number in (0, 1, length - 1, length + 1, len(archive) - 8, len(archive) - 7, 10**8, 10**8 + 1, 2**64 - 1):
        yield f"length {number}", u64(number) + archive[8:], None
    for nbytes in (0, 1, 7, 8, 9, 8 + length):
        yield f"the first {nbytes} bytes", archive[:nbytes], None
    yield bad("a byte after the last frame", two(end=b"\0"))
    yield "the last byte is missing", archive[:-1], None
    yield bad("original header of no bytes", forge([], b"", ()))
    yield bad("header_nbytes is 0", two(header_nbytes=0, stored_nbytes=0))


def section_3():
    def metadata(text):
        return '"__metadata__":{%s}' % text

    version_1 = '"format":"lmc","lmc_archive":"1"'
    yield good("other order of the mark", two(mark=metadata('"lmc_archive":"1","format":"lmc"')))
    yield good("escaped mark", two(mark=metadata('"f\\u006frmat":"l\\u006dc","lmc_archive":"\\u0031"')))
    yield good("more in the mark", two(mark=metadata('"x":"y",' + version_1)))
    for version in ("2", "0", "", "01", "1.0", " 1", "10"):
        yield bad(f"lmc_archive {version!r}", two(mark=metadata(f'"format":"lmc","lmc_archive":"{version}"')))
    filler = 4096 - len('{%s,"k":""}' % version_1)
    yield good("metadata of 4096 bytes", two(mark=metadata(version_1 + ',"k":"%s"' % ("x" * filler))))
    yield bad("metadata of 4097 bytes", two(mark=metadata(version_1 + ',"k":"%s"' % ("x" * (filler + 1)))))
    wide = "\u00e9" * (filler // 2 + 1)
    yield bad("metadata of 4097 bytes in fewer characters", two(mark=metadata(version_1 + f',"k":"{wide}"')))
    yield bad("NUL in the mark", two(mark=metadata(version_1 + ',"k":"\\u0000"')))
    yield good("a backslash and u0000 in the mark", two(mark=metadata(version_1 + ',"k":"\\\\u0000"')))
    yield bad("NUL in a key of the mark", two(mark=metadata(version_1 + ',"\\u0000":""')))
    yield bad("no mark", two(mark=None))
    yield bad("null for the mark", two(mark='"__metadata__":null'))
    yield bad("other format", two(mark=metadata('"format":"pt","lmc_archive":"1"')))
    yield bad("no lmc_archive", two(mark=metadata('"format":"lmc"')))
    yield bad("no format", two(mark=metadata('"lmc_archive":"1"')))
    for name in ("lmc.archive~", "lmc.archiv", "lmc.archive~~", "", "LMC.archive"):
        yield bad(f"the table is called {name!r}", two(table_name=name))
    named = [("lmc.archive", "U8", [1], b"x"), ("lmc.archive~", "U8", [1], b"y")]
    yield good("a table with ~~", Forge(named))
    yield bad("a table with ~~~", forge(named, None, (), table_name="lmc.archive~~~"))
    yield bad("a table with a tensor's name", forge(named, None, (), table_name="lmc.archive"))
    yield good("a table with ~ after ~", Forge([("lmc.archive~", "U8", [1], b"x")]))
    yield good("no padding", two(edit_outer=bytes.rstrip))
    yield good("much padding", two(edit_outer=lambda text: text + b"\n" * 1001))
    yield good("space before", two(edit_outer=lambda text: b" \n" + text))
    yield good("other escapes", two(edit_outer=replaced(b'"b"', b'"\\u0062"')))
    yield good("ignored key", two(edit_outer=replaced(b'"b":{', b'"b":{"x":1,')))
    yield bad("other name", two(edit_outer=replaced(b'"b"', b'"B"')))
    for name in ONE_TENSOR_NAMES:
        yield good(f"tensor {name[:20]!r}", Forge([(name, "U8", [1], b"x")]))
    yield good("no tensors", Forge([], b"{}"))
    yield good("no tensors and no metadata, space", Forge([], b" {  } "))


def outer_tensors():
    def edited(change):
        """The outer header's members are (name, entry) in a list that `change` alters."""
        def edit(text):
            members = list(json.loads(text).items())
            change(members)
            parts = [json.dumps(name) + ":" + json.dumps(value) for name, value in members]
            return ("{" + ",".join(parts) + "}").encode()
        return edit

    def shape(i, value):
        return edited(lambda members: members[i][1].update(shape=value(members[i][1]["shape"][0])))

    def dtype(i, name, factor=1):
        return edited(lambda members: members[i][1].update(dtype=name, shape=[members[i][1]["shape"][0] // factor]))

    for i, part in ((1, "table"), (2, "frame")):
        yield bad(f"rank 2 of the {part}", two(edit_outer=shape(i, lambda n: [1, n])))
        yield bad(f"I8 for the {part}", two(edit_outer=dtype(i, "I8")))
        yield bad(f"I16 for the {part}", forge(
            [("aa", "U8", [4], b"abcd")], b'{"aa":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}  ', (),
            edit_outer=dtype(i, "I16", 2)))
    yield good("members in reverse", two(edit_outer=edited(lambda members: members.reverse())))
    yield good("an alias at the end", Forge(TWO + [("z", "U8", [4], b"abcd")], None, [(2, 0)]))

    def without_last(made):
        made.names, made.frames = made.names[:-1], made.frames[:-1]
        return made

    yield bad("a tensor is missing", without_last(two()))
    more = two()
    more.names, more.frames = more.names + ["c"], more.frames + [more.frames[0]]
    yield bad("a tensor too many", more)
    more = two()
    more.names, more.frames = more.names + ["c"], more.frames + [b""]
    yield bad("an empty tensor too many", more)
    swapped = two()
    swapped.names = swapped.names[::-1]
    yield bad("names in another order", swapped)
    both = two()
    both.names, both.frames = both.names[::-1], both.frames[::-1]
    yield bad("tensors in another order", both)
    yield bad("an empty tensor before the table", two(edit_outer=replaced(
        b'"lmc.archive":', b'"first":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"lmc.archive":')))
    empties = five()
    empties.names[1], empties.names[3] = empties.names[3], empties.names[1]
    yield bad("empty tensors under each other's names", empties)
    only_empty = [("p", "U8", [0], b""), ("q", "U8", [0], b""), ("r", "U8", [0], b"")]
    yield good("aliases at one place", Forge(only_empty, None, [(1, 0), (2, 0)]))
    turned = Forge(only_empty, None, [(1, 0), (2, 0)])
    turned.names = ["p", "r", "q"]
    yield bad("aliases at one place in another order", turned)


def section_4():
    yield bad("magic", two(magic=b"\x8cLMC"))
    for version in (0, 2, 255):
        yield bad(f"version {version}", two(version=version))
    for method in (2, 255):
        yield bad(f"method {method}", two(method=method))
    yield bad("reserved", two(reserved=1))
    for bit in [0] + list(range(2, 32)):
        yield bad(f"feature bit {bit}", two(features=1 << bit))
    for count in (0, 1, 3, 2**32 - 1):
        yield bad(f"tensor_count {count}", two(tensor_count=count))
    nbytes = len(two().original)
    for number in (0, 7, 8, nbytes - 8, nbytes - 1, nbytes + 1, 2**63, 2**64 - 1):
        yield bad(f"file_nbytes {number}", two(file_nbytes=number))
    nbytes = len(two().header)
    for number in (1, nbytes - 1, nbytes + 1, 10**8 + 1, 2**63, 2**64 - 1):
        yield bad(f"header_nbytes {number}", two(header_nbytes=number))
        yield bad(f"header_nbytes {number}, zstd", two(header_nbytes=number, method=1))
    for number in (0, nbytes - 1, nbytes + 1, nbytes + 8, 2**32, 2**64 - 8, 2**64 - 64, 2**64 - 1):
        yield bad(f"stored_nbytes {number}", two(stored_nbytes=number))
    for field in ("whole_hash", "outer_hash", "check"):
        yield bad(f"{field} 0", two(**{field: 0}))
    spaced = two(edit_outer=lambda text: text.rstrip() + b"   ")
    yield good("three spaces after the outer header", spaced)
    spaced.outer_hash = H(spaced.build()[8:].partition(b"}}   ")[0] + b"}}")
    yield bad("outer_hash of the text without spaces", spaced)
    for end in (b"\0", bytes(8), bytes(64)):
        yield bad(f"{len(end)} bytes before the check", two(table_end=end))
    for nbytes in (0, 4, 8, 39, 40, 63):
        yield bad(f"a table of {nbytes} bytes", ShortTable(nbytes))
    for bit in (1, -1):
        yield bad(f"header_nbytes and file_nbytes differ by {bit}", two(
            header_nbytes=nbytes + bit, file_nbytes=nbytes + bit + 16))
    more = two()
    more.hashes.append(H(b""))
    yield bad("a content hash too many", more)
    fewer = two()
    fewer.hashes.pop()
    yield bad("a content hash is missing", fewer)
    swapped = two()
    swapped.hashes.reverse()
    yield bad("content hashes of each other", swapped)


class ShortTable(Forge):
    """An archive whose table is cut to `nbytes`, with a check at its end where there is room for one."""

    def __init__(self, nbytes):
        super().__init__(TWO)
        self.nbytes = nbytes

    def build(self):
        front = self.table_front()[: max(self.nbytes - 8, 0)]
        table = (front + u64(H(front)))[: self.nbytes]
        if self.nbytes < 40:
            table = self.table_front()[: self.nbytes]
        outer = self.outer_text(self.nbytes)
        return u64(len(outer)) + outer + table + b"".join(self.frames)


def stored_headers():
    yield good("zstd", two(method=1))
    header = two().header
    compressor = zstandard.ZstdCompressor(level=3)
    frame = compressor.compress(header)
    sized = zstandard.ZstdCompressor(write_checksum=True).compress(header)
    yield good("zstd with a checksum", two(method=1, stored=sized))
    yield bad("zstd with a wrong checksum", two(method=1, stored=sized[:-1] + bytes([sized[-1] ^ 1])))
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(header)
    yield bad("zstd without a content size", two(method=1, stored=unsized))
    skippable = b"\x50\x2a\x4d\x18" + struct.pack("<I", 4) + b"skip"
    yield bad("zstd after a skippable frame", two(method=1, stored=skippable + frame))
    yield bad("zstd before a skippable frame", two(method=1, stored=frame + skippable))
    yield bad("zstd and an empty zstd frame", two(method=1, stored=frame + compressor.compress(b"")))
    yield bad("a skippable frame alone", two(method=1, stored=skippable))
    halves = compressor.compress(header[:50]) + compressor.compress(header[50:])
    yield bad("two zstd frames", two(method=1, stored=halves))
    yield bad("zstd and a byte", two(method=1, stored=frame + b"\0"))
    yield bad("zstd cut", two(method=1, stored=frame[:-1]))
    yield bad("no zstd", two(method=1, stored=header))
    for magic in (b"\x25", b"\x26", b"\x27"):  # of zstd 0.5 to 0.7
        yield bad(f"the magic number of old zstd {magic.hex()}", two(method=1, stored=magic + frame[1:]))
    yield bad("nothing for zstd", two(method=1, stored=b""))
    yield bad("zstd said to be none", two(method=0, stored=frame))
    yield bad("zstd of a longer header", two(method=1, stored=compressor.compress(header + b" ")))
    yield bad("zstd of a shorter header", two(method=1, stored=compressor.compress(header[:-1])))
    other = header.replace(b'"test"', b'"Test"')
    yield bad("another header", two(stored=other))
    yield bad("another header, zstd", two(method=1, stored=compressor.compress(other)))
    large = header_of(TWO, '"__metadata__":{"kind":"%s"}' % ("x" * 300000))
    yield good("zstd of a large header", forge(TWO, large, (), method=1))
    largest = header.ljust(HEADER_NBYTES_MAX + 1)
    yield bad("a header over the limit", forge(TWO, largest, (), method=1, stored=compressor.compress(largest)))
    yield bad("zstd bomb", forge(TWO, None, (), method=1, stored=compressor.compress(bytes(10**7))))


def aliases():
    yield good("aliases", five())
    yield good("one alias", five([(2, 0)]))
    yield good("equal tensors without aliases", five([]))
    yield good("aliases, zstd", five(method=1))
    three = [(name, "U8", [1], b"x") for name in "abc"]
    yield good("two aliases of one owner", Forge(three, None, [(1, 0), (2, 0)]))
    yield good("owners may follow each other", Forge(three, None, [(2, 1)]))
    yield bad("owner is an alias", Forge(three, None, [(1, 0), (2, 1)]))
    yield bad("aliases fall", five([(3, 1), (2, 0)]))
    yield bad("alias twice", five([(2, 0), (2, 0)]))
    yield bad("alias of itself", five([(2, 2)]))
    yield bad("alias of a later one", Forge(three, None, [(0, 1)]))
    yield bad("alias of each other", Forge(three, None, [(1, 2), (2, 1)]))
    for alias in (5, 2**32 - 1):
        yield bad(f"alias {alias}", five([(2, 0)], alias_list=struct.pack("<IIIII", 2, 2, 0, alias, 0)))
        yield bad(f"owner {alias}", five([(2, 0)], alias_list=struct.pack("<III", 1, 2, alias)))
    yield bad("alias of another dtype", five([(4, 0)]))
    sizes = [("a", "U8", [4], b"abcd"), ("b", "U8", [3], b"abc")]
    yield bad("alias of another size", Forge(sizes, None, [(1, 0)]))
    same_hash = Forge(sizes, None, [(1, 0)])
    same_hash.hashes[1] = same_hash.hashes[0]
    yield bad("alias of another size with one hash", same_hash)
    other = five()
    other.hashes[2] ^= 1
    yield bad("alias of another content hash", other)
    framed = five()
    framed.frames[2] = framed.frames[0]
    yield bad("alias with a frame", framed)
    yield bad("bit 1 without aliases", five([], features=2, alias_count=0))
    yield bad("bit 1 without a list", five([], features=2))
    yield bad("a list without bit 1", five(features=0))
    for count in (0, 1, 3, 2**29, 2**32 - 1):
        yield bad(f"alias_count {count}", five(alias_count=count))
    pairs = struct.pack("<IIIII", 2, 2, 0, 3, 1)
    for what, data in (("half a count", b"\2\0"), ("half a pair", pairs[:-4]), ("a byte less", pairs[:-1]),
                       ("a byte more", pairs + b"\0"), ("a count that wraps", struct.pack("<I", 2**29 + 2) + pairs[4:]),
                       ("an alias with two owners", struct.pack("<IIIIIII", 3, 2, 0, 3, 0, 3, 1))):
        yield bad(f"list of aliases: {what}", five(alias_list=data))
    for what, i, frame in (("an alias has a byte", 2, b"x"), ("an owner has no frame", 0, b"")):
        other = five()
        other.frames[i] = frame
        yield bad(what, other)
    missing = five([])
    missing.frames[2] = b""
    yield bad("no frame, no alias", missing)
    missing = five([])
    missing.frames[3] = b""
    yield bad("no frame, no alias, no content", missing)


def frames():
    def changed(what, frame, i=0, hash_of=None, tensors=TWO):
        made = Forge(tensors)
        made.frames[i] = frame
        if hash_of is not None:
            made.hashes[i] = assemble.content_hash(hash_of, 255)
        return bad(what, made)

    yield changed("frame of another dtype", assemble.short_frame(b"abcd", DTYPE_NUMBERS["I8"]))
    yield changed("frame of more content", assemble.short_frame(b"abcde"), hash_of=b"abcde")
    yield changed("frame of less content", assemble.short_frame(b"abc"), hash_of=b"abc")
    yield changed("frame of other content", assemble.short_frame(b"abce"))
    yield changed("frame and a byte", assemble.short_frame(b"abcd") + b"\0")
    yield changed("frame without its last byte", assemble.short_frame(b"abcd")[:-1])
    yield changed("frame of version 2", assemble.short_frame(b"abcd", version=2))
    yield changed("two frames", assemble.short_frame(b"abcd") * 2)
    yield changed("the content for the frame", b"abcd")
    full = assemble.short_frame(b"x", DTYPE_NUMBERS["F32"])
    yield changed("an empty tensor has content", full, i=1, hash_of=b"x", tensors=FIVE)
    swapped = Forge([("a", "U8", [4], b"abcd"), ("b", "U8", [4], b"wxyz")])
    swapped.frames.reverse()
    yield bad("swapped frames", swapped)
    stored = two()
    stored.frames[0] = assemble.stored_frame(b"abcd")
    yield good("a stored frame", stored)
    coded = two()
    coded.frames[0] = assemble.coded_frame(assemble.plan([None]), [b"\0abcd"], b"abcd")
    yield good("a coded frame", coded)


def cases():
    for part in (section_2, rule_1, section_3, outer_tensors, section_4, stored_headers, aliases, frames):
        for what, archive, original in part():
            yield f"{part.__name__}: {what}", archive, original
