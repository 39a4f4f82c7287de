"""archive_kind_base_cases.py - archives whose base is a file of another kind, or that are of such a file and have a
base: good ones, and some that break a rule of docs/archive.md, sections 5 and 8. A case is (what, archive, original
file or None if it must be refused, {name: bytes} of the files beside the archive)."""

import struct

import archive_containers
from archive_base_cases import FILE, NAME, SELF, delta, delta_frame, file_of
from archive_forge import Bases, Forge, Layout, header_of
from lmc_archive_layout import NPY, RAW, places_hash
from lmc_archive_places import find_places
from lmc_reference import H

MASTER = struct.pack("<8f", *(i / 7 for i in range(8)))
COPY = delta.rounded(MASTER)
NEW = struct.pack("<8f", *(i / 6 for i in range(8)))
ARRAY = archive_containers.npy(MASTER)
OTHER_ARRAY = archive_containers.npy(MASTER, "'<i8'", (4,))
ZIPPED = archive_containers.zipped([("a.npy", ARRAY), ("b.npy", archive_containers.npy(MASTER[::-1]))])
GGUF = archive_containers.gguf([(b"a", 0, [8], MASTER), (b"b", 0, [8], MASTER[::-1])])
BYTES = b"no kind at all: " + MASTER


def against(base, contents, tensor=None, links=((0, FILE, 0),), name="base", layout=None, places=None, files=None,
            **fields):
    """The archive of one tensor against tensors of `contents` in the base file. `places` are those of the base file;
    `fields` those of the list of bases."""
    tensor = tensor or ("array", "F32", [8], NEW)
    case = Forge([tensor], header_of([tensor], None))
    content = contents[links[0][2]] if links[0][1] == FILE else None
    form = {"base_form": 1} if len(content) == 2 * len(tensor[3]) else {}
    case.frames[0] = delta_frame(tensor, content, **form)
    case.hashes[0] = H(struct.pack("<Q", H(tensor[3])))
    case.bases = Bases(links, base, name.encode(), [H(struct.pack("<Q", H(content)))])
    case.bases.header_hash = places_hash(find_places(base)[1] if places is None else places)
    for field, value in fields.items():
        assert hasattr(case.bases, field), field
        setattr(case.bases, field, value)
    case.layout = layout
    return case, {name: base} if files is None else files


def good(what, made):
    case, files = made
    return what, case.build(), case.original, files


def bad(what, made):
    case, files = made
    return what, case.build(), None, files


def array_layout():
    return Layout(NPY, [ARRAY[: -len(MASTER)], b""])


def archive_of_array(name="array"):
    case = Forge([(name, "F32", [8], MASTER)], header_of([(name, "F32", [8], MASTER)], None))
    case.layout = array_layout()
    return case.build()


def plain_bases():
    for what, base, contents in (("NPY", ARRAY, [MASTER]), ("ZIP", ZIPPED, [MASTER, MASTER[::-1]]),
                                 ("GGUF", GGUF, [MASTER, MASTER[::-1]]), ("raw", BYTES, [BYTES])):
        tensor = ("piece/0", "U8", [48], BYTES[::-1]) if what == "raw" else None
        yield good(f"{what}, of a safetensors file", against(base, contents, tensor))
        yield good(f"{what}, of an NPY file", against(base, contents, tensor, layout=array_layout()))
        yield good(f"{what} of any name", against(base, contents, tensor, name="x.lmc"))
        yield bad(f"{what}, named as a safetensors file", against(base, contents, tensor, name=NAME))
        places = find_places(base)[1]
        for how, changed in (("sizes before places", [place[::-1] for place in places]),
                             ("places from 0", [(0, nbytes) for _, nbytes in places]),
                             ("no places", []), ("a byte on", [(begin + 1, nbytes) for begin, nbytes in places])):
            if changed != places:
                yield bad(f"{what}, {how}", against(base, contents, tensor, places=changed))
        yield bad(f"{what}, a base behind the last tensor", against(
            base, contents + contents, tensor, ((0, FILE, len(contents)),)))
        yield bad(f"{what}, another base_hash", against(base, contents, tensor, hash=1))
        yield bad(f"{what}, another size", against(base, contents, tensor, nbytes=len(base) + 1))
        yield bad(f"{what}, other content", against(
            base, contents, tensor, files={"base": base.replace(contents[0], bytes(len(contents[0])))}))
    yield good("the second tensor", against(ZIPPED, [MASTER, MASTER[::-1]], links=((0, FILE, 1),)))
    cut_zip = archive_containers.zipped([("a", b"abcd" * 8)])[:-1]
    headed = struct.pack("<Q", 16) + b'{"a":' + ZIPPED[:40]
    for what, cut in (("a ZIP file", cut_zip), ("an NPY file", ARRAY[:-8]), ("a safetensors file", headed)):
        nbytes = len(cut) // 8 * 8
        tensor = "piece/0", "U8", [nbytes], bytes(nbytes)
        yield good(f"{what} that cannot be followed", against(cut, [cut[:nbytes]], tensor, places=[(0, nbytes)]))


def archives():
    archive = archive_of_array()
    files = {"base.lmc": archive}
    yield good("an archive of an NPY file", against(ARRAY, [MASTER], files=files))
    yield good("an archive under the file's name", against(ARRAY, [MASTER], files={"base": archive}))
    yield good("an archive whose tensor has another name", against(
        ARRAY, [MASTER], files={"base.lmc": archive_of_array("another")}))
    yield bad("the hash of the archive's header", against(
        ARRAY, [MASTER], files=files, header_hash=H(header_of([("array", "F32", [8], MASTER)], None))))
    plain = Forge([("array", "F32", [8], MASTER)])
    yield bad("an archive of a safetensors file", against(ARRAY, [MASTER], files={"base.lmc": plain.build()}))
    damaged = archive.replace(ARRAY[10:40], b"?" * 30)
    assert damaged != archive
    yield good("the skeleton of the base is damaged", against(ARRAY, [MASTER], files={"base.lmc": damaged}))
    yield bad("the tensor of the base is damaged", against(
        ARRAY, [MASTER], files={"base.lmc": archive.replace(MASTER[4:], MASTER[:-4])}))


def rounded_again():
    """An archive of bytes whose BF16 is rounded from an archive of bytes whose BF16 is rounded from F32."""
    copy = ("piece/0", "BF16", [8], COPY)
    middle, files = against(ARRAY, [MASTER], copy, layout=Layout(RAW, [b"", b""]))
    again = ("piece/0", "BF16", [4], delta.rounded(COPY))
    return against(COPY, [COPY], again, name="middle", layout=Layout(RAW, [b"", b""]), places=[(0, len(COPY))],
                   files={**files, "middle.lmc": middle.build()})


def dtypes():
    copy = ("array", "BF16", [8], COPY)
    yield good("I64 in an NPY file", against(OTHER_ARRAY, [MASTER]))
    yield good("BF16 of F32", against(ARRAY, [MASTER], copy))
    yield good("BF16 of I64 in an NPY file", against(OTHER_ARRAY, [MASTER], copy))
    for what, dtype, width in (("F32", "F32", 4), ("I32", "I32", 4)):
        base = file_of([("array", dtype, [len(MASTER) // width], MASTER)])
        for how, tensor in (("plain", None), ("BF16", copy)):
            made = against(base, [MASTER], tensor, name=NAME, layout=array_layout(),
                           header_hash=H(base[8 : 8 + int.from_bytes(base[:8], "little")]))
            yield (good if what == "F32" else bad)(f"{what} in a safetensors file, {how}", made)
    for kind in (RAW, None):
        tensors = [("a", "I32", [8], MASTER), ("b", "F32", [8], NEW)]
        case = Forge(tensors, header_of(tensors, None))
        case.frames[1] = delta_frame(tensors[1], MASTER)
        case.hashes[1] = H(struct.pack("<Q", H(NEW)))
        case.bases = Bases([(1, SELF, 0)])
        case.layout = kind and Layout(kind, [b"", b"", b""])
        yield (good if kind else bad)(f"another dtype in the same file, kind {kind}", (case, {}))
    yield bad("BF16 of BF16 of F32, as if it were F32", rounded_again())
    half = "array", "F32", [4], NEW[:16]
    yield bad("another size", against(ARRAY, [MASTER[:16]], half))


def cases():
    for part in (plain_bases, archives, dtypes):
        for what, archive, original, files in part():
            yield f"{part.__name__}: {what}", archive, original, files
