"""Tensors as tools make them that quantise weights and hold them in a float: what they are made of is found."""
import json
import os
import struct

import pytest

numpy = pytest.importorskip("numpy", reason="numpy is not installed (Debian: python3-numpy)")

import lmcodec.numpy  # noqa: E402

EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "data")
F32 = numpy.float32
NF4 = numpy.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                   -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                   0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
                   0.7229568362236023, 1.0], F32)
E4M3 = numpy.array([code % 8 * 2.0 ** -9 if code < 8 else (8 + code % 8) * 2.0 ** (code // 8 - 10)
                    for code in range(127)])


# ---- numbers ----

def stored(dtype, numbers):
    """The bytes of numbers, which are rounded to the type."""
    if dtype == "BF16":
        bits = numpy.ascontiguousarray(numbers, F32).view("u4").astype("u8")
        return (bits + 0x7fff + (bits >> 16 & 1) >> 16).astype("u2").tobytes()
    return numpy.ascontiguousarray(numbers, {"F16": "f2", "F32": "f4", "F64": "f8"}[dtype]).tobytes()


def rounded(dtype, numbers):
    if dtype == "BF16":
        return (numpy.frombuffer(stored(dtype, numbers), "u2").astype("u4") << 16).view(F32).reshape(numbers.shape)
    return numpy.asarray(numbers, {"F16": "f2", "F32": "f4"}[dtype]).astype(F32)


def nearest(numbers, values):
    """Of sorted values."""
    return values[numpy.searchsorted((values[1:] + values[:-1]) / 2, numbers)].astype(F32)


def e4m3(numbers):
    return numpy.sign(numbers) * nearest(numpy.abs(numbers), E4M3)


# ---- what tools do ----

def absmax(rows, most=127, scale_dtype="F32"):
    """Integers, and a scale for each row."""
    scale = rounded(scale_dtype, numpy.abs(rows).max(1, keepdims=True) / F32(most))
    scale[scale == 0] = 1
    least = -most if most == 127 else -most - 1
    return numpy.clip(numpy.rint(rows / scale), least, most).astype(F32), scale


def per_row(weights):
    q, scale = absmax(weights)
    return q * scale


def per_tensor(weights):
    return per_row(weights.reshape(1, -1)).reshape(weights.shape)


def in_groups(length, most=127, scale_dtype="F32"):
    def quantised(weights):
        q, scale = absmax(weights.reshape(-1, length), most, scale_dtype)
        return (q * scale).reshape(weights.shape)
    return quantised


def times_reciprocal(weights):
    """absmax * (1 / 127), as a constant."""
    largest = numpy.abs(weights).max(1, keepdims=True)
    return numpy.rint(weights * (F32(127) / largest)) * (largest * F32(0.007874015718698502))


def times_then_divided(weights):
    largest = numpy.abs(weights).max(1, keepdims=True)
    return numpy.rint(weights * (F32(127) / largest)) * largest / F32(127)


def divided_then_times(weights):
    largest = numpy.abs(weights).max(1, keepdims=True)
    return numpy.rint(weights * (F32(127) / largest)) / F32(127) * largest


def in_half(weights):
    """The product of two F16."""
    q, scale = absmax(weights, scale_dtype="F16")
    return (q.astype("f2") * scale.astype("f2")).astype(F32)


def asymmetric(weights):
    """GPTQ: scale and zero point of 128."""
    groups = weights.reshape(-1, 128)
    low, high = numpy.minimum(groups.min(1, keepdims=True), 0), numpy.maximum(groups.max(1, keepdims=True), 0)
    scale = rounded("F16", (high - low) / F32(15))
    zero = numpy.rint(-low / scale)
    return ((numpy.clip(numpy.rint(groups / scale + zero), 0, 15) - zero) * scale).reshape(weights.shape)


def byte_floats(weights):
    """A scale per 128 rows and columns, as in DeepSeek's files."""
    found = numpy.empty_like(weights)
    for i in range(0, weights.shape[0], 128):
        for k in range(0, weights.shape[1], 128):
            block = weights[i:i + 128, k:k + 128]
            scale = numpy.abs(block).max() / F32(448)
            found[i:i + 128, k:k + 128] = e4m3(block / scale) * scale
    return found


def normal_floats(weights):
    groups = weights.reshape(-1, 64)
    scale = numpy.abs(groups).max(1, keepdims=True)
    return (nearest(groups / scale, NF4) * scale).reshape(weights.shape)


def legacy_ggml(weights):
    """Q4_0: the scale is the element of the largest magnitude, over -8, as F16."""
    groups = weights.reshape(-1, 32)
    largest = groups[numpy.arange(len(groups)), numpy.abs(groups).argmax(1)][:, None]
    scale = rounded("F16", largest / F32(-8))
    return ((numpy.clip(numpy.floor(groups / scale + F32(8.5)), 0, 15) - 8) * scale).reshape(weights.shape)


def micro_floats(weights):
    """MXFP4: numbers of FP4, and a power of two for 32 of them."""
    groups = weights.reshape(-1, 32)
    scale = numpy.exp2(numpy.floor(numpy.log2(numpy.abs(groups).max(1, keepdims=True))) - 2).astype(F32)
    sizes = numpy.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    return (numpy.sign(groups) * nearest(numpy.abs(groups) / scale, sizes) * scale).reshape(weights.shape)


def same(weights):
    return weights


def of_half(weights):
    return rounded("F16", weights)


def of_brain(weights):
    return rounded("BF16", weights)


# dtype, what is done, share of the file at most
CASES = {
    "i8-row": ("F32", per_row, 0.24), "i8-row-bf16": ("BF16", per_row, 0.52), "i8-row-f16": ("F16", per_row, 0.52),
    "i8-tensor": ("F32", per_tensor, 0.24), "i8-tensor-bf16": ("BF16", per_tensor, 0.45),
    "i8-reciprocal": ("F32", times_reciprocal, 0.24), "i8-reciprocal-f16": ("F16", times_reciprocal, 0.52),
    "i8-times-divided-bf16": ("BF16", times_then_divided, 0.52),
    "i8-times-divided-f16": ("F16", times_then_divided, 0.52),
    "i8-divided-times-bf16": ("BF16", divided_then_times, 0.52),
    "i8-divided-times-f16": ("F16", divided_then_times, 0.52), "i8-in-f16": ("F16", in_half, 0.52),
    "i8-128": ("F32", in_groups(128), 0.26), "i8-64-bf16": ("BF16", in_groups(64), 0.55),
    "i8-64-f16": ("F16", in_groups(64, 127, "F16"), 0.55), "q8-0-f16": ("F16", in_groups(32, 127, "F16"), 0.56),
    "i4-32": ("F32", in_groups(32, 7), 0.16), "i4-32-bf16": ("BF16", in_groups(32, 7, "BF16"), 0.31),
    "i4-128-f16": ("F16", in_groups(128, 7, "F16"), 0.27), "q4-0": ("F32", legacy_ggml, 0.16),
    "gptq": ("F32", asymmetric, 0.14), "gptq-bf16": ("BF16", asymmetric, 0.27), "gptq-f16": ("F16", asymmetric, 0.27),
    "fp8-block": ("F32", byte_floats, 0.24), "fp8-block-bf16": ("BF16", byte_floats, 0.45),
    "fp8-alone-bf16": ("BF16", e4m3, 0.40), "nf4": ("F32", normal_floats, 0.15),
    "nf4-bf16": ("BF16", normal_floats, 0.30), "f16-in-f32": ("F32", of_half, 0.425),
    "mxfp4": ("F32", micro_floats, 0.148), "mxfp4-bf16": ("BF16", micro_floats, 0.286),
    "bf16-in-f32": ("F32", of_brain, 0.34), "f32-in-f64": ("F64", same, 0.425),
}


def of_normal_law():
    random = numpy.random.default_rng(3)
    return [(random.standard_normal(shape) * 0.02 * numpy.exp(random.standard_normal((shape[0], 1)) * 0.4)).astype(F32)
            for shape in ((256, 1024), (64, 4096), (512, 384))]


def of_training():
    """The matrices of the example whose rows have two groups of 128 or more."""
    arrays = lmcodec.numpy.load_file(os.path.join(EXAMPLES, "step03000.f32-part.safetensors")).values()
    return [array for array in arrays if array.dtype == F32 and array.ndim == 2 and array.shape[1] % 128 == 0]


WEIGHTS = {"normal": of_normal_law, "trained": of_training}


def share_of(directory, dtype, matrices):
    """Of an archive, whose original comes back."""
    header, at = {}, 0
    contents = [stored(dtype, matrix) for matrix in matrices]
    for number, (matrix, content) in enumerate(zip(matrices, contents)):
        header["w%d" % number] = {"dtype": dtype, "shape": matrix.shape, "data_offsets": [at, at + len(content)]}
        at += len(content)
    text = json.dumps(header).encode()
    whole = struct.pack("<Q", len(text)) + text + b"".join(contents)
    path = os.path.join(directory, "m.safetensors")
    with open(path, "wb") as file:
        file.write(whole)
    lmcodec.convert(path, path + ".lmc")
    lmcodec.restore(path + ".lmc", path + ".back")
    with open(path + ".back", "rb") as file:
        assert file.read() == whole
    return os.path.getsize(path + ".lmc") / len(whole)


@pytest.mark.parametrize("source", WEIGHTS)
@pytest.mark.parametrize("case", CASES)
def test_quantised_weights(directory, case, source):
    dtype, quantised, share = CASES[case]
    found = share_of(directory, dtype, [quantised(weights) for weights in WEIGHTS[source]()])
    assert found <= share, "%.4f of the file" % found


@pytest.mark.parametrize("dtype", ["F16", "BF16", "F32", "F64"])
def test_weights_do_not_grow(directory, dtype):
    """What is no product of anything takes no more than without a look at it."""
    for weights in of_normal_law() + of_training():
        data = stored(dtype, weights)
        row_nbytes = len(data) // len(weights)
        assert (len(lmcodec.encode(data, dtype, row_nbytes=row_nbytes))
                <= 1.002 * len(lmcodec.encode(data, dtype, row_nbytes=row_nbytes, level="fast")))
