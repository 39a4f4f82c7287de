"""lmcodec.transformers.RunCallback: checkpoints of a Trainer become steps of a run; nothing disturbs the training."""
import json
import logging
import os
import shutil
import subprocess
import sys
import threading
import types
import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (Debian: python3-torch)")
pytest.importorskip("transformers", reason="transformers is not installed")
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", CUDA_VISIBLE_DEVICES="")
if not hasattr(torch.optim.lr_scheduler, "LRScheduler"):  # its name before torch 2.0; a Trainer needs that, too
    torch.optim.lr_scheduler.LRScheduler = torch.optim.lr_scheduler._LRScheduler

import lmcodec  # noqa: E402
import lmcodec.torch  # noqa: E402
from lmcodec.transformers import RunCallback, from_pretrained  # noqa: E402
from transformers.trainer_callback import CallbackHandler, TrainerControl, TrainerState  # noqa: E402

try:
    import accelerate  # noqa: F401
    HAS_TRAINER = hasattr(torch, "compile")
except ImportError:
    HAS_TRAINER = False


class Training:
    """What a Trainer does with callbacks and checkpoints, without a model."""

    def __init__(self, folder, callback, limit=None):
        self.folder, self.limit = folder, limit
        self.args = types.SimpleNamespace(output_dir=folder, world_size=1)
        self.state, self.control = TrainerState(), TrainerControl()
        self.handler = CallbackHandler([callback], None, None, None, None)
        self.handler.on_train_begin(self.args, self.state, self.control)

    def path(self, step):
        return os.path.join(self.folder, "checkpoint-%d" % step)

    def save(self, step, seed=1):
        os.makedirs(os.path.join(self.path(step), "sub"), exist_ok=True)
        weights = torch.randn(200, 300, generator=torch.Generator().manual_seed(seed))
        weights[0] += step
        lmcodec.torch.save_file({"w": weights}, os.path.join(self.path(step), "model.safetensors"))
        with open(os.path.join(self.path(step), "sub", "trainer_state.json"), "w") as file:
            json.dump({"global_step": step}, file)
        self.rotate()
        self.state.global_step = step
        self.handler.on_save(self.args, self.state, self.control)

    def rotate(self):
        steps = sorted(int(name[len("checkpoint-"):]) for name in os.listdir(self.folder) if name[:2] == "ch")
        for step in steps[:-self.limit] if self.limit else ():
            shutil.rmtree(self.path(step))

    def end(self):
        self.handler.on_train_end(self.args, self.state, self.control)


@pytest.fixture
def folder(directory):
    path = os.path.join(directory, "training")
    os.mkdir(path)
    return path


@pytest.fixture
def run_dir(directory):
    return os.path.join(directory, "run")


class Gate:
    """Keeps the worker from its first checkpoint until it is opened."""

    def __init__(self, callback, monkeypatch):
        self.open = threading.Event()
        add = callback.run.add

        def wait_and_add(*arguments, **settings):
            assert self.open.wait(60)
            return add(*arguments, **settings)

        monkeypatch.setattr(callback.run, "add", wait_and_add)


def steps_of(callback):
    return [step.step for step in callback.run]


def test_every_checkpoint_is_added(folder, run_dir):
    callback = RunCallback(run_dir, key_every=2)
    training = Training(folder, callback)
    for step in (10, 20, 30):
        training.save(step)
    training.end()
    assert [(step.step, step.base) for step in callback.run] == [(10, None), (20, 10), (30, None)]
    for step in callback.run:
        callback.run.compare(step, training.path(step.step))
        assert step.time == int(os.path.getmtime(training.path(step.step))) and step.files == 2
    assert sorted(os.listdir(folder)) == ["checkpoint-10", "checkpoint-20", "checkpoint-30"]
    assert callback.failures == [] and callback.run.info().key_every == 2


def test_the_training_does_not_wait(folder, run_dir, monkeypatch):
    """It removes checkpoints that wait, and all of them are added nevertheless."""
    callback = RunCallback(run_dir)
    gate = Gate(callback, monkeypatch)
    training = Training(folder, callback, limit=1)
    for step in (10, 20, 30):
        training.save(step)
    assert sorted(os.listdir(folder)) == ["_lmc_queue", "checkpoint-30"] and not os.path.exists(run_dir)
    gate.open.set()
    training.end()
    assert steps_of(callback) == [10, 20, 30] and os.listdir(folder) == ["checkpoint-30"]
    callback.run.verify()
    assert callback.run.load(10)["w"][0].mean() > 5


def no_links(*arguments, **options):
    raise PermissionError(1, "Operation not permitted")


def test_no_hard_links(folder, run_dir, monkeypatch, caplog):
    """A checkpoint that goes too early is a warning."""
    monkeypatch.setattr(os, "link", no_links)
    callback = RunCallback(run_dir)
    gate = Gate(callback, monkeypatch)
    training = Training(folder, callback, limit=2)
    for step in (10, 20, 30):
        training.save(step)
    assert sorted(os.listdir(folder)) == ["checkpoint-20", "checkpoint-30"]
    gate.open.set()
    with caplog.at_level(logging.WARNING), pytest.warns(RuntimeWarning, match="10 .*checkpoint-10"):
        training.end()
    assert steps_of(callback) == [20, 30] and "checkpoint-10" in caplog.text
    [(step, error)] = callback.failures
    assert step == 10 and isinstance(error, FileNotFoundError)


def test_failures(folder, run_dir, caplog):
    """The run is no run, then it is one: the training goes on meanwhile."""
    with open(run_dir, "w") as file:
        file.write("in the way")
    callback = RunCallback(run_dir)
    training = Training(folder, callback)
    training.save(10)
    callback.wait()
    os.unlink(run_dir)
    training.save(20)
    with caplog.at_level(logging.WARNING), pytest.warns(RuntimeWarning, match="lacks"):
        training.end()
    assert steps_of(callback) == [20] and [step for step, _ in callback.failures] == [10]
    assert sorted(os.listdir(folder)) == ["checkpoint-10", "checkpoint-20"]


def test_what_stays_in_the_run(folder, run_dir):
    callback = RunCallback(run_dir, last=1, every=20)
    training = Training(folder, callback)
    for step in (10, 20, 30, 40, 50):
        training.save(step)
    training.end()
    assert steps_of(callback) == [20, 40, 50] and len(os.listdir(folder)) == 5
    callback.run.verify()


def test_checkpoints_are_removed(folder, run_dir):
    callback = RunCallback(run_dir, remove=True)
    training = Training(folder, callback)
    for step in (10, 20, 30):
        training.state.best_model_checkpoint = training.path(10)
        training.save(step)
        callback.wait()
        assert os.path.isdir(training.path(step))
    assert sorted(os.listdir(folder)) == ["checkpoint-10", "checkpoint-30"], "the best one and the newest stay"
    training.state.best_model_checkpoint = None
    training.save(40)
    training.end()
    assert os.listdir(folder) == ["checkpoint-40"] and steps_of(callback) == [10, 20, 30, 40]


def test_a_checkpoint_that_was_not_added_is_not_removed(folder, run_dir, monkeypatch):
    callback = RunCallback(run_dir, remove=True)

    def differs(*arguments, **settings):
        raise lmcodec.ChecksumError("it differs")

    monkeypatch.setattr(callback.run, "compare", differs)
    training = Training(folder, callback)
    for step in (10, 20):
        training.save(step)
    with pytest.warns(RuntimeWarning, match="differs"):
        training.end()
    assert sorted(os.listdir(folder)) == ["checkpoint-10", "checkpoint-20"]


def test_a_step_that_is_there(folder, run_dir):
    first = Training(folder, RunCallback(run_dir))
    first.save(10)
    first.end()
    again = RunCallback(run_dir)
    training = Training(folder, again)
    training.save(10)
    training.end()
    training.save(10, seed=2)
    with pytest.warns(RuntimeWarning, match="other content"):
        training.end()
    forced = RunCallback(run_dir, force=True)
    training = Training(folder, forced)
    training.save(10, seed=2)
    training.end()
    forced.run.compare(10, training.path(10))


def test_what_a_killed_training_left(folder, run_dir, monkeypatch):
    callback = RunCallback(run_dir)
    gate = Gate(callback, monkeypatch)
    training = Training(folder, callback, limit=1)
    training.save(10)
    training.save(20)
    shutil.copytree(os.path.join(folder, "_lmc_queue"), os.path.join(folder, "queue"))
    gate.open.set()
    training.end()
    shutil.rmtree(run_dir)
    os.rename(os.path.join(folder, "queue"), os.path.join(folder, "_lmc_queue"))
    os.mkdir(os.path.join(folder, "_lmc_queue", "checkpoint-30.00000000.tmp"))
    other = RunCallback(run_dir)
    Training(folder, other, limit=1).end()
    assert steps_of(other) == [10, 20] and os.listdir(folder) == ["checkpoint-20"]


def test_other_processes_add_nothing(folder, run_dir):
    callback = RunCallback(run_dir)
    training = Training(folder, callback)
    training.state.is_world_process_zero = False
    training.save(10)
    training.end()
    assert not os.path.exists(run_dir) and os.listdir(folder) == ["checkpoint-10"]


def test_without_threads(folder, run_dir, monkeypatch, caplog):
    callback = RunCallback(run_dir)
    training = Training(folder, callback)

    def no_thread(self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr("threading.Thread.start", no_thread)
        training.save(10)
        assert not os.path.exists(run_dir)
        training.end()
    assert steps_of(callback) == [10]


@pytest.mark.parametrize("options", [{"key_every": 0}, {"key_every": 64}, {"last": -1}, {"every": -5},
                                     {"level": "best"}, {"threads": -1}], ids=str)
def test_wrong_options(run_dir, options):
    with pytest.raises(lmcodec.ArgumentError):
        RunCallback(run_dir, **options)


# The end of the training is interrupted while the worker is at work: the rest waits in the queue.
INTERRUPTED = """
import os, signal, sys, threading, types
signal.signal(signal.SIGINT, signal.default_int_handler)
import torch
if not hasattr(torch.optim.lr_scheduler, "LRScheduler"):
    torch.optim.lr_scheduler.LRScheduler = torch.optim.lr_scheduler._LRScheduler
import lmcodec.torch
from lmcodec.transformers import RunCallback
folder, run_dir = sys.argv[1:]
callback = RunCallback(run_dir)
slow = threading.Event()
check = callback._check_stop
def check_slowly(*now):
    slow.set()
    threading.Event().wait(0.2)
    check()
callback._settings["progress"] = check_slowly
args = types.SimpleNamespace(output_dir=folder, world_size=1)
for step in (1, 2):
    state = types.SimpleNamespace(global_step=step, is_world_process_zero=True, best_model_checkpoint=None)
    os.mkdir(os.path.join(folder, "checkpoint-%d" % step))
    path = os.path.join(folder, "checkpoint-%d" % step, "model.safetensors")
    lmcodec.torch.save_file({"t%d" % n: torch.randn(1 << 20) for n in range(64)}, path)
    callback.on_save(args, state, None)
slow.wait()
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    callback.on_train_end(args, state, None)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_at_the_end(folder, run_dir):
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, folder, run_dir], capture_output=True, text=True,
                          timeout=100)
    assert done.stdout == "interrupted\n", done.stderr
    assert len(os.listdir(os.path.join(folder, "_lmc_queue"))) == 2
    assert not os.path.exists(os.path.join(run_dir, "1"))
    callback = RunCallback(run_dir)
    Training(folder, callback).end()
    assert steps_of(callback) == [1, 2]


# Two processes write a checkpoint, the main one faster.
PROCESS = """
import os, sys, time, types
import torch
if not hasattr(torch.optim.lr_scheduler, "LRScheduler"):
    torch.optim.lr_scheduler.LRScheduler = torch.optim.lr_scheduler._LRScheduler
import lmcodec.torch
from lmcodec.transformers import RunCallback
folder, run_dir, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.distributed.init_process_group("gloo", init_method="file://" + folder + "/meeting", rank=rank, world_size=2)
callback = RunCallback(run_dir)
args = types.SimpleNamespace(output_dir=folder, world_size=2)
state = types.SimpleNamespace(global_step=5, is_world_process_zero=rank == 0, best_model_checkpoint=None)
os.makedirs(os.path.join(folder, "checkpoint-5"), exist_ok=True)
time.sleep(rank)
lmcodec.torch.save_file({"state": torch.arange(1000.0) + rank},
                        os.path.join(folder, "checkpoint-5", "rng_state_%d.safetensors" % rank))
callback.on_save(args, state, None)
callback.on_train_end(args, state, None)
assert callback.failures == []
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="left out: torch without torch.distributed")
def test_several_processes(folder, run_dir):
    children = [subprocess.Popen([sys.executable, "-c", PROCESS, folder, run_dir, str(rank)], stderr=subprocess.PIPE,
                                 text=True) for rank in (0, 1)]
    for child in children:
        _, errors = child.communicate(timeout=100)
        assert child.returncode == 0, errors
    run = lmcodec.Run(run_dir)
    assert [step.files for step in run] == [2]
    assert run.load(5, "rng_state_1.safetensors")["state"][0] == 1


# ---- a real Trainer ----

def make_trainer(folder, callback, steps=12, **options):
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    class Sentences(torch.utils.data.Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, at):
            tokens = (torch.arange(16) * (at % 7 + 1) + at) % 256
            return {"input_ids": tokens, "labels": tokens}

    torch.manual_seed(6)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_embd=64, n_layer=3, n_head=4, n_positions=32,
                                       bos_token_id=0, eos_token_id=0))
    options = {"save_steps": 3, **options}
    return Trainer(model=model, train_dataset=Sentences(), eval_dataset=Sentences(), callbacks=[callback],
                   args=TrainingArguments(output_dir=folder, max_steps=steps, use_cpu=True, seed=7,
                                          per_device_train_batch_size=4, report_to=[], disable_tqdm=True,
                                          learning_rate=1e-4, logging_steps=100, **options))


needs_trainer = pytest.mark.skipif(
    not HAS_TRAINER, reason="left out: no Trainer without torch 2.0 and accelerate; another environment of the part "
    "`python` has both")


@needs_trainer
def test_trainer(folder, run_dir):
    """All steps are in the run though the Trainer keeps one checkpoint, and the training goes on from any of them."""
    callback = RunCallback(run_dir, key_every=3)
    trainer = make_trainer(folder, callback, save_total_limit=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        trainer.train()
    assert [(step.step, step.base) for step in callback.run] == [(3, None), (6, 3), (9, 6), (12, None)]
    assert [name for name in os.listdir(folder) if "check" in name or "lmc" in name] == ["checkpoint-12"]
    callback.run.verify()
    callback.run.compare(12, os.path.join(folder, "checkpoint-12"))
    weights = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
    loaded = callback.run.load(12)
    assert loaded and all(torch.equal(weight, weights[name]) for name, weight in loaded.items())
    model = from_pretrained(callback.run.path(12))
    assert all(torch.equal(weight, weights[name]) for name, weight in model.state_dict().items())
    assert lmcodec.torch.load(callback.run.path(9, "optimizer.pt"))["state"]
    back = os.path.join(folder, "back", "checkpoint-6")
    os.mkdir(os.path.dirname(back))
    callback.run.restore(6, back)
    again = make_trainer(os.path.join(folder, "back"), RunCallback(run_dir))
    again.train(resume_from_checkpoint=back)
    assert all(torch.equal(weight, weights[name]) for name, weight in again.model.state_dict().items())


@needs_trainer
def test_trainer_resumes_from_a_step(folder, run_dir):
    """checkout() is what resume_from_checkpoint wants: the training ends as the one that was not interrupted."""
    callback = RunCallback(run_dir)
    trainer = make_trainer(folder, callback, save_total_limit=1)
    trainer.train()
    again = make_trainer(os.path.join(folder, "again"), RunCallback(run_dir))
    with callback.run.checkout(6) as checkpoint:
        assert os.path.basename(checkpoint) == "checkpoint-6"
        again.train(resume_from_checkpoint=checkpoint)
    assert not os.path.exists(checkpoint)
    assert again.state.global_step == 12 and again.state.log_history[-1]["step"] == 12
    weights = trainer.model.state_dict()
    assert all(torch.equal(weight, weights[name]) for name, weight in again.model.state_dict().items())


def test_the_callback_is_listed():
    import lmcodec.transformers
    assert {"RunCallback", "enable", "from_pretrained"} <= set(dir(lmcodec.transformers))


@needs_trainer
def test_trainer_that_evaluates(folder, run_dir):
    """The best checkpoint is loaded at the end: it was not removed."""
    callback = RunCallback(run_dir, last=2, remove=True)
    trainer = make_trainer(folder, callback, eval_strategy="steps", eval_steps=3, load_best_model_at_end=True,
                           save_total_limit=2)
    trainer.train()
    left = [name for name in os.listdir(folder) if "check" in name]
    assert os.path.basename(trainer.state.best_model_checkpoint) in left and "checkpoint-12" in left
    assert steps_of(callback) == [9, 12] and callback.failures == []


@needs_trainer
def test_trainer_goes_on_after_failures(folder, run_dir):
    os.mkdir(run_dir)
    open(os.path.join(run_dir, "no run"), "w").close()
    callback = RunCallback(run_dir)
    trainer = make_trainer(folder, callback, steps=6)
    with pytest.warns(RuntimeWarning, match="3, 6"):
        assert trainer.train().global_step == 6
    assert not os.path.exists(os.path.join(run_dir, "run.json"))
    assert not os.path.exists(os.path.join(folder, "_lmc_queue"))
