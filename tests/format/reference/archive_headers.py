"""archive_headers.py - header texts for section 2 of docs/archive.md: which of them the rules allow.

Every text describes eight bytes of data in two tensors, `a` and `b`. It becomes an original header. An
edit is (what, old, new, allowed): the first `old` of BASE is replaced.
"""

BASE = (b'{"__metadata__":{"k":"v"},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},'
        b'"b":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]}}')
TENSORS = [("a", "U8", [4], b"abcd"), ("b", "BF16", [2], b"wxyz")]

A = b'"a":{'
META = b'{"k":"v"}'


def nested(count):
    """A value of an ignored key that opens this many arrays."""
    return b'"a":{"x":' + b"[" * count + b"]" * count + b","


EDITS = [
    # rule 1 is about lengths: archive_cases.py
    ("2: space around the object", b"{", b" \t\r\n{", True),
    ("2: byte order mark", b"{", b"\xef\xbb\xbf{", False),
    ("2: form feed before", b"{", b"\f{", False),
    ("2: space inside", b"[0,4]", b"[ 0\t,\r\n4 ]", True),
    ("2: space after", b"[4,8]}}", b"[4,8]}}\n\t \r", True),
    ("2: NUL after", b"[4,8]}}", b"[4,8]}}\0", False),
    ("2: text after", b"[4,8]}}", b"[4,8]}}{}", False),
    ("2: an array", BASE, b"[]", False),
    ("2: unclosed", b"[4,8]}}", b"[4,8]}", False),
    ("2: comma at the end", b"[4,8]}}", b"[4,8]},}", False),
    ("2: comma in an array", b"[4]", b"[4,]", False),
    ("2: comma at the start", b"{", b"{,", False),
    ("2: no comma", b'},"b"', b'}"b"', False),
    ("2: single quotes", b'"U8"', b"'U8'", False),
    ("2: a comment", A, b'/**/"a":{', False),
    ("2: control character in a string", b'"v"', b'"\x1f"', False),
    ("2: DEL in a string", b'"v"', b'"\x7f"', True),
    ("2: unknown escape", b'"v"', b'"\\x"', False),
    ("2: escapes", b'"v"', b'"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uABCD"', True),
    ("2: short escape", b'"v"', b'"\\u12"', False),
    ("2: escape with a sign", b'"v"', b'"\\u+123"', False),
    ("2: pair of surrogates", b'"v"', b'"\\ud83d\\uDE00"', True),
    ("2: high half alone", b'"v"', b'"\\ud83d"', False),
    ("2: high half and a letter", b'"v"', b'"\\ud83dx"', False),
    ("2: low half alone", b'"v"', b'"\\ude00"', False),
    ("2: two high halves", b'"v"', b'"\\ud83d\\ud83d"', False),
    ("2: overlong UTF-8", b'"v"', b'"\xc0\x80"', False),
    ("2: surrogate in UTF-8", b'"v"', b'"\xed\xa0\x80"', False),
    ("2: above U+10FFFF", b'"v"', b'"\xf4\x90\x80\x80"', False),
    ("2: U+10FFFF", b'"v"', b'"\xf4\x8f\xbf\xbf"', True),
    ("2: cut UTF-8", b'"v"', b'"\xe2\x82"', False),
    ("3: escaped name", A, b'"\\u0061":{', True),
    ("3: name twice", b'"b":', b'"a":', False),
    ("3: name twice, once escaped", b'"b":', b'"\\u0061":', False),
    ("3: other order", BASE, b'{"b":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]},'
     b'"a":{"data_offsets":[0,4],"shape":[4],"dtype":"U8"}}', True),
    ("4: no metadata", b'"__metadata__":{"k":"v"},', b"", True),
    ("4: null", META, b"null", True),
    ("4: empty", META, b"{}", True),
    ("4: a string", META, b'"v"', False),
    ("4: an array", META, b'["k","v"]', False),
    ("4: false", META, b"false", False),
    ("4: a number in it", META, b'{"k":1}', False),
    ("4: null in it", META, b'{"k":null}', False),
    ("4: an object in it", META, b'{"k":{}}', False),
    ("4: repeated key", META, b'{"k":"v","k":"v"}', False),
    ("4: repeated key, once escaped", META, b'{"k":"v","\\u006b":"w"}', False),
    ("4: twice", A, b'"__metadata__":{},"a":{', False),
    ("4: twice, once escaped", A, b'"\\u005f_metadata__":{},"a":{', False),
    ("4: twice, null", A, b'"__metadata__":null,"a":{', False),
    ("4: escaped", b'"__metadata__"', b'"\\u005f_metadata__"', True),
    ("4: NUL and empty strings in it", META, b'{"":"","\\u0000":"\\u0000"}', True),
    ("5: array", b'{"dtype":"U8","shape":[4],"data_offsets":[0,4]}', b'["U8",[4],[0,4]]', False),
    ("5: null", b'{"dtype":"U8","shape":[4],"data_offsets":[0,4]}', b"null", False),
    ("5: no dtype", b'"dtype":"U8",', b"", False),
    ("5: no shape", b'"shape":[4],', b"", False),
    ("5: no data_offsets", b',"data_offsets":[0,4]', b"", False),
    ("5: dtype twice", A, b'"a":{"dtype":"U8",', False),
    ("5: shape twice, once escaped", A, b'"a":{"\\u0073hape":[4],', False),
    ("5: escaped key", b'"shape"', b'"\\u0073hape"', True),
    ("5: other case", b'"dtype"', b'"Dtype"', False),
    ("5: other case beside it", A, b'"a":{"Dtype":1,', True),
    ("5: ignored keys", A, b'"a":{"x":[1.5e-3,-0,true,false,null,{"y":"z"}],"":{},', True),
    ("5: ignored key twice", A, b'"a":{"x":1,"x":2,', True),
    ("5: ignored object with a key twice", A, b'"a":{"x":{"y":1,"y":2},', True),
    ("5: a number that no double holds", A, b'"a":{"x":1e999,', True),
    ("5: not a number", A, b'"a":{"x":NaN,', False),
    ("5: infinity", A, b'"a":{"x":-Infinity,', False),
    ("5: leading zero in an ignored key", A, b'"a":{"x":01,', False),
    ("5: no digit after the point", A, b'"a":{"x":1.,', False),
    ("5: no digit before the point", A, b'"a":{"x":.5,', False),
    ("5: no digit in the exponent", A, b'"a":{"x":1e,', False),
    ("5: plus", A, b'"a":{"x":+1,', False),
    ("5: 127 open", b'"a":{', nested(125), True),
    ("5: 128 open", b'"a":{', nested(126), False),
    ("6: unknown", b'"U8"', b'"U4"', False),
    ("6: lower case", b'"U8"', b'"u8"', False),
    ("6: object form", b'"U8"', b'{"U8":null}', False),
    ("6: number", b'"U8"', b"8", False),
    ("6: escaped", b'"U8"', b'"\\u00558"', True),
    ("6: with NUL", b'"U8"', b'"U8\\u0000"', False),
    ("7: fraction", b"[4]", b"[4.0]", False),
    ("7: exponent", b"[4]", b"[4e0]", False),
    ("7: sign", b"[0,4]", b"[-0,4]", False),
    ("7: leading zero", b"[4]", b"[04]", False),
    ("7: two zeros", b"[0,4]", b"[00,4]", False),
    ("7: string", b"[4]", b'["4"]', False),
    ("7: null", b"[4]", b"[null]", False),
    ("7: array in the shape", b"[4]", b"[[4]]", False),
    ("7: shape is a number", b"[4]", b"4", False),
    ("7: shape is an object", b"[4]", b"{}", False),
    ("7: a scalar's shape is an object", b'"U8","shape":[4]', b'"F32","shape":{}', False),
    ("7: three offsets", b"[0,4]", b"[0,4,4]", False),
    ("7: one offset", b"[0,4]", b"[4]", False),
    ("7: 2^64", b"[4]", b"[0,18446744073709551616]", False),
    ("7: rank 1024", b"[4]", b"[4" + b",1" * 1023 + b"]", True),
    ("7: rank 1025", b"[4]", b"[4" + b",1" * 1024 + b"]", False),
    ("8: other shape", b"[4]", b"[2,1,2]", True),
    ("8: scalar of 4 bytes", b'"U8","shape":[4]', b'"F32","shape":[]', True),
    ("8: scalar of 1 byte", b"[4]", b"[]", False),
    ("8: too small", b"[4]", b"[3]", False),
    ("8: too large", b"[4]", b"[5]", False),
    ("8: other dtype", b'"U8"', b'"I16"', False),
    ("8: F4", b'"U8","shape":[4]', b'"F4","shape":[8]', True),
    ("8: half a byte", b'"U8","shape":[4]', b'"F4","shape":[7]', False),
    ("8: not whole bytes of 6 bits", b'"U8","shape":[4]', b'"F6_E2M3","shape":[6]', False),
    ("8: wraps to 4", b"[4]", b"[4611686018427387905,4]", False),
    ("8: product of 2^64", b"[4]", b"[4294967296,4294967296]", False),
    ("8: bits of 2^64 and more", b"[4]", b"[2305843009213693956]", False),
    ("8: begin after end", b"[0,4]", b"[4,0]", False),
    ("9: hole", b"[4,8]", b"[5,9]", False),
    ("9: overlap", b"[4,8]", b"[3,7]", False),
    ("9: one place", b"[4,8]", b"[0,4]", False),
    ("9: starts late", b"[0,4]", b"[1,5]", False),
    ("9: bytes after the last one", b'"BF16","shape":[2],"data_offsets":[4,8]',
     b'"U8","shape":[3],"data_offsets":[4,7]', False),
    ("9: beyond the end", b'"shape":[2],"data_offsets":[4,8]', b'"shape":[3],"data_offsets":[4,10]', False),
    ("9: no tensors, but bytes", BASE, b"{}", False),
]

# With a third tensor `e` without bytes, named last: (what, its entry, its place in the order of data or None).
EMPTY = [
    ("8: empty at the end", b'{"dtype":"F32","shape":[0],"data_offsets":[8,8]}', 2),
    ("8: empty in the middle", b'{"dtype":"F32","shape":[0],"data_offsets":[4,4]}', 1),
    ("8: empty at the start", b'{"dtype":"F32","shape":[3,0,7],"data_offsets":[0,0]}', 0),
    ("8: 0 before a large product", b'{"dtype":"F32","shape":[0,18446744073709551615,2],"data_offsets":[8,8]}', 2),
    ("8: 0 after a large product", b'{"dtype":"F32","shape":[18446744073709551615,2,0],"data_offsets":[8,8]}', None),
    ("9: empty beyond the end", b'{"dtype":"F32","shape":[0],"data_offsets":[9,9]}', None),
    ("9: empty within another", b'{"dtype":"F32","shape":[0],"data_offsets":[2,2]}', None),
    ("9: empty far away",
     b'{"dtype":"F32","shape":[0],"data_offsets":[18446744073709551615,18446744073709551615]}', None),
]


def texts():
    """(what, header text, place of `e` or None, allowed)."""
    for what, old, new, allowed in EDITS:
        assert old in BASE, what
        yield what, BASE.replace(old, new, 1), None, allowed
    for what, entry, place in EMPTY:
        yield what, BASE[:-1] + b',"e":' + entry + b"}", 2 if place is None else place, place is not None
