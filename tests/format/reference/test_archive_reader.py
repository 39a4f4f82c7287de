"""The reference reader of archives beside lmc-st: the worked example of docs/archive.md, archives
that lmc-st makes of files generated here, archives put together by hand, and damaged ones. Both must give back
the same file, or both refuse."""

import functools
import os
import random
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

import archive_base_cases
import archive_cases
import document
import lmc_archive
from archive_files import files
from archive_tool import forged
from lmc_archive_base import in_directories
from lmc_reference import LmcError

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
EXAMPLE_CONTENT = b'8\0\0\0\0\0\0\0{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}   abcd'


def restores(archive, original):
    restored = lmc_archive.restore(archive)
    if restored != original:
        return f"{len(restored)} other bytes than the {len(original)} of the original"


@functools.lru_cache(maxsize=None)
def originals(seed):
    return dict(files(random.Random(seed)))


@functools.lru_cache(maxsize=None)
def converted(tool, seed, name, level):
    """What is wrong with an archive of lmc-st, and what kind of archive it is."""
    original = originals(seed)[name]
    archive = tool.convert(original, level)
    table = lmc_archive.opened(archive).table
    wrong = restores(archive, original) or (None if tool.verdict(archive) == 0 else f"verify refuses {name}")
    return wrong, {("method", table.method), ("aliases", bool(table.owners))}


def refused_by_both(tool, archives):
    """What is wrong with `archives`, of (what, bytes) each, none of which may be accepted. Bases are in the folder."""
    find_base = in_directories([tool.directory])

    def judge(item):
        number, (what, archive) = item
        try:
            lmc_archive.restore(archive, find_base)
            return f"{what}: the reference reader accepts it"
        except LmcError:
            pass
        status = tool.verdict(archive, f"{number}.lmc")
        os.remove(os.path.join(tool.directory, f"{number}.lmc"))
        return None if status == 1 else f"{what}: lmc-st verify: {status}"

    with ThreadPoolExecutor(2) as pool:
        wrong = [result for result in pool.map(judge, enumerate(archives)) if result]
    return f"{len(wrong)} of {len(archives)}: " + "; ".join(wrong[:5]) if wrong else None


def with_bit_turned(archive, rng):
    for i in range(len(archive)):
        turned = bytearray(archive)
        turned[i] ^= 1 << rng.randrange(8)
        yield f"byte {i} is {turned[i]:#04x}", bytes(turned)


def cut(archive):
    return [(f"the first {nbytes} bytes", archive[:nbytes]) for nbytes in range(len(archive))]


# ---- tests: what is wrong is None ----

with open(os.path.join(ROOT, "docs", "archive.md"), encoding="utf-8") as _file:
    EXAMPLE = document.numbered_bytes(re.search(r"^## 7\. Example$(.*)", _file.read(), re.M | re.S).group(1))
NAMES = [name for name, _ in files(random.Random(0))]
LEVELS = ("default", "fast", "max")


def test_example():
    assert restores(EXAMPLE, EXAMPLE_CONTENT) is None


def test_example_by_the_tool(tool):
    assert forged(tool, EXAMPLE, EXAMPLE_CONTENT) is None


def test_what_the_tool_makes_of_the_example(tool):
    assert restores(tool.convert(EXAMPLE_CONTENT, "default"), EXAMPLE_CONTENT) is None


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", NAMES)
def test_archive(tool, seed, name, level):
    wrong, _ = converted(tool, seed, name, level)
    assert wrong is None


def test_methods_and_aliases(tool, seed):
    seen = set().union(*(converted(tool, seed, name, level)[1] for name in NAMES for level in LEVELS))
    assert seen == {("method", 0), ("method", 1), ("aliases", False), ("aliases", True)}


@pytest.mark.parametrize("archive, original",
                         [pytest.param(*case[1:], id=case[0]) for case in archive_cases.cases()])
def test_forged_archive(tool, archive, original):
    assert forged(tool, archive, original) is None


@pytest.fixture(scope="module")
def wholes(tool):
    """Good archives, and in the tool's folder the bases that they need."""
    _, with_base, _, files_of_base = archive_base_cases.aliased().good("all kinds of links")
    for name, data in files_of_base.items():
        tool.file(name, data)
    return {"example": EXAMPLE, "aliases": archive_cases.five(method=1).build(), "base": with_base}


@pytest.mark.parametrize("what", ["example", "aliases", "base"])
def test_bit_of_every_byte(tool, wholes, seed, what):
    assert refused_by_both(tool, list(with_bit_turned(wholes[what], random.Random(seed)))) is None


@pytest.mark.parametrize("what", ["example", "aliases", "base"])
def test_every_beginning(tool, wholes, what):
    assert refused_by_both(tool, cut(wholes[what])) is None
