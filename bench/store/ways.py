"""ways.py - ways to keep models, for bench/store.py: each adds a model to a folder and restores it.

A way has `name`, `is_verified`, add(model) and restore(model, out); both return nothing. bases_of(model) has the names
of the models that it is based on. Stored bytes of a model are the files that have its name in the folder of the
way; what one restore reads are these, and those of its bases, each as a whole.
"""

import contextlib
import glob
import json
import os
import shutil
import struct
import subprocess
import tempfile

import numpy as np
import zstandard

from chunks import ChunkStore
from common import archive_nbytes, nbytes_of, read_tensors, write_tensors

PIECE_NBYTES = 2 << 20
WIDTHS = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1}
ALONE = "alone"
PREFIXES = ("model.", "module.")


# ---- models ----

def bare(name):
    """A tensor's name without a wrapper's prefix."""
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return name[len(prefix):]
    return name


class Model:
    """A file or a directory of files. Contents are read when they are asked for."""

    def __init__(self, place, facts=None):
        self.place, self.facts = place, facts or {}
        self.name, self.base = os.path.basename(place), self.facts.get("base")
        self.is_folder = os.path.isdir(place)
        self.nbytes, self.kept_shapes = nbytes_of(place), None

    def files(self):
        """Names in the directory, or an empty one for a file."""
        return sorted(os.listdir(self.place)) if self.is_folder else [""]

    def path(self, file):
        return os.path.join(self.place, file) if file else self.place

    def tensor_files(self):
        return [self.path(file) for file in self.files() if self.path(file).endswith(".safetensors")]

    def shapes(self):
        """Bare name -> dtype, shape."""
        if self.kept_shapes is None:
            self.kept_shapes = {bare(name): (one["dtype"], tuple(one["shape"])) for path in self.tensor_files()
                                for name, one in json.loads(head_of(path)[8:]).items()}
        return self.kept_shapes

    def tensors(self):
        """Bare name -> dtype, shape, content."""
        return {bare(name): (dtype, tuple(shape), content) for path in self.tensor_files()
                for name, dtype, shape, content in read_tensors(path)}


def head_of(path):
    """Everything before the data of a safetensors file."""
    with open(path, "rb") as file:
        nbytes = file.read(8)
        return nbytes + file.read(struct.unpack("<Q", nbytes)[0])


def changed_share(tensors, base):
    """The share of values that differ from those at equal places in the base; additional rows have changed. None unless
    most values have the dtype of their base."""
    count = comparable = changed = 0
    for name, (dtype, _, content) in tensors.items():
        values = np.frombuffer(content, f"u{WIDTHS[dtype]}")
        count, changed = count + values.size, changed + values.size
        if name in base and base[name][0] == dtype:
            old = np.frombuffer(base[name][2], values.dtype)
            both = min(old.size, values.size)
            comparable += both
            changed -= int((old[:both] == values[:both]).sum())
    return changed / count if 2 * comparable > count else None


# ---- plain files and general compressors ----

class Way:
    is_verified = True

    def __init__(self, work, models):
        self.folder, self.models = os.path.join(work, self.name.replace(" ", "-").replace(",", "")), models
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)

    def base_of(self, _):
        return None

    def bases_of(self, model):
        base = self.base_of(model)
        return [base] if base else []

    def stored_nbytes(self, model):
        return sum(nbytes_of(path) for path in glob.glob(os.path.join(self.folder, model.name + "*")))

    def read_nbytes(self, model):
        needed, names = set(), [model.name]
        while names:
            name = names.pop()
            if name not in needed:
                needed.add(name)
                names += self.bases_of(self.models[name])
        return sum(self.stored_nbytes(self.models[name]) for name in needed)

    def place(self, model, suffix=""):
        return os.path.join(self.folder, model.name + suffix)


class Plain(Way):
    name = "plain files"

    def add(self, model):
        (shutil.copytree if model.is_folder else shutil.copyfile)(model.place, self.place(model))

    def restore(self, model, out):
        (shutil.copytree if model.is_folder else shutil.copyfile)(self.place(model), out)


class Zstd(Way):
    name = "zstd -3"

    def add(self, model):
        for file in model.files():
            with open(model.path(file), "rb") as source, open(self.place(model, f".{file}.zst"), "wb") as out:
                out.write(zstandard.ZstdCompressor(level=3).compress(source.read()))

    def restore(self, model, out):
        if model.is_folder:
            os.mkdir(out)
        for file in model.files():
            with open(self.place(model, f".{file}.zst"), "rb") as source, \
                    open(os.path.join(out, file) if file else out, "wb") as target:
                target.write(zstandard.ZstdDecompressor().decompress(source.read()))


class Chunks(Way):
    name = "chunks, LZ4"

    def __init__(self, work, models):
        super().__init__(work, models)
        os.rmdir(self.folder)
        self.store, self.read = ChunkStore(self.folder), {}

    def add(self, model):
        for file in model.files():
            self.store.add(model.path(file), f"{model.name}.{file}")

    def restore(self, model, out):
        if model.is_folder:
            os.mkdir(out)
        self.read[model.name] = sum(self.store.restore(f"{model.name}.{file}", os.path.join(out, file) if file else out)
                                    for file in model.files())

    def read_nbytes(self, model):
        return self.read[model.name]


# ---- XOR with the true base ----

def split_planes(data, width):
    return np.frombuffer(data, np.uint8).reshape(-1, width).T.tobytes()


def join_planes(data, width):
    return np.frombuffer(data, np.uint8).reshape(width, -1).T.tobytes()


def xor(one, other):
    return (np.frombuffer(one, np.uint8) ^ np.frombuffer(other, np.uint8)).tobytes()


def pack_xor(content, base, dtype):
    """Pieces of 2 MiB: XOR, bytes of equal significance together, zstd -1; each with its length before it."""
    coder, packed = zstandard.ZstdCompressor(level=1), []
    for at in range(0, len(content), PIECE_NBYTES):
        piece = xor(content[at:at + PIECE_NBYTES], base[at:at + PIECE_NBYTES])
        data = coder.compress(split_planes(piece, WIDTHS[dtype]))
        packed.append(struct.pack("<I", len(data)) + data)
    return b"".join(packed)


def unpack_xor(file, base, dtype):
    decoder, pieces = zstandard.ZstdDecompressor(), []
    for at in range(0, len(base), PIECE_NBYTES):
        data = decoder.decompress(file.read(struct.unpack("<I", file.read(4))[0]))
        pieces.append(xor(join_planes(data, WIDTHS[dtype]), base[at:at + PIECE_NBYTES]))
    return b"".join(pieces)


class Xor(Way):
    """NAME.heads: everything but tensors. NAME.xor: tensors with one of equal name, dtype and shape in the true base.
    NAME.rest: the other tensors, as a safetensors file or its archive."""

    def __init__(self, work, models, tool=None):
        self.tool, self.name = tool, "XOR zstd, LMC" if tool else "XOR zstd, raw"
        super().__init__(work, models)

    def base_of(self, model):
        return model.base if os.path.getsize(self.place(model, ".xor")) else None

    def base_tensors(self, model):
        """From the store, as they would be there."""
        if not model.base:
            return {}
        with tempfile.TemporaryDirectory(prefix="lmc-store-") as folder:
            back = os.path.join(folder, model.base)
            self.restore(self.models[model.base], back)
            return Model(back).tensors()

    def add(self, model):
        base, rest, heads, blob = self.base_tensors(model), {}, [], []
        with open(self.place(model, ".xor"), "wb") as out:
            for file in model.files():
                path, tensors = model.path(file), []
                if path.endswith(".safetensors"):
                    blob.append(head_of(path))
                    for name, dtype, shape, content in read_tensors(path):
                        old = base.get(bare(name))
                        is_delta = old is not None and old[:2] == (dtype, tuple(shape))
                        if is_delta:
                            out.write(pack_xor(content, old[2], dtype))
                        else:
                            rest[name] = dtype, shape, content
                        tensors.append((name, is_delta))
                else:
                    with open(path, "rb") as source:
                        blob.append(source.read())
                heads.append((file, len(blob[-1]), tensors))
        text = json.dumps(heads).encode() + b"\n" + b"".join(blob)
        with open(self.place(model, ".heads"), "wb") as out:
            out.write(zstandard.ZstdCompressor(level=3).compress(text))
        if rest:
            self.write_rest(self.place(model, ".rest"), rest)

    def write_rest(self, path, rest):
        if not self.tool:
            write_tensors(path, rest)
            return
        plain = path + ".safetensors"
        write_tensors(plain, rest)
        subprocess.run([self.tool, "convert", "-q", "-j1", "--no-fsync", plain, "-o", path], check=True)
        os.unlink(plain)

    def read_rest(self, path):
        if not os.path.exists(path):
            return {}
        if not self.tool:
            return {name: content for name, _, _, content in read_tensors(path)}
        plain = path + ".safetensors"
        subprocess.run([self.tool, "restore", "-q", "-j1", "--no-fsync", path, "-o", plain], check=True)
        found = {name: content for name, _, _, content in read_tensors(plain)}
        os.unlink(plain)
        return found

    def restore(self, model, out):
        with open(self.place(model, ".heads"), "rb") as file:
            text = zstandard.ZstdDecompressor().decompress(file.read())
        line, blob = text.split(b"\n", 1)
        base = self.base_tensors(model) if self.base_of(model) else {}
        rest = self.read_rest(self.place(model, ".rest"))
        if model.is_folder:
            os.mkdir(out)
        with open(self.place(model, ".xor"), "rb") as deltas:
            for file, nbytes, tensors in json.loads(line):
                with open(os.path.join(out, file) if file else out, "wb") as target:
                    target.write(blob[:nbytes])
                    blob = blob[nbytes:]
                    for name, is_delta in tensors:
                        if is_delta:
                            dtype, _, old = base[bare(name)]
                            target.write(unpack_xor(deltas, old, dtype))
                        else:
                            target.write(rest[name])


# ---- FM-Delta's entropy ----

def ordered(values, nbits):
    """Floating-point bits as integers in the order of the numbers."""
    top = 1 << (nbits - 1)
    return np.where(values & top, ~values.astype(np.int64) & (2 * top - 1), values.astype(np.int64) | top)


def fm_delta_nbits(content, base, dtype):
    """Entropy of sign and bit length of the differences, with the bits below the highest one: the best case of
    FM-Delta (Ning and others, 2024)."""
    nbits = 8 * WIDTHS[dtype]
    values, old = (ordered(np.frombuffer(data, f"u{WIDTHS[dtype]}"), nbits) for data in (content, base))
    differences = values - old
    lengths = np.frexp(np.abs(differences).astype(float))[1]
    counts = np.bincount(2 * lengths + (differences < 0))
    shares = counts[counts > 0] / values.size
    return -values.size * (shares * np.log2(shares)).sum() + np.maximum(lengths - 1, 0).sum()


class FmDelta(Way):
    """Sizes only: the deltas' entropies, and the other bytes as the XOR store has them."""
    name, is_verified = "FM-Delta", False

    def __init__(self, work, models, others):
        super().__init__(work, models)
        self.others, self.sizes = others, {}

    def add(self, model):
        old = self.models[model.base].tensors() if model.base else {}
        nbits = sum(fm_delta_nbits(content, old[name][2], dtype) for name, (dtype, shape, content)
                    in model.tensors().items() if name in old and old[name][:2] == (dtype, shape))
        rest = self.others.stored_nbytes(model) - os.path.getsize(self.others.place(model, ".xor"))
        self.sizes[model.name] = int(nbits / 8) + rest

    def base_of(self, model):
        return self.others.base_of(model)

    def stored_nbytes(self, model):
        return self.sizes[model.name]


# ---- LMC ----

class Lmc(Way):
    """lmc-st convert, alone or with the true base. A directory whose base is a file: each shard by itself. Directories
    have the same names inside, so that the base of a base would not be found: such a base is restored first."""

    def __init__(self, work, models, tool, is_based):
        self.tool, self.is_based, self.name = tool, is_based, "LMC, true base" if is_based else "LMC alone"
        super().__init__(work, models)

    def base_of(self, model):
        return model.base if self.is_based else None

    @contextlib.contextmanager
    def base_options(self, model):
        base = self.models[model.base] if self.base_of(model) else None
        if base and base.is_folder and self.base_of(base):
            with tempfile.TemporaryDirectory(prefix="lmc-store-") as folder:
                back = os.path.join(folder, base.name)
                self.restore(base, back)
                yield ["--base", back]
        else:
            yield ["--base", self.place(base, ".lmc")] if base else []

    def is_apart(self, model):
        return bool(self.base_of(model)) and model.is_folder and not self.models[model.base].is_folder

    def call(self, *arguments):
        subprocess.run([self.tool, arguments[0], "-q", "-j1", "--no-fsync", *arguments[1:]], check=True)

    def add(self, model):
        archive = self.place(model, ".lmc")
        with self.base_options(model) as options:
            if not self.is_apart(model):
                self.call("convert", model.place, "-o", archive, *options)
                return
            os.mkdir(archive)
            for file in model.files():
                if file.endswith(".safetensors"):
                    self.call("convert", model.path(file), "-o", os.path.join(archive, file + ".lmc"), *options)
                else:
                    shutil.copy(model.path(file), archive)

    def restore(self, model, out):
        archive = self.place(model, ".lmc")
        with self.base_options(model) as options:
            if not self.is_apart(model):
                self.call("restore", archive, "-o", out, *options)
                return
            os.mkdir(out)
            for file in model.files():
                if file.endswith(".safetensors"):
                    self.call("restore", os.path.join(archive, file + ".lmc"), "-o", os.path.join(out, file), *options)
                else:
                    shutil.copy(os.path.join(archive, file), out)


class Store(Way):
    """lmc-st store, which finds bases itself."""
    name = "LMC store"

    def __init__(self, work, models, tool, depth=None):
        super().__init__(work, models)
        os.rmdir(self.folder)
        self.tool, self.depth, self.listed = tool, ["--depth", str(depth)] if depth else [], None

    def call(self, command, *arguments):
        done = subprocess.run([self.tool, "store", command, self.folder, *arguments], check=True, text=True,
                              stdout=subprocess.PIPE)
        self.listed = None
        return done.stdout

    def add(self, model):
        self.call("add", model.place, *self.depth)

    def restore(self, model, out):
        self.call("restore", model.name, "-o", out)

    def facts(self, model):
        if self.listed is None:
            self.listed = {one["name"]: one for one in json.loads(self.call("ls", "--json"))}
        return self.listed[model.name]

    def bases_of(self, model):
        base = self.facts(model)["base"]
        return [base] if isinstance(base, str) else base or []

    def stored_nbytes(self, model):
        return self.facts(model)["stored_nbytes"]


# ---- the best base ----

def may_be_base(shapes, other):
    """Whether half of the tensors or more are BF16 or F16, and have one of equal name and shape there, of this dtype or
    in F32."""
    fits = [name for name, (dtype, shape) in shapes.items() if dtype in ("BF16", "F16") and name in other
            and other[name][1] == shape and other[name][0] in (dtype, "F32")]
    return 2 * len(fits) >= len(shapes)


def best_base(tool, model, earlier):
    """Bytes with each of the earlier models as base, and alone: name -> bytes. All are restored and compared. A base
    is one file, and each shard is converted by itself, so that any model can be the base of any."""
    copied = sum(nbytes_of(model.path(file)) for file in model.files() if model.path(file) not in model.tensor_files())
    sizes = {}
    for other in [None, *earlier]:
        if other and not may_be_base(model.shapes(), other.shapes()):
            continue
        with tempfile.TemporaryDirectory(prefix="lmc-store-") as folder:
            base = other and other.place
            if other and other.is_folder:
                base = os.path.join(folder, "base.safetensors")
                write_tensors(base, other.tensors())
            sizes[other.name if other else ALONE] = copied + sum(
                archive_nbytes(tool, path, "--no-fsync", base=base) for path in model.tensor_files())
    return sizes
