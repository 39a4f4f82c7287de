"""lmcodec.Store: models that never were, with NumPy and PyTorch."""
import errno
import json
import os
import pickle
import shutil

import numpy
import pytest

import lmcodec
import lmcodec.numpy
from lmcodec import Run, Store, StoredModel

from kept import add_from_threads, interrupt_waiting_add, layers, tuned


def arrays(seed=1, count=3):
    return layers(seed, count, 64)


def write_file(folder, name, tensors):
    """A safetensors file, whatever its name is."""
    path = os.path.join(folder, name)
    lmcodec.numpy.save_file(tensors, path + ".safetensors", {"format": "pt"})
    os.rename(path + ".safetensors", path)
    return path


def write_directory(folder, name, tensors):
    """A model in two files, with the index that names them, and others."""
    root = os.path.join(folder, name)
    os.makedirs(os.path.join(root, "sub"))
    places = {tensor: "model-%d-of-2.safetensors" % (1 + number % 2) for number, tensor in enumerate(tensors)}
    for place in sorted(set(places.values())):
        write_file(root, place, {tensor: tensors[tensor] for tensor in tensors if places[tensor] == place})
    for inner, text in (("model.safetensors.index.json", json.dumps({"weight_map": places})), ("config.json", "{}"),
                        ("note.lmc", "named as an archive, but none"), ("sub/a.txt", "text")):
        with open(os.path.join(root, inner), "w") as file:
            file.write(text)
    return root


def tree_of(root):
    return {os.path.relpath(os.path.join(folder, name), root): open(os.path.join(folder, name), "rb").read()
            for folder, _, names in os.walk(root) for name in names}


def same(found, expected):
    return list(found) and found.keys() == expected.keys() and all(
        (numpy.asarray(found[name]) == expected[name]).all() for name in expected)


TENSORS = {"base": arrays(), "org/other@1": arrays(2), "org/tuned": tuned(arrays(), 7)}


@pytest.fixture
def made(directory):
    """A store, and the paths of what its models were made from: two files, and a directory."""
    store = Store(os.path.join(directory, "store"))
    paths = {"base": write_file(directory, "base", TENSORS["base"]),
             "org/other@1": write_file(directory, "other.safetensors", TENSORS["org/other@1"]),
             "org/tuned": write_directory(directory, "tuned", TENSORS["org/tuned"])}
    for name, path in paths.items():
        store.add(path, name, fsync=False)
    return store, paths


def nbytes_of(path):
    return sum(map(len, tree_of(path).values())) if os.path.isdir(path) else os.path.getsize(path)


# ---- models ----

def test_models(made):
    store, paths = made
    models = store.models()
    assert [model.name for model in models] == sorted(paths) == list(store) == store.names() and len(store) == 3
    assert [(model.bases, model.depth, model.is_directory) for model in models] == \
        [((), 1, False), ((), 1, False), (("base",), 2, True)]
    for model in models:
        path = paths[model.name]
        assert model == store[model.name] == store[model] and not model.has_unknown_base
        assert model.nbytes == nbytes_of(path) and model.files == (6 if model.is_directory else 1)
        assert model.ratio == model.stored_nbytes / model.nbytes and (model.ratio < 0.4) == bool(model.bases)
        assert model.is_directory or model.time == int(os.path.getmtime(path))
    assert list(reversed(store)) == sorted(paths, reverse=True)
    assert "base" in store and models[1] in store and "org" not in store and "base.lmc" not in store
    assert 5 not in store and None not in store
    assert [model.name for model in store.dependents("base")] == ["org/tuned"]
    assert store.dependents(models[1]) == []
    with pytest.raises(AttributeError):
        models[0].name = "x"


def test_what_add_returns_and_tells(directory):
    store, seen = Store(os.path.join(directory, "store")), []

    def tell(event, model):
        seen.append((event, model))

    first = store.add(write_file(directory, "a", arrays()), model_done=tell)
    assert isinstance(first, StoredModel) and first.name == "a" and seen == [("added", first)]
    again = store.add(os.path.join(directory, "a"), model_done=tell, level="max")
    assert again == first and seen[1] == ("already there", first)
    other = store.add(write_file(directory, "b", tuned(arrays(), 1)), "x/b@2", level="fast", threads=1, fsync=False)
    assert (other.name, other.bases, other.depth) == ("x/b@2", ("a",), 2)
    files = []
    store.add(write_directory(directory, "c", arrays(5)), excludes=["model-2*"],
              file_done=lambda *event: files.append(event[:2]))
    assert ("model-1-of-2.safetensors", "converted") in files and ("model-2-of-2.safetensors", "copied") in files
    assert repr(store) == "Store(%r)" % os.path.join(directory, "store")
    assert list(pickle.loads(pickle.dumps(store))) == ["a", "c", "x/b@2"]


def test_a_pickle_does_not_depend_on_the_current_directory(directory, monkeypatch):
    monkeypatch.chdir(directory)
    pickled = [pickle.dumps(kind("kept")) for kind in (Store, Run)]
    monkeypatch.chdir("/")
    for content in pickled:
        assert repr(os.path.join(directory, "kept")) in repr(pickle.loads(content))


def test_depth(directory):
    store, tensors = Store(os.path.join(directory, "store")), arrays()
    for number in range(3):
        tensors = tuned(tensors, number)
        model = store.add(write_file(directory, "m%d" % number, tensors), depth=3, fsync=False)
        assert model.depth == number + 1
    assert store.add(write_file(directory, "m3", tuned(tensors, 5)), depth=1).depth <= 2
    for depth in (0, 63, -1):
        for call in (lambda: store.add(os.path.join(directory, "m0"), depth=depth), lambda: store.plan(depth=depth)):
            with pytest.raises(lmcodec.ArgumentError, match="depth"):
                call()


def test_a_model_with_several_bases(directory):
    store, one, other = Store(os.path.join(directory, "store")), arrays(1), arrays(2)
    store.add("one", one, fsync=False)
    store.add("other", other, fsync=False)
    merged = {**{"b." + name: array for name, array in tuned(other, 3).items()},
              **{"a." + name: array for name, array in tuned(one, 4).items()}}
    model = store.add("merged", merged, fsync=False)
    assert model.bases == ("one", "other") and model.ratio < 0.4
    assert same(store.load("merged", framework="np"), merged)
    for base in ("one", "other"):
        assert [found.name for found in store.dependents(base)] == ["merged"]
    store.drop("one", "other")
    assert same(store.load("merged", framework="np"), merged) and store["merged"].bases == ()


def test_one_of_several_bases_is_missing(directory):
    """It is found before anything is written, also if only a copy of a tensor in the same file needs it."""
    store, one, other = Store(os.path.join(directory, "store")), arrays(1, 1), arrays(2, 1)
    store.add("one", one, fsync=False)
    store.add("other", other, fsync=False)
    merged = {**{"a." + name: array for name, array in tuned(one, 4).items()},
              **{"b." + name: array for name, array in tuned(other, 3).items()}}
    merged["c"] = merged["b." + max(other, key=lambda name: other[name].nbytes)]
    assert store.add("merged", merged, fsync=False).bases == ("one", "other")
    shutil.rmtree(store.path("other"))
    for names in (list(merged), [name for name in merged if name[0] != "b"]):
        out = {name: numpy.zeros_like(merged[name]) for name in names}
        with pytest.raises(lmcodec.BaseError):
            lmcodec.numpy.load_into(out, os.path.join(store.path("merged"), "model.safetensors.lmc"))
        assert not any(array.any() for array in out.values())


def test_a_model_with_other_content(made, directory):
    store, paths = made
    path = write_file(directory, "new", arrays(9))
    with pytest.raises(FileExistsError) as caught:
        store.add(path, "base")
    assert caught.value.filename == path and caught.value.errno == errno.EEXIST
    seen = []
    store.add(path, "base", force=True, model_done=lambda event, model: seen.append((event, model.name)))
    assert seen == [("re-based", "org/tuned"), ("added", "base")]
    assert same(store.load("base", framework="np"), arrays(9))
    assert same(store.load("org/tuned", framework="np"), TENSORS["org/tuned"])


def test_wrong_requests(made, directory):
    store, paths = made
    for name in ("", "/a", "a/", "a//b", ".a", "a/.b", "x.lmc/b", "a" * 201, "../a"):
        with pytest.raises(lmcodec.ArgumentError, match="stored under this name"):
            store.add(paths["base"], name)
    out = os.path.join(directory, "out")
    for call in (store.__getitem__, store.path, store.open, store.load, store.drop, store.dependents,
                 lambda name: store.get(name, "layers.0"), lambda name: store.verify(["base", name]),
                 lambda name: store.restore(name, out), lambda name: store.checkout(name).__enter__()):
        for name in ("none", "org", "base.lmc", "../store"):
            with pytest.raises(lmcodec.ModelNotFound, match="there is no model"):
                call(name)
        for name in (5, None, b"base"):
            with pytest.raises(TypeError):
                call(name)
    for call in (lambda: store.drop(), lambda: store.drop([]), lambda: store.verify([]),
                 lambda: store.restore("base", os.path.join(store.path("base"), "out")),
                 lambda: store.add(store.path("base"), "again"), lambda: store.add(paths["base"], level="least"),
                 lambda: Store("store", storage_options={})):
        with pytest.raises(lmcodec.ArgumentError):
            call()
    for error, call in ((TypeError, lambda: store.add(5)), (TypeError, lambda: store.add(paths["base"], 5)),
                        (ValueError, lambda: store.add(paths["base"], "a\0b")), (TypeError, lambda: store.drop(5)),
                        (FileNotFoundError, lambda: store.add(os.path.join(directory, "none")))):
        with pytest.raises(error):
            call()
    assert sorted(paths) == list(store) and not os.path.exists(out)


def test_a_directory_that_is_no_store(directory):
    missing, other = Store(os.path.join(directory, "missing")), Store(directory)
    open(os.path.join(directory, "file"), "w").close()
    assert (missing.models(), list(missing), len(missing), "a" in missing) == ([], [], 0, False) and missing
    for call in (Store.models, len, list, Store.verify, Store.repair, Store.plan, lambda store: store.path("a"),
                 lambda store: store.load("a"), lambda store: store.drop("a"), lambda store: store.restore("a", "b")):
        if call not in (Store.models, len, list):
            with pytest.raises(FileNotFoundError):
                call(missing)
        with pytest.raises(lmcodec.ArgumentError):
            call(other)
    assert os.listdir(directory) == ["file"]


# ---- changes ----

def test_drop(made):
    store, paths = made
    seen = []
    gone = store.drop("base", store["org/other@1"], model_done=lambda event, model: seen.append((event, model.name)))
    assert sorted(model.name for model in gone) == ["base", "org/other@1"] and ("re-based", "org/tuned") in seen
    assert list(store) == ["org/tuned"] and store["org/tuned"].depth == 1
    store.verify()
    assert same(store.load("org/tuned", framework="np"), TENSORS["org/tuned"])
    with pytest.raises(lmcodec.ModelNotFound):
        store.drop(["org/tuned", "none"])
    assert [model.name for model in store.drop(["org/tuned"])] == ["org/tuned"] and list(store) == []


@pytest.mark.parametrize("framework", ["np", "pt"])
def test_tensors_without_a_file(directory, framework):
    if framework == "pt":
        torch = pytest.importorskip("torch", reason="torch is not installed (Debian: python3-torch)")
        made = torch.randn(100, 300, generator=torch.Generator().manual_seed(1))
    else:
        made = numpy.random.default_rng(1).standard_normal((100, 300), dtype="f4")
    store = Store(os.path.join(directory, "store"))
    for name, bases in (("a", ()), ("b", ("a",))):
        made[5] += 1
        assert store.add(name, {"w": made, "b": made[0], "t": made.T}).bases == bases
    assert (store.load("b", framework=framework)["w"] == made).all()
    assert store.open("a").metadata == {"format": framework} and store["a"].files == 1
    with pytest.raises(FileExistsError):
        store.add("b", {"w": made + 1})
    store.add("b", {"w": made + 1}, force=True)
    assert (store.get("b", "w", framework) == made + 1).all()
    assert os.listdir(directory) == ["store"]
    with pytest.raises(TypeError):
        store.add(2, {"w": made})
    with pytest.raises(lmcodec.ArgumentError, match="^model.safetensors: cannot be stored under this name"):
        store.add("../x", {"w": made})


def test_plan(directory):
    store, base = Store(os.path.join(directory, "store")), arrays()
    store.add("tuned", tuned(base, 1), fsync=False)
    store.add("base", base, fsync=False)
    seen = []
    plan = store.plan(model_done=lambda event, model: seen.append((event, model.name)))
    assert [("planned", model.name) for model in plan.models] == seen == [("planned", "base"), ("planned", "tuned")]
    assert plan.stored_nbytes == sum(model.stored_nbytes for model in store.models())
    assert plan.nbytes == sum(model.nbytes for model in store.models()) and 0 < plan.ratio < 1
    assert plan.planned_nbytes > 0 and plan.changed_nbytes >= 0
    before = plan.stored_nbytes
    applied = store.plan(apply=True, fsync=False)
    assert sum(model.stored_nbytes for model in store.models()) <= before and applied.changed <= 2
    for name, tensors in (("base", base), ("tuned", tuned(base, 1))):
        assert same(store.load(name, framework="np"), tensors)


def test_progress_of_a_plan_that_is_not_applied(directory):
    """What was predicted turns out wrong: nothing changes, and the progress ends at its total as after any success."""
    store, base, seen = Store(os.path.join(directory, "store")), arrays(), []
    for name, tensors in (("one", base), ("two", tuned(base, 1)), ("two", base)):
        store.add(name, tensors, force=True, fsync=False)
    applied = store.plan(apply=True, fsync=False, progress=lambda done, total: seen.append((done, total)))
    assert applied.changed == 0 and len(seen) > 1 and seen[-1][0] == seen[-1][1] > 0


def test_repair(made):
    store, _ = made
    before, place = store.models(), os.path.dirname(store.path("base"))
    for name in ("store.json", "index.sqlite"):
        os.unlink(os.path.join(place, name))
    with pytest.raises(lmcodec.ArgumentError):
        store.models()
    store.repair()
    assert store.models() == before and os.path.exists(os.path.join(place, "index.sqlite"))


# ---- contents ----

def test_restore(made, directory):
    store, paths = made
    for name, path in paths.items():
        place = os.path.join(directory, "back-" + name.replace("/", "-"))
        result = store.restore(name, place)
        assert result.nbytes == store[name].nbytes
        if os.path.isdir(path):
            assert tree_of(place) == tree_of(path)
        else:
            assert open(place, "rb").read() == open(path, "rb").read()
        with pytest.raises(FileExistsError):
            store.restore(name, place)
        files = []
        assert store.restore(store[name], place, force=True, threads=1, fsync=False,
                             file_done=lambda *event: files.append(event[:2])).nbytes == result.nbytes
        assert not os.path.isdir(path) or ("model-1-of-2.safetensors.lmc", "restored") in files
        assert list(store.verify([name]).damages) == [] and list(store.verify(name).damages) == []


def test_checkout(made, directory):
    """A model has its name, and is gone after `with`, whatever happens in it."""
    store, paths = made
    with store.checkout("org/other@1") as path:
        assert open(path, "rb").read() == open(paths["org/other@1"], "rb").read()
        assert os.path.basename(path) == "other.safetensors"
    with pytest.raises(ZeroDivisionError), store.checkout(store["org/tuned"], directory, threads=1) as path:
        assert path.startswith(directory) and os.path.basename(path) == "tuned"
        assert tree_of(path) == tree_of(paths["org/tuned"])
        1 / 0
    assert not os.path.exists(os.path.dirname(path))


def test_files_of_a_model(made):
    store, paths = made
    root = os.path.dirname(store.path("base"))
    assert store.path("org/tuned") == os.path.join(root, "org/tuned.lmc")
    assert store.path("base", "base") == os.path.join(root, "base.lmc", "base.lmc")
    for name, place in (("model-1-of-2.safetensors", "model-1-of-2.safetensors.lmc"), ("config.json", "config.json"),
                        ("note.lmc", "note.lmc"), ("sub/a.txt", "sub/a.txt")):
        assert store.path("org/tuned", name) == os.path.join(root, "org/tuned.lmc", place)
    for name in ("model-1-of-2.safetensors.lmc", "note", "nothing", "sub", "../../store.json",
                 "../other@1.lmc/other.safetensors", store.path("org/tuned", "note.lmc")):
        with pytest.raises(FileNotFoundError) as caught:
            store.path("org/tuned", name)
        assert caught.value.filename == os.path.join(store.path("org/tuned"), name)
    with store.open("base") as file:
        assert isinstance(file, lmcodec.File) and file.read("layers.0") == TENSORS["base"]["layers.0"].tobytes()
    with store.open("org/tuned", "model-2-of-2.safetensors", framework="np") as file:
        assert (file.get_slice("layers.1")[3:5] == TENSORS["org/tuned"]["layers.1"][3:5]).all()
    with pytest.raises(lmcodec.ArgumentError, match="model-1-of-2.safetensors, model-2-of-2.safetensors"):
        store.open("org/tuned")


def test_load(made):
    store, _ = made
    seen = []
    for name, tensors in TENSORS.items():
        assert same(store.load(name, framework="np", progress=lambda *now: seen.append(now)), tensors)
        assert seen == sorted(seen) and seen[-1][0] == seen[-1][1] == sum(array.nbytes for array in tensors.values())
        seen.clear()
    part = store.load("org/tuned", "model-1-of-2.safetensors", "np", threads=1)
    assert same(part, {name: TENSORS["org/tuned"][name] for name in ("layers.0", "layers.2")})
    with pytest.raises(ZeroDivisionError):
        store.load("base", framework="np", progress=lambda done, total: 1 // 0)


def test_get(made, directory):
    store, _ = made
    assert (store.get("org/tuned", "layers.1", "np") == TENSORS["org/tuned"]["layers.1"]).all()
    named = store.get(store["org/tuned"], "model-1-of-2.safetensors:layers.2", "np", threads=1)
    assert (named == TENSORS["org/tuned"]["layers.2"]).all()
    for name in ("x", "model-2-of-2.safetensors:layers.2", "model-1-of-2.safetensors:", "other:layers.0"):
        with pytest.raises(lmcodec.TensorNotFound):
            store.get("org/tuned", name, "np")
    root = write_directory(directory, "twice", arrays(4))
    write_file(root, "more.safetensors", {"layers.0": numpy.zeros(500, "f4")})
    store.add(root)
    with pytest.raises(lmcodec.ArgumentError, match="FILE:NAME"):
        store.get("twice", "layers.0", "np")
    assert (store.get("twice", "more.safetensors:layers.0", "np") == 0).all()


def test_damage(made):
    store, paths = made
    path = store.path("base", "base")
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        file.write(b"damage" * 10)
    seen = []
    with pytest.raises(lmcodec.DataError) as caught:
        store.verify(model_done=lambda event, model: seen.append((event, model.name)))
    assert os.path.normpath(caught.value.file) == path and caught.value.tensor == "layers.1" and caught.value.damages
    assert ("verified", "org/other@1") in seen and ("verified", "base") not in seen
    with pytest.raises(lmcodec.DataError):
        store.load("base", framework="np")
    with pytest.raises(lmcodec.DataError):
        store.restore("base", paths["base"], force=True)
    assert same(store.load("org/other@1", framework="np"), TENSORS["org/other@1"])
    store.verify(["org/other@1"])


def test_a_base_that_is_missing(made):
    store, _ = made
    shutil.rmtree(store.path("base"))
    model = store["org/tuned"]
    assert (model.bases, model.depth, model.has_unknown_base) == ((), None, True)
    with pytest.raises(lmcodec.BaseError):
        store.load("org/tuned", framework="np")


def test_a_store_that_is_moved(made, directory):
    store, _ = made
    place = os.path.join(directory, "elsewhere")
    shutil.move(os.path.dirname(store.path("base")), place)
    for name, tensors in TENSORS.items():
        assert same(Store(place).load(name, framework="np"), tensors)


# ---- runs as stores ----

def test_a_run(directory):
    run, tensors = Run(os.path.join(directory, "run")), arrays()
    for step in (9, 10, 11):
        tensors = tuned(tensors, step)
        run.add(write_file(directory, "step%d.safetensors" % step, tensors), fsync=False)
    store = Store(os.path.join(directory, "run"))
    assert list(store) == ["9", "10", "11"] and [model.depth for model in store.models()] == [1, 2, 3]
    assert store["11"].bases == ("10",) and [model.name for model in store.dependents("9")] == ["10"]
    assert same(store.load("11", framework="np"), tensors)
    assert store.path("10") == run.path(10)
    store.restore("11", os.path.join(directory, "back"))
    run.compare(11, os.path.join(directory, "back"))
    store.verify(["9", "11"])
    for call in (lambda name: store[name], store.open, lambda name: store.restore(name, "x"), store.drop):
        for name in ("12", "010", "x", "9.lmc"):
            with pytest.raises(lmcodec.ModelNotFound):
                call(name)
    assert [model.name for model in store.drop("10")] == ["10"] and [step.step for step in run] == [9, 11]
    store.repair()
    for call in (lambda: store.add(os.path.join(directory, "back"), "12"), store.plan):
        with pytest.raises(lmcodec.ArgumentError, match="run"):
            call()
    run.verify()


# ---- callbacks and threads ----

def test_what_callbacks_raise(made, directory):
    store, paths = made
    out, new = os.path.join(directory, "out"), write_file(directory, "new", tuned(arrays(), 20))
    before = sorted(os.listdir(directory))
    for call in (lambda progress: store.add(new, progress=progress), lambda progress: store.verify(progress=progress),
                 lambda progress: store.restore("base", out, progress=progress),
                 lambda progress: store.drop("base", progress=progress)):
        with pytest.raises(ZeroDivisionError):
            call(lambda done, total: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        store.verify(model_done=lambda event, model: 1 // 0)
    assert list(store) == sorted(paths) and sorted(os.listdir(directory)) == before
    store.verify()


def test_several_threads(directory):
    store = Store(os.path.join(directory, "store"))
    paths = [write_file(directory, "m%d" % number, tuned(arrays(), number)) for number in range(6)]
    assert not add_from_threads(store, paths)
    assert len(store) == 6 and sum(not model.bases for model in store.models()) == 1
    store.verify()


@pytest.mark.posix
def test_an_interrupt_ends_the_wait_for_the_lock(made, directory):
    store, _ = made
    new = write_file(directory, "new", arrays(30))
    assert interrupt_waiting_add("Store", os.path.dirname(store.path("base")), new) == "interrupted"
    assert len(store) == 3


# ---- PyTorch ----

def test_torch(made):
    torch = pytest.importorskip("torch", reason="torch is not installed (Debian: python3-torch)")
    import lmcodec.torch
    store, _ = made
    weights = store.load("org/tuned")
    assert weights["layers.0"].dtype == torch.float32 and same(weights, TENSORS["org/tuned"])
    assert torch.equal(store.get("base", "layers.2"), torch.from_numpy(TENSORS["base"]["layers.2"]))
    with store.open("base", framework="pt", device="cpu", threads=1) as file:
        assert torch.equal(file.get_slice("layers.0")[5, ::7], torch.from_numpy(TENSORS["base"]["layers.0"])[5, ::7])
    assert same(lmcodec.torch.load_file(store.path("base", "base")), TENSORS["base"])
