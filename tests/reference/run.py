#!/usr/bin/env python3
"""run.py - the reference decoders and the reference reader, written from docs/format.md, docs/hdf5-filter.md and
docs/archive.md, against what the libraries and lmc-st write and refuse.

    python3 tests/reference/run.py [--build DIR] [--seed N] [--count N]

Needs the Python packages xxhash and zstandard, and a build of the library and of lmc-st. The last line is
"N passed, N failed".
"""
import argparse
import os
import subprocess
import sys
import tempfile

import archive_tests
import coverage
import document
import h5_tests
import lmc_reference

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
VECTORS = os.path.join(ROOT, "tests", "vectors")
CORRUPT = os.path.join(VECTORS, "corrupt")


class Tests:
    def __init__(self):
        self.passed = 0
        self.failed = 0

    def test(self, name, function, *arguments):
        """A test is a function that returns None, or what is wrong."""
        try:
            wrong = function(*arguments)
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        if wrong is None:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAIL {name}: {wrong}")


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def names(directory, suffix):
    return sorted(name[: -len(suffix)] for name in os.listdir(directory) if name.endswith(suffix))


def decodes_to(frame, content, base=None):
    decoded = lmc_reference.decode(frame, base)
    if decoded != content:
        return f"{len(decoded)} other bytes than the {len(content)} of the content"


def base_of(directory, name):
    """NAME.base, if there is one."""
    path = os.path.join(directory, name + ".base")
    return read(path) if os.path.exists(path) else None


def pair_decodes(directory, name):
    frame, content = read(directory, name + ".lmc"), read(directory, name + ".bin")
    return decodes_to(frame, content, base_of(directory, name))


def vector_decodes(name, seen):
    with coverage.recording(seen):
        return pair_decodes(VECTORS, name)


def refused(name, status):
    try:
        lmc_reference.decode(read(CORRUPT, name), base_of(CORRUPT, name[: -len(".lmc")]))
    except lmc_reference.LmcError as error:
        if type(error).__name__.upper() != status:
            return f"expected {status}: {type(error).__name__}: {error}"
    else:
        return f"expected {status}, but it decodes"


def same(what, left, right):
    left, right = set(left), set(right)
    if left != right:
        return f"{what}: {sorted(left ^ right)}"


def covers(seen):
    missing = coverage.WANTED - seen
    return f"no vector has: {sorted(missing)}" if missing else None


def reproduced(directory):
    """What make_corrupt.py writes is what is stored."""
    made = subprocess.run([sys.executable, os.path.join(HERE, "make_corrupt.py"), directory], capture_output=True)
    if made.returncode != 0:
        return made.stderr.decode()
    stored = [os.path.join("corrupt", name) for name in os.listdir(CORRUPT)]
    stored += [name for name in os.listdir(VECTORS) if name.startswith("handmade_")]
    written = [os.path.relpath(os.path.join(folder, name), directory)
               for folder, _, files in os.walk(directory) for name in files]
    differing = [name for name in stored if name in written and read(VECTORS, name) != read(directory, name)]
    return same("files", stored, written) or same("contents", differing, [])


def make_random_frames(build, directory, seed, count):
    program = os.path.join(directory, "random_frames")
    library = os.path.join(build, "codec", "liblmc.a")
    for command in [
        [os.environ.get("CC", "cc"), "-std=c11", "-O1", "-I" + os.path.join(ROOT, "include"), "-o", program,
         os.path.join(HERE, "random_frames.c"), library, "-lpthread", "-lm"],
        [program, str(seed), str(count), directory],
    ]:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            return done.stdout or f"{command[0]}: exit status {done.returncode}"


def expectations():
    lines = read(CORRUPT, "EXPECT.tsv").decode().splitlines()
    return [line.split("\t") for line in lines]


def main():
    parser = argparse.ArgumentParser(description="The reference decoder on worked, stored and random frames.")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "test"), help="cmake build directory")
    parser.add_argument("--seed", type=int, default=3, help="of random frames, chunks and archives")
    parser.add_argument("--count", type=int, default=100, help="of random frames and chunks")
    arguments = parser.parse_args()

    tests = Tests()
    worked = document.worked_frames(read(ROOT, "docs", "format.md").decode())
    for i, (frame, content, base) in enumerate(worked):
        tests.test(f"worked frame {i}", decodes_to, frame, content, base)

    seen = set()
    tests.test("vectors: files", same, "without a twin", names(VECTORS, ".lmc"), names(VECTORS, ".bin"))
    for name in names(VECTORS, ".lmc"):
        tests.test(f"vectors/{name}", vector_decodes, name, seen)
    tests.test("vectors: coverage", covers, seen)

    expected = expectations()
    tests.test("vectors/corrupt: files", same, "not in both EXPECT.tsv and the folder",
               [line[0] for line in expected], [name + ".lmc" for name in names(CORRUPT, ".lmc")])
    for name, status, _ in expected:
        tests.test(f"vectors/corrupt/{name}", refused, name, status)

    with tempfile.TemporaryDirectory() as directory:
        tests.test("make_corrupt.py", reproduced, directory)
    with tempfile.TemporaryDirectory() as directory:
        tests.test("random_frames", make_random_frames, arguments.build, directory, arguments.seed, arguments.count)
        for number in range(arguments.count):
            tests.test(f"random frame {number} of seed {arguments.seed}", pair_decodes, directory, str(number))

    with tempfile.TemporaryDirectory() as directory:
        document_text = read(ROOT, "docs", "hdf5-filter.md").decode()
        h5_tests.run(tests, arguments.build, directory, arguments.seed, arguments.count, document_text)

    with tempfile.TemporaryDirectory() as directory:
        document_text = read(ROOT, "docs", "archive.md").decode()
        archive_tests.run(tests, arguments.build, directory, arguments.seed, document_text)

    print(f"{tests.passed} passed, {tests.failed} failed")
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
