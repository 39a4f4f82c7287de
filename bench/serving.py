#!/usr/bin/env python3
"""serving.py - how long a model takes to load from a disk of a given speed: packed, beside plain safetensors files.

    python3 bench/serving.py [--gb-per-s N] [--mib N] [--model DIR] [--threads N] [--rounds N] [--json FILE]

Both ways fill the parameters of a model in memory, as servers do. Plain files are read as vLLM's default loader reads
them: safe_open() of safetensors for each file, get_tensor() for each tensor. The packed directory is read by
lmcodec.vllm.weights(), which the load format lmc uses. All bytes are compared.

The disk is a clock: the files are in the page cache, but a tensor is not touched before a disk of this speed, which
reads ahead in the order of the file without a pause, has its last stored byte. 0: no disk, that is the cache alone.

--busy: other programs are at work, so seconds are computed. The CPU time of a load from the cache is shared by the
tensors by their bytes; a plain file takes one core, a packed one the threads that decode. A tensor begins when the one
before it is done and the disk has its bytes.

DIR is a directory with model.safetensors, or with shards and their index. By default the model is made of the real
weights in examples/data (bf16, a small language model): each matrix is repeated with rotated rows, which keeps its
statistics, until all have --mib together. A round measures both ways in turn; the fastest of the rounds counts. Needs
torch and safetensors, and LMCODEC_LIBRARY_DIR unless lmcodec is installed.
"""

import contextlib
import glob
import os
import resource
import sys
import tempfile
import time

from common import MIB, circumstances, command_line, read_tensors, rotated, write_report, write_tensors

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(ROOT, "bench", "tool")]
from throttled import GB  # noqa: E402

SAMPLE = os.path.join(ROOT, "examples", "data", "step03000.bf16.safetensors")
SPEEDS = (0.5, 1, 3, 0)  # GB/s


# ---- the disk ----

class Disk:
    """Sleeps until a disk that began to read at the start would have read so far."""

    def __init__(self, gb_per_s):
        self.bytes_per_s = gb_per_s * GB
        self.begins, self.nbytes, self.ends = {}, 0, []
        self.started = time.perf_counter()

    def wait(self, path, end):
        """end: of what is needed of the file, in bytes. Files come in the order in which they are first needed."""
        if path not in self.begins:
            self.begins[path] = self.nbytes
            self.nbytes += os.path.getsize(path)
        self.ends.append(self.begins[path] + end)
        if self.bytes_per_s:
            time.sleep(max(0, self.started + self.ends[-1] / self.bytes_per_s - time.perf_counter()))


@contextlib.contextmanager
def reads_from(disk):
    """lmcodec reads tensors when the disk has them."""
    import lmcodec
    read_many = lmcodec.File.read_many

    def read_when_there(file, tensors, addresses, **options):
        disk.wait(os.path.realpath(file._shown_name()), max(sum(file.place(tensor)) for tensor in tensors))
        return read_many(file, tensors, addresses, **options)

    lmcodec.File.read_many = read_when_there
    try:
        yield
    finally:
        lmcodec.File.read_many = read_many


# ---- the two ways: function(folder, disk, threads) -> names and tensors ----

def plain(folder, disk, threads):
    import lmcodec
    import safetensors
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        with lmcodec.File(path) as listing:
            ends = {name: sum(listing.place(tensor)) for name, tensor in listing.tensors.items()}
        with safetensors.safe_open(path, "pt") as file:
            for name in ends:
                disk.wait(path, ends[name])
                yield name, file.get_tensor(name)


def packed(folder, disk, threads):
    import lmcodec.vllm
    with reads_from(disk):
        yield from lmcodec.vllm.weights(folder + ".lmc", threads=threads)


def cpu_seconds():
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime


def load(way, folder, parameters, gb_per_s, threads):
    """Seconds, CPU seconds and stored bytes of one load, and the ends of the tensors in these."""
    disk, cpu = Disk(gb_per_s), cpu_seconds()
    count = 0
    for name, tensor in way(folder, disk, threads):
        parameters[name].copy_(tensor)
        count += 1
    taken = time.perf_counter() - disk.started, cpu_seconds() - cpu, disk.nbytes, disk.ends
    if count != len(parameters):
        raise SystemExit("%d of %d tensors were loaded" % (count, len(parameters)))
    return taken


def computed(ends, sizes, cpu_s, core_count, gb_per_s):
    """Seconds of a load. ends: stored bytes up to the end of each tensor; sizes: their bytes; cpu_s: of all."""
    at = 0
    for end, size in zip(ends, sizes):
        at = max(at, end / (gb_per_s * GB) if gb_per_s else 0) + cpu_s / core_count * size / sum(sizes)
    return at


def check_equal(one, other):
    import torch
    for name, tensor in one.items():
        if not torch.equal(tensor.reshape(-1).view(torch.uint8), other[name].reshape(-1).view(torch.uint8)):
            raise SystemExit("%s: the two ways differ" % name)


# ---- the model ----

def make_model(folder, nbytes):
    """Matrices of the sample, each repeated along its rows; vectors once."""
    os.makedirs(folder)
    tensors = {name: each for name, *each in read_tensors(SAMPLE)}
    matrices = [name for name, (_, shape, _) in tensors.items() if len(shape) == 2]
    copies = max(1, nbytes // sum(len(tensors[name][2]) for name in matrices))
    for name in matrices:
        dtype, (rows, columns), content = tensors[name]
        parts = [rotated((rows, columns), content, copy * 7919) for copy in range(copies)]
        tensors[name] = dtype, (rows * copies, columns), b"".join(parts)
    write_tensors(os.path.join(folder, "model.safetensors"), tensors)


def link_model(folder, model):
    """The model of a caller is packed beside links to its files, not beside the files."""
    os.makedirs(folder)
    for path in glob.glob(os.path.join(model, "*.safetensors*")):
        os.symlink(os.path.abspath(path), os.path.join(folder, os.path.basename(path)))


def measure(folder, models, speed, options):
    """A row of the report: both ways, from a disk of this speed."""
    row = {"gb_per_s": speed}
    rounds = [[load(way, folder, parameters, 0 if options.busy else speed, options.threads)
               for way, parameters in zip((plain, packed), models)] for _ in range(options.rounds)]
    check_equal(*models)
    sizes = [tensor.nbytes for tensor in models[0].values()]
    for way, (name, core_count) in enumerate((("plain", 1), ("packed", options.threads or os.cpu_count()))):
        seconds, cpu_s = (min(each[way][number] for each in rounds) for number in range(2))
        nbytes, ends = rounds[0][way][2:]
        if options.busy:
            seconds = computed(ends, sizes, cpu_s, core_count, speed)
        row.update({name + "_s": seconds, name + "_cpu_s": cpu_s, name + "_nbytes": nbytes})
    for parameters in models:
        for tensor in parameters.values():
            tensor.zero_()
    return row


def main():
    parser = command_line(__doc__, 5)
    parser.add_argument("--gb-per-s", type=float, help="10^9 bytes; by default %s" % ", ".join(map(str, SPEEDS)))
    parser.add_argument("--mib", type=int, default=1024, help="of the model that is made (default: 1024)")
    parser.add_argument("--model", metavar="DIR", help="the model")
    parser.add_argument("--threads", type=int, help="that decode; by default one per core")
    parser.add_argument("--busy", action="store_true")
    parser.set_defaults(json=os.path.join(ROOT, "build", "bench", "serving.json"))
    options = parser.parse_args()
    import lmcodec
    import torch
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="lmc-bench-") as temporary:
        folder = os.path.join(temporary, "model")
        link_model(folder, options.model) if options.model else make_model(folder, options.mib * MIB)
        lmcodec.convert(folder, folder + ".lmc", fsync=False)
        models = [{name: tensor.clone() for name, tensor in plain(folder, Disk(0), None)} for _ in range(2)]
        rows = [measure(folder, models, speed, options)
                for speed in (SPEEDS if options.gb_per_s is None else (options.gb_per_s,))]
    head = circumstances()
    print("%d tensors, %.0f MB of weights, %.0f MB packed; %s, %d cores; fastest of %d rounds%s" % (
        len(models[0]), rows[0]["plain_nbytes"] / 1e6, rows[0]["packed_nbytes"] / 1e6, head["machine"],
        head["core_count"], options.rounds, ", seconds computed from CPU time" if options.busy else ""))
    print("%-10s %18s %18s   %s" % ("disk", "plain: s, CPU s", "packed: s, CPU s", "packed / plain"))
    for row in rows:
        print("%-10s %9.3f %8.3f %9.3f %8.3f   %.3f" % (
            "%g GB/s" % row["gb_per_s"] if row["gb_per_s"] else "cache", row["plain_s"], row["plain_cpu_s"],
            row["packed_s"], row["packed_cpu_s"], row["packed_s"] / row["plain_s"]))
    write_report(options.json, {**head, "round_count": options.rounds, "is_busy": options.busy, "rows": rows})


if __name__ == "__main__":
    main()
