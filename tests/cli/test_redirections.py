"""Standard input and output: pipes, files at an offset, /dev/null, terminals; big streams and broken ones."""
import json
import os
import pty
import random
import signal
import subprocess
import termios
import tty

import pytest

from mounts import with_small_disk
from support import Archive, Result, check, check_only, in_directory, model, read, small_model, weights, write

PREFIX = b"what stands before"


def stream(tool, *arguments, given=None, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, environment=None, cwd=None):
    """Runs the tool; `given`: bytes for a pipe as its standard input. Files are closed then."""
    process = subprocess.Popen([tool.path, *arguments], stdin=subprocess.PIPE if given is not None else stdin,
                               stdout=stdout, stderr=subprocess.PIPE, cwd=cwd,
                               env=None if environment is None else {**os.environ, **environment})
    try:
        out, err = process.communicate(given)
    except BrokenPipeError:  # it has not read everything
        out, err = process.communicate()
    for file in (stdin, stdout):
        if hasattr(file, "close"):
            file.close()
    return Result(arguments, process, out or b"", err, None)


def make(tool, directory):
    """Contents of a model and of its archive, which stand in the directory."""
    path = in_directory(directory, small_model())
    tool.run("convert", path).expect(0)
    return path, small_model(), read(path + ".lmc")


# ---- every way in, every way out ----

def inputs(path, content):
    """(name, operand, arguments of stream())"""
    yield "a file", path, lambda: {}
    yield "a pipe", "-", lambda: {"given": content}
    yield "a redirected file", "-", lambda: {"stdin": open(path, "rb")}

    def at_offset():
        write(path + ".prefixed", PREFIX + content)
        file = open(path + ".prefixed", "rb", buffering=0)
        file.seek(len(PREFIX))
        return {"stdin": file}
    yield "a file at an offset", "-", at_offset


def outputs(directory):
    """(name, options, arguments of stream(), what the output then holds before the stream, its path)."""
    path = os.path.join(directory, "out")
    yield "-o", ("-o", path), lambda: {}, b"", path
    yield "-c", ("-c",), lambda: {}, b"", None
    yield "-o -", ("-o", "-"), lambda: {}, b"", None
    yield "a redirected file", ("-c",), lambda: {"stdout": open(path, "wb")}, b"", path

    def appended():
        write(path, PREFIX)
        return {"stdout": open(path, "ab")}
    yield "a file that is appended to", ("-c",), appended, PREFIX, path

    def at_offset():
        write(path, PREFIX)
        file = open(path, "rb+", buffering=0)
        file.seek(5)
        return {"stdout": file}
    yield "a file at an offset", ("-c",), at_offset, PREFIX[:5], path


def test_every_way_in_and_out(tool, directory):
    path, content, archive = make(tool, directory)
    for command, given, wanted in (("convert", path, archive), ("restore", path + ".lmc", content)):
        for source, operand, how_in in inputs(given, read(given)):
            for target, options, how_out, before, at in outputs(directory):
                what = "%s from %s to %s" % (command, source, target)
                result = stream(tool, command, operand, *options, **how_in(), **how_out()).expect(0)
                found = result.output if at is None else read(at)
                check(found == before + wanted, "%s: %d bytes" % (what, len(found)))
                check(at is None or result.output == b"", what + ": standard output")
                if at is not None:
                    os.unlink(at)
    for given in (path, path + ".lmc"):
        for source, operand, how_in in inputs(given, read(given)):
            for options in ((), ("-j1",)):
                check(stream(tool, "cat", operand, *options, **how_in()).expect(0).output == content, "cat " + source)
            check(stream(tool, "verify", "-q", operand, **how_in()).expect(0).output == b"", "verify " + source)
            check(stream(tool, "-t", "-q", operand, **how_in()).expect(0).output == b"", "-t " + source)


def test_stream_without_options(tool, directory):
    """ "-" alone goes to standard output; "./-" is a file."""
    path, content, archive = make(tool, directory)
    check(stream(tool, "convert", "-", given=content).expect(0).output == archive, "convert -")
    check(stream(tool, "restore", "-", given=archive).expect(0).output == content, "restore -")
    write(os.path.join(directory, "-"), content)
    check(stream(tool, "convert", "./-", cwd=directory).expect(0).output == b"", "convert ./-")
    check(read(os.path.join(directory, "-.lmc")) == archive, "-.lmc")
    check(stream(tool, "convert", path, "-o", "./-", "-f", cwd=directory).expect(0).output == b"", "-o ./-")
    check(read(os.path.join(directory, "-")) == archive, "-")
    check_only(directory, "m.safetensors", "m.safetensors.lmc", "-", "-.lmc")


@pytest.mark.posix("/dev/stdout")
def test_names_of_standard_output(tool, directory):
    """They are no files that an output could take the place of. (Never with -f here: it would replace the system's.)"""
    path, content, archive = make(tool, directory)
    for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        for arguments, wanted in ((["convert", path], archive), (["restore", path + ".lmc"], content)):
            check(stream(tool, *arguments, "-o", name).expect(0).output == wanted, name)
        stream(tool, "convert", path, "--rm", "-o", name).expect(2, "--rm needs files")
    check_only(directory, "m.safetensors", "m.safetensors.lmc")


def test_output_to_nothing(tool, directory):
    path, content, archive = make(tool, directory)
    for command, given in (("convert", content), ("restore", archive), ("cat", archive)):
        stream(tool, command, "-", given=given, stdout=subprocess.DEVNULL).expect(0)


def test_pipeline(tool, directory):
    """24 MB through two processes at once."""
    rng = random.Random(9)
    piece = weights(rng, 1 << 16)
    content = model([("w%d" % i, "BF16", [len(piece) * 32 // 2], piece[i:] + piece * 31 + piece[:i])
                     for i in range(0, 12, 2)] + [("noise", "U8", [1 << 20], rng.randbytes(1 << 20))])
    path = in_directory(directory, content)
    with open(path, "rb") as file:
        first = subprocess.Popen([tool.path, "convert", "-"], stdin=file, stdout=subprocess.PIPE)
        second = subprocess.Popen([tool.path, "restore", "-", "-c"], stdin=first.stdout, stdout=subprocess.PIPE)
        first.stdout.close()
        found = second.communicate()[0]
    check(first.wait() == 0 and second.returncode == 0, "exit %s, %s" % (first.returncode, second.returncode))
    check(found == content, "the bytes differ")
    check_only(directory, "m.safetensors")


@pytest.mark.posix("a folder as standard input")
def test_nothing_comes_in(tool, directory):
    for command, options in (("convert", ("-c",)), ("restore", ("-c",)), ("restore", ("-c", "--salvage")),
                             ("cat", ()), ("verify", ())):
        check(stream(tool, command, "-", *options).expect(1, "standard input", "empty").output == b"", command)
        check(stream(tool, command, "-", *options, given=b"").expect(1, "empty").output == b"", command)
        folder = os.open(directory, os.O_RDONLY)
        check(stream(tool, command, "-", *options, stdin=folder).expect(2, "directory").output == b"", command)
        os.close(folder)


def test_known_faults_write_nothing(tool, directory):
    path, content, archive = make(tool, directory)
    out = os.path.join(directory, "out")
    changed = bytearray(archive)
    changed[200] ^= 1
    for command, given, status in (("convert", b"x", 1), ("convert", content[:-1], 1), ("convert", archive, 1),
                                   ("restore", content, 1), ("restore", bytes(changed), 1), ("restore", b"x" * 100, 1),
                                   ("restore", archive[:300], 1), ("cat", content + b"x", 1), ("cat", b"x" * 9, 1),
                                   ("cat", archive[:300], 1)):
        bad = in_directory(directory, given, "bad")
        for operand, how in (("-", {"given": given}), (bad, {})):
            options = () if command == "cat" else ("-c",)
            check(stream(tool, command, operand, *options, **how).expect(status).output == b"", "%s of %d bytes" % (
                command, len(given)))
            with open(out, "wb") as file:
                stream(tool, command, operand, *options, stdout=file, **how).expect(status)
            check(read(out) == b"", "%s of %d bytes, to a file" % (command, len(given)))
            os.unlink(out)
            if command != "cat":
                stream(tool, command, operand, "-o", out, **how).expect(status)
        os.unlink(bad)
    for command in ("convert", "restore", "cat"):
        check(stream(tool, command, path + ".absent", *(() if command == "cat" else ("-c",))).expect(3).output == b"",
              command)
    write(out, b"mine")
    for command, given in (("convert", content), ("restore", archive)):
        stream(tool, command, "-", "-o", out, given=given).expect(2, "exists already")
        check(read(out) == b"mine", "the output was changed")
        stream(tool, command, "-", "-o", out, "-f", given=given).expect(0)
        write(out, b"mine")
    check_only(directory, "m.safetensors", "m.safetensors.lmc", "out")


def test_truncated_and_damaged_archives(tool, directory):
    """What is written before the fault is found is the begin of the file; of a damaged tensor whose frame has
    one checksum, its own bytes may be wrong. Nothing follows."""
    _, content, archive = make(tool, directory)
    parts = Archive(archive)
    data = len(archive) - sum(len(frame) for _, frame in parts.parts)
    rng = random.Random(3)
    for turn in range(60):
        at = rng.randrange(data, len(archive)) if turn % 3 else rng.randrange(len(archive))
        given = bytearray(archive[:at] if turn % 2 else archive)
        if turn % 2 == 0:
            given[at] ^= 1 << rng.randrange(8)
        result = stream(tool, "cat" if turn % 4 < 2 else "restore", "-", given=bytes(given)).expect(1)
        begin, end = (0, 0) if turn % 2 else place_of(content, parts, at - data)
        check(len(result.output) <= end and content.startswith(result.output[:begin]),
              "turn %d: %d bytes, the damage is in %d to %d" % (turn, len(result.output), begin, end))


def place_of(content, archive, at):
    """Where the tensor is in the file whose frame holds byte `at` of the archive's data."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8:8 + length])
    for name, frame in archive.parts:
        if 0 <= at < len(frame) and name in header:
            return tuple(8 + length + offset for offset in header[name]["data_offsets"])
        at -= len(frame)
    return 0, 0


def test_nobody_reads(tool, directory):
    """Ended by SIGPIPE, without a line, whether the reader has taken nothing or something."""
    rng = random.Random(2)
    path = in_directory(directory, model([("a", "U8", [3000000], rng.randbytes(3000000))]))
    tool.run("convert", path).expect(0)
    for arguments in (["convert", path, "-c"], ["restore", path + ".lmc", "-c"], ["cat", path + ".lmc"],
                      ["cat", path], ["restore", "--salvage", path + ".lmc", "-c", "-j1"]):
        for taken in (0, 1, 70000):
            process = subprocess.Popen([tool.path, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       bufsize=0)
            if taken:
                process.stdout.read(taken)
            process.stdout.close()
            message = process.communicate()[1].decode()
            check(process.returncode == tool.broken_pipe_status and message == "", "%s, %d taken: exit %d: %s" % (
                arguments, taken, process.returncode, message))
    check_only(directory, "m.safetensors", "m.safetensors.lmc")


@pytest.mark.posix("closed standard streams")
def test_closed_descriptors(tool, directory):
    """Work for a closed standard output is a failure, not a file that takes its number."""
    path, content, archive = make(tool, directory)
    for closed in (">&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"):
        for arguments, given in ((("convert", "-"), content), (("restore", "-"), archive), (("cat", "-"), archive),
                                 (("convert", path, "-c"), b""), (("restore", path + ".lmc", "-c"), b""),
                                 (("cat", path), b"")):
            process = subprocess.run(["sh", "-c", '"$0" "$@" ' + closed, tool.path, *arguments], input=given,
                                     stderr=subprocess.PIPE, check=False)
            check(process.returncode == 3, "%s %s: exit %d" % (arguments, closed, process.returncode))
    check(read(path) == content and read(path + ".lmc") == archive, "the files were changed")
    check_only(directory, "m.safetensors", "m.safetensors.lmc")


# ---- temporary files ----

@pytest.mark.posix("TMPDIR: Wine itself writes there")
def test_temporary_directories(tool, directory):
    """Streams that must be collected are, wherever that is possible; nothing stays there."""
    _, content, archive = make(tool, directory)
    good = os.path.join(directory, "tmp")
    os.mkdir(good)
    closed = os.path.join(directory, "closed")
    os.mkdir(closed, 0o555)
    for place in (good, closed, os.path.join(directory, "absent"), os.path.join(directory, "m.safetensors"), "",
                  "relative", "x" * 5000):
        for command, given, wanted in (("convert", content, archive), ("restore", archive, content)):
            result = stream(tool, command, "-", given=given, environment={"TMPDIR": place}).expect(0)
            check(result.output == wanted, "%s with TMPDIR=%s" % (command, place[:20]))
        stream(tool, "convert", "-", given=b"x", environment={"TMPDIR": place}).expect(1)
    check(os.listdir(good) == [] and os.listdir(closed) == [], "left behind")


@pytest.mark.posix("TMPDIR: Wine itself writes there")
def test_full_temporary_directory(tool, directory):
    def run(place):
        rng = random.Random(1)
        content = model([("a", "U8", [3000000], rng.randbytes(3000000))])
        path = in_directory(directory, content)
        tool.run("convert", path).expect(0)
        environment = {"TMPDIR": place}
        for arguments, given in ((("convert", "-"), content), (("restore", "-"), read(path + ".lmc")),
                                 (("cat", "-"), content), (("verify", "-"), content), (("convert", "-c", path), None)):
            result = stream(tool, *arguments, given=given, environment=environment)
            result.expect(3, "No space left on device")
            check(result.output == b"", "%s: something was written" % (arguments,))
        check(os.listdir(place) == [], "left behind")
        for arguments in (("restore", "-c", path + ".lmc"), ("cat", path + ".lmc"), ("cat", path)):
            check(stream(tool, *arguments, environment=environment).expect(0).output == content, "needs no space")
    with_small_disk(directory, "size=1m", run)


# ---- terminals ----

def on_terminal(tool, *arguments, given=b""):
    """Returns exit status, what came to the terminal, the message."""
    master, slave = pty.openpty()
    tty.setraw(slave, termios.TCSANOW)
    process = subprocess.Popen([tool.path, *arguments], stdin=subprocess.PIPE, stdout=slave, stderr=subprocess.PIPE)
    os.close(slave)
    pid = os.fork()
    if pid == 0:  # the input's writer, as the terminal is read here
        try:
            os.close(master)
            process.stdin.write(given)
            process.stdin.close()
        except OSError:
            pass
        os._exit(0)
    process.stdin.close()
    shown = b""
    try:
        while piece := os.read(master, 65536):
            shown += piece
    except OSError:
        pass
    os.close(master)
    os.waitpid(pid, 0)
    message = process.stderr.read().decode()
    process.stderr.close()
    return process.wait(), shown, message


@pytest.mark.posix("this kind of terminal")
def test_terminals(tool, directory):
    path, content, archive = make(tool, directory)
    for arguments, given, wanted in ((("convert", "-"), content, archive), (("convert", path, "-c"), b"", archive),
                                     (("convert", path, "-o", "-"), b"", archive),
                                     (("restore", "-"), archive, content),
                                     (("restore", path + ".lmc", "-c"), b"", content),
                                     (("restore", path + ".lmc", "-c", "--salvage"), b"", content),
                                     (("cat", path + ".lmc"), b"", content), (("cat", path), b"", content),
                                     (("get", path, "scale.0"), b"", content[-4016:-4008])):
        status, shown, message = on_terminal(tool, *arguments, given=given)
        check(status == 2 and shown == b"" and "terminal" in message and message.count("\n") == 1,
              "%s: exit %d, %d bytes shown: %s" % (arguments, status, len(shown), message))
        status, shown, message = on_terminal(tool, *arguments, "-f", given=given)
        check(status == 0 and shown == wanted and message == "", "%s -f: exit %d, %d bytes shown: %s" % (
            arguments, status, len(shown), message))
    out = os.path.join(directory, "out")
    check(on_terminal(tool, "convert", "-", "-o", out, given=content) == (0, b"", ""), "-o")
    check(on_terminal(tool, "verify", "-", given=archive) == (0, b"", ""), "verify")
    check(read(out) == archive, "the archive")
