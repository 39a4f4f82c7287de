"""lmc_st_writer beside the official safetensors package: for the same tensors, the same file.

Drives the shared library through ctypes. Each case gives tensors to lmc_st_writer_write_plain() and to the package
and compares the files byte by byte; the archive of lmc_st_writer_write() must restore to that file.
"""

import ctypes
import os
import random
from collections import namedtuple

import numpy
import pytest
import safetensors
from safetensors.numpy import save_file

from official import fail_on, read

# dtype: a name of the safetensors format. data: bytes.
Tensor = namedtuple("Tensor", "name dtype shape data")

# dtype: its number in lmc.h, its name in the package, bits of an element
DTYPES = {
    "U8": (0, "uint8", 8), "BOOL": (1, "bool", 8), "I8": (2, "int8", 8), "F4": (3, "float4_e2m1fn_x2", 4),
    "F8_E5M2": (6, "float8_e5m2", 8), "F8_E4M3": (7, "float8_e4m3fn", 8), "F8_E8M0": (8, "float8_e8m0fnu", 8),
    "F8_E4M3FNUZ": (9, "float8_e4m3fnuz", 8), "F8_E5M2FNUZ": (10, "float8_e5m2fnuz", 8), "I16": (11, "int16", 16),
    "U16": (12, "uint16", 16), "F16": (13, "float16", 16), "BF16": (14, "bfloat16", 16), "I32": (15, "int32", 32),
    "U32": (16, "uint32", 32), "F32": (17, "float32", 32), "C64": (18, "complex64", 64), "I64": (19, "int64", 64),
    "U64": (20, "uint64", 64), "F64": (21, "float64", 64)}

NUMPY_DTYPES = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16",
                "float32", "float64", "complex64"]
FORMAT_NAMES = {package_name: name for name, (_, package_name, _) in DTYPES.items()}

RANDOM_COUNT = 60


class Library:
    """The calls of lmc_st.h that are needed here. Options are left to their defaults."""

    def __init__(self, path):
        self.calls = ctypes.CDLL(path)
        self.calls.lmc_status_text.restype = ctypes.c_char_p
        self.calls.lmc_status_text.argtypes = [ctypes.c_int]
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        shape = ctypes.POINTER(ctypes.c_uint64)
        for name, types in {
                "writer_create": [pointer, ctypes.POINTER(pointer)],
                "writer_free": [pointer],
                "writer_set_metadata": [pointer, ctypes.c_char_p, size, ctypes.c_char_p, size],
                "writer_add": [pointer, ctypes.c_char_p, size, ctypes.c_int, shape, size, pointer],
                "writer_write": [pointer, ctypes.c_char_p, pointer, pointer, pointer],
                "writer_write_plain": [pointer, ctypes.c_char_p, pointer, pointer, pointer],
                "restore": [ctypes.c_char_p, ctypes.c_char_p, pointer, pointer, pointer]}.items():
            function = getattr(self.calls, "lmc_st_" + name)
            function.argtypes = types
            function.restype = None if name == "writer_free" else ctypes.c_int
            setattr(self, name, function if name == "writer_free" else self.checked(name, function))

    def checked(self, name, function):
        def call(*arguments):
            status = function(*arguments)
            if status != 0:
                raise RuntimeError(f"lmc_st_{name}: {self.calls.lmc_status_text(status).decode()}")
        return call

    def write(self, tensors, metadata, plain_path, archive_path):
        writer = ctypes.c_void_p()
        self.writer_create(None, ctypes.byref(writer))
        try:
            for key, value in metadata.items():
                key, value = key.encode(), value.encode()
                self.writer_set_metadata(writer, key, len(key), value, len(value))
            for tensor in tensors:
                name = tensor.name.encode()
                shape = (ctypes.c_uint64 * len(tensor.shape))(*tensor.shape)
                data = ctypes.cast(ctypes.c_char_p(tensor.data), ctypes.c_void_p)  # kept by `tensors`
                self.writer_add(writer, name, len(name), DTYPES[tensor.dtype][0], shape, len(tensor.shape), data)
            self.writer_write_plain(writer, plain_path.encode(), None, None, None)
            self.writer_write(writer, archive_path.encode(), None, None, None)
        finally:
            self.writer_free(writer)


def write_officially(tensors, metadata, path):
    specs = {}
    for tensor in tensors:
        shape = list(tensor.shape)
        if tensor.dtype == "F4":  # the package takes the shape of the bytes
            shape[-1] //= 2
        address = ctypes.cast(ctypes.c_char_p(tensor.data), ctypes.c_void_p).value
        specs[tensor.name] = safetensors.TensorSpec(dtype=DTYPES[tensor.dtype][1], shape=shape, data_ptr=address,
                                                    data_len=len(tensor.data))
    safetensors.serialize_file(specs, path, metadata=metadata or None)


def first_difference(ours, theirs):
    place = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    begin = max(0, place - 30)
    return (f"{len(ours)} and {len(theirs)} bytes, different from {place}: {ours[begin:place + 30]!r} here, "
            f"{theirs[begin:place + 30]!r} there")


def faults_of_case(library, folder, tensors, metadata=None, write_theirs=None):
    """Writes both files; what is wrong."""
    paths = [os.path.join(folder, name) for name in ("ours", "ours.lmc", "restored", "theirs")]
    plain, archive, restored, theirs = paths
    try:
        library.write(tensors, metadata or {}, plain, archive)
        (write_theirs or write_officially)(tensors, metadata, theirs)
        library.restore(archive.encode(), restored.encode(), None, None, None)
        if read(plain) != read(theirs):
            yield first_difference(read(plain), read(theirs))
        if read(restored) != read(plain):
            yield "the archive restores to another file"
    finally:
        for path in paths:
            if os.path.exists(path):
                os.unlink(path)


# ---- cases ----

def make(name, dtype, shape, source):
    count = 1
    for dimension in shape:
        count *= dimension
    nbytes = count * DTYPES[dtype][2] // 8
    data = source.randbytes(nbytes)
    return Tensor(name, dtype, list(shape), bytes(byte & 1 for byte in data) if dtype == "BOOL" else data)


def numpy_case(library, folder, arrays, metadata=None):
    tensors = [Tensor(name, FORMAT_NAMES[array.dtype.name], list(array.shape), array.tobytes())
               for name, array in arrays.items()]
    return faults_of_case(library, folder, tensors, metadata,
                          lambda _, metadata, path: save_file(arrays, path, metadata=metadata))


def random_name(source):
    ranges = [(0, 0x20), (0x20, 0x7F), (0x22, 0x23), (0x5C, 0x5D), (0x7F, 0xA0), (0xA0, 0x800), (0x800, 0xD800),
              (0xE000, 0x10000), (0x10000, 0x110000)]
    return "".join(chr(source.randrange(*source.choice(ranges))) for _ in range(source.randrange(12)))


def random_case(library, folder, number):
    source = random.Random(number)
    tensors = {}
    for _ in range(source.randrange(30)):
        name = random_name(source)
        dtype = source.choice(list(DTYPES))
        shape = [source.choice([0, 1, 2, 3, 5, 17]) for _ in range(source.randrange(4))]
        if dtype == "F4":
            shape.append(2 * source.randrange(4))
        tensors[name] = make(name, dtype, shape, source)
    metadata = {random_name(source): random_name(source)} if source.random() < 0.5 else None
    return faults_of_case(library, folder, list(tensors.values()), metadata)


def cases():
    """The name of a case and a function (library, folder) that yields the faults."""
    source = random.Random(0)
    arrays = numpy.random.default_rng(1)
    every_character = "".join(map(chr, range(0x300))) + "\u2028\ud7ff\ue000\ufeff\uffff\U00010000\U0010ffff"

    def case(name, tensors, metadata=None):
        return name, lambda library, folder: faults_of_case(library, folder, tensors, metadata)

    for dtype in NUMPY_DTYPES:
        values = {f"{dtype}.{i}": (arrays.random((3, 5 + i)) * 2).astype(dtype) for i in range(3)}
        yield "numpy-" + dtype, lambda library, folder, values=values: numpy_case(library, folder, values)
    mixed = {f"{dtype}.{i}": numpy.asarray(arrays.random(shape) * 2).astype(dtype) for dtype in reversed(NUMPY_DTYPES)
             for i, shape in enumerate([(), (0,), (1,), (4, 0, 3), (40, 50)])}
    yield "numpy-all", lambda library, folder: numpy_case(library, folder, mixed, {"format": "np"})
    for dtype in DTYPES:
        yield case("dtype-" + dtype, [make(name, dtype, [6, 4], source) for name in ("b", "a", "c")])
    yield case("dtypes-in-order", [make(dtype, dtype, [10], source) for dtype in DTYPES])
    yield case("dtypes-turned-round", [make(f"{i:03}", dtype, [10], source)
                                       for i, dtype in enumerate(reversed(DTYPES))])
    yield case("none", [])
    yield case("none-with-metadata", [], {"format": "pt"})
    yield case("metadata", [make("x", "F32", [1], source)], {"k\u00e9y \"\\/": every_character})
    yield case("metadata-of-nothing", [make("x", "F32", [1], source)], {"": ""})
    yield case("scalar", [make("x", "F64", [], source), make("y", "U8", [], source)])
    yield case("empty", [make("x", "F64", [0], source), make("y", "U8", [3, 0], source), make("", "I8", [2], source)])
    yield case("every-character", [make(character, "U8", [1], source) for character in every_character])
    yield case("long-name", [make(every_character * 20, "U8", [1], source)])
    yield case("deep", [make("x", "U8", [1] * 500 + [3], source)])
    yield case("padding", [make("a" * length, "U8", [1], source) for length in range(9)])
    yield case("many", [make(f"layers.{i}.{kind}", dtype, [4], source) for i in range(1000)
                        for kind, dtype in (("weight", "BF16"), ("bias", "F32"), ("scale", "F8_E8M0"))])
    yield case("large", [make("w", "BF16", [1000, 1000], source), make("v", "U8", [1 << 21], source)])


@pytest.fixture(scope="module")
def library(build):
    return Library(os.path.join(build, "lib", "liblmc_st.so"))


@pytest.mark.parametrize("faults", [pytest.param(faults, id=name) for name, faults in cases()])
def test_writer(library, directory, faults):
    fail_on(faults(library, directory))


@pytest.mark.parametrize("number", range(RANDOM_COUNT))
def test_writer_at_random(library, directory, number):
    fail_on(random_case(library, directory, number))
