"""Frozen archives, runs and stores of earlier versions (../archives): lmc-st and the reference reader restore them to
the files that they were made from."""

import functools
import glob
import hashlib
import os
import shutil

import pytest

import lmc_archive
from lmc_archive_base import in_directories
from test_archive_reader import ROOT

ARCHIVES = os.path.join(ROOT, "tests", "format", "archives")


def listed():
    """(version, what SHA256SUMS calls it, checksum)."""
    for sums in sorted(glob.glob(os.path.join(ARCHIVES, "*", "SHA256SUMS"))):
        with open(sums, encoding="utf-8") as file:
            for line in file:
                checksum, name = line.rstrip("\n").split("  ", 1)
                yield os.path.basename(os.path.dirname(sums)), name, checksum


def archives_of(version):
    found = glob.glob(os.path.join(ARCHIVES, version, "**", "*.lmc"), recursive=True)
    return sorted(path for path in found if os.path.isfile(path))


def archive_of(version, name):
    """The one archive of what SHA256SUMS calls `name`."""
    kept, _, member = name.partition("/")
    places = {"run": ("run", member, "*.lmc"), "store": ("store", member + ".lmc", "*.lmc")}
    path, = glob.glob(os.path.join(ARCHIVES, version, *places.get(kept, (name + ".lmc",))))
    return path


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """A function that gives a folder with a copy of a version's archives: commands lock runs and stores."""
    @functools.lru_cache(maxsize=None)
    def copy(version):
        return shutil.copytree(os.path.join(ARCHIVES, version), tmp_path_factory.mktemp("frozen") / version)

    return copy


LISTED = [pytest.param(*each, id="-".join(each[:2])) for each in listed()]


@pytest.mark.parametrize("version, name, checksum", LISTED)
def test_command(tool, copies, tmp_path, version, name, checksum):
    folder, restored = copies(version), str(tmp_path / "restored")
    kept, _, member = name.partition("/")
    if member:
        done = tool.run(kept, "restore", str(folder / kept), member, "-o", restored)
    else:
        done = tool.run("restore", str(folder / (name + ".lmc")), "-o", restored)
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256(lmc_archive.read(restored)).hexdigest() == checksum


@pytest.mark.parametrize("version, name, checksum", LISTED)
def test_reference_reader(version, name, checksum):
    path = archive_of(version, name)
    steps = sorted({os.path.dirname(each) for each in archives_of(version)})
    restored = lmc_archive.restore(lmc_archive.read(path), in_directories(steps, None, path), path)
    assert hashlib.sha256(restored).hexdigest() == checksum


@pytest.mark.parametrize("kept", ["run", "store"])
@pytest.mark.parametrize("version", sorted({version for version, _, _ in listed()}))
def test_runs_and_stores_can_be_added_to(tool, copies, tmp_path, version, kept):
    folder = shutil.copytree(copies(version) / kept, tmp_path / kept)
    original = tmp_path / "another-9.safetensors"
    done = tool.run("cat", archive_of(version, "second.safetensors"))
    original.write_bytes(done.stdout)
    for command in (("verify", str(folder)), ("add", str(folder), str(original)), ("verify", str(folder))):
        done = tool.run(kept, *command)
        assert done.returncode == 0, (command, done.stderr)


def test_every_feature_is_there():
    tables = [lmc_archive.opened(lmc_archive.read(path)).table for path in archives_of("1.0")]
    assert {table.method for table in tables} == {0, 1}
    assert functools.reduce(int.__or__, (table.features for table in tables)) == lmc_archive.FEATURES_KNOWN
