"""The commands that look at files and at the machine: info, diff, bench, doctor; ls beside them."""
import itertools
import json
import os
import random
import struct
import subprocess

import pytest

from support import (HOSTILE, archive_of, check, check_no_controls, check_only, flip, get, in_directory, model, read,
                     small_model, weights)


# ---- info ----

def test_info_of_both_kinds(tool, directory):
    content = small_model(36)
    path = in_directory(directory, content)
    archive = archive_of(tool, path)
    for file, form in ((path, "safetensors"), (archive, "lmc")):
        facts = json.loads(tool.run("info", file, "--json").expect(0).stdout)
        check(facts["format"] == form and facts["version"] == (1 if form == "lmc" else None), "format")
        check(facts["file"] == file and facts["base"] is None and facts["tensors"] == 8, "facts")
        check(facts["nbytes"] == len(content) and facts["stored_nbytes"] == os.path.getsize(file), "sizes")
        check(abs(facts["ratio"] - facts["stored_nbytes"] / facts["nbytes"]) < 1e-6, "ratio")
        check(facts["parameters"] == 2000 + 600 + 600 + 2 + 2 + 0 + 1000 + 1000, "parameters")
        check(facts["metadata"] == {"format": "pt"}, "metadata")
        check({name: (entry["tensors"], entry["nbytes"]) for name, entry in facts["dtypes"].items()}
              == {"BF16": (3, 8000), "U8": (2, 1200), "F32": (3, 16)}, "dtypes")
        listed = json.loads(tool.run("ls", file, "--json").expect(0).stdout)
        for name, entry in facts["dtypes"].items():
            check(entry["stored_nbytes"] == sum(t["stored_nbytes"] for t in listed if t["dtype"] == name), name)
        text = tool.run("info", file).expect(0).stdout
        check("parameters:    5204\n" in text and "  format = pt\n" in text, "text: " + text)


def test_info_counts_narrow_elements(tool, directory):
    tensors = [("4", "F4", [3, 2], b"abc"), ("6", "F6_E2M3", [4], b"abc"), ("c", "C64", [2], bytes(16)),
               ("s", "F64", [], bytes(8))]
    path = in_directory(directory, model(tensors))
    facts = json.loads(tool.run("info", path, "--json").expect(0).stdout)
    check(facts["parameters"] == 6 + 4 + 2 + 1, "parameters %d" % facts["parameters"])
    path = in_directory(directory, model([]))
    facts = json.loads(tool.run("info", path, "--json").expect(0).stdout)
    check(facts["dtypes"] == {} and facts["metadata"] == {} and facts["tensors"] == 0, "an empty file")


@pytest.mark.posix("names with control characters")
def test_hostile_text(tool, directory):
    metadata = {HOSTILE: HOSTILE * 500, "long": "y" * 10000, **{"k%d" % i: "v" for i in range(100)}}
    name = HOSTILE * 30
    path = in_directory(directory, model([(name, "U8", [2], b"ab"), ("x" + HOSTILE, "U8", [1], b"c")], metadata),
                        "\x1bm\xff")
    other = in_directory(directory, model([(name, "U8", [2], b"xx"), ("y" + HOSTILE, "U8", [1], b"c")]), "n")
    bad_path = os.path.join(directory.encode(), b"\xff\"\x1b")
    os.link(path, bad_path)
    archive = archive_of(tool, path)
    for file in (path, archive):
        text = tool.run("info", file).expect(0).stdout
        check_no_controls(text)
        check(len(text) < 8000 and "102 entries" in text, "the text is too long")
        check(json.loads(tool.run("info", file, "--json").expect(0).stdout)["metadata"] == metadata, "metadata")
        for arguments in (["ls", file], ["diff", file, other]):
            result = tool.run(*arguments)
            check_no_controls(result.stdout)
            check(json.loads(tool.run(*arguments, "--json").stdout) is not None, "JSON")
        found = json.loads(tool.run("diff", file, other, "--json").stdout)
        names = (found["changed"], found["added"], found["removed"])
        check(names == ([name], ["y" + HOSTILE], ["x" + HOSTILE]), "diff: %r" % found)
        check_no_controls(tool.run("diff", file, other, "--json").stdout)
        check(json.loads(tool.run("ls", file, "--json").stdout)[0]["name"] == name, "ls")
    shown = json.loads(tool.run("info", bad_path, "--json").expect(0).stdout)["file"]
    check(shown.endswith("\ufffd\"\x1b"), "a path that is no UTF-8: %r" % shown)
    check_no_controls(tool.run("info", bad_path).expect(0).stdout)


def test_inspecting_bad_files(tool, directory):
    good = in_directory(directory, small_model(37), "good")
    archive = archive_of(tool, good)
    bad = {"empty": (b"", 1), "text": (b"hello, this is no model", 1), "cut": (read(good)[:-1], 1),
           "short": (read(archive)[:-1], 1), "header": (read(good)[:8] + b"[" + read(good)[9:], 1)}
    for name, (content, status) in bad.items():
        path = in_directory(directory, content, name)
        for arguments in (["info", path], ["get", path, "embed"], ["diff", path, good], ["diff", good, path],
                          ["bench", path], ["info", path, "--json"]):
            result = tool.run(*arguments).expect(status, name)
            check(result.stdout == "", "output beside a fault")
    for arguments in (["info", "absent"], ["get", "absent", "x"], ["diff", good, "absent"], ["bench", "absent"]):
        tool.run(*arguments, cwd=directory).expect(3, "absent")
    for arguments in (["info"], ["info", good, good], ["diff", good], ["diff", good, good, good], ["bench"],
                      ["bench", good, good], ["info", good, "-j1"],
                      ["get", good, "embed", "--json"],
                      ["doctor", "-q"], ["diff", good, good, "--range", ":"]):
        tool.run(*arguments).expect(2, "--help")


# ---- diff ----

def four_ways(tool, old, new):
    """Pairs of files that say the same, plain and archived."""
    archives = [archive_of(tool, old), archive_of(tool, new)]
    return [(old, new), (old, archives[1]), (archives[0], new), (archives[0], archives[1])]


def test_diff_finds_every_change(tool, directory):
    rng = random.Random(38)
    big = weights(rng, 2000) * 150
    old = [("same", "BF16", [300_000], big), ("late", "BF16", [300_000], big),
           ("noise", "U8", [500_000], rng.randbytes(500_000)),
           ("short", "F32", [2], b"12345678"), ("type", "F32", [2], b"12345678"),
           ("shape", "BF16", [2, 3], b"123456789012"),
           ("gone", "U8", [1], b"x"), ("none", "F32", [0], b""), ("void", "F32", [0, 3], b""),
           ("scalar", "F32", [], b"abcd")]
    noise = bytearray(old[2][3])
    noise[-1] ^= 1
    new = [("new", "U8", [1], b"x"), ("scalar", "F32", [], b"abcd"), ("same", "BF16", [300_000], big),
           ("late", "BF16", [300_000], big[:-1] + b"\x01"), ("noise", "U8", [500_000], bytes(noise)),
           ("short", "F32", [2], b"12345679"), ("type", "I32", [2], b"12345678"),
           ("shape", "BF16", [3, 2], b"123456789012"),
           ("none", "F32", [0], b""), ("void", "F32", [3, 0], b"")]
    one = in_directory(directory, model(old), "old")
    two = in_directory(directory, model(new), "new")
    for pair in four_ways(tool, one, two):
        for options in (["-j1"], ["-j4"]):
            result = tool.run("diff", *pair, *options)
            check(result.status == 1 and result.stderr == "", "exit %d: %s" % (result.status, result.stderr))
            check(result.stdout == "~ late: content\n~ noise: content\n~ short: content\n~ type: F32 [2] -> I32 [2]\n"
                  "~ shape: BF16 [2,3] -> BF16 [3,2]\n~ void: F32 [0,3] -> F32 [3,0]\n- gone\n+ new\n"
                  "3 equal, 6 changed, 1 added, 1 removed\n", "diff: " + result.stdout)
        found = json.loads(tool.run("diff", *pair, "--json").stdout)
        check(found == {"equal": 3, "changed": ["late", "noise", "short", "type", "shape", "void"], "added": ["new"],
                        "removed": ["gone"], "retyped": ["type", "shape", "void"], "header_equal": False},
              "JSON: %r" % found)
        quiet = tool.run("diff", *pair, "-q")
        check(quiet.status == 1 and quiet.stdout == "" and quiet.stderr == "", "-q")


def test_diff_of_equal_files(tool, directory):
    one = in_directory(directory, small_model(39), "one")
    two = in_directory(directory, small_model(39), "two")
    for pair in four_ways(tool, one, two) + [(one, one + ".lmc")]:
        result = tool.run("diff", *pair).expect(0)
        check(result.stdout == "8 equal, 0 changed, 0 added, 0 removed\n", "diff: " + result.stdout)
        check(json.loads(tool.run("diff", *pair, "--json").expect(0).stdout)
              == {"equal": 8, "changed": [], "added": [], "removed": [], "retyped": [], "header_equal": True}, "JSON")
        check(tool.run("diff", *pair, "-q").expect(0).stdout == "", "-q")


def test_diff_of_headers(tool, directory):
    tensors = [("a", "U8", [2], b"ab"), ("b", "U8", [2], b"cd")]
    one = in_directory(directory, model(tensors, {"k": "v"}), "one")
    for content, what in ((model(tensors, {"k": "w"}), "metadata"), (model(tensors), "metadata"),
                          (model(tensors[::-1], {"k": "v"}), "order"),
                          (model(tensors, {"k": "v"}, padding=False), "text or padding")):
        two = in_directory(directory, content, "two")
        for pair in four_ways(tool, one, two):
            result = tool.run("diff", *pair).expect(0)
            check(result.stdout == "2 equal, 0 changed, 0 added, 0 removed; the headers differ: %s\n" % what,
                  "diff: " + result.stdout)
            check(json.loads(tool.run("diff", *pair, "--json").expect(0).stdout)["header_equal"] is False, "JSON")


def test_diff_of_levels(tool, directory):
    """Archives of other settings: other frames, the same content."""
    rng = random.Random(40)
    values = b"".join(struct.pack("<f", rng.gauss(0, 1)) for _ in range(50_000))
    path = in_directory(directory, model([("a", "F32", [50_000], values)]))
    out = [path + "." + level for level in ("fast", "default", "max")]
    for name in out:
        tool.run("convert", path, "-o", name, "--level", name.rsplit(".", 1)[1]).expect(0)
    for pair in itertools.combinations(out, 2):
        check(tool.run("diff", *pair).expect(0).stdout.startswith("1 equal, 0 changed"), "levels")


def test_diff_of_damaged_archives(tool, directory):
    rng = random.Random(41)
    one = in_directory(directory, model([("a", "BF16", [70_000], weights(rng, 70_000))]), "one")
    two = in_directory(directory, model([("a", "BF16", [70_000], weights(rng, 70_000))]), "two")
    archives = [archive_of(tool, one), archive_of(tool, two)]
    flip(archives[1], -3)  # the check of the frame's tail
    for pair in ((one, archives[1]), (archives[1], one), archives, archives[::-1]):
        tool.run("diff", *pair).expect(1, "two.lmc", 'tensor "a"')


# ---- aliases ----

def test_aliases(tool, directory):
    rng = random.Random(42)
    data = weights(rng, 5000)
    content = model([("embed", "BF16", [50, 100], data), ("head", "BF16", [50, 100], data),
                     ("more", "BF16", [10], data[:20])])
    path = in_directory(directory, content)
    archive = archive_of(tool, path)
    listed = {entry["name"]: entry for entry in json.loads(tool.run("ls", archive, "--json").expect(0).stdout)}
    check(listed["embed"]["mode"] == "coded" and listed["head"]["mode"] == "alias", "modes: %r" % listed)
    check(listed["head"]["stored_nbytes"] == 0 and listed["head"]["ratio"] == 0, "size of an alias")
    check(" alias\n" in tool.run("ls", archive).expect(0).stdout, "ls")
    check(get(tool, archive, "head[7]") == data[1400:1600] and get(tool, archive, "head") == data, "get")
    check(json.loads(tool.run("info", archive, "--json").expect(0).stdout)["parameters"] == 10010, "info")
    other = in_directory(directory,
                         model([("embed", "BF16", [50, 100], data), ("head", "BF16", [50, 100], data[:-1] + b"\0"),
                                           ("more", "BF16", [10], data[:20])]), "other")
    for pair in four_ways(tool, path, other):
        check(tool.run("diff", *pair).stdout == "~ head: content\n2 equal, 1 changed, 0 added, 0 removed\n", "diff")


# ---- the machine ----

@pytest.mark.posix("TMPDIR: Wine itself writes there")
def test_doctor(tool, directory):
    facts = json.loads(tool.run("doctor", "--json").expect(0).stdout)
    check(facts["version"] == tool.run("--version").stdout.split()[1], "version")
    check(facts["archive_version"] == 1 and facts["frame_version"] == 1 and facts["problems"] == [],
          "facts: %r" % facts)
    check(facts["kernels"] in facts["kernels_available"] and facts["kernels_available"][-1] == "scalar", "kernels")
    check(facts["threads"] >= 1 and facts["temp_usable"] is True, "facts: %r" % facts)
    text = tool.run("doctor").expect(0).stdout
    check("kernels:       " + facts["kernels"] in text and "problem" not in text, "text: " + text)
    for wanted, status in [(name, 0) for name in facts["kernels_available"]] + [("\x1bneon\xff", 3)]:
        result = subprocess.run([tool.path, "doctor", "--json"],
                                env={**os.environ, "LMC_KERNELS": wanted, "TMPDIR": directory},
                                stdout=subprocess.PIPE, check=False)
        found = json.loads(result.stdout)
        check(result.returncode == status and found["kernels_available"] == facts["kernels_available"], "LMC_KERNELS")
        check(found["kernels_wanted"] == wanted.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
              "wanted")
        check(found["kernels"] == (wanted if status == 0 else facts["kernels"]), "in use")
        check(found["temp_directory"] == directory and len(found["problems"]) == (status != 0), "rest: %r" % found)


@pytest.mark.posix("TMPDIR: Wine itself writes there")
def test_doctor_of_a_bad_directory(tool, directory):
    """Streams go to the next one."""
    absent = os.path.join(directory, "absent\x1b")
    for arguments in (["doctor"], ["doctor", "--json"]):
        result = subprocess.run([tool.path, *arguments], env={**os.environ, "TMPDIR": absent}, stdout=subprocess.PIPE,
                                check=False)
        text = result.stdout.decode()
        check(result.returncode == 0 and "/var/tmp" in text, "exit %d: %s" % (result.returncode, text))
        check_no_controls(text)


@pytest.mark.slow
def test_bench(tool, directory):
    rng = random.Random(43)
    path = in_directory(directory,
                        model([("a", "BF16", [400, 500], weights(rng, 2000) * 100), ("n", "U8", [5], b"12345"),
                               ("e", "U8", [0], b"")]))
    archive = archive_of(tool, path)
    sets = json.loads(tool.run("doctor", "--json").expect(0).stdout)["kernels_available"]
    rows = []
    for name in sets:
        done = tool.run("bench", archive, "--json", "-j2", more_environment={"LMC_KERNELS": name}).expect(0)
        rows += json.loads(done.stdout)
    check([(row["kernels"], row["level"]) for row in rows]
          == [(name, level) for name in sets for level in ("fast", "default", "max")], "rows: %r" % rows)
    for row in rows:
        check(set(row) == {"level", "kernels", "threads", "base", "ratio", "encode_GiB_s", "decode_GiB_s",
                           "memcpy_GiB_s"}, "keys")
        check(row["base"] is False and row["threads"] == 2 and 0.4 < row["ratio"] < 1.0, "row: %r" % row)
        check(min(row["encode_GiB_s"], row["decode_GiB_s"], row["memcpy_GiB_s"]) > 0, "row: %r" % row)
        check(row["ratio"] == next(r["ratio"] for r in rows if r["level"] == row["level"]), "ratios of kernel sets")
    check_only(directory, "m.safetensors", "m.safetensors.lmc")
    empty = in_directory(directory, model([("e", "U8", [0], b"")]), "empty")
    tool.run("bench", empty).expect(2, "nothing to measure")


def test_bench_of_a_damaged_archive(tool, directory):
    path = in_directory(directory, small_model(44))
    archive = archive_of(tool, path)
    flip(archive, -40)
    result = tool.run("bench", archive).expect(1, 'tensor "layer.1"')
    check(result.stdout == "", "rows of damaged tensors")


@pytest.mark.posix("signals")
def test_bench_is_cancelled(tool, directory):
    path = in_directory(directory, small_model(45))
    process = tool.start("bench", path)
    first = process.stdout.readline()  # the first level has been measured
    process.terminate()
    rest = process.communicate()[0]
    check(process.returncode == 143 and first.startswith(b"7 of 8 tensors"),
          "exit %d: %r" % (process.returncode, first + rest))
    process = tool.start("bench", "--json", path)
    first = os.read(process.stdout.fileno(), 4096)
    process.terminate()
    told = json.loads(first + process.communicate()[0])
    check(process.returncode == 143 and len(told) > 0, "exit %d: %s" % (process.returncode, told))


# ---- help ----

def test_help_fits_a_screen(tool, directory):
    general = tool.run("--help").expect(0).stdout
    listed = general.split("\n\n")[1]
    commands = [line.split()[1] for line in listed.splitlines()]
    check(len(commands) >= 9 and "get" in commands, "commands: %r" % commands)
    for text in [general] + [tool.run(command, "--help").expect(0).stdout for command in commands]:
        lines = text.splitlines()
        check(len(lines) <= 24 and max(len(line) for line in lines) <= 80, "too large for a screen: " + text)
