"""Files in stores: every store gives what the file on the disk gives, in few requests."""
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading

import numpy
import pytest

pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

import fsspec  # noqa: E402
import lmcodec  # noqa: E402
import lmcodec.numpy  # noqa: E402
import lmcodec.remote  # noqa: E402

from range_server import RangeServer  # noqa: E402
from remote_files import chain_files, check_equal, content_of, make_tensors, path_of, write_chain  # noqa: E402


@pytest.fixture
def server():
    with RangeServer() as running:
        yield running


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An archive and a safetensors file of the same tensors: name -> content; and the tensors."""
    directory = str(tmp_path_factory.mktemp("made"))
    tensors = make_tensors()
    files = {}
    for name in ("a.safetensors", "a.safetensors.lmc"):
        path = os.path.join(directory, name)
        lmcodec.numpy.save_file(tensors, path, {"made by": "a test"})
        files[name] = content_of(path)
    return files, tensors


@pytest.fixture(params=["a.safetensors", "a.safetensors.lmc"])
def either(request, made, server):
    """The URL of a file on the server, and its tensors."""
    server.files["d/" + request.param] = made[0][request.param]
    return server.url + "d/" + request.param, made[1]


def check_like_local(opened, local, tensors):
    """Everything of safe_open()."""
    assert opened.keys() == local.keys() and opened.offset_keys() == local.offset_keys()
    assert opened.metadata() == local.metadata()
    assert opened.content_nbytes == local.content_nbytes
    for name in tensors:
        check_equal({name: opened.get_tensor(name)}, {name: tensors[name]})
    check_equal(opened.get_tensors(), dict(tensors))
    check_equal(opened.get_tensors(["half", "scalar"]), {name: tensors[name] for name in ("half", "scalar")})
    part = opened.get_slice("matrix")
    assert part.get_shape() == [700, 1500] and part.get_dtype() == "F32"
    for index in (slice(3, 9), slice(699, 700), slice(0, 700), (slice(5, 600, 7), 3), -1, (slice(2, 2),)):
        assert numpy.array_equal(part[index], tensors["matrix"][index])
    with pytest.raises(lmcodec.TensorNotFound):
        opened.get_tensor("nothing")
    with pytest.raises(lmcodec.SliceError):
        part[701]


def test_like_a_local_file(either, made, directory):
    url, tensors = either
    path = os.path.join(directory, "local")
    with open(path, "wb") as file:
        file.write(made[0][os.path.basename(url)])
    with lmcodec.safe_open(path, "np") as local, lmcodec.safe_open(url, "np") as opened:
        check_like_local(opened, local, tensors)
    with pytest.raises(lmcodec.ClosedError):
        opened.keys()
    check_equal(lmcodec.numpy.load_file(url, threads=2), dict(tensors))
    with lmcodec.remote.open(url, "np", requests=1, threads=1) as opened:
        check_equal(opened.get_tensors(), dict(tensors))


def test_file_of_bytes(made, server):
    server.files["a.lmc"] = made[0]["a.safetensors.lmc"]
    with lmcodec.remote.File(server.url + "a.lmc?token=secret") as file:
        assert file.is_archive and file.container == "safetensors" and file.base_name is None
        assert file.nbytes == len(made[0]["a.safetensors"]) and file.stored_nbytes == len(made[0]["a.safetensors.lmc"])
        assert bytes(file.read("matrix")) == made[1]["matrix"].tobytes()
        out = bytearray(100000)
        file.read_into("bytes", out)
        assert out == made[1]["bytes"].tobytes()
    with pytest.raises(lmcodec.ClosedError):
        file.read("bytes")


@pytest.mark.parametrize("name", ["a.safetensors", "a.safetensors.lmc"])
def test_in_memory_and_on_the_disk(name, made, directory):
    """Stores whose calls wait."""
    fsspec.filesystem("memory").pipe("remote-test/" + name, made[0][name])
    with open(os.path.join(directory, name), "wb") as file:
        file.write(made[0][name])
    for url in ("memory://remote-test/" + name, "file://%s/%s" % (directory, name),
                "simplecache::memory://remote-test/" + name):
        with lmcodec.safe_open(url, "np") as opened:
            check_equal(opened.get_tensors(), dict(made[1]))
            assert numpy.array_equal(opened.get_slice("half")[7:9], made[1]["half"][7:9])


def test_a_pathless_checkpoint(server):
    """Files of other kinds than safetensors are read at places that nobody foresees."""
    import io
    arrays = {"a": numpy.arange(5000.0), "b": numpy.arange(9)}
    buffer = io.BytesIO()
    numpy.savez(buffer, **arrays)
    server.files["x.npz"] = buffer.getvalue()
    with lmcodec.safe_open(server.url + "x.npz", "np") as opened:
        check_equal(opened.get_tensors(), arrays)


def test_progress_and_interruption(either):
    url, tensors = either
    seen = []
    with lmcodec.safe_open(url, "np") as opened:
        opened.get_tensors(progress=lambda done, total: seen.append((done, total)))
        assert seen[-1] == (opened.content_nbytes, opened.content_nbytes)
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)

        def end(done, total):
            raise RuntimeError("enough")

        with pytest.raises(RuntimeError, match="enough"):
            opened.get_tensors(progress=end)
        check_equal(opened.get_tensors(), dict(tensors))


# ---- requests ----

def many_tensors(directory, count):
    """An archive of so many small tensors."""
    path = os.path.join(directory, "many.safetensors.lmc")
    values = numpy.arange(count * 4, dtype="f4").reshape(count, 4)
    tensors = {"model.layers.%d.weight" % n: values[n] for n in range(count)}
    lmcodec.numpy.save_file(tensors, path, level="fast", threads=2)
    return path, tensors


def test_an_archive_is_opened_with_one_request(made, server):
    """512 KiB have the header of a model with a thousand tensors."""
    content = made[0]["a.safetensors.lmc"]
    server.files["a.lmc"] = content
    with lmcodec.safe_open(server.url + "a.lmc", "np") as opened:
        assert opened.keys() and opened.metadata()
        assert server.requests == [("a.lmc", 0, 512 << 10)]
        server.forget()
        opened.get_tensor("half")
        assert server.count() == 1
        server.forget()
        opened.get_tensor("again")  # the same frame serves "matrix"
        assert server.count() == 1
        server.forget()
        opened.get_tensor("scalar")
        assert server.count() <= 1
        server.forget()
        opened.get_tensors()
        assert server.count() == 1
        assert sum(nbytes for _, _, nbytes in server.requests) <= len(content)


def test_as_many_tensors_as_70_gigabytes_have(directory, server):
    path = os.path.join(directory, "large.lmc")
    names = ["model.layers.%d.%s.weight" % (layer, part) for layer in range(80)
             for part in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                          "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm",
                          "post_attention_layernorm")]
    random = numpy.random.default_rng(2)
    lmcodec.numpy.save_file({name: random.standard_normal(500) for name in names}, path)
    server.files["large.lmc"] = content_of(path)
    with lmcodec.safe_open(server.url + "large.lmc", "np") as opened:
        assert len(opened.keys()) == len(names) and server.count() == 1
        opened.get_tensor(names[-1])
        assert server.count() == 2


def test_a_file_of_70_gigabytes(directory):
    """Without the room for it: all but its ends is a hole."""
    path = os.path.join(directory, "large.safetensors")
    nbytes = 70 * 10**9
    header = b'{"a":{"dtype":"U8","shape":[70000000,1000],"data_offsets":[0,%d]}}' % nbytes
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + nbytes)
        file.seek(-3, os.SEEK_END)
        file.write(b"end")
    with lmcodec.safe_open("file://" + path, "np") as opened:
        assert opened.get_slice("a")[69999999, -3:].tobytes() == b"end"
        assert opened.get_slice("a")[35000000].tobytes() == bytes(1000)


def test_a_header_of_megabytes_is_opened_with_two_requests(directory, server):
    path, tensors = many_tensors(directory, 40000)
    server.files["many.lmc"] = content_of(path)
    with lmcodec.safe_open(server.url + "many.lmc", "np") as opened:
        assert len(opened.keys()) == 40000
        assert server.count() == 2
        second = server.requests[1]
        assert second[1] == 512 << 10 and second[2] > 2 << 20
        server.forget()
        for number in (0, 20000, 39999):
            name = "model.layers.%d.weight" % number
            assert numpy.array_equal(opened.get_tensor(name), tensors[name])
        assert server.count() == 3
        server.forget()
        wanted = {name: tensors[name] for name in list(tensors)[::100]}
        check_equal(opened.get_tensors(list(wanted)), wanted)
        assert server.count() <= 3  # frames close to each other are one request


def big_matrix(directory):
    path = os.path.join(directory, "big.safetensors.lmc")
    random = numpy.random.default_rng(8)
    tensors = {"big": random.standard_normal((12000, 1024), dtype="f4"), "noise": random.integers(0, 256, 40 << 20,
                                                                                                  dtype="u1")}
    lmcodec.numpy.save_file(tensors, path, level="fast", threads=2)
    return path, tensors


def test_large_tensors_come_in_pieces(directory, server):
    """More than a batch; without an index, too. A slice reads head, index, and its own blocks."""
    path, tensors = big_matrix(directory)
    server.files["big.lmc"] = content_of(path)
    with lmcodec.safe_open(server.url + "big.lmc", "np") as opened:
        server.forget()
        check_equal(opened.get_tensors(), tensors)
        assert all(nbytes <= 16 << 20 for _, _, nbytes in server.requests)
        assert server.count() <= 14
    with lmcodec.safe_open(server.url + "big.lmc", "np") as opened:
        server.forget()
        part = opened.get_slice("big")
        assert numpy.array_equal(part[6000:6003], tensors["big"][6000:6003])
        assert server.count() == 3
        assert sum(nbytes for _, _, nbytes in server.requests) < 2 << 20
        server.forget()
        assert numpy.array_equal(part[9000:9003], tensors["big"][9000:9003])
        assert server.count() == 1  # head and index are known
        assert numpy.array_equal(part[100:11000], tensors["big"][100:11000])


@pytest.mark.parametrize("requests", [1, 3])
def test_requests_at_once(requests, directory, server):
    path, tensors = big_matrix(directory)
    server.files["big.lmc"], server.latency_s = content_of(path), 0.05
    with lmcodec.remote.open(server.url + "big.lmc", "np", requests=requests) as opened:
        check_equal(opened.get_tensors(), tensors)
    assert server.at_once_max == requests


READS_ALL = """
import sys
import lmcodec.remote
from lmcodec._buffer import Buffer

def peak_mib():
    return int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) >> 10

with lmcodec.remote.File(sys.argv[1]) as file:
    tensors = list(file.tensors.values())
    out = bytearray(b"x") * tensors[0].nbytes
    file.read_range(tensors[0], 0, 100, Buffer(out, writable=True).address)
    before = peak_mib()
    with Buffer(out, writable=True) as room:
        file.read_many(tensors, [room.address] * len(tensors), threads=1)
    print(peak_mib() - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="Linux tells the peak of memory")
def test_memory_does_not_grow_with_the_file(directory, server, monkeypatch):
    """400 MiB of stored bytes, of which 128 MiB are held at a time."""
    path = os.path.join(directory, "noise.lmc")
    noise = numpy.random.default_rng(9).integers(0, 256, 17 << 20, dtype="u1")
    lmcodec.numpy.save_file({"t%02d" % n: noise[n:n + (16 << 20)] for n in range(25)}, path, level="fast")
    server.files["noise.lmc"] = content_of(path)
    assert len(server.files["noise.lmc"]) > 400 << 20
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    done = subprocess.run([sys.executable, "-c", READS_ALL, server.url + "noise.lmc"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 200


def test_a_plain_slice_is_one_request(made, server):
    server.files["a.safetensors"] = made[0]["a.safetensors"]
    with lmcodec.safe_open(server.url + "a.safetensors", "np") as opened:
        server.forget()
        assert numpy.array_equal(opened.get_slice("matrix")[350:352], made[1]["matrix"][350:352])
        assert server.count() <= 1


# ---- bases ----

def test_parts_of_large_deltas(directory, server):
    """A chain of two files, and a BF16 tensor that is the rounding of an F32 tensor of its own file."""
    import ml_dtypes
    random = numpy.random.default_rng(3)
    first = random.standard_normal((9000, 1024), dtype="f4")
    second = first.copy()
    second[::9] *= numpy.float32(1.0001)
    steps = [{"master": master, "weights": master.astype(ml_dtypes.bfloat16)} for master in (first, second)]
    lmcodec.numpy.save_file(steps[0], path_of(directory, 0), level="fast", threads=2)
    lmcodec.numpy.save_file(steps[1], path_of(directory, 1), level="fast", threads=2, base=path_of(directory, 0))
    server.files = chain_files(directory, 2)
    with lmcodec.safe_open(server.url + "d/s1.safetensors.lmc", "np") as opened:
        check_equal({"scalar": opened.get_slice("weights")[0]}, {"scalar": steps[1]["weights"][0]})  # opens the base
        for name in steps[1]:
            part = opened.get_slice(name)
            assert part[3000].tobytes() == steps[1][name][3000].tobytes()
            server.forget()
            assert part[7000:7003].tobytes() == steps[1][name][7000:7003].tobytes()
            assert server.count() <= 3 and sum(nbytes for _, _, nbytes in server.requests) < 8 << 20  # blocks of 2 MiB
            assert part[100:8900].tobytes() == steps[1][name][100:8900].tobytes()
        check_equal(opened.get_tensors(), steps[1])



def test_chains_beside_the_url(directory, server):
    steps = write_chain(directory, 4)
    server.files = chain_files(directory, 4)
    with lmcodec.safe_open(server.url + "d/s3.safetensors.lmc", "np") as opened:
        assert opened.metadata() == {"step": "3"} and server.count() == 1
        server.forget()
        check_equal({"scalar": opened.get_tensor("scalar")}, {"scalar": steps[3]["scalar"]})
        assert server.count("d/s2.safetensors.lmc") == 0  # no base is opened for what needs none
        check_equal(opened.get_tensors(), steps[3])
        assert numpy.array_equal(opened.get_slice("again")[99:120], steps[3]["again"][99:120])
    assert server.count("d/s0.safetensors") == server.count("d/s2.safetensors") == 1  # the plain file is tried first


def test_bases_in_other_places(directory, server):
    steps = write_chain(directory, 3)
    last = chain_files(directory, 3, "new/")["new/s2.safetensors.lmc"]
    others = chain_files(directory, 2, "old/")
    server.files = {"new/s2.safetensors.lmc": last, **others}
    url = server.url + "new/s2.safetensors.lmc"
    with lmcodec.remote.open(url, "np", base_dirs=[server.url + "/none", server.url + "/old?token=1"]) as opened:
        check_equal(opened.get_tensors(), steps[2])
    with lmcodec.remote.open(url, "np", base=server.url + "old/s1.safetensors.lmc") as opened:
        check_equal(opened.get_tensors(), steps[2])
    with lmcodec.safe_open(url, "np", base_dirs=[directory]) as opened:  # of this machine
        check_equal(opened.get_tensors(), steps[2])
    fsspec.filesystem("memory").pipe({"old-steps" + path[3:]: content for path, content in others.items()})
    with lmcodec.safe_open(url, "np", base_dirs=["memory://old-steps"]) as opened:
        check_equal(opened.get_tensors(), steps[2])
    with lmcodec.safe_open(url, "np", base=path_of(directory, 1)) as opened:
        check_equal(opened.get_tensors(), steps[2])


@pytest.mark.parametrize("folder,file", [
    ("memory://run", "memory://run/a b.lmc"), ("memory://run/", "memory://run/a b.lmc"),
    ("https://host/x?token=1", "https://host/x/a%20b.lmc?token=1"),
    ("simplecache::memory://x", "simplecache::memory://x/a b.lmc"),
    ("simplecache::https://host/x?token=1", "simplecache::https://host/x/a%20b.lmc?token=1"),
    ("zip://inner::memory://x.zip", "zip://inner/a b.lmc::memory://x.zip")])
def test_names_of_neighbours(folder, file):
    import io
    import zipfile
    from lmcodec._remote import stores
    buffer = io.BytesIO()
    zipfile.ZipFile(buffer, "w").close()
    fsspec.filesystem("memory").pipe("x.zip", buffer.getvalue())
    place = stores.locate(folder, {})
    found = place.join("a b.lmc")
    assert found.shown == file and found.name().replace("%20", " ") == "a b.lmc"
    assert found.parent().join("a b.lmc") == found
    assert found.system is place.system and found.parent().path == place.path.rstrip("/")


@pytest.mark.parametrize("name", ["x::file", "x::github", "::memory:", "http:", "a?b#c", "a%20b"])
def test_a_base_with_a_name_like_a_url(name, directory, server):
    """It is found in every store, and chooses none."""
    random = numpy.random.default_rng(1)
    first = {"w": random.standard_normal((300, 300)).astype("f4")}
    second = {"w": first["w"].copy()}
    second["w"][5] += 1
    base, path = os.path.join(directory, name + ".lmc"), os.path.join(directory, "d.lmc")
    lmcodec.numpy.save_file(first, base)
    lmcodec.numpy.save_file(second, path, base=base)
    memory, folder = fsspec.filesystem("memory"), os.path.basename(directory)
    for file in (base, path):
        server.files["d/" + os.path.basename(file)] = content_of(file)
        memory.pipe("%s/%s" % (folder, os.path.basename(file)), content_of(file))
    in_memory = "memory://%s/d.lmc" % folder
    for url in (in_memory, "simplecache::" + in_memory, "file://" + path, server.url + "d/d.lmc?token=1"):
        with lmcodec.safe_open(url, "np") as opened:
            check_equal(opened.get_tensors(), second)
    memory.rm("%s/%s" % (folder, os.path.basename(base)))
    with lmcodec.safe_open(in_memory, "np") as opened, \
            pytest.raises(lmcodec.BaseError, match="looked at memory://%s/" % folder):
        opened.get_tensors()


def test_a_base_that_is_missing_or_wrong(directory, server):
    steps = write_chain(directory, 3)
    files = chain_files(directory, 3)
    server.files = {path: files[path] for path in list(files)[2:]}
    url = server.url + "d/s2.safetensors.lmc"
    with lmcodec.safe_open(url, "np") as opened:
        for _ in range(2):
            with pytest.raises(lmcodec.BaseError) as raised:
                opened.get_tensor("matrix")
        assert server.url + "d/s1.safetensors.lmc" in str(raised.value) and raised.value.file == url
        assert server.count("d/s1.safetensors.lmc") == 1
        check_equal({"scalar": opened.get_tensor("scalar")}, {"scalar": steps[2]["scalar"]})
    server.files["d/s1.safetensors.lmc"] = files["d/s0.safetensors.lmc"]  # its metadata differ
    with lmcodec.safe_open(url, "np") as opened, pytest.raises(lmcodec.BaseError, match="not the base"):
        opened.get_tensors()
    alike = lmcodec.numpy.save(steps[0], {"step": "1"})
    server.files["d/s1.safetensors.lmc"] = alike  # of equal size and header, with other content
    with lmcodec.safe_open(url, "np") as opened, pytest.raises(lmcodec.BaseError, match="other content"):
        opened.get_tensors()


def test_a_run(directory, server):
    steps = [make_tensors()]
    run = lmcodec.Run(os.path.join(directory, "run"))
    for step in (10, 20, 30):
        source = os.path.join(directory, "model-step%d.safetensors" % step)
        lmcodec.numpy.save_file(steps[-1], source)
        run.add(source)
        steps.append({**steps[-1], "matrix": steps[-1]["matrix"] + numpy.float32(step * 1e-6)})
    for folder, _, names in os.walk(os.path.join(directory, "run")):
        for name in names:
            path = os.path.join(folder, name)
            server.files[os.path.relpath(path, directory)] = content_of(path)
    assert [step.base for step in run][-1] == 20
    with lmcodec.safe_open(server.url + "run/30/model-step30.safetensors.lmc", "np") as opened:
        check_equal(opened.get_tensors(), steps[2])


@pytest.mark.parametrize("text", [b"[" * 200000, b'{"steps":' + b"[" * 200000, b"{}", b"\xff", b'{"steps":[1]}',
                                  b'{"steps":[{"step":20,"base":[]}]}', b"[" + b" " * (5 << 20) + b"]"],
                         ids=["deep", "deep value", "no list", "no text", "no step", "no base", "long"])
def test_a_run_with_a_bad_list(text, directory, server):
    """Its bases are not found."""
    write_chain(directory, 2)
    server.files = {"run/20/x.lmc": content_of(path_of(directory, 1)), "run/run.json": text,
                    "run/10/s0.safetensors.lmc": content_of(path_of(directory, 0))}
    with lmcodec.safe_open(server.url + "run/20/x.lmc", "np") as opened, pytest.raises(lmcodec.BaseError):
        opened.get_tensor("matrix")
    assert 1 <= server.count("run/run.json") <= 2
    server.files["run/run.json"] = b'{"steps":[{"step":20,"base":10}]}'
    with lmcodec.safe_open(server.url + "run/20/x.lmc", "np") as opened:
        assert opened.get_tensor("matrix").shape == (700, 1500)


# ---- threads, processes ----

INTERRUPTED = """
import signal, sys, threading
import lmcodec
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored in the background
threading.Timer(0.5, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
try:
    lmcodec.safe_open(sys.argv[1], "np")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_ends_the_wait(made, server, monkeypatch):
    server.files["a.lmc"], server.always = made[0]["a.safetensors.lmc"], "hang"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, server.url + "a.lmc"], capture_output=True, text=True,
                          timeout=15)
    assert done.stdout == "interrupted\n", done.stderr


def test_threads_share_a_file(either):
    url, tensors = either
    failures = []

    def read(opened, names):
        try:
            for name in names:
                check_equal({name: opened.get_tensor(name)}, {name: tensors[name]})
            assert numpy.array_equal(opened.get_slice("matrix")[17:19], tensors["matrix"][17:19])
        except BaseException as error:
            failures.append(error)

    with lmcodec.safe_open(url, "np", threads=1) as opened:
        names = list(tensors)
        threads = [threading.Thread(target=read, args=(opened, names[n:] + names[:n])) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


def read_in_child(opened, pipe):
    try:
        pipe.send(opened.get_slice("matrix")[5:8].tobytes() + opened.get_tensor("half").tobytes())
    except BaseException as error:
        pipe.send(repr(error))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_read_the_file_of_their_parent(method, directory, server, monkeypatch):
    steps = write_chain(directory, 2)
    server.files = chain_files(directory, 2)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    context = multiprocessing.get_context(method)
    with lmcodec.safe_open(server.url + "d/s1.safetensors.lmc", "np") as opened:
        opened.get_tensor("matrix")
        here, there = context.Pipe()
        child = context.Process(target=read_in_child, args=(opened, there))
        child.start()
        assert here.poll(30)
        assert here.recv() == steps[1]["matrix"][5:8].tobytes() + steps[1]["half"].tobytes()
        child.join()
        check_equal(opened.get_tensors(), steps[1])


def test_pickles(either, server):
    url, tensors = either
    with lmcodec.remote.open(url, "np", requests=3) as opened:
        again = pickle.loads(pickle.dumps(opened))
        part = pickle.loads(pickle.dumps(opened.get_slice("half")))
        pickled = pickle.dumps(opened)
    check_equal(again.get_tensors(), dict(tensors))
    assert numpy.array_equal(part[3:5], tensors["half"][3:5])
    path = url[len(server.url):]
    server.files[path] = server.files[path][:-8] + bytes(8)
    with pytest.raises(lmcodec.DataError, match="has changed"):
        pickle.loads(pickled)


# ---- what is asked for wrongly ----

def test_arguments(made, server):
    server.files["a.lmc"] = made[0]["a.safetensors.lmc"]
    url = server.url + "a.lmc"
    for options in ({"requests": 0}, {"retries": -1}, {"timeout": 0}, {"lowest_rate": -1}, {"time_limit": 0}):
        with pytest.raises(lmcodec.ArgumentError):
            lmcodec.remote.open(url, "np", **options)
    with pytest.raises(lmcodec.ArgumentError, match="nosuch"):
        lmcodec.safe_open("nosuch://bucket/a.lmc", "np")
    with pytest.raises(lmcodec.ArgumentError, match="not a URL"):
        lmcodec.remote.open("a.lmc", "np")
    with pytest.raises(TypeError):
        lmcodec.remote.open(url, "np", base_dirs=server.url)
    with pytest.raises(TypeError, match="a URL is a string"):
        lmcodec.remote.open(os.path, "np")


def test_the_thread_of_fsspec_does_not_wait_for_itself(made, server):
    import asyncio
    import fsspec.asyn
    server.files["a.lmc"] = made[0]["a.safetensors.lmc"]

    async def call():
        return lmcodec.safe_open(server.url + "a.lmc", "np")

    with pytest.raises(RuntimeError, match="cannot wait"):
        asyncio.run_coroutine_threadsafe(call(), fsspec.asyn.get_loop()).result(10)


def test_an_open_file_has_its_bases(made, server):
    server.files["a.lmc"] = made[0]["a.safetensors.lmc"]
    url = server.url + "a.lmc"
    with pytest.raises(lmcodec.ArgumentError), lmcodec.remote.File(url) as file:
        lmcodec.safe_open(file, "np", base_dirs=["x"])


def test_without_fsspec(monkeypatch):
    for name in [name for name in sys.modules if name == "fsspec" or name.startswith("fsspec.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ImportError, match=r"lmcodec\[remote\]"):
        lmcodec.safe_open("https://127.0.0.1/a.lmc", "np")


def test_without_the_package_of_a_store(monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(ImportError, match="gcsfs") as raised:
        lmcodec.safe_open("gs://bucket/a.lmc", "np")
    assert "lmcodec[" not in str(raised.value)  # no extra brings it
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)  # of an earlier test
    with pytest.raises(ImportError, match=r"lmcodec\[s3\]"):
        lmcodec.safe_open("s3://bucket/a.lmc", "np")
