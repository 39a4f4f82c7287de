"""bench_store_pieces.py ROOT - the pieces of bench/store against slower ways to say the same: rounding, chunks, deltas,
gradients. Prints a line for each fault. Needs numpy and zstandard."""

import io
import os
import sys
import tempfile

import numpy as np

sys.path[:0] = [os.path.join(sys.argv[1], *part) for part in (("bench",), ("bench", "store"))]
import chunks  # noqa: E402
import families  # noqa: E402
import language  # noqa: E402
import ways  # noqa: E402

RANDOM = np.random.default_rng(3)


def expect(condition, text):
    if not condition:
        print(text)


def check_formats():
    bits = RANDOM.integers(0, 1 << 16, 4096).astype(np.uint16)
    bits = bits[bits >> 7 & 255 != 255]
    expect((families.rounded_bits(families.from_bits(bits)) == bits).all(), "BF16 values are not their own rounding")
    ties = families.from_bits(np.array([0x3f80, 0x3f81], np.uint16)) + np.float32(2.0**-8)
    expect(families.rounded_bits(ties).tolist() == [0x3f80, 0x3f82], "BF16: ties are not rounded to even")
    table = families.e4m3_values()
    expect((table[1], table[8], table[-1]) == (2.0**-9, 2.0**-6, 448), f"E4M3: {table}")
    values = np.concatenate([RANDOM.standard_normal(2000), (table[1:] + table[:-1]) / 2, table, -table, [500, -1e9]])
    values = values.astype(np.float32)
    codes = families.e4m3_bits(values)
    for value, code in zip(values, codes):
        distances = np.abs(table.astype(float) - min(abs(float(value)), 448))
        nearest = [place for place in np.flatnonzero(distances == distances.min())]
        wanted = nearest[0] if len(nearest) == 1 else next(place for place in nearest if place % 2 == 0)
        if code != wanted + 128 * bool(np.signbit(value)):
            print(f"E4M3: {value} became {code}")
            break


def cut_slowly(content):
    """With a hash that is rolled from byte to byte."""
    ends, begin, value = [], 0, 0
    for at, byte in enumerate(content):
        value = ((value << 1) + int(chunks.GEAR[byte])) % (1 << 64)
        nbytes = at + 1 - begin
        if (nbytes >= chunks.CHUNK_MIN and value >> 48 == 0) or nbytes == chunks.CHUNK_MAX or at + 1 == len(content):
            ends.append(at + 1)
            begin = at + 1
    return ends


def check_chunks():
    content = RANDOM.integers(0, 256, chunks.PIECE + 700001, np.uint8).tobytes()
    ends = chunks.cut(content)
    expect(ends == cut_slowly(content), "chunks end elsewhere than with a rolled hash")
    moved = [end - 100 for end in chunks.cut(bytes(100) + content)]
    expect(len(set(ends) - set(moved)) < 4, "bytes in front move the ends of all chunks")
    expect(chunks.cut(b"") == [] and chunks.cut(b"a") == [1], "short files")
    lz4 = chunks.Lz4()
    for data in (content[:70001], b"abcd" * 9999, b"a"):
        expect(lz4.unpack(lz4.pack(data), len(data)) == data, f"{lz4.name}: another content")
        expect(chunks.ungrouped(chunks.grouped(data)) == data, "groups: another content")
    with tempfile.TemporaryDirectory() as folder:
        store = chunks.ChunkStore(os.path.join(folder, "store"))
        paths = [os.path.join(folder, name) for name in ("one", "two", "back")]
        for path, data in zip(paths, (content, bytes(90000) + content)):
            with open(path, "wb") as file:
                file.write(data)
        new = []
        for path in paths[:2]:
            new.append(store.new_nbytes(path))
            store.add(path, os.path.basename(path))
        expect(new[0] == len(content) and 0 < new[1] < 90000 + 3 * chunks.CHUNK_MAX, f"chunks: new bytes {new}")
        store.restore("two", paths[2])
        with open(paths[2], "rb") as file:
            expect(file.read() == bytes(90000) + content, "chunks: what was restored differs")


def check_deltas():
    for dtype, width in ways.WIDTHS.items():
        base, content = (RANDOM.integers(0, 256, 3 * ways.PIECE_NBYTES // 2, np.uint8).tobytes() for _ in range(2))
        packed = ways.pack_xor(content, base, dtype)
        expect(ways.unpack_xor(io.BytesIO(packed), base, dtype) == content, f"XOR, {dtype}: another content")
    bits = np.arange(1 << 16).astype(np.uint16)
    bits = bits[bits >> 7 & 255 != 255]
    order = ways.ordered(bits, 16)[np.argsort(families.from_bits(bits), kind="stable")]
    places = np.flatnonzero(np.diff(order) < 0)
    expect(len(places) <= 1, "integers are not in the order of the numbers")  # -0 and 0 are equal
    old = np.zeros(800, np.uint16) + 0x3f80
    new = old + np.repeat([0, 1, 2, 3], 200).astype(np.uint16)  # lengths 0, 1, 2, 2: 1.5 bits each; half has 1 bit more
    nbits = ways.fm_delta_nbits(new.tobytes(), old.tobytes(), "BF16")
    expect(abs(nbits - (1.5 * 800 + 400)) < 1e-6, f"FM-Delta: {nbits} bits")
    tensors = {"w": ("BF16", (20, 40), new.tobytes()), "b": ("F32", (1,), bytes(4))}
    bases = {**tensors, "w": ("BF16", (20, 40), old.tobytes())}, {"w": ("F16", (20, 40), old.tobytes())}
    shares = [ways.changed_share(tensors, base) for base in bases]
    expect(shares == [600 / 801, None], f"changed values: {shares}")


def check_gradients():
    tensors = language.first_weights(60, 64, 2, 1)
    batch = language.Batches(RANDOM.integers(0, 60, 500), 2, 1).take()
    gradients = language.Tensors(tensors.shapes)
    language.loss_and_gradients(tensors, gradients, *batch)
    for name, values in tensors.items():
        way = gradients[name] / np.linalg.norm(gradients[name])
        losses = []
        for step in (0.02, -0.04):
            values += np.float32(step) * way
            losses.append(language.loss_and_gradients(tensors, language.Tensors(tensors.shapes), *batch))
        values += np.float32(0.02) * way
        slope, wanted = (losses[0] - losses[1]) / 0.04, np.linalg.norm(gradients[name])
        expect(abs(slope - wanted) < 0.02 * wanted + 2e-4, f"gradient of {name}: {wanted}, but the slope is {slope}")


if __name__ == "__main__":
    check_formats()
    check_chunks()
    check_deltas()
    check_gradients()
