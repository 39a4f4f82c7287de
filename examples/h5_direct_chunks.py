"""h5_direct_chunks.py - HDF5 runs one filter at a time; here many threads code chunks, and h5py stores them.

    export HDF5_PLUGIN_PATH=DIRECTORY      # that of libh5lmc.so
    python3 h5_direct_chunks.py [FILE.h5]

Needs h5py and numpy. The stored bytes are the filter's own (checked at the end), so that everybody reads the file as
usual. h5_direct_chunks.c is the same in C.
"""

import ctypes
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy

LMC = 59810
SIZE = ctypes.c_size_t


def load_library():
    """libh5lmc.so exports the calls of lmc_h5.h. ctypes lets other threads run meanwhile."""
    for directory in os.environ.get("HDF5_PLUGIN_PATH", "").split(os.pathsep):
        path = os.path.join(directory, "libh5lmc.so")
        if directory and os.path.exists(path):
            library = ctypes.CDLL(path)
            library.lmc_h5_last_error.restype = ctypes.c_char_p
            return library
    sys.exit("there is no libh5lmc.so in the directories of HDF5_PLUGIN_PATH")


def call(library, name, *arguments):
    if getattr(library, name)(*arguments) != 0:
        sys.exit(library.lmc_h5_last_error().decode())  # says "lmc: ..." and why


def encode(library, values, chunk):
    """Bytes to store for a whole chunk: a contiguous array with the dataset's type and chunk shape."""
    bound, made = SIZE(), SIZE()
    call(library, "lmc_h5_encode_bound", SIZE(chunk.nbytes), ctypes.byref(bound))
    out = ctypes.create_string_buffer(bound.value)
    call(library, "lmc_h5_encode_chunk", None, (ctypes.c_uint * len(values))(*values), SIZE(len(values)),
         ctypes.c_void_p(chunk.ctypes.data), SIZE(chunk.nbytes), out, bound, ctypes.byref(made))
    return out.raw[:made.value]


def decode(library, stored, mask, chunk):
    """Fills the array `chunk` from a stored chunk."""
    if mask & 1:  # bit i: the filter at place i was skipped, here the only one; then the bytes are plain
        chunk[...] = numpy.frombuffer(stored, chunk.dtype).reshape(chunk.shape)
        return
    made = SIZE()
    call(library, "lmc_h5_decode_chunk", None, stored, SIZE(len(stored)), ctypes.c_void_p(chunk.ctypes.data),
         SIZE(chunk.nbytes), ctypes.byref(made))
    if made.value != chunk.nbytes:
        sys.exit(f"a chunk has {made.value} bytes where the dataset's have {chunk.nbytes}")


def write(file, name, data, chunk_rows, library, threads):
    dataset = file.create_dataset(name, data.shape, data.dtype, chunks=(chunk_rows, data.shape[1]), compression=LMC)
    values = dataset.id.get_create_plist().get_filter(0)[2]  # what the filter keeps with the dataset
    firsts = range(0, len(data), chunk_rows)
    # Chunks are whole in the file. Where the data ends within one, pad it (here it does not).
    coded = threads.map(lambda first: encode(library, values, data[first:first + chunk_rows]), firsts)
    for first, stored in zip(firsts, coded):
        dataset.id.write_direct_chunk((first, 0), stored)


def read(dataset, library, threads):
    out = numpy.empty(dataset.shape, dataset.dtype)
    waiting = []
    for first in range(0, len(out), dataset.chunks[0]):
        mask, stored = dataset.id.read_direct_chunk((first, 0))
        waiting.append(threads.submit(decode, library, stored, mask, out[first:first + dataset.chunks[0]]))
    for one in waiting:
        one.result()
    return out


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "example.h5"
    library = load_library()
    weights = numpy.random.default_rng(1).normal(0, 0.02, (2048, 1024)).astype(numpy.float32)
    with ThreadPoolExecutor(4) as threads:
        with h5py.File(path, "w") as file:
            write(file, "direct", weights, 256, library, threads)
            # A chunk that a program without the plugin stored: plain, with a mask that says so.
            file["direct"].id.write_direct_chunk((256, 0), weights[256:512].tobytes(), 1)
            file.create_dataset("usual", data=weights, chunks=(256, 1024), compression=LMC)
        with h5py.File(path, "r") as file:
            direct, usual = file["direct"], file["usual"]
            assert numpy.array_equal(read(direct, library, threads), weights)
            assert numpy.array_equal(direct[:], weights)  # through the filter
            for first in range(0, len(weights), 256):
                if first != 256:
                    assert direct.id.read_direct_chunk((first, 0)) == usual.id.read_direct_chunk((first, 0))
            print(f"{direct.nbytes} bytes are {direct.id.get_storage_size() / direct.nbytes:.4f} of that (one chunk "
                  f"plain), {usual.id.get_storage_size() / usual.nbytes:.4f} by the filter; all equal")


if __name__ == "__main__":
    main()
