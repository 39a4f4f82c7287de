#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets of liblmc_st: make_st_corpus.py --tool LMC-ST DIRECTORY

st_header gets the files of tests/cli/header_corpus.py, st_container those of container_seeds.py, st_archive and
st_restore get archives that the tool made of small files, whole, damaged and taken apart (st_craft.h says how).
tests/fuzz/README.md says when to run it.
"""
import argparse
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "cli"))
sys.path.insert(0, os.path.join(ROOT, "fuzz"))
import container_seeds  # noqa: E402
import header_corpus  # noqa: E402

SEED_NBYTES_MAX = 4000
AS_IT_IS, REPAIRED, PARTS = b"\x00", b"\x01", b"\x02"
NEVER = 255


def tensors_file(*tensors, metadata=None):
    """A safetensors file of (name, dtype, shape, content)."""
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, dtype, shape, content in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header, separators=(",", ":"))
    return struct.pack("<Q", len(text)) + text.encode() + data


def bf16_weights(rng, count):
    values = (struct.pack("<f", rng.gauss(0, 0.02)) for _ in range(count))
    return b"".join(value[2:] for value in values)


def small_files(rng):
    """Name and content of files whose archives are small and hold every kind of frame."""
    weights = bf16_weights(rng, 800)
    pruned = b"".join(weights[i:i + 2] if rng.random() < 0.3 else b"\0\0" for i in range(0, 1600, 2))
    ramp = struct.pack("<200q", *range(0, 600, 3))
    yield "none", tensors_file()
    yield "short", tensors_file(("a", "U8", [4], b"abcd"))
    yield "empty", tensors_file(("e", "F32", [0, 3], b""), ("f", "F32", [0], b""))
    yield "stored", tensors_file(("r", "U8", [400], rng.randbytes(400)))
    yield "coded", tensors_file(("w", "BF16", [800], weights))
    yield "masked", tensors_file(("w", "BF16", [2, 400], pruned), ("b", "BF16", [2], b"\0\0\x80\x3f"))
    yield "integers", tensors_file(("i", "I64", [200], ramp), ("bool", "BOOL", [300], bytes(299) + b"\1"))
    yield "constant", tensors_file(("c", "F32", [2000], b"\0\0\x80\x3f" * 2000), metadata={"format": "pt"})
    yield "equal", tensors_file(*((name, "BF16", [300], weights[:600]) for name in "xyz"))
    yield "names", tensors_file(("lmc.archive", "U8", [1], b"1"), ("a\0b", "U8", [1], b"2"),
                                ("", "F4", [4], b"34"))


def large_files():
    """Files of which threads get something to do, but whose archives are small."""
    yield "blocks", tensors_file(("c", "BF16", [500000], bytes(1000000)))
    yield "tied", tensors_file(*((name, "BF16", [150000], b"\2\1" * 150000) for name in "abcd"))
    yield "tensors", tensors_file(*(("t%d" % i, "U8", [150000], bytes([i]) * 150000) for i in range(6)))
    yield "mixed", tensors_file(("c", "F32", [150000], b"\0\0\x80\x3f" * 150000), ("s", "U8", [3], b"abc"),
                                ("e", "F32", [0], b""), ("d", "I16", [300000], b"\1\0" * 300000))


def convert(tool, content, level, base=None):
    with tempfile.TemporaryDirectory() as folder:
        source, archive = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.lmc")
        with open(source, "wb") as file:
            file.write(content)
        options = ["-q", "--level", level]
        if base is not None:
            options += ["--base", os.path.join(folder, "old.safetensors")]
            with open(options[-1], "wb") as file:
                file.write(base)
        subprocess.run([tool, "convert", source, "-o", archive, *options], check=True)
        with open(archive, "rb") as file:
            return file.read()


def parts_of_frames(original, frames):
    """What fuzz_build_archive() takes: the original header, then names and frames."""
    header_nbytes = struct.unpack_from("<Q", original)[0]
    parts = struct.pack("<H", header_nbytes) + original[8:8 + header_nbytes]
    for name, frame in frames:
        raw_name = json.dumps(name)[1:-1].encode()
        parts += bytes([len(raw_name)]) + raw_name + struct.pack("<H", len(frame)) + frame
    return parts


def frames_of(archive):
    header_nbytes = struct.unpack_from("<Q", archive)[0]
    for name, entry in json.loads(archive[8:8 + header_nbytes]).items():
        if name != "__metadata__" and entry["data_offsets"][0] > 0:  # not the table
            begin, end = (8 + header_nbytes + offset for offset in entry["data_offsets"])
            yield name, archive[begin:end]


def contents_of(original):
    header_nbytes = struct.unpack_from("<Q", original)[0]
    for name, entry in json.loads(original[8:8 + header_nbytes]).items():
        if name != "__metadata__":
            begin, end = (8 + header_nbytes + offset for offset in entry["data_offsets"])
            yield entry["dtype"], original[begin:end]


def parts_of(original, archive, change=lambda frame: frame):
    """Of a tensor without a frame: the number of the first equal one."""
    contents = list(contents_of(original))
    frames = []
    for number, (name, frame) in enumerate(frames_of(archive)):
        first_equal = contents.index(contents[number])
        frames.append((name, change(frame) if frame else bytes([first_equal])))
    return parts_of_frames(original, frames)


def flipped(rng, content):
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1:]


def zstd_frame_of_spaces(start, nbytes):
    """A zstd frame of `start` and spaces: blocks of one repeated byte take four bytes for 128 KiB."""
    frame = struct.pack("<IBI", 0xfd2fb528, 0xa0, nbytes)
    frame += struct.pack("<I", len(start) << 3)[:3] + start
    left = nbytes - len(start)
    while left > 0:
        count = min(left, 128 << 10)
        left -= count
        frame += struct.pack("<I", (left == 0) | 1 << 1 | count << 3)[:3] + b" "
    return frame


def raw_archive(header_nbytes, stored, method=1, hash_count=0, stored_nbytes=None, frames=()):
    """An archive with the table that is asked for, to be repaired. frames: (name, bytes)."""
    stored_nbytes = len(stored) if stored_nbytes is None else stored_nbytes
    file_nbytes = 8 + header_nbytes + sum(frame[7] for _, frame in frames)  # short frames
    table = struct.pack("<4sBBHIIQQQ", b"\x8cLMA", 1, method, 0, 0, hash_count, file_nbytes, header_nbytes,
                        stored_nbytes % 2**64)
    table += stored + bytes(8 * hash_count if hash_count < 100 else 0) + bytes(24)
    outer, data = {"__metadata__": {"format": "lmc", "lmc_archive": "1"}}, b""
    for name, content in (("lmc.archive", table), *frames):
        offsets = [len(data), len(data) + len(content)]
        outer[name] = {"dtype": "U8", "shape": [len(content)], "data_offsets": offsets}
        data += content
    text = json.dumps(outer, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


def short_frame(content, dtype=0):
    return b"\x8cLMC" + bytes([1, dtype, 2, len(content)]) + content + bytes(16)


def alias_seeds():
    """One byte stands for an alias of the tensor of that number."""
    four, three = short_frame(b"abcd"), short_frame(b"efg")
    frame_lists = {
        "right": [four, b"\0", b"\0"],
        "chain": [four, b"\0", b"\1"],
        "of-itself": [four, b"\1", b"\0"],
        "forward": [b"\1", four, b"\1"],
        "beyond": [four, b"\0", b"\3"],
        "far": [four, b"\0", b"\xff"],
        "unequal": [four, b"\0", short_frame(b"abcd", 1)],
    }
    equal = tensors_file(*((name, "U8", [4], b"abcd") for name in "abc"))
    for name, frames in frame_lists.items():
        yield f"alias-{name}", PARTS + parts_of_frames(equal, zip("abc", frames))
    sizes = tensors_file(("a", "U8", [4], b"abcd"), ("b", "U8", [3], b"abc"), ("c", "U8", [4], b"abcd"))
    yield "alias-other-size", PARTS + parts_of_frames(sizes, [("a", four), ("b", b"\0"), ("c", three)])
    other = tensors_file(("a", "U8", [4], b"abcd"), ("b", "I8", [4], b"abcd"))
    yield "alias-other-dtype", PARTS + parts_of_frames(other, [("a", four), ("b", b"\0")])


def f32_and_copy(rng, count):
    """Masters, and each of them rounded to BF16."""
    masters = [int.from_bytes(struct.pack("<f", rng.gauss(0, 0.02)), "little") for _ in range(count)]
    copies = [u + 0x7fff + (u >> 16 & 1) >> 16 for u in masters]
    return struct.pack(f"<{count}I", *masters), struct.pack(f"<{count}H", *copies)


def changed_weights(rng, weights):
    return b"".join(weights[i:i + 2] if rng.random() < 0.9 else bytes([weights[i] ^ 1, weights[i + 1]])
                    for i in range(0, len(weights), 2))


def based_files(rng):
    """Name, content and base; the target finds no base file, but of "self" none is needed."""
    weights = bf16_weights(rng, 400)
    old = tensors_file(("w", "BF16", [400], weights), ("s", "I32", [2], b"12345678"))
    master, copy = f32_and_copy(rng, 300)
    pair = ("m", "F32", [300], master), ("c", "BF16", [300], copy)
    yield "self", tensors_file(*pair, ("s", "I32", [2], b"12345678")), tensors_file(("x", "U8", [1], b"x"))
    changed = changed_weights(rng, weights)
    yield "file", tensors_file(("w", "BF16", [400], changed), ("s", "I32", [2], b"12345678")), old
    yield "alias", tensors_file(*pair, *((name, "BF16", [400], changed) for name in ("w", "w2"))), old


def base_list_at(archive):
    """Where the list of bases begins."""
    table = 8 + struct.unpack_from("<Q", archive)[0]
    features, tensor_count, _, _, stored_nbytes = struct.unpack_from("<IIQQQ", archive, table + 8)
    at = table + 40 + stored_nbytes + 8 * tensor_count
    return at + 4 + 8 * struct.unpack_from("<I", archive, at)[0] if features & 2 else at


def wrong_lists(archive):
    """The archive with a list of bases that contradicts the rest, or not, in one number."""
    at = base_list_at(archive)
    link_count, name_nbytes = struct.unpack_from("<II", archive, at)
    links = at + 32 + (name_nbytes + 7) // 8 * 8
    numbers = {"count-0": (at, 0), "count-less": (at, link_count - 1), "count-more": (at, link_count + 1),
               "count-max": (at, 2**32 - 1), "no-name": (at + 4, 0), "name-longer": (at + 4, name_nbytes + 8),
               "name-max": (at + 4, 2**32 - 1), "nbytes": (at + 8, 7), "header-hash": (at + 16, 7),
               "hash": (at + 24, 7), "tensor": (links, 77), "next-tensor": (links, 1),
               "place-self": (links + 4, 1 << 31), "base-1": (links + 4, 1), "self-1": (links + 4, 1 << 31 | 1),
               "self-2": (links + 4, 1 << 31 | 2),
               "base-max": (links + 4, 2**31 - 1), "self-max": (links + 4, 2**32 - 1)}
    for name, (place, number) in numbers.items():
        yield name, archive[:place] + struct.pack("<I", number) + archive[place + 4:]
    if name_nbytes > 0:
        for name in (b"..\0", b"a/b", b"\xff..", b"a\0b"):
            yield f"name-{name.hex()}", archive[:at + 32] + name + archive[at + 32 + len(name):]


def base_seeds(tool):
    rng = random.Random(2)
    for name, original, base in based_files(rng):
        for level in ("default", "fast"):
            archive = convert(tool, original, level, base)
            yield f"base-{name}-{level}", AS_IT_IS + archive
            yield f"base-{name}-{level}-flip", AS_IT_IS + flipped(rng, archive)
            for number in range(3):
                yield f"base-{name}-{level}-repaired{number}", REPAIRED + flipped(rng, archive)
        for what, wrong in wrong_lists(archive):
            yield f"base-{name}-list-{what}", REPAIRED + wrong


def contradiction_seeds():
    """Archives that are right in every checksum, and wrong in what they say."""
    two = tensors_file(("a", "U8", [4], b"abcd"), ("b", "U8", [3], b"efg"))
    header = two[8:8 + struct.unpack_from("<Q", two)[0]]
    four, three = short_frame(b"abcd"), short_frame(b"efg")
    cut = b"\x8cLMC" + struct.pack("<BBBBIIQIBBH", 1, 0, 1, 10, 0, 4, 4096, 0, 1, 0, 0)
    yield "right", PARTS + parts_of_frames(two, [("a", four), ("b", three)])
    yield "sizes-exchanged", PARTS + parts_of_frames(two, [("a", three), ("b", four)])
    yield "names-exchanged", PARTS + parts_of_frames(two, [("b", four), ("a", three)])
    yield "foreign-name", PARTS + parts_of_frames(two, [("a", four), ("c", three)])
    yield "other-dtype", PARTS + parts_of_frames(two, [("a", four), ("b", short_frame(b"efg", 1))])
    yield "frame-missing", PARTS + parts_of_frames(two, [("a", four)])
    yield "frame-empty", PARTS + parts_of_frames(two, [("a", four), ("b", b"")])
    yield "frame-twice", PARTS + parts_of_frames(two, [("a", four), ("a", four), ("b", three)])
    for more in (0, 8, 40):
        yield f"frame-without-tail-{more}", PARTS + parts_of_frames(
            tensors_file(("a", "U8", [4096], bytes(4096))), [("a", cut + bytes(more))])
    pair = (("a", four), ("b", three))
    for count in (0, 1, 2, 3):
        yield f"hashes-{count}", REPAIRED + raw_archive(len(header), header, 0, count, frames=pair)
    packed = zstd_frame_of_spaces(header, len(header) + 100)
    for nbytes in (100, len(packed) + 16, len(packed) - 8000, 2**64 - 1):
        count = (len(packed) - nbytes) % 2**64 // 8 % 2**32
        yield f"stored-{nbytes % 2**64}", REPAIRED + raw_archive(len(header) + 100, packed, 1, count, nbytes)
    for nbytes in (len(header) + 99, len(header) + 101):
        yield f"unpacked-{nbytes}", REPAIRED + raw_archive(nbytes, packed, 1, 2, frames=pair)
    yield "packed-right", REPAIRED + raw_archive(len(header) + 100, packed, 1, 2, frames=pair)
    yield "bomb", REPAIRED + raw_archive(2 << 20, zstd_frame_of_spaces(b"{}", 2 << 20))


def name_seeds():
    """Names that must not reach a terminal as they are, in files that are refused."""
    names = r"\u001b[31m\n\r", "\x7f\u202e\u0085", "\U0001f600" * 60, "x" * 158 + r"\u0007"
    for number, name in enumerate(names):
        yield f"shown_name_{number}", header_corpus.one(header_corpus.entry("U8", "[3]"), name=f'"{name}"')


def damaged_index(frame):
    """A frame whose last block has another hash: its check is to be repaired."""
    return frame[:-9] + bytes([frame[-9] ^ 1]) + frame[-8:]


def header_seeds():
    for case in header_corpus.CASES:
        yield case.name, case.content
    yield from name_seeds()
    # their samples are equal, they are not (st_alias.c)
    contents = (bytes(550) + bytes([last]) + bytes(1149) for last in (1, 2))
    yield "nearly_equal", tensors_file(*((name, "U8", [1700], next(contents)) for name in "ab"))


def archive_seeds(tool, rng):
    for name, original in small_files(rng):
        for level in ("default", "fast"):
            archive = convert(tool, original, level)
            parts = parts_of(original, archive)
            yield f"{name}-{level}", AS_IT_IS + archive
            yield f"{name}-{level}-flip", AS_IT_IS + flipped(rng, archive)
            yield f"{name}-{level}-repaired", REPAIRED + flipped(rng, archive)
            yield f"{name}-{level}-parts", PARTS + parts
            yield f"{name}-{level}-parts-flip", PARTS + flipped(rng, parts)
        content_at = len(archive) - 30  # of the last frame: its content, if it has no index
        yield f"{name}-content", AS_IT_IS + archive[:content_at] + b"?" + archive[content_at + 1:]
        yield f"{name}-cut", AS_IT_IS + archive[:rng.randrange(len(archive))]
    yield "plain", AS_IT_IS + original
    yield from contradiction_seeds()
    yield from alias_seeds()
    yield from base_seeds(tool)


def restore_seeds(tool, rng):
    files = list(small_files(rng))[3:7] + list(large_files())
    for number, (name, original) in enumerate(files):
        parts = parts_of(original, convert(tool, original, "default"))
        threads = bytes([number % 4])
        yield name, threads + bytes([NEVER]) + parts
        yield f"{name}-stop", threads + bytes([number]) + parts
        for _ in range(3):
            parts = flipped(rng, parts)
        yield f"{name}-flip", threads + bytes([NEVER]) + parts
    for name, original in large_files():
        parts = parts_of(original, convert(tool, original, "default"), damaged_index)
        yield f"{name}-blocks", bytes([3, NEVER]) + parts


def text(value):
    return bytes([len(value)]) + value


def writer_seeds():
    """Settings, then items: strings with their lengths, dtype, rank, dimensions (st_writer.c)."""
    bf16, f32, u8, f4 = 14, 17, 0, 3
    metadata = b"\3" + text(b"format") + text(b"pt")
    weight = b"\0" + text(b"w") + bytes([bf16, 2, 8, 100])
    bias = b"\2" + text(b"b") + bytes([f32, 1, 16])
    huge = b"\xff" + struct.pack(">Q", 2**61)
    for number, settings in enumerate((0xfd, 0x10, 0xff)):
        yield f"model-{number}", bytes([settings]) + metadata + weight + bias
        yield f"equal-{number}", bytes([settings]) + b"".join(
            b"\0" + text(b"%d" % i) + bytes([bf16, 1, 200]) for i in range(9))
    yield "nothing", b"\xfd"
    yield "names", b"\xfd" + b"".join(b"\0" + text(name) + bytes([u8, 1, 3]) for name in (
        b"", b"a\0b", b"\"\\\n\x1f", "\u00e4\U0001f600".encode(), b"lmc.archive", b"\xff", b"\xed\xa0\x80"))
    yield "dtypes", b"\xfd" + b"".join(
        b"\0" + text(b"%d" % dtype) + bytes([dtype, 2, 4, 2]) for dtype in range(23))
    yield "empty", b"\xfd" + b"\0" + text(b"e") + bytes([f32, 2, 0, 3]) + b"\0" + text(b"s") + bytes([f32, 0])
    yield "twice", b"\xfd" + weight + weight
    yield "key-twice", b"\xfd" + metadata + metadata
    yield "reserved-name", b"\xfd" + b"\0" + text(b"__metadata__") + bytes([u8, 1, 3])
    yield "like-an-archive", b"\xfd" + b"\3" + text(b"format") + text(b"lmc") + b"\3" + text(
        b"lmc_archive") + text(b"1") + weight
    yield "half-byte", b"\xfd" + b"\0" + text(b"h") + bytes([f4, 1, 3]) + weight
    yield "overflow", b"\xfd" + b"\0" + text(b"o") + bytes([f32, 2]) + huge + huge + weight


def container_seed_files(rng):
    for name, content in container_seeds.all_files():
        yield name, content
        for number in range(2):
            yield f"{name}-flip{number}", flipped(rng, content)
    yield "safetensors", tensors_file(("a", "F32", [2], bytes(8)), ("b", "U8", [3], b"abc"))
    yield "nothing", b""
    yield "unknown", bytes(range(256)) * 8


def write_seeds(folder, seeds):
    os.makedirs(folder, exist_ok=True)
    for name, content in seeds:
        if len(content) <= SEED_NBYTES_MAX:
            plain_name = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
            with open(os.path.join(folder, plain_name), "wb") as file:
                file.write(content)


def main():
    parser = argparse.ArgumentParser(description="Writes the seeds of the fuzz targets of liblmc_st.")
    parser.add_argument("--tool", required=True, help="the command lmc-st")
    parser.add_argument("directory", help="where the folders of the targets are")
    arguments = parser.parse_args()
    rng = random.Random(1)
    write_seeds(os.path.join(arguments.directory, "st_header"), header_seeds())
    write_seeds(os.path.join(arguments.directory, "st_container"), container_seed_files(random.Random(3)))
    write_seeds(os.path.join(arguments.directory, "st_archive"), archive_seeds(arguments.tool, rng))
    write_seeds(os.path.join(arguments.directory, "st_restore"), restore_seeds(arguments.tool, rng))
    write_seeds(os.path.join(arguments.directory, "st_writer"), writer_seeds())


if __name__ == "__main__":
    main()
