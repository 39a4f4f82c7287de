"""conftest.py - options of the tests, and their result as a file for run.py."""

import json

from bed import BED

# There is one set of tools, whatever library h5py has; they look at the files of all libraries. HDF5 1.10 has no new
# references.
collect_ignore = ["test_references.py"] if BED == "110" else ["test_tools.py"]


def pytest_addoption(parser):
    parser.addoption("--lmc-report", metavar="FILE", help="write counts to FILE as JSON")
    parser.addoption("--lmc-bed", metavar="NAME", help="the library that must be there: 110, 114, 200 or 220")


def pytest_configure(config):
    wanted = config.getoption("--lmc-bed")
    if wanted and wanted != BED:
        raise SystemExit(f"this is the HDF5 of {BED}, not of {wanted}")


class Counts:
    """Results so far. A test that fails in its set-up or clean-up counts as failed, once."""

    def __init__(self):
        self.of_test = {}
        self.reasons = []

    def add(self, report):
        if report.skipped:
            self.reasons.append((report.nodeid, report.longrepr[2]))
            self.of_test.setdefault(report.nodeid, "skipped")
        elif report.failed:
            self.of_test[report.nodeid] = "failed"
        elif report.when == "call":
            self.of_test.setdefault(report.nodeid, "passed")

    def count(self, what):
        return list(self.of_test.values()).count(what)


counts = Counts()


def pytest_runtest_logreport(report):
    counts.add(report)


def pytest_collectreport(report):
    if not report.passed:
        counts.add(report)


def pytest_sessionfinish(session):
    path = session.config.getoption("--lmc-report")
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"passed": counts.count("passed"), "failed": counts.count("failed"), "skipped": counts.reasons},
                      file)
