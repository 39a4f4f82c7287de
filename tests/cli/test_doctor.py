"""doctor: the HDF5 plugin and every state of HDF5_PLUGIN_PATH; HDF5 files, good and damaged."""
import gzip
import json
import os
import random
import shutil
import struct
import subprocess

import pytest

from support import check, in_directory, left_out, read, write

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
FILES = [os.path.join(DATA, name) for name in ("doctor.h5", "doctor-latest.h5")]
SIZES = os.path.join(DATA, "doctor-sizes.h5")
MANY = os.path.join(DATA, "doctor-many.h5.gz")
LMC = 59810


# ---- the plugin ----

def facts(tool, status=0, path=None, **environment):
    """What doctor says as JSON; the text must say the same problems."""
    if path is not None:
        environment["HDF5_PLUGIN_PATH"] = path
    found = tool.run("doctor", "--json", more_environment=environment)
    check(found.status == status and found.stderr == "", "exit %d: %s%s" % (found.status, found.stdout, found.stderr))
    said = json.loads(found.stdout)
    text = tool.run("doctor", more_environment=environment)
    problems = [line[15:] for line in text.stdout.splitlines() if line.startswith("problem:       ")]
    check(text.status == status and problems == said["problems"], "text: " + text.stdout)
    check(all(c == "\n" or ord(c) >= 32 for c in text.stdout), "control character: %r" % text.stdout)
    check((status == 3) == bool(problems), "problems: %r" % problems)
    return said, text.stdout


def plugin_of(tool):
    path = facts(tool)[0]["plugin_path"]
    if path is None:
        left_out("the HDF5 plugin was not built")
    return path


def folder(directory, name, *links, **files):
    """A directory; links: (name, target); files: name with _ for . and content."""
    path = os.path.join(directory, name)
    os.mkdir(path)
    for link, target in links:
        os.symlink(target, os.path.join(path, link))
    for file, content in files.items():
        write(os.path.join(path, file.replace("_", ".")), content)
    return path


def entries(tool, status, *directories):
    said, _ = facts(tool, status, ":".join(directories))
    found = said["plugin_path_entries"]
    check([entry["directory"] for entry in found] == [name for name in directories if name], "entries: %r" % found)
    return found, said["problems"]


def test_plugin_is_found(tool, directory):
    path = plugin_of(tool)
    said, text = facts(tool)
    check(os.path.basename(path) == "libh5lmc.so" and os.path.isfile(path), "path: " + path)
    check(said["filter_id"] == LMC and said["plugin_path_entries"] is None and said["problems"] == [],
          "facts: %r" % said)
    check("export HDF5_PLUGIN_PATH=" + os.path.dirname(path) in text, "text: " + text)
    check("HDF5 filter:   %d\n" % LMC in text and "HDF5 plugin:   %s\n" % path in text, "text: " + text)


def test_plugin_of_a_copied_program(tool, directory):
    copy = os.path.join(directory, "lmc-st")
    shutil.copy(tool.path, copy)
    done = subprocess.run([copy, "doctor", "--json"], stdout=subprocess.PIPE, check=False)
    said = json.loads(done.stdout)
    check(done.returncode == 0 and said["plugin_path"] is None and said["problems"] == [], "facts: %r" % said)
    text = subprocess.run([copy, "doctor"], stdout=subprocess.PIPE, check=True).stdout.decode()
    line = next(line for line in text.splitlines() if line.startswith("HDF5 plugin:"))
    check("moved alone" in line or "built without" in line, "line: " + line)
    check("HDF5 path:     HDF5_PLUGIN_PATH is not set\n" in text, "text: " + text)


def test_plugin_path_with_lmc(tool, directory):
    path = plugin_of(tool)
    other = folder(directory, "other", libother_so=b"no library, and not looked at")
    found, _ = entries(tool, 0, other, "", os.path.dirname(path), "")
    check([entry["lmc"] for entry in found] == ["none", "this"], "entries: %r" % found)
    check([entry["has_lmc"] for entry in found] == [False, True], "entries: %r" % found)
    check([entry["status"] for entry in found] == ["ok", "ok"] and found[0]["libraries"] == 1, "entries: %r" % found)


def test_plugin_path_with_another_build(tool, directory):
    changed = read(plugin_of(tool)) + b"\0"
    found, _ = entries(tool, 0, folder(directory, "newer", libh5lmc_so=changed))
    check(found[0]["lmc"] == "other" and found[0]["has_lmc"], "entries: %r" % found)
    # a name that HDF5 takes as well
    found, _ = entries(tool, 0, folder(directory, "versioned", libh5lmc_so_0=read(plugin_of(tool))))
    check(found[0]["lmc"] == "this", "entries: %r" % found)


def test_plugin_path_with_faults(tool, directory):
    good = os.path.dirname(plugin_of(tool))
    absent = os.path.join(directory, "absent\x1b")
    file = in_directory(directory, b"", "file")
    bare = folder(directory, "bare", plugin_so=b"", readme=b"")
    dangling = folder(directory, "dangling", ("libgone.so.1", "nowhere"), ("gone.so", "nowhere"), libx_so=b"")
    for bad, status, fragment in ((absent, "unusable", "No such file"), (file, "unusable", "Not a directory"),
                                  (bare, "no library", "no lib*.so"), (dangling, "dangling link", "libgone.so.1")):
        found, problems = entries(tool, 3, bad, good)
        check([entry["status"] for entry in found] == [status, "ok"], "entries: %r" % found)
        check(len(problems) == 1 and fragment in problems[0], "problems: %r" % problems)
        check(problems[0].count("HDF5 1.10") == (status in ("unusable", "dangling link")), "problems: %r" % problems)
        _, problems = entries(tool, 3, bad)
        check(len(problems) == 2 and "in none of its entries" in problems[1], "problems: %r" % problems)
    _, problems = entries(tool, 3, absent, bare, dangling, good)
    check(len(problems) == 3, "problems: %r" % problems)


def test_plugin_path_that_may_not_be_read(tool, directory):
    closed = folder(directory, "closed")
    os.chmod(closed, 0)
    try:
        done = tool.run("doctor", user=65534 if os.getuid() == 0 else None, more_environment={
            "HDF5_PLUGIN_PATH": closed})
        check(done.status == 3 and "closed: Permission denied; HDF5 1.10" in done.stdout, "text: " + done.stdout)
    finally:
        os.chmod(closed, 0o755)


def test_plugin_path_without_lmc(tool, directory):
    for path in ("", ":", folder(directory, "other", libother_so=b"")):
        said, _ = facts(tool, 3, path)
        check(said["plugin_path_entries"] is not None and "in none of its entries" in said["problems"][-1],
              "facts: %r" % said)
    said, _ = facts(tool, 3, ":".join(["/"] * 100))
    check(len(said["plugin_path_entries"]) == 64 and any("more than 64" in line for line in said["problems"]),
          "facts: %r" % said)
    said, _ = facts(tool, 3, HDF5_PLUGIN_PRELOAD="::")
    check("HDF5_PLUGIN_PRELOAD" in said["problems"][0], "problems: %r" % said["problems"])


def compile_library(directory, name, source):
    """A directory with libh5lmc.so, or another library, made of C."""
    path = os.path.join(directory, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    text = in_directory(directory, source.encode(), "source.c")
    if shutil.which("cc") is None:
        pytest.skip("needs cc")
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", path, text], check=True)
    return os.path.dirname(path)


FAKE_PLUGIN = """
static const struct { int version, id; unsigned e, d; const char *name; void *f[3]; } info = {%d, %d, 1, 1, "x"};
int H5PLget_plugin_type(void) { return %d; }
const void *H5PLget_plugin_info(void) { return &info; }
"""


def test_plugins_that_do_not_work(tool, directory):
    broken = {"garbage": "", "empty": "",
              "number": FAKE_PLUGIN % (1, LMC + 1, 0), "class": FAKE_PLUGIN % (9, LMC, 0),
              "kind": FAKE_PLUGIN % (1, LMC, 1), "foreign": "int x;",
              "crash": '#include <stdlib.h>\n__attribute__((constructor)) void f(void) { abort(); }',
              "leave": '#include <unistd.h>\n__attribute__((constructor)) void f(void) { _exit(0); }'}
    causes = {"number": "is for filter %d" % (LMC + 1), "class": "of a kind unknown", "kind": "no plugin",
              "foreign": "no plugin", "crash": "signal 6", "leave": "nothing is known"}
    for name, source in broken.items():
        if source:
            path = compile_library(directory, name + "/libh5lmc.so", source)
        else:
            path = folder(directory, name, libh5lmc_so=b"" if name == "empty" else b"no library " * 100)
        found, problems = entries(tool, 3, path)
        check(found[0]["lmc"] == "broken" and not found[0]["has_lmc"], "entries: %r" % found)
        check(len(problems) == 1 and causes.get(name, "cannot be used") in problems[0], "%s: %r" % (name, problems))


def test_plugin_that_is_a_pipe(tool, directory):
    path = folder(directory, "pipe")
    os.mkfifo(os.path.join(path, "libh5lmc.so"))
    found, problems = entries(tool, 3, path)
    check(found[0]["lmc"] == "broken" and len(problems) == 1, "entries: %r" % found)
    check("not a regular file" in problems[0], "problems: %r" % problems)


# ---- HDF5 files ----

def need_hdf5(tool):
    library = facts(tool)[0]["hdf5_library"]
    if library is None:
        left_out("built without HDF5")
    return library


def listed(tool, status, *paths, **environment):
    """The JSON output for files, and the messages."""
    done = tool.run("doctor", "--json", *paths, more_environment=environment).expect(status)
    found = json.loads(done.stdout)
    check([file["file"] for file in found] == list(paths), "files: %r" % found)
    return found, done.stderr


def test_hdf5_is_a_choice(tool, directory):
    if facts(tool)[0]["hdf5_library"] is not None:
        left_out("built with HDF5")
    check(tool.run("doctor", FILES[0]).expect(2, "built without HDF5").stdout == "", "output")


def test_hdf5_datasets(tool, directory):
    need_hdf5(tool)
    for path in FILES:
        found, _ = listed(tool, 1, path)
        check(found[0]["complete"] and found[0]["hdf5"].count(".") == 2, "file: %r" % found)
        by_name = {dataset["name"][1:]: dataset for dataset in found[0]["datasets"]}
        check(len(by_name) == len(found[0]["datasets"]) == 22, "names: %s" % sorted(by_name))
        good = by_name["good"]
        check((good["type"], good["shape"], good["layout"], good["chunk_shape"]) == ("f32", [8, 4], "chunked", [2, 4]),
              "good: %r" % good)
        check((good["chunks"], good["chunks_examined"], good["nbytes"], good["stored_nbytes"], good["ratio"])
              == (4, 4, 128, 64, 0.5), "good: %r" % good)
        check(good["filters"] == [{"id": LMC, "name": "", "optional": True, "skipped_chunks": 0,
                                   "values": [0, 0, 0]}], "good: %r" % good)
        gzip = by_name["other/again"]  # not other/gzip: each object once, by the first of its names
        check([(f["id"], f["name"]) for f in gzip["filters"]] == [(2, "shuffle"), (1, "deflate"), (3, "fletcher32")],
              "gzip: %r" % gzip)
        check(by_name["kinds/unwritten"]["chunks"] == 0 and by_name["kinds/empty"]["shape"] is None, "empty")
        check(by_name["kinds/scalar"]["shape"] == [], "scalar")
        types = {"array": "array of u32", "bf16": "bf16", "boolean": "enum of i8", "empty": "u8", "fixed": "text[3]",
                 "half": "f16", "list": "list of i32", "opaque": "opaque[2]", "record": "record[9]", "scalar": "f64",
                 "text": "text", "unwritten": "i64"}
        check({name: by_name["kinds/" + name]["type"] for name in types} == types, "types: %r" % by_name)
        check(gzip["type"] == "i16 big-endian", "gzip: %r" % gzip)


def test_hdf5_chunks_without_lmc(tool, directory):
    need_hdf5(tool)
    for path in FILES:
        found, messages = listed(tool, 1, path)
        lacking = {d["name"]: d["chunks_without_lmc"] for d in found[0]["datasets"] if d["chunks_without_lmc"]}
        check(lacking == {"/lost": 3, "/some": 1, "/single": 1}, "lacking: %r" % lacking)
        check(len(messages.splitlines()) == 3 and '"/some": 1 of 3 chunks are stored without LMC' in messages
              and "write them again" in messages, "messages: " + messages)
        by_name = {dataset["name"][1:]: dataset for dataset in found[0]["datasets"]}
        check([f["skipped_chunks"] for f in by_name["some"]["filters"]] == [0, 1], "some: %r" % by_name["some"])
        edges = by_name["edges"]
        check(edges["edges_unfiltered"] and edges["chunks"] == 3 and edges["filters"][0]["skipped_chunks"] == 0,
              "edges: %r" % edges)


def test_hdf5_chunks_of_wrong_size(tool, directory):
    """What HDF5 before 2.2 reads beyond its memory for."""
    need_hdf5(tool)
    plugin_of(tool)  # without the filter no size is known
    found, messages = listed(tool, 1, SIZES)
    wrong = {d["name"][1:]: d["chunks_of_wrong_size"] for d in found[0]["datasets"] if d["chunks_of_wrong_size"]}
    check(wrong == {"forged/all": 1, "forged/none": 1, "forged/resized": 1, "forged/unknown": 1, "forged/user": 1,
                    "one": 1, "long": 2, "skipped": 1, "checksum/after_wrong": 1, "checksum/before_wrong": 1,
                    "checksum/tiny": 1, "rows_wrong": 1, "edge_wrong": 1}, "wrong: %r" % wrong)
    unknown = {d["name"][1:]: d["chunks_of_unknown_size"] for d in found[0]["datasets"] if d["chunks_of_unknown_size"]}
    check(unknown == {"other/gzip": 2, "other/gzip_after": 1, "other/gzip_before": 1, "other/shuffle_after": 1,
                      "other/twice": 1, "other/text": 1, "other/record": 1}, "unknown: %r" % unknown)
    names = [d["name"] for d in found[0]["datasets"]]
    check({"/right", "/shuffle", "/refused", "/rows", "/edge"} < set(names) and len(names) == 29, "names: %r" % names)
    lines = [line for line in messages.splitlines() if "another size" in line]
    check(len(lines) == len(wrong) and '"/one": 1 of 3 chunks have another size than chunks of this dataset: do not '
          'read it' in messages, "messages: " + messages)
    text = tool.run("doctor", SIZES).expect(1).stdout
    check("  1 chunks of [8], 1 of unknown size\n  filters: 59810 lmc, 1 deflate\n" in text
          and text.count("of unknown size") == len(unknown), "text: " + text)


def test_hdf5_with_empty_places(tool, directory):
    """All chunks are looked at although places are empty, or the file does not pass."""
    need_hdf5(tool)
    plugin_of(tool)  # without the filter no size is known
    content = gzip.decompress(read(MANY))
    found, messages = listed(tool, 1, in_directory(directory, content, "many.h5"))
    scattered, sparse = found[0]["datasets"]
    check((sparse["chunks"], sparse["chunks_examined"], sparse["chunks_of_wrong_size"]) == (6000, 6000, 1),
          "sparse: %r" % sparse)
    check('"/sparse": 1 of 6000 chunks have another size' in messages, "messages: " + messages)
    examined = scattered["chunks_examined"]
    is_all = examined == scattered["chunks"] == 3000  # HDF5 1.14 and later
    check((is_all or 1000 < examined < 3000) and scattered["chunks_of_wrong_size"] == 0, "scattered: %r" % scattered)
    warning = '"/scattered": only %d of 3000 chunks were looked at: do not take this file for checked\n' % examined
    check(is_all != (warning in messages) and len(messages.splitlines()) == 2 - is_all, "messages: " + messages)


def test_hdf5_chunks_without_a_place(tool, directory):
    """A forged file: chunks lie beyond the dataset, where nobody reads them and they cannot be looked at."""
    need_hdf5(tool)
    content = gzip.decompress(read(MANY)).replace(struct.pack("<Q", 8 * 6002), struct.pack("<Q", 8 * 5900))
    found, messages = listed(tool, 1, in_directory(directory, content, "forged.h5"))
    forged = next(dataset for dataset in found[0]["datasets"] if dataset["name"] == "/sparse")
    check(forged["chunks"] == 6000 and forged["chunks_examined"] == 5899, "forged: %r" % forged)
    check('"/sparse": only 5899 of 6000 chunks were looked at' in messages, "messages: " + messages)


def test_hdf5_text(tool, directory):
    need_hdf5(tool)
    text = tool.run("doctor", *FILES).expect(1).stdout
    check(all(c == "\n" or 32 <= ord(c) < 127 for c in text), "control character: %r" % text)
    for fragment in ("/good: f32 [8,4], 128 bytes, stored 64, ratio 0.5000\n  4 chunks of [2,4]\n"
                     "  filters: 59810 lmc\n", "filters: 2 shuffle, 59810 lmc (skipped in 1 of 3 chunks)\n",
                     '\\u001b[31mred\\n\\"quoted\\"',
                     "filters: 59810 lmc; chunks at the edges have none", "\n22 datasets, ",
                     "[4,2]\n  filters: 59810 lmc, level 16 with rows: 4 in a chunk\n",
                     "filters: 59810 lmc, level 16 with rows: 0 in a chunk\n",
                     "filters: 59810 lmc, level 16 with rows\n"):
        check(text.count(fragment) == 2, "text lacks %r: %s" % (fragment, text))


def test_hdf5_files_that_are_none(tool, directory):
    need_hdf5(tool)
    text = in_directory(directory, b"hello, this is no HDF5 file\n" * 100, "text")
    empty = in_directory(directory, b"", "empty")
    for path, status, cause in ((text, 1, "not an HDF5 file"), (empty, 1, "not an HDF5 file"),
                                (os.path.join(directory, "absent"), 3, "No such file"), (directory, 2, "")):
        check(tool.run("doctor", path).expect(status, path, cause).stdout == "", "output beside a fault")
        found, _ = listed(tool, status, path)
        check(found[0] == {"file": path, "datasets": [], "complete": False, "hdf5": None}, "file: %r" % found)
    # the others are looked at all the same
    found, messages = listed(tool, 3, os.path.join(directory, "absent"), FILES[0], text)
    check([len(file["datasets"]) for file in found] == [0, 22, 0] and len(messages.splitlines()) == 5, messages)
    # a user's block before the file
    shifted = in_directory(directory, b"#!/bin/sh\n".ljust(1024) + read(FILES[0]), "shifted")
    check("not an HDF5 file" not in tool.run("doctor", shifted).stderr, "a file at byte 1024")


def test_hdf5_files_are_not_written(tool, directory):
    need_hdf5(tool)
    path = in_directory(directory, read(FILES[0]), "copy.h5")
    os.chmod(path, 0o444)
    before = os.stat(path)
    tool.run("doctor", path).expect(1)
    after = os.stat(path)
    check(read(path) == read(FILES[0]) and before.st_mtime_ns == after.st_mtime_ns, "changed")
    check(os.listdir(directory) == ["copy.h5"], "left behind: %s" % os.listdir(directory))


def test_hdf5_truncated(tool, directory):
    need_hdf5(tool)
    content = read(FILES[0])
    for nbytes in (8, 100, 1000, len(content) // 2, len(content) - 1):
        path = in_directory(directory, content[:nbytes], "cut")
        found, _ = listed(tool, 1, path)
        check(not found[0]["complete"], "file: %r" % found)
    tool.run("doctor", path).expect(1, "truncated")


def test_hdf5_damaged(tool, directory):
    """Whatever libhdf5 does with such files, crashes too: a message, and an output that can be read."""
    need_hdf5(tool)
    rng = random.Random(71)
    incomplete = 0
    for turn in range(120):
        content = bytearray(read(FILES[turn % 2]))
        for _ in range(rng.choice((1, 1, 2, 8))):
            content[rng.randrange(len(content))] = rng.choice((0, 1, 255, rng.randrange(256)))
        path = in_directory(directory, bytes(content), "damaged.h5")
        done = tool.run("doctor", "--json", path)
        check(done.status in (0, 1), "turn %d: exit %d: %s" % (turn, done.status, done.stderr))
        done.expect(done.status)
        incomplete += not json.loads(done.stdout)[0]["complete"]
        check(os.listdir(directory) == ["damaged.h5"], "left behind: %s" % os.listdir(directory))
    check(incomplete > 20, "%d of 120 files were found damaged" % incomplete)


def test_hdf5_damage_of_one_object(tool, directory):
    """The others are listed."""
    need_hdf5(tool)
    content = bytearray(read(FILES[1]))
    at = content.index(b"OHDR", content.index(b"OHDR") + 1)
    content[at + 10] ^= 0x55
    path = in_directory(directory, bytes(content), "damaged.h5")
    found, messages = listed(tool, 1, path)
    check(not found[0]["complete"] and 1 <= len(found[0]["datasets"]) < 22, "datasets: %r" % found)
    check('"/' in messages, "messages: " + messages)


def test_hdf5_library_that_does_not_work(tool, directory):
    library = need_hdf5(tool)
    if "/" in library:
        left_out("the HDF5 library has a fixed place")
    garbage = folder(directory, "garbage")
    write(os.path.join(garbage, library), b"no library " * 100)
    lacking = compile_library(directory, "lacking/" + library, "int x;")
    names = [line.split("(")[1].split(")")[0] for line in read(os.path.join(
        os.path.dirname(os.path.dirname(DATA)), os.pardir, "tool", "commands", "hdf5_library.h")).decode().splitlines()
        if line.startswith("    F(H5")]
    check(len(names) > 20, "names: %s" % names)
    names += ["H5Literate", "H5Literate2", "H5Oget_info2", "H5Oget_info3", "H5Dget_chunk_info", "H5Dchunk_iter",
              "H5Dread_chunk", "H5Dread_chunk2"]
    fakes = "".join("long %s(void) { return 0; }\n" % name for name in names if name != "H5Fopen")
    crashing = compile_library(directory, "crashing/" + library,
                               "#include <stdlib.h>\nlong H5Fopen(void) { abort(); }\n" + fakes)
    leaving = compile_library(directory, "leaving/" + library,
                              "#include <unistd.h>\nlong H5Fopen(void) { _exit(0); }\n" + fakes)
    for place, status, cause in ((garbage, 3, "cannot be loaded"), (lacking, 3, "has no function"),
                                 (crashing, 1, "crashed (signal 6)"), (leaving, 1, "ended the process")):
        found, messages = listed(tool, status, FILES[0], LD_LIBRARY_PATH=place)
        check(cause in messages and len(messages.splitlines()) == 1, "messages: " + messages)
        check(found[0]["datasets"] == [] and not found[0]["complete"], "file: %r" % found)


MANY_CHUNKS = """
import sys
import h5py
with h5py.File(sys.argv[1], "w", libver=sys.argv[2]) as file:
    for name, rows, deflate in (("dense", 3000, None), ("sparse", 3000, None), ("twice", 3000, 4)):
        kind = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        kind.set_chunk((2, 4))
        if deflate:
            kind.set_deflate(deflate)
        kind.set_filter(%d, h5py.h5z.FLAG_OPTIONAL, ())
        kind.set_fletcher32()
        space = h5py.h5s.create_simple((rows * 2 - 1, 5))
        dataset = h5py.h5d.create(file.id, name.encode(), h5py.h5t.IEEE_F32LE, space, kind)
        for row in range(rows):
            for column in range(0, 8, 4)[:1 if name == "sparse" and row == 7 else 2]:
                is_lost = name == "twice" or row %% 1000 == 999 and column == 4
                nbytes = 36 if is_lost or row %% 100 == 0 else 20
                dataset.write_direct_chunk((row * 2, column), bytes(nbytes), is_lost << bool(deflate))
""" % LMC


def test_hdf5_with_many_chunks(tool, directory):
    """libhdf5 is slow to tell of each of so many; all are looked at since there are few places without a chunk."""
    need_hdf5(tool)
    for version in ("earliest", "latest"):
        path = os.path.join(directory, version + ".h5")
        done = subprocess.run(["/usr/bin/python3", "-c", MANY_CHUNKS, path, version], stderr=subprocess.PIPE,
                              check=False)
        if done.returncode != 0 and b"h5py" in done.stderr.splitlines()[-1]:
            pytest.skip("needs h5py (Debian: python3-h5py)")
        check(done.returncode == 0, "h5py: %r" % done.stderr)
        found, _ = listed(tool, 1, path)
        dense, sparse, twice = found[0]["datasets"]
        check((dense["chunks"], dense["chunks_examined"], dense["chunks_without_lmc"]) == (6000, 6000, 3),
              "dense: %r" % dense)
        check([f["skipped_chunks"] for f in dense["filters"]] == [3, 0], "dense: %r" % dense)
        check(sparse["chunks"] == sparse["chunks_examined"] == 5999 and sparse["chunks_without_lmc"] == 3,
              "sparse: %r" % sparse)
        check(twice["chunks"] == twice["chunks_examined"] == twice["chunks_without_lmc"] == 6000, "twice: %r" % twice)
        check([(d["chunks_of_wrong_size"], d["chunks_of_unknown_size"]) for d in (dense, sparse, twice)]
              == [(0, 0), (0, 0), (0, 6000)], "sizes: %r" % found)
        check("looked at" not in tool.run("doctor", path).expect(1).stdout, "not all were looked at")
