#!/usr/bin/env python3
"""python.py - the Python package lmcodec beside safetensors, and beside the C calls: what a user waits for.

    python3 bench/python.py [--mib N] [--rounds N] [--folder DIR] [--only CASE;...]

A round goes through all cases in turn. Each measurement is the first one of a fresh process, with the modules imported
and the files in the page cache; "cold:" drops the file from the page cache first. Wall time, CPU time of the process
(user and system) and the growth of its peak memory are taken. The medians are printed, and the median of each round's
ratio to the case beside it. On a busy machine, CPU time tells more. Needs numpy and safetensors, and torch for most
cases. zipnn is measured if it is installed. Results go to build/bench/python.json, too.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from common import command_line, write_report

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MIB = 1 << 20
MANY = 10000
FRAME_MIB = 64


# ---- what is measured: name -> function(folder), which imports, then returns the function to be timed ----

def torch_module(name):
    """A module of torch, which computes with one thread."""
    import importlib
    import torch
    torch.set_num_threads(1)
    return importlib.import_module(name)


def load(package, folder, name, then=None, **options):
    """load_file() of one of the packages, and what is done with each tensor."""
    module = torch_module(package)
    path = folder + "/" + name + (".lmc" if package.startswith("lmcodec") else ".safetensors")
    read_all(path)
    if then is None:
        return lambda: module.load_file(path, **options)
    return lambda: {key: then(tensor) for key, tensor in module.load_file(path, **options).items()}


def st(folder, name, then=None):
    return load("safetensors.torch", folder, name, then)


def lmc(folder, name, then=None, threads=1, **options):
    return load("lmcodec.torch", folder, name, then, threads=threads, **options)


def clone(tensor):
    return tensor.clone()


def touch(tensor):
    """The first use reads every page."""
    import torch
    tensor.reshape(-1).view(torch.uint8)[::4096].sum()
    return tensor


def to_float(tensor):
    return tensor.float()


def to_float_at_once(folder):
    import torch
    return lmc(folder, "big", dtype=torch.float32)


def into_model(package, folder, **options):
    import torch
    module = torch_module(package)
    tensors = torch_module("safetensors.torch").load_file(folder + "/big.safetensors")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name, tensor in tensors.items():
                self.register_parameter(name.replace(".", "_"), torch.nn.Parameter(torch.ones_like(tensor), False))

    model = Model()
    path = folder + ("/model.lmc" if package.startswith("lmcodec") else "/model.safetensors")
    if not os.path.exists(path):
        module.save_file({name.replace(".", "_"): tensor for name, tensor in tensors.items()}, path)
    del tensors
    read_all(path)
    return lambda: module.load_model(model, path, **options)


def cold(measured, path):
    """What is measured, once the file is no longer in the page cache."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    return measured


def numpy_load(package, folder, then=None, **options):
    import importlib
    module = importlib.import_module(package)
    path = folder + ("/as_f16.lmc" if package.startswith("lmcodec") else "/as_f16.safetensors")
    read_all(path)
    return lambda: {key: then(array) if then else array for key, array in module.load_file(path, **options).items()}


def copy(array):
    return array.copy()


def torch_zipnn(folder):
    import torch  # noqa: F401
    import zipnn
    with open(folder + "/big.zipnn", "rb") as file:
        frames = [file.read(nbytes) for nbytes in json.load(open(folder + "/big.zipnn.json"))]
    coder = zipnn.ZipNN(input_format="torch")
    return lambda: [coder.decompress(frame) for frame in frames]


def open_many(package, folder, then):
    """Opens a file of many tensors a few times, and does something with it."""
    module = torch_module(package)
    path = folder + ("/many.lmc" if package == "lmcodec" else "/many.safetensors")

    def measured():
        for _ in range(10):
            with module.safe_open(path, "pt") as file:
                then(file)

    return measured


def some_of_many(package, folder, at_once):
    module = torch_module(package)
    file = module.safe_open(folder + ("/many.lmc" if package == "lmcodec" else "/many.safetensors"), "pt")
    names = ["layer.%d" % (number * 7919 % MANY) for number in range(2000)]
    return lambda: file.get_tensors(names) if at_once else [file.get_tensor(name).clone() for name in names]


def slices(package, folder, count, index):
    """`count` parts of a matrix of 65,536 rows of 256 values, each copied: index(number)."""
    module = torch_module(package)
    file = module.safe_open(folder + ("/matrix.lmc" if package == "lmcodec" else "/matrix.safetensors"), "pt",
                            **({"threads": 1} if package == "lmcodec" else {}))
    part = file.get_slice("matrix")
    is_mapped = package == "safetensors"
    return lambda: [part[index(number)].clone() if is_mapped else part[index(number)] for number in range(count)]


def rows(count):
    return lambda number: slice(number * 977 % 60000, number * 977 % 60000 + count)


def half(_):
    return slice(0, 32768)


def columns(_):
    return slice(None), slice(0, 8)


def start(*command):
    """A process that does as little as it can."""
    return lambda: [subprocess.run(command, check=True, stdout=subprocess.DEVNULL) for _ in range(10)]


def save_lmc(folder, threads):
    import lmcodec.numpy as module
    tensors = {name: array + array.dtype.type(0) for name, array in module.load_file(folder + "/as_f16.lmc").items()}
    return lambda: module.save_file(tensors, folder + "/saved.lmc", threads=threads)


def save_convert(folder, threads):
    command = [find_lmc_st(), "convert", "--force", "--no-fsync", "--threads", str(threads),
               folder + "/as_f16.safetensors", "-o", folder + "/converted.lmc"]
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def find_lmc_st():
    """The command of the package, or of the build whose library LMCODEC_LIBRARY_DIR names."""
    from lmcodec.__main__ import command
    found = command()
    if found is None:
        found = os.path.join(os.path.dirname(os.environ["LMCODEC_LIBRARY_DIR"].rstrip(os.sep)), "tool", "lmc-st")
    return found


def codec(folder, verb, direct):
    """Both write to memory that is there: the fastest of many passes."""
    import ctypes
    import numpy
    import lmcodec
    from lmcodec import _abi, _codec
    content = numpy.random.default_rng(1).standard_normal(FRAME_MIB * MIB // 4).astype("f4").view("u2")[1::2].copy()
    content = numpy.concatenate([content, content])
    frame = lmcodec.encode(content, "BF16", row_nbytes=0)
    out = numpy.zeros_like(content)
    if verb == "decode":
        if not direct:
            return lambda: lmcodec.decode(frame, out)
        view, context = numpy.frombuffer(frame, "u1"), _codec.context()
        count = ctypes.c_size_t()
        return lambda: context.check(_abi.decode_delta(context.pointer, view.ctypes.data, view.size, None, 0,
                                                       out.ctypes.data, out.nbytes, ctypes.byref(count)))
    if not direct:
        return lambda: lmcodec.encode(content, "BF16", row_nbytes=0)
    params, bound, count, context = _abi.Params(), ctypes.c_size_t(), ctypes.c_size_t(), _codec.context()
    _abi.params_init(ctypes.byref(params), ctypes.sizeof(params))
    params.dtype = _abi.DTYPES["BF16"]

    def encode():
        """Allocates as a program in C does."""
        _abi.encode_bound(ctypes.byref(params), content.nbytes, ctypes.byref(bound))
        room = malloc(bound.value)
        context.check(_abi.encode_delta(context.pointer, ctypes.byref(params), content.ctypes.data, content.nbytes,
                                        None, 0, room, bound.value, ctypes.byref(count)))
        free(room)

    malloc, free = ctypes.CDLL(None).malloc, ctypes.CDLL(None).free
    malloc.restype, malloc.argtypes, free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
    return encode


# name -> (function of the folder, name of the case that it is compared with, most that it may take of that)
CASES = {
    "load: safetensors, mapped, no page touched": (lambda f: st(f, "big"), None, None),
    "load: safetensors, first use": (lambda f: st(f, "big", touch), None, None),
    "load: safetensors, clone": (lambda f: st(f, "big", clone), None, None),
    "load: lmcodec": (lambda f: lmc(f, "big"), "load: safetensors, clone", 1.05),
    "load: lmcodec, first use": (lambda f: lmc(f, "big", touch), "load: safetensors, first use", None),
    "load: lmcodec, 2 threads": (lambda f: lmc(f, "big", threads=2), "load: safetensors, clone", 1.05),
    "load: zipnn, frames in memory": (torch_zipnn, "load: safetensors, clone", None),
    "into a model: safetensors": (lambda f: into_model("safetensors.torch", f), None, None),
    "into a model: lmcodec": (lambda f: into_model("lmcodec.torch", f, threads=1), "into a model: safetensors", 1.35),
    "cold: safetensors, first use": (lambda f: cold(st(f, "big", touch), f + "/big.safetensors"), None, None),
    "cold: safetensors, clone": (lambda f: cold(st(f, "big", clone), f + "/big.safetensors"), None, None),
    "cold: lmcodec": (lambda f: cold(lmc(f, "big"), f + "/big.lmc"), "cold: safetensors, clone", 0.75),
    "cold: lmcodec, 2 threads": (lambda f: cold(lmc(f, "big", threads=2), f + "/big.lmc"), "cold: safetensors, clone",
                                 0.75),
    "float32: safetensors and .float()": (lambda f: st(f, "big", to_float), None, None),
    "float32: lmcodec and .float()": (lambda f: lmc(f, "big", to_float), "float32: safetensors and .float()", None),
    "float32: lmcodec, dtype=": (to_float_at_once, "float32: safetensors and .float()", None),
    "numpy: safetensors": (lambda f: numpy_load("safetensors.numpy", f), None, None),
    "numpy: safetensors, copy": (lambda f: numpy_load("safetensors.numpy", f, copy), None, None),
    "numpy: lmcodec": (lambda f: numpy_load("lmcodec.numpy", f, threads=1), "numpy: safetensors", None),
    "10,000 tensors: open, safetensors": (lambda f: open_many("safetensors", f, id), None, None),
    "10,000 tensors: open, lmcodec": (lambda f: open_many("lmcodec", f, id), "10,000 tensors: open, safetensors",
                                      None),
    "10,000 tensors: names, safetensors": (lambda f: open_many("safetensors", f, lambda file: file.keys()), None,
                                           None),
    "10,000 tensors: names, lmcodec": (lambda f: open_many("lmcodec", f, lambda file: file.keys()),
                                       "10,000 tensors: names, safetensors", None),
    "10,000 tensors: all, safetensors, clone": (lambda f: st(f, "many", clone), None, None),
    "10,000 tensors: all, lmcodec": (lambda f: lmc(f, "many"), "10,000 tensors: all, safetensors, clone", None),
    "2,000 of them: safetensors, clone": (lambda f: some_of_many("safetensors", f, False), None, None),
    "2,000 of them: lmcodec, get_tensors()": (lambda f: some_of_many("lmcodec", f, True),
                                              "2,000 of them: safetensors, clone", None),
    **{"100 slices, %s: %s" % (what, package): (
        lambda f, package=package, index=index: slices(package, f, 100, index),
        "100 slices, %s: safetensors" % what if package == "lmcodec" else None, None)
       for what, index in (("16 rows", rows(16)), ("1,000 rows", rows(1000)))
       for package in ("safetensors", "lmcodec")},
    **{"10 slices, %s: %s" % (what, package): (
        lambda f, package=package, index=index: slices(package, f, 10, index),
        "10 slices, %s: safetensors" % what if package == "lmcodec" else None, None)
       for what, index in (("half of the rows", half), ("8 columns", columns))
       for package in ("safetensors", "lmcodec")},
    "10 starts: python -c pass": (lambda f: start(sys.executable, "-c", "pass"), None, None),
    "10 starts: import safetensors": (lambda f: start(sys.executable, "-c", "import safetensors"),
                                      "10 starts: python -c pass", None),
    "10 starts: import lmcodec": (lambda f: start(sys.executable, "-c", "import lmcodec"), "10 starts: python -c pass",
                                  None),
    "10 starts: lmc-st --version": (lambda f: start(find_lmc_st(), "--version"), "10 starts: python -c pass", None),
    "save: lmc-st convert, 2 threads": (lambda f: save_convert(f, 2), None, None),
    "save: lmcodec, 2 threads": (lambda f: save_lmc(f, 2), "save: lmc-st convert, 2 threads", 1.0),
    "encode: C call": (lambda f: codec(f, "encode", True), None, None),
    "encode: lmcodec": (lambda f: codec(f, "encode", False), "encode: C call", 1.03),
    "decode: C call": (lambda f: codec(f, "decode", True), None, None),
    "decode: lmcodec": (lambda f: codec(f, "decode", False), "decode: C call", 1.03),
}
PASSES = {"encode": 15, "decode": 15}


def read_all(path):
    with open(path, "rb") as file:
        while file.read(16 * MIB):
            pass


def peak_nbytes():
    with open("/proc/self/status", encoding="ascii") as file:
        return int(file.read().partition("VmHWM:")[2].split()[0]) << 10


def cpu_seconds():
    """Of this process and of those that it waited for."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


def measure(name, folder):
    """What one case takes in this process: the first call, or the fastest where memory is there."""
    function = CASES[name][0](folder)
    best = None
    for _ in range(PASSES.get(name.split(":")[0], 1)):
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")  # the peak starts again
        peak, cpu, wall = peak_nbytes(), cpu_seconds(), time.perf_counter()
        result = function()
        taken = {"wall": time.perf_counter() - wall, "cpu": cpu_seconds() - cpu, "mib": (peak_nbytes() - peak) / MIB}
        best = taken if best is None or taken["wall"] < best["wall"] else best
        del result
    return best


# ---- files ----

def make_files(folder, mib):
    import numpy
    import safetensors.numpy
    import lmcodec
    random = numpy.random.default_rng(7)
    shapes = [(4096, 4096)] * max(1, mib // 32 - 1) + [(1024, 4096)] * 3 + [(4096,)] * 64
    halves, halves_as_f16 = {}, {}
    for number, shape in enumerate(shapes):
        values = (random.standard_normal(shape, dtype="f4") * 0.02).view("u4") >> 16
        halves["layer.%d" % number] = ("BF16", shape, values.astype("u2"))
        halves_as_f16["layer.%d" % number] = (random.standard_normal(shape, dtype="f4") * 0.02).astype("f2")
    lmcodec.serialize_file(halves, folder + "/big.safetensors")
    safetensors.numpy.save_file(halves_as_f16, folder + "/as_f16.safetensors")
    lmcodec.serialize_file({"layer.%d" % n: ("F32", (8, 32), random.standard_normal((8, 32), dtype="f4"))
                            for n in range(MANY)}, folder + "/many.safetensors")
    values = numpy.concatenate([content.reshape(-1) for _, _, content in halves.values()])[:65536 * 256]
    lmcodec.serialize_file({"matrix": ("BF16", (65536, 256), values)}, folder + "/matrix.safetensors")
    for name in ("big", "as_f16", "many", "matrix"):
        lmcodec.convert("%s/%s.safetensors" % (folder, name), "%s/%s.lmc" % (folder, name), fsync=False)
    make_zipnn(folder, halves)


def make_zipnn(folder, tensors):
    try:
        import torch
        import zipnn
    except ImportError:
        return
    coder, sizes = zipnn.ZipNN(input_format="torch"), []
    with open(folder + "/big.zipnn", "wb") as file:
        for _, shape, values in tensors.values():
            tensor = torch.from_numpy(values.view("i2").reshape(-1)).view(torch.bfloat16).reshape(shape)
            sizes.append(file.write(coder.compress(tensor)))
    with open(folder + "/big.zipnn.json", "w") as file:
        json.dump(sizes, file)


def run_case(name, folder):
    """What a case takes in a fresh process, or None if it cannot run."""
    command = [sys.executable, "-W", "ignore", os.path.abspath(__file__), "--folder", folder, "--case", name]
    child = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, PYTHONPATH=ROOT + "/python"))
    if child.returncode:
        print("%s: left out: %s" % (name, child.stderr.strip().split("\n")[-1]), file=sys.stderr)
        return None
    return json.loads(child.stdout.strip().split("\n")[-1])


def report(measured):
    """measured: for each case, what each round took."""
    def median(values):
        return round(statistics.median(values), 4)

    rows = []
    print("%-42s %8s %8s %6s   ratios of CPU, wall" % ("", "CPU s", "wall s", "MiB"))
    for name, rounds in measured.items():
        beside, limit = CASES[name][1:]
        row = {"case": name, "beside": beside, "limit": limit,
               **{key: median(each[key] for each in rounds) for key in ("cpu", "wall", "mib")}}
        if beside in measured:
            for key in ("cpu", "wall"):
                row[key + "_ratio"] = median(each[key] / max(other[key], 1e-9)
                                             for each, other in zip(rounds, measured[beside]))
        rows.append(row)
        beside_text = "" if "cpu_ratio" not in row else "   %5.2f %5.2f of %r%s" % (
            row["cpu_ratio"], row["wall_ratio"], beside, "" if limit is None else " (at most %s)" % limit)
        print("%-42s %8.4f %8.4f %6.0f%s" % (name, row["cpu"], row["wall"], row["mib"], beside_text))
    return rows


def main():
    parser = command_line(__doc__, 5)
    parser.add_argument("--mib", type=int, default=424, help="of the large file")
    parser.set_defaults(json=os.path.join(ROOT, "build", "bench", "python.json"))
    parser.add_argument("--folder", help="for the files; kept")
    parser.add_argument("--only", default="", help="begins of the names of cases, with semicolons")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(options.case, options.folder)))
        return
    sys.path.insert(0, ROOT + "/python")
    with tempfile.TemporaryDirectory(prefix="lmc-bench-") as temporary:
        folder = options.folder or temporary
        if not os.path.exists(folder + "/matrix.lmc"):
            os.makedirs(folder, exist_ok=True)
            make_files(folder, options.mib)
        names = [name for name in CASES if name.startswith(tuple(options.only.split(";")))]
        measured = {name: [] for name in names}
        for _ in range(options.rounds):
            for name in list(names):
                taken = run_case(name, folder)
                if taken is None:
                    names.remove(name)
                    del measured[name]
                else:
                    measured[name].append(taken)
        rows = report(measured)
    write_report(options.json, {"mib": options.mib, "rounds": options.rounds, "core_count": os.cpu_count(),
                                "rows": rows})


if __name__ == "__main__":
    main()
