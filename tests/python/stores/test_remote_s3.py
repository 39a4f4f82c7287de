"""Archives in a store that speaks S3: moto's server, with each request counted."""
import os
import threading

import numpy
import pytest

pytest.importorskip("s3fs", reason="s3fs is not installed")
pytest.importorskip("moto", reason="moto is not installed")

import lmcodec  # noqa: E402
import lmcodec.numpy  # noqa: E402
import lmcodec.remote  # noqa: E402

from remote_files import check_equal, chain_files, write_chain  # noqa: E402


class Store:
    """url: of the server. requests: (method, path, range) of each."""

    def __init__(self):
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server
        self.requests = []
        self._application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = "http://127.0.0.1:%d" % self._server.server_port
        self.options = {"key": "test", "secret": "test", "endpoint_url": self.url,
                        "client_kwargs": {"region_name": "us-east-1"}}

    def _answer(self, environment, start):
        self.requests.append((environment["REQUEST_METHOD"], environment["PATH_INFO"].lstrip("/"),
                              environment.get("HTTP_RANGE")))
        return self._application(environment, start)

    def close(self):
        self._server.shutdown()


@pytest.fixture(scope="module")
def store():
    import s3fs
    running = Store()
    files = s3fs.S3FileSystem(**running.options)
    files.call_s3("create_bucket", Bucket="models")
    running.files = files
    yield running
    running.close()


@pytest.fixture(scope="module")
def steps(store, tmp_path_factory):
    """Three archives, one based on another, and their tensors."""
    directory = str(tmp_path_factory.mktemp("chain"))
    made = write_chain(directory, 3)
    for path, content in chain_files(directory, 3, "models/d/").items():
        store.files.pipe(path, content)
    return made


def test_one_request_opens_and_one_reads(store, steps):
    store.requests.clear()
    with lmcodec.remote.open("s3://models/d/s0.safetensors.lmc", "np", storage_options=store.options) as opened:
        assert opened.metadata() == {"step": "0"}
        assert store.requests == [("GET", "models/d/s0.safetensors.lmc", "bytes=0-524287")]
        store.requests.clear()
        check_equal({"half": opened.get_tensor("half")}, {"half": steps[0]["half"]})
        assert len(store.requests) == 1
        check_equal(opened.get_tensors(), steps[0])
        assert numpy.array_equal(opened.get_slice("matrix")[600:603], steps[0]["matrix"][600:603])


def test_calls_that_take_storage_options(store, steps, directory):
    """Without them, the credentials of this server are not known."""
    url = "s3://models/d/s0.safetensors.lmc"
    with lmcodec.safe_open(url, "np", storage_options=store.options) as opened:
        expected = opened.get_tensors()
    for load in (lmcodec.numpy.load_file, lmcodec.numpy.load):
        loaded = load(url, storage_options=store.options)
        assert loaded.keys() == expected.keys() and all((loaded[name] == expected[name]).all() for name in expected)
    path = os.path.join(directory, "a.npy")
    lmcodec.numpy.save(path, numpy.arange(5))
    store.files.put(path, "models/a.npy")
    assert (lmcodec.numpy.load("s3://models/a.npy", storage_options=store.options) == numpy.arange(5)).all()
    with pytest.raises(lmcodec.ArgumentError, match="storage_options"):
        lmcodec.safe_open(path, "np", storage_options=store.options)


def test_a_large_header_is_two_requests(store, directory):
    path = os.path.join(directory, "many.lmc")
    tensors = {"model.layers.%d.weight" % n: numpy.full(2, n, "f4") for n in range(15000)}
    lmcodec.numpy.save_file(tensors, path, level="fast")
    store.files.put(path, "models/many.lmc")
    store.requests.clear()
    with lmcodec.remote.open("s3://models/many.lmc", "np", storage_options=store.options) as opened:
        assert len(opened.keys()) == 15000
        assert len(store.requests) == 2
        assert opened.get_tensor("model.layers.77.weight")[1] == 77


def test_a_chain(store, steps):
    with lmcodec.remote.open("s3://models/d/s2.safetensors.lmc", "np", storage_options=store.options) as opened:
        check_equal(opened.get_tensors(), steps[2])
    store.files.cp("models/d/s2.safetensors.lmc", "models/new/s2.safetensors.lmc")
    url = "s3://models/new/s2.safetensors.lmc"
    with lmcodec.remote.open(url, "np", storage_options=store.options) as opened, \
            pytest.raises(lmcodec.BaseError, match="s3://models/new/s1.safetensors.lmc"):
        opened.get_tensors()
    with lmcodec.remote.open(url, "np", storage_options=store.options, base_dirs=["s3://models/d/"]) as opened:
        check_equal(opened.get_tensors(), steps[2])


def test_an_object_that_changes(store, steps):
    content = store.files.cat("models/d/s0.safetensors.lmc")
    store.files.pipe("models/changes.lmc", content)
    with lmcodec.remote.open("s3://models/changes.lmc", "np", storage_options=store.options) as opened:
        store.files.pipe("models/changes.lmc", content[:-1] + b"x")
        with pytest.raises(lmcodec.DataError, match="has changed") as raised:
            opened.get_tensors()
        assert raised.value.file == "s3://models/changes.lmc"
        store.files.rm("models/changes.lmc")
        with pytest.raises(FileNotFoundError):
            opened.get_tensors()


def test_what_is_not_there(store):
    store.files.pipe("models/empty.lmc", b"")
    with pytest.raises(lmcodec.DataError):
        lmcodec.remote.open("s3://models/empty.lmc", "np", storage_options=store.options)
    for url in ("s3://models/none.lmc", "s3://nobucket/none.lmc"):
        store.requests.clear()
        with pytest.raises(FileNotFoundError) as raised:
            lmcodec.remote.open(url, "np", storage_options=store.options)
        assert raised.value.filename == url
        assert len(store.requests) == 1
