"""common.py - what the Python programs of bench/ share: command lines, reports, a command and what it took, models,
sizes of Huffman codes."""

import argparse
import heapq
import json
import os
import struct
import subprocess
import tempfile
import time

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


# ---- command lines and reports -------------------------------------------------------------------

def command_line(text, rounds, *operands):
    """A parser with --rounds (the fastest counts), --json and these operands; `build` is the folder of a build."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in operands:
        parser.add_argument(name, type=os.path.abspath if name == "build" else None)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--json", metavar="FILE")
    return parser


def circumstances(build=None):
    """Where and when: the head of every report, with the version of the build."""
    head = {"machine": machine_name(), "core_count": len(os.sched_getaffinity(0)), "date": time.strftime("%Y-%m-%d")}
    if build:
        told = subprocess.run([os.path.join(build, "tool", "lmc-st"), "--version"], stdout=subprocess.PIPE, check=True,
                              text=True).stdout
        head["lmc_version"] = told.split()[-1]
    return head


def write_report(path, report):
    """Writes the file of --json, if one is wanted; its folder is made."""
    if path:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
            file.write("\n")


def machine_name():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "unknown CPU"


def size_text(nbytes):
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if nbytes >= unit:
            return f"{nbytes / unit:g} {name}"
    return f"{nbytes} B"


# ---- commands ------------------------------------------------------------------------------------

def run(build, command):
    """Returns seconds, CPU seconds and peak resident bytes of one command; ends the program if it fails."""
    with tempfile.NamedTemporaryFile("r", encoding="ascii") as result:
        runner = os.path.join(build, "bench", "lmc-bench-run")
        status = subprocess.run([runner, result.name, *command], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, check=False).returncode
        if status != 0:
            raise SystemExit(f"exit status {status}: {' '.join(command)}")
        seconds, cpu, peak = result.read().split()
    return float(seconds), float(cpu), int(peak)


def fastest(build, commands, rounds, before=lambda name: None):
    """name -> least seconds, least CPU seconds, highest peak of all rounds. commands: name -> a command, or a function
    that returns these three; before(name) precedes each."""
    best = {}
    for _ in range(rounds):
        for name, command in commands.items():
            before(name)
            seconds, cpu, peak = command() if callable(command) else run(build, command)
            old = best.get(name, (seconds, cpu, peak))
            best[name] = min(seconds, old[0]), min(cpu, old[1]), max(peak, old[2])
    return best


def remove(*paths):
    """Removes those of the files that are there; None: none."""
    for path in paths:
        if path and os.path.exists(path):
            os.unlink(path)


def nbytes_of(path):
    """Bytes of a file, or of all files of a folder."""
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(path) for name in names)


def check_same(path, restored):
    """Ends the program if files or folders differ."""
    if subprocess.run(["diff", "-r", path, restored], stdout=subprocess.DEVNULL, check=False).returncode != 0:
        raise SystemExit(f"{path}: what was restored differs")


def archive_nbytes(tool, path, *options, base=None):
    """Bytes of what lmc-st makes of a file or folder, which was restored and compared."""
    based = ["--base", base] if base else []
    with tempfile.TemporaryDirectory(prefix="lmc-bench-") as folder:
        archive, back = os.path.join(folder, "archive"), os.path.join(folder, "back")
        subprocess.run([tool, "convert", path, "-o", archive, "-q", *based, *options], check=True)
        subprocess.run([tool, "restore", archive, "-o", back, "-q", *based], check=True)
        check_same(path, back)
        return nbytes_of(archive)


# ---- models --------------------------------------------------------------------------------------

def make_model(build, path, nbytes, count, *options):
    """Writes a safetensors file of `count` tensors of bf16, `nbytes` together; options: "zeros"."""
    run(build, [os.path.join(build, "bench", "lmc-bench-model"), path, str(nbytes), str(count), *options])


def read_tensors(path):
    """Yields name, dtype, shape, content of a safetensors file, in the order of the data."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__", None)
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        yield name, entry["dtype"], entry["shape"], data[begin:end]


def write_tensors(path, tensors):
    """Writes a safetensors file: name -> (dtype, shape, content). The data begin at a multiple of 8."""
    header, at = {}, 0
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(content)]}
        at += len(content)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, content in tensors.values():
            file.write(content)


def rotated(shape, content, count):
    """The content with `count` rows moved from its start to its end."""
    rows = shape[0] if shape else 1
    cut = count % rows * (len(content) // rows) if rows else 0
    return content[cut:] + content[:cut]


# ---- sizes ---------------------------------------------------------------------------------------

def huffman_nbits(counts):
    """Bits of all code words of a Huffman code of symbols with these counts: the sum of all inner nodes. 0 for a single
    symbol."""
    heap = [int(count) for count in counts if count]
    heapq.heapify(heap)
    total = 0
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        total += both
        heapq.heappush(heap, both)
    return total
