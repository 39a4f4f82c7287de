"""lmc-st store plan: better bases for the models of a store, whatever the order in which they came. Nothing changes
without --apply; what is applied takes no more than before, and every model stays what it was."""
import errno
import json
import os
import random
import signal
import sqlite3
import subprocess
import time

import pytest

from faults import Faults
from runs import tree_of
from stores import add, bases_of, check_clean, check_store, family, listed, llm, place, rounded, tuned, write_file
from support import check, read


def lineage(tool, directory, store):
    """A chain of fine-tunes that came in the worst order: the two ends first. Name -> path."""
    steps = [llm(layers=2, count=32768)]
    for i in range(5):
        steps.append(tuned(steps[-1], seed=20 + i, part=0.05))
    paths = {}
    for i in (5, 0, 4, 2, 1, 3):
        name = "step%d" % i
        paths[name] = write_file(os.path.join(directory, "made"), name, steps[i])
        add(tool, store, paths[name])
    return paths


def plan(tool, store, *args):
    done = tool.run("store", "plan", store, "--json", *args)
    check(done.status == 0, done.stderr)
    return json.loads(done.stdout)


def archives_of(store):
    return {os.path.join(folder, name): read(os.path.join(folder, name)) for folder, _, names in os.walk(store)
            for name in names if name.endswith(".lmc")}


def total(tool, store):
    return sum(model["stored_nbytes"] for model in listed(tool, store).values())


def test_nothing_changes_without_apply(tool, directory):
    store = place(directory)
    lineage(tool, directory, store)
    before = archives_of(store)
    found = plan(tool, store)
    check(found["stored_nbytes"] == total(tool, store), "the bytes of now")
    check(found["planned_nbytes"] <= found["stored_nbytes"], "no more than now")
    check([model["name"] for model in found["models"]] == ["step%d" % i for i in range(6)], "every model")
    check(all(set(model) >= {"name", "base"} for model in found["models"]), "keys")
    after = archives_of(store)
    check(before == after, "no archive has changed")


@pytest.mark.parametrize("depth", [1, 3])
def test_apply(tool, directory, depth):
    store = place(directory)
    paths = lineage(tool, directory, store)
    before = total(tool, store)
    found = plan(tool, store, "--apply", "--depth", str(depth))
    check(found["stored_nbytes"] == before, "the bytes before")
    check(found["planned_nbytes"] == total(tool, store), "the bytes of now")
    check(found["planned_nbytes"] <= before, "no more than before")
    check(depth == 1 or found["planned_nbytes"] < before, "a chain takes less")
    check(all(model["depth"] <= depth + 1 for model in listed(tool, store).values()), "the depth is kept to")
    check_store(tool, store, paths)
    plan(tool, store, "--apply", "--depth", str(depth))
    check(total(tool, store) <= found["planned_nbytes"], "the second plan makes nothing larger")


@pytest.mark.parametrize("change", ["UPDATE file SET mtime_ns = 1", "UPDATE file SET tensors = x'00'",
                                    "PRAGMA user_version = 999", None])
def test_index_is_only_read(tool, directory, change):
    """Another program may be writing it. What it lacks makes no other plan."""
    store = place(directory)
    lineage(tool, directory, store)
    told = plan(tool, store)
    index = os.path.join(store, "index.sqlite")
    if change is None:
        os.unlink(index)
    else:
        database = sqlite3.connect(index)
        with database:
            database.execute(change)
        database.close()
    before = tree_of(store)
    check(plan(tool, store) == told, "another plan")
    check(tree_of(store) == before, "the store has changed")


def test_what_it_will_cost_is_said_first(tool, directory):
    store = place(directory)
    lineage(tool, directory, store)
    planned = tool.run("store", "plan", store, "--depth", "3").expect(0).stdout.splitlines()
    lines = tool.run("store", "plan", store, "--depth", "3", "--apply").expect(0).stdout.splitlines()
    check(lines[0] == planned[-1] and "as planned" in lines[0], lines[0])
    check(any(": re-based" in line for line in lines[1:-1]) and "were stored again" in lines[-1], lines[-1])


def test_a_plan_that_proves_to_save_nothing(tool, directory):
    """What was announced is not done, and the last line says why."""
    rng, store = random.Random(100), place(directory)
    count = rng.randint(3, 5)
    known = [llm(seed=number, layers=rng.choice((1, 2)), count=2048) for number in range(2)]
    for i in range(count):
        path = write_file(os.path.join(directory, "made%d" % i), "m%d" % i, some_model(rng, known))
        add(tool, store, path, "--depth", str(rng.randint(1, 3)))
    before = archives_of(store)
    lines = tool.run("store", "plan", store, "--apply").expect(0).stdout.splitlines()
    check(lines[0].split(": ")[1].startswith("3 models would be stored again"), lines[0])
    check(" 0 models were stored again" in lines[-2] and lines[-1].startswith("measured, the plan saves"), lines[-1])
    check(archives_of(store) == before, "no archive has changed")


def test_order_does_not_matter(tool, directory):
    """The master comes last: BF16 copies of it are then stored as such."""
    master = llm(layers=2, count=16384, dtype="F32")
    store = place(directory)
    paths = {name: write_file(os.path.join(directory, "made"), name, tensors) for name, tensors in
             [("copy", rounded(master)), ("master", master)]}
    for name in ("copy", "master"):
        add(tool, store, paths[name])
    check(bases_of(listed(tool, store)["copy"]) == [], "nothing was there")
    plan(tool, store, "--apply")
    check(bases_of(listed(tool, store)["copy"]) == ["master"], "the copy is that of its master")
    check_store(tool, store, paths)


def test_copies_stay_readable(tool, directory):
    """Models that share equal tensors with each other: none may come to need itself."""
    base = llm(layers=3, count=16384)
    other = llm(layers=3, count=16384, seed=2)
    mixed = [b if i % 2 else a for i, (a, b) in enumerate(zip(base, other))]
    store = place(directory)
    paths = {}
    for name, tensors in [("mixed", mixed), ("base", base), ("other", other), ("tuned", tuned(base)),
                          ("mixed-tuned", tuned(mixed)), ("copy", base)]:
        paths[name] = write_file(os.path.join(directory, "made"), name, tensors)
        add(tool, store, paths[name])
    before = total(tool, store)
    for depth in (1, 2, 1):
        plan(tool, store, "--apply", "--depth", str(depth))
        check_store(tool, store, paths)
    check(total(tool, store) <= before, "no more than in the order in which they came")


def test_no_plan_for_a_run(tool, directory):
    path = write_file(os.path.join(directory, "made"), "step10", llm())
    run = os.path.join(directory, "run")
    tool.run("run", "add", run, path).expect(0)
    tool.run("store", "plan", run).expect(2, "is a run, not a store of models")


def test_empty_and_single(tool, directory):
    store = place(directory)
    paths = {"one": write_file(os.path.join(directory, "made"), "one", llm())}
    add(tool, store, paths["one"])
    found = plan(tool, store, "--apply")
    check(found["changed"] == 0 and found["planned_nbytes"] == found["stored_nbytes"], "nothing to do")
    check(tool.run("store", "drop", store, "one").status == 0, "drop")
    found = plan(tool, store, "--apply")
    check(found == {"models": [], "stored_nbytes": 0, "planned_nbytes": 0, "changed": 0, "changed_nbytes": 0},
          "an empty store")


def test_wrong_usage(tool, directory):
    store = place(directory)
    add(tool, store, write_file(os.path.join(directory, "made"), "one", llm()))
    for args in ([], [store, "one"], [store, "--depth", "0"], [store, "--depth", "63"], ["--apply"]):
        check(tool.run("store", "plan", *args).status == 2, str(args))
    check(tool.run("store", "plan", os.path.join(directory, "nowhere")).status == 3, "no store")


def test_totals_after_a_fault(tool, directory):
    """The models have been told by then; what all of them take is not known."""
    faults = Faults(tool, directory)
    store = place(faults.directory)
    paths = lineage(tool, directory, store)
    result, _ = faults.run("fsync:1:0:e%d" % errno.EIO, "store", "plan", store, "--apply", "--depth", "3", "--json")
    result.expect(3, os.strerror(errno.EIO))
    found = json.loads(result.stdout)
    check(len(found.pop("models")) == len(paths), "not every model")
    check(found == dict.fromkeys(("stored_nbytes", "planned_nbytes", "changed", "changed_nbytes")), str(found))
    check_store(tool, store, paths)


def test_killed(tool, directory):
    """A plan that is killed leaves a sound store, and the next one goes on."""
    store = place(directory)
    paths = lineage(tool, directory, store)
    rng = random.Random(3)
    for _ in range(8):
        process = tool.start("store", "plan", store, "--apply", "--depth", "3")
        time.sleep(rng.random() * 0.15)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        check_store(tool, store, paths)
    plan(tool, store, "--apply", "--depth", "3")
    check_store(tool, store, paths)
    check_clean(store)


def some_model(rng, known):
    """A copy, a fine-tune or a merge of those that are known; a fine-tune may become known."""
    tensors, kind = rng.choice(known), rng.choice(("copy", "tuned", "tuned", "merge", "known"))
    if kind == "merge":
        return [rng.choice(pair) for pair in zip(tensors, rng.choice(known))]
    if kind != "copy":
        tensors = tuned(tensors, rng.randrange(50))
    if kind == "known" and len(known) < 8:
        known.append(tensors)
    return tensors


@pytest.mark.parametrize("seed", [2, 15, 45, 50, 51, 65, 70, 76])
def test_random_changes(tool, directory, seed):
    """Models come, change and go, with plans in between, of which none makes the store larger."""
    rng, store, paths = random.Random(seed), place(directory), {}
    known = [llm(seed=number, layers=2, count=2048) for number in range(3)]
    for i in range(16):
        choice = rng.random()
        depth = str(rng.randint(1, 3))
        if choice < 0.6 or len(paths) < 2:
            name = "m%d" % rng.randrange(12)
            paths[name] = write_file(os.path.join(directory, "made%d" % i), name, some_model(rng, known))
            add(tool, store, paths[name], "-f", "--depth", depth)
        elif choice < 0.7:
            name = rng.choice(sorted(paths))
            tool.run("store", "drop", store, name).expect(0)
            del paths[name]
        else:
            before = total(tool, store)
            found = plan(tool, store, "--apply", "--depth", depth)
            after = total(tool, store)
            check(found["stored_nbytes"] == before and found["planned_nbytes"] == after, "%s: %d" % (found, after))
            check(after <= before, "the plan makes %d bytes of %d" % (after, before))
    check_store(tool, store, paths)


@pytest.mark.parametrize("is_full", [True, False], ids=["full", "reader_left"])
def test_output_that_cannot_be_written(tool, directory, is_full):
    """The cause stays known while the plan goes on, also where nothing changes in the end."""
    store, made = family(tool, directory)
    plan(tool, store, "--apply")
    reading, writing = os.pipe()
    os.close(reading)
    with open("/dev/full", "wb") if is_full else os.fdopen(writing, "wb") as output:
        ended = subprocess.run([tool.path, "store", "plan", store, "--apply"], stdout=output, stderr=subprocess.PIPE,
                               check=False)
    message = ended.stderr.decode()
    if is_full:
        os.close(writing)
        check(ended.returncode == 3 and message.count("\n") == 1 and "No space left" in message, message)
    else:
        check(ended.returncode == tool.broken_pipe_status and message == "", "%d: %s" % (ended.returncode, message))
    check_store(tool, store, made)
