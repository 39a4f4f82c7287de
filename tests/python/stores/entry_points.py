"""An lmcodec that looks installed: its entry points are those of pyproject.toml."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def write_metadata(directory):
    """A folder with what pip would write for the entry points of pyproject.toml. Python 3.11 reads TOML."""
    import tomllib
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        groups = tomllib.load(file)["project"]["entry-points"]
    folder = os.path.join(directory, "lmcodec-0.dist-info")
    os.mkdir(folder)
    with open(os.path.join(folder, "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\nName: lmcodec\nVersion: 0\n")
    with open(os.path.join(folder, "entry_points.txt"), "w") as file:
        for group, names in groups.items():
            file.write("[%s]\n" % group + "".join("%s = %s\n" % item for item in names.items()))
    return directory


def run(program, folder=None, *arguments, **variables):
    """Runs a program in another Python. folder: what write_metadata() has returned. variables: of its environment."""
    paths = [path for path in (folder, os.environ.get("PYTHONPATH")) if path]
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True,
                          env={**os.environ, **variables, "PYTHONPATH": os.pathsep.join(paths)})
