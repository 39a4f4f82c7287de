"""Bases of the reference reader of archives: docs/archive.md, section 5. The list of bases and its rules; which paths
may be the base; what a frame may ask of its base."""
import collections
import os

import lmc_reference
from lmc_delta import ROUNDED
from lmc_reference import corrupt_unless, supported_if
from safetensors_header import DTYPE_NUMBERS

FILE, SELF = 0, 1  # places
NAME_NBYTES_MAX = 255
CHAIN_MAX = 64  # files, the first archive included

PATH_NBYTES_MAX = 1023
FILES_MAX = 255
FLAG_EQUAL = 1
STORE_MARK = "store.json"
STORE_LEVELS_MAX = 32

Link = collections.namedtuple("Link", "place base file")  # file: number of the base file; None if place is SELF
BaseFile = collections.namedtuple("BaseFile", "path nbytes header_hash hash is_equal")


class BaseList:
    """`links` maps the number of a tensor to its Link, `files` are the base files. is_list: it is that of bit 4."""

    def __init__(self, reader, is_list=False, has_lengths=False):
        self.is_list, self.has_lengths = is_list, has_lengths
        if is_list:
            self.read_list(reader)
        else:
            self.read_plain(reader)

    def read_plain(self, reader):
        """The list of bit 0."""
        link_count = reader.uint(4)
        corrupt_unless(link_count >= 1, "link_count")
        name_nbytes = reader.uint(4)
        corrupt_unless(name_nbytes <= NAME_NBYTES_MAX, "name_nbytes")
        nbytes, header_hash, base_hash = (reader.uint(8) for _ in range(3))
        name = reader.bytes(name_nbytes)
        corrupt_unless(not any(reader.bytes(-name_nbytes % 8)), "zeros behind the base's name")
        self.links = read_links(reader, link_count, None)
        if any(link.place == FILE for link in self.links.values()):
            self.files = [BaseFile(base_name(name), nbytes, header_hash, base_hash, False)]
        else:
            nothing = not name and nbytes == header_hash == base_hash == 0
            corrupt_unless(nothing, "something is said of a base file, but no link leads to it")
            self.files = []

    def read_list(self, reader):
        """The list of bit 4."""
        link_count, file_count = reader.uint(4), reader.uint(4)
        corrupt_unless(link_count >= 1, "link_count")
        corrupt_unless(file_count <= FILES_MAX, "file_count")
        self.files = [read_file(reader) for _ in range(file_count)]
        paths = [file.path for file in self.files]
        corrupt_unless(len(set(paths)) == len(paths), "two base files with one path")
        self.links = read_links(reader, link_count, file_count)
        used = {link.file for link in self.links.values() if link.place == FILE}
        corrupt_unless(used == set(range(file_count)), "a base file that no link leads to")

    def hashes_of(self, number, base_hashes):
        """Of `base_hashes`, tensor -> base hash, those of a file, in the order of data."""
        return [base_hashes[tensor] for tensor, link in sorted(self.links.items()) if link.file == number]

    def check(self, tensor_count, aliases):
        """All rules on opening that need the tensors."""
        for tensor, (place, base, _) in self.links.items():
            corrupt_unless(tensor < tensor_count, f"link of tensor {tensor}")
            corrupt_unless(tensor not in aliases, f"alias {tensor} has a link")
            if place == SELF:
                corrupt_unless(base < tensor_count, f"base {base} of tensor {tensor}")
                corrupt_unless(base != tensor, f"tensor {tensor} is its own base")
                corrupt_unless(base not in aliases, f"base {base} is an alias")
                needs_file = base not in self.links or self.links[base].place == FILE
                corrupt_unless(needs_file, f"base {base} has a base in the same file")


def read_file(reader):
    nbytes, header_hash, base_hash = (reader.uint(8) for _ in range(3))
    path_nbytes, flags = reader.uint(4), reader.uint(4)
    corrupt_unless(1 <= path_nbytes <= PATH_NBYTES_MAX, "path_nbytes")
    path = reader.bytes(path_nbytes)
    corrupt_unless(not any(reader.bytes(-path_nbytes % 8)), "zeros behind a path")
    supported_if(flags & ~FLAG_EQUAL == 0, f"flags {flags:#x}")
    text = "/".join(map(base_name, path.split(b"/")))
    return BaseFile(text, nbytes, header_hash, base_hash, bool(flags & FLAG_EQUAL))


def read_links(reader, link_count, file_count):
    """file_count: None for the list of bit 0."""
    links = {}
    last = -1
    for _ in range(link_count):
        tensor, base = reader.uint(4), reader.uint(4)
        corrupt_unless(tensor > last, "the links do not rise")
        if file_count is None:
            place, base = base >> 31, base % (1 << 31)
            file = None if place == SELF else 0
        else:
            base, file = base % (1 << 24), base >> 24
            corrupt_unless(file <= file_count, f"base file {file}")
            place, file = (SELF, None) if file == file_count else (FILE, file)
        links[tensor] = Link(place, base, file)
        last = tensor
    return links


def base_name(name):
    try:
        text = name.decode()
    except UnicodeDecodeError:
        text = ""
    plain = text not in ("", ".", "..") and "/" not in text and "\0" not in text and len(name) <= NAME_NBYTES_MAX
    corrupt_unless(plain, f"name of the base {name!r}")
    return text


# Where a base is


def nowhere(_bases, _number, _path):
    return []


def in_directories(directories, first_base=None, first_path=None):
    """What restore() takes as find_base. `first_base` is the first to be tried for bases of the archive at
    `first_path`, whatever it is called."""
    def find(bases, number, path):
        base = bases.files[number].path
        name = base.rpartition("/")[2]
        if first_base is not None and path == first_path and len(bases.files) == 1:
            return [first_base]
        own = [] if path is None else [os.path.dirname(path)]
        places = [os.path.join(directory, name) for directory in directories]
        places += [os.path.join(root, base) for root in store_root(path) if bases.is_list]
        places += [os.path.join(directory, name) for directory in own]
        named = [first_base] if first_base is not None and path == first_path else []
        return named + [path for place in places for path in (place, place + ".lmc") if os.path.isfile(path)]
    return find


def store_root(path):
    """The root of the store in which the file is, or nothing."""
    folder = None if path is None else os.path.realpath(path)
    for _ in range(STORE_LEVELS_MAX if folder else 0):
        folder = os.path.dirname(folder)
        if os.path.isfile(os.path.join(folder, STORE_MARK)):
            return [folder]
    return []


def is_same_file(path, other):
    return path is not None and other is not None and os.path.samefile(path, other)


# Frames


def check_base(head, tensor, base, has_dtypes, any_length):
    """Rules 2 and 5: the tensor that is the base of a delta frame with this head. Bases in files of other kinds may
    have any dtype (8.3)."""
    dtype = ROUNDED[head.base_form][1] if head.base_form in ROUNDED else DTYPE_NUMBERS[tensor.dtype]
    corrupt_unless(not has_dtypes or DTYPE_NUMBERS[base.dtype] == dtype, "dtype of the base")
    corrupt_unless(any_length or base.nbytes == head.base_nbytes, "size of the base")


def of_length(content, nbytes):
    """Rule 5: the content of a base, cut, or continued with zeros."""
    return content[:nbytes] + bytes(max(0, nbytes - len(content)))


def has_base(head):
    return head.mode == lmc_reference.MODE_DELTA
