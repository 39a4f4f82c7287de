"""liblmc builds without CMake by the command that docs/library.md shows, and a program that is linked with it runs. It
exports the calls of its headers and nothing else."""

import os
import re
import tempfile

from check_interface import calls_of, exported_by, without_comments
from tree import run

DOCUMENT = "docs/library.md"
COMMAND = re.compile(r"^ +(cc .*codec/\*/\*\.c(?:[^\\\n]|\\\n)*)$", re.M)
HEADERS = ["lmc.h", "lmc_experimental.h"]


def check(tree):
    commands = COMMAND.findall(tree.text(DOCUMENT))
    if len(commands) != 1 or "-o liblmc.so" not in commands[0] or "-O2" not in commands[0]:
        yield f"{DOCUMENT}: there is not one command that makes liblmc.so"
        return
    with tempfile.TemporaryDirectory(prefix="lmc-check-") as folder:
        library, program = os.path.join(folder, "liblmc.so"), os.path.join(folder, "program")
        command = commands[0].replace("-O2", "-O0").replace("-o liblmc.so", f"-o {library}")
        status, output = run("sh", "-c", command, cwd=tree.root)
        if status != 0:
            yield f"{DOCUMENT}: {commands[0]}: {output.strip().splitlines()[-1]}"
            return
        declared = {name for header in HEADERS for name in calls_of(without_comments(tree.text(f"include/{header}")))}
        for name in sorted(declared ^ exported_by(library)):
            yield f"{DOCUMENT}: the library {'lacks' if name in declared else 'exports'} {name}"
        status, output = run("cc", f"-I{tree.path('include')}", "-o", program,
                             tree.path("examples/encode_tensor.c"), library, "-lm", f"-Wl,-rpath,{folder}")
        if status == 0:
            status, output = run(program)
        if status != 0:
            yield f"examples/encode_tensor.c with that library: {output.strip()}"
