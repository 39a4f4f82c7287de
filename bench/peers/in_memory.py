"""in_memory.py - LMC and other compressors that take tensors in memory, one after another, for measure.py.

A peer is a class: the options of its constructor, what it stores for tensors, and how these come back. PACKAGE is its
name in the package index. THREADS are the numbers of threads that it can be told to use. DELTA says how it codes
tensors beside a base: its "own" way, "XOR" with the base before it and after it, by NumPy, "difference", or None: it
does not. A peer's package is imported by its constructor. Needs numpy.
"""

import collections
import math

try:
    import numpy
except ImportError:
    numpy = None  # bench/peers.py needs no more than the names of peers

WIDTH = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "C64": 8, "BF16": 2, "F16": 2, "I16": 2, "U16": 2,
         "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I8": 1, "U8": 1, "BOOL": 1}
FLOATS = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}  # that NumPy has


class Tensor(collections.namedtuple("Tensor", "name dtype shape content")):
    """content: its bytes; None where they are to be decoded."""

    @property
    def width(self):
        return WIDTH[self.dtype]

    @property
    def nbytes(self):
        return math.prod(self.shape) * self.width

    def array(self, kind="u"):
        """The content as numbers without a shape, of this kind and the tensor's width."""
        return numpy.frombuffer(self.content, f"<{kind}{self.width}")


def xor(content, other):
    return numpy.bitwise_xor(numpy.frombuffer(content, "u1"), numpy.frombuffer(other, "u1")).tobytes()


class Peer:
    THREADS = (1,)
    DELTA = "XOR"
    IS_DENSE = True

    def __init__(self, threads, folder):
        """folder: for files of its own."""
        self.threads, self.folder = threads, folder

    def prepare(self, new, base):
        """What precedes encode() and takes no part in it. new and base: lists of tensors; base may be None."""

    def contents(self, decoded, new):
        """The bytes of the tensors in what decode() returned."""
        return decoded


class Codec(Peer):
    """Takes one tensor at a time: pack() and unpack(), and where DELTA is "own", pack_delta() and unpack_delta()."""

    def encode(self, new, base):
        return [self.pack(tensor) if old is None else self.pack_delta(tensor, old)
                for tensor, old in zip(new, base or [None] * len(new))]

    def decode(self, stored, new, base):
        return [self.unpack(part, tensor) if old is None else self.unpack_delta(part, tensor, old)
                for part, tensor, old in zip(stored, new, base or [None] * len(new))]

    def nbytes(self, stored):
        return sum(len(part) for part in stored)

    def pack_delta(self, tensor, base):
        return self.pack(tensor._replace(content=xor(tensor.content, base.content)))

    def unpack_delta(self, stored, tensor, base):
        return xor(self.unpack(stored, tensor), base.content)


# ---- LMC ----

class Lmc(Codec):
    PACKAGE, THREADS, DELTA = "lmcodec", (1, 2), "own"

    def __init__(self, threads, folder, level):
        super().__init__(threads, folder)
        import lmcodec
        self.lmcodec, self.level = lmcodec, level
        lmcodec.kernels()  # the library is loaded

    def pack(self, tensor, base=None):
        return self.lmcodec.encode(tensor.array().reshape(tensor.shape), tensor.dtype, level=self.level,
                                   threads=self.threads, base=base)

    def unpack(self, stored, tensor, base=None):
        return self.lmcodec.decode(stored, threads=self.threads, base=base)

    def pack_delta(self, tensor, base):
        return self.pack(tensor, base.content)

    def unpack_delta(self, stored, tensor, base):
        return self.unpack(stored, tensor, base.content)


# ---- made for tensors ----

class Zipnn(Codec):
    """It has no integers, but what codes bytes. What it does not know stays as it is."""
    PACKAGE, THREADS, DELTA = "zipnn", (1, 2), "own"
    NAMES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F8_E4M3": "float8_e4m3fn",
             "F8_E5M2": "float8_e5m2", "I8": "float8_e4m3fn", "U8": "float8_e4m3fn"}

    def __init__(self, threads, folder):
        super().__init__(threads, folder)
        import zipnn
        self.codecs = {(dtype, delta): zipnn.ZipNN(input_format="byte", bytearray_dtype=name, threads=threads,
                                                   delta_compressed_type=delta)
                       for dtype, name in self.NAMES.items() for delta in (0, "byte")}

    def pack(self, tensor):
        codec = self.codecs.get((tensor.dtype, 0))
        return codec.compress(tensor.content) if codec else tensor.content

    def unpack(self, stored, tensor):
        codec = self.codecs.get((tensor.dtype, 0))
        return codec.decompress(stored) if codec else stored

    def pack_delta(self, tensor, base):
        codec = self.codecs.get((tensor.dtype, "byte"))
        return codec.compress(tensor.content, delta_second_data=base.content) if codec else tensor.content

    def unpack_delta(self, stored, tensor, base):
        codec = self.codecs.get((tensor.dtype, "byte"))
        return codec.decompress(stored, delta_second_data=base.content) if codec else stored


class Openzl(Codec):
    """Exponents apart from signs and fractions, whose bytes are grouped; an entropy coder for each group. Bytes have
    this coder alone, and what else there is the graph that openzl has for any input."""
    PACKAGE = "openzl"

    def __init__(self, threads, folder, coder):
        super().__init__(threads, folder)
        from openzl import ext
        from openzl.ext import graphs, nodes
        self.ext, self.coder = ext, getattr(graphs, coder)
        self.split = nodes.TransposeSplit
        self.nodes = {"BF16": nodes.BFloat16Deconstruct, "F16": nodes.Float16Deconstruct,
                      "F32": nodes.Float32Deconstruct}
        self.generic = graphs.Compress
        self.compressors = {}
        self.encoder, self.decoder = ext.CCtx(), ext.DCtx()

    def compressor(self, dtype):
        if dtype not in self.compressors:
            made = self.compressors[dtype] = self.ext.Compressor()
            made.set_parameter(self.ext.CParam.FormatVersion, self.ext.MAX_FORMAT_VERSION)
            if dtype in self.nodes:
                graph = self.nodes[dtype]()(made, self.split()(made, self.coder()), self.coder())
            else:
                graph = (self.coder if WIDTH[dtype] == 1 else self.generic)()(made)
            made.select_starting_graph(graph)
        return self.compressors[dtype]

    def pack(self, tensor):
        self.encoder.ref_compressor(self.compressor(tensor.dtype))
        kind = self.ext.Type.Serial if tensor.width == 1 else self.ext.Type.Numeric
        return self.encoder.compress([self.ext.Input(kind, tensor.array())])

    def unpack(self, stored, tensor):
        return self.decoder.decompress(stored)[0].content.as_nparray()


class Z4ai(Codec):
    PACKAGE, THREADS, DELTA = "z4ai", (1, 2), "own"
    NAMES = {"BF16": "bf16", "F16": "fp16", "F32": "fp32", "F64": "fp64", "F8_E4M3": "fp8_e4m3", "F8_E5M2": "fp8_e5m2",
             "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "U8": "uint8", "U16": "uint16",
             "U32": "uint32", "U64": "uint64", "BOOL": "bool"}

    def __init__(self, threads, folder, effort=None):
        super().__init__(threads, folder)
        import z4ai
        self.z4ai, self.effort = z4ai, effort

    def pack(self, tensor):
        return self.z4ai.compress(tensor.content, dtype=self.NAMES.get(tensor.dtype), threads=self.threads,
                                  effort=self.effort)

    def unpack(self, stored, tensor):
        return self.z4ai.decompress(stored)

    def pack_delta(self, tensor, base):
        return self.z4ai.compress_delta(tensor.content, base.content, dtype=self.NAMES.get(tensor.dtype),
                                        threads=self.threads)

    def unpack_delta(self, stored, tensor, base):
        return self.z4ai.decompress_delta(stored, base.content)


class Z4aiFast(Z4ai):
    DELTA = None  # its deltas know no effort


class Glyd(Codec):
    PACKAGE, THREADS, DELTA = "glyd", (1, 2), "own"

    def __init__(self, threads, folder, level):
        super().__init__(threads, folder)
        import glyd
        glyd.version()
        self.glyd, self.level = glyd, level

    def pack(self, tensor):
        return self.glyd.compress(tensor.content, level=self.level, threads=self.threads)

    def unpack(self, stored, tensor):
        return self.glyd.decompress(stored)

    def pack_delta(self, tensor, base):
        return self.glyd.compress_with_base(base.content, tensor.content, ultra=self.level == "max")

    def unpack_delta(self, stored, tensor, base):
        return self.glyd.decompress_with_base(base.content, stored)


# ---- made for numbers ----

class Pcodec(Codec):
    """bf16 and fp8, which it does not have, are integers."""
    PACKAGE = "pcodec"

    def __init__(self, threads, folder):
        super().__init__(threads, folder)
        from pcodec import ChunkConfig, standalone
        self.config = ChunkConfig(compression_level=8, enable_8_bit=True)
        self.compress, self.decompress = standalone.simple_compress, standalone.simple_decompress

    def pack(self, tensor):
        kind = "i" if tensor.dtype.startswith("I") else "u"
        values = numpy.frombuffer(tensor.content, FLOATS.get(tensor.dtype, f"<{kind}{tensor.width}"))
        return self.compress(values, self.config)

    def unpack(self, stored, tensor):
        return self.decompress(stored).view("u1")

    def pack_delta(self, tensor, base):
        return self.compress(tensor.array() ^ base.array(), self.config)


def in_order(bits, is_signed):
    """Floats as integers in the order of their values: one step up is one more. It is its own inverse."""
    if is_signed:
        return bits
    sign = (bits >> (8 * bits.itemsize - 1)).astype(bool)
    return bits ^ numpy.where(sign, bits.dtype.type(numpy.iinfo(bits.dtype).max >> 1), bits.dtype.type(0))


class PcodecDifference(Pcodec):
    """How many steps a number has moved: the best use of pcodec that is known for deltas, and no part of it."""
    DELTA, IS_DENSE = "difference", False

    def pack_delta(self, tensor, base):
        is_integer = tensor.dtype[0] in "IU"
        moved = in_order(tensor.array(), is_integer) - in_order(base.array(), is_integer)
        return self.compress(moved.view(f"<i{tensor.width}"), self.config)

    def unpack_delta(self, stored, tensor, base):
        is_integer = tensor.dtype[0] in "IU"
        moved = self.decompress(stored).view(f"<u{tensor.width}")
        return in_order(in_order(base.array(), is_integer) + moved, is_integer)


class Blosc2(Codec):
    PACKAGE, THREADS = "blosc2", (1, 2)

    def __init__(self, threads, folder, shuffle, level):
        super().__init__(threads, folder)
        import blosc2
        self.blosc2 = blosc2
        self.options = {"codec": blosc2.Codec.ZSTD, "clevel": level, "filters": [getattr(blosc2.Filter, shuffle)],
                        "filters_meta": [0], "nthreads": threads}

    def pack(self, tensor):
        return self.blosc2.compress2(tensor.content, typesize=tensor.width, **self.options)

    def unpack(self, stored, tensor):
        return self.blosc2.decompress2(stored, nthreads=self.threads)


# ---- made for bytes ----

class Grouped(Codec):
    """Bytes of equal significance go together, by NumPy; each group is coded alone: code() and uncode()."""

    def pack(self, tensor):
        groups = numpy.frombuffer(tensor.content, "u1").reshape(-1, tensor.width).T
        return [self.code(each.tobytes()) for each in groups]

    def unpack(self, stored, tensor):
        if tensor.width == 1:
            return self.uncode(stored[0])
        out = numpy.empty((tensor.nbytes // tensor.width, tensor.width), "u1")
        for number, part in enumerate(stored):
            out[:, number] = numpy.frombuffer(self.uncode(part), "u1")
        return out.reshape(-1)

    def nbytes(self, stored):
        return sum(len(part) for parts in stored for part in parts)


class Zstd(Grouped):
    PACKAGE, THREADS = "zstandard", (1, 2)

    def __init__(self, threads, folder, level):
        super().__init__(threads, folder)
        import zstandard
        self.encoder = zstandard.ZstdCompressor(level=level, threads=threads if threads > 1 else 0)
        self.decoder = zstandard.ZstdDecompressor()

    def code(self, content):
        return self.encoder.compress(content)

    def uncode(self, stored):
        return self.decoder.decompress(stored)


class Lz4(Grouped):
    """As the storage of the Hugging Face Hub does it."""
    PACKAGE = "lz4"

    def __init__(self, threads, folder):
        super().__init__(threads, folder)
        import lz4.frame
        self.frame = lz4.frame

    def code(self, content):
        return self.frame.compress(content)

    def uncode(self, stored):
        return self.frame.decompress(stored)


CODECS = {
    "LMC fast": (Lmc, {"level": "fast"}),
    "LMC default": (Lmc, {"level": "default"}),
    "LMC max": (Lmc, {"level": "max"}),
    "zipnn": (Zipnn, {}),
    "OpenZL, entropy": (Openzl, {"coder": "Entropy"}),
    "OpenZL, FSE": (Openzl, {"coder": "Fse"}),
    "z4ai": (Z4ai, {}),
    "z4ai fast": (Z4aiFast, {"effort": "fast"}),
    "glyd": (Glyd, {"level": "default"}),
    "glyd max": (Glyd, {"level": "max"}),
    "pcodec 8": (Pcodec, {}),
    "pcodec 8, difference": (PcodecDifference, {}),
    "Blosc2, shuffle, zstd 1": (Blosc2, {"shuffle": "SHUFFLE", "level": 1}),
    "Blosc2, shuffle, zstd 5": (Blosc2, {"shuffle": "SHUFFLE", "level": 5}),
    "Blosc2, bitshuffle, zstd 5": (Blosc2, {"shuffle": "BITSHUFFLE", "level": 5}),
    "zstd 3, byte groups": (Zstd, {"level": 3}),
    "zstd 19, byte groups": (Zstd, {"level": 19}),
    "LZ4, byte groups": (Lz4, {}),
}
