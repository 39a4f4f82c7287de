"""Tensors of plain files of other kinds, for the reference reader of archives: docs/archive.md, section 8.4. Where they
are, for bases; no names, dtypes and shapes. A place is (begin, size)."""
import collections
import re
import struct

from lmc_archive_layout import GGUF, NPY, RAW, ZIP
from lmc_npy_header import Malformed, array_nbytes
from safetensors_header import HEADER_NBYTES_MAX, INTEGER_MAX

PIECE_NBYTES = 1048576
ENTRY_NBYTES_MIN = 65536
NPY_MAGIC = b"\x93NUMPY"
NPY_HEADER_NBYTES_MAX = 1048576
TENSOR_COUNT_MAX = 2500000
ZIP_COUNT_MAX = 131072
ZIP_ENTRY_COUNT_MAX = 4194304
GGUF_MAGIC = b"GGUF"


class NotFollowed(Exception):
    """A file of this kind that contradicts itself."""


def unless(condition, what):
    if not condition:
        raise NotFollowed(what)


def is_named_safetensors(path):
    return path is not None and path.endswith(".safetensors")


def is_safetensors(data, path=None):
    """Whether it is named or begins as one."""
    if is_named_safetensors(path):
        return True
    length = int.from_bytes(data[:8], "little")
    return 1 <= length <= min(HEADER_NBYTES_MAX, len(data) - 8) and data[8:9] in (b"{", b" ", b"\t", b"\n", b"\r")


def find_places(data):
    """The kind of a file that is no safetensors file, and its places. What cannot be followed is raw."""
    try:
        if data.startswith(NPY_MAGIC):
            return NPY, npy_places(data, 0, len(data))
        if data.startswith(GGUF_MAGIC):
            return GGUF, in_order(at_most(gguf_places(data)))
        if is_zip(data):
            return ZIP, in_order(at_most(zip_places(data)))
    except (NotFollowed, struct.error):
        pass
    return RAW, raw_places(data)


def at_most(places):
    unless(len(places) <= TENSOR_COUNT_MAX, "tensors")
    return places


def raw_places(data):
    return pieces(0, len(data))


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
    nbytes -= nbytes % 8
    return [(begin + at, min(PIECE_NBYTES, nbytes - at)) for at in range(0, nbytes, PIECE_NBYTES)]


# NPY


def npy_places(data, begin, end):
    """Of the NPY file data[begin : end]."""
    version, minor = struct.unpack_from("<6x2B", data, begin)
    unless(1 <= version <= 3 and minor == 0, "version")
    form = "<H" if version == 1 else "<I"
    text = begin + 8 + struct.calcsize(form)
    start = text + struct.unpack_from(form, data, begin + 8)[0]
    unless(start <= end and start - begin <= NPY_HEADER_NBYTES_MAX, "header")
    try:
        nbytes = array_nbytes(data[text:start])
    except Malformed as error:
        raise NotFollowed(str(error)) from None
    if nbytes is None:
        return []
    unless(start + nbytes <= end, "size")
    return [(start, nbytes)]


# GGUF

GGUF_NUMBERS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes by type
GGUF_STRING, GGUF_ARRAY, GGUF_U32 = 8, 9, 4
GGUF_ALIGNMENT = 32
GGUF_RANK_MAX, GGUF_ARRAYS_MAX, GGUF_NAME_NBYTES_MAX = 8, 8, 32768
GGUF_INFOS_END_MAX = 134217728
# (elements, bytes) of a block by type
GGML_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66),
    17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136),
    24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54),
    35: (256, 66), 39: (32, 17), 40: (64, 36), 41: (128, 18),
}


class GgufText:
    def __init__(self, data):
        self.data, self.place = data, 4

    def uint(self, nbytes):
        return int.from_bytes(self.bytes(nbytes), "little")

    def bytes(self, nbytes):
        unless(nbytes <= min(len(self.data), GGUF_INFOS_END_MAX) - self.place, "cut, or too long")
        self.place += nbytes
        return self.data[self.place - nbytes : self.place]

    def string(self):
        return self.bytes(self.uint(8))

    def skip_values(self, kind, count, depth=0):
        unless(depth <= GGUF_ARRAYS_MAX, "arrays within each other")
        if kind in GGUF_NUMBERS:
            self.bytes(GGUF_NUMBERS[kind] * count)
            return
        unless(kind in (GGUF_STRING, GGUF_ARRAY), "type of a value")
        for _ in range(count):
            if kind == GGUF_STRING:
                self.string()
            else:
                self.skip_values(self.uint(4), self.uint(8), depth + 1)


def gguf_places(data):
    text = GgufText(data)
    unless(text.uint(4) in (2, 3), "version")
    tensor_count, value_count = text.uint(8), text.uint(8)
    unless(tensor_count <= TENSOR_COUNT_MAX, "tensor infos")
    alignment = GGUF_ALIGNMENT
    for _ in range(value_count):
        key, kind = text.string(), text.uint(4)
        if key == b"general.alignment":
            alignment = text.uint(4) if kind == GGUF_U32 else 0
            unless(alignment > 0 and alignment & alignment - 1 == 0, "alignment")
        else:
            text.skip_values(kind, 1)
    infos = [gguf_info(text) for _ in range(tensor_count)]
    start = -(-text.place // alignment) * alignment
    places = [(start + begin, nbytes) for begin, nbytes in gguf_sizes(infos, max(len(data) - start, 0))]
    return places if start <= len(data) else []


def gguf_info(text):
    """(offset, size or None) of a tensor."""
    unless(len(text.string()) <= GGUF_NAME_NBYTES_MAX, "name")
    rank = text.uint(4)
    unless(rank <= GGUF_RANK_MAX, "rank")
    dimensions = [text.uint(8) for _ in range(rank)]
    kind, offset = text.uint(4), text.uint(8)
    elements, nbytes = GGML_BLOCKS.get(kind, (0, 0))
    if elements == 0 or (dimensions[0] if dimensions else 1) % elements != 0:
        return offset, None
    count = 1
    for dimension in dimensions[::-1]:
        count *= dimension
        if count > INTEGER_MAX:
            return offset, None
    nbytes *= count // elements
    return offset, nbytes if nbytes <= INTEGER_MAX else None


def gguf_sizes(infos, data_nbytes):
    """(offset, size) of those that are tensors. One of unknown size goes on to the offset of the next one."""
    ends = [offset for offset, _ in infos[1:]] + [data_nbytes]
    found = []
    end = 0
    for (offset, nbytes), next_offset in zip(infos, ends):
        unless(offset + (nbytes or 0) <= data_nbytes, "cut")
        is_known = nbytes is not None
        if offset >= end and (is_known or offset <= next_offset <= data_nbytes):
            found.append((offset, nbytes if is_known else next_offset - offset))
            end = sum(found[-1])
    return found


# ZIP

END_RECORD = struct.Struct("<4s4H2LH")
ZIP64_LOCATOR = struct.Struct("<4sLQL")
ZIP64_END_RECORD = struct.Struct("<4sQ2H2L4Q")
DIRECTORY_ENTRY = struct.Struct("<4s6H3L5H2L")
LOCAL_HEADER = struct.Struct("<4s5H3L2H")
TORCH_PREFIX = re.compile(b"[^/]+/(?=data\\.pkl\\Z)", re.S)
FLAGS_REFUSED = 0x2061  # encrypted, a patch, strongly encrypted, masked
NONE_16, NONE_32 = 0xFFFF, 0xFFFFFFFF
Zip = collections.namedtuple("Zip", "begin directory end count")  # end: of the directory
Entry = collections.namedtuple("Entry", "name nbytes local is_plain")  # local: where its local header is


def is_zip(data):
    if data[:4] in (b"PK\3\4", b"PK\5\6"):
        return True
    last = last_zip(data)
    return last is not None and last.count > 0


def last_zip(data):
    """By the last end record that holds up, or None. Its comment, and other bytes, may stand behind it."""
    for at in range(len(data) - END_RECORD.size, max(len(data) - END_RECORD.size - NONE_16, 0) - 1, -1):
        found = zip_of(data, at)
        if found and END_RECORD.unpack_from(data, at)[-1] <= len(data) - at - END_RECORD.size:
            return found
    return None


def zip_before(data, end):
    """That which ends there, without a comment, or None."""
    at = end - END_RECORD.size
    found = zip_of(data, at) if at >= 0 and data[end - 2 : end] == b"\0\0" else None
    return found if found and found.count > 0 else None


def zip_of(data, at):
    """The ZIP file whose end record is there; None if it is none or does not hold up."""
    magic, disk, directory_disk, disk_count, count, nbytes, offset, _ = END_RECORD.unpack_from(data, at)
    if magic != b"PK\5\6" or disk != directory_disk or disk not in (0, NONE_16) or disk_count != count:
        return None
    end = at
    wide_at = at - ZIP64_LOCATOR.size - ZIP64_END_RECORD.size
    if wide_at >= 0 and data.startswith(b"PK\6\7", at - ZIP64_LOCATOR.size) and data.startswith(b"PK\6\6", wide_at):
        disk, directory_disk, disk_count, *wide = ZIP64_END_RECORD.unpack_from(data, wide_at)[4:]
        pairs = zip((count, nbytes, offset), wide, (NONE_16, NONE_32, NONE_32))
        if disk or directory_disk or disk_count != wide[0] or any(n not in (w, none) for n, w, none in pairs):
            return None
        (count, nbytes, offset), end = wide, wide_at
    directory = end - nbytes
    fits = offset <= directory and count <= nbytes // DIRECTORY_ENTRY.size and (count > 0 or nbytes == 0)
    if not fits or count > 0 and data[directory : directory + 4] != b"PK\1\2":
        return None
    return Zip(directory - offset, directory, end, count)


def zip_places(data):
    last = last_zip(data)
    unless(last is not None, "no end record")
    places = entries_places(data, plain_entries(data, last))
    found = zip_before(data, last.begin)
    for _ in range(ZIP_COUNT_MAX - 1):
        if found is None:
            break
        try:
            places += entries_places(data, plain_entries(data, found))
        except (NotFollowed, struct.error):
            pass  # all of it is skeleton
        found = zip_before(data, found.begin)
    return places


def plain_entries(data, found):
    """All names, and (name, begin, size) of the entries that may be tensors, in the order of their places."""
    unless(found.count <= ZIP_ENTRY_COUNT_MAX, "entries")
    entries = []
    at = found.directory
    for _ in range(found.count):
        entry, at = directory_entry(data, at, found)
        unless(at <= found.end, "directory")
        entries.append(entry)
    unless(at == found.end, "directory")
    entries.sort(key=lambda entry: entry.local)
    plain = []
    end = found.begin
    for entry in entries:
        begin = data_begin(data, entry, found.directory) if entry.is_plain and entry.local >= end else None
        if begin is not None:
            plain.append((entry.name, begin, entry.nbytes))
            end = begin + entry.nbytes
    return [entry.name for entry in entries], plain


def directory_entry(data, at, found):
    """The entry at `at`, and where the next one is."""
    fields = DIRECTORY_ENTRY.unpack_from(data, at)
    unless(fields[0] == b"PK\1\2", "entry of a directory")
    flags, method = fields[3:5]
    name_nbytes, extra_nbytes, comment_nbytes = fields[10:13]
    at += DIRECTORY_ENTRY.size
    end = at + name_nbytes
    name, extra = data[at:end], data[end : end + extra_nbytes]
    stored_nbytes, nbytes, offset = fields[8], fields[9], fields[16]
    numbers = with_zip64(extra, [nbytes, stored_nbytes, offset])
    nbytes, stored_nbytes, offset = numbers
    in_zip = offset is not None and offset < found.directory - found.begin
    is_plain = method == 0 and not flags & FLAGS_REFUSED and None not in numbers
    local = found.begin + (offset if in_zip else 0)
    entry = Entry(name, nbytes, local, is_plain and in_zip and nbytes == stored_nbytes)
    return entry, end + extra_nbytes + comment_nbytes


def with_zip64(extra, numbers):
    """The numbers of an entry; those that are all ones stand in the first extra field 1. None for one that does not."""
    wide = None
    at = 0
    while at + 4 <= len(extra) and wide is None:
        kind, nbytes = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            wide = extra[at + 4 : at + 4 + nbytes] if at + 4 + nbytes <= len(extra) else b""
        at += 4 + nbytes
    for i, number in enumerate(numbers):
        if number == NONE_32:
            numbers[i] = int.from_bytes(wide[:8], "little") if wide and len(wide) >= 8 else None
            wide = wide and wide[8:]
    return numbers


def data_begin(data, entry, directory):
    """Where the data of an entry begins, or None if its local header does not hold up."""
    if entry.local + LOCAL_HEADER.size > directory:
        return None
    magic, _, flags, method, *_, name_nbytes, extra_nbytes = LOCAL_HEADER.unpack_from(data, entry.local)
    begin = entry.local + LOCAL_HEADER.size + name_nbytes + extra_nbytes
    holds_up = magic == b"PK\3\4" and method == 0 and not flags & FLAGS_REFUSED
    return begin if holds_up and begin + entry.nbytes <= directory else None


def entries_places(data, found):
    """Of all names, and of the entries that may be tensors."""
    names, entries = found
    prefix = next((match.group() for match in map(TORCH_PREFIX.match, names) if match), None)
    storages = re.compile(re.escape(prefix) + b"(data|constants)/.", re.S) if prefix else re.compile(b"(?!)")
    places = []
    for name, begin, nbytes in entries:
        array = npy_entry_places(data, begin, begin + nbytes) if name.endswith(b".npy") else []
        if storages.match(name):
            places.append((begin, nbytes))
        elif array:
            places += array
        elif nbytes >= ENTRY_NBYTES_MIN and not name.endswith(b".pkl"):
            places += pieces(begin, nbytes)
    return places


def npy_entry_places(data, begin, end):
    """Nothing if it is no NPY file."""
    try:
        return npy_places(data, begin, end) if data.startswith(NPY_MAGIC, begin, end) else []
    except (NotFollowed, struct.error):
        return []
