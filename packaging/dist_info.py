"""dist_info.py FOLDER - writes what an installer of Python packages writes of lmcodec: lmcodec-VERSION.dist-info, with
the entry points by which Zarr, numcodecs and others find it. All of it comes from pyproject.toml."""

import os
import re
import sys
import tomllib


def write(folder, name, lines):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in lines))


def main():
    with open("CMakeLists.txt", encoding="utf-8") as file:
        version = re.search(r"project\(lmc VERSION ([0-9.]+)", file.read()).group(1)
    with open("pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    folder = os.path.join(sys.argv[1], f"{project['name']}-{version}.dist-info")
    os.makedirs(folder, exist_ok=True)
    write(folder, "METADATA", [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"License: {project['license']}",
        f"Requires-Python: {project['requires-python']}",
    ])
    points = []
    for group, names in project["entry-points"].items():
        points += [f"[{group}]", *(f"{name} = {target}" for name, target in names.items())]
    write(folder, "entry_points.txt", points)
    write(folder, "INSTALLER", ["debian"])


main()
