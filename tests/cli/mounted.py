"""Mounts: starting and ending them, files of every kind to mount, and what a mounted folder must look like."""
import contextlib
import io
import os
import random
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
import zipfile

from support import LEFT_OUT, Result, check, read, small_model, weights, write
from test_checkpoints import gguf, npy, npz
from trees import check_same, remove, shard, snapshot

WRITE_BITS = 0o222
LARGE_NBYTES = 70000  # of entries of zip files that are tensors
PLACE = "LMC_TEST_MOUNT"
WAIT_SECONDS = 60  # for what happens at once, on a machine that does much else


def wait_for(condition, what):
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        check(time.monotonic() < end, "waited in vain until " + what)
        time.sleep(0.01)


def is_alive(pid):
    try:
        return read("/proc/%d/stat" % pid).rsplit(b")", 1)[1].split()[0] not in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def servers_of(place):
    """The processes of mounts at this path; their environment has it."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            variables = read("/proc/%s/environ" % name).split(b"\0")
        except OSError:  # it has ended, or is another user's
            continue
        if os.fsencode("%s=%s" % (PLACE, place)) in variables and is_alive(int(name)):
            found.append(int(name))
    return found


def escaped(path, more=b""):
    """As /proc/self/mountinfo has it."""
    return b"".join(b"\\%03o" % byte if byte in b"\\ \t\n" + more else bytes([byte]) for byte in path)


def is_mounted(place):
    """1 if the mount point is listed; nothing is asked of what is mounted there."""
    place = place.rstrip("/")
    path = os.path.join(os.path.realpath(os.path.dirname(place)), os.path.basename(place))
    return any(line.split()[4] == escaped(os.fsencode(path)) for line in read("/proc/self/mountinfo").split(b"\n")[:-1])


def unmount_anyway(place):
    subprocess.run(["fusermount3", "-u", "-z", "--", place], check=True)


class Mount:
    def __init__(self, tool, source, place):
        self.tool = tool
        self.source = source
        self.place = place
        self.process = None  # in the foreground
        self.server = None

    def path(self, *names):
        return os.path.join(self.place, *names)

    def wait_for_end(self):
        """Returns what the server has told, if it was in the foreground."""
        if self.process:
            return self.process.communicate()[1].decode()
        wait_for(lambda: not is_alive(self.server), "the server ends")
        return ""

    def unmount(self):
        self.tool.run("unmount", self.place).expect(0)
        check(not is_mounted(self.place), "it is mounted still")
        return self.wait_for_end()

    def signal(self, number):
        os.kill(self.server, number)

    def clear(self):
        """Ends whatever is left of it."""
        while is_mounted(self.place):
            unmount_anyway(self.place)
        for server in servers_of(self.place):
            with contextlib.suppress(ProcessLookupError):  # it ends by itself
                os.kill(server, signal.SIGKILL)
        if self.process and self.process.returncode is None:
            self.process.communicate()


class Mounts:
    """Mounts, and ends what is still mounted when the test is over."""

    def __init__(self, tool, directory):
        self.tool = tool
        self.directory = directory
        self.list = []

    def place(self, name="mnt"):
        path = os.path.join(self.directory, name)
        os.makedirs(path, exist_ok=True)
        return path

    def new(self, source, place, how):
        """The mount to be, and the arguments of the call. A relative place is one below how["cwd"]."""
        place = self.place() if place is None else place
        mount = Mount(self.tool, source, os.path.join(how.get("cwd", ""), place))
        how["more_environment"] = {PLACE: mount.place}
        self.list.append(mount)
        return mount, place

    def __call__(self, source, *options, place=None, **how):
        mount, place = self.new(source, place, how)
        self.tool.run("mount", *options, "--", source, place, **how).expect(0)
        servers = servers_of(mount.place)
        check(len(servers) == 1, "%d processes answer" % len(servers))
        mount.server = servers[0]
        return mount

    def foreground(self, source, *options, place=None, **how):
        mount, place = self.new(source, place, how)
        mount.process = self.tool.start("mount", "-f", *options, "--", source, place, **how)
        mount.server = mount.process.pid
        wait_for(lambda: is_mounted(mount.place) or mount.process.poll() is not None, "it is mounted")
        check(mount.process.poll() is None, "it has ended")
        return mount

    def call(self, *arguments, place=None, **how):
        """Runs a command that is to fail, and ends it if it does not."""
        mount, _ = self.new(None, place, how)
        mount.process = self.tool.start(*arguments, **how)
        try:
            output = mount.process.communicate(timeout=WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            mount.clear()
            output = mount.process.communicate()
        return Result(list(arguments), mount.process, *output, None)

    def fails(self, status, *fragments, arguments, place=None, **how):
        """A mount that fails with a message, and leaves nothing."""
        place = self.place() if place is None else place
        told = self.call("mount", *arguments, place, place=place, **how).expect(status, *fragments)
        check(told.stderr.count("\n") == 1 and told.stdout == "", "more than a line: " + told.stderr + told.stdout)
        check(not is_mounted(place) and not servers_of(place), "it is mounted")

    def clear(self):
        for mount in self.list:
            mount.clear()


def find_obstacle(tool, directory):
    """Why nothing can be mounted here; "": it can."""
    if not sys.platform.startswith("linux"):
        return "lmc-st mount is for Linux"
    if not shutil.which("fusermount3"):
        return "fusermount3 is missing (Debian: fuse3)"
    ours, theirs = socket.socketpair()
    with ours, theirs:  # the descriptor of /dev/fuse comes this way
        told = subprocess.run(["fusermount3", "--", directory], pass_fds=[theirs.fileno()], stderr=subprocess.PIPE,
                              env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno())}, check=False)
    if told.returncode != 0:
        return "nothing can be mounted here: " + told.stderr.decode().strip()
    unmount_anyway(directory)
    path = write(os.path.join(directory, "m.safetensors"), small_model())
    tool.run("convert", path).expect(0)
    mount = Mount(tool, path, os.path.join(directory, "mnt"))
    os.mkdir(mount.place)
    told = tool.run("mount", path + ".lmc", mount.place)
    mount.clear()
    if "built with libfuse" in told.stderr:
        return LEFT_OUT + "the command was built without libfuse 3 (Debian: libfuse3-dev)"
    return "libfuse 3 is missing (Debian: fuse3)" if "cannot be loaded" in told.stderr else ""


# ---- what is mounted ----

def torch_zip(seed=1):
    """What torch.save() writes of two tensors."""
    def text(content):
        return b"X" + struct.pack("<I", len(content)) + content.encode()

    def number(value):
        return b"J" + struct.pack("<i", value)

    def tensor(key, count):
        storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") + number(count) + b"tQ"
        dimensions = number(count) + b"\x85" + number(1) + b"\x85"
        return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + number(0) + dimensions + \
            b"\x89ccollections\nOrderedDict\n)RtR"

    rng = random.Random(seed)
    contents = {"0": weights(rng, LARGE_NBYTES), "1": weights(rng, 6)}
    items = b"".join(text("w" + key) + tensor(key, len(content) // 4) for key, content in contents.items())
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}(" + items + b"u.")
        for key, content in contents.items():
            archive.writestr("archive/data/" + key, content)
        archive.writestr("archive/version", b"3\n")
    return stream.getvalue()


# name: content, options of convert
KINDS = {
    "m.safetensors": (lambda: shard(1), ()),
    "m.pt": (torch_zip, ()),
    "m.npy": (lambda: npy(1), ()),
    "m.npz": (lambda: npz(1), ()),
    "m.gguf": (lambda: gguf(1), ()),
    "m.bin": (lambda: b"no known kind" + random.Random(1).randbytes(3 << 20), ("--raw",)),
    "none.safetensors": (lambda: b"\x02\0\0\0\0\0\0\0{}", ()),
    "empty.bin": (lambda: b"", ("--raw",)),
}


def archive_kind(tool, directory, name, seconds=1_500_000_000, mode=0o640):
    """A file of this kind, and its archive."""
    make, options = KINDS[name]
    path = write(os.path.join(directory, name), make())
    os.chmod(path, mode)
    os.utime(path, ns=(0, seconds * 1_000_000_000 + 123_456_789))
    tool.run("convert", path, *options).expect(0)
    return path


def archived(tool, directory, seed=1, name="m.safetensors"):
    """The content of a small file, and its archive alone."""
    path = write(os.path.join(directory, name), shard(seed))
    tool.run("convert", "-f", "--rm", "--", path).expect(0)
    return shard(seed), path + ".lmc"


# ---- what it looks like ----

def shown(root):
    """As trees.snapshot(), without the bits to write."""
    return {path: (kind, mode & ~WRITE_BITS, *rest) for path, (kind, mode, *rest) in snapshot(root).items()}


def check_shows(place, wanted, what=""):
    """`place` looks as the directory `wanted` would if it could not be written to."""
    found = snapshot(place)
    check_same(shown(wanted), found, what + ": mounted")
    for path, (kind, _, _, content) in found.items():
        check(not stat.S_ISREG(kind) or os.stat(os.path.join(place, path)).st_size == len(content), path + ": size")


def check_shows_file(path, wanted):
    """The same for a file."""
    status, original = os.stat(path), os.stat(wanted)
    check(status.st_size == original.st_size and status.st_mtime_ns == original.st_mtime_ns
          and status.st_mode == original.st_mode & ~WRITE_BITS, "%s: %s, expected %s" % (path, status, original))
    check(read(path) == read(wanted), path + ": the bytes differ")


def restored(tool, directory, *command):
    """A path to which the command restores."""
    back = os.path.join(directory, "back-%d" % random.randrange(10**9))
    tool.run(*command, "-o", back).expect(0)
    return back


def check_restored(tool, directory, place, *command):
    """`place` looks as what the command restores."""
    back = restored(tool, directory, *command)
    if os.path.isdir(back):
        check_shows(place, back, " ".join(command))
        remove(back)
    else:
        check_shows_file(os.path.join(place, *os.listdir(place)), back)
        os.unlink(back)


def fails(number, call):
    """The call fails with this error, or one of these."""
    numbers = number if isinstance(number, tuple) else (number,)
    try:
        call()
    except OSError as error:
        check(error.errno in numbers, "fails with %s" % error)
        return
    raise AssertionError("it does not fail")
