"""archive_view_cases.py - archives whose headers tell views: each breaks one rule of docs/archive.md, section 8.6, or
looks odd and breaks none; every hash is right. A case is (what, archive, original file or None if it must be
refused)."""

import json
import random

from archive_forge import Forge, Layout, entry
from lmc_archive_layout import ZIP
from safetensors_header import DTYPE_NBITS

# name, dtype, shape, content
STORAGES = [("w", "F32", [6], bytes(range(24))), ("e", "I16", [0], b""), ("b", "U8", [9], b"nine byte")]
WHOLE = {"dtype": "F32", "shape": [2, 3]}


def made(views, storages=None, kind=ZIP):
    """`views`: of a storage by its name, the text of the value, or what json makes of it."""
    storages = STORAGES if storages is None else storages
    members, place = [], 0
    for name, dtype, shape, content in storages:
        value = views.get(name)
        text = value if value is None or isinstance(value, str) else json.dumps(value)
        more = "" if text is None else f',"views":{text}'
        members.append(json.dumps(name) + ":" + entry(dtype, shape, place, place + len(content), more))
        place += len(content)
    forge = Forge(storages, ("{" + ",".join(members) + "}").encode())
    forge.layout = Layout(kind, [b"head"] + [b"-"] * len(storages))
    return forge


def case(what, views, is_good):
    forge = made(views)
    return what, forge.build(), forge.original if is_good else None


def good(what, *of_w, **views):
    return case(what, {"w": list(of_w), **views} if of_w else views, True)


def bad(what, *of_w, **views):
    return case(what, {"w": list(of_w), **views} if of_w else views, False)


def named(name, **fields):
    return {"name": name, "dtype": "F32", "shape": [1], **fields}


def forms():
    yield good("one view", WHOLE)
    yield good("every key", {"dtype": "F32", "shape": [2], "strides": [3], "offset": 1, "byte_order": "big",
                             "note": "x"})
    yield good("no key that may be left out", {"dtype": "U8", "shape": [24]})
    yield good("another key, twice", w='[{"dtype":"F32","shape":[6],"x":{"x":[1e999]},"x":null}]')
    yield good("keys with escapes", w='[{"dt\\u0079pe":"F\\u00332","shape":[6]}]')
    yield good("white space", w=' [ { "dtype" : "F32" , "shape" : [ 2 , 3 ] } ] ')
    yield good("views of an empty storage", e=[{"dtype": "F64", "shape": [3, 0], "strides": [9, 9], "offset": 7}])
    for what, value in (("no array", WHOLE), ("an empty array", []), ("null", "null"), ("a number", "1"),
                        ("an array of a number", "[1]"), ("an array of an array", [[WHOLE]])):
        yield bad(f"views: {what}", w=value)
    yield bad("views twice", w='[{"dtype":"F32","shape":[6]}],"views":[{"dtype":"F32","shape":[6]}]')
    yield bad("views twice, by an escape", w='[{"dtype":"F32","shape":[6]}],"view\\u0073":1')
    for key in ("dtype", "shape"):
        yield bad(f"without {key}", {name: value for name, value in WHOLE.items() if name != key})
    for key, value in (("dtype", '"F32"'), ("shape", "[6]"), ("strides", "[1]"), ("offset", "0"), ("note", '"x"'),
                       ("byte_order", '"big"')):
        twice = f'"{key}":{value},"{key}":{value}'
        yield bad(f"{key} twice", w='[{"dtype":"F32","shape":[6],%s}]' % twice if key not in WHOLE else
                  '[{"dtype":"F32","shape":[6],%s}]' % f'"{key}":{value}')
    for what, fields in (("dtype", {"dtype": "F31"}), ("dtype", {"dtype": 1}), ("shape", {"shape": 6}),
                         ("shape", {"shape": [6.0]}), ("shape", {"shape": [-1]}), ("strides", {"strides": [3]}),
                         ("strides", {"strides": None}), ("strides", {"strides": [-3, -1]}),
                         ("offset", {"offset": "0"}), ("offset", {"offset": -1}),
                         ("byte order", {"byte_order": "Big"}), ("note", {"note": 1}),
                         ("byte order", {"byte_order": True}), ("note", {"note": "x" * 256}),
                         ("note", {"note": "\u00e9" * 128})):
        yield bad(f"{what}: {json.dumps(fields)[:40]}", {**WHOLE, **fields})
    yield good("a note of 255 bytes", {**WHOLE, "note": "x" + "\u00e9" * 127})
    yield good("65 dimensions", {"dtype": "F32", "shape": [1] * 64 + [6]})
    yield bad("66 dimensions", {"dtype": "F32", "shape": [1] * 65 + [6]})


def names():
    yield good("two views", WHOLE, named("t"))
    yield good("the empty name, and one with NUL", WHOLE, named(""), named("a\0b"))
    yield good("the table's name", WHOLE, named("lmc.archive"), named("lmc.skeleton"), named("__metadata__"))
    yield bad("a first view with a name", {**WHOLE, "name": "w"})
    yield bad("a second view without one", WHOLE, WHOLE)
    yield bad("a name of no string", WHOLE, {**WHOLE, "name": 1})
    yield bad("the name of the storage", WHOLE, named("w"))
    yield bad("the name of another storage", WHOLE, named("b"))
    yield bad("the name of another view", WHOLE, named("t"), named("t"))
    yield bad("the name of another storage's view", WHOLE, named("t"), b=[{"dtype": "U8", "shape": [9]},
                                                                        named("t", dtype="U8")])


def extents():
    for what, fields in (("strides of 0", {"shape": [1000, 1000], "strides": [0, 0], "offset": 5}),
                         ("2^58 elements", {"shape": [2**29, 2**29], "strides": [0, 0]}),
                         ("overlapping strides", {"shape": [3, 4], "strides": [1, 1]}),
                         ("the last element", {"shape": [2, 2], "strides": [3, 2]}),
                         ("a step of 1 element, any stride", {"shape": [1, 6], "strides": [2**64 - 1, 1]}),
                         ("a scalar", {"shape": [], "offset": 5}),
                         ("nothing, far away", {"shape": [0, 2], "strides": [2**64 - 1] * 2, "offset": 2**64 - 1}),
                         ("nothing times much", {"shape": [0, 2**63, 4]})):
        yield good(what, {"dtype": "F32", **fields})
    for what, fields in (("one element too many", {"shape": [7]}), ("an offset too many", {"shape": [6], "offset": 1}),
                         ("a stride too long", {"shape": [2, 2], "strides": [4, 2]}),
                         ("a scalar behind it", {"shape": [], "offset": 6}),
                         ("much times nothing", {"shape": [2**63, 4, 0]}),
                         ("2^64 bits", {"shape": [2**59], "strides": [0]}),
                         ("a stride of 2^63, twice", {"shape": [3], "strides": [2**63]}),
                         ("an end modulo 2^64", {"shape": [2], "strides": [2**64 - 1], "offset": 1}),
                         ("an offset of 2^64 - 1", {"shape": [1], "offset": 2**64 - 1}),
                         ("bits modulo 2^64", {"shape": [1], "offset": 2**59}),
                         ("an offset of 2^59 - 1", {"shape": [1], "offset": 2**59 - 1}),
                         ("something of nothing", {"shape": [2, 2], "strides": [0, 2**62]})):
        yield bad(what, {"dtype": "F32", **fields})
    yield bad("an element of an empty storage", e=[{"dtype": "U8", "shape": []}])
    narrow = {"dtype": "F4", "shape": [4, 6]}
    yield good("F4", narrow)
    yield good("F4 from a byte on", {**narrow, "offset": 2})
    yield bad("F4 from half a byte on", {**narrow, "offset": 1})
    yield bad("F4 with other strides", {**narrow, "strides": [1, 4]})
    yield good("F4 with a stride that says nothing", {**narrow, "shape": [1, 6], "strides": [5, 1]})
    yield bad("F4 in half a byte", {**narrow, "shape": [3]})
    yield good("F6_E2M3", {"dtype": "F6_E2M3", "shape": [4, 8]})
    yield bad("F6_E2M3 behind the end", {"dtype": "F6_E2M3", "shape": [4, 8], "offset": 4})


def contents():
    """Every dtype in both byte orders, and random shapes."""
    rng = random.Random(8)
    for dtype, nbits in DTYPE_NBITS.items():
        for order in ("little", "big"):
            count = 24 * 8 // nbits
            yield good(f"{dtype} {order}", {"dtype": dtype, "shape": [count], "byte_order": order})
    for number in range(40):
        yield good(f"random {number}", *[{"dtype": "F32", **fields} for fields in random_views(rng)])


def random_views(rng):
    for number in range(4):
        shape = [rng.randrange(1, 4) for _ in range(rng.randrange(5))]
        strides, room = [], 5
        for dimension in shape:
            strides.append(rng.randrange(room // (dimension - 1) + 1) if dimension > 1 else rng.randrange(9))
            room -= (dimension - 1) * strides[-1]
        name = {"name": f"view {number}"} if number > 0 else {}
        yield {**name, "shape": shape, "strides": strides, "offset": rng.randrange(room + 1),
               "byte_order": rng.choice(("big", "little"))}


def cases():
    for make in (forms, names, extents, contents):
        yield from make()
