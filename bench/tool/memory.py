"""memory.py - peak memory of lmc-st against the bound that docs/library.md gives.

    python3 bench/tool/memory.py BUILD

BUILD is a build folder with -DLMC_BUILD_BENCH=ON. Files go to $TMPDIR. Convert, verify, restore and get run with 1, 2
and 8 threads; the peak resident memory of each stands beside 128 MiB + 24 MiB a thread + 8 times the header. Exit
status 1 if one breaks the bound.
"""

import os
import struct
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import GIB, MIB, make_model, run  # noqa: E402


def header_nbytes(path):
    with open(path, "rb") as file:
        return struct.unpack("<Q", file.read(8))[0]


def sparse_tensor(path, nbytes):
    text = f'{{"a":{{"dtype":"BF16","shape":[{nbytes // 2}],"data_offsets":[0,{nbytes}]}}}}'.encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + nbytes)


def measure(build, folder):
    tool = os.path.join(build, "tool", "lmc-st")
    files = {"one tensor of 4 GiB (sparse)": lambda path: sparse_tensor(path, 4 * GIB),
             "one tensor of 1 GiB": lambda path: make_model(build, path, GIB, 1),
             "100,000 tensors of 1 KiB": lambda path: make_model(build, path, 100000 * 1024, 100000),
             "100,000 equal tensors": lambda path: make_model(build, path, 100000 * 1024, 100000, "zeros")}
    print("| file | header | command | threads | peak MiB | bound MiB | seconds | CPU seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    worst = 0
    for label, make in files.items():
        plain, archive, back = (os.path.join(folder, name) for name in ("m.safetensors", "m.lmc", "back"))
        make(plain)
        header = header_nbytes(plain)
        name = "a" if "sparse" in label else "model.layers.000000.weight"
        for threads in (1, 2, 8):
            j = ["-j", str(threads)]
            bound = 128 * MIB + threads * 24 * MIB + 8 * header
            for command in (["convert", plain, "-f", "-q", "--no-fsync", "-o", archive, *j],
                            ["verify", archive, "-q", *j],
                            ["restore", archive, "-f", "-q", "--no-fsync", "-o", back, *j],
                            ["get", archive, name, "--range", "0:1024"]):
                if command[0] == "get" and threads > 1:
                    continue
                seconds, cpu, peak = run(build, [tool, *command])
                worst = max(worst, peak / bound)
                print(f"| {label} | {header} | {command[0]} | {threads} | {peak / MIB:.1f} | {bound / MIB:.0f} | "
                      f"{seconds:.2f} | {cpu:.2f} |", flush=True)
            if os.path.exists(back):
                os.unlink(back)
    print(f"\nhighest share of the bound: {worst:.2f}")
    return 0 if worst <= 1 else 1


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="lmc-bench-") as folder:
        return measure(sys.argv[1], folder)


if __name__ == "__main__":
    sys.exit(main())
