"""Stores: which models a new one is found to be based on, and what that saves."""
import glob
import json
import os
import random
import re
import struct

import pytest

from stores import (add, bases_of, check_store, halved, listed, llm, place, prefixed, rounded, stored, stored_alone,
                    tuned, write_directory, write_file)
from support import check, read, weights

SOURCES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tool")


def check_saves(tool, directory, path, bases, share):
    """Adds the model; it is based on these models, and takes this share of what it takes alone at most."""
    name = os.path.basename(path)
    add(tool, place(directory), path)
    entry = listed(tool, place(directory))[name]
    check(bases_of(entry) == sorted(bases), "%s is based on %s, not on %s" % (name, entry["base"], bases))
    alone = stored_alone(tool, directory, path)
    check(entry["stored_nbytes"] < share * alone, "%s: %d bytes, alone %d" % (name, entry["stored_nbytes"], alone))


def base_and_others(tool, directory, tensors):
    """A store with the model `base`, and others of the same shapes; {name: path}."""
    made = {"base": write_file(os.path.join(directory, "made"), "base", tensors)}
    for seed in (50, 51, 52):
        made["other%d" % seed] = write_file(os.path.join(directory, "made"), "other%d" % seed, llm(seed))
    tool.run("store", "add", place(directory), *made.values()).expect(0)
    check(all(not bases_of(entry) for entry in listed(tool, place(directory)).values()), "unrelated models")
    return made


@pytest.mark.parametrize("dtype", ["BF16", "F32"])
def test_fine_tune(tool, directory, dtype):
    base = llm(dtype=dtype)
    made = base_and_others(tool, directory, base)
    made["tuned"] = write_file(os.path.join(directory, "made"), "tuned", tuned(base))
    check_saves(tool, directory, made["tuned"], ["base"], 0.6)
    check_store(tool, place(directory), made)


def average(a, b):
    """A merge of two models, value by value."""
    merged = []
    for (name, dtype, shape, left), (_, _, _, right) in zip(a, b):
        pairs = zip(struct.iter_unpack("<H", left), struct.iter_unpack("<H", right))
        floats = [sum(struct.unpack("<ff", struct.pack("<HHHH", 0, x, 0, y))) / 2 for (x,), (y,) in pairs]
        bits = (struct.unpack("<I", struct.pack("<f", value))[0] for value in floats)
        merged.append((name, dtype, shape, b"".join(struct.pack("<H", (value + 0x8000) >> 16) for value in bits)))
    return merged


def test_merge(tool, directory):
    base = llm()
    made = base_and_others(tool, directory, base)
    merged = average(tuned(base, 1), tuned(base, 2))
    made["merged"] = write_file(os.path.join(directory, "made"), "merged", merged)
    check_saves(tool, directory, made["merged"], ["base"], 0.6)
    check_store(tool, place(directory), made)


def test_merge_of_two_families(tool, directory):
    """Its layers are of two models."""
    made = base_and_others(tool, directory, llm())
    ours, theirs = tuned(llm(), 1), tuned(llm(50), 2)
    merged = [ours[i] if i < 5 else theirs[i] for i in range(len(ours))]
    made["merged"] = write_file(os.path.join(directory, "made"), "merged", merged)
    check_saves(tool, directory, made["merged"], ["base", "other50"], 0.6)
    check_store(tool, place(directory), made)


@pytest.mark.parametrize("prefix", ["module.", "model.", "something.else."])
def test_renamed(tool, directory, prefix):
    base = llm()
    made = base_and_others(tool, directory, base)
    renamed = prefixed(tuned(base), prefix)
    random.Random(3).shuffle(renamed)
    made["renamed"] = write_file(os.path.join(directory, "made"), "renamed", renamed)
    check_saves(tool, directory, made["renamed"], ["base"], 0.6)
    check_store(tool, place(directory), made)


def test_other_names(tool, directory):
    base = llm()
    made = base_and_others(tool, directory, base)
    renamed = [("t%d" % i, *rest) for i, (_, *rest) in enumerate(reversed(tuned(base)))]
    made["renamed"] = write_file(os.path.join(directory, "made"), "renamed", renamed)
    check_saves(tool, directory, made["renamed"], ["base"], 0.6)
    check_store(tool, place(directory), made)


@pytest.mark.parametrize("shards", [(1, 3), (3, 1), (3, 2)], ids=lambda shards: "%d-to-%d" % shards)
def test_other_shards(tool, directory, shards):
    base = llm()
    made = {"base": write_directory(os.path.join(directory), "base", base, shards=shards[0]),
            "tuned": write_directory(os.path.join(directory), "tuned", tuned(base), shards=shards[1])}
    add(tool, place(directory), made["base"])
    check_saves(tool, directory, made["tuned"], ["base"], 0.75)
    check_store(tool, place(directory), made)


def test_rounded_to_bf16(tool, directory):
    """A BF16 copy of an F32 model, and a fine-tune of it."""
    base = llm(dtype="F32")
    made = base_and_others(tool, directory, base)
    made["copy"] = write_file(os.path.join(directory, "made"), "copy", rounded(base))
    check_saves(tool, directory, made["copy"], ["base"], 0.5)
    made["tuned"] = write_file(os.path.join(directory, "made"), "tuned", tuned(rounded(base)))
    add(tool, place(directory), made["tuned"])
    check("base" in bases_of(listed(tool, place(directory))["tuned"]), "the fine-tune has no base")
    check_store(tool, place(directory), made)


@pytest.mark.parametrize("dtype", ["F32", "BF16"])
def test_rounded_to_f16(tool, directory, dtype):
    """An F16 copy, and a fine-tune of it, which is nearer to the copy than to anything else."""
    base = llm(dtype=dtype)
    made = base_and_others(tool, directory, base)
    made["copy"] = write_file(os.path.join(directory, "made"), "copy", halved(base))
    check_saves(tool, directory, made["copy"], ["base"], 0.5)
    made["tuned"] = write_file(os.path.join(directory, "made"), "tuned", tuned(halved(base)))
    add(tool, place(directory), made["tuned"])
    check(bases_of(listed(tool, place(directory))["tuned"]), "the fine-tune has no base")
    check_store(tool, place(directory), made)
    tool.run("store", "drop", place(directory), "base").expect(0)
    del made["base"]
    check_store(tool, place(directory), made)


@pytest.mark.parametrize("dtype", ["F32", "BF16"])
def test_f16_beside_its_source(tool, directory, dtype):
    """In one file, and against another one: each tensor of the copy takes its frame without blocks."""
    base = llm(dtype=dtype)
    both = write_file(directory, "both", base + prefixed(halved(base), "half."))
    plain, half = write_file(directory, "plain", base), write_file(directory, "half", halved(base))
    for path, options in ((both, []), (half, ["--base", plain])):
        tool.run("convert", path, *options).expect(0)
        tool.run("restore", path + ".lmc", "-o", path + ".back").expect(0)
        check(read(path) == read(path + ".back"), "bytes of " + path)
    tool.run("convert", plain).expect(0)
    size = os.path.getsize
    check(size(both + ".lmc") < size(plain + ".lmc") + 250 * len(base), "%d, %d" % (size(both + ".lmc"),
                                                                                   size(plain + ".lmc")))
    check(size(half + ".lmc") < 250 * len(base) + 800, "%d bytes" % size(half + ".lmc"))


def test_more_words(tool, directory):
    """The vocabulary was extended: one tensor is longer."""
    base = llm()
    made = base_and_others(tool, directory, base)
    longer = tuned(base)
    name, dtype, (rows, columns), content = longer[0]
    longer[0] = (name, dtype, [rows + 2, columns], content + weights(random.Random(9), 2 * columns))
    made["longer"] = write_file(os.path.join(directory, "made"), "longer", longer)
    check_saves(tool, directory, made["longer"], ["base"], 0.75)
    check_store(tool, place(directory), made)


# ---- copies ----

@pytest.mark.parametrize("form", ["file", "renamed", "shards"])
def test_copy_costs_little(tool, directory, form):
    """At most 200 bytes a tensor and 800 a file."""
    base = llm(layers=12)
    made = base_and_others(tool, directory, base)
    folder = os.path.join(directory, "made")
    copy = prefixed(base, "model.") if form == "renamed" else base
    made["copy"] = (write_directory(folder, "copy", copy, 3, ()) if form == "shards" else
                    write_file(folder, "copy", copy))
    add(tool, place(directory), made["copy"])
    entry = listed(tool, place(directory))["copy"]
    files = entry["files"] - (form == "shards")
    copied = os.path.getsize(os.path.join(made["copy"], "model.safetensors.index.json")) if form == "shards" else 0
    check(entry["stored_nbytes"] - copied <= 200 * len(base) + 800 * files, str(entry))
    check(bases_of(entry) == ["base"] and entry["depth"] == 1, str(entry))
    check_store(tool, place(directory), made)


def test_copy_of_a_dependent(tool, directory):
    """Equal tensors do not count for the depth."""
    base = llm()
    made = base_and_others(tool, directory, base)
    for name in ("tuned", "copy"):
        made[name] = write_file(os.path.join(directory, "made"), name, tuned(base))
        add(tool, place(directory), made[name])
    entry = listed(tool, place(directory))["copy"]
    check(entry["stored_nbytes"] <= 200 * len(base) + 800 and entry["depth"] <= 2, str(entry))
    check_store(tool, place(directory), made)


@pytest.mark.slow
def test_many_copies(tool, directory):
    """Each remains readable when the first of them goes, and then the second."""
    tensors = llm(layers=1, count=512)
    made = {}
    for i in range(10 if tool.for_windows else 70):  # Wine takes minutes
        made["copy%02d" % i] = write_file(os.path.join(directory, "made"), "copy%02d" % i, tensors)
    tool.run("store", "add", place(directory), *made.values()).expect(0)
    for name in ("copy00", "copy01"):
        tool.run("store", "drop", place(directory), name).expect(0)
        del made[name]
        check_store(tool, place(directory), made)


# ---- paths ----

@pytest.mark.parametrize("slashes", ["/", "//"])
def test_slashes_behind_the_store(tool, directory, slashes):
    """The store's name as a shell completes it: bases are found, and what stays never needs what goes."""
    base = llm()
    made = {"1": write_file(os.path.join(directory, "made", "a"), "m", base),
            "11": write_file(os.path.join(directory, "made", "b"), "m", tuned(base, 8, 0.02)),
            "2": write_file(os.path.join(directory, "made", "c"), "m", tuned(base, 9, 0.02))}
    store = place(directory) + slashes
    for name, path in made.items():
        add(tool, store, path, name=name)
    entries = listed(tool, store)
    check(bases_of(entries["2"]) == ["1"] and bases_of(entries["11"]) == ["1"], str(entries))
    tool.run("store", "drop", store, "1").expect(0)
    del made["1"]
    entries = check_store(tool, place(directory), made)
    check(sorted(map(bases_of, entries.values())) in ([[], ["11"]], [["2"], []], [[], ["2"]]), str(entries))


@pytest.mark.parametrize("slash", ["", "/", "//"])
def test_slashes_behind_a_directory(tool, directory, slash):
    """Files in folders of a model serve as bases, however its path ends."""
    base, other = llm(), llm(seed=60)
    made = {}
    for name, part in (("first", 0), ("second", 0.02)):
        made[name] = os.path.join(directory, "made", name)
        for folder, tensors in (("unet", base), ("vae", other)):
            write_file(os.path.join(made[name], folder), "m.safetensors", tuned(tensors, 5, part) if part else tensors)
        tool.run("store", "add", place(directory), made[name] + slash).expect(0)
    entry = listed(tool, place(directory))["second"]
    check(bases_of(entry) == ["first"], str(entry))
    check(entry["stored_nbytes"] < stored(tool, place(directory), "first") / 2, str(entry))
    check_store(tool, place(directory), made)


# ---- depth ----

def test_depth(tool, directory):
    """A model that is nearer to a fine-tune than to its base."""
    first = llm()
    second = tuned(first, 1, part=0.6)
    third = tuned(second, 2, part=0.02)
    made = {}
    for name, tensors in (("first", first), ("second", second), ("third", third), ("flat", third)):
        made[name] = write_file(os.path.join(directory, "made"), name, tensors)
    add(tool, place(directory), made["first"])
    add(tool, place(directory), made["second"])
    add(tool, place(directory), made["flat"])
    entries = listed(tool, place(directory))
    check([bases_of(entries[name]) for name in ("second", "flat")] == [["first"]] * 2, str(entries))
    tool.run("store", "drop", place(directory), "flat").expect(0)
    add(tool, place(directory), made["third"], "--depth", "2")
    deep = listed(tool, place(directory))["third"]
    check(bases_of(deep) == ["second"] and deep["depth"] == 3, str(deep))
    check(deep["stored_nbytes"] < entries["flat"]["stored_nbytes"], "the nearer base is not better")
    del made["flat"]
    check_store(tool, place(directory), made)


def test_the_best_base(tool, directory):
    """Among models that are all related."""
    base = llm()
    made = base_and_others(tool, directory, base)
    near = tuned(base, 5, part=0.02)
    for name, part in (("far", 0.9), ("farther", 0.95)):
        made[name] = write_file(os.path.join(directory, "made"), name, tuned(near, 6, part))
        add(tool, place(directory), made[name])
    made["near"] = write_file(os.path.join(directory, "made"), "near", near)
    check_saves(tool, directory, made["near"], ["base"], 0.4)
    check_store(tool, place(directory), made)


def test_order_matters_little(tool, directory):
    """Whichever comes first, the other is based on it."""
    base = llm()
    paths = [write_file(directory, "base", base), write_file(directory, "tuned", tuned(base))]
    sums = []
    for number, order in enumerate((paths, paths[::-1])):
        store = os.path.join(directory, "store%d" % number)
        tool.run("store", "add", store, *order).expect(0)
        sums.append(sum(stored(tool, store, os.path.basename(path)) for path in paths))
        check(bases_of(listed(tool, store)[os.path.basename(order[1])]) == [os.path.basename(order[0])], "base")
    check(max(sums) < 1.1 * min(sums), "stored: %s" % sums)


def test_manual_names_the_keys_of_several_bases(tool, directory):
    """What info --json prints of them stands in the section of info."""
    with open(os.path.join(SOURCES, "lmc-st.1"), encoding="utf-8") as file:
        section = file.read().split("\n.SS info\n")[1].split("\n.SS ")[0]
    base, other = llm(seed=1, layers=2), llm(seed=2, layers=2)
    mixed = [b if i % 2 else a for i, (a, b) in enumerate(zip(base, other))]
    store = place(directory)
    for name, tensors in (("base", base), ("other", other), ("mixed", mixed)):
        add(tool, store, write_file(os.path.join(directory, "made"), name, tensors))
    archive, = glob.glob(os.path.join(store, "mixed.lmc", "*.lmc"))
    bases = json.loads(tool.run("info", "--json", archive).expect(0).stdout)["base"]
    check(len(bases) == 2 and "an array of objects" in section, str(bases))
    for key in bases[0]:
        check(re.search(r"^(\w+,? |and )*%s\b" % key, section, re.MULTILINE), "the manual lacks " + key)
