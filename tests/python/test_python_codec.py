"""Frames from Python: buffers of all kinds, errors, threads, children."""
import array
import gc
import mmap
import os
import threading

import numpy
import pytest

import lmcodec
from lmcodec import _codec

CONTENT = numpy.random.default_rng(3).standard_normal(50000).astype("f4").tobytes()


@pytest.mark.parametrize("level", ["default", "fast", "max"])
@pytest.mark.parametrize("dtype", lmcodec._abi.DTYPE_NAMES)
def test_every_dtype_comes_back(dtype, level):
    frame = lmcodec.encode(CONTENT, dtype, level=level)
    assert isinstance(frame, bytearray)
    assert lmcodec.info(frame).dtype == dtype
    assert lmcodec.decode(frame) == CONTENT


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, lambda content: array.array("B", content),
                                  lambda content: numpy.frombuffer(content, "i1")],
                         ids=["bytes", "bytearray", "memoryview", "array", "numpy"])
def test_every_buffer_is_taken(make):
    assert lmcodec.decode(make(lmcodec.encode(make(CONTENT)))) == CONTENT


def test_a_read_only_mapping_is_taken(directory):
    path = os.path.join(directory, "content")
    with open(path, "wb") as file:
        file.write(CONTENT)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert lmcodec.decode(lmcodec.encode(mapped, "F32")) == CONTENT


def test_read_only_arrays_are_taken_and_not_written_to():
    values = numpy.arange(1000.0)
    values.flags.writeable = False
    frame = lmcodec.encode(values)
    with pytest.raises((ValueError, BufferError)):
        lmcodec.decode(frame, values)
    with pytest.raises((TypeError, BufferError)):
        lmcodec.decode(frame, bytes(8000))


def test_arrays_that_are_not_contiguous_are_refused():
    values = numpy.arange(100.0).reshape(10, 10)
    for part in (values[:, 1], values.T, values[::2]):
        with pytest.raises((ValueError, BufferError)):
            lmcodec.encode(part)
        with pytest.raises((ValueError, BufferError)):
            lmcodec.decode(lmcodec.encode(numpy.ascontiguousarray(part)), part)


@pytest.mark.parametrize("values, dtype, row_nbytes", [
    (numpy.zeros((40, 50), "f4"), "F32", 200), (numpy.zeros(50, "f2"), "F16", 0),
    (numpy.zeros((2, 3, 4), "i8"), "I64", 96),
    (numpy.zeros((4, 64), "?"), "BOOL", 64), (numpy.zeros((9, 9), "c8"), "C64", 72),
    (numpy.zeros((9, 2, 40), "f4"), "F32", 160), (b"abc", "U8", 0),
    (numpy.zeros((40, 50), "u2"), "U16", 100), (numpy.zeros((), "f8"), "F64", 0)],
    ids=lambda value: getattr(value, "dtype", value).__str__())
def test_dtype_and_rows_are_those_of_the_buffer(values, dtype, row_nbytes):
    assert _codec._describe(values) == (dtype, row_nbytes)


def test_bf16_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    values = numpy.random.default_rng(1).standard_normal((700, 100)).astype(ml_dtypes.bfloat16)
    assert _codec._describe(values) == ("BF16", 200)
    frame = lmcodec.encode(values)
    assert lmcodec.info(frame).dtype == "BF16"
    assert len(frame) < 0.8 * values.nbytes
    assert lmcodec.decode(frame) == values.tobytes()


@pytest.mark.parametrize("nbytes", [0, 1, 255, 256, 5 << 20])
def test_every_size(nbytes):
    content = os.urandom(nbytes)
    frame = lmcodec.encode(content, threads=None)
    assert len(frame) <= nbytes + 48
    assert lmcodec.info(frame).nbytes == nbytes
    assert lmcodec.decode(frame, threads=2) == content


def test_content_that_another_thread_encodes_comes_back(monkeypatch):
    monkeypatch.setattr(_codec, "_WAITING_FROM_NBYTES", 1)
    assert lmcodec.decode(lmcodec.encode(CONTENT, "F32")) == CONTENT
    with pytest.raises(lmcodec.ChecksumError):
        lmcodec.decode(damaged(lmcodec.encode(CONTENT, "F32")))


def test_the_form_of_a_frame():
    halves = (numpy.random.default_rng(2).integers(-1000, 1000, 20000) * 2.0**-24).astype("f4")  # denormals of F16
    frame = lmcodec.encode(halves)
    assert lmcodec.info(frame).form == "F16 in F32" and not lmcodec.info(frame).has_rans
    assert lmcodec.info(frame[:32]) == lmcodec.info(frame)._replace(form=None)  # all that the head tells
    assert lmcodec.info(lmcodec.encode(CONTENT, "F32")).form is None
    frame[32] = 99  # a form of the future
    with pytest.raises(lmcodec.UnsupportedError):
        lmcodec.info(frame)


def test_decoding_into_a_buffer():
    out = numpy.zeros(50000, "f4")
    frame = lmcodec.encode(CONTENT, "F32")
    assert lmcodec.decode(frame, out) is out
    assert out.tobytes() == CONTENT
    for size in (49999, 50001):
        with pytest.raises(lmcodec.ArgumentError, match="out has"):
            lmcodec.decode(frame, numpy.zeros(size, "f4"))


def test_a_base():
    old = numpy.frombuffer(CONTENT, "f4")
    new = old.copy()
    new[::100] += 1
    frame = lmcodec.encode(new, base=old)
    assert lmcodec.info(frame).mode == "delta"
    assert lmcodec.info(frame).base_nbytes == len(CONTENT)
    assert lmcodec.decode(frame, base=old) == new.tobytes()
    for wrong in (None, b"", new, CONTENT[:-4]):
        with pytest.raises(lmcodec.BaseError):
            lmcodec.decode(frame, base=wrong)
    with pytest.raises(lmcodec.BaseError):
        lmcodec.encode(new, base=CONTENT[:-4])


def damaged(frame):
    frame = bytearray(frame)
    frame[len(frame) // 2] ^= 1
    return frame


def test_damaged_frames():
    frame = lmcodec.encode(CONTENT, "F32")
    with pytest.raises(lmcodec.ChecksumError):
        lmcodec.decode(damaged(frame))
    for nbytes in (0, 1, 20, len(frame) - 1):
        with pytest.raises(lmcodec.DataError):
            lmcodec.decode(frame[:nbytes])
    with pytest.raises(lmcodec.DataError):
        lmcodec.decode(b"no frame at all" * 10)
    with pytest.raises((lmcodec.LMCError, MemoryError)):
        lmcodec.decode(frame[:8] + b"\xff" * (len(frame) - 8))


@pytest.mark.parametrize("arguments", [{"dtype": "F128"}, {"level": "best"}, {"threads": 257}, {"threads": -1},
                                       {"threads": 1.5}, {"threads": "2"}, {"level": None}, {"dtype": 5},
                                       {"row_nbytes": -1}, {"row_nbytes": 1 << 32}, {"row_nbytes": 10**20}], ids=str)
def test_wrong_arguments(arguments):
    with pytest.raises(lmcodec.ArgumentError) as caught:
        lmcodec.encode(CONTENT, **arguments)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, lmcodec.SafetensorError)


def test_no_buffer():
    for wrong in (None, 5, "text", [1, 2]):
        with pytest.raises(TypeError):
            lmcodec.encode(wrong)
        with pytest.raises(TypeError):
            lmcodec.decode(wrong)


@pytest.mark.parametrize("dtype", ["O", [("O", "i4"), ("a", "O")]], ids=["array", "record"])
def test_python_objects_are_neither_read_nor_overwritten(dtype):
    objects = numpy.zeros(4, dtype)
    frame = lmcodec.encode(bytes(objects.nbytes))
    for buffer in (objects, memoryview(objects)):
        with pytest.raises(TypeError, match="Python objects"):
            lmcodec.encode(buffer, "U8", row_nbytes=0)
        with pytest.raises(TypeError, match="Python objects"):
            lmcodec.decode(frame, buffer)
    assert lmcodec.decode(lmcodec.encode(numpy.ones(3, [("O", "i4"), ("b", "f8")])))[:4] == b"\1\0\0\0"


def test_the_result_may_not_lie_where_the_frame_lies():
    frame = lmcodec.encode(CONTENT[:1000], "F32")
    room = bytearray(1000)
    room[:len(frame)] = frame
    with pytest.raises(lmcodec.ArgumentError):
        lmcodec.decode(memoryview(room)[:len(frame)], room)


def test_every_thread_has_a_context_which_ends_with_it():
    freed = []
    made = []

    def work():
        context = _codec.context()
        made.append(context.pointer.value)
        assert _codec.context() is context
        assert lmcodec.decode(lmcodec.encode(CONTENT, "F32")) == CONTENT

        class Watch:
            def __del__(self):
                freed.append(1)
        context.watch = Watch()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert len(made) == 8 and len(freed) == 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_makes_contexts_of_its_own():
    before = _codec.context()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            after = _codec.context()
            if after is not before and lmcodec.decode(lmcodec.encode(CONTENT, "F32")) == CONTENT:
                status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert _codec.context() is before
