"""The package lmcodec in a Python for Windows, under Wine.

scripts/setup.sh makes that Python (lmc_windows_python). The package is that of a wheel for Windows (--wheel), or of
this tree with the libraries of a build for Windows (--cross), which was configured with LMC_BUILD_PYTHON.
"""
import json
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
WINE = os.path.join(ROOT, "tests", "support", "wine.sh")
EXCHANGE = os.path.join(HERE, "exchange.py")
MODULES = ["abi", "changes", "codec", "document", "files", "h5", "h5_repack", "import", "interrupt", "into",
           "narrow", "numpy", "open", "run", "shown", "store", "system"]


def windows(path):
    """A path of this machine as Wine's programs have it."""
    return "Z:" + os.path.abspath(path).replace("/", "\\")


def copy_built(build, site):
    """The package of this tree as a wheel has it."""
    names = [os.path.join(build, "python", name) for name in ("lmc_st.dll", "liblmc_st.dll")]
    library = next(filter(os.path.exists, names), None)
    if library is None:
        pytest.skip("the build for Windows has no library for Python: LMC_BUILD_PYTHON=ON")
    native = os.path.join(site, "lmcodec", "_native")
    shutil.copytree(os.path.join(ROOT, "python", "lmcodec"), os.path.join(site, "lmcodec"),
                    ignore=shutil.ignore_patterns("__pycache__"))
    os.makedirs(os.path.join(native, "hdf5"))
    os.makedirs(os.path.join(site, "bin"))
    shutil.copy(library, native)
    shutil.copy(os.path.join(build, "filter", "plugin", "h5lmc.dll"), os.path.join(native, "hdf5"))
    shutil.copy(os.path.join(build, "tool", "lmc-st.exe"), os.path.join(site, "bin"))


def unpack_wheel(wheel, site):
    with zipfile.ZipFile(wheel) as file:
        file.extractall(site)
    scripts = [os.path.join(site, name, "scripts") for name in os.listdir(site) if name.endswith(".data")]
    os.rename(scripts[0], os.path.join(site, "bin"))  # where pip install --target puts them


class Python:
    """python.exe with the package."""

    def __init__(self, folder, site):
        self.folder, self.site = folder, site
        self.environment = {**os.environ, "PYTHONPATH": windows(site), "PYTHONDONTWRITEBYTECODE": "1",
                            "PYTHONUTF8": "1"}
        self.environment.pop("LMCODEC_LIBRARY_DIR", None)

    def run(self, *arguments, program=None, **more):
        """What it prints. Python under Wine wants a pipe for its output."""
        done = subprocess.run(["sh", WINE, program or os.path.join(self.folder, "python.exe"), *arguments],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=1800,
                              env={**self.environment, **more})
        self.returncode = done.returncode
        self.shown = (done.stdout + done.stderr).decode("utf-8", "replace")
        return done.stdout.decode().replace("\r\n", "\n")


@pytest.fixture(scope="session")
def python(pytestconfig, tmp_path_factory):
    folder = os.path.join(os.path.abspath(pytestconfig.getoption("--venvs") or os.path.join(ROOT, "build")),
                          "windows-python")
    if not os.path.exists(os.path.join(folder, "packages")):
        pytest.skip("there is no build/windows-python: lmc_windows_python of scripts/setup.sh makes it")
    if shutil.which("wine") is None:
        pytest.skip("needs Wine (Debian: wine wine64)")
    wheel, build = pytestconfig.getoption("--wheel"), pytestconfig.getoption("--cross")
    site = str(tmp_path_factory.mktemp("site"))
    if wheel:
        unpack_wheel(wheel, site)
    else:
        copy_built(os.path.abspath(build or os.path.join(ROOT, "build", "windows")), site)
    return Python(folder, site)


def test_python_is_one_of_windows(python):
    shown = python.run("-c", "import sys, os, lmcodec; print(sys.platform, os.sep, lmcodec.PLUGIN_PATH)")
    assert shown.startswith("win32 \\ ") and shown.rstrip().endswith("\\lmcodec\\_native\\hdf5"), python.shown


def test_files_go_to_linux_and_back(python, directory):
    """Frames, archives and chunks are the same bytes, and each system reads the files of the other."""
    here, there = os.path.join(directory, "here"), os.path.join(directory, "there")
    os.mkdir(here)
    os.mkdir(there)
    own = subprocess.run([sys.executable, EXCHANGE, "write", here], stdout=subprocess.PIPE, check=True).stdout
    shown = python.run(windows(EXCHANGE), "write", windows(there))
    assert python.returncode == 0, python.shown
    own, theirs = json.loads(own), json.loads(shown)
    assert len(theirs) > 15 and {name: theirs[name] for name in own} == own
    assert python.run(windows(EXCHANGE), "read", windows(here)) == "read\n", python.shown
    told = subprocess.run([sys.executable, EXCHANGE, "read", there], stdout=subprocess.PIPE, check=True).stdout
    assert told.startswith(b"read")


@pytest.mark.parametrize("module", MODULES)
def test_tests_of_the_package(python, module):
    python.run("-m", "pytest", "-q", windows(os.path.join(ROOT, "tests", "python", "test_python_%s.py" % module)))
    assert python.returncode == 0 and " passed" in python.shown, python.shown[-6000:]


def test_the_command(python):
    shown = python.run("-m", "lmcodec", "--version")
    assert shown.startswith("lmc-st ") and python.returncode == 0, python.shown
    python.run("-m", "lmcodec", "info", "no-such-file")
    assert python.returncode == 3 and "no-such-file" in python.shown


# ---- HDF5 ----

def test_h5py_finds_the_plugin(python, directory):
    """By HDF5_PLUGIN_PATH, and by h5py.h5pl, without the package's module. Before h5py 3.8 the HDF5 of h5py is found by
    its name."""
    path = windows(os.path.join(directory, "a.h5"))
    written = "import h5py, lmcodec.h5; h5py.File(%r, 'w').create_dataset('w', data=[3.5] * 99999, chunks=(50000,), " \
              "compression=lmcodec.h5.LMC())" % path
    older = "import h5py; del h5py.h5z.register_filter; "
    read = "import h5py; %s print(h5py.File(%r)['w'][5])"
    folder = windows(os.path.join(python.site, "lmcodec", "_native", "hdf5"))
    python.run("-c", older + written)
    assert python.returncode == 0, python.shown
    assert python.run("-c", read % ("", path), HDF5_PLUGIN_PATH="C:\\none;" + folder) == "3.5\n", python.shown
    assert python.run("-c", read % ("h5py.h5pl.append(%r.encode());" % folder, path)) == "3.5\n", python.shown
    python.run("-c", read % ("", path))
    assert python.returncode == 1 and "OSError: " in python.shown


@pytest.fixture(scope="session")
def h5_program(python, tmp_path_factory):
    """Calls the program with the hdf5.dll of h5py's wheel."""
    compiler = shutil.which("x86_64-w64-mingw32-gcc")
    if compiler is None:
        pytest.skip("needs MinGW's compiler (Debian: gcc-mingw-w64-x86-64)")
    program = str(tmp_path_factory.mktemp("program") / "h5_program.exe")
    source = os.path.join(HERE, "h5_program.c")
    subprocess.run([compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", source, "-o", program], check=True)
    library = windows(os.path.join(python.folder, "Lib", "site-packages", "h5py", "hdf5.dll"))

    def call(*arguments, **more):
        python.run(library, *arguments, program=program, **more)
        return python.returncode
    return call


def test_a_program_with_another_runtime(python, h5_program, directory):
    """The library that HDF5 loads is found by its address, whatever has loaded it."""
    folder, path = windows(os.path.join(python.site, "lmcodec", "_native", "hdf5")), os.path.join(directory, "p.h5")
    assert h5_program("write", windows(path), HDF5_PLUGIN_PATH=folder) == 0, python.shown
    assert h5_program("read", windows(path), HDF5_PLUGIN_PATH="C:\\none;" + folder) == 0, python.shown
    assert h5_program("read", windows(path), folder) == 0, python.shown
    assert h5_program("read", windows(path)) == 1  # the filter is nowhere


def test_a_program_reads_what_linux_wrote(python, h5_program, directory):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed (Debian: python3-h5py)")
    import numpy
    import lmcodec.h5
    count = numpy.arange(256 * 512, dtype="u4")
    values = ((count * numpy.uint32(2654435761) >> 12).astype("f4") / 1048576).reshape(256, 512)
    folder, path = windows(os.path.join(python.site, "lmcodec", "_native", "hdf5")), os.path.join(directory, "p.h5")
    with h5py.File(path, "w") as file:
        file.create_dataset("w", data=values, chunks=(64, 512), compression=lmcodec.h5.LMC("max"))
    assert h5_program("read", windows(path), folder) == 0, python.shown
    assert h5_program("write", windows(path), HDF5_PLUGIN_PATH=folder) == 0, python.shown
    with h5py.File(path, "r") as file:
        assert (file["w"][()] == values).all()
