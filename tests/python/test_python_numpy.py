"""lmcodec.numpy and lmcodec.flax in the place of the modules of safetensors."""
import io
import os
import pickle
import warnings
import zipfile

import numpy
import pytest

import lmcodec.numpy

LEFT_OUT = "left out: no %s here; another environment of the part `python` has it"
DTYPES = ["f8", "f4", "f2", "i8", "u8", "i4", "u4", "i2", "u2", "i1", "u1", "?", "c8"]
MORE = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz"]


def values_of(dtype, shape=(37, 64), seed=1):
    count = int(numpy.prod(shape))
    raw = numpy.random.default_rng(seed).integers(0, 2 if dtype == numpy.dtype("?") else 256,
                                                  count * numpy.dtype(dtype).itemsize, dtype="u1")
    return raw.view(dtype).reshape(shape)


def same(one, other):
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and one[name].shape == other[name].shape
        and one[name].tobytes() == other[name].tobytes() for name in one)


@pytest.fixture
def tensors():
    made = {dtype: values_of(numpy.dtype(dtype)) for dtype in DTYPES}
    made.update({"scalar": numpy.array(3.5), "none": numpy.zeros((3, 0, 2), "i4"),
                 "big endian": numpy.arange(5, dtype=">i4"),
                 "0-d of numpy": numpy.float32(7)})
    return made


def little(tensors):
    return {name: numpy.asarray(array, array.dtype.newbyteorder("<")) for name, array in tensors.items()}


def test_arguments_have_the_names_of_safetensors():
    arrays = {"a": numpy.ones(3)}
    content = lmcodec.numpy.save(tensor_dict=arrays, metadata={"a": "b"})
    assert content == lmcodec.numpy.save(arrays, {"a": "b"})
    assert lmcodec.numpy.load(data=content)["a"].tolist() == [1, 1, 1]


def test_both_packages_read_and_write_alike(directory, tensors):
    official = pytest.importorskip("safetensors.numpy", reason=LEFT_OUT % "safetensors")
    path = os.path.join(directory, "a.safetensors")
    lmcodec.numpy.save_file(tensors, path, {"a": "b"})
    ours = open(path, "rb").read()
    official.save_file({name: numpy.asarray(array) for name, array in tensors.items()}, path, {"a": "b"})
    assert ours == open(path, "rb").read() == lmcodec.numpy.save(tensors, {"a": "b"}, plain=True)
    assert same(lmcodec.numpy.load_file(path), official.load_file(path))
    assert same(lmcodec.numpy.load(ours), official.load(ours))


def test_archives(directory, tensors):
    path = os.path.join(directory, "a.lmc")
    lmcodec.numpy.save_file(tensors, path, {"a": "b"}, level="fast", threads=1)
    expected = little(tensors)
    assert same(lmcodec.numpy.load_file(path), {name: expected[name] for name in lmcodec.numpy.load_file(path)})
    content = open(path, "rb").read()
    for data in (content, bytearray(content), memoryview(content)):
        assert same(lmcodec.numpy.load(data), lmcodec.numpy.load_file(path))
    with lmcodec.File(path) as file:
        assert file.is_archive and file.metadata == {"a": "b"}


@pytest.mark.parametrize("name", MORE)
def test_dtypes_of_ml_dtypes(directory, name):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    path = os.path.join(directory, "a.lmc")
    tensors = {"a": values_of(numpy.dtype(getattr(ml_dtypes, name)))}
    lmcodec.numpy.save_file(tensors, path)
    assert same(lmcodec.numpy.load_file(path), tensors)
    with lmcodec.safe_open(path, "np") as file:
        assert file.get_slice("a")[3:5, 7].tobytes() == tensors["a"][3:5, 7].tobytes()


def test_fp4_has_two_values_in_a_byte(directory):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    path = os.path.join(directory, "a.lmc")
    values = numpy.arange(24, dtype="u1").reshape(2, 12) % 16
    lmcodec.numpy.save_file({"a": values.view(ml_dtypes.float4_e2m1fn)}, path)
    with lmcodec.safe_open(path, "np") as file:
        assert file.get_slice("a").get_dtype() == "F4" and file.get_slice("a").get_shape() == [2, 12]
        assert file.get_slice("a")[1, 3:5].astype("f4").tolist() == values.view(ml_dtypes.float4_e2m1fn)[1, 3:5].astype(
            "f4").tolist()
    with lmcodec.File(path) as file:
        assert file.read("a") == bytes(low | high << 4 for low, high in values.reshape(-1, 2).tolist())
    assert (lmcodec.numpy.load_file(path)["a"].view("u1") == values).all()
    with pytest.raises(lmcodec.LMCError, match="odd"):
        lmcodec.numpy.save_file({"a": values[0, :3].view(ml_dtypes.float4_e2m1fn)}, path)


def test_what_cannot_be_written(directory):
    path = os.path.join(directory, "a.lmc")
    values = numpy.arange(20.0).reshape(4, 5)
    for part in (values.T, values[:, 1], values[::2]):
        with pytest.raises(ValueError, match="non contiguous"):
            lmcodec.numpy.save_file({"a": part}, path)
    for dtype in ("c16", "U3", "M8[s]", "O"):
        with pytest.raises(lmcodec.DTypeError):
            lmcodec.numpy.save_file({"a": numpy.zeros(3, dtype)}, path)
    for wrong in ([1, 2], 5, None, "text"):
        with pytest.raises(TypeError):
            lmcodec.numpy.save_file({"a": wrong}, path)
    with pytest.raises(TypeError, match="metadata must map strings to strings, not 'a' to 5"):
        lmcodec.numpy.save_file({"a": values}, path, {"a": 5})
    with pytest.raises(TypeError, match="metadata must be a dict of strings, not list"):
        lmcodec.numpy.save_file({"a": values}, path, ["a"])
    with pytest.raises(lmcodec.ArgumentError, match="that of the metadata"):
        lmcodec.numpy.save_file({"__metadata__": values}, path)
    assert os.listdir(directory) == []


def test_bytes_that_are_damaged():
    content = bytearray(lmcodec.numpy.save({"a": numpy.arange(1000.0)}))
    for damaged in (b"", content[:-1], content[:-200] + b"damage" + content[-194:]):
        with pytest.raises(lmcodec.DataError) as caught:
            lmcodec.numpy.load(damaged)
        assert caught.value.file == "(bytes)" and str(caught.value).startswith("(bytes): ")


def test_read_only_arrays_are_written(directory):
    path = os.path.join(directory, "a.lmc")
    values = numpy.arange(20.0)
    values.flags.writeable = False
    lmcodec.numpy.save_file({"a": values}, path)
    assert lmcodec.numpy.load_file(path)["a"].flags.writeable


def test_dtypes_that_numpy_lacks(directory):
    path = os.path.join(directory, "a.lmc")
    lmcodec.serialize_file({"a": ("F6_E2M3", (4,), b"abc")}, path)
    with pytest.raises(lmcodec.DTypeError, match="F6_E2M3"):
        lmcodec.numpy.load_file(path)


def test_files_of_numpy(directory):
    arrays = {"a": values_of("f4", (300, 40)), "b": values_of("i2", (7,))}
    path = os.path.join(directory, "a")
    numpy.savez(path + ".npz", **arrays)
    numpy.save(path + ".npy", arrays["a"])
    numpy.save(path + "o.npy", numpy.array([{"a": 1}], dtype=object), allow_pickle=True)
    for name in (".npz", ".npy", "o.npy"):
        lmcodec.convert(path + name, raw=True)
    with lmcodec.numpy.load(path + ".npz.lmc") as found:
        assert same(dict(found), arrays)
    assert lmcodec.numpy.load(path + ".npy.lmc").tobytes() == arrays["a"].tobytes()
    with pytest.raises(ValueError, match="pickle"):
        lmcodec.numpy.load(path + "o.npy.lmc")
    assert lmcodec.numpy.load(path + "o.npy.lmc", allow_pickle=True)[0] == {"a": 1}
    with lmcodec.File(path + ".npz.lmc") as file:
        assert file.container == "zip" and file.tensors["a"].shape == (300, 40)


def warned(path):
    """What load_file() says of a file, and the same of its archive. The names that both give."""
    lmcodec.convert(path)
    told, loaded = [], []
    for name in (path, path + ".lmc"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loaded.append(sorted(lmcodec.numpy.load_file(name)))
        told.append([str(each.message).replace(name + ": ", "") for each in caught])
        assert all(each.filename == __file__ for each in caught)
    assert told[0] == told[1] and loaded[0] == loaded[1]
    return told[0], loaded[0]


LEAVES_OUT = "load_file() gives the tensors, and leaves out %s: lmcodec.numpy.load(%s) gives all"


@pytest.mark.parametrize("write, objects, told, names", [
    (numpy.savez_compressed, {}, ["a (compressed), e (compressed), t (compressed)", ""], []),
    (numpy.savez, {}, None, ["a", "e", "t"]),
    (numpy.savez, {"o": [{"b": 1}], "none": None}, ["o (Python objects), none (Python objects)", "allow_pickle=True"],
     ["a", "e", "t"]),
    (numpy.savez, {"n%d" % n: None for n in range(20)},
     [", ".join("n%d (Python objects)" % n for n in range(8)) + " and 12 more", "allow_pickle=True"], ["a", "e", "t"]),
], ids=["compressed", "stored", "objects", "many"])
def test_what_load_file_leaves_out_of_an_npz_file(directory, write, objects, told, names):
    path = os.path.join(directory, "a.npz")
    write(path, a=numpy.asfortranarray(values_of("f4", (300, 40))), e=numpy.zeros((3, 0)), t=numpy.array(["text"]),
          **{name: numpy.array(value, dtype=object) for name, value in objects.items()})
    assert warned(path) == ([LEAVES_OUT % tuple(told)] if told else [], names)


def test_names_of_what_load_file_leaves_out(directory):
    path = os.path.join(directory, "a.npz")
    numpy.savez(path, a=numpy.zeros(3), **{"n\nl\x1b": numpy.array([None], dtype=object)})
    assert warned(path)[0] == [LEAVES_OUT % (r"'n\nl\x1b (Python objects)'", "allow_pickle=True")]


def test_what_load_file_leaves_out_of_other_files(directory):
    path = os.path.join(directory, "o.npy")
    numpy.save(path, numpy.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert warned(path) == ([LEAVES_OUT % ("all of it (Python objects)", "allow_pickle=True")], [])
    path = os.path.join(directory, "a.npy")
    numpy.save(path, numpy.zeros((3, 0)))
    assert warned(path) == ([], ["array"])
    path = os.path.join(directory, "a.zip")
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("readme.txt", "text")
        file.writestr("b.npy", "no array")
    assert warned(path) == ([LEAVES_OUT % ("readme.txt (not an array), b (not an array)", "")], [])
    with zipfile.ZipFile(path + "2", "w") as file:
        file.writestr("readme.txt", "text")
        file.write(os.path.join(directory, "a.npy"), "a.npy")
    assert warned(path + "2") == ([], ["a"])


@pytest.mark.parametrize("tensor", ["a", "f", "big endian", "pair"])
def test_plain_npz_files_are_verified(directory, tensor):
    """By the CRC-32 of the members whose tensors are read whole, wherever the damage is."""
    arrays = {"a": values_of("f4", (1000, 700)), "f": numpy.asfortranarray(values_of("f8", (30, 40))),
              "big endian": numpy.arange(500, dtype=">i4"), "pair": values_of("f8", (50,)) + 1j, "none": numpy.zeros(0)}
    path = os.path.join(directory, "a.npz")
    numpy.savez(path, **arrays)
    sound = lmcodec.numpy.load_file(path)
    with zipfile.ZipFile(path) as file:
        entry = file.getinfo(tensor + ".npy")
    for place in (entry.header_offset + 300, entry.header_offset + entry.compress_size - 8):
        with open(path, "r+b") as file:
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 1]))
        out = {name: numpy.zeros_like(array) for name, array in sound.items()}
        with lmcodec.safe_open(path, "np") as file:
            copy = pickle.loads(pickle.dumps(file))
            for read in (lambda: lmcodec.numpy.load_file(path), lambda: lmcodec.numpy.load_into(out, path),
                         lambda: file.get_tensor(tensor), lambda: copy.get_tensor(tensor),
                         lambda: lmcodec.numpy.load_file(path, dtype="float32")):
                text = "a.npz: member '%s.npy': the CRC-32" % tensor
                with pytest.raises(lmcodec.ChecksumError, match=text) as caught:
                    read()
                assert (caught.value.file, caught.value.tensor) == (path, tensor)
            assert not any(array.any() for array in out.values())
            others = [name for name in arrays if name != tensor]
            assert same(file.get_tensors(others), {name: sound[name] for name in others})
        with pytest.raises(zipfile.BadZipFile, match="CRC"):
            numpy.load(path)[tensor]
        with open(path, "r+b") as file:
            file.seek(place)
            file.write(bytes([byte]))
    assert same(lmcodec.numpy.load_file(path), sound)


def test_the_list_of_members_is_damaged(directory):
    path = os.path.join(directory, "a.npz")
    with zipfile.ZipFile(path, "w") as file:
        entry = zipfile.ZipInfo("a.npy")
        entry.extra = b"\1\0\4\0text"
        room = io.BytesIO()
        numpy.save(room, numpy.zeros(100))
        file.writestr(entry, room.getvalue())
    content = open(path, "rb").read()
    at = content.rindex(b"\1\0\4\0text")
    with open(path, "wb") as file:
        file.write(content[:at + 2] + b"\xff" + content[at + 3:])
    with pytest.raises(lmcodec.DataError, match="a.npz: the list of the ZIP file's members cannot be read"):
        lmcodec.numpy.load_file(path)


def test_the_name_of_a_member_is_no_utf_8(directory):
    path = os.path.join(directory, "a.npz")
    numpy.savez(path, **{"\xe9": numpy.zeros(100)})
    content = open(path, "rb").read()
    with open(path, "wb") as file:
        file.write(content.replace("\xe9.npy".encode(), b"\xff\xff.npy"))
    with pytest.raises(lmcodec.DataError, match="a.npz: the list of the ZIP file's members cannot be read"):
        lmcodec.numpy.load_file(path)


@pytest.mark.filterwarnings("error")
def test_files_of_numpy_are_closed(directory, monkeypatch):
    opened = []
    monkeypatch.setattr("lmcodec.numpy.open_original", lambda *_, **options: opened.append(
        lmcodec.open_original(path, **options)) or opened[-1])
    for name, write in (("a.npz", numpy.savez), ("a.npy", numpy.save)):
        path = os.path.join(directory, name)
        write(path, numpy.array([None]))
        lmcodec.convert(path)
        path += ".lmc"
        loaded = lmcodec.numpy.load(path, allow_pickle=True)
        if name == "a.npz":
            assert loaded["arr_0"][0] is None and not opened[-1].closed
            loaded.close()
        else:
            with pytest.raises(ValueError):
                lmcodec.numpy.load(path)
        assert all(file.closed for file in opened)


def test_flax(directory):
    jax = pytest.importorskip("jax", reason=LEFT_OUT % "jax")
    import lmcodec.flax
    path = os.path.join(directory, "a.lmc")
    tensors = {"a": jax.numpy.arange(12.0).reshape(3, 4), "b": jax.numpy.ones((2, 5), jax.numpy.bfloat16),
               "s": jax.numpy.float32(3), "t": jax.numpy.arange(12.0).reshape(3, 4).T}
    lmcodec.flax.save_file(tensors, path, {"x": "y"})
    for loaded in (lmcodec.flax.load_file(path), lmcodec.flax.load(lmcodec.flax.save(tensors))):
        assert loaded.keys() == tensors.keys()
        for name, array in loaded.items():
            assert isinstance(array, jax.Array) and array.dtype == tensors[name].dtype
            assert array.shape == tensors[name].shape and (array == tensors[name]).all()
    lmcodec.numpy.save_file({"i": numpy.array([2**40 + 5])}, path + "2")
    with pytest.warns(UserWarning, match="JAX makes int32 of int64: numbers may change; .*jax_enable_x64"):
        assert lmcodec.flax.load_file(path + "2")["i"].dtype == "int32"
    with lmcodec.safe_open(path, "flax") as file:
        assert isinstance(file.get_slice("a")[1:], jax.Array) and file.get_slice("a")[1:].shape == (2, 4)
