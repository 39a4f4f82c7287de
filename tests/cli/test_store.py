"""Stores: what is added and under which name, what comes back, what is told of it, and what is refused."""
import json
import os
import random
import shutil
import unicodedata

import pytest

from runs import added, checkpoints, snapshots, tree_of
from stores import (add, bases_of, check_clean, check_model, check_store, family, listed, llm, place, tuned,
                    write_directory, write_file)
from support import check, check_no_controls, flip, model, read, weights, write


def small(directory, name="m.safetensors", seed=1):
    return write_file(directory, name, llm(seed, layers=1, count=256))


# ---- adding ----

def test_models_come_back(tool, directory):
    store, made = family(tool, directory)
    entries = check_store(tool, store, made)
    check_clean(store)
    check(bases_of(entries["tuned"]) == ["base"] and entries["tuned"]["depth"] == 2, str(entries["tuned"]))
    for name, path in made.items():
        nbytes = sum(len(content) for content in tree_of(path).values())
        check(entries[name]["nbytes"] == nbytes and entries[name]["files"] == len(tree_of(path)), "sizes of " + name)
        check(entries[name]["time"] == int(os.stat(path).st_mtime), "time of " + name)


def test_line_of_a_model(tool, directory):
    base = llm()
    paths = [write_file(directory, "base", base), write_file(directory, "tuned", tuned(base))]
    first, second = tool.run("store", "add", place(directory), *paths).expect(0).stdout.splitlines()
    entries = listed(tool, place(directory))
    for line, name, end in ((first, "base", "on its own"), (second, "tuned", "based on base")):
        entry = entries[name]
        check(line == "%s: added, %d bytes -> %d, ratio %.4f, %s" % (
            name, entry["nbytes"], entry["stored_nbytes"], entry["stored_nbytes"] / entry["nbytes"], end), line)
    check(add(tool, place(directory), paths[1]) == "tuned: already there\n", "added again")
    check(add(tool, place(directory), paths[1], "-q") == "", "-q")


def test_lines_are_in_the_order_given(tool, directory):
    paths = [small(directory, name, seed=i) for i, name in enumerate("cabd")]
    told = tool.run("store", "add", place(directory), *paths).expect(0).stdout
    check([line.split(":")[0] for line in told.splitlines()] == list("cabd"), told)


def test_add_in_json(tool, directory):
    base = llm()
    paths = [write_file(directory, "base", base), write_file(directory, "tuned", tuned(base))]
    told = json.loads(tool.run("store", "add", "--json", place(directory), *paths).expect(0).stdout)
    entries = listed(tool, place(directory))
    check([entry.pop("event") for entry in told] == ["added", "added"], str(told))
    check(told == [entries["base"], entries["tuned"]], "%s, not %s" % (told, entries))
    result = tool.run("store", "add", "--json", place(directory), paths[0], os.path.join(directory, "absent"))
    told = json.loads(result.expect(3, "absent").stdout)
    check([entry["event"] for entry in told] == ["already there"], str(told))
    result = tool.run("store", "add", "--json", "-q", place(directory), os.path.join(directory, "absent"))
    check(json.loads(result.expect(3).stdout) == [], result.stdout)


def test_other_content(tool, directory):
    store, made = family(tool, directory)
    before = tree_of(store)
    tool.run("store", "add", store, made["other"], "--as", "base").expect(2, "base", "other content")
    check(tree_of(store) == before, "the store has changed")
    told = add(tool, store, made["other"], "-f", name="base").splitlines()
    check(told[0].startswith("tuned: re-based") and told[-1].startswith("base: added"), str(told))
    check_store(tool, store, {**made, "base": made["other"]})
    check_clean(store)


@pytest.mark.parametrize("change", ["kind", "fewer", "more", "folder"])
def test_other_files_are_other_content(tool, directory, change):
    made = write_directory(directory, "m", llm(layers=1), shards=2)
    add(tool, place(directory), made)
    if change == "kind":
        shutil.rmtree(made)
        small(directory, "m")
    elif change == "fewer":
        os.unlink(os.path.join(made, "config.json"))
    elif change == "more":
        write(os.path.join(made, "more"), b"")
    else:
        os.mkdir(os.path.join(made, "empty"))
    tool.run("store", "add", place(directory), made).expect(2, "other content")
    add(tool, place(directory), made, "-f")
    check_model(tool, place(directory), "m", made)


def test_sources_stay(tool, directory):
    _, made = family(tool, directory)
    folder = os.path.dirname(made["base"])
    before = tree_of(folder)
    shutil.rmtree(place(directory))
    tool.run("store", "add", place(directory), *made.values()).expect(0)
    check(tree_of(folder) == before, "a source has changed")


def test_a_model_fails_alone(tool, directory):
    """As a whole; the exit status is the worst."""
    good, last = small(directory, "good"), small(directory, "last", seed=2)
    bad = write_directory(directory, "bad", llm(layers=2), shards=2)
    shard = os.path.join(bad, "model-00002-of-00002.safetensors")
    write(shard, read(shard)[:-5])
    absent = os.path.join(directory, "absent")
    result = tool.run("store", "add", place(directory), good, bad, last).expect(1, "model-00002-of-00002.safetensors")
    check([line.split(":")[0] for line in result.stdout.splitlines()] == ["good", "last"], result.stdout)
    tool.run("store", "add", place(directory), bad, absent, good).expect(3, "absent", "model-00002")
    check_store(tool, place(directory), {"good": good, "last": last})
    check_clean(place(directory))


def test_excluded_files_are_copied(tool, directory):
    made = write_directory(directory, "m", llm(layers=1), others=("config.json", "note.txt"))
    shutil.copy(os.path.join(made, "model-00001-of-00001.safetensors"), os.path.join(made, "copy.safetensors"))
    add(tool, place(directory), made, "--exclude", "copy*")
    folder = os.path.join(place(directory), "m.lmc")
    check("copy.safetensors" in os.listdir(folder), str(os.listdir(folder)))
    check_model(tool, place(directory), "m", made)


def test_names_inside_a_model(tool, directory):
    """They mean nothing to the store."""
    others = ("store.json", "index.sqlite", ".lmc-lock", "run.json")
    root = write_directory(directory, "m", llm(layers=1), others=others)
    for folder in ("sub.lmc", "30", ".lmc-new", ".lmc-gone-3"):
        small(os.path.join(root, folder))
    archive = os.path.join(root, "sub.lmc", "x.lmc")
    tool.run("convert", os.path.join(root, "30", "m.safetensors"), "-o", archive).expect(0)
    tool.run("store", "add", "-q", place(directory), root).expect(0)
    check(list(listed(tool, place(directory))) == ["m"], "models: %s" % list(listed(tool, place(directory))))
    add(tool, place(directory), small(directory))
    tool.run("store", "repair", place(directory)).expect(0)
    tool.run("store", "verify", place(directory)).expect(0)
    check_model(tool, place(directory), "m", root)


# ---- names ----

NFC = unicodedata.normalize("NFC", "mod\u00e8le")
NAMES = {"plain": "model", "spaces": " two  words ", "nfc": NFC, "nfd": unicodedata.normalize("NFD", NFC),
         "newline": "two\nlines", "controls": "a\x1b[31m\tb\x7f", "direction": "a\u202eb", "quotes": "a\"b\\c'd",
         "dash": "-f", "dashes": "--json", "segment": "s" * 200, "segments": "/".join(["t" * 199] * 5),
         "deep": "/".join(["d"] * 32),
         "revision": "org/model@rev", "below": "org/model@rev/x", "suffix": "m.lmc", "dots": "a..b/c...", "wide":
         "\U0001f600\u6a21\u578b", "numbers": "30", "index": "index.sqlite", "mark": "store.json", "star": "*?[a]$(x)"}


NOT_ON_WINDOWS = {"spaces", "newline", "controls", "quotes", "dots", "star"}


def of_posix(names):
    marks = [pytest.mark.posix("such names")] if NOT_ON_WINDOWS & set(names) else []
    return pytest.param(names, marks=marks, id=names[0] if len(names) == 1 else "all")


@pytest.mark.parametrize("names", [*(of_posix([name]) for name in NAMES), of_posix(list(NAMES))])
def test_names(tool, directory, names):
    made = {NAMES[name]: small(directory, name, seed=i) for i, name in enumerate(names)}
    for name, path in made.items():
        check_no_controls(add(tool, place(directory), path, name=name))
    check_store(tool, place(directory), made)
    check_no_controls(tool.run("store", "ls", place(directory)).expect(0).stdout)
    for name, path in made.items():
        told = tool.run("store", "info", "--json", "--", place(directory), name).expect(0).stdout
        check(json.loads(told)["name"] == name, told)
        check_no_controls(tool.run("store", "info", "--", place(directory), name).expect(0).stdout)
        tool.run("store", "verify", "--", place(directory), name).expect(0)
        got = tool.run("store", "get", "--", place(directory), name, "embed.weight").expect(0).output
        check(got == tool.run("get", path, "embed.weight").expect(0).output, "get")
        check_no_controls(tool.run("store", "drop", "--", place(directory), name).expect(0).stdout)
    check(listed(tool, place(directory)) == {}, "models are left")
    left = set(os.listdir(place(directory))) - {"store.json", "index.sqlite", ".lmc-lock"}
    check(not left, "left behind: %s" % left)


def test_name_and_name_below_it(tool, directory):
    made = {name: small(directory, str(i), seed=i) for i, name in enumerate(["a", "a/b", "a/b/c", "a.lmc", "b"])}
    for name, path in made.items():
        add(tool, place(directory), path, name=name)
    check_store(tool, place(directory), made)
    tool.run("store", "drop", place(directory), "a").expect(0)
    del made["a"]
    check_store(tool, place(directory), made)


NO_NAMES = {"empty": "", "dot": ".", "dots": "..", "hidden": ".x", "hidden_below": "a/.x", "up": "a/../b",
            "twice": "a//b", "before": "/a", "behind": "a/", "archive_above": "a.lmc/b", "segment": "s" * 201,
            "bytes": "\u00e9" * 101, "long": "/".join(["t" * 199] * 6),
            "deep": "/".join(["d"] * 33), "lock": ".lmc-lock"}


@pytest.mark.parametrize("name", [
    *(pytest.param(name, id=kind) for kind, name in NO_NAMES.items()),
    pytest.param("a\udcffb", id="no_utf8", marks=pytest.mark.posix("arguments that are no UTF-8"))])
def test_no_names(tool, directory, name):
    path = small(directory)
    tool.run("store", "add", place(directory), path, "--as", name).expect(2)
    check(not os.path.exists(place(directory)), "a store was made")
    add(tool, place(directory), path)
    before = tree_of(place(directory))
    for command in (["info"], ["restore", "-o", os.path.join(directory, "back")], ["verify"], ["drop"]):
        tool.run("store", *command, place(directory), name).expect(2)
    tool.run("store", "get", place(directory), name, "embed.weight").expect(2)
    check(tree_of(place(directory)) == before and not os.path.exists(os.path.join(directory, "back")), "changed")


@pytest.mark.parametrize("name", ["a\\b", "c:x", "aux", "org/model."])
def test_names_that_windows_cannot_have(tool, directory, name):
    path = small(directory, "m")
    if tool.for_windows:
        tool.run("store", "add", "--as", name, place(directory), path).expect(2, "here: it ")
    else:
        add(tool, place(directory), path, name=name)


def test_name_of_a_path(tool, directory):
    root = write_directory(directory, "folder", llm(layers=1))
    os.mkdir(os.path.join(root, "below"))
    os.symlink("folder", os.path.join(directory, "link"))
    for path, name, where in ((root, "folder", "."), (root + "//", "folder", "."), (".", "folder", root),
                              ("./", "folder", root), ("..", "folder", os.path.join(root, "below")),
                              ("../folder/.", "folder", root), ("link", "link", directory)):
        tool.run("store", "add", place(directory), path, cwd=where).expect(0)
        check(list(listed(tool, place(directory))) == [name], "%s: %s" % (path, list(listed(tool, place(directory)))))
        check_model(tool, place(directory), name, root)
        tool.run("store", "drop", place(directory), name).expect(0)
    tool.run("store", "add", place(directory), "/").expect(2)


def test_two_equal_names(tool, directory):
    paths = [small(os.path.join(directory, folder), "m", seed) for seed, folder in enumerate("ab")]
    result = tool.run("store", "add", place(directory), small(directory, "x"), *paths).expect(2, "\"m\"", "--as")
    check(result.stdout == "" and not os.path.exists(place(directory)), "a model was added")


# ---- what is told ----

def test_keys_of_the_list(tool, directory):
    store, _ = family(tool, directory)
    entries = listed(tool, store)
    for entry in entries.values():
        check(list(entry) == ["name", "files", "nbytes", "stored_nbytes", "ratio", "base", "unknown_base", "depth",
                              "time"], "keys: %s" % list(entry))
        check(abs(entry["ratio"] - entry["stored_nbytes"] / entry["nbytes"]) < 1e-6, "ratio")
    table = tool.run("store", "ls", store).expect(0).stdout.splitlines()
    check([line.split()[-1] for line in table[:3]] == ["model", "base", "other"], str(table))
    check(table[3].endswith("  tuned  based on base") and table[4].startswith("3 models, "), str(table))


def test_info(tool, directory):
    store, made = family(tool, directory)
    add(tool, store, made["base"], name="again")
    entries = listed(tool, store)
    dependents = {name: [other for other, entry in entries.items() if name in bases_of(entry)] for name in entries}
    check("tuned" in dependents["base"], str(dependents))
    for name, entry in entries.items():
        told = json.loads(tool.run("store", "info", "--json", store, name).expect(0).stdout)
        check(told.pop("dependents") == dependents[name] and told == entry, "%s, not %s" % (told, entry))
        text = tool.run("store", "info", store, name).expect(0).stdout
        check("saves:         %d bytes\n" % (entry["nbytes"] - entry["stored_nbytes"]) in text, text)
        check(all(other in text for other in dependents[name] + bases_of(entry)), text)
    told = json.loads(tool.run("store", "info", "--json", store).expect(0).stdout)
    check(told["models"] == 4 and told["kind"] == "store", str(told))
    for key in ("nbytes", "stored_nbytes", "files"):
        check(told[key] == sum(entry[key] for entry in entries.values()), key)
    check(abs(told["ratio"] - told["stored_nbytes"] / told["nbytes"]) < 1e-6, "ratio")
    check("4 models" in tool.run("store", "info", store).expect(0).stdout, "text")
    tool.run("store", "info", store, "nothing").expect(2, "there is no model", "nothing")


def test_empty_store(tool, directory):
    add(tool, place(directory), small(directory))
    tool.run("store", "drop", place(directory), "m.safetensors").expect(0)
    check(tool.run("store", "ls", "--json", place(directory)).expect(0).stdout == "[]\n", "ls")
    check(json.loads(tool.run("store", "info", "--json", place(directory)).expect(0).stdout)["ratio"] is None, "info")
    tool.run("store", "verify", place(directory)).expect(0)
    tool.run("store", "repair", place(directory)).expect(0)


# ---- reading ----

def test_get(tool, directory):
    store, made = family(tool, directory)
    shard = os.path.join(made["tuned"], "model-00001-of-00002.safetensors")
    whole = tool.run("get", shard, "embed.weight").expect(0).output
    check(tool.run("store", "get", store, "tuned", "embed.weight").expect(0).output == whole, "whole")
    part = tool.run("store", "get", store, "tuned", os.path.basename(shard) + ":embed.weight[1:3, :]").expect(0).output
    check(part == whole[len(whole) // 32:3 * len(whole) // 32], "slice")
    out = os.path.join(directory, "out")
    tool.run("store", "get", store, "tuned", "embed.weight", "-o", out).expect(0)
    check(read(out) == whole, "-o")
    tool.run("store", "get", store, "tuned", "embed.weight", "-o", out).expect(2, "exists")
    tool.run("store", "get", store, "tuned", "nothing").expect(2, "nothing")
    tool.run("store", "get", store, "tuned", "embed.weight[99]").expect(2, "embed.weight")
    tool.run("store", "get", store, "nobody", "embed.weight").expect(2, "nobody")


def test_get_of_several_files(tool, directory):
    root = write_directory(directory, "m", llm(layers=1))
    write(os.path.join(root, "more.safetensors"), model(llm(seed=5, layers=1)))
    add(tool, place(directory), root)
    tool.run("store", "get", place(directory), "m", "embed.weight").expect(2, "several files")
    got = tool.run("store", "get", place(directory), "m", "more.safetensors:embed.weight").expect(0).output
    check(got == tool.run("get", os.path.join(root, "more.safetensors"), "embed.weight").output, "FILE:NAME")


def test_restore(tool, directory):
    store, made = family(tool, directory)
    out = write(os.path.join(directory, "out"), b"old")
    tool.run("store", "restore", store, "base", "-o", out).expect(2, "exists")
    check(read(out) == b"old", "replaced without -f")
    tool.run("store", "restore", store, "base", "-o", out, "-f").expect(0)
    check(tree_of(out) == tree_of(made["base"]), "-f")
    tool.run("store", "restore", store, "base").expect(2, "-o")
    tool.run("store", "restore", store, "base", "-o", "-").expect(2, "-o")
    tool.run("store", "restore", store, "nobody", "-o", out, "-f").expect(2, "nobody")
    before = tree_of(store)
    tool.run("store", "restore", store, "base", "-o", os.path.join(store, "out")).expect(2)
    tool.run("store", "restore", store, "base", "-o", os.path.join(store, "base.lmc", "out")).expect(2)
    check(tree_of(store) == before, "the store has changed")


def test_other_commands_find_bases(tool, directory):
    store, made = family(tool, directory)
    folder = os.path.join(store, "tuned.lmc")
    tool.run("verify", folder).expect(0)
    tool.run("restore", folder, "-o", os.path.join(directory, "back")).expect(0)
    check(tree_of(os.path.join(directory, "back")) == tree_of(made["tuned"]), "restored otherwise")
    for name in os.listdir(made["tuned"]):
        if name.endswith(".safetensors"):
            archive = os.path.join(folder, name + ".lmc")
            check(tool.run("cat", archive).expect(0).output == read(os.path.join(made["tuned"], name)), name)
            tool.run("info", "--json", archive).expect(0)


def test_store_is_moved(tool, directory):
    store, made = family(tool, directory)
    moved = os.path.join(directory, "moved")
    os.rename(store, moved)
    check_store(tool, moved, made)
    copy = shutil.copytree(moved, os.path.join(directory, "copy"))
    shutil.rmtree(moved)
    check_store(tool, copy, made)


def test_verify(tool, directory):
    store, _ = family(tool, directory)
    check(tool.run("store", "verify", store).expect(0).stdout == "", "told without -v")
    told = tool.run("store", "verify", "-v", store, "base", "other").stdout
    check(told == "base: verified\nother: verified\n", told)
    tool.run("store", "verify", store, "base", "nobody").expect(2, "nobody")
    archive = os.path.join(store, "other.lmc", "other.lmc")
    damaged = flip(archive, os.path.getsize(archive) // 2)
    before = read(damaged)
    told = tool.run("store", "verify", "-v", store)
    check(told.status == 1 and "other.lmc" in told.stderr, told.stderr)
    check("other: verified" not in told.stdout and "tuned: verified" in told.stdout, told.stdout)
    tool.run("store", "verify", store, "base", "tuned").expect(0)
    tool.run("store", "repair", store).expect(0)
    check(read(damaged) == before, "repair has changed a damaged archive")
    check(tool.run("store", "verify", store).status == 1, "after repair")
    tool.run("store", "drop", store, "other").expect(0)
    tool.run("store", "verify", store).expect(0)


def test_damaged_base(tool, directory):
    """What is based on it is named, too, and neither can be dropped at the cost of the other."""
    store, made = family(tool, directory)
    archive = os.path.join(store, "base.lmc", "base.lmc")
    flip(archive, os.path.getsize(archive) - 3000)
    told = tool.run("store", "verify", store)
    check(told.status == 1 and "base.lmc" in told.stderr, told.stderr)
    before = {name: tree_of(os.path.join(store, name + ".lmc")) for name in made}
    check(tool.run("store", "drop", store, "base").status == 1, "a base was dropped that cannot be read")
    check({name: tree_of(os.path.join(store, name + ".lmc")) for name in made} == before, "changed")
    check_model(tool, store, "other", made["other"])


# ---- removing ----

def test_drop_of_what_is_equal(tool, directory):
    """A copy of a model that goes is based on what that was based on."""
    store, made = family(tool, directory)
    add(tool, store, made["tuned"], name="copy")
    stored = listed(tool, store)["tuned"]["stored_nbytes"]
    tool.run("store", "drop", store, "tuned").expect(0)
    entries = check_store(tool, store, {"copy": made["tuned"], **{name: made[name] for name in ("base", "other")}})
    check(bases_of(entries["copy"]) == ["base"] and entries["copy"]["stored_nbytes"] < 1.1 * stored,
          str(entries["copy"]))


def test_drop(tool, directory):
    store, made = family(tool, directory)
    before = tree_of(store)
    result = tool.run("store", "drop", store, "other", "nobody").expect(2, "nobody")
    check(result.stdout == "" and tree_of(store) == before, "something was removed")
    told = tool.run("store", "drop", store, "base").expect(0).stdout.splitlines()
    check(told[0].startswith("tuned: re-based") and told[-1] == "base: dropped", str(told))
    check_store(tool, store, {name: made[name] for name in ("other", "tuned")})
    check(tool.run("store", "drop", "-q", store, "tuned", "other").expect(0).stdout == "", "-q")
    check(listed(tool, store) == {}, "models are left")
    check_clean(store)


def test_dependents_survive(tool, directory):
    """Copies and a second generation, too."""
    store, made = family(tool, directory)
    for name, source, options in (("copy", "base", []), ("copy of tuned", "tuned", []),
                                  ("grandchild", None, ["--depth", "2"])):
        made[name] = made[source] if source else write_file(os.path.join(directory, "made"), name,
                                                            tuned(tuned(llm()), seed=8, part=0.02))
        add(tool, store, made[name], *options, name=name)
    for name in ("base", "tuned", "copy", "other"):
        tool.run("store", "drop", store, name).expect(0)
        del made[name]
        check_store(tool, store, made)


def test_copies_in_a_circle(tool, directory):
    """Adding again what was dropped bases nothing on itself."""
    store, made = family(tool, directory)
    for _ in range(3):
        for name in ("base", "tuned"):
            tool.run("store", "drop", store, name).expect(0)
            add(tool, store, made[name])
    check_store(tool, store, made)


# ---- what is refused ----

def test_usage(tool, directory):
    store, path = place(directory), small(directory)
    for arguments in ([], ["add"], ["add", store], ["add", store, "-"], ["add", store, path, path + "x", "--as", "x"],
                      ["add", store, path, "--depth", "0"], ["add", store, path, "--depth", "63"],
                      ["add", store, path, "--depth", "x"], ["add", store, path, "--rm"], ["ls"], ["ls", store, "x"],
                      ["info"], ["info", store, "x", "y"], ["get", store, "x"], ["restore", store, "-o", "x"],
                      ["verify"], ["drop", store], ["drop"], ["repair"], ["repair", store, "x"], ["nothing"],
                      ["ls", "--level", "max", store], ["add", store, path, "--level", "most"]):
        tool.run("store", *arguments).expect(2, "--help")
    check(not os.path.exists(store), "a store was made")


def test_store_is_absent(tool, directory):
    for command in (["ls"], ["info"], ["verify"], ["repair"], ["drop", "x"], ["restore", "x", "-o", "y"],
                    ["get", "x", "y"]):
        tool.run("store", command[0], place(directory), *command[1:], cwd=directory).expect(3, "store")
    check(os.listdir(directory) == [], "something was made")


@pytest.mark.parametrize("name", ["file", ".lmc-kept-0123", "m.lmc"])
def test_directory_that_is_no_store(tool, directory, name):
    """Neither a lock is made there, nor is anything removed."""
    full = os.path.join(directory, "full")
    os.makedirs(os.path.join(full, name))
    write(os.path.join(full, ".lmc-new"), b"no leftover")
    before = sorted(os.listdir(full))
    tool.run("store", "add", full, small(directory)).expect(2, "full", "store")
    for command in (["ls"], ["info"], ["verify"], ["drop", "m"], ["restore", "m", "-o", "y"], ["get", "m", "y"]):
        tool.run("store", command[0], full, *command[1:], cwd=directory).expect(2, "full", "store")
    check(sorted(os.listdir(full)) == before, "something was made")


@pytest.mark.parametrize("name", ["index.sqlite", "index.sqlite.bak", "index.sqlite-journal"])
def test_index_of_another_program(tool, directory, name):
    """A file that is named like the index of a store, without the mark of one, is the user's."""
    full = os.path.join(directory, "full")
    os.mkdir(full)
    theirs = write(os.path.join(full, name), b"a database")
    for path in (write(os.path.join(directory, "junk.safetensors"), b"junk"), small(directory)):
        tool.run("store", "add", full, path).expect(2, "is not a store", "not empty")
    check(os.listdir(full) == [name] and read(theirs) == b"a database", "the file was touched")


def test_failed_first_model_leaves_nothing(tool, directory):
    junk = write(os.path.join(directory, "junk.safetensors"), b"junk")
    os.mkdir(place(directory))
    tool.run("store", "add", place(directory), junk).expect(1)
    check(os.listdir(place(directory)) == [], "something is left in the directory")


def test_store_in_a_model(tool, directory):
    root = write_directory(directory, "m", llm(layers=1))
    store = os.path.join(root, "store")
    tool.run("store", "add", store, root).expect(2)
    check(not os.path.exists(store) or listed(tool, store) == {}, "a model was added")
    add(tool, store, small(directory))
    for path in (store, root, os.path.join(store, "m.safetensors.lmc"), directory):
        tool.run("store", "add", store, path, "--as", "x").expect(2)
    check(list(listed(tool, store)) == ["m.safetensors"], "a model was added")


# ---- runs ----

@pytest.mark.parametrize("make", [snapshots, checkpoints], ids=["files", "directories"])
def test_run_is_a_store(tool, directory, make):
    run, made = added(tool, directory, make, 4)
    steps = sorted(made)
    entries = listed(tool, run)
    check(list(entries) == [str(step) for step in steps], str(list(entries)))
    check([bases_of(entry) for entry in entries.values()] == [[], *([str(step)] for step in steps[:-1])], str(entries))
    told = json.loads(tool.run("store", "info", "--json", run).expect(0).stdout)
    check(told["kind"] == "run" and told["models"] == 4, str(told))
    told = json.loads(tool.run("store", "info", "--json", run, str(steps[0])).expect(0).stdout)
    check(told["dependents"] == [str(steps[1])], str(told))
    tool.run("store", "verify", run).expect(0)
    check_model(tool, run, str(steps[3]), made[steps[3]])
    tool.run("store", "add", run, made[steps[0]]).expect(2, "run add")
    tool.run("store", "drop", run, str(steps[1]), "5").expect(2, "5")
    told = tool.run("store", "drop", run, str(steps[1])).expect(0).stdout
    check(told.startswith("%d: re-based" % steps[2]) and told.endswith("%d: dropped\n" % steps[1]), told)
    os.unlink(os.path.join(run, "run.json"))
    tool.run("store", "repair", run).expect(0)
    for step in (steps[0], steps[2], steps[3]):
        check_model(tool, run, str(step), made[step])
    tool.run("run", "verify", run).expect(0)


@pytest.mark.parametrize("way", ["sub", "a/link"])
def test_a_store_in_a_store(tool, directory, way):
    """Its models would be those of both, with bases that only one of them finds."""
    store, made = family(tool, directory)
    if way != "sub":
        os.mkdir(os.path.join(directory, "a"))
        os.symlink(store, os.path.join(directory, "a", "link"))
    inner = os.path.join(store if way == "sub" else os.path.join(directory, way), "sub")
    tool.run("store", "add", inner, made["base"]).expect(2, "is in the store")
    check(not os.path.exists(inner), "nothing is made")
    check_store(tool, store, made)


@pytest.mark.parametrize("order", ["same", "reversed", "random"])
def test_very_many_tensors_of_one_length(tool, directory, order):
    """More pairs than are all compared: each tensor still finds its own, in any order."""
    rng = random.Random(4)
    experts = [("expert%04d" % i, "BF16", [256], weights(rng, 256)) for i in range(1100)]
    store, base = place(directory), write_file(directory, "base", experts)
    add(tool, store, base)
    others = tuned(experts, part=0.05)
    if order == "reversed":
        others.reverse()
    if order == "random":
        rng.shuffle(others)
    others = [("%04d" % i, *rest) for i, (_, *rest) in enumerate(others)]
    path = write_file(directory, "tuned", others)
    add(tool, store, path)
    entries = check_store(tool, store, {"base": base, "tuned": path})
    check(bases_of(entries["tuned"]) == ["base"], str(entries["tuned"]))
    check(entries["tuned"]["stored_nbytes"] < 0.7 * entries["base"]["stored_nbytes"], str(entries))
