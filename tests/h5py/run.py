"""run.py - the HDF5 filter in several HDF5 libraries, and each one's files read by all of them.

    python3 tests/h5py/run.py --plugin DIR [--out DIR] --bed NAME=PYTHON... [-- PYTEST_ARGUMENT...]

DIR holds libh5lmc.so. Each PYTHON has h5py, numpy, pytest, ml_dtypes and xxhash. First each writes its files to
OUT/NAME (write_exchange.py), then each runs the tests of this folder. The last line is "N passed, N failed".
"""

import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def arguments_of(argv):
    parser = argparse.ArgumentParser(description="the HDF5 filter in several HDF5 libraries")
    parser.add_argument("--plugin", required=True, metavar="DIR", help="where libh5lmc.so is")
    parser.add_argument("--out", default="build/h5", metavar="DIR", help="for files (default: build/h5)")
    parser.add_argument("--bed", action="append", required=True, metavar="NAME=PYTHON", help="a library and its python")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="beds at a time (default: 2)")
    parser.add_argument("pytest", nargs="*", metavar="ARGUMENT", help="for pytest")
    return parser.parse_args(argv)


class Bed:
    """A python with its h5py; `environment` is what its programs run in."""

    def __init__(self, name, python, arguments):
        self.name = name
        self.python = os.path.abspath(python)
        self.folder = os.path.join(os.path.abspath(arguments.out), name)
        self.pytest_arguments = arguments.pytest
        self.environment = dict(os.environ, LMC_PLUGIN_DIR=os.path.abspath(arguments.plugin),
                                LMC_H5_EXCHANGE=os.path.abspath(arguments.out), PYTHONDONTWRITEBYTECODE="1")

    def run(self, *command):
        return subprocess.run([self.python, "-W", "ignore", *command], env=self.environment, cwd=HERE,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="backslashreplace")

    def write(self):
        """Text of what went wrong, or None."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        result = self.run(os.path.join(HERE, "write_exchange.py"), "--bed", self.name)
        return None if result.returncode == 0 else f"exit status {result.returncode}\n{result.stdout}"

    def test(self):
        """(counts, output): the counts as conftest.py wrote them; None when pytest did not come to its end."""
        report = os.path.join(self.folder, "report.json")
        if os.path.exists(report):
            os.remove(report)
        result = self.run("-m", "pytest", "-p", "no:cacheprovider", "-q", "--rootdir", HERE, "--confcutdir", HERE,
                          "-W", "ignore", "--tb=short", "--lmc-report", report, "--lmc-bed", self.name,
                          *(self.pytest_arguments or [HERE]))
        if not os.path.exists(report):
            return None, f"pytest ended with status {result.returncode}\n{result.stdout}"
        with open(report, encoding="utf-8") as file:
            return json.load(file), result.stdout


def main(argv):
    arguments = arguments_of(argv)
    beds = [Bed(*text.split("=", 1), arguments) for text in arguments.bed]
    passed = failed = skipped = 0
    with concurrent.futures.ThreadPoolExecutor(max(arguments.jobs, 1)) as pool:
        for bed, fault in zip(beds, pool.map(Bed.write, beds)):
            passed += fault is None
            failed += fault is not None
            print(f"ok {bed.name}: files written" if fault is None else f"FAIL {bed.name}: writing files: {fault}")
        for bed, (counts, output) in zip(beds, pool.map(Bed.test, beds)):
            if counts is None:
                counts = {"passed": 0, "failed": 1, "skipped": []}
            print(f"{bed.name}: {counts['passed']} passed, {counts['failed']} failed, {len(counts['skipped'])} skipped")
            for name, reason in counts["skipped"]:
                print(f"SKIP {bed.name} {name}: {reason}")
            if counts["failed"]:
                print(output)
            passed += counts["passed"]
            failed += counts["failed"]
            skipped += len(counts["skipped"])
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
