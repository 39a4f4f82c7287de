"""archive_tool.py - lmc-st for the tests of archives."""

import os
import subprocess


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
