"""convert --base: tensors and files whose names have changed, in files, directories and runs."""
import os
import random

import pytest

from bases import changed, check_restores, convert, first_snapshot, info, modes, next_snapshot, write_model
from runs import check_run
from support import check, model, parse, read, weights, write
from trees import check_same, remove, snapshot

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(ROOT, "examples", "data")

PREFIXES = {"ddp": "module.", "compiled": "_orig_mod.", "fsdp": "_fsdp_wrapped_module.", "peft": "base_model.model.",
            "unknown": "trainer.net."}


def with_prefix(prefix):
    return lambda tensors: [(prefix + name, *rest) for name, *rest in tensors]


def without_names(tensors):
    return [("p%05d" % i, *rest) for i, (_, *rest) in enumerate(tensors)]


def compiled_inside(tensors):
    return [(name.replace(".", "._orig_mod.", 1), *rest) for name, *rest in tensors]


# ---- files ----

def real(step):
    return parse(read(os.path.join(DATA, "step0%d.bf16.safetensors" % step)))[1]


@pytest.fixture(scope="module")
def exact_ratio(tool, tmp_path_factory):
    """Of the real snapshots with the names that they have."""
    directory = str(tmp_path_factory.mktemp("exact"))
    old, new = (write_model(directory, "%d.safetensors" % step, real(step)) for step in (3000, 3010))
    return os.path.getsize(convert(tool, new, old)) / os.path.getsize(new)


RENAMINGS = {**{name: with_prefix(prefix) for name, prefix in PREFIXES.items()},
             "inside": compiled_inside, "other": without_names}


@pytest.mark.parametrize("name", RENAMINGS)
def test_real_snapshots(tool, directory, exact_ratio, name):
    """Either way, against a file or an archive: as small as with equal names."""
    rename = RENAMINGS[name]
    for before, after in ((lambda tensors: tensors, rename), (rename, lambda tensors: tensors)):
        old = write_model(directory, "old.safetensors", before(real(3000)))
        new = write_model(directory, "new.safetensors", after(real(3010)))
        tool.run("convert", old, "-f").expect(0)
        for base in (old, old + ".lmc"):
            archive = convert(tool, new, base, "-f")
            ratio = os.path.getsize(archive) / os.path.getsize(new)
            check(ratio < exact_ratio + 0.002, "%s: %.4f, with equal names %.4f" % (name, ratio, exact_ratio))
            check_restores(tool, archive, read(new))


def test_every_dtype(tool, directory):
    tensors = first_snapshot()
    old = write_model(directory, "old.safetensors", tensors)
    new = write_model(directory, "new.safetensors", with_prefix("module.")(next_snapshot(tensors, 2)))
    archive = convert(tool, new, old)
    check_restores(tool, archive, read(new))
    found = modes(tool, archive)
    for name in ("embed", "layer.0", "master", "double", "half", "eighth", "steps", "noise"):
        check(found["module." + name] == "delta", "modes: %s" % found)


def test_wrong_order(tool, directory):
    """Nothing but an order that is wrong: no larger than without a base."""
    rng = random.Random(1)
    tensors = [("t%d" % i, "BF16", [200, 20], weights(rng, 4000)) for i in range(8)]
    near = next_snapshot(tensors, 2)
    old = write_model(directory, "old.safetensors", tensors)
    new = write_model(directory, "new.safetensors", without_names(near[4:] + near[:4]))
    tool.run("convert", new).expect(0)
    alone = os.path.getsize(new + ".lmc")
    archive = convert(tool, new, old, "-f")
    check(os.path.getsize(archive) <= alone, "%d bytes, alone %d" % (os.path.getsize(archive), alone))
    check_restores(tool, archive, read(new))


def test_some_names_stay(tool, directory):
    """A head keeps its name, the body gets a part; one layer is new."""
    rng = random.Random(3)
    body = [("layers.%d.w" % i, "BF16", [50, 60], weights(rng, 3000)) for i in range(3)]
    head = ("head", "BF16", [3000], weights(rng, 3000))
    old = write_model(directory, "old.safetensors", [head, *body])
    new = write_model(directory, "new.safetensors", [
        changed(head, rng, 0.1), ("model.layers.3.w", "BF16", [50, 60], weights(rng, 3000)),
        *with_prefix("model.")(next_snapshot(body, 4))])
    archive = convert(tool, new, old)
    check_restores(tool, archive, read(new))
    check(modes(tool, archive) == {"head": "delta", "model.layers.3.w": "coded", "model.layers.0.w": "delta",
                                   "model.layers.1.w": "delta", "model.layers.2.w": "delta"}, "modes")
    check(info(tool, archive)["base"]["tensors"] == 4, "info: %s" % info(tool, archive)["base"])
    check("4 of 5 tensors" in tool.run("info", archive).expect(0).stdout, "info")


# ---- directories ----

def write_shards(root, tensors, count):
    """As Hugging Face names them."""
    os.makedirs(root)
    each = -(-len(tensors) // count)
    for i in range(count):
        write_model(root, "model-%05d-of-%05d.safetensors" % (i + 1, count), tensors[i * each:(i + 1) * each])
    write(os.path.join(root, "config.json"), b"{}")
    return root


def layers(seed, count=12):
    rng = random.Random(seed)
    return [("layers.%d.w" % i, "BF16", [30, 100], weights(rng, 3000)) for i in range(count)]


def bases_of(tool, root):
    """Of each archive the base's name and how many tensors need it."""
    found = {}
    for name in sorted(os.listdir(root)):
        if name.endswith(".lmc"):
            base = info(tool, os.path.join(root, name))["base"]
            found[name.split("-of-")[0]] = base and (base["name"].split("-of-")[0], base["tensors"])
    return found


@pytest.mark.parametrize("prefix", ["", "module."], ids=["equal", "prefix"])
def test_other_shards(tool, directory, prefix):
    """Three shards become two, and two three; the base is named, or a directory beside it."""
    tensors = layers(1)
    near = with_prefix(prefix)(next_snapshot(tensors, 2))
    for before, after, bases in ((2, 3, {1: (1, 4), 2: (1, 2), 3: (2, 4)}), (3, 2, {1: (1, 4), 2: (3, 4)})):
        old = write_shards(os.path.join(directory, "checkpoint-10"), tensors, before)
        new = write_shards(os.path.join(directory, "checkpoint-20"), near, after)
        tool.run("convert", old).expect(0)
        for base in (old, old + ".lmc"):
            tool.run("convert", new, "--base", base, "-f").expect(0)
            expected = {"model-%05d" % own: ("model-%05d" % number, count) for own, (number, count) in bases.items()}
            found = bases_of(tool, new + ".lmc")
            check(found == expected, "bases: %s" % found)
            for where in ([], ["--base", base], ["--base-dir", base]):
                tool.run("verify", new + ".lmc", *where).expect(0)
                tool.run("restore", new + ".lmc", *where, "-o", new + ".back").expect(0)
                check_same(snapshot(new), snapshot(new + ".back"), "restored")
                remove(new + ".back")
        for path in (old, old + ".lmc", new, new + ".lmc"):
            remove(path)


def test_renamed_files(tool, directory):
    """In folders, too: only the folder that corresponds is looked at."""
    tensors, others = layers(3), layers(4)
    near = next_snapshot(tensors, 5)
    old, new = os.path.join(directory, "old"), os.path.join(directory, "new")
    for root, name, values in ((old, "pytorch_model", tensors), (new, "model", near)):
        os.makedirs(os.path.join(root, "unet"))
        write_model(root, name + ".safetensors", values)
        write_model(root, os.path.join("unet", name + ".safetensors"), others)
    os.symlink("absent", os.path.join(old, "broken"))
    tool.run("convert", new, "--base", old).expect(0)
    for folder in ("", "unet"):
        base = info(tool, os.path.join(new + ".lmc", folder, "model.safetensors.lmc"), "--base-dir",
                    os.path.join(old, folder))["base"]
        check(base["file"] == os.path.join(old, folder, "pytorch_model.safetensors"), "base: %s" % base)
    tool.run("restore", new + ".lmc", "--base", old, "-o", new + ".back").expect(0)
    check_same(snapshot(new), snapshot(new + ".back"), "restored")


# ---- runs ----

def test_run_whose_names_change(tool, directory):
    """A run that is continued under torch.compile(), and then without DDP, goes on with deltas."""
    made, tensors = {}, first_snapshot()
    for step, rename in ((10, with_prefix("module.")), (20, with_prefix("module.")),
                         (30, with_prefix("module._orig_mod.")), (40, compiled_inside), (50, list)):
        made[step] = write(os.path.join(directory, "step%d.safetensors" % step), model(rename(tensors)))
        tensors = next_snapshot(tensors, step)
    run = os.path.join(directory, "run")
    tool.run("run", "add", run, *made.values()).expect(0)
    entries = check_run(tool, run, made)
    check([entry["base"] for entry in entries.values()] == [None, 10, 20, 30, 40], "bases")
    for step in (20, 30, 40, 50):
        check(entries[step]["stored_nbytes"] < 0.8 * entries[10]["stored_nbytes"], "step %d is large" % step)
