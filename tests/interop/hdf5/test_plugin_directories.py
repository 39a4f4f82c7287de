"""Where the plugin is, and what lies beside it."""
import os
import shutil

import pytest

from world import BEDS, check, need_command


def folder(directory, name, *plugins):
    path = os.path.join(directory, name)
    os.mkdir(path)
    for plugin in plugins:
        shutil.copy(plugin, path)
    return path


def write_and_read(world, bed, directory, plugin_path, **options):
    path = os.path.join(directory, "file.h5")
    world.program(bed, "one_file", "write", path, "1", HDF5_PLUGIN_PATH=plugin_path, **options)
    world.program(bed, "one_file", "read", path, "1", HDF5_PLUGIN_PATH=plugin_path, **options)


@pytest.mark.parametrize("bed", BEDS)
def test_later_directory(world, directory, bed):
    """Behind an empty directory, and one with files that are no plugins; and before them."""
    good = folder(directory, "good", world.plugin)
    empty = folder(directory, "empty")
    others = folder(directory, "others")
    for name in ("README", "libnothing.txt", "libtext.so"):
        with open(os.path.join(others, name), "w") as file:
            file.write("not a library\n")
    write_and_read(world, bed, directory, ":".join((empty, others, good)))
    write_and_read(world, bed, directory, ":".join((good, others, empty)))


@pytest.mark.parametrize("bed", BEDS)
def test_beside_plugins_of_hdf5plugin(world, directory, bed):
    """HDF5 asks every plugin of a directory for its number until it has found one, ours among them."""
    others = os.path.join(world.package("200", "hdf5plugin"), "plugins")
    own = os.path.dirname(world.plugin)
    write_and_read(world, bed, directory, own + ":" + others)
    write_and_read(world, bed, directory, others + ":" + own)


def test_tools_beside_plugins_of_hdf5plugin(world, directory):
    """One directory with all; h5repack with LMC and zstd (32015), each and both."""
    need_command("h5repack", "hdf5-tools")
    all_plugins = folder(directory, "all", world.plugin)
    others = os.path.join(world.package("200", "hdf5plugin"), "plugins")
    for name in os.listdir(others):
        os.symlink(os.path.join(others, name), os.path.join(all_plugins, name))
    plain, packed = (os.path.join(directory, name) for name in ("plain.h5", "packed.h5"))
    world.program("110", "one_file", "write", plain, "1", HDF5_PLUGIN_PATH=all_plugins)
    for filters in (["UD=32015,0,0"], ["UD=59810,0,0"], ["UD=59810,0,0", "UD=32015,0,0"],
                    ["UD=32015,0,0", "UD=59810,0,0"]):
        options = [word for one in filters for word in ("-f", one)]
        world.run("h5repack", *options, plain, packed, HDF5_PLUGIN_PATH=all_plugins).expect(0)
        world.run("h5diff", plain, packed, HDF5_PLUGIN_PATH=all_plugins).expect(0)
        shown = world.run("h5dump", "-pH", packed, HDF5_PLUGIN_PATH=all_plugins).expect(0).stdout
        numbers = [one.split(",")[0].split("=")[1] for one in filters]
        found = [line.split()[1] for line in shown.splitlines() if "FILTER_ID" in line]
        check(found == numbers, "filters %s instead of %s" % (found, numbers))


@pytest.mark.parametrize("bed", BEDS)
def test_relative_directory(world, directory, bed):
    good = folder(directory, "good", world.plugin)
    write_and_read(world, bed, directory, "good", cwd=directory)
    write_and_read(world, bed, directory, "../good/.", cwd=good)


@pytest.mark.parametrize("bed", BEDS)
def test_odd_names(world, directory, bed):
    """A directory with blanks and letters beyond ASCII; a directory and a plugin that are links."""
    good = folder(directory, "good plugins \u00e4", world.plugin)
    write_and_read(world, bed, directory, good)
    os.symlink(good, os.path.join(directory, "link"))
    write_and_read(world, bed, directory, os.path.join(directory, "link"))
    links = folder(directory, "links")
    os.symlink(world.plugin, os.path.join(links, "libanything.so.9"))
    write_and_read(world, bed, directory, links)


@pytest.mark.parametrize("bed", BEDS)
def test_read_only(world, directory, bed):
    good = folder(directory, "good", world.plugin)
    os.chmod(os.path.join(good, "libh5lmc.so"), 0o444)
    os.chmod(good, 0o555)
    write_and_read(world, bed, directory, good)
    os.chmod(good, 0o755)


@pytest.mark.parametrize("bed", BEDS)
def test_appended_at_run_time(world, directory, bed):
    empty = folder(directory, "empty")
    world.program(bed, "directories", "append", directory, world.plugin, HDF5_PLUGIN_PATH=empty)


@pytest.mark.parametrize("bed", ["114", "200", "220"])
def test_two_copies_in_one_process(world, directory, bed):
    other = folder(directory, "other", world.plugin)
    world.program(bed, "directories", "two", directory, os.path.join(other, "libh5lmc.so"))


@pytest.mark.parametrize("bed", BEDS)
def test_removed_while_in_use(world, directory, bed):
    good = folder(directory, "good", world.plugin)
    world.program(bed, "directories", "gone", directory, HDF5_PLUGIN_PATH=good)


@pytest.mark.parametrize("bed", BEDS)
def test_replaced_while_in_use(world, directory, bed):
    """By another file of the same name. (Bytes of the file itself must not be changed under a program, as with any
    library; neither a build nor an installation does so.)"""
    good = folder(directory, "good", world.plugin)
    world.program(bed, "directories", "replaced", directory, HDF5_PLUGIN_PATH=good)
    write_and_read(world, bed, directory, good)
