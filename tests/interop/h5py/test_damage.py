"""Stored chunks that are not what was written: HDF5 must say so, whatever is wrong, and go on working.

Chunks that break one rule each, with checks that are right, are in tests/format/vectors/h5/corrupt and
tests/unit/filter/test_h5_forged.c."""

import re

import numpy
import pytest

import contents
import filetypes
import forge
import victims
from bed import HDF5, h5py
from cases import Case, Layout
from library import last_error


@pytest.fixture(scope="module")
def opened():
    with victims.victims_file() as file:
        yield {victim.name: victims.Opened(victim, file) for victim in victims.ALL}


@pytest.fixture(params=victims.ALL, ids=lambda victim: victim.name)
def target(request, opened):
    found = opened[request.param.name]
    yield found
    assert found.read_with(found.chunk) == found.victim.expected().tobytes()


def flipped(data, i, mask):
    return data[:i] + bytes([data[i] ^ mask]) + data[i + 1:]


def faults(target, chunks):
    found = ((name, target.fault_with(chunk)) for name, chunk in chunks)
    return [(name, fault) for name, fault in found if fault]


def check_refused(target, chunks):
    assert not faults(target, chunks)


def test_truncated(target):
    check_refused(target, ((n, target.chunk[:n]) for n in range(1, len(target.chunk))))


def test_every_byte(target):
    check_refused(target, (((i, mask), flipped(target.chunk, i, mask))
                           for i in range(len(target.chunk)) for mask in (1 << i % 8, 0xFF)))


def test_bytes_too_many(target):
    check_refused(target, ((repr(more), target.chunk + more) for more in (b"\0", b"\xff", bytes(8), target.chunk)))


def test_garbage(target):
    nbytes = len(target.chunk)
    raw = target.victim.expected().tobytes()
    check_refused(target, [
        ("raw", raw), ("zeros", bytes(nbytes)), ("ones", b"\xff" * nbytes),
        ("noise", contents.noise("garbage", nbytes)), ("text", contents.text("garbage", nbytes, 1)),
        ("zstd", b"\x28\xb5\x2f\xfd" + bytes(nbytes)),
        ("gzip", b"\x78\x9c" + contents.noise("gzip", nbytes)), ("one byte", b"\x8c"),
        *[(f"magic and {n}", forge.MAGIC + contents.noise("m", n)) for n in (0, 1, 4, 28, 100, 1000)],
        *[(f"other magic and {n}", forge.MAGIC_REGROUPED + contents.noise("m", n))
          for n in (0, 1, 4, 6, 14, 100, 1000)],
        ("reversed", target.chunk[::-1]),
    ])


def test_chunks_of_other_sizes(target, opened):
    """A frame that is right in itself, of a chunk that is not as large as those of the dataset."""
    nbytes = len(target.victim.expected().tobytes())
    raw = contents.noise("other", 2 * nbytes)
    check_refused(target, ((n, forge.stored_frame(raw[:n])) for n in (0, 1, nbytes - 1, nbytes + 1, 2 * nbytes)))
    check_refused(target, ((n, forge.short_frame(raw[:n])) for n in range(0, min(nbytes, 256), 5)))
    check_refused(target, ((name, other.chunk) for name, other in opened.items()
                           if len(other.victim.expected().tobytes()) != nbytes))


@pytest.mark.parametrize("victim", [v for v in victims.ALL if v.pipeline.name == "plain"], ids=lambda v: v.name)
def test_forged_frames_of_the_right_size_are_read(victim, opened):
    """The forger's frames are frames: what the other tests refuse is refused for the change alone."""
    target = opened[victim.name]
    raw = contents.noise("right", len(target.victim.expected().tobytes()))
    assert target.read_with(forge.stored_frame(raw)) == raw
    if len(raw) < 256:
        assert target.read_with(forge.short_frame(raw)) == raw
    size = target.victim.filetype.size
    if size > 1:
        columns = [raw[i::size] for i in range(size)]
        frames = [forge.stored_frame(column) for column in columns]
        assert target.read_with(forge.regrouped(forge.COLUMNS, 0, size, frames)) == raw
        records = forge.regrouped(forge.RECORDS, 0, size, [forge.stored_frame(raw)])
        assert target.read_with(records) == b"".join(columns)
    if len(raw) % 4 == 0:
        swapped = numpy.frombuffer(raw, "<u4").byteswap().tobytes()
        assert target.read_with(forge.regrouped(forge.PLAIN, 4, 0, [forge.stored_frame(swapped)])) == raw


# ---- datasets of several chunks, and other pipelines ----


def test_the_other_chunks_stay_readable(tmp_path):
    case = Case(filetypes.BY_NAME["f4le"], Layout("five", (500,), (100,)))
    with h5py.File(tmp_path / "five.h5", "w") as file:
        case.write(file)
    with h5py.File(tmp_path / "five.h5", "r+") as file:
        file[case.name].id.write_direct_chunk((200,), b"\x8cLMC nonsense")
    with h5py.File(tmp_path / "five.h5", "r") as file:
        values = case.expected()
        for start in (0, 100, 300, 400):
            assert file[case.name][start:start + 100].tobytes() == values[start:start + 100].tobytes()
        for part in (slice(200, 300), slice(199, 201), slice(0, 500), slice(250, 251)):
            with pytest.raises(OSError):
                file[case.name][part]


@pytest.mark.parametrize("name", ["fletcher_before", "fletcher_after", "gzip_after", "gzip_before", "twice",
                                  "shuffle_fletchers", "scaleoffset"])
def test_damage_beside_other_filters(name):
    case = victims.Victim("i4le", 400, name)
    with victims.victims_file() as file:
        dataset = case.write(file)
        dataset.flush()
        _, chunk = dataset.read_direct_chunk((0,))
        wanted = case.expected().tobytes()
        for i in range(4, len(chunk), 3):  # HDF5's fletcher32 does not survive fewer than 4 bytes
            for damaged in (flipped(chunk, i, 0x10), chunk[:i]):
                dataset.write_direct_chunk((0,), damaged)
                try:
                    found = victims.read_all(dataset).tobytes()
                except OSError:
                    continue
                # bits at the end of a deflate stream mean nothing
                assert found == wanted and name == "gzip_after"


def test_a_chunk_that_was_stored_without_the_filter(tmp_path):
    """The filter mask says so: HDF5 does not call LMC, and raw bytes are what is wanted. (It takes notice of the mask
    when the file is opened again.)"""
    victim = victims.ALL[0]
    raw = contents.noise("raw", len(victim.expected().tobytes()))
    with h5py.File(tmp_path / "mask.h5", "w") as file:
        victim.create(file).write_direct_chunk((0,), raw, 1)
    with h5py.File(tmp_path / "mask.h5", "r") as file:
        dataset = file[victim.name].id
        assert dataset.get_chunk_info(0).filter_mask == 1
        assert victims.read_all(dataset).tobytes() == raw


# ---- what is said ----


@pytest.mark.parametrize("victim", victims.ALL, ids=lambda victim: victim.name)
def test_messages(victim):
    """lmc_h5_last_error() has the cause and a place; HDF5's message has the same where it keeps what a filter says."""
    with victims.victims_file() as file:
        target = victims.Opened(victim, file)
        chunk = target.chunk
        middle = len(chunk) // 2
        for damaged in (chunk[:3], chunk[:12], chunk[:middle], chunk[:-1], chunk + b"\0", b"garbage" * 9,
                        flipped(chunk, 9, 4), flipped(chunk, 4, 3), flipped(chunk, middle, 4),
                        flipped(chunk, len(chunk) - 3, 1)):
            with pytest.raises(OSError) as caught:
                target.read_with(damaged)
            assert re.match(r"lmc: chunk.* byte \d+", last_error()), last_error()
            if HDF5 < (1, 14) or HDF5 >= (2, 2):
                assert last_error() in str(caught.value)


def test_message_about_the_size():
    with victims.victims_file() as file:
        target = victims.Opened(victims.ALL[0], file)
        with pytest.raises(OSError):
            target.read_with(forge.stored_frame(bytes(123)))
        assert last_error() == "lmc: chunk: holds 123 bytes where the dataset's chunks have 400"

