"""h5_inspect.py - what an HDF5 file holds: datasets, filters, chunks, ratio, and chunks that a reader should not trust.

    export HDF5_PLUGIN_PATH=DIRECTORY      # that of libh5lmc.so; `lmc-st doctor` prints it
    python3 h5_inspect.py FILE.h5 [DATASET|GROUP]

Needs h5py. No chunk is decoded. Every chunk of each dataset with LMC is checked:

  without LMC   The program that wrote the chunk lacked the plugin. Write the chunk again.
  wrong size    The chunk does not have the size of the dataset's chunks. HDF5 before 2.2 reads beyond its memory for a
                chunk with fewer bytes: do not read the dataset.
  refused       LMC will not decode the chunk: it is damaged, or from a newer version. (Also a chunk at the edge of a
                dataset that was created with H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS: h5py does not tell.)
  unknown size  Another filter decides the size, or libh5lmc.so is in no directory of HDF5_PLUGIN_PATH.

The exit status is 0 if no chunk is of these kinds, else 1. HDF5 may crash on a file that somebody has forged, here
too: docs/hdf5-filter.md, section 6.
"""

import ctypes
import math
import os
import sys

import h5py

LMC, SHUFFLE, FLETCHER32 = 59810, 2, 3
CHECKSUM_NBYTES = 4  # of fletcher32, behind the content
NAMES = {1: "deflate", SHUFFLE: "shuffle", FLETCHER32: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset", LMC: "lmc"}


def load_library():
    """libh5lmc.so exports the calls of lmc_h5.h. None: it is not there."""
    for directory in os.environ.get("HDF5_PLUGIN_PATH", "").split(os.pathsep):
        path = os.path.join(directory, "libh5lmc.so")
        if directory and os.path.exists(path):
            return ctypes.CDLL(path)
    return None


def chunks_of(dataset):
    """Place, filter mask and stored bytes of every chunk that is stored."""
    places = []
    if h5py.version.hdf5_version_tuple >= (1, 14, 2):  # all in one pass; earlier versions give other places, or none
        dataset.id.chunk_iter(lambda info: places.append(info.chunk_offset))
    else:
        places = [dataset.id.get_chunk_info(i).chunk_offset for i in range(dataset.id.get_num_chunks())]
    for place in places:
        mask, stored = dataset.id.read_direct_chunk(place)
        yield place, mask, stored


def chunk_problem(library, filters, mask, stored, chunk_nbytes, is_size_fixed):
    """What is wrong with a chunk of a dataset with LMC, or None. Filters ran in their order, but for those whose bit of
    the mask is set; the size is followed backwards."""
    lmc = filters.index(LMC)
    nbytes = len(stored)
    is_known = is_size_fixed and filters.count(LMC) == 1
    for i in reversed(range(len(filters))):
        if mask >> i & 1:
            continue
        if filters[i] == LMC and is_known:
            if library is None:
                return "unknown size"
            size = ctypes.c_size_t()
            if library.lmc_h5_chunk_nbytes(stored, ctypes.c_size_t(max(nbytes, 0)), ctypes.byref(size)) != 0:
                return "refused"
            nbytes = size.value
        elif filters[i] == FLETCHER32:
            nbytes -= CHECKSUM_NBYTES
        elif filters[i] != SHUFFLE or i > lmc:  # a shuffle behind LMC has moved the head of the chunk
            is_known = False
    if is_known and nbytes != chunk_nbytes:
        return "wrong size"
    if mask >> lmc & 1:
        return "without LMC"
    return None if is_known else "unknown size"


def has_fixed_size(dataset):
    """0 for text, lists and references: what HDF5 stores is not what the type in memory says."""
    try:
        return not dataset.dtype.hasobject
    except TypeError:  # numpy has no such type; HDF5 does
        return True


def type_name(dataset):
    try:
        return str(dataset.dtype)
    except TypeError:
        return f"{8 * dataset.id.get_type().get_size()}-bit type"


def printable(name):
    """A name from an untrusted file must not control the terminal."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in name)


def inspect(name, dataset, library):
    """Prints a dataset. Returns the places of its chunks with problems."""
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(i)[0] for i in range(plist.get_nfilters())]
    nbytes = (dataset.size or 0) * dataset.id.get_type().get_size()
    stored_nbytes = dataset.id.get_storage_size()
    ratio = f", ratio {stored_nbytes / nbytes:.4f}" if nbytes else ""
    print(f"{printable(name)}: {type_name(dataset)} {dataset.shape}, {nbytes} bytes, stored {stored_nbytes}{ratio}")
    found = {}  # problem: places
    if dataset.chunks is None:
        return found
    shown = ", ".join(f"{number} {NAMES.get(number, '')}".strip() for number in filters)
    print(f"  {dataset.id.get_num_chunks()} chunks of {dataset.chunks}, filters: {shown or 'none'}")
    if LMC in filters:
        chunk_nbytes = math.prod(dataset.chunks) * dataset.id.get_type().get_size()
        for place, mask, stored in chunks_of(dataset):
            problem = chunk_problem(library, filters, mask, stored, chunk_nbytes, has_fixed_size(dataset))
            if problem:
                found.setdefault(problem, []).append(place)
    for problem, places in found.items():
        print(f"  {problem}: {len(places)} chunks, the first at {places[0]}")
    return found


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    library = load_library()
    found = []

    def visit(name, thing):
        if isinstance(thing, h5py.Dataset):
            found.append(inspect(name, thing, library))

    try:
        with h5py.File(sys.argv[1], "r") as file:
            thing = file[sys.argv[2]] if len(sys.argv) == 3 else file
            if isinstance(thing, h5py.Group):
                thing.visititems(visit)
            elif isinstance(thing, h5py.Dataset):
                visit(sys.argv[2], thing)
            else:
                sys.exit(f"{sys.argv[1]}: {sys.argv[2]} is neither a dataset nor a group")
    except (OSError, RuntimeError, KeyError) as error:
        sys.exit(f"{sys.argv[1]}: {error}")
    return 1 if any(found) else 0


if __name__ == "__main__":
    sys.exit(main())
