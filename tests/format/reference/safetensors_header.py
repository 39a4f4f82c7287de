"""safetensors_header.py - the headers that LMC archives hold and have: section 2 of docs/archive.md, from that
document alone. A part of lmc_archive.py.
"""
import re

from lmc_reference import Corrupt, corrupt_unless

HEADER_NBYTES_MAX = 100_000_000
OPEN_MAX = 127
RANK_MAX = 1024
INTEGER_MAX = 2**64 - 1

# By number (format.md, section 2.4), with the bits of an element.
DTYPES = [
    ("U8", 8), ("BOOL", 8), ("I8", 8), ("F4", 4), ("F6_E2M3", 6), ("F6_E3M2", 6), ("F8_E5M2", 8), ("F8_E4M3", 8),
    ("F8_E8M0", 8), ("F8_E4M3FNUZ", 8), ("F8_E5M2FNUZ", 8), ("I16", 16), ("U16", 16), ("F16", 16), ("BF16", 16),
    ("I32", 32), ("U32", 32), ("F32", 32), ("C64", 64), ("I64", 64), ("U64", 64), ("F64", 64),
]
DTYPE_NUMBERS = {name: number for number, (name, _) in enumerate(DTYPES)}
DTYPE_NBITS = dict(DTYPES)


# 2. JSON: rules 2 and 5


class Number(str):
    """The text of a number: what it may be depends on where it stands."""


class Object(list):
    """The members of an object, (key, value) in the order of the text; `text` is the object's own."""

    def values_of(self, key):
        return [value for name, value in self if name == key]

    def the(self, key):
        values = self.values_of(key)
        corrupt_unless(len(values) == 1, f"{len(values)} members {key}")
        return values[0]


class Json:
    """One JSON text by RFC 8259. Strings come as str, null, true and false as None, True and False."""

    SPACE = re.compile(r"[ \t\r\n]*")
    NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
    STRING = re.compile(r'"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*)"')
    ESCAPE = re.compile(r"\\u([dD][89abAB][0-9A-Fa-f]{2})\\u([dD][c-fC-F][0-9A-Fa-f]{2})|\\u(.{4})|\\(.)")
    LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
    LITERALS = {"null": None, "true": True, "false": False}

    def __init__(self, data):
        try:
            self.text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Corrupt(f"UTF-8: {error}") from None
        self.place = 0
        self.open = 0

    def whole(self):
        value = self.value()
        self.skip_space()
        corrupt_unless(self.place == len(self.text), f"text after the value, at {self.place}")
        return value

    def skip_space(self):
        self.place = self.SPACE.match(self.text, self.place).end()

    def match(self, pattern, what):
        match = pattern.match(self.text, self.place)
        corrupt_unless(match, f"{what} expected at {self.place}")
        self.place = match.end()
        return match

    def take(self, mark):
        """Whether `mark` comes next, after white space; if so, it is taken."""
        self.skip_space()
        found = self.text.startswith(mark, self.place)
        self.place += len(mark) if found else 0
        return found

    def expect(self, mark):
        corrupt_unless(self.take(mark), f"{mark} expected at {self.place}")

    def value(self):
        self.skip_space()
        begin = self.text[self.place : self.place + 1]
        if begin == "{":
            return self.nested(self.object)
        if begin == "[":
            return self.nested(self.array)
        if begin == '"':
            return self.string()
        for word, value in self.LITERALS.items():
            if self.take(word):
                return value
        return Number(self.match(self.NUMBER, "a value").group())

    def nested(self, read):
        self.open += 1
        corrupt_unless(self.open <= OPEN_MAX, "too many objects and arrays open at once")
        value = read()
        self.open -= 1
        return value

    def object(self):
        begin = self.place
        members = Object()
        self.expect("{")
        if not self.take("}"):
            members.append(self.member())
            while self.take(","):
                members.append(self.member())
            self.expect("}")
        members.text = self.text[begin : self.place]
        return members

    def member(self):
        self.skip_space()
        key = self.string()
        self.expect(":")
        return key, self.value()

    def array(self):
        self.expect("[")
        if self.take("]"):
            return []
        values = [self.value()]
        while self.take(","):
            values.append(self.value())
        self.expect("]")
        return values

    def string(self):
        return self.ESCAPE.sub(self.unescape, self.match(self.STRING, "a string").group(1))

    def unescape(self, match):
        high, low, code, letter = match.groups()
        if high:
            return chr(0x10000 + ((int(high, 16) & 0x3FF) << 10 | int(low, 16) & 0x3FF))
        if code:
            corrupt_unless(not 0xD800 <= int(code, 16) <= 0xDFFF, "half of a pair of surrogates")
            return chr(int(code, 16))
        return self.LETTERS.get(letter, letter)


# 2. Which safetensors files are accepted


class Tensor:
    """A member of a header: rules 5 to 8."""

    def __init__(self, name, entry):
        corrupt_unless(isinstance(entry, Object), f"the entry of {name!r} is no object")
        self.name, self.entry = name, entry
        self.dtype = entry.the("dtype")
        known = is_string(self.dtype) and self.dtype in DTYPE_NBITS
        corrupt_unless(known, f"dtype of {name!r}")
        self.shape = integers(entry.the("shape"))
        corrupt_unless(len(self.shape) <= RANK_MAX, f"rank of {name!r}")
        offsets = integers(entry.the("data_offsets"))
        corrupt_unless(len(offsets) == 2, f"data_offsets of {name!r}")
        self.begin, self.end = offsets
        count = 1
        for dimension in self.shape:
            count *= dimension
            corrupt_unless(count <= INTEGER_MAX, f"elements of {name!r}")
        nbits = count * DTYPE_NBITS[self.dtype]
        corrupt_unless(nbits <= INTEGER_MAX and nbits % 8 == 0, f"bits of {name!r}")
        corrupt_unless(nbits // 8 == self.end - self.begin, f"size of {name!r}")

    @property
    def nbytes(self):
        return self.end - self.begin


def is_string(value):
    return isinstance(value, str) and not isinstance(value, Number)


def integers(values):
    """Rule 7."""
    corrupt_unless(isinstance(values, list) and not isinstance(values, Object), "no array of integers")
    for value in values:
        plain = isinstance(value, Number) and value.isdigit() and len(value) <= 20 and int(value) <= INTEGER_MAX
        corrupt_unless(plain, f"no plain integer: {value}")
    return [int(value) for value in values]


class Header:
    """A header in front of `data_nbytes` bytes: `tensors` in the order of data, `metadata` an Object or None."""

    def __init__(self, text, data_nbytes):
        corrupt_unless(1 <= len(text) <= HEADER_NBYTES_MAX, "length of a header")
        members = Json(text).whole()
        corrupt_unless(isinstance(members, Object), "a header is no object")
        names = [name for name, _ in members]
        corrupt_unless(len(set(names)) == len(names), "a name stands twice")
        self.metadata = None
        for value in members.values_of("__metadata__"):
            self.metadata = checked_metadata(value)
        tensors = [Tensor(name, entry) for name, entry in members if name != "__metadata__"]
        self.tensors = sorted(tensors, key=lambda tensor: (tensor.begin, tensor.end))
        place = 0
        for tensor in self.tensors:
            corrupt_unless(tensor.begin == place, f"{tensor.name!r} begins at {tensor.begin}, not {place}")
            place = tensor.end
        corrupt_unless(place == data_nbytes, f"tensors of {place} bytes in {data_nbytes}")


def checked_metadata(value):
    """Rule 4."""
    if value is None:
        return None
    corrupt_unless(isinstance(value, Object), "__metadata__ is no object")
    strings = all(is_string(item) for _, item in value)
    corrupt_unless(strings, "__metadata__ has more than strings")
    corrupt_unless(len({key for key, _ in value}) == len(value), "a key of __metadata__ stands twice")
    return value
