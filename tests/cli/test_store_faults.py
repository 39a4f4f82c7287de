"""Stores: indexes that are lost or wrong, kills at any moment, calls that fail, two writers, stores that cannot be
written. No model is lost or wrong, and nothing unfinished stays.

The number of kills is 30 by default, 300 with -m large, or as LMC_KILLS says."""
import errno
import fcntl
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

from faults import STOP, Faults, resume
from runs import tree_of
from stores import (add, bases_of, check_clean, check_model, check_store, family, listed, llm, place, tuned,
                    write_directory, write_file)
from support import check, flip, read, write
from users import as_nobody

KILLS = int(os.environ.get("LMC_KILLS", "30"))
KILLS_SLOW = int(os.environ.get("LMC_KILLS", "300"))


# ---- the index is a cache ----

def other_index(tool, directory):
    store = os.path.join(directory, "another")
    for i in range(3):
        add(tool, store, write_file(directory, "another%d" % i, llm(seed=70 + i)))
    return read(os.path.join(store, "index.sqlite"))


def garble(index):
    content = bytearray(read(index))
    rng = random.Random(4)
    for at in rng.sample(range(len(content)), len(content) // 10):
        content[at] = rng.randrange(256)
    write(index, bytes(content))


def tell_lies(index, statement):
    """The database is sound, what it says is not."""
    database = sqlite3.connect(index)
    with database:
        database.execute(statement)
    database.close()


def link(index):
    shutil.move(index, index + ".moved")
    os.symlink(index + ".moved", index)


INDEXES = {"deleted": lambda index, other: os.unlink(index),
           "empty": lambda index, other: write(index, b""),
           "garbled": lambda index, other: garble(index),
           "text": lambda index, other: write(index, b"no index\n" * 1000),
           "cut": lambda index, other: os.truncate(index, os.path.getsize(index) // 2),
           "header": lambda index, other: os.truncate(index, 100),
           "counts": lambda index, other: tell_lies(index, "UPDATE kind SET row_count = -1"),
           "rows": lambda index, other: tell_lies(index, "UPDATE coarse SET rows = x'00'"),
           "tensors": lambda index, other: tell_lies(index, "UPDATE file SET tensors = zeroblob(100000)"),
           "nobody": lambda index, other: tell_lies(index, "UPDATE file SET model = '../../' || model"),
           "version": lambda index, other: tell_lies(index, "PRAGMA user_version = 999"),
           "another": lambda index, other: write(index, other),
           "directory": lambda index, other: (os.unlink(index), os.mkdir(index)),
           "full": lambda index, other: (os.unlink(index), os.mkdir(index), write(os.path.join(index, "x"), b"x")),
           "link": lambda index, other: link(index),
           "dangling": lambda index, other: (os.unlink(index), os.symlink("nowhere", index)),
           "journal": lambda index, other: write(index + "-journal", other)}


@pytest.mark.parametrize("way", [pytest.param(way, marks=[pytest.mark.posix("links")] if way == "dangling" else [])
                                 for way in INDEXES])
def test_index(tool, directory, way):
    store, made = family(tool, directory)
    before = listed(tool, store)
    index = os.path.join(store, "index.sqlite")
    check(os.path.isfile(index), "there is no index")
    outside = write(os.path.join(directory, "outside"), b"outside")
    INDEXES[way](index, other_index(tool, directory))
    check(check_store(tool, store, made) == before, "reading depends on the index")
    made["next"] = write_file(os.path.join(directory, "made"), "next", tuned(llm(), seed=8))
    add(tool, store, made["next"])
    check_store(tool, store, made)
    tool.run("store", "drop", store, "base").expect(0)
    del made["base"]
    check_store(tool, store, made)
    tool.run("store", "repair", store).expect(0)
    check_store(tool, store, made)
    made["last"] = write_file(os.path.join(directory, "made"), "last", tuned(llm(seed=99), seed=9))
    add(tool, store, made["last"])
    entries = check_store(tool, store, made)
    check(way == "full" or bases_of(entries["last"]) == ["other"], "after repair: %s" % entries["last"])
    check(read(outside) == b"outside" and not os.path.exists(os.path.join(store, "nowhere")), "a link was followed")


def test_index_of_an_older_state(tool, directory):
    """It knows a model that was replaced, one that is gone, and lacks another."""
    store, made = family(tool, directory)
    index = os.path.join(store, "index.sqlite")
    kept = read(index)
    add(tool, store, made["other"], "-f", name="base")
    tool.run("store", "drop", store, "other").expect(0)
    made = {"base": made["other"], "tuned": made["tuned"]}
    made["new"] = write_file(os.path.join(directory, "made"), "new", llm(seed=5))
    add(tool, store, made["new"])
    write(index, kept)
    for name, source in (("of base", 99), ("of tuned", 1), ("of new", 5)):
        made[name] = write_file(os.path.join(directory, "made"), name, tuned(llm(seed=source), seed=8))
        add(tool, store, made[name])
    entries = check_store(tool, store, made)
    check([bases_of(entries[name]) for name in ("of base", "of new")] == [["base"], ["new"]], str(entries))


@pytest.mark.parametrize("lost", ["config.json", "model-00001-of-00002.safetensors.lmc"])
def test_file_is_lost(tool, directory, lost):
    """A file that somebody has removed: verify and restore tell, until the model is added again."""
    store, made = family(tool, directory)
    os.unlink(os.path.join(store, "tuned.lmc", lost))
    tool.run("store", "verify", store).expect(1, lost.removesuffix(".lmc"))
    tool.run("store", "verify", store, "base", "other").expect(0)
    out = os.path.join(directory, "out")
    tool.run("store", "restore", store, "tuned", "-o", out).expect(1, lost.removesuffix(".lmc"))
    check(not os.path.exists(out), "an output was left")
    tool.run("store", "add", "-f", store, made["tuned"]).expect(0)
    check_store(tool, store, made)


@pytest.mark.parametrize("kind", ["file", "directory"])
@pytest.mark.parametrize("at", [20, None], ids=["header", "content"])
def test_damaged_base_is_replaced(tool, directory, kind, at):
    """A model that others are based on is damaged: adding it again with -f mends them, other content is refused."""
    tensors, made, store = llm(count=32768), os.path.join(directory, "made"), place(directory)
    path = write_file(made, "base", tensors) if kind == "file" else \
        write_directory(made, "base", tensors, shards=2, others=())
    paths = {"base": path, "tuned": write_file(made, "tuned", tuned(tensors)),
             "split": write_directory(made, "split", tuned(tensors, seed=8), shards=3)}
    for one in paths.values():
        add(tool, store, one)
    check(bases_of(listed(tool, store)["tuned"]) == bases_of(listed(tool, store)["split"]) == ["base"], "its base")
    before = tree_of(store)
    archives = sorted(os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(store, "base.lmc"))
                      for name in names if name.endswith(".safetensors.lmc") or name == "base.lmc")
    for archive in archives:
        flip(archive, at or os.path.getsize(archive) // 2, 0x80)
    tool.run("store", "add", store, path).expect(1, archives[0], "adding model base with force (-f) replaces")
    other = write_file(os.path.join(directory, "other"), "base", llm(count=32768, seed=5))
    done = tool.run("store", "add", "-f", store, other)
    check(done.status in (1, 2) and set(tree_of(store)) == set(before), "models would be lost: " + done.stderr)
    line = add(tool, store, path, "-f")
    check("re-based" not in line and "base: added" in line, line)
    check_store(tool, store, paths)


def test_mark_is_lost(tool, directory):
    store, made = family(tool, directory)
    os.unlink(os.path.join(store, "store.json"))
    tool.run("store", "ls", store).expect(2, "store")
    tool.run("store", "repair", store).expect(0)
    check_store(tool, store, made)


# ---- stores that cannot be written ----

def test_store_cannot_be_written(tool, directory):
    store, made = family(tool, directory)
    os.mkdir(os.path.join(directory, "out"))
    os.chmod(os.path.join(directory, "out"), 0o777)
    path = write_file(directory, "new", llm(layers=1, seed=3))
    for folder, folders, files in os.walk(store):
        for name in folders + files:
            os.chmod(os.path.join(folder, name), 0o555)
    os.chmod(store, 0o555)
    user = as_nobody(tool, directory)
    before = tree_of(store)
    check(sorted(listed(tool, store)) == sorted(made), "ls")
    for arguments in (["ls"], ["info"], ["info", "tuned"], ["verify"], ["get", "base", "embed.weight"]):
        tool.run("store", arguments[0], store, *arguments[1:], **user).expect(0)
    out = os.path.join(directory, "out", "back")
    tool.run("store", "restore", store, "tuned", "-o", out, **user).expect(0)
    check(tree_of(out) == tree_of(made["tuned"]), "restore")
    for arguments in (["add", store, path], ["drop", store, "base"], ["repair", store]):
        tool.run("store", *arguments, **user).expect(3, "ermission denied")
    check(tree_of(store) == before, "the store has changed")
    for folder, _, _ in os.walk(store):
        os.chmod(folder, 0o755)


@pytest.mark.parametrize("kind", ["store", "run"])
def test_store_cannot_be_made(tool, directory, kind):
    path = write_file(directory, "step1", llm(layers=1, seed=3))
    closed = os.path.join(directory, "closed")
    os.mkdir(closed)
    os.chmod(closed, 0o555)
    user = as_nobody(tool, directory)
    for folder, cause in ((closed, errno.EACCES), (os.path.join(directory, "none"), errno.ENOENT)):
        told = tool.run(kind, "add", os.path.join(folder, "new"), path, **user)
        told.expect(3, "/new: cannot create the %s: %s\n" % (kind, os.strerror(cause)))


@pytest.mark.posix("limits of a file's size")
def test_full_disk(tool, directory):
    """A file of more than this size cannot be written: the model fails, and the store is sound."""
    store, made = family(tool, directory)
    path = write_file(directory, "large", llm(count=32768, seed=3))
    tool.run("store", "add", store, path, file_size=100000).expect(3, "File too large")
    check_store(tool, store, made)
    add(tool, store, path)
    check_clean(store)


# ---- two writers ----

def test_two_adders(tool, directory):
    """Of different models, and of the same one."""
    base = llm()
    folder = os.path.join(directory, "made")
    made = {"base": write_file(folder, "base", base)}
    made.update({"m%d" % i: write_file(folder, "m%d" % i, tuned(base, seed=i)) for i in range(8)})
    names = sorted(made)
    processes = [tool.start("store", "add", place(directory), *(made[name] for name in part))
                 for part in (names[:6], names[3:], names[::-1])]
    told = []
    for process in processes:
        output, message = process.communicate()
        check(process.returncode == 0 and message == b"", "exit %d: %s" % (process.returncode, message))
        told += output.decode().splitlines()
    check(len(told) == 6 + 6 + 9, str(told))
    check(sorted(line.split(":")[0] for line in told if ": added" in line) == names, "added: %s" % told)
    check_store(tool, place(directory), made)
    check_clean(place(directory))


def test_readers_beside_a_writer(tool, directory):
    store, made = family(tool, directory)
    for i in range(6):
        path = write_file(directory, "more%d" % i, tuned(llm(), seed=i))
        writer = tool.start("store", "add", store, path)
        check(set(made) <= set(listed(tool, store)), "a model is missing")
        check_model(tool, store, "tuned", made["tuned"])
        _, message = writer.communicate()
        check(writer.returncode == 0, message.decode())
        dropper = tool.start("store", "drop", store, "more%d" % i)
        tool.run("store", "verify", store, *made).expect(0)
        dropper.communicate()
        check(dropper.returncode == 0, "drop")
    check_store(tool, store, made)


@pytest.mark.posix("a lock of this program, which is none of Windows")
def test_one_directory_is_one_kind(tool, directory):
    """A run and a store that wait for the same directory: the second one finds what the first one made."""
    model = write_file(directory, "step-10", llm())
    os.mkdir(place(directory))
    with open(os.path.join(place(directory), ".lmc-lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        processes = [tool.start(kind, "add", place(directory), model) for kind in ("run", "store")]
        time.sleep(0.5)
        check(all(process.poll() is None for process in processes), "no waiting for the lock")
    messages = [process.communicate()[1].decode() for process in processes]
    check(sorted(process.returncode for process in processes) == [0, 2], "%s" % messages)
    marks = {"run.json", "store.json"} & set(os.listdir(place(directory)))
    check(len(marks) == 1, "%s: %s" % (marks, messages))


def test_force_meets_a_new_store(tool, directory):
    """A directory that -f is to replace becomes a store while the new one is written."""
    faults = Faults(tool, directory)
    base = write_file(directory, "base", llm())
    checkpoint = write_directory(directory, "checkpoint", tuned(llm(), seed=1))
    out = os.path.join(directory, "out")
    os.mkdir(out)
    write(os.path.join(out, "notes"), b"old")
    process = faults.stopped("pwrite:3:1:" + STOP, "convert", "-f", "-j1", checkpoint, "-o", out)
    os.unlink(os.path.join(out, "notes"))
    add(tool, out, base)
    status, message = resume(process)
    check(status == 2 and "meanwhile" in message, "exit %d: %s" % (status, message))
    check_model(tool, out, "base", base)


# ---- kills ----

class World:
    """A store, models that may be added to it, and what is known of each name: the sources that it may have, None if it
    may be missing."""

    def __init__(self, tool, directory, made):
        self.tool, self.made, self.rng = tool, made, random.Random(len(made))
        self.store = place(directory)
        self.known = {name: {None} for name in made}
        self.seconds = {}

    def choose(self):
        """A command, and what each name may become by it."""
        present = [name for name, paths in self.known.items() if paths != {None}]
        absent = [name for name in self.made if name not in present]
        kind = self.rng.choice(["add"] * 3 * bool(absent) + ["drop", "replace", "repair"] * (len(present) > 2))
        if kind == "add":
            names = self.rng.sample(absent, min(len(absent), self.rng.randint(1, 3)))
            return kind, ["add", self.store, *(self.made[name] for name in names)], {n: self.made[n] for n in names}
        if kind == "drop":
            names = self.rng.sample(present, self.rng.randint(1, 2))
            return kind, ["drop", self.store, *names], {name: None for name in names}
        if kind == "replace":
            name, other = self.rng.sample(present, 2)
            return kind, ["add", "-f", "--as", name, self.store, self.made[other]], {name: self.made[other]}
        return kind, ["repair", self.store], {}

    def kill(self):
        """Returns whether the command was still there to be killed."""
        kind, arguments, becoming = self.choose()
        longest = self.seconds.get(kind, 0.05)
        process = self.tool.start("store", *arguments)
        time.sleep(self.rng.uniform(0, longest))
        process.send_signal(signal.SIGKILL)
        told, message = process.communicate()
        what = "store %s: exit %d: %s" % (" ".join(arguments), process.returncode, message.decode())
        check(process.returncode in (0, -signal.SIGKILL), what)
        for name, path in becoming.items():
            self.known[name] = self.known[name] | {path}
        for line in told.decode().splitlines():
            name, _, event = line.partition(": ")
            if name in becoming and event.startswith(("added", "already there", "dropped")):
                self.known[name] = {becoming[name]}
        if process.returncode == 0:
            self.known.update({name: {path} for name, path in becoming.items()})
        self.seconds[kind] = longest * (1.3 if process.returncode != 0 else 0.7)
        self.check_state(what)
        return process.returncode != 0

    def check_state(self, what):
        if not os.path.exists(os.path.join(self.store, "store.json")):
            check(all(None in paths for paths in self.known.values()), what + ": there is no store")
            return
        verified = self.tool.run("store", "verify", self.store)
        check(verified.status == 0, "%s: then store verify: exit %d: %s" % (what, verified.status, verified.stderr))
        found = set(listed(self.tool, self.store))
        check(found <= set(self.known), "%s: models %s" % (what, sorted(found)))
        for name, paths in self.known.items():
            check(name in found or None in paths, "%s: %s is missing" % (what, name))
            check(name not in found or paths != {None}, "%s: %s is there" % (what, name))
            self.known[name] = paths - {None} if name in found else {None}
        for name in self.rng.sample(sorted(found), min(2, len(found))):
            right = {path for path in self.known[name]
                     if self.tool.run("store", "add", self.store, path, "--as", name).status == 0}
            check(len(right) == 1, "%s: %s is none of %s" % (what, name, sorted(self.known[name])))
            self.known[name] = right
            check_model(self.tool, self.store, name, *right)
        if self.rng.random() < 0.7:  # else the next command finds what was half done
            self.tool.run("store", "drop", self.store, "nobody").expect(2, "nobody")
            check_clean(self.store)


def world_of(directory):
    """Files and directories of two families."""
    folder = os.path.join(directory, "made")
    made = {}
    for family_number in range(2):
        tensors = llm(seed=family_number, layers=3, count=8192)
        for i in range(5):
            name = "m%d%d" % (family_number, i)
            own = tensors if i == 0 else tuned(tensors, seed=i)
            made[name] = write_directory(folder, name, own, 2) if i % 2 else write_file(folder, name, own)
    return made


@pytest.mark.posix("signals")
@pytest.mark.parametrize("count", [pytest.param(KILLS, marks=pytest.mark.slow),
                                   pytest.param(KILLS_SLOW, marks=pytest.mark.large)], ids=["some", "often"])
def test_killed_at_random(tool, directory, count):
    world = World(tool, directory, world_of(directory))
    killed = sum(world.kill() for _ in range(count))
    check(killed > count // 5, "only %d of %d commands were still there to be killed" % (killed, count))


class Case:
    """A command on a store, and the models after it; `before` and `after` are {name: path}."""

    def __init__(self, kind, tool, where, made):
        self.tool, self.store, self.kept = tool, os.path.join(where, "store"), os.path.join(where, "kept")
        self.before = {name: made[name] for name in ("base", "other", "tuned")} if kind != "new" else {}
        self.after = dict(self.before)
        if self.before:
            tool.run("store", "add", self.kept, *self.before.values()).expect(0)
        if kind in ("new", "add"):
            name, source = ("org/team/base", "base") if kind == "new" else ("next", "next")
            self.after[name] = made[source]
            self.arguments = ["add", self.store, made[source], "--as", name]
        elif kind == "replace":
            self.after["base"] = made["next"]
            self.arguments = ["add", self.store, made["next"], "-f", "--as", "base"]
        elif kind == "drop":
            self.after = {"tuned": made["tuned"]}
            self.arguments = ["drop", self.store, "base", "other"]
        elif kind == "drop family":  # a model whose name stands before that of its base
            tool.run("store", "add", self.kept, made["tuned"], "--as", "a/tuned").expect(0)
            self.before["a/tuned"] = made["tuned"]
            self.after = {"other": made["other"]}
            self.arguments = ["drop", self.store, "tuned", "base", "a/tuned"]
        else:
            self.arguments = ["repair", self.store]

    def renew(self):
        shutil.rmtree(self.store, ignore_errors=True)
        if os.path.exists(self.kept):
            shutil.copytree(self.kept, self.store)

    def check(self, what):
        """Each model is as before or as after the command, and the next command removes what is unfinished."""
        if not os.path.exists(os.path.join(self.store, "store.json")):
            check(not self.before, what + ": there is no store")
            self.tool.run("store", *self.arguments).expect(0)  # what is left of it is in nobody's way
            return
        verified = self.tool.run("store", "verify", self.store)
        check(verified.status == 0, "%s: then store verify: exit %d: %s" % (what, verified.status, verified.stderr))
        found = set(listed(self.tool, self.store))
        names = set(self.before) | set(self.after)
        check(found <= names and found >= set(self.before) & set(self.after), "%s: models %s" % (what, sorted(found)))
        self.tool.run("store", "drop", self.store, "nobody").expect(2, "nobody")
        check_clean(self.store)
        wanted = {}
        for name in found:
            both = {models[name] for models in (self.before, self.after) if name in models}
            for path in sorted(both):
                if self.tool.run("store", "add", self.store, path, "--as", name).status == 0:
                    wanted[name] = path
            check(name in wanted, "%s: %s has another content" % (what, name))
        check_store(self.tool, self.store, wanted)


def case_of(kind, tool, directory):
    base = llm(layers=2, count=512)
    folder = os.path.join(directory, "made")
    made = {"base": write_file(folder, "base", base), "other": write_file(folder, "other", llm(5, 2, 512)),
            "tuned": write_directory(folder, "tuned", tuned(base), 2, ()),
            "next": write_file(folder, "next", tuned(base, 8))}
    faults = Faults(tool, os.path.join(directory, "place"))
    os.mkdir(faults.directory)
    case = Case(kind, tool, faults.directory, made)
    case.renew()
    return faults, case


@pytest.mark.parametrize("command", [("add", "--as", "new"), ("drop",), ("plan", "--apply")], ids=lambda c: c[0])
def test_store_of_a_newer_version(tool, directory, command):
    """It is refused before anything is removed from it, whatever it may be."""
    store, made = family(tool, directory)
    write(os.path.join(store, ".lmc-later"), b"of a later version")
    write(os.path.join(store, "store.json"), b'{"format":"lmc-store","version":2}\n')
    before = tree_of(store)
    operands = {"add": [store, made["base"]], "drop": [store, "base"], "plan": [store]}[command[0]]
    tool.run("store", *command, *operands).expect(1, "version 2")
    check(tree_of(store) == before, "it was changed")


@pytest.mark.posix("links that lead to themselves")
def test_drop_of_what_cannot_be_read(tool, directory):
    """A model that no call can read may go, and does not keep others."""
    store, made = family(tool, directory)
    add(tool, store, made["other"], name="extra")
    for name in ("extra", "other"):
        archive = os.path.join(store, name + ".lmc", "other.lmc")
        os.rename(archive, archive + ".aside")
        os.symlink(archive, archive)  # ELOOP
        tool.run("store", "drop", store, name).expect(0)
    check_store(tool, store, {name: made[name] for name in ("base", "tuned")})


@pytest.mark.parametrize("call, number, step", [("pread", errno.EIO, 1), ("alloc", errno.ENOMEM, 17)],
                         ids=["unreadable", "no memory"])
def test_copy_of_a_dependent_whose_file_fails(tool, directory, call, number, step):
    """What cannot be read is no base, for its first tensor and for the others. A lack of memory is an error, and no
    archive without a base."""
    base = llm(1, 2, 512)
    folder = os.path.join(directory, "made")
    faults = Faults(tool, os.path.join(directory, "place"))
    os.mkdir(faults.directory)
    store = os.path.join(faults.directory, "store")
    add(tool, store, write_file(folder, "base", base))
    add(tool, store, write_file(folder, "tuned", tuned(base)))
    copy = write_file(folder, "copy", tuned(base))
    lines, hits, occurrence = [], [call], 1
    while hits:
        result, hits = faults.run("%s:%d:1:e%d" % (call, occurrence, number), "store", "add", "-j", "1", store, copy)
        check(result.status in (0, 3), "%s %d: %d %s" % (call, occurrence, result.status, result.stderr))
        if result.status == 0:
            lines.append(result.stdout)
            check_model(tool, store, "copy", copy)
            tool.run("store", "drop", store, "copy").expect(0)
        occurrence += step
    check(call == "pread" or len(set(lines)) == 1, "stored in other ways: %s" % set(lines))


NAMING = ("rename", "link", "unlink", "mkdir", "rmdir", "create", "fsync")


@pytest.mark.parametrize("action", ["s%d" % signal.SIGKILL, "e%d" % errno.EIO], ids=["killed", "fails"])
@pytest.mark.parametrize("kind", ["new", "add", pytest.param("replace", marks=pytest.mark.slow),
                                  pytest.param("drop", marks=pytest.mark.slow), "drop family", "repair"])
def test_at_each_call(tool, directory, kind, action):
    faults, case = case_of(kind, tool, directory)
    result, calls = faults.run("any:1:0:s0", "store", *case.arguments)
    check(result.status == 0, result.stderr)
    moments = [i + 1 for i, call in enumerate(calls) if call in NAMING]
    check(len(moments) > 0, "calls: %s" % calls)
    for occurrence in moments:
        case.renew()
        result, _ = faults.run("any:%d:1:%s" % (occurrence, action), "store", *case.arguments)
        what = "store %s, %s at call %d (%s): exit %d: %s" % (
            " ".join(case.arguments), action, occurrence, calls[occurrence - 1], result.status, result.stderr)
        check(result.status in ((0, -signal.SIGKILL) if action[0] == "s" else (0, 3)), what)
        case.check(what)


@pytest.mark.parametrize("command", [("store", "add", "--as", "org/team/model"), ("run", "add", "--step", "5")],
                         ids=lambda command: command[0])
def test_new_names_are_flushed(tool, directory, command):
    """That of a new store or run, and those of the folders in it, are on the disk when the call ends."""
    path = write_file(directory, "model", llm(layers=1))
    new = os.path.join(os.path.realpath(directory), "place", "new")
    os.mkdir(os.path.dirname(new))
    trace = os.path.join(directory, "trace")
    try:
        done = subprocess.run(["strace", "-f", "-y", "-qq", "-e", "trace=fsync", "-e", "signal=none", "-o", trace,
                               tool.path, *command[:2], new, path, *command[2:]], check=False, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no strace")
    if done.returncode != 0 or not os.path.exists(trace):
        pytest.skip("strace cannot trace here")
    flushed = set(re.findall(r"fsync\(\d+<([^>]*)>\)", read(trace).decode()))
    folders = {os.path.dirname(folder) for folder, _, _ in os.walk(new)}
    check(folders <= flushed, "not flushed: %s" % sorted(folders - flushed))
    os.unlink(trace)


@pytest.mark.posix("signals")
@pytest.mark.parametrize("kind", ["new", "add", "replace", "drop"])
def test_interrupted(tool, directory, kind):
    """Ctrl-C in the midst of the work leaves nothing, not even for a later command."""
    faults, case = case_of(kind, tool, directory)
    process = faults.stopped("pwrite:1:1:" + STOP, "store", *case.arguments)
    process.send_signal(signal.SIGINT)
    status, message = resume(process)
    check(status == 130 and message.startswith("lmc-st: ") and message.count("\n") == 1, "%d: %s" % (status, message))
    check(os.path.exists(case.store) == bool(case.before), "a store is there, or is not")
    if case.before:
        check_clean(case.store)
        check_store(tool, case.store, case.before)


def test_unfinished_work(tool, directory):
    """It has names that begin with a dot, and is gone after the next command that changes the store."""
    faults, case = case_of("add", tool, directory)
    names = set(os.listdir(case.store))
    process = faults.stopped("pwrite:1:1:" + STOP, "store", *case.arguments)
    process.kill()
    process.communicate()
    more = set(os.listdir(case.store)) - names
    check(more and all(name.startswith(".") for name in more), "unfinished: %s" % more)
    check_store(tool, case.store, case.before)
    tool.run("store", "drop", case.store, "other").expect(0)
    check_clean(case.store)
    del case.before["other"]
    check_store(tool, case.store, case.before)
