"""C programs: libhdf5 shared; static with its symbols exported; static without, where the plugin finds no function of
HDF5's and has the user's values alone."""
import os
import subprocess

import pytest

from world import PROGRAMS, check, need_command, read

LINKS = {"shared": ["-shlib"], "static-exported": ["-Wl,--export-dynamic"], "static": []}
CHUNKS_NBYTES = 1 << 20  # of the content that one_file.py writes


def build(directory, link, *more):
    """Compiles programs/h5_program.c, with more options, by the compiler that Debian's HDF5 comes with."""
    need_command("h5cc", "libhdf5-dev")
    program = os.path.join(directory, "program-" + link)
    command = ["h5cc", *LINKS[link], "-Wall", "-Wextra", "-Werror", "-o", program,
               os.path.join(PROGRAMS, "h5_program.c"), *more]
    done = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    check(done.returncode == 0, "%s: %s" % (command, done.stdout.decode()))
    needed = subprocess.run(["readelf", "-d", program], stdout=subprocess.PIPE, check=True).stdout.decode()
    check(("libhdf5" in needed) == (link == "shared"), "not linked as meant: " + needed)
    return program


def write_content(world, directory):
    """A file with numbers, and its HDF5 file by h5py."""
    path = os.path.join(directory, "by-h5py.h5")
    world.program("110", "one_file", "write", path, "1")
    content = os.path.join(directory, "content")
    world.program("110", "one_file", "content", content, "1")
    check(os.path.getsize(content) == CHUNKS_NBYTES, "content")
    return path, content


def values_and_size(result):
    values, stored = result.stdout.splitlines()
    return [int(value) for value in values.split()[1:]], int(stored.split()[1])


@pytest.mark.parametrize("link", LINKS)
def test_round_trip(world, directory, link):
    program = build(directory, link)
    by_h5py, content = write_content(world, directory)
    back = os.path.join(directory, "back")
    world.run(program, "read", by_h5py, back).expect(0)
    check(read(back) == read(content), "the program reads other numbers in a file of h5py's")
    for flags in (0, 1):
        for user in ((), (0, 4), (2,), (0, 0, 64)):
            path = os.path.join(directory, "by-program.h5")
            values, stored = values_and_size(world.run(program, "write", path, content, flags, *user).expect(0))
            if link == "static":
                check(values == list(user), "values %s were made of %s" % (values, user))
            else:
                check(values[:3] == [*user, 0, 0, 0][:3] and values[3:5] == [0x31434D4C, 4], "values: %s" % values)
            check(stored < 0.87 * CHUNKS_NBYTES, "%s: %d bytes" % (user, stored))
            world.run(program, "read", path, back).expect(0)
            check(read(back) == read(content), "the program reads other numbers")
    # of a static program without its symbols the file lacks the filter's own values
    action = "read-bytes" if link == "static" else "read"
    for bed in world.beds:
        world.program(bed, "one_file", action, path, "1")


def test_program_with_the_same_names(world, directory):
    """A program that exports functions of the names that the plugin's have: the plugin calls its own."""
    listed = subprocess.run(["nm", "-D", "--defined-only", world.plugin], stdout=subprocess.PIPE, check=True)
    names = {line.split()[2].split("@")[0] for line in listed.stdout.decode().splitlines()}
    names = sorted(name for name in names if name.startswith("lmc_h5_"))
    check(names, "the plugin exports no calls")
    source = os.path.join(directory, "same_names.c")
    with open(source, "w", encoding="ascii") as file:
        file.write("#include <stdlib.h>\n")
        file.writelines("void %s(void);\nvoid %s(void) { abort(); }\n" % (name, name) for name in names)
    program = build(directory, "shared", source, "-Wl,--export-dynamic")
    by_h5py, content = write_content(world, directory)
    back = os.path.join(directory, "back")
    path = os.path.join(directory, "by-program.h5")
    world.run(program, "read", by_h5py, back).expect(0)
    check(read(back) == read(content), "the program reads other numbers in a file of h5py's")
    world.run(program, "write", path, content, 0).expect(0)
    world.run(program, "read", path, back).expect(0)
    check(read(back) == read(content), "the program reads other numbers")


def test_no_environment(world, directory):
    """Without the plugin: an error of HDF5's, for each kind of program."""
    for link in LINKS:
        program = build(directory, link)
        by_h5py, _ = write_content(world, directory)
        world.run(program, "read", by_h5py, os.path.join(directory, "back"), HDF5_PLUGIN_PATH=directory).expect(
            1, "failed: reading", "error: ")


def test_refused_values(world, directory):
    """The reason is on HDF5's error stack, and names LMC and the value."""
    _, content = write_content(world, directory)
    for link in ("shared", "static-exported"):
        program = build(directory, link)
        for user, reason in ((["9"], "value [0]"), (["0", "3"], "value [1]"), (["0", "0", "5"], "value [2]"),
                             (["0", "0", "0", "1"], "value [3]"), (["0"] * 11, "11 values")):
            for flags in (0, 1):
                result = world.run(program, "write", os.path.join(directory, "a.h5"), content, flags, *user)
                result.expect(1, "failed: creating", "error: set_local: lmc", reason)


@pytest.mark.parametrize("link", LINKS)
def test_damaged_chunk(world, directory, link):
    program = build(directory, link)
    by_h5py, _ = write_content(world, directory)
    world.program("110", "one_file", "damage", by_h5py, "1")
    result = world.run(program, "read", by_h5py, os.path.join(directory, "back"), LMC_H5_DEBUG="1")
    result.expect(1, "failed: reading")
    lines = [line for line in result.stdout.splitlines() if line.startswith("error: filter: lmc")]
    if link == "static":
        check(not lines, "on the error stack: %s" % lines)
    else:
        check(len(lines) == 1 and "at byte" in lines[0], "on the error stack: %s" % result.stdout)
    debug = result.stderr.splitlines()
    check(len(debug) == 1 and debug[0].startswith("lmc-h5: lmc"), "on stderr: %s" % debug)
