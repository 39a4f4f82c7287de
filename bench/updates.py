#!/usr/bin/env python3
"""updates.py - new versions of weights in memory, as deltas: bytes for each changed value, and the time to make a delta
and to apply it in place, beside memcpy of the tensors and beside lists of places and values.

    python3 bench/updates.py [--mib N] [--rounds N] [--json FILE] [OLD NEW]...

The first tensors are random bf16 numbers, of which 0.3, 3 and 6 % move to a neighbouring number. Then come pairs of
safetensors files with the same tensors: by default the two snapshots of examples/data. Both are repeated, rotated by
some elements each time, until there are N MiB (1024). Each case is measured --rounds times; the fastest counts. Lists
hold an int32 index and a value for each change, a tensor at a time, and are made with NumPy; zstd -3 packs them. Every
result is compared with the new version bit by bit. Needs numpy and zstandard, and the package lmcodec or
LMCODEC_LIBRARY_DIR with the library of a build.
"""
import argparse
import ctypes
import os
import sys
import time

from common import MIB, circumstances, write_report

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHARES = (0.003, 0.03, 0.06)
SHAPE = (4096, 2048)


def random_pair(share, nbytes, numpy):
    """Normally distributed bf16 numbers as u16, and the same with a share of them moved by one."""
    random = numpy.random.default_rng(1)
    old, new = {}, {}
    for number in range(max(1, nbytes // (SHAPE[0] * SHAPE[1] * 2))):
        wide = random.standard_normal(SHAPE, dtype="f4") * numpy.float32(0.02)
        old["t%d" % number] = (wide.view("u4") >> 16).astype("u2")
        moved = random.random(SHAPE, dtype="f4") < share
        step = numpy.where(random.random(SHAPE, dtype="f4") < 0.5, 1, 0xFFFF).astype("u2")
        new["t%d" % number] = old["t%d" % number] + step * moved
    return old, new


def file_pair(paths, nbytes, numpy):
    """The tensors of two files, repeated: each time both begin elsewhere, so that no two tensors are equal."""
    import lmcodec

    states = []
    for path in paths:
        with lmcodec.File(path) as file:
            one = {name: (tensor, numpy.frombuffer(file.read(name), "u1")) for name, tensor in file.tensors.items()}
        states.append(one)
    times = max(1, nbytes // sum(content.nbytes for _, content in states[0].values()))
    return [{"%d.%s" % (number, name): (tensor.dtype, tensor.shape, numpy.roll(content, 8 * 1009 * number))
             for number in range(times) for name, (tensor, content) in state.items()} for state in states]


def tensors_of(state):
    """What the calls of the package take."""
    return {name: value if isinstance(value, tuple) else ("BF16", value.shape, value) for name, value in state.items()}


def content_of(value):
    return (value[2] if isinstance(value, tuple) else value).reshape(-1).view("u1")


def lists_of(old, new, numpy):
    """Indices and values of the changes, as bytes, and how many."""
    parts, count = [], 0
    for name, value in new.items():
        dtype = value[0] if isinstance(value, tuple) else "BF16"
        width = {"BF16": "u2", "F16": "u2", "F32": "u4", "I64": "u8", "F64": "u8"}.get(dtype, "u1")
        before, after = content_of(old[name]).view(width), content_of(value).view(width)
        places = numpy.flatnonzero(before != after)
        parts += [places.astype("i4").tobytes(), after[places].tobytes()]
        count += len(places)
    return b"".join(parts), count


def fastest(function, seconds):
    begin = time.perf_counter()
    result = function()
    return min(seconds, time.perf_counter() - begin), result


class Case:
    def __init__(self, name, old, new, modules):
        self.name, self.numpy = name, modules.numpy
        self.old, self.new = tensors_of(old), tensors_of(new)
        self.nbytes = sum(content_of(value).nbytes for value in self.old.values())
        lists, self.count = lists_of(self.old, self.new, modules.numpy)
        self.bytes = {"lists": len(lists), "lists, zstd -3": len(modules.zstandard.compress(lists, 3))}
        self.seconds = {}
        self.memcpy = float("inf")

    def measure(self, lmcodec, threads):
        """One round."""
        state = {name: (dtype, shape, self.numpy.array(content_of((dtype, shape, content))))
                 for name, (dtype, shape, content) in self.old.items()}
        room = {name: self.numpy.empty_like(value[2]) for name, value in state.items()}
        for array in room.values():
            array.fill(0)
        begin = time.perf_counter()
        for name, array in room.items():
            ctypes.memmove(array.ctypes.data, state[name][2].ctypes.data, array.nbytes)
        self.memcpy = min(self.memcpy, time.perf_counter() - begin)
        del room
        for count in threads:
            make, apply, unchecked = [self.seconds.get((what, count), float("inf"))
                                      for what in ("make", "apply", "apply unchecked")]
            make, delta = fastest(lambda: lmcodec.delta(self.old, self.new, threads=count), make)
            apply, _ = fastest(lambda: lmcodec.apply(delta, state, threads=count), apply)
            for name, value in self.new.items():
                if (state[name][2] != content_of(value)).any():
                    sys.exit("%s: %s is not what it is to be" % (self.name, name))
            back = lmcodec.delta(self.new, self.old, threads=count)
            unchecked, _ = fastest(lambda: lmcodec.apply(back, state, write_unchecked=True, threads=count), unchecked)
            self.bytes["LMC"] = len(delta)
            self.seconds.update({("make", count): make, ("apply", count): apply, ("apply unchecked", count): unchecked})

    def report(self):
        return {"case": self.name, "nbytes": self.nbytes, "changed": self.count, "bytes": self.bytes,
                "memcpy_seconds": self.memcpy,
                "seconds": {"%s, %d" % key: value for key, value in self.seconds.items()}}

    def show(self):
        gib = self.nbytes / 2**30
        print("\n%s: %.0f MiB, %d values changed; memcpy %.2f GiB/s"
              % (self.name, self.nbytes / MIB, self.count, gib / self.memcpy))
        for name, nbytes in self.bytes.items():
            print("  %-16s %8.2f bytes for each changed value" % (name, nbytes / max(1, self.count)))
        for (what, count), seconds in self.seconds.items():
            print("  %-16s %8.2f GiB/s with %d thread%s, %.2f of memcpy"
                  % (what, gib / seconds, count, "s"[:count - 1], self.memcpy / seconds))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("files", nargs="*", metavar="OLD NEW")
    given = parser.parse_args()
    if len(given.files) % 2:
        parser.error("files come in pairs")
    sys.path.insert(0, os.path.join(ROOT, "python"))
    import lmcodec
    import numpy
    import zstandard

    data = os.path.join(ROOT, "examples", "data")
    files = given.files or sorted(os.path.join(data, name) for name in os.listdir(data)
                                  if name.endswith(".bf16.safetensors"))
    modules = argparse.Namespace(numpy=numpy, zstandard=zstandard)
    cases = [lambda share=share: Case("%g %% at random" % (100 * share),
                                      *random_pair(share, given.mib * MIB, numpy), modules) for share in SHARES]
    cases += [lambda pair=files[i:i + 2]: Case(" -> ".join(map(os.path.basename, pair)),
                                               *file_pair(pair, given.mib * MIB, numpy), modules)
              for i in range(0, len(files), 2)]
    reports = []
    for make in cases:
        case = make()  # one at a time in memory
        for _ in range(given.rounds):
            case.measure(lmcodec, (1, 2))
        case.show()
        reports.append(case.report())
    write_report(given.json, {**circumstances(), "kernels": lmcodec.kernels(), "cases": reports})


if __name__ == "__main__":
    main()
