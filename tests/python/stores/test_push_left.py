"""Store.push() where the URL has models or steps that the local store no longer has."""
import json
import os

import pytest

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

from lmcodec import ArgumentError, DataError, Run, Store  # noqa: E402
from lmcodec.numpy import save_file  # noqa: E402

from kept import layers, tuned  # noqa: E402
from remote_files import check_equal  # noqa: E402


def arrays(seed):
    """One large tensor, and a small one that is one block."""
    return {**layers(seed, 1, 200), "norm": layers(seed, 1, 1)["layers.0"]}


@pytest.fixture
def url(directory):
    return "memory://left/" + os.path.basename(directory)


def contents_at(url):
    system, path = fsspec.core.url_to_fs(url)
    return {name: system.cat_file(name) for name in system.find(path)}


def check_refused(store, url, text):
    """Nothing is put or removed."""
    before = contents_at(url)
    for dry_run in (True, False):
        with pytest.raises(ArgumentError, match=text + ".*delete=True"):
            store.push(url, dry_run=dry_run)
    assert contents_at(url) == before


def check_all(url, tensors):
    remote = Store(url)
    assert list(remote) == [str(name) for name in tensors]
    for name, expected in tensors.items():
        check_equal(remote.load(str(name), framework="np"), expected)


def store_of(directory, models):
    """Each model is based on the one before."""
    store = Store(os.path.join(directory, "store"))
    for name, tensors in models.items():
        store.add(name, tensors, depth=len(models), fsync=False)
    return store


def chain_of(names):
    found = [arrays(1)]
    while len(found) < len(names):
        found.append(tuned(found[-1], len(found)))
    return dict(zip(names, found))


def test_a_base_that_is_replaced(directory, url):
    models = chain_of("abc")
    store = store_of(directory, models)
    store.push(url)
    store.drop("b", "c", fsync=False)
    store.add("a", arrays(9), force=True, fsync=False)
    check_refused(store, url, "unreadable.*: b needs a")
    check_all(url, models)
    assert store.push(url, delete=True).removed == ("b.lmc/model.safetensors.lmc", "c.lmc/model.safetensors.lmc")
    check_all(url, {"a": arrays(9)})


def test_a_base_that_gets_another_file(directory, url):
    models = chain_of("ab")
    store = store_of(directory, models)
    store.push(url)
    store.drop("a", "b", fsync=False)
    os.mkdir(os.path.join(directory, "a"))
    with Store(url).checkout("a", directory) as path:
        os.rename(path, os.path.join(directory, "a", "weights.safetensors"))
    store.add(os.path.join(directory, "a"), fsync=False)
    check_refused(store, url, "b needs a")


def test_models_whose_bases_stay(directory, url):
    models = chain_of("abc")
    store = store_of(directory, models)
    store.push(url)
    store.drop("c", fsync=False)
    store.add("d", arrays(8), fsync=False)
    store.add("b", arrays(7), force=True, fsync=False)
    check_refused(store, url, "c needs b")
    store.add("b", models["b"], force=True, fsync=False)  # stored again, with another time
    assert "b.lmc/model.safetensors.lmc" in store.push(url).put
    check_all(url, {**models, "d": arrays(8)})
    store.drop("a", fsync=False)  # and b gets other blocks
    assert "b.lmc/model.safetensors.lmc" in store.push(url).put
    check_all(url, {**models, "d": arrays(8)})
    store.add("d", arrays(6), force=True, fsync=False)
    store.push(url)
    check_all(url, {**models, "d": arrays(6)})


@pytest.mark.parametrize("changed", [["norm"], ["layers.0"]])
def test_a_base_with_the_same_time_and_other_content(directory, url, changed):
    """The time says nothing if a tensor differs that has the same blocks."""
    models = chain_of("ab")
    store = store_of(directory, models)
    path = store.path("a", "model.safetensors")
    os.utime(path, (1e9, 1e9))
    store.push(url)
    store.drop("b", fsync=False)
    other = tuned(arrays(1), 5)
    store.add("a", {**arrays(1), **{name: other[name] for name in changed}}, force=True, fsync=False)
    os.utime(path, (1e9, 1e9))
    check_refused(store, url, "b needs a")


def test_copies_that_are_named_like_archives(directory, url):
    """They have no bases, whatever they look like."""
    store = store_of(directory, chain_of("a"))
    model = os.path.join(directory, "m")
    with store.checkout("a", directory) as path:
        os.makedirs(model)
        os.rename(path, os.path.join(model, "weights.safetensors"))
    with open(os.path.join(model, "x.lmc"), "wb") as file:
        file.write(b"GGUF" + b"\xff" * 60)
    store.add(model, fsync=False)
    store.push(url)
    store.drop("m", fsync=False)
    store.add("c", arrays(5), fsync=False)
    store.add("c", arrays(6), force=True, fsync=False)
    store.push(url)
    store.add("c", arrays(7), force=True, fsync=False)
    store.push(url)
    assert list(Store(url)) == ["a", "c", "m"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_push_that_ends_early_goes_on(directory, url, when, monkeypatch):
    """It still knows when the archive there was modified, whether that is the old or the new one."""
    models = chain_of("abc")
    store = store_of(directory, models)
    store.push(url)
    store.drop("a", "c", fsync=False)  # b gets other blocks
    system = fsspec.filesystem("memory")
    put_file = system.put_file

    def fail(*arguments):
        if when == "after":
            put_file(*arguments)
        raise OSError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(system, "put_file", fail)
        with pytest.raises(OSError, match="no more"):
            store.push(url)
    store.push(url)
    check_all(url, models)


def test_other_blocks_without_the_list(directory, url):
    """Nothing says then that the content is the same."""
    models = chain_of("abc")
    store = store_of(directory, models)
    store.push(url)
    store.drop("a", "c", fsync=False)
    fsspec.filesystem("memory").rm(url[len("memory:/"):] + "/.lmc-pushed.json")
    check_refused(store, url, "c needs b")


def test_what_is_damaged_there_is_replaced(directory, url):
    store = store_of(directory, chain_of("ab"))
    store.push(url)
    store.drop("b", fsync=False)
    os.utime(store.path("a", "model.safetensors"))
    fsspec.filesystem("memory").pipe(url[len("memory:/"):] + "/a.lmc/model.safetensors.lmc", b"damaged")
    store.push(url)
    check_all(url, chain_of("ab"))


# ---- runs ----

def run_of(directory, steps):
    run = Run(os.path.join(directory, "run"))
    for step, tensors in steps.items():
        run.add(step, tensors, fsync=False)
    return run, Store(os.path.join(directory, "run"))


@pytest.mark.parametrize("keep", [{"last": 2}, {"last": 1, "every": 2}])
def test_a_run_that_keeps_few_steps(directory, url, keep):
    """Steps 2 and 4 are stored again; 3 and 5 may be based on them there."""
    steps = chain_of(range(1, 6))
    run, store = run_of(directory, steps)
    store.push(url)
    for step in (6, 7):
        run.keep(**keep, fsync=False)
        assert store.push(url).put[-1] == "run.json"
        check_all(url, steps)
        again = store.push(url)
        assert (again.put, again.removed) == ((), ())
        steps[step] = tuned(steps[step - 1], step)
        run.add(step, steps[step], fsync=False)
    store.push(url)
    check_all(url, steps)
    check_copy(directory, url)
    store.push(url, delete=True)
    check_all(url, {step.step: steps[step.step] for step in run})
    assert store.push(url).put == ()


def check_copy(directory, url):
    """The copy is a run, and its list is what a run of these steps has."""
    place = os.path.join(directory, "copy")
    fsspec.filesystem("memory").get(url[len("memory:/"):], place, recursive=True)
    copy = Run(place)
    copy.verify()
    listed = list_in(place)
    copy.repair()
    assert list_in(place) == listed


def list_in(run):
    """Without the times, which are not copied."""
    with open(os.path.join(run, "run.json")) as file:
        value = json.load(file)
    return {**value, "steps": [{**entry, "time": 0} for entry in value["steps"]]}


def test_steps_whose_base_is_replaced(directory, url):
    steps = chain_of(range(1, 6))
    run, store = run_of(directory, steps)
    store.push(url)
    run.drop(3, fsync=False)
    run.add(2, arrays(9), force=True, fsync=False)
    check_refused(store, url, "3 needs 2")
    check_all(url, steps)
    store.push(url, delete=True)
    check_all(url, {1: steps[1], 2: arrays(9), 4: steps[4], 5: steps[5]})


def test_steps_in_folders_that_have_its_number(directory, url):
    """As those of DeepSpeed. The base of a step is in a folder of another number."""
    run = os.path.join(directory, "run")
    steps = chain_of((10, 20, 30))

    def add(step, tensors):
        folder = os.path.join(directory, "checkpoint-%d" % step, "global_step%d" % step)
        os.makedirs(folder, exist_ok=True)
        save_file(tensors, os.path.join(folder, "model.safetensors"))
        Run(run).add(os.path.dirname(folder), fsync=False)

    for step, tensors in steps.items():
        add(step, tensors)
    Store(run).push(url)
    Run(run).drop(30, fsync=False)
    Run(run).drop(20, fsync=False)
    add(20, arrays(9))
    check_refused(Store(run), url, "30 needs 20")


def changed_list(url, change):
    """Puts run.json there with the entries that `change` makes of its entries."""
    system, path = fsspec.core.url_to_fs(url + "/run.json")
    value = json.loads(system.cat_file(path))
    system.pipe(path, json.dumps({**value, "steps": change(value["steps"])}).encode())


@pytest.mark.parametrize("change", [
    lambda steps: steps[:2],
    lambda steps: [{**step, "base": "unknown"} for step in steps],
], ids=["no entry", "unknown base"])
def test_steps_whose_base_the_list_does_not_name(directory, url, change):
    """They may be based on any step before them."""
    steps = chain_of(range(1, 4))
    run, store = run_of(directory, steps)
    store.push(url)
    changed_list(url, change)
    run.drop(3, fsync=False)
    run.add(4, arrays(8), fsync=False)
    store.push(url)
    run.add(2, arrays(9), force=True, fsync=False)
    check_refused(store, url, "3 needs 2")
    store.push(url, delete=True)
    check_all(url, {1: steps[1], 2: arrays(9), 4: arrays(8)})


@pytest.mark.parametrize("content", [b"[]", b'{"format":"lmc-run","version":1,"steps":[{"step":"3","base":null}]}'],
                         ids=["no list", "no number"])
def test_a_damaged_list_there(directory, url, content):
    steps = chain_of(range(1, 4))
    run, store = run_of(directory, steps)
    store.push(url)
    run.drop(3, fsync=False)
    system, path = fsspec.core.url_to_fs(url + "/run.json")
    system.pipe(path, content)
    with pytest.raises(DataError, match="run.json"):
        store.push(url)
    assert store.push(url, delete=True).removed == ("3/model.safetensors.lmc",)
    check_all(url, {1: steps[1], 2: steps[2]})
