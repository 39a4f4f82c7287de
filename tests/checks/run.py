"""run.py - rules that the source of the project keeps. Each file check_*.py beside this one has a function
check(tree) that yields one line per fault; a check without faults is passed, one that raises Skip is skipped.

    python3 tests/checks/run.py --build build/test [NAME...]

The last line is "N passed, N failed" (", N skipped").
"""

import argparse
import concurrent.futures
import importlib
import os
import sys

from tree import Skip, Tree

FAULTS_SHOWN = 30
HERE = os.path.dirname(os.path.abspath(__file__))


def faults_of(module, tree):
    """The faults, and why the check was skipped, if it was."""
    try:
        return list(module.check(tree)), None
    except Skip as reason:
        return [], str(reason)


def main():
    parser = argparse.ArgumentParser(description="checks of the source")
    parser.add_argument("--build", required=True, help="a build of the project")
    parser.add_argument("names", nargs="*", metavar="NAME", help="checks to run (default: all)")
    arguments = parser.parse_args()

    names = arguments.names or sorted(
        name[len("check_"):-len(".py")] for name in os.listdir(HERE)
        if name.startswith("check_") and name.endswith(".py"))
    tree = Tree(os.path.dirname(os.path.dirname(HERE)), os.path.abspath(arguments.build))
    failed = skipped = 0
    checks = [importlib.import_module("check_" + name) for name in names]
    jobs = int(os.environ.get("LMC_JOBS", os.cpu_count()))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:  # most of the work is that of other programs
        found = list(pool.map(lambda module: faults_of(module, tree), checks))
    for name, (faults, reason) in zip(names, found):
        if reason is not None:
            print(f"SKIP check {name}: {reason}")
            skipped += 1
            continue
        print(("FAIL " if faults else "ok ") + name)
        for fault in faults[:FAULTS_SHOWN]:
            print("  " + fault)
        if len(faults) > FAULTS_SHOWN:
            print(f"  and {len(faults) - FAULTS_SHOWN} more")
        failed += bool(faults)
    print(f"{len(names) - failed - skipped} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
