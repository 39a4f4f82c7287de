"""What the cases share: running the tool under limits, building files, taking archives apart."""
import contextlib
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import time

import pytest

# Python 3.13 and newer use posix_spawn(), which takes memory of this process: Tool.limited() may leave none.
subprocess._USE_POSIX_SPAWN = False

ADDRESS_SPACE = 2 << 30
CPU_SECONDS = 1.0
time_unit_ns = 1  # of times of files, for the tool
LEFT_OUT = "left out: "


def check(condition, text):
    """In place of assert, for which pytest would look for the first difference of megabytes."""
    __tracebackhide__ = True
    if not condition:
        raise AssertionError(text)


def left_out(reason):
    """Ends a test that such a build of the tool cannot run, but others can. It is not counted (tests/conftest.py)."""
    pytest.skip(LEFT_OUT + reason)


class Result:
    def __init__(self, arguments, process, stdout, stderr, cpu):
        self.arguments = arguments
        self.status = process.returncode
        self.output = stdout
        self.stdout = stdout.decode("utf-8", "replace")
        self.stderr = stderr.decode("utf-8", "replace")
        self.cpu = cpu

    def expect(self, status, *fragments):
        """Checks exit status and that the message (a line for each fault, no control characters) holds
        fragments."""
        check(self.status == status, "%s: exit %s, expected %s: %s" % (self.arguments, self.status, status,
                                                                      self.stderr))
        if status in (0,):
            check(self.stderr == "", "unexpected message: " + self.stderr)
        else:
            check(self.stderr.endswith("\n"), "message: " + self.stderr)
            for line in self.stderr[:-1].split("\n"):
                check(line.startswith("lmc-st: "), "message: " + self.stderr)
                check(all(ord(c) >= 32 and ord(c) != 127 for c in line), "control character in " + repr(line))
        for fragment in fragments:
            check(fragment in self.stderr, "message %r lacks %r" % (self.stderr, fragment))
        return self


class Tool:
    """The command under test. Limits that it cannot run under (sanitizers) are lifted."""

    def __init__(self, path, for_windows=False):
        self.path = os.path.abspath(path)
        self.for_windows = for_windows
        self.broken_pipe_status = 141 if for_windows else -signal.SIGPIPE
        if for_windows:
            global time_unit_ns
            time_unit_ns = 100
        self.slow = 1.0
        self.limits = not for_windows
        if self.run("--version").status != 0:
            self.limits = False
            self.slow = 20.0
            if self.run("--version").status != 0:
                raise SystemExit("cannot run " + self.path)

    @contextlib.contextmanager
    def limited(self, address_space=ADDRESS_SPACE, file_size=None, data=None):
        """Sets soft limits of this process, for what it starts meanwhile to inherit. A function that sets them in the
        child (preexec_fn) would make Python fork() itself: ten times the work of a short run."""
        wanted = {resource.RLIMIT_AS: address_space if self.limits else None, resource.RLIMIT_FSIZE: file_size,
                  resource.RLIMIT_DATA: data if self.limits else None}
        before = {which: resource.getrlimit(which) for which, most in wanted.items() if most is not None}
        try:
            for which, (_, hard) in before.items():
                resource.setrlimit(which, (wanted[which], hard))
            yield
        finally:
            for which, both in before.items():
                resource.setrlimit(which, both)

    def start(self, *arguments, cwd=None, user=None, more_environment=None, **limits):
        environment = None if more_environment is None else {**os.environ, **more_environment}
        with self.limited(**limits):
            return subprocess.Popen([self.path, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, cwd=cwd, user=user, env=environment)

    def spawn(self, *arguments, stdout, stderr, more_environment=None):
        """Starts the tool with outputs that are files: it may be read while it runs."""
        return subprocess.Popen([self.path, *arguments], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                                env={**os.environ, **(more_environment or {})})

    def run(self, *arguments, cwd=None, user=None, more_environment=None, **limits):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        process = self.start(*arguments, cwd=cwd, user=user, more_environment=more_environment, **limits)
        stdout, stderr = process.communicate()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Result(list(arguments), process, stdout, stderr, cpu)

    def round_trip(self, source, *options):
        """Converts and restores; checks the bytes; returns the archive's path."""
        archive = source + ".lmc"
        back = source + ".back"
        self.run("convert", source, "-f", *options).expect(0)
        self.run("restore", archive, "-f", "-o", back, *[o for o in options if o.startswith("-j")]).expect(0)
        check(read(back) == read(source), "the restored file differs: " + source)
        os.unlink(back)
        return archive


# ---- files ----

def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)
    return path


def flip(path, at, mask=1):
    """Damages a byte of a file."""
    content = bytearray(read(path))
    content[at] ^= mask
    return write(path, bytes(content))


def in_directory(directory, content, name="m.safetensors"):
    return write(os.path.join(directory, name), content)


def remove_all(directory):
    """What is in it."""
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        os.unlink(path) if os.path.islink(path) or not os.path.isdir(path) else shutil.rmtree(path)


def check_only(directory, *names):
    """Nothing but these files is left."""
    check(sorted(os.listdir(directory)) == sorted(names), "left behind: %s" % sorted(os.listdir(directory)))


def writes_temporary(directory, process):
    """1 if the tool has a file without a name open, or one with a temporary name in the directory."""
    if any(name.startswith(".lmc-st-") for name in os.listdir(directory)):
        return True
    try:
        numbers = os.listdir("/proc/%d/fd" % process.pid)
        return any("(deleted)" in os.readlink("/proc/%d/fd/%s" % (process.pid, n)) for n in numbers)
    except OSError:  # it has ended, or closed one of them
        return False


def wait_for_temporary(directory, process):
    """Returns once the tool writes; fails if it ends first."""
    while not writes_temporary(directory, process):
        check(process.poll() is None, "the tool ended before it wrote anything")
        time.sleep(0.002)


def end_with(process, number):
    process.send_signal(number)
    process.communicate()
    return process.returncode


def sparse_model(path, gib):
    """A tensor of zeros that takes no disk space."""
    nbytes = int(gib * 2**30)
    text = ('{"a":{"dtype":"BF16","shape":[%d],"data_offsets":[0,%d]}}' % (nbytes // 2, nbytes)).encode()
    write(path, struct.pack("<Q", len(text)) + text)
    os.truncate(path, 8 + len(text) + nbytes)
    return path


# ---- commands ----

def archive_of(tool, path, *options):
    tool.run("convert", path, "-f", *options).expect(0)
    return path + ".lmc"


def get(tool, *arguments, **limits):
    return tool.run("get", *arguments, **limits).expect(0).output


# ---- text ----

HOSTILE = "\x1b[31m\"\\\n\t\x7f\x85\u202e\u2028\ufeff\u00e9\U0001f600\0x"


def check_no_controls(text):
    bad = [c for c in text if c != "\n" and (ord(c) < 32 or 0x7f <= ord(c) < 0xa0 or c in "\u202e\u2028\ufeff")]
    check(not bad, "a terminal would act on %r" % bad)


# ---- tensors ----

BITS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
        "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
        "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64}


def weights(rng, count):
    """bf16 values as a trained model has them."""
    return b"".join(struct.pack("<f", rng.gauss(0, 0.02))[2:] for _ in range(count))


def model(tensors, metadata=None, padding=True):
    """A safetensors file. tensors: (name, dtype, shape, content) in file order."""
    header = {} if metadata is None else {"__metadata__": metadata}
    at = 0
    for name, dtype, shape, content in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(content)]}
        at += len(content)
    text = json.dumps(header, separators=(",", ":")).encode()
    if padding:
        text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(content for _, _, _, content in tensors)


def small_model(seed=1):
    """Coded, stored, short and empty frames; two pairs of tensors that differ in content alone."""
    rng = random.Random(seed)
    return model([
        ("embed", "BF16", [40, 50], weights(rng, 2000)),
        ("noise.0", "U8", [600], rng.randbytes(600)),
        ("noise.1", "U8", [600], rng.randbytes(600)),
        ("scale.0", "F32", [2], rng.randbytes(8)),
        ("scale.1", "F32", [2], rng.randbytes(8)),
        ("empty", "F32", [0, 3], b""),
        ("layer.0", "BF16", [1000], weights(rng, 1000)),
        ("layer.1", "BF16", [1000], weights(rng, 1000)),
    ], {"format": "pt"})


def parse(content):
    """Checks the layout of a safetensors file; returns metadata and [(name, dtype, shape, content)]."""
    length = struct.unpack("<Q", content[:8])[0]
    check(length % 8 == 0, "the header is not aligned: %d" % length)
    pairs = json.loads(content[8:8 + length], object_pairs_hook=lambda found: found)
    names = [name for name, _ in pairs]
    check(len(set(names)) == len(names), "names stand twice")
    metadata, tensors, at = None, [], 0
    for name, entry in pairs:
        if name == "__metadata__":
            metadata = None if entry is None else dict(entry)
            continue
        entry = dict(entry)
        check(set(entry) == {"dtype", "shape", "data_offsets"}, "entry: %s" % entry)
        begin, end = entry["data_offsets"]
        check(begin == at, "a hole before %r" % name)
        tensors.append((name, entry["dtype"], entry["shape"], content[8 + length + begin:8 + length + end]))
        at = end
    check(8 + length + at == len(content), "the size is not the sum of the tensors")
    return metadata, tensors


class Archive:
    """An archive taken apart as docs/archive.md says; put together again after changes."""

    def __init__(self, content):
        length = struct.unpack("<Q", content[:8])[0]
        self.header_nbytes = length
        self.text = content[8:8 + length]
        header = json.loads(self.text)
        self.metadata = header.pop("__metadata__")
        data = content[8 + length:]
        order = sorted(header, key=lambda name: header[name]["data_offsets"])
        self.parts = [[name, data[slice(*header[name]["data_offsets"])]] for name in order]

    def part(self, name):
        return next(part for part in self.parts if part[0] == name)

    def build(self, dtype="U8"):
        """The header keeps its size, unless it needs more."""
        header = {"__metadata__": self.metadata}
        at = 0
        for name, content in self.parts:
            header[name] = {"dtype": dtype, "shape": [len(content)], "data_offsets": [at, at + len(content)]}
            at += len(content)
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode().ljust(self.header_nbytes)
        return struct.pack("<Q", len(text)) + text + b"".join(content for _, content in self.parts)
