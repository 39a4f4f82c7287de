"""h5_training_run.py - a training run in HDF5: every tensor is one dataset, every snapshot a row of it.

    export HDF5_PLUGIN_PATH=DIRECTORY      # that of libh5lmc.so; `lmc-st doctor` prints it
    python3 h5_training_run.py [FILE.h5 [SNAPSHOT.safetensors...]]

Level + 16 codes each snapshot in a chunk against the one before it. A chunk holds SNAPSHOTS of them and is read without
any other. Needs h5py and numpy. Without files it takes a made-up run and the two snapshots in examples/data.
"""

import json
import os
import struct
import sys

import h5py
import numpy

LMC = 59810
ROWS = 16  # added to the level: 16 is the default level with rows, 17 fast, 18 max
SNAPSHOTS = 8  # in a chunk: more snapshots take less space, but reading one decodes the whole chunk
PART = 256 << 10  # bytes of a snapshot in a chunk

# bf16 is kept as its bits in uint16: HDF5 has no such type before 2.0, and LMC finds out by itself.
NUMPY_TYPE = {"BF16": "<u2", "F16": "<f2", "F32": "<f4", "F64": "<f8"}
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")

STORED = {
    "gzip": {"compression": "gzip", "shuffle": True},
    "lmc": {"compression": LMC},
    "lmc_rows": {"compression": LMC, "compression_opts": (ROWS,)},
}


def made_up_run():
    """Twelve snapshots of two layers: f32 weights that drift a little between any two, rounded to bf16."""
    random = numpy.random.default_rng(1)
    weights = {"up": random.normal(0, 0.02, (512, 512)), "down": random.normal(0, 0.02, (256, 1024))}
    for step in range(12):
        for name in weights:
            weights[name] += random.normal(0, 2e-5, weights[name].shape)
        bits = {name: w.astype("<f4").view("<u4") for name, w in weights.items()}
        yield {name: ((b + 0x7FFF + (b >> 16 & 1)) >> 16).astype("<u2") for name, b in bits.items()}


def read_safetensors(path):
    """The tensors of a file, by name, but for types that numpy lacks."""
    with open(path, "rb") as file:
        (nbytes,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(nbytes))
        content = file.read()
    header.pop("__metadata__", None)
    return {name: numpy.frombuffer(content[slice(*entry["data_offsets"])], NUMPY_TYPE[entry["dtype"]])
            .reshape(entry["shape"])
            for name, entry in header.items() if entry["dtype"] in NUMPY_TYPE and entry["shape"]}


def chunk_of(tensor):
    """All of a tensor's axes but the first as they are; of the first as much as PART has room for."""
    nbytes = max(tensor[:1].nbytes, 1)
    return (SNAPSHOTS, max(1, min(len(tensor), PART // nbytes))) + tensor.shape[1:]


def append(group, tensors, options):
    for name, tensor in tensors.items():
        if name not in group:
            # The first axis grows, one row for each snapshot.
            group.create_dataset(name, (0,) + tensor.shape, tensor.dtype, maxshape=(None,) + tensor.shape,
                                 chunks=chunk_of(tensor), **options)
        dataset = group[name]
        dataset.resize(len(dataset) + 1, axis=0)
        dataset[-1] = tensor


def store(path, run):
    # A chunk is coded when it leaves the chunk cache. With room for a few it is complete by then; with HDF5's usual
    # 1 MiB it would be decoded and coded again for each snapshot.
    with h5py.File(path, "w", rdcc_nbytes=64 << 20) as file:
        groups = {name: file.create_group(name) for name in STORED}
        for tensors in run:
            for name, options in STORED.items():
                append(groups[name], tensors, options)


def compare(path, run):
    """Prints what each way takes; returns whether all of it came back."""
    run = list(run)
    equal = True
    nbytes = {name: 0 for name in STORED}
    content_nbytes = sum(tensor.nbytes for tensors in run for tensor in tensors.values())
    with h5py.File(path, "r") as file:
        for name in STORED:
            for tensor in run[0]:
                dataset = file[name][tensor]
                nbytes[name] += dataset.id.get_storage_size()
                equal &= numpy.array_equal(dataset[:], numpy.stack([tensors[tensor] for tensors in run]))
                equal &= numpy.array_equal(dataset[-1], run[-1][tensor])  # one snapshot
    ratios = {name: nbytes[name] / content_nbytes for name in STORED}
    print(f"{len(run)} snapshots, {content_nbytes} bytes: shuffle + gzip {ratios['gzip']:.4f}, "
          f"LMC {ratios['lmc']:.4f}, LMC with rows {ratios['lmc_rows']:.4f}; "
          f"{'read back equal' if equal else 'DIFFERENT'}")
    return equal


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "example.h5"
    snapshots = sys.argv[2:]
    if not h5py.h5z.filter_avail(LMC):
        sys.exit("HDF5 does not find libh5lmc.so: set HDF5_PLUGIN_PATH to its directory before Python starts")
    if not snapshots:
        print("a made-up run: ", end="", flush=True)
        store(path, made_up_run())
        if not compare(path, made_up_run()):
            return 1
        snapshots = [os.path.join(DATA, f"step{step}.bf16.safetensors") for step in ("03000", "03010")]
    print(", ".join(os.path.basename(name) for name in snapshots) + ": ", end="", flush=True)
    store(path, map(read_safetensors, snapshots))
    return 0 if compare(path, map(read_safetensors, snapshots)) else 1


if __name__ == "__main__":
    sys.exit(main())
