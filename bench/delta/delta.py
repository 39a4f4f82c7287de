"""delta.py - snapshots stored against an earlier one: LMC beside other methods. Ratio and GiB/s.

    python3 bench/delta/delta.py BUILD [--mib 64] [--rounds 5] [--clock wall|cpu] [--json OUT.json] [BASE NEW]...

BUILD is a build folder with -DLMC_BUILD_BENCH=ON. Without files: the pair of examples/data, whose tensors are
small, and a large synthetic tensor of bf16 and f32, of which few, some or all values have changed.

All is measured in memory, on one thread: the tensors of NEW, given the tensors of BASE with the same names. LMC makes
a frame of each tensor, with every kernel set of the CPU; it makes and verifies checksums and base hashes. The other
methods take all tensors of a dtype as one stream, which gives them their best ratio. They store no names or sizes.

  ranges         decode reads 256 KiB at a time by lmc_decode_range(), which decodes each block that it touches
  XOR groups     XOR with the base, bytes of equal significance together, then a coder. RLE + Huffman is the scheme of
                 arXiv 2505.09810, as far as the paper tells it (bench/codec/huffman.c)
  index + value  an int32 and the new value for each value that has changed
  gap            a u16 instead of the index, the new value or its XOR with the old one, zstd over all

Memory holds copies of all tensors, --mib MiB together, so that the caches do not decide. A round codes all of them and
compares the decoded bytes. The fastest round counts; bzip2 -9 and zstd -19 have one round and one copy. memcpy copies
as many MiB in one call in each round; its figure is the median of the methods' best ones. `--clock cpu` counts the
time that the process had a core, for a machine with other work.

ratio is stored bytes / bytes of the tensors. archive is bytes of `lmc-st convert NEW --base BASE` / bytes of NEW; the
archive is restored and compared. archive, renamed: the same with a part before all names of NEW, as wrappers add one;
NEW must be a safetensors file.
"""
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import archive_nbytes, command_line, machine_name, write_report  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "examples", "data")
SYNTHETIC = (("bf16", "0.0001"), ("bf16", "0.003"), ("bf16", "0.03"), ("f32", "0.003"), ("f32", "0.9999"))
PARTS = ("module.", "trainer.net.")
KERNELS = ("scalar", "neon", "avx2-nopext", "avx2", "avx512")


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


def write_renamed(path, part, out):
    """A copy of a safetensors file with `part` before the names of all tensors."""
    with open(path, "rb") as file:
        header = json.loads(file.read(*struct.unpack("<Q", file.read(8))))
        content = file.read()
    text = json.dumps({name if name == "__metadata__" else part + name: entry for name, entry in header.items()})
    with open(out, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text.encode() + content)


def renamed_nbytes(tool, base, new, part):
    with tempfile.TemporaryDirectory() as folder:
        renamed = os.path.join(folder, "renamed.safetensors")
        write_renamed(new, part, renamed)
        return archive_nbytes(tool, renamed, base=base)


def show(pair):
    print(f"\n{pair['pair']}: {pair['nbytes']} bytes in {pair['tensors']} tensors, {pair['changed']:.2%} of the values "
          f"changed" + (f", {pair['without_base']} tensors without a base" if pair["without_base"] else ""))
    print(f"memcpy {pair['memcpy_GiB_s']:.2f} GiB/s")
    if "file_nbytes" in pair:
        print(f"archive / file {pair['archive']:.5f}" + "".join(
            f", with {part} before all names {ratio:.5f}" for part, ratio in pair["renamed"].items()))
    print(f"{'method':26} {'kernels':11} {'ratio':>8} {'encode':>8} {'decode':>8} {'enc/mc':>7} {'dec/mc':>7}")
    for row in pair["rows"]:
        encode, decode, copy = row["encode_GiB_s"], row["decode_GiB_s"], pair["memcpy_GiB_s"]
        print(f"{row['method']:26} {row['kernels']:11} {row['ratio']:8.5f} {encode:8.4f} {decode:8.4f} "
              f"{encode / copy:7.4f} {decode / copy:7.4f}")
    sys.stdout.flush()


def main():
    parser = command_line(__doc__, 5, "build")
    parser.add_argument("files", nargs="*", metavar="BASE NEW")
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    arguments = parser.parse_intermixed_args()  # the folder, options, files
    if len(arguments.files) % 2:
        parser.error("files come in pairs: BASE NEW")
    files = arguments.files or [os.path.join(EXAMPLES, f"step0{step}.bf16.safetensors") for step in (3000, 3010)]
    sources = [files[i:i + 2] for i in range(0, len(files), 2)]
    if not arguments.files:
        sources += [["--synthetic", dtype, "--changed", share] for dtype, share in SYNTHETIC]
    program = os.path.join(arguments.build, "bench", "lmc-bench-delta")
    tool = os.path.join(arguments.build, "tool", "lmc-st")
    print(f"machine: {machine_name()}\none thread, speeds in GiB/s by the {arguments.clock} clock, fastest of "
          f"{arguments.rounds}, through {arguments.mib} MiB")
    report = {"machine": machine_name(), "clock": arguments.clock, "rounds": arguments.rounds, "mib": arguments.mib,
              "pairs": []}
    for source in sources:
        pair = measure_methods(program, arguments, source)
        if source[0] != "--synthetic":
            pair.update(files=[os.path.basename(path) for path in source], file_nbytes=os.path.getsize(source[1]))
            pair["archive"] = archive_nbytes(tool, source[1], base=source[0]) / pair["file_nbytes"]
            pair["renamed"] = {part: renamed_nbytes(tool, *source, part) / pair["file_nbytes"] for part in PARTS
                               if source[1].endswith(".safetensors")}
        show(pair)
        report["pairs"].append(pair)
    write_report(arguments.json, report)


if __name__ == "__main__":
    main()
