"""The filter's values: what set_local makes of a type and a pipeline, and what it refuses (docs/hdf5-filter.md, 2)."""

import itertools
import math

import numpy
import pytest

import filetypes
import objects
import pipelines
from bed import FILTER_ID, HDF5, MAGIC, h5py, memory_file
from library import lmc_values

INTEGER, FLOAT, TIME, STRING, BITS, OPAQUE, COMPOUND, REFERENCE, ENUM = range(9)
BIG, SHUFFLED, RESIZED, COLUMNS = 0x100, 0x200, 0x400, 0x800
U8, F8_E5M2, F8_E4M3, F16, BF16, F32, F64 = (number + 1 << 16 for number in (0, 6, 7, 13, 14, 17, 21))
SAMPLE = 0

# by type: bytes of an element, [5]
BY_TYPE = {
    "i1": (1, INTEGER | SAMPLE), "u1": (1, INTEGER),
    "i2le": (2, INTEGER), "i2be": (2, INTEGER | BIG), "u2le": (2, INTEGER), "u2be": (2, INTEGER | BIG),
    "i4le": (4, INTEGER), "u4be": (4, INTEGER | BIG), "i8le": (8, INTEGER), "u8be": (8, INTEGER | BIG),
    "f2le": (2, FLOAT | F16), "f2be": (2, FLOAT | F16 | BIG), "f4le": (4, FLOAT | F32),
    "f4be": (4, FLOAT | F32 | BIG), "f8le": (8, FLOAT | F64), "f8be": (8, FLOAT | F64 | BIG),
    "c8le": (4, FLOAT | F32), "c8be": (4, FLOAT | F32 | BIG), "c16le": (8, FLOAT | F64),
    "c16be": (8, FLOAT | F64 | BIG),
    "long_double_g_le": (16, FLOAT | COLUMNS), "long_double_g_be": (16, FLOAT | COLUMNS),
    "long_double_G_le": (16, FLOAT | COLUMNS),
    "bool": (1, ENUM | U8), "enum_u1": (1, ENUM | U8), "enum_le_i2": (2, ENUM), "enum_be_u2": (2, ENUM | BIG),
    "enum_be_i4": (4, ENUM | BIG), "enum_le_i8": (8, ENUM),
    "ml_bfloat16": (2, OPAQUE), "ml_float8_e4m3fn": (1, OPAQUE), "ml_int4": (1, OPAQUE),
    "opaque1": (1, OPAQUE), "opaque2": (2, OPAQUE), "opaque3": (3, OPAQUE | COLUMNS), "opaque4": (4, OPAQUE),
    "opaque8": (8, OPAQUE), "opaque16": (16, OPAQUE | COLUMNS), "opaque256": (256, OPAQUE | COLUMNS),
    "opaque300": (1, OPAQUE | U8), "opaque_datetime": (8, OPAQUE),
    "string1": (1, STRING | U8), "string2": (1, STRING | U8), "string5": (1, STRING | U8),
    "string300": (1, STRING | U8), "string_utf8": (1, STRING | U8), "string_terminated": (1, STRING | U8),
    "compound_packed": (13, COMPOUND | COLUMNS), "compound_padded": (24, COMPOUND | COLUMNS),
    "compound_nested": (37, COMPOUND | COLUMNS), "compound_wide": (1, COMPOUND | U8),
    "compound_xyz": (4, FLOAT | F32), "compound_be": (8, FLOAT | F64 | BIG), "compound_array": (4, FLOAT | F32),
    "compound_bytes": (1, INTEGER), "compound_one": (2, FLOAT | F16), "compound_256": (2, INTEGER),
    "compound_mixed": (8, COMPOUND),
    "array_f4": (4, FLOAT | F32), "array_u2": (2, INTEGER), "array_be": (8, FLOAT | F64 | BIG),
    "array_i1": (1, INTEGER), "array_text": (1, STRING | U8), "array_large": (4, FLOAT | F32),
    "array_of_compound": (5, COMPOUND | COLUMNS), "array_of_array": (4, FLOAT | F32 | BIG),
    "int12le": (2, INTEGER), "int12be": (2, INTEGER | BIG), "int24le": (3, INTEGER | COLUMNS),
    "int24be": (3, INTEGER | COLUMNS), "int56le": (7, INTEGER | COLUMNS),
    "bits_b8le": (1, BITS), "bits_b16be": (2, BITS | BIG), "bits_b64le": (8, BITS), "time": (4, TIME),
    "float_bf16_le": (2, FLOAT | BF16), "float_bf16_be": (2, FLOAT | BF16 | BIG),
    "float_f8_e4m3_le": (1, FLOAT | F8_E4M3), "float_f8_e5m2_be": (1, FLOAT | F8_E5M2),
    "float_f24_le": (3, FLOAT | COLUMNS), "float_tf32_le": (4, FLOAT), "float_tf32_be": (4, FLOAT | BIG),
    "h5_bfloat16le": (2, FLOAT | BF16), "h5_bfloat16be": (2, FLOAT | BF16 | BIG), "h5_f8e4m3": (1, FLOAT | F8_E4M3),
    "h5_f8e5m2": (1, FLOAT | F8_E5M2), "h5_f6e2m3": (1, FLOAT), "h5_f4e2m1": (1, FLOAT),
    "h5_complex16le": (2, FLOAT | F16), "h5_complex32le": (4, FLOAT | F32), "h5_complex32be": (4, FLOAT | F32 | BIG),
    "h5_complex64be": (8, FLOAT | F64 | BIG),
}

# The same after HDF5's shuffle filter.
SHUFFLED_TYPE = {
    "u1": (1, INTEGER), "i2le": (2, INTEGER | SHUFFLED | 1 << 24), "f4le": (4, FLOAT | F32 | SHUFFLED | 1 << 24),
    "f8be": (8, FLOAT | F64 | BIG | SHUFFLED | 1 << 24), "ml_bfloat16": (2, OPAQUE | SHUFFLED | 1 << 24),
    "compound_xyz": (4, FLOAT | F32 | SHUFFLED | 3 << 24), "array_be": (8, FLOAT | F64 | BIG | SHUFFLED | 2 << 24),
    "compound_256": (2, INTEGER | SHUFFLED | 128 << 24), "string5": (1, STRING | U8 | SHUFFLED | 5 << 24),
    "compound_bytes": (1, INTEGER | SHUFFLED | 7 << 24), "compound_packed": (1, COMPOUND | U8),
    "int24le": (1, INTEGER | U8), "opaque300": (1, OPAQUE | U8), "array_large": (1, FLOAT | U8),
    "string300": (1, STRING | U8),
}

# the type, the user's values, bytes of an element, [5]
OVERRIDDEN = [
    ("f4le", (0, 4), 4, FLOAT | F32), ("f4le", (0, 2), 2, FLOAT), ("f4le", (0, 1), 1, FLOAT | U8),
    ("f4le", (0, 8), 8, FLOAT), ("f4be", (0, 4), 4, FLOAT | F32 | BIG), ("f4be", (0, 2), 2, FLOAT),
    ("u1", (0, 4), 4, INTEGER), ("u1", (2, 8, 64), 8, INTEGER), ("compound_packed", (0, 1), 1, COMPOUND | U8),
    ("compound_packed", (1, 4), 4, COMPOUND), ("compound_xyz", (0, 4), 4, FLOAT | F32), ("string16", (0, 2), 2, STRING),
    ("ml_bfloat16", (0, 2), 2, OPAQUE), ("opaque300", (0, 4), 4, OPAQUE), ("u2le", (1, 0, 16), 2, INTEGER),
    ("u2be", (2, 0, 1024), 2, INTEGER | BIG),
]

# filters before LMC: what becomes of f4le
AFTER_FILTERS = {
    "fletcher_before": (4, FLOAT | F32 | RESIZED),
    "fletcher_after": (4, FLOAT | F32),
    "shuffle_fletchers": (4, FLOAT | F32 | SHUFFLED | RESIZED | 1 << 24),
    "gzip_before": (1, FLOAT | U8 | RESIZED),
    "gzip_after": (4, FLOAT | F32),
    "lzf_before": (1, FLOAT | U8 | RESIZED),
    "shuffle_gzip_before": (1, FLOAT | U8 | RESIZED),
    "shuffle_after": (4, FLOAT | F32),
    "twice": (4, FLOAT | F32),
    "mandatory": (4, FLOAT | F32),
}

CHUNK = (5, 7)


def make_dcpl(pipeline, chunk=CHUNK):
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    dcpl.set_chunk(chunk)
    for number, flags, values in pipeline:
        dcpl.set_filter(number, flags, values)
    return dcpl


def create(file, name, dcpl, shape=(20, 30)):
    filetype = filetypes.BY_NAME[name].make() if isinstance(name, str) else name
    made = h5py.h5d.create(file.id, None, filetype, h5py.h5s.create_simple(shape), dcpl)
    return h5py.Dataset(made)


def row_nbytes(size, element, what, chunk):
    """Of a row in chunks of a type of `size` bytes, coded as elements of `element`: the innermost dimensions, as many
    as give 32 elements; 0 if the chunk has one row only, or if bytes are coded."""
    lengths = list(chunk)
    nbytes = size * lengths.pop()
    while lengths and nbytes // element < 32:
        nbytes *= lengths.pop()
    is_bytes = what & (COLUMNS | RESIZED) or what >> 16 & 0xFF == U8 >> 16
    return 0 if is_bytes or nbytes == size * math.prod(chunk) or nbytes % element else nbytes


def with_row(values, size, chunk):
    """Values without the last one that the filter sets."""
    nbytes = row_nbytes(size, values[4], values[5], chunk)
    return values + (0,) * (9 - len(values)) + (nbytes,) if nbytes else values


def expected(name, user, element, what, chunk=CHUNK):
    user = tuple(user) + (0, 0, 0)
    size = filetypes.BY_NAME[name].size
    return with_row(user[:3] + (MAGIC, element, what, math.prod(chunk) * size, 0), size, chunk)


def here(names):
    return [name for name in names if filetypes.BY_NAME[name].is_here]


def latest_file():
    return memory_file(libver=("earliest", "latest"))


@pytest.mark.parametrize("name", here(BY_TYPE))
def test_values_by_type(name):
    with latest_file() as file:
        assert lmc_values(create(file, name, make_dcpl([pipelines.lmc()]))) == expected(name, (), *BY_TYPE[name])


@pytest.mark.parametrize("name", here(SHUFFLED_TYPE))
def test_values_after_shuffle(name):
    with latest_file() as file:
        dataset = create(file, name, make_dcpl([pipelines.SHUFFLED, pipelines.lmc()]))
        assert lmc_values(dataset) == expected(name, (), *SHUFFLED_TYPE[name])


@pytest.mark.parametrize("name, user, element, what", OVERRIDDEN)
def test_values_of_the_user(name, user, element, what):
    with latest_file() as file:
        assert lmc_values(create(file, name, make_dcpl([pipelines.lmc(*user)]))) == expected(name, user, element, what)


@pytest.mark.parametrize("name", AFTER_FILTERS)
def test_values_beside_other_filters(name):
    with latest_file() as file:
        pipeline = pipelines.BY_NAME[name].filters
        dataset = create(file, "f4le", make_dcpl(pipeline))
        assert lmc_values(dataset) == expected("f4le", (), *AFTER_FILTERS[name])
        stored = dataset.id.get_create_plist()
        assert [stored.get_filter(i)[0] for i in range(stored.get_nfilters())] == [number for number, _, _ in pipeline]
        flags = [stored.get_filter(i)[1] for i, (number, _, _) in enumerate(pipeline) if number == FILTER_ID]
        assert flags == [flags for number, flags, _ in pipeline if number == FILTER_ID]


def test_values_of_references():
    with latest_file() as file:
        dataset = file.create_dataset("r", (50,), h5py.ref_dtype, chunks=(10,), compression=FILTER_ID)
        assert lmc_values(dataset) == (0, 0, 0, MAGIC, 8, REFERENCE | RESIZED, 80, 0)
        dataset = file.create_dataset("g", (50,), h5py.regionref_dtype, chunks=(10,), compression=FILTER_ID)
        assert lmc_values(dataset) == (0, 0, 0, MAGIC, 12, REFERENCE | COLUMNS | RESIZED, 120, 0)


def test_values_of_variable_length():
    """HDF5 asks the filter since 2.2 only; before, the user's values alone stay."""
    with latest_file() as file:
        dataset = file.create_dataset("v", (50,), h5py.string_dtype(), chunks=(10,), compression=FILTER_ID,
                                      compression_opts=(2,))
        asked = (2, 0, 0, MAGIC, 16, STRING | COLUMNS | RESIZED, 160, 0)
        assert lmc_values(dataset) == (asked if HDF5 >= (2, 2) else (2,))


@pytest.mark.parametrize("kind", [k for k in objects.KINDS if k.startswith("vlen")])
def test_mandatory_for_variable_length(kind):
    """Refused by HDF5 itself before 2.2."""
    with latest_file() as file:
        filetype = h5py.h5t.py_create(objects.KINDS[kind].dtype, logical=True)
        if HDF5 >= (2, 2):
            create(file, filetype, make_dcpl([pipelines.lmc(flags=0)]))
        else:
            with pytest.raises(ValueError, match="not suitable for filters"):
                create(file, filetype, make_dcpl([pipelines.lmc(flags=0)]))


def test_chunk_of_more_than_4_gib():
    """HDF5 2 takes them; the values count their bytes in two words."""
    with memory_file(libver="latest") as file:
        dcpl = make_dcpl([pipelines.lmc()], (5 << 10, 1 << 18))
        if HDF5 < (2, 0):
            with pytest.raises(ValueError, match="4GB|4 GiB|chunk size"):
                create(file, "f4le", dcpl, (5 << 10, 1 << 18))
        else:
            values = lmc_values(create(file, "f4le", dcpl, (5 << 10, 1 << 18)))
            assert values == (0, 0, 0, MAGIC, 4, FLOAT | F32, 1 << 30, 1, 0, 1 << 20)


# ---- creation properties that are used again ----

AGAIN = ("f4le", "f8be", "u1", "ml_bfloat16", "compound_packed", "compound_xyz", "string5", "opaque300")


@pytest.mark.parametrize("first, second", itertools.permutations(AGAIN, 2))
def test_values_are_computed_anew(first, second):
    with latest_file() as file:
        stored = create(file, first, make_dcpl([pipelines.lmc(2, 0, 64)])).id.get_create_plist()
        assert len(stored.get_filter(0)[2]) == 8
        stored.set_chunk((3, 4))
        assert lmc_values(create(file, second, stored)) == expected(second, (2, 0, 64), *BY_TYPE[second], (3, 4))


@pytest.mark.parametrize("kind", objects.KINDS)
def test_properties_of_numbers_for_what_points_elsewhere(kind, tmp_path):
    """Before 2.2 HDF5 does not ask for new values where values have variable length: those of the numbers stay."""
    dtype = objects.KINDS[kind].dtype
    with h5py.File(tmp_path / "again.h5", "w") as file:
        values = objects.KINDS[kind].values(file, kind)
        stored = create(file, "f4le", make_dcpl([pipelines.lmc()], (16,)), (60,)).id.get_create_plist()
        space = h5py.h5s.create_simple((len(values),))
        made = h5py.h5d.create(file.id, b"again", h5py.h5t.py_create(dtype, logical=True), space, stored)
        h5py.Dataset(made)[...] = objects.array_of(dtype, values)
    with h5py.File(tmp_path / "again.h5", "r") as file:
        found = [objects.KINDS[kind].found(file, value) for value in file["again"][...]]
        assert found == objects.KINDS[kind].wanted(kind)


def test_values_are_the_same_the_third_time():
    with latest_file() as file:
        dcpl = make_dcpl([pipelines.SHUFFLED, pipelines.lmc(1, 2, 16)])
        found = []
        for _ in range(3):
            dataset = create(file, "f4be", dcpl)
            found.append(lmc_values(dataset))
            dcpl = dataset.id.get_create_plist()
        assert found == [found[0]] * 3


# ---- rows ----

# chunk, the type, filters before LMC: rows that are noted down
ROWS = [
    ((8, 7), "f4le", [], 8), ((2, 7), "u2be", [], 2), ((8, 7), "f4le", [pipelines.SHUFFLED], 8),
    ((8, 7), "array_be", [], 8), ((8, 7), "compound_xyz", [], 8), ((8,), "f4le", [], 8), ((3, 2, 2), "i1", [], 3),
    ((65536, 1), "u1", [], 65536), ((65537, 1), "u1", [], 0), ((1, 7), "f4le", [], 0), ((1,), "f4le", [], 0),
    ((8, 7), "compound_packed", [], 0), ((8, 7), "int24le", [], 0), ((8, 7), "string5", [], 8),
    ((8, 7), "f4le", [pipelines.CHECKED], 0), ((8, 7), "f4le", [pipelines.DEFLATE_4], 0),
]


@pytest.mark.parametrize("level", [16, 17, 18])
@pytest.mark.parametrize("chunk, name, before, count", ROWS)
def test_values_of_rows(level, chunk, name, before, count):
    with latest_file() as file:
        shape = tuple(max(20, length) for length in chunk)
        plain = lmc_values(create(file, name, make_dcpl(before + [pipelines.lmc(level - 16)], chunk), shape))
        dataset = create(file, name, make_dcpl(before + [pipelines.lmc(level)], chunk), shape)
        values = (level,) + plain[1:8] + (count,)
        assert lmc_values(dataset) == with_row(values, filetypes.BY_NAME[name].size, chunk) == values + plain[9:]
        again = create(file, name, dataset.id.get_create_plist(), shape)
        assert lmc_values(again) == lmc_values(dataset)


def test_rows_may_be_given_up():
    """Properties of a dataset with rows serve another one with another chunk; without the level there are 8 values."""
    with latest_file() as file:
        dcpl = create(file, "f4le", make_dcpl([pipelines.lmc(17)], (8, 7))).id.get_create_plist()
        dcpl.set_chunk((4, 7))
        assert lmc_values(create(file, "f4le", dcpl))[-3:] == (4 * 7 * 4, 0, 4)
        values = lmc_values(create(file, "f4le", dcpl))
        for short in (values[:1], values[:3], values[:4], values[:8]):
            assert lmc_values(create(file, "f4le", make_dcpl([pipelines.lmc(*short)], (4, 7)))) == values
        for count in (8, 9):
            assert len(lmc_values(create(file, "f4le", make_dcpl([pipelines.lmc(1, *values[1:count])], (4, 7))))) == 8


# ---- the length of a row ----

# chunk, the type, filters before LMC: bytes of a row
ROW_NBYTES = [
    ((4096,), "f4le", [], 0), ((64, 100), "f4le", [], 400), ((64, 100), "u1", [], 100), ((64, 100), "f8be", [], 800),
    ((64, 100), "ml_bfloat16", [], 200), ((8, 16, 100), "f4le", [], 400), ((16, 8, 3, 3), "f4le", [], 288),
    ((16, 3, 3, 3), "f4le", [], 0), ((2, 32), "f4le", [], 128), ((2, 31), "f4le", [], 0), ((1, 100), "f4le", [], 0),
    ((64, 1), "f4le", [], 0), ((64, 1), "array_large", [], 288), ((64,), "array_large", [], 0),
    ((64, 100), "array_be", [], 1600), ((64, 100), "c8le", [], 800), ((64, 100), "compound_xyz", [], 1200),
    ((64, 100), "compound_packed", [], 0), ((64, 100), "compound_mixed", [], 800), ((64, 100), "int24le", [], 0),
    ((64, 100), "string5", [], 0), ((64, 100), "bool", [], 0), ((64, 100), "opaque300", [], 0),
    ((64, 100), "f4le", [pipelines.SHUFFLED], 400), ((64, 100), "compound_xyz", [pipelines.SHUFFLED], 1200),
    ((64, 100), "f8be", [pipelines.SHUFFLED], 800), ((64, 100), "array_large", [pipelines.SHUFFLED], 0),
    ((64, 100), "f4le", [pipelines.CHECKED], 0), ((64, 100), "f4le", [pipelines.DEFLATE_4], 0),
]


@pytest.mark.parametrize("level", [0, 1, 2, 16])
@pytest.mark.parametrize("chunk, name, before, nbytes", ROW_NBYTES)
def test_values_of_a_row(level, chunk, name, before, nbytes):
    with latest_file() as file:
        dataset = create(file, name, make_dcpl(before + [pipelines.lmc(level)], chunk), chunk)
        values = lmc_values(dataset)
        assert len(values) == (10 if nbytes else 9 if level == 16 else 8)
        assert values[9:] == ((nbytes,) if nbytes else ())
        assert level == 16 or values[8:9] in ((), (0,))
        assert lmc_values(create(file, name, dataset.id.get_create_plist(), chunk)) == values


def test_values_of_a_row_that_is_too_long():
    with latest_file() as file:
        dcpl = make_dcpl([pipelines.lmc()], (2, 1 << 30))
        if HDF5 < (2, 0):  # no chunk is as large as that
            with pytest.raises(ValueError, match="4GB|4 GiB|chunk size"):
                create(file, "f4le", dcpl, (2, 1 << 30))
        else:
            assert lmc_values(create(file, "f4le", dcpl, (2, 1 << 30))) == (0, 0, 0, MAGIC, 4, FLOAT | F32, 0, 2)


def test_values_of_a_row_for_other_chunks():
    """They are computed again, whatever stands there."""
    with latest_file() as file:
        dcpl = create(file, "f4le", make_dcpl([pipelines.lmc()], (64, 100)), (64, 100)).id.get_create_plist()
        for chunk, nbytes in (((64, 200), 800), ((10, 3), 0), ((64, 100), 400)):
            dcpl.set_chunk(chunk)
            dataset = create(file, "f4le", dcpl, (64, 200))
            assert lmc_values(dataset)[9:] == ((nbytes,) if nbytes else ())
            dcpl = dataset.id.get_create_plist()


# ---- bad values ----

COMPLETE = (0, 0, 0, MAGIC, 4, FLOAT | F32, 4000, 0)

# values, parts of the message
BAD = [
    *[((level,), ("[0]", level)) for level in (3, 4, 9, 15, 19, 31, 32, 48, 255, 65536, 2**31, 2**32 - 1)],
    *[((0, element), ("[1]", element)) for element in (3, 5, 6, 7, 9, 16, 32, 256, 2**31, 2**32 - 1)],
    *[((0, 0, block), ("[2]", block)) for block in (1, 2, 4, 8, 15, 17, 24, 63, 65, 100, 1000, 1023, 1025, 2048, 4096,
                                                    65536, 2**31, 2**32 - 1)],
    ((3, 3, 3), ("[0]", 3)),
    ((1, 3, 3), ("[1]", 3)),
    *[((0,) * 3 + (value,) * n, ("[3]", value)) for n in range(1, 6) for value in (0, 1, 4000, 2**32 - 1)],
    ((0, 0, 0, MAGIC + 1, 4, 1, 4000, 0), ("[3]", MAGIC + 1)),
    ((0, 0, 0, 0, 0, MAGIC, 0, 0), ("[3]", 0)),
    *[(COMPLETE + (0,) * n, (str(8 + n) + " values",)) for n in (3, 4, 8, 12, 24)],
    ((7,) + COMPLETE[1:], ("[0]", 7)),
    ((0, 7) + COMPLETE[2:], ("[1]", 7)),
    ((0, 0, 7) + COMPLETE[3:], ("[2]", 7)),
    ((0,) * 20, ("20 values",)),
    ((0,) * 64, ("64 values",)),
]


@pytest.mark.parametrize("flags", [0, h5py.h5z.FLAG_OPTIONAL], ids=["mandatory", "optional"])
@pytest.mark.parametrize("values, parts", BAD, ids=[str(values).replace(" ", "") for values, _ in BAD])
def test_bad_values(values, parts, flags):
    with memory_file() as file:
        with pytest.raises(ValueError) as caught:
            create(file, "f4le", make_dcpl([pipelines.lmc(*values, flags=flags)]))
        message = str(caught.value)
        assert "lmc" in message
        assert all(str(part) in message for part in parts)
        assert len(file) == 0


@pytest.mark.parametrize("values", [(3,), (0, 3), (0, 0, 3), (0, 0, 0, 3), (0,) * 9, (0,) * 11])
def test_bad_compression_opts(values):
    with memory_file() as file:
        with pytest.raises(ValueError, match="lmc"):
            file.create_dataset("x", (100,), "f4", chunks=(10,), compression=FILTER_ID, compression_opts=values)
        assert "x" not in file
        dataset = file.create_dataset("x", data=numpy.arange(100), chunks=(10,), compression=FILTER_ID)
        assert dataset[99] == 99


@pytest.mark.parametrize("count", range(11))
def test_good_values_of_every_count(count):
    """Values with the magic may be cut off: they are computed again."""
    with memory_file() as file:
        dataset = create(file, "f4le", make_dcpl([pipelines.lmc(*(COMPLETE + (7, 7))[:count])]))
        assert lmc_values(dataset) == expected("f4le", (), 4, FLOAT | F32)


def test_bad_values_in_the_second_lmc():
    """HDF5 asks for the first one's values only: whatever the second's are, data comes back."""
    with memory_file() as file:
        dataset = create(file, "f4le", make_dcpl([pipelines.lmc(), pipelines.lmc(9, 9, 9)]))
        values = numpy.arange(600, dtype="f4").reshape(20, 30)
        dataset[...] = values
        dataset.id.flush()
        assert (dataset[...] == values).all()
