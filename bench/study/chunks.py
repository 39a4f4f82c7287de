"""chunks.py - from which size on level max pays: ratios of frames of one chunk, as the HDF5 filter and Zarr store them.

    python3 bench/study/chunks.py FILE.safetensors... [--json FILE]

The matrices of all files are cut into chunks of whole rows, each of which becomes a frame. The ratio is that of all
frames to all chunks. Needs the Python package lmcodec.
"""

import os
import sys

import lmcodec

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import common  # noqa: E402

CHUNK_NBYTES = [size * common.KIB for size in (16, 32, 64, 128, 256, 512, 1024)]
LEVELS = ("default", "max")


def chunks_of(path, chunk_nbytes):
    """(dtype, row_nbytes, bytes) of each chunk of the matrices in a file; the last one of a matrix is left out."""
    for _, dtype, shape, content in common.read_tensors(path):
        if len(shape) != 2 or len(content) < chunk_nbytes:
            continue
        row_nbytes = len(content) // shape[0]
        nbytes = max(1, chunk_nbytes // row_nbytes) * row_nbytes
        for first in range(0, len(content) - nbytes + 1, nbytes):
            yield dtype, row_nbytes, content[first:first + nbytes]


def main():
    parser = common.command_line(__doc__, 1)
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    rows = []
    print("chunk      default     max")
    for chunk_nbytes in CHUNK_NBYTES:
        content = dict.fromkeys(LEVELS, 0)
        stored = dict.fromkeys(LEVELS, 0)
        for path in arguments.files:
            for dtype, row_nbytes, chunk in chunks_of(path, chunk_nbytes):
                for level in LEVELS:
                    frame = lmcodec.encode(chunk, dtype=dtype, level=level, row_nbytes=row_nbytes)
                    content[level] += len(chunk)
                    stored[level] += len(frame)
        ratios = {level: stored[level] / content[level] for level in LEVELS if content[level]}
        rows.append({"chunk_nbytes": chunk_nbytes, **ratios})
        if ratios:
            print(f"{common.size_text(chunk_nbytes):9}  {ratios['default']:.4f}   {ratios['max']:.4f}")
    common.write_report(arguments.json, {**common.circumstances(), "rows": rows})


if __name__ == "__main__":
    main()
