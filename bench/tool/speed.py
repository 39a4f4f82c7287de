"""speed.py - lmc-st beside cp, with one thread and with several.

    python3 bench/tool/speed.py BUILD [--gib 2] [-j 2] [--rounds 5] [--json FILE] [--files NAME,...]

BUILD is a build folder with -DLMC_BUILD_BENCH=ON. Files go to $TMPDIR: normally distributed bf16 in the page cache
("large": tensors of 32 MiB, "small": 10,000 of 64 KiB, "tiny": 100,000 of 2 KiB). A round converts, restores and
verifies each with -j 1 and with -j N, and copies it with cp; nothing is flushed. The fastest of each counts.

"scaling" is the time with -j 1 / the time with -j N. "2 x cp" copies two halves of the file at once: it tells how much
the page cache gains from two cores. Other work on the machine lowers the scaling. The CPU seconds of -j 1 and -j N
should be about equal.
"""

import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import GIB, MIB, command_line, fastest, make_model, remove, write_report  # noqa: E402


def model_shapes(gib):
    """Name -> bytes, number of tensors."""
    large = int(gib * GIB)
    return {"large": (large, max(1, large // (32 * MIB))),
            "small": (10000 * 65536, 10000),
            "tiny": (100000 * 2048, 100000)}


def copy_halves(plain, back):
    """Seconds that two processes take for a half each; nothing else is measured."""
    half = os.path.getsize(plain) // 2 // MIB
    started = time.monotonic()
    parts = [subprocess.Popen(["dd", f"if={plain}", f"of={back}.{i}", "bs=1M", "status=none",
                               f"skip={i * half}", f"count={half}"]) for i in range(2)]
    if any(part.wait() for part in parts):
        raise SystemExit("dd failed")
    return time.monotonic() - started, 0.0, 0


def measure_file(build, folder, nbytes, count, threads, rounds):
    tool = os.path.join(build, "tool", "lmc-st")
    plain, archive, back = (os.path.join(folder, name) for name in ("m.safetensors", "m.lmc", "back"))
    halves = [back + ".0", back + ".1"]
    make_model(build, plain, nbytes, count)
    commands = {"cp": ["cp", plain, back], "dd": ["dd", f"if={plain}", f"of={back}", "bs=1M", "status=none"],
                "2dd": lambda: copy_halves(plain, back)}
    for j in (1, threads):
        options = ["-j", str(j), "--no-fsync", "-q", "-f", "-o"]
        commands[f"convert {j}"] = [tool, "convert", plain, *options, archive]
        commands[f"restore {j}"] = [tool, "restore", archive, *options, back]
        commands[f"verify {j}"] = [tool, "verify", archive, "-q", "-j", str(j)]
    outputs = {"cp": [back], "dd": [back], "2dd": halves, "convert": [archive], "restore": [back]}
    best = fastest(build, commands, rounds, lambda name: remove(*outputs.get(name.split()[0], [])))
    size = os.path.getsize(plain)
    result = {"file_nbytes": size, "tensors": count, "archive_nbytes": os.path.getsize(archive),
              "cp_seconds": best["cp"][0], "halves_scaling": best["dd"][0] / best["2dd"][0], "commands": {}}
    for name in ("convert", "restore", "verify"):
        one, many = best[f"{name} 1"], best[f"{name} {threads}"]
        result["commands"][name] = {
            "seconds_1": one[0], "cpu_seconds_1": one[1], "seconds_n": many[0], "cpu_seconds_n": many[1],
            "gib_per_second_n": size / GIB / many[0], "times_cp_1": one[0] / best["cp"][0],
            "times_cp_n": many[0] / best["cp"][0], "scaling": one[0] / many[0]}
    remove(plain, archive, back, *halves)
    return result


def measure_speed(build, folder, arguments):
    n = arguments.threads
    results = {"threads": n, "rounds": arguments.rounds, "files": {}}
    print(f"normally distributed bf16 in the page cache, --no-fsync, fastest of {arguments.rounds}\n")
    print(f"| file | command | s -j 1 | s -j {n} | scaling | CPU s -j 1 | CPU s -j {n} | GiB/s -j {n} | "
          f"times cp -j 1 | times cp -j {n} |\n|" + " --- |" * 10)
    for label, (nbytes, count) in model_shapes(arguments.gib).items():
        if label not in arguments.files.split(","):
            continue
        result = measure_file(build, folder, nbytes, count, n, arguments.rounds)
        results["files"][label] = result
        for name, row in result["commands"].items():
            print(f"| {label} | {name} | {row['seconds_1']:.3f} | {row['seconds_n']:.3f} | {row['scaling']:.2f} | "
                  f"{row['cpu_seconds_1']:.2f} | {row['cpu_seconds_n']:.2f} | {row['gib_per_second_n']:.2f} | "
                  f"{row['times_cp_1']:.2f} | {row['times_cp_n']:.2f} |", flush=True)
        print(f"| {label} | 2 x cp | | | {result['halves_scaling']:.2f} | | | | | |", flush=True)
    write_report(arguments.json, results)


def main():
    parser = command_line(__doc__, 5, "build")
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("-j", "--threads", type=int, default=2)
    parser.add_argument("--files", default="large,small,tiny")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lmc-bench-") as folder:
        measure_speed(arguments.build, folder, arguments)


if __name__ == "__main__":
    main()
