"""archive_files.py - safetensors files to make archives of: small ones of every kind, from a random source."""

import json

from archive_forge import entry, header_of, safetensors_file
from safetensors_header import DTYPES


def noise(rng, nbytes):
    return rng.randbytes(nbytes)


def weights(rng, nbytes):
    """Numbers whose upper bytes are few, as those of weights are."""
    return bytes(rng.choice(b"\x3c\x3d\xbc\xbd\x3d\xbd") if i % 2 else rng.getrandbits(8) for i in range(nbytes))


def sparse(rng, nbytes):
    return bytes(rng.getrandbits(8) if rng.random() < 0.05 else 0 for _ in range(nbytes))


def tensor(name, dtype, content):
    return name, dtype, [len(content) * 8 // dict(DTYPES)[dtype]], content


def each_dtype(rng, make, nbytes):
    tensors = [tensor(f"{dtype}.{nbytes}", dtype, make(rng, nbytes)) for dtype, _ in DTYPES]
    return safetensors_file(header_of(tensors), b"".join(content for _, _, _, content in tensors))


def of(tensors, **metadata):
    return safetensors_file(header_of(tensors, **metadata), b"".join(content for _, _, _, content in tensors))


def aliases(rng):
    one, other = weights(rng, 4096), noise(rng, 24)
    pairs = [("w", "BF16", one), ("x", "BF16", other), ("w again", "BF16", one), ("w as F16", "F16", one),
             ("empty", "F32", b""), ("w once more", "BF16", one), ("x again", "BF16", other),
             ("x less", "BF16", other[:-2]), ("empty again", "F32", b""), ("empty U8", "U8", b"")]
    return of([tensor(*pair) for pair in pairs])


def empties(rng):
    return of([("a", "F32", [0], b""), ("b", "U8", [7, 0, 3], b""), ("c", "I64", [1], noise(rng, 8)),
               ("d", "F4", [0], b""), ("e", "F64", [], noise(rng, 8)), ("f", "BOOL", [0, 2**40], b"")])


def odd_names(rng):
    names = ["", "\0", "a\0b", "lmc.archive", "lmc.archive~", "lmc.archive~~~", "__metadata", "\U0001f600", "\u00e9",
             "\"", "\\", "/", "../x", "\x7f", "\n", " ", "x" * 3000, "format", "dtype"]
    return of([tensor(name, "U8", noise(rng, 5)) for name in names])


def raw_names():
    """The text of a name may be written in several ways."""
    names = ['"\\u0061"', '"\\/b"', '"/c"', '"\\ud83d\\uDE00"', '"\xc3\xa9"', '"\\n"', '"\\u000A\\u0000"']
    members = [name + ":" + entry("U8", [1], i, i + 1) for i, name in enumerate(names)]
    return safetensors_file(("{" + ",".join(members) + "}").encode("latin-1"), bytes(range(len(names))))


def other_order(rng):
    """The text names the tensors in another order than that of their data; some are empty, at one place."""
    places = [("m", 8, 12), ("z", 0, 4), ("e2", 4, 4), ("a", 4, 8), ("e1", 4, 4), ("e0", 12, 12)]
    members = [json.dumps(name) + ": " + entry("I16", [(end - begin) // 2], begin, end) for name, begin, end in places]
    return safetensors_file((" \n{" + " ,\t".join(members) + "}\r\n ").encode(), noise(rng, 12))


def ignored_keys(rng):
    more = ',"x":[1e999,-0.5E-3,{"y":{"y":null},"y":true}],"":"\\u0000"'
    header = '{"a":' + entry("F8_E4M3", [6], 0, 6, more) + ',"__metadata__":null}'
    return safetensors_file(header.encode(), noise(rng, 6))


def files(rng):
    """(name, file)."""
    yield "no tensors", safetensors_file(b"{}", b"")
    yield "no tensors, metadata", safetensors_file(b'{"__metadata__":{"":"","k":"v"}}   ', b"")
    yield "no tensors, space", safetensors_file(b"\t{ }\n", b"")
    yield "one byte", of([tensor("a", "U8", b"x")], metadata=None)
    for make, nbytes in ((noise, 24), (weights, 264), (sparse, 2400), (weights, 3000)):
        yield f"{make.__name__} of {nbytes} bytes in every dtype", each_dtype(rng, make, nbytes)
    yield "two blocks and more", of([tensor("w", "BF16", weights(rng, 150_002))])
    yield "noise", of([tensor("n", "F32", noise(rng, 60_000))])
    yield "constant", of([tensor("c", "F32", b"\0\0\x80\x3f" * 3000), tensor("n", "I64", bytes(8000))])
    yield "aliases", aliases(rng)
    yield "empty tensors", empties(rng)
    yield "odd names", odd_names(rng)
    yield "names in other escapes", raw_names()
    yield "other order", other_order(rng)
    yield "ignored keys", ignored_keys(rng)
    many = [tensor(f"model.layers.{i}.mlp.weight", "BF16", noise(rng, 2 * (i % 5))) for i in range(200)]
    yield "many tensors", of(many)
    yield "an archive's metadata", of([tensor("a", "U8", b"x")], metadata='"__metadata__":{"format":"pt","x":"y"}')
