"""lmcodec.rl: versions of weights, from a trainer to inference engines, through the hooks of slime and SGLang."""
import json
import os
import shutil
import signal
import subprocess
import sys
import threading

import numpy
import pytest

import lmcodec
import lmcodec.numpy
from lmcodec import ArgumentError, DataError, Run, StepNotFound, rl
from lmcodec._serving import local_checkpoint

import rl_frameworks


def weights_at(version, seed=1):
    """One value of 100 changes in each version."""
    random = numpy.random.default_rng(seed)
    arrays = {name: random.standard_normal((100, 300)).astype("f4") for name in "abcd"}
    for earlier in range(1, version + 1):
        changes = numpy.random.default_rng([seed, earlier])
        for array in arrays.values():
            array.ravel()[changes.integers(0, array.size, array.size // 100)] *= numpy.float32(1.001)
    return arrays


def write(folder, version, seed=1):
    """A checkpoint of two files with an index."""
    arrays = weights_at(version, seed)
    names = {name: "model-0000%d-of-00002.safetensors" % (1 + (name > "b")) for name in arrays}
    os.makedirs(folder, exist_ok=True)
    for file in set(names.values()):
        lmcodec.numpy.save_file({name: arrays[name] for name in arrays if names[name] == file},
                                os.path.join(folder, file), {"format": "pt"})
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {"total_size": 480000}, "weight_map": names}, file)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({"architectures": ["None"], "seed": seed}, file)
    return folder


def tree_of(root):
    """Files and their contents, without what says which version they are."""
    return {os.path.relpath(os.path.join(folder, name), root): open(os.path.join(folder, name), "rb").read()
            for folder, _, names in os.walk(root) for name in names if ".weight_sync" not in folder}


def archive(root, version, file="model-00001-of-00002.safetensors"):
    return Run(root).path(version, file)


def damage(path):
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0xff]))


class Place:
    """Directories of a test: plain versions, the root, the local checkpoint."""

    def __init__(self, directory, seed=1, name="lmc"):
        self.plain, self.root = os.path.join(directory, "updates"), os.path.join(directory, name)
        self.local, self.seed = os.path.join(directory, "local", "ckpt"), seed

    def version(self, number):
        folder = os.path.join(self.plain, str(self.seed), "weight_v%06d" % number)
        return folder if os.path.isdir(folder) else write(folder, number, self.seed)

    def publish(self, number, **options):
        return rl.publish(self.version(number), self.root, fsync=False, **options)

    def pull(self, number=None, **options):
        return rl.pull(self.root, self.local, number, fsync=False, **options)

    def holds(self, number):
        with open(os.path.join(self.local, ".weight_sync", "state.json")) as file:
            shown = json.load(file)["version"]
        left = set(os.listdir(os.path.dirname(self.local))) - {"ckpt", ".ckpt.lmc-lock"}
        return shown == "%06d" % number and tree_of(self.local) == tree_of(self.version(number)) and not left


@pytest.fixture
def place(directory):
    return Place(directory)


@pytest.fixture
def five(place):
    """Versions 1 to 5; 1 and 4 need no other."""
    for number in range(1, 6):
        place.publish(number, key_every=3)
    return place


# ---- the good case ----

def test_urls_are_no_directories(directory):
    folder = write(os.path.join(directory, "weight_v000001"), 1)
    for call in (rl.versions, lambda url: rl.publish(folder, url),
                 lambda url: rl.pull(url, os.path.join(directory, "local"), 1), lambda url: rl.pull(directory, url)):
        with pytest.raises(ArgumentError, match="memory://root: .* not at URLs") as caught:
            call("memory://root")
        assert not isinstance(caught.value, StepNotFound)
        with pytest.raises(ArgumentError, match="^https://host/root: .* not at URLs"):
            call("https://user:secret@host/root?token=secret")
    assert os.listdir(directory) == ["weight_v000001"]


def test_twenty_versions(place):
    for number in range(1, 21):
        previous = place.version(number - 1) if number > 1 else None
        step = place.publish(number, key_every=7, previous=previous)
        assert step.step == number and step.chain == (number - 1) % 7
        assert place.pull(number) == number and place.holds(number)
    steps = rl.versions(place.root)
    assert [step.step for step in steps] == list(range(1, 21))
    assert [step.step for step in steps if step.base is None] == [1, 8, 15]
    assert max(step.ratio for step in steps if step.base) < 0.2
    Run(place.root).verify()


def test_any_version_from_any(five):
    for number in (3, 5, 1, 4, 2):
        assert five.pull(number, force=True) == number and five.holds(number)
    assert five.pull() == 5 and five.holds(5)


def test_only_the_changes_are_read(five):
    five.pull(2)
    os.unlink(archive(five.root, 1))  # which version 3 needs, too
    assert five.pull(3) == 3 and five.holds(3)


def test_a_local_checkpoint_through_a_link(five, directory):
    os.symlink(os.path.join(directory, "elsewhere"), os.path.join(directory, "link"))
    for number in (2, 3):
        rl.pull(five.root, os.path.join(directory, "link"), number)
    assert os.path.islink(os.path.join(directory, "link"))
    assert tree_of(os.path.join(directory, "elsewhere")) == tree_of(five.version(3))


def test_previous_is_read_instead_of_the_root(place):
    for number in (1, 2):
        place.publish(number)
    damage(archive(place.root, 1))
    assert place.publish(3, previous=place.version(2)).base == 2
    assert place.publish(4).base is None  # its base cannot be decoded


def test_previous_that_is_another_is_ignored(place):
    for number in (1, 2):
        place.publish(number)
    shutil.copytree(place.version(1), place.version(2), dirs_exist_ok=True)  # same sizes, and the times of version 1
    for number, previous in ((3, place.version(2)), (4, place.version(1)), (5, os.path.join(place.root, "none"))):
        assert place.publish(number, previous=previous).base == number - 1
    assert place.pull(5) == 5 and place.holds(5)
    Run(place.root).verify()


# ---- lost, repeated, foreign ----

def test_a_version_that_was_never_published(five):
    with pytest.raises(StepNotFound, match="version 7 is missing; there are 1 to 5"):
        five.pull(7)
    assert not os.path.exists(five.local)
    five.publish(8)
    with pytest.raises(StepNotFound, match="version 7 is missing; there are 1 to 5, 8"):
        five.pull(7)
    with pytest.raises(StepNotFound, match="no version"):
        rl.pull(five.root + "-none", five.local)
    assert rl.versions(five.root + "-none") == []


@pytest.mark.parametrize("repaired", [False, True])
def test_a_lost_version_of_a_chain(five, repaired):
    five.pull(1)
    shutil.rmtree(os.path.join(five.root, "2"))
    if repaired:  # run.json does not say any more which one it was
        Run(five.root).repair()
    with pytest.raises(StepNotFound, match="version 3 needs %s, which is missing" % (
            "a version" if repaired else "version 2")):
        five.pull(3)
    assert five.holds(1)
    assert five.pull(5) == 5 and five.holds(5)


def test_a_repeated_version(five):
    five.pull(5)
    before = os.stat(five.local).st_ino
    assert five.pull(5) == 5 and os.stat(five.local).st_ino == before
    assert five.publish(3).step == 3 and len(rl.versions(five.root)) == 5
    other = Place(os.path.dirname(five.root), seed=2)
    with pytest.raises(FileExistsError, match="version 5 is in .* with other content"):
        other.publish(5)
    Run(five.root).drop(1, 2)
    with pytest.raises(ArgumentError, match="version 2 cannot follow version 5"):
        five.publish(2)


def test_going_back(five):
    five.pull(5)
    with pytest.raises(ArgumentError, match="holds version 5, and version 3 is wanted"):
        five.pull(3)
    assert five.holds(5) and five.pull(3, force=True) == 3 and five.holds(3)


def test_another_training(five, directory):
    other = Place(directory, seed=2, name="other")
    other.publish(1)
    other.publish(2)
    five.pull(1)
    for number in (1, 2):
        with pytest.raises(ArgumentError, match="holds version 1 of another training than"):
            other.pull(number)
    assert five.holds(1)
    other.pull(2, force=True)
    assert other.holds(2)


def test_what_is_no_local_checkpoint(five, directory):
    os.makedirs(five.local)
    five.pull(1)
    shutil.rmtree(os.path.join(five.local, ".weight_sync"))
    with pytest.raises(ArgumentError, match="has files, and is not a local checkpoint"):
        five.pull(2)
    assert tree_of(five.local) == tree_of(five.version(1))
    five.pull(2, force=True)
    assert five.holds(2)


def test_a_run_without_a_mark(five):
    os.unlink(os.path.join(five.root, "lmc-rl.json"))
    five.pull(4)
    five.publish(6)
    assert five.pull(6) == 6 and five.holds(6)
    with open(os.path.join(five.root, "lmc-rl.json"), "w") as file:
        file.write("[]")
    with pytest.raises(DataError, match="lmc-rl.json"):
        five.pull(6)


# ---- what is refused ----

def test_names_and_deltas(place):
    with pytest.raises(ArgumentError, match="not that of a version"):
        rl.publish(write(os.path.join(place.plain, "checkpoint-7"), 7), place.root)
    assert rl.publish(os.path.join(place.plain, "checkpoint-7"), place.root, 7).step == 7
    path = os.path.join(place.version(8), "model.safetensors.index.json")
    with open(path, "w") as file:
        json.dump({"metadata": {"delta_encoding": "xor"}, "weight_map": {}}, file)
    with pytest.raises(ArgumentError, match=r"holds deltas \(xor\).*--update-weight-mode full"):
        place.publish(8)
    with open(path, "w") as file:
        file.write('{"weight_map": {"a": "model-00003-of-00003.safetensors"}}')
    with pytest.raises(DataError, match="model-00003"):
        place.publish(8)
    assert [step.step for step in rl.versions(place.root)] == [7]
    with pytest.raises(ArgumentError, match="last is 1 or more"):
        place.publish(9, last=0)
    assert [step.step for step in rl.versions(place.root)] == [7]
    for path in (os.path.join(place.version(9), "config.json"), os.path.join(place.plain, "none")):
        with pytest.raises(NotADirectoryError):
            rl.publish(path, place.root, 10)


def test_a_run_of_files(place):
    Run(place.root).add(os.path.join(place.version(1), "model-00001-of-00002.safetensors"), 1)
    with pytest.raises(ArgumentError, match="version 1 is a file"):
        place.pull(1)
    assert not os.path.exists(place.local)


def test_damage_in_the_root(five):
    five.pull(4)
    damage(archive(five.root, 5))
    with pytest.raises(DataError, match="model-00001"):
        five.pull(5)
    assert five.holds(4)


def test_a_copy_that_was_cut(five):
    five.pull(4)
    os.truncate(os.path.join(five.root, "5", "config.json"), 3)
    with pytest.raises(DataError, match="5.* 4 files of [0-9]+ bytes"):
        five.pull(5)
    assert five.holds(4)


def test_damage_in_the_local_checkpoint(five):
    for number in (1, 2, 3):
        five.pull(number)
        damage(os.path.join(five.local, "model-00002-of-00002.safetensors"))
    five.pull(4)
    os.unlink(os.path.join(five.local, "model-00002-of-00002.safetensors"))
    assert five.pull(5) == 5 and five.holds(5)


# ---- retention ----

def test_the_last_ones_are_kept(place):
    there = []
    for number in range(1, 11):
        place.publish(number, key_every=4, last=3, previous=place.version(number - 1) if number > 1 else None)
        there.append([step.step for step in rl.versions(place.root)])
        Run(place.root).verify()
    assert there[5:] == [[1, 2, 3, 4, 5, 6], [5, 6, 7], [5, 6, 7, 8], [5, 6, 7, 8, 9], [5, 6, 7, 8, 9, 10]]
    for number in (5, 8, 10):
        assert place.pull(number) == number and place.holds(number)
    with pytest.raises(StepNotFound, match="version 4 is missing; there are 5 to 10"):
        rl.pull(place.root, place.local + "-2", 4)


# ---- kills, and several at once ----

def run_program(text, *arguments, wait=True):
    program = "import os, signal, sys\nfrom lmcodec import rl\nfrom lmcodec._serving import local_checkpoint\n" \
              "from lmcodec._serving.local_checkpoint import LocalCheckpoint\n" \
              "def die(*arguments):\n    os.kill(os.getpid(), signal.SIGKILL)\n" + text
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", program, *arguments], env=environment)
    return process.wait() if wait else process


@pytest.mark.parametrize("where", ["progress=die", "threads=2, progress=lambda done, total: done and die()"])
def test_a_killed_publish(five, where):
    ended = run_program("rl.publish(sys.argv[1], sys.argv[2], %s)" % where, five.version(6), five.root)
    assert ended == -signal.SIGKILL and [step.step for step in rl.versions(five.root)] == [1, 2, 3, 4, 5]
    Run(five.root).verify()
    assert five.publish(6).base == 5 and five.pull(6) == 6 and five.holds(6)
    assert not [name for name in os.listdir(five.root) if name.startswith(".lmc-") and name != ".lmc-lock"]


@pytest.mark.parametrize("local", [None, 1, 4])
@pytest.mark.parametrize("where, then", [
    ("call = {'progress': die}", "old"),
    ("LocalCheckpoint.replace = die", "old"),
    ("local_checkpoint.exchange = os.rename = die", "old"),
    ("local_checkpoint._write = lambda path, *rest: path.endswith('state.json') and die()", "old"),
    ("local_checkpoint.exchange = lambda one, other: False\n"
     "rename = os.rename\n"
     "os.rename = lambda one, other: die() if one.endswith('next') else rename(one, other)", "none"),
    ("sync = local_checkpoint.sync_directory\n"
     "local_checkpoint.sync_directory = lambda folder: die() if folder == sys.argv[3] else sync(folder)", "new"),
])
def test_a_killed_pull(five, where, then, local):
    if local:
        five.pull(local)
    ended = run_program("call = {}\n%s\nrl.pull(*sys.argv[1:3], 5, **call)" % where, five.root, five.local,
                        os.path.dirname(five.local))
    assert ended == -signal.SIGKILL
    holds = {"old": local, "none": None, "new": 5}[then]
    assert os.path.isdir(five.local) == (holds is not None)
    if holds:
        assert tree_of(five.local) == tree_of(five.version(holds))
    assert five.pull(5) == 5 and five.holds(5)


def test_a_system_that_exchanges_nothing(five, monkeypatch):
    monkeypatch.setattr(local_checkpoint, "exchange", lambda one, other: False)
    for number in (1, 2, 5):
        assert five.pull(number) == number and five.holds(number)


def test_several_at_once(five):
    five.pull(4)
    place = os.path.dirname(five.local)
    text = "rl.pull(*sys.argv[1:], 5)"
    processes = [run_program(text, five.root, path, wait=False)
                 for path in [five.local, five.local, os.path.join(place, "ckpt2")]]
    failed = []

    def pull():
        try:
            five.pull(5)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=pull) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.wait() for process in processes] == [0, 0, 0] and not failed
    assert tree_of(os.path.join(place, "ckpt2")) == tree_of(five.version(5)) == tree_of(five.local)


# ---- the hooks ----

@pytest.fixture(params=rl_frameworks.KINDS)
def sync(request, place, directory, monkeypatch):
    """Trainer and engine; the engine does not see the trainer's directory, but the root."""
    source, versions = os.path.join(directory, "source"), iter(range(1, 100))
    monkeypatch.setenv("LMCODEC_RL_ROOT", place.root)
    monkeypatch.setenv("LMCODEC_RL_LOCAL_DIR", place.local)
    trainer = rl_frameworks.trainer(request.param, source, lambda folder: write(folder, next(versions)), monkeypatch)
    pull = rl_frameworks.engine(request.param, monkeypatch)

    def pull_weights(version):
        pull(place.local, os.path.join(directory, "base"), os.path.join(directory, "unseen"), version,
             pre_read_hook="lmcodec.rl.pre_read_hook")

    return trainer, pull_weights, source


def test_updates_through_the_hooks(sync, place, monkeypatch):
    trainer, pull_weights, source = sync
    monkeypatch.setenv("LMCODEC_RL_KEY_EVERY", "4")
    monkeypatch.setenv("LMCODEC_RL_LAST", "2")
    for number in range(1, 8):
        trainer.update_weights()
        pull_weights(number)
        pull_weights(number)  # another rank of the host
        assert place.holds(number)
        shutil.rmtree(os.path.join(source, "weight_v%06d" % number))  # as slime does once all have it
        if number > 1:  # neither trainer nor engine reads it: both have the version after it
            damage(archive(place.root, number - 1))
    assert [step.step for step in rl.versions(place.root)] == [5, 6, 7]
    assert [step.base for step in rl.versions(place.root)] == [None, 5, 6]
    with pytest.raises(StepNotFound, match="version 9 is missing"):
        pull_weights(9)
    assert place.holds(7)


def test_what_sglang_has_put_there_itself(sync, place, directory):
    trainer, pull_weights, _ = sync
    trainer.update_weights()
    write(os.path.join(directory, "base"), 0)
    pull_weights(0)
    assert tree_of(place.local).keys() >= tree_of(os.path.join(directory, "base")).keys()
    pull_weights(1)
    assert place.holds(1)


def test_a_restarted_trainer(sync, place, directory, monkeypatch):
    trainer, pull_weights, _ = sync
    trainer.update_weights()
    pull_weights(1)
    trainer.weight_version = 0
    with pytest.raises(FileExistsError, match="another training needs another root"):
        trainer.update_weights()
    monkeypatch.setenv("LMCODEC_RL_ROOT", os.path.join(directory, "next"))
    trainer.weight_version = 0
    trainer.update_weights()
    with pytest.raises(ArgumentError, match="another training"):
        pull_weights(1)
    monkeypatch.setenv("LMCODEC_RL_FORCE", "1")
    pull_weights(1)
    assert tree_of(place.local) == tree_of(write(os.path.join(directory, "third"), 3))


def test_the_root_beside_the_versions(place, directory, monkeypatch):
    monkeypatch.setenv("LMCODEC_RL_LOCAL_DIR", place.local)
    folder = place.version(1)
    rl.post_write_hook(None, folder, [])
    assert [step.step for step in rl.versions(os.path.join(os.path.dirname(folder), "lmc"))] == [1]
    rl.pre_read_hook(os.path.dirname(folder), 1)
    assert place.holds(1)


def test_ranks_and_settings(place, monkeypatch):
    monkeypatch.setenv("LMCODEC_RL_ROOT", place.root)
    monkeypatch.setenv("RANK", "3")
    rl.post_write_hook(None, place.version(1), [])
    assert rl.versions(place.root) == []
    monkeypatch.setenv("RANK", "0")
    for text in ("0", "-1", "four", "\u0661"):
        monkeypatch.setenv("LMCODEC_RL_KEY_EVERY", text)
        with pytest.raises(ArgumentError, match="LMCODEC_RL_KEY_EVERY is a number above 0"):
            rl.post_write_hook(None, place.version(1), [])
    monkeypatch.delenv("LMCODEC_RL_LOCAL_DIR", raising=False)
    with pytest.raises(ArgumentError, match="LMCODEC_RL_LOCAL_DIR is not set"):
        rl.pre_read_hook(place.plain, 1)


def test_a_file_system_without_hard_links(sync, place, monkeypatch):
    trainer, pull_weights, source = sync

    def refuse(*arguments, **options):
        raise PermissionError(1, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    for number in (1, 2, 3):
        trainer.update_weights()
        assert not os.path.exists(os.path.join(source, ".lmc-previous"))
        shutil.rmtree(os.path.join(source, "weight_v%06d" % number))
    pull_weights(3)
    assert place.holds(3) and rl.versions(place.root)[-1].base == 2
