"""Bases of the reference reader of archives: docs/archive.md, section 5. The list of bases and its rules; which paths
may be the base; what a frame may ask of its base."""
import collections
import os

import lmc_reference
from lmc_delta import BASE_BF16_OF_F32
from lmc_reference import corrupt_unless
from safetensors_header import DTYPE_NUMBERS

FILE, SELF = 0, 1  # places
NAME_NBYTES_MAX = 255
CHAIN_MAX = 64  # files, the first archive included

Link = collections.namedtuple("Link", "place base")


class BaseList:
    """`links` maps the number of a tensor to its Link; `name` is None if no link has place FILE."""

    def __init__(self, reader):
        link_count = reader.uint(4)
        corrupt_unless(link_count >= 1, "link_count")
        name_nbytes = reader.uint(4)
        corrupt_unless(name_nbytes <= NAME_NBYTES_MAX, "name_nbytes")
        self.nbytes, self.header_hash, self.hash = (reader.uint(8) for _ in range(3))
        name = reader.bytes(name_nbytes)
        corrupt_unless(not any(reader.bytes(-name_nbytes % 8)), "zeros behind the base's name")
        self.links = read_links(reader, link_count)
        if any(link.place == FILE for link in self.links.values()):
            self.name = base_name(name)
        else:
            nothing = not name and self.nbytes == self.header_hash == self.hash == 0
            corrupt_unless(nothing, "something is said of a base file, but no link leads to it")
            self.name = None

    def check(self, tensor_count, aliases):
        """All rules on opening that need the tensors."""
        for tensor, (place, base) in self.links.items():
            corrupt_unless(tensor < tensor_count, f"link of tensor {tensor}")
            corrupt_unless(tensor not in aliases, f"alias {tensor} has a link")
            if place == SELF:
                corrupt_unless(base < tensor_count, f"base {base} of tensor {tensor}")
                corrupt_unless(base != tensor, f"tensor {tensor} is its own base")
                corrupt_unless(base not in aliases, f"base {base} is an alias")
                needs_file = base not in self.links or self.links[base].place == FILE
                corrupt_unless(needs_file, f"base {base} has a base in the same file")


def read_links(reader, link_count):
    links = {}
    last = -1
    for _ in range(link_count):
        tensor, base = reader.uint(4), reader.uint(4)
        corrupt_unless(tensor > last, "the links do not rise")
        links[tensor] = Link(base >> 31, base % (1 << 31))
        last = tensor
    return links


def base_name(name):
    try:
        text = name.decode()
    except UnicodeDecodeError:
        text = ""
    plain = text not in ("", ".", "..") and "/" not in text and "\0" not in text
    corrupt_unless(plain, f"name of the base {name!r}")
    return text


# Where a base is


def nowhere(_name, _path):
    return []


def in_directories(directories, first_base=None, first_path=None):
    """What restore() takes as find_base. `first_base` is the base of the archive at `first_path`, whatever it is
    called."""
    def find(name, path):
        if first_base is not None and path == first_path:
            return [first_base]
        own = [] if path is None else [os.path.dirname(path)]
        places = [os.path.join(directory, name) for directory in list(directories) + own]
        return [path for place in places for path in (place, place + ".lmc") if os.path.isfile(path)]
    return find


def is_same_file(path, other):
    return path is not None and other is not None and os.path.samefile(path, other)


# Frames


def check_base(head, tensor, base, has_dtypes):
    """Rule 2: the tensor that is the base of a delta frame with this head. Bases in files of other kinds may have any
    dtype (8.3)."""
    dtype = "F32" if head.base_form == BASE_BF16_OF_F32 else tensor.dtype
    corrupt_unless(not has_dtypes or DTYPE_NUMBERS[base.dtype] == DTYPE_NUMBERS[dtype], "dtype of the base")
    corrupt_unless(base.nbytes == head.base_nbytes, "size of the base")


def has_base(head):
    return head.mode == lmc_reference.MODE_DELTA
