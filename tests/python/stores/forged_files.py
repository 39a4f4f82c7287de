"""Files that promise much more than a server has: their bytes are made while they are read."""
import ctypes
import struct

from lmcodec import _abi

F32 = _abi.DTYPES["F32"]


class Huge:
    """`front`, and zeros up to nbytes. A long slice is one of these, too."""

    def __init__(self, front, nbytes):
        self.front, self.nbytes = front, nbytes

    def __len__(self):
        return self.nbytes

    def __getitem__(self, wanted):
        begin, end, _ = wanted.indices(self.nbytes)
        front = self.front[begin:end]
        return front.ljust(end - begin, b"\0") if end - begin <= 1 << 20 else Huge(front, end - begin)


class _Entry(ctypes.Structure):
    _fields_ = [("stored_nbytes", ctypes.c_uint32), ("content_hash", ctypes.c_uint64), ("base_hash", ctypes.c_uint64)]


def xxh3(content):
    """Of whole words: lmc_content_hash() is the XXH3-64 of a list of them."""
    words = struct.unpack("<%dQ" % (len(content) // 8), content)
    entries = (_Entry * len(words))(*(_Entry(0, word, 0) for word in words))
    call = _abi.library.lmc_content_hash
    call.restype, call.argtypes = ctypes.c_uint64, [ctypes.c_void_p, ctypes.c_uint64]
    return struct.pack("<Q", call(entries, len(words)))


def padded(text):
    return text.encode() + b" " * (-len(text) % 8)


def archive(rows, frame_nbytes, head, content_hash=bytes(8)):
    """An archive (docs/archive.md) with a tensor "w" of F32 [rows, 1024], whose frame has so many bytes and begins with
    `head`."""
    header = padded('{"w":{"dtype":"F32","shape":[%d,1024],"data_offsets":[0,%d]}}' % (rows, rows * 4096))
    sizes = struct.pack("<QQ", 8 + len(header) + rows * 4096, len(header))
    front = b"\x8cLMA" + struct.pack("<BBHII", 1, 0, 0, 0, 1) + sizes + struct.pack("<Q", len(header)) + header
    front += content_hash
    table_nbytes = len(front) + 24
    outer = padded('{"__metadata__":{"format":"lmc","lmc_archive":"1"},'
                   '"lmc.archive":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]},'
                   '"w":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}}'
                   % (table_nbytes, table_nbytes, frame_nbytes, table_nbytes, table_nbytes + frame_nbytes))
    table = front + xxh3(sizes + xxh3(header) + content_hash) + xxh3(outer)
    begin = struct.pack("<Q", len(outer)) + outer + table + xxh3(table)
    return Huge(begin + head, len(begin) + frame_nbytes)


def frame_head(rows, mode, block_log2, plan_nbytes):
    """The head of a frame (docs/format.md) of that tensor."""
    return b"\x8cLMC" + struct.pack("<BBBBIIQIBBBB", 1, F32, _abi.FRAME_MODES.index(mode), block_log2, 0, plan_nbytes,
                                    rows * 4096, 4096, 4, 0, 0, 0)
