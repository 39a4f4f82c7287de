"""chunks.py - chunks cut by content, as stores of files use them: cutting, packing, and a store of chunks.

A chunk ends where a gear hash of the last 64 bytes has 16 leading zeros, at the earliest after 8 KiB and at the latest
after 128 KiB: 64 KiB on average, as in Hugging Face's Xet. A chunk that was there before is not stored again. Others
are stored in the shortest of three forms: plain, LZ4, LZ4 of four groups of bytes. zstd -1 stands for LZ4 if there is
neither a Python package lz4 nor a library liblz4. The hash is computed with NumPy, so its speed says nothing.
"""

import ctypes
import ctypes.util
import hashlib
import os
import struct

import numpy as np

CHUNK_LOG2, CHUNK_MIN, CHUNK_MAX = 16, 8 << 10, 128 << 10
WINDOW, PIECE = 64, 1 << 20
GEAR = np.random.default_rng(64).integers(0, 1 << 64, 256, np.uint64)
ENTRY = struct.Struct("<16sII")   # of a recipe: hash, bytes stored, bytes of the chunk
FORMS = PLAIN, PACKED, GROUPS = range(3)


# ---- cutting ----

def candidates(content):
    """Places behind bytes where the hash of the last 64 bytes has 16 leading zeros."""
    found = []
    for at in range(0, content.size, PIECE):
        first = max(0, at - WINDOW + 1)
        hashes = GEAR[content[first:at + PIECE]]
        width = 1
        while width < WINDOW:   # hashes of twice as many bytes
            hashes[width:] += hashes[:-width] << np.uint64(width)
            width *= 2
        ends = np.flatnonzero(hashes >> np.uint64(64 - CHUNK_LOG2) == 0) + first + 1
        found.append(ends[ends > at])
    return np.concatenate(found) if found else np.zeros(0, int)


def cut(content):
    """The ends of the chunks of these bytes."""
    content = np.frombuffer(content, np.uint8)
    places, ends, at = candidates(content), [], 0
    while at < content.size:
        next_place = np.searchsorted(places, at + CHUNK_MIN)
        end = int(places[next_place]) if next_place < places.size else content.size
        at = min(end, at + CHUNK_MAX, content.size)
        ends.append(at)
    return ends


def chunks_of(path):
    """Yields hash and content of each chunk of a file."""
    with open(path, "rb") as file:
        content = file.read()
    begin = 0
    for end in cut(content):
        yield hashlib.blake2b(content[begin:end], digest_size=16).digest(), content[begin:end]
        begin = end


# ---- packing ----

class Lz4:
    """LZ4 through the Python package or the library, or zstd -1."""

    def __init__(self):
        self.name = "LZ4"
        try:
            import lz4.block
            self.pack = lambda data: lz4.block.compress(data, store_size=False)
            self.unpack = lambda data, nbytes: lz4.block.decompress(data, uncompressed_size=nbytes)
            return
        except ImportError:
            name = ctypes.util.find_library("lz4")
        if name:
            self.library = ctypes.CDLL(name)
            self.pack, self.unpack = self.pack_with_library, self.unpack_with_library
        else:
            import zstandard
            coder, decoder = zstandard.ZstdCompressor(level=1), zstandard.ZstdDecompressor()
            self.name, self.pack, self.unpack = "zstd -1", coder.compress, lambda data, _: decoder.decompress(data)

    def pack_with_library(self, data):
        room = ctypes.create_string_buffer(self.library.LZ4_compressBound(len(data)))
        nbytes = self.library.LZ4_compress_default(data, room, len(data), len(room))
        return room.raw[:nbytes]

    def unpack_with_library(self, data, nbytes):
        room = ctypes.create_string_buffer(nbytes)
        if self.library.LZ4_decompress_safe(data, room, len(data), nbytes) != nbytes:
            raise SystemExit("chunks.py: LZ4 cannot unpack a chunk")
        return room.raw


def grouped(data, count=4):
    """Bytes at equal places modulo `count` together; the rest at the end."""
    values = np.frombuffer(data, np.uint8)
    whole = values.size // count * count
    return values[:whole].reshape(-1, count).T.tobytes() + values[whole:].tobytes()


def ungrouped(data, count=4):
    values = np.frombuffer(data, np.uint8)
    whole = values.size // count * count
    return values[:whole].reshape(count, -1).T.tobytes() + values[whole:].tobytes()


class ChunkStore:
    """A folder with a file of new chunks and a recipe for each file that was added."""

    def __init__(self, folder, lz4=None):
        self.folder, self.lz4, self.places = folder, lz4 or Lz4(), {}
        os.makedirs(folder)

    def stored(self, chunk):
        """The shortest form of a chunk, with a byte that says which."""
        forms = chunk, self.lz4.pack(chunk), self.lz4.pack(grouped(chunk))
        form = min(FORMS, key=lambda one: len(forms[one]))
        return bytes([form]) + forms[form]

    def loaded(self, data, nbytes):
        if data[0] == PLAIN:
            return data[1:]
        chunk = self.lz4.unpack(data[1:], nbytes)
        return ungrouped(chunk) if data[0] == GROUPS else chunk

    def add(self, path, name):
        recipe = []
        with open(os.path.join(self.folder, name + ".chunks"), "wb") as pack:
            for key, chunk in chunks_of(path):
                if key not in self.places:
                    data = self.stored(chunk)
                    self.places[key] = name, pack.tell(), len(data)
                    pack.write(data)
                recipe.append(ENTRY.pack(key, self.places[key][2], len(chunk)))
        with open(os.path.join(self.folder, name + ".recipe"), "wb") as file:
            file.write(b"".join(recipe))

    def new_nbytes(self, path):
        """Bytes of the chunks that the store does not have."""
        return sum({key: len(chunk) for key, chunk in chunks_of(path) if key not in self.places}.values())

    def restore(self, name, path):
        """Returns the bytes that were read."""
        with open(os.path.join(self.folder, name + ".recipe"), "rb") as file:
            recipe = file.read()
        packs, read_nbytes = {}, len(recipe)
        with open(path, "wb") as out:
            for key, stored_nbytes, nbytes in ENTRY.iter_unpack(recipe):
                pack, offset, _ = self.places[key]
                if pack not in packs:
                    packs[pack] = open(os.path.join(self.folder, pack + ".chunks"), "rb")
                packs[pack].seek(offset)
                out.write(self.loaded(packs[pack].read(stored_nbytes), nbytes))
                read_nbytes += stored_nbytes
        for pack in packs.values():
            pack.close()
        return read_nbytes
