"""conftest.py - options and fixtures of the tests in Python, and what is told of tests that did not run."""
import os
import shutil
import signal
import sys
import tempfile

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(ROOT, "tests", "support"))  # modules that several folders import
# a job that a shell has put into the background has SIGINT ignored, and so would have the commands that tests interrupt
signal.signal(signal.SIGINT, signal.default_int_handler)
# Several processes of pytest share the cores: in each of them, a library that starts a thread for each core would only
# take turns with the others.
os.environ.setdefault("OMP_NUM_THREADS", "1")
LEFT_OUT = "left out: "  # begins the reason of a skip that is not counted


def pytest_addoption(parser):
    group = parser.getgroup("lmc", "tests of LMC")
    group.addoption("--build", default=os.path.join(ROOT, "build", "test"), metavar="DIR",
                    help="a build of the project (default: build/test)")
    group.addoption("--tool", metavar="FILE", help="the command lmc-st, if not that of the build")
    group.addoption("--wheel", metavar="FILE", help="a wheel of python/build_wheel.sh")
    group.addoption("--wheels", metavar="DIR", help="the folder with the wheels for all platforms")
    group.addoption("--venvs", metavar="DIR", help="the folder with the environments that scripts/setup.sh makes")
    group.addoption("--cross", metavar="DIR", help="a build for another processor")
    group.addoption("--emulator", metavar="COMMAND", help="runs the programs of that build")
    group.addoption("--sets", metavar="SET,...", help="the kernel sets of that processor")
    group.addoption("--sample", type=int, metavar="N", help="the first N cases of each test function alone")
    group.addoption("--seed", type=int, default=3, metavar="N", help="of random frames, chunks and archives")
    group.addoption("--count", type=int, default=100, metavar="N", help="of random frames and chunks")


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist: what -n auto means
def pytest_xdist_auto_num_workers(config):
    jobs = int(os.environ.get("LMC_JOBS") or len(os.sched_getaffinity(0)))
    return jobs + (jobs + 1) // 2  # tests wait for programs and for time to pass


def pytest_collection_modifyitems(config, items):
    if os.name == "nt" or windows_program(config):
        for item in items:
            for marker in item.iter_markers("posix"):
                what = marker.args[0] if marker.args else "signals, fork() or /proc"
                item.add_marker(pytest.mark.skip(reason=LEFT_OUT + "Windows does not have " + what))
    if config.getoption("--sample"):
        cases = {}
        for item in items:
            cases.setdefault(item.nodeid.split("[")[0], []).append(item)
        chosen = {item for of_function in cases.values() for item in of_function[:config.getoption("--sample")]}
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]


@pytest.fixture(scope="session")
def build(pytestconfig):
    """The folder of a build."""
    return os.path.abspath(pytestconfig.getoption("--build"))


def windows_program(config):
    """The command of a build for Windows; None: the build is for another system."""
    path = os.path.join(os.path.abspath(config.getoption("--build")), "tool", "lmc-st.exe")
    return path if os.path.exists(path) else None


@pytest.fixture(scope="session")
def for_windows(pytestconfig):
    """1 if the programs under test are Windows'."""
    return windows_program(pytestconfig) is not None


@pytest.fixture(scope="session")
def tool_path(pytestconfig, build, tmp_path_factory):
    """The command lmc-st; for Windows, on another system, a script that runs it."""
    program = windows_program(pytestconfig)
    if program is None or sys.platform != "linux" or pytestconfig.getoption("--tool"):
        return os.path.abspath(pytestconfig.getoption("--tool") or program or os.path.join(build, "tool", "lmc-st"))
    script = tmp_path_factory.mktemp("tool") / "lmc-st"
    wine = os.path.join(ROOT, "tests", "support", "wine.sh")
    script.write_text('#!/bin/sh\nexec sh "%s" "%s" "$@"\n' % (wine, program))
    script.chmod(0o755)
    return str(script)


@pytest.fixture(scope="session")
def seed(pytestconfig):
    return pytestconfig.getoption("--seed")


@pytest.fixture(scope="session")
def count(pytestconfig):
    return pytestconfig.getoption("--count")


@pytest.fixture
def directory():
    """A new directory, which is removed after the test. Another user may look into it."""
    path = tempfile.mkdtemp(prefix="lmc-test-")
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


# ---- what is skipped, and what such a build cannot run but another run has: the latter is not counted ----

def reason_of(report):
    return report.longrepr[2].replace("Skipped: ", "", 1) if isinstance(report.longrepr, tuple) else ""


def pytest_report_teststatus(report):
    if report.skipped and reason_of(report).startswith(LEFT_OUT):
        return "left out", "", "LEFT OUT"
    return None


def pytest_terminal_summary(terminalreporter):
    for report in terminalreporter.stats.get("skipped", []):
        terminalreporter.write_line("SKIP %s: %s" % (report.nodeid, reason_of(report)))
    left_out = terminalreporter.stats.get("left out", [])
    reasons = sorted({reason_of(report)[len(LEFT_OUT):] for report in left_out})
    if reasons:
        terminalreporter.write_line("%d tests left out: %s" % (len(left_out), "; ".join(reasons)))
