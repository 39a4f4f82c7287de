"""tree.py - the files of the project, for the checks."""

import os
import subprocess

# Nothing that was built, fetched, belongs to others or to a version control system.
IGNORED_FOLDERS = {".git", "build", "dist", "install", "__pycache__", ".cache", ".venv", "third_party"}


class Skip(Exception):
    """A check cannot be made on this machine; the reason is its text."""


class Tree:
    def __init__(self, root, build):
        self.root = root
        self.build = build

    def files(self, *suffixes, under=("",)):
        """Paths below the root with one of the suffixes (all files if none), in folders `under`."""
        found = set()
        for folder in under:
            for path, folders, names in os.walk(os.path.join(self.root, folder)):
                folders[:] = [f for f in folders if f not in IGNORED_FOLDERS and not f.startswith("build-")]
                for name in names:
                    if not suffixes or name.endswith(suffixes):
                        found.add(os.path.relpath(os.path.join(path, name), self.root))
        return sorted(found)

    def path(self, name):
        return os.path.join(self.root, name)

    def exists(self, name):
        return os.path.exists(self.path(name))

    def data(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def text(self, name):
        return self.data(name).decode("utf-8")

    def lines(self, name):
        return self.text(name).splitlines()


def run(*command, **options):
    """Runs a command; returns its exit status and all that it printed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    return done.returncode, done.stdout
