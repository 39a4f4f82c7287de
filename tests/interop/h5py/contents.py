"""contents.py - bytes for datasets, the same on every machine and with every version of numpy.

Everything comes from SHAKE-128 of a name, and from arithmetic that IEEE 754 defines to the last bit.
"""

import functools
import hashlib
import json
import os

import numpy

from bed import ROOT

EXAMPLES = os.path.join(ROOT, "examples", "data")


def noise(name, nbytes):
    return hashlib.shake_128(name.encode()).digest(nbytes)


def bf16_of(f32):
    """Rounded to the nearest, ties to even; for finite numbers."""
    bits = f32.view("<u4")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")


def weights(name, nbytes, size):
    """Numbers as in a trained network: a bell, a scale for each stretch of 512. Of 2 bytes they are bf16; elements of
    other sizes than 2, 4 and 8 are made of numbers of 4."""
    size = size if size in (2, 4, 8) else 4
    count = nbytes // size + 1
    parts = numpy.frombuffer(noise(name, 8 * count), "<u2").reshape(count, 4)
    bell = parts.astype("<f8").sum(axis=1) - 131070.0
    scale = numpy.float64(2.0) ** -(20.0 + numpy.arange(count) // 512 % 3)
    numbers = bell * scale / 3.0
    if size == 8:
        return numbers.astype("<f8").tobytes()
    if size == 4:
        return numbers.astype("<f4").tobytes()
    return bf16_of(numbers.astype("<f4")).tobytes()


def halves(name, nbytes, size):
    """Weights as IEEE floats of 2 bytes."""
    return numpy.frombuffer(weights(name, 2 * nbytes + 8, 4), "<f4").astype("<f2").tobytes()


def zeros(name, nbytes, size):
    return bytes(nbytes)


SPECIAL = {
    1: "00 80 7f ff 7c 7e fc 01 81 40",
    2: "0000 8000 7c00 fc00 7c01 7e00 ffff 0001 8001 03ff 7f80 ff80 7f81 7fc0 0080 3c00 3f80",
    4: "00000000 80000000 7f800000 ff800000 7f800001 7fc00000 ffc12345 ffffffff 00000001 80000001 007fffff 7f7fffff "
       "3f800000",
    8: "0000000000000000 8000000000000000 7ff0000000000000 fff0000000000000 7ff0000000000001 7ff8000000000000 "
       "fff8123456789abc ffffffffffffffff 0000000000000001 8000000000000001 000fffffffffffff 7fefffffffffffff "
       "3ff0000000000000",
}


def special(name, nbytes, size):
    """NaNs with payloads, infinities, zeros of both signs, denormals, in a random order, a number now and then."""
    size = size if size in SPECIAL else 4
    table = numpy.array([int(word, 16) for word in SPECIAL[size].split()], f"<u{size}")
    count = nbytes // size + 1
    picks = numpy.frombuffer(noise(name, count), "u1")
    values = table[picks % len(table)]
    ordinary = numpy.frombuffer(weights(name, count * size, size)[:count * size], f"<u{size}")
    return numpy.where(picks > 200, ordinary, values).tobytes()


def counter(name, nbytes, size):
    """Integers that rise slowly; of other sizes than 1, 2, 4, 8 the low bytes."""
    count = nbytes // size + 1
    steps = numpy.frombuffer(noise(name, count), "u1") % 3
    values = numpy.cumsum(steps, dtype="<u8").view("u1").reshape(count, 8)
    wide = numpy.zeros((count, max(size, 8)), "u1")
    wide[:, :8] = values
    return wide[:, :size].tobytes()


WORDS = "the quick brown fox jumps over a lazy dog and weights of layers norm bias attention".split()


def few(name, nbytes, size):
    """Integers from 0 to 15."""
    values = numpy.zeros((nbytes // size + 1, size), "u1")
    values[:, 0] = numpy.frombuffer(noise(name, len(values)), "u1") % 16
    return values.tobytes()


def text(name, nbytes, size):
    """Words, each padded with zeros to a whole element."""
    picks = noise(name, nbytes // size + 1)
    return b"".join((WORDS[p % len(WORDS)] * (1 + p // 64)).encode()[:size].ljust(size, b"\0") for p in picks)


@functools.lru_cache(maxsize=None)
def example(kind):
    """All the tensors' bytes of an example file: bf16 or f32."""
    name = {"bf16": "step03000.bf16.safetensors", "f32": "step03000.f32-part.safetensors"}[kind]
    with open(os.path.join(EXAMPLES, name), "rb") as file:
        header_nbytes = int.from_bytes(file.read(8), "little")
        json.loads(file.read(header_nbytes))
        return file.read()


def real(name, nbytes, size):
    """A piece of a trained model: of the bf16 one for elements of 2 bytes, else of the f32 one."""
    data = example("bf16" if size == 2 else "f32")
    start = int.from_bytes(noise(name, 4), "little") % (len(data) - nbytes) // 8 * 8
    return data[start:start + nbytes]


def random(name, nbytes, size):
    return noise(name, nbytes)


KINDS = {function.__name__: function
         for function in (weights, halves, zeros, special, counter, few, text, real, random)}


def content(kind, name, count, size, big_endian=0):
    """`count` elements of `size` bytes. big_endian: bytes of the numbers that stand high byte first, 0 for none."""
    data = KINDS[kind](name, count * size, size)[:count * size]
    assert len(data) == count * size, (kind, name)
    if big_endian > 1:
        data = numpy.frombuffer(data, "u1").reshape(-1, big_endian)[:, ::-1].tobytes()
    return data
