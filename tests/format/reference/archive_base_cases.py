"""archive_base_cases.py - archives with bases that break one rule of docs/archive.md, section 5, each, every hash made
right again, and some that look odd but break none. A case is (what, archive, original file or None if it must be
refused, {name: bytes} of the files beside the archive)."""

import struct

import assemble_delta as delta
from archive_forge import Bases, Forge, header_of, safetensors_file
from lmc_archive import DTYPE_NUMBERS
from lmc_reference import H

FILE, SELF = 0, 1
NAME = "base.safetensors"
OWN_NAME = "case.safetensors"
WIDTHS = {"U8": 1, "I8": 1, "F16": 2, "BF16": 2, "F32": 4, "I32": 4}
FORMS = {("F32", "BF16"): 1, ("F32", "F16"): 2, ("BF16", "F16"): 3}  # by the dtypes of a base and of what needs it

MASTER = struct.pack("<2f", 1.5, -0.3)
NEW_MASTER = struct.pack("<2f", 1.25, -0.4)
OLD = [("w", "U8", [4], b"abcd"), ("m", "F32", [2], MASTER), ("e", "F32", [0], b""), ("v", "U8", [4], b"wxyz"),
       ("i", "I8", [4], b"abcd"), ("unused", "U8", [3], b"...")]
NEW = [("w", "U8", [4], b"abce"), ("m", "F32", [2], NEW_MASTER), ("copy", "BF16", [2], delta.rounded(NEW_MASTER)),
       ("x", "U8", [4], b"wxyz"), ("y", "U8", [4], b"wxyz"), ("z", "U8", [4], b"1234"), ("e", "F32", [0], b"")]
LINKS = [(0, FILE, 0), (1, FILE, 1), (2, SELF, 1), (3, FILE, 3)]


def file_of(tensors):
    return safetensors_file(header_of(tensors), b"".join(content for _, _, _, content in tensors))


def with_byte(file, content):
    """The file with the first byte of this content changed."""
    at = file.index(content)
    return file[:at] + bytes([file[at] ^ 1]) + file[at + 1 :]


def delta_frame(tensor, base, **fields):
    """The frame of a tensor against the content of another one."""
    _, dtype, _, content = tensor
    form = fields.get("base_form")
    values = base if not form else delta.rounded(base) if form == 1 else delta.rounded_to_f16(base, 8 >> form - 1)
    plan = delta.DeltaPlan(WIDTHS[dtype], delta.XOR).data()
    block = delta.SAME if values == content else delta.STORED + content
    return delta.delta_frame(plan, [block], content, base, DTYPE_NUMBERS[dtype], **fields)


class Made:
    """An archive of `new` against `old` that breaks no rule; what a case changes is changed before `archive`."""

    def __init__(self, new=None, old=None, links=None, aliases=(), name=NAME):
        self.new, self.old = new or NEW, old or OLD
        self.links = LINKS if links is None else links
        self.base = file_of(self.old)
        self.forge = Forge(self.new, None, aliases)
        frame_hashes = []
        for tensor, place, number in self.links:
            dtype, content = (self.old if place == FILE else self.new)[number][1::2]
            form = FORMS.get((dtype, self.new[tensor][1]))
            fields = {"base_form": form} if form else {}
            self.forge.frames[tensor] = delta_frame(self.new[tensor], content, **fields)
            self.forge.hashes[tensor] = H(struct.pack("<Q", H(self.new[tensor][3])))
            if place == FILE:
                frame_hashes.append(H(struct.pack("<Q", H(content))))
        has_file = any(place == FILE for _, place, _ in self.links)
        self.bases = Bases(self.links, self.base if has_file else None, name.encode(), frame_hashes)
        self.forge.bases = self.bases if self.links else None
        self.files = {name: self.base}

    def good(self, what):
        return what, self.forge.build(), self.forge.original, self.files

    def bad(self, what):
        return what, self.forge.build(), None, self.files


def made(new=None, old=None, links=None, aliases=(), name=NAME, files=None, **fields):
    """`fields` are those of the list of bases; `files` are put beside the archive instead of the base."""
    case = Made(new, old, links, aliases, name)
    for field, value in fields.items():
        assert hasattr(case.bases, field), field
        setattr(case.bases, field, value)
    if files is not None:
        case.files = files
    return case


def aliased(**fields):
    return made(aliases=[(4, 3)], **fields)


# The list


def counts():
    yield made().good("all kinds of links")
    yield aliased().good("an alias of a tensor with a base")
    yield made(links=[(0, FILE, 0)]).good("one link")
    for count in (0, 1, 3, 5, 6, 2**29, 2**32 - 1):
        yield made(link_count=count).bad(f"link_count {count}")
    yield made(links=[(0, FILE, 0)], link_count=0).bad("link_count 0 of 1")
    empty = made(links=[], files={})
    empty.forge.bases = empty.bases
    yield empty.bad("a list without links")
    for nbytes in (0, 8, 15, 17, 24, 255, 256, 2**31, 2**32 - 8, 2**32 - 1):
        yield made(name_nbytes=nbytes).bad(f"name_nbytes {nbytes}")
    for end in (b"\0", bytes(4), bytes(8), struct.pack("<II", 5, 5)):
        yield made(end=end).bad(f"{len(end)} bytes after the links")
    absent = made()
    absent.forge.features = 0
    yield absent.bad("a list without bit 0")
    absent = made(links=[])
    absent.forge.features = 1
    yield absent.bad("bit 0 without a list")
    both = aliased()
    both.forge.features = 2
    yield both.bad("bit 1 alone, with a list of bases")
    both = aliased()
    both.forge.features = 1
    yield both.bad("bit 0 alone, with aliases")
    turned = aliased()
    turned.forge.alias_list, turned.forge.bases = turned.bases.data() + turned.forge.the_alias_list(), None
    turned.forge.features = 3
    yield turned.bad("the list of bases before that of aliases")


def names():
    for name in ("b", "x" * 255, "eight.st", " ", "...", ".b", "\u00e9\U0001f600", "a\nb", "a\\b", "-b", "~", "C:"):
        yield made(name=name).good(f"name {name[:20]!r}")
    for name in ("", ".", "..", "a/b", "../b", "/", "b/", "a\0b", "b\0"):
        yield made(name=name, files={}).bad(f"name {name!r}")
    yield made(name="x" * 256, files={}).bad("a name of 256 bytes")
    yield made(name="a/b", files={"a/b": file_of(OLD)}).bad("a path that leads to the base")
    for name in (b"\xff", b"a\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc3"):
        changed = made()
        changed.bases.name = name
        yield changed.bad(f"name {name!r}")
    for zeros in (bytes(6) + b"x", b"x" + bytes(6), bytes(15), bytes(3), b""):
        named = made(name="nine.st.x")
        named.bases.zeros = zeros
        yield named.bad(f"{zeros!r} behind the name")
    named = made(name="nine.st.x")
    named.bases.name += b"\0"
    yield named.bad("a zero in the name's own bytes")


def fields_of_the_file():
    only_self = [(2, SELF, 1)]
    yield made(links=only_self, files={}).good("no base file")
    for field in ("nbytes", "header_hash", "hash"):
        yield made(links=only_self, **{field: 1}).bad(f"no base file, but {field}")
        for bit in (1, 1 << 63):
            changed = made()
            setattr(changed.bases, field, getattr(changed.bases, field) ^ bit)
            yield changed.bad(f"{field} with another bit {bit:#x}")


# Links


def links():
    def changed(what, entries):
        case = made()
        case.bases.links = entries
        return case.bad(what)

    yield changed("links fall", [LINKS[1], LINKS[0]] + LINKS[2:])
    yield changed("a link twice", [LINKS[0]] + LINKS)
    yield changed("a link is missing", LINKS[:-1])
    yield changed("a link too many", LINKS + [(5, FILE, 0)])
    yield changed("a link of an empty tensor", LINKS + [(6, FILE, 2)])
    for tensor in (7, 2**31, 2**32 - 1):
        yield changed(f"a link of tensor {tensor}", LINKS + [(tensor, FILE, 0)])
    for base in (6, 7, 2**31 - 1):
        yield changed(f"base {base} in the base file", LINKS[:3] + [(3, FILE, base)])
    for base in (7, 2**31 - 1):
        yield changed(f"base {base} in the same file", LINKS[:2] + [(2, SELF, base)] + LINKS[3:])
    yield changed("the other place", [(0, SELF, 5)] + LINKS[1:])
    yield changed("base of itself", LINKS[:2] + [(2, SELF, 2)] + LINKS[3:])
    yield changed("base of another size", LINKS[:3] + [(3, FILE, 5)])
    yield changed("base of another dtype", [(0, FILE, 4)] + LINKS[1:])
    yield changed("base of other content", [(0, FILE, 3)] + LINKS[1:])
    yield changed("an empty base", [(0, FILE, 2)] + LINKS[1:])

    alias = aliased()
    alias.bases.links = LINKS + [(4, SELF, 5)]
    yield alias.bad("an alias has a link")
    yield made(links=[(3, SELF, 4)], files={}).good("a base that comes later in the file")
    yield made(links=[(3, SELF, 4), (5, SELF, 0)], files={}).good("two bases in the file")
    yield made(links=[(0, SELF, 5), (5, FILE, 0)]).good("a base in the file that has one in the base file")
    yield made(links=[(3, SELF, 0), (4, SELF, 3)], files={}).bad("a base in the file that has one there")
    yield made(links=[(3, SELF, 4), (4, SELF, 3)], files={}).bad("bases of each other")
    yield made(links=[(0, SELF, 4)], aliases=[(4, 3)], files={}).bad("a base in the file that is an alias")
    yield made(links=[(0, SELF, 3)], aliases=[(4, 3)], files={}).good("a base in the file that is an owner")


# Frames


def frames():
    plain = made()
    plain.forge.frames[0] = Forge(NEW).frames[0]
    yield plain.bad("a link of a frame without a base")
    unlinked = made()
    unlinked.forge.frames[5] = delta_frame(NEW[5], b"abcd")
    unlinked.forge.hashes[5] = H(struct.pack("<Q", H(NEW[5][3])))
    yield unlinked.bad("a frame with a base without a link")
    hashed = made()
    hashed.forge.hashes[0] ^= 1
    yield hashed.bad("another content hash")
    other = made()
    other.forge.frames[0] = delta_frame(NEW[0], b"abcf")
    yield other.bad("a frame against other content")
    stored = made()
    stored.forge.frames[0] = delta_frame(NEW[0], b"abc")
    yield stored.bad("a frame against less content")

    bits = struct.pack("<I", 7)
    yield made([("c", "BF16", [2], delta.rounded(MASTER))], [("m", "F32", [2], MASTER)], [(0, FILE, 0)]).good(
        "BF16 of F32 in the base file")
    yield made([("c", "BF16", [2], bits)], [("b", "BF16", [2], bits)], [(0, FILE, 0)]).good("BF16 of BF16")
    halves = delta.rounded(MASTER)
    yield made([("c", "F16", [2], delta.rounded_to_f16(MASTER, 4))], [("m", "F32", [2], MASTER)], [(0, FILE, 0)]).good(
        "F16 of F32 in the base file")
    yield made([("c", "F16", [2], delta.rounded_to_f16(halves, 2))], [("b", "BF16", [2], halves)],
               [(0, FILE, 0)]).good("F16 of BF16 in the base file")
    for what, dtype, base, form in (("F16 of F16 in form BF16", "F16", halves, 3),
                                    ("F16 of BF16 in form F32", "BF16", halves, 2),
                                    ("F16 of F32 in form BF16", "F32", MASTER, 3)):
        values = delta.rounded_to_f16((base * 2)[:8] if form == 2 else base[:4], 8 >> form - 1)
        case = made([("c", "F16", [2], values)], [("b", dtype, [len(base) // WIDTHS[dtype]], base)], [(0, FILE, 0)])
        case.forge.frames[0] = delta_frame(case.new[0], (base * 2)[:8] if form == 2 else base[:4], base_form=form)
        yield case.bad(what)
    for what, dtype, base, form in (("BF16 of I32", "I32", MASTER, 1), ("BF16 of less F32", "F32", MASTER[:4], 1),
                                    ("BF16 of more F32", "F32", MASTER + bits, 1),
                                    ("BF16 of BF16 in form F32", "BF16", MASTER, 1),
                                    ("BF16 of F32 in form plain", "F32", bits, 0)):
        old = [("b", dtype, [len(base) // WIDTHS[dtype]], base)]
        case = made([("c", "BF16", [2], bits)], old, [(0, FILE, 0)])
        case.forge.frames[0] = delta_frame(case.new[0], (base * 2)[:8] if form else base, base_form=form)
        yield case.bad(what)


# The base file


def base_files():
    base = file_of(OLD)
    archive = Forge(OLD).build()
    yield made(files={}).bad("no base")
    yield made(files={NAME + ".lmc": archive}).good("an archive")
    yield made(files={NAME + ".lmc": base}).good("the file under the archive's name")
    yield made(files={NAME: archive}).good("an archive under the file's name")
    yield made(files={NAME: base[:-1], NAME + ".lmc": archive}).good("a file that is cut, and an archive")
    yield made(files={NAME: b"", NAME + ".lmc": archive}).good("an empty file, and an archive")
    yield made(files={NAME: file_of(NEW), NAME + ".lmc": archive}).good("another file, and an archive")
    yield made(files={NAME: base, NAME + ".lmc": b"x"}).good("a file, and no archive")
    yield made(files={NAME.upper(): base, "other.safetensors": base}).bad("other names")
    renamed = file_of([("W", *OLD[0][1:])] + OLD[1:])
    yield made(files={NAME: renamed}).bad("another header of one size")
    yield made(files={NAME: base.replace(b"test", b"Test")}).bad("other metadata")
    for name, _, _, content in OLD[:2] + OLD[3:4]:
        yield made(files={NAME: with_byte(base, content)}).bad(f"{name} is another")
    yield made(files={NAME: with_byte(base, b"...")}).good("what is not needed is another")
    damaged = archive.replace(b"...", b"..,")
    yield made(files={NAME + ".lmc": damaged}).good("what is not needed of the archive is damaged")
    needed = archive.replace(b"wxyz", b"wxyZ")
    yield made(files={NAME + ".lmc": needed}).bad("what is needed of the archive is damaged")
    foreign = Forge(OLD)
    foreign.hashes[0] ^= 1
    yield made(files={NAME + ".lmc": foreign.build()}).bad("another content hash in the base's table")
    unmarked = Forge(OLD)
    unmarked.mark = None
    yield made(files={NAME + ".lmc": unmarked.build()}).bad("an archive without its mark")
    owned = OLD + [("v again", "U8", [4], b"wxyz")]
    with_alias = Forge(owned, None, [(6, 3)]).build()
    yield made(old=owned, links=[(3, FILE, 6)], files={NAME + ".lmc": with_alias}).good("a base that is an alias")


# Chains


def chain_of(length, last=None):
    """Files s0.safetensors to the last but one of a chain of `length` files, and that one's case."""
    tensor = [("w", "U8", [4], b"abcd")]
    files = {"s0.safetensors": file_of(tensor)} if last is None else last
    for i in range(1, length):
        case = made(tensor, tensor, [(0, FILE, 0)], name=f"s{i - 1}.safetensors", files=dict(files))
        files[f"s{i}.safetensors.lmc"] = case.forge.build()
    return case


def chains():
    for length in (3, 64):
        yield chain_of(length).good(f"{length} files")
    yield chain_of(65).bad("65 files")
    for missing in (0, 1):
        broken = chain_of(4)
        del broken.files[f"s{missing}.safetensors" + (".lmc" if missing else "")]
        yield broken.bad(f"file {missing} of 4 is missing")
    link = made(OLD, OLD, [(5, FILE, 5)], name="gone.safetensors", files={}).forge.build()
    yield made(files={NAME + ".lmc": link}).good("a base's own base, which is not needed, is missing")

    pair = [("a", "U8", [4], b"abcd"), ("b", "U8", [4], b"abcd")]
    for what, links_there in (("tensor by tensor", [(0, FILE, 0)]), ("another tensor", [(0, FILE, 1)])):
        there = made(pair, pair, links_there, name=OWN_NAME).forge.build()
        yield made(pair, pair, [(0, FILE, 0)], files={NAME + ".lmc": there}).bad(f"two files in a circle, {what}")
    yield made(pair, pair, [(0, FILE, 1)], name=OWN_NAME, files={}).bad("an archive that is its own base")


def cases():
    for part in (counts, names, fields_of_the_file, links, frames, base_files, chains):
        for what, archive, original, files in part():
            yield f"{part.__name__}: {what}", archive, original, files
