#!/usr/bin/env python3
"""Reference reader of LMC archives, version 1.

Written from docs/archive.md alone, to be read next to it: section numbers in the comments are those of that document,
and names are the ones used there. Headers are read by safetensors_header.py, lists of bases by lmc_archive_base.py,
what archives of other files than safetensors have by lmc_archive_layout.py, the tensors that they list by
lmc_archive_views.py, plain files of other kinds by lmc_archive_places.py, frames by lmc_reference.py. It favours
clarity over speed. It needs the packages `xxhash` and `zstandard`.

    lmc_archive.py ARCHIVE [-b BASE] [-d DIRECTORY]... [-o OUT]
"""
import argparse
import collections
import sys

import lmc_reference
from lmc_archive_base import (CHAIN_MAX, FILE, BaseList, check_base, has_base, in_directories, is_same_file,
                              nowhere, of_length)
from lmc_archive_layout import Layout, decode_zstd, places_hash, read_skeleton, skeleton_name
from lmc_archive_places import find_places, is_named_safetensors, is_safetensors, raw_places
from lmc_archive_views import listing
from lmc_delta import base_unit
from lmc_reference import Base, Checksum, Corrupt, H, LmcError, Reader, corrupt_unless, supported_if, u64
from safetensors_header import DTYPE_NUMBERS, HEADER_NBYTES_MAX, Header

MAGIC = b"\x8cLMA"
VERSION = 1
METHOD_NONE, METHOD_ZSTD = 0, 1
FEATURE_BASES, FEATURE_ALIASES, FEATURE_LAYOUT, FEATURE_FILES, FEATURE_LENGTHS = 0, 1, 3, 4, 5
FEATURES_KNOWN = (1 << FEATURE_BASES | 1 << FEATURE_ALIASES | 1 << FEATURE_LAYOUT | 1 << FEATURE_FILES
                  | 1 << FEATURE_LENGTHS)
FEATURES_RESERVED = {2: "shared code tables"}
TABLE_NAME = "lmc.archive"
TABLE_NBYTES_MIN = 64  # without stored header, tensors, aliases, bases and layout
STORED_HEADER_OFFSET = 40
TABLE_HASHES_NBYTES = 24  # at its end
MARK_NBYTES_MAX = 4096


# 3. The outer header


def is_marked(header):
    """Whether the outer header says that this is an archive of version 1."""
    if header.metadata is None or len(header.metadata.text.encode()) > MARK_NBYTES_MAX:
        return False
    if any("\0" in key + value for key, value in header.metadata):
        return False
    mark = dict(header.metadata)
    if mark.get("format") != "lmc" or "lmc_archive" not in mark:
        return False
    supported_if(mark["lmc_archive"] == str(VERSION), f"archive version {mark['lmc_archive']}")
    return True


def table_name(names):
    name = TABLE_NAME
    while name in names:
        name += "~"
    return name


# 4. The table


class Table:
    """`header_text` is the original header's, `owners` maps an alias to its owner; `bases` is None without a list, and
    `layout` in an archive of a safetensors file."""

    def __init__(self, data):
        self.read_head(Reader(data))
        fixed_nbytes = TABLE_NBYTES_MIN + self.stored_nbytes + 8 * self.tensor_count
        corrupt_unless(len(data) >= fixed_nbytes, "the table is too small for its parts")
        if int.from_bytes(data[-8:], "little") != H(data[:-8]):
            raise Checksum("check of the table")
        reader = Reader(data[STORED_HEADER_OFFSET:])
        stored = reader.bytes(self.stored_nbytes)
        self.content_hashes = [reader.uint(8) for _ in range(self.tensor_count)]
        self.owners = read_aliases(reader) if self.has(FEATURE_ALIASES) else {}
        corrupt_unless(not (self.has(FEATURE_BASES) and self.has(FEATURE_FILES)), "bits 0 and 4")
        corrupt_unless(self.has(FEATURE_FILES) or not self.has(FEATURE_LENGTHS), "bit 5 without bit 4")
        self.bases = None
        if self.has(FEATURE_BASES) or self.has(FEATURE_FILES):
            self.bases = BaseList(reader, self.has(FEATURE_FILES), self.has(FEATURE_LENGTHS))
        self.layout = self.read_layout(reader) if self.has(FEATURE_LAYOUT) else None
        whole_hash, self.outer_hash = reader.uint(8), reader.uint(8)
        reader.bytes(8)
        reader.finish("the table")
        self.header_text = self.decode_header(stored)
        parts = [self.file_nbytes, self.header_nbytes, H(self.header_text)] + self.content_hashes
        layout = self.layout.data if self.layout else b""
        if whole_hash != H(b"".join(u64(part) for part in parts) + layout):
            raise Checksum("whole_hash")

    def has(self, feature):
        return self.features >> feature & 1

    def read_head(self, reader):
        corrupt_unless(reader.bytes(4) == MAGIC, "magic of the table")
        version = reader.uint(1)
        supported_if(version == VERSION, f"table version {version}")
        self.method = reader.uint(1)
        reserved = reader.uint(2)
        self.features = reader.uint(4)
        unknown = [bit for bit in range(32) if self.features >> bit & 1 and not FEATURES_KNOWN >> bit & 1]
        supported_if(not unknown, f"features {[(bit, FEATURES_RESERVED.get(bit)) for bit in unknown]}")
        supported_if(self.method in (METHOD_NONE, METHOD_ZSTD), f"method {self.method}")
        supported_if(reserved == 0, "reserved")
        self.tensor_count = reader.uint(4)
        self.file_nbytes, self.header_nbytes, self.stored_nbytes = (reader.uint(8) for _ in range(3))
        corrupt_unless(1 <= self.header_nbytes <= HEADER_NBYTES_MAX, "header_nbytes")
        fits = self.has(FEATURE_LAYOUT) or 8 + self.header_nbytes <= self.file_nbytes
        corrupt_unless(fits, "file_nbytes")

    def decode_header(self, stored):
        if self.method == METHOD_ZSTD:
            stored = decode_zstd(stored, self.header_nbytes, "the stored header")
        corrupt_unless(len(stored) == self.header_nbytes, "the stored header is not of header_nbytes")
        return stored

    def read_layout(self, reader):
        """All that is left before the three hashes."""
        nbytes = len(reader.data) - reader.position - TABLE_HASHES_NBYTES
        corrupt_unless(nbytes >= 0, "no room for the layout")
        return Layout(reader.bytes(nbytes), self.tensor_count)

    def content_nbytes(self):
        """Bytes of all original tensors together."""
        if self.layout is None:
            return self.file_nbytes - 8 - self.header_nbytes
        corrupt_unless(self.layout.skeleton_nbytes <= self.file_nbytes, "skeleton_nbytes")
        return self.file_nbytes - self.layout.skeleton_nbytes


def read_aliases(reader):
    count = reader.uint(4)
    corrupt_unless(count >= 1, "alias_count")
    owners = {}
    last = -1
    for _ in range(count):
        alias, owner = reader.uint(4), reader.uint(4)
        corrupt_unless(alias > last, "the aliases do not rise")
        owners[alias] = owner
        last = alias
    return owners


# 6. What a reader must check


class File:
    """A safetensors file, as it is. `path` is where it was found, or None."""

    has_dtypes = True

    def __init__(self, data, path=None):
        self.data, self.path = data, path
        corrupt_unless(len(data) >= 8, "no length")
        length = int.from_bytes(data[:8], "little")
        corrupt_unless(length <= len(data) - 8, "the header is not within the file")
        self.data_start = 8 + length
        self.nbytes = len(data)
        self.header_text = data[8 : self.data_start]
        self.header = Header(self.header_text, len(data) - self.data_start)
        self.tensors = self.header.tensors

    def bytes_of(self, tensor):
        return self.data[self.data_start + tensor.begin : self.data_start + tensor.end]

    def is_archive(self):
        if is_marked(self.header):
            return True
        first = self.tensors[0] if self.tensors else None
        if first and first.name.startswith(TABLE_NAME) and self.bytes_of(first).startswith(MAGIC):
            raise Corrupt("somebody has rewritten this archive")
        return False

    def content(self, i):
        return self.bytes_of(self.tensors[i])

    def base_header_hash(self):
        return H(self.header_text)


Place = collections.namedtuple("Place", "nbytes")


class OtherFile:
    """A plain file of another kind with tensors at `places`. These have no dtype."""

    has_dtypes = False

    def __init__(self, data, places):
        self.data, self.nbytes = data, len(data)
        self.places = places
        self.tensors = [Place(nbytes) for _, nbytes in self.places]

    def content(self, i):
        begin, nbytes = self.places[i]
        return self.data[begin : begin + nbytes]

    def base_header_hash(self):
        return places_hash(self.places)


class Archive:
    """Opening checks everything but the frames and the base. `find_base` gives the paths at which a base file may be,
    by the list of bases, its number there and the path of the archive that needs it. `chain` are the files that
    need this one."""

    def __init__(self, file, find_base=nowhere, chain=()):
        corrupt_unless(file.is_archive(), "this is no archive")
        corrupt_unless(file.tensors, "no table")
        self.file, self.find_base, self.chain = file, find_base, (*chain, file)
        self.base_files = {}
        self.table = Table(file.bytes_of(file.tensors[0]))
        self.nbytes, self.header_text = self.table.file_nbytes, self.table.header_text
        self.layout = self.table.layout
        self.has_dtypes = self.layout is None
        self.tensors = Header(self.header_text, self.table.content_nbytes()).tensors
        self.listing = listing(self.tensors) if self.layout else []
        self.check_names(file.tensors)
        if self.table.outer_hash != H(file.header_text):
            raise Checksum("outer_hash")
        self.frames = file.tensors[1 : 1 + len(self.tensors)]
        self.check_aliases()
        self.check_expansion()
        self.bases = self.table.bases
        if self.bases is not None:
            self.bases.check(len(self.tensors), self.table.owners)

    def check_names(self, outer_tensors):
        names = [tensor.name for tensor in self.tensors]
        corrupt_unless(len(names) == self.table.tensor_count, "tensor_count")
        expected = [table_name(set(names))] + names + ([skeleton_name(set(names))] if self.layout else [])
        corrupt_unless([tensor.name for tensor in outer_tensors] == expected, "names of the outer header")
        for tensor in outer_tensors:
            right = tensor.dtype == "U8" and len(tensor.shape) == 1
            corrupt_unless(right, f"dtype or rank of {tensor.name!r} in the outer header")

    def check_aliases(self):
        owners = self.table.owners
        hashes = self.table.content_hashes
        for alias, owner in owners.items():
            corrupt_unless(owner < alias < len(self.tensors), f"alias {alias}")
            corrupt_unless(owner not in owners, f"owner {owner} is an alias")
            left, right = self.tensors[alias], self.tensors[owner]
            corrupt_unless(left.dtype == right.dtype, f"dtype of alias {alias}")
            corrupt_unless(left.nbytes == right.nbytes, f"size of alias {alias}")
            corrupt_unless(hashes[alias] == hashes[owner], f"content hash of alias {alias}")
            corrupt_unless(self.frames[alias].nbytes == 0, f"alias {alias} has a frame")

    def check_expansion(self):
        for i, tensor in enumerate(self.tensors):
            frame = self.frames[self.table.owners.get(i, i)]
            corrupt_unless(tensor.nbytes <= 645278 * frame.nbytes, f"tensor {i} is too large for its frame")

    def content(self, i):
        """The content of original tensor i."""
        return self.decode(i)[0]

    def decode(self, i, is_rounded=False):
        """The content of original tensor i, the head of its frame, and the content of its base or None. is_rounded: it
        is F32 that a tensor above is rounded from."""
        i = self.table.owners.get(i, i)
        tensor = self.tensors[i]
        frame = self.file.bytes_of(self.frames[i])
        try:
            head = lmc_reference.Head(frame)
            corrupt_unless(head.dtype == DTYPE_NUMBERS[tensor.dtype], "dtype of the frame")
            corrupt_unless(head.content_nbytes == tensor.nbytes, "content_nbytes of the frame")
            base = self.base_content(i, head, is_rounded)
            content = lmc_reference.decode(frame, base)
            if content_hash(content, head.block_nbytes) != self.table.content_hashes[i]:
                raise Checksum("content hash: this is another tensor's frame")
            return content, head, base
        except LmcError as error:
            raise type(error)(f"{tensor.name!r}: {error}") from None

    def link_of(self, i):
        return None if self.bases is None else self.bases.links.get(i)

    def base_content(self, i, head, is_rounded):
        """5, rules 1 and 2: what the frame of tensor i is decoded against."""
        link = self.link_of(i)
        corrupt_unless(has_base(head) == (link is not None), "a frame with a base and no link, or the reverse")
        if link is None:
            return None
        file = self.base_file(link.file) if link.place == FILE else self
        corrupt_unless(link.base < len(file.tensors), f"base {link.base}")
        any_length = link.place == FILE and self.bases.has_lengths
        check_base(head, self.tensors[i], file.tensors[link.base], file.has_dtypes, any_length)
        rounds = base_unit(head.base_form) == 2
        corrupt_unless(not (rounds and is_rounded), "a chain of bases rounds F32 twice")
        is_archive = isinstance(file, Archive)
        content = file.decode(link.base, rounds or is_rounded)[0] if is_archive else file.content(link.base)
        return of_length(content, head.base_nbytes)

    def base_file(self, number):
        """Base file `number`, which is opened once."""
        if number in self.base_files:
            return self.base_files[number]
        if len(self.chain) == CHAIN_MAX:
            raise Base(f"a chain of more than {CHAIN_MAX} files")
        for path in self.find_base(self.bases, number, self.file.path):
            if not any(is_same_file(path, file.path) for file in self.chain):
                base = self.opened_base(self.bases.files[number], path)
                if base is not None:
                    self.base_files[number] = base
                    return base
        raise Base(f"{self.bases.files[number].path} was not found")

    def opened_base(self, wanted, path):
        """None if this is not the base file that is wanted."""
        try:
            base = open_file(read(path), self.find_base, path, self.chain)
        except LmcError:
            return None
        is_base = base.nbytes == wanted.nbytes and base.base_header_hash() == wanted.header_hash
        return base if is_base else None

    def restore(self):
        """The original file."""
        contents = []
        base_hashes = {}
        for i in range(len(self.tensors)):
            content, head, base = self.decode(i)
            contents.append(content)
            if self.link_of(i) is not None and self.link_of(i).place == FILE:
                base_hashes[i] = content_hash(base, head.block_nbytes * base_unit(head.base_form))
        for number, file in enumerate(self.bases.files if self.bases else []):
            if file.hash != H(b"".join(map(u64, self.bases.hashes_of(number, base_hashes)))):
                raise Checksum("base_hash")
        if self.layout:
            return self.layout.restored(read_skeleton(self.file.bytes_of(self.file.tensors[-1]), self.layout), contents)
        return b"".join([u64(self.table.header_nbytes), self.header_text, *contents])

    def base_header_hash(self):
        if self.layout:
            return places_hash(self.layout.places(tensor.nbytes for tensor in self.tensors))
        return H(self.header_text)


def content_hash(content, block_nbytes):
    places = range(0, len(content), block_nbytes)
    return H(b"".join(u64(H(content[i : i + block_nbytes])) for i in places))


def open_file(data, find_base, path, chain):
    """An archive, or a file as it is."""
    if not is_safetensors(data, path):
        return OtherFile(data, find_places(data)[1])
    try:
        file = File(data, path)
    except LmcError:
        if is_named_safetensors(path):
            raise
        return OtherFile(data, raw_places(data))
    return Archive(file, find_base, chain) if file.is_archive() else file


def opened(data, find_base=nowhere, path=None):
    """The archive with these bytes, which was found at `path`."""
    return Archive(File(bytes(data), path), find_base)


def restore(data, find_base=nowhere, path=None):
    """The original file of an archive."""
    return opened(data, find_base, path).restore()


def read(path):
    with open(path, "rb") as file:
        return file.read()


def main():
    parser = argparse.ArgumentParser(description="Restore an archive, by the letter of docs/archive.md.")
    parser.add_argument("archive", metavar="ARCHIVE", help="the archive")
    parser.add_argument("-b", metavar="BASE", help="the archive's base")
    parser.add_argument("-d", metavar="DIRECTORY", action="append", default=[], help="where bases are looked for")
    parser.add_argument("-o", metavar="OUT", help="where the original file goes; without it only the size is shown")
    arguments = parser.parse_args()
    find_base = in_directories(arguments.d, arguments.b, arguments.archive)
    try:
        original = restore(read(arguments.archive), find_base, arguments.archive)
    except LmcError as error:
        print(f"{arguments.archive}: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    if arguments.o is None:
        print(f"{arguments.archive}: {len(original)} bytes")
    else:
        with open(arguments.o, "wb") as file:
            file.write(original)
    return 0


if __name__ == "__main__":
    sys.exit(main())
