"""Small files of the kinds that liblmc_st knows besides safetensors, made with Python's own modules alone.

make_st_corpus.py writes them as seeds of st_container. Zips of torch have the entries, the padding and the pickles that
torch.save() writes.
"""
import collections
import io
import pickle
import struct
import sys
import types
import zipfile

EARLIEST = (1980, 1, 1, 0, 0, 0)


# ---- .npy

def npy(descr, shape, content, version=1, fortran_order=False, text=None):
    text = text or f"{{'descr': {descr}, 'fortran_order': {fortran_order}, 'shape': {shape!r}, }}"
    length = "<H" if version == 1 else "<I"
    start = 8 + struct.calcsize(length)
    text = text.encode() + b" " * (-(start + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack(length, len(text)) + text + content


def npy_files():
    floats = struct.pack("<6f", 1, 2, 3, -4, 0.5, 6)
    for version in (1, 2, 3):
        yield f"v{version}", npy("'<f4'", (2, 3), floats, version)
    yield "fortran", npy("'<f4'", (2, 3), floats, fortran_order=True)
    yield "big-endian", npy("'>f4'", (6,), floats)
    yield "scalar", npy("'<f8'", (), bytes(8))
    yield "empty", npy("'|b1'", (0, 3), b"")
    yield "pair", npy("'<c16'", (1,), bytes(16))
    yield "bf16", npy("'<V2'", (12,), floats)
    yield "text", npy("'<U3'", (2,), floats)
    yield "times", npy("'<M8[ns]'", (3,), floats)
    yield "fields", npy("[('a', '<f4'), (('t', 'b'), '>i2', (2,)), ('c', [('x', '|u1'), ('', '|V3')])]", (2,), floats)
    yield "objects", npy("'|O'", (2,), b"\x80\x04]\x94(K\x01K\x02e.")
    yield "python-2", npy("", (), floats, text="{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }")
    yield "code", npy("", (), floats, text="{'descr': __import__('os').system('x'), 'shape': (6,)}")
    yield "huge", npy("'<f4'", (2**31, 2**31, 2**31), floats)
    yield "behind", npy("'<f4'", (5,), floats)
    yield "cut", npy("'<f4'", (7,), floats)


# ---- GGUF

def text(value):
    return struct.pack("<Q", len(value)) + value


def gguf_value(key, kind, content):
    return text(key) + struct.pack("<I", kind) + content


def gguf_tensor(name, dims, kind, offset):
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def gguf(values, tensors, data, version=3, alignment=32):
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values)) + b"".join(values) + b"".join(tensors)
    return head + bytes(-len(head) % alignment) + data


def gguf_files():
    strings = struct.pack("<IQ", 8, 2) + text(b"one") + text(b"")
    values = [gguf_value(b"general.name", 8, text(b"model")),
              gguf_value(b"general.alignment", 4, struct.pack("<I", 64)),
              gguf_value(b"tokens", 9, strings),
              gguf_value(b"nested", 9, struct.pack("<IQIQ2H", 9, 1, 2, 2, 1, 2)),
              gguf_value(b"rate", 12, bytes(8)), gguf_value(b"on", 7, b"\1")]
    tensors = [gguf_tensor(b"w", (4, 4), 0, 0), gguf_tensor(b"q", (32, 2), 8, 64), gguf_tensor(b"b", (3,), 30, 192),
               gguf_tensor(b"future", (8, 2), 99, 256), gguf_tensor(b"w", (2, 2, 1, 2), 24, 320)]
    for version in (2, 3):
        yield f"v{version}", gguf(values, tensors, bytes(range(200)) * 2, version, 64)
    yield "no-tensors", gguf(values, [], b"")
    yield "nothing", gguf([], [], b"")
    yield "cut", gguf(values, tensors, bytes(80), 3, 64)
    yield "big-endian", b"GGUF" + struct.pack(">IQQ", 3, 0, 0)
    yield "overlap", gguf([], [gguf_tensor(b"a", (8,), 0, 0), gguf_tensor(b"b", (8,), 0, 4)], bytes(64))
    yield "huge-dimension", gguf([], [gguf_tensor(b"a", (2**60, 2**60), 0, 0)], bytes(64))
    yield "huge-offset", gguf([], [gguf_tensor(b"a", (1,), 0, 2**64 - 4)], bytes(64))
    yield "many-tensors", b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0)
    yield "many-values", b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60)
    yield "long-array", gguf([gguf_value(b"a", 9, struct.pack("<IQ", 8, 2**60))], [], b"")
    yield "long-key", b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**63)
    yield "deep", gguf([gguf_value(b"a", 9, struct.pack("<IQ", 9, 1) * 40)], [], b"")
    yield "alignment", gguf([gguf_value(b"general.alignment", 4, struct.pack("<I", 3))], tensors, bytes(400))


# ---- ZIP

def zip_file(entries, padding=0, compression=zipfile.ZIP_STORED, comment=b""):
    """Of (name, content). padding: contents begin at multiples of it, after an extra field as torch writes it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as file:
        for name, content in entries:
            info = zipfile.ZipInfo(name, EARLIEST)
            info.compress_type = compression
            if padding:
                gap = -(out.tell() + 30 + len(name) + 4) % padding
                info.extra = b"FB" + struct.pack("<H", gap) + b"Z" * gap
            file.writestr(info, content)
        file.comment = comment
    return out.getvalue()


class Storage:
    def __init__(self, dtype, key, count):
        self.dtype, self.key, self.count = dtype, key, count


class Tensor:
    """What torch pickles of a tensor."""

    def __init__(self, storage, shape, stride=None, offset=0, rebuild="_rebuild_tensor_v2"):
        self.storage, self.shape, self.offset, self.rebuild = storage, shape, offset, rebuild
        self.stride = stride or tuple(contiguous(shape))

    def __reduce__(self):
        rebuild = getattr(sys.modules["torch._utils"], self.rebuild)
        tensor = (self.storage, self.offset, self.shape, self.stride, False, collections.OrderedDict())
        if self.rebuild == "_rebuild_parameter":
            return rebuild, (Tensor(self.storage, self.shape), True, collections.OrderedDict())
        return rebuild, tensor


def contiguous(shape):
    for i in range(len(shape)):
        product = 1
        for dim in shape[i + 1:]:
            product *= dim
        yield product


def like_torch():
    """Modules that give the pickles the names that torch's have."""
    modules = {name: types.ModuleType(name) for name in ("torch", "torch._utils")}
    for name in ("FloatStorage", "BFloat16Storage", "LongStorage", "HalfStorage"):
        setattr(modules["torch"], name, type(name, (), {"__module__": "torch"}))
    for name in ("_rebuild_tensor_v2", "_rebuild_parameter"):
        function = types.FunctionType((lambda *_: None).__code__, {}, name)
        function.__module__, function.__qualname__ = "torch._utils", name
        setattr(modules["torch._utils"], name, function)
    return modules


class TorchPickler(pickle._Pickler):  # the one in C asks for the module of each function
    def persistent_id(self, obj):
        if isinstance(obj, Storage):
            return "storage", getattr(sys.modules["torch"], obj.dtype), obj.key, "cpu", obj.count
        return None


def torch_pickle(value, protocol=2):
    out = io.BytesIO()
    TorchPickler(out, protocol).dump(value)
    return out.getvalue()


def torch_zip(value, storages, name="archive", protocol=2, padding=64):
    entries = [(f"{name}/data.pkl", torch_pickle(value, protocol)), (f"{name}/byteorder", b"little")]
    entries += [(f"{name}/data/{key}", content) for key, content in storages.items()]
    return zip_file(entries + [(f"{name}/version", b"3\n")], padding)


def torch_files():
    weight, bias = Storage("FloatStorage", "0", 6), Storage("BFloat16Storage", "1", 4)
    storages = {"0": struct.pack("<6f", 1, 2, 3, 4, 5, 6), "1": bytes(8)}
    state = collections.OrderedDict(weight=Tensor(weight, (2, 3)), bias=Tensor(bias, (4,)))
    for protocol in (2, 3, 4, 5):
        yield f"p{protocol}", torch_zip(state, storages, protocol=protocol)
    yield "optimizer", torch_zip({"state": {0: {"step": Tensor(bias, (), (), 1), "exp_avg": Tensor(weight, (6,))}},
                                  "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "params": [0], "x": None}]},
                                 storages)
    views = Tensor(weight, (3, 2), (1, 3)), Tensor(weight, (2,), (3,), 1), Tensor(bias, (2, 4), (0, 1))
    yield "views", torch_zip(list(views), storages)
    yield "parameter", torch_zip({"p": Tensor(weight, (2, 3), rebuild="_rebuild_parameter")}, storages)
    yield "missing", torch_zip(state, {"0": storages["0"]})
    yield "short", torch_zip(state, {"0": b"ab", "1": b""})
    yield "loop", torch_zip(looped(state), storages)
    yield "no-padding", torch_zip(state, storages, padding=0)
    for name, code in pickle_bombs():
        entries = [("a/data.pkl", code), ("a/data/0", bytes(24)), ("a/version", b"3\n")]
        yield f"bomb-{name}", zip_file(entries, 64)
    shard = torch_zip(Tensor(weight, (2, 3)), {"0": storages["0"]}, padding=0)
    yield "several", shard + shard
    yield "several-with-gaps", b"before" + shard + bytes(9) + torch_zip(Tensor(bias, (4,)), {"1": bytes(8)}) + b"behind"


def looped(value):
    loop = [value]
    loop.append(loop)
    return loop


def pickle_bombs():
    yield "depth", b"\x80\x02" + b"(" * 900 + b"l" * 900 + b"."
    yield "tuples", b"\x80\x02)" + b"\x85" * 900 + b"."
    yield "doubling", b"\x80\x02](" + b"2" * 500 + b"e."
    yield "memo", b"\x80\x02]" + b"r\xff\xff\xff\xffj\xff\xff\xff\xff" * 20 + b"."
    yield "long", b"\x80\x02\x8b\xff\xff\xff\x7f."
    yield "string", b"\x80\x04\x8d" + b"\xff" * 8 + b"."
    yield "frame", b"\x80\x04\x95" + b"\xff" * 8 + b"N."
    yield "call", b"\x80\x02cos\nsystem\nX\x01\x00\x00\x00x\x85R."
    yield "endless", b"\x80\x02" + b"]q\x00h\x00a" * 60


def zip_files():
    array = dict(npy_files())["v1"]
    yield "npz", zip_file([("a.npy", array), ("b/c.npy", array)])
    yield "npz-deflated", zip_file([("a.npy", array)], compression=zipfile.ZIP_DEFLATED)
    yield "comment", zip_file([("a.npy", array)], comment=b"PK\5\6" + bytes(20))
    yield "empty", zip_file([])
    yield "other", zip_file([("readme.txt", b"text"), ("folder/", b""), ("a\xe9\u4e2d.bin", bytes(64))])
    plain = zip_file([("a.npy", array), ("a.npz", array)])
    yield "cut", plain[:-9]
    yield "before", b"#!/bin/sh\n" + plain
    at = plain.rindex(b"PK\5\6")
    for name, offset, change in (("count", 10, b"\xff\xff"), ("size", 12, b"\xff\xff\xff\xff"),
                                 ("place", 16, b"\xff\xff\xff\xff"), ("own-place", 16, struct.pack("<I", at)),
                                 ("disk", 4, b"\1\0")):
        yield f"lie-{name}", plain[:at + offset] + change + plain[at + offset + len(change):]
    at = plain.index(b"PK\1\2")
    for name, offset, change in (("flags", 8, b"\1\0"), ("method", 10, b"\x63\0"), ("packed-size", 20, b"\xff" * 4),
                                 ("name-size", 28, b"\xff\xff"), ("local-place", 42, b"\xf0\xff\xff\xff")):
        yield f"lie-entry-{name}", plain[:at + offset] + change + plain[at + offset + len(change):]
    yield "zip64", zip64_file("a.npy", array)


def zip64_file(name, content):
    """A zip of one stored entry whose numbers stand in the fields of zip64."""
    sizes = struct.pack("<HHQQ", 1, 16, len(content), len(content))
    local = struct.pack("<4s5H3I2H", b"PK\3\4", 45, 0, 0, 0, 33, 0, 2**32 - 1, 2**32 - 1, len(name), len(sizes))
    local += name.encode() + sizes + content
    sizes = struct.pack("<HHQQQ", 1, 24, len(content), len(content), 0)
    entry = struct.pack("<4s6H3I5H2I", b"PK\1\2", 45, 45, 0, 0, 0, 33, 0, 2**32 - 1, 2**32 - 1, len(name), len(sizes),
                        0, 0, 0, 0, 2**32 - 1) + name.encode() + sizes
    end = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(entry), len(local))
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, len(local) + len(entry), 1)
    last = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 2**16 - 1, 2**16 - 1, 2**32 - 1, 2**32 - 1, 0)
    return local + entry + end + locator + last


def all_files():
    """(name, content) of all of them."""
    modules = like_torch()
    sys.modules.update(modules)
    try:
        for kind, files in ("npy", npy_files), ("gguf", gguf_files), ("torch", torch_files), ("zip", zip_files):
            for name, content in files():
                yield f"{kind}-{name}", content
    finally:
        for name in modules:
            del sys.modules[name]
