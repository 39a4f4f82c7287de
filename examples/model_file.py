"""model_file.py - the steps of fetch_model.sh that are no work for a shell.

    python3 model_file.py take FOLDER OUT   the largest model.safetensors in the packages of a folder
    python3 model_file.py bf16 IN OUT       a copy with every F32 tensor rounded to BF16 (needs numpy)
"""

import glob
import json
import os
import shutil
import struct
import sys
import tarfile
import zipfile


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


def to_bf16(raw):
    """Little-endian f32 to bf16, round to nearest, ties to even; a NaN stays a (quiet) NaN."""
    import numpy

    bits = numpy.frombuffer(raw, dtype="<u4")
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # a carry out of the mantissa is the right exponent
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return numpy.where(is_nan, (bits >> 16) | 0x40, rounded).astype("<u2").tobytes()


def bf16(in_path, out_path):
    with open(in_path, "rb") as source:
        (header_nbytes,) = struct.unpack("<Q", source.read(8))
        header = json.loads(source.read(header_nbytes))
        data = source.read()
    new_header = {"__metadata__": header.pop("__metadata__", {"format": "pt"})}
    parts = []
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        first, last = entry["data_offsets"]
        part = data[first:last]
        dtype = entry["dtype"]
        if dtype == "F32":
            part, dtype = to_bf16(part), "BF16"
        new_header[name] = {"dtype": dtype, "shape": entry["shape"], "data_offsets": [end, end + len(part)]}
        parts.append(part)
        end += len(part)
    text = json.dumps(new_header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    replace(out_path, lambda target: target.writelines([struct.pack("<Q", len(text)), text, *parts]))


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("take", "bf16"):
        sys.exit(__doc__)
    {"take": take, "bf16": bf16}[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
