"""The strict reader in the command: files that are no header, large ones, and one of each kind of the table that
tests/unit/safetensors/test_st_header_corpus.c goes through."""
import os

import pytest

import header_corpus
from support import CPU_SECONDS, check, check_only, in_directory, read


KINDS = ("plain", "space_after", "escaped_name", "metadata_odd_strings", "packed_F6_E2M3_[4]", "four_shuffled",
         "array_entry", "name_twice", "metadata_twice", "invalid_utf8", "hole_between", "overlap", "data_short",
         "data_long", "rank_1025")


def headers(is_good):
    table = {header.name: header for header in header_corpus.CASES}
    wanted = [table[name] for name in KINDS] + header_corpus.FILES
    return [pytest.param(header, id=header.name) for header in wanted if header.is_good == is_good]


@pytest.mark.parametrize("header", headers(is_good=True))
def test_accepted(tool, directory, header):
    path = in_directory(directory, header.content)
    tool.run("verify", "-q", path).expect(0)
    tool.round_trip(path, "-q")  # some archives are larger
    check_only(directory, "m.safetensors", "m.safetensors.lmc")


@pytest.mark.parametrize("header", headers(is_good=False))
def test_refused(tool, directory, header):
    path = in_directory(directory, header.content)
    for arguments in (("convert", path), ("verify", path), ("ls", path), ("restore", path, "-o", path + ".back")):
        result = tool.run(*arguments).expect(1, header.cause, os.path.basename(path))
        check(result.stderr.count("\n") == 1, "several lines: " + result.stderr)
        check(result.cpu < CPU_SECONDS * tool.slow, "took %.1f s" % result.cpu)
    check(read(path) == header.content, "the input was changed")
    check_only(directory, "m.safetensors")
