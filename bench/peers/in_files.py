"""in_files.py - compressors that take a file or a whole set of tensors, for measure.py; see in_memory.py.

They read folder/new.safetensors and folder/base.safetensors, and write into the folder, which is in memory. What a
file has beside the bytes of tensors, such as names, counts as stored.
"""

import os
import shutil

from in_memory import FLOATS, Peer, numpy, xor
from common import nbytes_of, read_tensors

TORCH_NAMES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64", "F8_E4M3": "float8_e4m3fn",
               "F8_E5M2": "float8_e5m2", "I8": "int8", "U8": "uint8", "I16": "int16", "I32": "int32", "I64": "int64",
               "BOOL": "bool"}


class Tool(Peer):
    def path(self, name):
        return os.path.join(self.folder, name)

    def remove(self, name):
        """Removes a file or folder of an earlier pass."""
        path = self.path(name)
        shutil.rmtree(path) if os.path.isdir(path) else os.path.exists(path) and os.unlink(path)
        return path


class FileTool(Tool):
    """Gives a safetensors file back, as back.safetensors."""

    def contents(self, decoded, new):
        found = {name: content for name, _, _, content in read_tensors(self.path("back.safetensors"))}
        return [found[tensor.name] for tensor in new]


class Lmzip(FileTool):
    """A delta is what an archive of the base grows by."""
    PACKAGE, THREADS, DELTA = "lmzip", (1, 2), "own"

    def __init__(self, threads, folder, **options):
        super().__init__(threads, folder)
        import lmz
        lmz.backends()  # its part in C is compiled
        self.lmz, self.options = lmz, options

    def prepare(self, new, base):
        self.remove("new.lmz")
        if base is not None:
            if not os.path.exists(self.path("base.lmz")):
                self.lmz.compress(self.path("base.safetensors"), self.path("base.lmz"), workers=self.threads,
                                  **self.options)
            shutil.copy(self.path("base.lmz"), self.path("new.lmz"))

    def encode(self, new, base):
        if base is None:
            self.lmz.compress(self.path("new.safetensors"), self.path("new.lmz"), workers=self.threads, **self.options)
        else:
            self.lmz.append(self.path("new.lmz"), self.path("new.safetensors"), workers=self.threads)
        return base is not None

    def nbytes(self, is_delta):
        return nbytes_of(self.path("new.lmz")) - (nbytes_of(self.path("base.lmz")) if is_delta else 0)

    def decode(self, stored, new, base):
        self.remove("back.safetensors")
        if base is None:
            self.lmz.decompress(self.path("new.lmz"), self.path("back.safetensors"), workers=self.threads)
        else:
            self.lmz.extract(self.path("new.lmz"), "new.safetensors", self.path("back.safetensors"),
                             workers=self.threads)


class Bigsmall(Tool):
    """Two threads are two processes, whose memory does not count."""
    PACKAGE, THREADS, DELTA = "bigsmall", (1, 2), "own"

    def __init__(self, threads, folder):
        super().__init__(threads, folder)
        import bigsmall
        self.bigsmall = bigsmall

    def encode(self, new, base):
        options = {"workers": self.threads, "progress": False}
        if base is None:
            self.bigsmall.compress(self.path("new.safetensors"), self.path("new.bs"), **options)
        else:
            self.bigsmall.compress_delta(self.path("new.safetensors"), self.path("base.safetensors"),
                                         self.path("new.bs"), **options)

    def nbytes(self, stored):
        return nbytes_of(self.path("new.bs"))

    def decode(self, stored, new, base):
        if base is None:
            return self.bigsmall.decompress(self.path("new.bs"), progress=False)
        return self.bigsmall.decompress_delta(self.path("new.bs"), self.path("base.safetensors"), progress=False)

    def contents(self, decoded, new):
        return [decoded[tensor.name].reshape(-1).view("u1") for tensor in new]


class Moonclip(Tool):
    """Checkpoints in a folder; the second one is a delta. Its files are multiples of 4 KiB."""
    PACKAGE, THREADS, DELTA = "moonclip", (1, 2), "own"

    def __init__(self, threads, folder):
        super().__init__(threads, folder)
        from moonclip import MoonclipManager
        self.Manager = MoonclipManager

    def prepare(self, new, base):
        self.manager = None
        self.manager = self.Manager(self.remove("moonclip"), async_save=False)
        if base is not None:
            self.save(1, base)
        self.base_nbytes = nbytes_of(self.path("moonclip"))

    def save(self, step, tensors):
        saved = self.manager.save_tensors(step, {
            tensor.name: (list(tensor.shape), TORCH_NAMES.get(tensor.dtype, "uint8"), tensor.content)
            for tensor in tensors})
        self.manager.flush()
        return saved

    def encode(self, new, base):
        return self.save(2, new)

    def nbytes(self, stored):
        return nbytes_of(self.path("moonclip")) - self.base_nbytes

    def decode(self, stored, new, base):
        return self.manager.load(stored)

    def contents(self, decoded, new):
        return [decoded[tensor.name] for tensor in new]


class Hexz(Tool):
    PACKAGE, DELTA = "hexz", "own"

    def __init__(self, threads, folder):
        super().__init__(threads, folder)
        import hexz
        self.hexz = hexz

    def pack(self, name, base):
        """It takes folders, and chunks that the archive of the base has."""
        inside = self.path("hexz-" + name)
        if not os.path.exists(inside):
            os.mkdir(inside)
            os.link(self.path(name + ".safetensors"), os.path.join(inside, "model.safetensors"))
        self.hexz.pack(inside, self.path(name + ".hxz"), base=base, compression="zstd")

    def prepare(self, new, base):
        self.remove("new.hxz")
        if base is not None and not os.path.exists(self.path("base.hxz")):
            self.pack("base", None)

    def encode(self, new, base):
        self.pack("new", None if base is None else self.path("base.hxz"))

    def nbytes(self, stored):
        return nbytes_of(self.path("new.hxz"))

    def decode(self, stored, new, base):
        return self.hexz.Archive(self.path("new.hxz")).read("model.safetensors")

    def contents(self, decoded, new):
        with open(self.path("back.safetensors"), "wb") as file:
            file.write(decoded)
        return FileTool.contents(self, None, new)


class Hdf5(Tool):
    """A dataset for each tensor, with chunks of 1 MiB; chunks count, as the rest of the file does not compress."""
    PACKAGE = "hdf5plugin"
    CHUNK_NBYTES = 1 << 20

    def __init__(self, threads, folder, filter_name, shuffle=False, **options):
        super().__init__(threads, folder)
        import h5py
        import hdf5plugin
        if "filters" in options:
            options["filters"] = getattr(hdf5plugin.Blosc2, options["filters"])
        self.h5py, self.options = h5py, dict(getattr(hdf5plugin, filter_name)(**options))
        if shuffle:
            self.options["shuffle"] = True

    def encode(self, new, base):
        with self.h5py.File(self.path("new.h5"), "w", rdcc_nbytes=0) as file:
            for number, tensor in enumerate(new):
                content = tensor.content if base is None else xor(tensor.content, base[number].content)
                values = numpy.frombuffer(content, FLOATS.get(tensor.dtype, f"<u{tensor.width}"))
                chunk = min(values.size, self.CHUNK_NBYTES // values.itemsize)
                file.create_dataset(str(number), data=values, chunks=(chunk,), **self.options)
            file.flush()
            return sum(file[str(number)].id.get_storage_size() for number in range(len(new)))

    def nbytes(self, stored):
        return stored

    def decode(self, stored, new, base):
        with self.h5py.File(self.path("new.h5"), "r", rdcc_nbytes=0) as file:
            found = [file[str(number)][...].view("u1") for number in range(len(new))]
        return found if base is None else [xor(content, old.content) for content, old in zip(found, base)]


class TorchDcp(Tool):
    """A checkpoint of torch.distributed.checkpoint with its extension for zstd."""
    PACKAGE, THREADS = "torch", (1, 2)

    def __init__(self, threads, folder):
        super().__init__(threads, folder)
        import torch
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint._extension import ZStandard
        if not ZStandard.is_available():
            raise ImportError("no module named zstandard or pyzstd")
        torch.set_num_threads(threads)
        self.torch, self.dcp, self.extension = torch, dcp, ZStandard

    def tensor(self, dtype, shape, content):
        return self.torch.frombuffer(bytearray(content), dtype=getattr(self.torch, TORCH_NAMES[dtype])).view(shape)

    def prepare(self, new, base):
        self.remove("checkpoint")

    def encode(self, new, base):
        state = {tensor.name: self.tensor(*tensor[1:3], tensor.content if base is None else
                                          xor(tensor.content, base[number].content))
                 for number, tensor in enumerate(new)}
        writer = self.dcp.FileSystemWriter(self.path("checkpoint"), sync_files=False, thread_count=self.threads,
                                           _extensions=[self.extension()])
        self.dcp.save(state, storage_writer=writer, no_dist=True)

    def nbytes(self, stored):
        return nbytes_of(self.path("checkpoint"))

    def decode(self, stored, new, base):
        state = {tensor.name: self.torch.empty(tensor.shape, dtype=getattr(self.torch, TORCH_NAMES[tensor.dtype]))
                 for tensor in new}
        self.dcp.load(state, storage_reader=self.dcp.FileSystemReader(self.path("checkpoint")), no_dist=True)
        found = [state[tensor.name].reshape(-1).view(self.torch.uint8).numpy() for tensor in new]
        return found if base is None else [xor(content, old.content) for content, old in zip(found, base)]


TOOLS = {
    "lmzip": (Lmzip, {}),
    "lmzip, mapped": (Lmzip, {"mapped": True}),
    "bigsmall": (Bigsmall, {}),
    "moonclip": (Moonclip, {}),
    "hexz": (Hexz, {}),
    "HDF5: shuffle, zstd 3": (Hdf5, {"filter_name": "Zstd", "shuffle": True, "clevel": 3}),
    "HDF5: bitshuffle, zstd 3": (Hdf5, {"filter_name": "Bitshuffle", "cname": "zstd", "clevel": 3}),
    "HDF5: bitshuffle, LZ4": (Hdf5, {"filter_name": "Bitshuffle", "cname": "lz4"}),
    "HDF5: Blosc2, bitshuffle, zstd 5": (Hdf5, {"filter_name": "Blosc2", "cname": "zstd", "clevel": 5,
                                                "filters": "BITSHUFFLE"}),
    "torch checkpoint, zstd": (TorchDcp, {}),
}
