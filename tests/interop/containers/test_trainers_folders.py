"""Folders as DeepSpeed and Lightning lay them out; the files are of torch.save()."""

import os
import shutil

from command import check, check_equal_trees, read, tree, write
from torch_objects import Training, adamw, deepspeed, lightning, load, same, torch


def save_deepspeed(folder, training, step):
    """global_stepN/, `latest` beside it, and the script that DeepSpeed copies there."""
    place = os.path.join(folder, f"global_step{step}")
    os.makedirs(place)
    module = {"module": training.model.state_dict(), "global_steps": step, "dp_world_size": 1}
    torch.save(module, os.path.join(place, "mp_rank_00_model_states.pt"))
    for rank in range(2):
        torch.save(deepspeed(training, step), os.path.join(place, f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"))
    write(os.path.join(folder, "latest"), b"global_step%d" % step)
    write(os.path.join(folder, "zero_to_fp32.py"), b"#!/usr/bin/env python\nprint('weights')\n" * 200)


def test_deepspeed(tool, directory):
    folder = os.path.join(directory, "run")
    training = Training(adamw).steps(3)
    save_deepspeed(folder, training, 10)
    written = tool.check_folder(folder)
    check(sorted(written) == ["global_step10/mp_rank_00_model_states.pt.lmc",
                              "global_step10/zero_pp_rank_0_mp_rank_00_optim_states.pt.lmc",
                              "global_step10/zero_pp_rank_1_mp_rank_00_optim_states.pt.lmc",
                              "latest", "zero_to_fp32.py"], sorted(written))
    states = "global_step10/mp_rank_00_model_states.pt"
    check(not list(same(load(os.path.join(folder, states)), load(os.path.join(folder + ".back", states)))), "values")


def test_deepspeed_with_a_base(tool, directory):
    """global_step20 has no folder of its name in the base; global_step10 differs in digits alone."""
    first, second = (os.path.join(directory, name) for name in ("first", "second"))
    training = Training(adamw).steps(10)
    save_deepspeed(first, training, 10)
    training.steps(1)
    save_deepspeed(second, training, 20)
    tool.check_folder_base(first, second, 0.95)
    archive = os.path.join(second + ".lmc", "global_step20", "mp_rank_00_model_states.pt.lmc")
    check("delta" in tool.modes(archive).values(), "no deltas")


def test_deepspeed_step_by_step(tool, directory):
    """The folder of a step itself, against that of the step before, as one converts while training goes on."""
    training = Training(adamw).steps(10)
    save_deepspeed(directory, training, 10)
    training.steps(1)
    save_deepspeed(directory, training, 20)
    first, second = (os.path.join(directory, f"global_step{step}") for step in (10, 20))
    before = [tree(first), tree(second)]
    tool.run("convert", first)
    tool.run("convert", second, "--base", first + ".lmc")
    shutil.rmtree(first)
    shutil.rmtree(second)
    tool.run("restore", second + ".lmc", "--base", first + ".lmc")
    tool.run("restore", first + ".lmc")
    check_equal_trees(before[0], tree(first))
    check_equal_trees(before[1], tree(second))


def test_lightning(tool, directory):
    """checkpoints/*.ckpt beside hparams.yaml, with a link to the last one."""
    folder = os.path.join(directory, "version_0")
    os.makedirs(os.path.join(folder, "checkpoints"))
    training = Training(adamw)
    for step in (2, 4):
        training.steps(2)
        torch.save(lightning(training, step), os.path.join(folder, "checkpoints", f"epoch=0-step={step}.ckpt"))
    checkpoints = os.path.join(folder, "checkpoints")
    os.link(os.path.join(checkpoints, "epoch=0-step=4.ckpt"), os.path.join(checkpoints, "last.ckpt"))
    write(os.path.join(folder, "hparams.yaml"), b"width: 64\n")
    written = tool.check_folder(folder)
    check("checkpoints/last.ckpt.lmc" in written and "hparams.yaml" in written, sorted(written))


def test_shards_with_an_index(tool, directory):
    """pytorch_model.bin.index.json, as transformers wrote it before it had safetensors."""
    folder = os.path.join(directory, "model")
    os.mkdir(folder)
    weights = list(Training(adamw).steps(1).model.state_dict().items())
    names = [f"pytorch_model-{i:05}-of-00002.bin" for i in (1, 2)]
    half = len(weights) // 2
    for name, part in zip(names, (weights[:half], weights[half:])):
        torch.save({key: value.clone() for key, value in part}, os.path.join(folder, name))
    index = {key: names[i >= half] for i, (key, _) in enumerate(weights)}
    text = '{"metadata": {"total_size": 1}, "weight_map": {%s}}' % ", ".join(f'"{k}": "{v}"' for k, v in index.items())
    write(os.path.join(folder, "pytorch_model.bin.index.json"), text.encode())
    written = tool.check_folder(folder)
    check([name + ".lmc" in written for name in names] == [True, True], sorted(written))
    os.unlink(os.path.join(folder, names[1]))
    shutil.rmtree(folder + ".lmc")
    tool.run("convert", folder, status=1)
    check(names[1] in tool.message, f"message: {tool.message}")


def test_what_cannot_be_followed_is_copied(tool, directory):
    """A cut file and one of the form before 1.6, in a folder: copied; the cut one with a line on standard error."""
    folder = os.path.join(directory, "old")
    os.mkdir(folder)
    value = {"w": torch.randn(3000)}
    torch.save(value, os.path.join(folder, "good.pt"))
    torch.save(value, os.path.join(folder, "legacy.pt"), _use_new_zipfile_serialization=False)
    write(os.path.join(folder, "cut.pt"), read(os.path.join(folder, "good.pt"))[:-100])
    written = tool.check_folder(folder)
    check("good.pt.lmc" in written and "legacy.pt" in written, sorted(written))
