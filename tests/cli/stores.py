"""Stores: models that never were, and what must hold for the directory that keeps them."""
import json
import os
import random
import struct

from bases import f32, next_snapshot
from runs import tree_of
from support import check, model, weights, write


def llm(seed=1, layers=4, count=4096, dtype="BF16"):
    """The tensors of a language model. Small ones have the dtype of the others."""
    rng = random.Random(seed)
    make, width = (weights, 2) if dtype == "BF16" else (f32, 4)
    tensors = [("embed.weight", dtype, [32, count // 32], make(rng, count))]
    for i in range(layers):
        tensors.append(("layers.%d.proj.weight" % i, dtype, [count // 64, 64], make(rng, count)))
        tensors.append(("layers.%d.norm.weight" % i, dtype, [64], make(rng, 64)))
    check(all(len(content) >= 64 * width for _, _, _, content in tensors), "all are large enough to be shared")
    return tensors


def tuned(tensors, seed=7, part=0.1):
    """A fine-tune: this part of the values has moved a little."""
    return next_snapshot(tensors, seed, part)


def prefixed(tensors, prefix):
    return [(prefix + name, *rest) for name, *rest in tensors]


def rounded(tensors):
    """F32 as BF16, to the nearest, half to even."""
    def bf16(content):
        bits = (value for value, in struct.iter_unpack("<I", content))
        return b"".join(struct.pack("<H", (value + 0x7fff + (value >> 16 & 1)) >> 16) for value in bits)
    return [(name, "BF16", shape, bf16(content)) for name, _, shape, content in tensors]


def halved(tensors):
    """F32 or BF16 as F16, which Python rounds. All numbers are less than 65504."""
    def f16(dtype, content):
        wide = content if dtype == "F32" else b"".join(b"\0\0" + content[i:i + 2] for i in range(0, len(content), 2))
        return b"".join(struct.pack("<e", value) for value, in struct.iter_unpack("<f", wide))
    return [(name, "F16", shape, f16(dtype, content)) for name, dtype, shape, content in tensors]


def write_file(directory, name, tensors):
    os.makedirs(directory, exist_ok=True)
    return write(os.path.join(directory, name), model(tensors))


def write_directory(directory, name, tensors, shards=1, others=("config.json",)):
    """A model of several shards, their index, and other files."""
    root = os.path.join(directory, name)
    os.makedirs(root)
    names = ["model-%05d-of-%05d.safetensors" % (i + 1, shards) for i in range(shards)]
    for i, shard in enumerate(names):
        write(os.path.join(root, shard), model(tensors[i::shards]))
    where = {tensor[0]: names[i % shards] for i, tensor in enumerate(tensors)}
    index = {"metadata": {"total_size": sum(len(tensor[3]) for tensor in tensors)}, "weight_map": where}
    write(os.path.join(root, "model.safetensors.index.json"), json.dumps(index).encode())
    for other in others:
        write(os.path.join(root, other), json.dumps({"name": name}).encode())
    return root


def place(directory):
    return os.path.join(directory, "store")


def add(tool, store, path, *options, name=None):
    """Adds a model; returns the line on it."""
    named = [] if name is None else ["--as", name]
    return tool.run("store", "add", *options, *named, "--", store, path).expect(0).stdout


def family(tool, directory):
    """The path of a store with `base`, a fine-tune and a model of its own; and these: {name: path}."""
    base = llm()
    made = {"base": write_file(os.path.join(directory, "made"), "base", base),
            "other": write_file(os.path.join(directory, "made"), "other", llm(seed=99)),
            "tuned": write_directory(os.path.join(directory, "made"), "tuned", tuned(base), shards=2)}
    tool.run("store", "add", place(directory), *made.values()).expect(0)
    return place(directory), made


def listed(tool, store):
    """What store ls tells: {name: entry}."""
    entries = json.loads(tool.run("store", "ls", "--json", store).expect(0).stdout)
    return {entry["name"]: entry for entry in entries}


def bases_of(entry):
    """The names of the models that it is based on, however many these are."""
    base = entry["base"]
    return [] if base is None else [base] if isinstance(base, str) else base


def stored(tool, store, name):
    return listed(tool, store)[name]["stored_nbytes"]


def stored_alone(tool, directory, path):
    """Bytes that the model takes in a store of its own."""
    store = os.path.join(directory, "alone-%d" % random.randrange(10**9))
    add(tool, store, path, name="alone")
    return stored(tool, store, "alone")


def check_model(tool, store, name, path):
    """The model is restored to what it was."""
    back = os.path.join(os.path.dirname(store), "back-%d" % random.randrange(10**9))
    tool.run("store", "restore", "-o", back, "--", store, name).expect(0)
    check(os.path.isdir(back) == os.path.isdir(path), "%r is restored as another kind" % name)
    check(tree_of(back) == tree_of(path), "%r is not restored to %s" % (name, path))
    if os.path.isfile(back):
        os.unlink(back)


def check_clean(store):
    """Nothing unfinished is left."""
    left = [os.path.join(folder, name) for folder, folders, files in os.walk(store) for name in folders + files
            if name.startswith(".") and name not in (".lmc-lock", ".lmc-copied")]
    check(not left, "left behind: %s" % left)


def check_store(tool, store, wanted):
    """The store is sound and has just these models, {name: path}. Returns what store ls tells."""
    tool.run("store", "verify", store).expect(0)
    entries = listed(tool, store)
    check(set(entries) == set(wanted), "models %s, not %s" % (sorted(entries), sorted(wanted)))
    check(list(entries) == sorted(entries, key=os.fsencode), "models out of order")
    for name, path in wanted.items():
        check_model(tool, store, name, path)
    for name, entry in entries.items():
        check(set(bases_of(entry)) <= set(entries) - {name}, "%s is based on %s" % (name, entry["base"]))
        check(not entry["unknown_base"], "%s has an unknown base" % name)
    return entries
