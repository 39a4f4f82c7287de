"""Ranks of torch.distributed as processes of their own, for tests of checkpoints; and what these save and load.

A rank is a fork of the test's process, which has imported torch: that takes milliseconds where an import takes seconds.
The test's process computes nothing with torch itself.
"""
import logging
import multiprocessing
import os
import pickle
import tempfile
import time
import traceback
import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch.distributed.checkpoint._extension", reason="this torch has no extensions of checkpoints")

import torch._dynamo  # noqa: F401 (what the first DTensor imports)
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.distributed.fsdp  # noqa: F401 (before the ranks are forked)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor  # noqa: F401 (for the tests)

import lmcodec.dcp

TIMEOUT_S = 120  # far above what a case takes
KILLED = "killed"


def on_ranks(count, function, *arguments):
    """What function(*arguments) returns on each rank; KILLED for a rank that ended by SIGKILL.

    An exception of a rank fails the test, unless a rank was killed. Then the others are killed, too, if they do not end
    within a second.
    """
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("fork")
        ranks = [context.Process(target=_rank, args=(folder, rank, count, function, arguments))
                 for rank in range(count)]
        for rank in ranks:
            rank.start()
        try:
            _wait(folder, ranks)
        finally:
            for rank in ranks:
                rank.kill()
                rank.join()
        results = [_result(folder, number) for number in range(count)]
    if KILLED not in results:
        for number, (is_good, result) in enumerate(results):
            if not is_good:
                pytest.fail("rank %d: %s" % (number, result))
    return [result if result == KILLED else result[1] for result in results]


def _wait(folder, ranks):
    """A rank that is done waits for its end, so that the others can still talk to it."""
    end = time.monotonic() + TIMEOUT_S
    left = list(enumerate(ranks))
    while left:
        if any(not rank.is_alive() for _, rank in left):
            end = min(end, time.monotonic() + 1)
        left = [(number, rank) for number, rank in left
                if rank.is_alive() and not os.path.exists(os.path.join(folder, str(number)))]
        if time.monotonic() > end:
            if all(rank.is_alive() for rank in ranks):
                pytest.fail("the ranks do not end")
            return
        time.sleep(0.005)


def _result(folder, number):
    try:
        with open(os.path.join(folder, str(number)), "rb") as file:
            return pickle.load(file)
    except FileNotFoundError:
        return KILLED


def _rank(folder, rank, count, function, arguments):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    try:
        dist.init_process_group("gloo", init_method="file://" + os.path.join(folder, "store"), rank=rank,
                                world_size=count)
        result = True, function(*arguments)
    except BaseException:
        result = False, traceback.format_exc()
    with open(os.path.join(folder, str(rank) + ".new"), "wb") as file:
        pickle.dump(result, file)
    os.rename(file.name, os.path.join(folder, str(rank)))
    time.sleep(TIMEOUT_S)


def error_of(function, *arguments, **options):
    """The text of what a call raises."""
    try:
        function(*arguments, **options)
    except BaseException as error:
        return "%s: %s" % (type(error).__name__, error)
    return "nothing was raised"


def mesh():
    return init_device_mesh("cpu", (dist.get_world_size(),))


def numbers(seed, *shape, dtype=torch.float32):
    """Values as weights have them."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator) * 0.02).to(dtype)


def sharded(whole, placement=None):
    return distribute_tensor(whole, mesh(), [placement or Shard(0)])


def example(step=0):
    """A state of several kinds of tensors and other items. step: of a training, which changes a few values."""
    big = numbers(1, 64, 96, dtype=torch.bfloat16)
    big[step % 64] += step
    return {"model": {"big": big, "uneven": numbers(2, 7, 5), "one_row": numbers(3, 1, 300),
                      "columns": numbers(4, 40, 33, dtype=torch.float16)},
            "plain": numbers(5, 11), "scalar": torch.tensor(2.5 + step), "empty": torch.zeros(0, 4),
            "step": step, "note": {"name": "a run", "rates": [0.1, 0.2]}}


PLACEMENTS = {"big": Shard(0), "uneven": Shard(0), "one_row": Shard(0), "columns": Shard(1)}


def distributed(state, placements=None):
    """The state with its model over all ranks."""
    placements = placements or PLACEMENTS
    model = {name: sharded(tensor, placements[name]) for name, tensor in state["model"].items()}
    return dict(state, model=model)


def blank(state):
    """A state of this form with other values."""
    if isinstance(state, dict):
        return {name: blank(value) for name, value in state.items()}
    if isinstance(state, torch.Tensor):
        return torch.full_like(state, 1)
    return None


def differences(got, wanted, name=""):
    """Names at which two states differ, in bits."""
    if isinstance(wanted, dict):
        return [found for key in wanted for found in differences(got[key], wanted[key], "%s.%s" % (name, key))]
    if not isinstance(wanted, torch.Tensor):
        return [] if got == wanted else [name]
    if hasattr(got, "full_tensor"):
        got = got.full_tensor()
    if hasattr(wanted, "full_tensor"):
        wanted = wanted.full_tensor()
    same = got.dtype == wanted.dtype and got.shape == wanted.shape and torch.equal(_bytes(got), _bytes(wanted))
    return [] if same else [name]


def _bytes(tensor):
    return tensor.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def save(path, step=0, **options):
    """Saves the example on all ranks."""
    dcp.save(distributed(example(step)), storage_writer=lmcodec.dcp.Writer(path, fsync=False, **options))


def load(path, step=0, reader=None, placements=None):
    """Loads the example on all ranks; names that differ."""
    state = blank(distributed(example(step), placements))
    dcp.load(state, storage_reader=reader or lmcodec.dcp.Reader(path))
    return differences(state, example(step))


def load_whole(path, step=0):
    """Loads the example without distribution."""
    state = blank(example(step))
    dcp.load(state, storage_reader=lmcodec.dcp.Reader(path))
    return differences(state, example(step))


def flip(path, place):
    """Changes a byte of a file. A negative place counts from the end."""
    with open(path, "r+b") as file:
        file.seek(place, os.SEEK_END if place < 0 else os.SEEK_SET)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0x55]))


def damage(path, tensor):
    """Changes a byte of a tensor's frame. What reading the tensor then says tells that it is one."""
    nbytes = os.path.getsize(path)
    for place in range(nbytes // 20, nbytes, nbytes // 40):
        flip(path, place)
        try:
            with lmcodec.File(path) as file:
                file.read(tensor)
        except lmcodec.LMCError as error:
            if error.tensor == tensor:
                return
        flip(path, place)
    raise AssertionError("no byte of %s is used" % tensor)
