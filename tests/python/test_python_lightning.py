"""lmcodec.lightning: a Trainer saves, resumes and removes checkpoints that are archives."""
import copy
import importlib
import os
import pickle
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (Debian: python3-torch)")

import lmcodec  # noqa: E402
import lmcodec.torch  # noqa: E402


def flavour():
    for name in ("lightning.pytorch", "pytorch_lightning"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    return pytest.skip("lightning is not installed", allow_module_level=True)


def has_sharded_tensors():
    """Without them no model of Lightning is made: torch 1.13 lacks them with Python 3.11."""
    try:
        importlib.import_module("torch.distributed._shard.sharded_tensor")
    except ValueError:
        return False
    return True


pl = flavour()
from lmcodec.lightning import CheckpointIO  # noqa: E402


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))

    def training_step(self, batch, index):
        return self.layers(batch[0]).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-4)

    def train_dataloader(self):
        random = torch.Generator().manual_seed(1)
        data = torch.utils.data.TensorDataset(torch.randn(32, 64, generator=random))
        return torch.utils.data.DataLoader(data, batch_size=8)


def train(folder, plugin, epochs, checkpoint=None, **saving):
    torch.manual_seed(1)
    model = Model()
    callback = pl.callbacks.ModelCheckpoint(dirpath=folder, filename="{epoch}", monitor="epoch", mode="max", **saving)
    trainer = pl.Trainer(plugins=[plugin], max_epochs=epochs, accelerator="cpu", logger=False, callbacks=[callback],
                         enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(model, ckpt_path=checkpoint)
    return model, trainer


def checkpoints(folder):
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))


def check_equal(model, state):
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, state[name]), name


@pytest.mark.skipif(not has_sharded_tensors(), reason="Lightning makes no model with this torch and this Python")
@pytest.mark.parametrize("max_chain", [0, 1, 2])
def test_training(directory, max_chain):
    folder = os.path.join(directory, "run")
    first, _ = train(folder, CheckpointIO(max_chain=max_chain), 5, save_top_k=2, save_last=True)
    assert checkpoints(folder) == ["epoch=3.ckpt", "epoch=4.ckpt", "last.ckpt"]
    bases = [os.path.join(folder, ".lmc-bases")]
    for name in checkpoints(folder):
        assert lmcodec.File(os.path.join(folder, name)).is_archive
        loaded = CheckpointIO().load_checkpoint(os.path.join(folder, name))
        assert loaded["epoch"] == (3 if name == "epoch=3.ckpt" else 4)
    check_equal(first, loaded["state_dict"])
    last = os.path.join(folder, "last.ckpt")
    check_equal(first, lmcodec.torch.load(last, base_dirs=bases, weights_only=False)["state_dict"])
    resumed, trainer = train(folder, CheckpointIO(max_chain=max_chain), 6, last, save_top_k=2, save_last=True)
    assert trainer.current_epoch == 6 and trainer.global_step == 24
    once, _ = train(os.path.join(directory, "once"), CheckpointIO(), 6)
    check_equal(resumed, once.state_dict())
    with lmcodec.open_original(last, base_dirs=bases) as original:
        check_equal(resumed, Model.load_from_checkpoint(original).state_dict())


def test_sizes(directory):
    state = {"weights": torch.randn(300, 300)}
    sizes = {}
    for max_chain in (0, 2):
        plugin = CheckpointIO("max", max_chain=max_chain)
        sizes[max_chain] = []
        for step in range(6):
            path = os.path.join(directory, "%d-%d.ckpt" % (max_chain, step))
            plugin.save_checkpoint({"weights": state["weights"] * (1 + step * 1e-6), "step": step}, path)
            sizes[max_chain].append(os.path.getsize(path))
    alone = sizes[0][0]
    assert alone < 0.9 * 4 * 90000
    assert [size < 0.8 * alone for size in sizes[2]] == [False, True, True, False, True, True]


def test_bases_live_as_long_as_they_are_needed(directory):
    plugin, bases = CheckpointIO(max_chain=3), os.path.join(directory, ".lmc-bases")
    paths = [os.path.join(directory, "%d.ckpt" % step) for step in range(3)]
    for step, path in enumerate(paths):
        plugin.save_checkpoint({"weights": torch.arange(50000.) + step}, path)
    assert len(os.listdir(bases)) == 3
    plugin.remove_checkpoint(paths[0])
    plugin.remove_checkpoint(paths[1])
    assert len(os.listdir(bases)) == 3 and not os.path.exists(paths[0])
    assert torch.equal(plugin.load_checkpoint(paths[2])["weights"], torch.arange(50000.) + 2)
    for step in range(3, 6):  # the fourth of a chain ends it
        plugin.save_checkpoint({"weights": torch.arange(50000.) + step}, paths[0])
        assert torch.equal(plugin.load_checkpoint(paths[0])["weights"], torch.arange(50000.) + step)
    plugin.remove_checkpoint(paths[2])
    assert len(os.listdir(bases)) == 2
    plugin.remove_checkpoint(paths[2])
    assert checkpoints(directory) == ["0.ckpt"]


@pytest.mark.parametrize("suffix", ["ckpt", "lmc"])
def test_bases_of_an_earlier_run(directory, suffix):
    bases = os.path.join(directory, ".lmc-bases")
    paths = [os.path.join(directory, "%d.%s" % (step, suffix)) for step in range(4)]
    earlier = CheckpointIO(max_chain=3)
    for step, path in enumerate(paths):
        earlier.save_checkpoint({"weights": torch.arange(50000.) + step}, path)
    with open(os.path.join(directory, "text"), "w") as file:
        file.write("no checkpoint")
    plugin = CheckpointIO(max_chain=1)
    plugin.remove_checkpoint(paths[1])
    assert len(os.listdir(bases)) == 4
    assert torch.equal(plugin.load_checkpoint(paths[3])["weights"], torch.arange(50000.) + 3)
    plugin.save_checkpoint({"weights": torch.arange(50000.) + 9}, paths[3])
    assert torch.equal(plugin.load_checkpoint(paths[2])["weights"], torch.arange(50000.) + 2)
    plugin.remove_checkpoint(paths[2])
    assert torch.equal(plugin.load_checkpoint(paths[0])["weights"], torch.arange(50000.))
    plugin.remove_checkpoint(paths[0])
    assert [os.path.samefile(os.path.join(bases, name), paths[3]) for name in os.listdir(bases)] == [True]
    CheckpointIO().remove_checkpoint(paths[3])
    assert os.listdir(bases) == []


def test_same_path_again_and_again(directory):
    plugin, path = CheckpointIO(max_chain=2), os.path.join(directory, "last.ckpt")
    for step in range(7):
        plugin.save_checkpoint({"weights": torch.arange(50000.) + step}, path)
        assert torch.equal(CheckpointIO().load_checkpoint(path)["weights"], torch.arange(50000.) + step)
    assert sorted(os.listdir(directory)) == [".lmc-bases", "last.ckpt"]


def test_bases_of_one_folder_stay_when_another_is_saved_to(directory):
    plugin = CheckpointIO(max_chain=3)
    paths = [os.path.join(directory, name) for name in ("one/0.ckpt", "one/1.ckpt", "other/last.ckpt", "one/2.ckpt")]
    for step, path in enumerate(paths):
        plugin.save_checkpoint({"weights": torch.arange(50000.) + step}, path)
    for step, path in enumerate(paths):
        assert torch.equal(plugin.load_checkpoint(path)["weights"], torch.arange(50000.) + step)
    plugin.remove_checkpoint(paths[1])
    plugin.remove_checkpoint(paths[0])
    assert len(os.listdir(os.path.join(directory, "one", ".lmc-bases"))) == 1


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda plugin: pickle.loads(pickle.dumps(plugin))],
                         ids=["deepcopy", "pickle"])
def test_copies_of_the_plugin(directory, copied):
    """Trainers that start processes pickle it. A copy goes on with the chain."""
    plugin = CheckpointIO(max_chain=3)
    paths = [os.path.join(directory, "%d.ckpt" % step) for step in range(3)]
    for step, path in enumerate(paths):
        plugin.save_checkpoint({"weights": torch.arange(50000.) + step}, path)
        plugin = copied(plugin)
    with lmcodec.File(paths[2]) as file:
        assert file.base_name is not None
    for step, path in enumerate(paths):
        assert torch.equal(plugin.load_checkpoint(path)["weights"], torch.arange(50000.) + step)


def test_plain_checkpoints(directory):
    """What torch.save wrote is loaded as ever."""
    path = os.path.join(directory, "a.ckpt")
    torch.save({"weights": torch.ones(5)}, path)
    assert torch.equal(CheckpointIO().load_checkpoint(path)["weights"], torch.ones(5))


def test_restore(directory):
    path = os.path.join(directory, "a.ckpt")
    CheckpointIO().save_checkpoint({"weights": torch.ones(500)}, path)
    lmcodec.restore(path, path + ".plain")
    assert torch.equal(torch.load(path + ".plain")["weights"], torch.ones(500))


def test_faults(directory):
    plugin, path = CheckpointIO(), os.path.join(directory, "a.ckpt")
    with pytest.raises(FileNotFoundError):
        plugin.load_checkpoint(path)
    plugin.remove_checkpoint(path)
    with pytest.raises(NotImplementedError):
        plugin.save_checkpoint({}, "s3://bucket/a.ckpt")
    with pytest.raises(TypeError):
        plugin.save_checkpoint({}, path, storage_options={})
    with pytest.raises(lmcodec.ArgumentError):
        CheckpointIO(max_chain=-1)
    with pytest.raises(Exception, match="pickle"):
        plugin.save_checkpoint({"function": lambda: 0}, path)
    assert os.listdir(directory) == []


@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
def test_each_package(name):
    """The class is one of the package that the program has imported."""
    pytest.importorskip(name, reason="%s is not installed" % name)
    program = ("import %s as pl\nfrom lmcodec.lightning import CheckpointIO\n"
               "from %s.plugins.io import CheckpointIO as Base\nassert issubclass(CheckpointIO, Base)\n"
               "pl.Trainer(plugins=[CheckpointIO()], logger=False, accelerator='cpu')\n" % (name, name))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
