"""Archives with a base that were damaged or forged, and runs with a base that are killed: never wrong bytes, never
half a file."""
import os
import random
import shutil
import signal
import struct
import subprocess

import pytest

from bases import (Kept, changed, check_restores, convert, first_snapshot, info, modes, next_snapshot, pair, restored,
                   write_model)
from faults import NAMED, Faults, allowed_statuses, moments
from support import Archive, check, check_only, load_hash, read, weights, write
from trees import Untouched


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

def test_every_byte(tool, directory):
    """Each byte of the archive changed, each bit in turn; and each length that it can be cut to. What is restored
    with exit 0 is right, and the base and all other files stay."""
    old, new = tiny_pair(directory)
    archive = convert(tool, new, old)
    check(list(modes(tool, archive).values()) == ["delta", "short", "delta"], "modes: %s" % modes(tool, archive))
    good, content = read(archive), read(new)
    os.unlink(new)
    with Kept(old):
        for i in range(len(good)):
            damaged = bytearray(good)
            damaged[i] ^= 1 << i % 8
            write(archive, bytes(damaged))
            status, made = cat(tool, archive)
            check(status == 1 or (status == 0 and made == content), "byte %d: exit %d" % (i, status))
            check(status == 1, "byte %d of %d is not covered" % (i, len(good)))
        for length in range(0, len(good), 7):
            write(archive, good[:length])
            check(cat(tool, archive)[0] == 1, "cut to %d bytes" % length)
    check_only(directory, "old.safetensors", "new.safetensors.lmc")


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
    old, new = pair(directory, count=20000)
    archive = convert(tool, new, old)
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


# ---- forged tables ----

MOST = 2**31 - 1


class Forger:
    """Takes an archive with a base apart and puts it together with another base section; checksums are right.
    In the table, the section is what stands between the hashes of the tensors and the last 24 bytes."""

    def __init__(self, path, original):
        self.hash = load_hash()
        self.original = original
        self.archive = Archive(read(path))
        table = self.archive.parts[0][1]
        check(struct.unpack("<I", table[8:12])[0] == 1, "feature bit 0 is not set")
        at = 40 + struct.unpack("<Q", table[32:40])[0]
        count = len(self.archive.parts) - 1
        self.front = table[:at]
        self.hashes = table[at:at + 8 * count]
        self.section = table[at + 8 * count:-24]
        self.count, name_nbytes = struct.unpack("<II", self.section[:8])
        self.sizes = self.section[8:32]
        self.name = self.section[32:32 + name_nbytes]
        links = self.section[32 + (name_nbytes + 7) // 8 * 8:]
        self.entries = [(tensor, base & MOST, base >> 31) for tensor, base in struct.iter_unpack("<II", links)]
        check(len(self.entries) == self.count, "the section has %d bytes" % len(self.section))

    def build(self):
        header_nbytes = struct.unpack("<Q", self.original[:8])[0]
        header = self.original[8:8 + header_nbytes]
        section = struct.pack("<II", self.count, len(self.name)) + self.sizes
        section += self.name + bytes(-len(self.name) % 8)
        section += b"".join(struct.pack("<II", tensor, base | place << 31) for tensor, base, place in self.entries)
        body = self.front + self.hashes + section
        body += self.hash(struct.pack("<QQ", len(self.original), header_nbytes) + self.hash(header) + self.hashes)
        name = self.archive.parts[0][0]
        self.archive.parts[0] = [name, body + bytes(16)]
        length = struct.unpack("<Q", self.archive.build(same_size=False)[:8])[0]
        body += self.hash(self.archive.build(same_size=False)[8:8 + length])
        self.archive.parts[0][1] = body + self.hash(body)
        return self.archive.build(same_size=False)

    def named(self, name):
        self.name = name
        return self

    def listed(self, *entries, count=None):
        self.entries = list(entries)
        self.count = len(entries) if count is None else count
        return self


HOSTILE_NAMES = [b"", b".", b"..", b"/", b"../old.safetensors", b"/etc/passwd", b"sub/old.safetensors", b"old\0x",
                 b"\0", b"old.safetensors/", b"\xff\xfe", b"\xc0\xaf", b"x" * 256, b"\xed\xa0\x80"]


def forged(tool, directory):
    old, new = tiny_pair(directory)
    archive = convert(tool, new, old)
    content = read(new)
    os.unlink(new)
    return archive, content


def test_names_that_lead_elsewhere(tool, directory):
    """A base name is a plain file name; what is none is refused by every command, before anything is opened."""
    archive, content = forged(tool, directory)
    os.mkdir(os.path.join(directory, "sub"))
    shutil.copy(os.path.join(directory, "old.safetensors"), os.path.join(directory, "sub"))
    good = read(archive)
    write(archive, Forger(archive, content).build())
    check_restores(tool, archive, content)  # what is refused below has its own reason
    write(archive, good)
    for name in HOSTILE_NAMES:
        write(archive, Forger(archive, content).named(name).build())
        for command in (["restore", archive, "-c"], ["verify", archive], ["cat", archive], ["ls", archive],
                        ["info", archive], ["get", archive, "w"],
                        ["restore", archive, "-c", "--base", os.path.join(directory, "old.safetensors")]):
            with Untouched(directory, name):
                tool.run(*command).expect(1, "new.safetensors.lmc")
        write(archive, good)
    for name in (b"\x1b[31m\n", "\u202e".encode(), b"-o", b"x" * 255):
        write(archive, Forger(archive, content).named(name).build())
        tool.run("verify", archive).expect(1, "new.safetensors.lmc")
        tool.run("verify", archive, "--base", os.path.join(directory, "old.safetensors")).expect(0)
        shown = tool.run("info", archive).expect(0).stdout
        check("\x1b" not in shown and "\u202e" not in shown, "a terminal would act on it")
        check(info(tool, archive)["base"]["name"].encode() == name, "JSON")
        write(archive, good)


WRONG_LISTS = {
    "none": lambda f: f.listed(),
    "count too large": lambda f: f.listed(*f.entries, count=9),
    "count of all": lambda f: f.listed(*f.entries, count=2**32 - 1),
    "count too small": lambda f: f.listed(*f.entries, count=1),
    "falling": lambda f: f.listed(*reversed(f.entries)),
    "twice": lambda f: f.listed(f.entries[0], *f.entries),
    "one missing": lambda f: f.listed(f.entries[0]),
    "one too many": lambda f: f.listed(f.entries[0], (1, 1, 0), *f.entries[1:]),
    "tensor out of range": lambda f: f.listed(*f.entries, (7, 0, 0)),
    "base tensor out of range": lambda f: f.listed((0, MOST, 0), *f.entries[1:]),
    "another base tensor": lambda f: f.listed((0, 1, 0), *f.entries[1:]),
    "another file": lambda f: f.listed((0, 0, 1), (2, 0, 1)),
    "of itself": lambda f: f.listed((0, 0, 1), *f.entries[1:]),
    "in a circle": lambda f: f.listed((0, 2, 1), (2, 0, 1)),
    "in a row": lambda f: f.listed((0, 1, 1), (2, 0, 1)),
    "of another dtype's size": lambda f: f.listed((0, 1, 1), *f.entries[1:]),
}


def test_lists_that_are_wrong(tool, directory):
    archive, content = forged(tool, directory)
    good = read(archive)
    for what, change in WRONG_LISTS.items():
        write(archive, change(Forger(archive, content)).build())
        for command in (["restore", archive, "-c"], ["verify", archive],
                        ["verify", archive, "--base", os.path.join(directory, "old.safetensors")]):
            with Untouched(directory, what):
                result = tool.run(*command)
                check(result.status == 1, "%s: exit %d: %s" % (what, result.status, result.stderr))
        write(archive, good)
    check_restores(tool, archive, content)


def test_chains_that_lead_back(tool, directory):
    """Archives that name each other: found out, not followed for ever."""
    tensors = first_snapshot(count=600)
    a = write_model(directory, "a.safetensors", tensors)
    b = write_model(directory, "b.safetensors", next_snapshot(tensors, 1))
    convert(tool, b, a)
    convert(tool, a, b)
    contents = [read(a), read(b)]
    for path, content in zip((a, b), contents):
        check_restores(tool, path + ".lmc", content)
    os.unlink(a)
    os.unlink(b)
    with Untouched(directory):
        for archive in (a + ".lmc", b + ".lmc"):
            tool.run("restore", archive).expect(1)
            tool.run("verify", archive).expect(1)
            info(tool, archive)


# ---- kills and faults ----

def job_arguments(directory, command):
    out = os.path.join(directory, "out")
    name = "new.safetensors" if command == "convert" else "new.safetensors.lmc"
    return [command, os.path.join(directory, name), "--base", os.path.join(directory, "old.safetensors"), "-j1", "-o",
            out], out


def prepared(tool, directory, command):
    """The arguments, the output and what it must be; the inputs are all that is there."""
    old, new = pair(directory, count=20000)
    archive = convert(tool, new, old)
    arguments, out = job_arguments(directory, command)
    if command == "convert":
        wanted = read(archive)
        os.unlink(archive)
    else:
        wanted = read(new)
        os.unlink(new)
    return arguments, out, wanted


def kill_at_each_call(tool, directory, command, before):
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


def test_kill_at_each_call_convert(tool, directory):
    kill_at_each_call(tool, directory, "convert", "")


def test_kill_at_each_call_restore(tool, directory):
    kill_at_each_call(tool, directory, "restore", "")


@pytest.mark.large
def test_kill_at_each_call_named(tool, directory):
    kill_at_each_call(tool, directory, "convert", NAMED + ",")


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
