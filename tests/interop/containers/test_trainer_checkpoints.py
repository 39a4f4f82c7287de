"""Checkpoints of transformers' Trainer: a folder goes through lmc-st, and the training goes on from it."""

import os
import shutil
import tempfile

import pytest

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", CUDA_VISIBLE_DEVICES="")

from command import check, check_equal_trees, tree  # noqa: E402
from torch_objects import expected_of, load, same, torch  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments  # noqa: E402


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, at):
        tokens = (torch.arange(16) * (at % 7 + 1) + at) % 256
        return {"input_ids": tokens, "labels": tokens}


def make_trainer(folder, steps, bf16=False):
    torch.manual_seed(6)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_embd=64, n_layer=3, n_head=4, n_positions=32,
                                       bos_token_id=0, eos_token_id=0))
    if bf16:
        model = model.to(torch.bfloat16)
    return Trainer(model=model, train_dataset=Sentences(),
                   args=TrainingArguments(output_dir=folder, max_steps=steps, save_steps=3, use_cpu=True, seed=7,
                                          per_device_train_batch_size=4, report_to=[], disable_tqdm=True,
                                          learning_rate=1e-4, logging_steps=100))


@pytest.fixture(scope="module", params=("f32", "bf16"))
def trained(request):
    """A run of 6 steps: checkpoint-3 and checkpoint-6, and the weights at its end."""
    with tempfile.TemporaryDirectory(prefix="lmc-trainer-") as folder:
        trainer = make_trainer(folder, 6, request.param == "bf16")
        trainer.train()
        yield folder, {name: weight.clone() for name, weight in trainer.model.state_dict().items()}, request.param


@pytest.fixture
def folder(trained, directory):
    """The run's folder, to be changed."""
    for name in ("checkpoint-3", "checkpoint-6"):
        shutil.copytree(os.path.join(trained[0], name), os.path.join(directory, name))
    return directory


def test_the_writer(folder):
    names = set(tree(os.path.join(folder, "checkpoint-3")))
    check({"model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json",
           "training_args.bin"} <= names, sorted(names))


def test_folder(tool, folder, trained):
    """Byte for byte back, and the training that goes on from it ends where the first one did."""
    path = os.path.join(folder, "checkpoint-3")
    before = tree(path)
    tool.run("convert", path)
    written = tree(path + ".lmc")
    for name in ("model.safetensors.lmc", "optimizer.pt.lmc"):
        check(name in written, sorted(written))
        check(len(written[name]) < len(before[name[:-4]]), f"{name} is not smaller")
    check(written["trainer_state.json"] == before["trainer_state.json"], "trainer_state.json is no copy")
    tool.run("verify", path + ".lmc")
    shutil.rmtree(path)
    tool.run("restore", path + ".lmc")
    check_equal_trees(before, tree(path))
    trainer = make_trainer(folder, 6, trained[2] == "bf16")
    trainer.train(resume_from_checkpoint=path)
    faults = list(same(trained[1], trainer.model.state_dict()))
    check(not faults, faults[:5])


def test_optimizer(tool, folder):
    path = os.path.join(folder, "checkpoint-3", "optimizer.pt")
    value = load(path)
    _, back = tool.check_file(path, expected_of(value, path))
    check(not list(same(value, load(back))), "other values")


@pytest.mark.parametrize("name", ("scheduler.pt", "rng_state.pth", "training_args.bin"))
def test_other_files(tool, folder, name):
    tool.check_file(os.path.join(folder, "checkpoint-3", name))


def test_later_folder(tool, folder):
    first, second = (os.path.join(folder, name) for name in ("checkpoint-3", "checkpoint-6"))
    tool.check_folder_base(first, second)
    check("delta" in tool.modes(os.path.join(second + ".lmc", "model.safetensors.lmc")).values(), "no deltas")


def test_whole_run(tool, folder):
    """Both checkpoints as one folder."""
    try:
        tool.check_folder(folder)
    finally:
        for end in (".lmc", ".back"):
            shutil.rmtree(folder + end, ignore_errors=True)


def test_copied_by_name(tool, folder):
    path = os.path.join(folder, "checkpoint-3")
    written = tool.check_folder(path, "--exclude", "optimizer.pt")
    check(written["optimizer.pt"] == tree(path)["optimizer.pt"], "optimizer.pt is no copy")
