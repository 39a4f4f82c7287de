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
    """Files about packages, and what each must have. The names of Debian's libraries have the SOVERSION."""
    soversion = f"{major}.{minor}"
    yield "CITATION.cff", f"version: {soversion}.{patch}\n"
    yield "debian/changelog", f"lmc ({soversion}.{patch}-"
    yield "packaging/conda/recipe.yaml", f'version: "{soversion}.{patch}"'
    yield "packaging/conda/recipe.yaml", f'soversion: "{soversion}"'
    yield "debian/python3-lmcodec.links", f"liblmc_st.so.{soversion} "
    for package in (f"liblmc{soversion}", f"liblmc-st{soversion}", f"liblmc-h5-{soversion}"):
        yield "debian/control", f"Package: {package}\n"
        yield f"debian/{package}.symbols", f".so.{soversion} {package} #MINVER#"
