"""expectations.py - the tables EXPECT.tsv of tests/format/vectors: a line for each damaged frame or chunk with its
name, the status that a decoder must end with, the rule that is broken, the bytes in base64, and those of its base if
there is one."""
import base64
import os
import subprocess
import sys
from collections import namedtuple

Expectation = namedtuple("Expectation", "name status rule data base", defaults=(None,))


def text_of(cases):
    """The table of {name: (status, rule, data[, base])}."""
    lines = []
    for name, (status, rule, *data) in sorted(cases.items()):
        coded = [base64.b64encode(part).decode() for part in data if part is not None]
        lines.append("\t".join([name, status, rule, *coded]) + "\n")
    return "".join(lines).encode()


def read_table(path):
    with open(path, encoding="ascii") as file:
        fields = [line.rstrip("\n").split("\t") for line in file]
    return [Expectation(*line[:3], *map(base64.b64decode, line[3:])) for line in fields]


def reproduced(script, directory, vectors):
    """What is wrong, if what a script writes to a directory is not what is stored."""
    made = subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), script), directory],
                          capture_output=True)
    if made.returncode != 0:
        return made.stderr.decode()
    written = {os.path.relpath(os.path.join(folder, name), directory)
               for folder, _, files in os.walk(directory) for name in files}
    stored = {name for name in os.listdir(vectors) if name.startswith("handmade_")}
    stored.add(os.path.join("corrupt", "EXPECT.tsv"))
    if stored != written:
        return f"files: {sorted(stored ^ written)}"
    differing = [name for name in stored if read(vectors, name) != read(directory, name)]
    return f"contents: {sorted(differing)}" if differing else None


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()
