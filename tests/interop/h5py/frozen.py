"""frozen.py - files that stay: what the filter once wrote must be read for ever.

    python frozen.py FOLDER      writes those of FILES that are not in the folder yet

tests/interop/h5py/data was written so, with HDF5 1.10.8. A file that is there is never written again; for a new kind of
chunk add a name to FILES and run this. What a file holds is what its cases say: their types, layouts and contents stay,
too.
"""

import ctypes
import os
import sys

import filetypes
import objects
import pipelines
from bed import HERE, h5py
from cases import Case, Layout
from library import hdf5

DATA = os.path.join(HERE, "data")

T = filetypes.BY_NAME
P = pipelines.BY_NAME

ROWS = Layout("rows", (500,), (300,))
CUBE = Layout("cube", (3, 9, 10), (3, 6, 10))
SMALL = Layout("small", (45,), (25,))
RECORDS = Layout("records", (450,), (450,))
HOLES = Layout("holes", (500,), (100,), ("write", (slice(0, 100),)), ("write", (slice(250, 260),)), ("resize", (550,)),
               maxshape=(None,))
MANY = Layout("many", (18000,), (18000,))


def cases(names, layout, *pipeline_names, kind=None):
    return [Case(T[name], layout, P[pipeline], kind) for name in names for pipeline in pipeline_names or ("plain",)]


FILES = {
    "bf16": cases(["ml_bfloat16", "float_bf16_le"], ROWS) + cases(["ml_bfloat16"], CUBE, "max"),
    "f16": cases(["f2le"], ROWS, "plain", "fast"),
    "f32": cases(["f4le"], ROWS, "plain", "fast", "max") + cases(["f4le"], ROWS, kind="special"),
    "f64": cases(["f8le", "c16le"], CUBE) + cases(["f8le"], SMALL, kind="special"),
    "big_endian": cases(["f4be", "u2be", "i8be", "float_bf16_be"], ROWS) + cases(["array_be"], SMALL),
    "integers": cases(["u1", "i2le", "u2le", "i4le", "i8le", "bool"], ROWS) + cases(["int24le", "int40be"], RECORDS),
    "compound": cases(["compound_xyz", "compound_mixed", "long_double_g_le"], CUBE) +
                cases(["compound_packed", "compound_nested"], RECORDS),
    "shuffled": cases(["f4le", "i4be", "compound_xyz", "array_u2"], ROWS, "shuffle") +
                cases(["compound_packed"], SMALL, "shuffle"),
    "text": cases(["string5", "string16", "string_utf8"], ROWS) + cases(["string300", "opaque300"], SMALL),
    "options": cases(["f4le"], ROWS, "element1", "element2", "element8", "block16", "mandatory_max"),
    "beside": cases(["i4le"], ROWS, "fletcher_before", "gzip_after", "gzip_before", "scaleoffset", "twice"),
    "noise": cases(["u1", "f4le", "u2be", "compound_packed"], SMALL, kind="random") +
             cases(["f8be"], CUBE, kind="random"),
    "zeros": cases(["f4le", "u1", "compound_packed", "f8be"], ROWS, kind="zeros"),
    "holes": cases(["f4le", "compound_packed", "u2be"], HOLES),
    "blocks": cases(["u1"], MANY, "block16", kind="few") + cases(["ml_bfloat16"], MANY, "block16", kind="zeros"),
}
OBJECTS = ("object_reference", "region_reference", "vlen_text")


def path_of(name):
    return os.path.join(DATA, name + ".h5")


def create(path):
    """A file whose index of chunks takes little room."""
    fcpl = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    assert hdf5().H5Pset_istore_k(ctypes.c_int64(fcpl.id), ctypes.c_uint(3)) >= 0
    return h5py.File(h5py.h5f.create(path.encode(), h5py.h5f.ACC_EXCL, fcpl))


def write(path, name):
    with create(path) as file:
        for case in FILES.get(name, ()):
            case.write(file)
        for kind in OBJECTS if name == "objects" else ():
            objects.write(file, kind, "plain")


def main(folder):
    os.makedirs(folder, exist_ok=True)
    for name in [*FILES, "objects"]:
        path = os.path.join(folder, name + ".h5")
        if not os.path.exists(path):
            write(path, name)
            print(path, os.path.getsize(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
