"""Odd names, links, directories and permissions; closed and broken standard streams."""
import json
import os
import signal
import stat
import subprocess

import pytest

from support import check, check_only, flip, in_directory, model, read, small_model, write
from users import NOBODY, as_nobody

HOSTILE = "\x1b]0;title\x07\x1b[31m\r\n\tx\x7f\u202e\u2028"


# ---- names of files ----

@pytest.mark.posix("names with control characters")
def test_hostile_file_names(tool, directory):
    """Each message is one line without control characters, for each command and kind of failure."""
    bad = in_directory(directory, b"no safetensors file at all", HOSTILE)
    absent = os.path.join(directory, HOSTILE + "absent")
    good = in_directory(directory, small_model(), HOSTILE + "good")
    for command in ("convert", "verify", "ls"):
        told = tool.run(command, bad).expect(1, "\\u001b").stderr
        check("\u202e" not in told and "\u2028" not in told, "characters that reorder text: %r" % told)
        tool.run(command, absent).expect(3, "\\u001b", "absent")
    tool.run("restore", bad, "-o", good + ".back").expect(1, "\\u001b")
    tool.run("restore", good).expect(2)
    write(good + ".lmc", b"mine")
    tool.run("convert", good).expect(2, "exists already", "\\u001b")
    tool.run("convert", good, "-o", os.path.join(absent, HOSTILE)).expect(3)
    for arguments in ((HOSTILE,), ("--" + HOSTILE,), ("-" + HOSTILE,), ("convert", "-j" + HOSTILE),
                      ("convert", "--level=" + HOSTILE), ("convert", "--level", HOSTILE, good)):
        tool.run(*arguments).expect(2)
    told = tool.run("convert", "-v", good, "-f")
    check(told.status == 0 and told.stderr.count("\n") == 1 and "\x1b" not in told.stderr, "-v: %r" % told.stderr)
    told = tool.run("verify", "-v", good + ".lmc")
    check(told.status == 0 and told.stderr.count("\n") == 1 and "\x1b" not in told.stderr, "-v: %r" % told.stderr)


@pytest.mark.posix("names that are no UTF-8")
def test_file_names_that_are_no_utf8(tool, directory):
    raw = os.path.join(directory.encode(), b"\xff\xfe\x80m.safetensors")
    write(raw, small_model())
    path = os.fsdecode(raw)
    tool.run("convert", path).expect(0)
    tool.run("verify", path + ".lmc").expect(0)
    tool.run("restore", path + ".lmc", "-o", path + "\udcc3").expect(0)
    check(read(raw + b"\xc3") == small_model(), "the bytes differ")
    tool.run("convert", path).expect(2, "\\xff\\xfe\\x80m.safetensors.lmc", "exists already")


@pytest.mark.posix("another limit of paths")
def test_long_file_names(tool, directory):
    """Names up to 255 bytes are fine; what would be longer is refused before any work."""
    for length in (247, 248, 251, 252, 255):
        name = "m" * length
        path = in_directory(directory, small_model(), name)
        result = tool.run("convert", path)
        if length <= 251:
            result.expect(0)
            os.unlink(path)
            tool.run("restore", path + ".lmc").expect(0)
            check(read(path) == small_model(), "the bytes differ")
            os.unlink(path + ".lmc")
        else:
            result.expect(3, "File name too long")
        os.unlink(path)
        check_only(directory)
    path = in_directory(directory, small_model())
    tool.run("convert", path, "-o", os.path.join(directory, "x" * 255)).expect(0)
    tool.run("convert", path, "-o", os.path.join(directory, "x" * 256)).expect(3, "File name too long")
    tool.run("convert", path, "-o", os.path.join(directory, "x/" * 3000 + "x")).expect(3, "File name too long")
    check_only(directory, "m.safetensors", "x" * 255)


def test_long_names_are_refused_before_the_work(tool, directory):
    """Nothing can be written here: had it been tried, that would be the fault reported."""
    path = in_directory(directory, small_model(), "m" * 255)
    tool.run("convert", path, file_size=0).expect(3, "File name too long")
    tool.run("convert", path, "-f", file_size=0).expect(3, "File name too long")
    check_only(directory, "m" * 255)


@pytest.mark.posix("a difference between \"file\" and \"file/\"")
def test_names_that_are_no_files(tool, directory):
    path = in_directory(directory, small_model())
    tool.run("convert", "").expect(3, "No such file")
    tool.run("verify", "").expect(3, "No such file")
    tool.run("convert", path + "/").expect(3, "Not a directory")
    tool.run("convert", path + "/x").expect(3, "Not a directory")
    tool.run("convert", path, "-o", path + "/x").expect(3, "Not a directory")
    tool.run("convert", path, "-o", directory + "/absent/").expect(3)
    tool.run("convert", path, "-f", "-o", directory + "/.").expect(2, "directory")
    check_only(directory, "m.safetensors")


def test_relative_paths(tool, directory):
    place = os.path.join(directory, "place")
    os.mkdir(place)
    in_directory(directory, small_model())
    tool.run("convert", "../m.safetensors", "-o", "x", cwd=place).expect(0)
    tool.run("convert", "../m.safetensors", "-o", ".//y", cwd=place).expect(0)
    tool.run("convert", "m.safetensors", cwd=directory).expect(0)
    tool.run("convert", "place/../m.safetensors", "-o", "place/z", cwd=directory).expect(0)
    check_only(place, "x", "y", "z")
    check(read(os.path.join(place, "x")) == read(os.path.join(directory, "m.safetensors.lmc")), "the archives differ")
    os.unlink(os.path.join(directory, "m.safetensors"))
    tool.run("restore", "../m.safetensors.lmc", cwd=place).expect(0)
    check(read(os.path.join(directory, "m.safetensors")) == small_model(), "the bytes differ")


@pytest.mark.posix("a working directory that was removed")
def test_removed_working_directory(tool, directory):
    place = os.path.join(directory, "place")
    path = in_directory(directory, small_model())
    os.mkdir(place)
    command = 'cd "$1" && rmdir "$1" && exec "$2" convert "$3" -o x'
    ended = subprocess.run(["sh", "-c", command, "sh", place, tool.path, path], stderr=subprocess.PIPE, check=False)
    check(ended.returncode == 3 and ended.stderr.startswith(b"lmc-st: x: "), "exit %d: %s" % (
        ended.returncode, ended.stderr))
    check_only(directory, "m.safetensors")


# ---- names of tensors ----

def test_tensor_names_in_messages(tool, directory):
    """A damaged tensor is named in one short line, whatever its name is."""
    for name in ("\x1b[31mred\r\n", "x" * 10240, "\u202eabc", "\x00", "\u00e4" * 5000, '"\\', ""):
        path = in_directory(directory, model([(name, "U8", [3], b"abc")]))
        tool.run("convert", path, "-f").expect(0)
        flip(path + ".lmc", -1)
        result = tool.run("verify", path + ".lmc").expect(1, 'tensor "')
        check(result.stderr.count("\n") == 1 and len(result.stderr.encode()) < 1000, "message: %r" % result.stderr)
        listed = tool.run("ls", path).expect(0).stdout
        check(listed.count("\n") == 3 and all(ord(c) >= 32 and ord(c) != 127 for c in listed.replace("\n", "")),
              "ls: %r" % listed)
        check(max(len(line) for line in listed.splitlines()) < 200, "ls is too wide")
        told = json.loads(tool.run("ls", "--json", path).expect(0).stdout)
        check(told[0]["name"] == name, "ls --json: %r" % told)


# ---- links ----

@pytest.mark.posix("links")
def test_links_to_links(tool, directory):
    content = small_model()
    place = os.path.join(directory, "place")
    os.mkdir(place)
    path = in_directory(place, content)
    os.symlink("place/m.safetensors", os.path.join(directory, "one"))
    os.symlink("one", os.path.join(directory, "two"))
    two = os.path.join(directory, "two")
    tool.run("convert", two).expect(0)
    check(not os.path.islink(two + ".lmc") and os.path.isfile(two + ".lmc"), "the archive stands beside the link")
    tool.run("verify", "-q", two + ".lmc", two).expect(0)
    tool.run("restore", two + ".lmc").expect(2, "exists already")
    tool.run("restore", two + ".lmc", "-f").expect(0)
    check(not os.path.islink(two) and read(two) == content, "the link is replaced by the file")
    check(read(path) == content and os.path.islink(os.path.join(directory, "one")), "what it led to stays")


@pytest.mark.posix("links")
def test_links_in_a_circle(tool, directory):
    one, two = os.path.join(directory, "one"), os.path.join(directory, "two")
    os.symlink("two", one)
    os.symlink("one", two)
    path = in_directory(directory, small_model())
    tool.run("convert", one).expect(3, "Too many levels")
    tool.run("convert", path, "-o", one).expect(2, "exists already")
    tool.run("convert", path, "-o", os.path.join(one, "x")).expect(3, "Too many levels")
    check_only(directory, "one", "two", "m.safetensors")


def test_hard_linked_output_is_parted(tool, directory):
    """-f replaces the name; the other names of the old file keep the old content."""
    path = in_directory(directory, small_model())
    write(path + ".lmc", b"mine")
    os.link(path + ".lmc", os.path.join(directory, "other"))
    tool.run("convert", path, "-f").expect(0)
    check(read(os.path.join(directory, "other")) == b"mine", "the other name's content was changed")
    check(os.stat(path + ".lmc").st_nlink == 1, "the new file has several names")


def test_link_to_output_directory(tool, directory):
    place = os.path.join(directory, "place")
    os.mkdir(place)
    os.symlink("place", os.path.join(directory, "way"))
    path = in_directory(directory, small_model())
    tool.run("convert", path, "-o", os.path.join(directory, "way", "x")).expect(0)
    tool.run("convert", path, "-f", "-o", os.path.join(directory, "way")).expect(2, "directory")
    check_only(place, "x")


# ---- permissions ----

def test_unreadable_input(tool, directory):
    user = as_nobody(tool, directory)
    path = in_directory(directory, small_model())
    tool.run("convert", path).expect(0)
    for name in (path, path + ".lmc"):
        os.chmod(name, 0)
    os.chmod(directory, 0o777)
    for arguments in (("convert", path), ("verify", path), ("ls", path), ("restore", path + ".lmc"),
                      ("verify", path + ".lmc")):
        tool.run(*arguments, **user).expect(3, "cannot open", "Permission denied")


def test_sticky_directory(tool, directory):
    """There, another user's file can not be replaced: the old content stays, nothing else does."""
    user = as_nobody(tool, directory)
    if not user:
        pytest.skip("needs root, for files of two users")
    os.chmod(directory, 0o1777)
    path = in_directory(directory, small_model())
    os.chmod(path, 0o644)
    write(path + ".lmc", b"mine")
    tool.run("convert", path, "-f", **user).expect(3, "not permitted", "m.safetensors.lmc")
    check(read(path + ".lmc") == b"mine", "the output was changed")
    check_only(directory, "m.safetensors", "m.safetensors.lmc")
    tool.run("convert", path, "-o", path + ".other", **user).expect(0)
    check(os.stat(path + ".other").st_uid == NOBODY, "the owner")


@pytest.mark.posix("modes of files")
def test_modes_of_outputs(tool, directory):
    """Never wider than the input's, never set-user-ID, not even while it grows."""
    for mode in (0o600, 0o400, 0o444, 0o640, 0o755, 0o4755, 0o2755, 0o1644):
        path = in_directory(directory, small_model())
        os.chmod(path, mode)
        tool.run("convert", path).expect(0)
        found = stat.S_IMODE(os.stat(path + ".lmc").st_mode)
        check(found == mode & 0o777, "mode %o became %o" % (mode, found))
        os.unlink(path + ".lmc")
        os.unlink(path)


# ---- standard streams ----

def with_closed(tool, closed, *arguments):
    """Runs the tool without these standard streams; returns the exit status."""
    redirections = " ".join("%d>&-" % number for number in closed)
    others = " ".join("%d>/dev/null" % number for number in (1, 2) if number not in closed)
    return subprocess.run(["sh", "-c", 'exec "$@" %s %s' % (others, redirections), "sh", tool.path, *arguments],
                          check=False).returncode


@pytest.mark.posix("closed standard streams")
def test_closed_streams(tool, directory):
    """Files that are opened must not take the place of a standard stream: nothing printed gets into them."""
    path = in_directory(directory, small_model())
    tool.run("convert", path).expect(0)
    archive = read(path + ".lmc")
    for closed in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        for options in ((), ("-v",), ("-j2", "-q")):
            check(with_closed(tool, closed, "convert", path, "-f", *options) == 0, "convert without %s" % (closed,))
            check(read(path + ".lmc") == archive, "the archive, without %s" % (closed,))
            os.unlink(path)
            check(with_closed(tool, closed, "restore", path + ".lmc", *options) == 0, "restore without %s" % (closed,))
            check(read(path) == small_model(), "the restored file, without %s" % (closed,))
        check(with_closed(tool, closed, "verify", "-v", path + ".lmc", path) == 0, "verify without %s" % (closed,))
        check(with_closed(tool, closed, "convert", path) == 2, "exit status without %s" % (closed,))
        status = with_closed(tool, closed, "ls", path)
        check(status == (3 if 1 in closed else 0), "ls without %s: exit %d" % (closed, status))
    check(read(path) == small_model() and read(path + ".lmc") == archive, "the files were changed")
    check_only(directory, "m.safetensors", "m.safetensors.lmc")


@pytest.mark.posix("signals")
def test_broken_pipe(tool, directory):
    """Nobody reads: ended by SIGPIPE without a line; with the signal ignored, exit 3 and one line."""
    path = in_directory(directory, model([("t%05d" % i, "U8", [1], b"x") for i in range(4000)]))
    tool.run("convert", path, "-q").expect(0)
    for arguments in (["ls", path], ["ls", "--json", path], ["info", path, "--json"], ["get", path, "t00000"],
                      ["diff", path, path + ".lmc"], ["bench", path, "--json"], ["doctor"], ["--help"],
                      ["--version"]):
        for is_ignored in (True,) if arguments[0] == "bench" else (False, True):  # bench takes seconds
            reader, writer = os.pipe()
            os.close(reader)
            before = signal.signal(signal.SIGPIPE, signal.SIG_IGN if is_ignored else signal.SIG_DFL)
            found = subprocess.run([tool.path, *arguments], stdout=writer, stderr=subprocess.PIPE, check=False,
                                   restore_signals=False)
            signal.signal(signal.SIGPIPE, before)
            os.close(writer)
            status, message = found.returncode, found.stderr.decode()
            what = "%s: exit %d: %r" % (arguments, status, message)
            if is_ignored:
                check(status == 3 and message.count("\n") == 1 and "Broken pipe" in message, what)
            else:
                check(status == -signal.SIGPIPE and message == "", what)


def test_reader_takes_the_first_line(tool, directory):
    """`set -o pipefail; lmc-st ls X | head -n 1` is ended as with any other program, and says nothing."""
    path = in_directory(directory, model([("t%05d" % i, "U8", [1], b"x") for i in range(40000)]))
    found = subprocess.run(["bash", "-c", 'set -o pipefail; "$0" ls "$1" | head -n 1; echo "${PIPESTATUS[0]}"',
                            tool.path, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    lines = found.stdout.decode().splitlines()
    check(lines[-1] == "141" and found.stderr == b"", "status %s: %s" % (lines[-1], found.stderr.decode()))
