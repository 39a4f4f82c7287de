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
        for options in ((), ("-f",)):
            for kept, kind in ((run, "is a run"), (files, "is a run"), (store, "is a store")):
                tool.run("convert", tree, "-o", kept, *options).expect(2, kind)
                tool.run("restore", tree + ".lmc", "-o", kept, *options).expect(2, kind)
            tool.run("run", "restore", run, "100", "-o", store, *options).expect(2, "is a store")
            tool.run("store", "restore", store, "m", "-o", run, *options).expect(2, "is a run")
    in_directory(tree, b"of another program", "run.json")
    for command, path in (("convert", tree), ("restore", tree + ".lmc")):
        tool.run(command, path, "-f").expect(0)
        tool.run(command, path, "-f").expect(0)


def test_not_removed(tool, directory):
    run, files, store = kept_of(tool, directory)
    link = os.path.join(directory, "link")
    os.symlink(run, link)
    out = os.path.join(directory, "out")
    with Untouched(directory):
        for path in (os.path.join(run, "100"), os.path.join(link, "200") + "/", os.path.join(store, "m.lmc"),
                     os.path.join(run, "100", "model.safetensors.lmc"),
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
