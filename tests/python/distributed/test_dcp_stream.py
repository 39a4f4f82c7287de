"""The streams of lmcodec.dcp.Lmc, without ranks."""
import io
import os
import random

from dcp_ranks import numbers, torch

import pytest

import lmcodec
from lmcodec.dcp import Lmc, registry
from lmcodec.dcp._stream import FRAME_NBYTES


class Output(io.BytesIO):
    """What an item is written to: torch closes it, and goes on with the file."""

    def close(self):
        pass


def coded(writes, **options):
    output = Output()
    stream = Lmc(**options).transform_to(output)
    for content in writes:
        assert stream.write(content) == len(memoryview(content).cast("B"))
    stream.close()
    stream.close()
    return output.getvalue()


def decoder(stream):
    return Lmc.from_descriptor("1").transform_from(io.BytesIO(stream))


def pieces(stream, nbytes):
    found = decoder(stream)
    got = []
    while True:
        part = found.read(nbytes)
        got.append(part)
        if not part:
            return b"".join(got)


def weights(count, dtype=torch.bfloat16):
    return numbers(3, count, dtype=dtype).view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("writes", [
    [], [b""], [b"a"], [b"a", b"", b"bc"] * 100, [bytes(100000)], [weights(1 << 20)],
    [b"head", weights(FRAME_NBYTES // 2 + 17), b"tail"], [weights(40000), weights(70000)] * 3,
    [os.urandom(1000)] * 9000, [memoryview(weights(1000)).cast("H")], [bytearray(5), memoryview(b"12")]],
    ids=["nothing", "empty", "byte", "small", "zeros", "frame", "two frames", "mixed", "many", "view", "kinds"])
def test_what_is_written_is_read(writes):
    content = b"".join(bytes(memoryview(part).cast("B")) for part in writes)
    stream = coded(writes)
    assert decoder(stream).read(-1) == content and decoder(stream).readall() == content
    assert pieces(stream, 65537) == content
    buffer = bytearray(content)
    assert decoder(coded(writes, level="fast", threads=2)).readinto(buffer) in range(len(content) + 1)


def test_dtypes_are_guessed():
    for dtype, ratio in (torch.bfloat16, 0.70), (torch.float32, 0.86), (torch.float16, 0.93):
        content = weights(1 << 20, dtype)
        assert len(coded([content])) < ratio * len(content)


def test_no_frame_has_more_than_its_bound():
    stream = coded([bytes(3 * FRAME_NBYTES), os.urandom(FRAME_NBYTES + 1)])
    place, contents = 0, []
    while True:
        length = int.from_bytes(stream[place:place + 8], "little")
        if length == 0:
            break
        contents.append(lmcodec.info(stream[place + 8:place + 8 + length]).nbytes)
        place += 8 + length
    assert contents == [FRAME_NBYTES] * 4 + [1] and place + 8 == len(stream)


def test_every_cut_is_refused():
    stream = coded([weights(40000), b"tail"])
    for nbytes in [*range(40), *range(len(stream) - 70, len(stream))]:
        with pytest.raises(lmcodec.DataError, match="cut at byte %d" % nbytes):
            decoder(stream[:nbytes]).read(-1)


def test_damage_is_refused():
    content = [weights(40000), b"tail"]
    stream = coded(content)
    chance = random.Random(4)
    for _ in range(300):
        damaged = bytearray(stream)
        damaged[chance.randrange(len(stream))] ^= chance.randrange(1, 256)
        with pytest.raises((lmcodec.DataError, lmcodec.UnsupportedError, lmcodec.BaseError), match="stream of lmcodec"):
            decoder(bytes(damaged)).read(-1)


def test_frames_that_this_writer_does_not_write_are_refused():
    def stream_of(frame):
        return len(frame).to_bytes(8, "little") + frame + bytes(8)
    for frame in lmcodec.encode(b""), lmcodec.encode(bytes(FRAME_NBYTES + 1)):
        with pytest.raises(lmcodec.DataError, match="bytes of content"):
            decoder(stream_of(bytes(frame))).read(-1)
    with pytest.raises(lmcodec.DataError, match="bytes follow its end"):
        decoder(coded([b"a"]) + b"b").read(-1)
    with pytest.raises(lmcodec.DataError, match="a frame of 18446744073709551615 bytes"):
        decoder(b"\xff" * 8).read(-1)


def test_descriptors():
    assert Lmc().get_descriptor() == "stream.lmc/1"
    found, = registry().from_descriptor_list(["stream.lmc/1"])
    assert isinstance(found, Lmc)
    with pytest.raises(ValueError, match="stream.lmc/2"):
        registry().from_descriptor_list(["stream.lmc/2"])
