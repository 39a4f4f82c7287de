"""Safetensors files, good and bad, with the verdict that lmc-st must give on each.

Every rule of docs/archive.md, section 2, is here from both sides. `official` is the verdict of the
safetensors package 0.8 where it differs; each difference is a documented choice.
"""
import json
import struct
from collections import namedtuple

Header = namedtuple("Header", "name content is_good cause official")
U64_MAX = 2**64 - 1
HEADER_MAX = 100_000_000


def raw(header, data=b"", length=None):
    """A file of a header text and data; `length` may lie."""
    if isinstance(header, str):
        header = header.encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def entry(dtype="U8", shape="[4]", offsets="[0,4]"):
    return '{"dtype":"%s","shape":%s,"data_offsets":%s}' % (dtype, shape, offsets)


def one(value, data=b"abcd", name='"a"'):
    return raw("{%s:%s}" % (name, value), data)


def pair(first, second, data=b"abcdefgh"):
    return raw('{"a":%s,"b":%s}' % (first, second), data)


CASES = []


def good(name, content, official=True):
    CASES.append(Header(name, content, True, "", official))


def bad(name, content, cause, official=False):
    CASES.append(Header(name, content, False, cause, official))


def nested(depth, opening="[", closing="]"):
    return opening * depth + closing * depth


# ---- length and frame of the header ----
good("plain", one(entry()))
good("no_tensors", raw("{}"))
good("only_metadata", raw('{"__metadata__":{"a":"b"}}'))
good("space_before", raw(" \t\r\n{%s}" % ('"a":' + entry()), b"abcd"))
good("space_after", raw("{%s} \t\r\n  " % ('"a":' + entry()), b"abcd"))
good("space_inside", raw('{ "a" :\n{ "dtype" : "U8" , "shape" : [ 4 ] , "data_offsets" : [ 0 , 4 ] } }', b"abcd"))
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
bad("length_too_short", raw('{"a":%s}' % entry(), b"abcd", 20), "")
bad("text_after_brace", raw("{}x"), "follows the header")
bad("nul_after_brace", raw("{}\0"), "follows the header")
bad("second_object", raw("{}{}"), "follows the header")
bad("byte_order_mark", raw("\ufeff{}"), "")
bad("array_header", raw("[]"), "")
bad("string_header", raw('"a"'), "")
bad("null_header", raw("null"), "")
bad("spaces_only", raw("        "), "")
bad("unclosed", raw('{"a":' + entry(), b"abcd"), "malformed")
bad("trailing_comma", raw('{"a":%s,}' % entry(), b"abcd"), "a string is expected")
bad("leading_comma", raw('{,"a":%s}' % entry(), b"abcd"), "a string is expected")
bad("comment", raw('{/**/"a":%s}' % entry(), b"abcd"), "a string is expected")
bad("single_quotes", raw("{'a':%s}" % entry(), b"abcd"), "a string is expected")
bad("no_colon", raw('{"a" %s}' % entry(), b"abcd"), "':' is expected")
bad("vertical_tab", raw('{\x0b"a":%s}' % entry(), b"abcd"), "a string is expected")

# ---- text ----
good("utf8_name", raw('{"\u00e4\u20ac\U0001f600":%s}' % entry(), b"abcd"))
good("escaped_name", one(entry(), name=r'"\u0041\n\t\"\\\/\b\f\r"'))
good("nul_in_name", one(entry(), name=r'"a\u0000b"'))
good("empty_name", one(entry(), name='""'))
good("surrogate_pair", one(entry(), name=r'"\ud83d\ude00"'))
good("path_name", one(entry(), name='"../../etc/passwd"'))
good("long_name", one(entry(), name='"%s"' % ("x" * 70000)))
good("del_in_name", one(entry(), name='"\x7f"'))
bad("invalid_utf8", raw(b'{"\xff":' + entry().encode() + b"}", b"abcd"), "UTF-8")
bad("overlong_utf8", raw(b'{"\xc0\xaf":' + entry().encode() + b"}", b"abcd"), "UTF-8")
bad("overlong_utf8_3", raw(b'{"\xe0\x80\xaf":' + entry().encode() + b"}", b"abcd"), "UTF-8")
bad("utf8_surrogate", raw(b'{"\xed\xa0\x80":' + entry().encode() + b"}", b"abcd"), "UTF-8")
bad("utf8_above_10ffff", raw(b'{"\xf4\x90\x80\x80":' + entry().encode() + b"}", b"abcd"), "UTF-8")
bad("utf8_cut", raw(b'{"\xe2\x82":' + entry().encode() + b"}", b"abcd"), "UTF-8")
bad("utf8_outside_string", raw(b'{\xc3\xa4"a":' + entry().encode() + b"}", b"abcd"), "")
bad("lone_high_surrogate", one(entry(), name=r'"\ud800"'), "surrogate")
bad("lone_low_surrogate", one(entry(), name=r'"\udc00"'), "surrogate")
bad("high_then_letter", one(entry(), name=r'"\ud800x"'), "surrogate")
bad("high_then_high", one(entry(), name=r'"\ud800\ud800"'), "surrogate")
bad("bad_escape", one(entry(), name=r'"\x41"'), "escape")
bad("short_escape", one(entry(), name=r'"\u41"'), "escape")
bad("bad_hex", one(entry(), name=r'"\u00g1"'), "escape")
bad("raw_newline", one(entry(), name='"a\nb"'), "control character")
bad("raw_nul", one(entry(), name='"a\0b"'), "control character")
bad("unclosed_string", raw('{"a'), "does not end")

# ---- entries ----
good("unknown_key", one('{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":[1,{"y":null}]}'))
good("unknown_key_float", one('{"x":-1.5e-3,"dtype":"U8","shape":[4],"data_offsets":[0,4]}'))
good("unknown_keys_twice", one('{"x":1,"x":2,"dtype":"U8","shape":[4],"data_offsets":[0,4]}'))
good("keys_in_other_order", one('{"data_offsets":[0,4],"shape":[4],"dtype":"U8"}'))
good("escaped_key", one(r'{"d\u0074ype":"U8","shape":[4],"data_offsets":[0,4]}'))
good("escaped_dtype", one(r'{"dtype":"\u00558","shape":[4],"data_offsets":[0,4]}'))
good("nested_125", one('{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":%s}' % nested(125)))
bad("nested_126", one('{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":%s}' % nested(126)), "nested")
bad("nested_100000", one('{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":%s}' % nested(100000)), "nested")
bad("nested_objects", one('{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":%s}'
                          % nested(5000, '{"":', "}")), "nested")
bad("array_entry", one('["U8",[4],[0,4]]'), "not an object", official=True)
bad("null_entry", one("null"), "not an object")
bad("number_entry", one("1"), "not an object")
bad("empty_entry", one("{}"), "lacks")
bad("no_dtype", one('{"shape":[4],"data_offsets":[0,4]}'), "lacks")
bad("no_shape", one('{"dtype":"U8","data_offsets":[0,4]}'), "lacks")
bad("no_offsets", one('{"dtype":"U8","shape":[4]}'), "lacks")
bad("other_case_key", one('{"Dtype":"U8","shape":[4],"data_offsets":[0,4]}'), "lacks")
bad("dtype_twice", one('{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}'), "twice")
bad("shape_twice", one('{"dtype":"U8","shape":[4],"shape":[4],"data_offsets":[0,4]}'), "twice")
bad("offsets_twice", one('{"dtype":"U8","shape":[4],"data_offsets":[0,4],"data_offsets":[0,4]}'), "twice")
bad("dtype_twice_escaped", one(r'{"dtype":"U8","\u0064type":"U8","shape":[4],"data_offsets":[0,4]}'), "twice")
bad("bad_literal", one('{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":nul}'), "value is expected")
bad("bad_number", one('{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":01}'), "leading zero")
bad("number_dot", one('{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":1.}'), "malformed")
bad("number_plus", one('{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":+1}'), "value is expected")
bad("number_nan", one('{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":NaN}'), "value is expected")
bad("number_infinity", one('{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":-Infinity}'), "malformed")
bad("nested_comma", one('{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":[1,]}'), "value is expected")

# ---- dtypes ----
DTYPE_BITS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
              "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
              "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64}
for _dtype, _bits in DTYPE_BITS.items():
    good("dtype_" + _dtype, one(entry(_dtype, "[8]", "[0,%d]" % _bits), bytes(_bits)))
    if _bits % 8:
        bad("half_byte_" + _dtype, one(entry(_dtype, "[1]", "[0,1]"), b"a"), "whole bytes")
for _dtype in ("", "F128", "u8", "U8 ", "Float32", "F32" * 1000):
    bad("dtype_unknown_" + (_dtype[:8].strip() or "empty"), one(entry(_dtype)), "dtype is unknown")
bad("dtype_nul", one(entry(r"U8\u0000")), "dtype is unknown")
bad("dtype_number", one('{"dtype":8,"shape":[4],"data_offsets":[0,4]}'), "string is expected")
bad("dtype_null", one('{"dtype":null,"shape":[4],"data_offsets":[0,4]}'), "string is expected")

# ---- shapes ----
good("scalar", one(entry("F32", "[]")))
good("empty_tensor", one(entry("F32", "[0]", "[0,0]"), b""))
good("empty_big", one(entry("F32", "[0,9223372036854775808,4]", "[0,0]"), b""))
good("rank_1000", one(entry("U8", "[" + ",".join(["1"] * 999) + ",4]")))
good("rank_1024", one(entry("U8", "[" + ",".join(["1"] * 1023) + ",4]")))
bad("rank_1025", one(entry("U8", "[" + ",".join(["1"] * 1024) + ",4]")), "1024 dimensions", official=True)
bad("size_wrong", one(entry("U8", "[3]")), "shape and dtype")
bad("size_wrong_dtype", one(entry("F32", "[4]")), "shape and dtype")
bad("scalar_size", one(entry("F32", "[]", "[0,2]"), b"ab"), "shape and dtype")
bad("product_overflow", one(entry("U8", "[4294967296,4294967296]", "[0,0]"), b""), "64 bits")
bad("product_overflow_to_zero", one(entry("U8", "[9223372036854775808,4,0]", "[0,0]"), b""), "64 bits")
bad("bits_overflow", one(entry("U8", "[9223372036854775808]", "[0,0]"), b""), "64 bits")
bad("bits_overflow_f64", one(entry("F64", "[576460752303423488]", "[0,0]"), b""), "64 bits")
bad("product_wraps_to_4", one(entry("U8", "[6148914691236517205,3,4]")), "64 bits")
for _name, _number, _cause in (("float", "4.0", "plain integer"), ("exponent", "4e0", "plain integer"),
                               ("negative", "-4", "unsigned"), ("minus_zero", "-0", "unsigned"),
                               ("plus", "+4", "unsigned"), ("leading_zero", "04", "plain integer"),
                               ("string", '"4"', "unsigned"), ("null", "null", "unsigned"),
                               ("true", "true", "unsigned"), ("array", "[4]", "unsigned"),
                               ("u64_overflow", "18446744073709551616", "64 bits"),
                               ("huge", "9" * 400, "64 bits"), ("hex", "0x4", "malformed")):
    bad("dim_" + _name, one(entry("U8", "[%s]" % _number)), _cause)
    bad("end_" + _name, one(entry("U8", "[4]", "[0,%s]" % _number)), _cause)
    bad("begin_" + _name, one(entry("U8", "[4]", "[%s,4]" % _number)), _cause)
bad("shape_number", one(entry("U8", "4")), "not an array")
bad("shape_object", one(entry("U8", "{}")), "not an array")
bad("shape_null", one(entry("U8", "null")), "not an array")
bad("shape_unclosed", one(entry("U8", "[4")), "is expected")
bad("shape_comma", one(entry("U8", "[4,]")), "unsigned")

# ---- places ----
good("two", pair(entry(), entry(offsets="[4,8]")))
good("two_reversed", pair(entry(offsets="[4,8]"), entry()))
good("empty_between", raw('{"a":%s,"e":%s,"b":%s}' % (entry(), entry("F32", "[0]", "[4,4]"),
                                                      entry(offsets="[4,8]")), b"abcdefgh"))
good("empty_first", pair(entry("F32", "[0]", "[0,0]"), entry(), b"abcd"))
good("empty_last", pair(entry(), entry("F32", "[2,0]", "[4,4]"), b"abcd"))
good("three_empty", raw('{"a":%s,"b":%s,"c":%s}' % ((entry("U8", "[0]", "[0,0]"),) * 3)))
bad("offsets_reversed", one(entry("U8", "[4]", "[4,0]")), "reversed")
bad("hole_first", one(entry("U8", "[4]", "[4,8]"), b"abcdefgh"), "hole")
bad("hole_between", pair(entry(), entry(offsets="[5,9]"), b"abcdefghi"), "hole")
bad("overlap", pair(entry(), entry(offsets="[2,6]"), b"abcdef"), "overlaps")
bad("overlap_same", pair(entry(), entry(), b"abcd"), "overlaps")
bad("overlap_inside", pair(entry(), entry("U8", "[2]", "[1,3]"), b"abcd"), "overlaps")
bad("empty_inside", pair(entry(), entry("U8", "[0]", "[2,2]"), b"abcd"), "overlaps")
bad("empty_beyond", pair(entry(), entry("U8", "[0]", "[9,9]"), b"abcd"), "hole")
bad("data_short", one(entry(), b"abc"), "1 bytes are missing")
bad("data_none", one(entry(), b""), "4 bytes are missing")
bad("data_long", one(entry(), b"abcde"), "follow the last tensor")
bad("data_without_tensor", raw("{}", b"a"), "follow the last tensor")
bad("polyglot_tail", one(entry(), b"abcdPK\x03\x04" + bytes(26)), "follow the last tensor")
bad("end_far_beyond", one(entry("U8", "[2305843009213693951]", "[0,2305843009213693951]")), "missing")
bad("offsets_u64_max", one(entry("U8", "[0]", "[%d,%d]" % (U64_MAX, U64_MAX)), b""), "hole")
bad("offsets_three", one(entry("U8", "[4]", "[0,4,4]")), "two numbers")
bad("offsets_one", one(entry("U8", "[4]", "[4]")), "two numbers")
bad("offsets_empty", one(entry("U8", "[4]", "[]")), "unsigned")
bad("offsets_object", one(entry("U8", "[4]", '{"0":0,"1":4}')), "not an array")

# ---- names ----
good("names_by_case", pair(entry(), entry(offsets="[4,8]")).replace(b'"b"', b'"A"'))
good("names_nul_prefix", raw(r'{"a":%s,"a\u0000":%s}' % (entry(), entry(offsets="[4,8]")), b"abcdefgh"))
good("name_lmc_archive", one(entry(), name='"lmc.archive"'))
good("names_lmc_archive", raw('{"lmc.archive":%s,"lmc.archive~":%s}' % (entry(), entry(offsets="[4,8]")),
                              b"abcdefgh"))
bad("name_twice", raw('{"a":%s,"a":%s}' % (entry(), entry(offsets="[4,8]")), b"abcdefgh"), "this name",
    official=False)
bad("name_twice_equal", raw('{"a":%s,"a":%s}' % (entry(), entry()), b"abcd"), "this name", official=True)
bad("name_twice_escaped", raw(r'{"a":%s,"\u0061":%s}' % (entry(), entry()), b"abcd"), "this name",
    official=True)
bad("name_twice_empty", raw('{"a":%s,"a":%s}' % ((entry("U8", "[0]", "[0,0]"),) * 2)), "this name",
    official=True)

# ---- __metadata__ ----
good("metadata", raw('{"__metadata__":{"format":"pt","a":""},"a":%s}' % entry(), b"abcd"))
good("metadata_last", raw('{"a":%s,"__metadata__":{"format":"pt"}}' % entry(), b"abcd"))
good("metadata_null", raw('{"__metadata__":null,"a":%s}' % entry(), b"abcd"))
good("metadata_empty", raw('{"__metadata__":{},"a":%s}' % entry(), b"abcd"))
good("metadata_escaped", raw(r'{"\u005f_metadata__":{"a":"b"},"a":%s}' % entry(), b"abcd"))
good("metadata_like_an_archive", raw('{"__metadata__":{"format":"pt","lmc_archive":"9"},"a":%s}' % entry(), b"abcd"))
good("metadata_big", raw('{"__metadata__":{%s},"a":%s}' % (
    ",".join('"k%d":"%s"' % (i, "v" * 50) for i in range(2000)), entry()), b"abcd"))
bad("metadata_twice", raw('{"__metadata__":{},"__metadata__":{},"a":%s}' % entry(), b"abcd"), "twice")
bad("metadata_twice_escaped", raw(r'{"__metadata__":{},"\u005f_metadata__":{},"a":%s}' % entry(), b"abcd"),
    "twice")
bad("metadata_key_twice", raw('{"__metadata__":{"k":"1","k":"2"},"a":%s}' % entry(), b"abcd"), "twice",
    official=True)
bad("metadata_number", raw('{"__metadata__":{"k":1},"a":%s}' % entry(), b"abcd"), "string is expected")
bad("metadata_null_value", raw('{"__metadata__":{"k":null},"a":%s}' % entry(), b"abcd"), "string is expected")
bad("metadata_nested", raw('{"__metadata__":{"k":{}},"a":%s}' % entry(), b"abcd"), "string is expected")
bad("metadata_array", raw('{"__metadata__":[],"a":%s}' % entry(), b"abcd"), "not an object")
bad("metadata_string", raw('{"__metadata__":"pt","a":%s}' % entry(), b"abcd"), "not an object")
bad("metadata_entry", raw('{"__metadata__":%s,"a":%s}' % (entry(), entry()), b"abcd"), "string is expected")

# ---- wrong files ----
bad("git_lfs", b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 9\n", "git-lfs")
bad("html", b"<!DOCTYPE html>\n<html><head><title>404</title></head></html>\n", "HTML")
bad("html_space", b"\n\n  <html></html>           ", "HTML")
bad("pickle", b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01K\x01u." + bytes(40), "pickle")
bad("pickle_4", b"\x80\x04\x95\x0b\0\0\0\0\0\0\0}\x94\x8c\x01a\x94K\x01s.", "pickle")
bad("zip", b"PK\x03\x04\x14\0\0\0\0\0" + bytes(16) + b"\x10\0\0\0archive/data.pkl" + bytes(30), "zip")
bad("npz", b"PK\x03\x04\x14\0\0\0\0\0" + bytes(16) + b"\x05\0\0\0a.npy" + bytes(60), "npz")
bad("npy", b"\x93NUMPY\x01\0v\0" + bytes(80), "npy")
bad("gguf", b"GGUF\x03\0\0\0" + bytes(40), "GGUF")
bad("gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + bytes(40), "gzip")
bad("hdf5", b"\x89HDF\r\n\x1a\n" + bytes(40), "HDF5")
bad("json_index", json.dumps({"metadata": {}, "weight_map": {"a": "b.safetensors"}}).encode(), "JSON")
bad("zeros", bytes(1000), "length is 0")
bad("ones", b"\xff" * 1000, "100,000,000")

# ---- attacks: each must be refused within a second in 2 GiB of address space ----
bad("bomb_numbers", one('{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":[%s0}' % ("0," * 5_000_000)),
    "is expected")
bad("bomb_shape", one(entry("U8", "[" + "1," * 4_000_000 + "4]")), "1024 dimensions", official=True)
bad("bomb_same_bytes", raw("{" + ",".join('"%d":%s' % (i, entry()) for i in range(100_000)) + "}", b"abcd"),
    "overlaps")
bad("bomb_duplicates", raw("{" + ",".join('"a":%s' % entry() for i in range(100_000)) + "}", b"abcd"),
    "this name", official=True)
good("many_tensors", raw("{" + ",".join('"%d":%s' % (i, entry("U8", "[0]", "[0,0]")) for i in range(50_000))
                         + "}"))
good("long_padding", raw("{}" + " " * 20_000_000))
