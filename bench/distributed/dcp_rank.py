"""dcp_rank.py - a rank of bench/scale.py: saves its shards with torch.distributed.checkpoint, raw and with LMC.

    python3 dcp_rank.py SETTINGS

SETTINGS is JSON: rank, rank_count, folder (for checkpoints and the meeting of the ranks), data, state, mib (of a rank),
rounds, key_every, item_counts. Rank 0 prints JSON. Each tensor is a DTensor whose first dimension is shared by the
ranks. Needs torch with lmcodec.dcp.
"""

import itertools
import json
import os
import shutil
import sys
import time
import warnings

import lmcodec.dcp
import torch
import torch.distributed as dist
from states import NEW, OLD, nbytes_of, read_state, state_of_rank
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint import DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

TORCH_TYPE = {"BF16": torch.bfloat16, "F32": torch.float32}
TINY_VALUES = 64  # of a tensor that costs nothing but its metadata


def sharded(tensors, mesh):
    state = {}
    for name, dtype, shape, content in tensors:
        local = torch.frombuffer(bytearray(content), dtype=TORCH_TYPE[dtype]).view(shape)
        state[name] = DTensor.from_local(local, mesh, [Shard(0)], run_check=False)
    return state


def nbytes_below(folder):
    return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))


class Clock:
    """Seconds and CPU seconds of write_data() of a writer, which is what a rank does on its own."""

    def __init__(self, writer):
        self.seconds = self.cpu_seconds = 0.0
        self._write_data = writer.write_data
        writer.write_data = self._timed

    def _timed(self, plan, planner):
        begin, cpu = time.perf_counter(), time.process_time()
        future = self._write_data(plan, planner)
        future.wait()
        self.seconds, self.cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu
        return future


def save(state, writer, path, planner=None):
    """Times of all ranks: the save, its part without the data, and the CPU time of this part in the coordinator."""
    clock = Clock(writer)
    dist.barrier()
    begin, cpu = time.perf_counter(), time.process_time()
    dcp.save(state, storage_writer=writer, planner=planner)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    own = {"save_seconds": seconds, "seconds": clock.seconds, "cpu_seconds": clock.cpu_seconds,
           "other_cpu_seconds": cpu - clock.cpu_seconds}
    ranks = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, own)
    slowest = max(rank["seconds"] for rank in ranks)
    save_seconds = max(rank["save_seconds"] for rank in ranks)
    return {"save_seconds": save_seconds, "write_seconds": slowest, "other_seconds": save_seconds - slowest,
            "cpu_seconds": max(rank["cpu_seconds"] for rank in ranks),
            "other_cpu_seconds": ranks[0]["other_cpu_seconds"], "stored_nbytes": nbytes_below(path)}


def raw_writer(path):
    return FileSystemWriter(path, sync_files=False)


def verify(state, path):
    """The checkpoint comes back as it was saved."""
    empty = {name: torch.empty_like(tensor) for name, tensor in state.items()}
    dcp.load(empty, storage_reader=lmcodec.dcp.Reader(path))
    for name, tensor in state.items():
        if not torch.equal(empty[name].to_local().view(torch.uint8), tensor.to_local().view(torch.uint8)):
            raise SystemExit(f"dcp_rank.py: {path}: {name} differs")


def save_round(settings, old, new, is_first):
    """Yields a name and times: raw, a key frame, and the deltas of one chain after it."""
    raw = os.path.join(settings["folder"], "raw")
    yield "raw", save(old, raw_writer(raw), raw)
    base = None
    for number in range(settings["key_every"]):
        path = os.path.join(settings["folder"], f"step-{number}")
        state = new if number % 2 else old
        writer = lmcodec.dcp.Writer(path, base=base, key_every=settings["key_every"], fsync=False)
        yield f"delta {number}" if number else "key", save(state, writer, path)
        base = path
    if is_first:
        verify(state, base)
    dist.barrier()
    if settings["rank"] == 0:
        for name in os.listdir(settings["folder"]):
            if name == "raw" or name.startswith("step-"):
                shutil.rmtree(os.path.join(settings["folder"], name))
    dist.barrier()


TINY_WAYS = {"raw": raw_writer, "LMC": lambda path: lmcodec.dcp.Writer(path, fsync=False)}


def fastest(old, new):
    return {key: min(value, old.get(key, value)) for key, value in new.items()}


def measure(settings, mesh):
    old, new = (state_of_rank(read_state(settings["data"], settings["state"], step), settings["mib"] << 20,
                              settings["rank"]) for step in (OLD, NEW))
    nbytes = nbytes_of(old)
    old, new = sharded(old, mesh), sharded(new, mesh)
    found = {}
    for number in range(settings["rounds"]):
        for name, times in save_round(settings, old, new, number == 0):
            found[name] = fastest(found.get(name, {}), times)
    return {"rank_nbytes": nbytes, "item_count": len(old), "ways": found}


def measure_metadata(settings, mesh):
    """Saves of tiny tensors: what planning, collectives and metadata take for a number of items."""
    rows = []
    for count in settings["item_counts"]:
        tensors = [(f"layers.{number}.weight", "F32", [TINY_VALUES], bytes(4 * TINY_VALUES)) for number in range(count)]
        state, found = sharded(tensors, mesh), {}
        planners = {is_cached: DefaultSavePlanner(enable_plan_caching=is_cached) for is_cached in (False, True)}
        for number in range(settings["rounds"] + 1):
            for way, is_cached in itertools.product(TINY_WAYS, planners):
                path = os.path.join(settings["folder"], "tiny")
                times = save(state, TINY_WAYS[way](path), path, planners[is_cached])
                if number:  # plans are cached then
                    found[way, is_cached] = fastest(found.get((way, is_cached), {}), times)
                dist.barrier()
                if settings["rank"] == 0:
                    shutil.rmtree(path)
                dist.barrier()
        rows += [{"ranks": settings["rank_count"], "items": count, "way": way,
                  "is_cached": is_cached, **times} for (way, is_cached), times in found.items()]
    return rows


def main():
    settings = json.loads(sys.argv[1])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.path.join(settings["folder"], "meeting"),
                            rank=settings["rank"], world_size=settings["rank_count"])
    mesh = init_device_mesh("cpu", (settings["rank_count"],))
    found = {"torch": torch.__version__, **measure(settings, mesh), "metadata": measure_metadata(settings, mesh)}
    dist.barrier()
    if settings["rank"] == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
