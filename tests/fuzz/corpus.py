#!/usr/bin/env python3
"""The inputs of the fuzz targets: corpus/TARGET.tsv, a line each with a name and the bytes in base64, and seeds, which
programs of a build write.

    corpus.py seeds BUILD           writes the seeds to BUILD/tests/fuzz/seeds/TARGET/
    corpus.py unpack FOLDER         writes the inputs of the tables to FOLDER/TARGET/
    corpus.py add TARGET FILE...    adds what a fuzzer found, as found- and twelve digits of the SHA-1
"""
import base64
import hashlib
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS = os.path.join(HERE, "corpus")


def read_table(path):
    with open(path, encoding="ascii") as file:
        return {name: base64.b64decode(text) for name, text in (line.rstrip("\n").split("\t") for line in file)}


def write_table(path, inputs):
    with open(path, "w", encoding="ascii") as file:
        file.writelines("%s\t%s\n" % (name, base64.b64encode(inputs[name]).decode()) for name in sorted(inputs))


def write_seeds(build):
    programs = os.path.join(build, "tests", "fuzz")
    folder = os.path.join(programs, "seeds")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for name in ("make_corpus", "make_h5_corpus"):
        if os.path.exists(os.path.join(programs, name)):
            subprocess.run([os.path.join(programs, name), folder], check=True)
    tool = os.path.join(build, "tool", "lmc-st")
    if os.path.exists(tool):
        subprocess.run([sys.executable, os.path.join(HERE, "make_st_corpus.py"), "--tool", tool, folder], check=True)


def unpack(folder):
    for table in os.listdir(CORPUS):
        target = os.path.join(folder, table[:-len(".tsv")])
        os.makedirs(target, exist_ok=True)
        for name, content in read_table(os.path.join(CORPUS, table)).items():
            with open(os.path.join(target, name), "wb") as file:
                file.write(content)


def add(target, *paths):
    table = os.path.join(CORPUS, target + ".tsv")
    inputs = read_table(table)
    known = set(inputs.values())
    for path in paths:
        with open(path, "rb") as file:
            content = file.read()
        if content not in known:
            inputs["found-" + hashlib.sha1(content).hexdigest()[:12]] = content
    write_table(table, inputs)


def main():
    commands = {"seeds": write_seeds, "unpack": unpack, "add": add}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
