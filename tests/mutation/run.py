"""run.py - puts defects into a copy of the tree, one at a time, and runs the tests that must find them.

    python3 tests/mutation/run.py                  all of tests/mutation/defects.txt
    python3 tests/mutation/run.py checksum lock    those whose names contain one of these words

A defect is a paragraph of the list: `name`; `file`; `old`, a line of it without its indent, which must be there exactly
once; `new`, which takes its place; `why` it would matter; `test`, the CUnit programs, or else arguments for pytest;
`set`, the kernel set without which the machine cannot find it. A defect that does not compile is an error of the list.
The copy and its build are in build/mutation.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "mutation"
TREE, BUILD = WORK / "tree", WORK / "build"
JOBS = os.environ.get("LMC_JOBS") or str(os.cpu_count() or 1)
FIELDS = {"name", "file", "old", "new", "why", "test"}
COMMAND_TARGETS = ["lmc-st", "fail_io"]
TEST_SECONDS_MAX = 120  # a defect may be an endless loop: that is found, too


class ListError(Exception):
    """The list does not fit the tree."""


def read_defects():
    text = (ROOT / "tests" / "mutation" / "defects.txt").read_text()
    text = re.sub(r"^#.*\n", "", text, flags=re.M)
    for paragraph in filter(str.strip, text.split("\n\n")):
        defect = dict(line.split(": ", 1) for line in paragraph.strip().splitlines())
        if set(defect) - {"set"} != FIELDS:
            raise ListError("not the fields of a defect:\n" + paragraph)
        yield defect


def call(*command, **options):
    """Returns the exit status, or None if the command did not end, and all that it printed."""
    try:
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", **options)
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout


def must(*command):
    status, output = call(*command, cwd=ROOT)
    if status != 0:
        raise ListError("%s has failed:\n%s" % (" ".join(map(str, command)), output[-4000:]))
    return output


def copy_tree():
    shutil.rmtree(WORK, ignore_errors=True)
    for name in must("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0"):
        if name and (ROOT / name).is_file():
            (TREE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, TREE / name)


def uses_pytest(defect):
    return defect["test"].startswith("tests/")


def targets(defect):
    return COMMAND_TARGETS if uses_pytest(defect) else defect["test"].split()


def build(names):
    must("cmake", "--build", BUILD, "-j", JOBS, "--target", *sorted(set(names)))


def commands(defect):
    """What runs the tests of a defect: the name to be told, and the command."""
    if uses_pytest(defect):
        yield "pytest", [sys.executable, "-m", "pytest", "-q", "-x", "-n", JOBS, "-p", "no:cacheprovider",
                         "--build=%s" % BUILD, *defect["test"].split()]
    else:
        for name in defect["test"].split():
            yield name, [BUILD / "tests" / name]


def failure(output):
    """The line of a log that says what failed."""
    lines = [line.strip() for line in output.splitlines()]
    found = [line for line in lines if re.match(r"FAILED |ERROR |\d+\. ", line)]
    found += [line for line in lines if "FAILED" in line]
    return (found or [line for line in lines if line] or ["it printed nothing"])[0][:160]


def find(defect):
    """Runs the tests until one fails; returns what did, or None."""
    for name, command in commands(defect):
        status, output = call(*command, cwd=TREE, timeout=TEST_SECONDS_MAX)
        if status is None:
            return name + ": it did not end"
        if status < 0:
            return "%s: killed by %s" % (name, signal.Signals(-status).name)
        if uses_pytest(defect) and status not in (0, 1) and " failed" not in output:  # no test was run
            raise ListError("%s: pytest ended with %d:\n%s" % (defect["test"], status, output[-2000:]))
        if status != 0:
            return "%s: %s" % (name, failure(output))
    return None


def check_place(defect):
    lines = (TREE / defect["file"]).read_text().split("\n")
    count = [line.strip() for line in lines].count(defect["old"])
    if count != 1:
        raise ListError("%s has this line %d times: %s" % (defect["file"], count, defect["old"]))


def put_in(defect):
    """Returns what stands in the file without the defect."""
    path = TREE / defect["file"]
    text = path.read_text()
    lines = [line.replace(defect["old"], defect["new"]) if line.strip() == defect["old"] else line
             for line in text.split("\n")]
    path.write_text("\n".join(lines))
    return text


def has_set(defect):
    if "set" not in defect:
        return True
    wanted = defect["set"]
    status, output = call(BUILD / "tests" / "kernels_name", env={**os.environ, "LMC_KERNELS": wanted})
    return status == 0 and output.strip() == wanted


def check_sound(defects):
    """All tests of the list pass without a defect: each is run once."""
    for test in dict.fromkeys(defect["test"] for defect in defects):
        found = find({"test": test})
        if found:
            raise ListError("without a defect, %s" % found)


def main(words):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    defects = [defect for defect in read_defects() if not words or any(word in defect["name"] for word in words)]
    copy_tree()
    for defect in defects:
        check_place(defect)
    must("cmake", "-S", TREE, "-B", BUILD, "-DCMAKE_BUILD_TYPE=Release")
    build(["kernels_name", *(name for defect in defects for name in targets(defect))])
    check_sound(defects)
    for defect in defects:
        if not has_set(defect):
            counts["skipped"] += 1
            print("SKIP %s: this machine does not have %s" % (defect["name"], defect["set"]), flush=True)
            continue
        text = put_in(defect)
        try:
            build(targets(defect))
            found = find(defect)
        finally:
            (TREE / defect["file"]).write_text(text)
        counts["passed" if found else "failed"] += 1
        print("%s: %s" % (defect["name"], "found by " + found if found else "NOT FOUND"), flush=True)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return counts["failed"] > 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ListError as error:
        sys.exit(str(error))
