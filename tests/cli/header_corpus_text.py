"""The text of a header: its length, white space, strings and their escapes, UTF-8, numbers, nesting."""
import struct

from header_files import (HEADER_MAX, HUGE_NUMBER, U64_MAX, bad, entry, extra, good, ignored, nested, one,
                          one_bytes, raw)

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

_two = '{"__metadata__":{"k":"v"},"a":%s,"b":%s}' % (entry(), entry("F32", "[]", "[4,8]"))
_two_file = raw(_two, b"abcdefgh")
for _cut in sorted({*range(0, len(_two_file), 8), 1, 7, 9, len(_two) + 7, len(_two) + 9, len(_two_file) - 1}):
    bad("cut_at_%03d" % _cut, _two_file[:_cut],
        "empty" if _cut == 0 else "fewer than 8" if _cut < 8 else "missing" if _cut < 8 + len(_two) else "are missing")
good("cut_nowhere", _two_file)
for _lie in (-3, -2, -1, 1, 2, 3):
    bad("length_lies_by_%+d" % _lie, raw(_two, b"}\n\n\n    ", len(_two) + _lie), "")
bad("length_lies_about_padding", raw('{"a":%s}  ' % entry(), b"abcd", len(entry()) + 7), "follow the last tensor")
bad("length_takes_data", raw('{"a":%s}' % entry(), b"    ", len(entry()) + 7), "1 bytes are missing")
bad("length_big_endian", struct.pack(">Q", 2) + b"{}", "100,000,000")
bad("length_of_32_bits", struct.pack("<I", 2) + b"{}      ", "100,000,000")
bad("header_twice", raw("{}") * 2, "follow the last tensor")
for _name, _space in (("form_feed", "\f"), ("nul", "\0"), ("no_break", "\u00a0"), ("next_line", "\u0085"),
                      ("line_separator", "\u2028"), ("ideographic", "\u3000"), ("byte_order_mark", "\ufeff")):
    for _place, _header in (("before", _space + "{%s}"), ("after", "{%s}" + _space), ("inside", "{" + _space + "%s}")):
        bad("space_%s_%s" % (_name, _place), raw(_header % ('"a":' + entry()), b"abcd"), "")
    if _space != "\f" and _space != "\0":
        good("space_%s_in_name" % _name, one(entry(), name='"a%sb"' % _space))
good("space_around_every_token", raw('\n{\r"a"\t:\n{\t"dtype" :\r"U8"\n,"shape":\n[\t2\r,\n2 ],\t"data_offsets":'
                                     '[ 0\n,\r4\t]\n}\t}\r', b"abcd"))
bad("space_in_word", raw('{"a":%s}' % entry().replace("[4]", "[1 2]"), b"abcdefghijkl"), "is expected")
bad("open_bracket", raw("["), "")
bad("open_brace", raw("{"), "")
bad("closed_by_bracket", raw('{"a":%s]' % entry(), b"abcd"), "")
bad("closed_twice", raw('{"a":%s}}' % entry(), b"abcd"), "follows the header")
bad("two_commas", raw('{"a":%s,,"b":%s}' % (entry(), entry(offsets="[4,8]")), b"abcdefgh"), "a string is expected")
bad("no_comma", raw('{"a":%s "b":%s}' % (entry(), entry(offsets="[4,8]")), b"abcdefgh"), "")
bad("two_colons", raw('{"a"::%s}' % entry(), b"abcd"), "")
bad("name_without_quotes", raw("{a:%s}" % entry(), b"abcd"), "a string is expected")
bad("name_number", raw("{1:%s}" % entry(), b"abcd"), "a string is expected")
bad("name_null", raw("{null:%s}" % entry(), b"abcd"), "a string is expected")
bad("name_alone", raw('{"a"}'), "':' is expected")
bad("line_comment", raw('{"a":%s}//' % entry(), b"abcd"), "follows the header")
bad("hash_comment", raw('#\n{"a":%s}' % entry(), b"abcd"), "")
bad("python_literal", raw("{'a':None}"), "a string is expected")

# ---- strings ----
good("utf8_name", raw('{"\u00e4\u20ac\U0001f600":%s}' % entry(), b"abcd"))
good("escaped_name", one(entry(), name=r'"\u0041\n\t\"\\\/\b\f\r"'))
good("nul_in_name", one(entry(), name=r'"a\u0000b"'))
good("empty_name", one(entry(), name='""'))
good("surrogate_pair", one(entry(), name=r'"\ud83d\ude00"'))
good("path_name", one(entry(), name='"../../etc/passwd"'))
good("long_name", one(entry(), name='"%s"' % ("x" * 70000)))
good("del_in_name", one(entry(), name='"\x7f"'))
bad("invalid_utf8", one_bytes(b"\xff"), "UTF-8")
bad("overlong_utf8", one_bytes(b"\xc0\xaf"), "UTF-8")
bad("overlong_utf8_3", one_bytes(b"\xe0\x80\xaf"), "UTF-8")
bad("utf8_surrogate", one_bytes(b"\xed\xa0\x80"), "UTF-8")
bad("utf8_above_10ffff", one_bytes(b"\xf4\x90\x80\x80"), "UTF-8")
bad("utf8_cut", one_bytes(b"\xe2\x82"), "UTF-8")
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

for _name, _text in (("quote", r"\""), ("backslash", r"\\"), ("slash", r"\/"), ("b", r"\b"), ("f", r"\f"), ("n", r"\n"),
                     ("r", r"\r"), ("t", r"\t"), ("hex_upper", r"\u00C4"), ("hex_lower", r"\u00c4"),
                     ("del", r"\u007f"), ("fffe", r"\ufffe"), ("ffff", r"\uFFFF"), ("10ffff", r"\uDBFF\udfff"),
                     ("10000", r"\ud800\udc00"), ("mark", r"\ufeff"), ("us", r"\u001f")):
    good("escape_%s" % _name, one(entry(), name='"%s"' % _text))
for _name, _text in (("apostrophe", r"\'"), ("0", r"\0"), ("a", r"\a"), ("v", r"\v"), ("e", r"\e"), ("newline", "\\\n"),
                     ("U", r"\U0041"), ("braces", r"\u{41}"), ("octal", r"\101"), ("N", r"\N"), ("space", r"\ "),
                     ("u", r"\u"), ("u_quote", r"\u004"), ("plus", r"\u+041"), ("minus", r"\u-041"),
                     ("hex_space", r"\u 041"), ("0x", r"\u0x41"), ("letter_utf8", "\\\u00e4")):
    bad("escape_%s" % _name, one(entry(), name='"%s"' % _text), "escape")
for _name, _text in (("then_pair", r"\ud800\ud83d\ude00"), ("low_high", r"\ude00\ud83d"), ("then_n", r"\ud800\n"),
                     ("then_bmp", r"\ud800\u0041"), ("at_end", r"x\udbff"), ("low_after_pair", r"\ud83d\ude00\ude00"),
                     ("then_raw", "\\ud83d\U0001f600"), ("then_half", r"\ud83d\ude0")):
    bad("surrogate_%s" % _name, one(entry(), name='"%s"' % _text), "")
for _text in ("\u0080", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"):
    good("utf8_%x" % ord(_text), one(entry(), name='"%s"' % _text))
for _bytes in ("c080", "c1bf", "f08080af", "f5808080", "f8888080", "fe", "80", "bf41", "e228a1", "c3", "f09f9880"[:6],
               "eda0bdedb880", "edbfbf", "f0808080", "e0", "c3c3a4", "f48fbfc0"):
    bad("utf8_bytes_%s" % _bytes, one_bytes(bytes.fromhex(_bytes)), "UTF-8")
bad("utf8_in_ignored_key", raw(b'{"a":{"\xff":1,' + entry().encode()[1:] + b"}", b"abcd"), "UTF-8")
bad("utf8_in_ignored_value", raw(b'{"a":{"x":"\xff",' + entry().encode()[1:] + b"}", b"abcd"), "UTF-8")
bad("utf8_in_metadata", raw(b'{"__metadata__":{"k":"\xc3"},"a":' + entry().encode() + b"}", b"abcd"), "UTF-8")
bad("utf8_in_dtype", raw(b'{"a":' + entry("U8\u00ff").encode("latin-1") + b"}", b"abcd"), "UTF-8")
bad("utf8_after_brace", raw(b'{"a":' + entry().encode() + b"}\xff", b"abcd"), "")
bad("utf16_header", raw("{}".encode("utf-16-le")), "")
bad("latin_1_name", raw('{"\u00e9":%s}'.encode("latin-1") % entry().encode(), b"abcd"), "UTF-8")
for _code in (1, 8, 9, 13, 27, 31):
    bad("raw_control_%d" % _code, one(entry(), name='"%s"' % chr(_code)), "control character")
good("decomposed_and_composed", raw('{"e\u0301":%s,"\u00e9":%s}' % (entry(), entry(offsets="[4,8]")), b"abcdefgh"))
good("right_to_left", one(entry(), name='"\u202egpj.exe"'))
bad("string_ends_in_backslash", raw('{"a\\":%s}' % entry(), b"abcd"), "")

# ---- values of ignored keys ----
good("unknown_key", ignored('[1,{"y":null}]'))
good("unknown_key_float", one('{"x":-1.5e-3,"dtype":"U8","shape":[4],"data_offsets":[0,4]}'))
good("unknown_keys_twice", extra('"x":1,"x":2'))
good("nested_125", ignored(nested(125)))
bad("nested_126", ignored(nested(126)), "nested")
bad("nested_100000", ignored(nested(100000)), "nested")
bad("nested_objects", ignored(nested(5000, '{"":', "}")), "nested")
bad("bad_literal", ignored('nul'), "value is expected")
bad("bad_number", ignored('01'), "leading zero")
bad("number_dot", ignored('1.'), "malformed")
bad("number_plus", ignored('+1'), "value is expected")
bad("number_nan", ignored('NaN'), "value is expected")
bad("number_infinity", ignored('-Infinity'), "malformed")
bad("nested_comma", ignored('[1,]'), "value is expected")
for _name, _value in (("zero", "0"), ("minus_zero", "-0"), ("minus_zero_point", "-0.0"), ("zero_exponent", "0e0"),
                      ("exponent", "1e5"), ("exponent_plus", "1E+05"), ("exponent_minus", "1E-05"), ("tiny", "1e-400"),
                      ("tiny_minus", "-1e-99999"), ("zero_huge_exponent", "0e99999"), ("u64_max", str(U64_MAX)),
                      ("above_u64", str(U64_MAX + 1)), ("below_i64", str(-2**63 - 1)), ("300_digits", "9" * 300),
                      ("long_fraction", "0." + "3" * 400), ("largest_double", "1.7976931348623157e308"),
                      ("empty_array", "[]"), ("empty_object", "{}"), ("true", "true"), ("false", "false"),
                      ("null", "null"), ("object_key_twice", '{"k":1,"k":2}'), ("empty_key", '{"":{"":0}}'),
                      ("string", r'"\ud83d\ude00\u0000"'), ("spaces", "[ 1 , { } , [ ] ]"),
                      ("metadata", '{"__metadata__":{"k":1}}'), ("entry", entry())):
    good("ignored_" + _name, ignored(_value))
for _name, _value in (("exponent", "1e400"), ("exponent_minus", "-1e400"), ("digits", "9" * 400), ("309", "1e309"),
                      ("nested", '[{"k":2e308}]')):
    good("ignored_huge_" + _name, ignored(_value), HUGE_NUMBER)
for _name, _value in (("minus", "-"), ("minus_minus", "--1"), ("minus_zero_one", "-01"), ("point", ".5"),
                      ("zero_point", "0."), ("point_exponent", "1.e5"), ("exponent", "1e"), ("exponent_plus", "1e+"),
                      ("exponent_fraction", "1e5.5"), ("two_points", "1.2.3"), ("underscore", "1_000"),
                      ("hex", "0x10"), ("letter", "1f"), ("two", "1 2"), ("infinity", "Infinity"), ("nan", "nan"),
                      ("tru", "tru"), ("truee", "truee"), ("True", "True"), ("None", "None"),
                      ("undefined", "undefined"), ("empty", ""), ("comma", ","), ("open", "["), ("mixed",
                      "[}"), ("mixed_2", "{]"),
                      ("object_comma", '{"k":1,}'), ("object_no_value", '{"k":}'), ("object_no_key", "{:1}"),
                      ("object_number_key", "{1:1}"), ("array_colon", '["k":1]'), ("array_no_comma", "[1 2]"),
                      ("array_two_commas", "[1,,2]"), ("string_open", '"'), ("string_newline", '"\n"'),
                      ("string_escape", r'"\x"'), ("string_surrogate", r'"\ud800"'), ("key_surrogate", r'{"\udc00":1}'),
                      ("fullwidth_digit", "\uff11"), ("superscript", "1\u00b2"), ("apostrophes", "'x'")):
    bad("ignored_bad_" + _name, ignored(_value), "")
good("nested_125_objects", ignored(nested(124, '{"":', "}").replace(":}", ":{}}", 1)))
bad("nested_126_objects", ignored(nested(125, '{"":', "}").replace(":}", ":{}}", 1)), "nested")
good("nested_mixed", ignored("[{\"k\":" * 62 + "[]" + "}]" * 62))
good("nested_wide", ignored("[" + ",".join([nested(124)] * 200) + "]"))
bad("nested_closed_early", ignored("[" * 100 + "]" * 99), "")
bad("nested_closed_late", ignored("[" * 100 + "]" * 101), "")
bad("nested_in_metadata", raw('{"__metadata__":{"k":%s}}' % nested(100000)), "string is expected")
bad("nested_in_shape", one(entry(shape=nested(100000))), "unsigned")
bad("nested_as_header", raw(nested(100000)), "")
bad("nested_as_entries", raw(nested(100000, '{"a":', "}")), "")
good("ignored_keys_like_ours", extra('"dtype ":1,"Dtype":2,"dtype\\u0000":3,"":4,"data_offset":5,"shapes":6'))
