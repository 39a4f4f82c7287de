"""Parts of tensors: `lmc-st get` of an archive gives the bytes that the package and numpy give.

Slices are chosen at random, the same in every run: indices from both ends, open and empty ranges, fewer
indices than dimensions. The package slices the original file; dtypes that numpy lacks are sliced as numbers
of their size.
"""

import os
import random
import subprocess

import numpy
import pytest
from safetensors import safe_open

from archives import write_raw
from official import fail_on, judge, read, run

# name, dtype, shape, numpy's dtype of that size; is it the same dtype?
TENSORS = (("vector", "F32", [1000], "<f4", True), ("matrix", "F16", [37, 211], "<f2", True),
           ("cube", "I64", [9, 13, 17], "<i8", True), ("bytes", "U8", [3, 5000], "u1", True),
           ("flags", "BOOL", [64, 64], "?", True), ("narrow", "F64", [700, 1, 3], "<f8", True),
           ("five", "U16", [3, 4, 5, 6, 7], "<u2", True), ("weights", "BF16", [128, 300], "<u2", False),
           ("eighths", "F8_E4M3", [50, 2, 90], "u1", False), ("pairs", "C64", [20, 33], "<u8", False),
           ("large", "BF16", [900, 1200], "<u2", False), ("na[me]", "I32", [40, 50], "<i4", True))
SLICES_OF_EACH = 25


def make_content(random_bytes, dtype, shape):
    count = int(numpy.prod(shape))
    if dtype == "BOOL":
        return random_bytes.integers(0, 2, count, dtype=numpy.uint8).tobytes()
    if dtype in ("BF16", "F16"):
        weights = random_bytes.normal(0, 0.02, count).astype("<f4")
        return weights.astype("<f2").tobytes() if dtype == "F16" else weights.view("<u2")[1::2].tobytes()
    return random_bytes.integers(0, 256, count * {"F32": 4, "I32": 4, "U16": 2, "U8": 1, "F8_E4M3": 1}.get(dtype, 8),
                                 dtype=numpy.uint8).tobytes()


def choose_index(chooser, size):
    """An index or a range within a dimension: as text and for numpy."""
    low, high = sorted(chooser.randrange(size + 1) for _ in range(2))
    kind = chooser.randrange(5)
    if kind == 0 and low < size:
        shown = low - size if chooser.random() < 0.5 else low
        return str(shown), low
    if kind == 1:
        return ":", slice(None)
    if kind == 2:
        return f"{low}:", slice(low, None)
    if kind == 3:
        return f":{high}", slice(None, high)
    return f"{low}:{high}", slice(low, high)


def choose_slice(chooser, shape):
    indices = [choose_index(chooser, size) for size in shape[:chooser.randint(1, len(shape))]]
    return ",".join(text for text, _ in indices), tuple(index for _, index in indices)


def get(tool, path, *arguments):
    done = subprocess.run([tool, "get", path, *arguments], capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"exit status {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def slice_faults(tool, original, archive, tensor):
    name, _, shape, numpy_dtype, is_same = tensor
    chooser = random.Random(name)
    content = {other: data for other, _, _, data in judge(read(original)).tensors}[name]
    whole = numpy.frombuffer(content, numpy_dtype).reshape(shape)
    if get(tool, archive, name) != content:
        yield "the whole tensor differs"
    with safe_open(original, framework="numpy") as file:
        for _ in range(SLICES_OF_EACH):
            text, index = choose_slice(chooser, shape)
            expected = whole[index].tobytes()
            # The package refuses empty ranges at the end of a dimension.
            if is_same and expected and file.get_slice(name)[index].tobytes() != expected:
                yield f"numpy and the package differ on [{text}]"
            if get(tool, archive, f"{name}[{text}]") != expected:
                yield f"[{text}] of the archive differs"
            if get(tool, original, f"{name}[{text}]") != expected:
                yield f"[{text}] of the original differs"
            begin, end = sorted(chooser.randrange(len(content) + 1) for _ in range(2))
            if get(tool, archive, name, "--range", f"{begin}:{end}") != content[begin:end]:
                yield f"bytes {begin} to {end} differ"


@pytest.fixture(scope="module")
def files(tool, folder):
    """The original and its archive."""
    original = os.path.join(folder, "slices.safetensors")
    random_bytes = numpy.random.default_rng(3)
    write_raw(original, [(name, dtype, shape, make_content(random_bytes, dtype, shape))
                         for name, dtype, shape, _, _ in TENSORS])
    run(tool, "convert", original, "-q")
    return original, original + ".lmc"


@pytest.mark.parametrize("tensor", TENSORS, ids=lambda tensor: tensor[0])
def test_slices(tool, files, tensor):
    fail_on(slice_faults(tool, *files, tensor))
