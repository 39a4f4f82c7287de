"""The strict reader: each file of the corpus is accepted or refused as it should be."""
import os

import pytest

import header_corpus
from support import CPU_SECONDS, check, check_only, in_directory


def headers(is_good):
    return [pytest.param(header, id=header.name) for header in header_corpus.CASES if header.is_good == is_good]


@pytest.mark.parametrize("header", headers(is_good=True))
def test_accepted(tool, directory, header):
    path = in_directory(directory, header.content)
    tool.run("verify", "-q", path).expect(0)
    tool.round_trip(path, "-q")  # some archives are larger
    check_only(directory, "m.safetensors", "m.safetensors.lmc")


@pytest.mark.parametrize("header", headers(is_good=False))
def test_refused(tool, directory, header):
    path = in_directory(directory, header.content)
    for arguments in (("convert", path), ("verify", path), ("ls", path)):
        result = tool.run(*arguments).expect(1, header.cause, os.path.basename(path))
        check(result.cpu < CPU_SECONDS * tool.slow, "took %.1f s" % result.cpu)
    check_only(directory, "m.safetensors")
