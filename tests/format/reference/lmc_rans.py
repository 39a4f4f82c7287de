"""rANS codes of the reference decoder: docs/format.md, sections 6.4 (tables) and 6.5 (planes)."""
from lmc_basics import corrupt_unless, supported_if

RANS_LANE_COUNT = 64
RANS_TOTAL = 4096
RANS_CARRIED_NBYTES = 128
CLASS_COUNT = 1
WIDTH_MAX = 13  # of b, section 6.4
STATE_MIN = 1 << 16


class RansTable:
    """6.4. `starts` has the start of each symbol that has one, `symbol_at` the symbol of each number below 4096."""

    def __init__(self, reader):
        class_count = reader.uint(1)
        supported_if(class_count == CLASS_COUNT, f"class_count {class_count} of a rANS table")
        first, last = reader.uint(1), reader.uint(1)
        corrupt_unless(first <= last, "first_symbol and last_symbol")
        frequencies = read_frequencies(reader, last - first + 1)
        corrupt_unless(frequencies[0] != 0 and frequencies[-1] != 0, "frequency 0 for first_symbol or last_symbol")
        corrupt_unless(sum(frequencies) == RANS_TOTAL, "the sum of the frequencies")
        self.frequencies = {first + i: f for i, f in enumerate(frequencies) if f != 0}
        self.starts, self.symbol_at = {}, []
        for symbol, f in self.frequencies.items():
            self.starts[symbol] = len(self.symbol_at)
            self.symbol_at += [symbol] * f


def read_frequencies(reader, count):
    bits = reader.bit_string()
    frequencies = []
    for _ in range(count):
        b = bits.uint(4)
        corrupt_unless(b <= WIDTH_MAX, "a frequency of too many bits")
        frequencies.append(0 if b == 0 else (1 << b - 1) + bits.uint(b - 1))
    bits.finish()
    return frequencies


def decode_rans_plane(reader, table, n):
    """6.5: n symbols, and the 128 carried bytes."""
    word_count = reader.uint(4)
    corrupt_unless(4 + 4 * RANS_LANE_COUNT + 2 * word_count < n, "a rANS plane is not smaller than a stored one")
    states = [reader.uint(4) for _ in range(RANS_LANE_COUNT)]
    corrupt_unless(min(states) >= STATE_MIN, "a first state below 2^16")
    words = [reader.uint(2) for _ in range(word_count)]
    used = 0
    symbols = []
    for i in range(n):
        x = states[i % RANS_LANE_COUNT]
        place = x % RANS_TOTAL
        symbol = table.symbol_at[place]
        x = table.frequencies[symbol] * (x // RANS_TOTAL) + place - table.starts[symbol]
        if x < STATE_MIN:
            corrupt_unless(used < word_count, "a rANS plane has too few words")
            x = x << 16 | words[used]
            used += 1
        states[i % RANS_LANE_COUNT] = x
        symbols.append(symbol)
    corrupt_unless(used == word_count, "a rANS plane has too many words")
    corrupt_unless(max(states) < 2 * STATE_MIN, "a last state of 2^17 or more")
    return symbols, b"".join((x - STATE_MIN).to_bytes(2, "little") for x in states)
