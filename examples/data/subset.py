"""subset.py - copies some tensors of a safetensors file to a new one, in their order, with its metadata.

    python3 subset.py IN.safetensors OUT.safetensors NAME-PREFIX...

Made the small f32 file of this folder (README.md). Needs nothing but Python.
"""

import json
import struct
import sys


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    source_name, target_name, *prefixes = sys.argv[1:]
    with open(source_name, "rb") as source, open(target_name, "wb") as target:
        (header_nbytes,) = struct.unpack("<Q", source.read(8))
        header = json.loads(source.read(header_nbytes))
        wanted = {}
        ranges = []
        end = 0
        for name, entry in sorted(header.items(), key=lambda item: item[1].get("data_offsets", [0])[0]):
            if name == "__metadata__":
                wanted[name] = entry
            elif name.startswith(tuple(prefixes)):
                first, last = entry["data_offsets"]
                ranges.append((first, last))
                wanted[name] = dict(entry, data_offsets=[end, end + last - first])
                end += last - first
        text = json.dumps(wanted, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        target.write(struct.pack("<Q", len(text)) + text)
        for first, last in ranges:
            source.seek(8 + header_nbytes + first)
            target.write(source.read(last - first))
    print(f"{target_name}: {len(ranges)} tensors, {end} bytes")


if __name__ == "__main__":
    main()
