"""corpus.py - the header corpus of tests/cli, and what must be so of a file that lmc-st accepts."""

import json
import os
import sys

from archives import ROOT, archive_faults
from official import read, run

sys.path.append(os.path.join(ROOT, "tests", "cli"))
import header_corpus  # noqa: E402,F401


def listed(tool, path):
    """The tensors of a file as `lmc-st ls` has them: (name, dtype, shape, bytes), sorted."""
    done = run(tool, "ls", path, "--json")
    return sorted((tensor["name"], tensor["dtype"], tensor["shape"], tensor["nbytes"])
                  for tensor in json.loads(done.stdout))


def accepted_faults(tool, path, verdict):
    """A file that lmc-st has converted; `verdict` is the package's."""
    archive, restored = path + ".lmc", path + ".back"
    done = run(tool, "restore", archive, "-o", restored, "-f", "-q", "--no-fsync")
    if done.returncode != 0:
        yield f"restore: exit status {done.returncode}: {done.stderr.strip()}"
    elif read(restored) != read(path):
        yield "the restored file differs"
    elif verdict.is_good:
        yield from archive_faults(path, archive)
        found = [(name, dtype, shape, len(content)) for name, dtype, shape, content in verdict.tensors]
        for where in (path, archive):
            if listed(tool, where) != found:
                yield f"lmc-st ls and the package find other tensors in {os.path.basename(where)}"
