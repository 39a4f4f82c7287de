"""run.py - lmc-st beside the official safetensors package: what one opens the other must open.

    python3 tests/official/run.py --tool BUILD/tool/lmc-st [--files FILE.safetensors...] [NAME...]

Groups: `archives/` opens archives with the package, `slices/` compares parts of tensors, `headers/` both
verdicts on each file of tests/cli/header_corpus.py, `near/` and `random/` do so on many more. NAME picks the
cases whose name holds it. Needs numpy and safetensors 0.8. The last line is "N passed, N failed".
"""

import argparse
import os
import sys
import tempfile

import archives
import headers
import random_headers
import slices

FAULTS_SHOWN = 5


def faults_of(function):
    try:
        return list(function())
    except Exception as error:  # whatever the package raises here is a fault of the file
        return [f"{type(error).__name__}: {error}"]


def main():
    parser = argparse.ArgumentParser(description="lmc-st beside the official package")
    parser.add_argument("--tool", required=True, help="the command lmc-st")
    parser.add_argument("--files", nargs="+", metavar="FILE", help="files for archives/ (default: examples/data)")
    parser.add_argument("--batches", type=int, default=40, metavar="N", help="of random/ (default: 40)")
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases to run (default: all)")
    arguments = parser.parse_args()
    tool = os.path.abspath(arguments.tool)

    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="lmc-official-") as folder:
        for name, function in (*archives.cases(tool, folder, arguments.files), *slices.cases(tool, folder),
                               *headers.cases(tool, folder),
                               *random_headers.cases(tool, folder, arguments.batches)):
            if arguments.names and not any(part in name for part in arguments.names):
                continue
            faults = faults_of(function)
            print(("FAIL " if faults else "ok ") + name, flush=True)
            for fault in faults[:FAULTS_SHOWN]:
                print("  " + fault)
            passed += not faults
            failed += bool(faults)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
