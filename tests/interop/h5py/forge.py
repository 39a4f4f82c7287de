"""forge.py - frames and regrouped chunks with any fields and valid checks (docs/format.md, docs/hdf5-filter.md)."""

import xxhash

MAGIC = b"\x8cLMC"
MAGIC_REGROUPED = b"\x8cLMH"
STORED, CODED, SHORT = 0, 1, 2
PLAIN, COLUMNS, RECORDS, ROWS = 0, 1, 2, 3

# field of a frame's head: offset, bytes
HEAD = {"version": (4, 1), "dtype": (5, 1), "mode": (6, 1), "block_log2": (7, 1), "features": (8, 4),
        "plan_nbytes": (12, 4), "content_nbytes": (16, 8), "row_nbytes": (24, 4), "element_nbytes": (28, 1),
        "byte_order": (29, 1), "reserved": (30, 2)}
HEAD_NBYTES = 32
SHORT_HEAD_NBYTES = 8


def H(data, seed=0):
    return xxhash.xxh3_64_intdigest(data, seed)


def uint(value, nbytes):
    return value.to_bytes(nbytes, "little")


def blocks_hash(content, block_nbytes):
    return H(b"".join(uint(H(content[i:i + block_nbytes]), 8) for i in range(0, len(content), block_nbytes)))


def sealed(head, body, tail):
    """head: with the plan; tail: without the check."""
    return head + body + tail + uint(H(tail, H(head)), 8)


def short_frame(content, dtype=0):
    assert len(content) < 256
    return sealed(MAGIC + bytes([1, dtype, SHORT, len(content)]), content, uint(blocks_hash(content, 255), 8))


def head_of(**fields):
    head = bytearray(MAGIC + bytes(HEAD_NBYTES - 4))
    for name, value in {"version": 1, "block_log2": 16, "element_nbytes": 1, **fields}.items():
        offset, nbytes = HEAD[name]
        head[offset:offset + nbytes] = uint(value, nbytes)
    return bytes(head)


def stored_frame(content, **fields):
    """The content hash is right for fields that are; the check always is."""
    head = head_of(**{"content_nbytes": len(content), **fields})
    return sealed(head, content, uint(blocks_hash(content, 1 << 16), 8))


def coded_frame(plan, blocks, content_nbytes, **fields):
    """blocks: (stored bytes, content hash) of each. The index and the check are right."""
    head = head_of(**{"mode": CODED, "plan_nbytes": len(plan), "content_nbytes": content_nbytes, **fields})
    index = b"".join(uint(len(data), 4) + uint(content_hash, 8) for data, content_hash in blocks)
    return sealed(head + plan, b"".join(data for data, _ in blocks), index)


def regrouped(layout, swap, width, frames, sizes=None, version=1, reserved=0, row_count=None):
    """A regrouped chunk; sizes: what its head says of all frames but the last; row_count: of the number of rows."""
    if sizes is None:
        sizes = [len(frame) for frame in frames[:-1]]
    head = MAGIC_REGROUPED + bytes([version, layout, swap, reserved]) + uint(width, 2)
    if layout == ROWS:
        head += uint(len(frames) if row_count is None else row_count, 4)
    head += b"".join(uint(size, 4) for size in sizes)
    return head + uint(H(head), 8) + b"".join(frames)


class Regrouped:
    """A regrouped chunk of LMC's in its parts."""

    def __init__(self, chunk):
        assert chunk[:4] == MAGIC_REGROUPED
        self.layout, self.swap = chunk[5], chunk[6]
        self.width = int.from_bytes(chunk[8:10], "little")
        count, at = self.width if self.layout == COLUMNS else 1, 10
        if self.layout == ROWS:
            count, at = int.from_bytes(chunk[10:14], "little"), 14
        self.head_nbytes = at + 4 * (count - 1) + 8
        sizes = [int.from_bytes(chunk[i:i + 4], "little") for i in range(at, at + 4 * (count - 1), 4)]
        self.frames = []
        at = self.head_nbytes
        for size in sizes:
            self.frames.append(chunk[at:at + size])
            at += size
        self.frames.append(chunk[at:])
        assert self.changed() == chunk

    def changed(self, **others):
        fields = {"layout": self.layout, "swap": self.swap, "width": self.width, "frames": self.frames, **others}
        return regrouped(**fields)
