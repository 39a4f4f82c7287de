"""doctor: the HDF5 plugin and every state of HDF5_PLUGIN_PATH."""
import json
import os
import shutil
import subprocess

import pytest

from support import check, in_directory, left_out, read, write
from users import as_nobody

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


@pytest.mark.posix("paths of this machine in what the command says")
def test_plugin_is_found(tool, directory):
    path = plugin_of(tool)
    said, text = facts(tool)
    check(os.path.basename(path) == "libh5lmc.so" and os.path.isfile(path), "path: " + path)
    check(said["filter_id"] == LMC and said["plugin_path_entries"] is None and said["problems"] == [],
          "facts: %r" % said)
    check("export HDF5_PLUGIN_PATH=" + os.path.dirname(path) in text, "text: " + text)
    check("HDF5 filter:   %d\n" % LMC in text and "HDF5 plugin:   %s\n" % path in text, "text: " + text)


@pytest.mark.posix("paths of this machine in what the command says")
def test_plugin_of_a_copied_program(tool, directory):
    copy = os.path.join(directory, "lmc-st")
    shutil.copy(tool.path, copy)
    done = subprocess.run([copy, "doctor", "--json"], stdout=subprocess.PIPE, check=False)
    said = json.loads(done.stdout)
    check(done.returncode == 0 and said["plugin_path"] is None and said["problems"] == [], "facts: %r" % said)
    text = subprocess.run([copy, "doctor"], stdout=subprocess.PIPE, check=True).stdout.decode()
    line = next(line for line in text.splitlines() if line.startswith("HDF5 plugin:"))
    check("moved without it" in line or "built without" in line, "line: " + line)
    check("HDF5 path:     HDF5_PLUGIN_PATH is not set\n" in text, "text: " + text)


@pytest.mark.posix("paths of this machine in what the command says")
def test_plugin_path_with_lmc(tool, directory):
    path = plugin_of(tool)
    other = folder(directory, "other", libother_so=b"no library, and not looked at")
    found, _ = entries(tool, 0, other, "", os.path.dirname(path), "")
    check([entry["lmc"] for entry in found] == ["none", "this"], "entries: %r" % found)
    check([entry["has_lmc"] for entry in found] == [False, True], "entries: %r" % found)
    check([entry["status"] for entry in found] == ["ok", "ok"] and found[0]["libraries"] == 1, "entries: %r" % found)


@pytest.mark.posix("paths of this machine in what the command says")
def test_plugin_path_with_another_build(tool, directory):
    changed = read(plugin_of(tool)) + b"\0"
    found, _ = entries(tool, 0, folder(directory, "newer", libh5lmc_so=changed))
    check(found[0]["lmc"] == "other" and found[0]["has_lmc"], "entries: %r" % found)
    # a name that HDF5 takes as well
    found, _ = entries(tool, 0, folder(directory, "versioned", libh5lmc_so_0=read(plugin_of(tool))))
    check(found[0]["lmc"] == "this", "entries: %r" % found)


@pytest.mark.posix("paths of this machine in what the command says")
def test_plugin_path_with_faults(tool, directory):
    good = os.path.dirname(plugin_of(tool))
    absent = os.path.join(directory, "absent\x1b")
    file = in_directory(directory, b"", "file")
    bare = folder(directory, "bare", plugin_so=b"", readme=b"")
    dangling = folder(directory, "dangling", ("libgone.so.1", "nowhere"), ("gone.so", "nowhere"), libx_so=b"")
    for bad, status, fragment in ((absent, "unusable", "No such file"), (file, "unusable", "Not a directory"),
                                  (dangling, "dangling link", "libgone.so.1")):
        found, problems = entries(tool, 3, bad, good)
        check([entry["status"] for entry in found] == [status, "ok"], "entries: %r" % found)
        check(len(problems) == 1 and fragment in problems[0], "problems: %r" % problems)
        check(problems[0].count("HDF5 1.10") == 1, "problems: %r" % problems)
        _, problems = entries(tool, 3, bad)
        check(len(problems) == 2 and "in none of its entries" in problems[1], "problems: %r" % problems)
    found, _ = entries(tool, 0, bare, good)  # nothing that HDF5 would take for a plugin is no fault
    check([entry["status"] for entry in found] == ["no library", "ok"], "entries: %r" % found)
    _, problems = entries(tool, 3, absent, bare, dangling, good)
    check(len(problems) == 2, "problems: %r" % problems)


@pytest.mark.posix("paths of this machine in what the command says")
def test_plugin_path_that_may_not_be_read(tool, directory):
    as_another = as_nobody(tool)
    closed = folder(directory, "closed")
    os.chmod(closed, 0)
    try:
        done = tool.run("doctor", more_environment={"HDF5_PLUGIN_PATH": closed}, **as_another)
        check(done.status == 3 and "closed: Permission denied; HDF5 1.10" in done.stdout, "text: " + done.stdout)
    finally:
        os.chmod(closed, 0o755)


@pytest.mark.posix("paths of this machine in what the command says")
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


@pytest.mark.posix("paths of this machine in what the command says")
def test_plugins_that_do_not_work(tool, directory):
    plugin = read(plugin_of(tool))
    broken = {"garbage": (b"no library " * 100, "not a library for this machine"),
              "empty": (b"", "not a library for this machine"),
              "class": (plugin[:4] + bytes([plugin[4] ^ 3]) + plugin[5:], "not a library for this machine"),
              "machine": (plugin[:18] + bytes([plugin[18] ^ 1]) + plugin[19:], "not a library for this machine"),
              "foreign": (plugin.replace(b"H5PLget_plugin_info", b"H5PLget_another_one"),
                          "not a plugin with an HDF5 filter"),
              "cut": (plugin[:64], "cut short"), "cut_later": (plugin[:-1], "cut short")}
    for name, (content, cause) in broken.items():
        found, problems = entries(tool, 3, folder(directory, name, libh5lmc_so=content))
        check(found[0]["lmc"] == "broken" and not found[0]["has_lmc"], "entries: %r" % found)
        check(len(problems) == 1 and cause in problems[0], "%s: %r" % (name, problems))


@pytest.mark.posix("pipes and devices among files")
def test_plugin_that_is_a_pipe(tool, directory):
    path = folder(directory, "pipe")
    os.mkfifo(os.path.join(path, "libh5lmc.so"))
    found, problems = entries(tool, 3, path)
    check(found[0]["lmc"] == "broken" and len(problems) == 1, "entries: %r" % found)
    check("not a regular file" in problems[0], "problems: %r" % problems)


def test_file_is_refused(tool, directory):
    tool.run("doctor", "x.h5").expect(2, "examples/h5_inspect.py")
