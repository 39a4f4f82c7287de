"""conftest.py - which of the tests are for this library."""

from bed import BED

# There is one set of tools, whatever library h5py has; they look at the files of all libraries. HDF5 1.10 has no new
# references.
collect_ignore = ["test_references.py"] if BED == "110" else ["test_tools.py"]


def pytest_addoption(parser):
    parser.addoption("--bed", metavar="NAME", help="the library that must be there: 110, 114, 200 or 220")


def pytest_configure(config):
    wanted = config.getoption("--bed")
    if wanted and wanted != BED:
        raise SystemExit(f"this is the HDF5 of {BED}, not of {wanted}")
