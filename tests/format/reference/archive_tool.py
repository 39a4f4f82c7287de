"""archive_tool.py - lmc-st for the tests of archives, and what it and the reference reader restore of one."""

import os
import shutil
import subprocess

import lmc_archive
from lmc_archive_base import in_directories
from lmc_reference import LmcError


class Tool:
    """lmc-st, with a folder for what it reads and writes."""

    def __init__(self, path, directory):
        self.path = path
        self.directory = directory

    def run(self, *arguments):
        return subprocess.run([self.path, *arguments], stdin=subprocess.DEVNULL, capture_output=True)

    def file(self, name, data):
        path = os.path.join(self.directory, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def convert(self, data, level):
        done = self.run("convert", "-c", "--level", level, self.file("made.safetensors", data))
        if done.returncode != 0:
            raise ValueError(f"convert: {done.stderr.decode()}")
        return done.stdout

    def verdict(self, archive, name="case.lmc"):
        return self.run("verify", self.file(name, archive)).returncode


class Directory:
    """A directory of its own, with lmc-st."""

    def __init__(self, tool, name):
        self.tool = tool
        self.path = os.path.join(tool.directory, name)
        shutil.rmtree(self.path, ignore_errors=True)
        os.mkdir(self.path)

    def at(self, name):
        return os.path.join(self.path, name)

    def write(self, name, data):
        os.makedirs(os.path.dirname(self.at(name)), exist_ok=True)
        with open(self.at(name), "wb") as file:
            file.write(data)
        return self.at(name)


def verdicts(tool, path, base=None):
    """What the reference reader and lmc-st restore, None for a refusal, and their reasons."""
    try:
        archive = lmc_archive.read(path)
        found, reasons = [lmc_archive.restore(archive, in_directories([], base, path), path)], ["accepts it"]
    except LmcError as error:
        found, reasons = [None], [f"{type(error).__name__}: {error}"]
    options = [] if base is None else ["--base", base]
    done = tool.run("cat", path, *options)
    found.append(done.stdout if done.returncode == 0 else None)
    reasons.append(f"{done.returncode} {done.stderr.decode(errors='replace')}")
    checked = tool.run("verify", path, *options)
    told = checked.stderr.decode(errors="replace")
    if checked.returncode != done.returncode or done.returncode not in (0, 1):
        reasons[1] += f", but verify: {checked.returncode} {told}"
        found[1] = "no verdict"
    elif reasons[0].startswith("Unsupported") != ("newer version" in told or "by this version" in told):
        reasons[1] += f", beside {reasons[0]}"
        found[1] = "another reason"
    return found, reasons


def opens_alike(tool, path):
    """Both readers open the archive, or neither does: no base is needed for that, nor are frames."""
    try:
        lmc_archive.opened(lmc_archive.read(path))
        reason = None
    except LmcError as error:
        reason = f"{type(error).__name__}: {error}"
    done = tool.run("info", path)
    if (reason is None) != (done.returncode == 0):
        return f"opening: the reference reader: {reason}; lmc-st info: {done.returncode} {done.stderr.decode()}"


def judged(tool, path, original, base=None):
    """Both verdicts are `original`, None for a refusal."""
    found, reasons = verdicts(tool, path, base)
    readers = zip(("the reference reader", "lmc-st"), found, reasons)
    wrong = [f"{reader}: {reason}" for reader, restored, reason in readers if restored != original]
    return "; ".join(wrong) or None


def forged(tool, archive, original, files=(), name="case.lmc"):
    """What is wrong with the verdicts on an archive that was put together, beside its base."""
    directory = Directory(tool, "forged")
    path = directory.write(name, archive)
    wrong = opens_alike(tool, path)
    for file, data in dict(files).items():
        directory.write(file, data)
    return wrong or judged(tool, path, original)
