"""lmcodec.fsspec: what its sources look like, what is refused, and the programs that use it."""
import concurrent.futures
import errno
import multiprocessing
import os
import pickle
import sys
import threading

import numpy
import pytest

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

import lmcodec  # noqa: E402
import lmcodec.fsspec  # noqa: E402
import lmcodec.numpy  # noqa: E402
from lmcodec import Run, Store  # noqa: E402

from entry_points import run, write_metadata  # noqa: E402
from kept import layers, tuned  # noqa: E402
from range_server import RangeServer  # noqa: E402
from remote_files import content_of  # noqa: E402
from s3_server import s3_server  # noqa: E402


def write_model(folder, tensors):
    """A directory with a file of weights, one named like an archive, and others."""
    os.makedirs(os.path.join(folder, "sub"))
    lmcodec.numpy.save_file(tensors, os.path.join(folder, "model.safetensors"))
    numpy.save(os.path.join(folder, "sub", "a #b?.npy"), tensors["layers.0"])
    for name, text in (("config.json", "{}"), ("note.lmc", "no archive"), ("sub/text", "text\n" * 3000)):
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)
    return folder


def files_of(folder):
    """Contents by paths."""
    paths = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    return {os.path.relpath(path, folder): content_of(path) for path in paths}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with model.lmc, store and run; and by their names what they must look like."""
    folder = str(tmp_path_factory.mktemp("made"))
    base = layers(1, 3, 96)
    first = write_model(os.path.join(folder, "first"), base)
    second = write_model(os.path.join(folder, "second"), tuned(base, 2))
    lmcodec.convert(first, os.path.join(folder, "model.lmc"))
    store, steps = Store(os.path.join(folder, "store")), Run(os.path.join(folder, "run"))
    store.add(first, "org/base")
    store.add(second, "org/base/tuned@1")
    store.add(os.path.join(second, "model.safetensors"), "alone")
    steps.add(first, 5)
    steps.add(second, 10)
    one, two = files_of(first), files_of(second)
    expected = {"model.lmc": one, "run": {}, "store": {"alone/model.safetensors": two["model.safetensors"]}}
    for start, name, files in (("5/", "run", one), ("10/", "run", two), ("org/base/", "store", one),
                               ("org/base/tuned@1/", "store", two)):
        expected[name].update({start + path: content for path, content in files.items()})
    return folder, expected


@pytest.fixture(scope="module")
def bucket(made):
    """Options of a server that speaks S3 and has all of it."""
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    pytest.importorskip("moto", reason="moto is not installed")
    with s3_server("models") as environment:
        options = {"key": "name", "secret": "secret", "endpoint_url": environment["AWS_ENDPOINT_URL"],
                   "client_kwargs": {"region_name": "us-east-1"}}
        files = fsspec.filesystem("s3", **options)
        for name in made[1]:
            for path, content in files_of(os.path.join(made[0], name)).items():
                files.pipe("models/%s/%s" % (name, path), content)
        yield options


@pytest.fixture(params=["local", "memory", "s3"])
def system_of(request, made):
    """Gives the file system for the name of a source."""
    if request.param == "local":
        return lambda name: fsspec.filesystem("lmc", fo=os.path.join(made[0], name))
    if request.param == "s3":
        options = request.getfixturevalue("bucket")
        return lambda name: fsspec.core.url_to_fs("lmc::s3://models/%s/" % name, s3=options)[0]
    memory = fsspec.filesystem("memory")
    for name in made[1]:
        for path, content in files_of(os.path.join(made[0], name)).items():
            memory.pipe("/fsspec-sources/%s/%s" % (name, path), content)
    return lambda name: fsspec.filesystem("lmc", fo="memory://fsspec-sources/" + name)


@pytest.mark.parametrize("name", ["model.lmc", "run", "store"])
def test_looks_like_what_it_was_made_from(system_of, made, directory, name):
    system, expected = system_of(name), made[1][name]
    assert sorted(system.find("")) == sorted(expected)
    assert {path: info["size"] for path, info in system.find("", detail=True).items()} == \
        {path: len(content) for path, content in expected.items()}
    for path, content in expected.items():
        assert system.isfile(path) and system.exists("/" + path) and system.info(path)["size"] == len(content)
        assert system.cat_file(path) == content
        assert system.cat_file(path, 7, -3) == content[7:-3]
        with system.open(path) as file:
            assert file.read() == content
        assert [info["name"] for info in system.ls(path)] == [path]
    assert system.cat(sorted(expected)) == expected
    texts = [path for path in expected if path.split("/")[-2:] == ["sub", "text"]]
    assert sorted(system.glob("**/text")) == sorted(texts) and system.glob("**/nothing*") == []
    system.get("", os.path.join(directory, "got"), recursive=True)
    assert files_of(os.path.join(directory, "got")) == expected
    with system.open(texts[0], "rt") as file:
        assert file.readline() == "text\n"


def test_folders(system_of):
    store = system_of("store")
    assert store.ls("", detail=False) == ["alone", "org"] and store.isdir("org") and store.isdir("")
    assert store.ls("org/", detail=False) == ["org/base"]
    assert store.ls("org/base", detail=False) == ["org/base/" + name for name in (
        "config.json", "model.safetensors", "note.lmc", "sub", "tuned@1")]
    assert system_of("run").ls("", detail=False) == ["10", "5"]
    walked = list(system_of("model.lmc").walk(""))
    assert walked == [("", ["sub"], ["config.json", "model.safetensors", "note.lmc"]),
                      ("sub", [], ["a #b?.npy", "text"])]


def test_what_is_missing(system_of, made, directory):
    for name, missing in (("model.lmc", ["nothing", "sub/nothing", "model.safetensors.lmc", "../run/run.json",
                                         ".lmc-copied", "note"]),
                          ("store", ["nothing", "org/nothing", "store.json", "org/base.lmc", "org/base/x"]),
                          ("run", ["7", "7/config.json", "run.json", "05/config.json"])):
        system = system_of(name)
        for path in missing:
            assert not system.exists(path), path
            for call in (system.open, system.cat_file, system.ls, system.info):
                with pytest.raises(FileNotFoundError):
                    call(path)
            with pytest.raises(FileNotFoundError):
                system.get_file(path, os.path.join(directory, "got"))
        assert not os.listdir(directory)
        for call in (system.open, system.cat_file):
            with pytest.raises(IsADirectoryError):
                call("")
    for call in (lambda: system_of("none").ls(""), lambda: system_of("none").open("a")):
        with pytest.raises(FileNotFoundError):
            call()


def test_an_http_server_lists_nothing(made):
    with RangeServer({"m/" + path: content for path, content in files_of(
            os.path.join(made[0], "model.lmc")).items()}) as server:
        for url in (server.url + "m/", server.url + "m"):
            system = fsspec.filesystem("lmc", fo=url)
            for path, content in made[1]["model.lmc"].items():
                assert system.cat_file(path) == content and system.size(path) == len(content)
            with pytest.raises(FileNotFoundError):
                system.open("nothing")
            with pytest.raises(lmcodec.ArgumentError, match="does not list"):
                system.ls("")


# ---- what is refused ----

def test_nothing_is_written(made, directory):
    system = fsspec.filesystem("lmc", fo=os.path.join(made[0], "model.lmc"))
    before = files_of(os.path.join(made[0], "model.lmc"))
    calls = [lambda: system.open("new", "wb"), lambda: system.open("config.json", "ab"),
             lambda: system.rm("config.json"), lambda: system.pipe("new", b"a"), lambda: system.touch("new"), lambda:
             system.mkdir("new"),
             lambda: system.makedirs("new"), lambda: system.rmdir("sub"), lambda: system.cp_file("config.json", "new"),
             lambda: system.mv("config.json", "new"), lambda: system.put(__file__, "new"),
             lambda: system.pipe_file("new", b"a"), lambda: system.put_file(__file__, "new"),
             lambda: system.rm_file("config.json"), lambda: system.delete("config.json"),
             lambda: system.write_text("new", "a"), lambda: fsspec.open("lmc::" + system._place, "wb").open()]
    for call in calls:
        with pytest.raises(OSError, match="can only be read") as caught:
            call()
        assert caught.value.errno == errno.EROFS
    assert files_of(os.path.join(made[0], "model.lmc")) == before


def test_what_is_no_source(made, directory):
    plain = os.path.join(made[0], "first", "model.safetensors")
    with pytest.raises(lmcodec.DataError, match="is a plain safetensors file, not an LMC archive"):
        fsspec.open("lmc::" + plain).open()
    with pytest.raises(lmcodec.DataError, match="config.json"):
        fsspec.open("lmc::" + os.path.join(made[0], "first", "config.json")).open()
    with pytest.raises(FileNotFoundError):
        fsspec.open("lmc::" + os.path.join(directory, "none.lmc")).open()
    with pytest.raises(lmcodec.ArgumentError, match="must be named behind"):
        fsspec.open("lmc://" + plain + ".lmc")
    with pytest.raises(TypeError, match="a list of folders"):
        fsspec.filesystem("lmc", fo=plain, base_dirs=directory)


@pytest.mark.parametrize("is_remote", [False, True])
def test_damage(made, directory, is_remote):
    """A damaged archive is listed without a size if its header is damaged, and does not stand in the way of others."""
    folder = os.path.join(directory, "model.lmc")
    lmcodec.convert(os.path.join(made[0], "first"), folder)
    archive = os.path.join(folder, "model.safetensors.lmc")
    whole = content_of(archive)
    memory = fsspec.filesystem("memory")

    def system_with(content):
        with open(archive, "wb") as file:
            file.write(content)
        if not is_remote:
            return fsspec.filesystem("lmc", fo=folder, skip_instance_cache=True)
        for path, stored in files_of(folder).items():
            memory.pipe("/fsspec-damage/" + path, stored)
        return fsspec.filesystem("lmc", fo="memory://fsspec-damage", skip_instance_cache=True)

    at = len(whole) // 2
    system = system_with(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
    for read in (lambda: system.cat_file("model.safetensors"), lambda: system.open("model.safetensors").read(),
                 lambda: system.get_file("model.safetensors", os.path.join(directory, "got"))):
        with pytest.raises(lmcodec.DataError) as caught:
            read()
        assert caught.value.file.endswith("model.safetensors.lmc") and caught.value.tensor.startswith("layers.")
    assert os.listdir(directory) == ["model.lmc"]
    system = system_with(whole[:40])
    sizes = {info["name"]: info["size"] for info in system.ls("")}
    assert sizes["model.safetensors"] is None and sizes["config.json"] == 2
    for call in (system.info, system.open):
        with pytest.raises(lmcodec.DataError, match="model.safetensors.lmc"):
            call("model.safetensors")


def test_a_file_that_was_replaced(made, directory):
    path = os.path.join(directory, "a.npy")
    contents = []
    system = fsspec.filesystem("lmc", fo=path + ".lmc")
    for count in (5000, 6000):
        numpy.save(path, numpy.arange(count))
        lmcodec.convert(path, force=True)
        contents.append(content_of(path))
        assert system.cat_file("") == contents[-1] and system.size("") == len(contents[-1])
    memory = fsspec.filesystem("memory")
    remote = fsspec.filesystem("lmc", fo="memory://fsspec-replaced/a.npy.lmc")
    for count in (5000, 6000):
        numpy.save(path, numpy.arange(count))
        lmcodec.convert(path, force=True)
        memory.pipe("/fsspec-replaced/a.npy.lmc", content_of(path + ".lmc"))
        remote.invalidate_cache()
        assert remote.cat_file("") == content_of(path)


# ---- processes ----

def _read(system, path, begin, end):
    return system.cat_file(path, begin, end)


def _read_open(file):
    return file.read(1000)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(system_of, made, method):
    """A pickle finds its source again; a child has what its parent has open."""
    name, path = "run", "10/model.safetensors"
    content = made[1][name][path]
    system = system_of(name)
    if method == "spawn" and system._place.startswith("memory"):
        pytest.skip("left out: another process has other files in memory")
    assert system.cat_file(path, 0, 100) == content[:100]
    with system.open(path) as file:
        file.seek(5000)
        assert file.read(10) == content[5000:5010]
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
            assert pool.submit(_read, system, path, 3, 70000).result() == content[3:70000]
            assert pool.submit(_read_open, file).result() == content[5010:6010]
        assert file.read(10) == content[5010:5020]


def test_a_fork_while_others_read(system_of, made):
    """The child inherits files, and locks that other threads of its parent hold."""
    name, path = "run", "10/model.safetensors"
    content, system = made[1][name][path], system_of(name)
    is_ending = threading.Event()
    file = system.open(path)
    file.read(1000)

    def read():
        while not is_ending.is_set():
            system.cat_file(path, 0, 50000)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for _ in range(3):
            child = os.fork()
            if child == 0:
                is_right = system.cat_file(path) == content and file.read(500) == content[1000:1500]
                os._exit(0 if is_right else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        is_ending.set()
        thread.join()


def test_instances(made):
    """fsspec gives the same instance for the same source; a pickle is one of it."""
    place = os.path.join(made[0], "run")
    one = fsspec.filesystem("lmc", fo=place, base_dirs=["b"])
    assert fsspec.filesystem("lmc", fo=place, base_dirs=["b"]) is one is not fsspec.filesystem("lmc", fo=place)
    assert pickle.loads(pickle.dumps(one)) is one
    assert one.ukey("5/config.json") != one.ukey("10/config.json")


# ---- programs ----

def test_numpy_and_pandas(made, directory):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    url = "lmc://sub/a #b?.npy::" + os.path.join(made[0], "model.lmc")
    with fsspec.open(url) as file:
        loaded = numpy.load(file)
    assert (loaded == numpy.load(os.path.join(made[0], "first", "sub", "a #b?.npy"))).all()
    table = pandas.DataFrame({"a": numpy.arange(40000), "b": numpy.linspace(0, 1, 40000)})
    path = os.path.join(directory, "table.csv")
    table.to_csv(path, index=False)
    lmcodec.convert(path, raw=True)
    assert pandas.read_csv("lmc::file://" + path + ".lmc").equals(table)
    fsspec.filesystem("memory").put(path + ".lmc", "/fsspec-csv/table.csv.lmc")
    assert pandas.read_csv("lmc::memory://fsspec-csv/table.csv.lmc", storage_options={"threads": 1}).equals(table)


def test_dask(made, bucket):
    dask = pytest.importorskip("dask", reason="dask is not installed")
    from dask.bytes import read_bytes
    content = made[1]["run"]["10/model.safetensors"]
    for url, options in (("lmc://10/model.safetensors::" + os.path.join(made[0], "run"), {}),
                         ("lmc://10/model.safetensors::s3://models/run", {"s3": bucket})):
        _, [blocks] = read_bytes(url, blocksize=100000, sample=False, **options)
        assert len(blocks) > 3
        assert b"".join(dask.compute(*blocks, scheduler="threads")) == content
    _, found = read_bytes("lmc://*/config.json::" + os.path.join(made[0], "run"), sample=False)
    assert [b"".join(dask.compute(*blocks)) for blocks in found] == [b"{}", b"{}"]


def test_dask_distributed(made):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    place, content = os.path.join(made[0], "store"), made[1]["store"]["alone/model.safetensors"]
    system = fsspec.filesystem("lmc", fo=place)
    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            parts = client.map(lambda begin: system.cat_file("alone/model.safetensors", begin, begin + 40000),
                               range(0, len(content), 40000))
            assert b"".join(client.gather(parts)) == content


class _Hub(fsspec.get_filesystem_class("memory")):
    """A stand-in for huggingface_hub's file system, whose paths begin with those of repositories."""

    protocol = "hf"

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("hf://", "memory://"))


def test_hugging_face_hub(made):
    known = fsspec.registry.get("hf")
    fsspec.register_implementation("hf", _Hub, clobber=True)
    try:
        for path, content in files_of(os.path.join(made[0], "model.lmc")).items():
            fsspec.filesystem("hf").pipe("/".join(["", "org", "model", path]), content)
        with fsspec.open("lmc://model.safetensors::hf://org/model") as file:
            assert file.read() == made[1]["model.lmc"]["model.safetensors"]
        with fsspec.open("lmc::hf://org/model/model.safetensors.lmc") as file:
            assert file.read() == made[1]["model.lmc"]["model.safetensors"]
    finally:
        if known is None:
            del sys.modules["fsspec.registry"]._registry["hf"]
        else:
            fsspec.register_implementation("hf", known, clobber=True)


def test_what_lies_in_a_zip_file(made, directory):
    """Chains of any length."""
    import zipfile
    path = os.path.join(directory, "all.zip")
    with zipfile.ZipFile(path, "w") as file:
        for name, content in files_of(os.path.join(made[0], "model.lmc")).items():
            file.writestr("inner/" + name, content)
    system, _ = fsspec.core.url_to_fs("lmc::zip://inner::" + path)
    assert system.cat(sorted(made[1]["model.lmc"])) == made[1]["model.lmc"]
    with fsspec.open("lmc://config.json::zip://inner::simplecache::file://" + path) as file:
        assert file.read() == b"{}"


PROGRAM = """
import sys
import fsspec
assert "lmcodec" not in sys.modules
with fsspec.open("lmc::%s") as file:
    assert file.read(2) == b"{}"
assert "lmcodec.fsspec" in sys.modules
"""


def test_the_protocol_is_found(directory):
    pytest.importorskip("tomllib", reason="Python 3.11 reads TOML")
    path = os.path.join(directory, "a.json")
    with open(path, "w") as file:
        file.write("{}")
    lmcodec.convert(path, raw=True)
    done = run(PROGRAM % (path + ".lmc"), write_metadata(directory))
    assert done.returncode == 0, done.stderr[-3000:]


def test_without_fsspec():
    done = run("import sys; sys.modules['fsspec'] = None; import lmcodec, lmcodec.numpy; import lmcodec.fsspec")
    last = done.stderr.splitlines()[-1]
    assert done.returncode != 0 and "lmcodec.fsspec needs fsspec" in last, done.stderr[-3000:]
