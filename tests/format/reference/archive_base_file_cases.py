"""archive_base_file_cases.py - archives with bases in several files, or of other lengths, as archive_base_cases.py has
those with a list of one file: docs/archive.md, section 5, "Several base files"."""

import struct

import assemble_delta as delta
from archive_base_cases import delta_frame, file_of, with_byte
from archive_forge import BaseFile, BaseFiles, Forge
from lmc_reference import H

ONE = [("w", "U8", [4], b"abcd"), ("v", "U8", [4], b"wxyz")]
TWO = [("w", "U8", [6], b"efghij"), ("m", "F32", [2], struct.pack("<2f", 1.5, -0.3)), ("i", "I8", [4], b"abcd")]
NEW = [("a", "U8", [4], b"abce"), ("b", "U8", [6], b"efghij"), ("c", "U8", [4], b"abce"), ("d", "U8", [4], b"zzzz"),
       ("r", "BF16", [2], delta.rounded(TWO[1][3]))]
OLD = [ONE, TWO]
LINKS = [(0, 0, 0), (1, 0, 1), (2, 0, 2)]  # the last one in the archive's own file
PATHS = [b"x/one.safetensors", b"two.safetensors"]
STORE = {"store.json": b"{}", "x/one.safetensors": file_of(ONE), "two.safetensors": file_of(TWO)}


def of_length(content, nbytes):
    return (content + bytes(nbytes))[:nbytes]


def made(links=None, old=None, new=None, paths=None, files=None, features=16, aliases=(), **fields):
    """The case's forge, its list of bases, and the files beside it. Contents of bases are cut or continued."""
    links, old, new = LINKS if links is None else links, OLD if old is None else old, new or NEW
    paths = PATHS if paths is None else paths
    forge = Forge(new, None, aliases)
    hashes = [[] for _ in old]
    for tensor, number, file in links:
        _, dtype, _, content = (old[file] if file < len(old) else new)[number]
        form = {"base_form": 1} if (dtype, new[tensor][1]) == ("F32", "BF16") else {}
        content = of_length(content, len(new[tensor][3]) * (2 if form else 1))
        forge.frames[tensor] = delta_frame(new[tensor], content, **form)
        forge.hashes[tensor] = H(struct.pack("<Q", H(new[tensor][3])))
        if file < len(old):
            hashes[file].append(H(struct.pack("<Q", H(content))))
    forge.bases = BaseFiles(links, [BaseFile(*file) for file in zip(paths, map(file_of, old), hashes)])
    forge.bases.features = features
    for field, value in fields.items():
        assert hasattr(forge.bases, field), field
        setattr(forge.bases, field, value)
    return forge, dict(STORE if files is None else files)


def good(what, case):
    forge, files = case
    return what, forge.build(), forge.original, files


def bad(what, case):
    forge, files = case
    return what, forge.build(), None, files


def changed(change, **fields):
    case = made(**fields)
    change(case[0].bases)
    return case


def with_record(**fields):
    """The first base file with other fields."""
    def change(bases):
        for field, value in fields.items():
            assert hasattr(bases.files[0], field), field
            setattr(bases.files[0], field, value)
    return changed(change)


# The list


def lists():
    yield good("two files and the archive's own", made())
    yield good("one file", made([(1, 0, 0)], [TWO], paths=[b"two.safetensors"]))
    yield good("no file", made([(2, 0, 0)], [], paths=[]))
    for count in (0, 2, 4, 2**32 - 1):
        yield bad(f"link_count {count}", made(link_count=count))
    for count in (0, 1, 3, 256, 2**32 - 1):
        yield bad(f"file_count {count}", made(file_count=count))
    yield bad("bytes after the list", made(end=bytes(8)))
    for features in (0, 1, 17, 32, 33, 49, 16 | 64):
        yield bad(f"features {features}", made(features=features))
    yield bad("bit 4 without a list", made_without_list())
    yield bad("a file that no link leads to", made([LINKS[0], LINKS[2]]))
    yield bad("a base file of another number", changed(lambda bases: bases.links.__setitem__(2, (2, 0, 3))))
    yield bad("links fall", changed(lambda bases: bases.links.reverse()))
    yield bad("a link twice", changed(lambda bases: bases.links.append((2, 0, 2))))
    yield bad("a link of no tensor", changed(lambda bases: bases.links.append((5, 0, 0))))
    yield bad("base of itself", changed(lambda bases: bases.links.__setitem__(2, (2, 2, 2))))
    yield bad("a base in the file that has one there", made([*LINKS[:2], (2, 3, 2), (3, 0, 2)]))
    yield bad("an alias has a link", made([*LINKS, (3, 0, 0)], new=[*NEW[:3], ("d", "U8", [4], b"abce"), NEW[4]],
                                          aliases=[(3, 2)]))
    yield good("a base in the file that has one in a base file", made([(0, 3, 2), (3, 0, 0), (4, 1, 1)]))


def made_without_list():
    forge, files = made()
    forge.features, forge.bases = 16, None
    return forge, files


def records():
    for path in (b"/x/one.safetensors", b"x//one.safetensors", b"x/../x/one.safetensors", b"./x/one.safetensors",
                 b"x/one.safetensors/", b"..", b".", b"x/\xff", b"x/a\0b", b"x/" + b"n" * 256, b"two.safetensors"):
        yield bad(f"path {path!r}", with_record(path=path))
    for nbytes in (0, 16, 18, 1024, 2**32 - 1):
        yield bad(f"path_nbytes {nbytes}", with_record(path_nbytes=nbytes))
    for zeros in (b"", b"\1" + bytes(6), bytes(6) + b"\1", bytes(15)):
        yield bad(f"{zeros!r} behind the path", with_record(zeros=zeros))
    yield bad("a long path", with_record(path=b"/".join([b"n" * 255] * 4)))
    for flags in (2, 3, 1 << 31):
        yield bad(f"flags {flags:#x}", with_record(flags=flags))
    yield good("flag EQUAL", changed(lambda bases: setattr(bases.files[1], "flags", 1)))
    base = file_of(ONE)
    yield bad("nbytes", with_record(nbytes=len(base) + 1))
    yield bad("header_hash", with_record(header_hash=H(b"")))
    yield bad("hash", with_record(hash=H(b"")))


def without(letter):
    """The store without the file that begins with it."""
    return {name: data for name, data in STORE.items() if name[0] != letter}


def places():
    files = {"one.safetensors": STORE["x/one.safetensors"], "two.safetensors": STORE["two.safetensors"]}
    yield good("beside the archive, without a store", made(files=files))
    yield bad("the path without a store", made(files=without("s")))
    archived = {"store.json": b"{}", "x/one.safetensors.lmc": Forge(ONE).build(),
                "two.safetensors.lmc": Forge(TWO).build()}
    yield good("archives", made(files=archived))
    yield bad("one is missing", made(files=without("t")))
    yield bad("one holds other content",
              made(files={**STORE, "x/one.safetensors": with_byte(STORE["x/one.safetensors"], b"abcd")}))
    names = [b"x/one.safetensors.lmc", b"two.safetensors"]
    yield good("the name of an archive", made(paths=names, files={
        **STORE, "x/one.safetensors.lmc": archived["x/one.safetensors.lmc"]}))


# Other lengths


def lengths():
    shorter = [(0, 0, 1), (1, 0, 0)]
    both = {"features": 48}
    yield good("shorter and longer", made(shorter, **both))
    yield bad("without bit 5", made(shorter))
    yield good("none of another length", made(**both))
    yield good("an empty base", made([(0, 0, 0)], [[("e", "U8", [0], b"")]], paths=PATHS[1:],
                                     files={"two.safetensors": file_of([("e", "U8", [0], b"")])}, **both))
    for count in (0, 1, 2, 3):
        master = [("m", "F32", [count], struct.pack("<3f", 1.5, -0.3, 2)[: 4 * count])]
        yield good(f"BF16 of {count} F32", made([(4, 0, 0)], [master], paths=PATHS[1:],
                                                files={"two.safetensors": file_of(master)}, **both))
    yield bad("another dtype", made([(0, 2, 1), (1, 0, 0)], **both))
    yield bad("another length in the archive's own file", made([*LINKS[:2], (2, 1, 2)], **both))
    chained, files = made([(1, 0, 0)], [ONE], paths=[b"one.safetensors"], files={}, **both)
    files = {"mid.safetensors.lmc": chained.build(), "one.safetensors": file_of(ONE)}
    yield good("a chain", made([(0, 1, 0)], [NEW], paths=[b"mid.safetensors"], files=files, **both))


def cases():
    for part in (lists, records, places, lengths):
        for what, archive, original, files in part():
            yield f"{part.__name__}: {what}", archive, original, files
