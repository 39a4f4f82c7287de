"""objects.py - datasets whose elements point elsewhere: references, and values of variable length.

HDF5 converts such elements, so they are written and read through h5py's ordinary calls.
"""

import numpy

from bed import FILTER_ID, h5py
from contents import WORDS, noise

COUNT = 60
OPTIONS = {
    "plain": {},
    "max": {"compression_opts": (2, 0, 16)},
    "element8": {"compression_opts": (0, 8)},
    "shuffle": {"shuffle": True},
    "fletcher32": {"fletcher32": True, "shuffle": True},
}


def picks(name):
    return [byte % 100 for byte in noise(name, COUNT)]


def words(name):
    return [" ".join(WORDS[(p + i) % len(WORDS)] for i in range(p % 9)) for p in picks(name)]


def numbers(name, dtype):
    """Arrays of 0 to 99 numbers."""
    return [numpy.frombuffer(noise(f"{name}/{i}", 8 * n), "u1")[:n].astype(dtype) for i, n in enumerate(picks(name))]


def array_of(dtype, values):
    if dtype.names:
        return numpy.array(values, dtype)
    made = numpy.empty(len(values), object)
    for i, value in enumerate(values):
        made[i] = value
    return made


def listed(value):
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (numpy.void, tuple)):
        return tuple(listed(part) for part in value.tolist())
    return value.tolist() if hasattr(value, "tolist") else value


class Kind:
    """dtype of the dataset; values(place, name) to write; found(place, value) of what was read, to be compared with
    wanted(name)."""

    def __init__(self, dtype, wanted, values=None, found=None):
        self.dtype = dtype
        self.wanted = wanted
        self.values = values or (lambda place, name: wanted(name))
        self.found = found or (lambda place, value: listed(value))


def targets(place):
    """What references point to."""
    group = place.require_group("targets")
    for i in range(5):
        if f"t{i}" not in group:
            group.create_dataset(f"t{i}", data=numpy.arange(200, dtype="u1"))
    return group


def object_references(place, name):
    group = targets(place)
    return [h5py.Reference() if p % 7 == 0 else group[f"t{p % 5}"].ref for p in picks(name)]


def named_target(place, reference):
    return place.file[reference].name.split("/")[-1] if reference else None


def region_references(place, name):
    group = targets(place)
    return [group[f"t{p % 5}"].regionref[p:p + 10] for p in picks(name)]


def named_region(place, reference):
    dataset = place.file[reference]
    first, last = h5py.h5r.get_region(reference, dataset.id).get_select_bounds()
    return dataset.name.split("/")[-1], int(first[0]), int(last[0])


RECORD = numpy.dtype([("id", "<i4"), ("name", h5py.string_dtype()), ("x", ">f8")])

KINDS = {
    "object_reference": Kind(h5py.ref_dtype, lambda name: [None if p % 7 == 0 else f"t{p % 5}" for p in picks(name)],
                             object_references, named_target),
    "region_reference": Kind(h5py.regionref_dtype, lambda name: [(f"t{p % 5}", p, p + 9) for p in picks(name)],
                             region_references, named_region),
    "vlen_text": Kind(h5py.string_dtype(), words),
    "vlen_ascii": Kind(h5py.string_dtype("ascii"), words),
    "vlen_u1": Kind(h5py.vlen_dtype("u1"), lambda name: [a.tolist() for a in numbers(name, "u1")],
                    lambda place, name: numbers(name, "u1")),
    "vlen_f8": Kind(h5py.vlen_dtype("<f8"), lambda name: [a.tolist() for a in numbers(name, "<f8")],
                    lambda place, name: numbers(name, "<f8")),
    "vlen_i2": Kind(h5py.vlen_dtype("<i2"), lambda name: [a.tolist() for a in numbers(name, "<i2")],
                    lambda place, name: numbers(name, "<i2")),
    "compound_vlen": Kind(RECORD, lambda name: [(i, word, i / 8) for i, word in enumerate(words(name))]),
}

# Before 2.2 HDF5 refuses what has a mandatory filter, as fletcher32 is, where values have variable length.
CASES = [(kind, option) for kind in KINDS for option in OPTIONS if option != "fletcher32" or "vlen" not in kind]


def write(place, kind_name, option, compression=FILTER_ID):
    """Half at first, then the rest after the dataset has grown."""
    kind = KINDS[kind_name]
    name = f"{kind_name}.{option}"
    values = array_of(kind.dtype, kind.values(place, name))
    dataset = place.create_dataset(name, (COUNT // 2,), kind.dtype, maxshape=(None,), chunks=(16,),
                                   compression=compression, **OPTIONS[option])
    dataset[:] = values[:COUNT // 2]
    place.file.flush()
    dataset.resize((COUNT,))
    dataset[COUNT // 2:] = values[COUNT // 2:]


def fault(place, kind_name, option):
    kind = KINDS[kind_name]
    name = f"{kind_name}.{option}"
    try:
        found = [kind.found(place, value) for value in place[name][...]]
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        return f"{name}: {error}"
    wanted = kind.wanted(name)
    wrong = [i for i in range(COUNT) if found[i] != wanted[i]]
    return f"{name}: elements {wrong} are wrong" if wrong or len(found) != COUNT else None
