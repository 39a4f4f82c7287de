"""Where a base is looked for, and what is said when it is not there, is another file, or was changed."""
import os
import re
import shutil
import socket
import subprocess

import pytest

from bases import (archived_pair, check_restores, convert, first_snapshot, info, make_chain, modes, next_snapshot,
                   of_chain, pair, write_model)
from support import check, check_only, model, read, write
from trees import Untouched

HASH = r"\b[0-9a-f]{16}\b"


def hash_of(tool, archive):
    return info(tool, archive)["base"]["hash"]


def refuse(tool, directory, archive, name, *options, status=1):
    """Every command that needs the base says which file it wants, and writes nothing."""
    wanted = [name] if status != 1 else [name, hash_of(tool, archive), os.path.basename(archive)]
    with Untouched(directory):
        for command in (["restore", archive], ["restore", archive, "-c"], ["verify", archive], ["cat", archive],
                        ["-t", archive], ["get", archive, "embed"], ["get", archive, "embed[3]"]):
            result = tool.run(*command, *options).expect(status, *wanted)
            check(command[-1] == "-c" or command[0] == "cat" or result.stdout == "", "output beside a fault")
    return result


def moved(directory, path, *folders):
    """Moves a file to a folder of the directory; returns the folder."""
    folder = os.path.join(directory, *folders)
    os.makedirs(folder, exist_ok=True)
    shutil.move(path, os.path.join(folder, os.path.basename(path)))
    return folder


# ---- where it is ----

def test_beside_the_archive(tool, directory):
    """As a plain file, or as an archive; from any working directory."""
    old, new, archive = archived_pair(tool, directory)
    content = read(new)
    os.unlink(new)
    check_restores(tool, archive, content)
    for here, path in ((directory, "new.safetensors.lmc"), ("/", archive), (directory, "./new.safetensors.lmc")):
        check(tool.run("cat", path, cwd=here).expect(0).output == content, "from " + here)
    tool.run("convert", old, "--rm").expect(0)
    check_restores(tool, archive, content)
    check(info(tool, archive)["base"]["file"] == old + ".lmc", "info")
    tool.run("restore", archive).expect(0)
    check_only(directory, "new.safetensors", "new.safetensors.lmc", "old.safetensors.lmc")


@pytest.mark.posix("paths of descriptors")
def test_file_without_a_name(tool, directory):
    """One that was removed, or is in memory: nothing belongs to it, neither other descriptors nor other processes."""
    _, _, archive = archived_pair(tool, directory)
    with open(archive, "rb") as file:
        os.unlink(archive)
        path = "/dev/fd/%d" % file.fileno()
        done = subprocess.run([tool.path, "verify", path], capture_output=True, pass_fds=[file.fileno()], check=False)
    check(done.returncode == 1 and done.stderr.endswith(b", which was not found\n"), done.stderr)


def test_given_by_name(tool, directory):
    """--base takes a file of any name, plain or archive; --base-dir folders, in their order."""
    old, new, archive = archived_pair(tool, directory)
    content = read(new)
    tool.run("convert", old, "-o", os.path.join(directory, "anything")).expect(0)
    plain = moved(directory, old, "plain")
    packed = os.path.join(directory, "packed")
    os.mkdir(packed)
    shutil.copy(os.path.join(directory, "anything"), os.path.join(packed, "old.safetensors.lmc"))
    os.rename(new, new + ".away")
    check_restores(tool, archive, content, "--base", os.path.join(plain, "old.safetensors"))
    check_restores(tool, archive, content, "--base=" + os.path.join(directory, "anything"))
    for folders in ([plain], [packed], [directory, plain], [packed, plain], ["/absent", packed]):
        options = [part for folder in folders for part in ("--base-dir", folder)]
        check_restores(tool, archive, content, *options)
        facts = info(tool, archive, *options)["base"]
        expected = next(folder for folder in folders if folder in (plain, packed))
        check(os.path.dirname(facts["file"]) == expected, "found %s" % facts)
        got = tool.run("get", archive, "embed[5:9]", *options).expect(0).output
        check(len(got) == 8, "get")
    refuse(tool, directory, archive, "old.safetensors")


def test_same_name_as_the_input(tool, directory):
    """run1/m.safetensors against run0/m.safetensors: neither the archive nor its own original is taken for the
    base, and once the base is named, all is well."""
    tensors = first_snapshot()
    for name in ("run0", "run1"):
        os.mkdir(os.path.join(directory, name))
    old = write_model(os.path.join(directory, "run0"), "m.safetensors", tensors)
    new = write_model(os.path.join(directory, "run1"), "m.safetensors", next_snapshot(tensors, 2))
    archive = convert(tool, new, old)
    content = read(new)
    run0 = os.path.dirname(old)
    for is_there in (True, False):
        check_restores(tool, archive, content, "--base", old)
        check_restores(tool, archive, content, "--base-dir", run0)
        with Untouched(directory):
            tool.run("verify", archive).expect(1, "m.safetensors", hash_of(tool, archive))
            tool.run("cat", archive).expect(1, "m.safetensors", hash_of(tool, archive))
        if is_there:
            os.unlink(new)
    tool.run("restore", archive, "--base", old).expect(0)
    check(read(new) == content, "restored otherwise")


def test_beside_the_base_of_a_chain(tool, directory):
    """The base's base is looked for beside the base, or in --base-dir."""
    contents = make_chain(tool, directory, 3)
    folders = [moved(directory, of_chain(directory, i), "f%d" % i) for i in range(4)]
    last = os.path.join(folders[3], "s3.safetensors.lmc")
    refuse(tool, directory, last, "s2.safetensors")
    every = [part for folder in folders for part in ("--base-dir", folder)]
    check_restores(tool, last, contents[3], *every)
    first = os.path.join(folders[2], "s2.safetensors.lmc")
    check_restores(tool, last, contents[3], "--base", first, "--base-dir", folders[1], "--base-dir", folders[0])
    shutil.move(os.path.join(folders[1], "s1.safetensors.lmc"), folders[2])
    shutil.move(os.path.join(folders[0], "s0.safetensors.lmc"), folders[2])
    check_restores(tool, last, contents[3], "--base", first)


def test_chain_for_convert(tool, directory):
    """The base of an archive that serves as a base is found by --base-dir, too."""
    make_chain(tool, directory, 1)
    folder = moved(directory, of_chain(directory, 0), "away")
    new = write_model(directory, "new.safetensors", next_snapshot(first_snapshot(), 9))
    with Untouched(directory):
        tool.run("convert", new, "--base", of_chain(directory, 1)).expect(1, "s0.safetensors")
    convert(tool, new, of_chain(directory, 1), "--base-dir", folder)
    check_restores(tool, new + ".lmc", read(new), "--base-dir", folder)


def test_standard_streams(tool, directory):
    """An archive that comes as a stream has no directory of its own: its base must be named."""
    old, new, archive = archived_pair(tool, directory)

    def pipe(path, *arguments):
        with open(path, "rb") as file:
            data = file.read()
        done = subprocess.run([tool.path, *arguments], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              check=False, cwd=directory)
        return done.returncode, done.stdout, done.stderr.decode()

    for options in (["--base", old], ["--base-dir", directory]):
        for command in (["restore", "-"], ["cat", "-"]):
            status, made, message = pipe(archive, *command, *options)
            check(status == 0 and made == read(new), "%s: exit %d: %s" % (command, status, message))
        check(pipe(archive, "verify", "-", *options)[0] == 0, "verify -")
    status, _, message = pipe(archive, "verify", "-")
    check(status == 1 and "old.safetensors" in message and re.search(HASH, message), "exit %d: %s" % (status, message))
    status, made, message = pipe(new, "convert", "-", "--base", old)
    check(status == 0 and made == read(archive), "convert -: exit %d: %s" % (status, message))
    piped = tool.run("convert", new, "-c", "--base", old).expect(0).output
    check(piped == read(archive), "convert -c")
    for command in ("convert", "restore", "cat", "verify"):
        status, _, message = pipe(archive, command, "-", "--base", directory)
        check(status == 2 and "directory" in message, "%s: exit %d: %s" % (command, status, message))
    with Untouched(directory):
        tool.run("convert", new, "--base", "-", "-c").expect(2, "standard input")


# ---- what is wrong with it ----

def test_missing(tool, directory):
    """The message has the archive, the file and its hash. What needs no base works all the same."""
    old, new, archive = archived_pair(tool, directory)
    listed = modes(tool, archive)
    os.unlink(old)
    refuse(tool, directory, archive, "old.safetensors")
    check(modes(tool, archive) == listed, "ls needs no base")
    facts = info(tool, archive)["base"]
    check(facts["name"] == "old.safetensors" and facts["file"] is None and facts["base"] is None, "info: %s" % facts)
    check(re.fullmatch(HASH, facts["hash"]), "hash: %s" % facts)
    text = tool.run("info", archive).expect(0).stdout
    check("old.safetensors" in text and facts["hash"] in text and "not found" in text, text)
    for name, mode in listed.items():
        result = tool.run("get", archive, name)
        check(result.status == (1 if mode == "delta" else 0), "get %s (%s): exit %d" % (name, mode, result.status))
    tool.run("diff", archive, archive).expect(0)


def test_another_snapshot_as_base(tool, directory):
    """Same header, other values: one tensor is named, the others are counted; salvage names them all."""
    old, new, archive = archived_pair(tool, directory)
    write_model(directory, "old.safetensors", next_snapshot(first_snapshot(), 99))
    wanted = hash_of(tool, archive)
    count = list(modes(tool, archive).values()).count("delta")
    with Untouched(directory):
        for options in ([], ["-j1"], ["--base", old]):
            told = tool.run("verify", archive, *options).expect(1, "old.safetensors", wanted, "not decoded").stderr
            check(told.count("\n") == 2 and "%d more tensors" % (count - 1) in told, told)
        tool.run("get", archive, "embed").expect(1, "old.safetensors", wanted)
    os.unlink(new)
    told = tool.run("restore", archive).expect(1, "old.safetensors", wanted).stderr
    check(told.count("\n") == 1 and not os.path.exists(new), told)
    told = tool.run("restore", "--salvage", archive).expect(1, "old.safetensors", wanted).stderr
    check(told.count("\n") == count, told)


def test_another_shape(tool, directory):
    """A file of the right name with other shapes, another dtype or name, no tensors, or no safetensors file at all."""
    old, new, archive = archived_pair(tool, directory)
    tensors = first_snapshot()
    others = [model([(n, d, [1, *s], c) for n, d, s, c in tensors]), model(tensors[:-3]), model([]), b"", b"hello",
              model([("embed", "I16", [3000], tensors[0][3])] + tensors[1:]), read(old).replace(b'"embed"', b'"dmbed"'),
              read(new)[:-1]]
    for content in others:
        write(old, content)
        refuse(tool, directory, archive, "old.safetensors")
        result = tool.run("restore", archive, "--base", old, "-c").expect(1, hash_of(tool, archive))
        check("old.safetensors" in result.stderr, result.stderr)


def test_not_a_file(tool, directory):
    """A pipe, a socket, a device, a directory: nobody waits for it, and it is no base."""
    old, new, archive = archived_pair(tool, directory)
    os.unlink(old)
    for make in (os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path),
                 lambda path: os.symlink("absent", path), lambda path: socket.socket(socket.AF_UNIX).bind(path)):
        make(old)
        result = tool.run("restore", archive, "-c").expect(1, "old.safetensors", hash_of(tool, archive))
        named = tool.run("restore", archive, "-c", "--base", old)
        check(named.status in (2, 3) and "old.safetensors" in named.stderr, "--base: exit %d: %s" % (
            named.status, named.stderr))
        result = tool.run("convert", new, "-c", "--base", old)
        check(result.status == named.status, "convert: exit %d: %s" % (result.status, result.stderr))
        (os.rmdir if os.path.isdir(old) else os.unlink)(old)


def test_missing_in_the_midst_of_a_chain(tool, directory):
    contents = make_chain(tool, directory, 4)
    last = of_chain(directory, 4)
    os.rename(of_chain(directory, 1), os.path.join(directory, "away"))
    result = tool.run("verify", last).expect(1, "s1.safetensors", "s2.safetensors.lmc")
    check(hash_of(tool, of_chain(directory, 2)) in result.stderr, result.stderr)
    facts = info(tool, last)["base"]
    check(facts["base"]["base"]["file"] is None and facts["base"]["name"] == "s2.safetensors", "info: %s" % facts)
    os.rename(os.path.join(directory, "away"), of_chain(directory, 1))
    check_restores(tool, last, contents[4])


def test_named_base_does_not_exist(tool, directory):
    """What is named must be there, even if another one would do."""
    old, new, archive = archived_pair(tool, directory)
    with Untouched(directory):
        for command in (["convert", new, "-o", new + ".x"], ["restore", archive, "-c"], ["verify", archive],
                        ["cat", archive], ["get", archive, "embed"], ["info", archive], ["diff", archive, new],
                        ["bench", new], ["-t", archive]):
            tool.run(*command, "--base", os.path.join(directory, "absent")).expect(3, "absent")
            tool.run(*command, "--base", "").expect(2, "--base")
            tool.run(*command, "--base-dir", "").expect(2, "--base-dir")
            tool.run(*command, "--base").expect(2, "--base")
        tool.run("convert", new, "-o", new + ".x", "--base-dir", directory).expect(2, "--base-dir")
        tool.run("ls", archive, "--base", old).expect(2, "--base")


def test_base_of_a_file_without_one(tool, directory):
    """--base does no harm to archives that need none, and to plain files."""
    old, new = pair(directory)
    tool.run("convert", new).expect(0)
    for command in (["verify", "-q", new, new + ".lmc"], ["cat", new], ["get", new, "embed"], ["info", new],
                    ["restore", new + ".lmc", "-c"], ["diff", new, new + ".lmc"]):
        tool.run(*command, "--base", old, "--base-dir", directory).expect(0)
