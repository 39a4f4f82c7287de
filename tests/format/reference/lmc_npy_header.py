"""Headers of NPY files, for the reference reader of archives: docs/archive.md, section 8.4. What an array takes; its
dtype and shape are not kept."""
import re

INTEGER_MAX = 2**64 - 1
NUMBER_MAX = 2**63 - 1
LISTS_MAX = 16
KEYS = {b"descr", b"fortran_order", b"shape"}
TOKEN = re.compile(rb"""[ \n]*(?:(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<number>[0-9]+)"""
                   rb"|(?P<mark>True|False|[][(){}:,L]))", re.S)
WORD = re.compile(rb"([<>|])([biufcmMSUV])([0-9]+)(\[.*\])?", re.S)
WIDE = b"i2 i4 i8 u2 u4 u8 f2 f4 f8 c8 c16 M8 m8".split()  # not behind a bar


class Malformed(Exception):
    """No header that an NPY file may have."""


def array_nbytes(text):
    """Bytes of the array whose header is this text; None if it has objects."""
    header = Header(text)
    header.expect(b"{")
    found = dict(header.items(b"}", header.member))
    if header.tokens[header.place:] != [END] or header.seen != KEYS:
        raise Malformed("header")
    item_nbytes, has_objects = found[b"descr"]
    return None if has_objects else fitting(item_nbytes * found[b"shape"])


def fitting(number):
    if number > INTEGER_MAX:
        raise Malformed("a product or a sum")
    return number


def tokens_of(text):
    """(kind, bytes); END is the last one."""
    place, tokens = 0, []
    end = len(text.rstrip(b" \n"))
    while place < end:
        found = TOKEN.match(text, place, end)
        if not found:
            raise Malformed("token")
        tokens.append((found.lastgroup, found[found.lastgroup]))
        place = found.end()
    return tokens + [END]


END = ("end", b"")


class Header:
    def __init__(self, text):
        self.tokens = tokens_of(text)
        self.place = 0
        self.seen = set()

    def take(self, kind):
        found, text = self.tokens[self.place]
        if found != kind:
            raise Malformed(f"{kind} expected")
        self.place += 1
        return text

    def accept(self, mark):
        found = self.tokens[self.place] == ("mark", mark)
        self.place += found
        return found

    def expect(self, mark):
        if not self.accept(mark):
            raise Malformed(f"{mark.decode()} expected")

    def items(self, end, item):
        """What `item` reads, again and again, up to the end mark. A comma may be behind the last one."""
        found = []
        while not self.accept(end):
            found.append(item())
            if not self.accept(b","):
                self.expect(end)
                break
        return found

    def member(self):
        key = self.take("text")[1:-1]
        self.expect(b":")
        if key not in KEYS or key in self.seen:
            raise Malformed(f"key {key}")
        self.seen.add(key)
        if key == b"fortran_order":
            return key, self.accept(b"True") or self.expect(b"False")
        return key, self.descr() if key == b"descr" else self.count()

    def count(self):
        """Elements of a shape."""
        self.expect(b"(")
        begin = self.place
        dimensions = self.items(b")", self.dimension)
        if len(dimensions) == 1 and self.tokens[self.place - 2] != ("mark", b","):
            raise Malformed(f"a number, not a shape, at token {begin}")
        product = 1
        for dimension in dimensions:
            product = fitting(product * dimension)
        return product

    def dimension(self):
        number = number_of(self.take("number"))
        self.accept(b"L")  # of Python 2
        return number

    def descr(self, depth=0):
        """Bytes of an element, and whether it has objects."""
        if self.accept(b"["):
            if depth == LISTS_MAX:
                raise Malformed("lists within each other")
            fields = self.items(b"]", lambda: self.field(depth + 1))
            return fitting(sum(nbytes for nbytes, _ in fields)), any(has_objects for _, has_objects in fields)
        word = self.take("text")[1:-1]
        return (0, True) if word == b"|O" else (item_nbytes(word), False)

    def field(self, depth):
        self.expect(b"(")
        if self.accept(b"("):
            self.take("text")
            self.expect(b",")
            self.take("text")
            self.expect(b")")
        else:
            self.take("text")
        self.expect(b",")
        nbytes, has_objects = self.descr(depth)
        count = self.count() if self.accept(b",") else 1
        self.expect(b")")
        return fitting(nbytes * count), has_objects


def number_of(digits):
    """Of any length: Python converts no more than some thousand digits."""
    digits = digits.lstrip(b"0")
    if len(digits) > 20 or int(digits or b"0") > NUMBER_MAX:
        raise Malformed("number")
    return int(digits or b"0")


def item_nbytes(word):
    found = WORD.fullmatch(word)
    if not found:
        raise Malformed(f"descr {word}")
    order, kind, digits, unit = found.groups()
    number = number_of(digits)
    if unit is not None and kind not in b"mM" or order == b"|" and kind + b"%d" % number in WIDE:
        raise Malformed(f"descr {word}")
    return fitting(number * (4 if kind == b"U" else 1))
