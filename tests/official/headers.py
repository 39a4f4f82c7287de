"""headers.py - both verdicts on every file of the header corpus, from the package and from lmc-st itself.

A verdict may differ only where the corpus says which documented choice it is; a file that both accept must
hold the same tensors for both, and must come back byte for byte through an archive that the package opens.
"""

import json
import os
import sys

import safetensors

from archives import ROOT, archive_faults
from official import VERSION, judge, opens, read, run, write

sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
import header_corpus  # noqa: E402
import header_files  # noqa: E402


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


def header_faults(tool, folder, header):
    path = write(os.path.join(folder, "m.safetensors"), header.content)
    verdict = judge(header.content)
    if verdict.is_good != header.official:
        yield f"recorded for the package: {header.official}; it says {verdict.is_good} {verdict.message}"
    if opens(path) != verdict.is_good:
        yield "deserialize and safe_open do not agree"
    done = run(tool, "convert", path, "-f", "-q", "--no-fsync")
    if done.returncode not in (0, 1) or (done.returncode == 0) != header.is_good:
        yield f"lmc-st: exit status {done.returncode}, recorded is {header.is_good}: {done.stderr.strip()}"
    if (done.returncode == 0) != verdict.is_good and header.choice not in header_files.CHOICES:
        yield f"verdicts differ without a documented choice; the package: {verdict.is_good} {verdict.message}"
    if done.returncode == 0:
        yield from accepted_faults(tool, path, verdict)


def corpus_faults():
    """The corpus as such, and what docs/archive.md says of it."""
    if not safetensors.__version__.startswith(VERSION):
        yield f"safetensors is {safetensors.__version__}, the verdicts are those of {VERSION}x"
    names = [header.name for header in header_corpus.CASES]
    yield from (f"two cases have the name {name}" for name in sorted(set(names)) if names.count(name) > 1)
    used = {header.choice for header in header_corpus.CASES}
    yield from (f"no case for: {choice}" for choice in header_files.CHOICES if choice not in used)
    with open(os.path.join(ROOT, "docs", "archive.md"), encoding="utf-8") as file:
        words = " ".join(file.read().split())
    yield from (f"docs/archive.md does not name: {choice}" for choice in header_files.CHOICES if choice not in words)


def length_faults(tool, folder, text_nbytes, is_good):
    """A header of that many bytes, nearly all of them spaces."""
    content = header_files.raw(b"{}" + b" " * (text_nbytes - 2))
    header = header_files.Header("", content, is_good, "", None)
    yield from header_faults(tool, folder, header)


def cases(tool, folder):
    yield "headers/corpus", corpus_faults
    for header in header_corpus.CASES:
        yield "headers/" + header.name, lambda header=header: header_faults(tool, folder, header)
    limit = header_files.HEADER_MAX
    yield "headers/longest_header", lambda: length_faults(tool, folder, limit, True)
    yield "headers/header_too_long", lambda: length_faults(tool, folder, limit + 1, False)
