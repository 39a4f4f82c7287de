"""archive_npy_headers.py - header texts of NPY files, good and bad ones: the grammar and the numbers of
docs/archive.md, section 8.4. Arrays of good ones have at most 96 bytes."""

GOOD_DESCRS = [
    "'<f4'", '"<f4"', "'|u1'", "'|S3'", "'|V0'", "'<U2'", "'<M8'", "'<M8[ns]'", "'<m8[]'", "'>M8[\\' ]'", "'<i0004'",
    "[]", "[('a', '<f4')]", "[('a', '<f4'), ('b', '<i2', (2, 3))]", "[('a', '<f4', ()), ]", "[(('t', 'n'), '<f4')]",
    "[('\\x', \"|b1\"), (\"y\\\"'\", '|b1')]", "[('\n', '|b1')]", "[('a', [('b', '<i2')], (2,))]", "'|O'",
    "[('a', '|O'), ('b', '<f8')]", "[('a','<V9223372036854775807'),('b','|O')]",
    "[('a','<V9223372036854775807',(3, 0))]",
    "[('a'," * 16 + "'|u1'" + ")]" * 16]
BAD_DESCRS = [
    "'<f4' '<f4'", "u'<f4'", "b'<f4'", "'''<f4'''", "'<f'", "'f4'", "'=f4'", "'<f4 '", "' <f4'", "'\\x3cf4'", "'|i2'",
    "'|i02'", "'<f4[s]'", "'<M8['", "'<M8]'", "'<M8[s'", "'<V9223372036854775808'", "'<U4611686018427387904'",
    "'<f" + "9" * 5000 + "'", "'>O'", "'|O8'", "('<f4', (2,))", "[,]", "[('a',)]", "[('a','<f4',)]", "[('a','<f4',2)]",
    "[('a','<f4') ('b','<f4')]", "[('t', 'n', '<f4')]", "[(('t', 'n',), '<f4')]", "[(('t'), '<f4')]", "['<f4']",
    "[('a','|O'), ('b','<f')]", "[('a','|O'), ('b','<V9223372036854775807',(3,))]",
    "[('a','<V9223372036854775807'),('b','<V9223372036854775807',(2,))]",
    "[('a'," * 17 + "'|u1'" + ")]" * 17, "None", "4"]
GOOD_SHAPES = [
    "()", "( )", "(3,)", "(3 , )", "(2,3)", "(2,3,)", "(3L,)", "(2 L , 3L)", "(0,)", "(003,)",
    "(0, 9223372036854775807)", "(0, 4294967296, 4294967296)", "(" + "1," * 70 + ")"]
BAD_SHAPES = [
    "(3)", "(3L)", "(,)", "(3,,)", "(2 3)", "[3]", "3", "(-3,)", "(+3,)", "(3.0,)", "(0x3,)", "(1_0,)", "(3l,)",
    "(3LL,)", "(9223372036854775808,)", "(18446744073709551617,)", "(4294967296, 4294967296)",
    "(4294967296, 4294967296, 0)", "(9223372036854775807,)", "(\t3,)", "(True,)", "(" + "0" * 5000 + "9" * 5000 + ",)"]
REST = "'fortran_order':False,'shape':(3,)"
GOOD_TEXTS = [
    "{'descr':'<f4'," + REST + "}", "\n { 'shape' : (3,) ,'fortran_order'\n:True,\"descr\":'<f4',}\n",
    "{'descr': '|O', 'fortran_order': False, 'shape': (9223372036854775807, 2), }"]
BAD_TEXTS = [
    "", "{}", "{,}", "{'descr':'<f4','fortran_order':False}", "{'descr':'<f4','shape':(3,)}", "{" + REST + "}",
    "{'descr':'<f4','fortran_order':0,'shape':(3,)}", "{'descr':'<f4','fortran_order':Falsey,'shape':(3,)}",
    "{'descr':'<f4','descr':'<f4'," + REST + "}", "{'descr':'<f4'," + REST + ",'more':1}",
    "{'descr':'<f4'," + REST + ",,}",
    "{'descr':'<f4' " + REST + "}", "{'descr':'<f4'," + REST, "{'descr':'<f4'," + REST + "} {}",
    "{'descr':'<f4'," + REST + "}\t", "{'descr':'<f4'," + REST + "}\0", "{'descr':'<f4'," + REST + "}#",
    "{'desc\\x72':'<f4'," + REST + "}", "{'descr':'<f4," + REST + "}", "dict(descr='<f4')",
    "{'descr':'|O','fortran_order':False,'shape':(9223372036854775807, 3)}"]
INSERTED = [bytes([mark]) for mark in b"'\"()[]{},:L \n\t\\\0\xff-_#"] + [
    b"True", b"0", b"9223372036854775808", b"4294967296", b"'<f4'", b"'|i2'", b"'|O'", b"'<m8[s]'", b"'shape'", b"()",
    b"(3)", b"[]", b"('a','<i1',(2,))"]


def text_of(descr="'<f4'", shape="(3,)"):
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"


def cases():
    """(text, whether the file can be followed)."""
    good = [*map(text_of, GOOD_DESCRS), *(text_of(shape=shape) for shape in GOOD_SHAPES), *GOOD_TEXTS]
    bad = [*map(text_of, BAD_DESCRS), *(text_of(shape=shape) for shape in BAD_SHAPES), *BAD_TEXTS]
    return [(text.encode(), True) for text in good] + [(text.encode(), False) for text in bad]


def altered(rng, text):
    """With a few bytes put in, left out or repeated."""
    text = bytearray(text)
    for _ in range(rng.randrange(1, 4)):
        at, nbytes = rng.randrange(len(text) + 1), rng.randrange(1, 6)
        new = rng.choice((b"", rng.choice(INSERTED), rng.randbytes(1), text[at : at + 4 * nbytes] * 2))
        text[at : at + rng.choice((0, nbytes))] = new
    return bytes(text)
