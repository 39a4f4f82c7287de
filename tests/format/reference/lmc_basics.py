"""What all parts of the reference decoder share: docs/format.md, section 1, and the kinds of refusals."""
import xxhash


class LmcError(Exception):
    """A frame that is refused."""


class Truncated(LmcError):
    """The frame ends too early: more bytes could help."""


class Corrupt(LmcError):
    """The frame breaks a rule of the format: more bytes could not help."""


class Unsupported(LmcError):
    """A decoder of a newer version could read this."""


class Checksum(LmcError):
    """A well-formed frame that is not what was written."""


class Base(LmcError):
    """The base is missing, or not the one that was encoded against."""


def H(data, seed=0):
    return xxhash.xxh3_64_intdigest(bytes(data), seed)


def u64(number):
    return number.to_bytes(8, "little")


def corrupt_unless(condition, rule):
    if not condition:
        raise Corrupt(rule)


def supported_if(condition, what):
    if not condition:
        raise Unsupported(what)


class Reader:
    """Bytes that are read from the front; `end` is what is raised where there are too few of them."""

    def __init__(self, data, end=Corrupt):
        self.data = bytes(data)
        self.position = 0
        self.end = end

    def bytes(self, count):
        if count > len(self.data) - self.position:
            raise self.end(f"{count} bytes wanted at {self.position} of {len(self.data)}")
        self.position += count
        return self.data[self.position - count : self.position]

    def uint(self, count):
        return int.from_bytes(self.bytes(count), "little")

    def bit_plane(self, n):
        data = self.bytes((n + 7) // 8)
        bits = [byte >> i & 1 for byte in data for i in range(8)]
        corrupt_unless(not any(bits[n:]), "spare bits must be 0")
        return bits[:n]

    def packed_plane(self, n, p):
        bits = self.bit_plane(n * p)
        return [sum(bits[i * p + j] << j for j in range(p)) for i in range(n)]

    def bit_string(self):
        return BitString(self)

    def finish(self, what):
        corrupt_unless(self.position == len(self.data), f"{what} must be consumed exactly")


class BitString:
    """Numbers of some bits each, the lowest bit first, one after another in the bytes of a reader."""

    def __init__(self, reader):
        self.reader = reader
        self.left = []  # bits of the last byte

    def uint(self, nbits):
        while len(self.left) < nbits:
            self.left += self.reader.bit_plane(8)
        bits, self.left = self.left[:nbits], self.left[nbits:]
        return sum(bit << j for j, bit in enumerate(bits))

    def finish(self):
        corrupt_unless(not any(self.left), "spare bits must be 0")


def counter_nbytes(n):
    """q of sections 6.3, 7.1 and 8.3."""
    return 1 if n < 256 else 2 if n < 65536 else 3
