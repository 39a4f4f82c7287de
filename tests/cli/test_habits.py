"""What users of zstd and gzip expect: several files, -t, -k, --rm, kept modes and times, quiet standard output;
and verify --sha256."""
import hashlib
import os
import signal
import stat
import subprocess

import pytest

from faults import Faults
from support import (check, check_only, end_with, flip, in_directory, read, small_model, sparse_model,
                     wait_for_temporary, write)
from trees import Untouched, model_tree, remove, small_tree

TIME = 1_234_567_890_123_456_789


def three_files(directory):
    paths = [in_directory(directory, small_model(seed), "%s.safetensors" % "abc"[seed - 1]) for seed in (1, 2, 3)]
    return paths, in_directory(directory, b"no safetensors", "bad.safetensors"), os.path.join(directory, "absent")


def test_several_files(tool, directory):
    """A bad one does not keep the others from being done; the worst exit status is returned."""
    paths, bad, absent = three_files(directory)
    for operands, status, faults in (
            (paths, 0, 0), ([bad, *paths], 1, 1), ([paths[0], bad, *paths[1:], bad], 1, 2), ([*paths, absent], 3, 1),
            ([absent, bad, *paths], 3, 2), ([paths[0], bad, paths[0], *paths[1:]], 2, 2)):
        told = tool.run("convert", *operands).expect(status).stderr
        check(told.count("\n") == faults, "messages: " + told)
        archives = [path + ".lmc" for path in paths]
        check_only(directory, "bad.safetensors", *map(os.path.basename, paths + archives))
        tool.run("verify", *archives).expect(0)
        for path in paths:
            os.rename(path, path + ".old")
        broken = in_directory(directory, read(archives[0])[:-1], "broken.lmc")
        tool.run("restore", archives[0], broken, *archives[1:]).expect(1, "broken.lmc")
        tool.run("restore", bad, absent + ".lmc", *archives, "-f").expect(3, "absent", "-o")
        for path in paths:
            check(read(path) == read(path + ".old"), "the bytes differ")
            os.rename(path + ".old", path)
            os.unlink(path + ".lmc")
        os.unlink(broken)


def test_several_files_into_a_directory(tool, directory):
    paths, bad, _ = three_files(directory)
    out = os.path.join(directory, "out")
    with Untouched(directory):
        tool.run("convert", *paths, "-o", out).expect(2, "existing directory")
        tool.run("convert", *paths, "-o", paths[0], "-f").expect(2, "existing directory")
        tool.run("convert", *paths, "-c").expect(2, "one file at a time")
        tool.run("convert", *paths, "-o", "-").expect(2, "one file at a time")
    os.mkdir(out)
    tool.run("convert", *paths, bad, "-o", out + "/").expect(1, "bad.safetensors")
    check_only(out, *(os.path.basename(path) + ".lmc" for path in paths))
    check(not any(name.endswith(".lmc") for name in os.listdir(directory)), "beside the inputs")
    for name in os.listdir(out):
        tool.run("restore", os.path.join(out, name), "-o", os.path.join(directory, "back")).expect(0)
        check(read(os.path.join(directory, "back")) == read(os.path.join(directory, name[:-4])), name)
        os.unlink(os.path.join(directory, "back"))
    tool.run("convert", paths[0], "-o", out, "-f").expect(2, "directory")


def test_outputs_of_one_name(tool, directory):
    """None replaces another that the same command has written, or removes what it was made from."""
    for folder, seed in (("1", 1), ("2", 2), ("out", 3)):
        os.mkdir(os.path.join(directory, folder))
        in_directory(os.path.join(directory, folder), small_model(seed), "x.safetensors")
        small_tree(os.path.join(directory, folder, "m"))
    for operands in (("1/x.safetensors", "2/x.safetensors"), ("1/m", "1/x.safetensors", "./2/m/"), ("1/m", "1/m"),
                     ("1/m/.", "2/x.safetensors", "2/m/sub/..")):
        for options in ((), ("-f",), ("-f", "--rm")):
            with Untouched(directory, "%s %s" % (operands, options)):
                tool.run("convert", *operands, "-o", "out", *options, cwd=directory).expect(2)
    tool.run("convert", "1/x.safetensors", "2/x.safetensors", cwd=directory).expect(0)
    with Untouched(directory, "restore"):
        tool.run("restore", "1/x.safetensors.lmc", "2/x.safetensors.lmc", "-o", "out", "-f", "--rm",
                 cwd=directory).expect(2)


def test_test_option(tool, directory):
    """-t is verify, whatever stands before it."""
    paths, bad, absent = three_files(directory)
    tool.run("convert", *paths).expect(0)
    archives = [path + ".lmc" for path in paths]
    damaged = bytearray(read(archives[2]))
    damaged[-40] ^= 1
    broken = in_directory(directory, bytes(damaged), "broken.lmc")
    tree = small_tree(os.path.join(directory, "m"))
    tool.run("convert", tree).expect(0)
    with Untouched(directory):
        for before, after in ((("-t",), ()), ((), ("-t",)), (("--test",), ()), (("restore", "-t"), ()),
                              (("verify",), ()), (("-t", "-j1", "-q"), ()), (("-t", "--rm", "-f"), ()),
                              (("convert", "-t"), ())):
            for operands, status in ((archives, 0), ([archives[0], broken], 1), ([bad, archives[0]], 1),
                                     ([absent, broken], 3), ([paths[0], "-q"], 0), ([tree + ".lmc"], 0)):
                result = tool.run(*before, *operands, *after).expect(status)
                check(result.stdout == "", "standard output")
                check(broken not in operands or "broken.lmc" in result.stderr, "messages: " + result.stderr)
    told = tool.run("-tv", *archives)
    check(told.status == 0 and told.stdout == "" and told.stderr.count("verified") == 3, "-v: " + told.stderr)


def test_remove_and_keep(tool, directory):
    """The last of -k and --rm counts; --rm removes nothing that was not written and compared."""
    paths, bad, _ = three_files(directory)
    path = paths[0]
    for options, is_kept in (((), True), (("-k",), True), (("--rm",), False), (("--rm", "-k"), True),
                             (("-k", "--rm"), False), (("--keep", "--rm", "-k"), True), (("--rm", "-j1"), False)):
        tool.run("convert", path, *options).expect(0)
        check(os.path.exists(path) == is_kept, "convert %s" % (options,))
        tool.run("restore", path + ".lmc", "-f", *options).expect(0)
        check(os.path.exists(path + ".lmc") == is_kept, "restore %s" % (options,))
        check(read(path) == small_model(1), "the bytes differ")
        if is_kept:
            os.unlink(path + ".lmc")
    write(path + ".lmc", b"mine")
    with Untouched(directory):
        tool.run("convert", path, "--rm").expect(2)
        tool.run("convert", bad, "--rm").expect(1)
        tool.run("restore", path + ".lmc", "--rm", "-o", path + ".back").expect(1)
        tool.run("convert", "-", "--rm", "-o", path + ".x").expect(2)
        tool.run("convert", path, "--rm", "-c").expect(2)
        tool.run("convert", path, "--rm", "-o", "-").expect(2)
    tool.run("convert", *paths, bad, "--rm", "-f").expect(1)
    check_only(directory, "bad.safetensors", *(os.path.basename(p) + ".lmc" for p in paths))
    tool.run("restore", *(p + ".lmc" for p in paths), "--rm").expect(0)
    check_only(directory, "bad.safetensors", *map(os.path.basename, paths))


def test_interrupted_files_are_kept(tool, directory):
    """After a signal the operands that follow are left alone."""
    first = sparse_model(os.path.join(directory, "a.safetensors"), 16)
    second = in_directory(directory, small_model(), "b.safetensors")
    process = tool.start("convert", first, second, "--rm", address_space=None)
    wait_for_temporary(directory, process)
    check(end_with(process, signal.SIGINT) == 130, "exit %s" % process.returncode)
    check_only(directory, "a.safetensors", "b.safetensors")
    check(read(second) == small_model(), "the second file")


@pytest.mark.posix("modes of files")
def test_modes_and_times(tool, directory):
    path = in_directory(directory, small_model())
    back = path + ".back"
    for mode in (0o644, 0o600, 0o400, 0o755, 0o666):
        for time in (TIME, 0, 4_000_000_000_000_000_001):
            os.chmod(path, mode)
            os.utime(path, ns=(time, time))
            tool.run("convert", path, "-f").expect(0)
            os.utime(path + ".lmc", ns=(1, os.stat(path + ".lmc").st_mtime_ns))
            tool.run("restore", path + ".lmc", "-o", back, "-f").expect(0)
            for copy in (path + ".lmc", back):
                status = os.stat(copy)
                check(stat.S_IMODE(status.st_mode) == mode and status.st_mtime_ns == time,
                      "%s: mode %o, time %d" % (copy, status.st_mode, status.st_mtime_ns))
    os.chmod(path, 0o600)


@pytest.mark.posix("names with control characters")
def test_standard_output_stays_empty(tool, directory):
    """-v tells on standard error alone."""
    path = in_directory(directory, small_model())
    tree = model_tree(os.path.join(directory, "m"))
    os.unlink(os.path.join(tree, "old.lmc"))  # of a directory that is no converted one, verify takes it for an archive
    for command, given, word in (("convert", path, "ratio 0."), ("convert", tree, " archives kept)"),
                                 ("restore", path + ".lmc", " bytes -> "), ("restore", tree + ".lmc", " files"),
                                 ("verify", path + ".lmc", "verified, 8 tensors"), ("verify", tree, "verified"),
                                 ("verify", tree + ".lmc", "verified")):
        options = () if command == "verify" else ("-f",)
        for more in ((), ("-v",)):
            result = tool.run(command, given, *options, *more)
            check(result.status == 0 and result.stdout == "", "%s %s: %s" % (command, more, result.stderr))
            is_told = "-v" in more or given == tree and command == "verify"  # its files are no archives
            check((result.stderr != "") == is_told, "%s %s: %s" % (command, more, result.stderr))
        check(word in result.stderr, "%s: %r lacks %r" % (command, result.stderr, word))
        check(result.stderr.endswith("\n") and "\x1b" not in result.stderr, "%s: %r" % (command, result.stderr))
    told = tool.run("restore", path + ".lmc", "-v", "-c")
    check(told.status == 0 and len(told.stdout) > 1000 and " bytes -> " in told.stderr, "-v -c: " + told.stderr)
    for name in ("m", "m.lmc"):
        remove(os.path.join(directory, name))


def test_no_fsync(tool, directory):
    """With --no-fsync nothing waits for the disk; without, every file and folder does."""
    path = in_directory(directory, small_model())
    tree = small_tree(os.path.join(directory, "m"))
    faults = Faults(tool, directory)
    try:
        can_trace = subprocess.run(["strace", "-V"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        can_trace = False
    for command, given, count in (("convert", path, 2), ("restore", path + ".lmc", 2), ("convert", tree, 9),
                                  ("restore", tree + ".lmc", 9)):
        # a signal that is ignored: the calls are counted and go on
        _, hits = faults.run("fsync:1:0:s%d" % signal.SIGURG, command, given, "-f")
        check(len(hits) >= count, "%s: %d calls of fsync, %d expected" % (command, len(hits), count))
        _, hits = faults.run("fsync:1:0:s%d" % signal.SIGURG, command, given, "-f", "--no-fsync")
        check(hits == [], "%s --no-fsync: %s" % (command, hits))
        if can_trace:
            log = os.path.join(directory, "log")
            subprocess.run(["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync,sync,syncfs", "-e", "signal=none",
                            "-o", log, tool.path, command, given, "-f", "--no-fsync"], check=False,
                           capture_output=True)
            if not os.path.exists(log):
                pytest.skip("strace cannot trace here")
            check(read(log) == b"", "%s --no-fsync: %s" % (command, read(log)[:300]))
            os.unlink(log)


# ---- verify --sha256 ----

def test_sha256(tool, directory):
    path = in_directory(directory, small_model())
    tool.run("convert", path).expect(0)
    archive = read(path + ".lmc")
    digest = hashlib.sha256(small_model()).hexdigest()
    with open(path, "rb") as plain, open(path + ".lmc", "rb") as packed:
        for operand, stdin in ((path, None), (path + ".lmc", None), ("-", plain), ("-", packed)):
            for threads in ("-j1", "-j2"):
                for text in (digest, digest.upper(), digest[:32] + digest[32:].upper()):
                    run_sha256(tool, operand, text, stdin, threads, status=0)
            wrong = ("0" if digest[0] != "0" else "1") + digest[1:]
            own = hashlib.sha256(archive).hexdigest()
            for text in (wrong, digest[:-1] + ("0" if digest[-1] != "0" else "1"), own, "0" * 64):
                message = run_sha256(tool, operand, text, stdin, status=1)
                check(digest in message and "SHA-256" in message, "message: " + message)
            for text in ("", digest[:-1], digest + "0", digest[:-1] + "g", " " + digest[1:], digest[:-1] + "\n",
                         "0x" + digest[2:], "sha256:" + digest, digest[:-1] + "\u0661"):
                check("64" in run_sha256(tool, operand, text, stdin, status=2), "malformed: " + text)
    for arguments in (("verify", path, path, "--sha256", digest), ("convert", path, "--sha256", digest),
                      ("verify", "--sha256"), ("verify", "--sha256", digest)):
        tool.run(*arguments).expect(2)
    tool.run("verify", path, "--sha256=" + digest).expect(0)
    tool.run("-t", path + ".lmc", "--sha256", digest).expect(0)
    tool.run("-t", path + ".lmc", "--sha256", "0" * 64).expect(1)
    told = tool.run("verify", "-v", path + ".lmc", "--sha256", digest)
    check(told.status == 0 and "SHA-256 as expected" in told.stderr, "-v: " + told.stderr)


def run_sha256(tool, operand, text, stdin, *options, status):
    if stdin is not None:
        stdin.seek(0)
    process = subprocess.run([tool.path, "verify", operand, "--sha256", text, *options], stdin=stdin,
                             capture_output=True, check=False)
    check(process.returncode == status and process.stdout == b"", "%s %r: exit %d: %s" % (
        operand, text, process.returncode, process.stderr.decode()))
    return process.stderr.decode()


def test_sha256_of_what_is_no_longer_so(tool, directory):
    """Damage is reported as such; a changed plain file as another hash."""
    content = bytearray(small_model())
    path = in_directory(directory, bytes(content))
    digest = hashlib.sha256(content).hexdigest()
    tool.run("convert", path).expect(0)
    flip(path + ".lmc", -50)
    tool.run("verify", path + ".lmc", "--sha256", digest).expect(1, 'tensor "layer.1"')
    write(path + ".lmc", read(path + ".lmc")[:-10])
    tool.run("verify", path + ".lmc", "--sha256", digest).expect(1, "cut short")
    content[-1] ^= 1
    write(path, bytes(content))
    tool.run("verify", path, "--sha256", digest).expect(1, "SHA-256")
    tool.run("verify", path + ".absent", "--sha256", digest).expect(3)


@pytest.mark.posix("names with a colon")
def test_urls(tool, directory):
    """A URL is no path: the message says what reads it. A file may have such a name."""
    for command in ("ls", "verify", "info"):
        told = tool.run(command, "https://host/m.lmc").expect(3, "No such file", "lmcodec.remote").stderr
        check(told.count("\n") == 1, "several lines: " + told)
    os.makedirs(os.path.join(directory, "a:"))
    write(os.path.join(directory, "a:", "m.safetensors"), small_model())
    tool.run("ls", os.path.join(directory, "a://m.safetensors")).expect(0)
