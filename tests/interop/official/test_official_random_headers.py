"""Many headers made by rule: the package and lmc-st must give the same verdict on each.

Most are well formed at first, then half are damaged; others are all that is one byte away from a good file.
Where the verdicts differ, a documented choice must be in the header. The headers are the same in every run; a
case that fails shows the header.
"""

import json
import os
import random
import re

import pytest

from corpus import accepted_faults, header_corpus
from official import fail_on, judge, run, write

BATCHES = 40
BATCH_SIZE = 500
ROUND_TRIPS = 4  # of a batch: files that go through an archive as well
SHARE_MIN = 0.1  # of a batch: files accepted by both, and files refused by both

LETTERS = ("a", "b", "x", " ", "\u00e9", "\u4e2d", "\U0001f600", "\u2028", "\x7f", r"\n", r"\"", r"\\", r"\/",
           r"\u0000", r"\u0061", r"\u00E9", r"\ud83d\ude00", r"\uffff")
NAMES = ("a", "b", r"\u0061", "", "lmc.archive", "dtype", "__metadata_", "layers.0.weight")
NUMBERS = ("0", "1", "4", "-0", "-1", "1.5", "1e5", "2E-7", "18446744073709551615", "18446744073709551616", "1e308",
           "1e309", "0e999", "9" * 40)
DTYPE_BITS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "F8_E4M3": 8, "F8_E8M0": 8, "BF16": 16,
              "F32": 32, "C64": 64, "I64": 64}
SPACES = ("", "", "", " ", "\n", "\t", "\r\n ")
# What damage puts in: parts of headers, and bytes that matter to a JSON reader.
PIECES = [piece.encode() for piece in (
    '"', "\\", "{", "}", "[", "]", ",", ":", " ", "\n", "\t", "\0", "\f", "\ufeff", "\u00a0", "0", "00", "-", "+",
    ".", "1e", "e5", "1e999", "null", "true", '"dtype"', '"shape"', '"data_offsets"', '"__metadata__":', '"U8"', '"u8"',
    '{"U8":null}', '["U8",[4],[0,4]]', "[0,4]", "[4]", "[]", "{}", "[[", "]]", '"a":', '"a":{', r"\ud800", r"\udc00",
    r"\u00", r"\x", "/**/", "'", "#")] + [b"\xff", b"\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]


class Maker:
    """Makes header texts from a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def chance(self, share):
        return self.random.random() < share

    def pick(self, choices):
        return self.random.choice(choices)

    def space(self):
        return self.pick(SPACES)

    def string(self):
        return '"%s"' % "".join(self.pick(LETTERS) for _ in range(self.random.randrange(5)))

    def members(self, pairs):
        """An object of (name with its quotes, value)."""
        inside = ",".join("%s%s%s:%s%s%s" % (self.space(), name, self.space(), self.space(), value, self.space())
                          for name, value in pairs)
        return "{%s}" % (inside or self.space())

    def value(self, depth=0):
        """Any JSON."""
        kind = self.random.randrange(4 if depth > 3 else 6)
        if kind == 4:
            return "[%s]" % ",".join(self.value(depth + 1) for _ in range(self.random.randrange(3)))
        if kind == 5:
            return self.members([(self.string(), self.value(depth + 1)) for _ in range(self.random.randrange(3))])
        return (self.pick(NUMBERS), self.string(), self.pick(("null", "true", "false")), "0")[kind]

    def numbers(self, values):
        return "[%s]" % ",".join(self.space() + str(value) + self.space() for value in values)

    def entry(self, begin):
        """A tensor that begins there; returns its text and its end."""
        dtype = self.pick(list(DTYPE_BITS))
        shape = [self.random.randrange(5) if self.chance(0.3) else 2 for _ in range(self.random.randrange(4))]
        count = 8 // DTYPE_BITS[dtype] if DTYPE_BITS[dtype] == 4 else 4 if DTYPE_BITS[dtype] == 6 else 1
        shape += [count] if count > 1 else []
        elements = 1
        for dimension in shape:
            elements *= dimension
        end = begin + elements * DTYPE_BITS[dtype] // 8
        offsets = [begin, end]
        if self.chance(0.03):
            offsets[self.random.randrange(2)] += self.pick((-1, 1))
        if self.chance(0.03):
            shape.insert(0, self.pick((0, 1, 1, 2**32, 2**63)))
        pairs = [('"dtype"', '{"%s":null}' % dtype if self.chance(0.01) else '"%s"' % dtype),
                 ('"shape"', self.numbers(shape)), ('"data_offsets"', self.numbers(offsets))]
        if self.chance(0.2):
            pairs.append((self.string(), self.value()))
        if self.chance(0.02):
            pairs[self.random.randrange(3)] = self.pick(pairs)
        if self.chance(0.02):
            return "[%s]" % ",".join(value for _, value in pairs), end
        self.random.shuffle(pairs)
        return self.members(pairs), end

    def header(self):
        """A header that is good in most cases, and the number of bytes of its data."""
        pairs = []
        end = 0
        for i in range(self.random.randrange(5)):
            text, end = self.entry(end)
            name = '"%s"' % self.pick(NAMES) if self.chance(0.2) else self.string()[:-1] + str(i) + '"'
            pairs.append((name, text))
        if self.chance(0.3):
            strings = [(self.string(), self.string()) for _ in range(self.random.randrange(4))]
            pairs.append(('"__metadata__"', "null" if self.chance(0.1) else self.members(strings)))
        self.random.shuffle(pairs)
        return (self.space() + self.members(pairs) + self.space()).encode(), end

    def damage(self, text):
        """Puts a piece in, takes one out, or replaces one."""
        begin = self.random.randrange(len(text) + 1)
        taken = self.pick((0, 0, 1, 1, 2, 5, 20))
        put_in = self.pick(PIECES) if taken == 0 or self.chance(0.5) else b""
        if self.chance(0.2):
            other = self.random.randrange(len(text) + 1)
            put_in = text[other:other + self.random.randrange(30)]
        return text[:begin] + put_in + text[begin + taken:]

    def file(self):
        text, nbytes = self.header()
        if self.chance(0.5):
            for _ in range(self.pick((1, 1, 1, 2, 3))):
                text = self.damage(text)
        if self.chance(0.03):
            nbytes = max(0, nbytes + self.pick((-1, 1)))
        length = len(text) + self.pick((-1, 1, 8, 10**8)) if self.chance(0.02) else len(text)
        return header_corpus.raw(text, self.random.randbytes(nbytes), max(0, length))


class Members(list):
    """An object of JSON as a list of pairs, repeated names and all."""

    def repeats(self):
        names = [name for name, _ in self]
        return len(names) != len(set(names))

    def get(self, name):
        return next((value for other, value in self if other == name), None)


def choices_in(content):
    """The documented choices for which a header that the package accepts gives occasion."""
    length = int.from_bytes(content[:8], "little")
    found = set()
    header = json.loads(content[8:8 + length].decode(), object_pairs_hook=Members)
    if header.repeats():
        found.add(header_corpus.NAME_TWICE)
    for name, value in header:
        if name == "__metadata__":
            if isinstance(value, Members) and value.repeats():
                found.add(header_corpus.METADATA_KEY_TWICE)
        elif not isinstance(value, Members):
            found.add(header_corpus.ENTRY_ARRAY)
        elif isinstance(value.get("dtype"), Members):
            found.add(header_corpus.DTYPE_OBJECT)
    return found


def is_explained(content, verdict):
    """Whether a difference is a documented choice; the verdict is the package's."""
    if verdict.is_good:
        return bool(choices_in(content))
    return "number out of range" in verdict.message


def verdicts_of_tool(tool, paths):
    """{path: True or False} as `lmc-st verify` has it, in one run for all files; None where it says nothing."""
    done = run(tool, "verify", "-v", *paths)
    told = {}
    for line in done.stderr.splitlines():
        match = re.match(r"(lmc-st: )?(?:.*?/)?(h\d+): ", line)
        if match:
            told[match.group(2)] = match.group(1) is None
    return done.returncode, {path: told.get(os.path.basename(path)) for path in paths}


def compare(tool, folder, contents):
    """Both verdicts on each. Returns the faults, what both accept as (path, verdict), and how many both refuse."""
    files = {write(os.path.join(folder, "h%05d" % i), content): content for i, content in enumerate(contents)}
    status, told = verdicts_of_tool(tool, list(files))
    faults = [] if status in (0, 1) else [f"lmc-st verify: exit status {status}"]
    accepted = []
    refused = 0
    for path, content in files.items():
        verdict = judge(content)
        if told[path] is None:
            faults.append(f"lmc-st said nothing of {content!r}")
        elif told[path] and verdict.is_good:
            accepted.append((path, verdict))
        elif told[path] == verdict.is_good:
            refused += 1
        elif not is_explained(content, verdict):
            faults.append(f"lmc-st: {told[path]}, the package: {verdict.is_good} {verdict.message}: {content!r}")
    return faults, accepted, refused


def batch_faults(tool, folder, seed):
    maker = Maker(seed)
    faults, accepted, refused = compare(tool, folder, [maker.file() for _ in range(BATCH_SIZE)])
    yield from faults
    if min(len(accepted), refused) < SHARE_MIN * BATCH_SIZE:
        yield f"{len(accepted)} files accepted by both, {refused} refused: too few to mean something"
    for path, verdict in accepted[:ROUND_TRIPS]:
        done = run(tool, "convert", path, "-f", "-q", "--no-fsync", "-o", path + ".lmc")
        if done.returncode != 0:
            yield f"convert: exit status {done.returncode}: {done.stderr.strip()}"
        else:
            yield from accepted_faults(tool, path, verdict)


# A good file with something of every kind; each of its bytes is cut off, left out, doubled, replaced.
NEAR = header_corpus.raw(r'{"__metadata__":{"k":"v\u00e9"},"\ud83d\ude00":{"dtype":"F32","shape":[1,2],'
                        r'"data_offsets":[4,12],"x":[-1.5e-3,null]}'
                        r',"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}', b"abcdefghijkl")
NEIGHBOURS = {
    "cut": lambda i: NEAR[:i],
    "left_out": lambda i: NEAR[:i] + NEAR[i + 1:],
    "left_out_of_header": lambda i: header_corpus.raw(NEAR[8:8 + i] + NEAR[9 + i:-12], NEAR[-12:]),
    "doubled": lambda i: header_corpus.raw(NEAR[8:9 + i] + NEAR[8 + i:-12], NEAR[-12:]),
}
for _byte in b'"\\{}[],: \n0-.exu\0\x1f\x7f\x80\xff':
    NEIGHBOURS["0x%02x" % _byte] = lambda i, byte=_byte: NEAR[:i] + bytes([byte]) + NEAR[i + 1:]


def neighbour_faults(tool, folder, change):
    faults, accepted, refused = compare(tool, folder, [NEAR] + [change(i) for i in range(len(NEAR))])
    yield from faults
    if not accepted or not refused:
        yield f"{len(accepted)} files accepted by both, {refused} refused"


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_near(tool, directory, name):
    fail_on(neighbour_faults(tool, directory, NEIGHBOURS[name]))


@pytest.mark.parametrize("seed_of_batch", range(BATCHES))
def test_batch(tool, directory, seed_of_batch):
    fail_on(batch_faults(tool, directory, seed_of_batch))
