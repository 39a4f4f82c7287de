"""package_of_tree.py - the package lmcodec of this tree, with the library of the build, unless one is installed."""
import importlib.util
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def use(config):
    """Children of the tests import the same package."""
    if importlib.util.find_spec("lmcodec") is not None:
        return
    os.environ["LMCODEC_LIBRARY_DIR"] = os.path.abspath(config.getoption("--build"))
    folder = os.path.join(ROOT, "python")
    sys.path.insert(0, folder)
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = folder + (os.pathsep + others if others else "")
