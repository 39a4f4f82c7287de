"""Runs: what is added, which base it gets, what comes back; the list of steps; what is refused."""
import json
import os
import random
import re
import shutil

import pytest

from bases import first_snapshot, next_snapshot
from runs import added, check_run, check_step, checkpoints, listed, place, snapshots, tree_of
from support import check, flip, model, read, weights, write


def chains(entries):
    return [entry["chain"] for entry in entries.values()]


# ---- adding ----

@pytest.mark.parametrize("make", [snapshots, checkpoints], ids=["files", "directories"])
def test_steps_come_back(tool, directory, make):
    made = make(os.path.join(directory, "made"), 11)
    told = tool.run("run", "add", place(directory), *sorted(made.values())).expect(0).stdout
    check([line.split(":")[0] for line in told.splitlines()] == ["step %d" % step for step in made], told)
    entries = check_run(tool, place(directory), made)
    check(chains(entries) == [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2], "chains: %s" % chains(entries))
    first, second = list(made)[:2]
    check(entries[second]["stored_nbytes"] < 0.8 * entries[first]["stored_nbytes"], "the delta is not smaller")
    nbytes = sum(len(content) for content in tree_of(made[first]).values())
    check(entries[first]["nbytes"] == nbytes and entries[first]["files"] == len(tree_of(made[first])), "sizes")
    check(entries[first]["time"] == int(os.stat(made[first]).st_mtime), "time")


def test_keys_of_the_list(tool, directory):
    run, made = added(tool, directory, snapshots, 2)
    for entry in listed(tool, run).values():
        check(list(entry) == ["step", "files", "nbytes", "stored_nbytes", "ratio", "base", "chain", "time"],
              "keys: %s" % list(entry))
        check(abs(entry["ratio"] - entry["stored_nbytes"] / entry["nbytes"]) < 1e-6, "ratio")
    told = json.loads(tool.run("run", "info", "--json", run).expect(0).stdout)
    check(told["steps"] == 2 and told["key_frames"] == 1 and told["first"] == 10 and told["last"] == 20, str(told))
    table = tool.run("run", "ls", run).expect(0).stdout.splitlines()
    check(table[1].split()[0] == "10" and table[2].split()[5:7] == ["10", "1"], "table: %s" % table)


def test_key_every_is_remembered(tool, directory):
    made = snapshots(os.path.join(directory, "made"), 9)
    paths = list(made.values())
    tool.run("run", "add", place(directory), "--key-every", "3", *paths[:2]).expect(0)
    tool.run("run", "add", place(directory), *paths[2:5]).expect(0)
    check(chains(listed(tool, place(directory))) == [0, 1, 2, 0, 1], "key frames every 3 steps")
    tool.run("run", "add", place(directory), "--key-every", "1", paths[5]).expect(0)
    tool.run("run", "add", place(directory), *paths[6:]).expect(0)
    check(chains(check_run(tool, place(directory), made)) == [0, 1, 2, 0, 1, 0, 0, 0, 0], "every step a key frame")


def test_chain_of_63(tool, directory):
    run, made = added(tool, directory, snapshots, 65, "--key-every", "63", size=300)
    check(chains(listed(tool, run)) == [*range(63), 0, 1], "key frame after 63 steps")
    tool.run("run", "verify", run).expect(0)
    check_step(tool, run, 630, made[630])


def test_earlier_step_is_a_key_frame(tool, directory):
    made = snapshots(os.path.join(directory, "made"), 4)
    tool.run("run", "add", place(directory), made[10], made[30], made[40]).expect(0)
    tool.run("run", "add", place(directory), made[20]).expect(0)
    entries = check_run(tool, place(directory), made)
    check([entry["base"] for entry in entries.values()] == [None, None, 10, 30], "bases")
    os.unlink(os.path.join(place(directory), "run.json"))
    tool.run("run", "repair", place(directory)).expect(0)
    check(check_run(tool, place(directory), made) == entries, "the base was not found again")


def renamed(tensors):
    return [("another" if name == "master" else name, *rest) for name, *rest in tensors]


def reshaped(tensors):
    return [(name, dtype, [2, len(content) // 8] if name == "master" else shape, content)
            for name, dtype, shape, content in tensors]


@pytest.mark.parametrize("change", [renamed, reshaped, lambda tensors: tensors[:-1]],
                         ids=["name", "shape", "fewer"])
def test_other_names_and_shapes_are_a_key_frame(tool, directory, change):
    tensors = first_snapshot()
    made = {10: write(os.path.join(directory, "step10.safetensors"), model(tensors))}
    other = change(next_snapshot(tensors, 1))
    made[20] = write(os.path.join(directory, "step20.safetensors"), model(other))
    made[30] = write(os.path.join(directory, "step30.safetensors"), model(next_snapshot(other, 2)))
    tool.run("run", "add", place(directory), *made.values()).expect(0)
    entries = check_run(tool, place(directory), made)
    check([entry["base"] for entry in entries.values()] == [None, None, 20], "bases")


def test_other_file_names_are_a_key_frame(tool, directory):
    made = checkpoints(os.path.join(directory, "made"), 3)
    for step in (200, 300):
        folder = os.path.join(made[step], "global_step%d" % step)
        os.rename(os.path.join(folder, "state.safetensors"), os.path.join(folder, "another.safetensors"))
    tool.run("run", "add", place(directory), *made.values()).expect(0)
    entries = check_run(tool, place(directory), made)
    check([entry["base"] for entry in entries.values()] == [None, None, 200], "bases")


def test_deltas_that_do_not_pay(tool, directory):
    """Every second step is a key frame then, or all are: nothing is stored twice to find out."""
    made = {}
    for i in range(6):
        tensors = [("w", "BF16", [3000], first_snapshot(seed=i)[0][3]), ("same", "U8", [90], b"x" * 90)]
        made[i] = write(os.path.join(directory, "step%d.safetensors" % i), model(tensors))
    tool.run("run", "add", place(directory), *made.values()).expect(0)
    entries = check_run(tool, place(directory), made)
    check(max(chains(entries)) <= 1, "chains: %s" % chains(entries))


def test_file_and_directory_in_one_run(tool, directory):
    files = snapshots(os.path.join(directory, "files"), 2)
    folders = checkpoints(os.path.join(directory, "folders"), 1)
    alone = os.path.join(directory, "step200")  # a directory with one file
    os.mkdir(alone)
    shutil.copy(files[20], os.path.join(alone, "model.safetensors"))
    made = {**files, **folders, 200: alone}
    tool.run("run", "add", place(directory), *made.values()).expect(0)
    entries = check_run(tool, place(directory), made)
    check(chains(entries) == [0, 1, 0, 0], "chains: %s" % chains(entries))
    os.unlink(os.path.join(place(directory), "run.json"))
    tool.run("run", "repair", place(directory)).expect(0)
    check_run(tool, place(directory), made)


def test_already_there(tool, directory):
    run, made = added(tool, directory, snapshots, 3)
    before = tree_of(run)
    told = tool.run("run", "add", run, made[20]).expect(0).stdout
    check(told == "step 20: already there\n", told)
    tool.run("run", "add", run, made[30], "--step", "20").expect(2, "step 20", "other content")
    check(tree_of(run) == before, "the run has changed")
    told = tool.run("run", "add", run, made[30], "--step", "20", "-f").expect(0).stdout
    check(told.startswith("step 30: re-based") and "step 20: added" in told, told)
    entries = check_run(tool, run, {10: made[10], 20: made[30], 30: made[30]})
    check(entries[30]["base"] == 10, "step 30 is not based on 10")


CHANGES = {"file": lambda root: write(os.path.join(root, "new.txt"), b"new"),
           "archive": lambda root: write(os.path.join(root, "new.safetensors"), model(first_snapshot(count=8))),
           "folder": lambda root: os.mkdir(os.path.join(root, "new")),
           "fewer": lambda root: os.unlink(os.path.join(root, "trainer_state.json")),
           "kind": lambda root: (os.unlink(os.path.join(root, "note.lmc")), os.mkdir(os.path.join(root, "note.lmc")))}


@pytest.mark.parametrize("change", CHANGES)
def test_other_files_are_other_content(tool, directory, change):
    run, made = added(tool, directory, checkpoints, 3)
    CHANGES[change](made[200])
    before = tree_of(run)
    tool.run("run", "add", run, made[200]).expect(2, "step 200", "other content")
    check(tree_of(run) == before, "the run has changed")
    tool.run("run", "add", run, made[200], "-f").expect(0)
    check_run(tool, run, made)


def test_refused_snapshot_leaves_key_every(tool, directory):
    run, made = added(tool, directory, snapshots, 2)
    tool.run("run", "add", run, made[20], "--step", "10", "--key-every", "3").expect(2, "other content")
    check(json.loads(tool.run("run", "info", "--json", run).stdout)["key_every"] == 8, "changed by a failure")
    tool.run("run", "add", run, made[20], "--key-every", "3").expect(0)
    check(json.loads(tool.run("run", "info", "--json", run).stdout)["key_every"] == 3, "not remembered")


def test_sources_stay(tool, directory):
    made = checkpoints(os.path.join(directory, "made"), 2)
    before = tree_of(os.path.join(directory, "made"))
    tool.run("run", "add", place(directory), *made.values()).expect(0)
    check(tree_of(os.path.join(directory, "made")) == before, "a source has changed")


@pytest.mark.parametrize("make", [snapshots, checkpoints], ids=["files", "directories"])
def test_rm(tool, directory, make):
    made = make(os.path.join(directory, "made"), 3)
    kept = shutil.copytree(os.path.join(directory, "made"), os.path.join(directory, "kept"))
    tool.run("run", "add", "--rm", place(directory), *made.values()).expect(0)
    check(os.listdir(os.path.join(directory, "made")) == [], "sources are left")
    check_run(tool, place(directory), {step: os.path.join(kept, os.path.basename(path))
                                       for step, path in made.items()})


def test_dry_run(tool, directory):
    made = snapshots(os.path.join(directory, "made"), 3)
    run = place(directory)
    told = tool.run("run", "add", run, made[10], "--dry-run").expect(0).stdout
    check(told == "step 10: would be added, key frame\n" and not os.path.exists(run), told)
    os.mkdir(run)
    told = tool.run("run", "add", run, made[10], "--dry-run").expect(0).stdout
    check(told == "step 10: would be added, key frame\n" and os.listdir(run) == [], told)
    write(os.path.join(run, "file"), b"")
    tool.run("run", "add", run, made[10], "--dry-run").expect(2, "is not a run")
    os.unlink(os.path.join(run, "file"))
    tool.run("run", "add", run, made[10], made[20]).expect(0)
    before = tree_of(run)
    told = tool.run("run", "add", run, made[20], made[30], "--dry-run", "--rm").expect(0).stdout
    check(told == "step 20: already there\nstep 30: would be added, based on 20\n", told)
    tool.run("run", "drop", run, "10", "--dry-run").expect(0)
    tool.run("run", "keep", run, "--last", "1", "--dry-run").expect(0)
    check(tree_of(run) == before and all(map(os.path.exists, made.values())), "something has changed")


# ---- the step of a name ----

NAMES = {"checkpoint-500": 500, "global_step3000": 3000, "step_00120.pt": 120, "epoch=3-step=1000.ckpt": 1000,
         "epoch2-checkpoint-70": 70, "iter-9_epoch_2": 9, "epoch12": 12, "Step7.safetensors": 7,
         "step1_step2.safetensors": 2, "model-1000.bf16.safetensors": 1000, "model.1000.pt": 1000,
         "model-3000-00001-of-00002.safetensors": 3000, "llama2": 2, "run3_model": 3, "9223372036854775808": 1 << 63,
         "9223372036854775809": None, "99999999999999999999999": None, "model.safetensors": None,
         "model-00001-of-00002.safetensors": None, "model.bf16": None, "stepping.stone": None}


@pytest.mark.parametrize("name", NAMES)
def test_step_of_name(tool, directory, name):
    folder = os.path.join(directory, "step1")  # the name of the folder tells nothing
    os.mkdir(folder)
    path = write(os.path.join(folder, name), model(first_snapshot(count=8)))
    result = tool.run("run", "add", place(directory), path, "--dry-run")
    if NAMES[name] is None:
        result.expect(2, name, "give the step")
        told = tool.run("run", "add", place(directory), path, "--dry-run", "--step", "5").expect(0).stdout
        check(told.startswith("step 5: "), told)
    else:
        check(result.expect(0).stdout.startswith("step %d: " % NAMES[name]), result.stdout)


# ---- other commands on what is in a run ----

@pytest.mark.posix("paths of this machine in what the command says")
def test_bases_are_found_inside(tool, directory):
    run, made = added(tool, directory, checkpoints, 5)
    for step, path in made.items():
        folder = os.path.join(run, str(step))
        tool.run("verify", "-q", folder).expect(0)
        tool.run("restore", folder, "-o", os.path.join(directory, "back%d" % step)).expect(0)
        check(tree_of(os.path.join(directory, "back%d" % step)) == tree_of(path), "step %d" % step)
        for name in ("model.safetensors", os.path.join("global_step%d" % step, "state.safetensors")):
            archive = os.path.join(folder, name + ".lmc")
            check(tool.run("cat", archive).expect(0).output == read(os.path.join(path, name)), archive)
            tool.run("get", archive, "embed").expect(0)
    told = json.loads(tool.run("info", "--json", os.path.join(run, "500", "model.safetensors.lmc")).expect(0).stdout)
    check(os.path.realpath(told["base"]["file"]) ==
          os.path.realpath(os.path.join(run, "400", "model.safetensors.lmc")), str(told["base"]))
    where = os.path.join(run, "500")  # names without a folder
    tool.run("get", "model.safetensors.lmc", "embed", cwd=where).expect(0)


def test_folder_of_a_step_with_one_archive(tool, directory):
    run, made = added(tool, directory, snapshots, 3)
    folder = os.path.join(run, "30")
    archive, = (os.path.join(folder, name) for name in os.listdir(folder))
    tensor = json.loads(tool.run("ls", "--json", archive).expect(0).stdout)[0]["name"]
    for before, after in ((["info"], []), (["info", "--json"], []), (["ls"], []), (["analyze"], []),
                          (["get"], [tensor])):
        of_folder, of_archive = (tool.run(*before, path, *after).expect(0).output for path in (folder, archive))
        check(of_folder == of_archive.replace(archive.encode(), folder.encode()), " ".join(before))
    check(tool.run("diff", folder, os.path.join(run, "20")).status == 1, "diff")
    write(os.path.join(folder, "other.lmc"), b"")
    check("is a directory" in tool.run("info", folder).expect(2).stderr, "two archives")


def test_outside_a_run(tool, directory):
    """A step that is taken out of a run needs --base-dir; the message does not speak of the file itself."""
    run, made = added(tool, directory, checkpoints, 2)
    alone = shutil.copytree(os.path.join(run, "200"), os.path.join(directory, "alone"))
    result = tool.run("restore", alone, "-o", os.path.join(directory, "back")).expect(1, "needs the base")
    check("needs that base itself" not in result.stderr, result.stderr)
    tool.run("restore", alone, "-o", os.path.join(directory, "back"), "--base", os.path.join(run, "100")).expect(0)
    check(tree_of(os.path.join(directory, "back")) == tree_of(made[200]), "restored with --base")


def test_get(tool, directory):
    run, made = added(tool, directory, checkpoints, 3)
    whole = tool.run("get", os.path.join(made[300], "model.safetensors"), "layer.0").expect(0).output
    tool.run("run", "get", run, "300", "layer.0").expect(2, "several files", "layer.0")
    check(tool.run("run", "get", run, "300", "model.safetensors:layer.0").expect(0).output == whole, "FILE:NAME")
    part = tool.run("run", "get", run, "300", "model.safetensors:layer.0[1:3, :]").expect(0).output
    check(part == whole[len(whole) // 4:3 * len(whole) // 4], "slice")
    check(tool.run("run", "get", run, "300", "scale").expect(0).output, "a name that one file has")
    tool.run("run", "get", run, "300", "nothing").expect(2, "nothing")
    tool.run("run", "get", run, "301", "scale").expect(2, "there is no step 301")


def test_get_beside_damage(tool, directory):
    """A file that is named is read, whatever has become of another one."""
    run, made = added(tool, directory, checkpoints, 2)
    whole = tool.run("run", "get", run, "200", "model.safetensors:layer.0").expect(0).output
    damaged = os.path.join(run, "200", "global_step200", "state.safetensors.lmc")
    write(damaged, read(damaged)[:-200])
    check(tool.run("run", "get", run, "200", "model.safetensors:layer.0").expect(0).output == whole, "FILE:NAME")
    tool.run("run", "get", run, "200", "model.safetensors:nothing").expect(2, "nothing")
    tool.run("run", "get", run, "200", "layer.0").expect(1, "state.safetensors.lmc", "cut short")
    tool.run("run", "get", run, "200", "global_step200/state.safetensors:layer.0").expect(1, "state.safetensors.lmc")


def test_diff(tool, directory):
    run, made = added(tool, directory, snapshots, 2)
    tool.run("run", "add", run, made[20], "--step", "30").expect(0)
    told = tool.run("run", "diff", run, "10", "20")
    check(told.status == 1 and "~ embed: content" in told.stdout, told.stdout)
    check(tool.run("run", "diff", run, "20", "30", "-q").expect(0).stdout == "", "-q")
    told = json.loads(tool.run("run", "diff", "--json", run, "10", "20").stdout)
    check("embed" in told["files"][0]["changed"] and told["added"] == [], str(told))
    tool.run("run", "diff", run, "10", "25").expect(2, "there is no step 25")


def test_diff_of_directories(tool, directory):
    made = checkpoints(os.path.join(directory, "made"), 2)
    os.unlink(os.path.join(made[200], "model.safetensors"))
    run = place(directory)
    tool.run("run", "add", run, *made.values()).expect(0)
    told = json.loads(tool.run("run", "diff", "--json", run, "100", "200").stdout)
    check([file["file"] for file in told["files"]] == ["global_step200/state.safetensors"], str(told))
    check(told["removed"] == ["model.safetensors"] and told["added"] == [], str(told))


def diff_of_names(tool, directory, a, b):
    """What run diff tells of two steps with files of these names."""
    run = place(directory)
    for step, names in ((100, a), (200, b)):
        root = os.path.join(directory, "made", "checkpoint-%d" % step)
        for name in names:
            os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
            write(os.path.join(root, name), model(first_snapshot(count=100)))
        tool.run("run", "add", run, root).expect(0)
    found = json.loads(tool.run("run", "diff", "--json", run, "100", "200").stdout)
    text = tool.run("run", "diff", run, "100", "200").stdout
    check({line[2:] for line in text.splitlines() if line[0] in "+-"} == {*found["added"], *found["removed"]}, text)
    return [file["file"] for file in found["files"]], found["added"], found["removed"]


RANK = "rank%d.safetensors"
STEP = "global_step%d/state.safetensors"


@pytest.mark.parametrize("a, b, wanted", [
    ((RANK % 0, RANK % 1), (RANK % 0,), ([RANK % 0], [], [RANK % 1])),
    ((RANK % 0,), (RANK % 0, RANK % 1), ([RANK % 0], [RANK % 1], [])),
    ((RANK % 0, RANK % 1), (RANK % 1, RANK % 2), ([RANK % 1, RANK % 2], [], [])),
    ((STEP % 10,), (STEP % 20,), ([STEP % 20], [], [])),
    ((STEP % 10,), (STEP % 20, STEP % 30), ([], [STEP % 20, STEP % 30], [STEP % 10])),
    ((STEP % 20, STEP % 30), (STEP % 10,), ([], [STEP % 10], [STEP % 20, STEP % 30])),
], ids=["one less", "one more", "a name that is left", "another step", "two others", "two before"])
def test_diff_pairs_names(tool, directory, a, b, wanted):
    """Each file is compared with one other at most, or told as added or removed."""
    found = diff_of_names(tool, directory, a, b)
    check([sorted(names) for names in found] == list(wanted), str(found))


@pytest.mark.parametrize("names", ["a", "b", "c", "ab", "abc"])
def test_diff_beside_damage(tool, directory, names):
    """What is printed for programs is an object, whichever pairs are damaged; the others are in it."""
    run = place(directory)
    for step in (100, 200):
        root = os.path.join(directory, "checkpoint-%d" % step)
        os.mkdir(root)
        for name in "abc":
            content = weights(random.Random(step), 70_000)
            write(os.path.join(root, name + ".safetensors"), model([("t", "BF16", [70_000], content)]))
        tool.run("run", "add", "--key-every", "1", run, root).expect(0)
    for name in names:
        flip(os.path.join(run, "200", name + ".safetensors.lmc"), -3)  # the check of the frame's tail
    told = tool.run("run", "diff", "--json", run, "100", "200").expect(1, *(name + ".safetensors" for name in names))
    found = json.loads(told.stdout)
    check([file["file"][0] for file in found["files"]] == [name for name in "abc" if name not in names], told.stdout)
    check(found["added"] == found["removed"] == [], told.stdout)


# ---- what is refused ----

@pytest.mark.parametrize("name", ["file", ".lmc-kept-0123", ".lmc-mine", "5"])
def test_directory_that_is_no_run(tool, directory, name):
    """Neither a lock is made there, nor is anything removed."""
    made = snapshots(os.path.join(directory, "made"), 1)
    full = os.path.join(directory, "full")
    os.makedirs(os.path.join(full, name))
    write(os.path.join(full, ".lmc-new"), b"no leftover")
    before = sorted(os.listdir(full))
    commands = [["add", full, made[10]], ["add", full, made[10], "--dry-run"], ["drop", full, "5"],
                ["keep", full, "--last", "1"], ["ls", full], ["verify", full]]
    if name != "5":
        commands.append(["repair", full])
    for arguments in commands:
        tool.run("run", *arguments).expect(2, full)
        check(sorted(os.listdir(full)) == before, "%s has changed it" % arguments)


def test_restored_onto_the_run(tool, directory):
    """Nothing in a run is replaced, least of all a base."""
    run, made = added(tool, directory, checkpoints, 3)
    before = tree_of(run)
    for out in (run, os.path.join(run, "100"), os.path.join(run, "777"), os.path.join(run, "300", "x")):
        tool.run("run", "restore", run, "300", "-o", out, "-f").expect(2, out, "in the run")
    tool.run("restore", os.path.join(run, "300"), "-o", os.path.join(run, "100"), "-f").expect(2, "is in the run")
    check(tree_of(run) == before, "the run has changed")


def test_refusals(tool, directory):
    made = snapshots(os.path.join(directory, "made"), 2)
    run = place(directory)
    full = os.path.join(directory, "full")
    os.mkdir(full)
    write(os.path.join(full, "file"), b"")
    tool.run("run", "add", full, made[10]).expect(2, "is not a run")
    tool.run("run", "ls", full).expect(2, "is not a run")
    tool.run("run", "add", run, os.path.join(directory, "step5.safetensors")).expect(3, "step5")
    check(not os.path.exists(run), "a run was made for nothing")
    tool.run("run", "add", run, write(os.path.join(directory, "step6.bin"), b"no tensors")).expect(1, "step6.bin")
    check(not os.path.exists(run), "a run was made for nothing")
    tool.run("run", "add", run, made[10]).expect(0)
    tool.run("run", "add", run, os.path.join(run, "10"), "--step", "11").expect(2, "in the run")
    tool.run("run", "add", run, directory, "--step", "11").expect(2, "holds the run")
    for arguments in (["add", run], ["add", run, "-"], ["add", run, made[10], made[20], "--step", "3"],
                      ["add", run, made[20], "--key-every", "64"], ["add", run, made[20], "--key-every", "0"],
                      ["restore", run, "10"], ["restore", run, "10", "-o", "-"], ["restore", run, "x", "-o", "y"],
                      ["keep", run], ["drop", run], ["drop", run, "12"], ["verify", run, "12"], ["frobnicate", run],
                      ["ls"], ["ls", run, run], ["keep", run, "--last", "0"], ["restore", run, "11", "-o", "y"]):
        check(tool.run("run", *arguments).status == 2, "run %s" % arguments)
    check_run(tool, run, {10: made[10]})


@pytest.mark.parametrize("arguments", [["add", "SNAPSHOT"], ["drop", "10"], ["keep", "--last", "1"], ["repair"]],
                         ids=lambda arguments: arguments[0])
def test_directory_that_is_no_run_stays(tool, directory, arguments):
    """A directory of archives has a list of copies, whose name begins as those of half done work in a run do."""
    made = checkpoints(os.path.join(directory, "made"), 2)
    run = place(directory)
    tool.run("run", "add", run, made[100]).expect(0)
    step = os.path.join(run, "100")
    before = tree_of(step)
    check(".lmc-copied" in before, str(sorted(before)))
    arguments = [made[200] if word == "SNAPSHOT" else word for word in arguments]
    tool.run("run", arguments[0], step, *arguments[1:]).expect(2, "100")
    check(tree_of(step) == before, "the directory has changed: %s" % sorted(tree_of(step)))


def test_run_json_of_a_later_version(tool, directory):
    made = snapshots(os.path.join(directory, "made"), 2)
    run = place(directory)
    tool.run("run", "add", run, made[10]).expect(0)
    path = os.path.join(run, "run.json")
    sound = read(path)
    write(path, sound.replace(b'"version":1', b'"version":2'))
    tool.run("run", "ls", run).expect(1, "version 2")
    tool.run("run", "add", run, made[20]).expect(1, "version 2")
    write(path, sound.replace(b'"version":1,"key_every":8', b'"version":2,"key_every":800'))
    tool.run("run", "ls", run).expect(1, "version 2")
    late = re.sub(rb'"time":\d+', b'"time":%d' % 2**63, sound)
    for damaged in (sound[:-5], b"", late, sound.replace(b"10", b"x"), sound + b"{}",
                    sound.replace(b'"base"', b'"other"'), sound.replace(b'"snapshot"', b'"other"')):
        write(path, damaged)
        tool.run("run", "ls", run).expect(1, "run.json")
    tool.run("run", "repair", run).expect(0)
    check(read(path) == sound, "run.json is not as it was")


# ---- the list is a cache ----

def test_list_follows_the_folders(tool, directory):
    made = checkpoints(os.path.join(directory, "made"), 4)
    run = place(directory)
    tool.run("run", "add", run, *[made[step] for step in (100, 200, 300)]).expect(0)
    path = os.path.join(run, "run.json")
    whole = listed(tool, run)
    content = read(path)
    lines = content.splitlines(keepends=True)
    write(path, b"".join(lines[:2]) + lines[3] + lines[4])  # without step 200
    check(listed(tool, run) == whole, "an entry that is missing is not made up for")
    check(read(path) != content, "a command that reads has written")
    tool.run("run", "add", run, made[400]).expect(0)
    check(set(listed(tool, run)) == set(made), "steps")
    shutil.rmtree(os.path.join(run, "400"))
    check(listed(tool, run) == whole, "an entry without a folder is still told")


def test_list_of_another_program(tool, directory):
    """Entries that are not laid out as LMC does it."""
    run, made = added(tool, directory, checkpoints, 3)
    path = os.path.join(run, "run.json")
    before = listed(tool, run)
    told = json.loads(read(path))
    told["steps"] = [dict(reversed(list(entry.items()))) for entry in told["steps"]]
    write(path, json.dumps(told, indent=2).encode())
    check(listed(tool, run) == before, "another list")
    check_run(tool, run, made)
    tool.run("run", "drop", run, "100").expect(0)
    check_run(tool, run, {step: made[step] for step in (200, 300)})


def test_list_that_is_wrong(tool, directory):
    """An old run.json, or one that was edited: bases are found by their content, and no step loses its own."""
    run, made = added(tool, directory, checkpoints, 5)
    path = os.path.join(run, "run.json")
    content = read(path)
    for sound, wrong in ((b'"base":300', b'"base":100'), (b'"base":200', b'"base":null'),
                         (b'"base":100', b'"base":50')):
        write(path, content.replace(sound, wrong))
        tool.run("run", "verify", run).expect(0)
        for step, snapshot in made.items():
            check_step(tool, run, step, snapshot)
        copy = shutil.copytree(run, os.path.join(directory, "copy%s" % sound[-3:-2].decode()))
        tool.run("run", "drop", copy, "200", "300").expect(0)
        check_run(tool, copy, {step: made[step] for step in (100, 400, 500)})
    tool.run("run", "drop", run, "200").expect(0)
    write(path, content)  # says that 300 is based on 200
    tool.run("run", "drop", run, "100").expect(0)
    check_run(tool, run, {step: made[step] for step in (300, 400, 500)})


def test_missing_base_is_told(tool, directory):
    run, made = added(tool, directory, snapshots, 3)
    shutil.rmtree(os.path.join(run, "20"))
    entries = listed(tool, run)
    check(entries[30]["base"] == 20 and entries[30]["chain"] is None, str(entries[30]))
    tool.run("run", "verify", run).expect(1, "needs the base")
    tool.run("run", "verify", run, "10").expect(0)
    tool.run("run", "drop", run, "10").expect(2, "step 30")
    tool.run("run", "add", run, made[20]).expect(0)
    check_run(tool, run, made)


def test_verify_names_damage(tool, directory):
    run, made = added(tool, directory, snapshots, 3)
    path = os.path.join(run, "20", "step20.safetensors.lmc")
    flip(path, -200)
    told = tool.run("run", "verify", run, "-v")
    check(told.status == 1 and "step20.safetensors.lmc" in told.stderr, told.stderr)
    check("step 10: verified" in told.stdout and "step 20" not in told.stdout, told.stdout)
    tool.run("run", "verify", run, "10").expect(0)


@pytest.mark.parametrize("name", ["model.safetensors.lmc", "trainer_state.json"])
def test_verify_misses_a_file(tool, directory, name):
    run, made = added(tool, directory, checkpoints, 2)
    os.unlink(os.path.join(run, "200", name))
    told = tool.run("run", "verify", run, "-v")
    check(told.status == 1 and "run/200: has 3 files" in told.stderr, told.stderr)
    check("step 100: verified" in told.stdout and "step 200" not in told.stdout, told.stdout)


@pytest.mark.posix("names that are no UTF-8")
def test_name_that_no_base_can_have(tool, directory):
    """Each step is a key frame then."""
    made = snapshots(os.fsencode(os.path.join(directory, "made")), 2, name=b"step%d-\xff.safetensors")
    tool.run("run", "add", place(directory), *made.values()).expect(0)
    check(chains(check_run(tool, place(directory), made)) == [0, 0], "key frames")


def test_an_archive_is_no_snapshot(tool, directory):
    """Whether its step is there or not."""
    run, made = added(tool, directory, snapshots, 1)
    tool.run("convert", made[10]).expect(0)
    for step in ("10", "20"):
        tool.run("run", "add", run, made[10] + ".lmc", "--step", step).expect(1, "is an LMC archive already")
    tool.run("run", "restore", run, "10", "-o", "-").expect(2, "does not write to standard output")
    tool.run("run", "restore", run, "10").expect(2, "needs the name of its output")


def test_snapshot_is_the_working_directory(tool, directory):
    made = checkpoints(os.path.join(directory, "made"), 2)
    tool.run("run", "add", place(directory), ".", cwd=made[100]).expect(0)
    tool.run("run", "add", place(directory), "..", cwd=os.path.join(made[200], "global_step200")).expect(0)
    check_run(tool, place(directory), made)


def test_damaged_newest_step(tool, directory):
    """What comes after it is a key frame."""
    made = snapshots(os.path.join(directory, "made"), 4)
    run = place(directory)
    tool.run("run", "add", run, made[10], made[20]).expect(0)
    path = os.path.join(run, "20", "step20.safetensors.lmc")
    write(path, read(path)[:-300])
    tool.run("run", "add", run, made[30], made[40]).expect(0)
    check(chains(listed(tool, run)) == [0, 1, 0, 1], "chains: %s" % chains(listed(tool, run)))
    tool.run("run", "verify", run).expect(1, "step20.safetensors.lmc")
    tool.run("run", "add", run, made[20]).expect(1, "step20.safetensors.lmc")
    tool.run("run", "add", run, made[20], "-f").expect(0)
    check_run(tool, run, made)


def test_folder_that_is_no_step(tool, directory):
    run, made = added(tool, directory, snapshots, 2)
    os.mkdir(os.path.join(run, "15"))
    tool.run("run", "verify", run).expect(1, os.path.join(run, "15"))
    tool.run("run", "drop", run, "15").expect(0)
    check_run(tool, run, made)
