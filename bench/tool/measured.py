"""measured.py - what the Python programs of bench/tool/ share: a command and what it took, names, sizes, a model."""

import os
import subprocess
import tempfile

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


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


def make_model(build, path, nbytes, count, *options):
    """Writes a safetensors file of `count` tensors of bf16, `nbytes` together; options: "zeros"."""
    run(build, [os.path.join(build, "bench", "lmc-bench-model"), path, str(nbytes), str(count), *options])


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
