"""Chunks that claim to be large, with valid checks: what is asked of the system for them.

The datasets have no values of the filter's, so the chunks' own words are all that it has.
"""

import pytest

import contents
import forge
from bed import HDF5, h5py, run_program
from library import encode_chunk

GROWTH_KIB = 4 << 10
WIDE = {"dtype": 21, "element_nbytes": 8, "block_log2": 20}  # blocks of 8 MiB


def coded_claim(content_nbytes, block_count):
    """A coded frame with an index of block_count entries; each block is a byte that is no block."""
    return forge.coded_frame(bytes(1 + 1 + 2 + 2 + 8), [(b"\x07", 0)] * block_count, content_nbytes, **WIDE)


def claims():
    """Larger than the stored bytes can hold. Nothing may be allocated for them."""
    for log2 in (20, 26, 31, 32, 33, 40, 47, 62):
        yield f"stored_{log2}", forge.stored_frame(b"x" * 100, content_nbytes=1 << log2)
        yield f"coded_{log2}", coded_claim(1 << log2, 0 if log2 < 23 else min((1 << log2 - 23) - 1, 20))
        columns = [forge.stored_frame(b"", content_nbytes=1 << log2)] * 256
        yield f"columns_{log2}", forge.regrouped(forge.COLUMNS, 0, 256, columns)
        records = [forge.stored_frame(b"y", content_nbytes=1 << log2)]
        yield f"records_{log2}", forge.regrouped(forge.RECORDS, 8, 8, records)
    for value in ((1 << 63) - 1, (1 << 63) - 8, (1 << 64) - 1, 1 << 63):
        yield f"limit_{value:x}", forge.stored_frame(b"", content_nbytes=value)
        yield f"limit_coded_{value:x}", coded_claim(value, 3)
    for i in (1, 8, 16, 24):  # 8 MiB a block, and the check is wrong
        chunk = bytearray(coded_claim(i << 23, i))
        chunk[-1] ^= 1
        yield f"unchecked_{i}", bytes(chunk)


def bombs():
    """The checks are right, and there are 13 bytes for each 8 MiB: that much may be true."""
    for i in (1, 4, 15, 60, 500, 4000):
        yield f"blocks_{i}", coded_claim(i << 23, i)
    yield "zeros", encode_chunk((0, 8), bytes(64 << 20))
    yield "noise", encode_chunk((), contents.noise("bomb", 1 << 20))
    zeros = encode_chunk((0, 8), bytes(8 << 20))
    yield "columns_of_zeros", forge.regrouped(forge.COLUMNS, 0, 256, [zeros] * 256)


def outcomes_of(folder, chunks, room_mb):
    """{name: (what happened, growth in KiB)} of a process that read all of them."""
    path = folder / "claims.h5"
    chunks = dict([*chunks, ("sound", encode_chunk((), bytes(400)))])
    result = run_program("foreign", path, *chunks, plugin=False)
    assert result.returncode == 0, result.stderr
    with h5py.File(path, "r+") as file:
        for name, chunk in chunks.items():
            file[name].id.write_direct_chunk((0,), chunk)
    result = run_program("hostile", path, room_mb)
    assert result.returncode == 0, result.stderr
    lines = [line.split() for line in result.stdout.splitlines()]
    assert {name for name, _, _ in lines} == set(chunks)
    assert ("sound", "read") in {(name, outcome) for name, outcome, _ in lines}
    return {name: (outcome, int(growth)) for name, outcome, growth in lines}


@pytest.fixture(scope="module")
def of_claims(tmp_path_factory):
    return outcomes_of(tmp_path_factory.mktemp("claims"), claims(), 4000)


@pytest.fixture(scope="module")
def of_bombs(tmp_path_factory):
    return outcomes_of(tmp_path_factory.mktemp("bombs"), bombs(), 200)


@pytest.mark.parametrize("name", [name for name, _ in claims()])
def test_claims_are_refused_without_memory(of_claims, name):
    outcome, growth = of_claims[name]
    assert outcome == "refused"
    assert growth < GROWTH_KIB


@pytest.mark.parametrize("name", [name for name, _ in bombs()])
def test_what_is_too_large_ends_in_an_error(of_bombs, name):
    """Where memory is short, too. Before 2.2 HDF5 takes the first bytes of a chunk that is longer than others."""
    outcome, _ = of_bombs[name]
    assert outcome == ("read" if HDF5 < (2, 2) and name in ("zeros", "noise") else "refused")

