"""The commands that look into files: info, get, diff, bench, doctor; ls beside them."""
import itertools
import json
import os
import pty
import random
import struct
import subprocess

from support import BITS, Archive, case, check, check_only, in_directory, model, read, small_model, weights, write

FEW_MEGABYTES = 192 << 20  # of address space: far less than the files of the cases that use it


def archive_of(tool, path, *options):
    tool.run("convert", path, "-f", *options).expect(0)
    return path + ".lmc"


def contents(content):
    """Name -> (dtype, shape, bytes) of a plain file."""
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"],
                   content[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]])
            for name, entry in header.items()}


def get(tool, *arguments, **limits):
    return tool.run("get", *arguments, **limits).expect(0).output


# ---- slices, as Python makes them ----

def cut(data, bits, shape, picks):
    """Bits of the elements that the picks (slices of ranges) name, in order; None if not whole bytes."""
    strides = [1] * (len(shape) + 1)
    for dim in range(len(shape) - 1, -1, -1):
        strides[dim] = strides[dim + 1] * shape[dim]
    wanted = [range(size)[pick] for size, pick in zip(shape, picks)]
    wanted += [range(size) for size in shape[len(picks):]]
    elements = [sum(index * stride for index, stride in zip(indices, strides[1:]))
                for indices in itertools.product(*wanted)]
    if bits % 8 == 0:
        width = bits // 8
        return b"".join(data[element * width:(element + 1) * width] for element in elements)
    edges = set()
    for element in elements:
        edges ^= {element * bits, (element + 1) * bits}
    if any(edge % 8 for edge in edges):
        return None
    positions = sorted({bit // 8 for element in elements for bit in range(element * bits, (element + 1) * bits)})
    return bytes(data[position] for position in positions)


def random_pick(rng, size):
    """A slice and its text."""
    kind = rng.randrange(4)
    if kind == 0 and size:
        index = rng.randrange(-size, size)
        return slice(index % size, index % size + 1), str(index)
    if kind == 1:
        return slice(None), rng.choice([":", " : "])
    first = rng.randrange(size + 1)
    last = rng.randrange(first, size + 1)
    if kind == 2:
        return slice(first, last), "%d:%d" % (first, last)
    return (slice(first, None), "%d:" % first) if rng.randrange(2) else (slice(None, last), ":%d" % last)


def tensor_of(rng, dtype):
    """Shape and content; frames of every kind come out of it."""
    while True:
        shape = [rng.choice([0, 1, 2, 3, 4, 7, 8, 16]) if rng.randrange(8) == 0 else rng.randrange(1, 17)
                 for _ in range(rng.randrange(1, 5))]
        count = 1
        for size in shape:
            count *= size
        if count * BITS[dtype] % 8 == 0:
            break
    nbytes = count * BITS[dtype] // 8
    kind = rng.randrange(3)
    if kind == 0:
        return shape, rng.randbytes(nbytes)
    if kind == 1:
        return shape, bytes(rng.choice(b"\0\x01\x3c\x3d") for _ in range(nbytes))
    return shape, bytes(nbytes)


@case
def get_slices_as_python_does(tool, directory):
    rng = random.Random(31)
    tensors = [("t%d.%s" % (number, dtype), dtype, *tensor_of(rng, dtype))
               for number in range(3) for dtype in BITS]
    path = in_directory(directory, model(tensors))
    files = [path, archive_of(tool, path)]
    refused = 0
    for turn in range(600 if tool.limits else 60):
        name, dtype, shape, data = rng.choice(tensors)
        picks = [random_pick(rng, size) for size in shape[:rng.randrange(1, len(shape) + 1)]]
        operand = "%s[%s]" % (name, ",".join(text for _, text in picks))
        expected = cut(data, BITS[dtype], shape, [pick for pick, _ in picks])
        result = tool.run("get", files[turn % 2], operand)
        if expected is None:
            result.expect(2, 'tensor "%s"' % name, "whole bytes")
            check(result.output == b"", "bytes beside a refusal")
            refused += 1
        else:
            result.expect(0)
            check(result.output == expected, "%s: %d bytes differ from %d" % (operand, len(result.output),
                                                                              len(expected)))
    check(refused > 0, "no slice was refused")


@case
def get_whole_tensors_and_ranges(tool, directory):
    rng = random.Random(32)
    content = model([("a", "BF16", [300, 1000], weights(rng, 300_000)), ("noise", "U8", [300_000], rng.randbytes(300_000)),
                     ("one", "F32", [], rng.randbytes(4)), ("none", "F32", [0], b"")])
    path = in_directory(directory, content)
    archive = archive_of(tool, path)
    for name, (_, _, data) in contents(content).items():
        for file in (path, archive):
            check(get(tool, file, name) == data, "whole " + name)
            for _ in range(12):
                first = rng.randrange(len(data) + 1)
                last = rng.randrange(first, len(data) + 1)
                check(get(tool, file, name, "--range", "%d:%d" % (first, last)) == data[first:last], "range")
            check(get(tool, file, name, "--range=:") == data, "range :")
            check(get(tool, file, name, "--range=%d:" % (len(data) // 2)) == data[len(data) // 2:], "range A:")
            check(get(tool, file, name, "--range=:%d" % (len(data) // 2)) == data[:len(data) // 2], "range :B")


@case
def get_refusals(tool, directory):
    path = in_directory(directory, small_model())
    archive = archive_of(tool, path)
    for file in (path, archive):
        for arguments, fragments in (
                (["embed", "--range", "0:4001"], ['tensor "embed"', "4001 is beyond the tensor, which has size 4000"]),
                (["embed", "--range", "5:3"], ["begins at 5, behind its end at 3"]),
                (["embed", "--range", "-5:"], ["negative"]), (["embed", "--range", "7"], ["A:B"]),
                (["embed", "--range", ""], ["A:B"]), (["embed[1]", "--range", "0:1"], ["exclude each other"]),
                (["embed[40]"], ["index 40 is outside dimension 0, which has size 40"]),
                (["embed[:,0:51]"], ["51 is beyond dimension 1, which has size 50"]),
                (["embed[-41]"], ["index -41"]), (["embed[::2]"], ["no step"]), (["embed[-2:]"], ["negative"]),
                (["embed[1,2,3]"], ["more indices than dimensions: the rank is 2"]), (["embed[]"], ["expected"]),
                (["embed[\x1b]"], ["expected"]), (["embed[1\x1b[31m]"], ["there is no tensor"]),
                (["embe"], ['there is no tensor "embe"', 'there is "embed"']),
                (["embe[1]"], ['there is no tensor "embe"; there is "embed"']),
                (["\x1b[31mx\n"], ['there is no tensor "\\u001b[31mx\\n"'])):
            result = tool.run("get", file, *arguments).expect(2, file, *fragments)
            check(result.output == b"", "bytes beside a refusal")
        for name in ("", "layer", "nothing", "[0]"):
            result = tool.run("get", file, name).expect(2, "there is no tensor")
            check("there is \"" not in result.stderr, "a suggestion for %r" % name)
        tool.run("get", file).expect(2, "--help")
        tool.run("get", file, "embed", "x").expect(2, "--help")
    tool.run("get", os.path.join(directory, "absent"), "embed").expect(3, "absent")
    tool.run("get", directory, "embed").expect(2)


@case
def get_a_name_that_looks_like_a_slice(tool, directory):
    path = in_directory(directory, model([("a", "U8", [4], b"abcd"), ("a[1]", "U8", [2], b"xy"),
                                          ("a[1][0]", "U8", [1], b"z"), ("[0]", "U8", [2], b"pq"), ("", "U8", [2], b"rs")]))
    for file in (path, archive_of(tool, path)):
        for operand, expected in (("a[2]", b"c"), ("a[1]", b"xy"), ("a[1][1]", b"y"), ("a[1][0]", b"z"),
                                  ("a[1][0][0]", b"z"), ("[0]", b"pq"), ("[1]", b"s"), ("[0][1]", b"q"), ("", b"rs")):
            check(get(tool, file, operand) == expected, "get %r" % operand)


@case
def get_writes_a_file_whole_or_not_at_all(tool, directory):
    rng = random.Random(33)
    content = model([("a", "BF16", [400_000], weights(rng, 400_000))])
    path = in_directory(directory, content)
    archive = archive_of(tool, path)
    os.chmod(archive, 0o640)
    out = os.path.join(directory, "out")
    data = contents(content)["a"][2]
    tool.run("get", archive, "a", "-o", out).expect(0)
    check(read(out) == data, "the bytes differ")
    check(os.stat(out).st_mode & 0o777 == 0o640, "permissions")
    write(out, b"old")
    tool.run("get", archive, "a", "-o", out).expect(2, "exists already")
    check(read(out) == b"old", "the old file was changed")
    tool.run("get", archive, "a[3:5]", "-f", "-o", out).expect(0)
    check(read(out) == data[6:10], "the part differs")
    tool.run("get", archive, "a[0:0]", "-f", "-o", out).expect(0)
    check(read(out) == b"", "not empty")
    tool.run("get", archive, "a", "-f", "-o", archive).expect(2, "same file")
    tool.run("get", archive, "a", "-f", "-o", directory).expect(2, "directory")
    tool.run("get", archive, "a", "-o", os.path.join(directory, "no", "out")).expect(3)
    damaged = bytearray(read(archive))
    damaged[-60_000] ^= 1
    write(archive, bytes(damaged))
    os.unlink(out)
    tool.run("get", archive, "a", "-o", out).expect(1, 'tensor "a"')
    check_only(directory, "m.safetensors", "m.safetensors.lmc")


@case
def get_reads_only_what_it_needs(tool, directory):
    """A damaged block does not matter to those who do not need it; of what is damaged nothing wrong is written."""
    rng = random.Random(34)
    content = model([("a", "BF16", [512, 1024], weights(rng, 4096) * 128), ("b", "U8", [60_000], rng.randbytes(60_000))])
    path = in_directory(directory, content)
    archive = archive_of(tool, path)
    data = contents(content)
    modes = [entry["mode"] for entry in json.loads(tool.run("ls", archive, "--json").expect(0).stdout)]
    check(modes == ["coded", "stored"], "modes: %r" % modes)
    whole = bytearray(read(archive))
    parts = {name: len(part) for name, part in Archive(bytes(whole)).parts}
    end_of_a = len(whole) - parts["b"]
    whole[end_of_a - parts["a"] // 2] ^= 4
    write(archive, bytes(whole))
    tool.run("verify", archive).expect(1, 'tensor "a"')
    for first in (0, 100, 448, 511):
        check(get(tool, archive, "a[%d]" % first) == data["a"][2][first * 2048:(first + 1) * 2048], "row %d" % first)
    check(get(tool, archive, "b") == data["b"][2], "the other tensor")
    for operand in ("a", "a[:,0]"):
        result = tool.run("get", archive, operand).expect(1, 'tensor "a"')
        expected = data["a"][2] if operand == "a" else cut(data["a"][2], 16, [512, 1024], [slice(None), slice(0, 1)])
        check(expected.startswith(result.output) and len(result.output) < len(expected), "wrong bytes came out")
    whole[-20_000] ^= 1  # of a stored frame: one checksum for all of it
    write(archive, bytes(whole))
    result = tool.run("get", archive, "b[5:9]").expect(1, 'tensor "b"')
    check(result.output == b"", "unverified bytes")


@case
def get_from_flipped_archives(tool, directory):
    """Whatever byte is damaged: what comes out is right, or the exit status says that it is not."""
    content = small_model(35)
    path = in_directory(directory, content)
    archive = archive_of(tool, path)
    data = contents(content)
    whole = read(archive)
    rng = random.Random(35)
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        write(archive, bytes(damaged))
        name = rng.choice(sorted(data))
        result = tool.run("get", archive, name)
        check(result.status in (0, 1), "exit %d" % result.status)
        check(result.status == 1 or result.output == data[name][2], "wrong bytes of " + name)


@case
def get_and_terminals(tool, directory):
    path = in_directory(directory, model([("a", "U8", [4], b"abcd")]))
    for arguments, status, expected in ((["a"], 2, b""), (["a", "-f"], 0, b"abcd"), (["a[1]", "-f"], 0, b"b")):
        ours, theirs = pty.openpty()
        try:
            process = subprocess.run([tool.path, "get", path, *arguments], stdin=subprocess.DEVNULL, stdout=theirs,
                                     stderr=subprocess.PIPE, check=False)
            os.write(theirs, b"|")
            shown = b""
            while not shown.endswith(b"|"):
                shown += os.read(ours, 100)
        finally:
            os.close(ours)
            os.close(theirs)
        check(process.returncode == status and shown == expected + b"|", "%r: %d, %r" % (arguments, process.returncode, shown))
        check((b"terminal" in process.stderr) == (status == 2), "message: %r" % process.stderr)


@case
def get_into_nothing(tool, directory):
    path = in_directory(directory, model([("a", "U8", [4 << 20], bytes(4 << 20))]))
    with open("/dev/full", "wb") as full:
        process = subprocess.run([tool.path, "get", path, "a"], stdout=full, stderr=subprocess.PIPE, check=False)
    check(process.returncode == 3 and b"standard output" in process.stderr, "full: %r" % process.stderr)
    with tool.start("get", path, "a") as process:
        process.stdout.close()
        process.stdout = None
        _, message = process.communicate()
    check(process.returncode == 3 and b"standard output" in message, "closed pipe: %r" % message)


def sparse_model(directory, nbytes, name="big.safetensors"):
    """One tensor "a", BF16 [n, 1024], of zeros but for its last row."""
    text = json.dumps({"a": {"dtype": "BF16", "shape": [nbytes // 2048, 1024], "data_offsets": [0, nbytes]},
                       "b": {"dtype": "U8", "shape": [3], "data_offsets": [nbytes, nbytes + 3]}}).encode()
    path = os.path.join(directory, name)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + nbytes)
        file.seek(8 + len(text) + nbytes - 2048)
        file.write(bytes(range(256)) * 8 + b"xyz")
    return path


@case
def huge_tensors_in_little_memory(tool, directory):
    rows = 3 << 19  # 3 GiB
    path = sparse_model(directory, rows * 2048)
    last_row = bytes(range(256)) * 8
    limits = {"address_space": FEW_MEGABYTES}
    check(get(tool, path, "a[-1]", **limits) == last_row, "the last row")
    check(get(tool, path, "a[%d:,1]" % (rows - 2), **limits) == b"\0\0" + last_row[2:4], "a column")
    check(get(tool, path, "a", "--range=%d:" % (rows * 2048 - 5), **limits) == last_row[-5:], "the last bytes")
    facts = json.loads(tool.run("info", path, "--json", **limits).expect(0).stdout)
    check(facts["parameters"] == rows * 1024 + 3, "parameters")
    small = sparse_model(directory, 96 << 20, "small.safetensors")
    archive = archive_of(tool, small, "-j1")
    check(get(tool, archive, "a[-1]", **limits) == last_row, "the last row, archive")
    with open(small, "r+b") as file:
        file.seek(50 << 20)
        file.write(b"x")
    result = tool.run("diff", archive, small, "-j2", **limits)
    check(result.status == 1 and result.stdout == "~ a: content\n1 equal, 1 changed, 0 added, 0 removed\n",
          "diff: %s" % result.stdout)


# ---- info ----

HOSTILE = "\x1b[31m\"\\\n\t\x7f\x85\u202e\u2028\ufeff\u00e9\U0001f600\0x"


@case
def info_of_both_kinds(tool, directory):
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


@case
def info_counts_narrow_elements(tool, directory):
    tensors = [("4", "F4", [3, 2], b"abc"), ("6", "F6_E2M3", [4], b"abc"), ("c", "C64", [2], bytes(16)), ("s", "F64", [], bytes(8))]
    path = in_directory(directory, model(tensors))
    facts = json.loads(tool.run("info", path, "--json").expect(0).stdout)
    check(facts["parameters"] == 6 + 4 + 2 + 1, "parameters %d" % facts["parameters"])
    path = in_directory(directory, model([]))
    facts = json.loads(tool.run("info", path, "--json").expect(0).stdout)
    check(facts["dtypes"] == {} and facts["metadata"] == {} and facts["tensors"] == 0, "an empty file")


def check_no_controls(text):
    bad = [c for c in text if c != "\n" and (ord(c) < 32 or 0x7f <= ord(c) < 0xa0 or c in "\u202e\u2028\ufeff")]
    check(not bad, "a terminal would act on %r" % bad)


@case
def hostile_text(tool, directory):
    metadata = {HOSTILE: HOSTILE * 500, "long": "y" * 10000, **{"k%d" % i: "v" for i in range(100)}}
    name = HOSTILE * 30
    path = in_directory(directory, model([(name, "U8", [2], b"ab"), ("x" + HOSTILE, "U8", [1], b"c")], metadata), "\x1bm\xff")
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
        check(found["changed"] == [name] and found["added"] == ["y" + HOSTILE] and found["removed"] == ["x" + HOSTILE],
              "diff: %r" % found)
        check_no_controls(tool.run("diff", file, other, "--json").stdout)
        check(json.loads(tool.run("ls", file, "--json").stdout)[0]["name"] == name, "ls")
    shown = json.loads(tool.run("info", bad_path, "--json").expect(0).stdout)["file"]
    check(shown.endswith("\ufffd\"\x1b"), "a path that is no UTF-8: %r" % shown)
    check_no_controls(tool.run("info", bad_path).expect(0).stdout)


@case
def inspecting_bad_files(tool, directory):
    good = in_directory(directory, small_model(37), "good")
    archive = archive_of(tool, good)
    damaged = bytearray(read(archive))
    damaged[len(damaged) // 3] ^= 1
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
                      ["bench", good, good], ["doctor", good], ["info", good, "-j1"], ["get", good, "embed", "--json"],
                      ["doctor", "-q"], ["diff", good, good, "--range", ":"]):
        tool.run(*arguments).expect(2, "--help")


# ---- diff ----

def four_ways(tool, old, new):
    """Pairs of files that say the same, plain and archived."""
    archives = [archive_of(tool, old), archive_of(tool, new)]
    return [(old, new), (old, archives[1]), (archives[0], new), (archives[0], archives[1])]


@case
def diff_finds_every_change(tool, directory):
    rng = random.Random(38)
    big = weights(rng, 2000) * 150
    old = [("same", "BF16", [300_000], big), ("late", "BF16", [300_000], big), ("noise", "U8", [500_000], rng.randbytes(500_000)),
           ("short", "F32", [2], b"12345678"), ("type", "F32", [2], b"12345678"), ("shape", "BF16", [2, 3], b"123456789012"),
           ("gone", "U8", [1], b"x"), ("none", "F32", [0], b""), ("void", "F32", [0, 3], b""), ("scalar", "F32", [], b"abcd")]
    noise = bytearray(old[2][3])
    noise[-1] ^= 1
    new = [("new", "U8", [1], b"x"), ("scalar", "F32", [], b"abcd"), ("same", "BF16", [300_000], big),
           ("late", "BF16", [300_000], big[:-1] + b"\x01"), ("noise", "U8", [500_000], bytes(noise)),
           ("short", "F32", [2], b"12345679"), ("type", "I32", [2], b"12345678"), ("shape", "BF16", [3, 2], b"123456789012"),
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
                        "removed": ["gone"], "retyped": ["type", "shape", "void"], "header_equal": False}, "JSON: %r" % found)
        quiet = tool.run("diff", *pair, "-q")
        check(quiet.status == 1 and quiet.stdout == "" and quiet.stderr == "", "-q")


@case
def diff_of_equal_files(tool, directory):
    one = in_directory(directory, small_model(39), "one")
    two = in_directory(directory, small_model(39), "two")
    for pair in four_ways(tool, one, two) + [(one, one + ".lmc")]:
        result = tool.run("diff", *pair).expect(0)
        check(result.stdout == "8 equal, 0 changed, 0 added, 0 removed\n", "diff: " + result.stdout)
        check(json.loads(tool.run("diff", *pair, "--json").expect(0).stdout)
              == {"equal": 8, "changed": [], "added": [], "removed": [], "retyped": [], "header_equal": True}, "JSON")
        check(tool.run("diff", *pair, "-q").expect(0).stdout == "", "-q")


@case
def diff_of_headers(tool, directory):
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


@case
def diff_of_levels(tool, directory):
    """Archives of other settings: other frames, the same content."""
    rng = random.Random(40)
    path = in_directory(directory, model([("a", "F32", [50_000], b"".join(struct.pack("<f", rng.gauss(0, 1)) for _ in range(50_000)))]))
    out = [path + "." + level for level in ("fast", "default", "max")]
    for name in out:
        tool.run("convert", path, "-o", name, "--level", name.rsplit(".", 1)[1]).expect(0)
    for pair in itertools.combinations(out, 2):
        check(tool.run("diff", *pair).expect(0).stdout.startswith("1 equal, 0 changed"), "levels")


@case
def diff_of_damaged_archives(tool, directory):
    rng = random.Random(41)
    one = in_directory(directory, model([("a", "BF16", [70_000], weights(rng, 70_000))]), "one")
    two = in_directory(directory, model([("a", "BF16", [70_000], weights(rng, 70_000))]), "two")
    archives = [archive_of(tool, one), archive_of(tool, two)]
    damaged = bytearray(read(archives[1]))
    damaged[-3] ^= 1  # the check of the frame's tail
    write(archives[1], bytes(damaged))
    for pair in ((one, archives[1]), (archives[1], one), archives, archives[::-1]):
        tool.run("diff", *pair).expect(1, "two.lmc", 'tensor "a"')


# ---- aliases ----

@case
def aliases(tool, directory):
    rng = random.Random(42)
    data = weights(rng, 5000)
    content = model([("embed", "BF16", [50, 100], data), ("head", "BF16", [50, 100], data), ("more", "BF16", [10], data[:20])])
    path = in_directory(directory, content)
    archive = archive_of(tool, path)
    listed = {entry["name"]: entry for entry in json.loads(tool.run("ls", archive, "--json").expect(0).stdout)}
    check(listed["embed"]["mode"] == "coded" and listed["head"]["mode"] == "alias", "modes: %r" % listed)
    check(listed["head"]["stored_nbytes"] == 0 and listed["head"]["ratio"] == 0, "size of an alias")
    check(" alias\n" in tool.run("ls", archive).expect(0).stdout, "ls")
    check(get(tool, archive, "head[7]") == data[1400:1600] and get(tool, archive, "head") == data, "get")
    check(json.loads(tool.run("info", archive, "--json").expect(0).stdout)["parameters"] == 10010, "info")
    other = in_directory(directory, model([("embed", "BF16", [50, 100], data), ("head", "BF16", [50, 100], data[:-1] + b"\0"),
                                           ("more", "BF16", [10], data[:20])]), "other")
    for pair in four_ways(tool, path, other):
        check(tool.run("diff", *pair).stdout == "~ head: content\n2 equal, 1 changed, 0 added, 0 removed\n", "diff")


# ---- the machine ----

@case
def doctor(tool, directory):
    facts = json.loads(tool.run("doctor", "--json").expect(0).stdout)
    check(facts["version"] == tool.run("--version").stdout.split()[1], "version")
    check(facts["archive_version"] == 1 and facts["frame_version"] == 1 and facts["problems"] == [], "facts: %r" % facts)
    check(facts["kernels"] == facts["kernels_available"][0] and facts["kernels_available"][-1] == "scalar", "kernels")
    check(facts["threads"] >= 1 and facts["temp_usable"] is True, "facts: %r" % facts)
    text = tool.run("doctor").expect(0).stdout
    check("kernels:       " + facts["kernels"] in text and "problem" not in text, "text: " + text)
    for wanted, status in [(name, 0) for name in facts["kernels_available"]] + [("\x1bneon\xff", 3)]:
        result = subprocess.run([tool.path, "doctor", "--json"], env={**os.environ, "LMC_KERNELS": wanted, "TMPDIR": directory},
                                stdout=subprocess.PIPE, check=False)
        found = json.loads(result.stdout)
        check(result.returncode == status and found["kernels_available"] == facts["kernels_available"], "LMC_KERNELS")
        check(found["kernels_wanted"] == wanted.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), "wanted")
        check(found["kernels"] == (wanted if status == 0 else facts["kernels"]), "in use")
        check(found["temp_directory"] == directory and len(found["problems"]) == (status != 0), "rest: %r" % found)


@case
def bench(tool, directory):
    rng = random.Random(43)
    path = in_directory(directory, model([("a", "BF16", [400, 500], weights(rng, 2000) * 100), ("n", "U8", [5], b"12345"), ("e", "U8", [0], b"")]))
    archive = archive_of(tool, path)
    rows = json.loads(tool.run("bench", archive, "--json", "-j2").expect(0).stdout)
    sets = json.loads(tool.run("doctor", "--json").expect(0).stdout)["kernels_available"]
    check([(row["kernels"], row["level"]) for row in rows]
          == [(name, level) for name in sets for level in ("fast", "default", "max")], "rows: %r" % rows)
    for row in rows:
        check(set(row) == {"level", "kernels", "threads", "ratio", "encode_GiB_s", "decode_GiB_s", "memcpy_GiB_s"}, "keys")
        check(row["threads"] == 2 and 0.4 < row["ratio"] < 1.0, "row: %r" % row)
        check(min(row["encode_GiB_s"], row["decode_GiB_s"], row["memcpy_GiB_s"]) > 0, "row: %r" % row)
        check(row["ratio"] == next(r["ratio"] for r in rows if r["level"] == row["level"]), "ratios of kernel sets")
    check_only(directory, "m.safetensors", "m.safetensors.lmc")
    empty = in_directory(directory, model([("e", "U8", [0], b"")]), "empty")
    tool.run("bench", empty).expect(2, "nothing to measure")


@case
def bench_of_a_damaged_archive(tool, directory):
    path = in_directory(directory, small_model(44))
    archive = archive_of(tool, path)
    damaged = bytearray(read(archive))
    damaged[-40] ^= 1
    write(archive, bytes(damaged))
    result = tool.run("bench", archive).expect(1, 'tensor "layer.1"')
    check(result.stdout == "", "rows of damaged tensors")


@case
def bench_is_cancelled(tool, directory):
    path = in_directory(directory, small_model(45))
    process = tool.start("bench", path)
    first = process.stdout.readline()  # the first kernel set is at work
    process.terminate()
    rest = process.communicate()[0]
    check(process.returncode == 143 and first.startswith(b"8 of 8 tensors") or b"7 of 8" in first,
          "exit %d: %r" % (process.returncode, first + rest))


# ---- help ----

@case
def help_fits_a_screen(tool, directory):
    general = tool.run("--help").expect(0).stdout
    commands = [line.split()[1] for line in general.splitlines() if line.startswith("  lmc-st ") and line.split()[1].isalpha()
                and line.split()[1].islower()]
    check(len(commands) >= 9 and "get" in commands, "commands: %r" % commands)
    for text in [general] + [tool.run(command, "--help").expect(0).stdout for command in commands]:
        lines = text.splitlines()
        check(len(lines) <= 24 and max(len(line) for line in lines) <= 80, "too large for a screen: " + text)
