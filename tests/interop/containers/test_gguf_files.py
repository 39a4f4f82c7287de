"""Files of GGUF's own writer."""

import os

import gguf
import numpy
import pytest

from command import Tensor, check, read, write

QUANTS = gguf.GGMLQuantizationType


def quantized(values, kind):
    return gguf.quants.quantize(values, kind)


def make(path, seed=1, arrays=True):
    """Returns {name: Tensor} of what was written."""
    random = numpy.random.default_rng(seed)

    def noise(*shape):
        return random.normal(0, 0.02, shape).astype("f4")

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(64)
    writer.add_block_count(2)
    writer.add_description("a small model \u4e2d")
    if arrays:
        writer.add_token_list([f"token{i}" for i in range(500)])
        writer.add_token_scores([float(i) for i in range(500)])
        writer.add_array("odd.nested", [1, 2, 3])
        writer.add_bool("odd.flag", True)
    expected = {}

    def add(name, array, dtype, shape, kind=None):
        writer.add_tensor(name, array, raw_dtype=kind)
        expected[name] = Tensor(dtype, shape, array.tobytes())

    add("token_embd.weight", noise(500, 64), "F32", [500, 64])
    add("blk.0.attn_q.weight", noise(64, 64).astype("f2"), "F16", [64, 64])
    add("blk.0.attn_norm.weight", noise(64), "F32", [64])
    add("blk.0.ffn_up.weight", quantized(noise(96, 64), QUANTS.BF16), "BF16", [96, 64], QUANTS.BF16)
    add("blk.0.ffn_down.weight", quantized(noise(64, 96), QUANTS.Q8_0), None, None, QUANTS.Q8_0)
    add("blk.1.ffn_down.weight", quantized(noise(64, 96), QUANTS.Q4_0), None, None, QUANTS.Q4_0)
    add("blk.1.experts.weight", noise(3, 20, 32), "F32", [3, 20, 32])
    add("double", random.normal(0, 1, (10, 4)), "F64", [10, 4])
    for kind in ("i1", "i2", "i4", "i8"):
        add("int" + kind, numpy.arange(100, dtype=kind), "I" + str(8 * int(kind[1])), [100])
    finish(writer)
    return expected


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def contents(path):
    return {tensor.name: (tensor.tensor_type, tensor.data.tobytes()) for tensor in gguf.GGUFReader(path).tensors}


@pytest.mark.parametrize("arrays", (True, False))
def test_models(tool, directory, arrays):
    path = os.path.join(directory, "model.gguf")
    expected = make(path, arrays=arrays)
    _, back = tool.check_file(path, expected)
    found = contents(back)
    check(set(found) == set(expected), f"{sorted(found)}")
    for name, (_, content) in found.items():
        check(content == expected[name].content, f"{name}: other bytes")


def test_alignment(tool, directory):
    path = os.path.join(directory, "model.gguf")
    random = numpy.random.default_rng(3)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_custom_alignment(4096)
    values = {f"t{i}": random.normal(0, 1, (i + 1, 33)).astype("f4") for i in range(5)}
    for name, array in values.items():
        writer.add_tensor(name, array)
    finish(writer)
    tool.check_file(path, {name: Tensor("F32", list(array.shape), array.tobytes()) for name, array in values.items()})


def test_base_of_models(tool, directory):
    first, second = (os.path.join(directory, name) for name in ("a.gguf", "b.gguf"))
    make(first, 1)
    make(second, 1)
    content = bytearray(read(second))
    content[-500] ^= 1
    write(second, content)
    tool.check_base(first, second)


def test_cut_models(tool, directory):
    """A model that was cut while it was downloaded: refused, or byte for byte back."""
    path = os.path.join(directory, "model.gguf")
    make(path)
    whole = read(path)
    for length in (4, 23, 24, 100, 5000, len(whole) // 2, len(whole) - 1):
        write(path, whole[:length])
        tool.run("convert", path, status=1)
    check(os.listdir(directory) == ["model.gguf"], "something is left")
