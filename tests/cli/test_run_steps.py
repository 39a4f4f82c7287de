"""Steps of a run go: what is based on them is stored again, and the rest comes back as it was."""
import json
import os
import shutil

import pytest

from bases import first_snapshot, next_snapshot
from mounts import fill_up, with_small_disk
from runs import added, check_run, check_step, checkpoints, listed, place, snapshots, tree_of, without
from support import check, flip, model, read, write


@pytest.mark.parametrize("make", [snapshots, checkpoints], ids=["files", "directories"])
@pytest.mark.parametrize("numbers", [(0,), (3,), (7,), (8,), (0, 1, 2), (1, 3, 5, 7, 9), (8, 9), range(9), range(10)],
                         ids=["first", "middle", "end", "key", "begin", "odd", "last_two", "all_but_one", "all"])
def test_drop(tool, directory, make, numbers):
    run, made = added(tool, directory, make, 10)
    gone = [list(made)[number] for number in numbers]
    before = listed(tool, run)
    told = tool.run("run", "drop", run, *map(str, gone)).expect(0).stdout
    check([line for line in told.splitlines() if "dropped" in line] == ["step %d: dropped" % step for step in gone],
          told)
    after = check_run(tool, run, without(made, *gone))
    for step, entry in after.items():
        check(entry["chain"] <= before[step]["chain"], "the chain of step %d has grown" % step)
        if before[step]["base"] not in gone:
            check(entry["base"] == before[step]["base"], "step %d was stored again for nothing" % step)


def test_rebased_stays_a_delta(tool, directory):
    run, made = added(tool, directory, snapshots, 6)
    tool.run("run", "drop", run, "10", "30").expect(0)
    entries = check_run(tool, run, without(made, 10, 30))
    check([entry["base"] for entry in entries.values()] == [None, 20, 40, 50], "bases")
    check(entries[40]["stored_nbytes"] < 0.8 * entries[20]["stored_nbytes"], "step 40 is not smaller")


# options, the steps that stay of 10, 20 ... 120
KEPT = {"last": (["--last", "3"], [100, 110, 120]), "every": (["--every", "50"], [50, 100, 120]),
        "both": (["--last", "2", "--every", "40"], [40, 80, 110, 120]), "all": (["--last", "99"], range(10, 130, 10)),
        "newest": (["--every", "1000"], [120]), "one": (["--last", "1"], [120])}


@pytest.mark.parametrize("case", KEPT)
def test_keep(tool, directory, case):
    options, kept = KEPT[case]
    run, made = added(tool, directory, snapshots, 12)
    planned = tool.run("run", "keep", run, *options, "--dry-run").expect(0).stdout
    told = tool.run("run", "keep", run, *options).expect(0).stdout
    check(told == planned.replace("would be ", ""), "planned %s, done %s" % (planned, told))
    check_run(tool, run, {step: made[step] for step in kept})
    check(tool.run("run", "keep", run, *options).expect(0).stdout == "", "a second time")


@pytest.mark.posix("links")
def test_linked_step_goes(tool, directory):
    """A key frame that was moved to another disk, with a link in its place: the link goes, and not what it leads to."""
    run, made = added(tool, directory, snapshots, 3)
    moved = os.path.join(directory, "10")
    shutil.move(os.path.join(run, "10"), moved)
    os.symlink(moved, os.path.join(run, "10"))
    before = tree_of(moved)
    tool.run("run", "drop", run, "10").expect(0)
    check(tree_of(moved) == before, "what the link leads to has changed")
    check_run(tool, run, without(made, 10))


def test_added_after_drop(tool, directory):
    run, made = added(tool, directory, snapshots, 4)
    tool.run("run", "drop", run, "40").expect(0)
    tool.run("run", "add", run, made[40]).expect(0)
    check(check_run(tool, run, made)[40]["base"] == 30, "base")


def test_repair_makes_the_same_list(tool, directory):
    run, made = added(tool, directory, checkpoints, 12)
    tool.run("run", "drop", run, "300", "900").expect(0)
    before = listed(tool, run)
    os.unlink(os.path.join(run, "run.json"))
    tool.run("run", "ls", run).expect(2, "run.json")
    tool.run("run", "repair", run).expect(0)
    check(check_run(tool, run, without(made, 300, 900)) == before, "another list")
    tool.run("run", "repair", run).expect(0)
    check(listed(tool, run) == before, "another list the second time")


def test_moved_run(tool, directory):
    run, made = added(tool, directory, snapshots, 3)
    other = os.path.join(directory, "elsewhere")
    os.rename(run, other)
    link = os.path.join(directory, "link")
    os.symlink("elsewhere", link)
    check_run(tool, link, made)


def test_step_as_a_file(tool, directory):
    """What reads one file takes the folder of a step that has one archive."""
    run, made = added(tool, directory, snapshots, 2)
    for step, path in made.items():
        check(tool.run("cat", os.path.join(run, str(step))).expect(0).output == read(path), "step %d" % step)
    run = os.path.join(directory, "several")
    tool.run("run", "add", run, *checkpoints(os.path.join(directory, "folders"), 1).values()).expect(0)
    tool.run("cat", os.path.join(run, "100")).expect(2, "directory")


# ---- what a killed command leaves ----

LEFT = [".lmc-new", ".lmc-plain", ".lmc-gone-10", "..lmc-new.lmc-st-partial", ".lmc-st-0123456789ab"]


@pytest.mark.parametrize("name", LEFT)
def test_leftovers_go(tool, directory, name):
    run, made = added(tool, directory, snapshots, 3)
    left = os.path.join(run, name)
    if name == LEFT[-1]:
        write(left, b"half of a list")
    else:
        shutil.copytree(os.path.join(run, "20"), left)
    check(set(listed(tool, run)) == set(made) and os.path.exists(left), "a command that reads has removed it")
    tool.run("run", "add", run, made[10]).expect(0)
    check_run(tool, run, made)


def test_replaced_step_comes_back(tool, directory):
    """As a kill leaves it where two names cannot be exchanged at once."""
    run, made = added(tool, directory, snapshots, 3)
    os.rename(os.path.join(run, "20"), os.path.join(run, ".lmc-old-20"))
    tool.run("run", "repair", run).expect(0)
    check_run(tool, run, made)
    shutil.copytree(os.path.join(run, "20"), os.path.join(run, ".lmc-old-20"))
    tool.run("run", "add", run, made[10]).expect(0)
    check_run(tool, run, made)


def test_two_adders(tool, directory):
    made = snapshots(os.path.join(directory, "made"), 12)
    run = place(directory)
    paths = list(made.values())
    processes = [tool.start("run", "add", run, *paths[i::3]) for i in range(3)]
    for process in processes:
        message = process.communicate()[1]
        check(process.returncode == 0, message.decode())
    check_run(tool, run, made)


@pytest.mark.posix("limits of a file's size")
def test_a_failure_leaves_the_run(tool, directory):
    """A disk that is full when a step is stored again: nothing is lost, nothing is left."""
    run, made = added(tool, directory, snapshots, 4, size=40000)
    before = tree_of(run)
    result = tool.run("run", "drop", run, "10", file_size=100000)
    check(result.status == 3, result.stderr)
    tool.run("run", "add", run, os.path.join(directory, "made", "step40.safetensors")).expect(0)
    check(tree_of(run) == before, "the run has changed")
    check_run(tool, run, made)


@pytest.mark.posix("mounts of this process")
def test_drop_makes_room_on_a_full_disk(tool, directory):
    made = snapshots(os.path.join(directory, "made"), 4)

    def fill_and_drop(disk):
        tool.run("run", "add", place(disk), *made.values()).expect(0)
        fill_up(os.path.join(disk, "filler"), 0)
        tool.run("run", "add", place(disk), made[10], "--step", "50").expect(3, "No space left on device")
        tool.run("run", "drop", place(disk), "40").expect(0)
        os.unlink(os.path.join(disk, "filler"))
        tool.run("run", "verify", place(disk)).expect(0)
        check(sorted(os.listdir(place(disk))) == [".lmc-lock", "10", "20", "30", "run.json"], "something is left")
    with_small_disk(directory, "size=16m", fill_and_drop)


# ---- bases that are far back ----

FAR = 70  # steps between a step and its base


@pytest.fixture(scope="module")
def far_run_made_once(tool, tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("far"))
    tensors = first_snapshot(count=300)
    contents = {10: tensors, 1000: next_snapshot(tensors, seed=1, part=0.05)}
    contents.update((100 + i, next_snapshot(tensors, seed=i, part=0.5)) for i in range(FAR))
    for step, content in contents.items():
        os.mkdir(os.path.join(directory, str(step)))
        path = write(os.path.join(directory, str(step), "model.safetensors"), model(content))
        tool.run("run", "add", place(directory), path, "--step", str(step)).expect(0)
    check(listed(tool, place(directory))[1000]["base"] == 10, "base of step 1000")
    return directory


@pytest.fixture
def far_run(far_run_made_once, directory):
    """A run, and the snapshot of step 1000. That is based on step 10; key frames were added between them. All have one
    name and one header."""
    shutil.copytree(place(far_run_made_once), place(directory))
    return place(directory), os.path.join(far_run_made_once, "1000", "model.safetensors")


def check_far_run(tool, run, snapshot, count=FAR + 1):
    tool.run("run", "verify", run).expect(0)
    check(len(listed(tool, run)) == count, "%d steps" % len(listed(tool, run)))
    check_step(tool, run, 1000, snapshot)


def forge_base(run, step, base):
    """run.json says that the step has this base, or none."""
    path = os.path.join(run, "run.json")
    content = json.loads(read(path))
    for entry in content["steps"]:
        if entry["step"] == step:
            entry["base"] = base
    write(path, json.dumps(content, separators=(",", ":")).encode())


@pytest.mark.parametrize("base", [None, 150, "unknown", 1000])
def test_far_base_is_asked_of_the_archive(tool, far_run, base):
    """A run.json that is wrong loses no step."""
    run, snapshot = far_run
    forge_base(run, 1000, base)
    tool.run("run", "drop", run, "10").expect(0)
    check_far_run(tool, run, snapshot)


def test_far_base_that_is_not_found(tool, far_run):
    """A step that may need one that goes, as far as can be known, keeps it."""
    run, snapshot = far_run
    forge_base(run, 1000, None)
    archive = os.path.join(run, "10", "model.safetensors.lmc")
    os.rename(archive, archive + ".away")
    told = tool.run("run", "drop", run, "150").expect(2, "step 1000")
    check(os.path.isdir(os.path.join(run, "150")), told.stderr)
    forge_base(run, 1000, "unknown")
    check((listed(tool, run)[1000]["base"], listed(tool, run)[1000]["chain"]) == ("unknown", None), "what is listed")
    told = tool.run("run", "verify", run, "1000").expect(1, "looked in")
    check("and %d earlier steps in " % (FAR + 1) in told.stderr, told.stderr)
    os.rename(archive + ".away", archive)
    tool.run("run", "drop", run, "10").expect(0)
    check_far_run(tool, run, snapshot)


def test_far_base_of_an_unreadable_archive(tool, far_run):
    """What a damaged archive needs is not known, whatever run.json says."""
    run, snapshot = far_run
    forge_base(run, 1000, None)
    archive = os.path.join(run, "1000", "model.safetensors.lmc")
    content = read(archive)
    write(archive, content[:100])
    tool.run("run", "drop", run, "10").expect(2, "step 1000")
    write(archive, content)
    check_far_run(tool, run, snapshot, FAR + 2)


def test_far_base_without_the_list(tool, far_run):
    """It is found before run.json is made again, and after; then steps can go."""
    run, snapshot = far_run
    before = listed(tool, run)
    os.unlink(os.path.join(run, "run.json"))
    archive = os.path.join(run, "1000", "model.safetensors.lmc")
    tool.run("verify", archive).expect(0)
    tool.run("restore", archive, "-o", archive + ".back").expect(0)
    check(read(archive + ".back") == read(snapshot), "step 1000 is not restored")
    os.unlink(archive + ".back")
    tool.run("run", "repair", run).expect(0)
    check(listed(tool, run) == before, "another list")
    check_far_run(tool, run, snapshot, FAR + 2)
    tool.run("run", "keep", run, "--last", "2").expect(0)
    check_far_run(tool, run, snapshot, 2)


# ---- steps that a sample does not tell apart ----

def with_value_moved(tensors, number, place):
    name, dtype, shape, content = tensors[number]
    moved = content[:place] + bytes([content[place] ^ 1]) + content[place + 1:]
    return tensors[:number] + [(name, dtype, shape, moved)] + tensors[number + 1:]


# tensors, how often their 300 values stand in each, the tensor and the byte in which step 20 differs from step 10
ALIKE = {"one_tensor": (40, 1, 17, 100), "one_block": (1, 3000, 0, 900000)}


@pytest.fixture(params=ALIKE)
def alike_run(request, tool, directory):
    """Step 30 is based on step 10, and step 20, a key frame, is nearer and differs from that in one value."""
    count, times, number, where = ALIKE[request.param]
    tensors = [("t%02d" % i, "BF16", [300 * times], first_snapshot(i, 300)[0][3] * times) for i in range(count)]
    contents = {10: tensors, 20: with_value_moved(tensors, number, where),
                30: next_snapshot(tensors[:1], 2) + tensors[1:]}
    made = {}
    for step in (10, 30, 20):
        os.mkdir(os.path.join(directory, str(step)))
        made[step] = write(os.path.join(directory, str(step), "model.safetensors"), model(contents[step]))
        tool.run("run", "add", place(directory), made[step], "--step", str(step)).expect(0)
    check([listed(tool, place(directory))[step]["base"] for step in (10, 20, 30)] == [None, None, 10], "bases")
    return place(directory), made


def check_drop(tool, run, made):
    check(listed(tool, run)[30]["base"] == 10, "the base of step 30")
    tool.run("run", "drop", run, "10").expect(0)
    check_run(tool, run, without(made, 10))


def test_alike_steps_without_the_list(tool, alike_run):
    run, made = alike_run
    os.unlink(os.path.join(run, "run.json"))
    archive = os.path.join(run, "30", "model.safetensors.lmc")
    check(tool.run("cat", archive).expect(0).output == read(made[30]), "step 30")
    tool.run("run", "repair", run).expect(0)
    check_drop(tool, run, made)


def test_alike_steps_without_an_entry(tool, alike_run):
    """As a command leaves them that is killed when it replaces a step."""
    run, made = alike_run
    path = os.path.join(run, "run.json")
    content = json.loads(read(path))
    content["steps"] = [entry for entry in content["steps"] if entry["step"] != 30]
    write(path, json.dumps(content, separators=(",", ":")).encode())
    check_drop(tool, run, made)


def test_alike_steps_with_a_wrong_list(tool, alike_run):
    """Nothing goes that is needed; repair finds the base."""
    run, made = alike_run
    forge_base(run, 30, 20)
    tool.run("run", "drop", run, "10").expect(1, "not the base that is wanted", "repair the run")
    tool.run("run", "repair", run).expect(0)
    check_drop(tool, run, made)


def test_two_snapshots_of_a_step(tool, directory):
    """With -f the second would replace the first, which --rm would have removed."""
    made = snapshots(os.path.join(directory, "made"), 3)
    run = place(directory)
    other = os.path.join(directory, "checkpoint-20")
    write(other, read(made[30]))
    for options in (("-f", "--rm"), ("-f",)):
        tool.run("run", "add", run, made[10], made[20], other, *options).expect(2, made[20], other, "one step")
        check(os.path.exists(other) and os.path.exists(made[10]) and not os.path.exists(run), "something was done")
    tool.run("run", "add", run, made[20], made[20]).expect(0)  # nothing is lost without it
    tool.run("run", "add", run, made[10], made[20], other, "--rm").expect(2, "step 20")
    check(os.path.exists(other) and not os.path.exists(made[20]), "the wrong one was removed")


def test_repair_of_a_later_version(tool, directory):
    run, made = added(tool, directory, snapshots, 2)
    path = os.path.join(run, "run.json")
    write(path, read(path).replace(b'"version":1', b'"version":9'))
    before = tree_of(run)
    tool.run("run", "repair", run).expect(1, "version 9")
    check(tree_of(run) == before, "the run has changed")


@pytest.mark.parametrize("make", [snapshots, checkpoints], ids=["files", "directories"])
@pytest.mark.parametrize("kind", ["flipped", "cut", "of another step"])
def test_a_damaged_step_that_others_need(tool, directory, make, kind):
    """Adding what it was mends it and them. What it was not is refused, and nothing changes."""
    run, made = added(tool, directory, make, 4)
    last = list(made)[-1]
    for step in list(made)[:2]:
        for archive in archives_of(run, step):
            content = read(archive)
            if kind == "flipped":
                flip(archive, len(content) // 2, 0x80)
            elif kind == "cut":
                write(archive, content[:100])
            else:
                write(archive, read(archive.replace(str(step), str(last))))
        tool.run("run", "verify", run).expect(1, os.path.join(run, str(step)))
        other = made[last].replace("made", "other").replace(str(last), str(step))
        (shutil.copytree if os.path.isdir(made[last]) else shutil.copy)(made[last], in_parent(other))
        before = tree_of(run)
        done = tool.run("run", "add", "-f", run, other)
        check(done.status in (1, 2) and tree_of(run) == before, "steps would be lost: " + done.stderr)
        tool.run("run", "add", "-f", run, made[step]).expect(0)
        check_run(tool, run, made)


@pytest.mark.parametrize("base", [None, "unknown", 10])
def test_a_damaged_step_that_the_list_does_not_name(tool, directory, base):
    """A run.json that is wrong loses no step: 30 is based on 20."""
    run, made = added(tool, directory, snapshots, 4)
    forge_base(run, 30, base)
    archive = archives_of(run, 20)[0]
    write(archive, read(archive)[:100])
    other = in_parent(os.path.join(directory, "other", "step20.safetensors"))
    shutil.copy(made[40], other)
    done = tool.run("run", "add", "-f", run, other)
    check(done.status in (1, 2), "step 30 would be lost: " + done.stderr)
    tool.run("run", "repair", run)
    tool.run("run", "add", "-f", run, made[20]).expect(0)
    tool.run("run", "repair", run).expect(0)
    check_run(tool, run, made)


def archives_of(run, step):
    return [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(run, str(step)))
            for name in names if name.endswith(".safetensors.lmc")]


def in_parent(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path
