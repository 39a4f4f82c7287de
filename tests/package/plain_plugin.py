"""plain_plugin.py OUTPUT [OPTION...] - builds the HDF5 plugin by the compiler alone, from what filter/sources.txt
lists. Further options come after those of the list."""

import concurrent.futures
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def listed():
    """The words of the list -> what they stand for, in order."""
    found = {}
    with open(os.path.join(ROOT, "filter", "sources.txt"), encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                word, value = line.split()
                found.setdefault(word, []).append(value)
    return found


def main():
    output = os.path.abspath(sys.argv[1])
    parts = listed()
    options = [*parts["compile"], *("-I" + folder for folder in parts["include"]),
               *("-D" + name for name in parts["define"]), *sys.argv[2:]]
    objects = [f"{output}.{number}.o" for number in range(len(parts["source"]))]

    def compile_one(source, target):
        subprocess.run(["cc", *options, "-c", source, "-o", target], cwd=ROOT, check=True)

    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("LMC_JOBS", os.cpu_count()))) as pool:
        list(pool.map(compile_one, parts["source"], objects))
    subprocess.run(["cc", "-shared", "-o", output, *objects, *parts["link"]], cwd=ROOT, check=True)
    for path in objects:
        os.remove(path)


main()
