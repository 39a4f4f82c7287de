"""rl_frameworks.py - what of slime and SGLang calls the hooks of lmcodec.rl, for test_python_rl.py.

Stand-ins have the signatures, the order of calls and the file names of slime 624b824a (UpdateWeightFromDisk, and the
patch that adds /pull_weights to SGLang). If LMC_RL_SLIME is a clone of slime, its own code runs as well: nothing of it
is in this project.
"""
import importlib
import json
import os
import shutil
import sys
import types

SLIME = os.environ.get("LMC_RL_SLIME")
KINDS = ["stand-in"] + (["published"] if SLIME else [])


def load(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


# ---- the trainer ----

class Trainer:
    """The full weight sync of slime over a disk: write, barrier, the hook on every rank, barrier."""

    def __init__(self, disk_dir, write, hook):
        self.args = types.SimpleNamespace(update_weight_disk_dir=disk_dir, custom_update_weight_post_write_path=hook)
        self.weight_version, self._write, self._hook = 0, write, load(hook)

    def update_weights(self):
        self.weight_version += 1
        version_dir = os.path.join(self.args.update_weight_disk_dir, "weight_v%06d" % self.weight_version)
        shutil.rmtree(version_dir, ignore_errors=True)
        os.makedirs(version_dir)
        self._write(version_dir)
        self._hook(self.args, str(version_dir), [])


def published_trainer(disk_dir, write, hook, monkeypatch):
    """UpdateWeightFromDisk of slime, with stand-ins for Ray, torch.distributed and the writer of checkpoints."""
    def module(name, **content):
        made = types.ModuleType(name)
        made.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    def save(args, version_dir, model, **settings):
        write(str(version_dir))

    distributed = module("torch.distributed", get_rank=lambda: 0, barrier=lambda group: None,
                         is_available=lambda: True, is_initialized=lambda: True)
    module("torch", distributed=distributed, no_grad=lambda: lambda function: function, Tensor=object,
           nn=types.SimpleNamespace(Module=object))
    module("ray")
    module("ray.actor", ActorHandle=object)
    for name in ("slime", "slime.utils", "slime.backends", "slime.backends.megatron_utils",
                 "slime.backends.megatron_utils.update_weight"):
        module(name, __path__=[])
    module("slime.utils.misc", load_function=load)
    module("slime.utils.distributed_utils", get_gloo_group=lambda: None)
    module("slime.backends.megatron_utils.hf_checkpoint_saver", save_hf_model_to_path=save)
    name = "slime.backends.megatron_utils.update_weight.update_weight_from_disk"
    made = module(name, __package__=name.rpartition(".")[0])
    with open(os.path.join(SLIME, *name.split(".")) + ".py") as file:
        exec(compile(file.read(), file.name, "exec"), made.__dict__)
    args = types.SimpleNamespace(update_weight_disk_dir=disk_dir, custom_update_weight_post_write_path=hook)
    return made.UpdateWeightFromDisk(args, [], dict, model_name="", quantization_config=None)


def trainer(kind, disk_dir, write, monkeypatch, hook="lmcodec.rl.post_write_hook"):
    if kind == "published":
        return published_trainer(disk_dir, write, hook, monkeypatch)
    return Trainer(disk_dir, write, hook)


# ---- the engine ----

def stand_in_pull(local_checkpoint_dir, base_dir, source_dir, target_version, pre_read_hook=None):
    """pull() of sglang.srt.weight_sync.local_checkpoint, for whole checkpoints: those are copied if state.json does not
    say that they are there."""
    if target_version > 0 and pre_read_hook:
        load(pre_read_hook)(source_dir, target_version)
    sync = os.path.join(local_checkpoint_dir, ".weight_sync")
    os.makedirs(sync, exist_ok=True)
    import fcntl
    with open(os.path.join(sync, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = os.path.join(sync, "state.json")
        applied = None
        if os.path.exists(state):
            with open(state) as file:
                applied = int(json.load(file)["version"])
        if applied is None or target_version > applied:
            version_dir = os.path.join(source_dir, "weight_v%06d" % target_version)
            shutil.copytree(version_dir if target_version else base_dir, local_checkpoint_dir, dirs_exist_ok=True)
            with open(state, "w") as file:
                json.dump({"version": "%06d" % target_version}, file)


def published_pull(monkeypatch):
    """pull() of the patch with which slime extends SGLang."""
    monkeypatch.setitem(sys.modules, "zstandard", types.ModuleType("zstandard"))  # of deltas, which nobody writes here
    with open(os.path.join(SLIME, "docker", "patch", "latest", "sglang-pull_weights.patch")) as file:
        patch = file.read().partition("+++ b/python/sglang/srt/weight_sync/local_checkpoint.py\n")[2]
    lines = patch.partition("diff --git")[0].split("\n")
    made = types.ModuleType("local_checkpoint")
    monkeypatch.setitem(sys.modules, "local_checkpoint", made)
    exec(compile("\n".join(line[1:] for line in lines if line.startswith("+")), "local_checkpoint", "exec"),
         made.__dict__)
    return made.pull


def engine(kind, monkeypatch):
    """The function pull() of SGLang."""
    return published_pull(monkeypatch) if kind == "published" else stand_in_pull
