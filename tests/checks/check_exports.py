"""Each shared library exports exactly what its header declares with LMC_API, and the list of it that is
kept beside this file: a change of the interface is seen as a change of that list."""

import glob
import os
import re

from tree import run

LIBRARIES = [("liblmc.so", "include/lmc.h", "lmc", "tests/checks/exports.txt"),
             ("liblmc_st.so", "include/lmc_st.h", "lmc_st", "tests/checks/exports_st.txt"),
             ("liblmc_h5.so", "include/lmc_h5.h", "lmc_h5", "tests/checks/exports_h5.txt")]


def declared(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"^\s*#.*(\\\n.*)*", "", text, flags=re.M)
    return set(re.findall(r"\bLMC_API\b[^;()]*?\b(\w+)\s*\(", text))


def exported(library):
    status, output = run("nm", "-D", "--defined-only", library)
    return {line.split()[-1].split("@")[0] for line in output.splitlines()} if status == 0 else set()


def differences(found, wanted, what, where):
    for name in sorted(found - wanted):
        yield f"{name}: is {what}, but not {where}"
    for name in sorted(wanted - found):
        yield f"{name}: is {where}, but not {what}"


def check(tree):
    for library, header, folder, list_name in LIBRARIES:
        paths = glob.glob(os.path.join(tree.build, "**", library), recursive=True)
        if not paths or not tree.exists(header):
            yield f"{library} or {header}: not found"
            continue
        names = declared(tree.text(header))
        yield from differences(exported(paths[0]), names, f"exported by {library}", f"declared in {header}")
        listed = set(tree.text(list_name).split()) if tree.exists(list_name) else set()
        yield from differences(names, listed, f"declared in {header}", f"listed in {list_name}")
