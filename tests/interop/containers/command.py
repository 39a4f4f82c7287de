"""command.py - the command lmc-st on a file that another program has written, and what must hold for each of them."""

import hashlib
import json
import os
import random
import struct
import subprocess
from typing import NamedTuple, Optional

TENSORS_READ = 12  # of a file, one by one
SECONDS = 120

WIDTH = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1,
         "I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4, "U32": 4, "F32": 4, "C64": 8, "F64": 8, "I64": 8, "U64": 8}


def check(condition, text):
    """In place of assert, for which pytest would look for the first difference of megabytes."""
    __tracebackhide__ = True
    if not condition:
        raise AssertionError(text)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)
    return path


def tree(folder):
    """{path below the folder: bytes} of every file."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            found[os.path.relpath(path, folder)] = read(path)
    return found


def check_equal_trees(before, after):
    check(sorted(before) == sorted(after), f"other files: {sorted(set(before) ^ set(after))}")
    different = [name for name in before if before[name] != after[name]]
    check(not different, f"other bytes: {different}")


class Tensor(NamedTuple):
    """What must be listed. dtype None: a sample tells it, and the shape is of one dimension."""
    dtype: Optional[str]
    shape: Optional[list]
    content: bytes


class Command:
    def __init__(self, path):
        self.path = path

    def run(self, *arguments, status=0, stdin=None):
        """Standard output. Messages of failures are lines that name the program."""
        done = subprocess.run([self.path, *arguments], capture_output=True, timeout=SECONDS,
                              **({"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}))
        message = done.stderr.decode("utf-8", "replace")
        check(done.returncode == status, f"{arguments}: exit {done.returncode}, not {status}: {message.strip()}")
        check(status == 0 or message.startswith("lmc-st: ") or "diff" in arguments, f"{arguments}: {message}")
        self.message = message
        return done.stdout

    def try_to(self, *arguments):
        """Whether it ends with exit status 0; 1 is the only other one that is allowed."""
        done = subprocess.run([self.path, *arguments], capture_output=True, timeout=SECONDS, stdin=subprocess.DEVNULL)
        self.message = done.stderr.decode("utf-8", "replace")
        check(done.returncode in (0, 1), f"{arguments}: exit {done.returncode}: {self.message.strip()}")
        return done.returncode == 0

    def listing(self, path, *options):
        """{name: (dtype, shape, nbytes)}"""
        listed = json.loads(self.run("ls", "--json", path, *options))
        names = [entry["name"] for entry in listed]
        check(len(set(names)) == len(names), "a name stands twice")
        return {entry["name"]: (entry["dtype"], entry["shape"], entry["nbytes"]) for entry in listed}

    def modes(self, path):
        return {entry["name"]: entry["mode"] for entry in json.loads(self.run("ls", "--json", path))}

    # ---- what must hold for a file ----

    def check_file(self, path, expected=None):
        """Everything that can be done with a file. expected: {name: Tensor}; None: whatever is listed. Returns the
        path of the archive and that of the restored file."""
        before = read(path)
        archive, back = path + ".lmc", path + ".back"
        self.run("convert", path, "-f")
        self.run("restore", archive, "-f", "-o", back)
        check(read(back) == before, "the restored file differs")
        check(read(path) == before, "the file was changed")
        self.run("verify", archive, "--sha256", hashlib.sha256(before).hexdigest())
        listed = self.listing(archive)
        check(listed == self.listing(path), "the archive and the file list other tensors")
        if expected is not None:
            self.check_listing(listed, expected)
            self.check_contents(archive, expected, listed)
            self.check_contents(path, expected, listed)
        check(self.run("cat", archive) == before, "cat differs")
        self.run("diff", archive, path)
        self.check_stream(before)
        return archive, back

    def check_stream(self, before):
        archive = self.run("convert", "-", stdin=before)
        check(self.run("restore", "-", stdin=archive) == before, "what came through streams differs")

    def check_listing(self, listed, expected):
        check(set(listed) == set(expected), f"not listed: {sorted(set(expected) - set(listed))[:5]}, "
              f"listed: {sorted(set(listed) - set(expected))[:5]}")
        for name, tensor in expected.items():
            dtype, shape, nbytes = listed[name]
            check(nbytes == len(tensor.content), f"{name}: {nbytes} bytes, not {len(tensor.content)}")
            if tensor.dtype is None:
                check(len(shape) == 1, f"{name}: {shape}")
            else:
                check((dtype, shape) == (tensor.dtype, tensor.shape),
                      f"{name}: {dtype} {shape}, not {tensor.dtype} {tensor.shape}")

    def check_contents(self, path, expected, listed):
        names = list(expected)
        if len(names) > TENSORS_READ:
            names = random.Random(1).sample(names, TENSORS_READ)
        for name in names:
            content = expected[name].content
            check(self.run("get", path, name) == content, f"{name}: other bytes")
            dtype, shape, _ = listed[name]
            if shape and shape[0] > 1:
                row = len(content) // shape[0]
                check(row * shape[0] == len(content), f"{name}: no whole rows")
                check(self.run("get", path, f"{name}[1]") == content[row:2 * row], f"{name}[1]: other bytes")
                check(self.run("get", path, f"{name}[1:]") == content[row:], f"{name}[1:]: other bytes")
            if len(shape) == 2 and shape[0] > 0 and shape[1] > 2:
                width, row = WIDTH[dtype], len(content) // shape[0]
                column = b"".join(content[at + width:at + 3 * width] for at in range(0, len(content), row))
                check(self.run("get", path, f"{name}[:, 1:3]") == column, f"{name}[:, 1:3]: other bytes")

    def check_folder(self, folder, *options):
        """It comes back, as FOLDER.back. Returns the tree of its archives."""
        before = tree(folder)
        self.run("convert", folder, *options)
        self.run("verify", folder + ".lmc")
        self.run("restore", folder + ".lmc", "-o", folder + ".back")
        check_equal_trees(before, tree(folder + ".back"))
        return tree(folder + ".lmc")

    # ---- with a base ----

    def check_folder_base(self, base, folder, most=1.0):
        """It comes back, as FOLDER.back, and takes less than this share of what it takes without a base."""
        before = tree(folder)
        self.run("convert", folder, "-o", folder + ".alone")
        self.run("convert", folder, "--base", base)
        alone, with_base = (sum(map(len, tree(folder + end).values())) for end in (".alone", ".lmc"))
        check(with_base < most * alone, f"{with_base} bytes, without a base {alone}")
        self.run("restore", folder + ".lmc", "--base", base, "-o", folder + ".back")
        check_equal_trees(before, tree(folder + ".back"))

    def check_base(self, base, path, *, smaller=True):
        """`path` as a difference from `base`, which is plain first and then an archive. Returns its archive."""
        before = read(path)
        back = path + ".back"
        self.run("convert", path, "-f", "-o", path + ".alone.lmc")
        archive = path + ".lmc"
        self.run("convert", path, "-f", "--base", base)
        self.run("restore", archive, "-f", "-o", back, "--base", base)
        check(read(back) == before, "with a base: the restored file differs")
        self.run("verify", archive, "--base", base)
        alone, with_base = (os.path.getsize(name) for name in (path + ".alone.lmc", archive))
        if smaller:
            check(with_base < 0.9 * alone, f"with the base {with_base} bytes, without {alone}")
        os.unlink(path + ".alone.lmc")
        self.run("convert", base, "-f")
        self.run("convert", path, "-f", "--base", base + ".lmc")
        self.run("restore", archive, "-f", "-o", back, "--base", base + ".lmc")
        check(read(back) == before, "with an archive as base: the restored file differs")
        os.unlink(back)
        return archive


# ---- safetensors files ----

def safetensors_of(tensors):
    """A file from {name: Tensor}."""
    header, at = {}, 0
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(content)]}
        at += len(content)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(tensor.content for tensor in tensors.values())


def safetensors_names(content):
    """Names in a safetensors file; checks that its size is right."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
    check(8 + length + end == len(content), "the file has another size than its header says")
    return set(header)
