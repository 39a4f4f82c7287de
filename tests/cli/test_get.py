"""The command get: bytes, ranges and slices of tensors."""
import itertools
import json
import os
import random
import struct

import pytest

from support import (BITS, Archive, archive_of, check, check_only, flip, get, in_directory, model, read, small_model,
                     weights, write)

FEW_MEGABYTES = 192 << 20  # of address space: far less than the files of the cases that use it


def contents(content):
    """Name -> (dtype, shape, bytes) of a plain file."""
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"],
                   content[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]])
            for name, entry in header.items()}


# ---- slices, as Python makes them ----

def cut(data, bits, shape, picks):
    """Bits of the elements that the picks (slices of ranges) name, in order; None if not whole bytes."""
    strides = [1] * (len(shape) + 1)
    for dim in range(len(shape) - 1, -1, -1):
        strides[dim] = strides[dim + 1] * shape[dim]
    wanted = [range(size)[pick] for size, pick in zip(shape, picks)]
    wanted += [range(size) for size in shape[len(picks):]]
    elements = [sum(index * stride for index, stride in zip(indices, strides[1:]))
                for indices in itertools.product(*wanted)]
    if bits % 8 == 0:
        width = bits // 8
        return b"".join(data[element * width:(element + 1) * width] for element in elements)
    edges = set()
    for element in elements:
        edges ^= {element * bits, (element + 1) * bits}
    if any(edge % 8 for edge in edges):
        return None
    positions = sorted({bit // 8 for element in elements for bit in range(element * bits, (element + 1) * bits)})
    return bytes(data[position] for position in positions)


def random_pick(rng, size):
    """A slice and its text."""
    kind = rng.randrange(4)
    if kind == 0 and size:
        index = rng.randrange(-size, size)
        return slice(index % size, index % size + 1), str(index)
    if kind == 1:
        return slice(None), rng.choice([":", " : "])
    first = rng.randrange(size + 1)
    last = rng.randrange(first, size + 1)
    if kind == 2:
        return slice(first, last), "%d:%d" % (first, last)
    return (slice(first, None), "%d:" % first) if rng.randrange(2) else (slice(None, last), ":%d" % last)


def tensor_of(rng, dtype):
    """Shape and content; frames of every kind come out of it."""
    while True:
        shape = [rng.choice([0, 1, 2, 3, 4, 7, 8, 16]) if rng.randrange(8) == 0 else rng.randrange(1, 17)
                 for _ in range(rng.randrange(1, 5))]
        count = 1
        for size in shape:
            count *= size
        if count * BITS[dtype] % 8 == 0:
            break
    nbytes = count * BITS[dtype] // 8
    kind = rng.randrange(3)
    if kind == 0:
        return shape, rng.randbytes(nbytes)
    if kind == 1:
        return shape, bytes(rng.choice(b"\0\x01\x3c\x3d") for _ in range(nbytes))
    return shape, bytes(nbytes)


def test_get_slices_as_python_does(tool, directory):
    rng = random.Random(31)
    tensors = [("t%d.%s" % (number, dtype), dtype, *tensor_of(rng, dtype))
               for number in range(3) for dtype in BITS]
    path = in_directory(directory, model(tensors))
    files = [path, archive_of(tool, path)]
    refused = 0
    for turn in range(600 if tool.limits else 60):
        name, dtype, shape, data = rng.choice(tensors)
        picks = [random_pick(rng, size) for size in shape[:rng.randrange(1, len(shape) + 1)]]
        operand = "%s[%s]" % (name, ",".join(text for _, text in picks))
        expected = cut(data, BITS[dtype], shape, [pick for pick, _ in picks])
        result = tool.run("get", files[turn % 2], operand)
        if expected is None:
            result.expect(2, 'tensor "%s"' % name, "whole bytes")
            check(result.output == b"", "bytes beside a refusal")
            refused += 1
        else:
            result.expect(0)
            check(result.output == expected, "%s: %d bytes differ from %d" % (operand, len(result.output),
                                                                              len(expected)))
    check(refused > 0, "no slice was refused")


def test_get_whole_tensors_and_ranges(tool, directory):
    rng = random.Random(32)
    content = model([("a", "BF16", [300, 1000], weights(rng, 300_000)),
                     ("noise", "U8", [300_000], rng.randbytes(300_000)),
                     ("one", "F32", [], rng.randbytes(4)), ("none", "F32", [0], b"")])
    path = in_directory(directory, content)
    archive = archive_of(tool, path)
    for name, (_, _, data) in contents(content).items():
        for file in (path, archive):
            check(get(tool, file, name) == data, "whole " + name)
            for _ in range(12):
                first = rng.randrange(len(data) + 1)
                last = rng.randrange(first, len(data) + 1)
                check(get(tool, file, name, "--range", "%d:%d" % (first, last)) == data[first:last], "range")
            check(get(tool, file, name, "--range=:") == data, "range :")
            check(get(tool, file, name, "--range=%d:" % (len(data) // 2)) == data[len(data) // 2:], "range A:")
            check(get(tool, file, name, "--range=:%d" % (len(data) // 2)) == data[:len(data) // 2], "range :B")


def test_get_refusals(tool, directory):
    path = in_directory(directory, small_model())
    archive = archive_of(tool, path)
    for file in (path, archive):
        for arguments, fragments in (
                (["embed", "--range", "0:4001"],
                 ['tensor "embed"', "4001 is beyond the tensor, which has size 4000"]),
                (["embed", "--range", "5:3"], ["starts at 5, after its end at 3"]),
                (["embed", "--range", "-5:"], ["negative"]), (["embed", "--range", "7"], ["A:B"]),
                (["embed", "--range", ""], ["A:B"]), (["embed[1]", "--range", "0:1"], ["exclude each other"]),
                (["embed[40]"], ["index 40 is outside dimension 0, which has size 40"]),
                (["embed[:,0:51]"], ["51 is beyond dimension 1, which has size 50"]),
                (["embed[-41]"], ["index -41"]), (["embed[::2]"], ["no step"]), (["embed[-2:]"], ["negative"]),
                (["embed[1,2,3]"], ["more indices than dimensions: the rank is 2"]), (["embed[]"], ["expected"]),
                (["embed[\x1b]"], ["expected"]), (["embed[1\x1b[31m]"], ["there is no tensor"]),
                (["embe"], ['there is no tensor "embe"', 'there is "embed"']),
                (["embe[1]"], ['there is no tensor "embe"; there is "embed"']),
                (["\x1b[31mx\n"], ['there is no tensor "\\u001b[31mx\\n"'])):
            result = tool.run("get", file, *arguments).expect(2, file, *fragments)
            check(result.output == b"", "bytes beside a refusal")
        for name in ("", "layer", "nothing", "[0]"):
            result = tool.run("get", file, name).expect(2, "there is no tensor")
            check("there is \"" not in result.stderr, "a suggestion for %r" % name)
        tool.run("get", file).expect(2, "--help")
        tool.run("get", file, "embed", "x").expect(2, "--help")
    tool.run("get", os.path.join(directory, "absent"), "embed").expect(3, "absent")
    tool.run("get", directory, "embed").expect(2)


def test_get_a_name_that_looks_like_a_slice(tool, directory):
    path = in_directory(directory, model([("a", "U8", [4], b"abcd"), ("a[1]", "U8", [2], b"xy"),
                                          ("a[1][0]", "U8", [1], b"z"), ("[0]", "U8", [2], b"pq"),
                                          ("", "U8", [2], b"rs")]))
    for file in (path, archive_of(tool, path)):
        for operand, expected in (("a[2]", b"c"), ("a[1]", b"xy"), ("a[1][1]", b"y"), ("a[1][0]", b"z"),
                                  ("a[1][0][0]", b"z"), ("[0]", b"pq"), ("[1]", b"s"), ("[0][1]", b"q"), ("", b"rs")):
            check(get(tool, file, operand) == expected, "get %r" % operand)


@pytest.mark.posix("modes of files")
def test_get_writes_a_file_whole_or_not_at_all(tool, directory):
    rng = random.Random(33)
    content = model([("a", "BF16", [400_000], weights(rng, 400_000))])
    path = in_directory(directory, content)
    archive = archive_of(tool, path)
    os.chmod(archive, 0o640)
    out = os.path.join(directory, "out")
    data = contents(content)["a"][2]
    tool.run("get", archive, "a", "-o", out).expect(0)
    check(read(out) == data, "the bytes differ")
    check(os.stat(out).st_mode & 0o777 == 0o640, "permissions")
    write(out, b"old")
    tool.run("get", archive, "a", "-o", out).expect(2, "exists already")
    check(read(out) == b"old", "the old file was changed")
    tool.run("get", archive, "a[3:5]", "-f", "-o", out).expect(0)
    check(read(out) == data[6:10], "the part differs")
    tool.run("get", archive, "a[0:0]", "-f", "-o", out).expect(0)
    check(read(out) == b"", "not empty")
    tool.run("get", archive, "a", "-f", "-o", archive).expect(2, "same file")
    tool.run("get", archive, "a", "-f", "-o", directory).expect(2, "directory")
    tool.run("get", archive, "a", "-o", os.path.join(directory, "no", "out")).expect(3)
    flip(archive, -60_000)
    os.unlink(out)
    tool.run("get", archive, "a", "-o", out).expect(1, 'tensor "a"')
    check_only(directory, "m.safetensors", "m.safetensors.lmc")


def test_get_reads_only_what_it_needs(tool, directory):
    """A damaged block does not matter to those who do not need it; of what is damaged nothing wrong is written."""
    rng = random.Random(34)
    content = model([("a", "BF16", [512, 1024], weights(rng, 4096) * 128),
                     ("b", "U8", [60_000], rng.randbytes(60_000))])
    path = in_directory(directory, content)
    archive = archive_of(tool, path)
    data = contents(content)
    modes = [entry["mode"] for entry in json.loads(tool.run("ls", archive, "--json").expect(0).stdout)]
    check(modes == ["coded", "stored"], "modes: %r" % modes)
    whole = bytearray(read(archive))
    parts = {name: len(part) for name, part in Archive(bytes(whole)).parts}
    end_of_a = len(whole) - parts["b"]
    whole[end_of_a - parts["a"] // 2] ^= 4
    write(archive, bytes(whole))
    tool.run("verify", archive).expect(1, 'tensor "a"')
    for first in (0, 100, 448, 511):
        check(get(tool, archive, "a[%d]" % first) == data["a"][2][first * 2048:(first + 1) * 2048], "row %d" % first)
    check(get(tool, archive, "b") == data["b"][2], "the other tensor")
    for operand in ("a", "a[:,0]"):
        result = tool.run("get", archive, operand).expect(1, 'tensor "a"')
        expected = data["a"][2] if operand == "a" else cut(data["a"][2], 16, [512, 1024], [slice(None), slice(0, 1)])
        check(expected.startswith(result.output) and len(result.output) < len(expected), "wrong bytes came out")
    whole[-20_000] ^= 1  # of a stored frame: one checksum for all of it
    write(archive, bytes(whole))
    result = tool.run("get", archive, "b[5:9]").expect(1, 'tensor "b"')
    check(result.output == b"", "unverified bytes")


def test_get_from_flipped_archives(tool, directory):
    """Whatever byte is damaged: what comes out is right, or the exit status says that it is not."""
    content = small_model(35)
    path = in_directory(directory, content)
    archive = archive_of(tool, path)
    data = contents(content)
    whole = read(archive)
    rng = random.Random(35)
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        write(archive, bytes(damaged))
        name = rng.choice(sorted(data))
        result = tool.run("get", archive, name)
        check(result.status in (0, 1), "exit %d" % result.status)
        check(result.status == 1 or result.output == data[name][2], "wrong bytes of " + name)


def sparse_model(directory, nbytes, name="big.safetensors"):
    """One tensor "a", BF16 [n, 1024], of zeros but for its last row."""
    text = json.dumps({"a": {"dtype": "BF16", "shape": [nbytes // 2048, 1024], "data_offsets": [0, nbytes]},
                       "b": {"dtype": "U8", "shape": [3], "data_offsets": [nbytes, nbytes + 3]}}).encode()
    path = os.path.join(directory, name)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + nbytes)
        file.seek(8 + len(text) + nbytes - 2048)
        file.write(bytes(range(256)) * 8 + b"xyz")
    return path


def test_huge_tensors_in_little_memory(tool, directory):
    rows = 3 << 19  # 3 GiB
    path = sparse_model(directory, rows * 2048)
    last_row = bytes(range(256)) * 8
    limits = {"address_space": FEW_MEGABYTES}
    check(get(tool, path, "a[-1]", **limits) == last_row, "the last row")
    check(get(tool, path, "a[%d:,1]" % (rows - 2), **limits) == b"\0\0" + last_row[2:4], "a column")
    check(get(tool, path, "a", "--range=%d:" % (rows * 2048 - 5), **limits) == last_row[-5:], "the last bytes")
    facts = json.loads(tool.run("info", path, "--json", **limits).expect(0).stdout)
    check(facts["parameters"] == rows * 1024 + 3, "parameters")
    small = sparse_model(directory, 96 << 20, "small.safetensors")
    archive = archive_of(tool, small, "-j1")
    check(get(tool, archive, "a[-1]", **limits) == last_row, "the last row, archive")
    with open(small, "r+b") as file:
        file.seek(50 << 20)
        file.write(b"x")
    result = tool.run("diff", archive, small, "-j2", **limits)
    check(result.status == 1 and result.stdout == "~ a: content\n1 equal, 1 changed, 0 added, 0 removed\n",
          "diff: %s" % result.stdout)
