"""cases.py - datasets: a type, a layout, what is written in which order, and a pipeline.

A case says itself what its dataset holds at the end, so a file is read without asking who wrote it.
"""

import functools

import numpy

from bed import h5py
from contents import content
from pipelines import PLAIN

h5s = h5py.h5s


class Layout:
    """shape at first; chunks; maxshape; steps that are taken one after the other:
    ("write", slices) new content there, ("resize", shape), ("flush",)."""

    def __init__(self, name, shape, chunks, *steps, maxshape=None):
        self.name = name
        self.shape = shape
        self.chunks = chunks
        self.maxshape = maxshape
        self.steps = steps or (("write", tuple(slice(0, n) for n in shape)),)


class Case:
    """One dataset. `fill`: bytes of an element, for types of numpy; None: zeros."""

    def __init__(self, filetype, layout, pipeline=PLAIN, kind=None, fill=None):
        self.filetype = filetype
        self.layout = layout
        self.pipeline = pipeline
        # HDF5 1.14 does not read what its scale-offset filter makes of numbers that take all bits
        self.kind = "few" if pipeline.scaleoffset else kind or filetype.kind
        self.fill = fill
        parts = [filetype.name, layout.name, pipeline.name, self.kind] + ["fill"] * (fill is not None)
        self.name = ".".join(parts)

    def piece(self, number, shape):
        """What step `number` writes."""
        count = int(numpy.prod(shape, dtype="i8"))
        data = content(self.kind, f"{self.name}/{number}", count, self.filetype.size, self.filetype.big_endian)
        return numpy.frombuffer(data, f"V{self.filetype.size}").reshape(shape)

    def blank(self, shape):
        data = numpy.zeros(shape, f"V{self.filetype.size}")
        if self.fill is not None:
            data[...] = numpy.void(self.fill)
        return data

    @functools.lru_cache(maxsize=None)
    def expected(self):
        """All elements at the end."""
        data = self.blank(self.layout.shape)
        for number, step in enumerate(self.layout.steps):
            if step[0] == "write":
                part = data[step[1]]
                part[...] = self.piece(number, part.shape)
            elif step[0] == "resize":
                other = self.blank(step[1])
                common = tuple(slice(0, min(a, b)) for a, b in zip(data.shape, step[1]))
                other[common] = data[common]
                data = other
        return data

    def create(self, place):
        dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        dcpl.set_chunk(self.layout.chunks)
        if self.fill is not None:
            dcpl.set_fill_value(numpy.frombuffer(self.fill, self.filetype.dtype).reshape(()))
        self.pipeline.apply(dcpl)
        unlimited = tuple(h5s.UNLIMITED if n is None else n for n in self.layout.maxshape or self.layout.shape)
        space = h5s.create_simple(self.layout.shape, unlimited)
        return h5py.h5d.create(place.id, self.name.encode(), self.filetype.make(), space, dcpl)

    def write(self, place):
        dataset = self.create(place)
        for number, step in enumerate(self.layout.steps):
            if step[0] == "write":
                write_part(dataset, step[1], lambda shape, n=number: self.piece(n, shape))
            elif step[0] == "resize":
                dataset.set_extent(step[1])
            else:
                dataset.flush()
        return dataset

    def fault(self, place):
        """What is wrong with this dataset in a file; None if nothing is."""
        try:
            found = read_all(h5py.h5d.open(place.id, self.name.encode()))
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            return f"{self.name}: {error}"
        wanted = self.expected()
        if found.shape != wanted.shape:
            return f"{self.name}: shape {found.shape}, not {wanted.shape}"
        if found.tobytes() != wanted.tobytes():
            return f"{self.name}: {numpy.count_nonzero(found != wanted)} of {found.size} elements are wrong"
        return None

    def storage_fault(self, place):
        """A chunk that is stored without LMC, or is larger than it may be; None if there is none."""
        dataset = h5py.h5d.open(place.id, self.name.encode())
        chunk_nbytes = int(numpy.prod(self.layout.chunks)) * self.filetype.size
        for i in range(dataset.get_num_chunks()):
            info = dataset.get_chunk_info(i)
            if self.pipeline.lmc_bits & info.filter_mask:
                return f"{self.name}: filter mask {info.filter_mask} at {info.chunk_offset}"
            if self.pipeline.extra is not None and info.size > chunk_nbytes + self.pipeline.extra:
                return f"{self.name}: {info.size} bytes for a chunk of {chunk_nbytes}"
        return None


def write_part(dataset, slices, piece_of):
    """Writes a part, which may have steps, without conversion."""
    space = dataset.get_space()
    shape = dataset.shape
    ranges = [range(*part.indices(n)) for part, n in zip(slices, shape)]
    count = tuple(len(r) for r in ranges)
    if 0 in count:
        return
    space.select_hyperslab(tuple(r.start for r in ranges), count, tuple(r.step for r in ranges))
    data = numpy.ascontiguousarray(piece_of(count))
    dataset.write(h5s.create_simple(count), space, data, dataset.get_type())


def read_all(dataset):
    data = numpy.zeros(dataset.shape, f"V{dataset.get_type().get_size()}")
    if data.size:
        dataset.read(h5s.ALL, h5s.ALL, data, dataset.get_type())
    return data
