"""lmcodec.fsspec: the bytes of originals, wherever archives are, and what is fetched and decoded for them."""
import io
import os
import random
import shutil
import threading

import numpy
import pytest

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

import lmcodec  # noqa: E402
import lmcodec.fsspec  # noqa: E402
import lmcodec.numpy  # noqa: E402
import lmcodec.remote  # noqa: E402
from lmcodec import _abi  # noqa: E402
from lmcodec._files.original import Original  # noqa: E402
from lmcodec._remote import remote_file  # noqa: E402

from entry_points import run  # noqa: E402
from range_server import RangeServer  # noqa: E402
from remote_files import chain_files, content_of, make_tensors, path_of, write_chain  # noqa: E402

KINDS = ("a.safetensors", "b.npz", "c.npy", "d.bin", "e.npz")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with files of each kind, and their archives. d.bin is no file with tensors; e.npz has views."""
    folder = str(tmp_path_factory.mktemp("made"))
    tensors = make_tensors()
    lmcodec.numpy.save_file(tensors, os.path.join(folder, "a.safetensors"))
    numpy.savez(os.path.join(folder, "b.npz"), **tensors)
    numpy.save(os.path.join(folder, "c.npy"), numpy.asfortranarray(tensors["matrix"]))
    numpy.savez(os.path.join(folder, "e.npz"), turned=numpy.asfortranarray(tensors["matrix"]),
                big=tensors["matrix"].astype(">f4"))
    with open(os.path.join(folder, "d.bin"), "wb") as file:
        file.write(tensors["matrix"].tobytes() + b"and the rest" * 999)
    for name in KINDS:
        lmcodec.convert(os.path.join(folder, name), raw=name == "d.bin")
    return folder


@pytest.fixture(params=["local", "memory", "http", "cache"])
def where(request, made):
    """Gives a URL for the name of an archive."""
    if request.param == "local":
        yield lambda name: "lmc::" + os.path.join(made, name)
    elif request.param == "http":
        with RangeServer({"d/" + name: content_of(os.path.join(made, name)) for name in os.listdir(made)}) as server:
            yield lambda name: "lmc::%sd/%s" % (server.url, name)
    else:
        memory = fsspec.filesystem("memory")
        for name in os.listdir(made):
            memory.pipe("/fsspec-test/" + name, content_of(os.path.join(made, name)))
        between = "" if request.param == "memory" else "simplecache::"
        yield lambda name: "lmc::%smemory://fsspec-test/%s" % (between, name)


SIZES = (1, 7, 100, 5000, 300000)


def check_ranges(read, content, count, seed, sizes=SIZES):
    """read(begin, end) gives what the content has there."""
    choose = random.Random(seed)
    for _ in range(count):
        begin = choose.randrange(len(content))
        end = begin + choose.choice(sizes)
        assert read(begin, end) == content[begin:end], (begin, end)


@pytest.mark.parametrize("kind", KINDS)
def test_whole_and_in_parts(where, made, directory, kind):
    content = content_of(os.path.join(made, kind))
    with fsspec.open(where(kind + ".lmc")) as file:
        assert file.size == len(content) and file.readable() and file.seekable() and not file.writable()
        copy = io.BytesIO()
        shutil.copyfileobj(file, copy)
        assert copy.getvalue() == content and file.read(1) == b""
        file.seek(-3, 2)
        assert file.read() == content[-3:]
        room = bytearray(9000)
        file.seek(len(content) - 8000)
        assert file.readinto(room) == 8000 and room[:8000] == content[-8000:]
    system, path = fsspec.core.url_to_fs(where(kind + ".lmc"))
    assert path == "" and system.info("")["size"] == system.size(kind) == len(content)
    assert system.cat(kind) == system.cat_file("") == content
    assert system.cat_file(kind, start=-9, end=-2) == content[-9:-2] and system.cat_file(kind, 5, 5) == b""
    assert system.cat_file(kind, end=10) + system.cat_file(kind, start=10) == content
    assert system.read_block(kind, 3, 5) == content[3:8] and system.head(kind, 4) == content[:4]
    place = os.path.join(directory, "new", "copy")
    system.get(kind, place)
    assert content_of(place) == content and os.listdir(os.path.dirname(place)) == ["copy"]
    check_ranges(lambda begin, end: system.cat_file(kind, begin, end), content, 12, 1, (*SIZES, len(content)))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_ranges(made, kind, threads):
    content = content_of(os.path.join(made, kind))
    system = fsspec.filesystem("lmc", fo=os.path.join(made, kind + ".lmc"), threads=threads)
    check_ranges(lambda begin, end: system.cat_file("", begin, end), content, 500, threads)
    with system.open(kind) as file:
        def read(begin, end):
            file.seek(begin)
            return file.read(end - begin)

        check_ranges(read, content, 500, 3)


def test_several_threads_decode_a_part(directory):
    """Of a large tensor; its parts begin and end within blocks."""
    values = numpy.random.default_rng(7).standard_normal(5_000_000, dtype="f4")
    path = os.path.join(directory, "large.safetensors")
    lmcodec.numpy.save_file({"w": values}, path)
    lmcodec.convert(path)
    content = content_of(path)
    system = fsspec.filesystem("lmc", fo=path + ".lmc", threads=3)
    for begin, end in ((500, len(content) - 7), (1 << 20, 15 << 20), (9, 5 << 20)):
        assert system.cat_file("", begin, end) == content[begin:end]


def test_bases(directory):
    write_chain(directory, 3)
    for step in range(3):
        lmcodec.restore(path_of(directory, step), os.path.join(directory, "plain"), force=True)
        content = content_of(os.path.join(directory, "plain"))
        with RangeServer(chain_files(directory, 3)) as server:
            for source in (path_of(directory, step), server.url + "d/" + os.path.basename(path_of(directory, step))):
                system = fsspec.filesystem("lmc", fo=source)
                assert system.cat_file("") == content
                check_ranges(lambda begin, end: system.cat_file("", begin, end), content, 10, step)
                with system.open("", block_size=70000) as file:
                    assert b"".join(iter(lambda: file.read(99999), b"")) == content


def test_bases_that_are_elsewhere(directory):
    """base and base_dirs are options of the protocol; without them, what needs the base fails."""
    write_chain(directory, 2)
    place = os.path.join(directory, "else")
    os.mkdir(place)
    shutil.move(path_of(directory, 0), place)
    base = os.path.join(place, os.path.basename(path_of(directory, 0)))
    url = "lmc::" + path_of(directory, 1)
    with pytest.raises(lmcodec.BaseError, match="s0.safetensors"):
        fsspec.open(url).open().read()
    for options in ({"base": base}, {"base_dirs": [place]}, {"lmc": {"base_dirs": [place]}}):
        with fsspec.open(url, **options) as file:
            assert len(file.read()) == file.size
    with RangeServer({"d/" + os.path.basename(path_of(directory, 1)): content_of(path_of(directory, 1)),
                      "e/" + os.path.basename(base): content_of(base)}) as server:
        url = "lmc::%sd/%s" % (server.url, os.path.basename(path_of(directory, 1)))
        with pytest.raises(lmcodec.BaseError, match="s0.safetensors"):
            fsspec.open(url).open().read()
        for bases in ([server.url + "e"], [place]):
            with fsspec.open(url, base_dirs=bases) as file:
                assert len(file.read()) == file.size


# ---- what is fetched and decoded ----

class _Counted(fsspec.get_filesystem_class("memory")):
    """Files in memory. fetched: bytes of them that were read."""

    protocol = "counted"
    fetched = 0

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("counted://", "memory://"))

    def cat_file(self, path, start=None, end=None, **options):
        content = super().cat_file(path, start, end, **options)
        _Counted.fetched += len(content)
        return content


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A file of 32 MB, and its archive."""
    path = str(tmp_path_factory.mktemp("large") / "large.npy")
    numpy.save(path, numpy.random.default_rng(8).standard_normal(8_000_000, dtype="f4"))
    lmcodec.convert(path)
    return content_of(path), content_of(path + ".lmc")


@pytest.fixture
def counted(large):
    """The file, and the size of its archive, which is in the store."""
    content, stored = large
    fsspec.register_implementation("counted", _Counted, clobber=True)
    fsspec.filesystem("counted").pipe("/large.npy.lmc", stored)
    fsspec.filesystem("lmc", fo="counted://large.npy.lmc").invalidate_cache()
    _Counted.fetched = 0
    return content, len(stored)


def test_few_bytes_are_fetched_for_a_small_range(counted):
    content, stored_nbytes = counted
    system = fsspec.filesystem("lmc", fo="counted://large.npy.lmc")
    assert system.size("") == len(content)
    assert _Counted.fetched <= 512 << 10 < stored_nbytes // 40
    _Counted.fetched = 0
    assert system.cat_file("", 20_000_000, 20_000_100) == content[20_000_000:20_000_100]
    assert _Counted.fetched <= 512 << 10
    with system.open("", cache_type="none") as file:
        _Counted.fetched = 0
        file.seek(10_000_000)
        assert file.read(9) == content[10_000_000:10_000_009] and _Counted.fetched <= 512 << 10
        _Counted.fetched = 0
        file.seek(10_000_030)
        assert file.read(9) == content[10_000_030:10_000_039] and _Counted.fetched == 0


@pytest.mark.parametrize("nbytes", [10_007, 1 << 16, 3_000_001])
@pytest.mark.parametrize("cache", ["none", "readahead"])
def test_reads_in_order_fetch_nothing_twice(counted, nbytes, cache):
    content, stored_nbytes = counted
    system = fsspec.filesystem("lmc", fo="counted://large.npy.lmc")
    with system.open("", cache_type=cache) as file:
        got = b"".join(iter(lambda: file.read(nbytes), b""))
    assert got == content
    assert _Counted.fetched <= stored_nbytes + (1 << 20)


@pytest.mark.parametrize("name", ["d.bin", "c.npy"])
def test_reads_in_order_decode_no_block_twice(made, name):
    """A block is read from the archive whenever it is decoded: these reads are noted."""
    path = os.path.join(made, name)
    read = []
    stored = content_of(path + ".lmc")

    def give(user, offset, destination, nbytes):
        read.append((offset, nbytes))
        _abi.ctypes.memmove(destination, stored[offset:offset + nbytes], nbytes)
        return _abi.OK

    options = _abi.StOpenOptions()
    options.read, options.read_nbytes = _abi.READ(give), len(stored)
    file = lmcodec.File.__new__(lmcodec.File)
    file._begin(lmcodec._files.file.Handle(lambda pointer, diag: _abi.st_open(
        os.fsencode(path), _abi.ctypes.byref(options), pointer, diag)))
    original, content = Original(file, 1), content_of(path)
    for begin in range(0, len(content), 50_001):
        assert original.read(begin, begin + 50_001) == content[begin:begin + 50_001]
    blocks = [place for place in read if place[1] > 8192]
    assert len(blocks) > 3 and len(set(blocks)) == len(blocks)


def test_a_tensor_that_is_stored_as_it_is(made, monkeypatch):
    """It has one checksum: all of it is fetched once, and then what is read. If it is too large, too."""
    values = numpy.random.default_rng(9).integers(0, 256, 6_000_000, dtype="u1")
    path = os.path.join(made, "noise.npy")
    numpy.save(path, values)
    lmcodec.convert(path, force=True)
    content, stored = content_of(path), content_of(path + ".lmc")
    for held in (128 << 20, 1 << 20):
        monkeypatch.setattr(remote_file, "_HELD_NBYTES", held)
        with RangeServer({"noise.npy.lmc": stored}) as server:
            system = fsspec.filesystem("lmc", fo=server.url + "noise.npy.lmc")
            with system.open("", cache_type="none") as file:
                server.forget()
                assert file.read(200) == content[:200]
                assert server.nbytes <= len(stored) + (1 << 20)
                server.forget()
                assert file.read() == content[200:]
                assert server.nbytes <= len(stored) + (1 << 20)


def test_threads(made):
    content = content_of(os.path.join(made, "b.npz"))
    system = fsspec.filesystem("lmc", fo=os.path.join(made, "b.npz.lmc"))
    failures = []

    def work(seed, read):
        try:
            check_ranges(read, content, 60, seed)
        except BaseException as error:
            failures.append(error)

    original = Original(lmcodec.File(os.path.join(made, "b.npz.lmc")), 1)
    reads = [lambda begin, end: system.cat_file("", begin, end), original.read] * 3
    threads = [threading.Thread(target=work, args=item) for item in enumerate(reads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


CYCLES = """
import gc, os, sys
import lmcodec.remote
from lmcodec._files.original import Original
path, url = sys.argv[1:]
gc.disable()

class Ring:
    pass

for _ in range(20):
    ring, file, remote = Ring(), lmcodec.File(path), lmcodec.remote.File(url)
    original = Original(file)
    original.read(1000, 2000)
    remote.read("matrix")
    [base] = remote._root._bases.values()
    ring.parts = [file._handle, file, original, base.handle, base, remote]
    ring.ring = file._handle.ring = base.handle.ring = ring
    del ring, file, original, remote, base
    gc.collect()
print("alive")
"""


def test_the_collector_finalizes_in_any_order(directory):
    """A file is closed after its readers, and a base after what is coded against it, whatever is finalized first."""
    write_chain(directory, 2)
    with RangeServer(chain_files(directory, 2)) as server:
        done = run(CYCLES, None, path_of(directory, 1), server.url + "d/" + os.path.basename(path_of(directory, 1)),
                   MALLOC_PERTURB_="165")
    assert done.returncode == 0 and done.stdout == "alive\n", done.stderr[-3000:]


def test_a_base_is_closed_after_what_needs_it(directory):
    write_chain(directory, 2)
    with RangeServer(chain_files(directory, 2)) as server:
        file = lmcodec.remote.File(server.url + "d/" + os.path.basename(path_of(directory, 1)))
        file.read("matrix")
        [base] = file._root._bases.values()
        base.handle.opened.close()
        assert not base.handle.pointer and not file._handle.pointer


def test_relative_paths_in_two_directories(directory, monkeypatch):
    """Instances of fsspec that are kept are those of the current directory."""
    for name, content in (("one", 1), ("two", 2), ("one", 1)):
        folder = os.path.join(directory, name)
        os.makedirs(folder, exist_ok=True)
        monkeypatch.chdir(folder)
        lmcodec.numpy.save_file({"a": numpy.full(10, content)}, "a.safetensors.lmc")
        with fsspec.filesystem("lmc", fo="a.safetensors.lmc").open("") as file:
            assert lmcodec.numpy.load(file.read())["a"][0] == content
    assert fsspec.filesystem("lmc", fo="a.safetensors.lmc") is fsspec.filesystem("lmc", fo="a.safetensors.lmc")
