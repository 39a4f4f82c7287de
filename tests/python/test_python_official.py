"""The tests of the safetensors package run against lmcodec. What differs is written down here, with the reason."""
import glob
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree

import pytest

safetensors = pytest.importorskip("safetensors", reason="safetensors is not installed")
pytest.importorskip("torch", reason="torch is not installed (Debian: python3-torch)")

VERSION = "0.8.0"
HERE = os.path.dirname(os.path.abspath(__file__))
FILES = ("test_simple", "test_pt_comparison", "test_pt_model", "test_pread_backend", "test_multithreaded",
         "test_handle", "test_flax_comparison")

# By what is written, the tests that fail, and why. What no test of safetensors sees is different, too:
#  - an index of another framework than torch may have steps and negative bounds, which safetensors ignores or refuses;
#    more indices than dimensions are refused, where safetensors ignores those that are too many;
#  - a file that is no safetensors file may be one of torch, of numpy or of llama.cpp: it opens;
#  - numpy.save_file() refuses arrays that are not contiguous, of which safetensors writes other bytes;
#  - bf16, fp8 and fp4 of numpy come from ml_dtypes, which is imported; safetensors wants the caller to do it.
NO_FILE_TEXT = "OSError has errno and filename, and the text that Python makes of them"
BYTES = "an archive has other bytes than a safetensors file"
DIFFERENCES = {
    "plain": {
        "ErrorsTestCase.test_file_not_found": NO_FILE_TEXT,
    },
    "archive": {
        "ErrorsTestCase.test_file_not_found": NO_FILE_TEXT,
        "TestCase.test_serialization": BYTES,
        "TestCase.test_serialization_forces_alignment": BYTES,
        "TestCase.test_serialization_metadata": BYTES,
        "TestCase.test_serialization_no_big_endian": BYTES,
        "TorchTestCase.test_complex": BYTES,
        "TorchTestCase.test_in_memory": BYTES,
        "TorchTestCase.test_serialization": BYTES,
        "TorchModelTestCase.test_save": BYTES,
    },
}


@pytest.fixture(scope="session")
def official_tests(pytestconfig):
    """The folder of the tests of safetensors."""
    folder = os.path.join(os.path.dirname(os.path.abspath(pytestconfig.getoption("--build"))), "safetensors-tests")
    tests = os.path.join(folder, "safetensors-" + VERSION, "bindings", "python", "tests")
    if not os.path.isdir(tests):
        fetch(folder)
    return tests


def fetch(folder):
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-build-isolation", "--no-binary",
               "safetensors", "--dest", folder, "safetensors==" + VERSION]
    done = subprocess.run(command, capture_output=True, text=True,
                          env=dict(os.environ, PYTHONPATH=os.path.join(HERE, "fetch")))
    if done.returncode:
        pytest.skip("the package index does not give the source of safetensors %s" % VERSION)
    with tarfile.open(glob.glob(os.path.join(folder, "*.tar.gz"))[0]) as packed:
        packed.extractall(folder, [member for member in packed if "/tests/" in member.name])


def outcomes(report):
    """Name of each test that ran, and whether it passed."""
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        name = ".".join([*case.get("classname").split(".")[2:], case.get("name")])
        failure = case.find("failure")
        lacks_module = failure is not None and "ModuleNotFoundError" in failure.get("message", "")
        if case.find("skipped") is None and not lacks_module:
            yield name, failure is None and case.find("error") is None


@pytest.mark.parametrize("written", ["plain", "archive"])
def test_official_tests_of_safetensors(official_tests, directory, written):
    shutil.copytree(official_tests, os.path.join(directory, "tests"))
    files = [os.path.join("tests", name + ".py") for name in FILES
             if "flax" not in name or importlib.util.find_spec("jax")]
    environment = dict(os.environ, LMCODEC_ADAPTER=written,
                       PYTHONPATH=os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "official_adapter", "-p", "no:cacheprovider", "-p", "no:xdist",
         "--rootdir", directory, "--junit-xml", "report.xml", "-W", "ignore", *files],
        cwd=directory, env=environment, capture_output=True, text=True)
    found = dict(outcomes(os.path.join(directory, "report.xml")))
    failed = {name for name, passed in found.items() if not passed}
    expected = {name for name in DIFFERENCES[written] if name in found}
    assert len(found) > 40, done.stdout
    assert failed == expected, done.stdout[-6000:]
