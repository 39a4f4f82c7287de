"""Stores of models at URLs: in a store that speaks S3, on an HTTP server, in memory, on the disk."""
import io
import os
import pickle
import sqlite3
import zipfile

import numpy
import pytest

pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

import fsspec  # noqa: E402
import lmcodec  # noqa: E402
import lmcodec.numpy  # noqa: E402
import lmcodec.remote  # noqa: E402
from lmcodec import Run, Store  # noqa: E402
from lmcodec._remote import remote_file  # noqa: E402

from kept import layers, tuned  # noqa: E402
from range_server import RangeServer  # noqa: E402
from remote_files import check_equal, content_of  # noqa: E402
from s3_server import s3_server  # noqa: E402


def arrays(seed, count=4):
    return layers(seed, count, 96)


def write_directory(folder, name, tensors):
    """A model of two shards, their index, and other files."""
    import json
    root = os.path.join(folder, name)
    os.makedirs(os.path.join(root, "sub"))
    names = sorted(tensors)
    places = {tensor: "model-%d-of-2.safetensors" % (1 + number % 2) for number, tensor in enumerate(names)}
    for place in sorted(set(places.values())):
        lmcodec.numpy.save_file({tensor: tensors[tensor] for tensor in names if places[tensor] == place},
                                os.path.join(root, place))
    for inner, text in (("model.safetensors.index.json", json.dumps({"weight_map": places})), ("config.json", "{}"),
                        ("note.lmc", "no archive"), ("sub/a #b?.txt", "text")):
        with open(os.path.join(root, inner), "w") as file:
            file.write(text)
    return root


class Made:
    """A store on the disk. models: what each was made from; tensors: of each."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "store")
        store = Store(self.path)
        base, other = arrays(1), arrays(2)
        merged = {**{"a." + name: array for name, array in tuned(base, 3).items()},
                  **{"b." + name: array for name, array in tuned(other, 4).items()}}
        self.tensors = {"base": base, "org/other@1": other, "org/tuned": tuned(base, 5), "org/sub/merged": merged,
                        "org/copy": base}
        self.models = {}
        for name in ("base", "org/other@1", "org/sub/merged", "org/copy"):
            self.models[name] = os.path.join(folder, name.replace("/", "-") + ".safetensors")
            lmcodec.numpy.save_file(self.tensors[name], self.models[name])
        self.models["org/tuned"] = write_directory(folder, "tuned", self.tensors["org/tuned"])
        for name in self.tensors:
            store.add(self.models[name], name, fsync=False)
        self.store = store
        self.files = files_of(self.path)


def files_of(root):
    return {os.path.relpath(os.path.join(folder, name), root): content_of(os.path.join(folder, name))
            for folder, _, names in os.walk(root) for name in names}


def write_run(folder):
    run, tensors = Run(os.path.join(folder, "run")), {9: arrays(8, 1)}
    for step in (10, 11, 200):
        tensors[step] = tuned(tensors[max(tensors)], step)
        run.add(write_directory(folder, "checkpoint-%d" % step, tensors[step]), fsync=False)
    del tensors[9]
    return run, tensors


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return Made(str(tmp_path_factory.mktemp("made")))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(str(tmp_path_factory.mktemp("run")))


@pytest.fixture(scope="module")
def bucket(made, run):
    """S3 options of a bucket with the store and the run."""
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed")
    pytest.importorskip("moto", reason="moto is not installed")
    with s3_server("models") as variables:
        options = {"key": "name", "secret": "secret", "endpoint_url": variables["AWS_ENDPOINT_URL"],
                   "client_kwargs": {"region_name": "us-east-1"}}
        system = s3fs.S3FileSystem(**options)
        for start, files in (("a/store/", made.files), ("run/", files_of(run[0]._path.decode()))):
            for path, content in files.items():
                system.pipe("models/%s%s" % (start, path), content)
        system.pipe("models/a/store-2/other.lmc/x.safetensors.lmc", b"of another store")
        yield options


@pytest.fixture(params=["s3", "http", "memory", "file"])
def remote(request, made):
    """The store at a URL of each kind."""
    if request.param == "s3":
        yield Store("s3://models/a/store", storage_options=request.getfixturevalue("bucket"))
    elif request.param == "http":
        with RangeServer({"a/store/" + path: content for path, content in made.files.items()}) as server:
            yield Store(server.url + "a/store?token=secret")
    elif request.param == "memory":
        system = fsspec.filesystem("memory")
        for path, content in made.files.items():
            system.pipe("/remote-store/" + path, content)
        yield Store("memory://remote-store/")
        system.rm("/remote-store", recursive=True)
    else:
        yield Store("file://" + made.path)


def is_http(store):
    return "http" in store._shown()


def test_one_of_several_bases_is_missing(made, monkeypatch):
    """It is found before anything is written."""
    monkeypatch.setattr(remote_file, "_BATCH_NBYTES", 200000)  # the first tensor is decoded on its own
    monkeypatch.setattr(remote_file, "_HELD_NBYTES", 1)
    merged = made.tensors["org/sub/merged"]
    files = {name: content for name, content in made.files.items() if not name.startswith("org/other@1")}
    assert len(files) < len(made.files)
    fsspec.filesystem("memory").pipe({"a-base-is-missing/" + name: content for name, content in files.items()})
    out = {name: numpy.zeros_like(array) for name, array in merged.items()}
    with pytest.raises(lmcodec.BaseError):
        lmcodec.numpy.load_into(out, "memory://a-base-is-missing/org/sub/merged.lmc/org-sub-merged.safetensors.lmc")
    assert not any(array.any() for array in out.values())


# ---- lists ----

def test_names_and_models(remote, made):
    local = made.store
    assert isinstance(remote, lmcodec.remote.Store) and isinstance(remote, Store) and remote
    assert list(remote) == remote.names() == list(local) and len(remote) == 5
    assert "org/tuned" in remote and "org" not in remote and 5 not in remote
    for found, expected in zip(remote.models(), local.models()):
        assert found.time is None and found == remote[found.name]
        fields = ["name", "is_directory", "bases", "has_unknown_base", "depth"]
        if not is_http(remote):  # which does not tell of copies
            fields += ["files", "nbytes", "stored_nbytes"]
        for field in fields:
            assert getattr(found, field) == getattr(expected, field), (found.name, field)
    assert [model.name for model in remote.dependents("base")] == [model.name for model in local.dependents("base")]
    assert set(remote["org/sub/merged"].bases) == {"base", "org/other@1"}


def test_what_is_not_there(remote, directory):
    for call in (lambda: remote["org"], lambda: remote.open("none"), lambda: remote.load("../store"),
                 lambda: remote.restore("none", os.path.join(directory, "x")), lambda: remote.dependents("x"),
                 lambda: remote.path("")):
        with pytest.raises(lmcodec.ModelNotFound, match="there is no model"):
            call()
    for file in ("none", "model-1-of-2", "model-1-of-2.safetensors.lmc", "../base.lmc/base.safetensors", "sub", "",
                 "note"):
        with pytest.raises(FileNotFoundError, match="no such file"):
            remote.path("org/tuned", file)
    for call in (lambda: remote.add(directory), lambda: remote.drop("base"), remote.repair, remote.verify, remote.plan):
        with pytest.raises(lmcodec.ArgumentError, match="store on this machine"):
            call()
    assert os.listdir(directory) == []


@pytest.mark.parametrize("kind", ["missing", "mark", "newer"])
def test_what_is_no_store(kind):
    calls = (lambda store: store.models(), lambda store: store.names(), len, lambda store: store.open("x"),
             lambda store: store["x"])
    marks = {"missing": None, "mark": b'{"format": "lmc-run"}', "newer": b'{"format": "lmc-store", "version": 2}'}
    errors = {"missing": FileNotFoundError, "mark": lmcodec.DataError, "newer": lmcodec.UnsupportedError}
    with RangeServer({} if marks[kind] is None else {"s/store.json": marks[kind]}) as server:
        for call in calls:
            with pytest.raises(errors[kind], match="store.json"):
                call(Store(server.url + "s"))
    with pytest.raises(lmcodec.ArgumentError):
        Store("store", storage_options={})


# ---- contents ----

def test_tensors(remote, made):
    for name, tensors in made.tensors.items():
        check_equal(remote.load(name, framework="np"), tensors)
        check_equal({"x": remote.get(name, sorted(tensors)[1], "np")}, {"x": tensors[sorted(tensors)[1]]})
    with remote.open("base", framework="np") as file:
        assert (file.get_slice("layers.1")[5:7] == made.tensors["base"]["layers.1"][5:7]).all()
    with remote.open("org/tuned", "model-1-of-2.safetensors") as file:
        assert isinstance(file, lmcodec.remote.File) and file.base_name == "base.safetensors"
        assert file.read("layers.0") == made.tensors["org/tuned"]["layers.0"].tobytes()
    for name in ("none", "model-2-of-2.safetensors:layers.0"):
        with pytest.raises(lmcodec.TensorNotFound):
            remote.get("org/tuned", name, "np")
    with pytest.raises(lmcodec.ArgumentError, match="model-1-of-2.safetensors, model-2-of-2.safetensors"):
        remote.open("org/tuned")
    with fsspec.open(remote.path("org/tuned", "sub/a #b?.txt").replace("?token=secret", "")
                     if not is_http(remote) else remote.path("org/tuned", "config.json"),
                     **remote._settings.storage_options) as file:
        assert file.read() in (b"text", b"{}")
    assert remote.path("org/tuned", "note.lmc").endswith(("note.lmc", "note.lmc?token=secret"))


@pytest.mark.parametrize("first", ["a.layers.1", "b.layers.1"])
def test_bases_of_the_same_size_and_header(remote, made, first):
    """Each tensor gets its own base, whichever is read first."""
    tensors = made.tensors["org/sub/merged"]
    with remote.open("org/sub/merged", framework="np") as file:
        assert sorted(file.file.base_names) == ["base.safetensors", "org-other@1.safetensors"]
        assert (file.get_tensor(first) == tensors[first]).all()
        check_equal(file.get_tensors(), tensors)


def test_restore(remote, made, directory):
    for name, path in made.models.items():
        out = os.path.join(directory, "out-" + name.replace("/", "-"))
        if os.path.isdir(path) and is_http(remote):
            with pytest.raises(lmcodec.ArgumentError, match="HTTP"):
                remote.restore(name, out)
            assert not os.path.exists(out)
            continue
        seen = []
        result = remote.restore(name, out, progress=lambda done, total: seen.append((done, total)))
        assert result.nbytes == made.store[name].nbytes and seen[-1][0] == seen[-1][1]
        if os.path.isdir(path):
            assert files_of(out) == files_of(path)
        else:
            assert content_of(out) == content_of(path)
        with pytest.raises(FileExistsError):
            remote.restore(name, out)
        remote.restore(name, out, force=True, fsync=False, threads=1)
    with pytest.raises(ZeroDivisionError):
        remote.restore("base", os.path.join(directory, "no"), progress=lambda done, total: 1 // 0)
    with remote.checkout("org/copy", directory) as path:
        assert os.path.basename(path) == "org-copy.safetensors" and path.startswith(directory)
        assert content_of(path) == content_of(made.models["org/copy"])
    assert all(name.startswith("out-") for name in os.listdir(directory))


def test_pickle(remote, made):
    again = pickle.loads(pickle.dumps(remote))
    assert list(again) == list(made.store) and type(again) is type(remote)
    local = pickle.loads(pickle.dumps(made.store))
    assert type(local) is Store and list(local) == list(made.store)


def test_secrets_are_not_shown(made):
    with RangeServer({"a/store/" + path: content for path, content in made.files.items()}) as server:
        store = Store(server.url + "a/store?token=secret")
        texts = [repr(store)]
        for call in (lambda: store["x"], lambda: store.path("base", "x"), lambda: store.get("base", "x", "np"),
                     lambda: store.open("org/tuned"), store.verify):
            with pytest.raises((lmcodec.LMCError, FileNotFoundError)) as caught:
                call()
            texts += [str(caught.value), str(getattr(caught.value, "filename", ""))]
        assert not any("secret" in text for text in texts)


# ---- runs ----

@pytest.mark.parametrize("kind", ["s3", "http"])
def test_a_run(kind, run, request, directory):
    local, tensors = run
    if kind == "s3":
        store = Store("s3://models/run/", storage_options=request.getfixturevalue("bucket"))
        check_run(store, local, tensors)
        store.restore("200", os.path.join(directory, "out"))
        local.compare(200, os.path.join(directory, "out"))
        check_equal(store.load("200", framework="np"), tensors[200])
        return
    with RangeServer({"r/" + path: content for path, content in files_of(local._path.decode()).items()}) as server:
        store = Store(server.url + "r")
        check_run(store, local, tensors)
        check_equal(store.load("200", framework="np"), tensors[200])
        with pytest.raises(lmcodec.ArgumentError, match="HTTP"):
            store.restore("200", os.path.join(directory, "out"))


def check_run(store, local, tensors):
    assert list(store) == ["10", "11", "200"]
    for model, step in zip(store.models(), local.steps()):
        assert (model.name, model.bases) == (str(step.step), () if step.base is None else (str(step.base),))
        assert (model.depth, model.files, model.nbytes, model.stored_nbytes, model.time, model.is_directory) == \
            (step.chain + 1, step.files, step.nbytes, step.stored_nbytes, step.time, True)
    with store.open("11", "model-1-of-2.safetensors", framework="np") as file:
        assert (file.get_tensor("layers.0") == tensors[11]["layers.0"]).all()
    for name in ("010", "12", "x"):
        with pytest.raises(lmcodec.ModelNotFound):
            store.open(name)


def test_a_store_at_the_root_of_a_file_system(made, directory, monkeypatch):
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as file:
        for path, content in made.files.items():
            file.writestr(path, content)
    system = fsspec.filesystem("memory")
    monkeypatch.setattr(type(system), "store", {})
    system.pipe("/root-of-zip/x.zip", zipped.getvalue())
    store = Store("zip://::memory://root-of-zip/x.zip")
    assert list(store) == list(made.store)
    store.restore("org/tuned", os.path.join(directory, "out"))
    assert files_of(os.path.join(directory, "out")) == files_of(made.models["org/tuned"])
    monkeypatch.setattr(type(system), "store", {})
    assert made.store.push("memory://").put and made.store.push("memory://").put == ()
    assert list(Store("memory://")) == list(made.store)


# ---- push ----

@pytest.fixture(params=["s3", "memory"])
def target(request, directory):
    """A URL with nothing there, and the options of its store."""
    name = os.path.basename(directory)
    if request.param == "s3":
        return "s3://models/push/" + name, request.getfixturevalue("bucket")
    return "memory://push/" + name, {}


def there(target):
    url, options = target
    system, path = fsspec.core.url_to_fs(url, **options)
    system.invalidate_cache()
    return {found[len(path.strip("/")) + 1:] for found in (name.lstrip("/") for name in system.find(path))}


def test_push(target, directory):
    url, options = target
    store = Store(os.path.join(directory, "store"))
    store.add("base", arrays(1), fsync=False)
    store.add("a/tuned", tuned(arrays(1), 1), fsync=False)
    root = write_directory(directory, "folder", tuned(arrays(1), 2))
    store.add(root, fsync=False)
    planned = store.push(url, storage_options=options, dry_run=True)
    assert there(target) == set() and planned.removed == () and planned.kept == 0
    seen = []
    pushed = store.push(url, storage_options=options, progress=lambda *now: seen.append(now))
    assert pushed == planned and seen[-1] == (pushed.put_nbytes, pushed.put_nbytes)
    assert pushed.put[0] == "store.json" and pushed.put[-1] == "index.sqlite"
    assert there(target) == {*pushed.put, ".lmc-pushed.json"}
    order = [path.partition(".lmc/")[0] for path in pushed.put if ".lmc/" in path]
    assert order.index("base") < min(order.index("a/tuned"), order.index("folder"))
    remote = Store(url, storage_options=options)
    assert [model.stored_nbytes for model in remote.models()] == [model.stored_nbytes for model in store.models()]
    remote.restore("folder", os.path.join(directory, "back"))
    assert files_of(os.path.join(directory, "back")) == files_of(root)
    again = store.push(url, storage_options=options, delete=True)
    assert (again.put, again.removed, again.kept) == ((), (), len(pushed.put))

    store.drop("base")
    os.utime(store.path("folder", "config.json"))
    kept = store.push(url, storage_options=options)
    assert "folder.lmc/config.json" in kept.put and not kept.removed
    assert "base.lmc/model.safetensors.lmc" in there(target)
    gone = store.push(url, storage_options=options, delete=True)
    assert gone.removed == ("base.lmc/model.safetensors.lmc",) and gone.put == ()
    assert list(remote) == ["a/tuned", "folder"]
    check_equal(remote.load("a/tuned", framework="np"), tuned(arrays(1), 1))


def test_a_push_of_a_replaced_model(target, directory):
    """The copy has no file of the old one: neither in a directory nor under another name of a single file."""
    url, options = target
    store = Store(os.path.join(directory, "store"))
    old, new = (write_directory(directory, name, arrays(seed)) for seed, name in ((1, "old"), (2, "new")))
    os.unlink(os.path.join(new, "sub", "a #b?.txt"))
    files = [os.path.join(directory, name + ".safetensors") for name in ("one", "two")]
    for path, seed in zip(files, (3, 4)):
        lmcodec.numpy.save_file(arrays(seed), path)
    for root, path, stale in ((old, files[0], set()), (new, files[1], {"folder.lmc/sub/a #b?.txt",
                                                                      "file.lmc/one.safetensors.lmc"})):
        store.add(root, "folder", force=True, fsync=False)
        store.add(path, "file", force=True, fsync=False)
        assert set(store.push(url, storage_options=options, dry_run=True).removed) == stale
        assert set(store.push(url, storage_options=options).removed) == stale
    remote = Store(url, storage_options=options)
    for name, path in (("folder", new), ("file", files[1])):
        remote.restore(name, os.path.join(directory, "back-" + name))
    assert files_of(os.path.join(directory, "back-folder")) == files_of(new)
    assert content_of(os.path.join(directory, "back-file")) == content_of(files[1])


def test_a_push_of_a_replaced_step(target, directory):
    url, options = target
    run = Run(os.path.join(directory, "run"))
    for seed, name in enumerate(("one", "two")):
        path = os.path.join(directory, name + ".safetensors")
        lmcodec.numpy.save_file(arrays(seed), path)
        run.add(path, 5, force=True, fsync=False)
        Store(os.path.join(directory, "run")).push(url, storage_options=options)
    assert {path for path in there(target) if path.startswith("5/")} == {"5/two.safetensors.lmc"}


def test_a_push_that_ends_early(target, made, directory):
    url, options = target
    with pytest.raises(ZeroDivisionError):
        made.store.push(url, storage_options=options,
                        progress=lambda done, total: 1 // 0 if done > total // 3 else None)
    first = there(target)
    assert "store.json" in first and "index.sqlite" not in first
    rest = made.store.push(url, storage_options=options)
    assert rest.kept > 0 and set(rest.put) | first == there(target)
    remote = Store(url, storage_options=options)
    assert list(remote) == list(made.store)
    check_equal(remote.load("org/sub/merged", framework="np"), made.tensors["org/sub/merged"])


def test_push_to_a_new_directory(made, directory):
    target = os.path.join(directory, "not", "there")
    url = "file://" + target
    assert made.store.push(url, dry_run=True).put and not os.path.exists(os.path.dirname(target))
    assert made.store.push(url).put and made.store.push(url).put == ()
    assert list(Store(url)) == list(Store(target)) == list(made.store)
    check_equal(Store(target).load("org/sub/merged", framework="np"), made.tensors["org/sub/merged"])


def test_where_nothing_is_pushed(target, made, run, directory):
    url, options = target
    system, path = fsspec.core.url_to_fs(url, **options)
    system.pipe(path + "/notes.txt", b"something else")
    with pytest.raises(lmcodec.ArgumentError, match="neither empty nor a store"):
        made.store.push(url, storage_options=options)
    system.pipe(path + "/run.json", b"{}")
    system.pipe(path + "/.lmc-pushed.json", b"{}")
    with pytest.raises(lmcodec.ArgumentError, match="is a run"):
        made.store.push(url, storage_options=options)
    system.pipe(path + "/.lmc-pushed.json", b"[1]")
    with pytest.raises(lmcodec.DataError, match="lmc-pushed.json"):
        made.store.push(url, storage_options=options)
    with RangeServer() as server, pytest.raises(lmcodec.ArgumentError, match="HTTP"):
        made.store.push(server.url)
    with pytest.raises(lmcodec.ArgumentError, match="not a URL"):
        made.store.push(directory)
    with pytest.raises(lmcodec.ArgumentError, match="this machine"):
        Store(url, storage_options=options).push(url)
    with pytest.raises(FileNotFoundError):
        Store(os.path.join(directory, "none")).push(url)
    system.rm(path, recursive=True)
    as_store = Store(run[0]._path.decode())
    pushed = as_store.push(url, storage_options=options, delete=True)
    assert pushed.put[-1] == "run.json" and list(Store(url, storage_options=options)) == ["10", "11", "200"]


# ---- hostile servers ----

def index_with(directory, *statements):
    path = os.path.join(directory, "index.sqlite")
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(statement)
    database.close()
    content = content_of(path)
    os.unlink(path)
    return content


ENDLESS = "WITH RECURSIVE n(path) AS (SELECT 'a.lmc/b.lmc' UNION ALL SELECT path || '' FROM n) SELECT path FROM n"


@pytest.mark.parametrize("statements", [
    ["CREATE VIEW file AS " + ENDLESS],
    ["CREATE TABLE files(path)"],
    ["CREATE TABLE file(name)"],
    ["CREATE TABLE file(id, path AS (printf('%99999999d.lmc/x', id)))", "INSERT INTO file VALUES (1)"],
    ["CREATE VIRTUAL TABLE file USING fts5(path)"],
    None,
], ids=["view", "no table", "no column", "generated", "virtual", "no database"])
def test_a_wrong_index(directory, statements, made):
    index = b"SQLite format 3\0" + bytes(5000) if statements is None else index_with(directory, *statements)
    with RangeServer({"s/store.json": made.files["store.json"], "s/index.sqlite": index}) as server:
        with pytest.raises(lmcodec.DataError, match="index.sqlite"):
            Store(server.url + "s").names()
        assert not os.path.exists(os.path.join(directory, "b"))


def test_names_of_an_index_are_checked(directory, made):
    paths = ["../x.lmc/a.lmc", "/x.lmc/a.lmc", "x.lmc/../../a.lmc", "x", ".lmc/a.lmc", "a.lmc", ".x.lmc/a.lmc",
             "a/./b.lmc/c.lmc", "x.lmc/", "good/one.lmc/a.safetensors.lmc"]
    index = index_with(directory, "CREATE TABLE file(path)",
                       *["INSERT INTO file VALUES ('%s')" % path for path in paths],
                       "INSERT INTO file VALUES (5)", "INSERT INTO file VALUES (x'00ff')",
                       "INSERT INTO file VALUES ('n' || char(0) || '.lmc/a.lmc')")
    with RangeServer({"s/store.json": made.files["store.json"], "s/index.sqlite": index}) as server:
        store = Store(server.url + "s")
        assert list(store) == ["good/one"]
        assert store["good/one"].has_unknown_base and store["good/one"].depth is None
        with pytest.raises(FileNotFoundError):
            store.load("good/one", framework="np")
        del server.files["s/index.sqlite"]
        with pytest.raises(FileNotFoundError, match="lmc-st store repair"):
            store.names()


def test_a_server_that_forbids_what_is_not_there(made, directory):
    """As public objects of S3 are, whose list is not public."""
    with RangeServer({"a/" + path: content for path, content in made.files.items()}) as server:
        server.missing = 403
        store = Store(server.url + "a")
        assert [(model.name, model.bases, model.is_directory) for model in store.models()] == \
            [(model.name, model.bases, model.is_directory) for model in made.store.models()]
        check_equal(store.load("org/copy", framework="np"), made.tensors["org/copy"])
        store.restore("org/sub/merged", os.path.join(directory, "out"))
        assert content_of(os.path.join(directory, "out")) == content_of(made.models["org/sub/merged"])


def test_an_index_is_fetched_once(made):
    with RangeServer({"a/" + path: content for path, content in made.files.items()}) as server:
        store = Store(server.url + "a")
        list(store)
        server.forget()
        assert len(store) == 5 and server.count("a/index.sqlite") == 1
        del server.files["a/org/other@1.lmc/org-other@1.safetensors.lmc"]
        merged, other = store["org/sub/merged"], store["org/other@1"]
        assert other.has_unknown_base and merged.depth is None and not merged.has_unknown_base
        with pytest.raises(lmcodec.BaseError, match="other@1"):
            store.load("org/sub/merged", framework="np")


def test_a_base_that_is_missing(made, directory):
    system = fsspec.filesystem("memory")
    for path, content in made.files.items():
        if not path.startswith("base.lmc/"):
            system.pipe("/without/" + path, content)
    store = Store("memory://without")
    assert store["org/tuned"].has_unknown_base and store["org/tuned"].depth is None
    assert store["org/other@1"].depth == 1 and "base" not in store
    with pytest.raises(lmcodec.BaseError):
        store.load("org/tuned", framework="np")
    with pytest.raises(lmcodec.BaseError):
        store.restore("org/tuned", os.path.join(directory, "out"))
    assert os.listdir(directory) == []
    system.rm("/without", recursive=True)
