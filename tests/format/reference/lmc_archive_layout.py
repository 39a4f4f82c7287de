"""Files of other kinds of the reference reader of archives: docs/archive.md, sections 8.1 to 8.3. The layout, which
says where tensors stand; the skeleton, which is what stands between them; the one zstd frame that parts of an archive
may be."""
import zstandard

from lmc_reference import Checksum, Corrupt, H, LmcError, Reader, corrupt_unless, supported_if, u64

ZIP, NPY, GGUF, RAW = 1, 2, 3, 4  # kinds
SKELETON_NAME = "lmc.skeleton"
PIECE_NBYTES = 1048576
INDEX_ENTRY_NBYTES = 12


def decode_zstd(data, nbytes, what):
    """4. One zstd frame that states `nbytes` as its content size, and nothing after it."""
    try:
        # There is no zstd frame in a skippable one; its size reads as 0 and differs from `nbytes`.
        corrupt_unless(zstandard.frame_content_size(data) == nbytes, f"content size of {what}")
        decoder = zstandard.ZstdDecompressor().decompressobj()
        content = decoder.decompress(data)
    except zstandard.ZstdError as error:
        raise Corrupt(f"zstd: {error}") from None
    corrupt_unless(decoder.eof and not decoder.unused_data, f"{what} is not one zstd frame")
    corrupt_unless(len(content) == nbytes, f"size of {what}")
    return content


def skeleton_name(names):
    name = SKELETON_NAME
    while name in names:
        name += "~"
    return name


# 8.1. The layout


class Layout:
    """`gaps` are the bytes of the skeleton before each tensor and behind the last one; `data` is the layout itself."""

    def __init__(self, data, tensor_count):
        self.data = data
        reader = Reader(data)
        self.kind = reader.uint(4)
        gaps_nbytes = reader.uint(4)
        self.skeleton_nbytes, self.skeleton_hash = reader.uint(8), reader.uint(8)
        gaps = reader.bytes(gaps_nbytes)
        corrupt_unless(not any(reader.bytes(-gaps_nbytes % 8)), "zeros behind the gaps")
        reader.finish("the layout")
        supported_if(self.kind in (ZIP, NPY, GGUF, RAW), f"kind {self.kind}")
        nbytes = 8 * (tensor_count + 1)
        if gaps_nbytes != nbytes:
            gaps = decode_zstd(gaps, nbytes, "the gaps")
        self.gaps = [int.from_bytes(gaps[i : i + 8], "little") for i in range(0, nbytes, 8)]
        corrupt_unless(sum(self.gaps) == self.skeleton_nbytes, "the gaps have another sum than the skeleton's size")

    def places(self, sizes):
        """(place in the file, size) of each tensor."""
        places = []
        place = 0
        for gap, nbytes in zip(self.gaps, sizes):
            places.append((place + gap, nbytes))
            place += gap + nbytes
        return places

    def restored(self, skeleton, contents):
        """8.3. The file, of its skeleton and the contents of its tensors."""
        parts = []
        place = 0
        for gap, content in zip(self.gaps, contents):
            parts += [skeleton[place : place + gap], content]
            place += gap
        return b"".join(parts) + skeleton[place:]


def places_hash(places):
    """8.3. base_header_hash of a file that is no safetensors file."""
    return H(b"".join(u64(number) for place in places for number in place))


# 8.2. The skeleton


def read_skeleton(data, layout):
    """The whole skeleton, of its tensor in the archive."""
    try:
        return decode_skeleton(data, layout)
    except LmcError as error:
        raise type(error)(f"skeleton: {error}") from None


def decode_skeleton(data, layout):
    piece_count = -(-layout.skeleton_nbytes // PIECE_NBYTES)
    index_nbytes = INDEX_ENTRY_NBYTES * piece_count
    corrupt_unless(index_nbytes <= len(data), "no room for its index")
    stored, index = data[: len(data) - index_nbytes], data[len(data) - index_nbytes :]
    if H(index) != layout.skeleton_hash:
        raise Checksum("skeleton_hash")
    entries = Reader(index)
    reader = Reader(stored)
    pieces = []
    for i in range(piece_count):
        nbytes = min(PIECE_NBYTES, layout.skeleton_nbytes - i * PIECE_NBYTES)
        pieces.append(read_piece(reader, nbytes, entries.uint(4), entries.uint(8)))
    reader.finish("the stored pieces")
    return b"".join(pieces)


def read_piece(reader, nbytes, stored_nbytes, piece_hash):
    corrupt_unless(1 <= stored_nbytes <= nbytes, f"stored_nbytes {stored_nbytes} of a piece")
    piece = reader.bytes(stored_nbytes)
    if stored_nbytes != nbytes:
        piece = decode_zstd(piece, nbytes, "a piece")
    if H(piece) != piece_hash:
        raise Checksum("hash of a piece")
    return piece
