"""What may not be done to the files of a run or a store by commands that write or remove others."""
import os

import pytest

from runs import added, checkpoints, snapshots
from stores import llm, tuned, write_directory, write_file
from support import check, check_only, in_directory, read, small_model
from trees import Untouched, small_tree


def kept_of(tool, directory):
    """A run of directories, one of files, and a store, each with what is based on something else; and their paths."""
    run = added(tool, directory, checkpoints, 2)[0]
    files = os.path.join(directory, "files")
    tool.run("run", "add", files, *snapshots(os.path.join(directory, "made"), 2).values()).expect(0)
    store = os.path.join(directory, "store")
    tool.run("store", "add", store, write_directory(directory, "m", llm()),
             write_file(directory, "m.safetensors", tuned(llm()))).expect(0)
    return run, files, store


def test_not_replaced(tool, directory):
    run, files, store = kept_of(tool, directory)
    tree = small_tree(os.path.join(directory, "tree"))
    tool.run("convert", tree).expect(0)
    with Untouched(directory):
        for kept, kind in ((run, "is a run"), (files, "is a run"), (store, "is a store")):
            for command, path in (("convert", tree), ("restore", tree + ".lmc"), ("restore", files)):
                tool.run(command, path, "-o", kept).expect(2, "exists" if path != kept else "same directory")
                tool.run(command, path, "-o", kept, "-f").expect(2, kind)
        tool.run("run", "restore", run, "100", "-o", store, "-f").expect(2, "is a store")
        tool.run("store", "restore", store, "m", "-o", run, "-f").expect(2, "is a run")
    in_directory(tree, b"of another program", "run.json")
    with Untouched(directory):  # whatever the input has
        tool.run("convert", tree, "-o", run, "-f").expect(2, "is a run")
    for command, path in (("convert", tree), ("restore", tree + ".lmc")):
        tool.run(command, path, "-f").expect(0)
        tool.run(command, path, "-f").expect(0)


def test_not_replaced_within(tool, directory):
    run, files, store = kept_of(tool, directory)
    other = added(tool, os.path.join(directory, "other"), checkpoints, 1)[0]
    link = os.path.join(directory, "link")
    os.symlink(run, link)
    tree = small_tree(os.path.join(directory, "tree"))
    file = in_directory(directory, small_model(1))
    tool.run("convert", file).expect(0)
    with Untouched(directory):
        for target in (os.path.join(run, "100"), os.path.join(link, "200"), os.path.join(store, "m.lmc")):
            tool.run("convert", tree, "-o", target, "-f").expect(2, "is in the ", "no output replaces")
            tool.run("run", "restore", other, "100", "-o", target, "-f").expect(2, "is in the ")
        for target in (os.path.join(run, "100", "model.safetensors.lmc"), os.path.join(run, "run.json"),
                       os.path.join(files, "10", "step10.safetensors.lmc"), os.path.join(store, "index.sqlite")):
            tool.run("convert", file, "-o", target, "-f").expect(2, "is in the ")
            tool.run("restore", file + ".lmc", "-o", target, "-f").expect(2, "is in the ")
            tool.run("get", file, "embed", "-o", target, "-f").expect(2, "is in the ")


def test_not_replaced_around(tool, directory):
    """A directory that holds one, at any depth."""
    outer = os.path.join(directory, "outer")
    inner = os.path.join(outer, "a", "b")
    os.makedirs(inner)
    kept_of(tool, inner)
    tree = small_tree(os.path.join(directory, "tree"))
    tool.run("convert", tree).expect(0)
    with Untouched(directory):
        tool.run("convert", tree, "-o", outer, "-f").expect(2, "holds the ", "no output replaces")
        tool.run("restore", tree + ".lmc", "-o", outer, "-f").expect(2, "holds the ", "no output replaces")


def test_a_long_list(tool, directory):
    """What else is in a list may come before what tells that it is one."""
    run = kept_of(tool, directory)[0]
    path = os.path.join(run, "run.json")
    sound = read(path)
    tree = small_tree(os.path.join(directory, "tree"))
    for fill in (4080, 4085, 4090, 4095, 70000):
        in_directory(run, b'{"note":"%s",' % (b"x" * fill) + sound[1:], "run.json")
        tool.run("run", "verify", run).expect(0)
        with Untouched(directory):
            tool.run("convert", tree, "-o", run, "-f").expect(2, "is a run")


def test_links_to_archives(tool, directory):
    """A link is where its name is, whatever it leads to."""
    files = kept_of(tool, directory)[1]
    archive = os.path.join(files, "10", "step10.safetensors.lmc")
    elsewhere, link = os.path.join(directory, "elsewhere.lmc"), os.path.join(directory, "link.lmc")
    os.rename(archive, elsewhere)
    os.symlink(elsewhere, archive)
    os.symlink(archive, link)
    file = in_directory(directory, small_model(1))
    with Untouched(directory):
        tool.run("convert", file, "-o", archive, "-f").expect(2, "is in the run")
        tool.run("run", "get", files, "20", "layers.0", "-o", archive, "-f").expect(2, "would be in a run")
        tool.run("restore", "--rm", archive, "-o", os.path.join(directory, "out")).expect(2, "run drop")
    tool.run("convert", file, "-o", link, "-f").expect(0)
    check(not os.path.islink(link), "the link was followed")
    tool.run("run", "verify", files).expect(0)


def test_a_converted_run(tool, directory):
    """A converted directory is no run, though it has the list of one."""
    run = kept_of(tool, directory)[0]
    in_directory(run, small_model(1), "m.safetensors")
    tool.run("convert", "-q", run).expect(0)
    tool.run("convert", "-q", run, "-f").expect(0)
    os.rename(run, run + ".old")
    tool.run("restore", "--rm", run + ".lmc").expect(0)
    check(not os.path.exists(run + ".lmc"), "the converted directory stayed")
    tool.run("run", "verify", run).expect(0)


@pytest.mark.posix("names with control characters")
def test_names_in_messages(tool, directory):
    outer = os.path.join(directory, "a\nb\x1b[31m")
    os.mkdir(outer)
    run, file = kept_of(tool, outer)[0], in_directory(directory, small_model(1))
    for arguments in (("convert", file, "-o", os.path.join(run, "run.json"), "-f"),
                      ("store", "add", os.path.join(run, "s"), file)):
        got = tool.run(*arguments).expect(2, "a\\nb\\u001b[31m")
        check(got.stderr.count("\n") == 1 and "\x1b" not in got.stderr, got.stderr)


def test_files_of_other_programs(tool, directory):
    """Files of these names make no run and no store, wherever they are."""
    outer = os.path.join(directory, "outer")
    os.mkdir(outer)
    in_directory(outer, b'{"project":"x"}', "run.json")
    in_directory(outer, b'{"format":"of something else"}', "store.json")
    os.mkdir(os.path.join(outer, "out"))
    run = added(tool, outer, checkpoints, 1)[0]
    file = in_directory(outer, small_model(1))
    tree = small_tree(os.path.join(outer, "tree"))
    for name in ("run.json", "store.json"):
        in_directory(tree, b"{}", name)
    for source in (file, tree):
        tool.run("convert", source, "--rm").expect(0)
        tool.run("restore", source + ".lmc").expect(0)
        tool.run("convert", source, "-f").expect(0)
        tool.run("restore", source + ".lmc", "--rm", "-f").expect(0)
    names = tool.run("run", "get", run, "100", "no such", "-o", os.path.join(outer, "out", "t")).expect(2)
    check("would be" not in names.stderr, names.stderr)
    tool.run("store", "add", os.path.join(outer, "store"), file).expect(0)


def test_to_standard_output(tool, directory):
    """It is in no run, wherever the command runs."""
    run, files, store = kept_of(tool, directory)
    for output in ("-", "/dev/stdout"):
        one = tool.run("run", "get", ".", "10", "embed", "-o", output, cwd=files).expect(0)
        two = tool.run("store", "get", ".", "m", "embed.weight", "-o", output, cwd=store).expect(0)
        check(len(one.output) > 100 and len(two.output) > 100, "no bytes")


def test_not_removed(tool, directory):
    run, files, store = kept_of(tool, directory)
    link = os.path.join(directory, "link")
    os.symlink(run, link)
    out = os.path.join(directory, "out")
    with Untouched(directory):
        for path in (run, files, store, os.path.join(run, "100"), os.path.join(link, "200") + "/",
                     os.path.join(store, "m.lmc"), os.path.join(run, "100", "model.safetensors.lmc"),
                     os.path.join(files, "10", "step10.safetensors.lmc"),
                     os.path.join(store, "m.safetensors.lmc", "m.safetensors.lmc")):
            tool.run("restore", "--rm", path, "-o", out).expect(2, "run drop", "store drop")
        tool.run("restore", "--rm", "100", "-o", out, cwd=run).expect(2, "run drop")


def test_nothing_written_into_them(tool, directory):
    run, files, store = kept_of(tool, directory)
    link = os.path.join(directory, "link")
    os.symlink(run, link)
    with Untouched(directory):
        for output in (os.path.join(run, "run.json"), os.path.join(run, "100", "new"), os.path.join(link, "200", "new"),
                       os.path.join(store, "index.sqlite"), os.path.join(store, "new"),
                       os.path.join(run, "100", "model.safetensors.lmc")):
            tool.run("run", "get", files, "10", "layers.0", "-o", output, "-f").expect(2, "would be in a run or store")
            tool.run("store", "get", store, "m", "embed.weight", "-o", output, "-f").expect(2, "would be in a run or")
    tool.run("store", "get", store, "m", "embed.weight", "-o", os.path.join(directory, "w")).expect(0)


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_output_into_a_directory(tool, directory, kind):
    """A slash at its end says so; what is in the directory stays."""
    source = in_directory(directory, small_model(1)) if kind == "file" else small_tree(os.path.join(directory, "m"))
    name = os.path.basename(source)
    out = os.path.join(directory, "out")
    os.mkdir(out)
    in_directory(out, b"kept", "other")
    for options in ((), ("-f",)):
        tool.run("convert", source, "-o", out + "/", *options).expect(0)
        check_only(out, "other", name + ".lmc")
    tool.run("convert", source, "-o", out + "/").expect(2, "exists")
    os.rename(source, source + ".old")
    tool.run("restore", os.path.join(out, name + ".lmc"), "-o", directory + "/").expect(0)
    if kind == "file":
        check(read(source) == read(source + ".old"), "the bytes differ")
    check_only(out, "other", name + ".lmc")
