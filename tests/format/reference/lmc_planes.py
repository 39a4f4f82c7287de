"""Planes of the reference decoder: docs/format.md, sections 5.1 (a plane's modes) and 6 (coded planes)."""
from lmc_basics import Corrupt, corrupt_unless, counter_nbytes, supported_if
from lmc_flags import read_flags
from lmc_rans import RansTable, decode_rans_plane

PLANE_STORED, PLANE_CONSTANT, PLANE_CODED, PLANE_GAPS = 0, 1, 2, 3
SYMBOL_ESCAPE = 255
LAYER_COUNT_MAX = 16
LAYER_NBITS_MAX = 6

LIST = -1  # stands for a layer's list where a symbol could be


# 5.1. A plane


def decode_plane(reader, mode, n, nbits, table):
    supported_if(mode <= PLANE_GAPS, f"plane mode {mode}")
    if mode == PLANE_STORED:
        return list(reader.bytes(n)) if nbits == 8 else reader.packed_plane(n, nbits)
    if mode == PLANE_CONSTANT:
        value = reader.uint(1)
        corrupt_unless(value < 1 << nbits, "the value of a constant plane is too wide")
        return [value] * n
    corrupt_unless(nbits == 8, "a packed plane that is coded or gaps")
    if mode == PLANE_CODED:
        corrupt_unless(table is not None, "a coded plane without a table")
        if isinstance(table, RansTable):
            symbols, carried = decode_rans_plane(reader, table, n)
            corrupt_unless(not any(carried), "carried bytes where there is nothing to carry")
            return symbols
        return decode_coded_plane(reader, table, n)
    return decode_gaps_plane(reader, table, n)


def decode_gaps_plane(reader, table, n):
    dominant = reader.uint(1)
    flags = read_flags(reader, n)
    corrupt_unless(any(flags), "a gaps plane without exceptions")
    mode = reader.uint(1)
    corrupt_unless(mode in (PLANE_STORED, PLANE_CODED), "mode of the exceptions")
    exceptions = iter(decode_plane(reader, mode, sum(flags), 8, table))
    return [next(exceptions) if flag else dominant for flag in flags]


# 6. Coded planes


class Layer:
    """`symbols` maps a length to the symbols that have it, in order."""

    def __init__(self, first, last):
        self.first = first
        self.last = last
        self.symbols = {length: [] for length in range(first, last + 1)}
        self.has_list = False
        self.codes = {}  # (length, code): symbol or LIST

    def complete(self, is_last):
        """6.2: find the list's length; 6.1: assign the codes."""
        r = 64 - sum(64 // 2**length * len(symbols) for length, symbols in self.symbols.items())
        self.has_list = r != 0
        if self.has_list:
            fits = [length for length in self.symbols if r == 64 // 2**length]
            corrupt_unless(fits, "a layer's code is not complete")
            self.symbols[fits[0]].append(LIST)
        else:
            corrupt_unless(is_last, "a layer without a list is not the last one")
        corrupt_unless(self.symbols[self.first] and self.symbols[self.last], "a layer's first or last is not in use")
        code = 0
        for length in range(self.first, self.last + 1):
            if length > self.first:
                code <<= 1
            for entry in self.symbols[length]:
                self.codes[length, code] = entry
                code += 1


def read_table(reader):
    """6.2: the layers of a table."""
    layer_count = reader.uint(1)
    corrupt_unless(1 <= layer_count <= LAYER_COUNT_MAX, "layer_count")
    layers = []
    for _ in range(layer_count):
        byte = reader.uint(1)
        first, last = byte & 15, byte >> 4
        corrupt_unless(1 <= first <= last <= LAYER_NBITS_MAX, "a layer's first and last")
        layers.append(Layer(first, last))
    low, high = reader.uint(1), reader.uint(1)
    corrupt_unless(low <= high, "low and high")
    places = [symbols for layer in layers for symbols in layer.symbols.values()]  # of classes 1, 2, ...
    C = len(places)
    classes = reader.packed_plane(high - low + 1, C.bit_length())
    corrupt_unless(max(classes) <= C, "a class above C")
    corrupt_unless(classes[0] != 0 and classes[-1] != 0, "class 0 for low or high")
    for i, number in enumerate(classes):
        if number != 0:
            places[number - 1].append(low + i)
    for layer in layers:
        layer.complete(is_last=layer is layers[-1])
    return layers


def decode_coded_plane(reader, layers, n):
    """6.3: n symbols."""
    layer_ns, plane_ns = read_counts(reader, layers, n)
    planes = [[reader.bit_plane(bits) for bits in plane_ns[i]] for i in range(len(layers))]
    symbols = list(reader.bytes(layer_ns[-1]))  # the rest
    for i in reversed(range(len(layers))):
        symbols = decode_layer(layers[i], layer_ns[i], planes[i], symbols)
    return symbols


def read_counts(reader, layers, n):
    """The symbols of every layer, and after them those of the rest; the bits of every layer's planes."""
    q = counter_nbytes(n)
    layer_ns, plane_ns = [n], []
    for layer in layers:
        in_layer = layer_ns[-1]
        counts = [reader.uint(q) for _ in range(layer.first, layer.last)]
        go_on = reader.uint(q) if layer.has_list else 0
        corrupt_unless(max(counts + [go_on]) <= in_layer, "a count exceeds the symbols of its layer")
        plane_ns.append([in_layer] * layer.first + counts)
        layer_ns.append(go_on)
    return layer_ns, plane_ns


def decode_layer(layer, n, planes, listed):
    """The n symbols of a layer, given those that go on from it."""
    planes = [iter(plane) for plane in planes]
    listed = iter(listed)
    symbols = []
    try:
        for _ in range(n):
            length, code = 0, 0
            while (length, code) not in layer.codes:
                code = code << 1 | next(planes[length])
                length += 1
            entry = layer.codes[length, code]
            symbols.append(next(listed) if entry == LIST else entry)
    except StopIteration:
        raise Corrupt("a plane or a list is too short") from None
    for left in planes + [listed]:
        corrupt_unless(next(left, None) is None, "a plane or a list is too long")
    return symbols
