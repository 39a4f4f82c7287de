"""Archives of files of other kinds than safetensors: the worked example of docs/archive.md, section 8; those that
lmc-st makes of files generated here, with and without a base; archives put together by hand, and damaged ones. The
reference reader and lmc-st must give back the same file, or both refuse. Both must find the same tensors in a plain
file."""

import functools
import os
import random
import re
import struct

import pytest

import archive_containers
import archive_kind_base_cases
import archive_kind_cases
import archive_npy_headers
import document
import lmc_archive
from archive_containers import (PIECE_NBYTES, gguf, gguf_string, gguf_tensors, gguf_value, npy, npz_entries,
                                torch_entries, zipped)
from archive_files import noise, of, tensor, weights
from archive_tool import Directory, forged, judged
from lmc_archive_base import FILE
from lmc_archive_layout import GGUF, NPY, RAW, ZIP
from lmc_archive_places import GGUF_INFOS_END_MAX, ZIP_COUNT_MAX, ZIP_ENTRY_COUNT_MAX, find_places, is_safetensors
from lmc_reference import LmcError, u64
from test_archive_reader import ROOT
from test_archive_reader_bases import following

DAMAGE_COUNT = 200
ALTERED_COUNT = 60  # of each kind


def example(text):
    """The archive of section 8.7, and the file in it."""
    section = re.search(r"^### 8\.7\. Example$(.*?)^## ", text, re.M | re.S).group(1)
    listed = document.numbered_bytes(section, 0x100)
    header = "".join(re.findall("^    (.*)$", section, re.M)).encode().ljust(0x100 - 8)
    npy_header = re.search("`({'descr'.*?})`", section).group(1).encode() + b"\n"
    return u64(len(header)) + header + listed, npy_of(npy_header, b"abcd")


def npy_of(header, content):
    return b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + content


@functools.lru_cache(maxsize=None)
def originals(seed):
    return {(kind, name): file for kind, name, file in archive_containers.files(random.Random(seed))}


def converted(directory, name, data, *options):
    """The path of lmc-st's archive."""
    path = directory.write(name, data)
    done = directory.tool.run("convert", "--rm", *options, path)
    if done.returncode != 0:
        raise ValueError(f"convert: {done.stderr.decode()}")
    return path + ".lmc"


def same_tensors(path, original):
    """In a plain file, and in the archive of lmc-st."""
    archive = lmc_archive.opened(lmc_archive.read(path))
    found = archive.layout.kind, archive.layout.places(tensor.nbytes for tensor in archive.tensors)
    expected = find_places(original)
    return None if found == expected else f"lmc-st finds {found}, the document says {expected}"


# With a base


def moved_parts(rng, entries, part=0.05):
    return [(name, *following(rng, [("", "U8", [], content)], part)[0][3:], *method)
            for name, content, *method in entries]


def array(rng, content, **fields):
    """And one that is like it."""
    return npy(content, **fields), npy(following(rng, [("", "F32", [], content)], 0.02)[0][3], **fields)


def pairs(rng):
    """(what, name of the base, base, name of the file, file, options)."""
    content = weights(rng, 12000)
    old, new = array(rng, content)
    yield "NPY", "old.npy", old, "new.npy", new
    yield "NPY, longer header", "old.npy", old, "new.npy", npy(new[-12000:], padding=100)
    yield "NPY, other dtype", "old.npy", npy(content, "'<i4'"), "new.npy", new
    tensors = [tensor("array", "F32", content), tensor("more", "F32", weights(rng, 400))]
    yield "NPY of safetensors", "old.safetensors", of(tensors), "new.npy", new
    yield "safetensors of NPY", "old.npy", old, "new.safetensors", of(following(rng, tensors, 0.02))
    torch = torch_entries(rng)
    yield "torch", "old.pt", zipped(torch), "new.pt", zipped(moved_parts(rng, torch))
    twice = zipped(moved_parts(rng, torch)) * 2
    yield "two behind each other", "old.zip", noise(rng, 40) + zipped(torch) * 2, "new.zip", twice
    npz = npz_entries(rng)
    array_entries = [("w.npy", old)] + npz[1:]
    yield "npz", "old.npz", zipped(array_entries), "new.npz", zipped([("w.npy", new)] + npz[1:])
    tensors = gguf_tensors(rng)
    moved_tensors = [(*rest, following(rng, [("", "U8", [], content)], 0.02)[0][3]) for *rest, content in tensors]
    yield "GGUF", "old.gguf", gguf(tensors), "new.gguf", gguf(moved_tensors, alignment=64)


@functools.lru_cache(maxsize=None)
def pairs_by_name(seed):
    return {what: rest for what, *rest in pairs(random.Random(seed))}


def with_base(tool, base_name, base, name, file, options=()):
    """An archive of lmc-st comes back with the base as it is and as an archive, and not without it."""
    directory = Directory(tool, "kinds")
    base_path = directory.write(base_name, base)
    path = converted(directory, name, file, "--base", base_path, *options)
    archive = lmc_archive.opened(lmc_archive.read(path))
    if archive.bases is None or FILE not in {link.place for link in archive.bases.links.values()}:
        return "nothing has a base"
    wrong = judged(tool, path, file)
    converted(directory, base_name, base, *options)
    wrong = wrong or os.path.exists(base_path) or judged(tool, path, file)
    os.rename(base_path + ".lmc", directory.at("elsewhere"))
    wrong = wrong or judged(tool, path, None) or judged(tool, path, file, directory.at("elsewhere"))
    for what, other in (("cut", base[:-1]), ("longer", base + b"\0"), ("nothing", b""), ("zeros", bytes(len(base)))):
        directory.write(base_name, other)
        refusal = judged(tool, path, None)
        wrong = wrong or refusal and f"base: {what}: {refusal}"
    return wrong


# Forged and damaged ones


def altered(rng, file):
    """With a few bytes changed, put in or left out, most of them in the file's first or last bytes."""
    data = bytearray(file)
    for _ in range(rng.randrange(1, 4)):
        near = rng.randrange(min(len(data), rng.choice((30, 200, len(data)))))
        at = near if rng.random() < 0.5 else len(data) - 1 - near
        nbytes = rng.choice((0, 0, 1, 4))
        new = rng.choice((bytes(nbytes), rng.randbytes(nbytes), b"\xff" * nbytes, b"\1"))
        data[at : at + rng.choice((nbytes, 1))] = new
    return bytes(data)


def same_tensors_or_refused(tool, name, data):
    """Of a plain file: lmc-st refuses to convert a file that cannot be followed, which then is raw."""
    directory = Directory(tool, "kinds")
    kind, _ = find_places(data)
    try:
        path = converted(directory, name, data)
    except ValueError as error:
        return None if kind == RAW else f"{error} The document says: kind {kind}"
    return same_tensors(path, data) or judged(tool, path, data)


def damaged(tool, archive, rng):
    """What is wrong with the verdicts on the archive with a bit turned at one place, for many places. Where a frame is
    damaged, both name its tensor."""
    whole = lmc_archive.opened(archive)
    frames = [(frame.begin + whole.file.data_start, frame.end + whole.file.data_start, tensor.name)
              for frame, tensor in zip(whole.frames, whole.tensors)]
    wrong = []
    for place in sorted(rng.sample(range(len(archive)), min(DAMAGE_COUNT, len(archive)))):
        name = next((name for begin, end, name in frames if begin <= place < end), "")
        turned = bytearray(archive)
        turned[place] ^= 1 << rng.randrange(8)
        wrong += [f"byte {place}: {what}" for what in refusals(tool, bytes(turned), name)]
    return "; ".join(wrong[:5]) or None


def refusals(tool, archive, name):
    """What is wrong with them."""
    try:
        lmc_archive.restore(archive)
        yield "the reference reader accepts it"
    except LmcError as error:
        if name not in str(error):
            yield f"the reference reader: {error}"
    done = tool.run("verify", tool.file("case.lmc", archive))
    if done.returncode != 1 or name.encode() not in done.stdout + done.stderr:
        yield f"lmc-st verify: {done.returncode} {done.stderr.decode(errors='replace')}"


# Tests: what is wrong is None

with open(os.path.join(ROOT, "docs", "archive.md"), encoding="utf-8") as _file:
    EXAMPLE, EXAMPLE_CONTENT = example(_file.read())
FILES = [(kind, name) for kind, name, _ in archive_containers.files(random.Random(0))]
PAIRS = [what for what, *_ in pairs(random.Random(0))]


def test_example(tool):
    assert forged(tool, EXAMPLE, EXAMPLE_CONTENT) is None


def test_what_the_tool_makes_of_the_example(tool):
    path = converted(Directory(tool, "kinds"), "example.npy", EXAMPLE_CONTENT)
    assert judged(tool, path, EXAMPLE_CONTENT) is None
    assert same_tensors(path, EXAMPLE_CONTENT) is None


@pytest.mark.parametrize("kind, name", FILES)
def test_archive(tool, seed, kind, name):
    original = originals(seed)[kind, name]
    path = converted(Directory(tool, "kinds"), f"file.{kind}", original)
    assert judged(tool, path, original) is None
    assert same_tensors(path, original) is None


@pytest.mark.parametrize("kind", archive_containers.KINDS)
def test_tensors_of_altered_files(tool, seed, kind):
    rng = random.Random(seed)
    files = [file for (of_kind, _), file in originals(seed).items()
             if of_kind == kind and len(file) < 10**6]
    wrong = []
    for i in range(ALTERED_COUNT):
        data = altered(rng, rng.choice(files))
        if not is_safetensors(data):
            problem = same_tensors_or_refused(tool, "file." + kind, data)
            wrong += [f"{i}: {problem}"] if problem else []
    assert not wrong


@pytest.mark.parametrize("descr", [order + number for order in "<|"
                                   for number in ("u1", "i2", "f4", "c16", "M8", "V3")])
def test_order_of_numpy_elements(tool, descr):
    data = npy(bytes(64), f"'{descr}'", (2,))
    assert same_tensors_or_refused(tool, "file.npy", data) is None


@pytest.mark.parametrize("depth", [1, 8, 9])
def test_gguf_arrays_within_each_other(tool, depth):
    array_of_arrays, array_of_bytes = (struct.pack("<IQ", kind, 1) for kind in (9, 0))
    value = gguf_value(b"deep", 9, array_of_arrays * (depth - 1) + array_of_bytes + b"x")
    data = gguf([(b"a", 0, [2], b"two f32!")], [value])
    assert (find_places(data)[0] == RAW) == (depth > 8)
    assert same_tensors_or_refused(tool, "file.gguf", data) is None


def aligned_to(number, kind=4):
    return gguf_value(b"general.alignment", kind, number.to_bytes(8 if kind == 10 else 4, "little"))


@pytest.mark.parametrize("values, is_followed", [
    ([aligned_to(64), aligned_to(8)], True), ([aligned_to(8), aligned_to(64)], True),
    ([aligned_to(3), aligned_to(32)], False), ([aligned_to(32, 10)], False),
    ([gguf_value(b"none", 9, struct.pack("<IQ", 12, 0))], True),
    ([gguf_value(b"none", 9, struct.pack("<IQ", 13, 0))], False), ([gguf_value(b"a", 13, b"")], False)],
    ids=["last_8", "last_64", "first_bad", "u64", "empty_array", "empty_array_of_unknown", "unknown"])
def test_gguf_values(tool, values, is_followed):
    data = gguf([(b"a", 0, [2], b"two f32!")], values) + bytes(64)
    assert (find_places(data)[0] == GGUF) == is_followed
    assert same_tensors_or_refused(tool, "file.gguf", data) is None


@pytest.mark.parametrize("offset, count", [(0, 1), (32, 0)])
def test_gguf_tensor_behind_the_end(tool, offset, count):
    """The data would begin at 64, and begin at the end of the file."""
    data = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + gguf_string(b"a") + struct.pack("<IQIQ", 1, count, 0, offset)
    assert len(data) < 64 and find_places(data)[0] == RAW
    assert same_tensors_or_refused(tool, "file.gguf", data) is None


# The grammar of NPY headers


def test_numpy_headers(tool):
    wrong = []
    for text, is_followed in archive_npy_headers.cases():
        data = npy_of(text, bytes(96))
        problem = same_tensors_or_refused(tool, "file.npy", data)
        if problem or (find_places(data)[0] == NPY) != is_followed:
            wrong.append((text, is_followed, problem))
    assert not wrong


def test_altered_numpy_headers(tool, seed):
    rng = random.Random(seed)
    texts = [text for text, is_followed in archive_npy_headers.cases() if is_followed]
    wrong = []
    for _ in range(ALTERED_COUNT):
        text = archive_npy_headers.altered(rng, rng.choice(texts))
        problem = same_tensors_or_refused(tool, "file.npy", npy_of(text, bytes(96)))
        wrong += [f"{text}: {problem}"] if problem else []
    assert not wrong


# Limits


def same_tensors_of_large(tool, name, parts, nbytes):
    """Whether a sparse file with (place, bytes) is followed, and what is wrong. It is not restored."""
    directory = Directory(tool, "kinds")
    with open(directory.at(name), "wb") as file:
        for place, data in parts:
            file.seek(place)
            file.write(data)
        file.truncate(nbytes)
    original = lmc_archive.read(directory.at(name))
    is_followed = find_places(original)[0] != RAW
    done = tool.run("convert", directory.at(name))
    if done.returncode != 0:
        return is_followed, done.stderr if is_followed else None
    return is_followed, same_tensors(directory.at(name) + ".lmc", original)


@pytest.mark.parametrize("end, is_followed", [(GGUF_INFOS_END_MAX, True), (GGUF_INFOS_END_MAX + 1, False)])
def test_longest_gguf_infos(tool, end, is_followed):
    """The metadata is one long string, of holes."""
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + gguf_value(b"s", 8, b"")
    info = gguf_string(b"a") + struct.pack("<IQIQ", 1, 2, 0, 0)
    parts = [(0, head + struct.pack("<Q", end - len(info) - len(head) - 8)), (end - len(info), info)]
    assert same_tensors_of_large(tool, "file.gguf", parts, end + 40) == (is_followed, None)


@pytest.mark.parametrize("nbytes", [2047, 2048])
def test_gguf_data_behind_the_end(tool, nbytes):
    """Tensors without bytes, at the end of the file and behind it."""
    data = gguf([(b"a", 0, [0], b""), (b"b", 9999, [4], b"")], alignment=2048)[:nbytes]
    assert find_places(data) == (GGUF, [] if nbytes < 2048 else [(2048, 0)] * 2)
    assert same_tensors_or_refused(tool, "file.gguf", data) is None


@pytest.mark.parametrize("is_last", [False, True])
def test_most_zip_entries(tool, is_last):
    """A directory of holes that has one entry too many: at the end of the file, or before a ZIP file with an array."""
    count = ZIP_ENTRY_COUNT_MAX + 1
    end = archive_containers.zip64_end(count, 46 * count)
    end += b"" if is_last else zipped([("w.npy", npy(bytes(80)))])
    parts = [(0, b"PK\1\2"), (46 * count, end)]
    assert same_tensors_of_large(tool, "file.zip", parts, 46 * count + len(end)) == (not is_last, None)


@pytest.mark.parametrize("more", [0, 1])
def test_most_zips(tool, more):
    """Those before the last ones are skeleton."""
    data = zipped([("w.npy", npy(bytes(80)))]) + zipped([("a", b"")]) * (ZIP_COUNT_MAX - 1 + more)
    begin = 30 + len("w.npy") + len(npy(b"", shape=(20,)))
    archive = lmc_archive.opened(lmc_archive.read(converted(Directory(tool, "kinds"), "file.zip", data)))
    found = archive.layout.kind, archive.layout.places(tensor.nbytes for tensor in archive.tensors)
    assert found == find_places(data) == (ZIP, [] if more else [(begin, 80)])


@pytest.mark.parametrize("nbytes", [0, 7, 8, 1001, PIECE_NBYTES, PIECE_NBYTES + 7])
def test_raw(tool, seed, nbytes):
    original = (noise(random.Random(seed), 1001) * (nbytes // 1001 + 1))[:nbytes]
    path = converted(Directory(tool, "kinds"), "file.bin", original, "--raw")
    assert judged(tool, path, original) is None
    assert same_tensors(path, original) is None


def test_raw_with_base(tool, seed):
    rng = random.Random(seed)
    old, new = array(rng, weights(rng, 12000))
    assert with_base(tool, "old.bin", b"\0" + old, "new.bin", b"\0" + new, ("--raw",)) is None


@pytest.mark.parametrize("what", PAIRS)
def test_archive_with_a_base(tool, seed, what):
    assert with_base(tool, *pairs_by_name(seed)[what]) is None


@pytest.mark.parametrize("archive, original",
                         [pytest.param(*case[1:], id=case[0]) for case in archive_kind_cases.cases()])
def test_forged_archive(tool, archive, original):
    assert forged(tool, archive, original) is None


@pytest.mark.parametrize("archive, original, files",
                         [pytest.param(*case[1:], id=case[0]) for case in archive_kind_base_cases.cases()])
def test_forged_archive_with_a_base(tool, archive, original, files):
    assert forged(tool, archive, original, files) is None


@pytest.mark.parametrize("kind, name", [("npy", "bytes behind"), ("gguf", "tensors"), ("zip", "npz"),
                                        ("zip", "two behind each other")])
def test_damage(tool, seed, kind, name):
    path = converted(Directory(tool, "kinds"), f"file.{kind}", originals(seed)[kind, name])
    assert damaged(tool, lmc_archive.read(path), random.Random(seed)) is None


def test_damage_of_a_forged_archive(tool, seed):
    assert damaged(tool, archive_kind_cases.made().build(), random.Random(seed)) is None
