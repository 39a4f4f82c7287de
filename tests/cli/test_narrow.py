"""Wide elements with narrow contents: products of scales and factors, palettes, floats in wider floats."""
import os
import random
import struct

import pytest

from support import Archive, check, check_only, in_directory, model, read, write

COLUMNS = 512
NF4 = (-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
       -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
       0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0)
FORMATS = {"F16": "e", "F32": "f", "F64": "d"}


def single(x):
    """Rounded to F32."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def packed(dtype, values):
    if dtype != "BF16":
        return struct.pack("<%d%s" % (len(values), FORMATS[dtype]), *values)
    bits = struct.unpack("<%dI" % len(values), struct.pack("<%df" % len(values), *values))
    return struct.pack("<%dH" % len(bits), *((x + 0x7fff + (x >> 16 & 1)) >> 16 for x in bits))


def e4m3(code):
    exponent, mantissa = code >> 3 & 15, code & 7
    size = mantissa * 2.0 ** -9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
    return -size if code & 128 else size


def products(rng, dtype, rows, factor, most, group):
    """A random scale for each group, whose first factor is the largest one."""
    values = []
    for _ in range(rows * COLUMNS // group):
        scale = single(rng.uniform(0.01, 0.03) / most)
        values.append(single(scale * most))
        values += [single(scale * factor(rng)) for _ in range(group - 1)]
    return packed(dtype, values)


def integer(rng):
    return max(-127, min(127, round(rng.gauss(0, 35))))


def small_integer(rng):
    return max(-7, min(7, round(rng.gauss(0, 2.5))))


def byte_float(rng):
    return e4m3(rng.getrandbits(1) << 7 | 126 - min(100, int(abs(rng.gauss(0, 16)))))


def nf4(rng):
    return rng.choice(NF4)


def weights_in(rng, narrow, wide, count):
    values = [rng.gauss(0, 0.02) for _ in range(count)]
    if narrow == "BF16":
        return b"".join(b"\0\0" + packed("BF16", [x]) for x in values)
    return packed(wide, struct.unpack("<%d%s" % (count, FORMATS[narrow]), packed(narrow, values)))


# dtype, content, share of the file at most
CASES = {
    "i8-row-f32": ("F32", lambda r: products(r, "F32", 120, integer, 127, COLUMNS), 0.25),
    "i8-row-bf16": ("BF16", lambda r: products(r, "BF16", 120, integer, 127, COLUMNS), 0.5),
    "i8-row-f16": ("F16", lambda r: products(r, "F16", 120, integer, 127, COLUMNS), 0.5),
    "i8-64-bf16": ("BF16", lambda r: products(r, "BF16", 120, integer, 127, 64), 0.55),
    "i4-32-f32": ("F32", lambda r: products(r, "F32", 120, small_integer, 7, 32), 0.17),
    "e4m3-128-bf16": ("BF16", lambda r: products(r, "BF16", 120, byte_float, 448, 128), 0.5),
    "nf4-64-f32": ("F32", lambda r: products(r, "F32", 120, nf4, 1, 64), 0.17),
    "f16-in-f32": ("F32", lambda r: weights_in(r, "F16", "F32", 120 * COLUMNS), 0.45),
    "bf16-in-f32": ("F32", lambda r: weights_in(r, "BF16", "F32", 120 * COLUMNS), 0.37),
    "f32-in-f64": ("F64", lambda r: weights_in(r, "F32", "F64", 120 * COLUMNS), 0.45),
    "palette-f32": ("F32", lambda r: packed("F32", [r.choice(NF4 + (0.3, 0.6)) for _ in range(120 * COLUMNS)]), 0.17),
    "palette-f64": ("F64", lambda r: packed("F64", [r.choice(NF4) * 0.7 for _ in range(120 * COLUMNS)]), 0.09),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request, directory):
    dtype, content_of, share = request.param
    content = content_of(random.Random(7))
    return in_directory(directory, model([("w", dtype, [120, COLUMNS], content)])), share


def test_narrow_contents_get_small(tool, case):
    path, share = case
    archive = tool.round_trip(path)
    share_found = os.path.getsize(archive) / os.path.getsize(path)
    check(share_found <= share, "%.4f of the file, not %.4f" % (share_found, share))
    one = read(archive)
    check(read(tool.round_trip(path, "-j3")) == one, "the archive depends on the number of threads")
    tool.round_trip(path, "--level", "max")
    tool.run("verify", archive).expect(0)


def test_damage_is_found(tool, case, directory):
    """A changed byte of the frame, or a cut: no file is restored, and none is left."""
    path, _ = case
    content = read(tool.round_trip(path))
    frame = Archive(content).part("w")[1]
    start = content.index(frame)
    rng = random.Random(8)
    places = [start + rng.randrange(40, len(frame)) for _ in range(6)] + [start + 36, start + len(frame) - 12]
    for name in os.listdir(directory):
        os.unlink(os.path.join(directory, name))
    for at in places:
        changed = bytearray(content)
        changed[at] ^= 1 << rng.randrange(8)
        write(os.path.join(directory, "x.lmc"), changed)
        tool.run("restore", os.path.join(directory, "x.lmc")).expect(1, 'tensor "w"')
        tool.run("verify", os.path.join(directory, "x.lmc")).expect(1)
        check_only(directory, "x.lmc")
    write(os.path.join(directory, "x.lmc"), content[:-1000])
    tool.run("restore", os.path.join(directory, "x.lmc")).expect(1)
    check_only(directory, "x.lmc")


def test_frames_of_two_forms_are_not_mixed_up(tool, directory):
    """The frame of another tensor of the same size is refused."""
    rng = random.Random(9)
    path = in_directory(directory, model(
        [("a", "F32", [60, COLUMNS], products(rng, "F32", 60, integer, 127, COLUMNS)),
         ("b", "F32", [60, COLUMNS], products(rng, "F32", 60, nf4, 1, 64)),
         ("c", "F32", [60, COLUMNS], weights_in(rng, "F16", "F32", 60 * COLUMNS))]))
    archive = Archive(read(tool.round_trip(path)))
    first, second = archive.part("a"), archive.part("b")
    first[1], second[1] = second[1], first[1]
    os.unlink(path)
    os.unlink(path + ".lmc")
    write(os.path.join(directory, "x.lmc"), archive.build())
    tool.run("restore", os.path.join(directory, "x.lmc")).expect(1)
    check_only(directory, "x.lmc")
