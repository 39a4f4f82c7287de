"""Archives with a base in the other commands (ls, info, get, diff, bench), and --rm and -f beside a base."""
import json
import os
import random
import shutil
import subprocess

import pytest

from bases import (Kept, archived_pair, check_restores, convert, first_snapshot, info, ls, make_chain, modes,
                   next_snapshot, of_chain, pair, write_model)
from stores import halved, llm, rounded
from support import check, check_only, model, parse, read, weights, write
from trees import Untouched, small_tree


# ---- ls, info, get ----

def test_listed(tool, directory):
    """Modes and sizes in ls; name, hash and chain in info, for people and in JSON."""
    old, new, archive = archived_pair(tool, directory)
    found = ls(tool, archive)
    check(found["embed"]["mode"] == "delta" and found["master"]["mode"] == "delta", "modes: %s" % modes(tool, archive))
    check(sum(t["stored_nbytes"] for t in found.values()) < os.path.getsize(archive), "sizes")
    text = tool.run("ls", archive).expect(0).stdout
    check(any(line.startswith("embed ") and line.endswith(" delta") for line in text.splitlines()), text)
    facts = info(tool, archive)
    base = facts["base"]
    check(set(base) == {"name", "hash", "nbytes", "tensors", "file", "base"}, "keys: %s" % base)
    check(base["name"] == "old.safetensors" and base["nbytes"] == os.path.getsize(old) and base["file"] == old
          and base["base"] is None, "base: %s" % base)
    check(facts["nbytes"] == os.path.getsize(new) and facts["stored_nbytes"] == os.path.getsize(archive), "sizes")
    text = tool.run("info", archive).expect(0).stdout
    check("base:          old.safetensors" in text and base["hash"] in text and old in text, text)
    for path in (old, new):
        check(info(tool, path)["base"] is None and "base:" not in tool.run("info", path).expect(0).stdout, path)


def test_base_hash_is_of_the_content(tool, directory):
    """The same for the plain file, a copy and an archive of it; another one if a bit of it changes."""
    old, new = pair(directory)
    hashes = []
    copy = shutil.copy(old, os.path.join(directory, "copy.safetensors"))
    tool.run("convert", old).expect(0)
    for base in (old, copy, old + ".lmc"):
        hashes.append(info(tool, convert(tool, new, base, "-f"), "--base", base)["base"]["hash"])
    content = bytearray(read(old))
    content[-1 - 8 - 3000] ^= 1  # in "noise", before "scale"
    content[len(content) // 3] ^= 1
    write(copy, bytes(content))
    hashes.append(info(tool, convert(tool, new, copy, "-f"), "--base", copy)["base"]["hash"])
    check(hashes[0] == hashes[1] == hashes[2] != hashes[3], "hashes: %s" % hashes)


def test_parts_of_tensors(tool, directory):
    """get of every kind of part, down a chain, gives what the plain file gives."""
    contents = make_chain(tool, directory, 3, 70000)
    plain = write(os.path.join(directory, "plain"), contents[3])
    archive = of_chain(directory, 3)
    rng = random.Random(13)
    for name, tensor in ls(tool, archive).items():
        size = tensor["nbytes"]
        ranges = [":", "0:0"] + ["%d:%d" % tuple(sorted(rng.randrange(size + 1) for _ in "ab")) for _ in range(3)]
        for part in ranges:
            got = tool.run("get", archive, name, "--range", part).expect(0).output
            check(got == tool.run("get", plain, name, "--range", part).expect(0).output, "%s %s" % (name, part))
    for part in ("[1:3, 5:9]", "[3, :]", "[:, -1]"):
        got = tool.run("get", archive, "layer.0" + part).expect(0).output
        check(got == tool.run("get", plain, "layer.0" + part).expect(0).output, part)


# ---- diff ----

def test_compared(tool, directory):
    """An archive with a base as either operand, or both, with one base or two."""
    tensors = first_snapshot()
    old = write_model(directory, "old.safetensors", tensors)
    one = write_model(directory, "one.safetensors", next_snapshot(tensors, 2))
    changed_tensors = next_snapshot(tensors, 2)
    name, dtype, shape, content = changed_tensors[0]
    changed_tensors[0] = (name, dtype, shape, content[:-1] + bytes([content[-1] ^ 1]))
    two = write_model(directory, "two.safetensors", changed_tensors)
    tool.run("convert", two, "-o", os.path.join(directory, "alone")).expect(0)
    tool.run("convert", one, "-o", os.path.join(directory, "alone.1")).expect(0)
    archives = [convert(tool, path, old) for path in (one, two)]
    other = os.path.join(directory, "two.of.one")
    tool.run("convert", two, "--base", one, "-o", other).expect(0)
    for a in (one, archives[0], os.path.join(directory, "alone.1")):
        tool.run("diff", a, one).expect(0)
        tool.run("diff", archives[0], a, "-j1").expect(0)
        for b in (two, archives[1], other, os.path.join(directory, "alone")):
            for pair_of_files in ((a, b), (b, a)):
                result = tool.run("diff", *pair_of_files, "--json")
                found = json.loads(result.stdout)
                check(result.status == 1 and found["changed"] == ["embed"] and found["equal"] == len(tensors) - 1,
                      "%s: exit %d: %s %s" % (pair_of_files, result.status, found, result.stderr))
    tool.run("diff", archives[1], other, "--base", old, "--base-dir", directory).expect(0)
    tool.run("diff", archives[1], two, "-q").expect(0)


def test_compared_without_the_base(tool, directory):
    """Where hashes do not decide, the base is needed, and asked for."""
    old, new, archive = archived_pair(tool, directory, count=70000)
    alone = os.path.join(directory, "alone")
    tool.run("convert", old, "-o", alone).expect(0)
    os.unlink(old)
    result = tool.run("diff", archive, alone)
    check(result.status == 1 and (result.stdout != "" or "old.safetensors" in result.stderr), "exit %d: %s%s" % (
        result.status, result.stdout, result.stderr))
    tool.run("diff", archive, new).expect(0)


# ---- bench ----

def lines_of(tool, count, *arguments):
    """The first lines of the output; then the run is ended: each line takes seconds."""
    process = tool.start(*arguments, address_space=None)
    lines = [process.stdout.readline().decode() for _ in range(count)]
    process.terminate()
    message = process.communicate()[1]
    check(process.returncode in (143, 0), "exit %d: %s" % (process.returncode, message))
    return lines


@pytest.mark.slow
@pytest.mark.posix("signals")
def test_measured(tool, directory):
    """Each level without and with the base; the ratio with it is better."""
    old, new, archive = archived_pair(tool, directory, 0.01)
    tool.run("convert", old).expect(0)
    for file, base in ((new, old), (archive, old), (new, old + ".lmc")):
        rows = lines_of(tool, 5, "bench", file, "--base", base)[3:]
        check([row.split()[2] for row in rows] == ["no", "yes"], "rows: %s" % rows)
        alone, against = (float(row.split()[3]) for row in rows)
        check(against < 0.7 * alone, "rows: %s" % rows)
    rows = [json.loads(line.strip("[, \n")) for line in lines_of(tool, 2, "bench", new, "--base", old, "--json")]
    check([row["base"] for row in rows] == [False, True] and rows[0]["level"] == rows[1]["level"], "rows: %s" % rows)
    check(min(rows[1][key] for key in ("encode_GiB_s", "decode_GiB_s", "memcpy_GiB_s")) > 0, "rows: %s" % rows)
    os.unlink(old)
    os.unlink(old + ".lmc")
    tool.run("bench", archive).expect(1, "old.safetensors")


@pytest.mark.slow
@pytest.mark.posix("signals")
@pytest.mark.parametrize("dtype, base_dtype, convert", [("BF16", "F32", rounded), ("F16", "F32", halved),
                                                        ("F16", "BF16", halved)])
def test_measured_against_a_base_that_is_rounded(tool, directory, dtype, base_dtype, convert):
    wide = llm(dtype=base_dtype)
    old = write(os.path.join(directory, "old.safetensors"), model(wide))
    new = write(os.path.join(directory, "new.safetensors"), model(convert(wide)))
    check(all(entry[1] == dtype for entry in convert(wide)), "the dtype")
    rows = lines_of(tool, 5, "bench", new, "--base", old)[3:]
    alone, against = (float(row.split()[3]) for row in rows)
    check(against < 0.2 * alone, "rows: %s" % rows)


# ---- outputs beside a base ----

def test_base_is_never_an_output(tool, directory):
    """-f replaces outputs, but neither the base nor a file that the base needs."""
    old, new, archive = archived_pair(tool, directory)
    os.link(old, os.path.join(directory, "hard"))
    os.symlink(old, os.path.join(directory, "soft"))
    with Untouched(directory):
        for out in (old, "hard", "soft"):
            tool.run("convert", new, "--base", old, "-f", "-o", os.path.join(directory, out)).expect(2)
            tool.run("restore", archive, "-f", "-o", os.path.join(directory, out)).expect(2)
            tool.run("restore", archive, "--base", old, "-f", "-o", os.path.join(directory, out)).expect(2)
    os.unlink(os.path.join(directory, "hard"))
    os.unlink(os.path.join(directory, "soft"))
    os.unlink(archive)
    tool.run("convert", old, "--rm").expect(0)
    archive = convert(tool, new, old + ".lmc")
    with Untouched(directory):
        tool.run("convert", new, "--base", archive, "-f").expect(2)  # itself
        tool.run("convert", new, "--base", archive, "-f", "-o", old + ".lmc").expect(2)  # what it needs
        tool.run("restore", archive, "-f", "-o", old + ".lmc").expect(2)
    check_restores(tool, archive, read(new))


def refuse_stdout(tool, path, *command):
    """Standard output is the file itself."""
    with open(path, "r+b") as stdout:
        done = subprocess.run([tool.path, *command, "-f"], stdin=subprocess.DEVNULL, stdout=stdout,
                              stderr=subprocess.PIPE, check=False)
    check(done.returncode == 2, "%s > %s: exit %d: %s" % (command, path, done.returncode, done.stderr))


@pytest.mark.posix("an identity of redirected files under Wine")
def test_base_among_several_inputs(tool, directory):
    """Its archive would be a reference to itself. Alone it may be meant so."""
    old, new = pair(directory)
    os.symlink(old, os.path.join(directory, "link"))
    for base in (old, os.path.join(directory, "link")):
        tool.run("convert", old, new, "--base", base, "-f").expect(2, old + ": is the base itself, and is left out")
        check(os.path.exists(new + ".lmc") and not os.path.exists(old + ".lmc"), "the others are converted")
    trees = [small_tree(os.path.join(directory, name)) for name in ("mo", "mo2")]
    tool.run("convert", *trees, "--base", trees[0] + "/.").expect(2, trees[0] + ": is the base itself")
    check(os.path.exists(trees[1] + ".lmc") and not os.path.exists(trees[0] + ".lmc"), "the others are converted")
    tool.run("convert", old, "--base", old).expect(0)


@pytest.mark.posix("an identity of redirected files under Wine")
def test_get_never_replaces_a_file_of_the_chain(tool, directory):
    """Neither the archive nor any base of it, whether the tensor needs one or not; nor does cat."""
    make_chain(tool, directory, 2)
    archive = of_chain(directory, 2)
    os.link(of_chain(directory, 1), os.path.join(directory, "hard"))
    os.symlink(of_chain(directory, 0), os.path.join(directory, "soft"))
    found = modes(tool, archive)
    check(found["embed"] == "delta" and found["scale"] != "delta", "modes: %s" % found)
    outs = [of_chain(directory, i) for i in range(3)] + [os.path.join(directory, name) for name in ("hard", "soft")]
    with Untouched(directory):
        for out in outs:
            for part in ("embed", "embed[0:3]", "scale"):
                tool.run("get", archive, part, "-f", "-o", out).expect(2, os.path.basename(out))
                refuse_stdout(tool, out, "get", archive, part)
            refuse_stdout(tool, out, "cat", archive)
            refuse_stdout(tool, out, "restore", archive, "-c")
            tool.run("restore", "--salvage", archive, "-f", "-o", out).expect(2, os.path.basename(out))
    os.rename(of_chain(directory, 0), os.path.join(directory, "away"))
    with Untouched(directory):  # what is left of the chain
        tool.run("get", archive, "scale", "-f", "-o", of_chain(directory, 1)).expect(2)
    out = os.path.join(directory, "out")
    for _ in "ab":
        tool.run("get", archive, "scale", "-f", "-o", out).expect(0)
    check(read(out) == tool.run("get", archive, "scale").expect(0).output, "get -o")


def test_remove_what_is_not_needed(tool, directory):
    """--rm proves by the base that the archive restores; the base stays."""
    old, new = pair(directory)
    content = read(new)
    with Kept(old):
        tool.run("convert", "--rm", new, "--base", old).expect(0)
    check_only(directory, "new.safetensors.lmc", "old.safetensors")
    with Kept(old):
        tool.run("restore", "--rm", new + ".lmc").expect(0)
    check_only(directory, "new.safetensors", "old.safetensors")
    check(read(new) == content, "restored otherwise")
    folder = os.path.join(directory, "far")
    os.mkdir(folder)
    tool.run("convert", "--rm", new, "--base", old, "-o", os.path.join(folder, "x")).expect(0)
    tool.run("restore", "--rm", os.path.join(folder, "x"), "--base", old, "-o", new).expect(0)
    check(read(new) == content and os.listdir(folder) == [], "restored otherwise")


def test_remove_keeps_what_is_needed(tool, directory):
    """The input is the base, or the base's base: it stays, whatever --rm says."""
    old, new = pair(directory)
    content = read(old)
    for out in (old + ".lmc", os.path.join(directory, "x")):
        result = tool.run("convert", "--rm", old, "--base", old, "-f", "-o", out).expect(2, "old.safetensors", "base")
        check(read(old) == content, "removed: " + result.stderr)
    archive = convert(tool, new, old)
    tool.run("convert", "--rm", old, "--base", archive, "-f", "-o", os.path.join(directory, "x")).expect(2, "base")
    check(read(old) == content, "the base of the base was removed")
    check_restores(tool, archive, read(new))
    check_restores(tool, os.path.join(directory, "x"), content, "--base", archive)


def test_remove_keeps_directories_that_are_needed(tool, directory):
    tree = os.path.join(directory, "tree")
    os.mkdir(tree)
    write_model(tree, "a.safetensors", first_snapshot())
    write(os.path.join(tree, "config.json"), b"{}")
    tool.run("convert", "--rm", tree, "--base", tree).expect(2, "tree", "base")
    check(sorted(os.listdir(tree)) == ["a.safetensors", "config.json"], "removed")
    new = shutil.copytree(tree, os.path.join(directory, "new"))
    write_model(new, "a.safetensors", next_snapshot(first_snapshot(), 3))
    tool.run("convert", "--rm", new, "--base", tree).expect(0)
    check(not os.path.exists(new), "--rm has left the directory")
    tool.run("restore", new + ".lmc", "--rm", "--base", tree).expect(0)
    check(read(os.path.join(new, "a.safetensors")) == model(next_snapshot(first_snapshot(), 3)), "restored otherwise")


# ---- salvage ----

def test_salvaged_without_the_base(tool, directory):
    """What needs no base is saved; the rest is named."""
    old, new = pair(directory)
    tensors = first_snapshot() + [("own", "BF16", [2000], weights(random.Random(14), 2000))]
    write_model(directory, "new.safetensors", tensors)
    archive = convert(tool, new, old)
    lost = {name for name, mode in modes(tool, archive).items() if mode == "delta"}
    check(lost and "own" not in lost, "modes: %s" % modes(tool, archive))
    os.unlink(new)
    tool.run("restore", "--salvage", archive).expect(0)
    check(read(new) == model(tensors), "with the base")
    os.unlink(new)
    os.unlink(old)
    told = tool.run("restore", "--salvage", archive).expect(1, "old.safetensors").stderr
    check(all('tensor "%s"' % name in told for name in lost), told)
    found = parse(read(new))[1]
    check(found == [tensor for tensor in tensors if tensor[0] not in lost], "saved: %s" % [t[0] for t in found])
