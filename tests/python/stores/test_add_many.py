"""Many models are added to a store at a URL by tasks: in this process, on an executor, on workers of Dask that die."""
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("fsspec", reason="fsspec is not installed")

import fsspec  # noqa: E402
import lmcodec  # noqa: E402
import lmcodec.numpy  # noqa: E402
import lmcodec.store  # noqa: E402
from lmcodec import Store  # noqa: E402

from kept import layers, tuned  # noqa: E402
from range_server import RangeServer  # noqa: E402
from remote_files import content_of  # noqa: E402
from test_remote_store import files_of, write_directory  # noqa: E402


def save(folder, name, tensors):
    path = os.path.join(folder, name + ".safetensors")
    lmcodec.numpy.save_file(tensors, path)
    return path


class Family:
    """Models of two families, in an order in which no base comes first. paths: of each, by its name."""

    def __init__(self, folder, count=2):
        self.folder, self.paths = folder, {}
        self.bases = [layers(seed, 4, 96) for seed in (1, 2)]
        for number in range(count):
            for kind, base in enumerate(self.bases):
                self.add("%s/tuned-%d" % ("ab"[kind], number), tuned(base, 10 * number + kind))
        self.paths["a/folder"] = write_directory(folder, "folder", tuned(self.bases[0], 5))
        self.add("a/base", self.bases[0])
        self.add("b/base", self.bases[1])

    def add(self, name, tensors):
        self.paths[name] = save(self.folder, name.replace("/", "-"), tensors)

    def check(self, store, directory):
        """The store has the models, and each is based on one of its family, or is a base of it."""
        models = {model.name: model for model in store.models()}
        assert set(models) == set(self.paths)
        for family in "ab":
            keys = [name for name, model in models.items() if name[0] == family and not model.bases]
            assert len(keys) == 1, models
            assert all(model.bases == (keys[0],) and model.depth == 2 and model.ratio < 0.4
                       for name, model in models.items() if name[0] == family and name != keys[0])
        for name, path in self.paths.items():
            out = os.path.join(directory, "out-" + name.replace("/", "-"))
            store.restore(name, out, fsync=False)
            if os.path.isdir(path):
                assert files_of(out) == files_of(path)
            else:
                assert content_of(out) == content_of(path)


def names_at(url, options={}):
    system, path = fsspec.core.url_to_fs(url, **options)
    system.invalidate_cache()
    return {found.lstrip("/")[len(path.strip("/")) + 1:] for found in system.find(path)}


@pytest.fixture
def url(directory):
    url = "memory://many/" + os.path.basename(directory)
    yield url
    system, path = fsspec.core.url_to_fs(url)
    if system.exists(path):
        system.rm(path, recursive=True)


@pytest.mark.parametrize("client", ["here", "executor"])
def test_families(client, url, directory):
    family, told = Family(directory), []
    with ThreadPoolExecutor(2) as executor:
        found = lmcodec.store.add_many(url, family.paths, executor if client == "executor" else None,
                                       model_done=lambda event, model: told.append((event, model.name)))
    store = Store(url)
    assert found == [store[name] for name in family.paths]
    assert sorted(told) == sorted(("added", name) for name in family.paths)
    family.check(store, directory)
    assert not [name for name in names_at(url) if name.startswith(".lmc")]


def test_what_is_there_is_used_and_stays(url, directory):
    local = Store(os.path.join(directory, "local"))
    base, other = layers(1, 4, 96), layers(2, 4, 96)
    for name, tensors in (("base", base), ("tuned", tuned(base, 1)), ("other", other)):
        local.add(name, tensors, fsync=False)
    local.push(url)
    before = {name for name in names_at(url) if name.endswith(".lmc")}
    paths = {"merged": {**{"a." + name: array for name, array in tuned(base, 3).items()},
                        **{"b." + name: array for name, array in tuned(other, 4).items()}},
             "new": tuned(base, 5), "equal": base, "stranger": layers(9, 2, 64)}
    files = {name: save(directory, name, tensors) for name, tensors in paths.items()}
    found = {model.name: model for model in lmcodec.store.add_many(url, files)}
    assert found["merged"].bases == ("base", "other") and found["new"].bases == ("base",)
    assert found["equal"].bases == ("base",) and found["equal"].ratio < 0.05 and not found["stranger"].bases
    store = Store(url)
    assert store.names() == sorted([*paths, *local.names()])
    assert before < {name for name in names_at(url) if name.endswith(".lmc")}
    for name, tensors in paths.items():
        assert (store.load(name, framework="np")[min(tensors)] == tensors[min(tensors)]).all()
    # the same again, without the index, from a URL
    system, path = fsspec.core.url_to_fs(url)
    for index in (None, b"no index", b"SQLite format 3\0" + bytes(5000)):
        system.rm_file(path + "/index.sqlite")
        if index is not None:
            system.pipe(path + "/index.sqlite", index)
        events = []
        name = "again-%d" % len(index or b"")
        system.pipe("/models/" + name, content_of(files["new"]))
        again = lmcodec.store.add_many(url, {name: "memory://models/" + name, "new": files["new"]},
                                       model_done=lambda event, model: events.append(event))
        assert events == ["already there", "added"] and again[0].bases != () and again[0].ratio < 0.05
        assert not [name for name in names_at(url) if name.startswith((".lmc-planning", ".lmc-adding"))]
    for kind in ("pushed", "fetched"):
        copy = os.path.join(directory, kind)
        system.get(path, copy, recursive=True)
        Store(copy).verify()
        assert Store(copy).names() == store.names()


@pytest.mark.parametrize("depth", [1, 2])
def test_depth(url, directory, depth):
    tensors, paths = layers(1, 4, 96), []
    for number in range(4):  # each a little further on
        paths.append(save(directory, "step-%d" % number, tensors))
        tensors = tuned(tensors, number)
    found = lmcodec.store.add_many(url, paths[2:] + paths[:2], depth=depth)
    assert max(model.depth for model in found) == depth + 1
    assert sum(not model.bases for model in found) == 1
    Store(url).restore("step-3.safetensors", os.path.join(directory, "out"))
    assert content_of(os.path.join(directory, "out")) == content_of(paths[3])


def test_what_fails(url, directory):
    family = Family(directory)
    with open(os.path.join(directory, "cut"), "wb") as file:
        file.write(content_of(family.paths["a/base"])[:-1])
    other = {**family.paths, "missing": os.path.join(directory, "none"), "cut": os.path.join(directory, "cut")}
    with pytest.raises((lmcodec.DataError, FileNotFoundError)) as caught:
        lmcodec.store.add_many(url, other)
    assert set(caught.value.failures) == {"missing", "cut"}
    family.check(Store(url), directory)
    with pytest.raises(FileExistsError) as caught:
        lmcodec.store.add_many(url, {"a/base": family.paths["b/base"], "b/base": family.paths["b/base"]})
    assert set(caught.value.failures) == {"a/base"}
    for models, message in ((["x", os.path.join("y", "x")], "would both be"), ({"a/../b": "x"}, "stored as"),
                            ({"": "x"}, "stored as")):
        with pytest.raises(lmcodec.ArgumentError, match=message):
            lmcodec.store.add_many(url, models)
    for models in ("x", b"x"):
        with pytest.raises(TypeError):
            lmcodec.store.add_many(url, models)
    for wrong in ({"depth": 0}, {"depth": 63}, {"level": "best"}):
        with pytest.raises(lmcodec.ArgumentError):
            lmcodec.store.add_many(url, family.paths, **wrong)
    with pytest.raises(lmcodec.ArgumentError, match="not a URL"):
        lmcodec.store.add_many(directory, family.paths)
    system, path = fsspec.core.url_to_fs(url)
    system.pipe(path + "-other/notes.txt", b"something else")
    with pytest.raises(lmcodec.ArgumentError, match="neither empty nor a store"):
        lmcodec.store.add_many(url + "-other", family.paths)
    assert names_at(url + "-other") == {"notes.txt"}
    assert lmcodec.store.add_many(url, []) == []


def test_what_is_there_in_part(url, directory):
    """A call was killed when half of a directory was put. What it left is no part of the model that is put then."""
    family = Family(directory)
    lmcodec.store.add_many(url, family.paths)
    system, path = fsspec.core.url_to_fs(url)
    for name in (".lmc-copied", "config.json"):
        system.rm_file("%s/a/folder.lmc/%s" % (path, name))
    for name in ("a/folder.lmc/left.txt", "a/single.lmc/sub/left.txt"):
        system.pipe("%s/%s" % (path, name), b"of another snapshot")
    family.add("a/single", tuned(family.bases[0], 7))
    system.pipe(path + "/.lmc-adding.json", b'{"a/folder": true, "a/single": true, "gone": true, "a/base": false}')
    system.pipe(path + "/.lmc-planning-0.sqlite", b"left")
    events = {}
    lmcodec.store.add_many(url, family.paths, model_done=lambda event, model: events.setdefault(model.name, event))
    assert events.pop("a/folder") == events.pop("a/single") == "added" and set(events.values()) == {"already there"}
    store = Store(url)
    assert set(store.names()) == set(family.paths)
    store.restore("a/folder", os.path.join(directory, "out"))
    assert files_of(os.path.join(directory, "out")) == files_of(family.paths["a/folder"])
    store.restore("a/single", os.path.join(directory, "single"))
    assert content_of(os.path.join(directory, "single")) == content_of(family.paths["a/single"])
    assert not [name for name in names_at(url) if name.startswith(".lmc")]
    for text in (b"[1]", b"{", b"null"):
        system.pipe(path + "/.lmc-adding.json", text)
        with pytest.raises(lmcodec.DataError, match="lmc-adding.json"):
            lmcodec.store.add_many(url, family.paths)


def test_a_model_of_the_store_is_damaged(url, directory):
    """Without an index its archive is read, but it is not what is added."""
    family = Family(directory)
    lmcodec.store.add_many(url, family.paths)
    system, path = fsspec.core.url_to_fs(url)
    place = "%s/b/tuned-0.lmc/b-tuned-0.safetensors.lmc" % path
    system.pipe(place, content_of(family.paths["b/base"])[:1000])
    system.rm_file(path + "/index.sqlite")
    [found] = lmcodec.store.add_many(url, {"a/new": save(directory, "new", tuned(family.bases[0], 99))})
    assert len(found.bases) == 1 and found.bases[0][0] == "a" and found.ratio < 0.4
    with pytest.raises(lmcodec.DataError):
        lmcodec.store.add_many(url, {"b/tuned-0": family.paths["b/tuned-0"]})


def test_a_model_at_a_signed_url(url, directory):
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    path = save(directory, "model", layers(1, 2, 64))
    with RangeServer({"d/model.safetensors": content_of(path)}) as server:
        server.query = "signature=secret/=="
        signed = "%sd/model.safetensors?%s" % (server.url, server.query)
        [found] = lmcodec.store.add_many(url, [signed])
        assert found.name == "model.safetensors"
        with pytest.raises(lmcodec.ArgumentError, match="would both be model") as caught:
            lmcodec.store.add_many(url, [signed, signed])
        assert "secret" not in str(caught.value)
    Store(url).restore(found, os.path.join(directory, "out"))
    assert content_of(os.path.join(directory, "out")) == content_of(path)


# ---- workers ----

@pytest.fixture
def server(monkeypatch):
    for module in ("moto", "s3fs"):
        pytest.importorskip(module, reason="%s is not installed" % module)
    from s3_server import s3_server
    with s3_server("bucket") as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield "s3://bucket/store"


def test_a_worker_dies(server, directory):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    family = Family(directory, 6)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, \
            distributed.Client(cluster) as client:
        workers = list(client.run(os.getpid).values())
        killed = []

        def kill(event, model):
            if not killed:  # others are under way
                killed.append(workers[0])
                os.kill(workers[0], signal.SIGKILL)

        found = lmcodec.store.add_many(server, family.paths, client, model_done=kill)
        assert killed and {model.name for model in found} == set(family.paths)
        client.wait_for_workers(2, timeout=60)  # Dask starts another one, which the work need not have waited for
        assert len(set(workers) | set(client.run(os.getpid).values())) == 3
    family.check(Store(server), directory)
    assert not [name for name in names_at(server) if name.startswith(".lmc")]


PROGRAM = """
import json, os, sys
import lmcodec.store
paths = json.loads(sys.argv[2])
seen = []
def done(event, model):
    seen.append(model.name)
    print(model.name, flush=True)
    if len(seen) == int(sys.argv[3]):
        os.kill(os.getpid(), 9)
lmcodec.store.add_many(sys.argv[1], paths, model_done=done)
"""


def test_the_caller_dies(server, directory):
    import json
    family = Family(directory)
    for count in (1, 3, 0):
        program = subprocess.run([sys.executable, "-c", PROGRAM, server, json.dumps(family.paths), str(count)],
                                 stdout=subprocess.PIPE, text=True)
        assert program.returncode == (-signal.SIGKILL if count else 0)
        told = program.stdout.split()
        assert set(told) <= set(Store(server).names()), "a model that was reported is lost"
    assert set(told) == set(family.paths)
    family.check(Store(server), directory)
