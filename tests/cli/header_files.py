"""Parts from which the header corpus is made: files of a header text and data, and the list of cases.

`choice` of a case says why its verdict differs from that of the safetensors package 0.8: it is one of
CHOICES, in the words of docs/archive.md, section 2. Without one the verdicts are the same.
"""
import struct
from collections import namedtuple

U64_MAX = 2**64 - 1
HEADER_MAX = 100_000_000

ENTRY_ARRAY = "an entry in array form"
DTYPE_OBJECT = "a dtype in object form"
NAME_TWICE = "a repeated name"
METADATA_KEY_TWICE = "a repeated key in `__metadata__`"
RANK = "a rank above 1024"
HUGE_NUMBER = "a number that no double holds"
CHOICES = (ENTRY_ARRAY, DTYPE_OBJECT, NAME_TWICE, METADATA_KEY_TWICE, RANK, HUGE_NUMBER)


class Header(namedtuple("Header", "name content is_good cause choice")):
    """A file, the verdict that lmc-st must give, and a part of its message."""

    @property
    def official(self):
        """The verdict of the package."""
        return self.is_good == (self.choice is None)


CASES = []


def good(name, content, choice=None):
    CASES.append(Header(name, content, True, "", choice))


def bad(name, content, cause, choice=None):
    CASES.append(Header(name, content, False, cause, choice))


def raw(header, data=b"", length=None):
    """A file of a header text and data; `length` may lie."""
    if isinstance(header, str):
        header = header.encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def entry(dtype="U8", shape="[4]", offsets="[0,4]"):
    return '{"dtype":"%s","shape":%s,"data_offsets":%s}' % (dtype, shape, offsets)


def extra(members):
    """A tensor with members that are to be ignored."""
    return one('{"dtype":"U8","shape":[4],"data_offsets":[0,4],%s}' % members)


def ignored(value):
    return extra('"x":' + value)


def one(value, data=b"abcd", name='"a"'):
    return raw("{%s:%s}" % (name, value), data)


def one_bytes(name, data=b"abcd"):
    """A tensor whose name is these bytes, UTF-8 or not."""
    return raw(b'{"' + name + b'":' + entry().encode() + b"}", data)


def pair(first, second, data=b"abcdefgh"):
    return raw('{"a":%s,"b":%s}' % (first, second), data)


def nested(depth, opening="[", closing="]"):
    return opening * depth + closing * depth
