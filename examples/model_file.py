"""model_file.py - the steps of fetch_model.sh that are no work for a shell.

    python3 model_file.py take FOLDER OUT   the largest model.safetensors in the packages of a folder
    python3 model_file.py COPY IN OUT       a copy of a file whose F32 tensors became (needs numpy)

COPY  bf16  BF16
      f16   F16
      fp8   F8_E4M3 with a scale for each matrix; embeddings and what is no matrix: BF16
      int8  I8 with a scale for each row of a matrix; what is no matrix: as it was

Scales are F32 tensors beside their matrices. The values have to be finite for fp8 and int8.
"""

import glob
import json
import os
import shutil
import struct
import sys
import tarfile
import zipfile

try:
    import numpy
except ImportError:
    numpy = None  # take does without


def members(path):
    """(name, size, function that opens it) of the files in a wheel or a source package."""
    if zipfile.is_zipfile(path):
        archive = zipfile.ZipFile(path)
        return [(m.filename, m.file_size, lambda m=m: archive.open(m)) for m in archive.infolist()]
    archive = tarfile.open(path)
    return [(m.name, m.size, lambda m=m: archive.extractfile(m)) for m in archive.getmembers() if m.isfile()]


def replace(path, write):
    """Writes a file under another name first, so that a broken one is never found."""
    with open(path + ".part", "wb") as target:
        write(target)
    os.replace(path + ".part", path)


def take(folder, out_path):
    found = [member for path in glob.glob(os.path.join(folder, "*")) for member in members(path)
             if os.path.basename(member[0]) == "model.safetensors"]
    if not found:
        sys.exit(f"model_file.py: no model.safetensors in {folder}")
    _, _, open_member = max(found, key=lambda member: member[1])
    with open_member() as source:
        replace(out_path, lambda target: shutil.copyfileobj(source, target, 1 << 20))


def to_bf16(values):
    """f32 to bf16, round to nearest, ties to even; a NaN stays a (quiet) NaN."""
    bits = values.view("<u4")
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # a carry out of the mantissa is the right exponent
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return numpy.where(is_nan, (bits >> 16) | 0x40, rounded).astype("<u2")


def to_f8_e4m3(values):
    """f32 between -448 and 448 to F8_E4M3, round to nearest, ties to even."""
    bits = values.view("<u4")
    magnitude = bits & 0x7FFFFFFF
    normal = ((magnitude + 0x7FFFF + ((bits >> 20) & 1)) >> 20) - (120 << 3)  # 3 bits of mantissa; bias 7, not 127
    subnormal = numpy.rint(magnitude.view("<f4") * numpy.float32(512)).astype("<u4")  # 8 of them: the least normal
    code = numpy.where(magnitude < 121 << 23, subnormal, normal)
    return (code | bits >> 24 & 0x80).astype("u1")


def scale_of(largest, limit):
    """What makes the largest value the limit; never 0."""
    return numpy.maximum(largest / numpy.float32(limit), numpy.float32(1e-12))


def bf16(name, values):
    yield name, "BF16", to_bf16(values)


def f16(name, values):
    yield name, "F16", values.astype("<f2")


def fp8(name, values):
    """Matrices but embeddings as F8_E4M3 with a scale each, all else as BF16."""
    if values.ndim != 2 or "embed" in name:
        yield name, "BF16", to_bf16(values)
        return
    scale = scale_of(numpy.abs(values).max(), 448)
    yield name, "F8_E4M3", to_f8_e4m3(numpy.clip(values / scale, -448, 448))
    yield name + "_scale", "F32", numpy.array([scale], "<f4")


def int8(name, values):
    """Matrices as I8 with a scale for each row, all else as it is."""
    if values.ndim != 2:
        yield name, "F32", values
        return
    scale = scale_of(numpy.abs(values).max(axis=1, keepdims=True), 127)
    yield name, "I8", numpy.clip(numpy.rint(values / scale), -127, 127).astype("i1")
    yield name + "_scale", "F32", scale


def make_copy(convert, in_path, out_path):
    with open(in_path, "rb") as source:
        (header_nbytes,) = struct.unpack("<Q", source.read(8))
        header = json.loads(source.read(header_nbytes))
        data = source.read()
    new_header = {"__metadata__": header.pop("__metadata__", {"format": "pt"})}
    parts = []
    end = 0

    def add(name, dtype, shape, part):
        nonlocal end
        new_header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + len(part)]}
        parts.append(part)
        end += len(part)

    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        first, last = entry["data_offsets"]
        if entry["dtype"] != "F32":
            add(name, entry["dtype"], entry["shape"], data[first:last])
            continue
        values = numpy.frombuffer(data[first:last], dtype="<f4").reshape(entry["shape"])
        for new_name, dtype, array in convert(name, values):
            add(new_name, dtype, array.shape, array.tobytes())
    text = json.dumps(new_header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    replace(out_path, lambda target: target.writelines([struct.pack("<Q", len(text)), text, *parts]))


COPIES = {"bf16": bf16, "f16": f16, "fp8": fp8, "int8": int8}


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("take", *COPIES):
        sys.exit(__doc__)
    if sys.argv[1] == "take":
        take(*sys.argv[2:])
    elif numpy is None:
        sys.exit("model_file.py: copies need numpy")
    else:
        make_copy(COPIES[sys.argv[1]], *sys.argv[2:])


if __name__ == "__main__":
    main()
