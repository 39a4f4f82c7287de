#!/usr/bin/env python3
"""The HDF5 filter in the programs of the world: several libhdf5 in a process, threads, fork, kills, C programs, MPI,
Keras, odd plugin directories.

    python3 tests/hdf5/run.py --build DIR [--venvs DIR] [--jobs N] [--list] [NAME...]

DIR of --build is a build of the project, that of --venvs the folder with the environments that tests/support/setup.sh
makes (lmc_venvs_h5, lmc_venv_keras). NAME picks the cases whose name holds it ("libraries/", "fork"). Ends with "N
passed, N failed" (and ", N skipped"); exit status 1 if one failed.
"""
import argparse
import concurrent.futures
import os
import shutil
import sys
import tempfile
import time
import traceback

import support
import cases_libraries  # noqa: F401  registers its cases
import cases_threads  # noqa: F401
import cases_processes  # noqa: F401
import cases_kills  # noqa: F401
import cases_c_programs  # noqa: F401
import cases_mpi  # noqa: F401
import cases_keras  # noqa: F401
import cases_directories  # noqa: F401

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run_case(function, world):
    """Returns "passed", "failed" or "skipped", a text, and the seconds it took."""
    directory = tempfile.mkdtemp(prefix="lmc-hdf5-")
    os.chmod(directory, 0o755)
    started = time.monotonic()
    try:
        function(world, directory)
        verdict, text = "passed", ""
    except support.Skip as reason:
        verdict, text = "skipped", str(reason)
    except support.Failure as failure:
        verdict, text = "failed", str(failure)
    except Exception:  # a fault of the case; the others run all the same
        verdict, text = "failed", traceback.format_exc()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return verdict, text, time.monotonic() - started


def run_all(wanted, world, jobs, slowest):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    seconds = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        runs = [(name, pool.submit(run_case, function, world)) for name, function in wanted]
        for name, run in runs:
            verdict, text, spent = run.result()
            counts[verdict] += 1
            seconds.append((spent, name))
            if verdict != "passed":
                print("%s %s: %s" % ("SKIP" if verdict == "skipped" else "FAIL", name, text), flush=True)
    for spent, name in sorted(seconds, reverse=True)[:slowest]:
        print("%7.2f s  %s" % (spent, name))
    skipped = ", %d skipped" % counts["skipped"] if counts["skipped"] else ""
    print("%d passed, %d failed%s" % (counts["passed"], counts["failed"], skipped))
    return 1 if counts["failed"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "test"))
    parser.add_argument("--venvs", default=os.path.join(ROOT, "build"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="cases at a time")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="print the N slowest cases")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    wanted = [(name, function) for name, function in support.CASES
              if not arguments.names or any(part in name for part in arguments.names)]
    if arguments.list:
        print("\n".join(name for name, _ in wanted))
        return 0
    if not wanted:
        print("no such case")
        return 1
    world = support.World(arguments.build, arguments.venvs)
    return run_all(wanted, world, arguments.jobs, arguments.slowest)


if __name__ == "__main__":
    sys.exit(main())
