"""Open files from Python: names, tensors, parts, threads, children, damage, memory."""
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading

import numpy
import pytest

import lmcodec
import lmcodec.numpy


def equal(one, other):
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and one[name].shape == other[name].shape
        and one[name].tobytes() == other[name].tobytes() for name in one)


def test_what_a_file_tells(archive):
    with lmcodec.File(archive) as file:
        assert file.is_archive and file.container == "safetensors"
        assert file.metadata == {"made by": "a test"}
        assert file.nbytes > file.stored_nbytes == os.path.getsize(archive)
        assert list(file.tensors) == ["scalar", "matrix", "none", "bytes", "flags"]
        assert file.tensors["matrix"].shape == (300, 500) and file.tensors["matrix"].dtype == "F32"
        assert file.tensors["none"].nbytes == 0
        assert len(file.read("bytes")) == 100000
        assert file.header.startswith(b'{"__metadata__"')


def test_how_tensors_are_stored(archive, directory):
    with lmcodec.File(archive) as file:
        assert [file.coding(name).mode for name in ("matrix", "scalar")] == ["coded", "short"]
        assert file.coding("matrix").form is None
        with pytest.raises(lmcodec.TensorNotFound):
            file.coding("other")
    path = os.path.join(directory, "narrow.lmc")
    random = numpy.random.default_rng(7)
    halves = (random.integers(-1000, 1000, 20000) * 2.0**-24).astype("f4")  # denormals of F16
    symbols = numpy.minimum(random.exponential(2.5, 60000), 100).astype("i1")
    lmcodec.numpy.save_file({"halves": halves, "again": halves, "symbols": symbols}, path, level="max")
    with lmcodec.File(path) as file:
        assert {name: file.coding(name)[:2] for name in file.tensors} == {
            "again": ("coded", "F16 in F32"), "halves": ("alias", None), "symbols": ("coded", None)}
        assert file.coding("symbols").has_rans and not file.coding("halves").has_rans
    lmcodec.restore(path, path + ".plain")
    with lmcodec.File(path + ".plain") as file:
        assert file.coding("halves") == ("plain", None, False)
    with pytest.raises(lmcodec.ClosedError):
        file.coding("halves")


def test_the_index_of_a_tensor_is_that_of_the_library(directory):
    import ctypes
    from lmcodec import _abi
    path = os.path.join(directory, "many.lmc")
    tensors = {"t%d" % n: numpy.full(n % 3, n, "f%d" % (2 << n % 3)) for n in range(300)}
    lmcodec.numpy.save_file(tensors, path)
    with lmcodec.File(path) as file:
        handle, found = file._open(), _abi.StTensor()
        for name, tensor in file.tensors.items():
            if tensor.nbytes:
                assert _abi.st_tensor_info(handle.pointer, tensor.number, ctypes.byref(found)) == 0
                assert ctypes.string_at(found.name, found.name_nbytes).decode() == name
    assert equal(lmcodec.numpy.load_file(path), tensors)


def test_reading_into_a_buffer(archive):
    with lmcodec.File(archive) as file:
        out = numpy.zeros((300, 500), "f4")
        file.read_into("matrix", out)
        assert out.tobytes() == file.read("matrix")
        with pytest.raises(lmcodec.ArgumentError):
            file.read_into("matrix", out[:-1])
        with pytest.raises((ValueError, BufferError)):
            file.read_into("matrix", out.T)
        with pytest.raises(lmcodec.TensorNotFound):
            file.read_into("other", out)


def test_closed_files(archive):
    with lmcodec.safe_open(archive, "np") as file:
        part = file.get_slice("matrix")
    for call in (file.keys, file.offset_keys, file.metadata, file.get_tensors, lambda: file.get_tensor("matrix"),
                 lambda: file.get_slice("matrix")):
        with pytest.raises(lmcodec.ClosedError, match="File is closed"):
            call()
    assert part[0:3].shape == (3, 500)
    file = lmcodec.File(archive)
    file.close()
    file.close()
    for call in (lambda: file.tensors, lambda: file.metadata, lambda: file.read("matrix"), lambda: file.is_archive):
        with pytest.raises(lmcodec.ClosedError):
            call()


def test_names_that_are_not_there(archive):
    with lmcodec.safe_open(archive, "np") as file:
        for call in (file.get_tensor, file.get_slice, lambda name: file.get_tensors([name])):
            with pytest.raises(lmcodec.TensorNotFound, match="^File does not contain tensor other$") as caught:
                call("other")
            assert isinstance(caught.value, KeyError)
            assert (caught.value.file, caught.value.tensor) == (archive, "other")


def test_some_tensors(archive):
    with lmcodec.safe_open(archive, "np") as file:
        assert list(file.get_tensors(["flags", "scalar"])) == ["flags", "scalar"]
        for name in ("flags", b"flags"):
            with pytest.raises(TypeError, match="a list of names is wanted, not one name"):
                file.get_tensors(name)


def test_what_a_file_tells_cannot_be_changed(archive):
    with lmcodec.File(archive) as file:
        with pytest.raises(TypeError):
            file.tensors["flags"] = None
        assert len(file.read("flags")) == 315 and file.tensors == dict(file.tensors)


@pytest.mark.parametrize("threads", [-1, 257, 1.5])
def test_how_many_threads_there_cannot_be(archive, threads):
    """Also where one thread is enough."""
    from lmcodec import remote
    with lmcodec.File(archive) as file:
        for call in (lambda: lmcodec.safe_open(archive, "np", threads=threads),
                     lambda: file.read("scalar", threads=threads),
                     lambda: file.read_into("scalar", bytearray(8), threads=threads),
                     lambda: lmcodec.numpy.load_file(archive, threads=threads),
                     lambda: remote.open("file:///nothing", "np", threads=threads)):
            with pytest.raises(lmcodec.ArgumentError, match="threads"):
                call()


@pytest.mark.parametrize("arguments", [("tf",), (None,), ("np", "cuda"), ("np", 0)], ids=str)
def test_frameworks_and_devices_that_there_are_not(archive, arguments):
    with pytest.raises(lmcodec.ArgumentError):
        lmcodec.safe_open(archive, *arguments)
    with pytest.raises(lmcodec.LMCError, match="backend"):
        lmcodec.safe_open(archive, "np", backend="other")


def test_files_that_do_not_open(directory):
    with pytest.raises(FileNotFoundError) as caught:
        lmcodec.File(os.path.join(directory, "nothing"))
    assert caught.value.filename == os.path.join(directory, "nothing")
    with pytest.raises(IsADirectoryError) as caught:
        lmcodec.File(directory)
    assert caught.value.filename == directory
    path = os.path.join(directory, "text")
    with open(path, "w") as file:
        file.write("this is a text, and no file of tensors " * 10)
    with pytest.raises(lmcodec.LMCError):
        lmcodec.File(path)
    for wrong in (None, 5.0, ["a"]):
        with pytest.raises(TypeError):
            lmcodec.File(wrong)
    with pytest.raises(ValueError):
        lmcodec.File("a\0b")
    with pytest.raises(TypeError):
        lmcodec.File(path, base_dirs=directory)


INDICES = [slice(None), slice(2), slice(1, 4), slice(3, 3), slice(None, None, 2), slice(4, 9, 3), slice(-4, -1), 0, 5,
           -1, numpy.int64(2), (), (slice(None), slice(0, 2)), (slice(2, 5), 1), (3, 2), (0, -1, 2),
           (slice(1, 3), slice(None), 2), ..., (..., 1), (3, ..., slice(0, 2)), (1, 2, 3, ...),
           (slice(None), slice(None), slice(1, 2)), [], (2, slice(None, None, 3), 1)]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_parts_are_those_of_numpy(archive, directory, index):
    whole = numpy.arange(10 * 6 * 4, dtype="i4").reshape(10, 6, 4)
    path = os.path.join(directory, "p.lmc")
    lmcodec.numpy.save_file({"a": whole}, path)
    with lmcodec.safe_open(path, "np") as file:
        part = file.get_slice("a")[index]
    expected = numpy.asarray(whole[0:0] if isinstance(index, list) else whole[index])
    assert part.shape == expected.shape and (part == expected).all()
    assert part.base is None or part.base.size == part.size


@pytest.mark.parametrize("index, error, text", [
    ((slice(2, None), -7), lmcodec.SliceError, "Invalid index -7 for dimension 1 of size 6"),
    ((slice(2, None), 20), lmcodec.SliceError,
     "Error during slicing [2:, 20] with shape [10, 6, 4]: index 20 out of bounds for tensor dimension #1 of size 6"),
    (slice(None, 20), lmcodec.SliceError, "index 19 out of bounds for tensor dimension #0 of size 10"),
    (slice(10, None), lmcodec.SliceError, "index 10 out of bounds for tensor dimension #0 of size 10"),
    ((0, 0, 0, 0), lmcodec.SliceError, "more slicing indexes than dimensions"),
    ([0, 1], lmcodec.SliceError, "Non empty lists are not implemented"),
    (slice(None, None, -1), lmcodec.SliceError, "step"),
    (1.5, TypeError, ""), ("a", TypeError, ""), (None, TypeError, ""),
    ((..., 0, ...), lmcodec.SliceError, "Only one ellipsis"),
    ((..., 0, 0, 0, 0), lmcodec.SliceError, "more slicing indexes"),
    ((..., 4), lmcodec.SliceError, "index 4 out of bounds for tensor dimension #2 of size 4"),
    (slice(1.0, 2), TypeError, "")], ids=lambda value: str(value)[:30])
def test_parts_that_there_are_not(directory, index, error, text):
    path = os.path.join(directory, "p.lmc")
    lmcodec.numpy.save_file({"a": numpy.zeros((10, 6, 4))}, path)
    with lmcodec.safe_open(path, "np") as file, pytest.raises(error) as caught:
        file.get_slice("a")[index]
    assert text in str(caught.value)


def test_a_part_decodes_only_its_blocks(directory):
    path = os.path.join(directory, "p.lmc")
    whole = numpy.random.default_rng(1).standard_normal((4000, 500)).astype("f4")
    lmcodec.numpy.save_file({"a": whole}, path)
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        file.write(b"damage" * 10)
    with lmcodec.safe_open(path, "np") as file:
        assert (file.get_slice("a")[:500] == whole[:500]).all()
        assert (file.get_slice("a")[3900:, 3] == whole[3900:, 3]).all()
        with pytest.raises(lmcodec.DataError) as caught:
            file.get_tensor("a")
        assert caught.value.tensor == "a" and caught.value.file == path and "'a'" in str(caught.value)


def test_large_parts_are_read_in_pieces(archive, monkeypatch):
    monkeypatch.setattr("lmcodec._files.file._PIECE_NBYTES", 1000)
    with lmcodec.safe_open(archive, "np") as file:
        assert file.get_slice("matrix")[7:290].tobytes() == file.get_tensor("matrix")[7:290].tobytes()
        assert file.get_slice("bytes")[10:99999].tobytes() == file.get_tensor("bytes")[10:99999].tobytes()


def test_eight_threads_read_one_file(big):
    expected = lmcodec.numpy.load_file(big)
    failures = []
    with lmcodec.safe_open(big, "np", threads=2) as file:
        def work(number):
            try:
                for turn in range(4):
                    name = "t%d" % ((number + turn) % 8)
                    rows = file.get_slice(name)[number * 50:number * 50 + 70]
                    if not (rows == expected[name][number * 50:number * 50 + 70]).all():
                        failures.append("part of " + name)
                    if not (file.get_tensor(name) == expected[name]).all():
                        failures.append(name)
                if number == 0 and not equal(file.get_tensors(), expected):
                    failures.append("all")
            except Exception as error:
                failures.append(error)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


def test_a_file_is_closed_while_threads_read_it(big):
    file = lmcodec.File(big)
    ends = []

    def work():
        try:
            while True:
                file.read("t3", threads=1)
        except lmcodec.ClosedError:
            ends.append("closed")
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    file.close()
    for thread in threads:
        thread.join()
    assert ends == ["closed"] * 4


@pytest.fixture
def with_base(directory):
    """An archive, the folder of its base, and the content."""
    random = numpy.random.default_rng(8)
    old = {"w": random.standard_normal((200, 300)).astype("f4")}
    new = {"w": old["w"] + (random.random((200, 300)) < 0.01).astype("f4")}
    folder = os.path.join(directory, "bases")
    os.mkdir(folder)
    lmcodec.numpy.save_file(old, os.path.join(folder, "old.lmc"))
    path = os.path.join(directory, "new.lmc")
    lmcodec.numpy.save_file(new, path, base=os.path.join(folder, "old.lmc"))
    return path, folder, new


def test_bases(with_base):
    path, folder, new = with_base
    assert equal(lmcodec.numpy.load_file(path, base_dirs=[folder]), new)
    assert equal(lmcodec.numpy.load_file(path, base=os.path.join(folder, "old.lmc")), new)
    with pytest.raises(lmcodec.BaseError, match="old") as caught:
        lmcodec.numpy.load_file(path)
    assert caught.value.file == path
    with pytest.raises(lmcodec.BaseError):
        lmcodec.numpy.load_file(path, base=path)
    with lmcodec.safe_open(path, "np") as file:
        assert file.keys() == ["w"]
    with lmcodec.File(path) as file:
        assert file.base_name == "old"
    with lmcodec.File(os.path.join(folder, "old.lmc")) as file:
        assert file.base_name is None


def test_a_pickle_opens_the_file_again(with_base, monkeypatch):
    path, folder, new = with_base
    monkeypatch.chdir(os.path.dirname(path))
    with lmcodec.safe_open("new.lmc", "np", base_dirs=["bases"]) as file:
        whole, part = pickle.dumps(file), pickle.dumps(file.get_slice("w"))
    with pytest.raises(lmcodec.ClosedError):  # the pickle of a closed file is one
        pickle.loads(pickle.dumps(file)).keys()
    with lmcodec.File(path, base=os.path.join("bases", "old.lmc")) as opened:
        alone = pickle.dumps(opened)
    monkeypatch.chdir("/")
    with pickle.loads(whole) as file:
        assert file.get_tensor("w").tobytes() == new["w"].tobytes()
    assert (pickle.loads(part)[5:7] == new["w"][5:7]).all()
    with pickle.loads(alone) as opened:
        assert opened.read("w") == new["w"].tobytes()
        opened.close()
        with pytest.raises(lmcodec.ClosedError):
            pickle.dumps(opened)
    lmcodec.numpy.save_file({"other": new["w"]}, path)
    with pytest.raises(lmcodec.DataError, match="has changed"):
        pickle.loads(part)
    os.unlink(path)
    with pytest.raises(FileNotFoundError):
        pickle.loads(whole)


def replace(path, folder, new):
    """By a file with the same header, and another content."""
    lmcodec.numpy.save_file({"w": -new["w"]}, path, base=os.path.join(folder, "old.lmc"))
    os.utime(path, (1, 1))


def test_a_pickle_refuses_a_file_with_the_same_header(with_base):
    path, folder, new = with_base
    with lmcodec.safe_open(path, "np", base_dirs=[folder]) as file:
        whole = pickle.dumps(file)
    assert equal(pickle.loads(whole).get_tensors(), new)
    replace(path, folder, new)
    with pytest.raises(lmcodec.DataError, match="has changed"):
        pickle.loads(whole)


def refused_in_child(file, queue):
    try:
        queue.put(file.get_tensor("w").tobytes())
    except lmcodec.DataError as error:
        queue.put(str(error))


@pytest.mark.posix
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_refuses_a_file_that_was_replaced(with_base):
    path, folder, new = with_base
    context = multiprocessing.get_context("fork")
    with lmcodec.safe_open(path, "np", base_dirs=[folder]) as file:
        replace(path, folder, new)
        queue = context.Queue()
        child = context.Process(target=refused_in_child, args=(file, queue))
        child.start()
        assert "has changed" in str(queue.get(timeout=60))
        child.join()
        assert file.get_tensor("w").tobytes() == new["w"].tobytes()


def read_in_child(file, expected, queue):
    queue.put(file.get_tensor("w").tobytes() == expected and file.get_slice("w")[3].nbytes == 1200)


@pytest.mark.posix
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("was_read", [False, True], ids=["unread", "read"])
def test_children_read_the_file_of_their_parent(with_base, was_read):
    path, folder, new = with_base
    context = multiprocessing.get_context("fork")
    with lmcodec.safe_open(path, "np", base_dirs=[folder]) as file:
        if was_read:
            file.get_tensor("w")
        queue = context.Queue()
        children = [context.Process(target=read_in_child, args=(file, new["w"].tobytes(), queue)) for _ in range(3)]
        for child in children:
            child.start()
        assert [queue.get(timeout=60) for _ in children] == [True] * 3
        for child in children:
            child.join()
        assert file.get_tensor("w").tobytes() == new["w"].tobytes()


@pytest.mark.posix
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_is_made_while_threads_read(with_base, big):
    path, folder, new = with_base
    context = multiprocessing.get_context("fork")
    with lmcodec.safe_open(path, "np", base_dirs=[folder]) as file, lmcodec.File(big) as large:
        ends = threading.Event()

        def work():
            while not ends.is_set():
                file.get_tensor("w")
                large.read("t1")
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        queue = context.Queue()
        for _ in range(5):
            child = context.Process(target=read_in_child, args=(file, new["w"].tobytes(), queue))
            child.start()
            assert queue.get(timeout=60)
            child.join(60)
        ends.set()
        for thread in threads:
            thread.join()


@pytest.mark.posix
def test_a_thousand_opens_leave_no_memory_and_no_descriptor(archive):
    script = """if 1:
        import gc, os, sys, lmcodec
        def rounds(count):
            for _ in range(count):
                with lmcodec.safe_open(sys.argv[1], "np") as file:
                    file.get_tensors(), file.get_slice("matrix")[3:5], file.metadata()
                try:
                    lmcodec.File(sys.argv[1] + "-not-there")
                except OSError:
                    pass
            gc.collect()
        def memory():
            return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")
        rounds(100)
        before, files = memory(), len(os.listdir("/proc/self/fd"))
        rounds(1000)
        print((memory() - before) >> 20, len(os.listdir("/proc/self/fd")) - files)
        """
    shown = subprocess.run([sys.executable, "-c", script, archive], capture_output=True, text=True, check=True).stdout
    mib, files = map(int, shown.split())
    assert mib < 8 and files == 0


def test_truncated_archives(archive):
    content = open(archive, "rb").read()
    for nbytes in (0, 7, 100, len(content) // 2, len(content) - 1):
        with open(archive, "wb") as file:
            file.write(content[:nbytes])
        with pytest.raises(lmcodec.LMCError):
            lmcodec.numpy.load_file(archive)


def test_plain_files_are_read_alike(archive, directory):
    plain = os.path.join(directory, "plain.safetensors")
    lmcodec.restore(archive, plain)
    assert equal(lmcodec.numpy.load_file(plain), lmcodec.numpy.load_file(archive))
    with lmcodec.safe_open(plain, "np") as file:
        assert file.metadata() == {"made by": "a test"}
        assert file.get_slice("matrix")[:2].shape == (2, 500)


def test_progress_of_a_load(big):
    seen = []
    lmcodec.numpy.load_file(big, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (64 << 20, 64 << 20) and seen == sorted(seen)
    with pytest.raises(ZeroDivisionError):
        lmcodec.numpy.load_file(big, progress=lambda done, total: 1 // 0)
