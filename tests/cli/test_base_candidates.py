"""Several files that have the base's name, size and header: which of them is taken."""
import json
import os
import random
import shutil

from bases import (archived_pair, changed, check_restores, convert, first_snapshot, info, next_snapshot, of_chain,
                   write_model)
from runs import check_step
from stores import llm, tuned
from support import check, flip, model, read, write
from trees import Untouched, check_same, snapshot


def folder_of(directory, name):
    path = os.path.join(directory, name)
    os.mkdir(path)
    return path


def last_values_changed(tensor):
    name, dtype, shape, content = tensor
    return name, dtype, shape, content[:-1] + bytes([content[-1] ^ 1])


def check_found(tool, archive, content, expected, *options):
    """Restores, and by this base."""
    check_restores(tool, archive, content, *options)
    found = info(tool, archive, *options)["base"]["file"]
    check(found == expected, "found %s" % found)


def test_differs_late(tool, directory):
    """In any one tensor, at its end, behind tensors that are equal: the other one is the base, in whatever order
    they are found, plain or archived."""
    count = 300000  # two blocks
    tensors = [tensor for tensor in first_snapshot(count=count) if tensor[0] in ("embed", "layer.0", "half")]
    old = write_model(directory, "old.safetensors", tensors)
    new = write_model(directory, "new.safetensors", next_snapshot(tensors, 2))
    archive = convert(tool, new, old)
    wrong = folder_of(directory, "wrong")
    right = folder_of(directory, "right")
    for i in range(len(tensors)):
        plain = write_model(wrong, "old.safetensors", tensors[:i] + [last_values_changed(tensors[i])] + tensors[i + 1:])
        check_found(tool, archive, read(new), old, "--base-dir", wrong)
        tool.run("convert", plain, "--rm").expect(0)
        check_found(tool, archive, read(new), old, "--base-dir", wrong)
        write(plain, read(old))
        check_found(tool, archive, read(new), plain, "--base-dir", wrong)
        os.unlink(plain)
        tool.run("convert", old, "-o", os.path.join(right, "old.safetensors.lmc"), "-f").expect(0)
        check_found(tool, archive, read(new), os.path.join(right, "old.safetensors.lmc"), "--base-dir", wrong,
                    "--base-dir", right)
        os.unlink(plain + ".lmc")


def test_last_of_many_tensors(tool, directory):
    """Tensors are looked at here and there; the last one always."""
    tensors = [("t%02d" % i, *first_snapshot(i)[0][1:]) for i in range(30)]
    old = write_model(directory, "old.safetensors", tensors)
    new = write_model(directory, "new.safetensors", next_snapshot(tensors, 2))
    archive = convert(tool, new, old)
    wrong = folder_of(directory, "wrong")
    for i in (0, 29):
        write_model(wrong, "old.safetensors", tensors[:i] + [last_values_changed(tensors[i])] + tensors[i + 1:])
        check_found(tool, archive, read(new), old, "--base-dir", wrong)


def test_sample_does_not_tell(tool, directory):
    """The first file that fits in the tensors that are looked at is taken. What is wrong is not read, and the message
    says what to do."""
    tensors = [("t%02d" % i, *first_snapshot(i)[0][1:]) for i in range(30)]
    old = write_model(directory, "old.safetensors", tensors)
    new = write_model(directory, "new.safetensors", next_snapshot(tensors[:1], 2, 0.5) + next_snapshot(tensors[1:], 2))
    archive = convert(tool, new, old)
    wrong = folder_of(directory, "wrong")
    write_model(wrong, "old.safetensors", tensors[:2] + [last_values_changed(tensors[2])] + tensors[3:])
    tool.run("verify", archive, "--base-dir", wrong).expect(1, '"t02"', "holds other content", "name another base")
    told = tool.run("verify", archive, "--base", os.path.join(wrong, "old.safetensors")).expect(1, '"t02"').stderr
    check("--base" not in told, told)
    check_restores(tool, archive, read(new), "--base", old, "--base-dir", wrong)


def test_all_wrong(tool, directory):
    """None of several is the base: that is said, and nothing is written."""
    old, new, archive = archived_pair(tool, directory)
    for name in ("a", "b"):
        write_model(folder_of(directory, name), "old.safetensors", next_snapshot(first_snapshot(), name))
    write_model(directory, "old.safetensors", next_snapshot(first_snapshot(), 99))
    with Untouched(directory):
        tool.run("verify", archive, "--base-dir", os.path.join(directory, "a"), "--base-dir",
                 os.path.join(directory, "b")).expect(1, "old.safetensors")


def test_damaged_copy(tool, directory):
    """One whose frame cannot be opened is no better than one that can."""
    tensors = first_snapshot()[:1]
    old = write_model(directory, "old.safetensors", tensors)
    new = write_model(directory, "new.safetensors", next_snapshot(tensors, 2))
    archive = convert(tool, new, old)
    copy = os.path.join(folder_of(directory, "copy"), "old.safetensors.lmc")
    tool.run("convert", old, "-o", copy).expect(0)
    flip(copy, -1)
    tool.run("verify", copy).expect(1)
    check_found(tool, archive, read(new), old, "--base-dir", os.path.dirname(copy))


def test_blocks_of_other_sizes(tool, directory):
    """A chain in B, and in A for each of its files another snapshot with the same base. The last step is sparse, and so
    in larger blocks than its base's, whose hashes are of no use then; those of the first file, which has no base, are
    smaller."""
    length = 6
    folders = [folder_of(directory, name) for name in "AB"]
    tensors = [first_snapshot(count=300000)[0]]
    for i in range(length + 1):
        content = model(tensors)
        for folder, values in zip(folders, ([changed(tensors[0], random.Random(-i), 0.1)], tensors)):
            path = write_model(folder, "s%d.safetensors" % i, values)
            base = ["--base", of_chain(folders[1], i - 1)] if i > 0 else []
            tool.run("convert", path, *base, "--no-fsync", "--rm").expect(0)
        tensors = next_snapshot(tensors, i, 0.001 if i == length - 1 else 0.2)
    archive = of_chain(folders[1], length)
    options = ["--base-dir", folders[0], "--base-dir", folders[1]]
    check_restores(tool, archive, content, *options)
    check_restores(tool, archive, content, *options[2:], *options[:2])
    check_restores(tool, shutil.copy(archive, directory), content, *options)


# ---- a model and its moving average: files of one folder with the same tensors ----

def training(directory, count):
    """Steps with a model, and its average in a file that has the step in its name."""
    model_tensors, average = llm(seed=1), llm(seed=2)
    folders = []
    for step in range(10, 10 * count + 10, 10):
        folder = folder_of(directory, "k-%d" % step)
        model_tensors, average = tuned(model_tensors, seed=step), tuned(average, seed=step + 1)
        write(os.path.join(folder, "model.safetensors"), model(model_tensors))
        write(os.path.join(folder, "model_ema_%d.safetensors" % step), model(average))
        folders.append(folder)
    return folders


def test_averages_in_a_run(tool, directory):
    folders = training(directory, 3)
    run = os.path.join(directory, "run")
    tool.run("run", "add", run, *folders).expect(0)
    tool.run("run", "verify", run).expect(0)
    for step, folder in zip((10, 20, 30), folders):
        check_step(tool, run, step, folder)
    steps = json.loads(tool.run("run", "ls", run, "--json").expect(0).output)
    check(steps[1]["stored_nbytes"] < steps[0]["stored_nbytes"] / 3, "the average was coded against the model")
    tool.run("run", "keep", run, "--last", "1").expect(0)
    check_step(tool, run, 30, folders[2])


def test_other_content_in_its_own_directory(tool, directory):
    """The base of one file has the tensors of another file beside it."""
    old, new = (folder_of(directory, name) for name in ("c-1", "c-2"))
    write(os.path.join(old, "model.safetensors"), model(llm(seed=1)))
    write(os.path.join(new, "model.safetensors"), model(llm(seed=2)))
    write(os.path.join(new, "old.safetensors"), model(tuned(llm(seed=1))))
    tool.run("convert", new, "--base", old).expect(0)
    tool.run("verify", new + ".lmc").expect(0)
    tool.run("restore", new + ".lmc", "-o", os.path.join(directory, "back")).expect(0)
    check_same(snapshot(new), snapshot(os.path.join(directory, "back")), "restored")
