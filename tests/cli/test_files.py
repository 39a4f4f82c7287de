"""Outputs appear whole or not at all; nothing that exists is lost."""
import os
import pty
import random
import signal
import struct
import subprocess

import pytest

from support import (check, check_only, end_with, in_directory, model, read, small_model, sparse_model,
                     wait_for_temporary, write)
from users import as_nobody


def read_terminal(master):
    """Everything that is written until the other side closes."""
    shown = b""
    try:
        while piece := os.read(master, 65536):
            shown += piece
    except OSError:
        pass
    os.close(master)
    return shown.decode()


def test_existing_output_is_kept(tool, directory):
    path = in_directory(directory, small_model())
    write(path + ".lmc", b"mine")
    tool.run("convert", path).expect(2, "exists already", "m.safetensors.lmc")
    check(read(path + ".lmc") == b"mine", "the output was changed")
    tool.run("convert", path, "-f").expect(0)
    check(read(path + ".lmc") != b"mine", "the output was not replaced")
    tool.run("restore", path + ".lmc").expect(2, "exists already")
    check(read(path) == small_model(), "the original was changed")
    check_only(directory, "m.safetensors", "m.safetensors.lmc")


def test_failure_keeps_forced_output(tool, directory):
    path = in_directory(directory, small_model()[:-1])
    write(path + ".lmc", b"mine")
    tool.run("convert", path, "--force").expect(1)
    check(read(path + ".lmc") == b"mine", "the output was changed")
    check_only(directory, "m.safetensors", "m.safetensors.lmc")


def test_same_file_is_refused(tool, directory):
    path = in_directory(directory, small_model())
    link = os.path.join(directory, "link")
    hard = os.path.join(directory, "hard")
    os.symlink(path, link)
    os.link(path, hard)
    for output in (path, link, hard, os.path.join(directory, ".", "m.safetensors")):
        tool.run("convert", path, "-f", "-o", output).expect(2, "same file")
    tool.run("convert", link, "-f", "-o", path).expect(2, "same file")
    check(read(path) == small_model(), "the input was changed")
    check_only(directory, "m.safetensors", "link", "hard")


@pytest.mark.posix("links")
def test_links_and_modes(tool, directory):
    path = in_directory(directory, small_model())
    os.chmod(path, 0o640)
    link = os.path.join(directory, "link")
    os.symlink("m.safetensors", link)
    tool.run("convert", link).expect(0)
    check(os.stat(link + ".lmc").st_mode & 0o777 == 0o640, "the archive's mode")
    tool.run("restore", link + ".lmc", "-o", link + ".back").expect(0)
    check(os.stat(link + ".back").st_mode & 0o777 == 0o640, "the restored file's mode")
    check(read(link + ".back") == small_model(), "the bytes differ")


@pytest.mark.posix("permissions of files")
def test_replaced_files_keep_their_mode(tool, directory):
    """If the input has none, as a pipe: what was private stays so."""
    out = os.path.join(directory, "out")
    for options in ((), ("-f",)):
        ended = subprocess.run([tool.path, "convert", "-", "-o", out, *options], input=small_model(1), check=False)
        check(ended.returncode == 0, "convert")
        check(not options or os.stat(out).st_mode & 0o777 == 0o600, "the mode of the output")
        os.chmod(out, 0o600)


@pytest.mark.posix("links")
def test_dangling_link_counts_as_existing(tool, directory):
    path = in_directory(directory, small_model())
    os.symlink("nowhere", path + ".lmc")
    tool.run("convert", path).expect(2, "exists already")
    check(os.path.islink(path + ".lmc"), "the link is gone")


def test_wrong_kinds(tool, directory):
    path = in_directory(directory, small_model())
    pipe = os.path.join(directory, "pipe")
    os.mkfifo(pipe)
    tool.run("convert", pipe).expect(2, "not a regular file")
    tool.run("convert", "/dev/zero", "-o", os.path.join(directory, "x")).expect(2, "not a regular file")
    tool.run("convert", directory).expect(2, "pipe: is not a regular file")
    tool.run("verify", directory).expect(2, "pipe: is not a regular file")
    tool.run("convert", path, "-f", "-o", directory).expect(2, "directory")
    tool.run("convert", path, "-f", "-o", pipe).expect(2, "not a regular file")
    tool.run("convert", path, "-f", "-o", "/dev/null").expect(2, "not a regular file")
    check_only(directory, "m.safetensors", "pipe")


def test_missing_input(tool, directory):
    absent = os.path.join(directory, "absent")
    for command in ("convert", "verify", "ls"):
        tool.run(command, absent).expect(3, "absent: cannot open: No such file")
    tool.run("restore", absent + ".lmc").expect(3, "cannot open")


def test_missing_output_directory(tool, directory):
    path = in_directory(directory, small_model())
    tool.run("convert", path, "-o", os.path.join(directory, "no", "x")).expect(3, "cannot create")
    check_only(directory, "m.safetensors")


def test_read_only_directory(tool, directory):
    path = in_directory(directory, small_model())
    user = as_nobody(tool, directory, os.path.dirname(directory))
    os.chmod(path, 0o644)
    os.chmod(directory, 0o555)
    try:
        tool.run("convert", path, **user).expect(3, "cannot create")
    finally:
        os.chmod(directory, 0o755)
    check_only(directory, "m.safetensors")


@pytest.mark.posix("signals")
@pytest.mark.parametrize("command, gib, number", [("convert", 16, signal.SIGINT), ("convert", 16, signal.SIGTERM),
                                                  ("restore", 1, signal.SIGINT)])
def test_interrupted(tool, directory, command, gib, number):
    path = sparse_model(os.path.join(directory, "m.safetensors"), gib)
    if command == "restore":
        tool.run("convert", path, "--rm").expect(0)
        path += ".lmc"
    process = tool.start(command, path, address_space=None)
    wait_for_temporary(directory, process)
    status = end_with(process, number)
    check(status == 128 + number, "exit %d" % status)
    check_only(directory, os.path.basename(path))


@pytest.mark.posix("this kind of terminal")
def test_progress_bar(tool, directory):
    """On a terminal: a bar that is cleared, then one line. With -q: nothing."""
    path = sparse_model(os.path.join(directory, "m.safetensors"), 1 if tool.limits else 0.25)  # sanitizers: as long
    shown = []
    for option in ("-f", "-fq"):
        master, slave = pty.openpty()
        process = subprocess.Popen([tool.path, "convert", path, "-j1", option], stderr=slave,
                                   stdin=subprocess.DEVNULL)
        os.close(slave)
        shown.append(read_terminal(master))
        check(process.wait() == 0, "exit %d" % process.returncode)
    check("GiB/s" in shown[0] and "ETA" in shown[0] and "m.safetensors [" in shown[0], "bar: %r" % shown[0])
    check(shown[0].split("\x1b[K")[-1].startswith("m.safetensors: ") and shown[0].endswith("\n"),
          "end: %r" % shown[0][-200:])
    check(shown[1] == "", "-q: %r" % shown[1])


@pytest.mark.posix("names with control characters")
def test_odd_file_names(tool, directory):
    for name in ("a b.safetensors", "-o.safetensors", "\n\x1b[31m.safetensors", "\u00e4.safetensors"):
        path = in_directory(directory, small_model(), name)
        tool.run("convert", "--", name, cwd=directory).expect(0)
        tool.run("restore", "-f", "--", name + ".lmc", cwd=directory).expect(0)
        check(read(path) == small_model(), "the bytes differ")
        tool.run("restore", "--", name, cwd=directory).expect(2 if not name.endswith(".lmc") else 1)
    raw = os.path.join(directory.encode(), b"\xff.safetensors")
    write(raw, b"")
    tool.run("convert", os.fsdecode(raw)).expect(1, "\\xff")


@pytest.mark.large
def test_big_files_pass_two_gib(tool, directory):
    """Offsets beyond 32 bits; the archive of zeros is small, nothing is written."""
    path = sparse_model(os.path.join(directory, "m.safetensors"), 5)
    tool.run("convert", path).expect(0)
    check(os.path.getsize(path + ".lmc") < 5 << 20, "zeros have not shrunk")
    tool.run("verify", path + ".lmc").expect(0)


# ---- archives that are larger than their sources ----

def tiny_tensors(count):
    return model([("t%d" % i, "U8", [1], bytes([i % 251])) for i in range(count)])


def test_larger_archives_are_told(tool, directory):
    """A line says so, and why; the archive is there, and right."""
    content = tiny_tensors(3000)
    path = in_directory(directory, content)
    told = tool.run("convert", path)
    size = os.path.getsize(path + ".lmc")
    check(told.status == 0 and size > 1.2 * len(content), "exit %d, %d bytes: %s" % (told.status, size, told.stderr))
    wanted = "lmc-st: %s: the archive is larger than its source (%d instead of %d bytes): " % (path, size, len(content))
    check(told.stderr == wanted + "it has 3000 tensors of 1 byte on average; such files are better copied\n",
          "told: " + told.stderr)
    tool.run("convert", path, "-f", "-q").expect(0)
    tool.run("restore", path + ".lmc", "-f").expect(0)
    check(read(path) == content, "restored otherwise")
    told = tool.run("convert", path, "-c")
    check(told.status == 0 and told.stderr == wanted[:-2] + "\n" and len(told.output) == size, "-c: " + told.stderr)
    told = tool.run("convert", path, "-f", "-v").stderr.splitlines()
    check(len(told) == 2 and told[0].startswith(wanted) and "GiB/s" in told[1], "-v: %s" % told)


def tiny_tensors_of_gguf(count):
    """Each has a number, 8 bytes from the one before."""
    alignment = struct.pack("<Q", 17) + b"general.alignment" + struct.pack("<II", 4, 8)
    head = b"GGUF" + struct.pack("<IQQ", 3, count, 1) + alignment
    for i in range(count):
        name = b"%d" % i
        head += struct.pack("<Q", len(name)) + name + struct.pack("<IQIQ", 1, 1, 0, 8 * i)
    return head + bytes(-len(head) % 8) + b"".join(struct.pack("<fI", i, 0) for i in range(count))


def test_larger_archives_of_other_containers(tool, directory):
    """What is told of tensors does not count what is around them, of which there is more than LMC's own header has."""
    path = in_directory(directory, tiny_tensors_of_gguf(3000), "m.gguf")
    told = tool.run("convert", path)
    check(told.status == 0 and told.stderr.endswith(
        ": it has 3000 tensors of 4 bytes on average; such files are better copied\n"), "told: " + told.stderr)
    tool.round_trip(path, "-q")


def test_larger_archives_without_small_tensors(tool, directory):
    """Noise does not shrink. What grows by less than 4 KiB is not told."""
    rng = random.Random(31)
    for count, is_told in ((3, False), (600, True)):
        content = model([("t%d" % i, "U8", [3000], rng.randbytes(3000)) for i in range(count)])
        path = in_directory(directory, content)
        told = tool.run("convert", path, "-f")
        size = os.path.getsize(path + ".lmc")
        check(told.status == 0 and size > len(content), "exit %d, %d bytes" % (told.status, size))
        wanted = "the archive is larger than its source (%d instead of %d bytes)\n" % (size, len(content))
        check(told.stderr.endswith(wanted) if is_told else told.stderr == "", "told: " + told.stderr)


def test_summary_of_empty_file(tool, directory):
    """There is no ratio."""
    path = in_directory(directory, b"", "empty.bin")
    told = tool.run("convert", "--raw", "-v", path)
    check(told.stderr == "empty.bin: 0 bytes -> %d, 0.00 GiB/s\n" % os.path.getsize(path + ".lmc"), told.stderr)


def test_larger_directories_are_told(tool, directory):
    root = os.path.join(directory, "m")
    os.mkdir(root)
    for i in range(3):
        write(os.path.join(root, "m%d.safetensors" % i), tiny_tensors(1000))
    told = tool.run("convert", root)
    wanted = "lmc-st: %s: the directory of archives is larger than its source (" % root
    check(told.status == 0 and told.stderr.startswith(wanted) and told.stderr.count("\n") == 1, told.stderr)
