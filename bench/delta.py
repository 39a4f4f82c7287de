#!/usr/bin/env python3
"""delta.py - snapshots stored against an earlier one: LMC, and what stands for other tools. Ratio and GiB/s.

    delta.py BUILD [--mib 64] [--rounds 5] [--clock wall|cpu] [--json OUT.json] [BASE NEW]...

BUILD is a build folder with -DLMC_BUILD_BENCH=ON. Without files: the pair of examples/data and two synthetic ones.

What is measured, in memory and on one thread: the tensors of NEW, given those of BASE by the same names. LMC: a frame
for each tensor, checksums and base hashes made and verified, with every kernel set of the processor. Others: all
tensors of a dtype as one stream, which is best for them, and nothing is counted for names or sizes.

  XOR groups     XOR with the base, bytes of equal significance together, then a coder. RLE + Huffman is the scheme of
                 arXiv 2505.09810 as far as it is known (delta_huffman.c): runs of zeros, a code for each 64 KiB
  index + value  an int32 and the new value for each value that has changed
  gap            a u16 in the place of the index, the new value or its XOR with the old one, zstd over all

A pass goes through all tensors, and they stand in memory so often that a pass is through --mib MiB, at addresses of
their own: neither small tensors nor the caches decide. What is decoded is compared. The fastest round of each counts;
bzip2 -9 and zstd -19 have one round and one copy. memcpy copies the same MiB in one call, once in each round; it
counts with the median of what the methods' fastest rounds gave. `--clock cpu` counts the time that the process had a
core, for a machine that has other work to do.

ratio is bytes stored / bytes of the tensors. `archive`: bytes of `lmc-st convert NEW --base BASE`, if the command has
that option, restored and compared, / bytes of the file. Lines with `target` say for some pairs whether what is wanted
of them was reached.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(os.path.dirname(HERE), "examples", "data")
KERNELS = ("scalar", "avx2", "avx512")

# Largest archive / file, for pairs of the training run that examples/data comes from; None: speed matters alone.
ARCHIVE_TARGETS = {
    ("step03000.bf16", "step03001.bf16"): 0.0715,
    ("step03000.bf16", "step03010.bf16"): 0.2000,
    ("step03000.bf16", "step03100.bf16"): 0.3310,
    ("step02000.bf16", "step03000.bf16"): 0.5150,
    ("step03100.bf16", "ft00001.bf16"): 0.0190,
    ("step03000.f32", "step03010.f32"): 0.6000,
    ("step03000.optim", "step03010.optim"): None,
}
SPEED_TARGETS = {("step03000.bf16", "step03010.bf16"): 0.15}  # times memcpy with AVX-512, both ways
SPEED_TARGET = 0.1
SCALAR_DECODE_TARGET = 0.3  # GiB/s


def machine():
    """One line for the head of a table."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores, {platform.platform(terse=True)}"


def measure(program, arguments, source, only):
    """Runs lmc-bench-delta; returns what it says of the pair, and the rows of the methods."""
    done = subprocess.run([program, "--mib", str(arguments.mib), "--rounds", str(arguments.rounds), "--clock",
                           arguments.clock, "--only", only, *source], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"delta.py: {' '.join(source)}: failed")
    pair, *rows = [json.loads(line) for line in done.stdout.splitlines()]
    return pair, rows


def measure_methods(program, arguments, source):
    rows = []
    for only in (*KERNELS, "peers"):
        pair, found = measure(program, arguments, source, only)
        rows += found
    memcpy = statistics.median(row["memcpy_GiB_s"] for row in rows)
    return dict(pair, memcpy_GiB_s=memcpy, rows=rows)


def knows_bases(tool):
    return "--base" in subprocess.run([tool, "help", "convert"], stdout=subprocess.PIPE, text=True, check=True).stdout


def archive_nbytes(tool, base, new):
    """Bytes of an archive that restores to the same bytes."""
    with tempfile.TemporaryDirectory() as folder:
        archive, back = os.path.join(folder, "new.lmc"), os.path.join(folder, "back")
        subprocess.run([tool, "convert", new, "--base", base, "-o", archive, "-q"], check=True)
        subprocess.run([tool, "restore", archive, "--base", base, "-o", back, "-q"], check=True)
        with open(new, "rb") as original, open(back, "rb") as restored:
            if original.read() != restored.read():
                sys.exit(f"delta.py: {new}: the restored file differs")
        return os.path.getsize(archive)


def frames(pair, kernels=None):
    """The row of LMC's default level, with a kernel set or the best one; None if there is none."""
    rows = [row for row in pair["rows"] if row["method"] == "lmc default" and kernels in (None, row["kernels"])]
    return rows[-1] if rows else None


def targets(pair):
    """(what is wanted, what was found, whether that will do) for pairs that are known by name."""
    if "files" not in pair:
        return
    key = tuple(name[:-len(".safetensors")] for name in pair["files"] if name.endswith(".safetensors"))
    if key not in ARCHIVE_TARGETS:
        return
    if "archive" in pair and ARCHIVE_TARGETS[key]:
        yield f"archive / file <= {ARCHIVE_TARGETS[key]:.4f}", pair["archive"], pair["archive"] <= ARCHIVE_TARGETS[key]
    row = frames(pair, "avx512")
    if row:
        wanted = SPEED_TARGETS.get(key, SPEED_TARGET)
        for what in ("encode", "decode"):
            found = row[what + "_GiB_s"] / pair["memcpy_GiB_s"]
            yield f"{what} / memcpy, AVX-512 >= {wanted}", found, found >= wanted
    found = frames(pair, "scalar")["decode_GiB_s"]
    yield f"portable decode >= {SCALAR_DECODE_TARGET} GiB/s", found, found >= SCALAR_DECODE_TARGET


def show(pair):
    print(f"\n{pair['pair']}: {pair['nbytes']} bytes in {pair['tensors']} tensors, {pair['changed']:.2%} of the values "
          f"changed" + (f", {pair['without_base']} tensors without a base" if pair["without_base"] else ""))
    print(f"memcpy {pair['memcpy_GiB_s']:.2f} GiB/s")
    if "file_nbytes" in pair:
        archive = f"archive / file {pair['archive']:.5f}, " if "archive" in pair else ""
        print(f"{archive}frames alone {frames(pair)['ratio']:.5f}")
    print(f"{'method':26} {'kernels':7} {'ratio':>8} {'encode':>8} {'decode':>8} {'enc/mc':>7} {'dec/mc':>7}")
    for row in pair["rows"]:
        encode, decode, copy = row["encode_GiB_s"], row["decode_GiB_s"], pair["memcpy_GiB_s"]
        print(f"{row['method']:26} {row['kernels']:7} {row['ratio']:8.5f} {encode:8.4f} {decode:8.4f} "
              f"{encode / copy:7.4f} {decode / copy:7.4f}")
    for target in pair.get("targets", []):
        print(f"target {target['wanted']}: {target['found']:.4f} {'yes' if target['reached'] else 'no'}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("files", nargs="*", metavar="BASE NEW")
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--json", metavar="OUT.json")
    arguments = parser.parse_intermixed_args()  # the folder, options, files
    if len(arguments.files) % 2:
        parser.error("files come in pairs: BASE NEW")
    files = arguments.files or [os.path.join(EXAMPLES, f"step0{step}.bf16.safetensors") for step in (3000, 3010)]
    sources = [files[i:i + 2] for i in range(0, len(files), 2)]
    if not arguments.files:
        sources += [["--synthetic", "bf16"], ["--synthetic", "f32"]]
    program = os.path.join(arguments.build, "bench", "lmc-bench-delta")
    tool = os.path.join(arguments.build, "tool", "lmc-st")
    with_archives = knows_bases(tool)
    print(f"machine: {machine()}\none thread, speeds in GiB/s by the {arguments.clock} clock, fastest of "
          f"{arguments.rounds}, through {arguments.mib} MiB")
    report = {"machine": machine(), "clock": arguments.clock, "rounds": arguments.rounds, "mib": arguments.mib,
              "pairs": []}
    for source in sources:
        pair = measure_methods(program, arguments, source)
        if source[0] != "--synthetic":
            pair.update(files=[os.path.basename(path) for path in source], file_nbytes=os.path.getsize(source[1]))
            if with_archives:
                pair["archive"] = archive_nbytes(tool, *source) / pair["file_nbytes"]
        pair["targets"] = [{"wanted": wanted, "found": found, "reached": reached}
                           for wanted, found, reached in targets(pair)]
        show(pair)
        report["pairs"].append(pair)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump(report, out, indent=1)
            out.write("\n")


if __name__ == "__main__":
    main()
