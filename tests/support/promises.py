"""promises.py - frames and archives of some hundred bytes that promise gibibytes (docs/format.md, docs/archive.md)."""
import ctypes
import ctypes.util
import functools
import struct

BLOCK_LOG2 = 20
BLOCK_NBYTES = 4 << BLOCK_LOG2  # of F32
_F32 = 17


@functools.lru_cache(maxsize=None)
def _function():
    name = ctypes.util.find_library("xxhash")
    if name is None:
        return None
    function = ctypes.CDLL(name).XXH3_64bits_withSeed
    function.restype, function.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    return function


def has_hash():
    """Whether the machine has libxxhash, which makes the checks."""
    return _function() is not None


def _hash(data, seed=0):
    return _function()(data, len(data), seed)


def _u64(*numbers):
    return struct.pack("<%dQ" % len(numbers), *numbers)


def frame(nbytes, is_long=True):
    """A coded frame of F32 with nbytes of content, by its head.

    is_long: it has a block for all of that, and its check is right. Only the blocks, of a byte each, are nothing.
    Otherwise it has one block.
    """
    plan = bytes([0, 8, 0, 0, 0, 0, 0, 0, 0, 0])  # symbols of 8 bits and three planes, no tables
    head = b"\x8cLMC" + bytes([1, _F32, 1, BLOCK_LOG2]) + struct.pack("<IIQIBBBB", 0, len(plan), nbytes, 0, 4, 0, 0, 0)
    count = -(-nbytes // BLOCK_NBYTES) if is_long else 1
    tail = struct.pack("<IQ", 1, 5) * count
    return head + plan + b"\1" * count + tail + _u64(_hash(tail, _hash(head + plan)))


def archive(nbytes, is_long=True):
    """An archive with the tensor "w" of such a frame. All of its hashes are right."""
    content = frame(nbytes, is_long)
    header = b'{"w":{"dtype":"F32","shape":[%d,1024],"data_offsets":[0,%d]}}' % (nbytes // 4096, nbytes)
    header += b" " * (-len(header) % 8)
    content_hash = _hash(_u64(5) * ((len(content) - 50) // 13))
    front = b"\x8cLMA" + struct.pack("<BBHIIQQQ", 1, 0, 0, 0, 1, 8 + len(header) + nbytes, len(header), len(header))
    front += header + _u64(content_hash) + _u64(_hash(_u64(8 + len(header) + nbytes, len(header), _hash(header),
                                                           content_hash)))
    table_nbytes = len(front) + 16
    outer = (b'{"__metadata__":{"format":"lmc","lmc_archive":"1"},'
             b'"lmc.archive":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]},'
             b'"w":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}}'
             % (table_nbytes, table_nbytes, len(content), table_nbytes, table_nbytes + len(content)))
    outer += b" " * (-len(outer) % 8)
    table = front + _u64(_hash(outer))
    return _u64(len(outer)) + outer + table + _u64(_hash(table)) + content
