"""assemble.py - frames put together by hand, the right and the wrong ones: the inverse of lmc_reference.py,
piece by piece and without any judgement of its own. Section numbers are those of docs/format.md."""

import struct

import lmc_reference as lmc
from lmc_reference import H, u64

U8, BF16, F32, I64 = 0, 14, 17, 19


# 1. Conventions


def bit_plane(bits):
    bits = list(bits)
    data = bytearray((len(bits) + 7) // 8)
    for i, bit in enumerate(bits):
        data[i // 8] |= bit << i % 8
    return bytes(data)


def packed_plane(values, p):
    return bit_plane(value >> j & 1 for value in values for j in range(p))


def numbers(values, nbytes):
    return b"".join(value.to_bytes(nbytes, "little") for value in values)


# 2. Frame


def head(dtype, mode, content_nbytes, plan_nbytes=0, /, **fields):
    """`fields` replaces any of the head's."""
    all_fields = dict(
        magic=lmc.MAGIC,
        version=1,
        dtype=dtype,
        mode=mode,
        block_log2=10,
        features=0,
        plan_nbytes=plan_nbytes,
        content_nbytes=content_nbytes,
        row_nbytes=0,
        element_nbytes=lmc.DTYPE_UNITS[dtype],
        byte_order=0,
        base_form=0,
        reserved=0,
    )
    all_fields.update(fields)
    return struct.pack("<4sBBBBIIQIBBBB", *all_fields.values())


def short_head(dtype, content_nbytes, magic=lmc.MAGIC, version=1, mode=lmc.MODE_SHORT):
    return struct.pack("<4sBBBB", magic, version, dtype, mode, content_nbytes)


def checked(head_and_plan, blocks, tail):
    return head_and_plan + blocks + tail + u64(H(tail, H(head_and_plan)))


def content_hash(content, block_nbytes):
    places = range(0, len(content), block_nbytes)
    return H(b"".join(u64(H(content[i : i + block_nbytes])) for i in places))


def stored_frame(content, dtype=U8, **fields):
    block_nbytes = lmc.DTYPE_UNITS[dtype] << fields.get("block_log2", 10)
    tail = u64(content_hash(content, block_nbytes))
    return checked(head(dtype, lmc.MODE_STORED, len(content), **fields), content, tail)


def short_frame(content, dtype=U8, **fields):
    return checked(short_head(dtype, len(content), **fields), content, u64(content_hash(content, 255)))


def coded_frame(plan, blocks, content, dtype=U8, sizes=None, hashes=None, **fields):
    """`sizes` and `hashes` stand in the index instead of the right ones."""
    head_and_plan = head(dtype, lmc.MODE_CODED, len(content), len(plan), **fields) + plan
    block_nbytes = lmc.DTYPE_UNITS[dtype] << fields.get("block_log2", 10)
    contents = [content[i : i + block_nbytes] for i in range(0, len(content), block_nbytes)]
    sizes = sizes or [len(block) for block in blocks]
    hashes = hashes or [H(part) for part in contents]
    index = b"".join(struct.pack("<IQ", size, number) for size, number in zip(sizes, hashes))
    return checked(head_and_plan, b"".join(blocks), index)


# 3. Plan


def plan(tables, transform=0, p=0, offset=0, base=0, mask_value=b"", columns_part=b""):
    """`tables` has for each plane its bytes, None for a raw one."""
    kinds = b"".join(b"\0" if table is None else b"\1" + table for table in tables)
    return struct.pack("<BBHH", transform, p, offset, base) + mask_value + columns_part + kinds


def columns(column_count, step_log2, column_nbits=0, values=()):
    """3.1"""
    return struct.pack("<IBB", column_count, step_log2, column_nbits) + packed_plane(values, column_nbits)


def rows(row_nbits, row_base=0, differences=()):
    """5.3"""
    return struct.pack("<BH", row_nbits, row_base) + packed_plane(differences, row_nbits)


def table(layers, lengths):
    """`layers` lists (first, last); `lengths` says (layer, length) of every symbol that has a code."""
    places = [(i, length) for i, (first, last) in enumerate(layers) for length in range(first, last + 1)]
    low, high = min(lengths), max(lengths)
    classes = [0 if s not in lengths else places.index(lengths[s]) + 1 for s in range(low, high + 1)]
    return raw_table(layers, low, high, packed_plane(classes, len(places).bit_length()))


def raw_table(layers, low, high, classes):
    return bytes([len(layers)] + [first | last << 4 for first, last in layers] + [low, high]) + classes


# 6. Coded planes


class CodedPlane:
    """A coded plane in its pieces, to be changed before `data` puts them together: `counts`, a list for each
    layer, `planes`, a list of lists of bits for each layer, and `rest`."""

    def __init__(self, table_bytes, symbols):
        self.q = lmc.counter_nbytes(len(symbols))
        self.counts, self.planes = [], []
        for layer in lmc.read_table(lmc.Reader(table_bytes)):
            code_of = {entry: code for code, entry in layer.codes.items()}
            planes = [[] for _ in range(layer.last)]
            listed = []
            for symbol in symbols:
                if symbol not in code_of:
                    listed.append(symbol)
                length, code = code_of.get(symbol, code_of.get(lmc.LIST))
                for j in range(length):
                    planes[j].append(code >> length - 1 - j & 1)
            self.planes.append(planes)
            counts = [len(plane) for plane in planes[layer.first :]]
            self.counts.append(counts + [len(listed)] if layer.has_list else counts)
            symbols = listed
        self.rest = bytes(symbols)

    def data(self):
        counts = numbers(sum(self.counts, []), self.q)
        planes = b"".join(bit_plane(plane) for layer in self.planes for plane in layer)
        return counts + planes + self.rest


def coded_plane(table_bytes, symbols):
    return CodedPlane(table_bytes, symbols).data()


# 7. Flags


def bitmap(flags):
    return b"\0" + bit_plane(flags)


def gaps(flags, member, k):
    """Flags as the gaps between those that equal `member`, with k low bits."""
    places = [i for i, flag in enumerate(flags) if flag == member]
    return gaps_of(len(flags), [b - a - 1 for a, b in zip([-1] + places, places)], member, k)


def gaps_of(n, values, member, k):
    data = bytes([1 if member else 2]) + len(values).to_bytes(lmc.counter_nbytes(n), "little") + bytes([k])
    data += b"".join(bit_plane(value >> j & 1 for value in values) for j in range(k))
    values = [value >> k for value in values]
    t = 0
    while t < 12 and len(values) >= 16:
        data += bit_plane(value != 0 for value in values)
        values = [value - 1 for value in values if value != 0]
        t += 1
    return data + bytes(values)
