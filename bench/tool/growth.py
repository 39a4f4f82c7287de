"""growth.py - how time and memory of lmc-st grow with the size of a tensor, and with the number of tensors.

    python3 bench/tool/growth.py BUILD FOLDER [--json FILE] [--rounds 5] [-j 2] [--gib-max 4] [--count-max 100000]

BUILD is a build folder with -DLMC_BUILD_BENCH=ON. Files of normally distributed bf16 are made in FOLDER and removed
again: one tensor of 1 MiB, 4 MiB .. 4 GiB; then 1, 10 .. 100,000 tensors of 4 KiB. Each is copied by cp, converted,
restored, and read from the archive: one tensor whole (`get`), and 64 KiB of it (`get --range`; files of one tensor).
The page cache is warm, nothing is flushed; time is the fastest of several rounds, memory (peak resident set) the
highest. Large files get 3 rounds. What does not fit the disk is left out with a word.
"""

import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import (GIB, KIB, MIB, check_same, circumstances, command_line, fastest, make_model,  # noqa: E402
                    remove, size_text, write_report)

SIZES = [MIB << 2 * k for k in range(7)]
COUNTS = [10 ** k for k in range(6)]
SMALL_NBYTES = 4 * KIB
RANGE_NBYTES = 64 * KIB
NAME = "model.layers.{:06d}.weight"
HEADER = f"{'':>16} {'command':>9} {'ms':>10} {'CPU ms':>10} {'peak MiB':>9} {'GiB/s':>8}"


class Measurement:
    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.plain, self.archive, self.back = (os.path.join(folder, name)
                                               for name in ("m.safetensors", "m.lmc", "back.safetensors"))
        self.tool = os.path.join(arguments.build, "tool", "lmc-st")
        self.rows = []

    def commands(self, what, tensor_nbytes, count):
        options = ["-j", str(self.arguments.threads), "--no-fsync", "-q", "-f", "-o"]
        name = NAME.format(count // 2)
        yield "cp", self.back, ["cp", self.plain, self.back]
        yield "convert", self.archive, [self.tool, "convert", self.plain, *options, self.archive]
        yield "restore", self.back, [self.tool, "restore", self.archive, *options, self.back]
        yield "get", None, [self.tool, "get", self.archive, name]
        if what == "size":
            begin = (tensor_nbytes - RANGE_NBYTES) // 2
            yield "get range", None, [self.tool, "get", self.archive, name, "--range",
                                      f"{begin}:{begin + RANGE_NBYTES}"]

    def rounds(self, nbytes):
        return min(self.arguments.rounds, 3) if nbytes >= GIB else self.arguments.rounds

    def measure(self, what, tensor_nbytes, count):
        nbytes = tensor_nbytes * count
        build = self.arguments.build
        make_model(build, self.plain, nbytes, count)
        commands, outputs = {}, {}
        for name, outputs[name], commands[name] in self.commands(what, tensor_nbytes, count):
            pass
        best = fastest(build, commands, self.rounds(nbytes), lambda name: remove(outputs[name]))
        check_same(self.plain, self.back)
        for name, (seconds, cpu, peak) in best.items():
            self.rows.append({"what": what, "tensor_nbytes": tensor_nbytes, "tensor_count": count, "command": name,
                              "file_nbytes": os.path.getsize(self.plain),
                              "archive_nbytes": os.path.getsize(self.archive), "seconds": seconds,
                              "cpu_seconds": cpu, "peak_nbytes": peak})
            self.show(self.rows[-1])
        remove(self.plain, self.archive, self.back)

    @staticmethod
    def show(row):
        label = size_text(row["tensor_nbytes"]) if row["what"] == "size" else f"{row['tensor_count']:,} x 4 KiB"
        moved = {"get range": RANGE_NBYTES, "get": row["tensor_nbytes"]}.get(row["command"], row["file_nbytes"])
        print(f"{label:>16} {row['command']:>9} {row['seconds'] * 1e3:>10.2f} {row['cpu_seconds'] * 1e3:>10.2f} "
              f"{row['peak_nbytes'] / MIB:>9.1f} {moved / GIB / row['seconds']:>8.3f}", flush=True)

    def series(self, title, what, points):
        print(f"\n{title}\n{HEADER}")
        for tensor_nbytes, count in points:
            needed = 3 * tensor_nbytes * count + GIB  # plain, archive, copy, and something left for others
            free = shutil.disk_usage(os.path.dirname(self.plain)).free
            if free < needed:
                print(f"SKIP {count:,} x {size_text(tensor_nbytes)}: {size_text(needed)} of disk needed, "
                      f"{size_text(free)} free")
                continue
            self.measure(what, tensor_nbytes, count)


def main():
    parser = command_line(__doc__, 5, "build", "folder")
    parser.add_argument("-j", "--threads", type=int, default=2)
    parser.add_argument("--gib-max", type=float, default=4)
    parser.add_argument("--count-max", type=int, default=100000)
    arguments = parser.parse_args()
    os.makedirs(arguments.folder, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="growth-", dir=arguments.folder)
    try:
        measurement = Measurement(arguments, folder)
        head = circumstances(arguments.build)
        print(f"machine: {head['machine']}, {head['core_count']} cores; -j {arguments.threads}, --no-fsync, page cache "
              f"warm, fastest of {arguments.rounds}")
        measurement.series("One tensor", "size", [(n, 1) for n in SIZES if n <= arguments.gib_max * GIB])
        measurement.series(f"Tensors of {size_text(SMALL_NBYTES)}", "count",
                           [(SMALL_NBYTES, n) for n in COUNTS if n <= arguments.count_max])
        write_report(arguments.json, {**head, "thread_count": arguments.threads, "round_count": arguments.rounds,
                                      "range_nbytes": RANGE_NBYTES, "rows": measurement.rows})
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
