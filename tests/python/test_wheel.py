"""The wheel (--wheel FILE, as python/build_wheel.sh makes it) in an environment of its own, with no compiler in the
path."""

import importlib
import json
import os
import random
import re
import struct
import subprocess
import sys
import tarfile
import zipfile

import pytest

GLIBC = (2, 17)
SYSTEM_LIBRARY = re.compile(r"^(lib(c|m|dl|pthread|rt)\.so\.\d+|ld-linux[\w-]*\.so\.\d+)$")
NATIVE = ["hdf5/libh5lmc.so", "liblmc_st.so"]
ELF = b"\x7fELF"
CHECKS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "checks")
SETS = [None, "scalar", "avx2", "avx2-nopext", "avx512"]


@pytest.fixture(scope="module")
def wheel(pytestconfig):
    path = pytestconfig.getoption("--wheel")
    if not path:
        pytest.skip("left out: the wheel, which the part `wheels` of tests/run.sh builds")
    return os.path.abspath(path)


@pytest.fixture(scope="module")
def venv(wheel, tmp_path_factory):
    """The programs of a new environment that has the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("wheel") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    bin_dir = str(folder / "bin")
    subprocess.run([os.path.join(bin_dir, "python"), "-m", "pip", "install", "-q", "--no-index", "--no-deps", wheel],
                   check=True, env={"PATH": bin_dir})
    return bin_dir


def run(venv, *command, status=0, **environment):
    """Runs a program of the environment; returns what it prints."""
    done = subprocess.run([os.path.join(venv, command[0]), *command[1:]], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={"PATH": venv, **environment}, timeout=120)
    assert done.returncode == status, (command, done.returncode, done.stderr)
    return done.stdout.decode()


def python(venv, program, **environment):
    return run(venv, "python", "-c", program, **environment).strip()


@pytest.fixture(scope="module")
def native_dir(venv):
    return python(venv, "import lmcodec, os; print(os.path.dirname(lmcodec.PLUGIN_PATH))")


# ---- what is in it ----

def test_name(wheel):
    """One wheel for every Python 3."""
    name = os.path.basename(wheel)
    assert re.match(r"^lmcodec-[0-9.]+-py3-none-(manylinux2014_\w+\.|manylinux_2_17_\w+\.?)+whl$", name), name


def test_contents(wheel):
    """Nothing was grafted, and no native file lies elsewhere."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    folders = {name.split("/")[0].split("-")[0] for name in names}
    assert folders == {"lmcodec"}, folders
    assert [name.split("/", 1)[1] for name in names if ".data/" in name] == ["scripts/lmc-st"]
    assert sorted(name for name in names if "/_native/" in name) == [f"lmcodec/_native/{name}" for name in NATIVE]
    assert [name for name in names if re.search(r"\.so\b", name) and "/_native/" not in name] == []
    for notice in ("LICENSE", "third_party/cjson/LICENSE", "third_party/licenses/zstd.txt"):
        assert [name for name in names if name.endswith(".dist-info/licenses/" + notice)], notice


def test_metadata(wheel):
    """What a package index shows: its links are absolute, for it has no other files of the project."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        head, _, text = archive.read(name).decode().partition("\n\n")
    for field in ("Author", "Keywords", "Classifier", "Project-URL", "License-Expression"):
        assert re.search(r"^%s: ." % field, head, re.M), field
    assert "Provides-Extra: all\n" in head and "lmcodec.transformers" in text
    assert all("://" in target for target in re.findall(r"\]\(([^)]+)\)", text))


def test_source_distribution(wheel, tmp_path):
    """It has no large data: neither the corpora of the tests nor the weights of the examples."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    made_by = os.path.join(root, "build", "venv-wheel", "bin", "python")
    subprocess.run([made_by, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(tmp_path), root], check=True,
                   stdout=subprocess.DEVNULL)
    [name] = os.listdir(tmp_path)
    assert os.path.getsize(tmp_path / name) < 3 << 20
    with tarfile.open(tmp_path / name) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "include/lmc_st.h", "python/lmcodec/torch.py", "docs/python.md"} <= names
    assert not any(name.startswith(("examples/data/", "tests/format/vectors/", "tests/fuzz/corpus/")) for name in names)


def test_entry_points(wheel):
    """Zarr, numcodecs, vLLM, fsspec and pip read these; they name things that the wheel has."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
        lines = [line.replace(" ", "") for line in archive.read(name).decode().splitlines() if line]
        sources = {path: archive.read("lmcodec/%s.py" % path).decode()
                   for path in ("zarr", "numcodecs", "vllm", "fsspec")}
    found = {group: entry for group, entry in zip(lines[::2], lines[1::2])}
    assert found == {"[zarr.codecs]": "lmc=lmcodec.zarr:LmcCodec", "[numcodecs.codecs]": "lmc=lmcodec.numcodecs:Lmc",
                     "[zarr.data_type]": "bfloat16=lmcodec._chunks.zarr_bfloat16:registered",
                     "[vllm.general_plugins]": "lmc=lmcodec.vllm:register",
                     "[fsspec.specs]": "lmc=lmcodec.fsspec:LMCFileSystem"}
    for path, text in (("zarr", "class LmcCodec("), ("numcodecs", "class Lmc("), ("vllm", "def register("),
                       ("fsspec", "class LMCFileSystem(")):
        assert text in sources[path]


def test_the_command_starts_without_python(venv):
    with open(os.path.join(venv, "lmc-st"), "rb") as file:
        assert file.read(4) == ELF


@pytest.mark.parametrize("name", [*NATIVE, "lmc-st"])
def test_needs(native_dir, venv, name):
    """A file of the wheel needs the C library alone, of glibc 2.17 at most."""
    path = os.path.join(venv if name == "lmc-st" else native_dir, name)
    text = subprocess.run(["readelf", "-dVW", path], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
    assert needed and [library for library in needed if not SYSTEM_LIBRARY.match(library)] == []
    versions = {tuple(map(int, version.split("."))) for version in re.findall(r"Name: GLIBC_([0-9.]+)", text)}
    assert versions and max(versions) <= GLIBC


def test_run_path(native_dir, venv, monkeypatch):
    """No file of the wheel is loaded with what lies in the current directory."""
    monkeypatch.syspath_prepend(CHECKS)
    check = importlib.import_module("check_run_path")
    assert list(check.faults(native_dir)) == [] and check.run_paths(os.path.join(venv, "lmc-st")) == []


def test_exports(native_dir):
    """The library shows LMC's calls and no name of what is inside it."""
    text = subprocess.run(["nm", "-D", "--defined-only", os.path.join(native_dir, "liblmc_st.so")],
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    names = {line.split()[2].split("@")[0] for line in text.splitlines()}
    assert {"lmc_encode", "lmc_st_convert", "lmc_h5_encode_chunk"} <= names
    assert sorted(name for name in names if not name.startswith("lmc_")) == []


# ---- what it does ----

def test_version(venv, wheel):
    version = os.path.basename(wheel).split("-")[1]
    assert run(venv, "lmc-st", "--version").split()[-1] == version
    assert python(venv, "import lmcodec; print(lmcodec.__version__)") == version
    assert python(venv, "import importlib.metadata as m; print(m.version('lmcodec'))") == version


def test_module(venv):
    """`python -m lmcodec` is lmc-st, its exit status included."""
    assert run(venv, "python", "-m", "lmcodec", "--version") == run(venv, "lmc-st", "--version")
    run(venv, "python", "-m", "lmcodec", "no-such-command", status=2)
    run(venv, "lmc-st", "no-such-command", status=2)


def test_no_kernels_for_gpus(venv):
    """What has not run on a device is not in the wheel."""
    assert python(venv, "from lmcodec._cuda import cuda_abi; print(cuda_abi.calls())") == "None"


def test_doctor(venv, native_dir):
    """The command finds the plugin, and HDF5 would find it in PLUGIN_PATH, where it finds nothing else."""
    plugin_path = python(venv, "import lmcodec; print(lmcodec.PLUGIN_PATH)")
    assert os.listdir(plugin_path) == ["libh5lmc.so"]
    found = json.loads(run(venv, "lmc-st", "doctor", "--json"))
    assert found["plugin_path"] == os.path.realpath(os.path.join(plugin_path, "libh5lmc.so"))
    assert found["problems"] == []
    found = json.loads(run(venv, "lmc-st", "doctor", "--json", HDF5_PLUGIN_PATH=plugin_path))
    assert found["problems"] == []
    assert [entry["lmc"] for entry in found["plugin_path_entries"]] == ["this"]


@pytest.mark.parametrize("wanted", SETS, ids=[name or "default" for name in SETS])
def test_kernels(venv, native_dir, build, wanted):
    """The command and the library use the kernel set that a build by this machine's compiler uses."""
    environment = {"LMC_KERNELS": wanted} if wanted else {}
    usual = subprocess.run([os.path.join(build, "tests", "kernels_name")], env=environment, stdout=subprocess.PIPE,
                           text=True, check=True).stdout.strip()
    program = ("import ctypes; library = ctypes.CDLL(%r); library.lmc_kernels_name.restype = ctypes.c_char_p; "
               "print(library.lmc_kernels_name().decode())" % os.path.join(native_dir, "liblmc_st.so"))
    assert python(venv, program, **environment) == usual
    available = json.loads(run(venv, "lmc-st", "doctor", "--json"))["kernels_available"]
    status = 0 if not wanted or wanted in available else 3  # the doctor says that this machine lacks that set
    assert json.loads(run(venv, "lmc-st", "doctor", "--json", status=status, **environment))["kernels"] == usual


def test_kernels_available(venv, tool_path):
    usual = json.loads(subprocess.run([tool_path, "doctor", "--json"], stdout=subprocess.PIPE, check=True).stdout)
    assert json.loads(run(venv, "lmc-st", "doctor", "--json"))["kernels_available"] == usual["kernels_available"]


def write_model(path, count=40000):
    """A file of one BF16 tensor with values as in a model."""
    values = random.Random(5)
    data = b"".join(struct.pack("<f", values.gauss(0, 0.02))[2:] for _ in range(count))
    header = json.dumps({"weight": {"dtype": "BF16", "shape": [count], "data_offsets": [0, len(data)]}}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def test_convert_and_restore(venv, directory, tool_path):
    """A file goes there and back, and the archive is that of the usual build."""
    model, archive, usual, back = (os.path.join(directory, name) for name in ("m", "m.lmc", "usual.lmc", "back"))
    write_model(model)
    run(venv, "lmc-st", "convert", "-q", model)
    assert os.path.getsize(archive) < 0.8 * os.path.getsize(model)
    run(venv, "lmc-st", "verify", "-q", archive)
    run(venv, "lmc-st", "restore", "-q", archive, "-o", back)
    assert read(back) == read(model)
    subprocess.run([tool_path, "convert", "-q", model, "-o", usual], check=True)
    assert read(archive) == read(usual)


def test_directories(venv, directory):
    """A directory is replaced at once, and an input removed, without the call that old versions of glibc lack."""
    folder, archive = os.path.join(directory, "models"), os.path.join(directory, "models.lmc")
    os.mkdir(folder)
    write_model(os.path.join(folder, "a.safetensors"))
    run(venv, "lmc-st", "convert", "-q", folder)
    write_model(os.path.join(folder, "b.safetensors"), 1000)
    run(venv, "lmc-st", "convert", "-q", "--force", "--rm", folder)
    assert sorted(os.listdir(directory)) == ["models.lmc"]
    run(venv, "lmc-st", "restore", "-q", archive, "-o", folder)
    assert sorted(os.listdir(folder)) == ["a.safetensors", "b.safetensors"]
