"""Directories of models: making them, what they look like, what their archives must look like."""
import json
import os
import stat

import support
from support import check, read, small_model, write

_models = {}


def shard(seed):
    """A small safetensors file; the same object for the same seed."""
    if seed not in _models:
        _models[seed] = small_model(seed)
    return _models[seed]


def index(*names):
    return json.dumps({"metadata": {"total_size": 2.5e9},
                       "weight_map": {"layer.%d" % i: name for i, name in enumerate(names)}}, indent=2).encode()


def small_tree(root):
    """Two safetensors files, one in a folder, and another file."""
    os.makedirs(os.path.join(root, "sub"))
    write(os.path.join(root, "a.safetensors"), shard(1))
    write(os.path.join(root, "sub", "b.safetensors"), shard(2))
    write(os.path.join(root, "config.json"), b'{"hidden_size": 8}\n')
    return root


# path: content (None: an empty folder), mode
MODEL = {
    "model-00001-of-00002.safetensors": (shard(1), 0o644),
    "model-00002-of-00002.safetensors": (shard(2), 0o640),
    "adapter.safetensors": (shard(3), 0o755),
    "model.safetensors.index.json": (index("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"),
                                     0o644),
    "model.safetensors.index.fp16.json": (index("adapter.safetensors"), 0o600),
    "pytorch_model.bin.index.json": (index("pytorch_model-00001-of-00001.bin"), 0o644),  # its files are not here
    "config.json": (b"{}", 0o444),
    "empty.txt": (b"", 0o644),
    ".gitattributes": (b"*.safetensors filter=lfs\n", 0o644),
    ".cache/huggingface/lock": (b"", 0o600),
    ".safetensors": (b"a hidden file without a stem", 0o644),
    "README.SAFETENSORS": (b"# capitals are another name\n", 0o644),
    "old.lmc": (b"not an archive, but named as one", 0o644),
    "empty": (None, 0o755),
    "read-only/vae/model.safetensors": (shard(4), 0o444),
    "read-only/vae/run.sh": (b"#!/bin/sh\n", 0o555),
    "unet/diffusion_pytorch_model.safetensors.index.json": (index("x y.safetensors", "-o.safetensors"), 0o644),
    "unet/x y.safetensors": (shard(5), 0o644),
    "unet/-o.safetensors": (shard(6), 0o644),
    "\n\x1b[31m\u00e4/\n.safetensors": (shard(7), 0o644),
    "folder.safetensors/note": (b"a folder, not a file", 0o644),
    "folder.safetensors.lmc/note": (b"likewise", 0o644),
}
FOLDER_MODES = {"read-only/vae": 0o555, "read-only": 0o555, ".cache": 0o700}


def model_tree(root):
    """A directory with everything that may be in one; times of all files and folders are old and differ."""
    for path, (content, mode) in MODEL.items():
        full = os.path.join(root, path)
        os.makedirs(full if content is None else os.path.dirname(full), exist_ok=True)
        if content is not None:
            write(full, content)
            os.chmod(full, mode)
    set_times(root)
    for path, mode in FOLDER_MODES.items():
        os.chmod(os.path.join(root, path), mode)
    return root


def set_times(root):
    """Nanoseconds, too; children first, as a change in a folder changes its time."""
    number = 0
    for folder, _, files in os.walk(root, topdown=False):
        for name in sorted(files) + ["."]:
            number += 1
            at = 1_000_000_000_000_000_000 + number * 86_400_123_456_789
            os.utime(os.path.join(folder, name), ns=(at, at))


def snapshot(root):
    """{path: (kind, mode, time, content)}: "." is the root, "-> x" a link's content."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files + (["."] if folder == root else []):
            full = os.path.join(folder, name)
            status = os.lstat(full)
            if stat.S_ISLNK(status.st_mode):
                content = "-> " + os.readlink(full)
            else:
                content = read(full) if stat.S_ISREG(status.st_mode) else None
            found[os.path.relpath(full, root)] = (stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode),
                                                  status.st_mtime_ns // support.time_unit_ns, content)
    return found


def show_difference(wanted, found):
    lines = []
    for path in sorted(set(wanted) | set(found)):
        if wanted.get(path) != found.get(path):
            a, b = (None if entry is None else entry[:3] + (entry[3] if entry[3] is None else len(entry[3]),)
                    for entry in (wanted.get(path), found.get(path)))
            lines.append("%r: %s, expected %s" % (path, b, a))
    return "; ".join(lines[:5])


def check_same(wanted, found, what):
    check(wanted == found, "%s: %s" % (what, show_difference(wanted, found)))


def is_plain(path, entry):
    return stat.S_ISREG(entry[0]) and path.endswith(".safetensors") and path != ".safetensors"


def copied_archives(source):
    """The list of files that are named as archives, which a converted directory of safetensors files has."""
    return b"".join(sorted(os.fsencode(path) + b"\n" for path, entry in snapshot(source).items()
                           if stat.S_ISREG(entry[0]) and path.endswith(".lmc") and os.path.basename(path) != ".lmc"))


def check_archived(tool, source, archive, what=""):
    """`archive` is what converting the directory `source` must give, up to the archives' bytes; these
    verify and have the sources' sizes, modes and times."""
    wanted = {path + ".lmc" if is_plain(path, entry) else path: entry for path, entry in snapshot(source).items()}
    found = snapshot(archive)
    listed = found.pop(".lmc-copied", (0, 0, 0, b""))[3]
    check(listed == copied_archives(source), "%s: copied: %r" % (what, listed))
    check(sorted(wanted) == sorted(found), "%s: names: %s" % (what, sorted(set(wanted) ^ set(found))))
    for path, entry in wanted.items():
        count = 4 if found[path][3] is None or not path.endswith(".safetensors.lmc") else 3
        check(entry[:count] == found[path][:count], "%s: %r is %s, expected %s" % (
            what, path, found[path][:3], entry[:3]))
        check(count == 4 or found[path][3] != entry[3], "%s: %r is a copy" % (what, path))
    tool.run("verify", "-q", archive).expect(0)


def check_restores(tool, source, archive, what=""):
    """The directory `archive` restores to `source`: bytes, modes, times."""
    back = archive + ".back"
    tool.run("restore", archive, "-o", back).expect(0)
    check_same(snapshot(source), snapshot(back), what + ": restored")
    remove(back)


def remove(root):
    """Removes a directory with read-only folders in it."""
    for folder, folders, files in os.walk(root):
        os.chmod(folder, 0o700)
        for name in folders:
            if not os.path.islink(os.path.join(folder, name)):
                os.chmod(os.path.join(folder, name), 0o700)
    for folder, folders, files in os.walk(root, topdown=False):
        for name in files + [n for n in folders if os.path.islink(os.path.join(folder, n))]:
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)


class Untouched:
    """with Untouched(directory): everything in it stays as it is, and nothing new is in it."""

    def __init__(self, directory, what=""):
        self.directory = directory
        self.what = what

    def __enter__(self):
        self.before = self.look()

    def __exit__(self, kind, *_):
        if kind is None:
            check_same(self.before, self.look(), "%s: changed" % (self.what,))

    def look(self):
        found = snapshot(self.directory)
        kind, mode, _, content = found["."]
        found["."] = (kind, mode, 0, content)  # a temporary name changes its time
        return found
