"""examples/fsdp_checkpoint.py: a trainer on two ranks is killed, and goes on with one rank and with four."""
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
EXAMPLE = os.path.join(ROOT, "examples", "fsdp_checkpoint.py")
STEPS, EVERY = 12, 2
PATIENCE = 240  # seconds that a slow machine may take


def start(ranks, folder, *options):
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), EXAMPLE,
               folder, "--every", str(EVERY), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=dict(os.environ, OMP_NUM_THREADS="1"))


def losses_of(output):
    return {int(step): float(loss) for step, loss in re.findall(r"^step (\d+) loss ([\d.]+)", output, re.MULTILINE)}


def train(ranks, folder, *options, steps=STEPS):
    """Until this step; {step: loss} of those that were made."""
    process = start(ranks, folder, "--steps", str(steps), *options)
    output, messages = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, messages
    return losses_of(output)


def workers_of(process):
    with open("/proc/%d/task/%d/children" % (process.pid, process.pid), encoding="ascii") as file:
        return [int(pid) for pid in file.read().split()]


def is_whole(folder, step):
    return os.path.exists(os.path.join(folder, "step-%d" % step, ".metadata"))


def train_and_kill(folder):
    """Two ranks; one is killed once some checkpoints are there. Returns the newest that is whole."""
    process = start(2, folder, "--steps", "100000")
    end = time.monotonic() + PATIENCE
    while not is_whole(folder, 3 * EVERY):
        assert process.poll() is None and time.monotonic() < end, process.communicate()
        time.sleep(0.02)
    os.kill(workers_of(process)[-1], signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    return max(int(name[5:]) for name in os.listdir(folder) if is_whole(folder, int(name[5:])))


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return train(2, str(tmp_path_factory.mktemp("whole") / "checkpoints"))


def forget_after(folder, step):
    for name in os.listdir(folder):
        if int(name[5:]) > step:
            shutil.rmtree(os.path.join(folder, name))


def test_killed_and_resumed(directory, expected):
    assert sorted(expected) == list(range(1, STEPS + 1))
    folder = os.path.join(directory, "checkpoints")
    newest = train_and_kill(folder)
    assert newest >= 3 * EVERY
    if newest >= STEPS:  # a fast machine
        newest = STEPS - EVERY
        forget_after(folder, newest)
    for ranks in (1, 4):
        copy = os.path.join(directory, "on-%d" % ranks)
        shutil.copytree(folder, copy)
        resumed = train(ranks, copy)
        assert sorted(resumed) == list(range(newest + 1, STEPS + 1))
        assert resumed == pytest.approx({step: expected[step] for step in resumed}, abs=2e-4)
        assert is_whole(copy, STEPS)


def test_plain_checkpoints(directory, expected):
    """The same trainer with torch's own writer, which the cost of a save is compared with."""
    losses = train(1, os.path.join(directory, "checkpoints"), "--codec", "none", steps=EVERY + 1)
    assert losses == pytest.approx({step: expected[step] for step in losses}, abs=2e-4)
