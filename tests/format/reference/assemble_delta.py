"""assemble_delta.py - delta frames put together by hand, beside assemble.py: sections 7.2 and 8 of docs/format.md.
What an encoder does is done here by its letter; nothing is judged, and every piece can be changed before it is put in
place."""

import math
import struct

import assemble as a
import lmc_reference as lmc
from lmc_reference import H

MAGNITUDE, DIFFERENCE, XOR = 0, 1, 2
PLAIN, BF16_OF_F32, F16_OF_F32, F16_OF_BF16 = 0, 1, 2, 3
STORED, SAME, DELTA = b"\0", b"\3", b"\4"
NONE, ALL = b"\3", b"\4"
LADDER = [(0, 1), (1, 3), (3, 5), (5, 7), (7, 11), (11, 15), (15, 23), (23, 31), (31, 63)]  # first symbols, and ends


# 2. Frame


def delta_frame(plan, blocks, content, base, dtype=a.U8, sizes=None, hashes=None, base_hashes=None, **fields):
    """`sizes`, `hashes` and `base_hashes` stand in the index instead of the right ones."""
    head_and_plan = a.head(dtype, lmc.MODE_DELTA, len(content), len(plan), **fields) + plan
    block_nbytes = lmc.DTYPE_UNITS[dtype] << fields.get("block_log2", 10)
    unit = 2 if fields.get("base_form") in (BF16_OF_F32, F16_OF_F32) else 1
    starts = range(0, len(content), block_nbytes)
    sizes = sizes or [len(block) for block in blocks]
    hashes = hashes or [H(content[i : i + block_nbytes]) for i in starts]
    base_hashes = base_hashes or [H(base[i * unit : (i + block_nbytes) * unit]) for i in starts]
    index = b"".join(struct.pack("<IQQ", *entry) for entry in zip(sizes, hashes, base_hashes))
    return a.checked(head_and_plan, b"".join(blocks), index)


# 7.2 Pairs


def pairs(flags, member=1, of_pairs=a.bitmap, of_both=a.bitmap):
    """Flags as pairs of those that equal `member`; `of_pairs` and `of_both` write the flags within."""
    members = [int(flag == member) for flag in flags] + [0] * (len(flags) % 2)
    both = [(members[i], members[i + 1]) for i in range(0, len(members), 2)]
    used = [pair for pair in both if any(pair)]
    singles = [second for first, second in used if first != second]
    data = of_pairs([int(any(pair)) for pair in both]) + of_both([int(all(pair)) for pair in used])
    return bytes([5 if member else 6]) + data + a.bit_plane(singles)


def gaps(k, member=1):
    """A writer of flags: as gaps where there are members, else NONE or ALL."""
    def write(flags):
        if member not in flags:
            return NONE if member else ALL
        return a.gaps(flags, member, k)
    return write


# 8.2 Delta plan


class DeltaPlan:
    def __init__(self, W, transform, g=0, key_shift=None, first_keys=(), low_nbits=(0,)):
        self.W, self.w, self.transform, self.g = W, 8 * W, transform, g
        self.key_shift = 8 * W - 1 if key_shift is None else key_shift
        self.first_keys, self.low_nbits = list(first_keys), list(low_nbits)

    def data(self):
        fields = [self.transform, self.g, self.key_shift, len(self.low_nbits)]
        return bytes(fields + self.first_keys + self.low_nbits)

    def class_of(self, b):
        if self.transform == MAGNITUDE:
            b &= (1 << self.w - 1) - 1
        return sum(first <= (b >> self.key_shift & 255) for first in self.first_keys)

    def difference(self, x, b):
        """z and f."""
        if self.transform == XOR:
            return x ^ b, 0
        if self.transform == DIFFERENCE:
            return zigzag(x - b, self.w), 0
        half = 1 << self.w - 1
        return zigzag(x % half - b % half, self.w - 1), int(x // half != b // half)


def zigzag(d, v):
    d %= 1 << v
    if d >= 1 << v - 1:
        d -= 1 << v
    return 2 * d if d >= 0 else -2 * d - 1


def unzigzag(z):
    return -(z >> 1) - 1 if z & 1 else z >> 1


# 8.3 Delta blocks, 8.4 Heads, 8.5 Ladders


def elements(data, W):
    return [int.from_bytes(data[i : i + W], "little") for i in range(0, len(data) // W * W, W)]


def rounded(base):
    """The base values of an F32 base, as bytes: rounded by way of the number that lies halfway."""
    values = bytearray()
    for u in elements(base, 4):
        top, low = u >> 16, u & 0xFFFF
        if u & 0x7FFFFFFF > 0x7F800000:
            top = top & 0x8000 | 0x7FC0
        elif low > 0x8000 or low == 0x8000 and top & 1:
            top += 1
        values += top.to_bytes(2, "little")
    return bytes(values)


def rounded_to_f16(base, W):
    """The same as F16, of F32 (W 4) or BF16 (W 2): rounded by Python."""
    values = bytearray()
    for u in elements(base, W):
        number, = struct.unpack("<f", (u << 8 * (4 - W)).to_bytes(4, "little"))
        if number != number:
            values += (0x7E00 | u >> 8 * W - 1 << 15).to_bytes(2, "little")
        else:
            values += struct.pack("<e", number if abs(number) < 65520 else math.copysign(math.inf, number))
    return bytes(values)


class Deltas:
    """The pieces of a delta block, to be changed before `data` puts them together. Exceptions are {place: element};
    heads, flips, lows (the low bytes as a number) and classes have an entry for each element. `low_plane(j, bytes)`
    writes a plane of low bytes, `flips_as` and `rungs_as` flags; `stays` holds places whose symbols go on from rung to
    rung to the end, `escaped` those whose symbols stand as 255 without need."""

    def __init__(self, plan, content, values):
        self.plan, self.n = plan, len(content) // plan.W
        self.tail = content[self.n * plan.W :]
        self.x, b = elements(content, plan.W), elements(values, plan.W)
        differences = [plan.difference(x, b[i]) for i, x in enumerate(self.x)]
        self.heads = [z >> 8 * plan.g for z, _ in differences]
        self.flips = [f for _, f in differences]
        self.lows = [z & (1 << 8 * plan.g) - 1 for z, _ in differences]
        self.classes = [plan.class_of(value) for value in b]
        limit = 1 << 15 if plan.transform == MAGNITUDE else 1 << 16
        self.exceptions = {i: self.x[i] for i, head in enumerate(self.heads) if head >= limit}
        for i in self.exceptions:
            self.void(i)
        self.low_plane = lambda j, data: b"\0" + data
        self.flips_as = self.rungs_as = a.bitmap
        self.stays, self.escaped = set(), set()

    def void(self, i, head=0, flip=0, low=0):
        self.heads[i], self.flips[i], self.lows[i] = head, flip, low

    def except_at(self, *places):
        for i in places:
            self.exceptions[i] = self.x[i]
            self.void(i, 3, 1, 0)

    def data(self):
        g, q = self.plan.g, lmc.counter_nbytes(self.n)
        places = sorted(self.exceptions)
        data = a.numbers([len(places)] + places, q) + a.numbers([self.exceptions[i] for i in places], self.plan.W)
        for j in reversed(range(g)):
            data += self.low_plane(j, bytes(low >> 8 * j & 255 for low in self.lows))
        for number, k in enumerate(self.plan.low_nbits):
            own = [i for i in range(self.n) if self.classes[i] == number]
            if own:
                data += self.class_data(own, k)
        return DELTA + data + self.tail

    def class_data(self, own, k):
        data = b""
        if self.plan.transform == MAGNITUDE:
            data += self.flips_as([self.flips[i] for i in own])
        data += a.packed_plane([self.heads[i] & (1 << k) - 1 for i in own], k)
        symbols = [self.heads[i] >> k for i in own]
        if k == 8:
            return data + self.ladder(symbols, own)
        escapes = [s for s, i in zip(symbols, own) if s >= 255 or i in self.escaped]
        bytes_ = [255 if i in self.escaped else min(s, 255) for s, i in zip(symbols, own)]
        return data + self.ladder(bytes_, own) + a.numbers(escapes, 2)

    def ladder(self, symbols, places):
        data = b""
        listed = list(zip(symbols, places))
        for first, end in LADDER:
            if len(listed) < 8:
                break
            here = [first <= s < end and i not in self.stays for s, i in listed]
            own = [s - first for (s, _), is_own in zip(listed, here) if is_own]
            data += self.rungs_as([int(not is_own) for is_own in here])
            for j in reversed(range((end - first).bit_length() - 1)):
                data += a.bit_plane(number >> j & 1 for number in own)
            listed = [entry for entry, is_own in zip(listed, here) if not is_own]
        return data + bytes(s for s, _ in listed)
