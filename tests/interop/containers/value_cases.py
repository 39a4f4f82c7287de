"""value_cases.py - files of torch, numpy and llama.cpp in every dtype, byte order, order of axes and kind of view, and
what their own libraries read from each: {name: Tensor}."""

import collections
import copy
import io
import math
import zipfile
from typing import Any, Callable, NamedTuple

import numpy

from command import Tensor
from torch_objects import DTYPES, Training, Transformer, adamw, bits, expected_of, load, tensors_in, torch, untyped


class Case(NamedTuple):
    """write(path) makes a file. expected(path): what its own library reads from it."""

    name: str
    ending: str
    write: Callable[[str], Any]
    expected: Callable[[str], dict]


# ---- numpy ----

# A kind of numpy, the dtype of files, and a last dimension for the parts of a value. None: files have no such dtype.
NUMPY_KINDS = {"f2": ("F16", ()), "f4": ("F32", ()), "f8": ("F64", ()), "i1": ("I8", ()), "i2": ("I16", ()),
               "i4": ("I32", ()), "i8": ("I64", ()), "u1": ("U8", ()), "u2": ("U16", ()), "u4": ("U32", ()),
               "u8": ("U64", ()), "?": ("BOOL", ()), "c8": ("C64", ()), "c16": ("F64", (2,)), "M8[s]": ("I64", ()),
               "m8[ns]": ("I64", ()), "S7": None, "U5": None, "V6": None,
               "record": None, "g": None, "G": None}
RECORD = [("a", "f4"), ("b", ">i2", (3,)), ("c", "S5")]
NUMPY_SHAPES = {"scalar": (), "one": (1,), "none": (0,), "no-rows": (0, 5), "no-columns": (5, 0), "row": (1, 9),
                "column": (9, 1), "line": (70,), "matrix": (6, 11), "cube": (2, 3, 5), "flat-cube": (4, 1, 6),
                "five": (2, 3, 1, 2, 4)}


def numpy_values(kind, byte_order, shape, axes):
    """An array with any bits as its values."""
    dtype = numpy.dtype(RECORD) if kind == "record" else numpy.dtype(byte_order + kind if kind != "?" else kind)
    count = math.prod(shape)
    bits = numpy.random.default_rng(count).integers(0, 2 if kind == "?" else 256, count * dtype.itemsize, "u1")
    if kind.startswith("U"):
        bits = numpy.arange(count * 5, dtype=byte_order + "u4") % 0xD800
    array = numpy.frombuffer(bits.tobytes(), dtype, count).reshape(shape)
    return numpy.asarray(array, order=axes)


def numpy_expected(array):
    """None: the array has objects, and is no tensor. Values that files have no dtype for are rows of their bytes."""
    if array.dtype.hasobject:
        return None
    base = "record" if array.dtype.names else array.dtype.str[1:] if array.dtype.kind != "b" else "?"
    known = NUMPY_KINDS.get(base) or (NUMPY_KINDS["M8[s]"] if array.dtype.kind in "mM" else None)
    if known is None:
        return Tensor("U8", [*array.shape, array.itemsize], array.tobytes("C"))
    return Tensor(known[0], [*array.shape, *known[1]], array.astype(array.dtype.newbyteorder("<")).tobytes("C"))


def npy_expected(path):
    expected = numpy_expected(numpy.load(path, allow_pickle=True))
    return {} if expected is None else {"array": expected}


def npz_expected(path):
    with numpy.load(path, allow_pickle=True) as arrays:
        found = {name: numpy_expected(arrays[name]) for name in arrays.files}
    return {name: expected for name, expected in found.items() if expected is not None}


def _npy(kind, byte_order, axes, shape):
    return lambda path: numpy.save(path, numpy_values(kind, byte_order, shape, axes))


def _npz(kind, byte_order):
    arrays = {"%s-%s" % (name, axes): (shape, axes) for name, shape in NUMPY_SHAPES.items() for axes in "CF"}
    return lambda path: numpy.savez(path, **{name: numpy_values(kind, byte_order, *form)
                                             for name, form in arrays.items()})


def _mixed_npz(path):
    big = numpy.arange(24, dtype=">f4").reshape(4, 6)
    numpy.savez(path, big=big, turned=big.T, objects=numpy.array(["x", 1], dtype=object), step=numpy.array(7),
                strided=numpy.arange(40, dtype="i2")[::3], backwards=numpy.arange(9.0)[::-1],
                **{"layers/0/bias": numpy.asfortranarray(big.astype("c16"))})


def _bfloat16(path):
    """What numpy.save() writes for an array of ml_dtypes: bytes, two by two. Nothing else has this descr."""
    file = io.BytesIO()
    numpy.save(file, numpy.arange(24, dtype="<u2").view("V2").reshape(4, 6))
    with open(path, "wb") as written:
        written.write(file.getvalue().replace(b"|V2", b"<V2"))


def _bfloat16_expected(path):
    return {"array": Tensor("BF16", [4, 6], numpy.load(path).tobytes())}


def numpy_cases():
    for kind in NUMPY_KINDS:
        has_order = numpy.dtype(RECORD if kind == "record" else kind).byteorder != "|"
        for byte_order in "<>" if has_order else "<":
            order = "big" if byte_order == ">" else "little"
            yield Case("npz-%s-%s" % (kind, order), "npz", _npz(kind, byte_order), npz_expected)
            for axes in "CF":
                for name, shape in NUMPY_SHAPES.items():
                    if axes == "C" or sum(size > 1 for size in shape) > 1:
                        yield Case("npy-%s-%s-%s-%s" % (kind, order, axes, name), "npy",
                                   _npy(kind, byte_order, axes, shape), npy_expected)
    yield Case("npz-mixed", "npz", _mixed_npz, npz_expected)
    yield Case("npy-bfloat16", "npy", _bfloat16, _bfloat16_expected)


# ---- torch ----

def torch_values(name, count=240, seed=1):
    """A tensor with any bits as its values."""
    dtype = getattr(torch, name)
    nbytes = count * torch.empty(0, dtype=dtype).element_size()
    bits = numpy.random.default_rng(seed).integers(0, 2 if name == "bool" else 256, nbytes, "u1")
    return torch.from_numpy(bits).clone().view(dtype)


LAYOUTS = {
    "line": lambda line: line,
    "matrix": lambda line: line.view(12, 20),
    "turned": lambda line: line.view(12, 20).t(),
    "rows": lambda line: line.view(12, 20)[3:7],
    "row": lambda line: line.view(12, 20)[5],
    "columns": lambda line: line.view(12, 20)[:, 4:10],
    "column": lambda line: line.view(12, 20)[:, 3],
    "head": lambda line: line[:100],
    "tail": lambda line: line[100:],
    "steps": lambda line: line[::7],
    "steps-in-the-middle": lambda line: line.view(12, 20)[2:11:2, 1:19:3],
    "axes-moved": lambda line: line.view(4, 6, 10).permute(2, 0, 1),
    "axes-reversed": lambda line: line.view(4, 6, 10).permute(2, 1, 0),
    "channels-last": lambda line: line.view(2, 3, 5, 8).permute(0, 3, 1, 2),
    "expanded": lambda line: line[:6].view(6, 1).expand(6, 10),
    "expanded-first": lambda line: line[5:15].expand(3, 4, 10),
    "one-value": lambda line: line[7].expand(3, 4),
    "scalar": lambda line: line[:1].clone().reshape(()),
    "scalar-of-many": lambda line: line[17],
    "diagonal": lambda line: line.view(12, 20).diagonal(2),
    "windows": lambda line: line.unfold(0, 10, 3),
    "same-rows": lambda line: line.as_strided((4, 12), (0, 2), 3),
    "none": lambda line: line[:0].clone(),
    "none-of-many": lambda line: line.view(12, 20)[3:, 8:8],
    "no-rows": lambda line: torch.empty(0, 6, dtype=line.dtype),
    "ones": lambda line: line[:1].clone().view(1, 1, 1),
    "loose-strides": lambda line: line.as_strided((1, 240, 1), (7, 1, 99)),
}


def torch_expected(path):
    return expected_of(load(path), path)


def save_big_endian(value, path):
    """As torch saves it on a big-endian machine: each storage swapped by the dtype that its class has."""
    made = io.BytesIO()
    torch.save(value, made)
    widths = {}
    for _, tensor in tensors_in(value):
        widths.setdefault(untyped(tensor)._cdata, _width(tensor.dtype))
    with zipfile.ZipFile(made) as little, zipfile.ZipFile(path, "w") as big:
        folder = next(name for name in little.namelist() if name.endswith("/data.pkl"))[:-len("data.pkl")]
        for entry in little.namelist():
            content = little.read(entry)
            if entry == folder + "byteorder":
                continue
            if entry.startswith(folder + "data/"):
                width = list(widths.values())[int(entry.rsplit("/", 1)[1])]
                content = numpy.frombuffer(content, "u%d" % width).byteswap().tobytes()
            big.writestr(entry, content)
        big.writestr(folder + "byteorder", b"big")


def _width(dtype):
    """Bytes that torch swaps as one: half a complex number; those of a dtype without a storage class are bytes."""
    width = torch.empty(0, dtype=dtype).element_size()
    if str(dtype).split(".")[1] in ("uint16", "uint32", "uint64", "complex32"):
        return 1
    return width // 2 if dtype.is_complex else width


BIG_LAYOUTS = ("line", "turned", "columns", "scalar-of-many", "expanded", "none")


def _alone(dtype, layout):
    return lambda path: torch.save({"view": LAYOUTS[layout](torch_values(dtype))}, path)


def _beside(dtype, layout):
    """A view, all of its storage, and the same view a second time."""
    def write(path):
        line = torch_values(dtype)
        view = LAYOUTS[layout](line)
        torch.save({"view": view, "whole": line, "again": view.view_as(view), "same": view}, path)
    return write


def _big(dtype, layout):
    def write(path):
        line = torch_values(dtype)
        save_big_endian({"whole": line, "view": LAYOUTS[layout](line), "next": torch_values(dtype, 9, 2)}, path)
    return write


def _object(make, save=None, **options):
    return lambda path: (save or torch.save)(make(), path, **options)


def torch_cases():
    version = tuple(map(int, torch.__version__.split(".")[:2]))
    knows_byte_orders = version >= (2, 1)  # earlier ones read a big-endian file as it is
    types_here = [name for name in DTYPES if _can_save(name)]
    for dtype in types_here:
        for layout in LAYOUTS:
            if dtype == "float4_e2m1fn_x2" and layout not in ("line", "matrix", "rows", "tail", "row"):
                continue
            yield Case("torch-%s-%s" % (dtype, layout), "pt", _alone(dtype, layout), torch_expected)
            if dtype in ("float32", "bfloat16", "int8", "complex64", "complex128", "float8_e4m3fn", "uint16"):
                yield Case("torch-%s-%s-beside" % (dtype, layout), "pt", _beside(dtype, layout), torch_expected)
            if knows_byte_orders and layout in BIG_LAYOUTS and \
                    torch.empty(0, dtype=getattr(torch, dtype)).element_size() > 1:
                yield Case("torch-%s-%s-big" % (dtype, layout), "pt", _big(dtype, layout), torch_expected)
    for name, make in OBJECTS.items():
        yield Case("object-" + name, "pt", _object(make), torch_expected)
        if name in ("nested", "tied", "module", "same-tensor", "state-dict"):
            for protocol in (2, 3, 4, 5):
                yield Case("object-%s-protocol-%d" % (name, protocol), "pt",
                           _object(make, pickle_protocol=protocol), torch_expected)
            if knows_byte_orders:
                yield Case("object-%s-big" % name, "pt", _object(make, save_big_endian), torch_expected)
    if version >= (2, 15):  # earlier ones take the second tensor for one of the first's dtype
        yield Case("object-other-class", "pt", _object(lambda: {
            "float": torch_values("float32", 60), "integer": torch_values("int32", 60).view(6, 10).t()},
            save_other_class), torch_expected)


def _can_save(name):
    if not hasattr(torch, name):
        return False
    try:
        torch.save(torch_values(name), io.BytesIO())
        bits(torch_values(name))
    except (RuntimeError, KeyError, TypeError, NotImplementedError):
        return False
    return True


# ---- objects of torch ----

def _tied_model():
    torch.manual_seed(1)
    return Transformer(vocabulary=50, width=8, depth=1)


def _flat():
    """One buffer that all parameters are views of, as FSDP and DeepSpeed have it."""
    flat = torch.randn(1000)
    return {"flat": flat, "params": {"a": flat[:600].view(20, 30), "b": flat[600:700], "c": flat[700:].view(100, 3)}}


def _same_list():
    pair = [torch.randn(3), torch.randn(4)]
    return {"one": pair, "other": pair}


def _other_dtypes():
    """Dtypes without a storage class of their own share the bytes of one storage."""
    line = torch_values("uint8", 480)
    return {"bytes": line[3:], "u16": line.view(torch.uint16)[1:], "u32": line.view(torch.uint32).view(12, 10).t(),
            "f8": line.view(torch.float8_e5m2)[3:33].view(5, 6).t(), "u64": line.view(torch.uint64)[::7],
            "half-complex": line.view(torch.complex32)[5:9], "all": line.view(torch.uint32)}


def save_other_class(value, path):
    """The second of two tensors becomes one on the storage of the first, with another class."""
    made = io.BytesIO()
    torch.save(value, made)
    with zipfile.ZipFile(made) as separate, zipfile.ZipFile(path, "w") as shared:
        for entry in separate.namelist():
            content = separate.read(entry)
            if entry.endswith("data.pkl"):
                content = content.replace(b"X\x01\x00\x00\x001", b"X\x01\x00\x00\x000")
            if entry.split("/")[1:] != ["data", "1"]:
                shared.writestr(entry, content)


def _complex_parts():
    line = torch_values("complex64", 60).view(6, 10)
    return {"real": line.real, "imaginary": line.imag.t()}


def _parameters():
    whole = torch.nn.Parameter(torch.randn(6, 7))
    return {"whole": whole, "slice": torch.nn.Parameter(whole.detach()[2:4]), "data": whole.data.t(),
            "frozen": torch.nn.Parameter(torch.arange(5), requires_grad=False),
            "buffer": (torch.nn.Buffer if hasattr(torch.nn, "Buffer") else torch.Tensor)(torch.ones(3))}


def _with_attributes():
    tensor = torch.nn.Parameter(torch.randn(5))
    tensor.note = "text"
    return {"t": tensor, "u": tensor.detach()[1:3]}


def _odd_names():
    line = torch.randn(30)
    return {"a.b": line[:4], "a": {"b": line[4:9]}, "#": line, "a.b#2": line[20:], "": line[::2],
            "\u00e9\u4e2d\U0001f600": line[7], 'quote"\\': line.view(5, 6).t(), "x[0]": line[1:2],
            "__metadata__x": line}


def _many_views():
    flat = torch.arange(3000, dtype=torch.int32)
    return {"layer.%d.scale" % number: flat[3 * number:3 * number + 3] for number in range(1000)}


OBJECTS = {
    "tensor-alone-in-a-list": lambda: [torch.randn(5, 4).t()],
    "nested": lambda: {"list": [torch.randn(3), [torch.randn(4, 4).t(), "text", None], (torch.randn(5)[1:], 1.5)],
                       7: torch.randn(7), "empty": {}, "deep": {"a": {"b": [{"c": torch.randn(6)[::2]}]}},
                       "ordered": collections.OrderedDict(x=torch.randn(8), y=torch.arange(9))},
    "tied": lambda: (lambda weight: {"embed": weight, "head": weight.detach()})(torch.randn(8, 5)),
    "same-tensor": lambda: (lambda weight: {"embed": weight, "head": weight, "more": [weight, weight]})(
        torch.randn(8, 5)),
    "same-parameter": lambda: (lambda weight: {"embed": weight, "head": weight})(torch.nn.Parameter(torch.randn(4))),
    "same-list": _same_list,
    "same-state": lambda: (lambda state: {"last": state, "best": state, "kept": [(state, 1)]})(
        _tied_model().state_dict()),
    "state-dict": lambda: _tied_model().state_dict(),
    "module": _tied_model,
    "module-and-state": lambda: (lambda model: {"model": model, "state": model.state_dict()})(_tied_model()),
    "optimizer": lambda: (lambda training: {"model": training.model.state_dict(),
                                            "optimizer": training.optimizer.state_dict()})(Training(adamw).steps(1)),
    "flat": _flat,
    "part-first": lambda: (lambda whole: {"part": whole[10:20], "whole": whole.view(10, 10)})(torch.randn(100)),
    "parts-alone": lambda: (lambda whole: {"front": whole[:30], "back": whole[70:], "both": whole[20:80]})(
        torch.randn(100)),
    "row-of-all": lambda: (lambda all_rows: {"all": all_rows, "row": all_rows[2]})(torch.randn(4, 9)),
    "turned-twice": lambda: (lambda whole: {"turned": whole.t(), "back": whole.t().t()})(torch.randn(7, 3)),
    **({"other-dtypes": _other_dtypes} if hasattr(torch, "uint64") else {}),
    "complex-parts": _complex_parts,
    "conjugated": lambda: (lambda line: {"line": line, "conjugated": line.conj(), "turned": line.view(4, 5).t().conj()}
                           )(torch.randn(20, dtype=torch.complex64)),
    "conjugated-alone": lambda: {"c": torch.randn(6, 3, dtype=torch.complex64).conj()},
    "negative": lambda: {"n": torch.randn(9, dtype=torch.complex64).conj().imag},
    "parameters": _parameters,
    "with-attributes": _with_attributes,
    "odd-names": _odd_names,
    "many-views": _many_views,
    "empty": lambda: {"none": torch.empty(0), "rows": torch.empty(0, 5), "columns": torch.empty(3, 0, 2),
                      "one": torch.ones(1), "again": torch.empty(0), "of-many": torch.randn(9)[4:4]},
    "scalars": lambda: (lambda line: {"f": torch.tensor(1.5), "of-many": line[3], "b": torch.tensor(True),
                                      "i": torch.tensor(7)})(torch.arange(5)),
    "copies": lambda: (lambda line: {"a": line, "b": line.clone(), "c": copy.deepcopy(line)[3:]})(torch.randn(300)),
    "large-view": lambda: (lambda whole: {"turned": whole.t(), "part": whole[100:300, 50:1000]})(
        torch.arange(600 * 1100, dtype=torch.int32).view(600, 1100)),
}


# ---- GGUF ----

GGUF_SHAPES = {"line": (256,), "matrix": (3, 256), "cube": (2, 3, 256), "four": (2, 1, 2, 256)}
GGUF_TYPES = {"F32": "F32", "F16": "F16", "BF16": "BF16", "F64": "F64", "I8": "I8", "I16": "I16", "I32": "I32",
              "I64": "I64"}


def _gguf(name, shape):
    def write(path):
        import gguf
        kind = gguf.GGMLQuantizationType[name]
        block, block_nbytes = gguf.GGML_QUANT_SIZES[kind]
        nbytes = math.prod(shape) // block * block_nbytes
        content = numpy.random.default_rng(nbytes).integers(0, 256, nbytes, "u1")
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_tensor("blk.0.weight", content.reshape(*shape[:-1], -1), raw_dtype=kind)
        writer.add_tensor("norm", numpy.arange(7, dtype="f4"))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return write


def gguf_expected(path):
    import gguf
    found = {}
    for tensor in gguf.GGUFReader(path).tensors:
        content = tensor.data.tobytes()
        dtype = GGUF_TYPES.get(tensor.tensor_type.name, "U8")
        shape = [len(content)] if dtype == "U8" else [int(size) for size in tensor.shape][::-1]
        found[tensor.name] = Tensor(dtype, shape, content)
    return found


def gguf_cases():
    try:
        import gguf
    except ImportError:
        return
    for name in gguf.GGMLQuantizationType.__members__:
        for shape_name, shape in GGUF_SHAPES.items():
            yield Case("gguf-%s-%s" % (name, shape_name), "gguf", _gguf(name, shape), gguf_expected)


def all_cases():
    yield from numpy_cases()
    yield from torch_cases()
    yield from gguf_cases()
