"""filetypes.py - HDF5 types with elements of a fixed size, made through numpy and through HDF5's own calls.

Data of these types is written and read as bytes, with the type of the file in memory too: HDF5 converts nothing.
"""

import numpy

from bed import HDF5, h5py

h5t = h5py.h5t


class FileType:
    """name; make() -> a h5py type; kind of content that suits it; big_endian: see contents.content; dtype: of numpy, if
    h5py makes the type from it; since: the first HDF5 that has the type; integer: of a size that the scale-offset
    filter takes; size: where the type may not be there to be asked."""

    def __init__(self, name, make, kind, big_endian=0, dtype=None, since=(1, 10), integer=False,
                 size=None):
        self.name = name
        self.make = make
        self.kind = kind
        self.big_endian = big_endian
        self.dtype = dtype
        self.since = since
        self.integer = integer
        self.is_here = HDF5 >= since
        self.is_new = name.startswith("h5_complex")  # in files that HDF5 1 does not read
        self.size = size or make().get_size()


def of_numpy(name, dtype, kind, big_endian=0):
    dtype = numpy.dtype(dtype)
    return FileType(name, lambda: h5t.py_create(dtype, logical=True), kind, big_endian, dtype,
                    integer=dtype.kind in "iu" and not h5py.check_enum_dtype(dtype))


def numbers():
    for size in (1, 2, 4, 8):
        for sign in "iu":
            for order in "<>" if size > 1 else "|":
                order_name = {"<": "le", ">": "be", "|": ""}[order]
                yield of_numpy(f"{sign}{size}{order_name}", f"{order}{sign}{size}", "counter",
                               size if order == ">" else 0)
    for code, kind in (("f2", "halves"), ("f4", "weights"), ("f8", "weights"), ("c8", "weights"),
                       ("c16", "weights")):
        size = int(code[1:]) // (2 if code[0] == "c" else 1)
        yield of_numpy(code + "le", "<" + code, kind)
        yield of_numpy(code + "be", ">" + code, kind, size)
    for order in "<>":
        for code in "gG":
            name = f"long_double_{code}_{'le' if order == '<' else 'be'}"
            yield of_numpy(name, numpy.dtype(code).newbyteorder(order), "random")
    yield of_numpy("bool", "?", "zeros")
    for base in ("i1", "u1", "<i2", ">u2", ">i4", "<i8"):
        yield of_numpy("enum_" + base.replace("<", "le_").replace(">", "be_"),
                       h5py.enum_dtype({"RED": 0, "GREEN": 1, "BLUE": 42}, basetype=base), "counter")


def ml_numbers():
    """What h5py makes of the types of ml_dtypes: opaque bytes."""
    import ml_dtypes

    for name in ("bfloat16", "float8_e4m3fn", "float8_e4m3b11fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
                 "float4_e2m1fn", "int4"):
        yield of_numpy("ml_" + name, getattr(ml_dtypes, name), "weights" if name == "bfloat16" else "random")


def opaque():
    for size, kind in ((1, "random"), (2, "weights"), (3, "random"), (4, "weights"), (5, "text"), (8, "weights"),
                       (16, "text"), (256, "text"), (300, "text")):
        yield of_numpy(f"opaque{size}", f"V{size}", kind)
    yield of_numpy("opaque_datetime", h5py.opaque_dtype(numpy.dtype("M8[s]")), "counter")


def strings():
    for size in (1, 2, 5, 16, 300):
        yield of_numpy(f"string{size}", f"S{size}", "text")
    yield of_numpy("string_utf8", h5py.string_dtype("utf-8", 10), "text")
    yield FileType("string_spaces", lambda: _string(12, h5t.STR_SPACEPAD), "text")
    yield FileType("string_terminated", lambda: _string(8, h5t.STR_NULLTERM), "text")


def _string(size, padding):
    made = h5t.C_S1.copy()
    made.set_size(size)
    made.set_strpad(padding)
    return made


def compounds():
    rows = {
        "compound_packed": ([("id", "<i4"), ("x", "<f8"), ("flag", "u1")], "counter"),
        "compound_padded": (numpy.dtype([("a", "i1"), ("b", "<f8"), ("c", "<i2")], align=True), "counter"),
        "compound_nested": ([("id", "<u2"), ("at", [("x", "<f4"), ("y", ">f4")]), ("m", "<f4", (2, 3)), ("s", "S3")],
                            "counter"),
        "compound_xyz": ([("x", "<f4"), ("y", "<f4"), ("z", "<f4")], "weights"),
        "compound_be": ([("x", ">f8"), ("y", ">f8")], "random"),
        "compound_mixed": ([("x", "<f4"), ("n", "<i4")], "weights"),
        "compound_array": ([("m", "<f4", (5,))], "weights"),
        "compound_bytes": ([(c, "i1") for c in "abcdefg"], "counter"),
        "compound_one": ([("only", "<f2")], "halves"),
        "compound_wide": ([("v", "<f4", (60,)), ("n", "<u4", (15,))], "counter"),
        "compound_256": ([("v", "<i2", (127,)), ("n", "<u2")], "counter"),
    }
    for name, (dtype, kind) in rows.items():
        yield of_numpy(name, dtype, kind)


def arrays():
    for name, dtype, kind in (("array_f4", ("<f4", (3,)), "weights"), ("array_u2", ("<u2", (2, 2)), "counter"),
                              ("array_be", (">f8", (2,)), "random"), ("array_i1", ("i1", (5,)), "counter"),
                              ("array_text", ("S3", (2,)), "text"), ("array_large", ("<f4", (12, 6)), "weights")):
        yield of_numpy(name, dtype, kind)
    yield FileType("array_of_compound", lambda: h5t.array_create(
        h5t.py_create(numpy.dtype([("a", "u1"), ("b", "<f4")])), (4,)), "counter")
    yield FileType("array_of_array", lambda: h5t.array_create(h5t.array_create(h5t.IEEE_F32BE, (2,)), (3,)), "random")


def low_level():
    """Types that numpy has no name for."""
    for bits in (12, 24, 40, 48, 56):
        for base, order in ((h5t.STD_I64LE, "le"), (h5t.STD_U64BE, "be")):
            yield FileType(f"int{bits}{order}", lambda b=base, n=bits: _integer(b, n), "counter",
                           (bits + 7) // 8 if order == "be" else 0, integer=bits == 12)
    for base in ("B8LE", "B16LE", "B16BE", "B32BE", "B64LE"):
        yield FileType("bits_" + base.lower(), lambda b=base: getattr(h5t, "STD_" + b).copy(), "counter",
                       int(base[1:-2]) // 8 if base.endswith("BE") else 0)
    yield FileType("time", lambda: h5t.UNIX_D32LE.copy(), "counter")
    for name, fields, bias, size in (("bf16", (15, 7, 8, 0, 7), 127, 2), ("f8_e4m3", (7, 3, 4, 0, 3), 7, 1),
                                     ("f8_e5m2", (7, 2, 5, 0, 2), 15, 1), ("f24", (23, 16, 7, 0, 16), 63, 3),
                                     ("tf32", (18, 10, 8, 0, 10), 127, 4)):
        for base, order in ((h5t.IEEE_F32LE, "le"), (h5t.IEEE_F32BE, "be")):
            yield FileType(f"float_{name}_{order}", lambda b=base, f=fields, s=size, e=bias: _float(b, f, e, s),
                           "weights", size if order == "be" else 0)


def _integer(base, bits):
    made = base.copy()
    made.set_precision(bits)
    made.set_size((bits + 7) // 8)
    return made


def _float(base, fields, bias, size):
    made = base.copy()
    made.set_fields(*fields)
    made.set_ebias(bias)
    made.set_precision(fields[0] + 1)
    made.set_size(size)
    return made


def predefined():
    """Types that HDF5 2 brought, and h5py has names for or not."""
    for name, kind, big, since in (("BFLOAT16LE", "weights", 0, (2, 0)), ("BFLOAT16BE", "weights", 2, (2, 0)),
                                   ("F8E4M3", "random", 0, (2, 0)), ("F8E5M2", "random", 0, (2, 0)),
                                   ("F6E2M3", "random", 0, (2, 2)), ("F4E2M1", "random", 0, (2, 2))):
        yield FileType("h5_" + name.lower(), lambda n=name: predefined_type("H5T_FLOAT_" + n + "_g"), kind, big,
                       since=since, size=2 if name.startswith("BFLOAT") else 1)
    for size, kind in ((16, "halves"), (32, "weights"), (64, "weights")):
        for order in ("LE", "BE"):
            yield FileType(f"h5_complex{size}{order.lower()}",
                           lambda s=size, o=order: getattr(h5t, f"COMPLEX_IEEE_F{s}{o}").copy(), kind,
                           size // 8 if order == "BE" else 0, since=(2, 0), size=size // 4)


def predefined_type(symbol):
    import ctypes

    from library import hdf5

    library = hdf5()
    library.H5Tcopy.restype = ctypes.c_int64
    library.H5Tcopy.argtypes = [ctypes.c_int64]
    made = library.H5Tcopy(ctypes.c_int64.in_dll(library, symbol))
    assert made >= 0, symbol
    return h5t.typewrap(made) if hasattr(h5t, "typewrap") else h5t.TypeFloatID(made)


ALL = [t for group in (numbers, ml_numbers, opaque, strings, compounds, arrays, low_level, predefined) for t in group()]
BY_NAME = {t.name: t for t in ALL}
assert len(BY_NAME) == len(ALL)
