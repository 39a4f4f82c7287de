"""Both verdicts on every file of the header corpus, from the package and from lmc-st itself.

A verdict may differ only where the corpus says which documented choice it is; a file that both accept must
hold the same tensors for both, and must come back byte for byte through an archive that the package opens.
"""

import os

import pytest
import safetensors

from archives import ROOT
from corpus import accepted_faults, header_corpus
from official import VERSION, fail_on, judge, opens, run, write


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
    if (done.returncode == 0) != verdict.is_good and header.choice not in header_corpus.CHOICES:
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
    yield from (f"no case for: {choice}" for choice in header_corpus.CHOICES if choice not in used)
    with open(os.path.join(ROOT, "docs", "archive.md"), encoding="utf-8") as file:
        words = " ".join(file.read().split())
    yield from (f"docs/archive.md does not name: {choice}" for choice in header_corpus.CHOICES if choice not in words)


def length_faults(tool, folder, text_nbytes, is_good):
    """A header of that many bytes, nearly all of them spaces."""
    content = header_corpus.raw(b"{}" + b" " * (text_nbytes - 2))
    header = header_corpus.Header("", content, is_good, "", None)
    yield from header_faults(tool, folder, header)


def test_corpus():
    fail_on(corpus_faults())


@pytest.mark.parametrize("header", header_corpus.CASES, ids=lambda header: header.name)
def test_header(tool, directory, header):
    fail_on(header_faults(tool, directory, header))


def test_longest_header(tool, directory):
    fail_on(length_faults(tool, directory, header_corpus.HEADER_MAX, True))


def test_header_too_long(tool, directory):
    fail_on(length_faults(tool, directory, header_corpus.HEADER_MAX + 1, False))
