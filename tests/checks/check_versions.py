"""The version is the same wherever it stands."""

import re


def check(tree):
    project = re.search(r"project\(lmc VERSION (\d+)\.(\d+)\.(\d+)", tree.text("CMakeLists.txt")).groups()
    header = tree.text("include/lmc.h")
    for part, wanted in zip(("MAJOR", "MINOR", "PATCH"), project):
        found = re.search(rf"#define LMC_VERSION_{part} (\d+)", header)
        if not found or found.group(1) != wanted:
            yield f"include/lmc.h: LMC_VERSION_{part} is not {wanted} as in CMakeLists.txt"
    if f"VERSION = ({project[0]}, {project[1]})" not in tree.text("python/lmcodec/_library.py"):
        yield f"python/lmcodec/_library.py: VERSION is not that of {'.'.join(project)}"
    if ".".join(project) not in tree.text("CHANGELOG.md"):
        yield f"CHANGELOG.md: does not speak of {'.'.join(project)}"
    if f'"lmc {".".join(project)}"' not in tree.text("tool/lmc-st.1"):
        yield f"tool/lmc-st.1: its title line does not name lmc {'.'.join(project)}"
    for path, text in packaged(*project):
        if text not in tree.text(path):
            yield f"{path}: does not have `{text.strip()}`"


def packaged(major, minor, patch):
    """Files about packages, and what each must have. The names of Debian's libraries have the SOVERSION, which
    is the major version; a program needs the minor version that it was built with."""
    version = f"{major}.{minor}.{patch}"
    yield "CITATION.cff", f"version: {version}\n"
    yield "debian/changelog", f"lmc ({version}-"
    yield "packaging/conda/recipe.yaml", f'version: "{version}"'
    yield "packaging/conda/recipe.yaml", f'soversion: "{major}"'
    yield "debian/python3-lmcodec.links", f"liblmc_st.so.{major} "
    for package in (f"liblmc{major}", f"liblmc-st{major}", f"liblmc-h5-{major}"):
        yield "debian/control", f"Package: {package}\n"
        yield f"debian/{package}.symbols", f".so.{major} {package} #MINVER#"
        yield f"debian/{package}.symbols", f'_" {major}.{minor}.0\n'
