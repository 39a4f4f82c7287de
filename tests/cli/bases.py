"""Snapshots of a training that never was, their archives, and what holds for all archives with a base."""
import array
import json
import os
import random
import struct

from support import BITS, check, model, read, weights, write

CODES = {8: "B", 16: "H", 32: "I", 64: "Q"}


def f32(rng, count):
    return b"".join(struct.pack("<f", rng.gauss(0, 0.02)) for _ in range(count))


def doubled(content):
    """Each value of 4 bytes as a double."""
    return b"".join(struct.pack("<d", value) for value, in struct.iter_unpack("<f", content))


def first_snapshot(seed=1, count=3000):
    """Tensors of all widths, and frames of all modes."""
    rng = random.Random(seed)
    single = f32(rng, count)
    return [
        ("embed", "BF16", [count], weights(rng, count)),
        ("layer.0", "BF16", [4, count // 4], weights(rng, count // 4 * 4)),
        ("master", "F32", [count], single),
        ("double", "F64", [count], doubled(single)),
        ("half", "F16", [count], b"".join(struct.pack("<e", rng.gauss(0, 0.02)) for _ in range(count))),
        ("eighth", "F8_E4M3", [count], bytes(int(rng.gauss(0x38, 8)) & 0xff for _ in range(count))),
        ("steps", "I64", [count], b"".join(struct.pack("<q", 7 * i + rng.randrange(9)) for i in range(count))),
        ("noise", "U8", [count], rng.randbytes(count)),
        ("scale", "F32", [2], rng.randbytes(8)),
        ("empty", "F32", [0, 3], b""),
    ]


def changed(tensor, rng, part):
    """The tensor with this part of its values moved by a few units in the last place."""
    name, dtype, shape, content = tensor
    values = array.array(CODES[BITS[dtype]], content)
    top = (1 << BITS[dtype]) - 1
    for i in rng.sample(range(len(values)), int(len(values) * part)):
        values[i] = (values[i] + rng.choice((-3, -2, -1, -1, 1, 1, 2, 3))) & top
    return name, dtype, shape, values.tobytes()


def next_snapshot(tensors, seed, part=0.1):
    rng = random.Random(seed)
    return [changed(tensor, rng, part) for tensor in tensors]


def write_model(directory, name, tensors, metadata=None):
    return write(os.path.join(directory, name), model(tensors, metadata))


def pair(directory, part=0.1, count=3000):
    """Writes old.safetensors and new.safetensors; returns their paths."""
    tensors = first_snapshot(count=count)
    return (write_model(directory, "old.safetensors", tensors),
            write_model(directory, "new.safetensors", next_snapshot(tensors, 2, part)))


def convert(tool, new, base, *options):
    """The path of the archive. Neither input may change."""
    with Kept(base, new):
        tool.run("convert", new, "--base", base, *options).expect(0)
    return new + ".lmc"


def archived_pair(tool, directory, *how, **options):
    """As pair(), and the archive of the second."""
    old, new = pair(directory, *how, **options)
    return old, new, convert(tool, new, old)


class Kept:
    """with Kept(paths): bytes, times and modes of the files stay."""

    def __init__(self, *paths):
        self.paths = paths

    def __enter__(self):
        self.before = self.look()

    def __exit__(self, kind, *_):
        check(kind is not None or self.look() == self.before, "an input was changed: %s" % (self.paths,))

    def look(self):
        return [(read(path), os.stat(path).st_mtime_ns, os.stat(path).st_mode) for path in self.paths]


def restored(tool, archive, *options):
    """The bytes that an archive restores to, by way of standard output."""
    return tool.run("restore", archive, "-c", *options).expect(0).output


def check_restores(tool, archive, content, *options):
    """By restore, cat, verify and get."""
    check(restored(tool, archive, *options) == content, "restored otherwise: " + archive)
    check(tool.run("cat", archive, *options).expect(0).output == content, "cat: " + archive)
    tool.run("verify", archive, *options).expect(0)


def ls(tool, path):
    return {tensor["name"]: tensor for tensor in json.loads(tool.run("ls", "--json", path).expect(0).stdout)}


def modes(tool, path):
    return {name: tensor["mode"] for name, tensor in ls(tool, path).items()}


def info(tool, path, *options):
    return json.loads(tool.run("info", "--json", path, *options).expect(0).stdout)


def make_chain(tool, directory, length, count=3000):
    """Archives s0.safetensors.lmc (alone) to s<length>, each against the one before; the snapshots themselves are
    removed. Returns their contents."""
    tensors = first_snapshot(count=count)
    contents = []
    for i in range(length + 1):
        path = write_model(directory, "s%d.safetensors" % i, tensors)
        base = [] if i == 0 else ["--base", os.path.join(directory, "s%d.safetensors.lmc" % (i - 1))]
        tool.run("convert", "--rm", path, *base).expect(0)
        check(not os.path.exists(path), "--rm has left " + path)
        contents.append(model(tensors))
        tensors = next_snapshot(tensors, i, 0.02)
    return contents


def of_chain(directory, i):
    return os.path.join(directory, "s%d.safetensors.lmc" % i)
