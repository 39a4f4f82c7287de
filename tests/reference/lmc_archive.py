#!/usr/bin/env python3
"""Reference reader of LMC archives of safetensors files, version 1.

Written from docs/archive.md alone, to be read next to it: section numbers in the comments are those of
that document, and names are the ones used there. Headers are read by safetensors_header.py, frames by
lmc_reference.py. It favours clarity over speed. It needs the packages `xxhash` and, for stored headers of
method 1, `zstandard`.

    lmc_archive.py ARCHIVE [-o OUT]
"""
import argparse
import sys

import zstandard

import lmc_reference
from lmc_reference import Checksum, Corrupt, H, LmcError, Reader, corrupt_unless, supported_if, u64
from safetensors_header import DTYPE_NUMBERS, HEADER_NBYTES_MAX, Header

MAGIC = b"\x8cLMA"
VERSION = 1
METHOD_NONE, METHOD_ZSTD = 0, 1
FEATURE_ALIASES = 1
FEATURES_KNOWN = 1 << FEATURE_ALIASES
FEATURES_RESERVED = {0: "base", 2: "shared code tables"}
TABLE_NAME = "lmc.archive"
TABLE_NBYTES_MIN = 64  # without stored header, tensors and aliases
STORED_HEADER_OFFSET = 40
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
    """`header_text` is the original header's, `owners` maps an alias to its owner."""

    def __init__(self, data):
        self.read_head(Reader(data))
        has_aliases = self.features >> FEATURE_ALIASES & 1
        fixed_nbytes = TABLE_NBYTES_MIN + self.stored_nbytes + 8 * self.tensor_count
        corrupt_unless(len(data) >= fixed_nbytes, "the table is too small for its parts")
        if int.from_bytes(data[-8:], "little") != H(data[:-8]):
            raise Checksum("check of the table")
        reader = Reader(data[STORED_HEADER_OFFSET:])
        stored = reader.bytes(self.stored_nbytes)
        self.content_hashes = [reader.uint(8) for _ in range(self.tensor_count)]
        self.owners = read_aliases(reader) if has_aliases else {}
        whole_hash, self.outer_hash = reader.uint(8), reader.uint(8)
        reader.bytes(8)
        reader.finish("the table")
        self.header_text = self.decode_header(stored)
        parts = [self.file_nbytes, self.header_nbytes, H(self.header_text)] + self.content_hashes
        if whole_hash != H(b"".join(u64(part) for part in parts)):
            raise Checksum("whole_hash")

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
        corrupt_unless(8 + self.header_nbytes <= self.file_nbytes, "file_nbytes")

    def decode_header(self, stored):
        if self.method == METHOD_ZSTD:
            stored = decode_zstd(stored, self.header_nbytes)
        corrupt_unless(len(stored) == self.header_nbytes, "the stored header is not of header_nbytes")
        return stored


def decode_zstd(data, nbytes):
    """One zstd frame that states `nbytes` as its content size, and nothing after it."""
    try:
        # There is no zstd frame in a skippable one; its size reads as 0 and differs from `nbytes`.
        corrupt_unless(zstandard.frame_content_size(data) == nbytes, "content size of the stored header")
        decoder = zstandard.ZstdDecompressor().decompressobj()
        text = decoder.decompress(data)
    except zstandard.ZstdError as error:
        raise Corrupt(f"zstd: {error}") from None
    corrupt_unless(decoder.eof and not decoder.unused_data, "the stored header is not one zstd frame")
    return text


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


# 5. What a reader must check


class Archive:
    """Opening checks everything but the frames."""

    def __init__(self, data):
        self.data = data
        corrupt_unless(len(data) >= 8, "no length")
        length = int.from_bytes(data[:8], "little")
        corrupt_unless(length <= len(data) - 8, "the outer header is not within the file")
        outer_text = data[8 : 8 + length]
        self.data_start = 8 + length
        outer = Header(outer_text, len(data) - self.data_start)
        self.check_mark(outer)
        corrupt_unless(outer.tensors, "no table")
        self.table = Table(self.bytes_of(outer.tensors[0]))
        original_nbytes = self.table.file_nbytes - 8 - self.table.header_nbytes
        self.tensors = Header(self.table.header_text, original_nbytes).tensors
        self.check_names(outer.tensors)
        if self.table.outer_hash != H(outer_text):
            raise Checksum("outer_hash")
        self.frames = outer.tensors[1:]
        self.check_aliases()

    def bytes_of(self, tensor):
        return self.data[self.data_start + tensor.begin : self.data_start + tensor.end]

    def check_mark(self, outer):
        if is_marked(outer):
            return
        first = outer.tensors[0] if outer.tensors else None
        if first and first.name.startswith(TABLE_NAME) and self.bytes_of(first).startswith(MAGIC):
            raise Corrupt("somebody has rewritten this archive")
        raise Corrupt("this is no archive")

    def check_names(self, outer_tensors):
        names = [tensor.name for tensor in self.tensors]
        corrupt_unless(len(names) == self.table.tensor_count, "tensor_count")
        expected = [table_name(set(names))] + names
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

    def content(self, i):
        """The content of original tensor i."""
        i = self.table.owners.get(i, i)
        tensor = self.tensors[i]
        try:
            return self.decode(tensor, self.bytes_of(self.frames[i]), self.table.content_hashes[i])
        except LmcError as error:
            raise type(error)(f"{tensor.name!r}: {error}") from None

    @staticmethod
    def decode(tensor, frame, expected_hash):
        head = lmc_reference.Head(frame)
        corrupt_unless(head.dtype == DTYPE_NUMBERS[tensor.dtype], "dtype of the frame")
        corrupt_unless(head.content_nbytes == tensor.nbytes, "content_nbytes of the frame")
        content = lmc_reference.decode(frame)
        if content_hash(content, head.block_nbytes) != expected_hash:
            raise Checksum("content hash: this is another tensor's frame")
        return content

    def restore(self):
        """The original file."""
        parts = [u64(self.table.header_nbytes), self.table.header_text]
        return b"".join(parts + [self.content(i) for i in range(len(self.tensors))])


def content_hash(content, block_nbytes):
    places = range(0, len(content), block_nbytes)
    return H(b"".join(u64(H(content[i : i + block_nbytes])) for i in places))


def restore(data):
    """The original file of an archive."""
    return Archive(bytes(data)).restore()


def main():
    parser = argparse.ArgumentParser(description="Restore an archive, by the letter of docs/archive.md.")
    parser.add_argument("archive", metavar="ARCHIVE", help="the archive")
    parser.add_argument("-o", metavar="OUT", help="where the original file goes; without it only the size is shown")
    arguments = parser.parse_args()
    with open(arguments.archive, "rb") as file:
        data = file.read()
    try:
        original = restore(data)
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
