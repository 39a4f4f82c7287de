"""A model's directory to convert and restore, and what must be true of it and its output at any time."""
import json
import os
import random
import shutil

from support import check, model, read, remove_all, weights, write

INDEX = "model.safetensors.index.json"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def shard(rng, number):
    piece = weights(rng, 6000)
    return model([("layer.%d" % number, "BF16", [300000], piece * 50), ("bias.%d" % number, "F32", [3], bytes(12))])


def make_model(path):
    """Two shards with their index, a nested model, other files, an empty folder, a link to a file."""
    rng = random.Random(11)
    os.makedirs(os.path.join(path, "encoder"))
    os.mkdir(os.path.join(path, "empty"))
    for i, name in enumerate(SHARDS):
        write(os.path.join(path, name), shard(rng, i))
    index = {"metadata": {}, "weight_map": {"layer.0": SHARDS[0], "layer.1": SHARDS[1]}}
    write(os.path.join(path, INDEX), json.dumps(index).encode())
    write(os.path.join(path, "encoder", "model.safetensors"), shard(rng, 2))
    write(os.path.join(path, "config.json"), b'{"hidden_size": 4}')
    write(os.path.join(path, "tokenizer.model"), rng.randbytes(300000))
    os.symlink("config.json", os.path.join(path, "link.json"))
    return path


def tree(path):
    """Relative path -> content, None for folders; links to files stand for the files."""
    found = {}
    for place, folders, files in os.walk(path):
        for name in folders:
            found[os.path.relpath(os.path.join(place, name), path)] = None
        for name in files:
            full = os.path.join(place, name)
            found[os.path.relpath(full, path)] = read(full)
    return found


_made = {}


def contents(tool, directory):
    """The trees of the model and of its converted form, made without faults."""
    if tool.path not in _made:
        path = make_model(os.path.join(directory, "made"))
        tool.run("convert", path).expect(0)
        _made[tool.path] = (tree(path), tree(path + ".lmc"))
        shutil.rmtree(path)
        shutil.rmtree(path + ".lmc")
    return _made[tool.path]


def partial(output):
    """The unfinished directory beside an output."""
    return os.path.join(os.path.dirname(output), ".%s.lmc-st-partial" % os.path.basename(output))


def lay_out(path, files):
    os.mkdir(path)
    for name in sorted(files):
        full = os.path.join(path, name)
        if files[name] is None:
            os.mkdir(full)
        else:
            write(full, files[name])
    return path


class FolderJob:
    """"convert" of M to M.lmc or "restore" of M.lmc to M."""

    def __init__(self, command, tool, directory):
        plain, converted = contents(tool, directory)
        self.command = command
        self.directory = directory
        self.input_name, self.output_name = ("M", "M.lmc") if command == "convert" else ("M.lmc", "M")
        self.given, self.wanted = (plain, converted) if command == "convert" else (converted, plain)
        self.input = lay_out(os.path.join(directory, self.input_name), self.given)
        self.output = os.path.join(directory, self.output_name)
        self.partial = partial(self.output)

    def arguments(self, *options):
        return [self.command, self.input, *options]

    def clear(self, old=None):
        """Only the input is there, and `old` (a tree) as the output."""
        for name in os.listdir(self.directory):
            if name != self.input_name:
                shutil.rmtree(os.path.join(self.directory, name))
        if not os.path.isdir(self.input):
            lay_out(self.input, self.given)
        if old is not None:
            lay_out(self.output, old)

    def renew(self):
        """Nothing but the input, as it was."""
        remove_all(self.directory)
        self.clear()

    def state(self):
        return tree(self.output) if os.path.lexists(self.output) else None

    def leftovers(self):
        return sorted(set(os.listdir(self.directory)) - {self.input_name, self.output_name})

    def take_set_aside(self, what, old):
        """Windows cannot exchange two directories: a kill between renames leaves the old one under another name. It
        must be as it was, and is removed."""
        for name in self.leftovers():
            if name.startswith(os.path.basename(self.partial) + "-old-"):
                path = os.path.join(self.directory, name)
                check(tree(path) == old, "%s: %s is not the old output" % (what, name))
                shutil.rmtree(path)

    def check_state(self, what, *outputs, leftovers=()):
        """The output is one of these trees (None: absent); the input is what it was; besides them only
        `leftovers`."""
        check(tree(self.input) == self.given, what + ": the input was changed")
        check(set(self.leftovers()) <= set(leftovers), "%s: left behind: %s" % (what, self.leftovers()))
        found = self.state()
        check(found in outputs, "%s: the output is %s" % (
            what, "absent" if found is None else "wrong: %s" % sorted(found)))

    def check_next_run(self, tool, what, options=()):
        """The same command without harm completes what is there, and leaves nothing but the output."""
        is_complete = self.state() == self.wanted and "-f" not in options
        result = tool.run(*self.arguments(*options))
        check(result.status == (2 if is_complete else 0), "%s: the next run: exit %d: %s" % (
            what, result.status, result.stderr))
        self.check_state(what + ": the next run", self.wanted)
