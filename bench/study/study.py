"""study.py - how tensors compress while they are trained: lmc-st beside general compressors on a series of snapshots.

    python3 bench/study/study.py BUILD SERIES [--rounds 3] [--json FILE]

BUILD is a build folder, SERIES what train_series.py wrote. Three things are measured:

  alone    each snapshot: entropies, predicted and actual ratio (lmc-st analyze)
  delta    pairs of snapshots 1, 10, 100 and 1000 steps apart: what has changed, predicted and actual ratio
  engine   a pair 10 steps apart in the middle of the training (weights.bf16 also 1, 100 and 1000 steps): ratio and
           speed of bz2 -9, zstd -3, lz4, gzip -6 and xz -6, each on the plain bytes, on groups of bytes of equal
           significance, and on these groups of the XOR with the earlier snapshot; and of LMC, alone and with the
           snapshot as base

An engine gets all tensors of a file as one buffer, and LMC one after the other, through the C interface; its ratio is
that of lmc-st. What was decompressed is compared. All run in this process with one thread. Speeds are those of the
fastest round, in MB of content a second of CPU time; grouping and XOR are not in the time, but the comparison with the
base is in LMC's. An engine whose Python package is missing is left out, with a line that says so. Needs numpy.
"""

import bz2
import ctypes
import gzip
import json
import lzma
import os
import subprocess
import sys
import time

import numpy

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [BENCH, os.path.join(os.path.dirname(BENCH), "python")]
from common import circumstances, command_line, read_tensors, write_report  # noqa: E402

MB = 10**6
KINDS = ("weights.bf16", "weights.f32", "adam_m", "adam_v", "gradients")  # files of a snapshot
DISTANCES = (1, 10, 100, 1000)
PHASES = ("peak", "middle", "late", "fine-tuning")
ELEMENT_NBYTES = {"weights.bf16": 2}
LEVELS = ("default", "fast", "max")


# ---- engines ----

def find_engines():
    """Returns name -> (compress, decompress), and name -> why it is left out."""
    engines = {"bz2 -9": (lambda data: bz2.compress(data, 9), bz2.decompress),
               "gzip -6": (lambda data: gzip.compress(data, 6), gzip.decompress),
               "xz -6": (lambda data: lzma.compress(data, preset=6), lzma.decompress)}
    left_out = {}
    try:
        import zstandard
        engines["zstd -3"] = (zstandard.ZstdCompressor(level=3).compress, zstandard.ZstdDecompressor().decompress)
    except ImportError:
        left_out["zstd"] = "there is no Python package zstandard"
    try:
        import lz4.frame
        engines["lz4"] = (lz4.frame.compress, lz4.frame.decompress)
    except ImportError:
        left_out["lz4"] = "there is no Python package lz4"
    return engines, left_out


def fastest(function, data, rounds):
    """The result, and the CPU seconds of the fastest round."""
    best = float("inf")
    for _ in range(rounds):
        started = time.process_time()
        result = function(data)
        best = min(best, time.process_time() - started)
    return result, max(best, 1e-9)


def read_data(path):
    """The bytes of all tensors."""
    return numpy.frombuffer(b"".join(content for *_, content in read_tensors(path)), numpy.uint8)


def grouped(data, element_nbytes):
    """Bytes of equal significance together, the most significant ones first."""
    return data.reshape(-1, element_nbytes)[:, ::-1].T.tobytes()


def forms_of(path, base, element_nbytes):
    data, old = read_data(path), read_data(base)
    return {"plain": data.tobytes(), "groups": grouped(data, element_nbytes),
            "XOR groups": grouped(data ^ old, element_nbytes)}


def measure_engines(path, base, element_nbytes, forms, rounds):
    """Yields a row for each engine and form."""
    inputs = forms_of(path, base, element_nbytes)
    for engine, (compress, decompress) in find_engines()[0].items():
        for form in forms:
            data = inputs[form]
            packed, compress_seconds = fastest(compress, data, rounds)
            back, decompress_seconds = fastest(decompress, packed, rounds)
            if back != data:
                raise SystemExit(f"study.py: {engine}: what was decompressed differs")
            yield {"engine": engine, "form": form, "ratio": len(packed) / len(data),
                   "compress_MB_s": len(data) / MB / compress_seconds,
                   "decompress_MB_s": len(data) / MB / decompress_seconds}


# ---- LMC ----

def read_json(*command):
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


class Lmc:
    """The calls of lmc.h for whole tensors, into memory that is there."""

    def __init__(self, build):
        os.environ["LMCODEC_LIBRARY_DIR"] = build
        from lmcodec import _abi, _codec
        self.abi, self.codec, self.context = _abi, _codec, _codec.context()

    def params(self, dtype, shape, level):
        params = self.abi.Params()
        self.abi.params_init(ctypes.byref(params), ctypes.sizeof(params))
        params.dtype, params.level = self.codec.dtype_of(dtype), self.codec.level_of(level)
        row = 1  # as lmc_st_row_nbytes() has it
        for count in reversed(shape[1:]):
            row *= count if row < 32 else 1
        params.row_nbytes = row * (2 if dtype == "BF16" else 4) if len(shape) > 1 else 0
        return params

    def bound(self, params, nbytes):
        bound = ctypes.c_size_t()
        self.context.check(self.abi.encode_bound(ctypes.byref(params), nbytes, ctypes.byref(bound)))
        return bound.value

    def encode(self, params, content, base, room):
        """Returns the bytes of the frame, which `room` has then."""
        nbytes, size = ctypes.c_size_t(), len(content)
        self.context.check(self.abi.encode_delta(self.context.pointer, ctypes.byref(params), content, size, base,
                                                 size if base else 0, room, len(room), ctypes.byref(nbytes)))
        return nbytes.value

    def decode(self, frame, nbytes, base, room):
        size, decoded = len(room), ctypes.c_size_t()
        self.context.check(self.abi.decode_delta(self.context.pointer, frame, nbytes, base, size if base else 0, room,
                                                 size, ctypes.byref(decoded)))


def measure_lmc(lmc, path, base, form, level, rounds):
    """Returns ratio, and MB a second of encoding and decoding."""
    tensors = [tensor for _, *tensor in read_tensors(path)]
    olds = [old for *_, old in read_tensors(base)] if form == "with base" else [None] * len(tensors)
    params = [lmc.params(dtype, shape, level) for dtype, shape, _ in tensors]
    rooms = [ctypes.create_string_buffer(lmc.bound(one, len(content)))
             for one, (*_, content) in zip(params, tensors)]
    backs = [ctypes.create_string_buffer(len(content)) for *_, content in tensors]
    inputs = [(one, content, old, room) for one, (*_, content), old, room in zip(params, tensors, olds, rooms)]
    sizes, encode_seconds = fastest(lambda parts: [lmc.encode(*part) for part in parts], inputs, rounds)
    _, decode_seconds = fastest(lambda parts: [lmc.decode(*part) for part in parts],
                                list(zip(rooms, sizes, olds, backs)), rounds)
    if any(back.raw != content for back, (*_, content) in zip(backs, tensors)):
        raise SystemExit("study.py: liblmc: what was decoded differs")
    megabytes = sum(len(content) for *_, content in tensors) / MB
    return sum(sizes) / megabytes / MB, megabytes / encode_seconds, megabytes / decode_seconds


def measure_levels(lmc, path, base, ratios, forms, rounds):
    """Yields a row for each level and form. ratios: those of lmc-st for the level default."""
    for form in ("alone", "with base") if "plain" in forms else ("with base",):
        for level in LEVELS:
            ratio, encode, decode = measure_lmc(lmc, path, base, form, level, 5 * rounds)
            yield {"engine": f"LMC {level}", "form": form, "ratio": ratios[form] if level == "default" else ratio,
                   "compress_MB_s": encode, "decompress_MB_s": decode}


def analyze(tool, *paths):
    """The sums over the last file. A series has files of one dtype."""
    return read_json(tool, "analyze", "--json", *paths)[-1]["all"][0]


# ---- the series ----

class Model:
    def __init__(self, series, facts):
        self.name = facts["name"]
        self.folders = {entry["step"]: os.path.join(series, entry["folder"]) for entry in facts["snapshots"]}
        self.fine_steps = {entry["step"] for entry in facts["snapshots"] if entry["is_fine_tuning"]}

    def path(self, step, kind):
        return os.path.join(self.folders[step], kind + ".safetensors")

    def has(self, step, kind):
        return os.path.exists(self.path(step, kind))

    def anchors(self):
        """Steps that a snapshot one step later follows, by phase."""
        steps = sorted(step for step in self.folders if step + 1 in self.folders and step > 0)
        names = PHASES if len(steps) == len(PHASES) else (PHASES[0], *PHASES[2:])
        return dict(zip(names, steps))

    def pairs(self):
        """(phase, earlier step, distance)"""
        return [(phase, step, distance) for phase, step in self.anchors().items() for distance in DISTANCES
                if step + distance in self.folders]


def measure_model(tool, lmc, model, rounds):
    rows = []
    for kind in KINDS:
        for step in sorted(model.folders):
            if model.has(step, kind):
                rows.append({"what": "alone", "kind": kind, "step": step, "is_fine_tuning": step in model.fine_steps,
                             **analyze(tool, model.path(step, kind))})
        for phase, step, distance in model.pairs():
            rows.append({"what": "delta", "kind": kind, "phase": phase, "step": step + distance, "distance": distance,
                         **analyze(tool, model.path(step, kind), model.path(step + distance, kind))})
        print(f"{model.name} {kind}: analyzed", file=sys.stderr)
    anchors = model.anchors()
    phase = "middle" if "middle" in anchors else "late"
    for distance in (d for _, step, d in model.pairs() if step == anchors[phase]):
        for kind in KINDS if distance == 10 else KINDS[:1]:
            base, path = model.path(anchors[phase], kind), model.path(anchors[phase] + distance, kind)
            where = {"what": "engine", "kind": kind, "step": anchors[phase] + distance, "distance": distance}
            forms = ("plain", "groups", "XOR groups") if distance == 10 else ("XOR groups",)
            ratios = {"alone": analyze(tool, path)["ratio"], "with base": analyze(tool, base, path)["ratio"]}
            found = list(measure_engines(path, base, ELEMENT_NBYTES.get(kind, 4), forms, rounds))
            found += measure_levels(lmc, path, base, ratios, forms, rounds)
            rows += [{**where, **row} for row in found]
            print(f"{model.name} {kind}, {distance} steps: engines measured", file=sys.stderr)
    return [{"model": model.name, **row} for row in rows]


# ---- tables ----

def show_alone(model, rows):
    print(f"\n{model}, each snapshot alone: stored / original, LMC default\n")
    print(f"{'step':>6} " + " ".join(f"{kind:>13}" for kind in KINDS) + "   bits of weights.bf16: exponent, symbols")
    for step in sorted({row["step"] for row in rows}):
        here = {row["kind"]: row for row in rows if row["step"] == step}
        cells = [f"{here[kind]['ratio']:13.4f}" if kind in here else f"{'-':>13}" for kind in KINDS]
        weights = here["weights.bf16"]
        print(f"{step:6} " + " ".join(cells) + f"   {weights['exponent']:.3f} {weights['symbols']:.3f}")


def show_deltas(model, rows):
    print(f"\n{model}, against an earlier snapshot: LMC / share of values that changed\n")
    print(f"{'phase':12} {'steps':>6} " + " ".join(f"{kind:>15}" for kind in KINDS))
    for phase, distance in dict.fromkeys((row["phase"], row["distance"]) for row in rows):
        here = {row["kind"]: row for row in rows if (row["phase"], row["distance"]) == (phase, distance)}
        print(f"{phase:12} {distance:6} " +
              " ".join(f"{here[kind]['ratio']:7.4f} {100 * here[kind]['changed']:6.2f}%" for kind in KINDS))


def show_engines(model, rows):
    for distance, kind in dict.fromkeys((row["distance"], row["kind"]) for row in rows):
        print(f"\n{model}, {kind}, {distance} steps apart\n")
        print(f"{'engine':12} {'form':12} {'ratio':>7} {'compress MB/s':>14} {'decompress MB/s':>16}")
        for row in rows:
            if (row["distance"], row["kind"]) == (distance, kind):
                print(f"{row['engine']:12} {row['form']:12} {row['ratio']:7.4f} {row['compress_MB_s']:14.1f} "
                      f"{row['decompress_MB_s']:16.1f}")


def main():
    parser = command_line(__doc__, 3, "build", "series")
    arguments = parser.parse_args()
    tool, lmc = os.path.join(arguments.build, "tool", "lmc-st"), Lmc(arguments.build)
    with open(os.path.join(arguments.series, "series.json"), encoding="ascii") as file:
        series = json.load(file)
    report = {**circumstances(arguments.build), "torch": series["torch"], "left_out": find_engines()[1],
              "models": series["models"], "rows": []}
    print(f"machine: {report['machine']}, {report['core_count']} cores, LMC {report['lmc_version']}; "
          f"trained by torch {series['torch']}")
    for name, reason in report["left_out"].items():
        print(f"{name} is left out: {reason}")
    for facts in series["models"]:
        rows = measure_model(tool, lmc, Model(arguments.series, facts), arguments.rounds)
        report["rows"] += rows
        for what, show in (("alone", show_alone), ("delta", show_deltas), ("engine", show_engines)):
            show(facts["name"], [row for row in rows if row["what"] == what])
    write_report(arguments.json, report)


if __name__ == "__main__":
    main()
