#!/usr/bin/env python3
"""python.py - the Python package lmcodec beside safetensors, and beside the C calls.

    python3 bench/python.py [--mib N] [--rounds N] [--folder DIR] [--only CASE,...]

Each measurement is the first one of a fresh process, with the modules imported and the files in the page cache. The
rounds go through all cases in turn, each twice: the first one often meets memory that a virtual machine has never
touched, which takes longer than all else. The fastest counts. Needs numpy and safetensors, and torch for the cases with
torch. zipnn is measured if it is installed. Results go to build/bench/python.json, too.
"""
import argparse
import json
import os
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

def torch_safetensors_mapped(folder):
    import safetensors.torch as module
    return lambda: module.load_file(folder + "/big.safetensors")


def torch_safetensors_clone(folder):
    """torch would copy with all cores."""
    import torch
    import safetensors.torch as module
    torch.set_num_threads(1)
    return lambda: {name: tensor.clone() for name, tensor in module.load_file(folder + "/big.safetensors").items()}


def torch_lmc(folder, threads):
    import lmcodec.torch as module
    return lambda: module.load_file(folder + "/big.lmc", threads=threads)


def torch_zipnn(folder):
    import torch  # noqa: F401
    import zipnn
    with open(folder + "/big.zipnn", "rb") as file:
        frames = [file.read(nbytes) for nbytes in json.load(open(folder + "/big.zipnn.json"))]
    coder = zipnn.ZipNN(input_format="torch")
    return lambda: [coder.decompress(frame) for frame in frames]


def numpy_safetensors(folder, name="as_f16"):
    import safetensors.numpy as module
    return lambda: module.load_file(folder + "/%s.safetensors" % name)


def numpy_safetensors_copy(folder, name="as_f16"):
    import safetensors.numpy as module
    return lambda: {key: array.copy() for key, array in module.load_file(folder + "/%s.safetensors" % name).items()}


def numpy_lmc(folder, threads, name="as_f16"):
    import lmcodec.numpy as module
    return lambda: module.load_file(folder + "/%s.lmc" % name, threads=threads)


def many_torch_safetensors(folder):
    import safetensors.torch as module
    return lambda: module.load_file(folder + "/many.safetensors")


def many_torch_safetensors_clone(folder):
    import safetensors.torch as module
    return lambda: {name: tensor.clone() for name, tensor in module.load_file(folder + "/many.safetensors").items()}


def many_torch_lmc(folder, threads):
    import lmcodec.torch as module
    return lambda: module.load_file(folder + "/many.lmc", threads=threads)


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
    from lmcodec import _library
    found = _library.find("lmc-st")
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
        return lambda: context.check(_abi.decode(context.pointer, view.ctypes.data, view.size, None, 0, out.ctypes.data,
                                                 out.nbytes, ctypes.byref(count)))
    if not direct:
        return lambda: lmcodec.encode(content, "BF16", row_nbytes=0)
    params, bound, count, context = _abi.Params(), ctypes.c_size_t(), ctypes.c_size_t(), _codec.context()
    _abi.params_init(ctypes.byref(params), ctypes.sizeof(params))
    params.dtype = _abi.DTYPES["BF16"]

    def encode():
        """Allocates as a program in C does."""
        _abi.encode_bound(ctypes.byref(params), content.nbytes, ctypes.byref(bound))
        room = malloc(bound.value)
        context.check(_abi.encode(context.pointer, ctypes.byref(params), content.ctypes.data, content.nbytes, None, 0,
                                  room, bound.value, ctypes.byref(count)))
        free(room)

    malloc, free = ctypes.CDLL(None).malloc, ctypes.CDLL(None).free
    malloc.restype, malloc.argtypes, free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
    return encode


# name -> (function of the folder, name of the case that it is compared with, most that it may take of that)
CASES = {
    "torch: safetensors, nothing touched": (torch_safetensors_mapped, None, None),
    "torch: safetensors and clone": (torch_safetensors_clone, None, None),
    "torch: lmcodec, 1 thread": (lambda f: torch_lmc(f, 1), "torch: safetensors and clone", 0.65),
    "torch: lmcodec, 2 threads": (lambda f: torch_lmc(f, 2), "torch: safetensors and clone", 0.45),
    "torch: zipnn, frames in memory": (torch_zipnn, "torch: safetensors and clone", None),
    "numpy: safetensors": (numpy_safetensors, None, None),
    "numpy: safetensors and copy": (numpy_safetensors_copy, None, None),
    "numpy: lmcodec, 1 thread": (lambda f: numpy_lmc(f, 1), "numpy: safetensors and copy", 0.65),
    "numpy: lmcodec, 2 threads": (lambda f: numpy_lmc(f, 2), "numpy: safetensors and copy", 0.45),
    "many: safetensors": (many_torch_safetensors, None, None),
    "many: safetensors and clone": (many_torch_safetensors_clone, None, None),
    "many: lmcodec, 1 thread": (lambda f: many_torch_lmc(f, 1), "many: safetensors", 1.5),
    "many: lmcodec, 2 threads": (lambda f: many_torch_lmc(f, 2), "many: safetensors", 1.5),
    "save: lmc-st convert, 2 threads": (lambda f: save_convert(f, 2), None, None),
    "save: lmcodec, 2 threads": (lambda f: save_lmc(f, 2), "save: lmc-st convert, 2 threads", 1.1),
    "encode: C call": (lambda f: codec(f, "encode", True), None, None),
    "encode: lmcodec": (lambda f: codec(f, "encode", False), "encode: C call", 1.03),
    "decode: C call": (lambda f: codec(f, "decode", True), None, None),
    "decode: lmcodec": (lambda f: codec(f, "decode", False), "decode: C call", 1.03),
}
PASSES = {"encode": 15, "decode": 15}


def measure(name, folder):
    """Seconds of one case in this process: of the first call, or the fastest where memory is there."""
    function = CASES[name][0](folder)
    best = float("inf")
    for _ in range(PASSES.get(name.split(":")[0], 1)):
        begin = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - begin)
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
    for name in ("big", "as_f16", "many"):
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
    """Seconds in a fresh process, or None if it cannot run."""
    command = [sys.executable, "-W", "ignore", os.path.abspath(__file__), "--folder", folder, "--case", name]
    child = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, PYTHONPATH=ROOT + "/python"))
    if child.returncode:
        print("%s: left out: %s" % (name, child.stderr.strip().split("\n")[-1]), file=sys.stderr)
        return None
    return float(child.stdout.strip().split("\n")[-1])


def report(seconds):
    rows = []
    for name, value in seconds.items():
        beside, limit = CASES[name][1:]
        ratio = value / seconds[beside] if beside in seconds else None
        rows.append({"case": name, "s": round(value, 5), "beside": beside, "ratio": ratio and round(ratio, 3),
                     "limit": limit})
        print("%-40s %8.4f s%s" % (name, value, "" if ratio is None else "  %5.2f of %r%s" % (
            ratio, beside, "" if limit is None else " (at most %s)" % limit)))
    return rows


def main():
    parser = command_line(__doc__, 3)
    parser.add_argument("--mib", type=int, default=424, help="of the large file")
    parser.set_defaults(json=os.path.join(ROOT, "build", "bench", "python.json"))
    parser.add_argument("--folder", help="for the files; kept")
    parser.add_argument("--only", default="", help="begins of the names of cases, with commas")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(measure(options.case, options.folder))
        return
    sys.path.insert(0, ROOT + "/python")
    with tempfile.TemporaryDirectory(prefix="lmc-bench-") as temporary:
        folder = options.folder or temporary
        if not os.path.exists(folder + "/many.lmc"):
            os.makedirs(folder, exist_ok=True)
            make_files(folder, options.mib)
        names = [name for name in CASES if name.startswith(tuple(options.only.split(",")))]
        seconds = {}
        for _ in range(options.rounds):
            for name in list(names):
                value = run_case(name, folder)
                if value is None:
                    names.remove(name)
                else:
                    seconds[name] = min(value, run_case(name, folder) or value, seconds.get(name, value))
        rows = report({name: seconds[name] for name in names})
    write_report(options.json, {"mib": options.mib, "rounds": options.rounds, "core_count": os.cpu_count(),
                                "rows": rows})


if __name__ == "__main__":
    main()
