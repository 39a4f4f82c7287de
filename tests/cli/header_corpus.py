"""Safetensors files, good and bad, with the verdict that lmc-st must give on each.

Every rule of docs/archive.md, section 2, is here from both sides: tensors, places and wrong files in this
file, the text of headers in header_corpus_text.py. tests/official holds each against the safetensors package.
"""
import json

import header_corpus_text  # noqa: F401  adds its cases to CASES
from header_files import (CASES, DTYPE_OBJECT, ENTRY_ARRAY, METADATA_KEY_TWICE, NAME_TWICE, RANK, U64_MAX, bad, entry,
                          good, ignored, one, pair, raw)

# ---- entries ----
good("keys_in_other_order", one('{"data_offsets":[0,4],"shape":[4],"dtype":"U8"}'))
good("escaped_key", one(r'{"d\u0074ype":"U8","shape":[4],"data_offsets":[0,4]}'))
good("escaped_dtype", one(r'{"dtype":"\u00558","shape":[4],"data_offsets":[0,4]}'))
bad("array_entry", one('["U8",[4],[0,4]]'), "not an object", ENTRY_ARRAY)
bad("array_entry_short", one('["U8",[4]]'), "not an object")
bad("array_entry_long", one('["U8",[4],[0,4],0]'), "not an object")
bad("array_entry_empty", one("[]"), "not an object")
bad("array_entry_other_order", one('["U8",[0,4],[4]]'), "not an object")
bad("array_entry_of_dtype_object", one('[{"U8":null},[4],[0,4]]'), "not an object", ENTRY_ARRAY)
bad("null_entry", one("null"), "not an object")
bad("number_entry", one("1"), "not an object")
bad("string_entry", one('"U8"'), "not an object")
bad("true_entry", one("true"), "not an object")
bad("entry_in_entry", one("{%s:%s}" % ('"a"', entry())), "lacks")
bad("empty_name_and_entry", one("{}", name='""'), "lacks")
bad("empty_entry", one("{}"), "lacks")
bad("no_dtype", one('{"shape":[4],"data_offsets":[0,4]}'), "lacks")
bad("no_shape", one('{"dtype":"U8","data_offsets":[0,4]}'), "lacks")
bad("no_offsets", one('{"dtype":"U8","shape":[4]}'), "lacks")
bad("other_case_key", one('{"Dtype":"U8","shape":[4],"data_offsets":[0,4]}'), "lacks")
for _key in ("dtype", "shape", "data_offsets"):
    for _wrong in (_key.upper(), _key + " ", " " + _key, _key[:-1], _key + r"\u0000", _key[:-1] + "\u0435"):
        bad("key_for_%s_%s" % (_key, ascii(_wrong).strip("'")), one(entry().replace(_key, _wrong)), "lacks")
    bad("key_%s_is_null" % _key, one(entry(dtype="U8").replace('"U8"' if _key == "dtype" else "[4]" if _key == "shape"
                                                               else "[0,4]", "null")), "is")
bad("dtype_twice", one('{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}'), "twice")
bad("shape_twice", one('{"dtype":"U8","shape":[4],"shape":[4],"data_offsets":[0,4]}'), "twice")
bad("offsets_twice", one('{"dtype":"U8","shape":[4],"data_offsets":[0,4],"data_offsets":[0,4]}'), "twice")
bad("dtype_twice_escaped", one(r'{"dtype":"U8","\u0064type":"U8","shape":[4],"data_offsets":[0,4]}'), "twice")

# ---- dtypes ----
DTYPE_BITS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
              "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
              "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64}
for _dtype, _bits in DTYPE_BITS.items():
    good("dtype_" + _dtype, one(entry(_dtype, "[8]", "[0,%d]" % _bits), bytes(_bits)))
    if _bits % 8:
        bad("half_byte_" + _dtype, one(entry(_dtype, "[1]", "[0,1]"), b"a"), "whole bytes")
for _dtype in ("", "F128", "u8", "U8 ", " U8", "Float32", "F32" * 1000, "uint8", "UINT8", "BYTE", "U08", "8U", "U-8",
               "U8,U8", "U4", "I4", "U1", "I128", "U128", "C128", "C32", "C", "bool", "Bool", "BOOL8", "BF8",
               "BFLOAT16", "bf16", "B16", "FP16", "TF32", "F4_E2M1", "F6", "F8", "F8_E4M3FN",
               "F8_E4M3B11FNUZ", "F8_E8M0FNU",
               "F8-E4M3", "F8E4M3", "f8_e4m3", "F6_E3M2FN", "F8_E3M4", "Q8_0", "null", "0", "\uff358", "U\uff18"):
    bad("dtype_unknown_" + (ascii(_dtype[:16]).strip("'") or "empty"), one(entry(_dtype)), "dtype is unknown")
for _name, _dtype in (("number", "0"), ("true", "true"), ("array", '["U8"]'), ("empty_array", "[]"),
                      ("empty_object", "{}"), ("object_two", '{"U8":null,"I8":null}'), ("object_value", '{"U8":1}'),
                      ("object_object", '{"U8":{}}'), ("object_unknown", '{"U9":null}')):
    bad("dtype_as_" + _name, one('{"dtype":%s,"shape":[4],"data_offsets":[0,4]}' % _dtype), "string is expected")
bad("dtype_as_object", one('{"dtype":{"U8":null},"shape":[4],"data_offsets":[0,4]}'), "string is expected",
    DTYPE_OBJECT)
bad("dtype_as_object_spaces", one('{"dtype":{ "\\u00558" :\nnull },"shape":[4],"data_offsets":[0,4]}'),
    "string is expected", DTYPE_OBJECT)
bad("dtype_as_object_twice", one('{"dtype":{"U8":null,"U8":null},"shape":[4],"data_offsets":[0,4]}'),
    "string is expected")
bad("dtype_nul", one(entry(r"U8\u0000")), "dtype is unknown")
bad("dtype_number", one('{"dtype":8,"shape":[4],"data_offsets":[0,4]}'), "string is expected")
bad("dtype_null", one('{"dtype":null,"shape":[4],"data_offsets":[0,4]}'), "string is expected")

# ---- shapes ----
good("scalar", one(entry("F32", "[]")))
good("empty_tensor", one(entry("F32", "[0]", "[0,0]"), b""))
good("empty_big", one(entry("F32", "[0,9223372036854775808,4]", "[0,0]"), b""))
good("rank_1000", one(entry("U8", "[" + ",".join(["1"] * 999) + ",4]")))
for _shape in ("[2,2]", "[4,1]", "[1,4]", "[1,2,1,2,1]", "[ 4 ]"):
    good("shape_" + _shape, one(entry(shape=_shape)))
for _shape in ("[0,18446744073709551615]", "[18446744073709551615,0]", "[0,0,0]", "[1,0,1]",
               "[4294967295,4294967297,0]", "[0,9223372036854775808,9223372036854775808]"):
    good("empty_" + _shape, one(entry("U8", _shape, "[0,0]"), b""))
for _dtype, _shape, _nbytes in (("F4", "[3,2]", 3), ("F4", "[0]", 0), ("F6_E2M3", "[4]", 3), ("F6_E3M2", "[2,2,2]", 6),
                                ("F4", "[0,3]", 0), ("C64", "[1,1]", 8), ("F4", "[2]", 1)):
    good("packed_%s_%s" % (_dtype, _shape), one(entry(_dtype, _shape, "[0,%d]" % _nbytes), bytes(_nbytes)))
for _dtype, _shape, _nbytes in (("F4", "[3]", 1), ("F4", "[3]", 2), ("F4", "[]", 1), ("F6_E2M3", "[2]", 2),
                                ("F6_E3M2", "[]", 1), ("F4", "[7,3]", 10), ("F6_E2M3", "[5]", 4)):
    bad("packed_%s_%s_%d" % (_dtype, _shape, _nbytes), one(entry(_dtype, _shape, "[0,%d]" % _nbytes), bytes(_nbytes)),
        "whole bytes")
bad("bits_overflow_f4", one(entry("F4", "[4611686018427387904]", "[0,2305843009213693952]")), "64 bits")
bad("bits_at_limit_f4", one(entry("F4", "[4611686018427387902]", "[0,2305843009213693951]")), "missing")
bad("bits_overflow_by_rank", one(entry("F64", "[%s]" % ",".join(["16"] * 15), "[0,0]"), b""), "64 bits")
bad("product_overflow_before_zero", one(entry("U8", "[18446744073709551615,2,0]", "[0,0]"), b""), "64 bits")
bad("size_of_empty", one(entry("U8", "[0]")), "shape and dtype")
bad("size_zero", one(entry("U8", "[4]", "[0,0]"), b""), "shape and dtype")
bad("size_scalar_zero", one(entry("U8", "[]", "[0,0]"), b""), "shape and dtype")
bad("size_in_elements", one(entry("F32", "[1]", "[0,1]"), b"a"), "shape and dtype")
bad("size_in_bits", one(entry("U8", "[4]", "[0,32]"), bytes(32)), "shape and dtype")
good("rank_1024", one(entry("U8", "[" + ",".join(["1"] * 1023) + ",4]")))
bad("rank_1025", one(entry("U8", "[" + ",".join(["1"] * 1024) + ",4]")), "1024 dimensions", RANK)
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
                               ("huge", "9" * 400, "64 bits"), ("hex", "0x4", "malformed"),
                               ("underscore", "1_0", "malformed"), ("point", "4.", "plain integer"),
                               ("zeros", "00000004", "plain integer"), ("object", "{}", "unsigned"),
                               ("false", "false", "unsigned"), ("nan", "NaN", "unsigned"),
                               ("fullwidth", "\uff14", "unsigned"), ("exponent_upper", "4E+0", "plain integer"),
                               ("tenth", "40e-1", "plain integer"), ("beyond_double", "4e400", "plain integer"),
                               ("i64_min", "-9223372036854775808", "unsigned"), ("letter", "4u", "malformed"),
                               ("space", "4 0", ""), ("escape", "\\u0034", "unsigned")):
    bad("dim_" + _name, one(entry("U8", "[%s]" % _number)), _cause)
    bad("end_" + _name, one(entry("U8", "[4]", "[0,%s]" % _number)), _cause)
    bad("begin_" + _name, one(entry("U8", "[4]", "[%s,4]" % _number)), _cause)
bad("shape_number", one(entry("U8", "4")), "not an array")
bad("shape_object", one(entry("U8", "{}")), "not an array")
bad("shape_null", one(entry("U8", "null")), "not an array")
bad("shape_unclosed", one(entry("U8", "[4")), "is expected")
bad("shape_comma", one(entry("U8", "[4,]")), "unsigned")
bad("shape_leading_comma", one(entry("U8", "[,4]")), "unsigned")
bad("shape_two_commas", one(entry("U8", "[2,,2]")), "unsigned")
bad("shape_nested", one(entry("U8", "[[2,2]]")), "unsigned")
bad("shape_string", one(entry("U8", '"[4]"')), "not an array")
bad("shape_round", one(entry("U8", "(4)")), "")
bad("shape_closed_by_brace", one(entry("U8", "[4}")), "is expected")

# ---- places ----
good("two", pair(entry(), entry(offsets="[4,8]")))
good("two_reversed", pair(entry(offsets="[4,8]"), entry()))
good("empty_between", raw('{"a":%s,"e":%s,"b":%s}' % (entry(), entry("F32", "[0]", "[4,4]"),
                                                      entry(offsets="[4,8]")), b"abcdefgh"))
good("empty_first", pair(entry("F32", "[0]", "[0,0]"), entry(), b"abcd"))
good("empty_last", pair(entry(), entry("F32", "[2,0]", "[4,4]"), b"abcd"))
good("three_empty", raw('{"a":%s,"b":%s,"c":%s}' % ((entry("U8", "[0]", "[0,0]"),) * 3)))
good("four_shuffled", raw('{"a":%s,"b":%s,"c":%s,"d":%s}' % (
    entry(offsets="[12,16]"), entry(offsets="[4,8]"), entry(offsets="[0,4]"), entry(offsets="[8,12]")), bytes(16)))
good("empty_at_every_place", raw('{"a":%s,"b":%s,"c":%s,"d":%s}' % (
    entry("U8", "[0]", "[4,4]"), entry(), entry("U8", "[0]", "[0,0]"), entry("F64", "[3,0]", "[4,4]")), b"abcd"))
good("unaligned", pair(entry("U8", "[3]", "[0,3]"), entry("F32", "[1]", "[3,7]"), b"abcdefg"))
bad("reversed_empty", one(entry("U8", "[0]", "[4,0]")), "reversed")
bad("reversed_u64", one(entry("U8", "[4]", "[%d,3]" % U64_MAX)), "reversed")
bad("hole_of_one_byte", pair(entry(), entry(offsets="[5,9]"), b"abcd-efgh"), "hole")
bad("hole_at_the_end", pair(entry(), entry("U8", "[0]", "[5,5]"), b"abcde"), "hole")
bad("hole_in_empty_file", one(entry("U8", "[0]", "[1,1]"), b""), "hole")
bad("overlap_of_one_byte", pair(entry(), entry(offsets="[3,7]"), b"abcdefg"), "overlaps")
bad("overlap_of_three", raw('{"a":%s,"b":%s,"c":%s}' % (entry(offsets="[4,8]"), entry(), entry(offsets="[2,6]")),
                            b"abcdefgh"), "overlaps")
bad("overlap_same_start", pair(entry(), entry("U8", "[2]", "[0,2]"), b"abcd"), "overlaps")
bad("offsets_of_the_file", one(entry(offsets="[67,71]")), "hole")
bad("data_in_bits", one(entry("F32", "[1]", "[0,32]"), bytes(32)), "shape and dtype")
bad("data_one_more_tensor", raw('{"a":%s}' % entry(), b"abcdefgh"), "follow the last tensor")
bad("data_zeros_after", one(entry(), b"abcd" + bytes(4092)), "follow the last tensor")
bad("data_newline_after", one(entry(), b"abcd\n"), "follow the last tensor")
bad("data_newline_after_empty", raw("{}", b"\n"), "follow the last tensor")
bad("data_after_empty_tensor", one(entry("U8", "[0]", "[0,0]"), b"a"), "follow the last tensor")
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
bad("begin_empty", one(entry(offsets="[,4]")), "unsigned")
bad("end_empty", one(entry(offsets="[0,]")), "unsigned")
bad("offsets_object", one(entry("U8", "[4]", '{"0":0,"1":4}')), "not an array")
bad("offsets_null", one(entry(offsets="null")), "not an array")
bad("offsets_string", one(entry(offsets='"0,4"')), "not an array")
bad("offsets_nested", one(entry(offsets="[[0,4]]")), "unsigned")
bad("offsets_pairs", one(entry(offsets="[0,2],[2,4]")), "")
bad("offsets_comma", one(entry(offsets="[0,4,]")), "")
bad("offsets_swapped_keys", one('{"dtype":"U8","shape":[0,4],"data_offsets":[4]}'), "")

# ---- names ----
good("names_by_case", pair(entry(), entry(offsets="[4,8]")).replace(b'"b"', b'"A"'))
good("name_like_metadata", raw('{"__metadata__ ":%s,"__Metadata__":%s}' % (entry(), entry(offsets="[4,8]")),
                               b"abcdefgh"))
good("name_metadata_nul", raw(r'{"__metadata__\u0000":%s}' % entry(), b"abcd"))
good("names_of_one_prefix", raw("{%s}" % ",".join('"%s%d":%s' % ("layer." * 100, i, entry("U8", "[0]", "[0,0]"))
                                                  for i in range(1000))))
good("name_prefix_of_other", raw('{"":%s,"a":%s,"aa":%s}' % (
    entry("U8", "[1]", "[0,1]"), entry("U8", "[1]", "[2,3]"), entry("U8", "[1]", "[1,2]")), b"xyz"))
bad("name_twice_apart", raw('{"a":%s,"b":%s,"a":%s}' % (entry(), entry("U8", "[0]", "[4,4]"), entry()), b"abcd"),
    "this name", NAME_TWICE)
bad("name_twice_first_is_bad", raw('{"a":%s,"a":%s}' % (entry("U8", "[9]"), entry()), b"abcd"), "", NAME_TWICE)
bad("name_twice_first_is_null", raw('{"a":null,"a":%s}' % entry(), b"abcd"), "not an object")
bad("name_empty_twice", raw('{"":%s,"":%s}' % (entry(), entry()), b"abcd"), "this name", NAME_TWICE)
bad("name_nul_twice", raw(r'{"\u0000":%s,"\u0000":%s}' % (entry(), entry()), b"abcd"), "this name", NAME_TWICE)
bad("name_pair_twice", raw(r'{"\ud83d\ude00":%s,"%s":%s}' % (entry(), "\U0001f600", entry()), b"abcd"), "this name",
    NAME_TWICE)
good("names_nul_prefix", raw(r'{"a":%s,"a\u0000":%s}' % (entry(), entry(offsets="[4,8]")), b"abcdefgh"))
good("name_lmc_archive", one(entry(), name='"lmc.archive"'))
good("names_lmc_archive", raw('{"lmc.archive":%s,"lmc.archive~":%s}' % (entry(), entry(offsets="[4,8]")),
                              b"abcdefgh"))
bad("name_twice", raw('{"a":%s,"a":%s}' % (entry(), entry(offsets="[4,8]")), b"abcdefgh"), "this name")
bad("name_twice_equal", raw('{"a":%s,"a":%s}' % (entry(), entry()), b"abcd"), "this name", NAME_TWICE)
bad("name_twice_escaped", raw(r'{"a":%s,"\u0061":%s}' % (entry(), entry()), b"abcd"), "this name",
    NAME_TWICE)
bad("name_twice_empty", raw('{"a":%s,"a":%s}' % ((entry("U8", "[0]", "[0,0]"),) * 2)), "this name",
    NAME_TWICE)

# ---- __metadata__ ----
good("metadata", raw('{"__metadata__":{"format":"pt","a":""},"a":%s}' % entry(), b"abcd"))
good("metadata_last", raw('{"a":%s,"__metadata__":{"format":"pt"}}' % entry(), b"abcd"))
good("metadata_empty_key", raw('{"__metadata__":{"":""},"a":%s}' % entry(), b"abcd"))
good("metadata_odd_strings", raw(r'{"__metadata__":{"\u0000":"\u0000\ud83d\ude00","a\nb":"\\"},"a":%s}' % entry(),
                                 b"abcd"))
good("metadata_inside_metadata", raw('{"__metadata__":{"__metadata__":"x","a":"y"},"a":%s}' % entry(), b"abcd"))
good("metadata_between", raw('{"a":%s,"__metadata__":{"k":"v"},"b":%s}' % (entry(), entry(offsets="[4,8]")),
                             b"abcdefgh"))
good("metadata_null_alone", raw('{"__metadata__":null}'))
good("metadata_null", raw('{"__metadata__":null,"a":%s}' % entry(), b"abcd"))
good("metadata_empty", raw('{"__metadata__":{},"a":%s}' % entry(), b"abcd"))
good("metadata_escaped", raw(r'{"\u005f_metadata__":{"a":"b"},"a":%s}' % entry(), b"abcd"))
good("metadata_like_an_archive", raw('{"__metadata__":{"format":"pt","lmc_archive":"9"},"a":%s}' % entry(), b"abcd"))
good("metadata_big", raw('{"__metadata__":{%s},"a":%s}' % (
    ",".join('"k%d":"%s"' % (i, "v" * 50) for i in range(2000)), entry()), b"abcd"))
bad("metadata_twice", raw('{"__metadata__":{},"__metadata__":{},"a":%s}' % entry(), b"abcd"), "twice")
bad("metadata_twice_null", raw('{"__metadata__":null,"__metadata__":null,"a":%s}' % entry(), b"abcd"), "twice")
bad("metadata_twice_escaped", raw(r'{"__metadata__":{},"\u005f_metadata__":{},"a":%s}' % entry(), b"abcd"),
    "twice")
bad("metadata_key_twice", raw('{"__metadata__":{"k":"1","k":"2"},"a":%s}' % entry(), b"abcd"), "twice",
    METADATA_KEY_TWICE)
bad("metadata_number", raw('{"__metadata__":{"k":1},"a":%s}' % entry(), b"abcd"), "string is expected")
bad("metadata_null_value", raw('{"__metadata__":{"k":null},"a":%s}' % entry(), b"abcd"), "string is expected")
bad("metadata_nested", raw('{"__metadata__":{"k":{}},"a":%s}' % entry(), b"abcd"), "string is expected")
bad("metadata_array", raw('{"__metadata__":[],"a":%s}' % entry(), b"abcd"), "not an object")
bad("metadata_string", raw('{"__metadata__":"pt","a":%s}' % entry(), b"abcd"), "not an object")
bad("metadata_entry", raw('{"__metadata__":%s,"a":%s}' % (entry(), entry()), b"abcd"), "string is expected")
bad("metadata_true", raw('{"__metadata__":true,"a":%s}' % entry(), b"abcd"), "not an object")
bad("metadata_number_itself", raw('{"__metadata__":0,"a":%s}' % entry(), b"abcd"), "not an object")
bad("metadata_true_value", raw('{"__metadata__":{"k":true},"a":%s}' % entry(), b"abcd"), "string is expected")
bad("metadata_array_value", raw('{"__metadata__":{"k":["v"]},"a":%s}' % entry(), b"abcd"), "string is expected")
bad("metadata_pairs", raw('{"__metadata__":[["k","v"]],"a":%s}' % entry(), b"abcd"), "not an object")
bad("metadata_comma", raw('{"__metadata__":{"k":"v",},"a":%s}' % entry(), b"abcd"), "a string is expected")
bad("metadata_key_alone", raw('{"__metadata__":{"k"},"a":%s}' % entry(), b"abcd"), "is expected")
bad("metadata_escape", raw(r'{"__metadata__":{"k":"\q"},"a":%s}' % entry(), b"abcd"), "escape")
bad("metadata_surrogate", raw(r'{"__metadata__":{"k":"\udead"},"a":%s}' % entry(), b"abcd"), "surrogate")
bad("metadata_newline", raw('{"__metadata__":{"k":"\n"},"a":%s}' % entry(), b"abcd"), "control character")
bad("metadata_key_twice_escaped", raw(r'{"__metadata__":{"k":"1","\u006b":"1"},"a":%s}' % entry(), b"abcd"), "twice",
    METADATA_KEY_TWICE)
bad("metadata_null_then_object", raw('{"__metadata__":null,"__metadata__":{},"a":%s}' % entry(), b"abcd"), "twice")

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
