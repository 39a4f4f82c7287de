"""Runs: snapshots of a training that never was, and what must hold for the directory that keeps them."""
import json
import os
import random

from bases import first_snapshot, next_snapshot
from support import check, model, read, write


def snapshots(directory, count, name="step%d.safetensors", size=3000, first=10):
    """Writes files of steps first, first + 10 ...; returns {step: path}."""
    os.makedirs(directory, exist_ok=True)
    tensors = first_snapshot(count=size)
    made = {}
    for i in range(count):
        step = first + 10 * i
        made[step] = write(os.path.join(directory, name % step), model(tensors))
        tensors = next_snapshot(tensors, seed=step, part=0.05)
    return made


def checkpoints(directory, count, size=1000):
    """Writes directories with two files of tensors, one of them in a folder that is named by the step, and others."""
    made = {}
    tensors = first_snapshot(count=size)
    for i in range(count):
        step = 100 * (i + 1)
        root = os.path.join(directory, "checkpoint-%d" % step)
        os.makedirs(os.path.join(root, "global_step%d" % step))
        write(os.path.join(root, "model.safetensors"), model(tensors))
        write(os.path.join(root, "global_step%d" % step, "state.safetensors"), model(tensors[:3]))
        write(os.path.join(root, "trainer_state.json"), json.dumps({"step": step}).encode())
        write(os.path.join(root, "note.lmc"), b"named as an archive, but none")
        made[step] = root
        tensors = next_snapshot(tensors, seed=step, part=0.05)
    return made


def added(tool, directory, make, count, *options, **how):
    """The path of a run of `count` snapshots, and these."""
    made = make(os.path.join(directory, "made"), count, **how)
    tool.run("run", "add", place(directory), *options, *made.values()).expect(0)
    return place(directory), made


def place(directory):
    return os.path.join(directory, "run")


def without(made, *steps):
    return {step: path for step, path in made.items() if step not in steps}


def listed(tool, run):
    """The steps that run ls tells: {step: entry}."""
    entries = json.loads(tool.run("run", "ls", "--json", run).expect(0).stdout)
    check([entry["step"] for entry in entries] == sorted(entry["step"] for entry in entries), "steps out of order")
    return {entry["step"]: entry for entry in entries}


def tree_of(root):
    """Every file below a directory, by its relative path; of a file, itself."""
    if os.path.isfile(root):
        return {"": read(root)}
    found = {}
    for folder, _, files in os.walk(root):
        for name in files:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, root)] = read(path)
    return found


def check_step(tool, run, step, path):
    """The step restores to the snapshot, whatever that is."""
    back = os.path.join(os.path.dirname(run), "back-%d" % random.randrange(10**9))
    tool.run("run", "restore", run, str(step), "-o", back).expect(0)
    check(tree_of(back) == tree_of(path), "step %d is not restored to %s" % (step, path))
    if os.path.isfile(back):
        os.unlink(back)


def check_run(tool, run, wanted):
    """The run is sound, has just these steps, {step: snapshot}, and nothing else."""
    tool.run("run", "verify", run).expect(0)
    entries = listed(tool, run)
    check(set(entries) == set(wanted), "steps %s, not %s" % (sorted(entries), sorted(wanted)))
    names = {str(step) for step in wanted} | {"run.json", ".lmc-lock"}
    check(set(os.listdir(run)) == names, "the run has %s" % sorted(os.listdir(run)))
    for step, path in wanted.items():
        check_step(tool, run, step, path)
    for step, entry in entries.items():
        base = entry["base"]
        check(base is None or (base in entries and base < step), "step %d has the base %s" % (step, base))
        check(entry["chain"] == (0 if base is None else entries[base]["chain"] + 1), "chain of step %d" % step)
    return entries
