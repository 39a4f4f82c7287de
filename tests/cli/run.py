#!/usr/bin/env python3
"""Runs lmc-st on good and bad input.

    python3 tests/cli/run.py [--tool PATH] [--slow] [--jobs N] [--list] [NAME...]

NAME picks the cases whose name holds it ("headers/", "swapped"). Ends with "N passed, N failed" (and
", N skipped"); exit status 1 if one failed.
"""
import argparse
import concurrent.futures
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback

import support
import cases_headers  # noqa: F401  registers its cases
import cases_round_trip  # noqa: F401
import cases_archives  # noqa: F401
import cases_files  # noqa: F401
import cases_get  # noqa: F401
import cases_inspect  # noqa: F401
import cases_doctor  # noqa: F401
import cases_help  # noqa: F401
import cases_usage  # noqa: F401
import cases_faults  # noqa: F401
import cases_kills  # noqa: F401
import cases_disks  # noqa: F401
import cases_races  # noqa: F401
import cases_paths  # noqa: F401
import cases_foreign  # noqa: F401
import cases_folders  # noqa: F401
import cases_streams  # noqa: F401
import cases_removal  # noqa: F401
import cases_staging  # noqa: F401
import cases_directories  # noqa: F401
import cases_indexes  # noqa: F401
import cases_resume  # noqa: F401
import cases_redirections  # noqa: F401
import cases_habits  # noqa: F401
import cases_salvage  # noqa: F401
import cases_alias  # noqa: F401
import cases_bases  # noqa: F401
import cases_base_search  # noqa: F401
import cases_base_candidates  # noqa: F401
import cases_base_use  # noqa: F401
import cases_base_damage  # noqa: F401

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def cpu_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in used)


def run_case(function, tool):
    """Returns "passed", "failed", "skipped" or "left out" and a text."""
    directory = tempfile.mkdtemp(prefix="lmc-cli-")
    os.chmod(directory, 0o755)
    try:
        function(tool, directory)
        return "passed", ""
    except support.Skip as reason:
        return "skipped", str(reason)
    except support.LeftOut as reason:
        return "left out", str(reason)
    except support.Failure as failure:
        return "failed", str(failure)
    except Exception:  # a fault of the case; the others run all the same
        return "failed", traceback.format_exc()
    finally:
        shutil.rmtree(directory)


def run_numbered(number, tool):
    """The same in a process of the pool, which has support.CASES by fork(); with seconds and those of CPU time."""
    started, used = time.monotonic(), cpu_seconds()
    verdict, text = run_case(support.CASES[number][1], tool)
    return verdict, text, time.monotonic() - started, cpu_seconds() - used


def run_all(wanted, tool, jobs, slowest):
    """wanted: numbers of cases. A process a job, as a case looks at the CPU time of its children and sets signals."""
    counts = {"passed": 0, "failed": 0, "skipped": 0, "left out": 0}
    reasons = set()
    seconds = []
    with concurrent.futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
        runs = [(support.CASES[number][0], pool.submit(run_numbered, number, tool)) for number in wanted]
        for name, run in runs:
            verdict, text, spent, used = run.result()
            seconds.append((spent, used, name))
            counts[verdict] += 1
            if verdict == "left out":
                reasons.add(text)
            elif verdict != "passed":
                print("%s %s: %s" % ("SKIP" if verdict == "skipped" else "FAIL", name, text), flush=True)
    for spent, used, name in sorted(seconds, reverse=True)[:slowest]:
        print("%7.2f s, CPU %7.2f s  %s" % (spent, used, name))
    if reasons:
        print("%d cases left out: %s" % (counts["left out"], "; ".join(sorted(reasons))))
    skipped = ", %d skipped" % counts["skipped"] if counts["skipped"] else ""
    print("%d passed, %d failed%s" % (counts["passed"], counts["failed"], skipped))
    return 1 if counts["failed"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default=os.path.join(ROOT, "build", "tool", "lmc-st"))
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="cases at a time")
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="print the N slowest cases")
    parser.add_argument("--slow", action="store_true", help="also cases that take more than ten seconds")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    wanted = [number for number, (name, function) in enumerate(support.CASES)
              if any(part in name for part in arguments.names)
              or (not arguments.names and (arguments.slow or not hasattr(function, "is_slow")))]
    if arguments.list:
        print("\n".join(support.CASES[number][0] for number in wanted))
        return 0
    if not wanted:
        print("no such case")
        return 1
    for name in ("HDF5_PLUGIN_PATH", "HDF5_PLUGIN_PRELOAD"):  # the caller's may have faults
        os.environ.pop(name, None)
    return run_all(wanted, support.Tool(arguments.tool), arguments.jobs, arguments.slowest)


if __name__ == "__main__":
    sys.exit(main())
