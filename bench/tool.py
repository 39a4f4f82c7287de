"""tool.py - lmc-st beside cp, and its memory.

    python3 bench/tool.py speed  BUILD [--gib 2] [-j 2] [--rounds 5]
    python3 bench/tool.py memory BUILD

BUILD is a build folder with -DLMC_BUILD_BENCH=ON. `speed`: a file of normally distributed bf16 in the page cache,
converted, restored and copied by cp in turn, nothing flushed; the fastest of each counts. `memory`: peak resident
memory of convert, verify, restore and get against the bound of lmc_st.h: 128 MiB + 24 MiB a thread + 12 times
the header.
"""

import argparse
import os
import shutil
import struct
import sys
import tempfile

from measured import GIB, MIB, run


def make_model(build, path, nbytes, count, *options):
    run(build, [os.path.join(build, "bench", "lmc-bench-model"), path, str(nbytes), str(count), *options])


def measure_speed(build, folder, arguments):
    tool = os.path.join(build, "safetensors", "lmc-st")
    plain, archive, back = (os.path.join(folder, name) for name in ("m.safetensors", "m.lmc", "back"))
    nbytes = int(arguments.gib * GIB)
    make_model(build, plain, nbytes, max(1, nbytes // (32 * MIB)))
    options = ["-j", str(arguments.threads), "--no-fsync", "-q", "-f", "-o"]
    commands = {"cp": ["cp", plain, back],
                "convert": [tool, "convert", plain, *options, archive],
                "restore": [tool, "restore", archive, *options, back],
                "verify": [tool, "verify", archive, "-j", str(arguments.threads)]}
    best = {}
    for _ in range(arguments.rounds):
        for name, command in commands.items():
            if name in ("cp", "restore") and os.path.exists(back):
                os.unlink(back)
            if name == "convert" and os.path.exists(archive):
                os.unlink(archive)
            seconds, cpu, _ = run(build, command)
            best[name] = min(best.get(name, (seconds, cpu)), (seconds, cpu))
    print(f"{arguments.gib:g} GiB bf16 in the page cache, -j {arguments.threads}, --no-fsync, fastest of "
          f"{arguments.rounds}; archive / file {os.path.getsize(archive) / os.path.getsize(plain):.4f}\n")
    print("| command | seconds | CPU seconds | GiB/s | times cp |\n| --- | --- | --- | --- | --- |")
    for name, (seconds, cpu) in best.items():
        print(f"| {name} | {seconds:.2f} | {cpu:.2f} | {nbytes / GIB / seconds:.2f} | "
              f"{seconds / best['cp'][0]:.2f} |")


def header_nbytes(path):
    with open(path, "rb") as file:
        return struct.unpack("<Q", file.read(8))[0]


def sparse_tensor(path, nbytes):
    text = f'{{"a":{{"dtype":"BF16","shape":[{nbytes // 2}],"data_offsets":[0,{nbytes}]}}}}'.encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + nbytes)


def measure_memory(build, folder):
    tool = os.path.join(build, "safetensors", "lmc-st")
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
            bound = 128 * MIB + threads * 24 * MIB + 12 * header
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "memory"))
    parser.add_argument("build")
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-j", "--threads", type=int, default=2)
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="lmc-bench-")
    try:
        if arguments.what == "speed":
            measure_speed(arguments.build, folder, arguments)
            return 0
        return measure_memory(arguments.build, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
