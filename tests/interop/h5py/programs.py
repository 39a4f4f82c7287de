"""programs.py - what tests run as processes of their own: without the plugin, with settings in the environment, with
little memory.

    python programs.py NAME ARGUMENT...

Each prints what its test compares. Only `foreign`, `released`, `strange` and `missing` are for a process without
HDF5_PLUGIN_PATH.
"""

import hashlib
import json
import resource
import sys

FILTER_ID = 59810
MAGIC = 0x31434D4C
CHUNK_NBYTES = 400

# Values of datasets that were made without the plugin, in the order of their names.
FOREIGN = {
    "none": (), "one": (7,), "three": (9, 9, 9), "four": (1, 2, 3, 4), "zeros": (0,) * 8, "twelve": tuple(range(12)),
    "twenty": tuple(range(20)), "magic_alone": (0, 0, 0, MAGIC),
    "magic_and_nonsense": (0, 0, 0, MAGIC, 77, 2**32 - 1, 0, 0),
    "columns_of_nothing": (0, 0, 0, MAGIC, 0, 0x800, CHUNK_NBYTES, 0),
    "no_size": (0, 0, 0, MAGIC, 4, 1, 0, 0), "right": (2, 0, 16, MAGIC, 4, 1, CHUNK_NBYTES, 0),
    "other_size": (0, 0, 0, MAGIC, 4, 1, CHUNK_NBYTES + 4, 0), "huge_size": (0, 0, 0, MAGIC, 4, 1, 0, 1 << 20),
    "resized": (0, 0, 0, MAGIC, 4, 0x401, CHUNK_NBYTES + 4, 0),
}


def foreign(path, *names):
    """Makes datasets for which the filter was not asked: those of FOREIGN, or such without values."""
    import h5py

    with h5py.File(path, "w", libver=("earliest", "v110")) as file:
        for name, values in [(name, ()) for name in names] or FOREIGN.items():
            file.create_dataset(name, (100,), "<f4", chunks=(100,), compression=FILTER_ID, compression_opts=values,
                                allow_unknown_filter=True)


# Values that the filter of LMC 0.1 set for datasets of RELEASED_CHUNK: it did not tell the length of a row.
RELEASED_CHUNK = (16, 64)
RELEASED = {
    "<f4": (2, 0, 64, MAGIC, 4, 18 << 16 | 1, 4096, 0), ">f8": (0, 0, 0, MAGIC, 8, 22 << 16 | 0x101, 8192, 0),
    "<i2": (1, 0, 0, MAGIC, 2, 0, 2048, 0), "u1": (0, 0, 0, MAGIC, 1, 0, 1024, 0),
    "<f2": (16, 0, 0, MAGIC, 2, 14 << 16 | 1, 2048, 0, 16), "<f8": (18, 0, 0, MAGIC, 8, 22 << 16 | 1, 8192, 0, 0),
}


def released(path):
    """Makes a dataset for each type of RELEASED, which may grow."""
    import h5py

    with h5py.File(path, "w", libver=("earliest", "v110")) as file:
        for name, values in RELEASED.items():
            file.create_dataset(name, (40, 100), name, chunks=RELEASED_CHUNK, maxshape=(None, None),
                                compression=FILTER_ID, compression_opts=values, allow_unknown_filter=True)


# Values of datasets whose chunk has STRANGE_NBYTES, not 4 * STRANGE_COUNT: so many that reading them ends the process
# when HDF5 reads on behind the chunk. The first is what LMC sets.
STRANGE_COUNT = 1 << 24
STRANGE_NBYTES = 128
STRANGE = {
    "honest": (0, 0, 0, MAGIC, 4, 18 << 16 | 1, 4 * STRANGE_COUNT, 0),
    "none": (), "user": (1, 0, 64), "short": (0, 0, 0, MAGIC, 4, 1),
    "forged_size": (0, 0, 0, MAGIC, 4, 18 << 16 | 1, STRANGE_NBYTES, 0),
    "no_size": (0, 0, 0, MAGIC, 4, 18 << 16 | 1, 0, 0),
    "resized": (0, 0, 0, MAGIC, 4, 18 << 16 | 0x401, 4 * STRANGE_COUNT, 0),
    "nonsense": (0, 0, 0, MAGIC, 77, 2**32 - 1, 4 * STRANGE_COUNT, 0), "skipped": (),
}


def strange(path):
    """Makes the datasets of STRANGE."""
    import h5py

    with h5py.File(path, "w", libver=("earliest", "v110")) as file:
        for name, values in STRANGE.items():
            file.create_dataset(name, (STRANGE_COUNT,), "<f4", chunks=(STRANGE_COUNT,), compression=FILTER_ID,
                                compression_opts=values, allow_unknown_filter=True)


def change(path, name):
    """Writes the last value of a dataset."""
    import h5py

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with h5py.File(path, "r+") as file:
        try:
            file[name][-1:] = 1
            file.flush()
            print(name, "written", flush=True)
        except OSError:
            print(name, "failed", flush=True)


def missing(path, name):
    """What a user sees who lacks the plugin."""
    import h5py

    with h5py.File(path, "r") as file:
        filters = file[name].id.get_create_plist().get_filter(0)
        print(json.dumps({"number": filters[0], "values": filters[2], "name": filters[3].decode()}))
        try:
            file[name][...]
            print("read")
        except OSError as error:
            print(error)
        mask, chunk = file[name].id.read_direct_chunk((0,) * file[name].ndim)
        print(mask, len(chunk))
    try:
        with h5py.File("new.h5", "w", driver="core", backing_store=False) as file:
            file.create_dataset("x", (10,), "f4", chunks=(5,), compression=FILTER_ID)
        print("created")
    except ValueError as error:
        print(error)


def read(path, *names):
    """Reads datasets; a line on stdout for each."""
    import h5py

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with h5py.File(path, "r") as file:
        for name in names:
            try:
                print(name, hashlib.sha256(file[name][...].tobytes()).hexdigest(), flush=True)
            except OSError:
                print(name, "failed", flush=True)


def store():
    """Digests of stored chunks: of all kinds of blocks and of chunks of many blocks."""
    import sweeps
    from bed import memory_file
    from cases import Case, Layout

    large = Layout("large", (1 << 20,), (1 << 20,))
    names = (("f4le", "plain"), ("f4le", "block16"), ("u2be", "block64"), ("f4le", "shuffle"))
    cases = [Case(sweeps.T[t], large, sweeps.P[p]) for t, p in names]
    cases += [case for group in ("weights", "special", "text") for case in sweeps.SWEEPS["contents"][group]
              if case.filetype.is_here and case.pipeline.name != "mandatory_max"]
    with memory_file() as file:
        for case in cases:
            dataset = case.write(file)
            dataset.flush()
            digest = hashlib.sha256()
            for start in range(0, case.layout.shape[0], case.layout.chunks[0]):
                digest.update(dataset.read_direct_chunk((start,))[1])
            assert case.fault(file) is None
            print(case.name, digest.hexdigest())


def hostile(path, headroom_mb):
    """Reads every dataset of a file with an address space that has so much room, "sound" before that. Prints each
    result, and by how many KiB the address space was larger than ever before: what is asked for counts, used or not."""
    import h5py

    with h5py.File(path, "r") as file:
        file["sound"][...]
        limit = (address_space_kib() + int(headroom_mb) * 1024) * 1024
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        for name in file:
            before = address_space_kib()
            try:
                file[name][...]
                outcome = "read"
            except OSError:
                outcome = "refused"
            print(name, outcome, address_space_kib() - before, flush=True)


def address_space_kib():
    """The most that it ever was."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmPeak:"))


if __name__ == "__main__":
    programs = {"foreign": foreign, "released": released, "strange": strange, "change": change, "missing": missing,
                "read": read, "store": store, "hostile": hostile}
    programs[sys.argv[1]](*sys.argv[2:])
