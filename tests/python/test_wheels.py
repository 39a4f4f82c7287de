"""The wheels for all platforms (--wheels FOLDER, as `python/build_wheel.sh all` fills it): what is in them, and what
runs here of those that no Python of this machine takes: natively, by QEMU or by Wine. test_wheel.py uses this
machine's."""

import base64
import csv
import glob
import hashlib
import os
import platform
import re
import shutil
import subprocess
import zipfile

import native_file
import pytest
from test_wheel import GLIBC, SYSTEM_LIBRARY, read, write_model

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TAGS = {
    "manylinux-x86_64": r"manylinux_2_17_x86_64\.manylinux2014_x86_64|manylinux2014_x86_64\.manylinux_2_17_x86_64",
    "manylinux-aarch64": r"manylinux_2_17_aarch64\.manylinux2014_aarch64|manylinux2014_aarch64\.manylinux_2_17_aarch64",
    "musllinux-x86_64": "musllinux_1_1_x86_64",
    "musllinux-aarch64": "musllinux_1_1_aarch64",
    "macos-arm64": "macosx_11_0_arm64",
    "macos-x86_64": "macosx_11_0_x86_64",
    "windows-x86_64": "win_amd64",
}
LINUX = [name for name in TAGS if "linux" in name]
MACOS = [name for name in TAGS if name.startswith("macos")]
WINDOWS = ["windows-x86_64"]
RUN = ["manylinux-x86_64", "manylinux-aarch64", "musllinux-x86_64", "windows-x86_64"]
ELF_MACHINES = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}
WINDOWS_LIBRARY = re.compile(r"(kernel32|ntdll|advapi32|shell32|api-ms-win-crt-[a-z]+-l1-1-0)\.dll")
# of the linker: where the file's head and the object itself are
MACHO_NAMES = {"__mh_dylib_header", "__mh_execute_header", "___dso_handle"}
# what musl has had since 1.2 only, as far as a C library of this kind may be asked for it
NEWER_THAN_MUSL_1_1 = {"gettid", "pthread_getname_np", "qsort_r", "reallocarray", "renameat2", "statx", "preadv2",
                       "pwritev2", "_Fork", "posix_getdents"}
LOAD = r"""
#include <stdio.h>
#ifdef _WIN32
#include <windows.h>
#define OPEN(path) LoadLibraryA(path)
#define SYMBOL(library, name) (void *)GetProcAddress(library, name)
#else
#include <dlfcn.h>
#define OPEN(path) dlopen(path, RTLD_NOW | RTLD_LOCAL)
#define SYMBOL(library, name) dlsym(library, name)
#endif

int main(int count, char **arguments)
{
    unsigned (*const version)(void) = (unsigned (*)(void))SYMBOL(OPEN(arguments[1]), "lmc_version_number");
    int (*const type)(void) = (int (*)(void))SYMBOL(OPEN(arguments[2]), "H5PLget_plugin_type");
    return count == 3 && printf("%u %d\n", version(), type()) > 0 ? 0 : 1;
}
"""


class Wheel:
    """A wheel, unpacked: its folder and its native files."""

    def __init__(self, name, path, folder):
        self.name, self.path, self.folder = name, path, folder
        self.machine = name.split("-")[1]
        library, plugin, command = ("lmc_st.dll", "h5lmc.dll", "lmc-st.exe") if name in WINDOWS else (
            "liblmc_st.so", "libh5lmc.so", "lmc-st")
        self.version = os.path.basename(path).split("-")[1]
        self.inside = ["lmcodec/_native/hdf5/" + plugin, "lmcodec/_native/" + library,
                       "lmcodec-%s.data/scripts/%s" % (self.version, command)]
        self.plugin, self.library, self.command = (os.path.join(folder, *name.split("/")) for name in self.inside)
        self.files = [self.plugin, self.library, self.command]

    def text(self, name):
        with open(os.path.join(self.folder, "lmcodec-%s.dist-info" % self.version, name), encoding="utf-8") as file:
            return file.read()


@pytest.fixture(scope="module")
def wheels(pytestconfig, tmp_path_factory):
    """Unpacks the wheel of a platform once."""
    folder = pytestconfig.getoption("--wheels")
    if not folder:
        pytest.skip("left out: the wheels, which the part `wheels` of tests/run.sh builds")
    made = {}

    def unpacked(name):
        if name not in made:
            pattern = re.compile(r"lmcodec-[0-9.]+-py3-none-(%s)\.whl" % TAGS[name])
            file = next(filter(pattern.fullmatch, os.listdir(folder)), None)
            if file is None:
                pytest.skip("left out: wheels of other platforms, which the part `wheels` of tests/run.sh builds")
            target = tmp_path_factory.mktemp(name)
            with zipfile.ZipFile(os.path.join(folder, file)) as archive:
                archive.extractall(target)
            made[name] = Wheel(name, os.path.join(folder, file), str(target))
        return made[name]

    return unpacked


@pytest.fixture
def wheel(wheels, request):
    return wheels(request.param)


def each(names):
    return pytest.mark.parametrize("wheel", names, indirect=True)


# ---- what is in them ----

@each(TAGS)
def test_tags(wheel):
    """The name of a wheel and its metadata say the same of what it runs on."""
    tags = os.path.basename(wheel.path)[:-len(".whl")].split("-")[-1].split(".")
    found = re.findall(r"^Tag: (.+)$", wheel.text("WHEEL"), re.M)
    assert sorted(found) == sorted("py3-none-" + tag for tag in tags)
    assert re.search(r"^Root-Is-Purelib: false$", wheel.text("WHEEL"), re.M)
    assert re.search(r"^Version: %s$" % re.escape(wheel.version), wheel.text("METADATA"), re.M)


@each(TAGS)
def test_record(wheel):
    """RECORD has every file, with its hash and size."""
    record = "lmcodec-%s.dist-info/RECORD" % wheel.version
    with zipfile.ZipFile(wheel.path) as archive:
        names = sorted(name for name in archive.namelist() if not name.endswith("/"))
    rows = {row[0]: row[1:] for row in csv.reader(wheel.text("RECORD").splitlines())}
    assert sorted(rows) == names and rows.pop(record) == ["", ""]
    for name, (written, nbytes) in rows.items():
        data = read(os.path.join(wheel.folder, *name.split("/")))
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        assert (written, int(nbytes)) == ("sha256=" + digest, len(data)), name


@each(TAGS)
def test_contents(wheel, wheels):
    """The native files are those of the platform; all others are the same in every wheel."""
    def others(one):
        paths = [os.path.relpath(os.path.join(folder, name), one.folder)
                 for folder, _, names in os.walk(one.folder) for name in names]
        assert set(one.inside) < set(paths)
        return {path: read(os.path.join(one.folder, path)) for path in paths
                if path not in one.inside and os.path.basename(path) not in ("RECORD", "WHEEL")}

    found = others(wheel)
    assert not [path for path in found if re.search(r"\.(so|dll|dylib|exe|pdb|lib|a)\b", path)]
    assert found == others(wheels("manylinux-x86_64"))
    if wheel.name not in WINDOWS:
        with zipfile.ZipFile(wheel.path) as archive:
            assert archive.getinfo(wheel.inside[2]).external_attr >> 16 & 0o111 == 0o111


@each(TAGS)
def test_no_path_of_the_build(wheel):
    for path in wheel.files:
        data = read(path)
        assert ROOT.encode() not in data and b"/ziglang/" not in data and b".zig-cache" not in data, path


@each(LINUX)
def test_linux(wheel):
    """An ELF file needs the C library alone, and looks along no path of its own."""
    for path in wheel.files:
        text = subprocess.run(["readelf", "-hdVW", path], stdout=subprocess.PIPE, text=True, check=True,
                              env={**os.environ, "LC_ALL": "C"}).stdout
        assert ELF_MACHINES[wheel.machine] in text and "RPATH" not in text and "RUNPATH" not in text
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
        versions = {tuple(map(int, found.split("."))) for found in re.findall(r"Name: GLIBC_([0-9.]+)", text)}
        if wheel.name.startswith("musl"):
            assert needed == ["libc.so"] and not versions
            assert not names_of(path, "--undefined-only") & NEWER_THAN_MUSL_1_1
        else:
            assert needed and not [library for library in needed if not SYSTEM_LIBRARY.match(library)]
            assert versions and max(versions) <= GLIBC


def names_of(path, which):
    text = subprocess.run(["nm", "-D", which, path], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in text.splitlines()}


@each(MACOS)
def test_macos(wheel):
    """A Mach-O file is for macOS 11.0, and needs the system's library alone. Its name depends on no folder."""
    for path in wheel.files:
        file = native_file.MachO(read(path))
        assert (file.processor, file.least, file.run_paths) == (wheel.machine, (11, 0), [])
        assert file.needs == ["/usr/lib/libSystem.B.dylib"]
        library = path != wheel.command
        assert file.kind == ("library" if library else "program")
        assert file.name == ("@rpath/" + os.path.basename(path) if library else None)


@each(["macos-arm64"])
def test_signature(wheel):
    """Macs with Apple's processors run signed files alone. Every page of a file has the hash that was signed."""
    for path in wheel.files:
        file = native_file.MachO(read(path))
        assert file.signature and list(file.signature_faults()) == []


def test_signature_faults(wheels):
    """The check above finds a byte that was changed after the file had been signed."""
    data = bytearray(read(wheels("macos-arm64").library))
    data[0x5000] ^= 1
    assert list(native_file.MachO(bytes(data)).signature_faults()) == ["page 1 has another hash"]


@each(WINDOWS)
def test_windows(wheel):
    """A PE file needs libraries of the system alone: they are on every Windows 10. It may lie anywhere in memory, and
    names no file for a debugger."""
    for path in wheel.files:
        file = native_file.PE(read(path))
        assert file.processor == wheel.machine and file.kind == ("program" if path == wheel.command else "library")
        assert not [name for name in file.needs if not WINDOWS_LIBRARY.fullmatch(name.lower())]
        high_entropy, dynamic_base, no_execution = 0x20, 0x40, 0x100
        wanted = high_entropy | dynamic_base | no_execution
        assert file.characteristics & wanted == wanted and b".pdb" not in read(path)


def exports(wheel, path):
    if wheel.name in LINUX:
        return names_of(path, "--defined-only")
    if wheel.name in MACOS:
        return {name[1:] for name in native_file.MachO(read(path)).exports if name not in MACHO_NAMES}
    return set(native_file.PE(read(path)).exports)


@each(TAGS)
def test_exports(wheel):
    """The files show LMC's calls and no name of what is inside them; the library shows the same everywhere."""
    library, plugin, command = (exports(wheel, path) for path in (wheel.library, wheel.plugin, wheel.command))
    assert {"lmc_encode", "lmc_st_convert", "lmc_h5_encode_chunk"} <= library
    assert {"H5PLget_plugin_type", "H5PLget_plugin_info"} <= plugin
    plugin -= {"H5PLget_plugin_type", "H5PLget_plugin_info"}
    assert not [name for name in library | plugin if not name.startswith("lmc_")]
    # a program of Linux shows what its C library is to find in it
    assert wheel.name in LINUX or not [name for name in command if not name.startswith("lmc_")]


@each([name for name in TAGS if name != "manylinux-x86_64"])
def test_library_exports(wheel, wheels):
    """The library shows the same calls on each platform."""
    other = wheels("manylinux-x86_64")
    assert exports(wheel, wheel.library) == exports(other, other.library)


# ---- what they do ----

def runner(wheel):
    """What a command line for a program of the wheel begins with."""
    if wheel.name == "windows-x86_64":
        if not shutil.which("wine"):
            pytest.skip("needs Wine (Debian: wine wine64)")
        return ["sh", os.path.join(ROOT, "tests", "support", "wine.sh")]
    own = wheel.machine == platform.machine()
    if wheel.name.startswith("musl"):
        if not own or not os.path.exists("/lib/ld-musl-%s.so.1" % wheel.machine):
            pytest.skip("needs musl for %s (Debian: musl)" % wheel.machine)
        return []
    if own:
        return []
    if not shutil.which("qemu-" + wheel.machine) or not os.path.isdir("/usr/%s-linux-gnu" % wheel.machine):
        pytest.skip("needs QEMU and a C library for %s" % wheel.machine)
    return ["qemu-" + wheel.machine, "-L", "/usr/%s-linux-gnu" % wheel.machine]


def run(wheel, program, *arguments, folder):
    os.chmod(program, 0o755)
    done = subprocess.run([*runner(wheel), program, *arguments], cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=280)
    assert done.returncode == 0, (arguments, done.returncode, done.stderr)
    return done.stdout.decode().strip()


@each(RUN)
def test_command(wheel, directory, tool_path):
    """A file goes there and back, and its archive is that of the usual build."""
    model = os.path.join(directory, "m")
    write_model(model)
    assert run(wheel, wheel.command, "--version", folder=directory).split()[-1] == wheel.version
    run(wheel, wheel.command, "convert", "-q", "m", folder=directory)
    run(wheel, wheel.command, "verify", "-q", "m.lmc", folder=directory)
    run(wheel, wheel.command, "restore", "-q", "m.lmc", "-o", "back", folder=directory)
    assert read(os.path.join(directory, "back")) == read(model)
    subprocess.run([tool_path, "convert", "-q", model, "-o", os.path.join(directory, "usual.lmc")], check=True)
    assert read(os.path.join(directory, "m.lmc")) == read(os.path.join(directory, "usual.lmc"))


@each([name for name in RUN if name not in WINDOWS])
def test_directories(wheel, directory):
    """A directory is replaced at once, and an input removed, without the calls that old systems lack."""
    folder = os.path.join(directory, "models")
    os.mkdir(folder)
    write_model(os.path.join(folder, "a.safetensors"))
    run(wheel, wheel.command, "convert", "-q", "models", folder=directory)
    write_model(os.path.join(folder, "b.safetensors"), 1000)
    run(wheel, wheel.command, "convert", "-q", "--force", "--rm", "models", folder=directory)
    assert sorted(os.listdir(directory)) == ["models.lmc"]
    run(wheel, wheel.command, "restore", "-q", "models.lmc", "-o", "models", folder=directory)
    assert sorted(os.listdir(folder)) == ["a.safetensors", "b.safetensors"]


@each(WINDOWS)
def test_directories_of_windows(wheel, directory):
    """The same, but nothing is replaced: Wine takes an open folder for the one that has its former name."""
    folder = os.path.join(directory, "models")
    os.mkdir(folder)
    write_model(os.path.join(folder, "a.safetensors"))
    run(wheel, wheel.command, "convert", "-q", "--rm", "models", folder=directory)
    assert sorted(os.listdir(directory)) == ["models.lmc"]
    run(wheel, wheel.command, "restore", "-q", "models.lmc", "-o", "models", folder=directory)
    assert sorted(os.listdir(folder)) == ["a.safetensors"]


@each(RUN)
def test_store(wheel, directory):
    """SQLite, which is inside the command, keeps a store."""
    write_model(os.path.join(directory, "m.safetensors"))
    run(wheel, wheel.command, "store", "add", "-q", "s", "m.safetensors", folder=directory)
    assert "m.safetensors" in run(wheel, wheel.command, "store", "ls", "s", folder=directory)


@each(RUN)
def test_libraries(wheel, directory):
    """A program loads the library and the plugin."""
    target = wheel.machine + {"many": "-linux-gnu.2.17", "musl": "-linux-musl", "wind": "-windows-gnu"}[wheel.name[:4]]
    (zig,) = glob.glob(os.path.join(ROOT, "build", "venv-wheel", "lib", "python3*", "site-packages", "ziglang", "zig"))
    source, program = os.path.join(directory, "load.c"), os.path.join(directory, "load.exe")
    with open(source, "w", encoding="utf-8") as file:
        file.write(LOAD)
    cache = os.path.join(ROOT, "build", "zig-cache")
    dynamic = ["-dynamic"] if "musl" in target else []
    # in a folder that holds zig, it would compile the C library of Windows once more
    subprocess.run([zig, "cc", "-target", target, "-O2", "-s", *dynamic, source, "-o", program], cwd=directory,
                   check=True, env={**os.environ, "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache})
    number = 0
    for part in wheel.version.split("."):
        number = 100 * number + int(part)
    filter_type = 0
    assert run(wheel, program, wheel.library, wheel.plugin, folder=directory) == "%d %d" % (number, filter_type)
