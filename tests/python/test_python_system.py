"""What differs between systems. Where this machine has not got it, names and calls stand in for another system's."""
import os
import subprocess
import sys
import threading
import time

import numpy
import pytest

import lmcodec
import lmcodec.numpy
from lmcodec import _library, _system, _waiting
from lmcodec._files import memory


@pytest.fixture
def as_windows(monkeypatch):
    """What the package does on Windows, as far as this system can."""
    monkeypatch.setattr(_system, "IS_WINDOWS", True)
    monkeypatch.delattr(os, "memfd_create", raising=False)


@pytest.mark.parametrize("system, library, plugin, program", [
    ("linux", "liblmc_st.so", "libh5lmc.so", "lmc-st"), ("darwin", "liblmc_st.dylib", "libh5lmc.so", "lmc-st"),
    ("win32", "lmc_st.dll", "h5lmc.dll", "lmc-st.exe"), ("win32", "liblmc_st.dll", "h5lmc.dll", "lmc-st.exe")])
def test_names_of_native_files(monkeypatch, directory, system, library, plugin, program):
    native = os.path.join(directory, "lmcodec", "_native")
    os.makedirs(os.path.join(native, "hdf5"))
    for path in (library, os.path.join("hdf5", plugin), program):
        open(os.path.join(native, path), "wb").close()
    monkeypatch.setenv("LMCODEC_LIBRARY_DIR", native)
    monkeypatch.setattr(sys, "platform", system)
    assert _library.find(*_library.library_names("lmc_st")) == os.path.join(native, library)
    assert _library.find(*_library.library_names("h5lmc")) == os.path.join(native, "hdf5", plugin)
    assert _library.find(_library.program_name("lmc-st")) == os.path.join(native, program)
    assert _library.find(*_library.library_names("lmc_cuda")) is None


def test_a_path_may_be_cut_within_a_character(monkeypatch):
    assert _system.shown_path("gr\u00f6\u00dfe".encode()) == "gr\u00f6\u00dfe"
    monkeypatch.setattr(os, "fsdecode", lambda path: path.decode("utf-8", "surrogatepass"))  # of Windows
    assert _system.shown_path("gr\u00f6\u00dfe".encode()[:3]) == "gr\ufffd"


def test_paths_of_windows_stay_in_their_folder(as_windows, monkeypatch):
    monkeypatch.setattr(os, "sep", "\\")
    from lmcodec._runs.kept import is_inner
    from lmcodec._remote.store_list import is_safe
    assert _system.slashed("a\\b.lmc") == "a/b.lmc"
    assert all(is_inner(path) for path in ("a", "a/b", "a\\b", "./a"))
    assert not any(is_inner(path) for path in ("..", "a\\..\\..\\b", "C:\\a", "C:a", "\\a", "/a", "\\\\host\\a"))
    assert is_safe("a/b.lmc") and not any(map(is_safe, ("a\\b", "C:a", "a/..\\b", "a//b", "a/../b", "a\0")))


def test_paths_of_linux_may_have_colons():
    if os.name == "nt":
        pytest.skip("left out: of other systems")
    from lmcodec._runs.kept import is_inner
    from lmcodec._remote.store_list import is_safe
    assert all(is_inner(path) and is_safe(path) for path in ("a:b", "a\\b", "c/..d"))
    assert not any(is_inner(path) or is_safe(path) for path in ("..", "a/../b", "/a"))


# ---- waiting and locks ----

def test_a_wait_is_taken_up_again(monkeypatch):
    """As on Windows, where only a wait with an end is interrupted."""
    monkeypatch.setattr(_system, "_WAIT_S", 0.001)
    assert _waiting.run(lambda: time.sleep(0.05) or 7, _waiting.new_flag()) == 7


@pytest.mark.posix
def test_a_wait_that_is_taken_up_again_is_interrupted(monkeypatch):
    import signal
    monkeypatch.setattr(_system, "_WAIT_S", 0.001)
    flag, ended = _waiting.new_flag(), []

    def work():
        os.kill(os.getpid(), signal.SIGINT)
        while not flag.value:
            time.sleep(0.001)
        ended.append(True)
    with pytest.raises(KeyboardInterrupt):
        _waiting.run(work, flag)
    assert ended == [True]


def test_a_lock_is_for_one_at_a_time(directory):
    path, seen = os.path.join(directory, "lock"), []
    began = threading.Event()

    def second():
        began.set()
        with open(path, "ab") as file, _system.locked(file):
            seen.append("second")
    thread = threading.Thread(target=second)
    with open(path, "ab") as file, _system.locked(file):
        thread.start()
        began.wait()
        time.sleep(0.2)
        seen.append("first")
    thread.join()
    assert seen == ["first", "second"]
    with open(path, "ab") as file, _system.locked(file):
        pass


def test_a_local_checkpoint_is_replaced(directory):
    """With what this system has to exchange two directories, and without."""
    from lmcodec._serving.local_checkpoint import LocalCheckpoint
    local = LocalCheckpoint(os.path.join(directory, "local"))
    for version in (1, 2, 3):
        with local.held():
            assert local.version == (version - 1 or None)
            os.mkdir(local.stage)
            open(os.path.join(local.stage, "model-%d" % version), "wb").close()
            local.replace(version, "training", fsync=True)
        assert sorted(os.listdir(local.path)) == [".weight_sync", "model-%d" % version]
    assert sorted(os.listdir(directory)) == [".local.lmc-lock", "local"]


def test_names_are_not_exchanged_on_windows(as_windows, directory):
    test_a_local_checkpoint_is_replaced(directory)
    assert not _system.exchange(directory, directory)


# ---- programs ----

@pytest.mark.parametrize("is_windows", [_system.IS_WINDOWS, True])
def test_a_program_takes_the_place_of_this_one(is_windows):
    script = "import sys; from lmcodec import _system; _system.IS_WINDOWS = %r; _system.become(sys.executable, " \
             "['-c', 'import sys; print(sys.argv[1:]); sys.exit(7)', 'a b', '\"c\"'])" % is_windows
    done = subprocess.run([sys.executable, "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, "['a b', '\"c\"']\n"), done.stderr


# ---- files in memory ----

def test_files_that_have_names(as_windows, archive, directory, monkeypatch):
    import tempfile
    monkeypatch.setattr(tempfile, "tempdir", directory)
    tensors = lmcodec.numpy.load_file(archive)
    before = os.listdir(directory)
    data = lmcodec.numpy.save(tensors, {"made by": "a test"})
    assert data == open(archive, "rb").read()
    assert (lmcodec.numpy.load(data)["matrix"] == tensors["matrix"]).all()
    with lmcodec.open_original(archive) as file:
        place = memory.path_of(file)
        assert os.path.dirname(place) == directory and os.path.exists(place)
        assert file.read()[8:9] == b"{" and file.seek(0) == 0
    assert file.closed and os.listdir(directory) == before
    with pytest.raises(lmcodec.LMCError) as caught:
        lmcodec.numpy.load(data[:-1])
    assert caught.value.file == "(bytes)" and "lmcodec-" not in str(caught.value)
    with pytest.raises(lmcodec.LMCError) as caught, open(archive, "r+b") as damaged:
        damaged.seek(os.path.getsize(archive) // 2)
        damaged.write(b"damage")
        damaged.flush()
        lmcodec.open_original(archive)
    assert "lmcodec-" not in str(caught.value) and os.listdir(directory) == before


def test_a_file_is_closed_twice(as_windows, archive):
    file = lmcodec.open_original(archive)
    place = memory.path_of(file)
    file.close()
    assert not os.path.exists(place)
    open(place, "wb").close()
    file.close()  # again: the name may be another's now
    assert os.path.exists(place)
    os.unlink(place)


def test_new_arrays_do_without_the_kernel_of_linux(monkeypatch):
    from lmcodec import _buffer
    monkeypatch.setattr(sys, "platform", "win32")
    assert _buffer._find_madvise() is None
    monkeypatch.setattr(_buffer, "_madvise", None)
    assert bytes(lmcodec.decode(lmcodec.encode(numpy.ones(1 << 20, "f4")))) == numpy.ones(1 << 20, "f4").tobytes()
