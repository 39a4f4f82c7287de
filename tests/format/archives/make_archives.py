"""make_archives.py LMC_ST FOLDER - writes archives, a run and a store of small files, with the checksums of the files
that they are restored to, into FOLDER. README.md beside this says what becomes of them."""

import hashlib
import os
import random
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "reference"))

from archive_containers import (  # noqa: E402
    GGUF_VALUES, gguf, gguf_tensors, npy, npz_entries, torch_entries, zipped)
from archive_files import aliases, each_dtype, noise, odd_names, of, tensor, weights  # noqa: E402
from test_archive_reader_bases import masters, moved, singles  # noqa: E402

STEPS, ROWS, COLUMNS = 4, 400, 64


def wide(rng):
    """Elements that hold narrower ones (docs/format.md, section 4.2), and rows of different scale."""
    scaled = struct.pack("<4096f", *(rng.randrange(-127, 128) * 0.0123 for _ in range(4096)))
    halves = struct.pack("<2000f", *(x for x, in struct.iter_unpack("<e", weights(rng, 4000))))
    rows = b"".join(struct.pack("<128f", *(rng.gauss(0, 2.0 ** -row) for _ in range(128))) for row in range(32))
    return of([tensor("int8 in F32", "F32", scaled), tensor("F16 in F32", "F32", halves),
               ("rows", "F32", [32, 128], rows)])


def model(rng):
    return [embedding(weights(rng, 2 * ROWS * COLUMNS)), tensor("norm", "F32", singles(rng, 300))]


def embedding(content):
    return "embed", "BF16", [len(content) // (2 * COLUMNS), COLUMNS], content


def tuned(rng, tensors):
    return [(name, dtype, shape, moved(rng, content, 2, 0.03)) for name, dtype, shape, content in tensors]


def plain_files(rng):
    """(name, bytes, options of convert)."""
    for level in ("fast", "default", "max"):
        yield f"dtypes-{level}.safetensors", each_dtype(rng, weights, 1200), ["--level", level]
    yield "wide.safetensors", wide(rng), []
    yield "wide-max.safetensors", wide(rng), ["--level", "max"]
    yield "aliases.safetensors", aliases(rng), []
    yield "names.safetensors", odd_names(rng), []
    yield "masters.safetensors", of(masters(rng)), []
    yield "array.npy", npy(weights(rng, 6000), shape=(30, 50), fortran_order=True), []
    yield "arrays.npz", zipped(npz_entries(rng)), []
    yield "weights.gguf", gguf(gguf_tensors(rng), GGUF_VALUES), []
    yield "state.pt", zipped(torch_entries(rng, is_understood=True)), []
    yield "big-endian.npy", npy(noise(rng, 800), "'>f8'", (10, 10)), []
    yield "anything.raw", weights(rng, 5000) + noise(rng, 100), ["--raw"]


class Maker:
    def __init__(self, lmc_st, folder, scratch):
        self.lmc_st, self.folder, self.scratch = lmc_st, folder, scratch
        self.sums = []

    def run(self, *arguments):
        subprocess.run([self.lmc_st, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)

    def original(self, name, data, restored_as):
        """The path of a file to convert. Its checksum is kept for the path that it is restored to."""
        path = os.path.join(self.scratch, name)
        with open(path, "wb") as file:
            file.write(data)
        self.sums.append(f"{hashlib.sha256(data).hexdigest()}  {restored_as}\n")
        return path

    def convert(self, name, data, *options):
        self.run("convert", *options, "-o", os.path.join(self.folder, name + ".lmc"), self.original(name, data, name))


def main(lmc_st, folder):
    rng = random.Random(1)
    os.makedirs(folder)
    with tempfile.TemporaryDirectory(prefix="lmc-archives-") as scratch:
        maker = Maker(lmc_st, folder, scratch)
        for name, data, options in plain_files(rng):
            maker.convert(name, data, *options)
        first = model(rng)
        maker.convert("first.safetensors", of(first))
        base = os.path.join(folder, "first.safetensors.lmc")
        maker.convert("second.safetensors", of(tuned(rng, first)), "--base", base)
        for step in range(STEPS):
            name = f"step-{step}.safetensors"
            path = maker.original(name, of(first), f"run/{step}")
            maker.run("run", "add", os.path.join(folder, "run"), path, "--step", str(step), "--key-every", "3")
            first = tuned(rng, first)
        other = model(rng)
        longer = [embedding(other[0][3] + weights(rng, 4096)), first[1]]
        for name, tensors in (("a", first), ("b", other), ("of-both", tuned(rng, [first[0], other[1]])),
                              ("longer", tuned(rng, longer))):
            maker.run("store", "add", os.path.join(folder, "store"), maker.original(name, of(tensors), f"store/{name}"))
        for kept in ("run", "store"):
            os.remove(os.path.join(folder, kept, ".lmc-lock"))
        with open(os.path.join(folder, "SHA256SUMS"), "w", encoding="utf-8") as file:
            file.writelines(maker.sums)


if __name__ == "__main__":
    main(*sys.argv[1:])
