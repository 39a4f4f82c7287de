"""Deltas between tensors in memory: made, applied in place, listed, and numbered."""
import copy
import os
import pickle
import signal
import threading
import time

import pytest

numpy = pytest.importorskip("numpy", reason="NumPy is not installed")

import lmcodec  # noqa: E402
import lmcodec.numpy  # noqa: E402
from lmcodec import _abi  # noqa: E402
from lmcodec._changes import versions  # noqa: E402

SHARE = {"few": 0.003, "some": 0.05, "all": 1.0}


def made(seed=1):
    random = numpy.random.default_rng(seed)
    return {"w": random.standard_normal((600, 700), dtype="f4"), "h": random.standard_normal((3, 50000)).astype("f2"),
            "d": random.standard_normal(5000), "b": random.standard_normal(300, dtype="f4"),
            "n": random.integers(0, 1000, 4000), "u": random.integers(0, 255, 9000, dtype="u1"),
            "s": numpy.array(2.5), "e": numpy.zeros((0, 3), "f4")}


def changed(state, share, seed=2):
    """A copy of which about this share of the elements differ a little."""
    random = numpy.random.default_rng(seed)
    new = {}
    for name, array in state.items():
        copy = numpy.array(array)
        picked = random.random(array.shape) < share
        copy[picked] = copy[picked] + numpy.array(1, array.dtype)
        new[name] = copy
    return new


def copied(state):
    return {name: numpy.array(array) for name, array in state.items()}


def are_equal(a, b):
    return a.keys() == b.keys() and all(a[name].tobytes() == b[name].tobytes() for name in a)


@pytest.fixture(params=SHARE)
def pair(request):
    old = made()
    return old, changed(old, SHARE[request.param])


# ---- delta() and apply() ----

@pytest.mark.parametrize("unchecked", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_apply_makes_the_new_version_of_the_old_one(pair, unchecked, threads):
    old, new = pair
    delta = lmcodec.delta(old, new, threads=threads)
    state = copied(old)
    addresses = {name: array.ctypes.data for name, array in state.items()}
    lmcodec.apply(delta, state, write_unchecked=unchecked, threads=threads)
    assert are_equal(state, new)
    assert addresses == {name: array.ctypes.data for name, array in state.items()}


def test_a_delta_of_few_changes_is_small():
    old = made()
    new = changed(old, 0.003)
    count = sum(int((old[name] != new[name]).sum()) for name in old)
    assert len(lmcodec.delta(old, new)) < 8 * count + 4000 < len(lmcodec.delta({}, new)) / 50


@pytest.mark.parametrize("given", ["path", "bytes", "bytearray", "memoryview", "open", "File"])
def test_a_delta_is_given_in_any_form(directory, given):
    old, new = made(), changed(made(), 0.01)
    delta, state = lmcodec.delta(old, new), copied(old)
    path = os.path.join(directory, "d.lmc")
    with open(path, "wb") as file:
        file.write(delta)
    if given == "open":
        with open(path, "rb") as file:
            lmcodec.apply(file, state)
    elif given == "File":
        with lmcodec.File(path) as file:
            lmcodec.apply(file, state)
    else:
        lmcodec.apply({"path": path, "bytes": delta, "bytearray": bytearray(delta),
                       "memoryview": memoryview(delta)}[given], state)
    assert are_equal(state, new)


def test_shards_and_order_may_differ():
    old, new = made(), changed(made(), 0.01)
    names = sorted(old)
    shards = [{name: old[name] for name in names[:3]}, {name: old[name] for name in names[3:]}]
    delta = lmcodec.delta(shards, {name: new[name] for name in reversed(names)})
    state = copied(old)
    parts = [{name: state[name] for name in names[5:]}, {}, {name: state[name] for name in names[:5]}]
    lmcodec.apply(delta, parts)
    assert are_equal(state, new)
    with pytest.raises(lmcodec.ArgumentError, match="two shards have a tensor 'w'"):
        lmcodec.delta([old, old], new)
    with pytest.raises(TypeError, match="not of list"):
        lmcodec.apply(delta, [[1]])


def test_names_may_differ():
    old, new = made(), changed(made(), 0.01)
    before = {"module." + name: array for name, array in old.items()}
    delta = lmcodec.delta(before, new, names=lambda name: "module." + name)
    assert len(delta) < len(lmcodec.delta(before, new)) / 4
    state = {name.upper(): array for name, array in copied(old).items()}
    lmcodec.apply(delta, state, names=str.upper)
    assert are_equal({name.lower(): array for name, array in state.items()}, new)
    state = copied(old)
    state["moved"] = state.pop("w")
    lmcodec.apply(delta, state, names={"w": "moved"})
    assert (state["moved"] == new["w"]).all()


def test_tensors_come_and_go():
    old, new = made(), changed(made(), 0.01)
    del new["h"]
    new["w"] = new["w"].astype("f8")  # another dtype is another tensor
    new["more"] = numpy.arange(1000, dtype="f4")
    delta = lmcodec.delta(old, new)
    state = copied(old)
    with pytest.raises(lmcodec.ArgumentError, match="tensor 'w': the delta has the dtype F64"):
        lmcodec.apply(delta, state)
    state["w"] = numpy.zeros(new["w"].shape)
    with pytest.raises(lmcodec.ArgumentError, match="the state has no tensor 'more'"):
        lmcodec.apply(delta, state)
    state["more"] = numpy.zeros(1000, "f4")
    lmcodec.apply(delta, state)
    assert are_equal({name: state[name] for name in new}, new) and (state["h"] == old["h"]).all()


def test_buffers_without_a_framework():
    old, new = bytes(range(256)) * 40, bytearray(bytes(range(256)) * 40)
    new[77:80] = b"new"
    delta = lmcodec.delta({"t": ("U8", (10240,), old)}, {"t": ("U8", (10240,), new)})
    place = bytearray(old)
    lmcodec.apply(delta, {"t": ("U8", (10240,), place)})
    assert place == new
    with pytest.raises(BufferError):
        lmcodec.apply(delta, {"t": ("U8", (10240,), old)})
    with pytest.raises(lmcodec.ArgumentError, match=r"the delta has U8 \[10240\], the state I16 \[5120\]"):
        lmcodec.apply(delta, {"t": ("I16", (5120,), bytearray(old))})


def test_what_the_delta_says_of_itself():
    old, new = made(), changed(made(), 0.01)
    told = []
    delta = lmcodec.delta(old, new, metadata={"step": "7"}, progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] > 0
    with lmcodec._files.memory.file_of(delta) as path, lmcodec.File(path) as file:
        assert file.metadata == {"step": "7"} and file.base_names == ["base.safetensors"]
        assert file.coding("w").mode == "delta"


def test_it_is_an_archive_with_a_base_file(directory):
    """The base is what save_file() writes of the tensors."""
    old, new = made(), changed(made(), 0.01)
    lmcodec.numpy.save_file(old, os.path.join(directory, "base.safetensors"))
    path = os.path.join(directory, "d.lmc")
    with open(path, "wb") as file:
        file.write(lmcodec.delta(old, new))
    assert are_equal(lmcodec.numpy.load_file(path), new)
    lmcodec.restore(path, os.path.join(directory, "new.safetensors"))
    assert are_equal(lmcodec.numpy.load_file(os.path.join(directory, "new.safetensors")), new)


def test_an_archive_of_a_file_is_applied(directory):
    old, new = made(), changed(made(), 0.01)
    paths = [os.path.join(directory, name) for name in ("old.safetensors", "new.safetensors")]
    for path, state in zip(paths, (old, new)):
        lmcodec.numpy.save_file(state, path, {"format": "np"})
    lmcodec.convert(paths[1], base=paths[0])
    state = copied(old)
    os.remove(paths[0])  # the memory is enough
    lmcodec.apply(paths[1] + ".lmc", state)
    assert are_equal(state, new)
    with pytest.raises(lmcodec.ArgumentError, match="is not an archive"):
        lmcodec.apply(paths[1], state)


# ---- what is refused, before a byte is written ----

def refused(delta, state, error, text):
    before = copied(state)
    with pytest.raises(error, match=text):
        lmcodec.apply(delta, state)
    assert are_equal(state, before)


def test_the_same_delta_again(pair):
    old, new = pair
    delta, state = lmcodec.delta(old, new), copied(old)
    lmcodec.apply(delta, state)
    refused(delta, state, lmcodec.BaseError, "the changes were applied before")
    assert are_equal(state, new)


@pytest.mark.parametrize("name", ["w", "h", "d", "n", "u"])
def test_one_wrong_bit_of_the_base(pair, name):
    old, new = pair
    delta, state = lmcodec.delta(old, new), copied(old)
    flat = state[name].reshape(-1).view("u1")
    flat[-1] ^= 1
    with_base = [lmcodec._files.memory.file_of(delta)]
    with with_base[0] as path, lmcodec.File(path) as file:
        if file.coding(name).mode != "delta":
            pytest.skip("the tensor was coded alone")
    refused(delta, state, lmcodec.BaseError, "tensor '%s': the tensor in memory is not the one" % name)


def test_memory_that_is_shared():
    shared = numpy.arange(4000, dtype="f4")
    old = {"a": shared, "b": shared}
    new = {"a": shared + 1, "b": shared + 2}
    refused(lmcodec.delta(old, new), old, lmcodec.ArgumentError, "tensor 'b': shares memory")
    whole = numpy.arange(5000, dtype="f4")
    refused(lmcodec.delta({"a": whole[:4000], "b": whole[1000:]}, {"a": whole[:4000] + 1, "b": whole[1000:] + 1}),
            {"a": whole[:4000], "b": whole[1000:]}, lmcodec.ArgumentError, "shares memory")


def test_tied_tensors():
    shared = numpy.arange(4000, dtype="f4")
    new = numpy.arange(4000, dtype="f4")
    new[5] = -1
    delta = lmcodec.delta({"a": shared, "b": shared}, {"a": new, "b": new})
    apart = {"a": shared.copy(), "b": shared.copy()}
    lmcodec.apply(delta, {"a": shared, "b": shared})
    assert (shared == new).all()
    lmcodec.apply(delta, apart)
    assert (apart["a"] == new).all() and (apart["b"] == new).all()


class OwnArray:
    """As an array of JAX, which cannot be changed in place."""

    def __array__(self, *arguments, **options):
        return numpy.zeros(3)


@pytest.mark.parametrize("spoil, text", [
    (lambda a: a[:, ::2].copy()[:, :0], "tensor 'w': the state's array has the shape"),
    (lambda a: a.astype("f2"), "the delta has the dtype F32"),
    (lambda a: numpy.asfortranarray(a), "be contiguous"), (lambda a: a.astype(">f4"), "little-endian"),
    (lambda a: OwnArray(), "tensor 'w': the state's array is not a NumPy array, but of the type OwnArray"),
    (lambda a: a.tolist(), "tensor 'w': "), (lambda a: None, "tensor 'w': ")])
def test_tensors_that_cannot_be_changed(spoil, text):
    old, new = made(), changed(made(), 0.01)
    state = copied(old)
    state["w"] = spoil(state["w"])
    with pytest.raises((lmcodec.ArgumentError, TypeError, ValueError), match=text):
        lmcodec.apply(lmcodec.delta(old, new), state)


def test_pairs_of_values():
    extensions = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    old, new = numpy.zeros((2, 8), extensions.float4_e2m1fn), numpy.ones((2, 8), extensions.float4_e2m1fn)
    delta, packed = lmcodec.delta({"a": old}, {"a": new}), bytearray(8)
    with pytest.raises(lmcodec.DTypeError, match="a byte for each value of F4"):
        lmcodec.apply(delta, {"a": old})
    lmcodec.apply(delta, {"a": ("F4", (2, 8), packed)})
    assert packed == lmcodec.deserialize(lmcodec.numpy.save({"a": new}))[0][1]["data"]


def test_read_only_tensors():
    old, new = made(), changed(made(), 0.01)
    state = copied(old)
    state["w"].flags.writeable = False
    refused(lmcodec.delta(old, new), state, lmcodec.ArgumentError, "tensor 'w': the state's array is read-only")


def test_damage():
    """Every byte of a delta may be damaged: what is written is right, or nothing is."""
    old = {"a": numpy.arange(3000, dtype="f4"), "b": numpy.arange(500, dtype="f2")}
    new = changed(old, 0.02)
    delta = lmcodec.delta(old, new)
    for at in range(len(delta)):
        damaged = bytearray(delta)
        damaged[at] ^= 0x11
        state = copied(old)
        try:
            lmcodec.apply(damaged, state)
        except (lmcodec.LMCError, OSError):
            assert are_equal(state, old), at
        else:
            assert are_equal(state, new), at
    for nbytes in range(0, len(delta), 7):
        refused(delta[:nbytes], copied(old), (lmcodec.LMCError, OSError), None)


def test_a_file_without_a_base(directory, archive):
    old = lmcodec.numpy.load_file(archive)
    state = {name: numpy.zeros_like(array) for name, array in old.items()}
    lmcodec.apply(archive, state)  # it holds all of each tensor
    assert are_equal(state, old)


# ---- what changes ----

def test_changes(directory, pair):
    old, new = pair
    path = os.path.join(directory, "d.lmc")
    with open(path, "wb") as file:
        file.write(lmcodec.delta(old, new))
    lmcodec.numpy.save_file(old, os.path.join(directory, "base.safetensors"))
    with lmcodec.File(path) as file, lmcodec.safe_open(path, "np") as arrays:
        for name in old:
            indices, values = arrays.changes(name)
            found = file.changes(name)
            if indices is None:
                assert values.tobytes() == new[name].tobytes() == bytes(found.values) and found.indices is None
                continue
            expected = numpy.flatnonzero(old[name] != new[name])
            assert indices.dtype == numpy.int32 and (indices == expected).all()
            assert (values == new[name].reshape(-1)[expected]).all() and values.dtype == new[name].dtype
            in_memory = file.changes(name, base=old[name])
            assert in_memory == found and found.indices.tolist() == expected.tolist()
            assert bytes(found.values) == values.tobytes() and found.element_nbytes == values.itemsize


@pytest.mark.parametrize("share", SHARE.values())
@pytest.mark.parametrize("kind", ["f4", "f2", "f8", "u1"])
def test_changes_of_frames(share, kind):
    old = numpy.random.default_rng(3).standard_normal(300000).astype(kind)
    new = changed({"t": old}, share)["t"]
    frame = lmcodec.encode(new, base=old)
    if lmcodec.info(frame).mode != "delta":
        assert lmcodec.changes(frame, old) == (None, new.tobytes(), old.itemsize)
        return
    found = lmcodec.changes(frame, old)
    expected = numpy.flatnonzero(old != new)
    assert found.indices.tolist() == expected.tolist() and bytes(found.values) == new[expected].tobytes()
    for wrong in (old[1:], old + numpy.array(1, kind)):
        with pytest.raises(lmcodec.BaseError):
            lmcodec.changes(frame, wrong)
    cut = frame[:-3]
    with pytest.raises(lmcodec.LMCError):
        lmcodec.changes(cut, old)
    cut += b"..."  # it can be resized: nothing holds it any longer


def test_changes_want_the_base(directory):
    old, new = made(), changed(made(), 0.01)
    path = os.path.join(directory, "d.lmc")
    with open(path, "wb") as file:
        file.write(lmcodec.delta(old, new))
    with lmcodec.File(path) as file:
        with pytest.raises(lmcodec.BaseError, match="needs the base base.safetensors"):
            file.changes("w")
        with pytest.raises(lmcodec.ArgumentError, match="the base has 4 bytes, the tensor"):
            file.changes("w", base=b"1234")
        with pytest.raises(lmcodec.BaseError, match="not the one that the changes were made against"):
            file.changes("w", base=old["w"] + 1)
        with pytest.raises(lmcodec.TensorNotFound):
            file.changes("none")


def test_changes_of_parts_of_numbers_are_refused(directory):
    old = {"c": numpy.arange(4000).astype("c8")}
    path = os.path.join(directory, "d.lmc")
    with open(path, "wb") as file:
        file.write(lmcodec.delta(old, {"c": old["c"] + numpy.array(1j, "c8")}))
    with lmcodec.safe_open(path, "np") as file, pytest.raises(lmcodec.DTypeError, match="C64"):
        file.changes("c")


# ---- parts ----

def test_parts(pair):
    old, new = pair
    state = copied(old)
    parts = list(lmcodec.delta_parts(old, new, part_nbytes=100000))
    assert len(parts) > 2
    for part in reversed(parts):
        lmcodec.apply(part, state)
    assert are_equal(state, new)
    with pytest.raises(lmcodec.ArgumentError):
        next(lmcodec.delta_parts(old, new, part_nbytes=0))


def test_parts_are_made_when_they_are_wanted():
    old, new = made(), changed(made(), 0.01)
    state = copied(old)
    parts = lmcodec.delta_parts(old, new, part_nbytes=1)
    lmcodec.apply(next(parts), state)
    new["u"][0] ^= 1  # not encoded yet
    for part in parts:
        lmcodec.apply(part, state)
    assert are_equal(state, new)


# ---- versions ----

@pytest.fixture
def stream():
    """A writer, a reader, the tensors of both, and a function that makes the next version."""
    trained, served = made(), made()
    step = iter(range(100, 200))

    def train():
        for name, array in changed(trained, 0.01, next(step)).items():
            trained[name][...] = array

    return lmcodec.DeltaWriter(trained), lmcodec.DeltaReader(served), trained, served, train


def test_versions(stream):
    writer, reader, trained, served, train = stream
    assert (writer.version, reader.version) == (0, None)
    for version in range(1, 6):
        train()
        delta = writer.delta(trained)
        assert reader.apply(delta) == version == reader.version == writer.version
        assert are_equal(trained, served)


@pytest.mark.parametrize("is_received", [True, False])
def test_a_writer_is_interrupted_while_its_copy_is_renewed(stream, is_received, monkeypatch):
    writer, reader, trained, served, train = stream
    reader.apply(writer.delta(trained))
    overwrite = versions.overwrite

    def interrupted(pairs, threads):
        overwrite(pairs[:1], threads)
        monkeypatch.undo()
        raise KeyboardInterrupt

    train()
    monkeypatch.setattr(versions, "overwrite", interrupted)
    parts = writer.parts(trained)
    delta = next(parts)
    with pytest.raises(KeyboardInterrupt):
        next(parts)
    assert writer.version == 2
    assert reader.apply(delta if is_received else writer.snapshot()) == 2 and are_equal(trained, served)
    train()
    assert reader.apply(writer.delta(trained)) == 3 and are_equal(trained, served)


@pytest.mark.parametrize("copied_by", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_writer_is_not_copied(stream, copied_by):
    with pytest.raises(TypeError, match="a DeltaWriter cannot be copied or pickled"):
        copied_by(stream[0])


def test_versions_out_of_order(stream):
    writer, reader, trained, served, train = stream
    deltas = []
    for _ in range(4):
        train()
        deltas.append(writer.delta(trained))
    with pytest.raises(lmcodec.BaseError, match=r"^\(bytes\).*leads from version 2 to 3") as caught:
        reader.apply(deltas[2])
    assert caught.value.file == "(bytes)" and caught.value.tensor in served and caught.value.status
    reader.apply(deltas[0])
    with pytest.raises(lmcodec.BaseError, match="version 2 is missing.* leads to version 3.* at version 1"):
        reader.apply(deltas[2])
    with pytest.raises(lmcodec.BaseError, match="version 1 was applied before.* at version 1"):
        reader.apply(deltas[0])
    other = made(9)
    foreign = lmcodec.DeltaWriter(other)
    foreign.delta(other)
    with pytest.raises(lmcodec.BaseError, match="of another stream"):
        reader.apply(foreign.delta(changed(other, 0.1)))
    assert reader.version == 1
    for delta in deltas[1:]:
        reader.apply(delta)
    assert are_equal(trained, served) and reader.version == 4


@pytest.mark.posix
def test_a_reader_that_is_interrupted(stream, monkeypatch):
    """The write cannot be ended: the interrupt is heard after it, and the reader knows that it was done."""
    writer, reader, trained, served, train = stream
    apply = _abi.st_changes_apply
    main = threading.main_thread().ident

    def interrupted(*arguments):
        status = apply(*arguments)
        signal.pthread_kill(main, signal.SIGINT)
        time.sleep(0.2)
        return status

    train()
    delta = writer.delta(trained)
    monkeypatch.setattr(_abi, "st_changes_apply", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reader.apply(delta)
    monkeypatch.undo()
    assert reader.version == 1 and are_equal(trained, served)
    train()
    assert reader.apply(writer.delta(trained)) == 2 and are_equal(trained, served)


def test_a_snapshot_brings_a_reader_back(stream):
    writer, reader, trained, served, train = stream
    train()
    reader.apply(writer.delta(trained))
    train()
    writer.delta(trained)  # is lost
    snapshot = writer.snapshot()
    assert reader.apply(snapshot) == 2 and are_equal(trained, served)
    late = lmcodec.DeltaReader({name: numpy.zeros_like(array) for name, array in served.items()})
    assert late.apply(snapshot) == 2
    train()
    delta = writer.delta(trained)
    assert reader.apply(delta) == late.apply(delta) == 3 and are_equal(trained, served)


def test_versions_in_parts(stream):
    writer, reader, trained, served, train = stream
    train()
    parts = list(writer.parts(trained, 100000))
    for part in parts[1:]:
        assert reader.apply(part) is None
    with pytest.raises(lmcodec.BaseError):
        reader.apply(parts[1])
    assert reader.apply(parts[0]) == 1 and are_equal(trained, served)
    train()
    stream_of_parts = writer.parts(trained, 100000)
    next(stream_of_parts)
    stream_of_parts.close()
    assert writer.version == 1
    reader.apply(writer.delta(trained))
    assert reader.version == 2 and are_equal(trained, served)


def test_a_part_of_a_version_that_is_not_whole(stream):
    """After some parts of a version, those of the next one are refused."""
    writer, reader, trained, served, train = stream
    train()
    reader.apply(writer.delta(trained))
    train()
    second = list(writer.parts(trained, 100000))
    reader.apply(second[0])
    train()
    with pytest.raises(lmcodec.BaseError, match="version 2 is missing"):
        reader.apply(writer.delta(trained))
    for part in second[1:]:
        reader.apply(part)
    assert reader.version == 2


def test_the_tensors_of_a_stream_may_change(stream):
    writer, reader, trained, served, train = stream
    train()
    trained["more"] = numpy.arange(50, dtype="f4")
    served["more"] = numpy.zeros(50, "f4")
    del trained["u"], served["u"]
    reader.apply(writer.delta(trained))
    trained["more"] += 1
    reader.apply(writer.delta(trained))
    assert are_equal(trained, served)


def test_a_delta_without_a_version(stream):
    writer, reader, trained, served, train = stream
    with pytest.raises(lmcodec.ArgumentError, match="has no version"):
        reader.apply(lmcodec.delta(trained, trained))
    for version, part in (("one", "1 of 1"), ("1", "0 of 1"), ("1", "3 of 2"), ("-1", "1 of 1"), ("1", "1")):
        metadata = {"lmc_stream": "x", "lmc_version": version, "lmc_part": part}
        damaged = lmcodec.delta(trained, trained, metadata=metadata)
        with pytest.raises(lmcodec.DataError, match="has no sound version"):
            reader.apply(damaged)
