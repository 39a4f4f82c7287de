"""Archives with a base that were damaged, and runs with a base that are killed: never wrong bytes, never
half a file."""
import os
import random
import shutil
import signal
import struct
import subprocess

import pytest

from bases import Kept, archived_pair, changed, convert, info, modes, pair, write_model
from faults import NAMED, Faults, allowed_statuses, moments
from support import check, check_no_controls, check_only, read, weights, write


TINY = 150  # values; from 128 on, a frame that small is a delta


def tiny_pair(directory):
    """A delta archive of little more than its header: every byte can be tried, and every byte of the base."""
    rng = random.Random(20)
    tensors = [("w", "BF16", [TINY], weights(rng, TINY)), ("b", "BF16", [3], weights(rng, 3))]
    near = [changed(tensors[0], rng, 0.2), tensors[1], ("same", "BF16", [TINY], tensors[0][3])]
    return (write_model(directory, "old.safetensors", tensors), write_model(directory, "new.safetensors", near))


def cat(tool, path):
    done = subprocess.run([tool.path, "cat", path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False)
    return done.returncode, done.stdout


# ---- damage ----


def test_every_byte_of_the_base(tool, directory):
    """Whatever is changed in the base: wrong bytes never pass."""
    old, new = tiny_pair(directory)
    archive = convert(tool, new, old)
    check(list(modes(tool, archive).values()) == ["delta", "short", "delta"], "modes: %s" % modes(tool, archive))
    content, good = read(new), read(old)
    os.unlink(new)
    header_nbytes = 8 + struct.unpack("<Q", good[:8])[0]
    for i in range(len(good)):
        damaged = bytearray(good)
        damaged[i] ^= 1 << i % 8
        write(old, bytes(damaged))
        status, made = cat(tool, archive)
        check(status == 1 or made == content, "byte %d: wrong bytes with exit 0" % i)
        check(status == 1 or i >= header_nbytes + 2 * TINY, "byte %d of the base is needed, but was not missed" % i)


def test_random_damage(tool, directory):
    """The same for archives with blocks, by verify, salvage and get, with several places at once."""
    old, new, archive = archived_pair(tool, directory, count=20000)
    good, content = read(archive), read(new)
    rng = random.Random(21)
    for _ in range(60):
        damaged = bytearray(good)
        for _ in range(rng.choice((1, 1, 2, 9))):
            at = rng.randrange(len(damaged))
            damaged[at] = rng.randrange(256)
        bad = write(os.path.join(directory, "bad.lmc"), bytes(damaged))
        is_same = bytes(damaged) == good
        check(tool.run("verify", bad).status == (0 if is_same else 1), "verify")
        status, made = cat(tool, bad)
        check(status == (0 if is_same else 1) and (status == 1 or made == content), "cat")
        result = tool.run("get", bad, "master")
        check(result.status in (0, 1), "get: exit %d" % result.status)
        check(result.status == 1 or result.output == tool.run("get", new, "master").expect(0).output, "get")




@pytest.mark.posix("names with control characters")
@pytest.mark.parametrize("name", ["\x1b[31m\n", "\u202e", "-o", "x" * 255])
def test_odd_names(tool, directory, name):
    """They are shown without control characters. (tests/format/reference has the names that are refused.)"""
    old, new = tiny_pair(directory)
    base = shutil.copy(old, os.path.join(directory, name))
    archive = convert(tool, new, base)
    os.unlink(base)
    tool.run("verify", archive).expect(1, "new.safetensors.lmc")
    tool.run("verify", archive, "--base", old).expect(0)
    check_no_controls(tool.run("info", archive).expect(0).stdout)
    check(info(tool, archive)["base"]["name"] == name, "JSON")


# ---- kills and faults ----

def job_arguments(directory, command):
    out = os.path.join(directory, "out")
    name = "new.safetensors" if command == "convert" else "new.safetensors.lmc"
    return [command, os.path.join(directory, name), "--base", os.path.join(directory, "old.safetensors"), "-j1", "-o",
            out], out


def prepared(tool, directory, command):
    """The arguments, the output and what it must be; the inputs are all that is there."""
    old, new, archive = archived_pair(tool, directory, count=20000)
    arguments, out = job_arguments(directory, command)
    if command == "convert":
        wanted = read(archive)
        os.unlink(archive)
    else:
        wanted = read(new)
        os.unlink(new)
    return arguments, out, wanted


@pytest.mark.parametrize("command, before", [
    pytest.param("convert", "", id="convert"), pytest.param("restore", "", id="restore"),
    pytest.param("convert", NAMED + ",", id="named", marks=pytest.mark.large)])
def test_kill_at_each_call(tool, directory, command, before):
    faults = Faults(tool, directory)
    arguments, out, wanted = prepared(tool, faults.directory, command)
    names = sorted(os.listdir(faults.directory))
    inputs = Kept(*[os.path.join(faults.directory, name) for name in names])
    with inputs:
        result, calls = faults.run(before + "any:1:0:s0", *arguments)
        check(result.status == 0 and len(calls) > 10, "exit %d: %s" % (result.status, calls))
        os.unlink(out)
        for occurrence in moments(calls):
            result, _ = faults.run("%sany:%d:1:s%d" % (before, occurrence, signal.SIGKILL), *arguments)
            check(result.status in allowed_statuses(signal.SIGKILL), "exit %d: %s" % (result.status, result.stderr))
            left = sorted(set(os.listdir(faults.directory)) - set(names) - {"out"})
            check(not left or (before and all(name.startswith(".lmc-st-") for name in left)), "left: %s" % left)
            check(not os.path.exists(out) or read(out) == wanted, "%s: half a file before call %d" % (
                command, occurrence))
            for name in left + (["out"] if os.path.exists(out) else []):
                os.unlink(os.path.join(faults.directory, name))
        tool.run(*arguments).expect(0)
        check(read(out) == wanted, "the next run")


def test_every_read_fails(tool, directory):
    """Of the input and of the base: exit 3, one line, nothing left."""
    for command in ("convert", "restore"):
        place = os.path.join(directory, command)
        os.mkdir(place)
        faults = Faults(tool, place)
        arguments, out, _ = prepared(tool, faults.directory, command)
        names = sorted(os.listdir(faults.directory))
        _, calls = faults.run("pread:1:0:s0", *arguments)
        os.unlink(out)
        for occurrence in moments(calls):
            result, hits = faults.run("pread:%d:1:e5" % occurrence, *arguments)
            check(hits == [] or result.status == 3 or result.status == 1, "%s, read %d: exit %d: %s" % (
                command, occurrence, result.status, result.stderr))
            check(result.stderr.count("\n") == 1, result.stderr)
            check_only(faults.directory, *names)


def test_base_that_changes_meanwhile(tool, directory):
    """The base shrinks or changes while it is read: no archive, or one that restores from what was there."""
    faults = Faults(tool, directory)
    old, new = pair(faults.directory, count=20000)
    good = read(old)
    for change in (lambda: os.truncate(old, len(good) // 2), lambda: write(old, good[:-5000] + bytes(5000))):
        process = faults.stopped("pread:6:1:s%d" % signal.SIGSTOP, "convert", new, "--base", old, "-j1")
        change()
        process.send_signal(signal.SIGCONT)
        _, message = process.communicate()
        check(process.returncode in (0, 1, 3), "exit %d: %s" % (process.returncode, message))
        if process.returncode == 0:
            write(old, good)
            tool.run("verify", new + ".lmc").expect(0)
            os.unlink(new + ".lmc")
        check(not os.path.exists(new + ".lmc"), "a file stays")
        write(old, good)
