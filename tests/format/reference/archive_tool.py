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
    found = []
    reasons = []
    try:
        archive = lmc_archive.read(path)
        found.append(lmc_archive.restore(archive, in_directories([], base, path), path))
        reasons.append("accepts it")
    except LmcError as error:
        found.append(None)
        reasons.append(f"{type(error).__name__}: {error}")
    options = [] if base is None else ["--base", base]
    done = tool.run("cat", path, *options)
    found.append(done.stdout if done.returncode == 0 else None)
    reasons.append(f"{done.returncode} {done.stderr.decode(errors='replace')}")
    checked = tool.run("verify", path, *options)
    if (checked.returncode == 0) != (done.returncode == 0) or done.returncode not in (0, 1):
        reasons[1] += f", but verify: {checked.returncode} {checked.stderr.decode(errors='replace')}"
        found[1] = "no verdict"
    return found, reasons


def judged(tool, path, original, base=None):
    """Both verdicts are `original`, None for a refusal."""
    found, reasons = verdicts(tool, path, base)
    readers = zip(("the reference reader", "lmc-st"), found, reasons)
    wrong = [f"{reader}: {reason}" for reader, restored, reason in readers if restored != original]
    return "; ".join(wrong) or None
