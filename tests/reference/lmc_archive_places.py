"""Tensors of plain files of other kinds, for the reference reader of archives: docs/archive.md, section 8.4. Where they
are, for bases; no names, dtypes and shapes. A place is (begin, size)."""
import ast
import collections
import math
import re
import struct

from lmc_archive_layout import GGUF, NPY, RAW, ZIP
from safetensors_header import HEADER_NBYTES_MAX

RAW_PIECE_NBYTES = 4194304
ENTRY_NBYTES_MIN = 65536
NPY_MAGIC = b"\x93NUMPY"
GGUF_MAGIC = b"GGUF"


class NotFollowed(Exception):
    """A file of this kind that contradicts itself."""


def unless(condition, what):
    if not condition:
        raise NotFollowed(what)


def is_safetensors(data, path=None):
    if path is not None and str(path).endswith(".safetensors"):
        return True
    length = int.from_bytes(data[:8], "little")
    return 1 <= length <= min(HEADER_NBYTES_MAX, len(data) - 8) and data[8:9] in (b"{", b" ", b"\t", b"\n", b"\r")


def find_places(data):
    """The kind of a file that is no safetensors file, and its places; (None, None) if it cannot be followed."""
    try:
        if data.startswith(NPY_MAGIC):
            return NPY, in_order(npy_places(data, 0, len(data)))
        if data.startswith(GGUF_MAGIC):
            return GGUF, in_order(gguf_places(data))
        if find_end_record(data, len(data)) is not None:
            return ZIP, in_order(zip_places(data))
    except (NotFollowed, struct.error):
        return None, None
    return RAW, pieces(0, len(data))


def in_order(places):
    """Of two that overlap, the one that begins first stays."""
    kept = []
    end = 0
    for begin, nbytes in sorted(places):
        if begin >= end:
            kept.append((begin, nbytes))
            end = begin + nbytes
    return kept


def pieces(begin, nbytes):
    return [(begin + at, min(RAW_PIECE_NBYTES, nbytes - at)) for at in range(0, nbytes, RAW_PIECE_NBYTES)]


# NPY


def npy_places(data, begin, end):
    """Of the NPY file data[begin : end]."""
    version = data[begin + 6]
    unless(1 <= version <= 3, "version")
    form = "<H" if version == 1 else "<I"
    header_nbytes, = struct.unpack_from(form, data, begin + 8)
    start = begin + 8 + struct.calcsize(form) + header_nbytes
    unless(start <= end, "header")
    try:
        header = ast.literal_eval(data[start - header_nbytes : start].decode("utf-8" if version == 3 else "latin-1"))
        nbytes = item_nbytes(header["descr"])
        for dimension in header["shape"]:
            nbytes *= dimension
    except HasObjects:
        return []
    except (ValueError, SyntaxError, KeyError, TypeError):
        raise NotFollowed("header") from None
    unless(start + nbytes <= end, "size")
    return [(start, nbytes)]


class HasObjects(Exception):
    """An element holds references."""


def item_nbytes(descr):
    """Bytes of an element."""
    if isinstance(descr, tuple):
        item, shape = descr
        return item_nbytes(item) * math.prod(shape if isinstance(shape, tuple) else (shape,))
    if isinstance(descr, list):
        return sum(item_nbytes((field[1], field[2]) if len(field) == 3 else field[1]) for field in descr)
    match = re.fullmatch(r"[<>|=]?([a-zA-Z?])(\d*)(?:\[.*\])?", descr)
    unless(match, f"descr {descr}")
    if match.group(1) == "O":
        raise HasObjects
    return int(match.group(2)) * (4 if match.group(1) == "U" else 1)


# GGUF

GGUF_NUMBERS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes by type
GGUF_STRING, GGUF_ARRAY, GGUF_U32 = 8, 9, 4
GGUF_ALIGNMENT = 32
# (elements, bytes) of a block by type
GGML_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66),
    17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136),
    24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54),
    35: (256, 66), 39: (32, 17),
}


class GgufText:
    def __init__(self, data):
        self.data, self.place = data, 4

    def uint(self, nbytes):
        return int.from_bytes(self.bytes(nbytes), "little")

    def bytes(self, nbytes):
        unless(nbytes <= len(self.data) - self.place, "cut")
        self.place += nbytes
        return self.data[self.place - nbytes : self.place]

    def string(self):
        return self.bytes(self.uint(8))

    def value(self, kind):
        """Of a number, else None."""
        if kind in GGUF_NUMBERS:
            return self.uint(GGUF_NUMBERS[kind])
        if kind == GGUF_STRING:
            self.string()
            return None
        unless(kind == GGUF_ARRAY, "type of a value")
        item_kind, count = self.uint(4), self.uint(8)
        if item_kind in GGUF_NUMBERS:
            self.bytes(GGUF_NUMBERS[item_kind] * count)
        else:
            for _ in range(count):
                self.value(item_kind)
        return None


def gguf_places(data):
    text = GgufText(data)
    unless(text.uint(4) in (2, 3), "version")
    tensor_count, value_count = text.uint(8), text.uint(8)
    alignment = GGUF_ALIGNMENT
    for _ in range(value_count):
        key, kind = text.string(), text.uint(4)
        value = text.value(kind)
        if key == b"general.alignment" and kind == GGUF_U32:
            alignment = value
    unless(alignment > 0, "alignment")
    infos = [gguf_info(text) for _ in range(tensor_count)]
    start = -(-text.place // alignment) * alignment
    known = [(start + offset, nbytes) for offset, nbytes in infos if nbytes is not None]
    return [(begin, nbytes) for begin, nbytes in known if begin + nbytes <= len(data)]


def gguf_info(text):
    """(offset, size or None) of a tensor."""
    text.string()
    dimensions = [text.uint(8) for _ in range(text.uint(4))]
    kind, offset = text.uint(4), text.uint(8)
    elements, nbytes = GGML_BLOCKS.get(kind, (0, 0))
    if elements == 0 or (dimensions[0] if dimensions else 1) % elements != 0:
        return offset, None
    return offset, math.prod(dimensions) // elements * nbytes


# ZIP

END_RECORD = struct.Struct("<4s4H2LH")
ZIP64_LOCATOR = struct.Struct("<4sLQL")
ZIP64_END_RECORD = struct.Struct("<4sQ2H2L4Q")
DIRECTORY_ENTRY = struct.Struct("<4s6H3L5H2L")
LOCAL_HEADER = struct.Struct("<4s5H3L2H")
STORED, ENCRYPTED = 0, 1 << 0
Entry = collections.namedtuple("Entry", "name flags method stored_nbytes nbytes begin")


def find_end_record(data, end):
    """Where the end record of the ZIP file that ends at `end` begins, or None."""
    for at in range(end - END_RECORD.size, max(end - END_RECORD.size - 65536, -1), -1):
        if data[at : at + 4] == b"PK\5\6" and at + END_RECORD.size + END_RECORD.unpack_from(data, at)[-1] == end:
            return at
    return None


def zip_places(data):
    places = []
    end = len(data)
    record = find_end_record(data, end)
    while record is not None:
        begin, directory, entries = zip_entries(data, record)
        places += entry_places(data, [entry for entry in entries if lies_in(entry, begin, directory)])
        unless(begin < end, "a ZIP file that begins at its end")
        end = begin
        record = find_end_record(data, end)
    return places


def zip_entries(data, record):
    """Where the ZIP file begins, where its directory begins, and its entries."""
    _, _, _, _, count, directory_nbytes, offset, _ = END_RECORD.unpack_from(data, record)
    behind = record
    locator = record - ZIP64_LOCATOR.size
    if locator >= 0 and data[locator : locator + 4] == b"PK\6\7":
        behind = locator - ZIP64_END_RECORD.size
        unless(behind >= 0 and data[behind : behind + 4] == b"PK\6\6", "end record of zip64")
        count, directory_nbytes, offset = ZIP64_END_RECORD.unpack_from(data, behind)[-3:]
    directory = behind - directory_nbytes
    begin = directory - offset
    unless(directory >= 0 and begin >= 0, "place of the directory")
    entries = []
    at = directory
    for _ in range(count):
        entry, at = directory_entry(data, at, begin)
        unless(at <= behind, "directory")
        entries.append(entry)
    return begin, directory, entries


def directory_entry(data, at, begin):
    """The entry at `at`, and where the next one is."""
    fields = DIRECTORY_ENTRY.unpack_from(data, at)
    unless(fields[0] == b"PK\1\2", "entry of a directory")
    flags, method, stored_nbytes, nbytes = fields[3], fields[4], fields[8], fields[9]
    name_nbytes, extra_nbytes, comment_nbytes, offset = *fields[10:13], fields[16]
    at += DIRECTORY_ENTRY.size
    name, extra = data[at : at + name_nbytes], data[at + name_nbytes : at + name_nbytes + extra_nbytes]
    nbytes, stored_nbytes, offset = with_zip64(extra, [nbytes, stored_nbytes, offset])
    start = data_start(data, begin + offset, name)
    entry = Entry(name, flags, method, stored_nbytes, nbytes, start)
    return entry, at + name_nbytes + extra_nbytes + comment_nbytes


def with_zip64(extra, numbers):
    """The numbers of an entry; those that are all ones stand in the extra field 1."""
    at = 0
    while at + 4 <= len(extra):
        kind, nbytes = struct.unpack_from("<2H", extra, at)
        field = extra[at + 4 : at + 4 + nbytes]
        at += 4 + nbytes
        if kind == 1:
            wide = [int.from_bytes(field[i : i + 8], "little") for i in range(0, len(field) - 7, 8)]
            return [wide.pop(0) if number == 0xFFFFFFFF and wide else number for number in numbers]
    return numbers


def data_start(data, at, name):
    """Where the data of the entry with a local header at `at` begins, or None."""
    if at + LOCAL_HEADER.size > len(data):
        return None
    fields = LOCAL_HEADER.unpack_from(data, at)
    start = at + LOCAL_HEADER.size + fields[9] + fields[10]
    is_same = fields[0] == b"PK\3\4" and data[at + LOCAL_HEADER.size :][: fields[9]] == name
    return start if is_same else None


def lies_in(entry, begin, directory):
    plain = entry.method == STORED and not entry.flags & ENCRYPTED and entry.stored_nbytes == entry.nbytes
    return plain and entry.begin is not None and begin <= entry.begin <= directory - entry.nbytes


def entry_places(data, entries):
    places = []
    prefixes = {entry.name[: -len(b"data.pkl")] for entry in entries if entry.name.endswith(b"/data.pkl")}
    storages = tuple(prefix + part for prefix in prefixes for part in (b"data/", b"constants/"))
    for entry in entries:
        end = entry.begin + entry.nbytes
        if storages and entry.name.startswith(storages):
            places.append((entry.begin, entry.nbytes))
        elif entry.nbytes == 0 or entry.name.endswith(b".pkl"):
            continue
        elif entry.name.endswith(b".npy") and data[entry.begin : end].startswith(NPY_MAGIC):
            places += npy_places(data, entry.begin, end)
        elif entry.nbytes >= ENTRY_NBYTES_MIN:
            places += pieces(entry.begin, entry.nbytes)
    return places

