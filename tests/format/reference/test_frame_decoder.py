"""The reference decoder, written from docs/format.md, on worked, stored, damaged and random frames."""
import functools
import os
import subprocess
import tempfile

import pytest

import document
import expectations
import format_coverage
import lmc_reference
from expectations import read, reproduced

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
VECTORS = os.path.join(ROOT, "tests", "format", "vectors")
CORRUPT = expectations.read_table(os.path.join(VECTORS, "corrupt", "EXPECT.tsv"))


def names(directory, suffix):
    return sorted(name[: -len(suffix)] for name in os.listdir(directory) if name.endswith(suffix))


def decodes_to(frame, content, base=None):
    decoded = lmc_reference.decode(frame, base)
    if decoded != content:
        return f"{len(decoded)} other bytes than the {len(content)} of the content"


def base_of(directory, name):
    """NAME.base, if there is one."""
    path = os.path.join(directory, name + ".base")
    return read(path) if os.path.exists(path) else None


def pair_decodes(directory, name):
    frame, content = read(directory, name + ".lmc"), read(directory, name + ".bin")
    return decodes_to(frame, content, base_of(directory, name))


@functools.lru_cache(maxsize=None)
def vector_decodes(name):
    """What is wrong with a stored frame, and what parts of the format it uses."""
    seen = set()
    with format_coverage.recording(seen):
        return pair_decodes(VECTORS, name), seen


def refused(frame, base, status):
    try:
        lmc_reference.decode(frame, base)
    except lmc_reference.LmcError as error:
        if type(error).__name__.upper() != status:
            return f"expected {status}: {type(error).__name__}: {error}"
    else:
        return f"expected {status}, but it decodes"


# ---- tests: what is wrong is None -------------------------------------------------------------------

WORKED = document.worked_frames(read(ROOT, "docs", "format.md").decode())


@pytest.mark.parametrize("frame, content, base", [pytest.param(*worked, id=str(i)) for i, worked in enumerate(WORKED)])
def test_worked_frame(frame, content, base):
    assert decodes_to(frame, content, base) is None


def test_vectors_have_twins():
    assert names(VECTORS, ".lmc") == names(VECTORS, ".bin")


@pytest.mark.parametrize("name", names(VECTORS, ".lmc"))
def test_vector(name):
    wrong, _ = vector_decodes(name)
    assert wrong is None


def test_vectors_use_all_of_the_format():
    seen = set().union(*(vector_decodes(name)[1] for name in names(VECTORS, ".lmc")))
    assert sorted(format_coverage.WANTED - seen) == []


@pytest.mark.parametrize("expected", CORRUPT, ids=lambda expected: expected.name)
def test_corrupt(expected):
    assert refused(expected.data, expected.base, expected.status) is None


def test_make_corrupt(directory):
    assert reproduced("make_corrupt.py", directory, VECTORS) is None


def make_random_frames(build, directory, seed, count):
    """Frames of the library, which looks at them itself."""
    program = os.path.join(directory, "random_frames")
    library = os.path.join(build, "codec", "liblmc.a")
    for command in [
        [os.environ.get("CC", "cc"), "-std=c11", "-O1", "-I" + os.path.join(ROOT, "include"), "-o", program,
         os.path.join(HERE, "random_frames.c"), library, "-lpthread", "-lm"],
        [program, str(seed), str(count), directory],
    ]:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            return done.stdout or f"{command[0]}: exit status {done.returncode}"


@pytest.fixture(scope="module")
def random_frames(build, seed, count):
    """The directory that has them, and what went wrong."""
    with tempfile.TemporaryDirectory() as directory:
        yield directory, make_random_frames(build, directory, seed, count)


def test_random_frames_are_made(random_frames):
    assert random_frames[1] is None


def test_random_frame(random_frames, random_number):
    assert pair_decodes(random_frames[0], str(random_number)) is None
