"""Wide elements with narrow contents, and rANS codes: what analyze, info and ls say of them."""
import json
import os
import random
import struct

from support import check, in_directory, model, weights

ROWS, COLUMNS = 60, 256
FORMS = {"product": "I8 times a scale per 256 values", "again": "I8 times a scale per 256 values",
         "half": "F16 in F32", "plain": None, "alias": None}


def floats(values):
    return struct.pack("<%df" % len(values), *values)


def products(rng):
    """Rows of int8 times a scale, the largest of which is 127."""
    scales = struct.unpack("<%df" % ROWS, floats([rng.uniform(0.001, 0.002) for _ in range(ROWS)]))
    return floats([scale * (127 if column == 0 else max(-127, min(127, round(rng.gauss(0, 30)))))
                   for scale in scales for column in range(COLUMNS)])


def wide_model(directory):
    rng = random.Random(301)
    halves = floats([2**-24 * rng.randrange(-1000, 1001) for _ in range(ROWS * COLUMNS)])  # denormals of F16
    plain, shape = weights(rng, ROWS * COLUMNS), [ROWS, COLUMNS]
    return in_directory(directory, model([("product", "F32", shape, products(rng)), ("half", "F32", shape, halves),
                                          ("plain", "BF16", shape, plain), ("again", "F32", shape, products(rng)),
                                          ("alias", "BF16", shape, plain)]))


def forms_of(tensors):
    """The member "forms" of a file that has these tensors."""
    found = {}
    for tensor in tensors:
        if tensor["form"]:
            found.setdefault(tensor["form"], {"tensors": 0, "nbytes": 0, "stored_nbytes": 0})
            found[tensor["form"]]["tensors"] += 1
            found[tensor["form"]]["nbytes"] += tensor["nbytes"]
            found[tensor["form"]]["stored_nbytes"] += tensor["stored_nbytes"]
    return found


def loads(tool, *arguments):
    return json.loads(tool.run(*arguments, "--json").expect(0).stdout)


def test_forms(tool, directory):
    path = wide_model(directory)
    archive = path + ".lmc"
    tool.run("convert", path).expect(0)
    listed = loads(tool, "ls", archive)
    check({tensor["name"]: tensor["form"] for tensor in listed} == FORMS, "ls: %s" % listed)
    forms = forms_of(listed)
    check(len(forms) == 2 and forms[FORMS["product"]]["tensors"] == 2, "forms: %s" % forms)
    check(loads(tool, "info", archive)["forms"] == forms, "info")
    for file in (path, archive):
        found = loads(tool, "analyze", file)[0]
        check({tensor["name"]: tensor["form"] for tensor in found["tensors"]} == FORMS, file)
        check(found["forms"] == forms, "analyze: %s" % found["forms"])
        text = tool.run("analyze", file).expect(0).stdout
        check("  coded, F16 in F32\n" in text, "the table: " + text)
        sum_line = "form:          %s: 2 tensors, %d bytes, " % (FORMS["product"], 8 * ROWS * COLUMNS)
        check("\n" + sum_line in text, "sums: " + text)
    lines = tool.run("ls", archive).expect(0).stdout.splitlines()
    check([line.split("  ")[-1] for line in lines[1:6]]
          == ["coded, " + FORMS["product"], "coded, F16 in F32", "coded", "coded, " + FORMS["product"], "alias"],
          "ls: %s" % lines)
    check("\nform:          F16 in F32: 1 tensors, " in tool.run("info", archive).expect(0).stdout, "info")


def test_files_without_forms(tool, directory):
    rng = random.Random(302)
    path = in_directory(directory, model([("w", "BF16", [5000], weights(rng, 5000))]))
    tool.run("convert", path).expect(0)
    for file in (path, path + ".lmc"):
        for command in ("info", "ls", "analyze"):
            check("form:" not in tool.run(command, file).expect(0).stdout, command)
        check(loads(tool, "info", file)["forms"] == loads(tool, "analyze", file)[0]["forms"] == {}, "JSON")
        check(loads(tool, "ls", file)[0]["form"] is None, "ls")


def test_rans(tool, directory):
    """Level max may choose rANS codes, the default never."""
    rng = random.Random(303)
    content = bytes(min(255, int(rng.expovariate(0.4))) for _ in range(60_000))
    path = in_directory(directory, model([("w", "I8", [60_000], content)]))
    for level, has_rans in (("default", False), ("max", True)):
        out = os.path.join(directory, level)
        tool.run("convert", path, "-o", out, "--level", level).expect(0)
        tensor = loads(tool, "ls", out)[0]
        check(tensor["rans"] is has_rans and tensor["form"] is None, "ls: %s" % tensor)
        sums = loads(tool, "info", out)["rans"]
        check(sums == ({key: tensor[key] if key != "tensors" else 1 for key in sums} if has_rans
                       else dict.fromkeys(sums, 0)), "info: %s" % sums)
        check(("\nrANS codes:    1 tensors, 60000 bytes, " in tool.run("info", out).stdout) is has_rans, "info")
        check(tool.run("ls", out).stdout.splitlines()[1].endswith("  coded, rANS" if has_rans else "  coded"), "ls")


def test_info_of_a_frame_that_cannot_be_read(tool, directory):
    """ls fails; info describes the rest."""
    path = wide_model(directory)
    tool.run("convert", path).expect(0)
    with open(path + ".lmc", "r+b") as file:
        content = file.read()
        file.seek(content.index(b"\x8cLMC") + 6)
        file.write(b"\x63")  # a mode of the future
    tool.run("ls", path + ".lmc").expect(1, "product")
    check(sum(form["tensors"] for form in loads(tool, "info", path + ".lmc")["forms"].values()) == 2, "info")
