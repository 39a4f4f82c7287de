"""lmc-st analyze: its numbers beside those of a few lines of Python, and beside what convert writes."""
import collections
import json
import math
import os
import random
import signal
import struct
import time

import pytest

from support import (BITS, HOSTILE, Archive, archive_of, check, check_no_controls, check_only, end_with, flip,
                     in_directory, model, read, small_model, sparse_model, weights, write)

SIGN_BITS = {"F8_E8M0": 0}
EXPONENT_BITS = {"F8_E5M2": 5, "F8_E4M3": 4, "F8_E8M0": 8, "F16": 5, "BF16": 8, "F32": 8, "C64": 8, "F64": 11}
KEYS = ["name", "dtype", "shape", "nbytes", "planes", "sign", "exponent", "mantissa", "symbols", "changed",
        "changed_bits", "ulp", "predicted_ratio", "ratio", "mode", "form", "rans"]
DTYPES = ["U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F4", "I16", "F16", "BF16", "I32", "F32", "C64", "I64", "F64"]


def analyze(tool, *arguments, **options):
    return json.loads(tool.run("analyze", "--json", *arguments, **options).expect(0).stdout)


def tensors_of(found, number=0):
    return {tensor["name"]: tensor for tensor in found[number]["tensors"]}


# ---- the same in Python ----

def width_of(dtype):
    return 4 if dtype == "C64" else max(8, BITS[dtype]) // 8


def elements(dtype, content):
    width = width_of(dtype)
    return [int.from_bytes(content[i:i + width], "little") for i in range(0, len(content), width)]


def entropy(values):
    counts = collections.Counter(values).values()
    total = sum(counts)
    return sum(count / total * math.log2(total / count) for count in counts)


def parts_entropy(dtype, values):
    """Of sign, exponent and mantissa; what lies below the top 16 bits is taken byte by byte."""
    nbits, exponent_nbits, sign_nbits = 8 * width_of(dtype), EXPONENT_BITS[dtype], SIGN_BITS.get(dtype, 1)
    high_nbits = min(16, nbits)
    mantissa_nbits = high_nbits - sign_nbits - exponent_nbits
    high = [value >> (nbits - high_nbits) for value in values]
    lower = [entropy([value >> shift & 255 for value in values]) for shift in range(0, nbits - high_nbits, 8)]
    sign = entropy([value >> (high_nbits - 1) for value in high]) if sign_nbits else 0
    return (sign, entropy([value >> mantissa_nbits & (1 << exponent_nbits) - 1 for value in high]),
            entropy([value & (1 << mantissa_nbits) - 1 for value in high]) + sum(lower))


def ordered(dtype, value):
    nbits = 8 * width_of(dtype)
    top = 1 << (nbits - 1)
    if dtype in EXPONENT_BITS and SIGN_BITS.get(dtype, 1):
        return -(value - top) if value & top else value
    return value - 2 * top if dtype.startswith("I") and value & top else value


def changes(dtype, old, new):
    """Share of values, share of bits, and counts of distances by power of two."""
    counts = collections.Counter(abs(ordered(dtype, a) - ordered(dtype, b)).bit_length() for a, b in zip(old, new))
    changed = sum(a != b for a, b in zip(old, new))
    nbits = sum(bin(a ^ b).count("1") for a, b in zip(old, new))
    return (changed / len(new), nbits / (len(new) * 8 * width_of(dtype)),
            [counts[length] for length in range(max(counts) + 1)])


def near(found, wanted):
    return abs(found - wanted) < 2e-6


def moved(rng, dtype, content):
    """Some values by a few last places, some to any bits, some with another sign."""
    width = width_of(dtype)
    limit = 1 << 8 * width
    ways = [lambda value: value, lambda value: value + rng.randrange(-5, 6), lambda value: rng.randrange(limit),
            lambda value: value ^ limit >> 1]
    values = [rng.choices(ways, (5, 8, 1, 1))[0](value) % limit for value in elements(dtype, content)]
    return b"".join(value.to_bytes(width, "little") for value in values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers(tool, directory, dtype):
    rng = random.Random(201)
    width = width_of(dtype)
    old = b"".join(min(int(abs(rng.gauss(0, 0.1)) * 2**(8 * width - 1)), 2**(8 * width) - 1).to_bytes(width, "little")
                   for _ in range(3000))
    new = moved(rng, dtype, old)
    shape = [len(new) * 8 // BITS[dtype]]
    paths = [in_directory(directory, model([("t", dtype, shape, content)]), name)
             for name, content in (("old", old), ("new", new))]
    found = analyze(tool, *paths)
    check([file["file"] for file in found] == paths, "files")
    for number, content in enumerate((old, new)):
        tensor, values = tensors_of(found, number)["t"], elements(dtype, content)
        check(list(tensor) == KEYS, "keys %s" % list(tensor))
        check((tensor["dtype"], tensor["shape"], tensor["nbytes"]) == (dtype, shape, len(content)), "what it is")
        planes = [entropy([value >> 8 * i & 255 for value in values]) for i in reversed(range(width))]
        check(len(planes) == len(tensor["planes"]) and all(map(near, tensor["planes"], planes)), "planes")
        parts = [tensor[name] for name in ("sign", "exponent", "mantissa")]
        if dtype in EXPONENT_BITS:
            check(all(map(near, parts, parts_entropy(dtype, values))), "parts %s" % parts)
        else:
            check(parts == [None, None, None], "parts %s" % parts)
        check({key: found[number]["all"][0][key] for key in KEYS[3:-3]} == {key: tensor[key] for key in KEYS[3:-3]},
              "the sum over one tensor")
    first, second = tensors_of(found)["t"], tensors_of(found, 1)["t"]
    check(first["changed"] is first["changed_bits"] is first["ulp"] is None, "changes of the first file")
    changed, nbits, counts = changes(dtype, elements(dtype, old), elements(dtype, new))
    check(near(second["changed"], changed) and near(second["changed_bits"], nbits), "changed")
    check(second["ulp"] == counts, "distances %s, not %s" % (second["ulp"], counts))


def test_zeros_of_both_signs(tool, directory):
    paths = [in_directory(directory, model([("t", "BF16", [400], content * 400)]), name)
             for name, content in (("plus", b"\0\0"), ("minus", b"\0\x80"))]
    tensor = tensors_of(analyze(tool, *paths), 1)["t"]
    check(tensor["changed"] == 1 and tensor["ulp"] == [400], "zeros: %s" % tensor)
    check(near(tensor["changed_bits"], 1 / 16), "bits")


# ---- what LMC makes of it ----

def training(rng):
    """Two snapshots, with tensors of several kinds."""
    columns = [rng.gauss(0, 2) for _ in range(64)]
    moments = b"".join(struct.pack("<f", abs(rng.gauss(0, 1)) * 2**columns[i % 64]) for i in range(64 * 300))
    old = [("w", "BF16", [100, 200], weights(rng, 20000)), ("v", "F32", [300, 64], moments),
           ("noise", "U8", [3000], rng.randbytes(3000)), ("long", "I32", [70000], bytes(280000)),
           ("bias", "BF16", [64], weights(rng, 64)), ("empty", "F32", [0, 4], b"")]
    new = [(name, dtype, shape, moved(rng, dtype, content)) for name, dtype, shape, content in old]
    return model(old), model(new)


def listed(tool, *arguments):
    return json.loads(tool.run("ls", "--json", *arguments).expect(0).stdout)


def same_values(a, b):
    """All that does not depend on how the file is stored."""
    return all(a[key] == b[key] for key in KEYS[:12])


def test_ratios_are_those_of_convert(tool, directory):
    paths = [in_directory(directory, content, name)
             for name, content in zip(("old.safetensors", "new.safetensors"), training(random.Random(202)))]
    alone, based = os.path.join(directory, "alone.lmc"), os.path.join(directory, "based.lmc")
    tool.run("convert", paths[1], "-o", alone).expect(0)
    tool.run("convert", paths[1], "-o", based, "--base", paths[0]).expect(0)
    found = {"plain": tensors_of(analyze(tool, paths[1])), "pair": tensors_of(analyze(tool, *paths), 1),
             "alone": tensors_of(analyze(tool, alone)), "based": tensors_of(analyze(tool, paths[0], based), 1)}
    for ways, archive in ((("plain", "alone"), alone), (("pair", "based"), based)):
        for tensor in listed(tool, archive):
            name = tensor["name"]
            for way in ways:
                one = found[way][name]
                check((one["ratio"], one["mode"]) == (tensor["ratio"], tensor["mode"]),
                      "%s %s: %s %s, not %s %s" % (way, name, one["ratio"], one["mode"], tensor["ratio"],
                                                  tensor["mode"]))
    check(all(same_values(found["plain"][name], found["alone"][name]) for name in found["plain"]), "plain, archive")
    check(all(same_values(found["pair"][name], found["based"][name]) for name in found["pair"]), "pair, archive")
    check({tensor["mode"] for tensor in found["pair"].values()} >= {"delta", "short"}, "modes")
    check(found["plain"]["empty"]["ratio"] is found["plain"]["empty"]["symbols"] is None, "an empty tensor")
    check_only(directory, "old.safetensors", "new.safetensors", "alone.lmc", "based.lmc")


def test_predictions(tool, directory):
    """Values without other order than their frequencies take what their entropies say."""
    rng = random.Random(203)
    old = weights(rng, 60000)
    new = b"".join(struct.pack("<H", value + rng.choice((-1, 0, 0, 1))) for value, in struct.iter_unpack("<H", old))
    noise = rng.randbytes(5000)
    paths = [in_directory(directory, model([("w", "BF16", [60000], content), ("noise", "BF16", [2500], noise)]), name)
             for name, content in (("old", old), ("new", new))]
    first, second = (tensors_of(analyze(tool, *paths), number) for number in (0, 1))
    check(first["w"]["mode"] == "coded" and second["w"]["mode"] == "delta", "modes")
    for tensor in (first["w"], second["w"]):
        check(abs(tensor["predicted_ratio"] - tensor["ratio"]) < 0.01, "predicted: %s" % tensor)
    check(abs(second["w"]["predicted_ratio"] - 1.5 / 16) < 0.005, "1.5 bits a value")
    exponent, mantissa = first["w"]["exponent"], first["w"]["mantissa"]
    check(exponent + 1 < first["w"]["symbols"] < exponent + mantissa, "joint symbols have bits of the mantissa")
    check(near(first["noise"]["symbols"], first["noise"]["exponent"]), "noise: the 8 upper bits without the sign")


def test_sums(tool, directory):
    path = in_directory(directory, small_model())
    archive = archive_of(tool, path)
    found = analyze(tool, path)[0]
    check([entry["dtype"] for entry in found["all"]] == ["U8", "BF16", "F32"], "dtypes")
    for entry in found["all"]:
        own = [tensor for tensor in found["tensors"] if tensor["dtype"] == entry["dtype"]]
        nbytes = sum(tensor["nbytes"] for tensor in own)
        check(list(entry) == KEYS, "keys")
        check({entry[key] for key in ("name", "shape", "mode", "form", "rans")} == {None}, "no keys of one tensor")
        check(entry["nbytes"] == nbytes, "bytes")
        stored = sum(tensor["stored_nbytes"] for tensor in listed(tool, archive) if tensor["dtype"] == entry["dtype"])
        check(near(entry["ratio"], stored / nbytes), "ratio")
        check(near(entry["symbols"], sum(tensor["symbols"] * tensor["nbytes"] for tensor in own
                                         if tensor["nbytes"]) / nbytes), "symbols")


# ---- files ----

def test_pairs_have_one_dtype_and_shape(tool, directory):
    rng = random.Random(204)
    content = rng.randbytes(1200)
    old = in_directory(directory, model([("a", "U8", [1200], content), ("b", "F32", [300], content),
                                         ("gone", "U8", [1200], content)]), "old")
    new = in_directory(directory, model([("a", "I8", [1200], content), ("b", "F32", [10, 30], content),
                                         ("new", "U8", [1200], content)]), "new")
    for name, tensor in tensors_of(analyze(tool, old, new), 1).items():
        check(tensor["changed"] is None and tensor["mode"] != "delta", name)
    for name, tensor in tensors_of(analyze(tool, old, new, new), 2).items():
        check(tensor["changed"] == 0 and tensor["ulp"] == [tensor["nbytes"] // len(tensor["planes"])], name)


def test_other_files(tool, directory):
    values = struct.pack("<1000d", *(random.Random(205).gauss(0, 1) for _ in range(1000)))
    head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (10, 100), }".ljust(117) + b"\n"
    path = write(os.path.join(directory, "array.npy"), b"\x93NUMPY\x01\0" + struct.pack("<H", 118) + head + values)
    tensor = analyze(tool, path)[0]["tensors"][0]
    check((tensor["dtype"], tensor["shape"], len(tensor["planes"])) == ("F64", [10, 100], 8), "an array")
    odd = write(os.path.join(directory, "odd"), values + b"abc")
    tool.run("analyze", odd).expect(1, "odd")
    check([tensor["nbytes"] for tensor in analyze(tool, "--raw", odd)[0]["tensors"]] == [len(values)], "--raw")
    empty = in_directory(directory, model([]), "empty")
    none = {"tensors": 0, "nbytes": 0, "stored_nbytes": 0}
    check(analyze(tool, empty, path)[0]
          == {"file": empty, "tensors": [], "all": [], "forms": {}, "rans": none}, "an empty file")
    check(tool.run("analyze", empty).expect(0).stdout.count("\n") == 2, "the table of an empty file")


def test_deltas_elsewhere(tool, directory):
    rng = random.Random(206)
    bases = os.path.join(directory, "bases")
    os.mkdir(bases)
    content = weights(rng, 5000)
    base = in_directory(bases, model([("w", "BF16", [5000], content)]))
    path = in_directory(directory, model([("w", "BF16", [5000], moved(rng, "BF16", content))]), "new")
    tool.run("convert", path, "--base", base).expect(0)
    tool.run("analyze", path + ".lmc").expect(1, "m.safetensors")
    found = analyze(tool, "--base-dir", bases, path + ".lmc")[0]["tensors"][0]
    check(found["mode"] == "delta" and found["changed"] is None, "a delta")
    check(same_values(found, analyze(tool, path)[0]["tensors"][0]), "values")


@pytest.mark.posix("names with control characters")
def test_table(tool, directory):
    contents = training(random.Random(207))
    paths = [in_directory(directory, content, name) for name, content in zip(("old", "new"), contents)]
    text = tool.run("analyze", *paths).expect(0).stdout
    check(len([line for line in text.splitlines() if line.endswith(" delta")]) >= 2, "deltas: " + text)
    check("all 2 tensors" in text and "BF16, distances in last places:" in text, "sums: " + text)
    check(text.splitlines()[0] == paths[0] and paths[1] in text.splitlines(), "names of files")
    hostile = in_directory(directory, model([(HOSTILE * 30, "U8", [300], bytes(300))]), "\x1bm")
    check_no_controls(tool.run("analyze", hostile).expect(0).stdout)
    check(tensors_of(analyze(tool, hostile)).keys() == {HOSTILE * 30}, "names in JSON")


def test_bad_files(tool, directory):
    good = in_directory(directory, small_model())
    archive = archive_of(tool, good)
    damaged = bytearray(read(archive))
    damaged[-300] ^= 1
    for name, content in (("cut", read(good)[:-1]), ("text", b"hello"), ("damaged", bytes(damaged))):
        path = in_directory(directory, content, name)
        tool.run("analyze", path).expect(1, name)
        tool.run("analyze", good, path).expect(1, name)
        tool.run("analyze", path, "--json").expect(1, name)
    tool.run("analyze", "absent", cwd=directory).expect(3, "absent")
    tool.run("analyze").expect(2, "--help")
    tool.run("analyze", good, "-j2").expect(2, "--help")
    tool.run("analyze", directory).expect(2, "directory")


# ---- large files ----

@pytest.mark.slow
def test_memory_does_not_grow_with_tensors(tool, directory):
    path = sparse_model(os.path.join(directory, "zeros.safetensors"), 0.5)
    tensor = analyze(tool, path, path, address_space=160 << 20)[1]["tensors"][0]
    check(tensor["nbytes"] == 1 << 29 and tensor["ulp"] == [1 << 28] and tensor["symbols"] == 0, "zeros: %s" % tensor)


def test_a_signal_ends_it(tool, directory):
    path = sparse_model(os.path.join(directory, "zeros.safetensors"), 64)
    process = tool.start("analyze", path)
    while not any(os.path.realpath("/proc/%d/fd/%s" % (process.pid, number)) == path
                  for number in os.listdir("/proc/%d/fd" % process.pid)):
        check(process.poll() is None, "it ended before the signal")
        time.sleep(0.002)
    check(end_with(process, signal.SIGINT) == 130, "exit status %s" % process.returncode)


# ---- faults ----

def damaged_archive(tool, directory, name):
    """An archive of "a" and "b", of which "b" has a damaged frame."""
    rng = random.Random(12)
    tensors = [("a", "BF16", [3000], weights(rng, 3000)), ("b", "BF16", [3000], weights(rng, 3000))]
    path = archive_of(tool, in_directory(directory, model(tensors), name))
    return flip(path, read(path).index(Archive(read(path)).part("b")[1]), 0xff)


def test_goes_on_behind_a_fault(tool, directory):
    """With the next file, which is compared with none then; the worst exit status counts."""
    good = in_directory(directory, small_model())
    bad = damaged_archive(tool, directory, "bad")
    alone = tool.run("analyze", good).expect(0).stdout
    for fault, status in ((in_directory(directory, b"x", "text"), 1), (bad, 1), (os.path.join(directory, "absent"), 3)):
        name = os.path.basename(fault)
        text = tool.run("analyze", good, fault, good).expect(status, name).stdout
        check(text.startswith(alone) and text.endswith("\n" + alone), text)
        check(tool.run("analyze", fault, good).expect(status, name).stdout.endswith(alone), name)


def test_json_with_faults(tool, directory):
    """What was begun is ended."""
    good = in_directory(directory, small_model())
    bad = damaged_archive(tool, directory, "bad")
    absent = os.path.join(directory, "absent")
    check(tool.run("analyze", "--json", absent).expect(3, "absent").stdout == "[]\n", "nothing to tell")
    for files, told in (((good, absent), [good]), ((absent, good), [good]), ((good, bad, good), [good, bad, good]),
                        ((bad, absent), [bad])):
        found = json.loads(tool.run("analyze", "--json", *files).expect(3 if absent in files else 1).stdout)
        check([entry["file"] for entry in found] == told, str(files))
        for entry in found:
            is_whole = entry["file"] == good
            check([entry[key] is not None for key in ("all", "forms", "rans")] == 3 * [is_whole], entry["file"])
            check(is_whole or [tensor["name"] for tensor in entry["tensors"]] == ["a"], "tensors of a damaged file")
            check(all(tensor["changed"] is None for tensor in entry["tensors"]), "compared")
    listed = json.loads(tool.run("ls", "--json", bad).expect(1, "bad").stdout)
    check([tensor["name"] for tensor in listed] == ["a"], "ls: %s" % listed)
