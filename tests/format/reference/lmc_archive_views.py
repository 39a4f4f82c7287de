"""lmc_archive_views.py - the listing of an archive of another file than a safetensors file: section 8.6 of
docs/archive.md, from that document alone. A part of lmc_archive.py.
"""
import itertools

from lmc_reference import corrupt_unless
from safetensors_header import DTYPE_NBITS, INTEGER_MAX, Number, Object, integers, is_string

RANK_MAX = 65
NOTE_NBYTES_MAX = 255
KEYS = ("name", "dtype", "shape", "strides", "offset", "byte_order", "note")


class Listed:
    """A tensor of the listing: `view` is None for a storage that is listed as it is."""

    def __init__(self, name, storage, number, view=None):
        self.name, self.number, self.view = name, number, view
        self.dtype = view.dtype if view else storage.dtype
        self.shape = view.shape if view else storage.shape

    def content(self, stored):
        return self.view.content(stored) if self.view else stored


class View:
    """A view of a storage of `nbytes` bytes."""

    def __init__(self, members, nbytes):
        corrupt_unless(isinstance(members, Object), "a view is no object")
        fields = {}
        for key, value in members:
            corrupt_unless(key not in KEYS or key not in fields, f"{key} stands twice in a view")
            fields[key] = value
        corrupt_unless("dtype" in fields and "shape" in fields, "a view without dtype or shape")
        self.name, self.note = fields.get("name"), fields.get("note")
        for key in ("name", "note", "dtype", "byte_order"):
            corrupt_unless(key not in fields or is_string(fields[key]), f"{key} of a view is no string")
        corrupt_unless(self.note is None or len(self.note.encode()) <= NOTE_NBYTES_MAX, "length of a note")
        self.dtype = fields["dtype"]
        corrupt_unless(self.dtype in DTYPE_NBITS, "dtype of a view")
        self.shape = integers(fields["shape"])
        corrupt_unless(len(self.shape) <= RANK_MAX, "rank of a view")
        self.strides = integers(fields["strides"]) if "strides" in fields else self.c_order()
        corrupt_unless(len(self.strides) == len(self.shape), "strides of a view")
        self.offset = integers([fields.get("offset", Number("0"))])[0]
        order = fields.get("byte_order", "little")
        corrupt_unless(order in ("big", "little"), "byte order of a view")
        self.is_big = order == "big"
        self.check(nbytes)

    def c_order(self):
        strides, step = [], 1
        for dimension in reversed(self.shape):
            strides.insert(0, step)
            step *= dimension
        return strides

    def check(self, storage_nbytes):
        """Rules 1 to 3."""
        nbits = DTYPE_NBITS[self.dtype]
        count = 1
        for dimension in self.shape:
            count *= dimension
            corrupt_unless(count <= INTEGER_MAX, "elements of a view")
        corrupt_unless(count * nbits <= INTEGER_MAX and count * nbits % 8 == 0, "bits of a view")
        self.nbytes = count * nbits // 8
        if count == 0:
            return
        last = self.offset + sum((dimension - 1) * stride for dimension, stride in zip(self.shape, self.strides))
        corrupt_unless((last + 1) * nbits <= min(INTEGER_MAX, 8 * storage_nbytes), "a view leaves its storage")
        if nbits < 8:
            right = all(dimension == 1 or stride == wanted
                        for dimension, stride, wanted in zip(self.shape, self.strides, self.c_order()))
            corrupt_unless(right and self.offset * nbits % 8 == 0, "a view of elements that share bytes")

    def content(self, stored):
        nbits = DTYPE_NBITS[self.dtype]
        if nbits < 8:
            begin = self.offset * nbits // 8
            return stored[begin : begin + self.nbytes]
        width = nbits // 8
        parts = []
        if self.nbytes == 0:
            return b""
        for indices in itertools.product(*map(range, self.shape)):
            at = (self.offset + sum(index * stride for index, stride in zip(indices, self.strides))) * width
            parts.append(self.little(stored[at : at + width]))
        return b"".join(parts)

    def little(self, element):
        if not self.is_big:
            return element
        if self.dtype == "C64":
            return element[3::-1] + element[:3:-1]
        return element[::-1]


def listing(tensors):
    """The tensors of the listing, of the storages in a header."""
    first, more = [], []
    for number, storage in enumerate(tensors):
        values = storage.entry.values_of("views")
        if not values:
            first.append(Listed(storage.name, storage, number))
            continue
        corrupt_unless(len(values) == 1, f"views of {storage.name!r} stand twice")
        is_array = isinstance(values[0], list) and not isinstance(values[0], Object)
        corrupt_unless(is_array and values[0], f"views of {storage.name!r} are no array with members")
        views = [View(members, storage.nbytes) for members in values[0]]
        corrupt_unless(views[0].name is None and all(view.name is not None for view in views[1:]),
                       f"names of views of {storage.name!r}")
        first.append(Listed(storage.name, storage, number, views[0]))
        more += [Listed(view.name, storage, number, view) for view in views[1:]]
    names = [tensor.name for tensor in first + more]
    corrupt_unless(len(set(names)) == len(names), "a name stands twice in the listing")
    return first + more
