"""assemble_rans.py - rANS tables and planes put together by hand, beside assemble.py: sections 6.4 and 6.5 of
docs/format.md. Nothing is judged, and every piece can be changed before it is put in place."""

import struct

import assemble as a

LANE_COUNT, TOTAL = 64, 4096
NOTHING = bytes(128)  # the carried bytes where there is nothing to carry


def rans_plan(rans_table, tables, *arguments, **fields):
    """A plan with a rANS table for plane 0. `tables` are those of the other planes."""
    kinds = b"".join(b"\0" if table is None else b"\1" + table for table in tables)
    return a.plan([], *arguments, **fields) + b"\2" + rans_table + kinds


# 6.4. rANS table


def number_bits(f):
    """The bits of a frequency."""
    b = f.bit_length()
    low = f - (1 << b - 1) if b > 0 else 0
    return [b >> j & 1 for j in range(4)] + [low >> j & 1 for j in range(b - 1)]


def table(frequencies, class_count=1, first=None, last=None):
    """`frequencies`: {symbol: f}. first and last stand for the least and the greatest symbol."""
    first = min(frequencies) if first is None else first
    last = max(frequencies) if last is None else last
    bits = sum((number_bits(frequencies.get(s, 0)) for s in range(first, last + 1)), [])
    return bytes([class_count, first, last]) + a.bit_plane(bits)


def frequencies_of(symbols):
    """Frequencies for these symbols: about as they are, each at least 1."""
    counts = {s: symbols.count(s) for s in sorted(set(symbols))}
    frequencies = {s: max(1, count * (TOTAL - len(counts)) // len(symbols)) for s, count in counts.items()}
    most = max(counts, key=counts.get)
    frequencies[most] += TOTAL - sum(frequencies.values())
    return frequencies


# 6.5. rANS planes


class RansPlane:
    """A plane in its pieces: `states`, the first one of each lane, and `words`. `last_states` are the states that a
    decoder ends with; without them they carry the 128 bytes of `carried`. After the symbols at the places `early` a
    decoder takes a word without need."""

    def __init__(self, frequencies, symbols, carried=NOTHING, last_states=None, early=()):
        starts = {s: sum(f for other, f in frequencies.items() if other < s) for s in frequencies}
        self.states = list(last_states or (65536 + u for u in struct.unpack("<64H", carried)))
        self.words = []
        for i in reversed(range(len(symbols))):
            f, start = frequencies[symbols[i]], starts[symbols[i]]
            x = self.states[i % LANE_COUNT]
            if x >= f << 20 or i in early:
                self.words.insert(0, x & 0xFFFF)
                x >>= 16
            self.states[i % LANE_COUNT] = (x // f << 12) + x % f + start
        self.word_count = len(self.words)

    def data(self):
        return a.numbers([self.word_count] + self.states, 4) + a.numbers(self.words, 2)


def plane(frequencies, symbols, carried=NOTHING):
    data = RansPlane(frequencies, symbols, carried).data()
    assert len(data) < len(symbols), (len(data), len(symbols))
    return data


def carrying(frequencies, symbols, low_plane):
    """The bodies of a low plane that is stored and of plane 0, which carries its end."""
    return low_plane[:-128] + plane(frequencies, symbols, low_plane[-128:])
