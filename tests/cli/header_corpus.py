"""Safetensors files, good and bad, with the verdict that lmc-st must give on each.

The table tests/unit/safetensors/headers.tsv has every rule of docs/archive.md, section 2, from both sides; a C test
holds the reader against it. Here are the files that are no header (their length lies, or they are of another kind) and
those that are too large for a table. tests/interop/official holds all of them against the safetensors package.

`choice` of a case says why its verdict differs from that of the safetensors package 0.8: it is one of CHOICES, in the
words of docs/archive.md, section 2. Without one the verdicts are the same.
"""
import io
import json
import os
import pickle
import random
import struct
import zipfile
from collections import namedtuple
from urllib.parse import unquote_to_bytes

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "unit", "safetensors", "headers.tsv")
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


FILES = []  # those of this module


def good(name, content):
    FILES.append(Header(name, content, True, "", None))


def bad(name, content, cause, choice=None):
    FILES.append(Header(name, content, False, cause, choice))


def raw(header, data=b"", length=None):
    """A file of a header text and data; `length` may lie."""
    if isinstance(header, str):
        header = header.encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def entry(dtype="U8", shape="[4]", offsets="[0,4]"):
    return '{"dtype":"%s","shape":%s,"data_offsets":%s}' % (dtype, shape, offsets)


def one(value, data=b"abcd", name='"a"'):
    return raw("{%s:%s}" % (name, value), data)


def ignored(value):
    """A tensor with a key that is to be ignored."""
    return one('{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":%s}' % value)


def nested(depth, opening="[", closing="]"):
    return opening * depth + closing * depth


def read_table():
    """The cases of the table: name, verdict, choice, part of the message, header, data; the last two with %XX."""
    with open(TABLE, encoding="ascii") as file:
        for line in file:
            name, verdict, choice, cause, header, data = line.rstrip("\n").split("\t")
            yield Header(name, raw(unquote_to_bytes(header), unquote_to_bytes(data)), verdict == "good", cause,
                         choice or None)


# ---- length ----
bad("empty_file", b"", "empty")
bad("seven_bytes", b"\x02\0\0\0\0\0\0", "fewer than 8")
bad("length_only", struct.pack("<Q", 2), "2 bytes of it are missing")
bad("length_zero", raw("", b"abcd"), "length is 0")
bad("length_zero_alone", raw(""), "length is 0")
bad("length_beyond_file", raw("{}", b"", 3), "1 bytes of it are missing")
bad("length_100_million", raw("{}", b"", HEADER_MAX), "missing")
bad("length_above_limit", raw("{}", b"", HEADER_MAX + 1), "100,000,000")
bad("length_u64_max", raw("{}", b"", U64_MAX), "100,000,000")
bad("length_sign_bit", raw("{}", b"", 1 << 63), "100,000,000")
bad("length_big_endian", struct.pack(">Q", 2) + b"{}", "100,000,000")
bad("length_of_32_bits", struct.pack("<I", 2) + b"{}      ", "100,000,000")
for _cut in (1, 7, 8, 9, 40, len(one(entry())) - 5):
    bad("cut_at_%03d" % _cut, one(entry())[:_cut], "fewer than 8" if _cut < 8 else "missing")

# ---- wrong files ----
def zip_of(name, content):
    """A zip archive with one file, as torch.save and numpy.savez make them."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, content)
    return stream.getvalue()


NPY = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + (
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }".ljust(117) + b"\n" + bytes(16))
bad("git_lfs", b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 9\n", "git-lfs")
bad("html", b"<!DOCTYPE html>\n<html><head><title>404</title></head></html>\n", "HTML")
bad("html_space", b"\n\n  <html></html>           ", "HTML")
bad("html_with_mark", b"\xef\xbb\xbf<html><body>Not found</body></html>\n", "HTML")
bad("html_short", b"<p>", "HTML")
bad("xml", b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "XML")
for _protocol in (2, 3, 4, 5):
    bad("pickle_%d" % _protocol, pickle.dumps({"weight": [1.0] * 100}, _protocol), "pickle")
bad("zip", zip_of("archive/data.pkl", pickle.dumps({})), "zip")
bad("zip_empty", b"PK\x05\x06" + bytes(18), "zip")
bad("npz", zip_of("arr_0.npy", NPY), ".npz")
bad("npy", NPY, ".npy")
bad("gguf", b"GGUF" + struct.pack("<IQQ", 3, 0, 0) + bytes(64), "GGUF")
bad("gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + bytes(40), "gzip")
bad("zstd", b"\x28\xb5\x2f\xfd\x24\x00\x01\x00\x00" + bytes(20), "zstd")
bad("xz", b"\xfd7zXZ\x00\x00\x04" + bytes(30), "xz")
bad("bzip2", b"BZh91AY&SY" + bytes(30), "bzip2")
bad("hdf5", b"\x89HDF\r\n\x1a\n" + bytes(40), "HDF5")
bad("json_index", json.dumps({"metadata": {}, "weight_map": {"a": "b.safetensors"}}, indent=2).encode(), "JSON")
bad("json_config", b'{"hidden_size": 4096}', "JSON")
bad("json_list", b'[{"name": "x"}, 1, 2, 3]', "JSON")
bad("elf", b"\x7fELF\x02\x01\x01" + bytes(100), "program")
bad("one_byte", b"x", "fewer than 8 bytes")
bad("text", b"hello, this is a text file and no model at all\n" * 10, "not a safetensors file")
bad("tar", b"model.bin".ljust(100, b"\0") + b"0000644\0".ljust(157, b"\0") + b"ustar\00000" + bytes(2000),
    "not a safetensors file")
bad("noise", b"\x01" + random.Random(3).randbytes(5000), "not a safetensors file")
bad("zeros", bytes(1000), "length is 0")
bad("ones", b"\xff" * 1000, "100,000,000")

# ---- large ones, and attacks: each must be refused within a second in 2 GiB of address space ----
good("long_name", one(entry(), name='"%s"' % ("x" * 70000)))
good("names_of_one_prefix", raw("{%s}" % ",".join('"%s%d":%s' % ("layer." * 100, i, entry("U8", "[0]", "[0,0]"))
                                                  for i in range(1000))))
good("metadata_big", raw('{"__metadata__":{%s},"a":%s}' % (
    ",".join('"k%d":"%s"' % (i, "v" * 50) for i in range(2000)), entry()), b"abcd"))
good("nested_wide", ignored("[" + ",".join([nested(124)] * 200) + "]"))
bad("nested_100000", ignored(nested(100000)), "nested")
bad("nested_objects", ignored(nested(5000, '{"":', "}")), "nested")
bad("nested_in_metadata", raw('{"__metadata__":{"k":%s}}' % nested(100000)), "string is expected")
bad("nested_in_shape", one(entry(shape=nested(100000))), "unsigned")
bad("nested_as_header", raw(nested(100000)), "")
bad("nested_as_entries", raw(nested(100000, '{"a":', "}")), "")
bad("bomb_numbers", one('{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":[%s0}' % ("0," * 5_000_000)),
    "is expected")
bad("bomb_shape", one(entry("U8", "[" + "1," * 4_000_000 + "4]")), "1024 dimensions", RANK)
bad("bomb_same_bytes", raw("{" + ",".join('"%d":%s' % (i, entry()) for i in range(100_000)) + "}", b"abcd"),
    "overlaps")
bad("bomb_duplicates", raw("{" + ",".join('"a":%s' % entry() for i in range(100_000)) + "}", b"abcd"),
    "this name", NAME_TWICE)
good("many_tensors", raw("{" + ",".join('"%d":%s' % (i, entry("U8", "[0]", "[0,0]")) for i in range(50_000))
                         + "}"))
good("long_padding", raw("{}" + " " * 20_000_000))
good("long_metadata", raw('{"__metadata__":{%s},"a":%s}' % (
    ",".join('"%d":""' % i for i in range(100_000)), entry()), b"abcd"))
bad("bomb_digits", one(entry(shape="[%s]" % ("9" * 5_000_000))), "64 bits")
bad("bomb_dtype", one(entry("U" * 5_000_000)), "dtype is unknown")
bad("bomb_escapes", one(entry(r"\u0055" * 1_000_000)), "dtype is unknown")
bad("bomb_keys", one("{%s}" % ",".join('"%d":0' % i for i in range(500_000))), "lacks")
bad("bomb_metadata_twice", raw('{"__metadata__":{%s}}' % ",".join('"k":""' for i in range(500_000))), "twice",
    METADATA_KEY_TWICE)
bad("bomb_open", raw("{" * 1_000_000), "")
bad("bomb_spaces", raw(" " * 20_000_000), "")

CASES = [*read_table(), *FILES]
