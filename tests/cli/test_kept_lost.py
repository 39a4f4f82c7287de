"""Files of a step or model that are gone: nothing is restored without them, nothing forgets them, and the original
replaces what is left."""
import os
import shutil

import pytest

from mounts import fill_up, with_small_disk
from runs import added, check_run, checkpoints, snapshots
from runs import place as place_of_run
from stores import add, check_model, check_store, llm, place, tuned, write_directory
from support import check, flip
from users import as_nobody

LOST = ("model.safetensors.lmc", "trainer_state.json")


@pytest.mark.parametrize("name", LOST)
def test_a_file_of_a_step(tool, directory, name):
    run, made = added(tool, directory, checkpoints, 3)
    os.unlink(os.path.join(run, "200", name))
    back = os.path.join(directory, "back")
    tool.run("run", "restore", run, "200", "-o", back).expect(1, "files of", run)
    check(not os.path.exists(back), "an output")
    for arguments in (["drop", run, "100"], ["keep", run, "--last", "2"]):
        check(tool.run("run", *arguments).status in (1, 2), "the step was stored again without it")
    tool.run("run", "verify", run).expect(1, "200")
    tool.run("run", "add", run, made[200]).expect(1, "200", "-f")
    tool.run("run", "add", "-f", run, made[200]).expect(0)
    check_run(tool, run, made)


def test_all_archives_of_a_step(tool, directory):
    run, made = added(tool, directory, checkpoints, 3)
    shutil.rmtree(os.path.join(run, "200", "global_step200"))
    os.unlink(os.path.join(run, "200", "model.safetensors.lmc"))
    tool.run("run", "restore", run, "200", "-o", os.path.join(directory, "back")).expect(1, "files of")
    tool.run("run", "add", run, made[200]).expect(1, "200", "-f")
    tool.run("run", "add", "-f", run, made[200]).expect(0)
    check_run(tool, run, made)


def test_a_file_beside_those_of_a_step(tool, directory):
    """It is no reason not to restore."""
    run, made = added(tool, directory, checkpoints, 2)
    with open(os.path.join(run, "200", "notes"), "w", encoding="utf-8") as file:
        file.write("mine")
    tool.run("run", "verify", run).expect(1, "200")
    tool.run("run", "restore", run, "200", "-o", os.path.join(directory, "back")).expect(0)


@pytest.fixture(name="models")
def fixture_models(tool, directory):
    """A store of directories, and these."""
    base = llm()
    made = {"base": write_directory(directory, "base", base, shards=2)}
    made.update({"m%d" % i: write_directory(directory, "m%d" % i, tuned(base, seed=i), shards=2) for i in range(2)})
    for path in made.values():
        add(tool, place(directory), path)
    return made


OTHERS = {"add": lambda tool, store, made: tool.run("store", "add", store, made["m0"], "--as", "copy").expect(0),
          "plan": lambda tool, store, made: tool.run("store", "plan", store).expect(0),
          "drop": lambda tool, store, made: tool.run("store", "drop", store, "m0").expect(0),
          "drop its base": lambda tool, store, made: tool.run("store", "drop", store, "base")}


@pytest.mark.parametrize("name", ["model-00002-of-00002.safetensors.lmc", "config.json"])
@pytest.mark.parametrize("other", OTHERS)
def test_a_file_of_a_model(tool, directory, models, name, other):
    """Other calls, which bring the index up to date, do not forget it."""
    store = place(directory)
    os.unlink(os.path.join(store, "m1.lmc", name))
    OTHERS[other](tool, store, models)
    tool.run("store", "verify", store, "m1").expect(1, "m1")
    tool.run("store", "restore", store, "m1", "-o", os.path.join(directory, "back")).expect(1, "m1.lmc", "missing")
    tool.run("store", "add", store, models["m1"]).expect(1, "-f")
    tool.run("store", "add", "-f", store, models["m1"]).expect(0)
    tool.run("store", "verify", store).expect(0)
    check_model(tool, store, "m1", models["m1"])


def test_all_archives_of_a_model(tool, directory, models):
    store = place(directory)
    for name in os.listdir(os.path.join(store, "m1.lmc")):
        if name.endswith(".lmc"):
            os.unlink(os.path.join(store, "m1.lmc", name))
    tool.run("store", "add", store, models["m1"]).expect(1, "-f")
    tool.run("store", "add", "-f", store, models["m1"]).expect(0)
    check_store(tool, store, models)


@pytest.mark.parametrize("kind", ["run", "store"])
def test_verify_goes_on_after_what_cannot_be_read(tool, directory, kind):
    user = as_nobody(tool, directory)
    made = checkpoints(os.path.join(directory, "made"), 3)
    kept = place(directory) if kind == "store" else place_of_run(directory)
    tool.run(kind, "add", kept, *made.values()).expect(0)
    names = ["checkpoint-%d.lmc" % step for step in made] if kind == "store" else [str(step) for step in made]
    os.chmod(os.path.join(kept, names[0], "model.safetensors.lmc"), 0o200)
    damaged = os.path.join(kept, names[2], "model.safetensors.lmc")
    flip(damaged, os.path.getsize(damaged) - 40)
    told = tool.run(kind, "verify", kept, **user)
    check(told.status == 3 and names[0] in told.stderr and names[2] in told.stderr, told.stderr)


@pytest.mark.posix("mounts of this process")
def test_drop_with_an_old_list_on_a_full_disk(tool, directory):
    """The list lacks a step: it is put right after steps were removed, if there is no room before."""
    made = snapshots(os.path.join(directory, "made"), 3)

    def fill_and_drop(disk):
        run = place_of_run(disk)
        tool.run("run", "add", run, *made.values()).expect(0)
        shutil.copytree(os.path.join(run, "30"), os.path.join(run, "40"))
        fill_up(os.path.join(disk, "filler"), 0)
        tool.run("run", "drop", run, "40").expect(0)
        os.unlink(os.path.join(disk, "filler"))
        tool.run("run", "verify", run).expect(0)
    with_small_disk(directory, "size=16m", fill_and_drop)


@pytest.mark.parametrize("name", ["store.json/x", "index.sqlite/x", "run.json/x"])
def test_names_of_the_files_of_a_store(tool, directory, name):
    path = write_directory(directory, "m", llm())
    tool.run("store", "add", place(directory), path, "--as", name).expect(2, "own files")
    tool.run("store", "add", place(directory), path, "--as", name.split("/", maxsplit=1)[0]).expect(0)
