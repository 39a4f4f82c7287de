"""Copies objects of an HDF5 file to another: groups, links, attributes, committed datatypes, references."""

from __future__ import annotations

import functools
import itertools
import os
from typing import Any, Callable, Iterator

import h5py
import numpy
from h5py import h5a, h5d, h5f, h5g, h5i, h5l, h5o, h5p, h5r, h5s, h5t

from .._chunks.stored_chunks import reason_of
from .._errors import UnsupportedError

_MERGE_COMMITTED_DTYPES = 0x40  # H5O_COPY_MERGE_COMMITTED_DTYPE_FLAG
_COMPLEX = 11  # class of complex numbers, from HDF5 2.0 on

# Creates a dataset's copy and returns it; None leaves it to HDF5.
CopyDataset = Callable[[Any, Any, bytes, Any, Any], Any]


def is_fixed(datatype: Any) -> bool:
    """Elements hold all of their content: no lists, no text of variable length, no references."""
    kind = datatype.get_class()
    if kind in (h5t.INTEGER, h5t.FLOAT, h5t.BITFIELD, h5t.OPAQUE, h5t.ENUM, h5t.TIME, _COMPLEX):
        return True
    if kind == h5t.STRING:
        return not datatype.is_variable_str()
    if kind == h5t.COMPOUND:
        return all(is_fixed(datatype.get_member_type(i)) for i in range(datatype.get_nmembers()))
    return kind == h5t.ARRAY and is_fixed(datatype.get_super())


class Copier:
    """Copies the tree of one open file to another, which is empty.

    An object with several hard links is copied once. Soft and external links are copied as links. References lead to
    the copies of their objects; one that leads nowhere becomes a null reference. Attributes and members keep the order
    in which they were created, where the file knows it, but for groups with committed datatypes.
    """

    def __init__(self, source: Any, target: Any, copy_dataset: CopyDataset) -> None:
        self._source, self._target, self._copy_dataset = source, target, copy_dataset
        self._paths: dict[Any, bytes] = {}  # of copies, by what was copied
        self._types: dict[Any, Any] = {}  # committed datatypes of the target
        self._open_references: list[Callable[[], None]] = []

    def run(self) -> None:
        """Raises OSError, RuntimeError (HDF5), UnsupportedError (links and references of a kind that h5py lacks)."""
        root, copy = h5g.open(self._source, b"/"), h5g.open(self._target, b"/")
        self._paths[_key(root)] = b"/"
        self._copy_attributes(root, copy)
        self._copy_types()
        groups = [(root, copy, b"/")]
        while groups:
            source, target, path = groups.pop()
            for name in list(_names(source)):
                found = self._copy_link(source, target, path, name)
                if found is not None:
                    groups.append(found)
        for resolve in self._open_references:
            resolve()

    def _copy_types(self) -> None:
        """Datatypes with a name, and the groups that lead to them: datasets share them."""
        paths: list[bytes] = []
        h5o.visit(self._source, lambda path, info: paths.append(path) if info.type == h5o.TYPE_NAMED_DATATYPE else None,
                  info=True)
        for path in paths:
            *parents, name = path.split(b"/")
            source, target, place = h5g.open(self._source, b"/"), h5g.open(self._target, b"/"), b"/"
            for parent in parents:
                source = h5g.open(source, parent)
                target, place = self._new_group(source, target, parent, place + parent), place + parent + b"/"
            datatype = h5o.open(source, name)
            h5o.copy(source, name, target, name, lcpl=_link_properties(source, name))
            self._types[_key(datatype)] = h5t.open(target, name)
            self._paths[_key(datatype)] = place + name
            self._repair_references(datatype, self._types[_key(datatype)])

    def _new_group(self, source: Any, target: Any, name: bytes, path: bytes) -> Any:
        """The copy of a group, without its members."""
        if _key(source) in self._paths:
            return h5g.open(self._target, self._paths[_key(source)])
        group = h5g.create(target, name, lcpl=_name_properties(name), gcpl=source.get_create_plist())
        self._paths[_key(source)] = path
        self._copy_attributes(source, group)
        return group

    def _copy_link(self, source: Any, target: Any, path: bytes, name: bytes) -> tuple[Any, Any, bytes] | None:
        """Copies a link, and a dataset that it leads to. Returns a group whose members are to be copied."""
        kind, properties = source.links.get_info(name).type, _link_properties(source, name)
        if kind == h5l.TYPE_SOFT:
            target.links.create_soft(name, source.links.get_val(name), lcpl=properties)
            return None
        if kind == h5l.TYPE_EXTERNAL:
            target.links.create_external(name, *source.links.get_val(name), lcpl=properties)
            return None
        if kind != h5l.TYPE_HARD:
            raise UnsupportedError("%s: a link of kind %d" % (_shown(path + name), kind))
        thing = h5o.open(source, name)
        known = self._paths.get(_key(thing))
        if known is not None:
            if known != path + name:
                target.links.create_hard(name, self._target, known, lcpl=properties)
            elif isinstance(thing, h5g.GroupID):  # a group with committed datatypes
                return thing, h5g.open(target, name), known + b"/"
            return None
        if isinstance(thing, h5g.GroupID):
            return thing, self._new_group(thing, target, name, path + name), path + name + b"/"
        self._paths[_key(thing)] = path + name
        self._copy_data(thing, source, target, name, properties)
        return None

    def _copy_data(self, dataset: Any, source: Any, target: Any, name: bytes, properties: Any) -> None:
        datatype = self._type_of(dataset.get_type())
        copy = self._copy_dataset(dataset, target, name, datatype, properties)
        if copy is not None:
            self._copy_attributes(dataset, copy)
            return
        settings = dataset.get_create_plist()
        has_fill_value = settings.fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED
        if has_fill_value and not is_fixed(datatype) and settings.get_layout() in (h5d.CHUNKED, h5d.CONTIGUOUS):
            # HDF5 itself would leave the fill value in the heap of the source
            copy = h5d.create(target, name, datatype, dataset.get_space(), dcpl=settings, lcpl=properties)
            self._copy_attributes(dataset, copy)
            self._copy_values(dataset, copy)
            return
        copying = h5p.create(h5p.OBJECT_COPY)
        if self._types:
            copying.set_copy_object(_MERGE_COMMITTED_DTYPES)
        h5o.copy(source, name, target, name, copypl=copying, lcpl=properties)
        copy = h5d.open(target, name)
        self._repair_references(dataset, copy)
        if dataset.get_type().detect_class(h5t.REFERENCE):
            self._copy_values(dataset, copy)

    def _copy_values(self, dataset: Any, copy: Any) -> None:
        """The elements, as Python objects. Those with references are written when all objects are there."""
        has_references = dataset.get_type().detect_class(h5t.REFERENCE)
        for first, count in _stored_parts(dataset):
            memory, space = (h5s.create_simple(count) if count else h5s.ALL), dataset.get_space()
            if count:
                space.select_hyperslab(first, count)
            values = numpy.empty(count, dtype=_dtype(dataset))
            read_elements(dataset, memory, space, values)
            if has_references:
                self._open_references.append(functools.partial(self._write_translated, copy, memory, space, values))
            else:
                copy.write(memory, space, values)

    def _write_translated(self, copy: Any, memory: Any, space: Any, values: Any) -> None:
        copy.write(memory, space, self._translate(values))

    def _type_of(self, datatype: Any) -> Any:
        return self._types.get(_key(datatype), datatype) if datatype.committed() else datatype

    # ---- attributes ----

    def _copy_attributes(self, source: Any, target: Any) -> None:
        for name in _attribute_names(source):
            attribute = h5a.open(source, name)
            datatype = attribute.get_type()
            copy = h5a.create(target, name, self._type_of(datatype), attribute.get_space())
            self._copy_value(attribute, datatype, copy)

    def _copy_value(self, attribute: Any, datatype: Any, copy: Any) -> None:
        if attribute.get_space().get_simple_extent_type() == h5s.NULL:
            return
        if is_fixed(datatype):  # as stored: numpy need not know the type
            values = numpy.empty(attribute.shape, dtype="V%d" % datatype.get_size())
            attribute.read(values, mtype=datatype)
            copy.write(values, mtype=datatype)
            return
        values = numpy.empty(attribute.shape, dtype=_dtype(attribute))
        attribute.read(values)
        if datatype.detect_class(h5t.REFERENCE):
            self._open_references.append(lambda: copy.write(self._translate(values)))
        else:
            copy.write(values)

    def _repair_references(self, source: Any, target: Any) -> None:
        """HDF5 has copied the attributes, and their references as null."""
        for name in _attribute_names(source):
            attribute = h5a.open(source, name)
            if attribute.get_type().detect_class(h5t.REFERENCE):
                self._copy_value(attribute, attribute.get_type(), h5a.open(target, name))

    # ---- references ----

    def _translate(self, values: Any) -> Any:
        """References to objects of the source become references to their copies, in place."""
        if values.dtype.names:
            for name in values.dtype.names:
                if values.dtype[name].hasobject:
                    values[name] = self._translate(values[name].copy())
        elif values.dtype.hasobject:
            flat = values.reshape(-1)
            for i, value in enumerate(flat):
                if isinstance(value, h5r.Reference):
                    flat[i] = self._translated(value)
                elif isinstance(value, numpy.ndarray):
                    flat[i] = self._translate(value)
            return flat.reshape(values.shape)
        return values

    def _translated(self, reference: Any) -> Any:
        is_region = isinstance(reference, h5r.RegionReference)
        try:
            path = self._paths.get(_key(h5r.dereference(reference, self._source))) if reference else None
        except (KeyError, OSError, RuntimeError, ValueError):  # the object was removed
            path = None
        if path is None:
            return h5r.RegionReference() if is_region else h5r.Reference()
        if is_region:
            return h5r.create(self._target, path, h5r.DATASET_REGION, h5r.get_region(reference, self._source))
        return h5r.create(self._target, path, h5r.OBJECT)


def read_elements(dataset: Any, memory: Any, space: Any, elements: Any, datatype: Any = None) -> None:
    """dataset.read(), whose OSError names the file and the dataset, and says why if LMC's filter failed."""
    def read() -> None:
        dataset.read(memory, space, elements, mtype=datatype)

    try:
        read()
    except OSError as error:
        file, name = os.fsdecode(h5f.get_name(dataset)), _shown(h5i.get_name(dataset) or b"?")
        text = "dataset %s: %s" % (name, reason_of(read) or error.strerror or error)
        if error.errno is None:
            raise OSError("%s: %s" % (file, text)) from error
        raise OSError(error.errno, text, file) from error


def _key(thing: Any) -> Any:
    info = h5o.get_info(thing)
    return info.fileno, info.addr


def _stored_parts(dataset: Any) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """First element and shape of all chunks that exist, or of the whole dataset."""
    properties, shape = dataset.get_create_plist(), dataset.shape
    if dataset.get_space().get_simple_extent_npoints() == 0:
        return
    if properties.get_layout() != h5d.CHUNKED:
        yield (0,) * len(shape), shape
        return
    chunk = properties.get_chunk()
    for first in itertools.product(*(range(0, size, step) for size, step in zip(shape, chunk))):
        if dataset.get_chunk_info_by_coord(first).size:
            yield first, tuple(min(step, size - start) for step, size, start in zip(chunk, shape, first))


def _dtype(thing: Any) -> Any:
    try:
        return thing.dtype
    except TypeError as error:
        raise UnsupportedError("h5py cannot read such references: %s" % error) from None


def _names(group: Any) -> Iterator[bytes]:
    """Names of links, in the order of their creation if the group knows it."""
    tracked = group.get_create_plist().get_link_creation_order() & h5p.CRT_ORDER_TRACKED
    names: list[bytes] = []
    group.links.iterate(names.append, idx_type=h5py.h5.INDEX_CRT_ORDER if tracked else h5py.h5.INDEX_NAME)
    yield from names


def _attribute_names(thing: Any) -> list[bytes]:
    names: list[bytes] = []
    if isinstance(thing, h5t.TypeID):
        h5a.iterate(thing, names.append)
        return names
    tracked = thing.get_create_plist().get_attr_creation_order() & h5p.CRT_ORDER_TRACKED
    h5a.iterate(thing, names.append, index_type=h5py.h5.INDEX_CRT_ORDER if tracked else h5py.h5.INDEX_NAME)
    return names


def _link_properties(group: Any, name: bytes) -> Any:
    properties = h5p.create(h5p.LINK_CREATE)
    properties.set_char_encoding(group.links.get_info(name).cset)
    return properties


def _name_properties(name: bytes) -> Any:
    properties = h5p.create(h5p.LINK_CREATE)
    properties.set_char_encoding(h5t.CSET_ASCII if name.isascii() else h5t.CSET_UTF8)
    return properties


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "replace")
