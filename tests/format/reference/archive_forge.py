"""archive_forge.py - archives put together by hand, the right and the wrong ones: the inverse of lmc_archive.py,
without any judgement of its own. What a case changes is set before `build` computes what depends on it and is
not set. Section numbers are those of docs/archive.md."""

import json
import struct

import zstandard

import assemble
from lmc_archive import DTYPE_NUMBERS, table_name
from lmc_archive_layout import PIECE_NBYTES, skeleton_name
from lmc_reference import H, u64

MARK = '"__metadata__":{"format":"lmc","lmc_archive":"1"}'


def entry(dtype, shape, begin, end, more=""):
    return '{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]%s}' % (
        dtype, json.dumps(shape, separators=(",", ":")), begin, end, more)


def header_of(tensors, metadata='"__metadata__":{"kind":"test"}'):
    """The header text of (name, dtype, shape, content) in the order of data."""
    members = [metadata] if metadata else []
    place = 0
    for name, dtype, shape, content in tensors:
        members.append(json.dumps(name) + ":" + entry(dtype, shape, place, place + len(content)))
        place += len(content)
    return ("{" + ",".join(members) + "}").encode()


def safetensors_file(header, data):
    return u64(len(header)) + header + data


class Bases:
    """A list of bases in one file. `links` lists (tensor, place, base), `file` is the base file or None, `frame_hashes`
    the base hashes of the frames with place 0. Fields that are None are computed."""

    features = 1

    def __init__(self, links, file=None, name=b"base.safetensors", frame_hashes=()):
        self.links, self.name = list(links), name if file is not None else b""
        self.nbytes = self.header_hash = self.hash = 0
        if file is not None:
            self.nbytes = len(file)
            self.header_hash = H(file[8 : 8 + int.from_bytes(file[:8], "little")])
            self.hash = H(b"".join(map(u64, frame_hashes)))
        self.link_count = self.name_nbytes = None
        self.zeros = None
        self.end = b""

    def data(self):
        link_count = len(self.links) if self.link_count is None else self.link_count
        name_nbytes = len(self.name) if self.name_nbytes is None else self.name_nbytes
        zeros = bytes(-len(self.name) % 8) if self.zeros is None else self.zeros
        head = struct.pack("<IIQQQ", link_count, name_nbytes, self.nbytes, self.header_hash, self.hash)
        links = b"".join(struct.pack("<II", tensor, place << 31 | base) for tensor, place, base in self.links)
        return head + self.name + zeros + links + self.end


class BaseFile:
    """One of several base files. `data` is the file, `frame_hashes` the base hashes of the frames that need it."""

    def __init__(self, path, data, frame_hashes=(), flags=0):
        self.path, self.flags = path, flags
        self.nbytes, self.header_hash = len(data), H(data[8 : 8 + int.from_bytes(data[:8], "little")])
        self.hash = H(b"".join(map(u64, frame_hashes)))
        self.path_nbytes = self.zeros = None

    def data(self):
        path_nbytes = len(self.path) if self.path_nbytes is None else self.path_nbytes
        zeros = bytes(-len(self.path) % 8) if self.zeros is None else self.zeros
        return struct.pack("<QQQII", self.nbytes, self.header_hash, self.hash, path_nbytes, self.flags) \
            + self.path + zeros


class BaseFiles:
    """A list of bases in several files. `links` lists (tensor, base, file)."""

    features = 16

    def __init__(self, links, files):
        self.links, self.files = list(links), list(files)
        self.link_count = self.file_count = None
        self.end = b""

    def data(self):
        link_count = len(self.links) if self.link_count is None else self.link_count
        file_count = len(self.files) if self.file_count is None else self.file_count
        links = b"".join(struct.pack("<II", tensor, base | file << 24) for tensor, base, file in self.links)
        files = b"".join(file.data() for file in self.files)
        return struct.pack("<II", link_count, file_count) + files + links + self.end


class Layout:
    """What an archive of another file has (section 8). `gaps` are the bytes of the skeleton before each tensor, and
    behind the last one. Fields that are None are computed; `stored` and `hashes` are of the pieces."""

    def __init__(self, kind, gaps):
        self.kind, self.gaps = kind, list(gaps)
        self.skeleton = b"".join(self.gaps)
        self.pieces = [self.skeleton[i : i + PIECE_NBYTES] for i in range(0, len(self.skeleton), PIECE_NBYTES)]
        self.stored = list(self.pieces)
        self.hashes = [H(piece) for piece in self.pieces]
        self.numbers = [len(gap) for gap in self.gaps]
        self.gaps_data = self.gaps_nbytes = self.zeros = self.skeleton_nbytes = self.skeleton_hash = None
        self.sizes = self.index = self.name = None
        self.between = b""  # behind the pieces, before their index

    def the_gaps_data(self):
        return b"".join(map(u64, self.numbers)) if self.gaps_data is None else self.gaps_data

    def data(self):
        gaps = self.the_gaps_data()
        gaps_nbytes = len(gaps) if self.gaps_nbytes is None else self.gaps_nbytes
        zeros = bytes(-len(gaps) % 8) if self.zeros is None else self.zeros
        skeleton_nbytes = len(self.skeleton) if self.skeleton_nbytes is None else self.skeleton_nbytes
        skeleton_hash = H(self.the_index()) if self.skeleton_hash is None else self.skeleton_hash
        return struct.pack("<IIQQ", self.kind, gaps_nbytes, skeleton_nbytes, skeleton_hash) + gaps + zeros

    def the_index(self):
        if self.index is not None:
            return self.index
        sizes = map(len, self.stored) if self.sizes is None else self.sizes
        return b"".join(struct.pack("<IQ", *entry) for entry in zip(sizes, self.hashes))

    def tensor(self):
        return b"".join(self.stored) + self.between + self.the_index()

    def original(self, contents):
        return b"".join(gap + content for gap, content in zip(self.gaps, contents + [b""]))


class Forge:
    """`tensors` lists (name, dtype, shape, content) in the order of data. Fields that are None are computed."""

    def __init__(self, tensors, header=None, aliases=()):
        self.header = header_of(tensors) if header is None else header
        self.names = [name for name, _, _, _ in tensors]
        self.data = b"".join(content for _, _, _, content in tensors)
        frames = [assemble.short_frame(content, DTYPE_NUMBERS[dtype]) for _, dtype, _, content in tensors]
        self.hashes = [assemble.content_hash(content, 255) for _, _, _, content in tensors]
        self.aliases = list(aliases)
        for alias, _ in self.aliases:
            frames[alias] = b""
        self.frames = frames
        self.table_name = table_name(set(self.names))
        self.mark = MARK
        self.magic, self.version, self.method, self.reserved = b"\x8cLMA", 1, 0, 0
        self.features = self.tensor_count = self.file_nbytes = self.header_nbytes = self.stored_nbytes = None
        self.stored = self.alias_count = None
        self.whole_hash = self.outer_hash = self.check = None
        self.alias_list = None
        self.bases = None
        self.layout = None
        self.contents = [content for _, _, _, content in tensors]
        self.table_end = b""
        self.end = b""
        self.edit_outer = lambda text: text
        self.edit_table = lambda table: table

    @property
    def original(self):
        if self.layout:
            return self.layout.original(self.contents)
        return safetensors_file(self.header, self.data)

    def build(self):
        front = self.table_front()
        nbytes = len(front) + 24 + len(self.table_end)
        outer = self.edit_outer(self.outer_text(nbytes))
        outer_hash = H(outer) if self.outer_hash is None else self.outer_hash
        table = front + u64(self.the_whole_hash()) + u64(outer_hash) + self.table_end
        table = self.edit_table(table)
        check = H(table) if self.check is None else self.check
        return u64(len(outer)) + outer + table + u64(check) + b"".join(self.frames) + self.skeleton() + self.end

    def skeleton(self):
        return self.layout.tensor() if self.layout else b""

    def outer_text(self, table_nbytes):
        members = [self.mark] if self.mark else []
        place = 0
        parts = [(self.table_name, table_nbytes)] + list(zip(self.names, map(len, self.frames)))
        if self.layout and self.layout.name is None:
            parts.append((skeleton_name(set(self.names)), len(self.skeleton())))
        elif self.layout and self.layout.name is not False:
            parts.append((self.layout.name, len(self.skeleton())))
        for name, nbytes in parts:
            members.append(json.dumps(name) + ":" + entry("U8", [nbytes], place, place + nbytes))
            place += nbytes
        text = ("{" + ",".join(members) + "}").encode()
        return text + b" " * (-(8 + len(text)) % 8)

    def fields(self):
        """(features, tensor_count, file_nbytes, header_nbytes, stored_nbytes), stored header."""
        stored = self.stored
        if stored is None:
            stored = zstandard.ZstdCompressor().compress(self.header) if self.method == 1 else self.header
        features = (self.bases.features if self.bases else 0) | (2 if self.aliases else 0) | (8 if self.layout else 0)
        computed = [features, len(self.hashes), len(self.original), len(self.header), len(stored)]
        own = [self.features, self.tensor_count, self.file_nbytes, self.header_nbytes, self.stored_nbytes]
        return [right if value is None else value for value, right in zip(own, computed)], stored

    def table_front(self):
        """The table before whole_hash."""
        fields, stored = self.fields()
        front = self.magic + struct.pack("<BBHIIQQQ", self.version, self.method, self.reserved, *fields) + stored
        front += b"".join(map(u64, self.hashes))
        front += self.the_alias_list() if self.alias_list is None else self.alias_list
        return front + (self.bases.data() if self.bases else b"") + self.the_layout()

    def the_layout(self):
        return self.layout.data() if self.layout else b""

    def the_alias_list(self):
        if not self.aliases and self.alias_count is None:
            return b""
        count = len(self.aliases) if self.alias_count is None else self.alias_count
        return struct.pack("<I", count) + b"".join(struct.pack("<II", *pair) for pair in self.aliases)

    def the_whole_hash(self):
        if self.whole_hash is not None:
            return self.whole_hash
        (_, _, file_nbytes, header_nbytes, _), _ = self.fields()
        parts = [file_nbytes, header_nbytes, H(self.header)] + self.hashes
        return H(b"".join(map(u64, parts)) + self.the_layout())
