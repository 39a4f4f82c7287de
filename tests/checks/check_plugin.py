"""The HDF5 plugin loads into every program: it needs the C library alone, asks for no symbol of HDF5's, exports what
HDF5 looks for and lmc_h5.h declares, stays where it was loaded, and looks for nothing along a path of its own. No other
file is in its directory."""

import glob
import os
import re

from tree import run

NAME = "libh5lmc.so"
LIST = "tests/checks/interface/lmc_h5.h.txt"
C_LIBRARY = re.compile(r"^(lib(c|m|dl|pthread)\.so\.\d+|ld-linux[\w-]*\.so\.\d+)$")
LOOKED_FOR = {"H5PLget_plugin_type", "H5PLget_plugin_info"}


def check_dynamic_section(path):
    _, text = run("readelf", "-dW", path)
    for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", text):
        if not C_LIBRARY.match(needed):
            yield f"{NAME} needs {needed}"
    for kind, value in re.findall(r"\((RPATH|RUNPATH)\).*\[(.*)\]", text):
        yield f"{NAME} has a {kind}, {value!r}: an empty part of it is the current directory"
    flags = " ".join(re.findall(r"\(FLAGS(?:_1)?\)(.*)", text))
    if "NODELETE" not in flags:
        yield f"{NAME} is not linked with -z nodelete: threads have contexts to free after HDF5 has closed it"
    for flag in ("STATIC_TLS", "TEXTREL"):
        if flag in flags:
            yield f"{NAME} has the flag {flag}: such a library cannot always be loaded late"
    _, segments = run("readelf", "-lW", path)
    if re.search(r"GNU_STACK.* RWE ", segments):
        yield f"{NAME} asks for an executable stack"


def check_symbols(tree, path):
    _, undefined = run("nm", "-D", "--undefined-only", path)
    for name in re.findall(r"\b(H5\w+)", undefined):
        yield f"{NAME} has the undefined symbol {name}: there is no libhdf5 to take it from"
    _, defined = run("nm", "-D", "--defined-only", path)
    names = {line.split()[2].split("@")[0] for line in defined.splitlines() if line.split()[1] != "A"}
    wanted = LOOKED_FOR | set(re.findall(r"^call (\w+)", tree.text(LIST), re.M))
    for name in sorted(names - wanted):
        yield f"{NAME} exports {name}, which is not in {LIST}"
    for name in sorted(wanted - names):
        yield f"{NAME} does not export {name}"


def check(tree):
    paths = glob.glob(os.path.join(tree.build, "**", NAME), recursive=True)
    if len(paths) != 1:
        yield f"{len(paths)} files {NAME} in the build"
        return
    beside = sorted(os.listdir(os.path.dirname(paths[0])))
    if beside != [NAME]:
        yield f"the plugin's directory has other files: {beside}"
    yield from check_dynamic_section(paths[0])
    yield from check_symbols(tree, paths[0])
